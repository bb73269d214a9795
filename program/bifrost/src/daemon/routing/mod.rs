//! `[bgp]`, `[ospf]`, `[ospf6]`, `[policy]` and `[routing]`: FRR is told what the file says.
//!
//! ```text
//!   show running-config ──► what of it is the file's ──┐
//!                                                      ├─► commands ──► one vtysh -f ──► looked at again
//!   the file ──► as FRR would show it ─────────────────┘
//! ```
//!
//! What is rendered and compared is pure code (the crate `frr`). Whether FRR takes a line is known
//! only when it has it; so this part prepares last, as the one does that makes Linux's interfaces:
//! when a line is refused, or FRR does not show afterwards what it was told, the way back is gone
//! by the same code.
//!
//! FRR may start after Bifrost, and again while it runs. Both are noticed by its sockets; then FRR
//! is told all again, as far as it takes it.

mod vtysh;

use std::path::Path;
use std::time::{Duration, Instant};

use config::{Router, Routing};
use frr::sessions::{clears, effects};
use frr::{Command, Config, Owned, diff, render, render_for, script};
use graph::Registry;
use tracing::{error, info, warn};

use self::vtysh::Frr;
use super::forwarding::Forwarding;
use super::section::{Change, Section};

/// Between two looks whether FRR was started.
const PAUSE: Duration = Duration::from_secs(1);
/// FRR's lines may bring others with them, such as the families of neighbours that it knew already.
const ROUNDS: usize = 3;

/// The part of the daemon that tells FRR.
#[derive(Default)]
pub(crate) struct RoutingDaemons {
    /// What FRR had of the file's before what was prepared.
    before: Option<(Owned, Config, Vec<String>)>,
    /// The start of FRR's daemons that was told all.
    told: Option<Vec<(u64, i64, i64)>>,
    /// When was last looked.
    looked: Option<Instant>,
    /// That FRR is not there has been said.
    missed: bool,
}

/// What is between what FRR has and what it is to have.
struct Plan {
    from: Config,
    to: Config,
    commands: Vec<Command>,
}

impl Plan {
    fn of(frr: &Frr, owned: &Owned, to: Config) -> Result<Plan, String> {
        let from = owned.part(&frr.running()?);
        let commands = diff(&from, &to);
        Ok(Plan { from, to, commands })
    }

    /// For the operator: FRR's lines, and what they do to sessions.
    fn lines(&self) -> Vec<String> {
        let lines = self.commands.iter().map(|command| format!("FRR: {}", shown(command)));
        let effects = effects(&self.from, &self.to, &self.commands);
        lines.chain(effects.iter().map(ToString::to_string)).collect()
    }
}

/// What FRR is to have of a file, as it says it.
fn wanted(frr: &Frr, routing: &Routing) -> Result<Config, String> {
    Ok(render_for(routing, &frr.running()?))
}

/// A command, for the operator: without secrets.
fn shown(command: &Command) -> String {
    let line = covered(&command.line);
    command.contexts.iter().rev().fold(line, |line, context| format!("{context}: {line}"))
}

/// A line whose secret is not shown.
fn covered(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let secret = words.iter().position(|word| {
        matches!(*word, "password" | "authentication-key" | "md5" | "key-string" | "string")
    });
    match secret {
        Some(at) if at + 1 < words.len() => format!("{} ***", words[..=at].join(" ")),
        _ => line.to_owned(),
    }
}

/// Tells FRR commands; the first that it refuses is the error.
fn tell(frr: &Frr, commands: &[Command]) -> Result<(), String> {
    let (text, of_line) = script(commands);
    let refused = frr.tell(&text)?;
    let Some(first) = refused.first() else { return Ok(()) };
    let command = first.line.checked_sub(1).and_then(|line| *of_line.get(line)?);
    let line = match command {
        Some(command) => shown(&commands[command]),
        None => covered(text.lines().nth(first.line.wrapping_sub(1)).unwrap_or_default()),
    };
    Err(format!("FRR refuses {line:?}: {}", first.why))
}

/// Makes FRR's part of the file what it is to be; what was told.
///
/// # Errors
/// What FRR refuses, or does not have afterwards; the way back is not gone here.
fn make(frr: &Frr, owned: &Owned, to: &Config) -> Result<Vec<String>, String> {
    let mut told = Vec::new();
    for _ in 0..ROUNDS {
        let plan = Plan::of(frr, owned, to.clone())?;
        if plan.commands.is_empty() {
            return Ok(told);
        }
        tell(frr, &plan.commands)?;
        frr.order(&clears(&plan.to, &plan.commands))?;
        told.extend(plan.lines());
    }
    let left = Plan::of(frr, owned, to.clone())?;
    match left.commands.first() {
        None => Ok(told),
        Some(command) => Err(format!(
            "FRR took {:?}, but does not show it so: write it as `show running-config` has it, or leave it out \
             where it is FRR's default",
            shown(command)
        )),
    }
}

/// Makes FRR's part of the file what it was; what cannot be is told.
fn undo(frr: &Frr, owned: &Owned, before: &Config) {
    if let Err(wrong) = make(frr, owned, before) {
        error!("FRR is not as it was: {wrong}");
    }
}

/// What the FRR of these sockets has, as it shows it; `None`: there is none.
///
/// # Errors
/// Why it cannot be asked, for the operator.
pub(crate) fn configuration(sockets: &Path) -> Result<Option<String>, String> {
    if !sockets.join("zebra.vty").exists() {
        return Ok(None);
    }
    let frr = Frr::at(sockets);
    frr.is_there(&Routing::default())?;
    frr.shown().map(Some)
}

