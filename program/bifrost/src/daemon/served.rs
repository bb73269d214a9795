//! `[service.*]`, `[system]` and `dhcp` of `[interface]`: daemons that serve hosts, the one that
//! has the machine's log, and the client of DHCP are told what the file says.
//!
//! What each is told, and the way from what it has to that, is the crate `services`. Whether a
//! daemon runs with it is known only when it does: so this part prepares last, as those do that
//! make Linux's interfaces and tell FRR, and goes back if it must. Only what changed is touched.
//!
//! At the start as much is done as can be, and what cannot is tried again: a service waits for its
//! interface, and for its package. Until Bifrost is ready it starts no daemon, for systemd lets
//! many of them wait for the network, and the network for Bifrost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::Router;
use graph::Registry;
use services::{Manager, Service, ServiceError, Step, services};
use tracing::{error, info, warn};

use super::forwarding::Forwarding;
use super::section::{Change, Section};

/// Between two times that what could not be done is tried.
const PAUSE: Duration = Duration::from_secs(10);

/// The part of the daemon that tells services.
#[derive(Default)]
pub(crate) struct Served {
    /// What was done to prepare, and by whom.
    done: Option<(Option<PathBuf>, Vec<Step>)>,
    /// All are as the file says.
    settled: bool,
    /// When that was last tried.
    tried: Option<Instant>,
    /// What was said then.
    said: Vec<String>,
}

fn manager(router: &Router) -> Option<&Path> {
    router.services.manager.as_deref()
}

/// The services of a change: where it leads, and what was elsewhere before.
fn concerned(before: &Router, after: &Router) -> Vec<Service> {
    let mut all = Vec::new();
    if before.services.root != after.services.root {
        let root = before.services.root.clone();
        let none = config::Services { root, ..config::Services::default() };
        all = services(&Router { services: none, ..Router::default() });
    }
    all.extend(services(after));
    all
}

/// What would be done for a configuration now, a line each.
///
/// # Errors
/// Why it cannot be, for the operator.
pub(crate) fn plan(router: &Router) -> Result<Vec<String>, String> {
    let steps = services::plan(&services(router), manager(router));
    steps.map(|steps| lines(&steps)).map_err(|wrong| wrong.to_string())
}

/// FRR's own unit. What its daemons are told is `[routing]`'s, which tells them again.
const FRR: &str = "frr";

/// Has a daemon start anew that the file has something to say to, or FRR. What came of it.
///
/// # Errors
/// There is none of that name, or it does not start; for the operator.
pub(super) fn restart(router: &Router, name: &str) -> Result<String, String> {
    if name == FRR {
        // Not awaited: it takes FRR some seconds to end its sessions well.
        let restarted = Manager::of(manager(router)).and_then(|manager| manager.restart(FRR, true));
        restarted.map_err(|wrong| wrong.to_string())?;
        return Ok("frr restarts; its sessions are set up again".to_owned());
    }
    let all = services(router).into_iter().filter(|service| service.text.is_some() && !service.once);
    let all: Vec<Service> = all.collect();
    let Some(service) = all.iter().find(|service| service.name == name) else {
        let names: Vec<&str> = all.iter().map(|service| service.name).chain([FRR]).collect();
        return Err(format!("the file has no service {name:?}; what can restart: {}", names.join(", ")));
    };
    service.restart(manager(router)).map_err(|wrong| wrong.to_string())?;
    Ok(format!("{} has restarted; {}", service.unit, service.restarts))
}

fn lines(steps: &[Step]) -> Vec<String> {
    steps.iter().map(Step::to_string).collect()
}

/// What a change does. While the file says the same, no other change waits for a service that does
/// not run.
fn planned(change: &Change) -> Result<(Option<PathBuf>, Vec<Step>), ServiceError> {
    let (before, after) = (&change.before, &change.after);
    // Accounts are in the groups of the socket.
    let same_groups = before.control == after.control || after.system.users.is_empty();
    let clients = |router: &Router| -> Vec<_> {
        let ask = |it: &config::Interface| {
            (it.name.clone(), it.dhcp.clone(), it.client6.clone(), it.delegated.clone())
        };
        router.interfaces.iter().map(ask).collect()
    };
    let same = before.services == after.services && before.system == after.system;
    if same && same_groups && clients(before) == clients(after) {
        return Ok((None, Vec::new()));
    }
    let manager = manager(after).or(manager(before)).map(Path::to_owned);
    let steps = services::plan(&concerned(before, after), manager.as_deref())?;
    Ok((manager, steps))
}

