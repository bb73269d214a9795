//! The thread that speaks VRRP: it sleeps until something is heard, something is due, or it is told
//! something.
//!
//! Nothing that it does while it is up waits for another thread or for a lock of Linux's, so that
//! it keeps intervals of ten milliseconds while control reads a million routes.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::mpsc::{Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::VirtualRouter;
use port::VirtualRouters;
use tracing::{info, warn};
use vrrp::{Action, Set, State, Time, Why};

use super::super::orders::Inbox;
use super::accepted::Accepted;
use super::group::{Facts, Group};
use super::link::{Heard, Link};
use crate::subject::{RedundancyState, VirtualRouterStatus};

/// What the thread is told.
pub(super) enum Order {
    /// What is configured from now on, with what is known of each.
    Plan(Vec<(VirtualRouter, Facts)>),
    /// What is known of each, in the same order.
    Facts(Vec<Facts>),
    /// Hand over.
    Release(String, Sender<Result<String, String>>),
    /// Take part as before.
    Resume(String, Sender<Result<String, String>>),
    /// Say how it is.
    Status(Sender<Vec<VirtualRouterStatus>>),
    /// Hand over all, and end.
    Stop(Sender<()>),
    /// End at once, for another process of this router goes on.
    Leave(Sender<()>),
}

/// Virtual routers that move together.
struct Together {
    set: Set,
    groups: Vec<Group>,
    /// When they are announced once more, for who missed it.
    again: Option<Time>,
    changes: u64,
    why: Option<Why>,
    /// Who waits for the end of a release.
    waiting: Vec<Sender<Result<String, String>>>,
}

pub(super) struct Runner {
    inbox: Inbox<Order>,
    driver: VirtualRouters,
    accepted: Accepted,
    sets: Vec<Together>,
    links: HashMap<String, Link>,
    /// In which set, and which member of it, each is that is configured.
    places: Vec<(usize, usize)>,
    begun: Instant,
    ends: Option<Sender<()>>,
    /// Another process goes on.
    leaves: bool,
    active: ActiveNames,
    /// Those that another process was active for until now.
    go_on: Vec<String>,
}

/// Names of the virtual routers that are active here now, for others to look at.
pub(super) type ActiveNames = Arc<Mutex<Vec<String>>>;

/// Frames heard in a row by one interface before something else has its turn.
const FRAMES: usize = 64;
/// For so long the driver goes on by itself until another process of this router does.
pub(super) const HANDED_ON: Duration = Duration::from_secs(2);
/// When announcements are repeated.
const AGAIN: Duration = Duration::from_secs(1);

impl Runner {
    pub(super) fn new(
        inbox: Inbox<Order>,
        driver: VirtualRouters,
        accepted: Accepted,
        active: ActiveNames,
        go_on: Vec<String>,
    ) -> Runner {
        let begun = Instant::now();
        let (sets, places) = (Vec::new(), Vec::new());
        let links = HashMap::new();
        Runner {
            inbox,
            driver,
            accepted,
            sets,
            links,
            places,
            begun,
            ends: None,
            leaves: false,
            active,
            go_on,
        }
    }

    pub(super) fn run(mut self) {
        if let Err(error) = port::urgent() {
            info!("redundancy: its thread has an ordinary priority, and may be late under load: {error}");
        }
        let mut buffer = [0; 2048];
        loop {
            loop {
                match self.inbox.next() {
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.end(),
                }
            }
            let now = self.begun.elapsed();
            for number in 0..self.sets.len() {
                let actions = self.sets[number].set.pass(now);
                self.act(number, actions, now);
                self.announce_again(number, now);
            }
            let answers = self.sets.iter().any(|together| together.set.answers());
            if self.ends.is_some() && (self.leaves || !answers) {
                return self.end();
            }
            self.publish();
            self.sleep();
            self.hear(&mut buffer);
        }
    }

    fn publish(&self) {
        let sets = self.sets.iter().filter(|together| together.set.state() == State::Active);
        let names = sets.flat_map(|together| &together.groups).map(|group| &group.plan.name);
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !active.iter().eq(names.clone()) {
            *active = names.cloned().collect();
        }
    }

    /// Until something is due, or comes.
    fn sleep(&self) {
        let due = self.sets.iter().flat_map(|together| [together.set.next(), together.again]).flatten().min();
        let time = due.map(|at| at.saturating_sub(self.begun.elapsed()));
        self.inbox.sleep(self.links.values().map(AsFd::as_fd), time);
    }