/// What FRR's grammar has not of what a file says; none where FRR is not installed.
pub(crate) fn is_refused(router: &Router) -> Option<String> {
    Frr::is_installed().then(|| is_grammatical(router).err()).flatten()
}

/// Whether FRR's grammar has what a file says.
///
/// # Errors
/// The first line that it has not, for the operator.
fn is_grammatical(router: &Router) -> Result<(), String> {
    if !router.routing.says_any() {
        return Ok(());
    }
    let text = render(&router.routing).text();
    match Frr::check(&text)?.first() {
        None => Ok(()),
        Some(refused) => {
            let line = text.lines().nth(refused.line.wrapping_sub(1)).unwrap_or_default().trim();
            Err(format!("FRR refuses {:?}: {}", covered(line), refused.why))
        }
    }
}

/// What FRR would be told for a configuration now, a line each.
///
/// # Errors
/// Why it cannot be, for the operator.
pub(crate) fn plan(router: &Router) -> Result<Vec<String>, String> {
    if !router.routing.says_any() {
        return Ok(Vec::new());
    }
    planned(&Routing::default(), router, false)
}

fn planned(before: &Routing, after: &Router, was_told: bool) -> Result<Vec<String>, String> {
    let frr = Frr::of(after);
    if !is_ready(&frr, before, &after.routing, was_told)? {
        return Ok(Vec::new());
    }
    is_grammatical(after)?;
    let owned = Owned::of(before, &after.routing);
    Ok(Plan::of(&frr, &owned, wanted(&frr, &after.routing)?)?.lines())
}

/// Whether FRR can be told; no: it need not be now.
///
/// # Errors
/// It must be told, and is not there.
fn is_ready(frr: &Frr, before: &Routing, after: &Routing, was_told: bool) -> Result<bool, String> {
    let Err(wrong) = frr.is_there(after) else { return Ok(true) };
    // What the file does not say any more is gone with FRR; and where nothing of this changes, what
    // else does need not wait for it.
    if !after.says_any() || before == after {
        return Ok(false);
    }
    // One that ended since it was told is told when it is back: nothing of it can be wrong now, and
    // a way back must not wait for it.
    if was_told && before.says_any() && frr.is_there(before).is_err() {
        warn!("{wrong}; FRR is told what the file says when it is back");
        return Ok(false);
    }
    Err(wrong)
}

impl RoutingDaemons {
    /// Tells FRR all when it was started, as far as it takes it.
    pub(super) fn follow(&mut self, forwarding: &mut Forwarding) {
        let routing = &forwarding.router.routing;
        if !routing.says_any() || self.looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return;
        }
        self.looked = Some(Instant::now());
        let frr = Frr::of(&forwarding.router);
        let start = frr.start(routing);
        if start.is_some() && start == self.told {
            return;
        }
        if let Err(wrong) = frr.is_there(routing) {
            if !std::mem::replace(&mut self.missed, true) {
                warn!("{wrong}; FRR is told what the file says when it is there");
            }
            return;
        }
        forwarding.plane.takes_long();
        (self.told, self.missed) = (start, false);
        let done = wanted(&frr, routing).and_then(|to| make(&frr, &Owned::of(routing, routing), &to));
        match done {
            Ok(told) => told.iter().for_each(|line| info!("{line}")),
            Err(wrong) => error!("{wrong}; FRR has the rest of what the file says"),
        }
    }
}

impl Section for RoutingDaemons {
    fn check(_: &Router, _: &Registry) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        let (before, after) = (&change.before.routing, &change.after.routing);
        if !before.says_any() && !after.says_any() {
            return Vec::new();
        }
        planned(before, &change.after, self.told.is_some())
            .unwrap_or_else(|wrong| vec![format!("it would be refused: {wrong}")])
    }

    /// FRR is told: whether it takes a line is known only then.
    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        self.before = None;
        let (before, after) = (&change.before.routing, &change.after.routing);
        if !before.says_any() && !after.says_any() {
            return Ok(());
        }
        forwarding.plane.takes_long();
        let frr = Frr::of(&change.after);
        if !is_ready(&frr, before, after, self.told.is_some())? {
            return Ok(());
        }
        is_grammatical(&change.after)?;
        let owned = Owned::of(before, after);
        let running = frr.running()?;
        let was = owned.part(&running);
        match make(&frr, &owned, &render_for(after, &running)) {
            Ok(told) => self.before = Some((owned, was, told)),
            Err(wrong) => {
                undo(&frr, &owned, &was);
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change, _: &mut Forwarding) {
        let Some((_, _, told)) = self.before.take() else { return };
        told.iter().for_each(|line| info!("{line}"));
        let frr = Frr::of(&change.after);
        (self.told, self.missed) = (frr.start(&change.after.routing), false);
    }

    fn abort(&mut self, forwarding: &mut Forwarding) {
        if let Some((owned, was, _)) = self.before.take() {
            undo(&Frr::of(&forwarding.router), &owned, &was);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (line, shown) in [
            ("neighbor 192.0.2.2 password geheim", "neighbor 192.0.2.2 password ***"),
            ("no neighbor 192.0.2.2 password", "no neighbor 192.0.2.2 password"),
            ("ip ospf message-digest-key 1 md5 geheim", "ip ospf message-digest-key 1 md5 ***"),
            ("ip ospf authentication-key geheim", "ip ospf authentication-key ***"),
            ("neighbor 192.0.2.2 passive", "neighbor 192.0.2.2 passive"),
        ] {
            assert_eq!(covered(line), shown);
        }
    }
}
