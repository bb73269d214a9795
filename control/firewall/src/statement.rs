//! What a rule of nftables does: its statements beside conditions.

use rules::{Family, Log, Rate, RateMatch, Reject, Unit};
use serde_json::Value;
use wire::{IcmpError, protocol};

use crate::Why;
use crate::field::in_words;
use crate::value::{self, Kind};

/// Lines a second that a rule writes at most: Linux's log has no such limit of its own.
const LINES: u64 = 100;

/// What a statement does.
#[derive(Clone, Debug)]
pub(crate) enum Statement<'a> {
    /// It asks for something.
    Match(&'a Value),
    /// It has a verdict for some values of what it asks for.
    Map {
        key: &'a Value,
        data: &'a Value,
    },
    /// What exceeds a rate, or keeps to it, goes on. Rates of the filter are whole numbers a
    /// second: one that is none is rounded up.
    Limit {
        rate: RateMatch,
        rounded: bool,
    },
    /// A line in the log, which begins with the prefix.
    Log {
        log: Log,
        prefix: Option<&'a str>,
    },
    Mark(u32),
    Dscp {
        ipv6: bool,
        value: u8,
    },
    Verdict(Decides<'a>),
    /// It changes nothing that the plane has.
    Nothing,
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decides<'a> {
    Accept,
    Drop,
    /// With an error of one family, or of the packet's.
    Reject(Reject, Option<Family>),
    Jump(&'a str),
    Goto(&'a str),
    Return,
    Continue,
}

/// Reads a statement.
pub(crate) fn read(statement: &Value) -> Result<Statement<'_>, Why> {
    let object = statement.as_object().and_then(|object| object.iter().next());
    let Some((kind, about)) = object else { return Err("a statement that is none".to_owned()) };
    Ok(match kind.as_str() {
        "match" => Statement::Match(about),
        "vmap" => Statement::Map { key: &about["key"], data: &about["data"] },
        // The filter's rules count by themselves, and flows are carried by themselves.
        "counter" | "flow" | "comment" => Statement::Nothing,
        "limit" => limit(about)?,
        "log" => Statement::Log { log: log(about)?, prefix: about["prefix"].as_str() },
        "mangle" => mangle(about)?,
        "xt" => return Err("what iptables says in its own words".to_owned()),
        _ => Statement::Verdict(verdict(statement)?),
    })
}

/// Reads a verdict, also one of a map.
pub(crate) fn verdict(statement: &Value) -> Result<Decides<'_>, Why> {
    let object = statement.as_object().and_then(|object| object.iter().next());
    let Some((kind, about)) = object else { return Err("a verdict that is none".to_owned()) };
    let target = || about["target"].as_str().ok_or_else(|| "a jump to no chain".to_owned());
    Ok(match kind.as_str() {
        "accept" => Decides::Accept,
        "drop" => Decides::Drop,
        "continue" => Decides::Continue,
        "return" => Decides::Return,
        "jump" => Decides::Jump(target()?),
        "goto" => Decides::Goto(target()?),
        "reject" => Decides::Reject(reject(about)?, family(about)),
        "masquerade" | "snat" | "dnat" | "redirect" => return Err("it translates addresses".to_owned()),
        other => return Err(format!("the statement {other:?}")),
    })
}

/// What a rule of nftables may tell the sender: the statement, its names and numbers.
const REJECTS: &[(&str, &str, u64, IcmpError)] = &[
    ("icmpx", "no-route", 0, IcmpError::RefusedRoute),
    ("icmpx", "port-unreachable", 1, IcmpError::RefusedPort),
    ("icmpx", "host-unreachable", 2, IcmpError::RefusedHost),
    ("icmpx", "admin-prohibited", 3, IcmpError::Refused),
    ("icmp", "net-unreachable", 0, IcmpError::RefusedRoute),
    ("icmp", "host-unreachable", 1, IcmpError::RefusedHost),
    ("icmp", "port-unreachable", 3, IcmpError::RefusedPort),
    ("icmp", "admin-prohibited", 13, IcmpError::Refused),
    ("icmpv6", "no-route", 0, IcmpError::RefusedRoute),
    ("icmpv6", "admin-prohibited", 1, IcmpError::Refused),
    ("icmpv6", "addr-unreachable", 3, IcmpError::RefusedHost),
    ("icmpv6", "port-unreachable", 4, IcmpError::RefusedPort),
];

/// The family of which a rejection is: nft leaves it away where it prints the kind.
fn family(about: &Value) -> Option<Family> {
    match about["type"].as_str() {
        Some("icmp") => Some(Family::Ipv4),
        Some("icmpv6") => Some(Family::Ipv6),
        _ => None,
    }
}

fn reject(about: &Value) -> Result<Reject, Why> {
    let (kind, asked) = (about["type"].as_str().unwrap_or("icmpx"), &about["expr"]);
    if kind == "tcp reset" {
        return Ok(Reject::TcpReset);
    }
    if asked.is_null() {
        return Ok(Reject::Icmp(IcmpError::RefusedPort));
    }
    let is = |(of, name, number, _): &&(&str, &str, u64, IcmpError)| {
        *of == kind && (asked.as_str() == Some(name) || asked.as_u64() == Some(*number))
    };
    let found = REJECTS.iter().find(is).map(|(.., error)| Reject::Icmp(*error));
    found.ok_or_else(|| format!("reject with {kind} {asked}"))
}

fn limit(about: &Value) -> Result<Statement<'_>, Why> {
    let rate = about["rate"].as_u64().ok_or("a limit without its rate")?;
    let per = match about["per"].as_str() {
        Some("second") | None => 1,
        Some("minute") => 60,
        Some("hour") => 3600,
        Some("day") => 86_400,
        Some("week") => 604_800,
        Some(other) => return Err(format!("a limit per {other}")),
    };
    let unit = |name: &str| match about[name].as_str() {
        None | Some("packets") => Ok(None),
        Some("bytes") => Ok(Some(1)),
        Some("kbytes") => Ok(Some(1 << 10)),
        Some("mbytes") => Ok(Some(1 << 20)),
        Some(other) => Err(format!("a limit in {other}")),
    };
    let (rate, unit, burst) = match unit("rate_unit")? {
        None => (rate, Unit::Packets, about["burst"].as_u64().unwrap_or(5)),
        Some(bytes) => {
            let burst = about["burst"].as_u64().unwrap_or(0);
            let burst = burst.saturating_mul(unit("burst_unit")?.unwrap_or(1));
            let rate = rate.saturating_mul(bytes);
            // Linux lets pass at once what comes in a second, and the burst.
            (rate.saturating_mul(8), Unit::Bits, burst.saturating_add(rate))
        }
    };
    let over = about["inv"].as_bool() == Some(true);
    let rounded = rate == 0 || rate % per != 0;
    let rate = Rate { per_second: rate.div_ceil(per).max(1), unit, burst: burst.max(1) };
    Ok(Statement::Limit { rate: RateMatch { over, rate, sources: None }, rounded })
}

