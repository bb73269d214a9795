//! The ports of one outside address and one class of protocols, and whose they are.

use std::ops::RangeInclusive;

use wire::protocol;

use crate::ports::{Parity, Ports};

const NOBODY: u32 = u32::MAX;

/// Protocols whose ports are of one kind. ICMP and ICMPv6 are one: NAT64 makes one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Class {
    Tcp,
    Udp,
    Icmp,
    Sctp,
    Dccp,
    UdpLite,
}

impl Class {
    /// `None` for protocols without ports.
    pub fn of(protocol: u8) -> Option<Class> {
        Some(match protocol {
            protocol::TCP => Class::Tcp,
            protocol::UDP => Class::Udp,
            protocol::ICMP | protocol::ICMP6 => Class::Icmp,
            protocol::SCTP => Class::Sctp,
            protocol::DCCP => Class::Dccp,
            protocol::UDP_LITE => Class::UdpLite,
            _ => return None,
        })
    }

    /// The protocol; ICMP for ICMPv6 as well.
    pub fn protocol(self) -> u8 {
        match self {
            Class::Tcp => protocol::TCP,
            Class::Udp => protocol::UDP,
            Class::Icmp => protocol::ICMP,
            Class::Sctp => protocol::SCTP,
            Class::Dccp => protocol::DCCP,
            Class::UdpLite => protocol::UDP_LITE,
        }
    }
}

/// The ports of one address outside, and whose they are.
pub(crate) struct Space {
    ports: Ports,
    /// By port: the number of the mapping.
    owners: Vec<Option<Box<[u32; 64]>>>,
    /// Never given out: of port forwards, and of the router itself.
    reserved: Vec<RangeInclusive<u16>>,
}

impl Space {
    pub fn new() -> Space {
        Space { ports: Ports::new(), owners: vec![None; 1024], reserved: Vec::new() }
    }

    pub fn owner(&self, port: u16) -> Option<u32> {
        let id = self.owners[usize::from(port >> 6)].as_ref()?[usize::from(port & 63)];
        (id != NOBODY).then_some(id)
    }

    pub fn set_owner(&mut self, port: u16, id: u32) {
        let block = self.owners[usize::from(port >> 6)].get_or_insert_with(|| Box::new([NOBODY; 64]));
        block[usize::from(port & 63)] = id;
    }

    /// Like the wanted port if that is free; else of its kind (below 1,024 or not; RFC 4787,
    /// REQ-3), with its parity if it is UDP's (REQ-4), at random. A low port may have a high one if
    /// need be, never the reverse.
    pub fn take(
        &mut self,
        range: &RangeInclusive<u16>,
        class: Class,
        wanted: u16,
        random: u32,
    ) -> Option<u16> {
        if range.contains(&wanted) && self.ports.insert(wanted) {
            return Some(wanted);
        }
        let (low, high) = (*range.start(), *range.end());
        let parity = match class {
            Class::Udp | Class::UdpLite => Parity::Like(wanted),
            _ => Parity::Any,
        };
        let mut take = |range: RangeInclusive<u16>| {
            let like = self.ports.take(&range, parity, random);
            like.or_else(|| self.ports.take(&range, Parity::Any, random))
        };
        if class == Class::Icmp || low >= 1024 || high < 1024 {
            take(low..=high)
        } else if wanted < 1024 {
            take(low..=1023).or_else(|| take(1024..=high))
        } else {
            take(1024..=high)
        }
    }

    pub fn give(&mut self, port: u16) {
        self.set_owner(port, NOBODY);
        if !self.is_reserved(port) {
            self.ports.remove(port);
        }
    }

    pub fn is_reserved(&self, port: u16) -> bool {
        self.reserved.iter().any(|range| range.contains(&port))
    }

    pub fn reserve(&mut self, ranges: Vec<RangeInclusive<u16>>) {
        for port in self.reserved.drain(..).flatten().collect::<Vec<_>>() {
            if self.owner(port).is_none() {
                self.ports.remove(port);
            }
        }
        ranges.iter().cloned().flatten().for_each(|port| {
            self.ports.insert(port);
        });
        self.reserved = ranges;
    }

    /// How many are taken, those reserved included.
    pub fn taken(&self) -> u32 {
        self.ports.count()
    }
}
