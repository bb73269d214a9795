//! What one router has told the other of, what it was told, and what both come to.
//!
//! Flows are in 256 slices, by the first byte of their mark. Each slice has two sums: of what was
//! told, and of what was heard and is in the table here. The order in which flows came and went
//! makes no difference to a sum. So who tells can say at any place of the stream what all that it
//! has told comes to, and who hears has the same sum there, or a difference to repair.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use flow::{Phase, Tuple};
use siphasher::sip::SipHasher13;

use crate::shared::Flow;

/// How many slices there are.
pub(crate) const SLICES: usize = 256;

/// What flows come to: how many, and the sum of what each of them is, as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) flows: u32,
    pub(crate) digest: u64,
}

impl Sum {
    /// Has one number in the place of another; 0 is none.
    fn exchange(&mut self, before: &mut u64, after: u64) {
        self.flows = self.flows.wrapping_sub(u32::from(*before != 0)).wrapping_add(u32::from(after != 0));
        self.digest = self.digest.wrapping_sub(*before).wrapping_add(after);
        *before = after;
    }
}

/// Numbers that both routers make of flows in the same way, and nobody without the key can foresee.
#[derive(Clone)]
pub(crate) struct Marks(SipHasher13);

impl Marks {
    pub(crate) fn new(secret: &[u8; 16]) -> Marks {
        Marks(SipHasher13::new_with_key(secret))
    }

    /// A flow's name: its mark.
    pub(crate) fn mark(&self, original: &Tuple) -> u64 {
        let mut hasher = self.0;
        write(&mut hasher, original);
        hasher.finish()
    }

    /// What a flow of this mark is, if it is told to be in this phase. Never 0.
    pub(crate) fn content(&self, mark: u64, flow: &Flow, phase: Phase) -> u64 {
        let mut hasher = self.0;
        hasher.write(&mark.to_be_bytes());
        write(&mut hasher, &flow.reply);
        hasher.write(&[phase as u8, flow.mark]);
        hasher.finish().max(1)
    }
}

fn write(hasher: &mut SipHasher13, tuple: &Tuple) {
    let Tuple { source, destination, source_port, destination_port, protocol, table: _ } = tuple;
    let mut bytes = [0; 37];
    bytes[..16].copy_from_slice(source);
    bytes[16..32].copy_from_slice(destination);
    bytes[32..34].copy_from_slice(&source_port.to_be_bytes());
    bytes[34..36].copy_from_slice(&destination_port.to_be_bytes());
    bytes[36] = *protocol;
    hasher.write(&bytes);
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Its entry in the table.
    pub(crate) entry: u32,
    /// Its packets, the lower bits of their number, when it was last not this router's.
    pub(crate) packets: u32,
    /// Whether packets of it have been seen here since.
    pub(crate) carried: bool,
    /// What the other router was told that it is; 0: nothing.
    mine: u64,
    /// What the other router has told that it is; 0: nothing.
    theirs: u64,
    /// The phase that it was heard to be in.
    pub(crate) phase: Phase,
    /// Seconds of the clock at its last packet, as was told.
    pub(crate) told: u32,
    /// Whether it waits to be told.
    pub(crate) waits: bool,
    /// Whether it is to be told as a whole, though the other router may know.
    pub(crate) anew: bool,
    /// How often in a row both routers have been found to carry it; `packets` is then what had
    /// passed here when that was heard last.
    pub(crate) contests: u8,
    /// Whether it will be looked at again for that.
    pub(crate) looks: bool,
    /// Whether it was heard of since the other router began to tell its slice anew.
    pub(crate) retold: bool,
    /// The pass of the audit that has met it last.
    pub(crate) pass: u8,
}

impl Known {
    pub(crate) fn new(entry: u32, packets: u32, carried: bool, pass: u8) -> Known {
        Known {
            entry,
            packets,
            carried,
            mine: 0,
            theirs: 0,
            phase: Phase::Unreplied,
            told: 0,
            waits: false,
            anew: false,
            contests: 0,
            looks: false,
            retold: false,
            pass,
        }
    }

