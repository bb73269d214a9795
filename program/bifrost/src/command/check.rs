//! `bifrost check`: says everything that is wrong with a file, or what it comes to.

use std::path::Path;

use config::{Foreign, Machine, Router};
use graph::Registry;
use rules::expect::Judgement;
use serde::Serialize;

use super::args::Output;
use super::table::{print, print_value};
use super::{Failure, interfaces};
use crate::daemon;

pub fn check(file: &Path, registry: &Registry, output: Output) -> Result<(), Failure> {
    let router = Router::open(file).map_err(|error| Failure::Said(error.to_string()))?;
    report(&router, Some(file), registry, output)
}

/// What a sound configuration comes to on this machine.
#[derive(Serialize)]
struct Report {
    file: Option<String>,
    warnings: Vec<String>,
    ports: Vec<Taken>,
    linux: Vec<String>,
    /// What would be done to Linux's interfaces and routes now, and what FRR would be told.
    plan: Vec<String>,
    worker_cores: Vec<usize>,
    /// Sentences of `[expect]`: what the rules alone say of them.
    expect: Vec<String>,
}

/// What a `[[port]]` means now.
#[derive(Serialize)]
struct Taken {
    name: String,
    interfaces: Vec<String>,
}

/// Says what a sound configuration comes to on this machine.
pub fn report(
    router: &Router,
    file: Option<&Path>,
    registry: &Registry,
    output: Output,
) -> Result<(), Failure> {
    let warnings = daemon::examine(router, registry).map_err(Failure::Said)?;
    let refused = daemon::routing::is_refused(router);
    if let Some(refused) = refused {
        return Err(Failure::Said(refused));
    }
    let expect = expectations(router)?;
    let names = interfaces::names();
    let taken = |rule: &config::PortRule| Taken {
        name: rule.name.to_string(),
        interfaces: names
            .iter()
            .filter(|name| router.port(name).is_some_and(|first| first.name == rule.name))
            .cloned()
            .collect(),
    };
    let report = Report {
        file: file.map(|file| file.display().to_string()),
        warnings: warnings.lines().map(str::to_owned).collect(),
        ports: router.ports.iter().map(taken).collect(),
        linux: foreign(router),
        plan: plan(router),
        worker_cores: router.workers.cores_among(&Machine::this().cores.0),
        expect,
    };
    match output.json {
        true => print_value(&report),
        false => print(&report.text()),
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = match &self.file {
            Some(file) => format!("{file}: no mistakes\n"),
            None => "no mistakes\n".to_owned(),
        };
        self.warnings.iter().for_each(|warning| text += &format!("{warning}\n"));
        for port in &self.ports {
            let taken = match port.interfaces.as_slice() {
                [] => "no such interface now".to_owned(),
                taken => taken.join(" "),
            };
            text += &format!("port {}: {taken}\n", port.name);
        }
        self.linux.iter().for_each(|one| text += &format!("{one}\n"));
        self.plan.iter().for_each(|one| text += &format!("{one}\n"));
        self.expect.iter().for_each(|one| text += &format!("{one}\n"));
        if self.ports.is_empty() {
            text += "it says that it names no port: Bifrost will have nothing to do\n";
        }
        let cores: Vec<String> = self.worker_cores.iter().map(usize::to_string).collect();
        text + &format!("workers on cores: {}\n", cores.join(" "))
    }
}

/// What the rules alone say of what is to stay true; an error where they break it, wherever routes
/// lead.
fn expectations(router: &Router) -> Result<Vec<String>, Failure> {
    let judged = daemon::expect::offline(router);
    let broken = judged.iter().filter(|(_, judgement)| matches!(judgement, Judgement::Broken(_)));
    let broken: Vec<String> = broken.map(daemon::expect::shown).collect();
    if !broken.is_empty() {
        let what = "it breaks what [expect] says is to stay true";
        return Err(Failure::Said(format!("{what}\n{}", broken.join("\n"))));
    }
    let said = |one: &(_, Judgement)| match one.1 {
        Judgement::Holds => format!("[expect]: {} by the rules alone", daemon::expect::shown(one)),
        _ => format!("[expect]: {}", daemon::expect::shown(one)),
    };
    Ok(judged.iter().map(said).collect())
}

/// What the start would do to Linux's interfaces and routes now, and tell FRR and services.
fn plan(router: &Router) -> Vec<String> {
    let plans = [daemon::own::plan(router), daemon::routing::plan(router), daemon::served::plan(router)];
    let told = |plan: Result<_, String>| {
        plan.unwrap_or_else(|wrong| vec![format!("now it could not be done: {wrong}")])
    };
    plans.into_iter().flat_map(told).collect()
}

/// What of Linux's own firewall will be adopted, and what stands in the way.
fn adopted(router: &Router) -> Vec<String> {
    let adopted = match daemon::firewall::read(router.nat.is_some()) {
        Ok(adopted) => adopted,
        Err(why) => return vec![format!("Linux's filter cannot be adopted now: {why}")],
    };
    let problems = adopted.problems.iter().map(|problem| format!("Linux's filter, not adopted: {problem}"));
    let families = daemon::firewall::in_words(adopted.families);
    let rules = daemon::firewall::count(&adopted)
        .map(|rules| format!("Linux's filter will be adopted for {families}: {rules}"));
    rules.into_iter().chain(problems).collect()
}

/// What Linux does to packets here and Bifrost does not, and what comes of it.
fn foreign(router: &Router) -> Vec<String> {
    let beyond = super::beyond::survey(|name| router.port(name).is_some());
    let mut list = Vec::new();
    if router.linux_filter == Foreign::Adopt {
        list.extend(adopted(router));
    }
    for (kind, found, wish) in [
        ("filter", &beyond.chains, router.linux_filter),
        ("filter", &beyond.filters, daemon::foreign::wish_of_others(router.linux_filter)),
        ("routing rule", &beyond.rules, router.linux_rules),
    ] {
        let done = match wish {
            Foreign::Adopt => "it will be adopted, or what it could touch left to Linux",
            Foreign::Respect => "transit that it could touch will be left to Linux",
            Foreign::Ignore => "it will be passed by, as configured",
        };
        list.extend(found.iter().map(|one| format!("Linux's {kind} {one}: {done}")));
    }
    list.extend(beyond.shapers.iter().map(|(interface, kind)| {
        format!("Linux's queueing discipline {kind} on {interface}: it will not shape what Bifrost forwards")
    }));
    list
}
