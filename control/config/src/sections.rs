//! How each section of the file is read. What is missing keeps its default; what is wrong is noted
//! and keeps its default as well, so that the rest of the file is still checked.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::cores::Cores;
use crate::flow_log::{flow_log, sflow};
use crate::machine::Machine;
use crate::memif::memif;
use crate::mirror_port::mirror_port;
use notation::duration;

use crate::api::api;
use crate::bfd::bfd;
use crate::dhcp_relay::relays;
use crate::discovery::discoveries;
use crate::interface::interfaces;
use crate::mistake::{Hint, Mistakes, Page};
use crate::pattern::Pattern;
use crate::repair::repairs;
use crate::route::routes;
use crate::router::*;
use crate::routing::routing;
use crate::rule::rules;
use crate::secrets;
use crate::section::{Found, Section, kind, number_of};
use crate::service::services;
use crate::sharing::sharing;
use crate::source;
use crate::system::{User, system};
use crate::virtual_router::virtual_routers;

const SWITCH: &[(&str, Switch)] = &[("auto", Switch::Auto), ("on", Switch::On), ("off", Switch::Off)];
/// Longest path of a Unix socket that leaves room for the name it is made under (sun_path has 108
/// bytes).
const LONGEST_SOCKET: usize = 90;

/// What a file without ports lacks.
const NO_PORTS: &str = "a [[port]] with the name of an interface, or without_ports = \"on\" at the beginning";

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be read.
    #[error("{}: cannot read it: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

impl Router {
    /// Reads and checks a file for this machine.
    pub fn open(path: &Path) -> Result<Router, OpenError> {
        let bytes = source::read(path).map_err(|error| OpenError::Io { path: path.to_owned(), error })?;
        let file = path.display().to_string();
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = std::str::from_utf8(&bytes) {
            let mut page = Page::new(&file, &text);
            let at = error.valid_up_to();
            page.broken(at..at + 1, "this is not text in UTF-8");
            page.close()?;
        }
        // Files that it names are beside it.
        Ok(Router::from_text(&file, &text, path.parent().unwrap_or(Path::new("")))?)
    }

    /// Checks a text whole, for this machine. `file` is what messages call it. Files that it names
    /// are looked for in `folder`.
    pub fn from_text(file: &str, text: &str, folder: &Path) -> Result<Router, Mistakes> {
        let mut files = |name: &Path| source::read_text(&folder.join(name));
        Router::read_with(file, text, &Machine::this(), &mut files)
    }

    /// Checks a text whole, for a machine. `file` is what messages call it. Files that it names are
    /// looked for in the current folder.
    pub fn read(file: &str, text: &str, machine: &Machine) -> Result<Router, Mistakes> {
        Router::read_with(file, text, machine, &mut |name| source::read_text(name))
    }

    pub(crate) fn read_with(
        file: &str,
        text: &str,
        machine: &Machine,
        files: &mut dyn FnMut(&Path) -> std::io::Result<String>,
    ) -> Result<Router, Mistakes> {
        let mut page = Page::new(file, text);
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().unwrap_or(0..text.len().min(1));
            page.broken(at, error.message().replace('\n', ", "));
        }
        let mut none_wanted = false;
        let section = Section::new("", root.span(), root.get_ref());
        let mut router = root_of(&mut page, section, machine, files, &mut none_wanted);
        router.text = secrets::covered(text);
        router.raw = text.into();
        for at in secrets::places(text).into_iter().filter(|at| secrets::is_covered(&text[at.clone()])) {
            let hint = Hint::expected("the secret itself");
            page.wrong(at, "this is not the secret, but what is shown in its place", hint);
        }
        page.close()?;
        // A file that was cut off, or is being written, looks like this; so it must be said.
        if router.ports.is_empty() && !none_wanted {
            let mut page = Page::new(file, text);
            page.missing(0..0, "it names no port", Hint::expected(NO_PORTS));
            page.close()?;
        }
        Ok(router)
    }
}

