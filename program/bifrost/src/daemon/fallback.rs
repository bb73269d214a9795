//! The router's filter and address translation in Linux's own words, for what Linux forwards:
//! packets that workers hand to it, and all of them when there is no plane.
//!
//! One table of nftables, `inet bifrost`, replaced whole. It stays when the daemon ends, however it
//! ends: what was blocked goes on being blocked. A router without rules has none; starting one
//! removes it.
//!
//! What a worker has judged carries a mark and passes as it is, as Linux's connection tracking has
//! not seen the packets before it; what is to be translated the worker has translated.
//!
//! **VRFs.** Connections of two VRFs with the same addresses are different ones: what comes in by a
//! member belongs to the zone (of Linux's connection tracking) that its VRF's table has the number
//! of. Answers may come from elsewhere, so this holds for the side that began alone. Two answers
//! that are the same are told apart as translation does that: the second one's connection gets
//! another port. Hence a chain for translation, though it translates nothing.
//!
//! Linux takes seconds to load a long list (a set of a million addresses some ten), in which a
//! control thread that waited would neither follow routes nor answer. So a thread of its own loads
//! the tables, of several that wait only the latest; short ones, which take milliseconds, are
//! waited for, and so is the first, before which nothing is to be forwarded. What Linux refuses (no
//! nftables, no memory, an interface's name that it does not take) is tried again now and then, and
//! `show mirror` says so until it has it.
//!
//! The same thread looks whether Linux still has what it was given, and gives it again where
//! somebody has removed or changed it: a `systemctl restart nftables` begins with `flush ruleset`.
//! Until then, half a second at most, what Linux judges is not judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Router;
use mirror::{CopyState, FilterCopy};
use nat::Told;
use tracing::{info, warn};

use super::forwarding::Forwarding;
use super::interfaces::is_ours;
use super::nft;
use super::section::{Change, Section};

/// How long it is waited for a table to be loaded.
const PATIENCE: Duration = Duration::from_millis(500);
/// When what was refused is tried again.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two looks whether Linux has it still.
const LOOK: Duration = Duration::from_millis(500);
/// Where others change nftables all the time, the pause is doubled so often: lists that take
/// seconds are not loaded for ever.
const UNSURE: u32 = 6;

/// What leaves Linux without a table.
const EMPTY: &str = "add table inet bifrost\ndelete table inet bifrost\n";

/// Who loads tables into Linux.
#[derive(Default)]
pub(crate) struct Fallback {
    queue: Arc<LoadQueue>,
    thread: Option<JoinHandle<()>>,
    /// The last one that was asked for.
    told: Option<Arc<str>>,
    /// The members of VRFs that it knows of.
    members: Members,
    /// Something has changed while one was being loaded that Linux is not told of yet.
    stale: bool,
}

#[derive(Default)]
struct LoadQueue {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    next: Option<Arc<str>>,
    loading: bool,
    over: bool,
    /// Somebody waits to hear that Linux has it still.
    look: bool,
    /// How often it was given again because it was not as it had been given.
    restored: u64,
    /// Why Linux does not have the last one.
    refused: Option<String>,
}

impl Work {
    fn is_left(&self) -> bool {
        self.loading || self.look || self.next.is_some()
    }
}