    fn hear(&mut self, buffer: &mut [u8]) {
        let names: Vec<String> = self.links.keys().cloned().collect();
        for name in names {
            for _ in 0..FRAMES {
                let Some(link) = self.links.get(&name) else { break };
                let Some(heard) = link.hear(buffer) else { break };
                match heard {
                    Some(Heard::Question(question)) => self.answer(&name, &question),
                    Some(Heard::Advertisement(from, to, hops, payload)) => {
                        self.judge(&name, (from, to, hops, payload));
                    }
                    None => {}
                }
            }
        }
    }

    fn answer(&self, link: &str, question: &vrrp::frame::Question) {
        let answering = self.sets.iter().filter(|together| together.set.answers());
        let mut groups = answering.flat_map(|together| &together.groups);
        let is_asked =
            |group: &&Group| group.plan.interface == link && group.plan.addresses.contains(&question.target);
        if let (Some(group), Some(link)) = (groups.find(is_asked), self.links.get(link)) {
            // Who asks asks again.
            let _ = link.send(&vrrp::frame::answer(group.plan.id, question));
        }
    }

    fn judge(&mut self, link: &str, it: (std::net::IpAddr, std::net::IpAddr, u8, &[u8])) {
        let (now, id) = (self.begun.elapsed(), it.3.get(1).copied());
        let is_for = |group: &Group| {
            group.plan.interface == link
                && Some(group.plan.id) == id
                && group.plan.is_ipv6() == it.0.is_ipv6()
        };
        let found = self
            .sets
            .iter()
            .enumerate()
            .find_map(|(number, together)| Some((number, together.groups.iter().position(is_for)?)));
        let Some((number, member)) = found else { return };
        let Together { set, groups, .. } = &mut self.sets[number];
        let judge = |it: &_, addresses: &[_]| set.judge(member, it, addresses);
        let Some(read) = groups[member].read(it, judge, now) else { return };
        let Some(own) = groups[member].facts.own else { return };
        let actions = set.hear(member, &read, it.0, own, now);
        self.act(number, actions, now);
    }

    /// Does what a set wants done.
    fn act(&mut self, number: usize, actions: Vec<Action>, now: Time) {
        if actions.is_empty() {
            return;
        }
        let Runner { driver, accepted, links, sets, .. } = self;
        let Together { set, groups, again, changes, why, waiting } = &mut sets[number];
        let mut begins = false;
        for action in actions {
            match action {
                Action::Advertise { member, priority } => {
                    let group = &mut groups[member];
                    if set.state() == State::Active {
                        group.take(set.lease(member), driver);
                    }
                    group.advertise(priority, links.get(&group.plan.interface));
                }
                Action::Become(state, because) => {
                    (*why, *changes) = (Some(because), *changes + 1);
                    begins = state == State::Active;
                    groups.iter().for_each(|group| tell(group, state, because));
                    let settled = match (state, because) {
                        (State::Active, Why::Alone) => Err(Why::Alone.to_string()),
                        _ => Ok(format!("{because}")),
                    };
                    if because != Why::Released {
                        waiting.drain(..).for_each(|waits| drop(waits.send(settled.clone())));
                    }
                    if state != State::Active {
                        *again = None;
                        for (member, group) in groups.iter().enumerate() {
                            match set.answers() {
                                true => group.take(set.lease(member), driver),
                                false => group.let_go(driver, accepted),
                            }
                        }
                    }
                }
                Action::LetGo => {
                    groups.iter().for_each(|group| group.let_go(driver, accepted));
                    let by = (0..groups.len()).find_map(|member| set.heard(member));
                    let by = by.map_or_else(String::new, |(from, _)| format!("router {from} has taken over"));
                    groups.iter().for_each(|group| info!("redundancy {}: {by}", group.plan.name));
                    waiting.drain(..).for_each(|waits| drop(waits.send(Ok(by.clone()))));
                }
            }
        }
        if begins {
            *again = Some(now + AGAIN);
            for group in groups.iter() {
                group.announce(links.get(&group.plan.interface));
                group.accept(true, accepted);
            }
        }
    }

    fn announce_again(&mut self, number: usize, now: Time) {
        let Together { groups, again, .. } = &mut self.sets[number];
        if again.is_some_and(|at| at <= now) {
            *again = None;
            groups.iter().for_each(|group| group.announce(self.links.get(&group.plan.interface)));
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Plan(plan) => self.change(plan),
            Order::Facts(facts) => {
                for ((number, member), facts) in self.places.clone().into_iter().zip(facts) {
                    self.learn(number, member, facts);
                }
            }
            Order::Release(name, answer) => self.release(&name, answer),
            Order::Resume(name, answer) => {
                let done = self.of_name(&name).map(|number| {
                    self.sets[number].set.resume();
                    format!("{name} takes part as before")
                });
                let _ = answer.send(done);
            }
            Order::Status(answer) => drop(answer.send(self.status())),
            Order::Stop(answer) => {
                let now = self.begun.elapsed();
                for number in 0..self.sets.len() {
                    let mut actions = Vec::new();
                    self.sets[number].set.release(now, &mut actions);
                    self.act(number, actions, now);
                }
                self.ends = Some(answer);
            }
            Order::Leave(answer) => {
                for Together { set, groups, .. } in &self.sets {
                    let answering = groups.iter().filter(|_| set.answers());
                    answering.for_each(|group| group.take(HANDED_ON, &self.driver));
                }
                (self.ends, self.leaves) = (Some(answer), true);
            }
        }
    }

