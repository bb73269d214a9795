//! What a file says as FRR's lines, in the form in which `show running-config` has them: so that
//! what FRR has can be compared with them.

use config::{
    Area, AreaKind, BgpInstance, Family, ListKind, Neighbour, NeighbourFamily, Originate, Ospf,
    OspfInterface, Policy, Redistribute, RemoteAs, Routing,
};

use crate::tree::{Config, Node};

/// By which each neighbour says what it exchanges. Without it all exchange IPv4, and say when not.
const EXPLICIT: &str = "no bgp default ipv4-unicast";

/// All that FRR is to have of a file.
pub fn render(routing: &Routing) -> Config {
    render_for(routing, &Config::default())
}

/// The same, said as FRR says it that has `running` already: BGP that was told elsewhere may have
/// neighbours which exchange IPv4 without a word.
pub fn render_for(routing: &Routing, running: &Config) -> Config {
    let mut config = Config::default();
    routing.policy.iter().for_each(|policy| lists(policy, &mut config.0));
    for bgp in routing.bgp.iter().flat_map(|bgp| &bgp.instances) {
        let there = running.context(&head(bgp));
        let explicit = there.is_none_or(|there| there.children.iter().any(|child| child.line == EXPLICIT));
        config.0.push(instance(bgp, explicit));
    }
    for (ospf, six) in [(&routing.ospf, false), (&routing.ospf6, true)] {
        let Some(ospf) = ospf else { continue };
        config.0.push(router(ospf, six));
        config.merge(Config(ospf.interfaces.iter().map(|it| interface(it, six)).collect()));
    }
    config.merge(Config::parse(&routing.lines));
    config
}

fn context(line: impl Into<String>, lines: Vec<String>) -> Node {
    Node { line: line.into(), children: lines.into_iter().map(Node::new).collect(), shared: false }
}

fn lists(policy: &Policy, nodes: &mut Vec<Node>) {
    for list in &policy.lists {
        let kind = match list.kind {
            ListKind::Prefixes(Family::Ipv4) => "ip prefix-list",
            ListKind::Prefixes(Family::Ipv6) => "ipv6 prefix-list",
            ListKind::AsPath => "bgp as-path access-list",
            ListKind::Community => "bgp community-list standard",
            ListKind::LargeCommunity => "bgp large-community-list standard",
        };
        let entries = list.entries.iter().zip(1..);
        nodes.extend(
            entries.map(|(entry, n)| Node::new(format!("{kind} {} seq {} {entry}", list.name, n * 5))),
        );
    }
    for map in &policy.route_maps {
        for entry in &map.entries {
            let action = if entry.permit { "permit" } else { "deny" };
            let line = format!("route-map {} {action} {}", map.name, entry.seq);
            nodes.push(context(line, entry.lines.clone()));
        }
    }
}

fn head(bgp: &BgpInstance) -> String {
    let vrf = bgp.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    format!("router bgp {}{vrf}", bgp.asn)
}

fn instance(bgp: &BgpInstance, explicit: bool) -> Node {
    let mut lines = Vec::new();
    lines.extend(bgp.router_id.map(|id| format!("bgp router-id {id}")));
    if bgp.log_neighbour_changes {
        lines.push("bgp log-neighbor-changes".to_owned());
    }
    if !bgp.ebgp_requires_policy {
        lines.push("no bgp ebgp-requires-policy".to_owned());
    }
    if explicit {
        lines.push(EXPLICIT.to_owned());
    }
    if bgp.graceful_restart {
        lines.push("bgp graceful-restart".to_owned());
    }
    lines.extend(bgp.timers.map(|(keepalive, hold)| format!("timers bgp {keepalive} {hold}")));
    bgp.neighbours.iter().for_each(|it| neighbour(it, &mut lines));
    let mut node = context(head(bgp), lines);
    for (at, family) in Family::BOTH.into_iter().enumerate() {
        let mut lines = Vec::new();
        for network in &bgp.families[at].networks {
            lines.push(format!("network {}{}", network.prefix, by(&network.route_map)));
        }
        lines.extend(bgp.families[at].redistribute.iter().map(redistribute));
        let usual = !explicit && family == Family::Ipv4;
        for it in &bgp.neighbours {
            match (&it.families[at], usual) {
                (Some(exchanged), _) => exchange(it, exchanged, usual, &mut lines),
                (None, true) => lines.push(format!("no neighbor {} activate", it.address)),
                (None, false) => {}
            }
        }
        lines.extend(bgp.families[at].maximum_paths.map(|paths| format!("maximum-paths {paths}")));
        if !lines.is_empty() {
            node.children.push(context(format!("address-family {} unicast", family.key()), lines));
        }
    }
    node
}

