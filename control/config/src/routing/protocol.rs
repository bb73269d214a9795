//! `[isis]`, `[rip]`, `[ripng]` and `[pim]`: protocols whose keys are lines of FRR's, one for one.
//! They are kept as these lines; secrets apart, so that nobody shows them by mistake.

use std::net::{IpAddr, Ipv4Addr};

use toml::Spanned;

use super::family::Family;
use super::policy::ListKind;
use super::words::{Files, Redistribute, Used, Uses, name, prefix, redistribute, seconds, secret};
use crate::interface::interface_name;
use crate::mistake::{Hint, Page};
use crate::secrets::Secret;
use crate::section::{Section, named};

/// What FRR is told of one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// The line of its context; `None`: its lines are at the root.
    pub context: Option<String>,
    /// Its lines.
    pub lines: Lines,
    /// What interfaces have of it, by their names.
    pub interfaces: Vec<(String, Lines)>,
}

/// Lines of FRR's, as it shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Those that anybody may see.
    pub plain: Vec<String>,
    /// Those that end with a secret: what is in front of it, and the secret.
    pub secret: Vec<(String, Secret)>,
}

impl Lines {
    fn say(&mut self, line: impl Into<String>) {
        self.plain.push(line.into());
    }

    fn number(
        &mut self,
        page: &mut Page,
        keys: &mut Section,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
        word: &str,
    ) {
        let number = keys.number(page, key, range);
        self.plain.extend(number.map(|number| format!("{word} {number}")));
    }

    /// A line that is there or not.
    fn flag(&mut self, page: &mut Page, keys: &mut Section, key: &'static str, line: &str) {
        if keys.flag(page, key) == Some(true) {
            self.say(line);
        }
    }

    /// Whole seconds; FRR says nothing of its default.
    fn seconds(
        &mut self,
        page: &mut Page,
        keys: &mut Section,
        key: &'static str,
        most: u64,
        usual: u16,
        word: &str,
    ) {
        let found = seconds(page, keys, key, 1..=most).filter(|time| *time != usual);
        self.plain.extend(found.map(|time| format!("{word} {time}")));
    }

    fn secret(
        &mut self,
        page: &mut Page,
        keys: &mut Section,
        key: &'static str,
        most: usize,
        word: &str,
        files: &mut Files,
    ) {
        let found = secret(page, keys, key, most, files);
        self.secret.extend(found.map(|secret| (word.to_owned(), secret)));
    }
}

/// What each interface has.
fn interfaces(
    page: &mut Page,
    section: &mut Section,
    title: &str,
    mut read: impl FnMut(&mut Page, &mut Section, &mut Lines),
) -> Vec<(String, Lines)> {
    let mut found = Vec::new();
    for (called, mut keys) in named(page, section, "interface", &format!("{title}.interface")) {
        let mut lines = Lines::default();
        read(page, &mut keys, &mut lines);
        match interface_name(called) {
            Ok(called) => found.push((called, lines)),
            Err(wrong) => page.wrong(keys.at.clone(), wrong, Hint::expected("the name of an interface")),
        }
        keys.finish(page);
    }
    found
}

fn redistributed(it: &Redistribute, from: &str) -> String {
    let metric = it.metric.map_or_else(String::new, |metric| format!(" metric {metric}"));
    let map = it.route_map.as_ref().map_or_else(String::new, |map| format!(" route-map {map}"));
    format!("redistribute {from}{metric}{map}")
}

/// The levels of IS-IS: how the file says it, and FRR.
pub(crate) const LEVELS: [(&str, &str); 3] = [("1", "level-1"), ("2", "level-2-only"), ("1-2", "level-1-2")];

/// What FRR's instance of IS-IS is called.
const INSTANCE: &str = "main";

