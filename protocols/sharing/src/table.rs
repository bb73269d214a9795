//! The flow table as this router shares it: flows as they are told of, and back.

use std::sync::Arc;

use flow::{Account, Asker, End, Hit, Inserted, Key, NO_PORT, Phase, Snapshot, Table, Timeouts, Worker};
use nat::Nat;
use wire::tcp::flag::FIN;

use crate::shared::Flow;

const MILLI: u64 = 1_000_000;

/// Access to the table, and to what its flows need beside it.
pub struct Here {
    worker: Worker,
    nat: Option<Arc<Nat>>,
    timeouts: Timeouts,
    /// The interfaces' names, by their number.
    names: Vec<String>,
    /// It has ended flows, which whoever comes next frees.
    has_ended: bool,
}

/// Why a flow that was told of is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its translation is another flow's.
    Taken,
    /// There is no room.
    Full,
}

/// A flow here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) entry: u32,
    pub(crate) flow: Flow,
    /// The lower bits of the number of its packets.
    pub(crate) packets: u32,
}

impl Here {
    /// Of this table, with these interfaces.
    ///
    /// # Errors
    /// There are as many workers as there can be.
    pub fn new(
        table: &Arc<Table>,
        nat: Option<Arc<Nat>>,
        timeouts: Timeouts,
        names: Vec<String>,
    ) -> Result<Here, flow::Error> {
        let worker = table.worker()?;
        worker.offline();
        Ok(Here { worker, nat, timeouts, names, has_ended: false })
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        self.worker.table()
    }

    /// What may have changed: how mappings are made, how long flows live, which interfaces there
    /// are.
    pub fn follow(&mut self, nat: Option<Arc<Nat>>, timeouts: Timeouts, names: Vec<String>) {
        (self.nat, self.timeouts, self.names) = (nat, timeouts, names);
    }

    /// The interfaces' names, by their number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn number_of(&self, name: &str) -> u16 {
        // A number without an interface has an empty one.
        let at = self.names.iter().position(|known| known == name && !name.is_empty());
        at.and_then(|at| u16::try_from(at).ok()).unwrap_or(NO_PORT)
    }

    /// Before a step: hits hold from here on.
    pub(crate) fn begin(&mut self) {
        self.worker.online();
    }

    /// After a step: what it has ended is given to those who free it.
    pub(crate) fn finish(&mut self) {
        self.worker.offline();
        if self.has_ended
            && let Ok(worker) = self.worker.table().worker()
        {
            worker.offline();
            (self.worker, self.has_ended) = (worker, false);
        }
    }

    pub(crate) fn at(&self, entry: u32, now: u64) -> Option<Local> {
        self.local(&self.worker.flow_at(entry)?, now)
    }

    pub(crate) fn find(&mut self, flow: &Flow, now: u64) -> Option<Local> {
        let hit = self.worker.find(&Key::of(&flow.original))?;
        self.local(&hit, now).filter(|local| local.flow.original == flow.original)
    }

    /// One of a VRF is not shared: which routing table that is, only this router knows.
    fn local(&self, hit: &Hit, now: u64) -> Option<Local> {
        let Snapshot { account, tcp } = self.worker.snapshot(hit, now);
        if [account.original.table, account.reply.table] != [0; 2] {
            return None;
        }
        let (mut phase, mut tcp) = (account.phase, tcp);
        if phase == Phase::Closing {
            // Its numbers go on after this, and of a connection that closes they are compared. The
            // next segments say anew that it does.
            phase = Phase::Open;
            tcp.iter_mut().flatten().for_each(|side| side.flags &= !FIN);
        }
        let flow = Flow {
            original: account.original,
            reply: account.reply,
            phase,
            tcp,
            ports: account.ports,
            mark: account.mark,
            idle: now.saturating_sub(account.last) / MILLI,
            age: now.saturating_sub(account.start) / MILLI,
            carried: false,
        };
        Some(Local { entry: hit.id(), flow, packets: (account.packets[0] + account.packets[1]) as u32 })
    }

    /// Shows flows from an entry on; where to go on.
    pub(crate) fn look(
        &mut self,
        from: u32,
        count: u32,
        now: u64,
        show: &mut impl FnMut(&mut Here, Local),
    ) -> Option<u32> {
        let mut hits = Vec::new();
        let next = self.worker.flows(from, count, now, &mut |hit, _| hits.push(*hit));
        for hit in hits {
            if let Some(local) = self.local(&hit, now) {
                show(self, local);
            }
        }
        next
    }

    /// The entries of flows that have begun since the last call.
    pub(crate) fn begun(&self) -> Vec<u32> {
        let mut entries = Vec::new();
        self.worker.begun(Asker::Peer, &mut |hit| entries.push(hit.id()));
        entries
    }

    /// Puts a flow into the table that is not there: its entry. What it counts begins here.
    pub(crate) fn put(&mut self, flow: &Flow, now: u64) -> Result<u32, Refusal> {
        let (original, reply) = (flow.original, flow.reply);
        let nat = self.nat.clone().filter(|_| flow.is_translated());
        if let Some(nat) = &nat
            && !nat.restore(&original, &reply, now)
        {
            return Err(Refusal::Taken);
        }
        let put = self.worker.restore(&snapshot(flow, now), now);
        if let Ok(Inserted::New(hit)) = put {
            return Ok(hit.id());
        }
        nat.iter().for_each(|nat| nat.release_tuples(&original, &reply, now, &mut |_| {}));
        match put {
            Err(flow::Refused::Full) => Err(Refusal::Full),
            _ => Err(Refusal::Taken),
        }
    }

    pub(crate) fn renew(&mut self, entry: u32, flow: &Flow, now: u64) -> bool {
        self.worker.flow_at(entry).is_some_and(|hit| self.worker.renew(&hit, &snapshot(flow, now)))
    }

    /// Has a connection say anew where it is, for packets of it have passed elsewhere, where it was
    /// known like that: of the two states the later one counts.
    pub(crate) fn open(&mut self, local: &Local, there: &Flow, now: u64) {
        let later = if there.phase as u8 > local.flow.phase as u8 { there } else { &local.flow };
        let idle = local.flow.idle.min(there.idle);
        self.renew(local.entry, &Flow { idle, ..*later }, now);
    }

    pub(crate) fn touch(&mut self, entry: u32, idle: u64, now: u64) {
        if let Some(hit) = self.worker.flow_at(entry) {
            self.worker.touch(&hit, before(now, idle));
        }
    }

    /// False: it has to wait.
    pub(crate) fn end(&mut self, entry: u32) -> bool {
        let Some(hit) = self.worker.flow_at(entry) else { return true };
        self.has_ended = true;
        self.worker.end(&hit, End::Flushed)
    }

    /// How long a flow may be idle before it ends, in milliseconds.
    pub(crate) fn patience(&self, flow: &Flow) -> u64 {
        self.timeouts.of(flow.original.protocol, flow.phase).as_millis() as u64
    }
}