fn neighbour(it: &Neighbour, lines: &mut Vec<String>) {
    let mut say = |what: String| lines.push(format!("neighbor {} {what}", it.address));
    say(match it.remote_as {
        RemoteAs::Number(number) => format!("remote-as {number}"),
        RemoteAs::Internal => "remote-as internal".to_owned(),
        RemoteAs::External => "remote-as external".to_owned(),
    });
    it.description.iter().for_each(|text| say(format!("description {text}")));
    it.password.iter().for_each(|password| say(format!("password {}", password.reveal())));
    if !it.enabled {
        say("shutdown".to_owned());
    }
    if it.passive {
        say("passive".to_owned());
    }
    it.ebgp_multihop.iter().for_each(|hops| say(format!("ebgp-multihop {hops}")));
    it.ttl_security.iter().for_each(|hops| say(format!("ttl-security hops {hops}")));
    if let Some(profile) = &it.bfd {
        say("bfd".to_owned());
        profile.iter().for_each(|profile| say(format!("bfd profile {profile}")));
    }
    it.update_source.iter().for_each(|source| say(format!("update-source {source}")));
    it.timers.iter().for_each(|(keepalive, hold)| say(format!("timers {keepalive} {hold}")));
    it.connect_retry.iter().for_each(|time| say(format!("timers connect {time}")));
}

fn exchange(it: &Neighbour, family: &NeighbourFamily, usual: bool, lines: &mut Vec<String>) {
    let mut say = |what: String| lines.push(format!("neighbor {} {what}", it.address));
    if !usual {
        say("activate".to_owned());
    }
    for (is, what) in [
        (family.next_hop_self, "next-hop-self"),
        (family.route_reflector_client, "route-reflector-client"),
        (family.soft_reconfiguration, "soft-reconfiguration inbound"),
    ] {
        if is == Some(true) {
            say(what.to_owned());
        }
    }
    match &family.default_originate {
        None | Some(Originate::Never) => {}
        Some(Originate::Always) => say("default-originate".to_owned()),
        Some(Originate::By(map)) => say(format!("default-originate route-map {map}")),
    }
    family.maximum_prefix.iter().for_each(|most| say(format!("maximum-prefix {most}")));
    for (names, what) in [
        (&family.prefix_list, "prefix-list"),
        (&family.route_map, "route-map"),
        (&family.as_path_list, "filter-list"),
    ] {
        for (name, direction) in names.iter().zip(["in", "out"]) {
            name.iter().for_each(|name| say(format!("{what} {name} {direction}")));
        }
    }
}

fn by(route_map: &Option<String>) -> String {
    route_map.as_ref().map_or_else(String::new, |map| format!(" route-map {map}"))
}

fn redistribute(it: &Redistribute) -> String {
    let metric = it.metric.map_or_else(String::new, |metric| format!(" metric {metric}"));
    format!("redistribute {}{metric}{}{}", it.from, metric_type(it.metric_type), by(&it.route_map))
}

/// FRR says nothing of type 2.
fn metric_type(kind: Option<u8>) -> &'static str {
    if kind == Some(1) { " metric-type 1" } else { "" }
}

