//! Cores: what they are, how fast they run, how deep they sleep, and what they do against attacks.

use std::collections::BTreeSet;

use super::bytes;
use crate::{Area, Finding, Level, Place, Unread, list};

const CPUS: &str = "sys/devices/system/cpu";
/// A core that takes longer to wake than this loses packets: 1024 of 64 bytes arrive in 69 µs at 10
/// Gb/s.
const SLOW: i64 = 50;

/// The machine in a few lines.
pub(crate) fn machine(place: &Place) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let info = place.text("proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "Model" | "cpu model").then(|| value.trim().to_owned())
    });
    fact("cpu", model.unwrap_or_else(|| "unknown".to_owned()));
    let online = online(place);
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    for cpu in &online {
        let number = |file| place.number(&format!("{CPUS}/cpu{cpu}/topology/{file}")).unwrap_or(0);
        packages.insert(number("physical_package_id"));
        cores.insert((number("physical_package_id"), number("core_id")));
    }
    if !online.is_empty() {
        let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let threads =
            if cores.len() < online.len() { many(online.len(), "thread") + " of " } else { String::new() };
        fact(
            "cores",
            format!("{threads}{} in {}", many(cores.len(), "core"), many(packages.len().max(1), "socket")),
        );
    }
    let caches = caches(place);
    if !caches.is_empty() {
        let caches = caches.iter().map(|(name, size)| format!("{name} {}", bytes(*size)));
        fact("caches", caches.collect::<Vec<_>>().join(", "));
    }
    if let Ok(kilobytes) = place.named("proc/meminfo", "MemTotal") {
        fact("memory", bytes(kilobytes.saturating_mul(1024)));
    }
    if let Ok(release) = place.text("proc/sys/kernel/osrelease") {
        fact("kernel", release);
    }
    let product = place.text("sys/class/dmi/id/product_name").ok().filter(|name| !name.is_empty());
    product.into_iter().for_each(|name| fact("product", name));
    facts
}

/// Cores that run.
pub(crate) fn online(place: &Place) -> BTreeSet<u32> {
    let list = place.text(&format!("{CPUS}/online")).ok().and_then(|text| list::parse(&text));
    list.unwrap_or_default()
}

/// Data caches of the first core: name and bytes.
pub(crate) fn caches(place: &Place) -> Vec<(String, u64)> {
    let base = format!("{CPUS}/cpu0/cache");
    let mut caches = Vec::new();
    for index in place.numbered(&base, "index").unwrap_or_default() {
        let text = |file| place.text(&format!("{base}/index{index}/{file}")).unwrap_or_default();
        if text("type") == "Instruction" {
            continue;
        }
        let size = text("size");
        let size = match size.strip_suffix('K') {
            Some(kilobytes) => {
                kilobytes.parse::<u64>().ok().and_then(|kilobytes| kilobytes.checked_mul(1024))
            }
            None => size.strip_suffix('M').and_then(|size| size.parse::<u64>().ok()?.checked_mul(1 << 20)),
        };
        if let (Some(size), Ok(level)) = (size, text("level").parse::<u8>()) {
            caches.push((format!("L{level}"), size));
        }
    }
    caches
}

fn is_virtual(place: &Place) -> bool {
    let info = place.text("proc/cpuinfo").unwrap_or_default();
    info.lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"))
}

pub(crate) fn check(place: &Place, findings: &mut Vec<Finding>) {
    let cores = online(place);
    findings.push(match cores.len() {
        0 => Finding::new(Area::Cpu, "cores", Level::Unknown, "the list of cores cannot be read"),
        1 => Finding::new(
            Area::Cpu,
            "cores",
            Level::Advice,
            "one core: control and forwarding share it, and a flood slows BGP",
        ),
        count => Finding::new(
            Area::Cpu,
            "cores",
            Level::Ok,
            format!("{count}: one for control, the others for workers"),
        ),
    });
    if place.text(&format!("{CPUS}/smt/active")).is_ok_and(|active| active == "1") {
        let text = "two threads share each core: two workers on one core hinder each other";
        let mend =
            "give [workers] one thread of each core, or: echo off >/sys/devices/system/cpu/smt/control";
        findings.push(Finding::new(Area::Cpu, "threads", Level::Advice, text).mend(mend));
    }
    findings.push(frequency(place, &cores));
    findings.push(sleep(place, &cores));
    findings.push(isolation(place, &cores));
    findings.push(mitigations(place));
}