/// `[isis]`: IS-IS (RFC 1195), for both families.
pub(super) fn isis(page: &mut Page, mut section: Section, uses: &mut Uses, files: &mut Files) -> Protocol {
    const NET: &str = "a network entity title, such as \"49.0001.1921.6800.1001.00\"";
    let instance = section.text(page, "name", "a name", name).map(|found| found.value);
    let instance = instance.unwrap_or_else(|| INSTANCE.to_owned());
    let mut lines = Lines::default();
    let net = section.text(page, "net", NET, |text| match is_net(text) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("{text:?} is not that")),
    });
    let net = section.require(page, "net", net, NET);
    lines.plain.extend(net.map(|found| format!("net {}", found.value)));
    let level = section.choice(page, "level", &LEVELS).unwrap_or("level-1-2");
    if level != "level-1-2" {
        lines.say(format!("is-type {level}"));
    }
    lines.flag(page, &mut section, "overload", "set-overload-bit");
    lines.flag(page, &mut section, "log_neighbour_changes", "log-adjacency-changes");
    lines.number(page, &mut section, "lsp_mtu", 128..=4_352, "lsp-mtu");
    lines.secret(page, &mut section, "area_password", 254, "area-password md5", files);
    lines.secret(page, &mut section, "domain_password", 254, "domain-password md5", files);
    let levels: &[&str] = match level {
        "level-1" => &["level-1"],
        "level-2-only" => &["level-2"],
        _ => &["level-1", "level-2"],
    };
    for family in [Family::Ipv4, Family::Ipv6] {
        let key = family.key();
        let Some(mut keys) = section.section(page, key, &format!("[isis.{key}]")) else { continue };
        for it in redistribute(page, &mut keys, family, "isis", uses) {
            for level in levels {
                lines.say(redistributed(&it, &format!("{key} {} {level}", it.from)));
            }
        }
        if let Some(mut default) = keys.section(page, "default", &format!("[isis.{key}.default]")) {
            let always = if default.flag(page, "always") == Some(true) { " always" } else { "" };
            let map = uses.name(page, &mut default, "route_map", Used::RouteMap);
            let map = map.map_or_else(String::new, |map| format!(" route-map {map}"));
            let metric = default.number(page, "metric", 1..=16_777_215);
            let metric = metric.map_or_else(String::new, |metric| format!(" metric {metric}"));
            default.finish(page);
            for level in levels {
                let line = format!("default-information originate {key} {level}{always}{map}{metric}");
                lines.say(line);
            }
        }
        keys.finish(page);
    }
    let found = interfaces(page, &mut section, "isis", |page, keys, lines| {
        for (key, word) in [("ipv4", "ip"), ("ipv6", "ipv6")] {
            if keys.flag(page, key) != Some(false) {
                lines.say(format!("{word} router isis {instance}"));
            }
        }
        let own = keys.choice(page, "level", &LEVELS);
        lines.plain.extend(own.filter(|own| *own != level).map(|own| format!("isis circuit-type {own}")));
        lines.flag(page, keys, "passive", "isis passive");
        lines.flag(page, keys, "point_to_point", "isis network point-to-point");
        lines.flag(page, keys, "bfd", "isis bfd");
        let metric = keys.number(page, "metric", 1..=16_777_215).filter(|metric| *metric != 10);
        lines.plain.extend(metric.map(|metric| format!("isis metric {metric}")));
        lines.seconds(page, keys, "hello", 600, 3, "isis hello-interval");
        let multiplier = keys.number(page, "hello_multiplier", 2..=100).filter(|number| *number != 10);
        lines.plain.extend(multiplier.map(|number| format!("isis hello-multiplier {number}")));
        let priority = keys.number(page, "priority", 0..=127).filter(|number| *number != 64);
        lines.plain.extend(priority.map(|number| format!("isis priority {number}")));
        lines.secret(page, keys, "password", 254, "isis password md5", files);
    });
    section.finish(page);
    Protocol { context: Some(format!("router isis {instance}")), lines, interfaces: found }
}

/// An area of 1 to 13 bytes, a system of 6, and `00`, in hexadecimal with dots (ISO 10589).
fn is_net(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let hex = parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let area = parts.len().checked_sub(4).filter(|count| *count > 0);
    let Some(area) = area.filter(|_| hex) else { return false };
    let bytes = 2 + parts[1..area].iter().map(|part| part.len()).sum::<usize>();
    parts[0].len() == 2
        && parts[1..area].iter().all(|part| part.len() == 4)
        && bytes <= 26
        && parts[area..area + 3].iter().all(|part| part.len() == 4)
        && parts[area + 3] == "00"
}

