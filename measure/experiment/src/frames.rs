//! UDP packets for measuring in memory: flows in turn, each for as many packets as wished, then new
//! ones.
//!
//! A packet is a template of its size with an address and a port written into it, so that millions
//! of flows cost eight bytes each and the making of packets stays cheap beside what is measured.
//! Nothing behind the headers is written: a network card would do that, and no router looks there.

use std::sync::Arc;

use lab::prefixes::{Random, inside4};
use port::Packet;
use wire::{Mac, checksum};

use ipnet::Ipv4Net;

/// What stands in front of UDP's payload, padded to the smallest frame.
const HEADERS: usize = 60;
/// Ethernet's check sequence, which frames have on the wire and packets do not.
pub const FCS: usize = 4;

/// What makes a packet one of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes.
    pub destination: u32,
    /// The port that it comes from.
    pub port: u16,
}

/// Packets of many flows.
#[derive(Clone)]
pub struct Frames {
    flows: Arc<[Flow]>,
    /// Flows at a time.
    together: usize,
    /// Packets of a flow before others take their place; 0: none does.
    length: usize,
    templates: Vec<Template>,
}

#[derive(Clone)]
struct Template {
    length: usize,
    headers: [u8; HEADERS],
    sum: checksum::Sum,
}

impl Frames {
    /// These flows in turn, from link address `from` to `to`, from the host `source`; frames of
    /// these sizes in turn (with their check sequence, at least 64).
    pub fn new(from: Mac, to: Mac, source: u32, flows: Vec<Flow>, sizes: &[u32]) -> Frames {
        let template = |size: &u32| {
            let length = (*size as usize).max(HEADERS + FCS) - FCS;
            let ethernet =
                wire::ethernet::Repr { destination: to, source: from, ether_type: wire::ethernet::IPV4 };
            let ip = wire::ipv4::Repr::new(source.into(), 0.into());
            let mut headers = [0; HEADERS];
            headers[..14].copy_from_slice(&ethernet.header());
            headers[14..34].copy_from_slice(&ip.header(length - 34));
            headers[24..26].fill(0);
            headers[36..38].copy_from_slice(&9u16.to_be_bytes());
            headers[38..40].copy_from_slice(&((length - 34) as u16).to_be_bytes());
            Template { length, headers, sum: checksum::Sum::new().with(&headers[14..34]) }
        };
        let together = flows.len().max(1);
        Frames { flows: flows.into(), together, length: 0, templates: sizes.iter().map(template).collect() }
    }

    /// Only so many flows at a time, each so many packets long.
    pub fn ending(self, together: usize, length: usize) -> Frames {
        Frames { together: together.clamp(1, self.flows.len().max(1)), length, ..self }
    }

    /// Writes packet number 0, 1, 2, ...
    #[inline]
    pub fn write(&self, number: u64, packet: &mut Packet) {
        let (number, all) = (number as usize, self.flows.len());
        let flow = match self.length {
            0 => number % all,
            length => (number / (self.together * length) * self.together + number % self.together) % all,
        };
        let (flow, template) = (self.flows[flow], &self.templates[number % self.templates.len()]);
        packet.reset(template.length);
        if let Some(bytes) = packet.data_mut().first_chunk_mut::<HEADERS>() {
            *bytes = template.headers;
            bytes[24..26].copy_from_slice(&template.sum.with_u32(flow.destination).finish().to_be_bytes());
            bytes[30..34].copy_from_slice(&flow.destination.to_be_bytes());
            bytes[34..36].copy_from_slice(&flow.port.to_be_bytes());
        }
    }

    /// Packets after which every flow has been sent at least once.
    pub fn round(&self) -> usize {
        self.flows.len() * self.length.max(1)
    }

    /// Bytes of a frame on average, with its check sequence.
    pub fn mean_size(&self) -> f64 {
        let bytes: usize = self.templates.iter().map(|template| template.length + FCS).sum();
        bytes as f64 / self.templates.len() as f64
    }
}

/// So many addresses inside these routes, in random order; a flow to each.
pub fn flows_inside(routes: &[Ipv4Net], count: usize, random: &mut Random) -> Vec<Flow> {
    let mut flow = |_| {
        let destination = inside4(routes[random.below(routes.len())], random);
        Flow { destination, port: 1024 + random.below(60_000) as u16 }
    };
    (0..count).map(&mut flow).collect()
}

/// The mix of the multi-queue router of 2008: 64, 576 and 1500 bytes, 45, 25 and 30 %.
pub const MIX: &str = "64:45,576:25,1500:30";

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;

    fn made(frames: &Frames, number: u64) -> Vec<u8> {
        let mut packet = Packet::new(&[]).unwrap();
        frames.write(number, &mut packet);
        packet.to_vec()
    }

    #[test]
    fn packets_are_right_and_flows_take_turns() {
        Pool::heap(4).install();
        let flows: Vec<Flow> = (0..6).map(|n| Flow { destination: 0xc633_6400 + n, port: 5000 }).collect();
        let frames = Frames::new(Mac([2; 6]), Mac([4; 6]), 0x0a00_0001, flows, &[64, 1500]);
        let to = |frames: &Frames, number| made(frames, number)[33];
        assert_eq!((made(&frames, 0).len(), made(&frames, 1).len()), (60, 1496));
        assert_eq!((0..8).map(|n| to(&frames, n)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 0, 1]);
        for number in 0..4 {
            let frame = made(&frames, number);
            assert!(checksum::verify(&frame[14..34]), "{number}");
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])) + 14, frame.len());
            assert!(wire::Headers::parse(&frame[14..]).is_ok());
        }
        assert_eq!(frames.mean_size(), 782.0);
        let ending = frames.ending(2, 3);
        let order: Vec<u8> = (0..14).map(|n| to(&ending, n)).collect();
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 5]);
        assert_eq!(ending.round(), 18);
    }
}
