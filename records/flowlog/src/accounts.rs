//! What the flow table says of a flow, as a record.
//!
//! The table tells totals since the flow's start, by a clock of its own, and a number that another
//! flow may have after this one. A record has what was added since the record before it, by the
//! calendar, and a number for ever. So something must be remembered of flows that live long: about
//! 100 bytes of each that has had a slice, and nothing of the others.

use std::collections::HashMap;

use flow::{Account, End, NO_PORT, Tuple};

use crate::record::{Counts, Endpoints, ICMP, ICMP6, Interface, Key, Reason, Record, address};

/// Makes records of one table's accounts. All accounts of a flow must come by the same one, in
/// their order.
#[derive(Debug)]
pub struct Accounts {
    epoch: u64,
    before: HashMap<u32, Before>,
}

/// What was told of a flow already.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// When the flow began: tells it from a later one with its number.
    start: u64,
    last: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
    slices: u32,
    /// Whether these have been told; else they are those of a flow that was [taken
    /// up](Accounts::take_up).
    told: bool,
}

impl Accounts {
    /// For a table whose clock was 0 at `epoch`, ns since 1970.
    pub fn new(epoch: u64) -> Accounts {
        Accounts { epoch, before: HashMap::new() }
    }

    /// The calendar was set: the table's clock was 0 at another time than it seemed.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// A flow was taken up after a crash, and nobody was told of what it has counted. It will be
    /// told with the flow's next record: but if nothing comes any more, it had ended before, and
    /// its end was told.
    pub fn take_up(&mut self, account: &Account) {
        let Account { id, start, last, packets, bytes, .. } = *account;
        self.before.insert(id, Before { start, last, packets, bytes, slices: 0, told: false });
    }

    /// The record of an account that the table handed out; `None`: a slice in which nothing came,
    /// or the end of a flow of which there is nothing to tell: one that was taken up after a
    /// restart, and told of before it. `index` has the ifindex of a port. Next hop and AS numbers
    /// are for the caller to fill in.
    pub fn record(&mut self, account: &Account, index: impl Fn(u16) -> u32) -> Option<Record> {
        let record = self.make(account, index);
        let before = self.before.remove(&account.id).filter(|before| before.start == account.start);
        if account.end == End::Slice {
            let told = Before {
                start: account.start,
                last: account.last,
                packets: account.packets,
                bytes: account.bytes,
                slices: record.slice + u32::from(record.packets() > 0),
                told: record.packets() > 0 || before.is_none_or(|before| before.told),
            };
            self.before.insert(account.id, told);
        }
        // A later end is told of also when nothing came since: the flow's last record said that it
        // lives.
        if record.packets() == 0 && (account.end == End::Slice || record.slice == 0) {
            return None;
        }
        let reason = match account.end {
            End::Slice => Reason::Active,
            End::Idle => Reason::Idle,
            End::Fin | End::Rst => Reason::End,
            End::Evicted => Reason::Resources,
            End::Flushed => Reason::Forced,
        };
        Some(Record { reason: Some(reason), ..record })
    }

    /// A flow that lives: what was added since its last record, without a reason. Nothing is
    /// remembered of it.
    pub fn living(&self, account: &Account, index: impl Fn(u16) -> u32) -> Record {
        self.make(account, index)
    }

    /// Long flows that something is remembered of.
    pub fn remembered(&self) -> usize {
        self.before.len()
    }

