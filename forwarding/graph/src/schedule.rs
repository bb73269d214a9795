//! Whose turn it is: tasks, timers, and what to sleep on.
//!
//! Tasks share the thread by stride scheduling, as Click's do: each run moves a task's pass on by a
//! stride that is the smaller the more tickets it has, and the task with the lowest pass is next.
//! With equal tickets that is one after the other.
//!
//! A task that has nothing to do says so; when all that are scheduled say so in one round, nothing
//! can change before the next timer, the next moment somebody asked to be looked at again, or the
//! next readable file descriptor.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::os::fd::RawFd;

use crate::NodeId;

/// Tickets of a task that has not been given others.
pub const TICKETS: u32 = 1024;
/// Most tickets of a task.
pub const MOST_TICKETS: u32 = 1 << 15;
const STRIDE: u64 = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Task {
    scheduled: bool,
    tickets: u32,
    /// Only the entry of the heap with this number counts.
    entry: u64,
    pass: u64,
    /// It found nothing to do at its last turn. It has another in the next round all the same:
    /// Click would let it sleep until a queue wakes it, and says that it is not scheduled
    /// meanwhile.
    resting: bool,
    /// It has been scheduled at least once: its element has a task.
    known: bool,
}

impl Default for Task {
    fn default() -> Task {
        Task { scheduled: false, tickets: TICKETS, entry: 0, pass: 0, resting: false, known: false }
    }
}

/// The turns of one graph's elements.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    tasks: Vec<Task>,
    /// Pass, number, node: lowest pass first, of equals the one that came first.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    pass: u64,
    entries: u64,
    scheduled: usize,
    timers: BTreeMap<(u64, u64), (NodeId, u32)>,
    places: HashMap<(NodeId, u32), (u64, u64)>,
    /// When somebody wants tasks to be run again though they were idle.
    wake: Option<u64>,
    watched: Vec<(RawFd, NodeId)>,
    /// Signals that elements want.
    signals: Vec<(i32, NodeId)>,
}

impl Schedule {
    pub(crate) fn new(nodes: usize) -> Schedule {
        Schedule { tasks: vec![Task::default(); nodes], ..Schedule::default() }
    }

    fn number(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    pub(crate) fn schedule(&mut self, node: NodeId) {
        let number = self.number();
        let Some(task) = self.tasks.get_mut(node.0) else { return };
        if task.scheduled {
            return;
        }
        task.scheduled = true;
        task.known = true;
        task.resting = false;
        task.entry = number;
        // One that slept does not catch up on what it missed.
        task.pass = task.pass.max(self.pass);
        self.queue.push(Reverse((task.pass, number, node.0)));
        self.scheduled += 1;
    }

    pub(crate) fn unschedule(&mut self, node: NodeId) {
        if let Some(task) = self.tasks.get_mut(node.0)
            && task.scheduled
        {
            task.scheduled = false;
            self.scheduled -= 1;
        }
    }

    /// Notes that an element has a task.
    pub(crate) fn announce(&mut self, node: NodeId) {
        if let Some(task) = self.tasks.get_mut(node.0) {
            task.known = true;
        }
    }

    /// Whether an element has a task, so far as it has ever asked for a turn or said so.
    pub(crate) fn has_task(&self, node: NodeId) -> bool {
        self.tasks.get(node.0).is_some_and(|task| task.known)
    }

    pub(crate) fn is_scheduled(&self, node: NodeId) -> bool {
        self.tasks.get(node.0).is_some_and(|task| task.scheduled)
    }

    /// Notes whether a task found nothing to do at its turn. Then it goes behind all others,
    /// however many tickets it has: when a round finds nothing to do, each of them has been asked.
    pub(crate) fn rest(&mut self, node: NodeId, resting: bool) {
        let last = self.queue.iter().filter(|_| resting).map(|Reverse((pass, ..))| *pass).max();
        let number = self.number();
        let Some(task) = self.tasks.get_mut(node.0) else { return };
        task.resting = resting;
        if let Some(last) = last.filter(|last| task.scheduled && task.pass < *last) {
            (task.pass, task.entry) = (last, number);
            self.queue.push(Reverse((last, number, node.0)));
        }
    }

    /// Whether a task is due and had something to do at its last turn, if it had one.
    pub(crate) fn is_awake(&self, node: NodeId) -> bool {
        self.tasks.get(node.0).is_some_and(|task| task.scheduled && !task.resting)
    }

    pub(crate) fn tickets(&self, node: NodeId) -> u32 {
        self.tasks.get(node.0).map_or(TICKETS, |task| task.tickets)
    }

    pub(crate) fn set_tickets(&mut self, node: NodeId, tickets: u32) {
        if let Some(task) = self.tasks.get_mut(node.0) {
            task.tickets = tickets.clamp(1, MOST_TICKETS);
        }
    }

    /// Whether there are tasks or timers.
    #[inline]
    pub(crate) fn wants_turns(&self) -> bool {
        self.scheduled > 0 || !self.timers.is_empty()
    }

    /// How many tasks are scheduled.
    pub(crate) fn scheduled(&self) -> usize {
        self.scheduled
    }

    /// The task whose turn it is, which is not scheduled any more.
    pub(crate) fn next_task(&mut self) -> Option<NodeId> {
        while let Some(Reverse((pass, number, node))) = self.queue.pop() {
            let task = &mut self.tasks[node];
            if !task.scheduled || task.entry != number {
                continue;
            }
            task.scheduled = false;
            task.pass = pass + STRIDE * u64::from(TICKETS) / u64::from(task.tickets);
            self.pass = pass;
            self.scheduled -= 1;
            return Some(NodeId(node));
        }
        None
    }

    pub(crate) fn set_timer(&mut self, node: NodeId, id: u32, at: u64) {
        self.clear_timer(node, id);
        let place = (at, self.number());
        self.timers.insert(place, (node, id));
        self.places.insert((node, id), place);
    }

    pub(crate) fn clear_timer(&mut self, node: NodeId, id: u32) {
        if let Some(place) = self.places.remove(&(node, id)) {
            self.timers.remove(&place);
        }
    }

    pub(crate) fn timer(&self, node: NodeId, id: u32) -> Option<u64> {
        self.places.get(&(node, id)).map(|(at, _)| *at)
    }

    /// A number that tells what was set until now from what will be.
    pub(crate) fn latest(&self) -> u64 {
        self.entries
    }

    /// The first timer that has expired by `now` and was set by `latest`; it is not set any more.
    pub(crate) fn next_timer(&mut self, now: u64, latest: u64) -> Option<(NodeId, u32)> {
        let expired = self.timers.range(..=(now, u64::MAX));
        let place = expired.map(|(place, _)| *place).find(|(_, number)| *number <= latest)?;
        let timer = self.timers.remove(&place)?;
        self.places.remove(&timer);
        Some(timer)
    }

    /// Asks for tasks to be run again at `at`, though they find nothing to do now.
    pub(crate) fn wake_at(&mut self, at: u64) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// Forgets what [`wake_at`](Self::wake_at) was asked: every round asks anew.
    pub(crate) fn begin_round(&mut self) {
        self.wake = None;
    }

    /// When there is something to do again, as far as is known; timers and what was asked for in
    /// this round.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let wake = self.wake.filter(|_| self.scheduled > 0);
        [timer, wake].into_iter().flatten().min()
    }

