//! `[interface.NAME]`, `[[route]]` and `[[rule]]`: Linux is made as the file says.
//!
//! ```text
//!   what Linux has ──┬────────────────────────► way(from, to) ──► steps ──► ip -batch
//!                    └─ wanted(file) ──► to be ──┘
//! ```
//!
//! What Linux has is read by `ip -json` ([`linux`]). The file says what of that is to be another
//! ([`wanted`]), and [`way`] finds the steps from the one to the other. A step may be refused; then
//! Linux is read again, and the way from there to what it was is gone. So the same two functions,
//! which touch nothing, put a change in force, undo it, and say what it would do; and where Linux
//! is already so, there are no steps.
//!
//! At the start as much is done as can be: a router that lacks one card has the addresses of the
//! others. What is missing is made when it comes.
//!
//! What is Bifrost's own is known by marks that Linux keeps, whoever ends the daemon: the [`GROUP`]
//! of interfaces that it made, and the [`PROTOCOL`] of its routes and rules.

mod linux;
#[cfg(test)]
mod naive;
mod rules;
mod step;
mod wanted;
mod way;
mod wireguard;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use config::{Interface, Route, Router, RoutingRule};
use graph::Registry;
use tracing::{error, info, warn};

use self::linux::Linux;
use self::step::Step;
use super::forwarding::Forwarding;
use super::section::{Change, Section};

/// The group of interfaces that Bifrost made.
const GROUP: u32 = 0xb1f0;
/// Who made Bifrost's routes and rules (`RTPROT_*`).
const PROTOCOL: u8 = mirror::origin::BIFROST;

/// Between two times that Linux is made so because interfaces came.
const PAUSE: Duration = Duration::from_secs(1);

/// The part of the daemon that makes Linux as the file says.
#[derive(Default)]
pub(crate) struct Own {
    /// What Linux had before what was prepared, and what is done since.
    before: Option<Before>,
    /// Interfaces that were seen.
    seen: BTreeSet<u32>,
    /// One that the file names has come, or come up.
    due: bool,
    /// When Linux was last made so for that.
    last: Option<Instant>,
}

/// What Linux had before a change.
struct Before {
    linux: Linux,
    asked: Asked,
    steps: Vec<Step>,
}

/// What is the file's, or was, whoever made it. Of routes and rules of the same place the later one
/// counts.
#[derive(Default)]
struct Asked {
    routes: Vec<Route>,
    rules: Vec<RoutingRule>,
    /// Interfaces of WireGuard, which has to be asked for what they have.
    wireguard: BTreeSet<String>,
    /// Interfaces as the file had them.
    before: Vec<Interface>,
}

impl Asked {
    /// What the file asks for.
    fn by(router: &Router) -> Asked {
        let mut asked = Asked::default();
        asked.add(router);
        asked
    }

    /// What the file asks for, and what it asked for, which is there.
    fn by_both(change: &Change) -> Asked {
        let mut asked = Asked::by(&change.after);
        asked.add(&change.before);
        asked.before.clone_from(&change.before.interfaces);
        asked
    }

    fn add(&mut self, router: &Router) {
        self.routes.extend_from_slice(&router.routes);
        self.rules.extend_from_slice(&router.routing_rules);
        let wireguard = router.interfaces.iter().filter(|it| it.wireguard.is_some());
        self.wireguard.extend(wireguard.map(|it| it.name.clone()));
    }
}

/// Whether the file says anything of this.
fn says_any(router: &Router) -> bool {
    !(router.interfaces.is_empty() && router.routes.is_empty() && router.routing_rules.is_empty())
}

/// What would be done for a configuration now, a line each.
///
/// # Errors
/// Why it cannot be, for the operator.
pub(crate) fn plan(router: &Router) -> Result<Vec<String>, String> {
    if !says_any(router) {
        return Ok(Vec::new());
    }
    let (_, steps) = steps(router, &Asked::by(router))?;
    Ok(steps.iter().map(Step::to_string).collect())
}

