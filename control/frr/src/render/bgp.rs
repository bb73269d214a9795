//! `router bgp`, as FRR shows it.

use config::{
    AddressFamily, AllowAs, BgpFamily, BgpInstance, Dampening, Evpn, NeighbourFamily, Originate, RemoteAs,
    RouteTarget, Speaker, Vpn,
};

use super::rpki::bmp;
use super::{by, context, redistribute};
use crate::tree::Node;

/// By which each neighbour says what it exchanges. Without it all exchange IPv4, and say when not.
pub(super) const EXPLICIT: &str = "no bgp default ipv4-unicast";
/// Which kinds of communities there are.
const COMMUNITIES: [(&str, &str); 3] = [("standard", ""), ("extended", " extended"), ("large", " large")];

pub(super) fn head(bgp: &BgpInstance) -> String {
    let vrf = bgp.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    format!("router bgp {}{vrf}", bgp.asn)
}

/// Whom there is something to say of: as FRR calls it, and what.
fn speakers(bgp: &BgpInstance) -> Vec<(String, &Speaker)> {
    let neighbours = bgp.neighbours.iter().map(|it| (it.peer.to_string(), &it.speaker));
    neighbours.chain(bgp.listens.iter().map(|it| (it.name.clone(), &it.speaker))).collect()
}

pub(super) fn instance(bgp: &BgpInstance, explicit: bool) -> Node {
    let speakers = speakers(bgp);
    let mut lines = Vec::new();
    let mut say = |is: bool, line: &str| lines.extend(is.then(|| line.to_owned()));
    // FRR has it by itself where a neighbour gets the best path of each system.
    let per_system = speakers.iter().flat_map(|(_, it)| it.families.values());
    let mut per_system = per_system.filter_map(|family| family.add_path);
    say(!bgp.ebgp_requires_policy, "no bgp ebgp-requires-policy");
    say(explicit, EXPLICIT);
    say(bgp.log_neighbour_changes, "bgp log-neighbor-changes");
    say(per_system.any(|path| path.ends_with("per-AS")), "bgp deterministic-med");
    say(bgp.graceful_restart, "bgp graceful-restart");
    lines.extend(bgp.router_id.map(|id| format!("bgp router-id {id}")));
    // FRR says nothing of its defaults.
    let restart = bgp.graceful_restart_time.filter(|time| *time != 120);
    lines.extend(restart.map(|time| format!("bgp graceful-restart restart-time {time}")));
    let stale = bgp.graceful_restart_stale_time.filter(|time| *time != 360);
    lines.extend(stale.map(|time| format!("bgp graceful-restart stalepath-time {time}")));
    lines.extend(bgp.timers.map(|(keepalive, hold)| format!("timers bgp {keepalive} {hold}")));
    for listen in &bgp.listens {
        lines.push(format!("neighbor {} peer-group", listen.name));
    }
    for it in &bgp.neighbours {
        let interface = matches!(it.peer, config::Peer::Interface(_));
        let interface = if interface { "interface " } else { "" };
        lines.push(format!("neighbor {} {interface}{}", it.peer, remote_as(&it.speaker)));
        speaker(&it.peer.to_string(), &it.speaker, &mut lines);
    }
    for it in &bgp.listens {
        lines.push(format!("neighbor {} {}", it.name, remote_as(&it.speaker)));
        speaker(&it.name, &it.speaker, &mut lines);
    }
    lines.extend(bgp.listen_limit.filter(|most| *most != 100).map(|most| format!("bgp listen limit {most}")));
    for it in &bgp.listens {
        let range = |range| format!("bgp listen range {range} peer-group {}", it.name);
        lines.extend(it.ranges.iter().map(range));
    }
    let mut node = context(head(bgp), lines);
    node.children.extend(bgp.bmp.iter().map(bmp));
    for family in AddressFamily::ALL {
        let mut lines = Vec::new();
        bgp.families.get(&family).iter().for_each(|it| advertised(it, &mut lines));
        let usual = !explicit && family == AddressFamily::Ipv4;
        for (name, it) in &speakers {
            match (it.families.get(&family), usual) {
                (Some(exchanged), _) => exchange(name, family, exchanged, usual, &mut lines),
                (None, true) => lines.push(format!("no neighbor {name} activate")),
                (None, false) => {}
            }
        }
        if let (AddressFamily::Evpn, Some(it)) = (family, &bgp.evpn) {
            evpn(it, &mut lines);
        }
        if !lines.is_empty() {
            node.children.push(context(format!("address-family {}", family.frr()), lines));
        }
    }
    node
}

