//! Multicast routes: which of Linux's the plane follows, and why not the others.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// An entry of Linux's multicast routing tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MulticastRoute {
    /// Where packets come from; `None`: from wherever.
    pub source: Option<IpAddr>,
    /// The group; unspecified: any.
    pub group: IpAddr,
    /// The interface that packets come in by; empty: it is gone.
    pub input: String,
    /// Those that they leave by.
    pub outputs: Vec<MulticastOutput>,
    /// Workers forward its packets.
    pub forwarded: bool,
    /// Why not; empty where they do.
    pub why: String,
    /// Packets that workers forwarded, each counted once. What Linux forwarded it counts itself
    /// (`ip -s mroute`).
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
}

/// An interface that packets to a group leave by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MulticastOutput {
    /// Its name.
    pub interface: String,
    /// Packets with a larger TTL or hop limit leave by it.
    pub threshold: u8,
}

impl Subject for Vec<MulticastRoute> {
    const NAME: &'static str = "multicast";
    const ALIASES: &'static [&'static str] = &["mroute"];
    const ABOUT: &'static str = "Multicast routes of Linux: whether Bifrost forwards by them, and why not";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let links = &control.forwarding.mirror.model().links;
        let name = |ifindex: u32| match links.by_index(ifindex) {
            Some(link) => link.name.clone(),
            None if ifindex == 0 => String::new(),
            None => ifindex.to_string(),
        };
        let shown = control.multicast.entries().map(|(key, route, entry)| {
            let [packets, bytes] = control.multicast.count(key);
            let outputs = route.outputs.iter().map(|(interface, threshold)| MulticastOutput {
                interface: name(*interface),
                threshold: *threshold,
            });
            MulticastRoute {
                source: Some(key.1).filter(|source| !source.is_unspecified()),
                group: key.0,
                input: name(route.input),
                outputs: outputs.collect(),
                forwarded: entry.is_ok(),
                why: entry.as_ref().err().cloned().unwrap_or_default(),
                packets,
                bytes,
            }
        });
        Ok(shown.collect())
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "Linux has no multicast routes: a daemon such as FRR's pimd makes them\n".to_owned();
        }
        let mut table = Table::new(&["group", "source", "in", "out (TTL above)", ">packets", "forwarded by"]);
        for route in self {
            let outputs = route.outputs.iter().map(|out| format!("{} ({})", out.interface, out.threshold));
            table.row(vec![
                if route.group.is_unspecified() { "*".to_owned() } else { route.group.to_string() },
                route.source.map_or("*".to_owned(), |source| source.to_string()),
                route.input.clone(),
                outputs.collect::<Vec<_>>().join(" "),
                count(route.packets),
                if route.forwarded { "Bifrost".to_owned() } else { format!("Linux: {}", route.why) },
            ]);
        }
        table.render()
    }
}