fn root_of(
    page: &mut Page,
    mut root: Section,
    machine: &Machine,
    files: &mut dyn FnMut(&Path) -> std::io::Result<String>,
    none_wanted: &mut bool,
) -> Router {
    let default = Router::default();
    let mut ftp = true;
    let virtual_ones;
    let own = root.value("interface").map(|value| interfaces(page, value, files)).unwrap_or_default();
    let services = root.section(page, "service", "[service]").map(|s| services(page, s)).unwrap_or_default();
    let judged_by;
    let router = Router {
        routes: root.value("route").map(|value| routes(page, value, &own)).unwrap_or_default(),
        routing_rules: root.value("rule").map(|value| rules(page, value, &own)).unwrap_or_default(),
        dhcp_relays: relays(page, &mut root, &own, &services),
        interfaces: own,
        routing: routing(page, &mut root, files),
        ports: root.value("port").map(|value| ports(page, value)).unwrap_or_default(),
        workers: root
            .section(page, "workers", "[workers]")
            .map(|s| workers(page, s, machine))
            .unwrap_or_default(),
        memory: root.section(page, "memory", "[memory]").map(|s| memory(page, s)).unwrap_or_default(),
        tables: root.section(page, "tables", "[tables]").map(|s| tables(page, s)).unwrap_or_default(),
        paths: root.section(page, "paths", "[paths]").map(|s| paths(page, s)).unwrap_or_default(),
        police: root.section(page, "police", "[police]").map(|s| police(page, s)).unwrap_or_default(),
        linux_filter: foreign(page, &mut root, "linux_filter", &[("adopt", Foreign::Adopt)]),
        linux_rules: foreign(page, &mut root, "linux_rules", &[]),
        graph: root.section(page, "graph", "[graph]").map(|s| graph(page, s)).unwrap_or_default(),
        filter: {
            judged_by = root
                .value("filter")
                .map_or(Some(rules::Filter::default()), |value| filter(page, value, files));
            judged_by.clone().unwrap_or_default()
        },
        flow: root.section(page, "flow", "[flow]").map(|s| {
            let (settings, helps) = flows(page, s);
            ftp = helps;
            settings
        }),
        ftp_off: !ftp,
        nat: root.value("nat").and_then(|value| translation(page, value)),
        expect: root
            .value("expect")
            .map(|value| expectations(page, value, judged_by.as_ref()))
            .unwrap_or_default(),
        flow_log: root.value("flow_log").and_then(|value| flow_log(page, value)),
        sflow: root.value("sflow").and_then(|value| sflow(page, value)),
        mirror: root.value("mirror").and_then(|value| mirror_port(page, value)),
        vrrp: {
            virtual_ones = root.value("vrrp").map(|value| virtual_routers(page, value)).unwrap_or_default();
            virtual_ones.clone()
        },
        discovery: root
            .value("discovery")
            .map(|value| discoveries(page, value, &virtual_ones))
            .unwrap_or_default(),
        bfd: root.section(page, "bfd", "[bfd]").and_then(|s| bfd(page, s, files)),
        sharing: root.section(page, "sharing", "[sharing]").and_then(|s| sharing(page, s, files)),
        repairs: root.value("repair").map(|value| repairs(page, value)).unwrap_or_default(),
        system: root.section(page, "system", "[system]").map(|s| system(page, s, files)).unwrap_or_default(),
        services,
        fpm: root.section(page, "fpm", "[fpm]").and_then(|s| fpm(page, s)),
        audit: root.section(page, "audit", "[audit]").map(|s| audit(page, s)).unwrap_or_default(),
        control: root
            .section(page, "control", "[control]")
            .map(|s| control(page, s))
            .unwrap_or(default.control),
        api: root.section(page, "api", "[api]").and_then(|s| api(page, s, files)),
        metrics: (root.section(page, "metrics", "[metrics]")).and_then(|s| metrics(page, s)),
        log: root.section(page, "log", "[log]").map(|s| log(page, s)).unwrap_or_default(),
        text: String::new(),
        raw: "".into(),
    };
    listeners_differ(page, &mut root, &router);
    if let Some(value) = root.value("system") {
        has_groups(page, value, &router);
    }
    *none_wanted = root.choice(page, "without_ports", &[("on", true), ("off", false)]).unwrap_or(false);
    if *none_wanted {
        names_no_port(page, &mut root, &router);
    }
    fits_express_lane(page, &mut root, &router);
    root.finish(page);
    router
}

/// That metrics and FPM do not listen at one place.
fn listeners_differ(page: &mut Page, root: &mut Section, router: &Router) {
    if let (Some(fpm), Some(metrics), Some(at)) =
        (&router.fpm, router.metrics, root.value("metrics").map(Spanned::span))
        && fpm.listen == metrics.listen
    {
        page.wrong(at, "[metrics] listens where [fpm] does", Hint::expected("another address or port"));
    }
}

