//! Dropped packets: where, and for which reason.

use serde::{Deserialize, Serialize};
use wire::{Class, Reason};

use super::Subject;
use super::words::Lane;
use crate::command::table::{Table, or_dash};
use crate::control::Rates;
use crate::daemon::{Control, Forwarding};
use crate::screen::units::{self, count};

/// Packets dropped at one place for one reason. Only counts above zero are listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropCount {
    /// Port they arrived by, where counted by port.
    pub port: Option<String>,
    /// Lane that dropped them.
    pub lane: Lane,
    /// Element that dropped them (worker lane).
    pub element: Option<String>,
    /// Why: a name of `docs/drops.md`.
    pub reason: String,
    /// How many.
    pub packets: u64,
    /// Derived: drops a second.
    #[serde(default)]
    pub per_second: f64,
}

impl Subject for Vec<DropCount> {
    const NAME: &'static str = "drops";
    const ABOUT: &'static str = "Dropped packets: where, and for which reason";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(counts(&control.forwarding))
    }

    /// The most first.
    fn complete(&mut self, rates: &Rates) {
        rates.fill_drops(self);
        self.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.reason.cmp(&b.reason)));
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "nothing was dropped\n".to_owned();
        }
        let mut table = Table::new(&["reason", "lane", "port", "element", ">packets", ">now pps"]);
        for drop in self {
            table.row(vec![
                drop.reason.clone(),
                drop.lane.name().to_owned(),
                or_dash(&drop.port),
                or_dash(&drop.element),
                count(drop.packets),
                units::packets(drop.per_second),
            ]);
        }
        table.render()
    }
}

fn counts(forwarding: &Forwarding) -> Vec<DropCount> {
    let mut drops = Vec::new();
    let mut note = |port: Option<&str>, lane, element: Option<&str>, reason: Reason, packets| {
        if packets > 0 {
            drops.push(DropCount {
                port: port.map(str::to_owned),
                lane,
                element: element.map(str::to_owned),
                reason: reason.name().to_owned(),
                packets,
                per_second: 0.0,
            });
        }
    };
    for port in forwarding.known_ports() {
        let counters = forwarding.plane.driver_counters(port);
        for reason in Reason::ALL {
            note(Some(&port.name), Lane::Express, None, reason, counters.reasons[reason as usize]);
        }
        let sockets = forwarding.plane.queue_counters(port);
        let name = Some(port.name.as_str());
        // The kernel dropped these on their way into the worker's ring.
        note(
            name,
            Lane::Worker,
            Some("ring"),
            Reason::ReceiveFull,
            sockets.rx_ring_full + sockets.rx_dropped,
        );
        note(name, Lane::Worker, Some("ring"), Reason::NoBuffer, sockets.rx_no_frame);
        note(name, Lane::Worker, Some("ring"), Reason::CorruptRing, sockets.corrupt);
    }
    let members = forwarding.plane.worker_pool().handles();
    for (index, node) in forwarding.plane.worker_pool().description().nodes.iter().enumerate() {
        for reason in Reason::ALL {
            let of = |counters: &graph::GraphCounters| {
                counters.node(graph::NodeId(index)).map_or(0, |node| node.dropped(reason))
            };
            let packets = members.iter().map(|member| of(&member.counters)).sum();
            note(None, Lane::Worker, Some(&node.name), reason, packets);
        }
    }
    for member in members {
        let meter = &member.meter;
        note(None, Lane::Worker, Some("out"), Reason::TransmitFull, meter.transmit_full.value());
        note(None, Lane::Worker, Some("linux"), Reason::PuntFailed, meter.punt_failed.value());
        for class in Class::ALL {
            let packets = meter.policed[class as usize].value();
            note(None, Lane::Worker, Some("linux"), policed(class), packets);
        }
    }
    drops
}

fn policed(class: Class) -> Reason {
    match class {
        Class::Routing => Reason::PolicedRouting,
        Class::Management => Reason::PolicedManagement,
        Class::Icmp => Reason::PolicedIcmp,
        Class::Rest => Reason::PolicedRest,
        Class::Unresolved => Reason::PolicedUnresolved,
        Class::Transit => Reason::PolicedTransit,
        Class::Neighbour => Reason::PolicedNeighbour,
    }
}