impl LoadQueue {
    fn open(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads what is asked for until it is over, what was asked for before that all the same; looks
    /// after it in between.
    fn serve(&self) {
        let mut keeper = Keeper::default();
        loop {
            let idle = |work: &mut Work| work.next.is_none() && !work.over && !work.look;
            let waited = self.changed.wait_timeout_while(self.open(), keeper.patience(), idle);
            let (mut work, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let next = work.next.take();
            if next.is_none() && work.over {
                return;
            }
            work.loading = true;
            work.look = false;
            drop(work);
            match next {
                Some(text) => {
                    keeper.text = Some(text);
                    keeper.load(self);
                }
                None => keeper.look(self),
            }
            self.open().loading = false;
            self.changed.notify_all();
        }
    }

    /// Whether Linux took it. If not, that is noted.
    fn load(&self, text: &str, copy: &mut FilterCopy) -> bool {
        let refused = copy.load(|| nft::load(text)).err();
        let mut work = self.open();
        match (&refused, &work.refused) {
            (Some(why), before) if before.as_ref() != Some(why) => warn!(
                "Linux does not take the router's filter and translation, so it filters otherwise when the plane is gone (it is asked \
                 again every {} s): {why}",
                AGAIN.as_secs()
            ),
            (None, Some(_)) => info!("Linux has the router's filter and translation now"),
            _ => {}
        }
        work.refused = refused;
        work.refused.is_none()
    }
}

/// What Linux is to have, and whether it has it.
#[derive(Default)]
struct Keeper {
    text: Option<Arc<str>>,
    copy: FilterCopy,
    /// Linux refused it, and is asked again then.
    refused: Option<Instant>,
    /// Loads one after the other during which others changed nftables.
    unsure: u32,
    /// When it was last told in the log that somebody had changed it, and how often since.
    told: Option<(Instant, u64)>,
}

impl Keeper {
    fn patience(&self) -> Duration {
        match (&self.text, self.refused) {
            (_, Some(at)) => at.saturating_duration_since(Instant::now()),
            (Some(text), None) if &**text != EMPTY => LOOK * (1 << self.unsure),
            _ => Duration::MAX,
        }
    }

    fn load(&mut self, queue: &LoadQueue) {
        let Some(text) = &self.text else { return };
        self.refused = (!queue.load(text, &mut self.copy)).then(|| Instant::now() + AGAIN);
    }

    fn look(&mut self, queue: &LoadQueue) {
        if self.refused.is_some() {
            return self.load(queue);
        }
        if self.text.as_deref().is_none_or(|text| text == EMPTY) {
            return;
        }
        match self.copy.state() {
            Ok(CopyState::Whole) => self.unsure = 0,
            Ok(CopyState::Changed) => {
                self.load(queue);
                queue.open().restored += 1;
                self.tell();
            }
            Ok(CopyState::Unknown) => {
                self.load(queue);
                self.unsure = (self.unsure + 1).min(UNSURE);
            }
            Err(error) => tracing::debug!(%error, "cannot ask whether Linux has the filter still"),
        }
    }

    /// Somebody who does it again and again does not fill the log.
    fn tell(&mut self) {
        let now = Instant::now();
        let (last, untold) = self.told.map_or((None, 0), |(at, untold)| (Some(at), untold + 1));
        if last.is_some_and(|at| now < at + AGAIN) {
            self.told = last.map(|at| (at, untold));
            return;
        }
        let more =
            if untold > 0 { format!(" ({untold} times since it was last told)") } else { String::new() };
        warn!(
            "somebody changed or removed Linux's copy of the router's filter and translation, table inet bifrost of nftables; it is \
             there again{more}"
        );
        self.told = Some((now, 0));
    }
}

impl Fallback {
    fn tell(&mut self, text: Arc<str>) {
        self.told = Some(text.clone());
        if self.thread.is_none() {
            let queue = self.queue.clone();
            let thread = std::thread::Builder::new().name("nftables".to_owned());
            self.thread = thread.spawn(move || queue.serve()).ok();
        }
        if self.thread.is_none() {
            self.queue.load(&text, &mut FilterCopy::default());
            return;
        }
        self.queue.open().next = Some(text);
        self.wait();
    }

    /// Makes sure that Linux has what it was told.
    fn look(&self) {
        if self.thread.is_some() {
            self.queue.open().look = true;
            self.wait();
        }
    }

    /// Waits for what is quickly done.
    fn wait(&self) {
        self.queue.changed.notify_all();
        let waited =
            self.queue.changed.wait_timeout_while(self.queue.open(), PATIENCE, |work| work.is_left());
        let (work, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(work);
        if waited.timed_out() {
            info!("Linux's own filter takes some time to load; it follows");
        }
    }

    fn is_loading(&self) -> bool {
        self.queue.open().is_left()
    }

    /// Why Linux does not have what it was told last; `None` while it has.
    pub(crate) fn refused(&self) -> Option<String> {
        self.queue.open().refused.clone()
    }

    /// How often Linux was given it again because it had changed.
    pub(crate) fn restored(&self) -> u64 {
        self.queue.open().restored
    }

    /// Waits until all is loaded, or for so long; whether it is.
    pub(super) fn settles(&self, patience: Duration) -> bool {
        let waited =
            self.queue.changed.wait_timeout_while(self.queue.open(), patience, |work| work.is_left());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Fallback {
    fn drop(&mut self) {
        self.queue.open().over = true;
        self.queue.changed.notify_all();
        // It does not panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Fallback {
    /// Brings Linux's table up to date, once Linux has what it is loading: of changes that come one
    /// after the other faster than it takes a long list, it is told together.
    pub(super) fn follow_in_time(&mut self, forwarding: &Forwarding) {
        if self.is_loading() {
            self.stale = true;
        } else {
            self.follow(forwarding);
        }
    }

    /// Tells Linux what has waited for it; `at_last`: whatever it is loading.
    pub(super) fn follow_the_rest(&mut self, forwarding: &Forwarding, at_last: bool) {
        if self.stale && (at_last || !self.is_loading()) {
            self.follow(forwarding);
        }
    }

    /// Whether there are other members of VRFs than it knows of.
    pub(super) fn lacks_members(&self, forwarding: &Forwarding) -> bool {
        says_something(forwarding) && members(forwarding) != self.members
    }

    /// Brings Linux's table up to date.
    pub(super) fn follow(&mut self, forwarding: &Forwarding) {
        self.stale = false;
        self.members = members(forwarding);
        let text = nftables(forwarding, &self.members);
        let told = self.told.as_deref();
        if told == Some(&*text) {
            return self.look();
        }
        if told.is_none() && !says_something(forwarding) && !nft::has_table() {
            return;
        }
        self.tell(text.into());
    }
}

impl Section for Fallback {
    fn effects(&self, _: &Change) -> Vec<String> {
        Vec::new()
    }

    /// What cannot be expressed was refused when the file was read; what Linux refuses is told, and
    /// tried again.
    fn prepare(&mut self, _: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        Ok(())
    }

    fn apply(&mut self, _: &Change, forwarding: &mut Forwarding) {
        forwarding.copy_is_due = false;
        self.follow(forwarding);
    }

    fn abort(&mut self, _: &mut Forwarding) {}
}

/// Whether there is something for Linux to judge or to translate where the plane is gone.
pub(crate) fn has_policy(router: &Router) -> bool {
    let filter = &router.filter;
    let drops = filter.chains.iter().any(|chain| chain.policy == rules::Policy::Drop);
    drops || filter.rules().next().is_some() || router.nat.is_some()
}

/// Whether Linux is to have a table.
fn says_something(forwarding: &Forwarding) -> bool {
    has_policy(&forwarding.router) || forwarding.linux_nat.is_some()
}

/// The interfaces in VRFs that rules are for, by name, with the zones of their connections.
type Members = BTreeMap<String, u16>;

fn members(forwarding: &Forwarding) -> Members {
    let links = &forwarding.mirror.model().links;
    let in_vrfs = links.iter().filter_map(|link| Some((&link.name, links.vrf_of(link)?.vrf()?)));
    let ours = in_vrfs.filter(|(name, _)| is_ours(name, links, &forwarding.router));
    ours.map(|(name, table)| (name.clone(), table as u16)).collect()
}

/// What tells connections of VRFs apart, for a table that asks for connections.
fn zones(members: &Members, translates: bool) -> String {
    let members = members.iter().filter(|(_, zone)| **zone != 0);
    let members: Vec<String> = members.map(|(name, zone)| format!("\"{name}\" : {zone}")).collect();
    if members.is_empty() {
        return String::new();
    }
    let members = members.join(", ");
    let zones = format!(
        "\tchain vrf_zones {{\n\t\ttype filter hook prerouting priority raw; policy accept;\n\
         \t\tct original zone set iifname map {{ {members} }}\n\t}}\n"
    );
    let ports = "\tchain vrf_ports {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\t}\n";
    zones + if translates { "" } else { ports }
}

/// The table that the configuration comes to.
fn nftables(forwarding: &Forwarding, members: &Members) -> String {
    let router = &forwarding.router;
    if !says_something(forwarding) {
        return EMPTY.to_owned();
    }
    let mut names: Vec<String> = router.ports.iter().map(|rule| rule.name.as_str().to_owned()).collect();
    // Linux has bonds and VLANs by names of their own.
    let others = forwarding.plane.interface_names().map(|(name, _)| name.to_owned());
    let others: BTreeSet<String> = others.filter(|name| router.port(name).is_none()).collect();
    names.extend(others);
    let pickup = router.flow.is_none_or(|flow| flow.pickup);
    let filter = match members.is_empty() {
        true => router.filter.nftables(&names, None, pickup),
        false => router.filter.nftables_with_vrfs(&names, None, pickup),
    };
    // What cannot be expressed was refused when the file was read.
    let filter = filter.unwrap_or_else(|_| EMPTY.to_owned() + "table inet bifrost {\n}\n");
    let in_vrfs: Vec<String> = members.keys().cloned().collect();
    let translation = match (&router.nat, &forwarding.linux_nat) {
        (Some(rules), _) => forwarding.plane.nat_in_nftables(rules, &in_vrfs, Told::Here),
        (None, Some(rules)) => forwarding.plane.nat_in_nftables(rules, &in_vrfs, Told::Elsewhere),
        (None, None) => String::new(),
    };
    let translates = router.nat.is_some() || forwarding.linux_nat.is_some();
    let connections = !translation.is_empty() || filter.contains(" ct ");
    let zones = if connections { zones(members, !translation.is_empty()) } else { String::new() };
    let end = filter.rfind('}').unwrap_or(filter.len());
    let text = format!("{}{zones}{translation}{}", &filter[..end], &filter[end..]);
    let judged = format!("\t\tmeta mark {:#x} accept\n", port::JUDGED_MARK);
    let lines = text.split_inclusive('\n');
    let text: String = lines
        .flat_map(|line| {
            let hook = ["type filter hook", "type nat hook"].iter().any(|kind| line.trim().starts_with(kind));
            [line, if hook { &judged } else { "" }]
        })
        .collect();
    match translates {
        true => sent_untracked(&text),
        false => text,
    }
}

/// A table with which Linux does not track what it sends for a worker: it would take the translated
/// packet for a connection of its own, with which the same flow, once Linux translates it itself,
/// would clash, and get another port.
fn sent_untracked(text: &str) -> String {
    let end = text.rfind('}').unwrap_or(text.len());
    let mark = port::JUDGED_MARK;
    format!(
        "{}\tchain nat_sent {{\n\t\ttype filter hook output priority raw; policy accept;\n\t\tmeta mark {mark:#x} notrack\n\t}}\n{}",
        &text[..end],
        &text[end..]
    )
}