/// That a file which is to name no port names none.
fn names_no_port(page: &mut Page, root: &mut Section, router: &Router) {
    if let (false, Some(at)) = (router.ports.is_empty(), root.value("without_ports").map(Spanned::span)) {
        page.wrong(at, "without_ports is \"on\", but there is a [[port]]", Hint::expected("one of the two"));
    }
}

/// That no port takes the express lane where packets are judged, or pass a hook of the graph.
fn fits_express_lane(page: &mut Page, root: &mut Section, router: &Router) {
    let express = router.ports.iter().find(|rule| rule.lane == LaneChoice::Express);
    let judged = router.filter.rules().next().is_some()
        || router.flow.is_some()
        || router.nat.is_some()
        || router.flow_log.is_some()
        || router.linux_filter == Foreign::Adopt;
    if let (Some(rule), true, Some(at)) = (
        express,
        judged,
        ["filter", "flow", "nat", "flow_log", "linux_filter"]
            .into_iter()
            .find_map(|key| root.value(key))
            .map(Spanned::span),
    ) {
        let name = rule.name.as_str();
        let message = format!(
            "port {name:?} takes the express lane, where packets are neither filtered nor translated, and flows not known"
        );
        page.wrong(at, message, Hint::expected("lane \"auto\" or \"worker\" where packets are judged"));
    }
    if let (Some(rule), Some(hook), Some(at)) =
        (express, router.graph.on_transit().next(), root.value("graph").map(Spanned::span))
    {
        let name = rule.name.as_str();
        let message = format!("port {name:?} takes the express lane, which would pass the hook {hook} by");
        page.wrong(at, message, Hint::expected("lane \"auto\" or \"worker\" where the graph has hooks"));
    }
}

/// That what accounts may do is said by a group.
fn has_groups(page: &mut Page, value: &Spanned<DeValue>, router: &Router) {
    for user in &router.system.users {
        let (key, group) = router.control.group_of(user.role);
        if group.is_none() {
            let User { name, role, .. } = user;
            let message =
                format!("[system.user.{name}] is of the role {:?}, for which there is no group", role.word());
            page.wrong(value.span(), message, Hint::expected(format!("[control] {key}, which names one")));
        }
    }
}

fn foreign(
    page: &mut Page,
    root: &mut Section,
    key: &'static str,
    more: &[(&'static str, Foreign)],
) -> Foreign {
    let both = [("respect", Foreign::Respect), ("ignore", Foreign::Ignore)];
    let choices: Vec<_> = both.iter().chain(more).copied().collect();
    root.choice(page, key, &choices).unwrap_or_default()
}

fn ports(page: &mut Page, value: &Spanned<DeValue>) -> Vec<PortRule> {
    let DeValue::Array(list) = value.get_ref() else {
        let hint = Hint::expected("[[port]], with two brackets, once for each name or pattern");
        page.wrong(value.span(), format!("port cannot be {}", single(value.get_ref())), hint);
        return Vec::new();
    };
    let mut rules: Vec<(PortRule, Range<usize>)> = Vec::new();
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            let hint = Hint::expected("[[port]] sections, each with a name");
            page.wrong(item.span(), format!("{} is not a port", kind(item.get_ref())), hint);
            continue;
        };
        let Some((rule, at)) = port(page, Section::new("[[port]]", item.span(), table)) else { continue };
        let name = rule.name.as_str();
        let earlier = rules.iter().find(|(earlier, _)| {
            earlier.name == rule.name || rule.name.literal().is_some_and(|name| earlier.name.matches(name))
        });
        if let Some((earlier, place)) = earlier {
            let line = page.line_of(place.start);
            let message = match &earlier.name {
                same if *same == rule.name => format!("port {name:?} is there already, on line {line}"),
                pattern => format!(
                    "port {name:?} is taken by {:?} on line {line}, which comes first",
                    pattern.as_str()
                ),
            };
            page.wrong(
                at,
                message,
                Hint::expected("each port once; a name before the pattern that matches it"),
            );
            continue;
        }
        rules.push((rule, at));
    }
    rules.into_iter().map(|(rule, _)| rule).collect()
}

fn single(value: &DeValue) -> &'static str {
    match value {
        DeValue::Table(_) => "a single section",
        other => kind(other),
    }
}

