//! Linux's routes and the plane's, made comparable.
//!
//! Linux is read through `ip route`, not through Bifrost's own netlink code: two readers that share
//! nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use serde::Deserialize;

use crate::{Host, Result};

/// Each prefix with where its packets go: gateway and interface, or a word (`blackhole`).
pub type Routes = BTreeMap<IpNet, BTreeSet<String>>;

/// Linux's main table, of both families.
pub(crate) fn of_linux(host: &Host) -> Result<Routes> {
    let mut routes = Routes::new();
    read_ip(&host.run("ip -4 route show table main")?, "0.0.0.0/0", &mut routes);
    read_ip(&host.run("ip -6 route show table main")?, "::/0", &mut routes);
    Ok(routes)
}

/// Reads lines such as `198.18.0.0/24 nhid 7 via 10.9.0.2 dev right proto bgp`, `blackhole
/// 192.0.2.0/24`, and those that continue the one before: `nexthop via 10.9.0.2 dev right weight
/// 1`.
fn read_ip(text: &str, default: &str, routes: &mut Routes) {
    let mut prefix = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = words.first().copied().filter(|w| matches!(*w, "blackhole" | "unreachable" | "prohibit"));
        if !line.starts_with(char::is_whitespace) {
            let word = words.get(usize::from(kind.is_some())).copied().unwrap_or_default();
            let word = if word == "default" { default } else { word };
            prefix = word.parse::<IpNet>().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from));
            if let Some(prefix) = prefix {
                routes.entry(prefix).or_default();
            }
        }
        let after = |key| words.iter().position(|w| *w == key).and_then(|i| words.get(i + 1)).copied();
        let hop = match (kind, after("dev")) {
            (Some(kind), _) => kind.to_owned(),
            (None, Some(dev)) => hop(
                after("via").map(|via| if via == "inet6" { after("inet6").unwrap_or(via) } else { via }),
                dev,
            ),
            (None, None) => continue,
        };
        if let Some(hops) = prefix.and_then(|prefix| routes.get_mut(&prefix)) {
            hops.insert(hop);
        }
    }
}

fn hop(via: Option<&str>, dev: &str) -> String {
    format!("{} {dev}", via.unwrap_or("on link,"))
}

/// The main table as `bifrost show routes --json` prints it; `None` when that is something else.
pub(crate) fn of_plane(json: &str) -> Option<Routes> {
    #[derive(Deserialize)]
    struct Route {
        prefix: IpNet,
        table: u32,
        kind: String,
        next_hops: Vec<NextHop>,
    }
    #[derive(Deserialize)]
    struct NextHop {
        via: Option<String>,
        dev: String,
    }
    let list: Vec<Route> = serde_json::from_str(json).ok()?;
    let mut routes = Routes::new();
    for route in list.into_iter().filter(|route| route.table == 254) {
        let hops = routes.entry(route.prefix).or_default();
        hops.extend(route.next_hops.iter().map(|next| hop(next.via.as_deref(), &next.dev)));
        if matches!(route.kind.as_str(), "blackhole" | "unreachable" | "prohibit") {
            hops.insert(route.kind);
        }
    }
    Some(routes)
}

/// `Err` says how many prefixes differ, and shows one.
pub fn compare(plane: &Routes, linux: &Routes) -> std::result::Result<(), String> {
    let prefixes: BTreeSet<&IpNet> = plane.keys().chain(linux.keys()).collect();
    let differ: Vec<_> =
        prefixes.into_iter().filter(|prefix| plane.get(prefix) != linux.get(prefix)).collect();
    match differ.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "{} of {} differ, first {first}: the plane has {:?}, Linux {:?}",
            differ.len(),
            linux.len(),
            plane.get(first),
            linux.get(first)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_agree_on_what_both_can_say() {
        let mut linux = Routes::new();
        let text = "default via 10.9.0.2 dev right proto static\n198.18.0.0/24 nhid 7 proto bgp metric 20\n\tnexthop via \
                    10.9.0.2 dev right weight 1\n\tnexthop via 10.8.0.2 dev left weight 1\nblackhole 192.0.2.0/24\n\
                    10.1.0.0/24 dev left proto kernel scope link src 10.1.0.1\n10.7.0.1 via inet6 fe80::1 dev left\n";
        read_ip(text, "0.0.0.0/0", &mut linux);
        let route = |prefix: &str, kind: &str, hops: &str| {
            format!(r#"{{"prefix":"{prefix}","table":254,"kind":"{kind}","next_hops":[{hops}]}}"#)
        };
        let json = [
            route("0.0.0.0/0", "forward", r#"{"via":"10.9.0.2","dev":"right"}"#),
            route(
                "198.18.0.0/24",
                "forward",
                r#"{"via":"10.8.0.2","dev":"left"},{"via":"10.9.0.2","dev":"right"}"#,
            ),
            route("192.0.2.0/24", "blackhole", ""),
            route("10.1.0.0/24", "connected", r#"{"via":null,"dev":"left"}"#),
            route("10.7.0.1/32", "forward", r#"{"via":"fe80::1","dev":"left"}"#),
        ];
        let plane = of_plane(&format!("[{}]", json.join(","))).unwrap();
        assert_eq!(compare(&plane, &linux), Ok(()));
        assert!(compare(&Routes::new(), &linux).unwrap_err().starts_with("5 of 5 differ"));
    }
}
