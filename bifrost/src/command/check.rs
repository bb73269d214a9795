//! `bifrost check`: says everything that is wrong with a file, or what it comes to.

use std::io::Write;
use std::path::Path;

use config::{Foreign, Machine, Router};
use graph::Registry;

use super::Failure;
use crate::daemon;

pub fn check(file: &Path, registry: &Registry) -> Result<(), Failure> {
    let router = Router::open(file).map_err(|error| Failure::Said(error.to_string()))?;
    report(&router, Some(file), registry)
}

/// Says what a sound configuration comes to on this machine.
pub fn report(router: &Router, file: Option<&Path>, registry: &Registry) -> Result<(), Failure> {
    let warnings = daemon::examine(router, registry).map_err(Failure::Said)?;
    let interfaces = interfaces();
    let mut text = match file {
        Some(file) => format!("{}: no mistakes\n", file.display()),
        None => "no mistakes\n".to_owned(),
    };
    text += &warnings;
    for rule in &router.ports {
        let taken: Vec<&str> = (interfaces.iter().map(String::as_str))
            .filter(|name| router.port(name).is_some_and(|first| first.name == rule.name))
            .collect();
        let taken = if taken.is_empty() { "no such interface now".to_owned() } else { taken.join(" ") };
        text += &format!("port {}: {taken}\n", rule.name);
    }
    text += &foreign(router);
    if router.ports.is_empty() {
        text += "it says that it names no port: Bifrost will have nothing to do\n";
    }
    let cores = router.workers.cores_among(&Machine::this().cores.0);
    text +=
        &format!("workers on cores: {}\n", cores.iter().map(usize::to_string).collect::<Vec<_>>().join(" "));
    std::io::stdout().write_all(text.as_bytes()).map_err(Failure::output)
}

/// What Linux does to packets here and Bifrost does not, and what comes of it.
fn foreign(router: &Router) -> String {
    let beyond = mirror::survey();
    let mut text = String::new();
    for (kind, found, wish) in
        [("filter", &beyond.filters, router.linux_filter), ("policy rule", &beyond.rules, router.linux_rules)]
    {
        let done = match wish {
            Foreign::Respect => "transit that it could touch will be left to Linux",
            Foreign::Ignore => "it will be passed by, as configured",
        };
        found.iter().for_each(|one| text += &format!("Linux's {kind} {one}: {done}\n"));
    }
    text
}

/// Interfaces of this network namespace, in order.
fn interfaces() -> Vec<String> {
    let mut names: Vec<String> = nix::net::if_::if_nameindex()
        .map(|list| list.iter().map(|one| one.name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}
