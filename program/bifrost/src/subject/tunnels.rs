//! IP tunnels of Linux's: their ends, the ways there, and which of them are the plane's.

use std::net::IpAddr;

use fib::{Gre, Tunnel};
use serde::{Deserialize, Serialize};

use super::words::Traffic;
use super::{InterfaceStatus, Subject};
use crate::command::table::Table;
use crate::daemon::tunnels::ways;
use crate::daemon::{Control, interfaces};
use crate::screen::units::count;

/// A tunnel, as Linux has it and as the plane does. A VXLAN is one for each other end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// Its name.
    pub name: String,
    /// What it is, by Linux's word: `gre`, `ipip`, `sit`, `ip6gre`, `ip6tnl`, `vxlan`.
    pub kind: String,
    /// This end; `None`, here and below, where only Linux knows the tunnel.
    pub local: Option<IpAddr>,
    /// The other end.
    pub remote: Option<IpAddr>,
    /// GRE's key of packets that come in.
    pub key_in: Option<u32>,
    /// GRE's key of packets that leave.
    pub key_out: Option<u32>,
    /// VXLAN's number.
    pub vni: Option<u32>,
    /// The port of UDP that VXLAN's packets go to.
    pub port: Option<u16>,
    /// Largest packet that it takes, bytes.
    pub mtu: u32,
    /// Bytes that it puts in front of one.
    pub header: Option<usize>,
    /// Largest packet, with that header, that Linux knows to pass to the other end; `None`: no
    /// smaller one than the interfaces on the way say.
    pub path_mtu: Option<u32>,
    /// The interfaces that its packets leave by now.
    pub by: Vec<String>,
    /// Bifrost forwards by it.
    pub adopted: bool,
    /// Why not; empty where it does.
    pub why: String,
    /// What was in packets that came in by it.
    pub received: Traffic,
    /// What left by it.
    pub sent: Traffic,
}

impl TunnelStatus {
    /// Those that an interface is: one that only Linux knows, where it says nothing of its ends.
    fn all_of(shown: &InterfaceStatus, control: &Control) -> Vec<TunnelStatus> {
        let forwarding = &control.forwarding;
        let links = &forwarding.mirror.model().links;
        let place =
            links.by_index(shown.ifindex).map(|link| interfaces::place(link, links, &forwarding.router));
        let tunnels = place.and_then(Result::ok).map(|place| place.tunnels).unwrap_or_default();
        match tunnels.is_empty() {
            true => vec![TunnelStatus::of(shown.clone(), None, control)],
            false => {
                tunnels.into_iter().map(|one| TunnelStatus::of(shown.clone(), Some(one), control)).collect()
            }
        }
    }

    fn of(shown: InterfaceStatus, tunnel: Option<Tunnel>, control: &Control) -> TunnelStatus {
        let forwarding = &control.forwarding;
        let vxlan = tunnel.and_then(|tunnel| tunnel.payload.vxlan().copied());
        let [enters, leaves] = tunnel.map_or([Gre::PLAIN; 2], |tunnel| tunnel.payload.fields());
        let ways = tunnel.map(|tunnel| ways(&tunnel, forwarding)).unwrap_or_default();
        let remote = tunnel.map(|tunnel| tunnel.over.remote());
        let mut ids = forwarding.plane.tunnels_of(shown.ifindex);
        let id = ids.find(|(_, is)| Some(is.over.remote()) == remote).map(|(id, _)| id);
        let passed = id.map(|id| forwarding.plane.tunnel_traffic(id)).unwrap_or_default();
        let known = id.and_then(|id| forwarding.tables.view().hops().tunnel(id));
        TunnelStatus {
            name: shown.name,
            kind: shown.kind,
            local: tunnel.map(|tunnel| tunnel.over.local()),
            remote,
            key_in: enters.key,
            key_out: leaves.key,
            vni: vxlan.map(|vxlan| vxlan.vni),
            port: vxlan.map(|vxlan| vxlan.port),
            mtu: shown.mtu,
            header: tunnel.map(|tunnel| tunnel.length()),
            path_mtu: known.map(|known| known.path_mtu()).filter(|mtu| *mtu != u32::MAX),
            by: ways.into_iter().filter_map(|id| forwarding.interface_name(id)).collect(),
            adopted: shown.adopted,
            why: shown.why,
            received: passed.received.into(),
            sent: passed.sent.into(),
        }
    }
}

impl Subject for Vec<TunnelStatus> {
    const NAME: &'static str = "tunnels";
    const ABOUT: &'static str =
        "IP tunnels of Linux: their ends, the ways there, and whether Bifrost has them";

    fn answer(control: &mut Control) -> Result<Self, String> {
        let all = <Vec<InterfaceStatus> as Subject>::answer(control)?;
        let links = &control.forwarding.mirror.model().links;
        let is_tunnel = |shown: &InterfaceStatus| {
            let adopted = control.forwarding.plane.is_tunnel(shown.ifindex);
            adopted || links.by_index(shown.ifindex).is_some_and(|link| link.is.kind().is_tunnel())
        };
        Ok(all
            .iter()
            .filter(|shown| is_tunnel(shown))
            .flat_map(|shown| TunnelStatus::all_of(shown, control))
            .collect())
    }

    fn table(&self) -> String {
        if self.is_empty() {
            return "Linux has no tunnels: make them with `ip link add`, or in router.toml\n".to_owned();
        }
        let mut table = Table::new(&[
            "tunnel",
            "kind",
            "from",
            "to",
            "by",
            ">MTU",
            ">path",
            ">received",
            ">sent",
            "forwarded by",
        ]);
        for tunnel in self {
            let end = |end: Option<IpAddr>| end.map_or("-".to_owned(), |end| end.to_string());
            table.row(vec![
                tunnel.name.clone(),
                tunnel.kind.clone(),
                end(tunnel.local),
                end(tunnel.remote),
                tunnel.by.join(" "),
                tunnel.mtu.to_string(),
                tunnel.path_mtu.map_or("-".to_owned(), |mtu| mtu.to_string()),
                count(tunnel.received.packets),
                count(tunnel.sent.packets),
                if tunnel.adopted { "Bifrost".to_owned() } else { format!("Linux: {}", tunnel.why) },
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_linux_knows_has_no_ends() {
        let known = TunnelStatus {
            name: "gre1".to_owned(),
            kind: "gre".to_owned(),
            local: Some([192, 0, 2, 1].into()),
            remote: Some([198, 51, 100, 1].into()),
            key_in: None,
            key_out: None,
            vni: None,
            port: None,
            mtu: 1476,
            header: Some(24),
            path_mtu: Some(1400),
            by: vec!["wan0".to_owned(), "wan1".to_owned()],
            adopted: true,
            why: String::new(),
            received: Traffic::default(),
            sent: Traffic::default(),
        };
        let (local, remote) = (None, None);
        let why = "it has no fixed ends (local and remote)".to_owned();
        let linuxs =
            TunnelStatus { name: "sit0".to_owned(), adopted: false, why, local, remote, ..known.clone() };
        let table = vec![known, linuxs].table();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let ends = ["gre1", "gre", "192.0.2.1", "198.51.100.1", "wan0", "wan1", "1476", "1400"];
        assert_eq!(rows[1][..8], ends, "{table}");
        assert_eq!((rows[2][2], rows[2][3]), ("-", "-"), "{table}");
        assert!(table.trim_end().ends_with("Linux: it has no fixed ends (local and remote)"), "{table}");
        assert!(Vec::<TunnelStatus>::new().table().contains("no tunnels"));
    }
}
