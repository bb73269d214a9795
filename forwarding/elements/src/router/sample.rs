//! # Sample: keeps one packet in N for sFlow
//!
//! Group: router
//! Usage: `Sample`
//! Ports: 1 input, 1 output; push
//!
//! The first element that a frame meets, so that what is sampled is what came in, whatever becomes
//! of it. [Sampled], the last one before a port, adds where it left; of what never comes there that
//! is not known.
//!
//! # Sampled: adds to samples where the packet left
//!
//! Group: router
//! Usage: `Sampled`
//! Ports: 1 input, 1 output; push
//!
//! Passes all packets. Those that [Sample] has kept are told by which port they left.

use std::fmt;
use std::sync::Arc;

use fib::{InterfaceId, View};
use flow::sample::{Fate, Sample, Sampler};
use graph::arguments::{Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;

use super::RouterContext;
use super::context::SharedContext;

/// The class `Sample`.
pub const SAMPLE: Class = Class {
    name: "Sample",
    ports: "1!/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("sample.rs"),
    make: |arguments, setup| {
        let (context, view) = context_and_view(arguments, setup)?;
        Ok(Box::new(SampleIn { context, view }))
    },
};

/// The class `Sampled`.
pub const SAMPLED: Class = Class {
    name: "Sampled",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("sample.rs"),
    make: |arguments, setup| {
        let (context, view) = context_and_view(arguments, setup)?;
        Ok(Box::new(SampleOut { context, view }))
    },
};

fn context_and_view(
    arguments: &mut Arguments<'_>,
    setup: &Setup<'_>,
) -> Result<(SharedContext, View), Refused> {
    let (context, tables) =
        (setup.environment.get::<SharedContext>(), setup.environment.get::<RouterContext>());
    if context.is_none() || tables.is_none() {
        let message = "this element samples the packets of a running router, which is not here";
        arguments.wrong(Blame::Element, message);
    }
    arguments.finish()?;
    Ok(((*context.ok_or(Refused)?).clone(), tables.ok_or(Refused)?.view.clone()))
}

/// Makes the sampler of a port, given its ifindex.
#[derive(Clone)]
pub struct Sampling(Arc<dyn Fn(u32) -> Sampler + Send + Sync>);

impl Sampling {
    /// By this.
    pub fn new(make: impl Fn(u32) -> Sampler + Send + Sync + 'static) -> Sampling {
        Sampling(Arc::new(make))
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampling")
    }
}

/// Samplers by port, with the ifindex that each is for.
type Ports = Vec<Option<(u32, Sampler)>>;

/// One worker's samplers, and the samples whose fate is not known yet.
pub(super) struct Samplers {
    sampling: Sampling,
    ports: Ports,
    waiting: Vec<(usize, InterfaceId, Sample)>,
}

impl Samplers {
    pub(super) fn new(sampling: Sampling) -> Samplers {
        Samplers { sampling, ports: Vec::new(), waiting: Vec::new() }
    }

    /// Keeps those whose turn it is.
    fn pick(&mut self, view: &View, packets: &[Packet]) {
        let Samplers { sampling, ports, waiting } = self;
        for run in packets.chunk_by(|one, next| one.input == next.input) {
            let Some(input) = run.first().map(|packet| packet.input) else { continue };
            let sampler = sampler(ports, sampling, view, input);
            let mut rest = run;
            while let Some(at) = sampler.pick(rest.len()) {
                let packet = &rest[at];
                let mut sample = Sample::of(packet.data(), sampler.header(), Fate::Unknown);
                sample.length = packet.total_len() as u32;
                waiting.push((place(packet), input, sample));
                rest = &rest[at + 1..];
            }
        }
    }

    #[cold]
    fn left(&mut self, view: &View, packet: &Packet) {
        let found = self.waiting.iter().position(|(at, ..)| *at == place(packet));
        if let Some((_, input, mut sample)) = found.map(|at| self.waiting.swap_remove(at)) {
            sample.fate = Fate::Forwarded(view.interface(packet.output).ifindex());
            sampler(&mut self.ports, &self.sampling, view, input).push(sample);
        }
    }

    /// After a round: what has not left by a port did not.
    pub(super) fn settle(&mut self) {
        for (_, input, sample) in std::mem::take(&mut self.waiting) {
            if let Some(Some((_, sampler))) = self.ports.get_mut(usize::from(input.0)) {
                sampler.push(sample);
            }
        }
    }
}

/// The sampler of a port.
fn sampler<'a>(ports: &'a mut Ports, sampling: &Sampling, view: &View, port: InterfaceId) -> &'a mut Sampler {
    let (at, ifindex) = (usize::from(port.0), view.interface(port).ifindex());
    if ports.len() <= at {
        ports.resize_with(at + 1, || None);
    }
    let place = &mut ports[at];
    if place.as_ref().is_some_and(|(known, _)| *known != ifindex) {
        *place = None;
    }
    &mut place.get_or_insert_with(|| (ifindex, (sampling.0)(ifindex))).1
}

/// By what a packet is known until it leaves: where the page that it lies in begins, for its first
/// byte moves.
fn place(packet: &Packet) -> usize {
    packet.data().as_ptr() as usize & !(port::CHUNK - 1)
}

/// Chooses packets.
pub struct SampleIn {
    context: SharedContext,
    view: View,
}

/// Says where they left.
pub struct SampleOut {
    context: SharedContext,
    view: View,
}

impl Element for SampleIn {
    fn class(&self) -> &'static str {
        SAMPLE.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        if let Some(samplers) = &mut self.context.lock().samplers {
            samplers.pick(&self.view, batch.packets());
        }
        cx.emit_batch(0, batch);
    }
}

impl Element for SampleOut {
    fn class(&self) -> &'static str {
        SAMPLED.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut context = self.context.lock();
        if let Some(samplers) = context.samplers.as_mut().filter(|samplers| !samplers.waiting.is_empty()) {
            batch.packets().iter().for_each(|packet| samplers.left(&self.view, packet));
        }
        drop(context);
        cx.emit_batch(0, batch);
    }
}
