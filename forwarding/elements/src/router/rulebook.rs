//! The filter as all workers share it: changed by the control thread, read by workers without a
//! lock as long as it stays.
//!
//! A flow need not be judged again for every packet. What the chains came to is a *verdict*: which
//! rules decided, for which state of the flow and out port. Verdicts are few, however many flows
//! there are, so they are numbered, and a flow's entry keeps for each direction a word with the
//! number and the generation of the rules that it was found with. New rules make all words old at
//! once, and each flow's next packet is judged anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use abi::flow::decision::NUMBER;
use crossbeam_queue::ArrayQueue;
use fib::InterfaceId;
use flow::State;
use port::driver::Verdicts;
use rules::{Compiled, FlowState, RuleId};
use wire::Headers;

use super::offload::Offload;
use super::track::called;

/// Verdicts of one generation that are remembered; the flows of others are judged packet by packet.
const VERDICTS: usize = 1 << NUMBER;
/// The bits of the generation there: no flow sleeps for so many changes of the rules.
const GENERATION: u32 = u32::MAX >> NUMBER;
/// Lines for the log that may wait to be written.
const LINES: usize = 4096;

/// What all packets of a flow's direction come to, while nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Verdict {
    pub state: FlowState,
    pub output: InterfaceId,
    /// The rules that decided, at the hooks input, forward and output.
    pub rules: [Option<RuleId>; 3],
    pub mark: u32,
    pub dscp: Option<u8>,
}

/// A packet that a rule wants in the log.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    /// The rule, of the filter of this generation.
    pub rule: RuleId,
    /// The generation of the rules.
    pub generation: u32,
    /// The packet.
    pub headers: Headers,
    /// Where it came in.
    pub input: InterfaceId,
    /// Where it would leave.
    pub output: Option<InterfaceId>,
}

/// The filter that workers apply.
pub struct Rulebook {
    /// Never with 0 in the bits that words have of it, so that a word is never 0.
    generation: AtomicU32,
    page: Mutex<Page>,
    /// The way to the driver, where flows are offloaded to it.
    offload: OnceLock<Offload>,
    /// Seconds that the machine's time zone is ahead of universal time.
    local_offset: AtomicI32,
    /// Packets to be told of in the log.
    pub log: ArrayQueue<Logged>,
    /// Those for which there was no room.
    pub unlogged: AtomicU64,
}

struct Page {
    compiled: Compiled,
    verdicts: Vec<Verdict>,
    numbers: HashMap<Verdict, u32>,
}

impl Rulebook {
    /// A filter to begin with.
    pub fn new(compiled: Compiled) -> Arc<Rulebook> {
        Arc::new(Rulebook {
            generation: AtomicU32::new(1),
            page: Mutex::new(Page { compiled, verdicts: Vec::new(), numbers: HashMap::new() }),
            offload: OnceLock::new(),
            local_offset: AtomicI32::new(0),
            log: ArrayQueue::new(LINES),
            unlogged: AtomicU64::new(0),
        })
    }

    /// Puts another filter in force: every worker goes over to it with its next batch, and the
    /// driver forwards nothing by the old one.
    pub fn change(&self, compiled: Compiled) {
        self.fold();
        let mut page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Page { compiled, verdicts: Vec::new(), numbers: HashMap::new() };
        let old = std::mem::replace(&mut *page, new);
        let before = self.generation.load(Ordering::Relaxed);
        let next = before.wrapping_add(1);
        let next = if next & GENERATION == 0 { next + 1 } else { next };
        if let Some(offload) = self.offload.get() {
            offload.begin(next & GENERATION, Some((old.compiled, old.verdicts)));
        }
        self.generation.store(next, Ordering::Release);
    }

    /// Has each flow's next packet judged anew, by the same filter.
    pub fn ask_anew(&self) {
        let (compiled, _) = self.current();
        self.change(compiled);
    }

    /// Offloads the flows that this filter decides to the driver; what it counts goes into this
    /// column of the rules' accounts.
    pub fn offload(&self, verdicts: Arc<Verdicts>, column: usize) {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let offload = self.offload.get_or_init(|| Offload::new(verdicts, column));
        offload.begin(self.generation.load(Ordering::Relaxed) & GENERATION, None);
        page.verdicts.iter().zip(0..).for_each(|(verdict, number)| offload.add(number, verdict));
    }

    /// Whether flows are translated now: else the driver leaves to workers those that were.
    pub fn translate(&self, on: bool) {
        self.offload.get().into_iter().for_each(|offload| offload.translate(on));
    }

