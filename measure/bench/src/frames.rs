//! Packets that go round: made once, written anew before each pass, as a port's memory is.
//!
//! A bench that makes and frees its packets would measure the making. Here the handles come back
//! from where the graph sent them, each gets the bytes of the next frame (one 64-byte copy), and
//! the round begins again. What that copy costs is measured alone, so that it can be told from what
//! the graph costs.

use graph::{BATCH, Batch};
use port::{Packet, Pool};

/// Bytes of a frame, without its check sequence.
pub const FRAME: usize = 60;

/// Frames to send, and the packets that carry them.
pub struct Frames {
    frames: Vec<[u8; FRAME]>,
    next: usize,
    packets: Vec<Packet>,
    /// Those that came back; they have their turn when the others have had it.
    returned: Vec<Packet>,
}

impl Frames {
    /// Frames, and so many packets to carry them. Installs a pool on this thread.
    pub fn new(frames: Vec<[u8; FRAME]>, packets: usize) -> Frames {
        // Some more, for what elements make themselves.
        Pool::heap(packets + 4 * BATCH).install();
        let packets = (0..packets).filter_map(|_| Packet::new(&[0; FRAME])).collect();
        Frames { frames, next: 0, packets, returned: Vec::new() }
    }

    /// Fills an empty batch with the next frames, come in by `input`.
    #[inline]
    pub fn fill(&mut self, batch: &mut Batch, input: fib::PortId) {
        if self.packets.len() < batch.room() {
            self.packets.append(&mut self.returned);
        }
        let rest = self.packets.len().saturating_sub(batch.room());
        batch.fill(self.packets.drain(rest..));
        for packet in batch.packets_mut() {
            let frame = &self.frames[self.next];
            self.next = (self.next + 1) % self.frames.len();
            packet.reset(FRAME);
            packet.input = input.interface();
            if let Some(bytes) = packet.data_mut().first_chunk_mut() {
                *bytes = *frame;
            }
        }
    }

    /// Takes packets back.
    #[inline]
    pub fn take_back(&mut self, packets: impl Iterator<Item = Packet>) {
        self.returned.extend(packets);
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.packets.len() + self.returned.len()
    }
}

/// An Ethernet frame with an IPv4 UDP packet, padded to 60 bytes.
pub fn udp4(to: wire::Mac, from: wire::Mac, source: u32, destination: u32) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    let ip = wire::ipv4::Repr::new(source.into(), destination.into());
    let data = [0x5a; FRAME - 14 - 20 - 8];
    let header = wire::ethernet::Repr { destination: to, source: from, ether_type: wire::ethernet::IPV4 };
    frame[..14].copy_from_slice(&header.header());
    frame[14..34].copy_from_slice(&ip.header(data.len() + 8));
    let pseudo = wire::checksum::pseudo4(source, destination, 17, data.len() as u16 + 8);
    frame[34..42].copy_from_slice(&wire::udp::header(5000, 33434, &data, pseudo));
    frame[42..].copy_from_slice(&data);
    frame
}