    pub(crate) fn mine(&self) -> u64 {
        self.mine
    }

    pub(crate) fn theirs(&self) -> u64 {
        self.theirs
    }

    /// Whether this router tells of it: it carries it, or nobody else has told of it.
    pub(crate) fn is_own(&self) -> bool {
        self.carried || self.theirs == 0
    }
}

/// Turns a mark, of which all of a slice have the first byte in common, so that its other bits
/// choose.
#[derive(Default)]
pub(crate) struct Turned(u64);

impl Hasher for Turned {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, mark: u64) {
        self.0 = mark.rotate_left(8);
    }
}

/// One of [`SLICES`].
#[derive(Default)]
pub(crate) struct Slice {
    known: HashMap<u64, Known, BuildHasherDefault<Turned>>,
    /// What was told, and what was heard and is here.
    pub(crate) mine: Sum,
    pub(crate) theirs: Sum,
}

/// All that is known.
pub(crate) struct Book {
    slices: Vec<Slice>,
}

pub(crate) fn slice_of(mark: u64) -> u8 {
    (mark >> 56) as u8
}

impl Book {
    pub(crate) fn new() -> Book {
        Book { slices: (0..SLICES).map(|_| Slice::default()).collect() }
    }

    pub(crate) fn slice(&self, slice: u8) -> &Slice {
        &self.slices[usize::from(slice)]
    }

    /// Flows that are known, whoever was told of them.
    pub(crate) fn len(&self) -> usize {
        self.slices.iter().map(|slice| slice.known.len()).sum()
    }

    pub(crate) fn get(&mut self, mark: u64) -> Option<&mut Known> {
        self.slices[usize::from(slice_of(mark))].known.get_mut(&mark)
    }

    pub(crate) fn add(&mut self, mark: u64, known: Known) {
        self.slices[usize::from(slice_of(mark))].known.insert(mark, known);
    }

    pub(crate) fn remove(&mut self, mark: u64) {
        self.set_mine(mark, 0);
        self.set_theirs(mark, 0);
        self.slices[usize::from(slice_of(mark))].known.remove(&mark);
    }

    /// Notes what the other router is told of a flow.
    pub(crate) fn set_mine(&mut self, mark: u64, content: u64) {
        let Slice { known, mine, .. } = &mut self.slices[usize::from(slice_of(mark))];
        known.get_mut(&mark).into_iter().for_each(|known| mine.exchange(&mut known.mine, content));
    }

    /// Notes what it has told.
    pub(crate) fn set_theirs(&mut self, mark: u64, content: u64) {
        let Slice { known, theirs, .. } = &mut self.slices[usize::from(slice_of(mark))];
        known.get_mut(&mark).into_iter().for_each(|known| theirs.exchange(&mut known.theirs, content));
    }

    /// The other router begins anew: nothing was told, and nothing heard.
    pub(crate) fn forget(&mut self) {
        for slice in &mut self.slices {
            (slice.mine, slice.theirs) = (Sum::default(), Sum::default());
            for known in slice.known.values_mut() {
                (known.mine, known.theirs, known.waits) = (0, 0, false);
                (known.anew, known.contests, known.looks) = (false, 0, false);
            }
        }
    }

    /// The marks of a slice of which this is so.
    pub(crate) fn marks(&self, slice: u8, wanted: impl Fn(&Known) -> bool) -> Vec<u64> {
        let known = self.slice(slice).known.iter();
        known.filter(|(_, known)| wanted(known)).map(|(mark, _)| *mark).collect()
    }

    pub(crate) fn each(&mut self, slice: u8, mut change: impl FnMut(&mut Known)) {
        self.slices[usize::from(slice)].known.values_mut().for_each(&mut change);
    }

    /// Flows told, and flows heard that are here.
    pub(crate) fn flows(&self) -> [u64; 2] {
        let sum = |of: fn(&Slice) -> &Sum| self.slices.iter().map(|slice| u64::from(of(slice).flows)).sum();
        [sum(|slice| &slice.mine), sum(|slice| &slice.theirs)]
    }
}
