//! `linux_filter = "adopt"`: Linux's own firewall, followed and judged by in the plane.
//!
//! What nftables has is read whole (`nft -j`) whenever its generation has moved, and made a filter
//! ([`firewall`]). A family of which something is not understood is Linux's, whole. The order is
//! what matters: a family's transit is left to Linux *before* workers forget its rules, and comes
//! back *after* they have got them. What is in rings and batches when it is left to Linux is still
//! judged: workers forget rules when that has landed ([`Next`]). So at no moment a packet passes
//! unjudged; while a change is read the rules of before hold, for half a second at most.
//!
//! Packets that are Linux's for other reasons (its own, those of interfaces that are no ports) meet
//! nftables itself. So there is no copy to keep.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Foreign as Wish;
use firewall::{Adopted, Problem};
use mirror::model::Link;
use plane::InFlight;
use plane::worker_pool::WorkerPool;
use tracing::{info, warn};

use super::forwarding::Forwarding;
use super::interfaces::is_ours;
use super::nft;

/// How long packets may be on their way to workers that a driver's program took before it was told
/// to leave all to Linux: the core that it runs on may be taken away meanwhile.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// What workers are to judge by when nothing is on its way that the rules of before are for. First
/// the driver's programs come to an end, then workers take what they have been given.
struct Next {
    since: Instant,
    in_flight: Option<InFlight>,
    adopted: Adopted,
}

impl Next {
    fn has_come(&mut self, workers: &WorkerPool) -> bool {
        if self.since.elapsed() < ON_THE_WAY {
            return false;
        }
        let in_flight = self.in_flight.get_or_insert_with(|| workers.in_flight());
        workers.has_landed(in_flight)
    }
}

/// What is read, and what else decides what comes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    /// Of nftables: every change of it has another one.
    generation: u32,
    /// Interfaces are in VRFs.
    vrfs: bool,
    /// Ports are members of bridges.
    bridges: bool,
    /// The router translates addresses itself.
    translates: bool,
}

/// A thread that reads.
struct Reading {
    version: Version,
    thread: JoinHandle<Result<Adopted, String>>,
}

/// What was read last, and what came of it.
#[derive(Default)]
pub(crate) struct Firewall {
    read: Option<Version>,
    reading: Option<Reading>,
    next: Option<Next>,
    /// What stands in the way of adopting it; as it was told.
    pub(crate) problems: Vec<Problem>,
    /// It could not be read, or not be compiled.
    pub(crate) refused: Option<String>,
}

/// The firewall as it is now; `translates`: the router translates addresses itself.
///
/// # Errors
/// nft cannot be run, or answers what is no ruleset.
pub fn read(translates: bool) -> Result<Adopted, String> {
    firewall::adopt(&nft::list()?, translates).map_err(|error| error.to_string())
}

/// Whether there are VRFs, in which Linux's rules see other names of interfaces.
fn has_vrfs(forwarding: &Forwarding) -> bool {
    let links = &forwarding.mirror.model().links;
    links.iter().any(|link| links.vrf_of(link).is_some())
}

fn has_bridges(forwarding: &Forwarding) -> bool {
    let links = &forwarding.mirror.model().links;
    let ours = |member: &Link| is_ours(&member.name, links, &forwarding.router);
    links.iter().any(|link| link.is_bridge() && links.members(link.ifindex).any(ours))
}

/// The rules by which flows will be translated, before they are adopted: Linux keeps what it was
/// told about these flows when the daemon ended.
pub(super) fn translation(forwarding: &Forwarding) -> Option<nat::Rules> {
    let adopts = forwarding.router.linux_filter == Wish::Adopt && forwarding.router.nat.is_none();
    if !adopts || has_vrfs(forwarding) {
        return None;
    }
    // Why it cannot be read is told when it is to be adopted.
    read(false).ok()?.nat
}

