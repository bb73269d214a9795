//! Where packets end up that leave the graph: per port what is to be transmitted, and what is
//! handed to Linux.
//!
//! What is to be transmitted has its port's own interface as output: tags, if any, are in the
//! frame. The worker owns the sinks and empties them after each run. A port that it has no queue of
//! is closed; what is to leave by it is dropped as `port_down`.

use fib::PortId;
use port::Packet;
use wire::Class;

use crate::Batch;

/// What Linux is to do with a packet that it is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// Take it as received by the port that it came in by.
    Receive,
    /// Send it where its destination is, as a packet of this machine.
    Send,
    /// Take it as received by this interface, by Linux's index: a member of the bridge that the
    /// packet came in by.
    Learn(u32),
}

/// What left the graph and waits for the worker.
#[derive(Default)]
pub struct Sinks {
    ports: Vec<Option<Vec<Packet>>>,
    /// Ports with packets waiting, each once.
    waiting: Vec<PortId>,
    punts: Vec<(Packet, Class, Hand)>,
}

impl Sinks {
    /// Sinks with every port closed.
    pub fn new() -> Sinks {
        Sinks { ports: Vec::new(), waiting: Vec::new(), punts: Vec::with_capacity(256) }
    }

    /// Opens a port for transmission.
    pub fn open(&mut self, port: PortId) {
        let index = usize::from(port.0);
        if self.ports.len() <= index {
            self.ports.resize_with(index + 1, || None);
        }
        self.ports[index].get_or_insert_with(|| Vec::with_capacity(256));
        self.waiting.reserve(self.ports.len());
    }

    /// Closes a port and returns what waited for it.
    pub fn close(&mut self, port: PortId) -> Vec<Packet> {
        self.waiting.retain(|waiting| *waiting != port);
        self.ports.get_mut(usize::from(port.0)).and_then(Option::take).unwrap_or_default()
    }

    /// Shows each port's waiting packets to `each`; what it leaves there keeps waiting.
    pub fn transmit(&mut self, mut each: impl FnMut(PortId, &mut Vec<Packet>)) {
        let ports = &mut self.ports;
        self.waiting.retain(|port| match ports.get_mut(usize::from(port.0)) {
            Some(Some(packets)) => {
                each(*port, packets);
                !packets.is_empty()
            }
            _ => false,
        });
    }

    /// Takes out what is to be handed to Linux, in order.
    pub fn punts(&mut self) -> impl Iterator<Item = (Packet, Class, Hand)> + '_ {
        self.punts.drain(..)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.punts.is_empty()
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        let port = PortId(packet.output.0);
        match self.ports.get_mut(usize::from(port.0)) {
            Some(Some(packets)) => {
                if packets.is_empty() {
                    self.waiting.push(port);
                }
                packets.push(packet);
                Ok(())
            }
            _ => Err(packet),
        }
    }

    /// Takes all packets of a batch if they leave by one port, which is open; otherwise none.
    #[inline]
    pub(crate) fn push_batch(&mut self, batch: &mut Batch) {
        let Some(first) = batch.packets().first() else { return };
        let port = PortId(first.output.0);
        let Some(Some(packets)) = self.ports.get_mut(usize::from(port.0)) else { return };
        if batch.packets().iter().all(|packet| packet.output == port.interface()) {
            if packets.is_empty() {
                self.waiting.push(port);
            }
            batch.append_to(packets);
        }
    }

    #[inline]
    pub(crate) fn punt(&mut self, packet: Packet, class: Class, hand: Hand) {
        self.punts.push((packet, class, hand));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::Pool;

    fn packet(port: u16) -> Packet {
        let mut packet = Packet::new(&[port as u8]).unwrap();
        packet.output = PortId(port).interface();
        packet
    }

    #[test]
    fn packets_wait_per_port_until_taken() {
        Pool::heap(8).install();
        let mut sinks = Sinks::new();
        sinks.open(PortId(2));
        sinks.open(PortId(5));
        assert!(sinks.push(packet(3)).is_err(), "a closed port refuses");
        assert!(sinks.push(packet(9)).is_err(), "so does one never heard of");
        for port in [5, 2, 5] {
            sinks.push(packet(port)).unwrap();
        }
        let mut seen = Vec::new();
        sinks.transmit(|port, packets| {
            seen.push((port.0, packets.len()));
            if port.0 == 5 {
                packets.truncate(1);
            } else {
                packets.clear();
            }
        });
        assert_eq!(seen, [(5, 2), (2, 1)]);
        assert_eq!(sinks.close(PortId(5)).len(), 1);
        assert!(sinks.is_empty());
    }
}
