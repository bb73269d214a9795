//! What the driver is told of the rules, so that flows that they have decided are offloaded to it,
//! and what comes back: how often each rule let a packet of such a flow pass.
//!
//! The driver counts by verdict, for every processor apart. Rules are counted by the control
//! thread, which reads the driver's figures from time to time and adds what has come since
//! ([`Offload::fold`]), in a column of the rules' accounts that no worker writes. When the rules
//! change, a packet or two may still be forwarded by the old ones: so old and new verdicts lie in
//! different halves, and the old rules get what was theirs until the next change.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use port::driver::{Counted, Half, OffloadedVerdict, Verdicts};
use rules::{Compiled, FlowState};

use super::rulebook::Verdict;

/// The way to the driver.
pub(super) struct Offload {
    verdicts: Arc<Verdicts>,
    /// Whose counts the driver's are, beside the workers'.
    column: usize,
    /// Whether the verdicts of the rules in force are in the second half.
    second: AtomicBool,
    tally: Mutex<Tally>,
}

/// What has been counted with rules so far.
#[derive(Default)]
struct Tally {
    /// By half and number.
    counted: [Vec<Counted>; 2],
    /// The rules before those in force.
    before: Option<(Compiled, Vec<Verdict>)>,
}

impl Offload {
    pub fn new(verdicts: Arc<Verdicts>, column: usize) -> Offload {
        Offload { verdicts, column, second: AtomicBool::new(false), tally: Mutex::default() }
    }

    /// From now on, flows are offloaded by verdicts of this generation alone; these were the rules
    /// before.
    pub fn begin(&self, generation: u32, before: Option<(Compiled, Vec<Verdict>)>) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).before = before;
        self.second.fetch_not(Relaxed);
        self.verdicts.begin(generation, self.half());
    }

    /// Where the verdicts of the rules in force are.
    fn half(&self) -> Half {
        if self.second.load(Relaxed) { Half::Second } else { Half::First }
    }

    /// Whether flows are translated now.
    pub fn translate(&self, on: bool) {
        self.verdicts.translate(on);
    }

    /// Makes a verdict of the rules in force known.
    pub fn add(&self, number: u32, verdict: &Verdict) {
        let unanswered = match verdict.state {
            FlowState::New => true,
            FlowState::Established => false,
            _ => return,
        };
        let offloaded = OffloadedVerdict { output: verdict.output, unanswered, dscp: verdict.dscp };
        self.verdicts.add(self.half(), number as usize, offloaded);
    }

    /// Counts what the driver has forwarded since the last time with the rules that let it pass.
    pub fn fold(&self, compiled: &Compiled, verdicts: &[Verdict]) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let (half, Tally { counted, before }) = (self.half(), &mut *tally);
        if let Some((compiled, verdicts)) = before {
            self.fold_half(half.other(), &mut counted[half.other() as usize], compiled, verdicts);
        }
        self.fold_half(half, &mut counted[half as usize], compiled, verdicts);
    }

    fn fold_half(&self, half: Half, counted: &mut Vec<Counted>, compiled: &Compiled, verdicts: &[Verdict]) {
        for (number, verdict) in verdicts.iter().enumerate() {
            // What cannot be read now is read the next time.
            let Ok(now) = self.verdicts.counted(half, number) else { continue };
            if counted.len() <= number {
                counted.resize(number + 1, Counted::default());
            }
            let then = std::mem::replace(&mut counted[number], now);
            let packets = now.packets - then.packets;
            if packets == 0 {
                continue;
            }
            for rule in verdict.rules.into_iter().flatten() {
                let bytes = now.bytes - then.bytes;
                compiled.accounts().count(self.column, rule, packets, bytes, now.last);
            }
        }
    }
}
