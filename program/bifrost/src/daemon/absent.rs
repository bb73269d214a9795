//! Interfaces that rules of the filter and of translation name, and that are not there.
//!
//! They may come later, so a name that nothing has is no mistake, but worth a word: a rule for
//! `croe0` holds for no packet, and says nothing of it. Known are what Linux has in this network
//! namespace, and the ports of the configuration, which are waited for, and of which those in
//! shared memory are no interfaces of Linux's.

use std::collections::BTreeSet;

use config::Router;

use crate::control::nearest;

/// A warning for each rule and name.
pub(super) fn warnings(router: &Router) -> Vec<String> {
    let there = nix::net::if_::if_nameindex().map(|list| {
        list.iter().map(|one| one.name().to_string_lossy().into_owned()).collect::<BTreeSet<String>>()
    });
    let mut known = there.unwrap_or_default();
    known.extend(router.ports.iter().filter_map(|port| port.name.literal().map(str::to_owned)));
    among(router, &known)
}

fn among(router: &Router, known: &BTreeSet<String>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut look = |place: &str, name: &str| {
        let found = match name.parse::<config::Pattern>() {
            Ok(pattern) => known.iter().any(|known| pattern.matches(known)),
            Err(_) => known.contains(name),
        };
        if !found {
            let meant = nearest(name, known.iter().map(String::as_str))
                .map(|near| format!(", perhaps meant: {near}"));
            let warning = format!("{place}: no interface is called {name} now{}", meant.unwrap_or_default());
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    };
    for (_, rule) in router.filter.rules() {
        let lists = [&rule.matches.in_ports, &rule.matches.out_ports];
        for interface in lists.into_iter().flatten().flat_map(|list| &list.items) {
            look(&rule.place.to_string(), &interface.name);
        }
    }
    if let Some(nat) = &router.nat {
        for rule in &nat.rules {
            let names = rule.matches.input.iter().chain(&rule.matches.output);
            names.for_each(|name| look(&format!("translation rule {}", rule.name), name));
        }
        for clamp in &nat.clamps {
            clamp.output.iter().for_each(|name| look("clamp of TCP's segment size", name));
        }
    }
    warnings
}