    fn make(&self, account: &Account, index: impl Fn(u16) -> u32) -> Record {
        let before = self.before.get(&account.id).filter(|before| before.start == account.start);
        let before = before.filter(|before| before.told || before.packets == account.packets);
        let counts = |side: usize| Counts {
            packets: account.packets[side].saturating_sub(before.map_or(0, |before| before.packets[side])),
            bytes: account.bytes[side].saturating_sub(before.map_or(0, |before| before.bytes[side])),
            tcp_flags: account.tcp_flags[side],
        };
        let interface = |port: u16| match port {
            NO_PORT => Interface::default(),
            port => Interface { index: index(port), ..Interface::default() },
        };
        let original = &account.original;
        Record {
            flow: number(account),
            slice: before.map_or(0, |before| before.slices),
            start: self.epoch.saturating_add(before.map_or(account.start, |before| before.last)),
            end: self.epoch.saturating_add(account.last),
            forward: counts(0),
            reply: counts(1),
            input: interface(account.ports[0]),
            output: interface(account.ports[1]),
            translated: account.is_translated().then(|| endpoints(&account.reply.reversed())),
            ..Record::of(Key {
                source: address(original.source),
                destination: address(original.destination),
                source_port: original.source_port,
                destination_port: original.destination_port,
                protocol: original.protocol,
                // Of ICMP, only what is answered makes a flow; and of that, all that one meets is
                // echo.
                icmp_type: match original.protocol {
                    ICMP => 8,
                    ICMP6 => 128,
                    _ => 0,
                },
                icmp_code: 0,
                table: u32::from(original.table),
            })
        }
    }
}

fn endpoints(tuple: &Tuple) -> Endpoints {
    Endpoints {
        source: address(tuple.source),
        destination: address(tuple.destination),
        source_port: tuple.source_port,
        destination_port: tuple.destination_port,
    }
}

