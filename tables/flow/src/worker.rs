//! What a thread does with the table: looks up batches, makes flows, ends them.

use crate::entry::{Route, clock};
use crate::index::Place;
use crate::insert::{Start, begin};
use crate::key::Key;
use crate::lookup::lookup;
use crate::own::Own;
use crate::{Direction, End, Phase, Refused, Table, Tuple};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::Headers;
use wire::headers::mapped;

/// Packets of a batch at most.
pub const BATCH: usize = 64;
/// A thread's access to the table.
///
/// Between two batches it calls [`maintain`](Worker::maintain). Hits hold until then and no longer.
/// Before it sleeps it goes [`offline`](Worker::offline), or nothing that ends would ever be free
/// again.
pub struct Worker {
    pub(crate) table: Arc<Table>,
    pub(crate) own: Own,
}

/// A worker as others see it.
#[derive(Clone)]
pub struct Presence {
    table: Arc<Table>,
    place: usize,
}

impl Presence {
    /// The worker's thread never runs again: nobody need wait for it.
    pub fn end(&self) {
        self.table.epochs.offline(self.place);
    }
}

/// A flow that was found, until the next [`maintain`](Worker::maintain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub(crate) entry: u32,
    pub(crate) place: Place,
    /// Which way the packet goes.
    pub direction: Direction,
    /// Whether its answers are not just its packets turned around: its addresses or ports are
    /// translated, or answers come by another table. See [`Worker::reply`].
    pub translated: bool,
}

impl Hit {
    /// Tells the flow from every other that lives at the same time:
    /// [`Account::id`](crate::Account::id).
    pub fn id(&self) -> u32 {
        self.entry
    }
}

/// What a new flow is made of.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The first packet's headers.
    pub headers: &'a Headers,
    /// The first packet from its IP header on.
    pub ip: &'a [u8],
    /// As it came.
    pub original: Tuple,
    /// As answers will come, if not as the original turned around.
    pub reply: Option<Tuple>,
    /// The port the packet came by, and the one it leaves by; [`NO_PORT`](crate::NO_PORT) where not
    /// known.
    pub ports: [u16; 2],
    /// The mark that rules gave it.
    pub mark: u8,
}

/// The outcome of [`Worker::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The flow is there, with its first packet counted.
    New(Hit),
    /// It was there: a packet before this one in the batch, or another worker, was quicker. The
    /// packet is still to be [tracked](Worker::track), and a translation chosen for it to be given
    /// back.
    Existing(Hit),
}

impl Worker {
    pub(crate) fn new(table: Arc<Table>, place: usize) -> Worker {
        Worker { table, own: Own::new(place) }
    }

    /// The worker as others see it.
    pub fn presence(&self) -> Presence {
        Presence { table: self.table.clone(), place: self.own.place }
    }

    /// Looks up up to [`BATCH`] keys; their cache misses overlap.
    ///
    /// # Panics
    /// If there are more keys than [`BATCH`] or than `hits`.
    #[inline]
    pub fn lookup(&mut self, keys: &[Key], hits: &mut [Option<Hit>]) {
        let (found, searches) = lookup(&self.table, keys, hits);
        let counts = self.table.counts(self.own.place);
        counts.lookups.add(keys.len() as u64);
        counts.hits.add(found);
        counts.searches.add(searches);
    }

    /// Looks up one key.
    pub fn find(&mut self, key: &Key) -> Option<Hit> {
        let mut hit = [None];
        self.lookup(std::slice::from_ref(key), &mut hit);
        hit[0]
    }

    /// Asks for what [`track`](Worker::track) will write of the flows that were found.
    #[inline]
    pub fn prepare(&self, hits: &[Option<Hit>]) {
        for hit in hits.iter().flatten() {
            self.table.memory.cold()[hit.entry as usize].prefetch();
        }
    }