fn router(ospf: &Ospf, six: bool) -> Node {
    let name = if six { "ospf6" } else { "ospf" };
    let mut lines = Vec::new();
    lines.extend(ospf.router_id.map(|id| format!("{name} router-id {id}")));
    lines.extend(ospf.reference_bandwidth.map(|rate| format!("auto-cost reference-bandwidth {rate}")));
    lines.extend(ospf.redistribute.iter().map(redistribute));
    ospf.areas.iter().for_each(|it| area(it, &mut lines));
    if let Some(default) = &ospf.default {
        let always = if default.always { " always" } else { "" };
        let metric = default.metric.map_or_else(String::new, |metric| format!(" metric {metric}"));
        let (kind, map) = (metric_type(default.metric_type), by(&default.route_map));
        lines.push(format!("default-information originate{always}{metric}{kind}{map}"));
    }
    context(format!("router {name}"), lines)
}

fn area(area: &Area, lines: &mut Vec<String>) {
    let kind = match area.kind {
        AreaKind::Normal => None,
        AreaKind::Stub => Some("stub"),
        AreaKind::TotallyStub => Some("stub no-summary"),
        AreaKind::Nssa => Some("nssa"),
    };
    lines.extend(kind.map(|kind| format!("area {} {kind}", area.id)));
    lines.extend(area.ranges.iter().map(|range| format!("area {} range {range}", area.id)));
}

fn interface(it: &OspfInterface, six: bool) -> Node {
    let head = if six { "ipv6 ospf6" } else { "ip ospf" };
    let mut lines = Vec::new();
    let mut say = |what: String| lines.push(format!("{head} {what}"));
    say(format!("area {}", it.area));
    if let Some(authentication) = &it.authentication {
        let key = authentication.key.reveal();
        match authentication.key_id {
            Some(id) => {
                say("authentication message-digest".to_owned());
                say(format!("message-digest-key {id} md5 {key}"));
            }
            None => {
                say("authentication".to_owned());
                say(format!("authentication-key {key}"));
            }
        }
    }
    it.cost.iter().for_each(|cost| say(format!("cost {cost}")));
    it.hello.iter().for_each(|time| say(format!("hello-interval {time}")));
    it.dead.iter().for_each(|time| say(format!("dead-interval {time}")));
    it.priority.iter().for_each(|priority| say(format!("priority {priority}")));
    it.network.iter().for_each(|kind| say(format!("network {kind}")));
    if it.passive {
        say("passive".to_owned());
    }
    if it.bfd {
        say("bfd".to_owned());
    }
    context(format!("interface {}", it.name), lines)
}

#[cfg(test)]
mod tests {
    use config::{Machine, Router};

    use super::*;

    #[test]
    fn neighbours_exchange_ipv4_in_the_way_that_frr_has() {
        let file = "without_ports = \"on\"\n[bgp]\nas = 7\n[bgp.neighbour.\"192.0.2.1\"]\nremote_as = 8\n\
                    [bgp.neighbour.\"2001:db8::1\"]\nremote_as = 8\n";
        let routing = Router::read("f", file, &Machine::this()).unwrap().routing;
        let remote = " neighbor 192.0.2.1 remote-as 8\n neighbor 2001:db8::1 remote-as 8\n";
        let six =
            " address-family ipv6 unicast\n  neighbor 2001:db8::1 activate\n exit-address-family\nexit\n";
        let explicit = format!(
            "router bgp 7\n no bgp default ipv4-unicast\n{remote} address-family ipv4 unicast\n  \
             neighbor 192.0.2.1 activate\n exit-address-family\n{six}"
        );
        let usual = format!(
            "router bgp 7\n{remote} address-family ipv4 unicast\n  no neighbor 2001:db8::1 activate\n \
             exit-address-family\n{six}"
        );
        assert_eq!(render(&routing).text(), explicit);
        assert_eq!(render_for(&routing, &Config::parse(&explicit)).text(), explicit);
        assert_eq!(render_for(&routing, &Config::parse("router bgp 7\nexit\n")).text(), usual);
        // Another system is told anew, and so as we would.
        assert_eq!(render_for(&routing, &Config::parse("router bgp 9\nexit\n")).text(), explicit);
    }
}