impl Served {
    /// Has all of them be as the file says, as far as can be; once, unless something is missing.
    pub(super) fn follow(&mut self, forwarding: &mut Forwarding) {
        if self.settled || self.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return;
        }
        self.tried = Some(Instant::now());
        let router = &forwarding.router;
        let mut said = Vec::new();
        for service in services(router) {
            let steps = services::plan(std::slice::from_ref(&service), manager(router));
            let gone = steps.and_then(|steps| {
                if !steps.is_empty() {
                    forwarding.plane.takes_long();
                }
                services::go(&steps, manager(router), true).map(|()| lines(&steps))
            });
            match gone {
                Ok(lines) => lines.iter().for_each(|line| info!("{line}")),
                Err(wrong) => said.push(wrong.to_string()),
            }
        }
        said.iter().filter(|wrong| !self.said.contains(wrong)).for_each(|wrong| {
            warn!("{wrong}; it is tried again");
        });
        (self.settled, self.said) = (said.is_empty(), said);
    }
}

impl Section for Served {
    fn check(router: &Router, _: &Registry) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        let all = |nets: &[ipnet::IpNet]| nets.iter().any(|net| net.prefix_len() == 0);
        if router.services.dns.as_ref().is_some_and(|dns| all(&dns.access)) {
            warnings.push("[service.dns]: everybody may ask, and have answers sent to others".to_owned());
        }
        Ok(warnings)
    }

    fn effects(&self, change: &Change) -> Vec<String> {
        match planned(change) {
            Ok((_, steps)) => lines(&steps),
            Err(wrong) => vec![format!("it would be refused: {wrong}")],
        }
    }

    /// They are told: whether a daemon runs with it is known only then.
    fn prepare(&mut self, change: &mut Change, forwarding: &mut Forwarding) -> Result<(), String> {
        self.done = None;
        let (manager, steps) = planned(change).map_err(|wrong| wrong.to_string())?;
        if steps.is_empty() {
            return Ok(());
        }
        forwarding.plane.takes_long();
        services::go(&steps, manager.as_deref(), false).map_err(|wrong| {
            if matches!(wrong, ServiceError::Lost { .. }) {
                (self.settled, self.tried) = (false, None);
            }
            wrong.to_string()
        })?;
        self.done = Some((manager, steps));
        Ok(())
    }

    fn apply(&mut self, _: &Change, _: &mut Forwarding) {
        let Some((_, steps)) = self.done.take() else { return };
        lines(&steps).iter().for_each(|line| info!("{line}"));
        self.settled = true;
    }

    fn abort(&mut self, _: &mut Forwarding) {
        let Some((manager, steps)) = self.done.take() else { return };
        if let Err(wrong) = services::undo(&steps, manager.as_deref()) {
            error!("what was before cannot be made again: {wrong}");
            (self.settled, self.tried) = (false, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_the_file_has_restarts_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (program, orders) = (folder.path().join("manager"), folder.path().join("orders"));
        fs::write(&program, format!("#!/bin/sh\necho $1 $2 >>{}\n", orders.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let text = format!(
            "without_ports = \"on\"\n[service]\nmanager = {:?}\n[service.dns]\nlisten = [\"192.0.2.1\"]\naccess = []\n",
            program.display().to_string()
        );
        let router = Router::read("router.toml", &text, &config::Machine::this())
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));

        assert_eq!(restart(&router, "dns").unwrap(), "unbound has restarted; its cache is empty then");
        let told = fs::read_to_string(&orders).unwrap();
        assert_eq!(told.lines().filter(|order| *order == "restart unbound").count(), 1, "{told}");
        assert_eq!(restart(&router, "frr").unwrap(), "frr restarts; its sessions are set up again");
        assert!(fs::read_to_string(&orders).unwrap().ends_with("restart frr\n"));
        for name in ["dhcp", "unbound", "system", ""] {
            assert_eq!(
                restart(&router, name).unwrap_err(),
                format!("the file has no service {name:?}; what can restart: dns, frr")
            );
        }
    }
}
