//! Load, made and counted in the kernel: what else is fast enough to measure a router on veth.
//!
//! A [`Source`] sends small UDP packets to many destinations out of an interface; a [`Sink`] counts
//! and drops what an interface receives. [`Streams`] sends whatever was compiled for it, when it is
//! due; [`Arrivals`] judges what arrives of that.

mod arrivals;
mod streams;
mod words;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use aya_obj::Object;

use crate::DriverError;
use crate::bpf::{object, sys};
use crate::driver::sum_per_cpu;

pub use arrivals::{Arrivals, Judge, Seen};
pub use streams::{MOST_FRAME, MOST_LANES, StreamLane, StreamSent, StreamSize, Streams};
pub use words::Buckets;

/// Bytes of the packets, without the frame check sequence.
pub const FRAME: usize = 64;
/// Bytes of a tag.
const TAG: usize = 4;
const BLOCK: usize = 4096;
/// Frames that the kernel hands to the program at a time.
const BATCH: u32 = 64;

/// A source of packets.
pub struct Source {
    program: OwnedFd,
    frame: [u8; FRAME],
}

impl Source {
    /// Packets to each of `destinations` in turn (all of one family; their number is rounded down
    /// to a power of two), from link address `from` to link address `to`.
    pub fn new(
        from: [u8; 6],
        to: [u8; 6],
        source: IpAddr,
        destinations: &[IpAddr],
    ) -> Result<Source, DriverError> {
        Source::made(from, to, source, destinations, false, None)
    }

    /// As [`Source::new`], in a VLAN (802.1Q). The frames are as long as those without a tag.
    pub fn in_vlan(
        from: [u8; 6],
        to: [u8; 6],
        source: IpAddr,
        destinations: &[IpAddr],
        vlan: u16,
    ) -> Result<Source, DriverError> {
        Source::made(from, to, source, destinations, false, Some(vlan))
    }

    /// What those destinations would answer: packets from each of `sources` in turn, to
    /// `destination`.
    pub fn answers(
        from: [u8; 6],
        to: [u8; 6],
        sources: &[IpAddr],
        destination: IpAddr,
    ) -> Result<Source, DriverError> {
        Source::made(from, to, destination, sources, true, None)
    }

    fn made(
        from: [u8; 6],
        to: [u8; 6],
        fixed: IpAddr,
        others: &[IpAddr],
        answers: bool,
        vlan: Option<u16>,
    ) -> Result<Source, DriverError> {
        let count = 1usize << others.len().max(1).ilog2();
        let frame = template(from, to, fixed, answers, vlan);
        let mut words = Vec::new();
        for destination in others.iter().take(count) {
            match destination {
                IpAddr::V4(address) => words.extend(address.octets()),
                IpAddr::V6(address) => words.extend(address.octets()),
            }
        }
        words.resize(words.len().next_multiple_of(BLOCK), 0);
        let version: u32 = if fixed.is_ipv4() { 4 } else { 6 };
        let tags = if vlan.is_some() { TAG as u32 } else { 0 };
        let [count, version, answers, tags] =
            [count as u32, version, u32::from(answers), tags].map(|number| number.to_ne_bytes());
        let constants = HashMap::from([
            ("DESTINATIONS", (&count[..], true)),
            ("VERSION", (&version[..], true)),
            ("ANSWERS", (&answers[..], true)),
            ("TAGS_LENGTH", (&tags[..], true)),
        ]);
        let object = object::traffic()?;
        let maps = maps(&object, (words.len() / BLOCK) as u32)?;
        let write = |name: &str, key: u32, value: &[u8]| {
            let fd = maps.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
            sys::map_update(fd.as_fd(), &key.to_ne_bytes(), value)
                .map_err(DriverError::io(format!("cannot write map {name}")))
        };
        write("template", 0, &frame)?;
        for (key, block) in words.chunks_exact(BLOCK).enumerate() {
            write("destinations", key as u32, block)?;
        }
        Ok(Source { program: object::load(object, "source", constants, &maps)?, frame })
    }

    /// Sends about `packets` packets out of an interface of this thread's network namespace, as
    /// fast as this core can.
    pub fn send(&self, ifindex: u32, packets: u32) -> io::Result<()> {
        let run =
            sys::Run { data: &self.frame, ifindex, queue: 0, repeat: packets, live: true, batch: BATCH };
        sys::prog_run(self.program.as_fd(), &run, &mut Vec::new()).map(drop)
    }
}

/// Counts and drops what an interface receives, while it lives.
pub struct Sink {
    count: OwnedFd,
    _link: OwnedFd,
}

impl Sink {
    /// Attaches to an interface.
    pub fn attach(ifindex: u32) -> Result<Sink, DriverError> {
        let object = object::traffic()?;
        let mut maps = maps(&object, 1)?;
        let program = object::load(object, "sink", HashMap::new(), &maps)?;
        let link = sys::link_create(program.as_fd(), ifindex, sys::ATTACH_XDP, 0)
            .map_err(|source| DriverError::Attach { ifindex, source })?;
        let count = maps.remove("count").ok_or_else(|| DriverError::NoMap { name: "count".into() })?;
        Ok(Sink { count, _link: link })
    }

    /// Packets so far.
    pub fn packets(&self) -> io::Result<u64> {
        sum_per_cpu::<1>(self.count.as_fd()).map(|[packets]| packets)
    }
}

fn maps(object: &Object, blocks: u32) -> Result<HashMap<String, OwnedFd>, DriverError> {
    let own = ["template", "destinations", "count"];
    object
        .maps
        .iter()
        .filter(|(name, map)| map.data().is_empty() && own.contains(&name.as_str()))
        .map(|(name, map)| {
            let entries = (name == "destinations").then_some(blocks);
            Ok((name.clone(), object::create(name, map, entries)?))
        })
        .collect()
}

/// The packet without the address that differs (its source, of answers); in IPv4's checksum field
/// stands the sum so far, not complemented.
fn template(from: [u8; 6], to: [u8; 6], fixed: IpAddr, answers: bool, vlan: Option<u16>) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let length = if vlan.is_some() { FRAME - TAG } else { FRAME };
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let udp = match fixed {
        IpAddr::V4(address) => {
            let total = (length - 14) as u16;
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14] = 0x45;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
            frame[22] = 64;
            frame[23] = 17;
            frame[if answers { 30..34 } else { 26..30 }].copy_from_slice(&address.octets());
            let sum = !wire::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            34
        }
        IpAddr::V6(address) => {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[14] = 0x60;
            frame[18..20].copy_from_slice(&((length - 54) as u16).to_be_bytes());
            frame[20] = 17;
            frame[21] = 64;
            frame[if answers { 38..54 } else { 22..38 }].copy_from_slice(&address.octets());
            54
        }
    };
    frame[udp..udp + 2].copy_from_slice(&9u16.to_be_bytes());
    frame[udp + 2..udp + 4].copy_from_slice(&9u16.to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&((length - udp) as u16).to_be_bytes());
    if let Some(vlan) = vlan {
        frame.copy_within(12..length, 12 + TAG);
        frame[12..14].copy_from_slice(&wire::ethernet::VLAN.to_be_bytes());
        frame[14..16].copy_from_slice(&vlan.to_be_bytes());
    }
    frame
}