fn port(page: &mut Page, mut section: Section) -> Option<(PortRule, Range<usize>)> {
    const NAME: &str = "the name of a Linux interface, or a pattern such as \"ens*f[01]\"";
    let name =
        section.text(page, "name", NAME, |text| Pattern::from_str(text).map_err(|error| error.to_string()));
    let name = section.require(page, "name", name, NAME);
    let lane = [("auto", LaneChoice::Auto), ("express", LaneChoice::Express), ("worker", LaneChoice::Worker)];
    let mode = [("auto", ModeChoice::Auto), ("native", ModeChoice::Native), ("generic", ModeChoice::Generic)];
    let check = [
        ("linux", ReversePath::Linux),
        ("off", ReversePath::Off),
        ("strict", ReversePath::Strict),
        ("loose", ReversePath::Loose),
    ];
    let lane = section.choice(page, "lane", &lane).unwrap_or_default();
    let queues = section.number_or_auto(page, "queues", 1..=1024).map(|n| n as u16);
    let mode = section.choice(page, "mode", &mode).unwrap_or_default();
    let zero_copy = section.choice(page, "zero_copy", SWITCH).unwrap_or_default();
    let reverse_path = section.choice(page, "reverse_path", &check).unwrap_or_default();
    if let (ModeChoice::Generic, Switch::On, Some(value)) = (mode, zero_copy, section.value("zero_copy")) {
        page.wrong(
            value.span(),
            "zero_copy cannot be \"on\" where mode is \"generic\"",
            Hint::expected("mode \"auto\" or \"native\", or zero_copy \"auto\" or \"off\""),
        );
    }
    let shared = section.value("memif").map(Spanned::span);
    let memif = section.section(page, "memif", "[port.memif]").and_then(|table| memif(page, table));
    if let Some(at) = shared {
        let pattern = name.as_ref().is_some_and(|name| name.value.literal().is_none());
        let wrong = match lane {
            _ if pattern => {
                Some(("a port in shared memory has a name, and not a pattern", "the name of its interface"))
            }
            LaneChoice::Express => {
                Some(("memif has no driver that could forward", "lane \"auto\" or \"worker\""))
            }
            _ => None,
        };
        if let Some((message, expected)) = wrong {
            page.wrong(at, message, Hint::expected(expected));
        }
    }
    section.finish(page);
    let Found { value: name, at } = name?;
    Some((PortRule { name, lane, queues, mode, zero_copy, reverse_path, memif }, at))
}

fn workers(page: &mut Page, mut section: Section, machine: &Machine) -> Workers {
    let cores = section.value("cores").and_then(|value| cores(page, value, machine));
    let busy_poll = section.choice(page, "busy_poll", SWITCH).unwrap_or_default();
    section.finish(page);
    Workers { cores, busy_poll }
}

fn cores(page: &mut Page, value: &Spanned<DeValue>, machine: &Machine) -> Option<Cores> {
    const EXPECTED: &str = "cores of this machine, such as [2, 3] or \"2-5,8\"";
    let there = || Hint::expected(format!("cores that are running here: {}", machine.cores));
    let mut listed = Vec::new();
    match value.get_ref() {
        DeValue::String(text) => match text.parse::<Cores>() {
            Ok(cores) => listed.extend(cores.0.into_iter().map(|core| (core, value.span()))),
            Err(_) => {
                page.wrong(value.span(), format!("cores cannot be {text:?}"), Hint::expected(EXPECTED));
                return None;
            }
        },
        DeValue::Array(list) => {
            for item in list.iter() {
                match number_of(item.get_ref()).and_then(|number| usize::try_from(number).ok()) {
                    Some(core) => listed.push((core, item.span())),
                    None => {
                        page.wrong(item.span(), "this is not the number of a core", Hint::expected(EXPECTED));
                        return None;
                    }
                }
            }
        }
        other => {
            page.wrong(value.span(), format!("cores cannot be {}", kind(other)), Hint::expected(EXPECTED));
            return None;
        }
    }
    if listed.is_empty() {
        page.wrong(value.span(), "there must be a core to work on", Hint::expected(EXPECTED));
        return None;
    }
    // A range may name many that are not there; the first says it all.
    if let Some((core, at)) = listed.iter().find(|(core, _)| !machine.cores.0.contains(core)) {
        page.wrong(at.clone(), format!("there is no core {core}"), there());
        return None;
    }
    let twice = (1..listed.len()).find(|n| listed[..*n].iter().any(|(core, _)| *core == listed[*n].0));
    if let (Some(n), DeValue::Array(_)) = (twice, value.get_ref()) {
        page.wrong(
            listed[n].1.clone(),
            format!("core {} is listed twice", listed[n].0),
            Hint::expected("each core once"),
        );
        return None;
    }
    Cores::of(listed.into_iter().map(|(core, _)| core).collect())
}