/// What Linux has, and the way from there to what the file says.
fn steps(router: &Router, asked: &Asked) -> Result<(Linux, Vec<Step>), String> {
    let from = Linux::read(router, asked)?;
    let (to, refused) = wanted::wanted(&from, router, &asked.before);
    match refused.is_empty() {
        true => Ok((from.clone(), way::way(&from, &to))),
        false => Err(refused.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// Makes Linux what it was; what cannot be is told.
fn undo(before: &Linux, asked: &Asked, router: &Router) {
    let undone = Linux::read(router, asked).and_then(|now| {
        let back = way::way(&now, before);
        let refused = step::run(&back, true)?;
        refused.iter().for_each(|wrong| error!("Linux is not as it was: {wrong}"));
        Ok(())
    });
    if let Err(wrong) = undone {
        error!("Linux is not as it was: {wrong}");
    }
}

impl Own {
    /// Makes Linux as the file says, as far as that can be; tells what cannot.
    pub(super) fn begin(&self, forwarding: &Forwarding) {
        let router = &forwarding.router;
        let from = match Linux::read(router, &Asked::by(router)) {
            Ok(from) => from,
            Err(wrong) if says_any(router) => return error!("Linux is left as it is: {wrong}"),
            // Nothing was ever made here by a program that is not there.
            Err(_) => return,
        };
        let (to, refused) = wanted::wanted(&from, router, &[]);
        refused.iter().for_each(|refused| warn!("{refused}; it is made when that has changed"));
        let steps = way::way(&from, &to);
        let refused = match step::run(&steps, true) {
            Ok(refused) => refused,
            Err(wrong) => return error!("{wrong}"),
        };
        refused.iter().for_each(|wrong| error!("{wrong}"));
        let done = |step: &&Step| !refused.iter().any(|wrong| wrong.step == *step);
        steps.iter().filter(done).for_each(|step| info!("{step}"));
    }

    /// Makes all again when one of the interfaces that changed is the file's, and has come or is
    /// up: its routes may have gone.
    pub(super) fn follow(&mut self, changed: &BTreeSet<u32>, forwarding: &Forwarding) {
        let router = &forwarding.router;
        let links = &forwarding.mirror.model().links;
        for link in changed.iter().filter_map(|ifindex| links.by_index(*ifindex)) {
            // What somebody has set down stays so until then.
            let came = self.seen.insert(link.ifindex) || link.up;
            self.due |= came && wanted::names(router, &link.name);
        }
        if self.due && self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            (self.due, self.last) = (false, Some(Instant::now()));
            self.begin(forwarding);
        }
    }
}

impl Section for Own {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        Ok(wanted::warnings(router))
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        if !says_any(&change.before) && !says_any(&change.after) {
            return Vec::new();
        }
        let steps = steps(&change.after, &Asked::by_both(change))
            .map(|(_, steps)| steps.iter().map(Step::to_string).collect());
        steps.unwrap_or_else(|wrong| vec![format!("it would be refused: {wrong}")])
    }

    /// The steps themselves, for whether Linux takes one is known only then. So this part is the
    /// last to prepare.
    fn prepare(&mut self, change: &mut Change, _: &mut Forwarding) -> Result<(), String> {
        self.before = None;
        if !says_any(&change.before) && !says_any(&change.after) {
            return Ok(());
        }
        let asked = Asked::by_both(change);
        let (linux, steps) = steps(&change.after, &asked)?;
        let refused = step::run(&steps, false)?.first().map(ToString::to_string);
        match refused {
            None => self.before = Some(Before { linux, asked, steps }),
            Some(wrong) => {
                undo(&linux, &asked, &change.after);
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        let done = self.before.take();
        done.iter().flat_map(|before| &before.steps).for_each(|step| info!("{step}"));
    }

    fn abort(&mut self, forwarding: &mut Forwarding) {
        if let Some(before) = self.before.take() {
            undo(&before.linux, &before.asked, &forwarding.router);
        }
    }
}
