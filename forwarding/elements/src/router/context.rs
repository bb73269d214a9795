//! What the elements of one worker that judge packets know together.
//!
//! A packet's headers are read once, its flow is looked up once, and both are wanted by several
//! elements: where it is tracked, filtered, translated. So [`Track`](super::Track) leaves what it
//! finds out in the packet's *metadata*. The packet has the number of its slot where Click has its
//! destination annotation, which nothing between these elements touches. A slot is for one round.
//! One that is another packet's by now (an operator's element kept the packet, or used the
//! annotation) is known by the packet's place in memory, and is as good as none.
//!
//! A worker's elements run one after the other, so the lock is never waited for: it costs a few
//! cycles a batch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;
use flow::{Account, Hit};
use port::Packet;
use rules::{FlowState, RuleId};
use wire::Headers;

use super::ControlConnections;
use super::sample::{Samplers, Sampling};

/// Slots for metadata in a round; when there are more packets in it, the first ones' are gone.
const METADATA_SLOTS: usize = 4096;

/// Records of mappings that may wait: what is made between two looks of the control thread at
/// 100,000 a second.
const MADE: usize = 16_384;

/// What is known about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Metadata {
    /// Where its IP header is.
    pub at: usize,
    pub headers: Headers,
    /// Its flow, once there is one; of an ICMP error that of the packet it is about.
    pub hit: Option<Hit>,
    pub state: FlowState,
    /// What the rules at the input hook came to.
    pub input: Option<RuleId>,
    /// Whether that may be otherwise for the next packet of its flow.
    pub varies: bool,
    pub mark: u32,
    /// The rules for transit let it pass.
    pub judged: bool,
    /// Where it really goes, if its destination is translated.
    pub towards: Option<[u8; 16]>,
    /// How that was found, for a flow that is yet to begin.
    pub aim: Option<nat::Destination>,
    /// It opens a flow that a control connection has announced.
    pub expected: bool,
}

/// One worker's place.
pub struct WorkerContext {
    /// The worker's number.
    pub(super) number: usize,
    /// Its access to the flow table, if there is one.
    pub(super) flows: Option<flow::Worker>,
    /// Address translation, if there is any.
    pub(super) nat: Option<Arc<nat::Nat>>,
    /// Control connections of FTP, if their announcements are followed.
    pub(super) ftp: Option<Arc<ControlConnections>>,
    /// Packets of this round that may be of such a connection.
    pub(super) controls: u32,
    /// The state of packets whose flows are not tracked.
    pub(super) otherwise: FlowState,
    /// What chooses packets for sFlow, if something does.
    pub(super) samplers: Option<Samplers>,
    pub(super) metadata: Vec<Metadata>,
    next: usize,
    pub(super) ended: Option<Arc<Ended>>,
}

/// Accounts of flows on their way to whoever wants them.
pub struct Ended {
    /// Accounts, oldest first.
    pub accounts: ArrayQueue<Account>,
    /// Mappings that were made, and those of them that nobody needed after all, oldest first. Those
    /// that find it full are in no log.
    pub made: ArrayQueue<nat::Record>,
    /// How many accounts or records found no room.
    pub lost: AtomicU64,
}

impl Ended {
    /// Room for so many accounts.
    pub fn new(room: usize) -> Arc<Ended> {
        Arc::new(Ended {
            accounts: ArrayQueue::new(room),
            made: ArrayQueue::new(MADE),
            lost: Default::default(),
        })
    }
}

impl Metadata {
    /// Makes this, at `place`, the metadata of a packet of which nothing is known yet; its headers
    /// are to be read. It is written where it stays, and only as far as need be: it has three cache
    /// lines.
    #[inline(always)]
    pub fn begin(&mut self, place: usize, packet: &mut Packet) {
        packet.destination = (place as u32 + 1).to_ne_bytes();
        self.at = packet.network().as_ptr() as usize;
        (self.hit, self.input, self.mark) = (None, None, 0);
        (self.varies, self.judged, self.expected) = (false, false, false);
        (self.towards, self.aim) = (None, None);
    }
}

impl WorkerContext {
    /// Slots for the metadata of a batch, one beside the other; where the first of them is.
    #[inline]
    pub(super) fn reserve(&mut self, count: usize) -> usize {
        let first = if self.next + count > METADATA_SLOTS { 0 } else { self.next };
        self.next = first + count;
        if self.metadata.len() < self.next {
            self.metadata.resize(METADATA_SLOTS, Metadata::default());
        }
        first
    }

    /// A packet's metadata.
    #[inline]
    pub(super) fn metadata(&mut self, packet: &Packet) -> Option<&mut Metadata> {
        let place = (u32::from_ne_bytes(packet.destination) as usize).wrapping_sub(1);
        self.metadata.get_mut(place).filter(|metadata| metadata.at == packet.network().as_ptr() as usize)
    }