fn remote_as(it: &Speaker) -> String {
    match it.remote_as {
        RemoteAs::Number(number) => format!("remote-as {number}"),
        RemoteAs::Internal => "remote-as internal".to_owned(),
        RemoteAs::External => "remote-as external".to_owned(),
    }
}

fn speaker(name: &str, it: &Speaker, lines: &mut Vec<String>) {
    let mut say = |what: String| lines.push(format!("neighbor {name} {what}"));
    if let Some(local) = &it.local_as {
        let prepend = if local.prepend { "" } else { " no-prepend" };
        let replace = if local.replace { " replace-as" } else { "" };
        say(format!("local-as {}{prepend}{replace}", local.asn));
    }
    it.description.iter().for_each(|text| say(format!("description {text}")));
    it.password.iter().for_each(|password| say(format!("password {}", password.reveal())));
    for (is, what) in [
        (!it.enabled, "shutdown"),
        (it.passive, "passive"),
        (!it.connected_check, "disable-connected-check"),
        (it.enforce_first_as, "enforce-first-as"),
        (it.extended_next_hop, "capability extended-nexthop"),
    ] {
        if is {
            say(what.to_owned());
        }
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
    it.advertisement_interval.iter().for_each(|time| say(format!("advertisement-interval {time}")));
    it.graceful_restart.iter().for_each(|what| say((*what).to_owned()));
}

fn advertised(it: &BgpFamily, lines: &mut Vec<String>) {
    if let Some([external, internal, local]) = it.distance.filter(|distance| *distance != [20, 200, 200]) {
        lines.push(format!("distance bgp {external} {internal} {local}"));
    }
    for network in &it.networks {
        lines.push(format!("network {}{}", network.prefix, by(&network.route_map)));
    }
    for aggregate in &it.aggregates {
        let set = if aggregate.as_set { " as-set" } else { "" };
        let only = if aggregate.summary_only { " summary-only" } else { "" };
        let map = by(&aggregate.route_map);
        lines.push(format!("aggregate-address {}{set}{only}{map}", aggregate.prefix));
    }
    lines.extend(it.redistribute.iter().map(redistribute));
    lines.extend(it.dampening.iter().map(dampening));
    lines.extend(it.maximum_paths.map(|paths| format!("maximum-paths {paths}")));
    lines.extend(it.maximum_paths_ibgp.map(|paths| format!("maximum-paths ibgp {paths}")));
    it.vpn.iter().for_each(|it| vpn(it, lines));
    lines.extend(it.import_vrfs.iter().map(|vrf| format!("import vrf {vrf}")));
}

/// FRR says nothing of its defaults, and no more than the first number where the rest follows from
/// it.
fn dampening(it: &Dampening) -> String {
    let Dampening { half_life, reuse, suppress, longest } = *it;
    match (half_life, (reuse, suppress, longest) == (750, 2_000, half_life * 4)) {
        (15, true) => "bgp dampening".to_owned(),
        (_, true) => format!("bgp dampening {half_life}"),
        (_, false) => format!("bgp dampening {half_life} {reuse} {suppress} {longest}"),
    }
}

fn spaced(targets: &[RouteTarget]) -> String {
    targets.iter().map(|target| format!(" {target}")).collect()
}

fn vpn(it: &Vpn, lines: &mut Vec<String>) {
    lines.extend(it.label.iter().map(|label| format!("label vpn export {label}")));
    lines.extend(it.rd.iter().map(|rd| format!("rd vpn export {rd}")));
    lines.extend(it.next_hop.iter().map(|hop| format!("nexthop vpn export {hop}")));
    for (way, targets, map) in
        [("import", &it.import, &it.route_map[0]), ("export", &it.export, &it.route_map[1])]
    {
        if !targets.is_empty() {
            lines.push(format!("rt vpn {way}{}", spaced(targets)));
            lines.push(format!("{way} vpn"));
        }
        lines.extend(map.iter().map(|map| format!("route-map vpn {way} {map}")));
    }
}

fn evpn(it: &Evpn, lines: &mut Vec<String>) {
    for (is, line) in [
        (it.advertise_all_vni, "advertise-all-vni"),
        (it.advertise_default_gw, "advertise-default-gw"),
        (it.advertise_svi_ip, "advertise-svi-ip"),
        (!it.flooding, "flooding disable"),
    ] {
        lines.extend(is.then(|| line.to_owned()));
    }
    lines.extend(it.advertise.iter().map(|family| format!("advertise {family} unicast")));
    lines.extend(it.rd.iter().map(|rd| format!("rd {rd}")));
    for (way, targets) in [("import", &it.import), ("export", &it.export)] {
        lines.extend(targets.iter().map(|target| format!("route-target {way} {target}")));
    }
}

fn exchange(name: &str, of: AddressFamily, family: &NeighbourFamily, usual: bool, lines: &mut Vec<String>) {
    let mut say = |no: &str, what: String| lines.push(format!("{no}neighbor {name} {what}"));
    let mut tell = |what: String| say("", what);
    if !usual {
        tell("activate".to_owned());
    }
    family.add_path.iter().for_each(|paths| tell((*paths).to_owned()));
    family.next_hop_self.flatten().iter().for_each(|force| tell(format!("next-hop-self{force}")));
    family.remove_private_as.flatten().iter().for_each(|which| tell(format!("remove-private-AS{which}")));
    for (is, what) in [
        (family.add_path_receive.map(|on| !on), "disable-addpath-rx"),
        (family.as_override, "as-override"),
        (family.route_reflector_client, "route-reflector-client"),
        (family.route_server_client, "route-server-client"),
        (family.soft_reconfiguration, "soft-reconfiguration inbound"),
    ] {
        if is == Some(true) {
            tell(what.to_owned());
        }
    }
    match &family.default_originate {
        None | Some(Originate::Never) => {}
        Some(Originate::Always) => tell("default-originate".to_owned()),
        Some(Originate::By(map)) => tell(format!("default-originate route-map {map}")),
    }
    if let Some(most) = family.maximum_prefix {
        // FRR says nothing of its default.
        let threshold = family.maximum_prefix_threshold.filter(|threshold| *threshold != 75);
        let threshold = threshold.map_or_else(String::new, |threshold| format!(" {threshold}"));
        let restart = family.maximum_prefix_restart;
        let restart = restart.map_or_else(String::new, |minutes| format!(" restart {minutes}"));
        let warns = family.maximum_prefix_warning_only == Some(true);
        let warns = if warns { " warning-only" } else { "" };
        tell(format!("maximum-prefix {most}{threshold}{warns}{restart}"));
    }
    family.maximum_prefix_out.iter().for_each(|most| tell(format!("maximum-prefix-out {most}")));
    match family.allowas_in {
        None => {}
        Some(AllowAs::Origin) => tell("allowas-in origin".to_owned()),
        Some(AllowAs::Times(3)) => tell("allowas-in".to_owned()),
        Some(AllowAs::Times(times)) => tell(format!("allowas-in {times}")),
    }
    family.weight.iter().for_each(|weight| tell(format!("weight {weight}")));
    for (names, what) in [
        (&family.prefix_list, "prefix-list"),
        (&family.route_map, "route-map"),
        (&family.as_path_list, "filter-list"),
    ] {
        for (list, direction) in names.iter().zip(["in", "out"]) {
            list.iter().for_each(|list| tell(format!("{what} {list} {direction}")));
        }
    }
    family.unsuppress_map.iter().for_each(|map| tell(format!("unsuppress-map {map}")));
    // A client of a route server gets next hops as they came in.
    let client = family.route_server_client == Some(true);
    let unchanged = |what: &&str| {
        family.unchanged.as_ref().is_some_and(|all| all.contains(what)) || client && *what == "next-hop"
    };
    let unchanged: Vec<&str> = ["as-path", "next-hop", "med"].into_iter().filter(unchanged).collect();
    if !unchanged.is_empty() && of != AddressFamily::Evpn {
        tell(format!("attribute-unchanged {}", unchanged.join(" ")));
    }
    if let Some(sent) = &family.send_community {
        for (_, word) in COMMUNITIES.iter().filter(|(word, _)| !sent.contains(word)) {
            say("no ", format!("send-community{word}"));
        }
    }
}