/// `[rip]` (RFC 2453) and `[ripng]` (RFC 2080).
pub(super) fn rip(
    page: &mut Page,
    mut section: Section,
    family: Family,
    uses: &mut Uses,
    files: &mut Files,
) -> Protocol {
    let title = if family == Family::Ipv4 { "rip" } else { "ripng" };
    let mut lines = Lines::default();
    lines.flag(page, &mut section, "default", "default-information originate");
    let metric = section.number(page, "default_metric", 1..=16).filter(|metric| *metric != 1);
    lines.plain.extend(metric.map(|metric| format!("default-metric {metric}")));
    for it in redistribute(page, &mut section, family, title, uses) {
        lines.say(redistributed(&it, it.from));
    }
    let times = [("update", 30), ("timeout", 180), ("garbage", 120)]
        .map(|(key, usual)| seconds(page, &mut section, key, 5..=65_535).unwrap_or(usual));
    if times != [30, 180, 120] {
        lines.say(format!("timers basic {} {} {}", times[0], times[1], times[2]));
    }
    if family == Family::Ipv4 {
        let neighbours = section.texts(page, "neighbours", "a list of addresses", |text| {
            text.parse::<Ipv4Addr>().map_err(|_| format!("{text:?} is no address of IPv4"))
        });
        for neighbour in neighbours.unwrap_or_default() {
            lines.say(format!("neighbor {neighbour}"));
        }
    }
    let nets = section.texts(page, "networks", "a list of prefixes", |text| match prefix(text) {
        Ok(net) if family.has(&net) => Ok(net),
        Ok(_) => Err(format!("{text:?} is not of {}", family.word())),
        Err(wrong) => Err(wrong),
    });
    for net in nets.unwrap_or_default() {
        lines.say(format!("network {net}"));
    }
    let mut passive = Vec::new();
    let found = interfaces(page, &mut section, title, |page, keys, lines| {
        passive.push(keys.flag(page, "passive") == Some(true));
        if family == Family::Ipv6 {
            return;
        }
        let digest = keys.flag(page, "md5").unwrap_or(true);
        if keys.value("key").is_some() {
            lines.say(format!("ip rip authentication mode {}", if digest { "md5" } else { "text" }));
        }
        lines.secret(page, keys, "key", 16, "ip rip authentication string", files);
    });
    for ((name, _), passive) in found.iter().zip(passive) {
        lines.say(format!("network {name}"));
        if passive {
            lines.say(format!("passive-interface {name}"));
        }
    }
    section.finish(page);
    Protocol { context: Some(format!("router {title}")), lines, interfaces: found }
}

/// `[pim]`: PIM (RFC 7761) and IGMP (RFC 3376), for IPv4.
pub(super) fn pim(page: &mut Page, mut section: Section, uses: &mut Uses) -> Protocol {
    const POINTS: &str = "sections [pim.rendezvous_point.\"ADDRESS\"]";
    let mut lines = Lines::default();
    for (called, mut keys) in named(page, &mut section, "rendezvous_point", "pim.rendezvous_point") {
        let address = called.parse::<Ipv4Addr>();
        if address.is_err() {
            let message = format!("{called:?} is no address of IPv4");
            page.wrong(keys.at.clone(), message, Hint::expected(POINTS));
        }
        let groups =
            keys.texts(page, "groups", "a list of prefixes in 224.0.0.0/4", |text| match prefix(text)? {
                ipnet::IpNet::V4(net) if net.addr().is_multicast() && net.prefix_len() >= 4 => Ok(net),
                _ => Err(format!("{text:?} is not of groups")),
            });
        let groups = groups.unwrap_or_default();
        let all = groups.is_empty().then(|| "224.0.0.0/4".to_owned());
        for group in groups.iter().map(ToString::to_string).chain(all) {
            lines.plain.extend(address.as_ref().ok().map(|it| format!("ip pim rp {it} {group}")));
        }
        keys.finish(page);
    }
    let list = Used::List(ListKind::Prefixes(Family::Ipv4));
    let ssm = uses.name(page, &mut section, "ssm_list", list);
    lines.plain.extend(ssm.map(|name| format!("ip pim ssm prefix-list {name}")));
    lines.flag(page, &mut section, "ecmp", "ip pim ecmp");
    let found = interfaces(page, &mut section, "pim", |page, keys, lines| {
        if keys.flag(page, "enabled") != Some(false) {
            lines.say("ip pim");
        }
        lines.flag(page, keys, "passive", "ip pim passive");
        lines.flag(page, keys, "bfd", "ip pim bfd");
        lines.seconds(page, keys, "hello", 180, 30, "ip pim hello");
        let priority = keys.number(page, "priority", 1..=u64::from(u32::MAX)).filter(|number| *number != 1);
        lines.plain.extend(priority.map(|number| format!("ip pim drpriority {number}")));
        let Some(mut igmp) = keys.section(page, "igmp", "igmp") else { return };
        lines.say("ip igmp");
        let version = igmp.number(page, "version", 2..=3).filter(|version| *version != 3);
        lines.plain.extend(version.map(|version| format!("ip igmp version {version}")));
        lines.seconds(page, &mut igmp, "query_interval", 65_535, 125, "ip igmp query-interval");
        let joined = igmp.texts(page, "join", "a list of groups, such as [\"239.1.1.1\"]", |text| match text
            .parse::<IpAddr>(
        ) {
            Ok(IpAddr::V4(group)) if group.is_multicast() => Ok(group),
            _ => Err(format!("{text:?} is no group of IPv4")),
        });
        for group in joined.unwrap_or_default() {
            lines.say(format!("ip igmp join {group}"));
        }
        igmp.finish(page);
    });
    let at = section.value("interface").map_or(section.at.clone(), Spanned::span);
    if found.is_empty() {
        page.wrong(at, "[pim] has no interface", Hint::expected("[pim.interface.NAME]"));
    }
    section.finish(page);
    Protocol { context: None, lines, interfaces: found }
}
