//! Whom sessions reach, as the process that runs them tells the daemon at once, and what the daemon
//! makes of it: gateways that are lost, and what is tracked.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use config::Repair;
use mirror::model::{self, Gateways, Model};
use serde::{Deserialize, Serialize};

use super::super::forwarding::Forwarding;
use super::process::Request;

/// Of one session, a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerReport {
    /// The session's number.
    pub id: u32,
    pub peer: IpAddr,
    /// The interface or VRF that it is bound to.
    pub interface: Option<String>,
    /// The peer is several hops away.
    pub multihop: bool,
    pub state: PeerState,
}

/// Whether a peer is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PeerState {
    /// It was not since the session is there, or one of both ends has switched that off, or there
    /// is no session any more.
    #[default]
    Unknown,
    /// It is.
    Up,
    /// It was, and is not any more.
    Lost,
}

/// What is known of all sessions, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Reachability(BTreeMap<u32, PeerReport>);

impl Reachability {
    pub(super) fn take(&mut self, report: PeerReport) {
        match report.state {
            PeerState::Unknown => self.0.remove(&report.id),
            _ => self.0.insert(report.id, report),
        };
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether a session to this address is up.
    pub(crate) fn reaches(&self, peer: IpAddr) -> bool {
        self.0.values().any(|report| report.peer == peer && report.state == PeerState::Up)
    }

    /// The gateways that are lost, and the backups of those that are in the file.
    pub(super) fn gateways(&self, repairs: &[Repair], model: &Model) -> Gateways {
        let lost = self.0.values().filter(|report| report.state == PeerState::Lost && !report.multihop);
        let lost = lost.filter_map(|report| {
            Some(model::Gateway { address: report.peer, ifindex: number_of(&report.interface, model)? })
        });
        let backups = repairs.iter().filter_map(|repair| backup(repair, model));
        Gateways { lost: lost.collect(), backups: backups.collect() }
    }
}

/// The number of an interface that may be named. `None`: it is named, and not there.
fn number_of(name: &Option<String>, model: &Model) -> Option<Option<u32>> {
    let Some(name) = name else { return Some(None) };
    model.links.by_name(name).map(|link| Some(link.ifindex))
}

/// The gateway of a repair, and its backup with the interface to it. `None`: one of the interfaces
/// is not there, or the backup is on no link.
fn backup(Repair { gateway, backup }: &Repair, model: &Model) -> Option<(model::Gateway, (u32, IpAddr))> {
    let ifindex = number_of(&gateway.interface, model)?;
    let by = match number_of(&backup.interface, model)? {
        Some(by) => by,
        // In the same VRF as the gateway.
        None => {
            let vrfs = model.links.iter().filter(|link| link.vrf().is_some());
            let all = [None].into_iter().chain(vrfs.map(|link| Some(link.ifindex)));
            let vrf = match ifindex {
                Some(ifindex) => model.vrf_device(ifindex),
                None => all.into_iter().find(|vrf| model.link_towards(gateway.address, *vrf).is_some())?,
            };
            model.link_towards(backup.address, vrf)?
        }
    };
    Some((model::Gateway { address: gateway.address, ifindex }, (by, backup.address)))
}

impl Forwarding {
    /// As [`Reachability::gateways`], of one repair.
    pub(crate) fn backup(&self, repair: &Repair) -> Option<(model::Gateway, (u32, IpAddr))> {
        backup(repair, self.mirror.model())
    }
}

/// Hears from the process that listens there until it ends, or `heard` says false.
pub(super) fn watch(place: &Path, mut heard: impl FnMut(PeerReport) -> bool) -> io::Result<()> {
    let mut stream = UnixStream::connect(place)?;
    stream.write_all((serde_json::to_string(&Request::Watch)? + "\n").as_bytes())?;
    for line in BufReader::new(stream).lines() {
        // What a newer process says beyond this is nothing to an older daemon.
        if let Ok(report) = serde_json::from_str(&line?)
            && !heard(report)
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_a_session_counts() {
        let mut known = Reachability::default();
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let mut say = |state, id, multihop| {
            known.take(PeerReport { id, peer, interface: None, multihop, state });
            let gateways = known.gateways(&[], &Model::default());
            (known.reaches(peer), gateways.lost.len())
        };
        assert_eq!(say(PeerState::Up, 1, false), (true, 0));
        assert_eq!(say(PeerState::Lost, 1, false), (false, 1));
        assert_eq!(say(PeerState::Lost, 2, true), (false, 1), "over several hops it is no gateway");
        assert_eq!(say(PeerState::Up, 2, true), (true, 1));
        assert_eq!(say(PeerState::Unknown, 1, false), (true, 0));
        known.forget();
        assert!(!known.reaches(peer));
    }
}
