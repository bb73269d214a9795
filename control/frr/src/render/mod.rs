//! What a file says as FRR's lines, in the form in which `show running-config` has them: so that
//! what FRR has can be compared with them.

mod bfd;
mod bgp;
mod rpki;

use config::{
    Area, AreaKind, Family, Lines, ListKind, Ospf, OspfInterface, Policy, Protocol, Redistribute, Routing,
};

use self::bgp::{EXPLICIT, head, instance};
use crate::tree::{Config, Node};

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
    let rpki = routing.bgp.as_ref().and_then(|bgp| bgp.rpki.as_ref());
    config.0.extend(rpki.map(rpki::rpki));
    config.0.extend(routing.bfd.as_ref().map(bfd::bfd));
    for (ospf, six) in [(&routing.ospf, false), (&routing.ospf6, true)] {
        for ospf in ospf.iter().flat_map(|main| [main].into_iter().chain(&main.vrfs)) {
            config.0.push(router(ospf, six));
            config.merge(Config(ospf.interfaces.iter().map(|it| interface(it, six)).collect()));
        }
    }
    routing.protocols().into_iter().filter_map(|(_, it)| it).for_each(|it| protocol(it, &mut config));
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
            ListKind::ExtendedCommunity => "bgp extcommunity-list standard",
            ListKind::CommunityPattern => "bgp community-list expanded",
            ListKind::LargeCommunityPattern => "bgp large-community-list expanded",
            ListKind::ExtendedCommunityPattern => "bgp extcommunity-list expanded",
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

fn protocol(it: &Protocol, config: &mut Config) {
    let lines = |lines: &Lines| -> Vec<String> {
        let secret = lines.secret.iter().map(|(head, secret)| format!("{head} {}", secret.reveal()));
        lines.plain.iter().cloned().chain(secret).collect()
    };
    match &it.context {
        Some(line) => config.0.push(context(line, lines(&it.lines))),
        None => config.0.extend(lines(&it.lines).into_iter().map(Node::new)),
    }
    let interfaces = it.interfaces.iter().map(|(name, it)| context(format!("interface {name}"), lines(it)));
    config.merge(Config(interfaces.filter(|node| !node.children.is_empty()).collect()));
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
    let vrf = ospf.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    context(format!("router {name}{vrf}"), lines)
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