    /// Makes a flow, and counts its first packet. The tuple's protocol and `headers` decide whether
    /// the packet may open one at all: see [`opens`](Worker::opens).
    pub fn insert(&mut self, opening: &Opening<'_>, now: u64) -> Result<Inserted, Refused> {
        let (word, connection) = self.opening(opening.headers, opening.ip).ok_or(Refused::NotAnOpening)?;
        let start = Start {
            original: opening.original,
            reply: opening.reply,
            word,
            connection,
            route: Route::new(opening.ports, opening.mark),
            start: clock::to_start(now),
            last: clock::tick(now),
            packets: [1, 0],
            bytes: [u64::from(opening.headers.length), 0],
            reopens: connection.is_some(),
        };
        self.begin(start, now)
    }

    pub(crate) fn begin(&mut self, start: Start, now: u64) -> Result<Inserted, Refused> {
        let (table, own) = (&*self.table, &mut self.own);
        let counts = table.counts(own.place);
        let begun = begin(table, own, &start, clock::tick(now));
        match begun {
            Ok(Inserted::New(hit)) => {
                counts.new.add(1);
                table.begun.note(hit.entry);
            }
            Err(Refused::Full) => counts.overflow.add(1),
            _ => {}
        }
        begun
    }

    /// Ends a flow now, for this reason. False if it had ended before, or if so many are waiting to
    /// be free that this has to wait as well.
    pub fn end(&mut self, hit: &Hit, why: End) -> bool {
        self.own.end(&self.table, hit.entry, why)
    }

    /// How far a flow is; `None` when it has ended.
    pub fn phase(&self, hit: &Hit) -> Option<Phase> {
        self.table.memory.hot()[hit.entry as usize].state().phase()
    }

    /// The original tuple of a flow.
    pub fn original(&self, hit: &Hit) -> Tuple {
        self.table.memory.hot()[hit.entry as usize].key().tuple()
    }

    /// As answers come: the reversed original, unless the flow is translated, or they come by
    /// another table.
    pub fn reply(&self, hit: &Hit) -> Tuple {
        self.table.reply_of(hit.entry)
    }

    /// How a packet of this flow that goes this way leaves: as the flow's other side sees it.
    #[inline(always)]
    pub fn leaving(&self, hit: &Hit, direction: Direction) -> Tuple {
        let hot = &self.table.memory.hot()[hit.entry as usize];
        let key = match direction {
            Direction::Original => hot.reply_here(),
            Direction::Reply => Some(hot.key()),
        };
        key.map_or_else(|| self.reply(hit), |key| key.tuple()).reversed()
    }

    /// Where it goes then.
    #[inline(always)]
    pub fn towards(&self, hit: &Hit, direction: Direction) -> [u8; 16] {
        let hot = &self.table.memory.hot()[hit.entry as usize];
        hot.sender4(direction).map_or_else(|| self.leaving(hit, direction).destination, mapped)
    }

    /// What the caller has noted for this direction; 0 at first, and after a restart.
    #[inline]
    pub fn decision(&self, hit: &Hit) -> u32 {
        self.table.memory.hot()[hit.entry as usize].decisions[hit.direction as usize].load(Relaxed)
    }

    /// Notes something for this direction. The table does not look into it.
    #[inline]
    pub fn set_decision(&self, hit: &Hit, decision: u32) {
        self.table.memory.hot()[hit.entry as usize].decisions[hit.direction as usize]
            .store(decision, Relaxed);
    }

    /// The ports of a flow, and its mark.
    pub fn route(&self, hit: &Hit) -> ([u16; 2], u8) {
        self.table.route_of(hit.entry)
    }

    /// Before sleeping: nobody need wait for this worker until [`online`](Self::online). Hits do
    /// not outlive it.
    pub fn offline(&self) {
        self.table.epochs.offline(self.own.place);
    }

    /// After sleeping, before the first lookup.
    pub fn online(&self) {
        self.table.epochs.online(self.own.place);
    }

    /// The table it works on.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.own.leave(&self.table);
    }
}