    /// Where a packet really goes, if that is not what it says.
    #[inline]
    pub(super) fn towards(&mut self, packet: &Packet) -> Option<[u8; 16]> {
        self.metadata(packet)?.towards
    }

    /// The metadata of a packet with the access to the flow table.
    #[inline]
    pub(super) fn open(&mut self, packet: &Packet) -> (Option<&mut Metadata>, Option<&mut flow::Worker>) {
        let place = (u32::from_ne_bytes(packet.destination) as usize).wrapping_sub(1);
        let metadata =
            self.metadata.get_mut(place).filter(|metadata| metadata.at == packet.network().as_ptr() as usize);
        (metadata, self.flows.as_mut())
    }
}

/// A worker's context, as its elements and its loop share it by the
/// [`Environment`](graph::Environment).
#[derive(Clone)]
pub struct SharedContext(Arc<Shared>);

struct Shared {
    context: Mutex<WorkerContext>,
    /// The access to the flow table as others see it, who cannot wait for the lock.
    presence: Mutex<Option<flow::Presence>>,
    /// Somebody was here since the last [`SharedContext::maintain`], or flows or samples are kept
    /// here; changed under the lock. Where packets are only forwarded it is false, and a round
    /// takes no lock, which would wait for all that the round has written.
    taken: AtomicBool,
}

impl SharedContext {
    /// The context of worker `number`.
    pub fn new(number: usize) -> SharedContext {
        let otherwise = FlowState::Untracked;
        let context = Mutex::new(WorkerContext {
            number,
            flows: None,
            nat: None,
            ftp: None,
            controls: 0,
            samplers: None,
            otherwise,
            metadata: Vec::new(),
            next: 0,
            ended: None,
        });
        SharedContext(Arc::new(Shared { context, presence: Mutex::default(), taken: AtomicBool::new(false) }))
    }

    /// A context at which every packet is in this state: for packets that are only thought of.
    pub fn for_dry_run(state: FlowState) -> SharedContext {
        let context = SharedContext::new(0);
        context.lock().otherwise = state;
        context
    }

    /// Gives access to these flows from now on, and to their bindings. Accounts of those that end
    /// are left at `ended`; announcements in control connections of FTP are followed if they can be
    /// remembered.
    pub fn give(
        &self,
        flows: flow::Worker,
        ended: Arc<Ended>,
        nat: Arc<nat::Nat>,
        ftp: Option<Arc<ControlConnections>>,
    ) {
        *self.0.presence.lock().unwrap_or_else(PoisonError::into_inner) = Some(flows.presence());
        let mut context = self.lock();
        (context.flows, context.ended, context.nat, context.ftp) = (Some(flows), Some(ended), Some(nat), ftp);
    }

    /// Lets packets be chosen for sFlow from now on, or none.
    pub fn sample(&self, sampling: Option<Sampling>) {
        self.lock().samplers = sampling.map(Samplers::new);
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, WorkerContext> {
        let context = self.0.context.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.taken.store(true, Ordering::Relaxed);
        context
    }

    /// Between two rounds: forgets the metadata, and lets the flow table look after itself for a
    /// moment. Whether it has more to do. `now` in steady nanoseconds.
    pub fn maintain(&self, now: u64) -> bool {
        if !self.0.taken.load(Ordering::Relaxed) {
            return false;
        }
        let mut context = self.lock();
        self.0.taken.store(context.flows.is_some() || context.samplers.is_some(), Ordering::Relaxed);
        let WorkerContext { flows, next, ended, ftp, controls, samplers, .. } = &mut *context;
        (*next, *controls) = (0, 0);
        samplers.iter_mut().for_each(Samplers::settle);
        let Some(flows) = flows else { return false };
        flows.maintain(now, &mut |account| {
            if let Some(connections) = ftp.as_ref().filter(|_| account.end != flow::End::Slice) {
                connections.forget(account);
            }
            if let Some(ended) = ended
                && ended.accounts.push(*account).is_err()
            {
                ended.lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Whether a packet of this round has been let pass by the rules for transit.
    pub fn has_judged(&self, packet: &Packet) -> bool {
        self.lock().metadata(packet).is_some_and(|metadata| metadata.judged)
    }

    /// The worker's thread never runs again: nobody need wait for it.
    pub fn end(&self) {
        let presence = self.0.presence.lock().unwrap_or_else(PoisonError::into_inner);
        presence.iter().for_each(flow::Presence::end);
    }

    /// Before the worker sleeps: nobody need wait for it.
    pub fn offline(&self) {
        self.lock().flows.iter().for_each(flow::Worker::offline);
    }

    /// After it slept.
    pub fn online(&self) {
        self.lock().flows.iter().for_each(flow::Worker::online);
    }
}
