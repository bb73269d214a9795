//! RED: drops packets at random before a queue is full.
//!
//! Group: queues
//! Usage: `RED(MIN_THRESH, MAX_THRESH, MAX_P [, QUEUES, STABILITY, GENTLE])`
//! Ports: 1 input, 1-2 outputs; agnostic, the second output push
//!
//! Random Early Detection (Floyd and Jacobson, 1993). It watches how many packets are in the queues
//! near it, as a moving average: those that what it pushes gets to, or those that it pulls from.
//! Below `MIN_THRESH` every packet passes; up to `MAX_THRESH` the probability to be dropped rises
//! to `MAX_P`; beyond, everything is dropped, or, being gentle, ever more up to twice `MAX_THRESH`.
//! So senders that slow down when they lose a packet do so before the queue is full, and not all at
//! once.
//!
//! What is dropped leaves by output 1 if that is connected.
//!
//! - `MIN_THRESH` (unsigned): packets; below, nothing is dropped.
//! - `MAX_THRESH` (unsigned): packets, at most 65535.
//! - `MAX_P` (0 to 1): the probability at `MAX_THRESH`.
//! - `QUEUES` (names): the queues to watch, instead of those that it finds.
//! - `STABILITY` (0 to 16): a new length counts 1 / 2^`STABILITY` in the average. Default: 4.
//! - `GENTLE` (boolean): whether the probability rises on beyond `MAX_THRESH`. Default: true.
//!
//! Handlers:
//! - `drops` (read): packets dropped.
//! - `min_thresh` (read, write): as the argument.
//! - `max_thresh` (read, write): as the argument.
//! - `max_p` (read, write): as the argument.
//! - `avg_queue_size` (read): the average length.
//! - `stats` (read): present length, average length, drops.
//! - `queues` (read): the names of the queues it watches, one a line.
//! - `config` (read, write): its arguments.
//!
//! See also: [Queue]

use graph::arguments::{Arguments, Blame, Fixed, Raw, Refused, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, NodeId};
use wire::Reason;

use crate::basic::random::Random;

use super::average::{Average, SCALE};
use super::{LinkUnqueue, Queue};
use crate::basic::of_type;

/// The class `RED`.
pub const CLASS: Class = Class {
    name: "RED",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("red.rs"),
    make: |arguments, _| {
        let parameters = Parameters::read(arguments)?;
        Ok(Box::new(Red {
            average: Average::new(parameters.stability),
            curve: Curve::new(&parameters),
            parameters,
            queues: Vec::new(),
            drops: 0,
            passed: -1,
            threshold: 0,
            emptied: None,
            random: Random::new(),
        }))
    },
};

#[derive(Clone)]
struct Parameters {
    least: u32,
    most: u32,
    /// 1 is 0x10000.
    probability: u32,
    stability: u32,
    gentle: bool,
    /// Names as they were given.
    queues: Vec<String>,
}

impl Parameters {
    fn read(arguments: &mut Arguments<'_>) -> Result<Parameters, Refused> {
        let least = arguments.mandatory("MIN_THRESH");
        let most = arguments.mandatory("MAX_THRESH");
        let probability = arguments.mandatory::<Fixed<16>>("MAX_P");
        let queues = arguments.keyword::<Raw>("QUEUES");
        let stability = arguments.keyword("STABILITY").unwrap_or(4);
        let gentle = arguments.keyword("GENTLE").unwrap_or(true);
        let mut check = |right: bool, message: &str| {
            if !right {
                arguments.wrong(Blame::Element, message);
            }
        };
        check(most.is_none_or(|most| most <= 0xffff), "MAX_THRESH must be <= 65535");
        check(least.zip(most).is_none_or(|(least, most)| least <= most), "MIN_THRESH must be <= MAX_THRESH");
        check(probability.is_none_or(|it| it.0 <= 0x10000), "MAX_P must be between 0 and 1");
        check(stability <= 16, "STABILITY must be between 0 and 16");
        arguments.finish()?;
        Ok(Parameters {
            least: least.ok_or(Refused)?,
            most: most.ok_or(Refused)?,
            probability: probability.ok_or(Refused)?.0,
            stability,
            gentle,
            queues: queues
                .iter()
                .flat_map(|Raw(names)| names.split_whitespace())
                .map(str::to_owned)
                .collect(),
        })
    }

