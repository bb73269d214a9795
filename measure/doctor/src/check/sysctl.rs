//! Settings of forwarding: Linux is the control plane and the safety net, so its settings matter
//! even where its forwarding is not used.

use crate::word::word;
use crate::{Area, Finding, Level, Place, Unread};

const IPV4: &str = "proc/sys/net/ipv4";
const IPV6: &str = "proc/sys/net/ipv6";
/// Neighbours that a router with a few access networks comes to.
const NEIGHBOURS: i64 = 8192;
/// Bytes of a socket's buffer in which a burst of a full table's changes fits.
const BUFFER: i64 = 8 << 20;

pub(crate) fn check(place: &Place, findings: &mut Vec<Finding>) {
    findings.push(forwarding(place, "IPv4", "net.ipv4.ip_forward", &format!("{IPV4}/ip_forward")));
    let all = format!("{IPV6}/conf/all/forwarding");
    if place.has(IPV6) {
        findings.push(forwarding(place, "IPv6", "net.ipv6.conf.all.forwarding", &all));
    }
    findings.push(reverse_path(place));
    for (family, base) in [("ipv4", IPV4), ("ipv6", IPV6)] {
        findings.extend(neighbours(place, family, base));
    }
    findings.push(multipath(place));
    findings.extend(budget(place));
    findings.extend(buffer(place));
    findings.extend(conntrack(place));
}

fn forwarding(place: &Place, subject: &'static str, setting: &str, path: &str) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Forwarding, subject, level, text);
    match place.number(path) {
        Ok(0) => finding(Level::Problem, "Linux does not forward: without Bifrost nothing would".to_owned())
            .mend(format!("sysctl -w {setting}=1")),
        Ok(_) => finding(Level::Ok, "Linux forwards as well, when Bifrost does not".to_owned()),
        Err(why) => finding(Level::Unknown, why.to_string()),
    }
}

fn reverse_path(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Forwarding, "rp_filter", level, text);
    let names = match place.names(&format!("{IPV4}/conf")) {
        Ok(names) => names,
        Err(why) => return finding(Level::Unknown, why.to_string()),
    };
    let mode = |name: &str| place.number(&format!("{IPV4}/conf/{name}/rp_filter")).unwrap_or(0);
    // An interface has the higher of its own setting and that of `all`: 2, which is loose, goes
    // before 1.
    let all = mode("all");
    let is_strict = |name: &&str| *name != "all" && all.max(mode(name)) == 1;
    let strict: Vec<&str> = names.iter().map(String::as_str).filter(is_strict).collect();
    if strict.is_empty() {
        return finding(
            Level::Ok,
            "no packet is dropped for coming another way than the answer goes".to_owned(),
        );
    }
    let shown = strict.iter().take(4).copied().collect::<Vec<_>>().join(", ");
    let more = if strict.len() > 4 { format!(" and {} more", strict.len() - 4) } else { String::new() };
    let text = format!("strict on {shown}{more}: where paths are asymmetric, good packets are dropped");
    let loose = |name: &str| word(&format!("net.ipv4.conf.{}.rp_filter=2", name.replace('.', "/")));
    let mend: Vec<String> = match all {
        1 => vec![loose("all")],
        _ => strict.into_iter().map(loose).collect(),
    };
    finding(Level::Advice, text).mend(format!("sysctl -w {}", mend.join(" ")))
}