    fn of_name(&self, name: &str) -> Result<usize, String> {
        let mut sets = self.sets.iter();
        let is = |group: &Group| group.plan.name == name;
        sets.position(|together| together.groups.iter().any(is)).ok_or_else(|| {
            let groups = self.sets.iter().flat_map(|together| &together.groups);
            let known: Vec<&str> = groups.map(|group| group.plan.name.as_str()).collect();
            format!("there is no [vrrp.{name}]; those there are: {}", known.join(", "))
        })
    }

    fn release(&mut self, name: &str, answer: Sender<Result<String, String>>) {
        let number = match self.of_name(name) {
            Ok(number) => number,
            Err(wrong) => return drop(answer.send(Err(wrong))),
        };
        let (mut actions, now) = (Vec::new(), self.begun.elapsed());
        if self.sets[number].set.release(now, &mut actions) {
            self.sets[number].waiting.push(answer);
            self.act(number, actions, now);
        } else {
            let _ = answer.send(Ok(format!("{name} was not active, and takes over from nobody who is")));
        }
    }

    /// Puts another configuration in force; what is the same in it goes on as it is.
    fn change(&mut self, plan: Vec<(VirtualRouter, Facts)>) {
        type Numbered = (usize, VirtualRouter, Facts);
        let mut wanted: Vec<(String, Vec<Numbered>)> = Vec::new();
        for (number, (router, facts)) in plan.into_iter().enumerate() {
            let key = match &router.sync {
                Some(word) => format!("sync {word}"),
                None => format!("name {}", router.name),
            };
            match wanted.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push((number, router, facts)),
                None => wanted.push((key, vec![(number, router, facts)])),
            }
        }
        let mut old = std::mem::take(&mut self.sets);
        self.places = vec![(0, 0); wanted.iter().map(|(_, members)| members.len()).sum()];
        let mut kept = Vec::new();
        for (_, members) in &wanted {
            let same = old.iter().position(|together| {
                together
                    .groups
                    .iter()
                    .map(|group| &group.plan)
                    .eq(members.iter().map(|(_, router, _)| router))
            });
            kept.push(same.map(|at| old.remove(at)));
        }
        // Those that go hand over first, for what comes may be on the same link.
        let now = self.begun.elapsed();
        self.sets = old;
        for number in 0..self.sets.len() {
            for member in 0..self.sets[number].groups.len() {
                let actions = self.sets[number].set.set_able(member, false, 0, now);
                self.act(number, actions, now);
            }
            for group in &mut self.sets[number].groups {
                group.keep_from_linux(&[], &self.driver);
            }
        }
        let on = |sets: &[Together]| -> HashSet<String> {
            let groups = sets.iter().flat_map(|together| &together.groups);
            groups.map(|group| group.plan.interface.clone()).collect()
        };
        let before = on(&self.sets);
        self.sets.clear();
        for (number, ((_, members), kept)) in wanted.into_iter().zip(kept).enumerate() {
            for (member, (place, _, _)) in members.iter().enumerate() {
                self.places[*place] = (number, member);
            }
            let facts: Vec<Facts> = members.iter().map(|(_, _, facts)| facts.clone()).collect();
            let goes_on = members.iter().any(|(_, router, _)| self.go_on.contains(&router.name));
            let mut set = Set::new(members.iter().map(|(_, router, _)| router.settings));
            if goes_on {
                set.go_on();
            }
            let together = kept.unwrap_or_else(|| Together {
                set,
                groups: members
                    .into_iter()
                    .map(|(_, router, facts)| Group::new(router, nothing(facts)))
                    .collect(),
                again: None,
                changes: 0,
                why: None,
                waiting: Vec::new(),
            });
            self.sets.push(together);
            for (member, facts) in facts.into_iter().enumerate() {
                self.learn(number, member, facts);
            }
        }
        // What comes later begins as it should.
        self.go_on.clear();
        let after = on(&self.sets);
        self.links.retain(|name, _| after.contains(name));
        before.difference(&after).for_each(|name| self.accepted.interface(name, false));
    }

    /// Something that a virtual router needs around it is different.
    fn learn(&mut self, number: usize, member: usize, facts: Facts) {
        let now = self.begun.elapsed();
        let group = &mut self.sets[number].groups[member];
        let is = |facts: &Facts| (facts.ifindex, facts.own, facts.bridge);
        let anew = is(&group.facts) != is(&facts);
        group.facts = facts;
        group.keep_from_linux(&group.facts.interfaces.clone(), &self.driver);
        if anew {
            group.speak();
        }
        let unable = group.facts.unable.clone().or_else(|| open(&mut self.links, group, anew).err());
        group.facts.unable.clone_from(&unable);
        if anew && unable.is_none() && !group.plan.is_ipv6() {
            self.accepted.interface(&group.plan.interface, true);
        }
        let priority = group.facts.priority;
        let actions = self.sets[number].set.set_able(member, unable.is_none(), priority, now);
        self.act(number, actions, now);
    }

    fn status(&self) -> Vec<VirtualRouterStatus> {
        let now = self.begun.elapsed();
        let of = |&(number, member): &(usize, usize)| {
            let Together { set, groups, changes, why, .. } = &self.sets[number];
            let Group { plan, facts, mac, sent, received, wrong, .. } = &groups[member];
            let heard = set.heard(member);
            let active = match set.state() {
                State::Active => facts.own,
                State::Backup => heard.map(|(from, _)| from),
                State::Initialize => None,
            };
            VirtualRouterStatus {
                name: plan.name.clone(),
                interface: plan.interface.clone(),
                id: plan.id,
                state: match set.state() {
                    State::Initialize => RedundancyState::Initialize,
                    State::Backup => RedundancyState::Backup,
                    State::Active => RedundancyState::Active,
                },
                since: now.saturating_sub(set.since()).as_secs(),
                why: match &facts.unable {
                    Some(unable) => unable.clone(),
                    None => why.map(|why| why.to_string()).unwrap_or_default(),
                },
                priority: set.priority(member),
                lacks: facts.lacks.clone(),
                addresses: plan.addresses.clone(),
                mac: *mac,
                active,
                active_priority: match set.state() {
                    State::Active => Some(set.priority(member)),
                    _ => heard.map(|(_, priority)| priority),
                },
                sync: plan.sync.clone(),
                released: set.is_released(),
                changes: *changes,
                sent: *sent,
                received: *received,
                refused: vrrp::Wrong::ALL
                    .into_iter()
                    .zip(wrong)
                    .filter(|(_, count)| **count > 0)
                    .map(|(wrong, count)| (wrong.name().to_owned(), *count))
                    .collect(),
            }
        };
        self.places.iter().map(of).collect()
    }

    /// Nothing is answered for any more.
    fn end(mut self) {
        let Runner { sets, driver, accepted, leaves, .. } = &mut self;
        for group in sets.iter_mut().flat_map(|together| &mut together.groups) {
            group.accept(false, accepted);
            if !*leaves {
                group.keep_from_linux(&[], driver);
            }
        }
        let ends = self.ends.take();
        drop(self.accepted);
        let _ = ends.map(|ends| ends.send(()));
    }
}