fn memory(page: &mut Page, mut section: Section) -> Memory {
    let frames = section.number_or_auto(page, "frames", 1_024..=4_194_304).map(|n| n as u32);
    let hugepages = section.choice(page, "hugepages", SWITCH).unwrap_or_default();
    section.finish(page);
    Memory { frames, hugepages }
}

fn paths(page: &mut Page, mut section: Section) -> Paths {
    let read = |text: &str| match text.len() {
        8..=1024 => Ok(text.to_owned()),
        length => Err(format!("{length} letters")),
    };
    let key = section.text(page, "key", "8 to 1024 letters, as `openssl rand -hex 16` prints them", read);
    section.finish(page);
    Paths { key: key.map(|found| found.value) }
}

fn tables(page: &mut Page, mut section: Section) -> Tables {
    let default = Tables::default();
    let tables = Tables {
        ipv4: section.number(page, "ipv4", 1_024..=10_000_000).map_or(default.ipv4, |n| n as u32),
        ipv6: section.number(page, "ipv6", 1_024..=10_000_000).map_or(default.ipv6, |n| n as u32),
        next_hops: section
            .number(page, "next_hops", 1_024..=4_194_304)
            .map_or(default.next_hops, |n| n as u32),
    };
    section.finish(page);
    tables
}

fn police(page: &mut Page, mut section: Section) -> Police {
    let default = Police::default();
    let mut limit = |key, default| {
        let name = format!("[police] {key}");
        section.section(page, key, &name).map_or(default, |s| limit_of(page, s, default))
    };
    let police = Police {
        routing: limit("routing", default.routing),
        management: limit("management", default.management),
        icmp: limit("icmp", default.icmp),
        rest: limit("rest", default.rest),
        unresolved: limit("unresolved", default.unresolved),
        transit: None,
        neighbour: limit("neighbour", default.neighbour),
    };
    let transit = section.section(page, "transit", "[police] transit");
    let police = Police { transit: transit.map(|s| limit_of(page, s, TRANSIT)), ..police };
    section.finish(page);
    police
}

/// What is not said of a limit for transit that says something.
const TRANSIT: Limit = Limit { rate: 1_000_000, burst: 100_000 };

fn limit_of(page: &mut Page, mut section: Section, default: Limit) -> Limit {
    let limit = Limit {
        rate: section.number(page, "rate", 1..=100_000_000).unwrap_or(default.rate),
        burst: section.number(page, "burst", 1..=100_000_000).unwrap_or(default.burst),
    };
    section.finish(page);
    limit
}

fn fpm(page: &mut Page, mut section: Section) -> Option<Fpm> {
    let listen = listen(page, &mut section, "127.0.0.1:2620");
    let users = section.value("users").map(|value| users(page, value));
    section.finish(page);
    Some(Fpm { listen: listen?, users: users.unwrap_or_else(|| vec!["frr".to_owned()]) })
}

/// Names of accounts.
pub(crate) fn users(page: &mut Page, value: &Spanned<DeValue>) -> Vec<String> {
    const EXPECTED: &str = "names of users, such as [\"frr\"]";
    let DeValue::Array(list) = value.get_ref() else {
        page.wrong(
            value.span(),
            format!("users cannot be {}", kind(value.get_ref())),
            Hint::expected(EXPECTED),
        );
        return Vec::new();
    };
    let mut names = Vec::new();
    for item in list.iter() {
        match item.get_ref() {
            DeValue::String(name) if is_account(name) => names.push(name.to_string()),
            _ => page.wrong(item.span(), "this is not the name of a user", Hint::expected(EXPECTED)),
        }
    }
    names
}

/// Whether users and groups may be called so.
fn is_account(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-.$".contains(c))
}

fn metrics(page: &mut Page, mut section: Section) -> Option<Metrics> {
    let listen = listen(page, &mut section, "127.0.0.1:9117");
    section.finish(page);
    Some(Metrics { listen: listen? })
}