fn neighbours(place: &Place, family: &'static str, base: &str) -> Option<Finding> {
    let subject = if family == "ipv4" { "ARP table" } else { "ND table" };
    let finding = |level, text: String| Finding::new(Area::Forwarding, subject, level, text);
    let threshold = |n| place.number(&format!("{base}/neigh/default/gc_thresh{n}"));
    let (soft, hard) = match (threshold(2), threshold(3)) {
        (Ok(soft), Ok(hard)) => (soft, hard),
        // Namespaces share the thresholds of the first one, and do not show them.
        (Err(Unread::Missing), _) | (_, Err(Unread::Missing)) => return None,
        (Err(why), _) | (_, Err(why)) => return Some(finding(Level::Unknown, why.to_string())),
    };
    let used = match family {
        "ipv4" => place.text("proc/net/arp").map_or(0, |text| text.lines().count().saturating_sub(1)),
        _ => 0,
    } as i64;
    let mend = |least: i64| {
        let (first, second, third) = (least / 4, least / 2, least);
        let set = |n: u8, value: i64| format!("net.{family}.neigh.default.gc_thresh{n}={value}");
        format!("sysctl -w {} {} {}", set(1, first), set(2, second), set(3, third))
    };
    Some(if used.saturating_mul(4) > hard.saturating_mul(3) {
        let text = format!("{used} of {hard} entries: new hosts will soon have no answer");
        finding(Level::Problem, text).mend(mend(hard.saturating_mul(4).clamp(NEIGHBOURS, 1 << 20)))
    } else if hard < NEIGHBOURS {
        let text = format!(
            "at most {hard} entries, swept above {soft}: too few for a /20 of hosts, and a scan fills it"
        );
        finding(Level::Advice, text).mend(mend(NEIGHBOURS))
    } else {
        finding(Level::Ok, format!("at most {hard} entries"))
    })
}

fn multipath(place: &Place) -> Finding {
    let finding = |level, text: String| Finding::new(Area::Forwarding, "multipath", level, text);
    match place.number(&format!("{IPV4}/fib_multipath_hash_policy")) {
        Ok(0) => finding(Level::Advice, "Linux spreads by addresses alone, Bifrost by ports as well: flows change paths when one takes over".to_owned())
            .mend("sysctl -w net.ipv4.fib_multipath_hash_policy=1 net.ipv6.fib_multipath_hash_policy=1"),
        Ok(_) => finding(Level::Ok, "Linux spreads flows by their ports as well".to_owned()),
        Err(why) => finding(Level::Unknown, why.to_string()),
    }
}

fn budget(place: &Place) -> Option<Finding> {
    let budget = place.number("proc/sys/net/core/netdev_budget").ok()?;
    let finding = |level, text: String| Finding::new(Area::Forwarding, "netdev_budget", level, text);
    Some(match budget < 300 {
        true => finding(Level::Advice, format!("{budget} packets a round: the driver's lane stops often"))
            .mend("sysctl -w net.core.netdev_budget=600"),
        false => finding(Level::Ok, format!("{budget} packets a round")),
    })
}

fn buffer(place: &Place) -> Option<Finding> {
    let path = "proc/sys/net/core/rmem_max";
    let most = place.number(path).ok()?;
    // In other network namespaces than the machine's own it can only be read.
    let outside = if place.is_writable(path) { "" } else { "in the machine's own namespace: " };
    let finding = |level, text: String| Finding::new(Area::Forwarding, "rmem_max", level, text);
    Some(match most < BUFFER {
        true => finding(
            Level::Advice,
            format!("{most} bytes: a routing daemon's netlink socket overflows when a full table changes"),
        )
        .mend(format!("{outside}sysctl -w net.core.rmem_max={BUFFER}")),
        false => finding(Level::Ok, format!("{most} bytes")),
    })
}

fn conntrack(place: &Place) -> Option<Finding> {
    let base = "proc/sys/net/netfilter";
    let (count, most) = (
        place.number(&format!("{base}/nf_conntrack_count")).ok()?,
        place.number(&format!("{base}/nf_conntrack_max")).ok()?,
    );
    let finding = |level, text: String| Finding::new(Area::Forwarding, "conntrack", level, text);
    Some(if count.saturating_mul(10) > most.saturating_mul(9) {
        finding(
            Level::Problem,
            format!("{count} of {most} connections of Linux's table: new ones will be dropped"),
        )
        .mend(format!("sysctl -w net.netfilter.nf_conntrack_max={}", most.saturating_mul(4)))
    } else {
        finding(Level::Ok, format!("{count} of {most} connections of Linux's table"))
    })
}
