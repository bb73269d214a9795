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
pub(crate) struct Reach {
    /// The session's number.
    pub id: u32,
    pub peer: IpAddr,
    /// The interface or VRF that it is bound to.
    pub interface: Option<String>,
    /// The peer is several hops away.
    pub multihop: bool,
    pub is: Reached,
}

/// Whether a peer is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reached {
    /// It was not since the session is there, or one of both ends has switched that off, or there is
    /// no session any more.
    #[default]
    Unknown,
    /// It is.
    Up,
    /// It was, and is not any more.
    Lost,
}

/// What is known of all sessions, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Reaches(BTreeMap<u32, Reach>);

impl Reaches {
    pub(super) fn take(&mut self, reach: Reach) {
        match reach.is {
            Reached::Unknown => self.0.remove(&reach.id),
            _ => self.0.insert(reach.id, reach),
        };
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether a session to this address is up.
    pub(crate) fn reaches(&self, peer: IpAddr) -> bool {
        self.0.values().any(|reach| reach.peer == peer && reach.is == Reached::Up)
    }

    /// The gateways that are lost, and the backups of those that are in the file.
    pub(super) fn gateways(&self, repairs: &[Repair], model: &Model) -> Gateways {
        let number = |name: &str| model.links.by_name(name).map(|link| link.ifindex);
        let lost = self.0.values().filter(|reach| reach.is == Reached::Lost && !reach.multihop);
        let lost = lost.filter_map(|reach| {
            let ifindex = match &reach.interface {
                Some(name) => Some(number(name)?),
                None => None,
            };
            Some(model::Gateway { address: reach.peer, ifindex })
        });
        let backups = repairs.iter().filter_map(|repair| backup(repair, model));
        Gateways { lost: lost.collect(), backups: backups.collect() }
    }
}

/// The gateway of a repair, and its backup with the interface to it. `None`: one of the interfaces
/// is not there, or the backup is on no link.
fn backup(Repair { gateway, backup }: &Repair, model: &Model) -> Option<(model::Gateway, (u32, IpAddr))> {
    let number = |name: &String| model.links.by_name(name).map(|link| link.ifindex);
    let ifindex = match &gateway.interface {
        Some(name) => Some(number(name)?),
        None => None,
    };
    let by = match &backup.interface {
        Some(name) => number(name)?,
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
    /// As [`Reaches::gateways`], of one repair.
    pub(crate) fn backup(&self, repair: &Repair) -> Option<(model::Gateway, (u32, IpAddr))> {
        backup(repair, self.mirror.model())
    }
}

/// Hears from the process that listens there until it ends, or `heard` says false.
pub(super) fn watch(place: &Path, mut heard: impl FnMut(Reach) -> bool) -> io::Result<()> {
    let mut stream = UnixStream::connect(place)?;
    stream.write_all((serde_json::to_string(&Request::Watch)? + "\n").as_bytes())?;
    for line in BufReader::new(stream).lines() {
        // What a newer process says beyond this is nothing to an older daemon.
        if let Ok(reach) = serde_json::from_str(&line?)
            && !heard(reach)
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
        let mut reaches = Reaches::default();
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let mut say = |is, id, multihop| {
            reaches.take(Reach { id, peer, interface: None, multihop, is });
            let gateways = reaches.gateways(&[], &Model::default());
            (reaches.reaches(peer), gateways.lost.len())
        };
        assert_eq!(say(Reached::Up, 1, false), (true, 0));
        assert_eq!(say(Reached::Lost, 1, false), (false, 1));
        assert_eq!(say(Reached::Lost, 2, true), (false, 1), "over several hops it is no gateway");
        assert_eq!(say(Reached::Up, 2, true), (true, 1));
        assert_eq!(say(Reached::Unknown, 1, false), (true, 0));
        reaches.forget();
        assert!(!reaches.reaches(peer));
    }
}