fn frequency(place: &Place, cores: &BTreeSet<u32>) -> Finding {
    if cores.is_empty() {
        return Finding::new(Area::Cpu, "frequency", Level::Unknown, "no core is known");
    }
    let governor = |core: &u32| place.text(&format!("{CPUS}/cpu{core}/cpufreq/scaling_governor"));
    let governors: Vec<Result<String, Unread>> = cores.iter().map(governor).collect();
    let known: Vec<&String> = governors.iter().flatten().collect();
    let slow: BTreeSet<&String> = known.iter().copied().filter(|name| *name != "performance").collect();
    let finding = |level, text: String| Finding::new(Area::Cpu, "frequency", level, text);
    if known.is_empty() {
        let by_host = is_virtual(place);
        return match governors.into_iter().find_map(Result::err) {
            Some(Unread::Missing) if by_host => {
                finding(Level::Unknown, "the host decides; it should run at full speed".to_owned())
            }
            Some(Unread::Missing) | None => finding(Level::Ok, "fixed: no governor changes it".to_owned()),
            Some(why) => finding(Level::Unknown, why.to_string()),
        };
    }
    if slow.is_empty() {
        return finding(Level::Ok, format!("governor performance on {} cores", known.len()));
    }
    let names: Vec<&str> = slow.iter().map(|name| name.as_str()).collect();
    let count = known.iter().filter(|name| **name != "performance").count();
    let text = format!(
        "governor {} on {count} of {} cores: they speed up only when packets are lost already",
        names.join(", "),
        known.len()
    );
    finding(Level::Advice, text).mend("cpupower frequency-set -g performance")
}

fn sleep(place: &Place, cores: &BTreeSet<u32>) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Cpu, "sleep", level, text);
    let Some(core) = cores.first() else { return finding(Level::Unknown, "no core is known".to_owned()) };
    let base = format!("{CPUS}/cpu{core}/cpuidle");
    let states = match place.numbered(&base, "state") {
        Ok(states) => states,
        Err(Unread::Missing) => return finding(Level::Ok, "no deep states".to_owned()),
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    let mut deep = Vec::new();
    for state in states {
        let file = |name: &str| format!("{base}/state{state}/{name}");
        let is_on = place.number(&file("disable")).is_ok_and(|disabled| disabled == 0);
        if let (true, Ok(latency)) = (is_on, place.number(&file("latency")))
            && latency > SLOW
        {
            let name = place.text(&file("name")).unwrap_or_else(|_| format!("state{state}"));
            deep.push(format!("{name} ({latency} µs to wake)"));
        }
    }
    if deep.is_empty() {
        return finding(Level::Ok, format!("no state takes longer than {SLOW} µs to wake from"));
    }
    let text = format!("{}: an idle worker loses the first packets of a burst", deep.join(", "));
    finding(Level::Advice, text).mend(format!("cpupower idle-set -D {SLOW}"))
}

fn isolation(place: &Place, cores: &BTreeSet<u32>) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Cpu, "isolation", level, text);
    let isolated = match place.text(&format!("{CPUS}/isolated")) {
        Ok(text) => list::parse(&text).unwrap_or_default(),
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    if !isolated.is_empty() {
        return finding(Level::Ok, format!("cores {} are kept free of other work", list::write(&isolated)));
    }
    if cores.len() < 4 {
        return finding(Level::Ok, "no core is set apart; with so few that is right".to_owned());
    }
    let last = cores.last().copied().unwrap_or(1);
    let text = "no core is set apart: other programs interrupt workers, which shows in the highest latencies";
    finding(Level::Advice, text.to_owned()).mend(format!(
        "add to the kernel's command line: isolcpus=managed_irq,domain,1-{last} nohz_full=1-{last}"
    ))
}

fn mitigations(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Cpu, "mitigations", level, text);
    let base = format!("{CPUS}/vulnerabilities");
    let names = match place.names(&base) {
        Ok(names) => names,
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    let state = |name: &String| Some((name.clone(), place.text(&format!("{base}/{name}")).ok()?));
    let states: Vec<(String, String)> = names.iter().filter_map(state).collect();
    let with = |word: &str| -> Vec<&str> {
        states.iter().filter(|(_, state)| state.starts_with(word)).map(|(name, _)| name.as_str()).collect()
    };
    let (open, active) = (with("Vulnerable"), with("Mitigation"));
    if !open.is_empty() {
        let text = format!("open: {}; harmless only where nobody else's code runs", open.join(", "));
        return finding(Level::Advice, text)
            .mend("update the microcode, or take mitigations=off off the kernel's command line");
    }
    let slow = states.iter().any(|(name, state)| name == "spectre_v2" && state.contains("Retpolines"));
    let cost =
        if slow { "; retpolines make every call by pointer slow, in the driver above all" } else { "" };
    finding(Level::Ok, format!("{} active{cost}", active.len()))
}
