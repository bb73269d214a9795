//! One router's part in sharing: when it looks, what it says of itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::vec::IntoIter;

use flow::Tuple;

use crate::book::{Book, Marks, SLICES};
use crate::link::{Link, SILENCE};
use crate::message::Message;
use crate::seal::Seal;
use crate::shared::Flow;
use crate::status::{Figures, State, Status};
use crate::table::Here;
use crate::{Dropped, Epoch, Key};

/// How often the table is asked for what is new.
const STEP: u64 = 25_000_000;
/// Nanoseconds for which a router that has begun waits for the other, before it is ready without
/// it.
pub const ALONE: u64 = 5_000_000_000;

/// What is known of a slice.
#[derive(Clone, Copy, Default)]
pub(crate) struct Compared {
    /// The peer was told all of it.
    pub(crate) told: bool,
    /// The peer has told all of it.
    pub(crate) joined: bool,
    /// By how many flows it differs, at least one where it does.
    pub(crate) differs: Option<u32>,
    /// When it is asked for at the earliest, and how often it was.
    pub(crate) ask_at: u64,
    pub(crate) asks: u32,
}

/// A flow that has no place here yet.
pub(crate) struct Waits {
    pub(crate) flow: Flow,
    pub(crate) again: u64,
    pub(crate) until: u64,
}

/// The audit of the book by the table: one pass over the table, then one over the book.
#[derive(Clone, Copy, Default)]
pub(crate) struct Audit {
    pub(crate) pass: u8,
    /// The next entry of the table, or slice of the book.
    pub(crate) entry: Option<u32>,
    pub(crate) slice: usize,
    /// Whether the table has been seen whole.
    pub(crate) knows: bool,
    /// When the pass began.
    pub(crate) since: u64,
}

/// A slice that is being told.
pub(crate) struct Transfer {
    pub(crate) slice: u8,
    pub(crate) marks: IntoIter<u64>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) compared: u64,
    pub(crate) repaired: u64,
    pub(crate) refused: u64,
    sessions: u64,
    sent: u64,
    received: u64,
    dropped: BTreeMap<Dropped, u64>,
}

/// All but the way to the peer.
pub(crate) struct Sharing {
    pub(crate) marks: Marks,
    pub(crate) book: Book,
    pub(crate) up: bool,
    pub(crate) gives_way: bool,
    /// News to tell, and since when.
    pub(crate) waiting: VecDeque<(u64, u64)>,
    /// Entries that are looked at again, and when.
    pub(crate) young: VecDeque<(u64, u32)>,
    /// Flows that both routers carry, by when they are looked at again.
    pub(crate) contested: BTreeSet<(u64, u64)>,
    /// Numbers of interfaces to name, and how they were named last.
    pub(crate) names: VecDeque<u16>,
    pub(crate) named: Vec<String>,
    /// The peer's numbers of interfaces, and which they are here.
    pub(crate) interfaces: HashMap<u16, u16>,
    pub(crate) transfers: VecDeque<u8>,
    pub(crate) transfer: Option<Transfer>,
    pub(crate) paced: u64,
    pub(crate) asks: VecDeque<u8>,
    pub(crate) sum_at: u64,
    pub(crate) sum: u8,
    pub(crate) slices: Vec<Compared>,
    /// Flows without a place, by their marks.
    pub(crate) refused: HashMap<u64, Waits>,
    /// Flows that have ended at the peer and could not be ended here yet.
    pub(crate) ending: Vec<u32>,
    pub(crate) audit: Audit,
    pub(crate) counts: Counts,
}

/// See the head of this file.
pub struct Sharer {
    link: Link,
    sharing: Sharing,
    began: u64,
    step_at: u64,
    ready: bool,
}

impl Sharer {
    /// With this key. The epoch is drawn by chance, once for each.
    pub fn new(key: &Key, epoch: Epoch, now: u64) -> Sharer {
        // Nothing that is sent has this nonce, and nobody without the key the tag.
        let secret = Seal::new(key).close(Epoch::NONE, 0, b"marks of flows");
        let secret = secret.last_chunk().copied().unwrap_or_default();
        let sharing = Sharing {
            marks: Marks::new(&secret),
            book: Book::new(),
            up: false,
            gives_way: false,
            waiting: VecDeque::new(),
            young: VecDeque::new(),
            contested: BTreeSet::new(),
            names: VecDeque::new(),
            named: Vec::new(),
            interfaces: HashMap::new(),
            transfers: VecDeque::new(),
            transfer: None,
            paced: now,
            asks: VecDeque::new(),
            sum_at: now,
            sum: 0,
            slices: vec![Compared::default(); SLICES],
            refused: HashMap::new(),
            ending: Vec::new(),
            audit: Audit { entry: Some(0), since: now, ..Audit::default() },
            counts: Counts::default(),
        };
        Sharer { link: Link::new(key, epoch), sharing, began: now, step_at: now, ready: false }
    }