/// Facts of which nothing has been told yet.
fn nothing(facts: Facts) -> Facts {
    Facts { ifindex: 0, interfaces: Vec::new(), bridge: None, own: None, ..facts }
}

/// Opens a group's link, if it is not, and has it take part; why it could not.
fn open(links: &mut HashMap<String, Link>, group: &Group, anew: bool) -> Result<(), String> {
    let (name, ifindex) = (&group.plan.interface, group.facts.ifindex);
    let Some(own) = group.facts.own else { return Ok(()) };
    let bridge = group.facts.bridge;
    let known = links.get(name).is_some_and(|link| (link.ifindex, link.bridge) == (ifindex, bridge));
    if known && !anew {
        return Ok(());
    }
    let cannot = |error: std::io::Error| format!("its sockets on {name} cannot be opened: {error}");
    if !known {
        links.insert(name.clone(), Link::open(ifindex, bridge).map_err(cannot)?);
    }
    let Some(link) = links.get_mut(name) else { return Ok(()) };
    link.join(group.mac, own, &group.plan.addresses).map_err(cannot)
}

/// The log.
fn tell(group: &Group, state: State, why: Why) {
    let VirtualRouter { name, interface, id, .. } = &group.plan;
    let of = format!("redundancy {name} ({interface}, id {id})");
    match (state, &group.facts.unable) {
        (State::Active, _) => info!("{of}: active: {why}"),
        (State::Backup, _) => info!("{of}: backup: {why}"),
        (State::Initialize, Some(unable)) => warn!("{of}: takes no part: {unable}"),
        (State::Initialize, None) if group.facts.priority == 0 => {
            warn!("{of}: takes no part: {} not there", group.facts.lacks.join(", "));
        }
        (State::Initialize, None) => warn!("{of}: takes no part: {why}"),
    }
}