    pub(crate) fn watch(&mut self, node: NodeId, fd: RawFd) {
        if !self.watched.contains(&(fd, node)) {
            self.watched.push((fd, node));
        }
    }

    pub(crate) fn unwatch(&mut self, node: NodeId, fd: RawFd) {
        self.watched.retain(|watched| *watched != (fd, node));
    }

    pub(crate) fn watched(&self) -> &[(RawFd, NodeId)] {
        &self.watched
    }

    pub(crate) fn catch_signal(&mut self, node: NodeId, signal: i32) {
        if !self.signals.contains(&(signal, node)) {
            self.signals.push((signal, node));
        }
    }

    pub(crate) fn release_signal(&mut self, node: NodeId, signal: i32) {
        self.signals.retain(|caught| *caught != (signal, node));
    }

    pub(crate) fn signals(&self) -> &[(i32, NodeId)] {
        &self.signals
    }

    /// Takes over the turns of an element that moves here from another graph.
    pub(crate) fn inherit(&mut self, node: NodeId, from: &Schedule, old: NodeId) {
        self.set_tickets(node, from.tickets(old));
        if from.is_scheduled(old) {
            self.schedule(node);
        }
        for ((owner, id), (at, _)) in &from.places {
            if *owner == old {
                self.set_timer(node, *id, *at);
            }
        }
        for (fd, owner) in &from.watched {
            if *owner == old {
                self.watch(node, *fd);
            }
        }
        for (signal, owner) in &from.signals {
            if *owner == old {
                self.catch_signal(node, *signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_take_turns_by_their_tickets() {
        let mut schedule = Schedule::new(2);
        schedule.set_tickets(NodeId(1), 3 * TICKETS);
        schedule.schedule(NodeId(0));
        schedule.schedule(NodeId(1));
        let mut turns = [0; 2];
        for _ in 0..400 {
            let node = schedule.next_task().unwrap();
            turns[node.0] += 1;
            schedule.schedule(node);
        }
        assert_eq!(turns, [100, 300]);
        schedule.unschedule(NodeId(1));
        schedule.schedule(NodeId(1));
        schedule.unschedule(NodeId(0));
        assert_eq!((schedule.next_task(), schedule.next_task()), (Some(NodeId(1)), None));
    }

    #[test]
    fn timers_expire_in_order_and_once() {
        let mut schedule = Schedule::new(2);
        schedule.set_timer(NodeId(0), 0, 30);
        schedule.set_timer(NodeId(1), 0, 20);
        schedule.set_timer(NodeId(1), 1, 20);
        schedule.set_timer(NodeId(0), 0, 10);
        schedule.clear_timer(NodeId(1), 1);
        assert_eq!((schedule.next_event(), schedule.next_timer(9, u64::MAX)), (Some(10), None));
        assert_eq!(schedule.next_timer(25, u64::MAX), Some((NodeId(0), 0)));
        assert_eq!(schedule.next_timer(25, u64::MAX), Some((NodeId(1), 0)));
        assert_eq!((schedule.next_timer(99, u64::MAX), schedule.next_event()), (None, None));
    }
}
