//! Flows that have begun, or have been taken up again, since somebody asked last.
//!
//! Whoever keeps a copy of the table for after a crash writes all of it now and then, and what has
//! begun since by asking for it: else each crash would forget the connections of the last seconds.
//! So does who tells another router of them, which also wants to know of connections that go on
//! here after they had passed elsewhere. Each has a list of its own. The first flows that fit are
//! remembered; where nobody asks, nothing is.

use crate::{Hit, Table, Worker};
use crossbeam_queue::ArrayQueue;
use std::sync::OnceLock;

/// Flows remembered at most.
const ROOM: usize = 8192;

/// Who asks which flows have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Who writes them down.
    File,
    /// Who tells another router of them.
    Peer,
}

const ASKERS: usize = 2;

/// Entries of flows for each asker, from its first question on.
#[derive(Default)]
pub(crate) struct Begun([OnceLock<ArrayQueue<u32>>; ASKERS]);

impl Begun {
    #[inline]
    pub(crate) fn note(&self, entry: u32) {
        for entries in self.0.iter().filter_map(OnceLock::get) {
            // Once it is full, a flood of new flows only reads what all workers share.
            let _ = entries.push(entry);
        }
    }

    /// A side of a connection has said anew where it is.
    #[cold]
    pub(crate) fn note_resumed(&self, entry: u32) {
        if let Some(entries) = self.0[Asker::Peer as usize].get() {
            let _ = entries.push(entry);
        }
    }
}

impl Table {
    /// Bytes that remembering takes.
    pub(crate) const BEGUN: usize = ASKERS * ROOM * 2 * size_of::<usize>();
}

impl Worker {
    /// Shows the flows that have begun since this asker's last call and live, to [`Asker::Peer`]
    /// also the connections that were taken up again by packets since, the first [some
    /// thousand](ROOM) at most; from the first call on. As with [`flows`](Worker::flows),
    /// [`offline`](Worker::offline) must follow before long. One may be shown twice.
    pub fn begun(&self, asker: Asker, show: &mut impl FnMut(&Hit)) {
        let entries = self.table.begun.0[asker as usize].get_or_init(|| ArrayQueue::new(ROOM));
        for _ in 0..entries.len() {
            let Some(entry) = entries.pop() else { return };
            if self.table.memory.hot()[entry as usize].state().phase().is_some() {
                show(&self.hit_of(entry));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Inserted, Opening, Settings, Tuple};
    use wire::Headers;

    /// Begins so many flows, none of which was there; the ports of their sources.
    fn begin(worker: &mut Worker, ports: std::ops::Range<u16>) -> Vec<u16> {
        for port in ports.clone() {
            let [high, low] = port.to_be_bytes();
            let ip = [
                &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1][..],
                &[high, low, 0, 53, 0, 8, 0, 0],
            ]
            .concat();
            let headers = Headers::parse(&ip).unwrap();
            let original = Tuple::of(&headers, 0);
            let opening =
                Opening { headers: &headers, ip: &ip, original, reply: None, ports: [0, 1], mark: 0 };
            assert!(matches!(worker.insert(&opening, 1_000_000), Ok(Inserted::New(_))));
        }
        ports.collect()
    }

    fn begun(worker: &Worker) -> Vec<u16> {
        let mut ports = Vec::new();
        worker.begun(Asker::File, &mut |hit| ports.push(worker.original(hit).source_port));
        ports
    }

    #[test]
    fn flows_are_shown_once_and_those_of_a_flood_as_far_as_there_is_room() {
        let table = Table::new(&Settings { memory: 8 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        begin(&mut worker, 0..10);
        assert_eq!(begun(&worker), [0; 0], "nobody had asked");
        let ports = begin(&mut worker, 10..20);
        assert_eq!(begun(&worker), ports);
        assert_eq!(begun(&worker), [0; 0]);
        let ports = begin(&mut worker, 20..20_000);
        assert_eq!(begun(&worker), ports[..ROOM]);
        let ports = begin(&mut worker, 20_000..20_001);
        worker.begun(Asker::Peer, &mut |_| panic!("this one had not asked"));
        assert_eq!(begun(&worker), ports);
    }

    #[test]
    fn flows_that_have_ended_are_not_shown() {
        let table = Table::new(&Settings { memory: 8 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        begun(&worker);
        begin(&mut worker, 1..3);
        let mut first = None;
        worker.flows(0, u32::MAX, 1_000_000, &mut |hit, account| {
            if account.original.source_port == 1 {
                first = Some(*hit);
            }
        });
        assert!(worker.end(&first.unwrap(), crate::End::Flushed));
        assert_eq!(begun(&worker), [2]);
    }
}