fn log(about: &Value) -> Result<Log, Why> {
    for name in ["group", "queue-threshold", "snaplen"] {
        if !about[name].is_null() {
            return Err("a log for another program (nflog)".to_owned());
        }
    }
    if about["level"] == "audit" {
        return Err("a line in the audit log".to_owned());
    }
    Ok(Log { every: 1, limit: Rate::new(LINES, Unit::Packets) })
}

fn mangle(about: &Value) -> Result<Statement<'_>, Why> {
    let (key, new) = (&about["key"], &about["value"]);
    let unknown = || format!("it changes {}", in_words(key));
    if key["meta"]["key"] == "mark" {
        return value::number(Kind::Plain, new).map(Statement::Mark).ok_or_else(unknown);
    }
    let payload = &key["payload"];
    let ipv6 = payload["protocol"] == "ip6";
    if payload["field"] == "dscp" && (ipv6 || payload["protocol"] == "ip") {
        let value = value::number(Kind::Dscp, new).and_then(|value| u8::try_from(value).ok());
        return value.map(|value| Statement::Dscp { ipv6, value }).ok_or_else(unknown);
    }
    Err(unknown())
}

/// Whether a rejection is possible for what is asked for.
pub(crate) fn fits(reject: Reject, matches: &rules::Match) -> bool {
    let tcp = |list: &rules::List<u8>| !list.not && list.items == [protocol::TCP];
    reject != Reject::TcpReset || matches.protocols.as_ref().is_some_and(tcp)
}