fn listen(page: &mut Page, section: &mut Section, example: &str) -> Option<SocketAddr> {
    let expected = format!("an address and a port, such as \"{example}\"");
    let found = section.text(page, "listen", &expected, |text| match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err("port 0 cannot be listened on".to_owned()),
        Ok(address) => Ok(address),
        Err(_) => Err(format!("{text:?} is not an address and a port")),
    });
    let found = section.require(page, "listen", found, &expected);
    found.map(|found| found.value)
}

fn audit(page: &mut Page, mut section: Section) -> Audit {
    let default = Audit::default();
    let interval =
        section.text(
            page,
            "interval",
            "a time from \"1s\" to \"1h\", such as \"10s\"",
            |text| match duration(text) {
                Some(time) if (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) => {
                    Ok(time)
                }
                Some(_) => Err(format!("{text:?} is out of range")),
                None => Err(format!("{text:?} is not a time")),
            },
        );
    section.finish(page);
    Audit { interval: interval.map_or(default.interval, |found| found.value) }
}

fn control(page: &mut Page, mut section: Section) -> Control {
    let default = Control::default();
    const SOCKET: &str = "an absolute path, such as \"/run/bifrost/control.sock\"";
    let socket = section.text(page, "socket", SOCKET, |text| {
        if !text.starts_with('/') || text.ends_with('/') || text.contains('\0') {
            Err(format!("{text:?} is not the absolute path of a file"))
        } else if text.len() > LONGEST_SOCKET {
            Err(format!("the path of a socket has at most {LONGEST_SOCKET} bytes"))
        } else {
            Ok(PathBuf::from(text))
        }
    });
    let mut group =
        |key, example: &str| {
            section.text(page, key, &format!("the name of a group, such as {example:?}"), |text| {
                match is_account(text) {
                    true => Ok(text.to_owned()),
                    false => Err(format!("{text:?} is not the name of a group")),
                }
            })
        };
    let (group, operate_group, read_group) =
        (group("group", "adm"), group("operate_group", "operators"), group("read_group", "monitoring"));
    let mode = section.text(page, "mode", "permissions in octal, in quotes, such as \"0660\"", |text| {
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o777 && text.len() >= 3 && !text.starts_with('+') => Ok(mode),
            _ => Err(format!("{text:?} is not a set of permissions")),
        }
    });
    let revisions = section.number(page, "revisions", 2..=10_000);
    section.finish(page);
    Control {
        socket: socket.map_or(default.socket, |found| found.value),
        group: group.map(|found| found.value),
        operate_group: operate_group.map(|found| found.value),
        read_group: read_group.map(|found| found.value),
        mode: mode.map_or(default.mode, |found| found.value),
        revisions: revisions.map_or(default.revisions, |number| number as usize),
    }
}

fn graph(page: &mut Page, mut section: Section) -> Graph {
    const BODY: &str = "elements in Click's language, such as \"input -> Counter -> output\"";
    let mut body = |key| section.text(page, key, BODY, |text| Ok(text.to_owned())).map(|found| found.value);
    let graph = Graph {
        prerouting: body("prerouting").unwrap_or_default(),
        forward: body("forward").unwrap_or_default(),
        postrouting: body("postrouting").unwrap_or_default(),
        punt: body("punt").unwrap_or_default(),
    };
    section.finish(page);
    graph
}

fn filter(
    page: &mut Page,
    value: &Spanned<DeValue>,
    files: &mut dyn FnMut(&Path) -> std::io::Result<String>,
) -> Option<rules::Filter> {
    let DeValue::Table(table) = value.get_ref() else {
        let hint = Hint::expected("a section [filter]");
        page.wrong(value.span(), format!("filter cannot be {}", kind(value.get_ref())), hint);
        return None;
    };
    let read = rules::Filter::read_toml(page.file, page.text, table, files);
    let filter = read.map_err(|mistakes| page.adopt(value.span().start, mistakes)).ok()?;
    // Linux filters alike when the plane is gone, or the operator says in which way it may differ.
    for inexpressible in filter.nftables(&[], None, true).err().into_iter().flatten() {
        let hint = Hint::expected(inexpressible.advice);
        page.wrong(
            value.span(),
            format!("{}: Linux cannot express {}", inexpressible.text, inexpressible.what),
            hint,
        );
    }
    Some(filter)
}