    /// Beyond this everything is dropped.
    fn end(&self) -> u32 {
        if self.gentle && self.probability != 0x10000 { self.most * 2 } else { self.most }
    }
}

/// Two straight lines: the probability by the average length, as slope and what to take off.
struct Curve {
    steep: (u32, u32),
    gentle: (u32, u32),
}

impl Curve {
    fn new(parameters: &Parameters) -> Curve {
        let Parameters { least, most, probability, .. } = *parameters;
        let steep = match most - least {
            0 => (0, 1),
            width => {
                (probability / width, (u64::from(probability) * u64::from(least) / u64::from(width)) as u32)
            }
        };
        let gentle = (
            (0x10000 - probability).checked_div(most).unwrap_or(0),
            0x10000u32.wrapping_sub(2 * probability),
        );
        Curve { steep, gentle }
    }

    /// Of 0x10000.
    fn probability(&self, scaled: u32, beyond: bool) -> i64 {
        let (slope, offset) = if beyond { self.gentle } else { self.steep };
        ((i64::from(slope) * i64::from(scaled)) >> SCALE) - i64::from(offset as i32)
    }
}

struct Red {
    parameters: Parameters,
    curve: Curve,
    /// The queues, by full name as well: the graph may be changed around this element.
    queues: Vec<(String, NodeId)>,
    average: Average,
    drops: u64,
    /// Packets since the last drop; -1 outside of where it is random.
    passed: i64,
    /// A random number of 16 bits, which decides about the next drop.
    threshold: i64,
    /// Since when the queues are empty, in fiftieths of a second.
    emptied: Option<u64>,
    random: Random,
}

fn length(cx: &mut Context<'_>, node: NodeId) -> Option<usize> {
    let length = cx.element::<Queue>(node).map(|queue| queue.length());
    length.or_else(|| cx.element::<LinkUnqueue>(node).map(|link| link.length()))
}

impl Red {
    /// The queues that were named, or all that can be reached without passing another one.
    fn find(&self, cx: &mut Context<'_>) -> Result<Vec<NodeId>, String> {
        if !self.parameters.queues.is_empty() {
            return (self.parameters.queues.iter())
                .map(|name| {
                    let node = cx.find(name).ok_or_else(|| format!("no element named '{name}'"))?;
                    length(cx, node).ok_or_else(|| format!("'{name}' is not a Storage element"))?;
                    Ok(node)
                })
                .collect();
        }
        let upstream = cx.output_is_pull(0);
        let edges = cx.description().edges.clone();
        let (mut found, mut next, mut seen) = (Vec::new(), vec![cx.id()], vec![cx.id()]);
        while let Some(from) = next.pop() {
            for edge in &edges {
                let (near, far) = if upstream { (edge.to, edge.from) } else { (edge.from, edge.to) };
                let mine = from != cx.id() || upstream || edge.output == 0;
                if near != from || !mine || seen.contains(&far) {
                    continue;
                }
                seen.push(far);
                if length(cx, far).is_some() {
                    found.push(far);
                } else {
                    next.push(far);
                }
            }
        }
        if found.is_empty() { Err("no nearby Queues".to_owned()) } else { Ok(found) }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let mut nodes = self.find(cx)?;
        nodes.sort_unstable_by_key(|node| node.0);
        let name = |node: &NodeId| {
            cx.description().nodes.get(node.0).map_or(String::new(), |node| node.name.clone())
        };
        self.queues = nodes.iter().map(|node| (name(node), *node)).collect();
        Ok(())
    }

    /// Packets in all queues.
    fn length(&mut self, cx: &mut Context<'_>) -> u32 {
        let stays = |(name, node): &(String, NodeId)| {
            cx.description().nodes.get(node.0).is_some_and(|described| described.name == *name)
        };
        if !self.queues.iter().all(stays) {
            // The graph was changed; when there is no queue any more, there is nothing to watch.
            let _ = self.look(cx);
        }
        let lengths: usize = self.queues.iter().filter_map(|(_, node)| length(cx, *node)).sum();
        u32::try_from(lengths).unwrap_or(u32::MAX >> SCALE)
    }

