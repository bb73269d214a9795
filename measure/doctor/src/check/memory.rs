//! Memory: how far away it is, huge pages, nodes.

use super::bytes;
use crate::{Area, Finding, Level, Place, Unread, list};

const NODES: &str = "sys/devices/system/node";
/// A step through memory that takes longer is slow, in nanoseconds.
const FAR: f64 = 130.0;
/// What the tables and packets of a router with a full table take.
const WANTED: u64 = 1 << 30;

/// Bytes that the measurement may use.
pub(crate) fn limit(place: &Place) -> u64 {
    let available = place.named("proc/meminfo", "MemAvailable").unwrap_or(256 << 10);
    available.saturating_mul(1024) / 8
}

pub(crate) fn check(place: &Place, latencies: &[(u64, f64)], findings: &mut Vec<Finding>) {
    if let Some(finding) = latency(place, latencies) {
        findings.push(finding);
    }
    findings.push(huge_pages(place));
    findings.extend(transparent(place));
    findings.push(nodes(place));
}

fn latency(place: &Place, latencies: &[(u64, f64)]) -> Option<Finding> {
    let (_, far) = latencies.last()?;
    let mut parts = Vec::new();
    let mut smaller = 0;
    for (name, size) in super::cpu::caches(place) {
        // Well inside this cache, and beyond the one before.
        let inside = latencies.iter().rev().find(|(bytes, _)| *bytes <= size / 2 && *bytes > smaller);
        parts.extend(inside.map(|(_, latency)| format!("{name} {latency:.1} ns")));
        smaller = size;
    }
    parts.push(format!("memory {far:.0} ns"));
    let finding = |level, text| Finding::new(Area::Memory, "latency", level, text);
    Some(match *far > FAR {
        true => finding(
            Level::Advice,
            format!("{}: slow; a busy host, a far node or few channels", parts.join(", ")),
        ),
        false => finding(Level::Ok, parts.join(", ")),
    })
}

fn huge_pages(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Memory, "huge pages", level, text);
    let named = |name| place.named("proc/meminfo", name);
    let (total, size) = match (named("HugePages_Total"), named("Hugepagesize")) {
        (Ok(total), Ok(size)) => (total, size.saturating_mul(1024)),
        (Err(why), _) | (_, Err(why)) => return finding(Level::Unknown, why.to_string()),
    };
    let set_aside = total.saturating_mul(size);
    if set_aside >= WANTED {
        return finding(Level::Ok, format!("{total} of {} set aside", bytes(size)));
    }
    // Taking what other programs are about to need ends them, or the machine.
    let missing = WANTED - set_aside;
    let spare = named("MemAvailable").map_or(u64::MAX, |kilobytes| kilobytes.saturating_mul(1024)) / 2;
    if missing > spare {
        let text = format!(
            "{} set aside, and too little memory is free for the {} that a full table takes",
            bytes(set_aside),
            bytes(WANTED)
        );
        return finding(Level::Advice, text);
    }
    let wanted = WANTED.div_ceil(size.max(1));
    let text = format!(
        "{} set aside: tables and packets may lie in small pages, where each access may miss the TLB",
        bytes(set_aside)
    );
    finding(Level::Advice, text).mend(format!("sysctl -w vm.nr_hugepages={wanted}"))
}

fn transparent(place: &Place) -> Option<Finding> {
    let text = place.text("sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    text.contains("[never]").then(|| {
        let said = "never: where no huge pages are set aside, small ones are all there are";
        let mend = "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled";
        Finding::new(Area::Memory, "transparent huge pages", Level::Advice, said).mend(mend)
    })
}

fn nodes(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Memory, "nodes", level, text);
    let online = place.text(&format!("{NODES}/online")).ok().and_then(|text| list::parse(&text));
    let Some(nodes) = online else {
        if !place.has("sys/devices/system") {
            return finding(Level::Unknown, Unread::Missing.to_string());
        }
        return finding(Level::Ok, "one: the kernel knows of no others".to_owned());
    };
    if nodes.len() < 2 {
        return finding(Level::Ok, "one".to_owned());
    }
    let mut parts = Vec::new();
    for node in &nodes {
        let kilobytes = place.text(&format!("{NODES}/node{node}/meminfo")).unwrap_or_default();
        let total = kilobytes.lines().find(|line| line.contains("MemTotal"));
        let total =
            total.and_then(|line| line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
        let cores = place.text(&format!("{NODES}/node{node}/cpulist")).unwrap_or_else(|_| "?".to_owned());
        parts.push(format!("node {node}: {}, cores {cores}", bytes(total.saturating_mul(1024))));
        if total == 0 {
            let text = format!("node {node} has no memory: everything there is fetched from another");
            return finding(Level::Problem, text);
        }
    }
    finding(Level::Ok, parts.join("; "))
}