/// Unlike the table's number not used again: when the flow began, in steps of 128 ns (as exact as
/// the table has it), and from the other end of its 63 bits the table's number. So neither flows of
/// one batch, which all began at the same time, nor those that the table had under one number one
/// after the other are ever taken for each other.
fn number(account: &Account) -> u64 {
    (account.start >> 7) ^ (u64::from(account.id.reverse_bits()) << 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use flow::Phase;

    use super::*;

    const EPOCH: u64 = 1_795_280_400_000_000_000;

    fn account(end: End, packets: u64, last: u64) -> Account {
        let mut original =
            Tuple { source_port: 1000, destination_port: 443, protocol: 6, ..Tuple::default() };
        original.source[10..].copy_from_slice(&mapped([198, 18, 0, 9]));
        original.destination[10..].copy_from_slice(&mapped([198, 18, 1, 7]));
        Account {
            id: 7,
            original,
            reply: original.reversed(),
            start: 1280,
            last,
            packets: [packets, packets / 2],
            bytes: [packets * 100, packets * 50],
            tcp_flags: [0x1b, 0x12],
            phase: Phase::Open,
            ports: [0, NO_PORT],
            mark: 0,
            end,
        }
    }

    fn mapped([a, b, c, d]: [u8; 4]) -> [u8; 6] {
        [0xff, 0xff, a, b, c, d]
    }

    #[test]
    fn what_a_crash_left_untold_is_told_of_flows_that_go_on() {
        let mut accounts = Accounts::new(EPOCH);
        let index = |port: u16| u32::from(port) + 2;
        // It had ended, and that was told.
        accounts.take_up(&account(End::Slice, 10, 60_000));
        assert_eq!(accounts.record(&account(End::Slice, 10, 60_000), index), None);
        assert_eq!(accounts.record(&account(End::Idle, 10, 60_000), index), None);
        // It goes on, now or after a slice in which nothing came.
        for slices in 0..2 {
            accounts.take_up(&account(End::Slice, 10, 60_000));
            for _ in 0..slices {
                assert_eq!(accounts.record(&account(End::Slice, 10, 60_000), index), None);
            }
            let slice = accounts.record(&account(End::Slice, 12, 90_000), index).unwrap();
            let end = accounts.record(&account(End::Fin, 16, 99_000), index).unwrap();
            assert_eq!([slice.forward.packets, end.forward.packets], [12, 4]);
            assert_eq!([slice.slice, end.slice], [0, 1]);
        }
        assert_eq!(accounts.remembered(), 0);
    }

    #[test]
    fn slices_add_up_to_the_flow_and_are_told_from_one_another() {
        let mut accounts = Accounts::new(EPOCH);
        let index = |port: u16| u32::from(port) + 2;
        let first = accounts.record(&account(End::Slice, 10, 60_000), index).unwrap();
        assert_eq!(accounts.record(&account(End::Slice, 10, 60_000), index), None);
        let living = accounts.living(&account(End::Slice, 14, 90_000), index);
        let last = accounts.record(&account(End::Fin, 16, 99_000), index).unwrap();
        assert_eq!([first.slice, living.slice, last.slice], [0, 1, 1]);
        assert_eq!([first.forward.packets, living.forward.packets, last.forward.packets], [10, 4, 6]);
        assert_eq!(first.bytes() + last.bytes(), 16 * 100 + 16 * 50);
        assert_eq!((first.start, first.end), (EPOCH + 1280, EPOCH + 60_000));
        assert_eq!((last.start, last.end), (EPOCH + 60_000, EPOCH + 99_000));
        assert_eq!(
            (first.reason, living.reason, last.reason),
            (Some(Reason::Active), None, Some(Reason::End))
        );
        assert!(first.flow == last.flow && accounts.remembered() == 0);
        assert_eq!((first.input.index, first.output.index), (2, 0));
        assert_eq!(first.key.source.to_string(), "198.18.0.9");
        // Another flow with the table's number, later.
        let other = Account { start: 1 << 40, ..account(End::Idle, 3, 2 << 40) };
        let other = accounts.record(&other, index).unwrap();
        assert!(other.flow != first.flow && other.slice == 0);
    }

    #[test]
    fn a_flow_without_a_packet_leaves_no_record() {
        let mut accounts = Accounts::new(EPOCH);
        assert_eq!(accounts.record(&account(End::Flushed, 0, 1280), u32::from), None);
        // Silent for a slice, and then for good.
        assert_eq!(accounts.record(&account(End::Slice, 0, 1280), u32::from), None);
        assert_eq!(accounts.record(&account(End::Idle, 0, 1280), u32::from), None);
        assert_eq!(accounts.remembered(), 0);
        // Where a record said that it lives, another says that it does no more.
        assert!(accounts.record(&account(End::Slice, 3, 60_000), u32::from).is_some());
        let end = accounts.record(&account(End::Idle, 3, 60_000), u32::from).unwrap();
        assert_eq!((end.packets(), end.slice, end.reason), (0, 1, Some(Reason::Idle)));
    }

    #[test]
    fn flows_that_began_together_have_numbers_of_their_own() {
        let start = (5u64 << 55) - 128;
        let numbers: HashSet<u64> =
            (0..100_000).map(|id| number(&Account { id, start, ..account(End::Idle, 1, start) })).collect();
        assert_eq!(numbers.len(), 100_000);
        assert!(numbers.iter().all(|&number| i64::try_from(number).is_ok()), "Parquet has them with a sign");
        let number = |start| number(&Account { start, ..account(End::Idle, 1, start) });
        assert_ne!(number(start), number(start - 128));
    }

    #[test]
    fn a_flow_whose_end_got_lost_does_not_spoil_the_next_with_its_number() {
        let mut accounts = Accounts::new(EPOCH);
        accounts.record(&account(End::Slice, 1000, 60_000), u32::from);
        let next = Account { start: 1 << 40, ..account(End::Idle, 3, 2 << 40) };
        let record = accounts.record(&next, u32::from).unwrap();
        assert_eq!((record.forward.packets, record.slice, accounts.remembered()), (3, 0, 0));
    }

    #[test]
    fn a_translated_flow_has_the_ends_behind_the_router() {
        let mut translated = account(End::Rst, 4, 5000);
        translated.reply.destination[10..].copy_from_slice(&mapped([203, 0, 113, 1]));
        translated.reply.destination_port = 40_000;
        let record = Accounts::new(0).record(&translated, u32::from).unwrap();
        let behind = record.translated.unwrap();
        assert_eq!((behind.source.to_string().as_str(), behind.source_port), ("203.0.113.1", 40_000));
        assert_eq!((behind.destination.to_string().as_str(), behind.destination_port), ("198.18.1.7", 443));
    }
}
