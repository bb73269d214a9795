//! ClampMss: holds down the segment size that TCP hosts tell each other
//!
//! Group: router
//! Usage: `ClampMss`
//! Ports: 1 input, 1 output; push
//!
//! Lowers the maximum segment size in SYN and SYN/ACK of transit to what `[[nat.clamp]]` says of
//! the port that they leave by: a number, or what fits the way (`path`: the MTU of the next hop and
//! of the port that the packet came in by, whichever is less). For ways whose MTU is smaller than
//! the hosts' (PPPoE, tunnels), where somebody drops the ICMP errors that would say so.
//!
//! Stands before [Translate64], for a packet that leaves in the other family is another one.
//!
//! See also: [Translate]

use fib::View;
use graph::arguments::{Blame, Refused};
use graph::{Batch, Class, Context, Element};
use nat::{Clamp, clamp_mss};
use port::Packet;
use wire::headers::unmapped;
use wire::{protocol, tcp};

use super::context::{SharedContext, WorkerContext};
use super::{RouterContext, way_mtu};

/// The class `ClampMss`.
pub const CLASS: Class = Class {
    name: "ClampMss",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("clamp_mss.rs"),
    make: |arguments, setup| {
        let (context, tables) =
            (setup.environment.get::<SharedContext>(), setup.environment.get::<RouterContext>());
        if context.is_none() || tables.is_none() {
            let message = "this element reads the packets of a running router, which is not here";
            arguments.wrong(Blame::Element, message);
        }
        arguments.finish()?;
        let view = tables.ok_or(Refused)?.view.clone();
        Ok(Box::new(ClampMss { context: (*context.ok_or(Refused)?).clone(), view }))
    },
};

/// Lowers the option of SYN and SYN/ACK.
pub struct ClampMss {
    context: SharedContext,
    view: View,
}

impl ClampMss {
    #[cold]
    fn clamp(&self, context: &mut WorkerContext, packet: &mut Packet) {
        let Some(nat) = context.nat.clone() else { return };
        let Some((headers, towards)) =
            context.metadata(packet).map(|metadata| (metadata.headers, metadata.towards))
        else {
            return;
        };
        // It may leave in the other family than it came in, and each has headers of its own.
        let leaves =
            towards.map_or(headers.version, |towards| if unmapped(&towards).is_some() { 4 } else { 6 });
        let back = Some(self.view.interface(packet.input).mtu()).filter(|mtu| *mtu > 0);
        let ways = [(leaves, way_mtu(&self.view.hops(), packet)), (headers.version, back)];
        let limit = |clamp: Clamp| {
            let limits = ways.map(|(version, mtu)| {
                let mtu = mtu.and_then(|mtu| u16::try_from(mtu).ok());
                clamp.limit(version, mtu.unwrap_or(u16::MAX))
            });
            limits[0].min(limits[1])
        };
        if let Some(limit) = nat.clamp(leaves, [packet.input.0, packet.output.0], limit) {
            clamp_mss(packet.network_mut(), &headers, limit);
        }
    }
}

impl Element for ClampMss {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut context = self.context.lock();
        for packet in batch.packets_mut() {
            let opens = context.metadata(packet).is_some_and(|metadata| {
                metadata.headers.protocol == protocol::TCP && metadata.headers.tcp_flags & tcp::flag::SYN != 0
            });
            if opens {
                self.clamp(&mut context, packet);
            }
        }
        cx.emit_batch(0, batch);
    }
}