    /// Counts with the rules what the driver has forwarded since the last time.
    pub fn fold(&self) {
        let Some(offload) = self.offload.get() else { return };
        let (compiled, verdicts) = {
            let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            (page.compiled.clone(), page.verdicts.clone())
        };
        offload.fold(&compiled, &verdicts);
    }

    /// Seconds that the machine's time zone is ahead of universal time now.
    pub fn local_offset(&self) -> i32 {
        self.local_offset.load(Ordering::Relaxed)
    }

    /// Sets [`local_offset`](Self::local_offset): it changes with the seasons.
    pub fn set_local_offset(&self, seconds: i32) {
        self.local_offset.store(seconds, Ordering::Relaxed);
    }

    /// The filter in force, and its generation.
    pub fn current(&self) -> (Compiled, u32) {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        (page.compiled.clone(), self.generation.load(Ordering::Relaxed))
    }
}

/// One element's copy of the page in force.
pub(super) struct Reader {
    book: Arc<Rulebook>,
    generation: u32,
    /// The bits of the generation, as they stand in words.
    bits: u32,
    compiled: Compiled,
    verdicts: Vec<Verdict>,
    /// What plain packets ask of each verdict.
    briefs: Vec<Brief>,
}

/// What a plain packet asks of a verdict.
#[derive(Clone, Copy)]
pub(super) struct Brief {
    /// Where it lets the packet out.
    pub output: InterfaceId,
    /// What the packet must be to its flow; `None` where more is to be done to it than to let it
    /// out.
    pub state: Option<State>,
}

impl Brief {
    fn of(verdict: &Verdict) -> Brief {
        let states = [State::New, State::Established, State::Related, State::Invalid];
        let state = states.into_iter().find(|state| called(*state) == verdict.state);
        Brief { output: verdict.output, state: state.filter(|_| verdict.dscp.is_none()) }
    }
}

impl Reader {
    pub fn new(book: Arc<Rulebook>) -> Reader {
        let (compiled, generation) = book.current();
        let bits = (generation & GENERATION) << NUMBER;
        Reader { book, generation, bits, compiled, verdicts: Vec::new(), briefs: Vec::new() }
    }

    /// Takes note of a change; once a batch.
    #[inline]
    pub fn refresh(&mut self) {
        if self.book.generation.load(Ordering::Acquire) != self.generation {
            *self = Reader::new(self.book.clone());
        }
    }

    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    pub fn book(&self) -> &Rulebook {
        &self.book
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The verdict that a flow's word stands for, if it is of the rules in force.
    #[inline(always)]
    pub fn verdict(&mut self, word: u32) -> Option<&Verdict> {
        let number = self.number(word);
        if number >= self.verdicts.len() {
            self.learn(number)?;
        }
        self.verdicts.get(number)
    }

    /// The same for plain packets.
    #[inline(always)]
    pub fn brief(&mut self, word: u32) -> Option<Brief> {
        let number = self.number(word);
        if number >= self.briefs.len() {
            self.learn(number)?;
        }
        self.briefs.get(number).copied()
    }

    /// The number of the verdict that a word stands for; one that no verdict has, if it is of other
    /// rules than those in force.
    #[inline(always)]
    fn number(&self, word: u32) -> usize {
        (word ^ self.bits) as usize
    }

    #[cold]
    fn learn(&mut self, number: usize) -> Option<()> {
        if number >= VERDICTS {
            return None;
        }
        let page = self.book.page.lock().unwrap_or_else(PoisonError::into_inner);
        // Otherwise the next batch begins with a new page.
        if self.book.generation.load(Ordering::Acquire) == self.generation {
            let new = page.verdicts.get(self.verdicts.len()..)?;
            self.verdicts.extend_from_slice(new);
            self.briefs.extend(new.iter().map(Brief::of));
        }
        (number < self.verdicts.len()).then_some(())
    }

    /// The word for a verdict; `None` when there are too many, or the rules have changed meanwhile.
    #[cold]
    pub fn word(&mut self, verdict: &Verdict) -> Option<u32> {
        let mut page = self.book.page.lock().unwrap_or_else(PoisonError::into_inner);
        if self.book.generation.load(Ordering::Acquire) != self.generation {
            return None;
        }
        let number = match page.numbers.get(verdict) {
            Some(number) => *number,
            None if page.verdicts.len() >= VERDICTS => return None,
            None => {
                let number = page.verdicts.len() as u32;
                page.verdicts.push(*verdict);
                page.numbers.insert(*verdict, number);
                if let Some(offload) = self.book.offload.get() {
                    offload.add(number, verdict);
                }
                number
            }
        };
        Some(self.bits | number)
    }
}
