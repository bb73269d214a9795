//! `rpki`, and `bmp targets` inside of `router bgp`, as FRR shows them.

use config::{Bmp, Rpki};

use super::context;
use crate::tree::Node;

/// FRR says nothing of its defaults.
pub(super) fn rpki(it: &Rpki) -> Node {
    let mut lines = Vec::new();
    for (time, usual, word) in [
        (it.polling, 3_600, "polling_period"),
        (it.expire, 7_200, "expire_interval"),
        (it.retry, 600, "retry_interval"),
    ] {
        lines.extend(time.filter(|time| *time != usual).map(|time| format!("rpki {word} {time}")));
    }
    for (cache, preference) in it.caches.iter().zip(1..) {
        lines.push(format!("rpki cache {} {} preference {preference}", cache.host, cache.port));
    }
    context("rpki", lines)
}

pub(super) fn bmp(it: &Bmp) -> Node {
    let mut lines = Vec::new();
    lines.extend(it.stats.map(|time| format!("bmp stats interval {time}")));
    if it.mirror {
        lines.push("bmp mirror".to_owned());
    }
    lines.extend(it.monitor.iter().map(|what| format!("bmp monitor {what}")));
    lines.extend(it.listen.iter().map(|(address, port)| format!("bmp listener {address} port {port}")));
    let source = it.source.as_ref().map_or_else(String::new, |name| format!(" source-interface {name}"));
    for (host, port) in &it.connect {
        lines.push(format!("bmp connect {host} port {port} min-retry 30000 max-retry 720000{source}"));
    }
    context(format!("bmp targets {}", it.name), lines)
}