    fn drops(&mut self, cx: &mut Context<'_>) -> bool {
        let length = self.length(cx);
        let average = if self.average.stability() == 0 {
            length
        } else {
            if length > 0 {
                self.average.update(length, 1);
                self.emptied = None;
            } else {
                // A queue that was empty for long has forgotten what was before.
                let now = cx.now() / 20_000_000;
                self.average.update(0, self.emptied.map_or(1, |before| now.saturating_sub(before)));
                self.emptied = Some(now);
            }
            self.average.rounded()
        };
        if average <= self.parameters.least {
            self.passed = -1;
            return false;
        }
        if average > self.parameters.end() {
            self.passed = -1;
            return true;
        }
        let probability = self.curve.probability(self.average.scaled(), average > self.parameters.most);
        self.passed += 1;
        let drop = self.passed > 0 && probability > 0 && self.passed > self.threshold / probability;
        if drop {
            self.passed = 0;
        }
        if self.passed == 0 {
            self.threshold = (self.random.next() & 0xffff) as i64;
        }
        drop
    }

    fn refuse(&mut self, packet: port::Packet, cx: &mut Context<'_>) {
        self.drops += 1;
        if cx.has_output(1) {
            cx.emit(1, packet);
        } else {
            cx.drop(packet, Reason::QueueFull);
        }
    }

    fn configuration(&self) -> String {
        let Parameters { least, most, probability, stability, gentle, .. } = self.parameters;
        let queues: String = self.queues.iter().map(|(name, _)| format!(" {name}")).collect();
        let gentle = if gentle { "" } else { ", GENTLE false" };
        let probability = unparse::fixed(probability, 16);
        format!("{least}, {most}, {probability}, QUEUES{queues}, STABILITY {stability}{gentle}")
    }
}

impl Element for Red {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.look(cx)
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            if self.drops(cx) {
                self.refuse(packet, cx);
            } else {
                cx.emit(0, packet);
            }
        }
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota {
            let before = batch.len();
            if cx.pull(0, 1, batch) == 0 {
                break;
            }
            if self.drops(cx) {
                batch.take(1 << before, |_, packet| self.refuse(packet, cx));
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let read = ["drops", "avg_queue_size", "stats", "queues"].map(Handler::read);
        let arguments = [("min_thresh", "MIN_THRESH"), ("max_thresh", "MAX_THRESH"), ("max_p", "MAX_P")];
        let arguments = arguments.into_iter().enumerate();
        let arguments = arguments
            .map(|(position, (name, keyword))| Handler::read(name).replacing(Some(position), keyword));
        read.into_iter().chain(arguments).chain([Handler::read("config")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        let average = unparse::fixed(self.average.scaled(), SCALE);
        Ok(match handler {
            "drops" => self.drops.to_string(),
            "avg_queue_size" => average,
            "stats" => {
                format!("{} current queue\n{average} avg queue\n{} drops\n", self.length(cx), self.drops)
            }
            "queues" => self.queues.iter().map(|(name, _)| format!("{name}\n")).collect(),
            "min_thresh" => self.parameters.least.to_string(),
            "max_thresh" => self.parameters.most.to_string(),
            "max_p" => unparse::fixed(self.parameters.probability, 16),
            "config" => self.configuration(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn succeed(&mut self, old: Box<dyn Element>, _: &mut Context<'_>) {
        let Some(old) = of_type::<Red>(old) else { return };
        let Red { queues, drops, passed, threshold, emptied, random, .. } = *old;
        if old.average.stability() == self.average.stability() {
            self.average = old.average;
        }
        // The queues stay those that it began with.
        self.queues = queues;
        (self.drops, self.passed, self.threshold) = (drops, passed, threshold);
        (self.emptied, self.random) = (emptied, random);
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<Red>(old)
            && old.average.stability() == self.average.stability()
        {
            self.average = old.average;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_rises_from_one_threshold_to_the_other_and_on() {
        let parameters = Parameters {
            least: 10,
            most: 20,
            probability: 0x8000,
            stability: 0,
            gentle: true,
            queues: Vec::new(),
        };
        let curve = Curve::new(&parameters);
        let near = |value: i64, expected: i64| assert!((value - expected).abs() < 64, "{value} {expected}");
        near(curve.probability(10 << SCALE, false), 0);
        near(curve.probability(15 << SCALE, false), 0x4000);
        near(curve.probability(20 << SCALE, false), 0x8000);
        near(curve.probability(20 << SCALE, true), 0x8000);
        near(curve.probability(40 << SCALE, true), 0x10000);
        assert_eq!((parameters.end(), Parameters { gentle: false, ..parameters }.end()), (40, 20));
    }
}