/// A moment so many milliseconds ago. It may lie before the clock's beginning, and wraps, as the
/// table expects.
fn before(now: u64, millis: u64) -> u64 {
    now.wrapping_sub(millis.min(Timeouts::LONGEST.as_millis() as u64) * MILLI)
}

fn snapshot(flow: &Flow, now: u64) -> Snapshot {
    let account = Account {
        id: 0,
        original: flow.original,
        reply: flow.reply,
        start: before(now, flow.age),
        last: before(now, flow.idle),
        packets: [0; 2],
        bytes: [0; 2],
        tcp_flags: [0; 2],
        phase: flow.phase,
        ports: flow.ports,
        mark: flow.mark,
        end: End::Slice,
    };
    Snapshot { account, tcp: flow.tcp }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{Opening, Settings, Tuple};
    use wire::Headers;

    #[test]
    fn flows_of_vrfs_are_not_shared() {
        let table = Table::new(&Settings { memory: 4 << 20, ..Settings::default() }).unwrap();
        let mut worker = table.worker().unwrap();
        let mut here = Here::new(&table, None, Timeouts::default(), Vec::new()).unwrap();
        let ip = [
            &[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1, 0, 7, 0, 53][..],
            &[0, 8, 0, 0],
        ];
        let (ip, now) = (ip.concat(), 1 << 40);
        let headers = Headers::parse(&ip).unwrap();
        let mut open = |vrf| {
            let original = Tuple::of(&headers, vrf);
            let opening =
                Opening { headers: &headers, ip: &ip, original, reply: None, ports: [0, 1], mark: 0 };
            match worker.insert(&opening, now) {
                Ok(Inserted::New(hit)) => hit.id(),
                other => panic!("{other:?}"),
            }
        };
        let entries = [open(0), open(7)];
        here.begin();
        assert_eq!(entries.map(|entry| here.at(entry, now).is_some()), [true, false]);
        let mut shown = 0;
        here.look(0, u32::MAX, now, &mut |_, _| shown += 1);
        assert_eq!(shown, 1);
        here.finish();
    }
}