impl Firewall {
    /// The firewall that workers are to judge by now, when it is another than they do.
    pub fn changed(&mut self, forwarding: &Forwarding) -> Option<Adopted> {
        if let Some(next) = &mut self.next {
            let has_come = next.has_come(forwarding.plane.worker_pool());
            return self.next.take_if(|_| has_come).map(|next| next.adopted);
        }
        let adopts = forwarding.router.linux_filter == Wish::Adopt;
        // No nftables, no firewall.
        let Some(generation) = forwarding.mirror.nftables().filter(|_| adopts) else {
            *self = Firewall::default();
            return (forwarding.firewall != Adopted::default()).then(Adopted::default);
        };
        let (vrfs, bridges) = (has_vrfs(forwarding), has_bridges(forwarding));
        let translates = forwarding.router.nat.is_some();
        let now = Version { generation, vrfs, bridges, translates };
        let (version, adopted) = self.follow(now)?;
        let before = std::mem::take(&mut self.problems);
        (self.read, self.refused) = (Some(version), None);
        let adopted = match adopted {
            Ok(adopted) if version.vrfs && adopted.judges() => {
                self.refuse("interfaces are in VRFs, where Linux's rules see other names".to_owned())
            }
            Ok(adopted) if version.bridges && adopted.reverse != [None; 2] => self
                .refuse("it asks for the way back to sources, and ports are members of bridges".to_owned()),
            Ok(adopted) => adopted,
            Err(why) => self.refuse(why),
        };
        for problem in adopted.problems.iter().filter(|problem| !before.contains(problem)) {
            warn!(
                "Linux's filter cannot be adopted: {problem}; transit of {} is left to Linux, which is slower",
                in_words(problem.families)
            );
        }
        self.problems.clone_from(&adopted.problems);
        (adopted != forwarding.firewall).then_some(adopted)
    }

    /// Has it read beside the control thread, for large sets take long: what was read, when it has
    /// been. The first time is waited for, as ports are about to be taken.
    fn follow(&mut self, now: Version) -> Option<(Version, Result<Adopted, String>)> {
        let reading = match self.reading.take() {
            Some(reading) => reading,
            None if self.read == Some(now) => return None,
            None => Reading { version: now, thread: std::thread::spawn(move || read(now.translates)) },
        };
        if self.read.is_some() && !reading.thread.is_finished() {
            self.reading = Some(reading);
            return None;
        }
        let read = reading.thread.join();
        Some((reading.version, read.unwrap_or_else(|_| Err("reading it failed".to_owned()))))
    }

    /// Nothing is adopted.
    fn refuse(&mut self, why: String) -> Adopted {
        warn!("Linux's filter cannot be adopted: {why}; transit that it could touch is left to Linux");
        self.refused = Some(why);
        Adopted::default()
    }

    /// Has workers judge by it when what is in flight has landed.
    pub fn adopt_later(&mut self, adopted: Adopted) {
        self.next = Some(Next { since: Instant::now(), in_flight: None, adopted });
    }

    /// Has workers judge by it, or by none where they cannot.
    pub fn adopt(&mut self, adopted: Adopted, forwarding: &mut Forwarding) {
        let (families, rules) = (adopted.families, count(&adopted));
        match forwarding.judge_by(adopted) {
            Ok(()) => {
                if let Some(rules) = rules {
                    info!("Linux's filter is adopted for {}: {rules}", in_words(families));
                }
            }
            Err(why) => {
                let none = self.refuse(why);
                // The rules of before are no longer Linux's: at the least they are not relied on.
                forwarding.firewall.families = none.families;
                if let Err(why) = forwarding.judge_by(none) {
                    warn!("workers keep the rules that Linux's filter had before: {why}");
                }
            }
        }
    }
}

/// How many rules are adopted, for people; `None`: none.
pub fn count(adopted: &Adopted) -> Option<String> {
    let rules = adopted.filter.rules().count();
    match adopted.nat.as_ref().map_or(0, |nat| nat.rules.len()) {
        0 => (rules > 0).then(|| format!("{rules} rules")),
        translating => Some(format!("{rules} rules, and {translating} for translation")),
    }
}

/// Families, for people.
pub fn in_words(families: [bool; 2]) -> &'static str {
    match families {
        [true, true] => "IPv4 and IPv6",
        [true, false] => "IPv4",
        [false, true] => "IPv6",
        [false, false] => "no family",
    }
}