    /// A datagram from the peer's address.
    pub fn hear(&mut self, datagram: &[u8], now: u64, here: &mut Here) {
        let heard = match self.link.hear(datagram, now) {
            Ok(heard) => heard,
            Err(dropped) => return self.drop(dropped),
        };
        self.sharing.counts.received += 1;
        if heard.began {
            self.sharing.counts.sessions += 1;
            self.sharing.begin(self.link.is_up(), self.link.gives_way());
        }
        if heard.parcels.is_empty() {
            return;
        }
        here.begin();
        for parcel in heard.parcels {
            match Message::all(&parcel) {
                Some(messages) => messages.into_iter().for_each(|it| self.sharing.take(it, now, here)),
                None => self.drop(Dropped::Malformed),
            }
        }
        here.finish();
    }

    /// A datagram was dropped.
    pub fn drop(&mut self, why: Dropped) {
        *self.sharing.counts.dropped.entry(why).or_default() += 1;
    }

    /// A flow with this original tuple has ended here.
    pub fn ended(&mut self, original: &Tuple, now: u64) {
        if original.table == 0 {
            let mark = self.sharing.marks.mark(original);
            self.sharing.is_news(mark, now);
        }
    }

    /// Time has passed: looks at what is new in the table, and holds a part of it against the book.
    pub fn step(&mut self, now: u64, here: &mut Here) {
        if now < self.step_at {
            return;
        }
        self.step_at = now + STEP;
        here.begin();
        self.sharing.look(now, here);
        here.finish();
        self.ready |= match self.state(now) {
            State::Alone => now.saturating_sub(self.began) > ALONE,
            State::Joining => false,
            State::Shared | State::Differs | State::Silent => true,
        };
    }

    /// The next datagram to send, until there is none.
    pub fn next(&mut self, now: u64, here: &mut Here) -> Option<Vec<u8>> {
        here.begin();
        let sharing = &mut self.sharing;
        let datagram = self.link.next(now, |parcel| sharing.fill(parcel, now, here));
        here.finish();
        self.sharing.counts.sent += u64::from(datagram.is_some());
        datagram
    }

    /// When there is something to do, if nothing comes.
    pub fn until(&self, now: u64) -> u64 {
        let paced = self.sharing.has_transfers().then_some(self.sharing.paced.max(now + 1_000_000));
        let all = [Some(self.step_at), Some(self.link.until(now)), paced];
        all.into_iter().flatten().min().unwrap_or(now)
    }

    fn state(&self, now: u64) -> State {
        let slices = &self.sharing.slices;
        match self.link.heard() {
            None => State::Alone,
            Some(heard) if now.saturating_sub(heard) > SILENCE => State::Silent,
            _ if !slices.iter().all(|slice| slice.joined) => State::Joining,
            _ if slices.iter().any(|slice| slice.differs.is_some()) => State::Differs,
            _ => State::Shared,
        }
    }

    /// Whether this router has what the other could have given it since it began: flows are shared,
    /// or the other is not there. It stays so when the other begins anew: then this one has more.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// What there is to say of it.
    pub fn status(&self, now: u64) -> Status {
        let (sharing, counts) = (&self.sharing, &self.sharing.counts);
        let [told, held] = sharing.book.flows();
        let waits = sharing.waiting.front().map(|(_, since)| *since);
        let oldest = [waits, self.link.waits_since()].into_iter().flatten().min();
        let differing = sharing.slices.iter().filter_map(|slice| slice.differs);
        Status {
            state: self.state(now),
            heard: self.link.heard().map(|heard| now.saturating_sub(heard)),
            lag: oldest.map_or(0, |oldest| now.saturating_sub(oldest)),
            figures: Figures {
                waiting: sharing.waiting.len() as u64,
                told,
                held,
                joined: sharing.slices.iter().filter(|slice| slice.joined).count() as u64,
                differing: differing.clone().count() as u64,
                missing: differing.map(u64::from).sum(),
                sessions: counts.sessions,
                compared: counts.compared,
                repaired: counts.repaired,
                refused: counts.refused,
                sent: counts.sent,
                received: counts.received,
                resent: self.link.resent(),
            },
            dropped: counts.dropped.clone(),
        }
    }
}

impl Sharing {
    /// A session begins: the peer knows nothing. What it had told before is this router's now,
    /// until the peer says otherwise.
    fn begin(&mut self, up: bool, gives_way: bool) {
        self.book.forget();
        self.waiting.clear();
        self.interfaces.clear();
        self.asks.clear();
        self.refused.clear();
        self.contested.clear();
        self.named.clear();
        self.names.clear();
        (self.up, self.gives_way, self.transfer) = (up, gives_way, None);
        self.slices.fill(Compared::default());
        self.transfers = (0..=u8::MAX).collect();
    }
}