/// What is to stay true. `filter` is what sets are looked for in, where it could be read.
fn expectations(
    page: &mut Page,
    value: &Spanned<DeValue>,
    filter: Option<&rules::Filter>,
) -> Vec<rules::expect::Sentence> {
    let DeValue::Table(table) = value.get_ref() else {
        let hint = Hint::expected("a section [expect] with sentences");
        page.wrong(value.span(), format!("expect cannot be {}", kind(value.get_ref())), hint);
        return Vec::new();
    };
    let read = rules::expect::Sentence::read_toml(page.file, page.text, table, filter);
    read.map_err(|mistakes| page.adopt(value.span().start, mistakes)).unwrap_or_default()
}

/// Rules of address translation. What is wrong with a rule is shown at the rule.
fn translation(page: &mut Page, value: &Spanned<DeValue>) -> Option<nat::Rules> {
    let text = match nat::Text::deserialize(toml::de::ValueDeserializer::from(value.clone())) {
        Ok(text) => text,
        Err(error) => {
            let at = error.span().unwrap_or(value.span());
            page.wrong(at, format!("[nat]: {}", error.message().replace('\n', ", ")), Hint::default());
            return None;
        }
    };
    let rules = match value.get_ref() {
        DeValue::Table(table) => table.get("rule").map(|rules| rules.get_ref()),
        _ => None,
    };
    let place = |rule: Option<usize>| match (rule, rules) {
        (Some(at), Some(DeValue::Array(rules))) => rules.get(at).map(Spanned::span),
        _ => None,
    };
    let rules = text.check().unwrap_or_else(|mistakes| {
        for mistake in mistakes {
            let at = place(mistake.rule).unwrap_or(value.span());
            page.wrong(at, mistake.to_string(), Hint::default());
        }
        Vec::new().into()
    });
    Some(rules)
}

/// The flow table, and whether FTP is helped.
fn flows(page: &mut Page, mut section: Section) -> (flow::Settings, bool) {
    const MEGABYTE: usize = 1 << 20;
    let default = flow::Settings::default();
    let memory = section.number(page, "memory", 4..=1 << 20).map(|number| number as usize * MEGABYTE);
    let fragments = section.number(page, "fragments", 64..=1 << 20).map(|number| number as usize);
    let pickup = section.choice(page, "pickup", &[("on", true), ("off", false)]);
    let ftp = section.choice(page, "ftp", &[("on", true), ("off", false)]);
    let mut timeouts = default.timeouts;
    if let Some(mut times) = section.section(page, "timeouts", "[flow.timeouts]") {
        let mut time = |key, default: &mut Duration| {
            let expected = "a time from \"1s\" to \"144h\", such as \"2m\"";
            let found = times.text(page, key, expected, |text| match duration(text) {
                Some(time) if (Duration::from_secs(1)..=flow::Timeouts::LONGEST).contains(&time) => Ok(time),
                Some(_) => Err(format!("{text:?} is out of range")),
                None => Err(format!("{text:?} is not a time")),
            });
            *default = found.map_or(*default, |found| found.value);
        };
        time("tcp_opening", &mut timeouts.tcp_opening);
        time("tcp_established", &mut timeouts.tcp_established);
        time("tcp_closing", &mut timeouts.tcp_closing);
        time("tcp_finished", &mut timeouts.tcp_finished);
        time("udp", &mut timeouts.udp);
        time("udp_stream", &mut timeouts.udp_stream);
        time("icmp", &mut timeouts.icmp);
        time("other", &mut timeouts.other);
        time("fragment", &mut timeouts.fragment);
        let mut active = timeouts.active.unwrap_or_default();
        time("active", &mut active);
        timeouts.active = Some(active);
        time("pressed", &mut timeouts.pressed);
        times.finish(page);
    }
    let given = section.value("fragments").or(section.value("memory"));
    let place = given.map_or(section.at.clone(), |value| value.span());
    section.finish(page);
    let settings = flow::Settings {
        memory: memory.unwrap_or(default.memory),
        fragments: fragments.unwrap_or(default.fragments),
        pickup: pickup.unwrap_or(default.pickup),
        timeouts,
        ..default
    };
    if let Err(error) = settings.sizes() {
        page.wrong(place, error.to_string(), Hint::default());
    }
    (settings, ftp.unwrap_or(true))
}

fn log(page: &mut Page, mut section: Section) -> Log {
    let levels = [
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
    ];
    let level = section.choice(page, "level", &levels).unwrap_or_default();
    section.finish(page);
    Log { level }
}
