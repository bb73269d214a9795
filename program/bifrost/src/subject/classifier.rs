//! The classifier in the driver, and how what goes to Linux is policed.

use serde::{Deserialize, Serialize};
use wire::Class;

use super::Subject;
use crate::command::table::Table;
use crate::daemon::{Control, Forwarding, settings};
use crate::screen::units::count;

/// The classifier in the driver: what goes to this machine, and how it is policed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassifierStatus {
    /// Addresses of this machine that it knows.
    pub local_addresses: u64,
    /// The policing classes, most important first.
    pub classes: Vec<ClassStatus>,
}

/// One policing class of packets handed to Linux.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// `routing`, `management`, `icmp`, `rest` or `unresolved`.
    pub class: String,
    /// Packets a second let through.
    pub rate: u64,
    /// Packets let through at once.
    pub burst: u64,
    /// Packets let through so far.
    pub passed: u64,
    /// Packets over the limit, dropped.
    pub dropped: u64,
}

impl Subject for ClassifierStatus {
    const NAME: &'static str = "classifier";
    const ABOUT: &'static str = "The classifier in the driver, and how what goes to Linux is policed";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(status(&control.forwarding))
    }

    fn table(&self) -> String {
        let mut table = Table::new(&["class", ">rate pps", ">burst", ">passed", ">dropped"]);
        for class in &self.classes {
            table.row(vec![
                class.class.clone(),
                count(class.rate),
                count(class.burst),
                count(class.passed),
                count(class.dropped),
            ]);
        }
        format!("local addresses: {}\n{}", count(self.local_addresses), table.render())
    }
}

fn status(forwarding: &Forwarding) -> ClassifierStatus {
    let ports: Vec<_> =
        forwarding.plane.ports().iter().map(|port| forwarding.plane.driver_counters(port)).collect();
    let members = forwarding.plane.worker_pool().handles();
    let punted = |class: Class| -> u64 {
        let nodes = members.iter().flat_map(|member| member.counters.nodes());
        nodes.map(|(_, node)| node.punted(class)).sum()
    };
    let refused = |class: Class| -> u64 {
        members.iter().map(|member| member.meter.policed[class as usize].value()).sum()
    };
    let classes = settings::police(&forwarding.router).into_iter().map(|(class, rate, burst)| ClassStatus {
        class: class.name().to_owned(),
        rate,
        burst,
        passed: ports.iter().map(|port| port.passed[class as usize]).sum::<u64>()
            + punted(class).saturating_sub(refused(class)),
        dropped: ports.iter().map(|port| port.policed[class as usize]).sum::<u64>() + refused(class),
    });
    ClassifierStatus {
        local_addresses: forwarding.mirror.model().addresses().count() as u64,
        classes: classes.collect(),
    }
}
