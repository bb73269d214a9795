//! `[routing.bfd]`: profiles of BFD's sessions, and sessions that no routing protocol asks for.

use std::net::IpAddr;

use toml::Spanned;
use toml::de::DeValue;

use super::words::name;
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of, named};

/// BFD, as FRR's bfdd is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BfdSessions {
    /// By name.
    pub profiles: Vec<(String, BfdTimes)>,
    /// In the order of the file.
    pub peers: Vec<BfdPeer>,
}

/// How sessions are spoken (RFC 5880); what is `None` is FRR's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BfdTimes {
    /// After how many packets that are missing a session is down.
    pub multiplier: Option<u8>,
    /// Milliseconds between packets that are sent.
    pub transmit: Option<u32>,
    /// Milliseconds between packets that are received.
    pub receive: Option<u32>,
    /// Packets with a lower TTL are not believed; several hops away.
    pub minimum_ttl: Option<u8>,
    /// Whether the other one begins.
    pub passive: bool,
    /// Whether it is spoken.
    pub enabled: bool,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfdPeer {
    /// With whom.
    pub address: IpAddr,
    /// From which address.
    pub local: Option<IpAddr>,
    /// By which interface.
    pub interface: Option<String>,
    /// In which VRF.
    pub vrf: Option<String>,
    /// Whether it may be several hops away (RFC 5883).
    pub multihop: bool,
    /// Whose times it has.
    pub profile: Option<String>,
    /// Times of its own.
    pub times: BfdTimes,
}

pub(super) fn bfd(page: &mut Page, mut section: Section) -> BfdSessions {
    let mut found = BfdSessions::default();
    for (called, mut keys) in named(page, &mut section, "profile", "routing.bfd.profile") {
        let times = times(page, &mut keys);
        match name(called) {
            Ok(called) => found.profiles.push((called, times)),
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("a name")),
        }
        keys.finish(page);
    }
    let peers = section.value("peer").map(|value| (value.span(), value.get_ref()));
    match peers {
        None => {}
        Some((_, DeValue::Array(list))) => {
            for item in list.iter() {
                let DeValue::Table(table) = item.get_ref() else {
                    let message = format!("peer cannot have {}", kind_of(item.get_ref()));
                    page.wrong(item.span(), message, Hint::expected("[[routing.bfd.peer]] sections"));
                    continue;
                };
                let keys = Section::new("[[routing.bfd.peer]]", item.span(), table);
                let Some(peer) = peer(page, keys, &found.profiles) else { continue };
                let key =
                    |it: &BfdPeer| (it.address, it.local, it.interface.clone(), it.vrf.clone(), it.multihop);
                if found.peers.iter().any(|other| key(other) == key(&peer)) {
                    let message = format!("{} is there already", peer.address);
                    page.wrong(item.span(), message, Hint::expected("each once"));
                }
                found.peers.push(peer);
            }
        }
        Some((at, other)) => {
            let message = format!("peer cannot be {}", kind_of(other));
            page.wrong(at, message, Hint::expected("[[routing.bfd.peer]] sections"));
        }
    }
    section.finish(page);
    found
}

fn peer(page: &mut Page, mut keys: Section, profiles: &[(String, BfdTimes)]) -> Option<BfdPeer> {
    let address = |page: &mut Page, keys: &mut Section, key| {
        let found = keys.text(page, key, "an address", |text| {
            text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no address"))
        });
        found.map(|found| found.value)
    };
    let remote = address(page, &mut keys, "address");
    let remote = keys.require(page, "address", remote, "an address");
    let local = address(page, &mut keys, "local");
    let interface = |page: &mut Page, keys: &mut Section, key| {
        keys.text(page, key, "the name of an interface", interface_name).map(|found| found.value)
    };
    let (device, vrf) = (interface(page, &mut keys, "interface"), interface(page, &mut keys, "vrf"));
    let multihop = keys.flag(page, "multihop").unwrap_or(false);
    let profile =
        keys.text(page, "profile", "the name of a [routing.bfd.profile.NAME]", |text| {
            match profiles.iter().any(|(name, _)| name == text) {
                true => Ok(text.to_owned()),
                false => Err(format!("there is no [routing.bfd.profile.{text}]")),
            }
        });
    let times = times(page, &mut keys);
    if multihop && (local.is_none() || device.is_some()) {
        let at = keys.value("multihop").map_or(keys.at.clone(), Spanned::span);
        page.wrong(at, "multihop needs local, and no interface", Hint::expected("local = \"ADDRESS\""));
    }
    if times.minimum_ttl.is_some() && !multihop {
        let at = keys.value("minimum_ttl").map_or(keys.at.clone(), Spanned::span);
        page.wrong(at, "minimum_ttl is for multihop", Hint::expected("multihop = true"));
    }
    if let (Some(remote), Some(local)) = (remote, local)
        && remote.is_ipv4() != local.is_ipv4()
    {
        let at = keys.value("local").map_or(keys.at.clone(), Spanned::span);
        page.wrong(at, "address and local are of different families", Hint::expected("one family"));
    }
    keys.finish(page);
    Some(BfdPeer {
        address: remote?,
        local,
        interface: device,
        vrf,
        multihop,
        profile: profile.map(|found| found.value),
        times,
    })
}

fn times(page: &mut Page, keys: &mut Section) -> BfdTimes {
    let milliseconds = |page: &mut Page, keys: &mut Section, key| {
        let expected = "whole milliseconds from \"10ms\" to \"60s\"";
        let found = keys.text(page, key, expected, |text| match notation::duration(text) {
            Some(time)
                if (10..=60_000).contains(&time.as_millis()) && time.subsec_nanos() % 1_000_000 == 0 =>
            {
                Ok(time.as_millis() as u32)
            }
            Some(_) => Err(format!("{text:?} is out of range")),
            None => Err(format!("{text:?} is not a time")),
        });
        found.map(|found| found.value)
    };
    BfdTimes {
        multiplier: keys.number(page, "multiplier", 2..=255).map(|number| number as u8),
        transmit: milliseconds(page, keys, "transmit"),
        receive: milliseconds(page, keys, "receive"),
        minimum_ttl: keys.number(page, "minimum_ttl", 1..=254).map(|number| number as u8),
        passive: keys.flag(page, "passive").unwrap_or(false),
        enabled: keys.flag(page, "enabled").unwrap_or(true),
    }
}
