//! What is said of flows and of the filter.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::control::status::{FlowEnds, FlowEntry, FlowOrder, FlowQuery, FlowTable, Flows};
use flow::{Account, End, Table};

use super::forwarding::Forwarding;

/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;
/// Flows shown unless more are asked for, and at most.
const USUAL: u64 = 100;
const MOST: u64 = 100_000;

/// What showing and ending flows needs, so that it can be done beside the control thread.
pub(super) struct FlowViewer {
    table: Option<Arc<Table>>,
    /// Names of the ports, by number.
    ports: Vec<String>,
}

impl Forwarding {
    pub(super) fn flow_viewer(&self) -> FlowViewer {
        FlowViewer { table: self.plane.policy().table().cloned(), ports: self.interface_names() }
    }

    pub(super) fn flow_table(&self) -> Option<FlowTable> {
        self.plane.policy().table().map(|table| counters(table))
    }

    /// Writes to the log what rules want there.
    pub(super) fn log_filtered(&mut self) {
        let book = self.plane.policy().book().clone();
        book.set_local_offset(chrono::Local::now().offset().local_minus_utc());
        let (compiled, generation) = book.current();
        while let Some(logged) = book.log.pop() {
            let rule = compiled.filter().rule(logged.rule).filter(|_| logged.generation == generation);
            let name = rule.map_or_else(
                || "a rule that is gone".to_owned(),
                |(_, rule)| rule.name.clone().unwrap_or_else(|| rule.to_string()),
            );
            let tuple = flow::Tuple::of(&logged.headers, 0);
            let port = |id: fib::InterfaceId| self.interface_name(id).unwrap_or_else(|| "-".to_owned());
            let output = logged.output.map_or("-".to_owned(), port);
            tracing::info!(target: "filter", "{name}: {tuple}, {} bytes, {} to {output}", logged.headers.length, port(logged.input));
        }
        let unlogged = book.unlogged.swap(0, std::sync::atomic::Ordering::Relaxed);
        if unlogged > 0 {
            tracing::warn!(target: "filter", "{unlogged} packets more than the log could take");
        }
    }
}

fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1e3
}

fn counters(table: &Table) -> FlowTable {
    let counters = table.counters();
    FlowTable {
        capacity: table.capacity() as u64,
        size: counters.size,
        memory: table.bytes() as u64,
        lookups: counters.lookups,
        hits: counters.hits,
        new: counters.new,
        searches: counters.searches,
        invalid: counters.invalid,
        gc_active: counters.active,
        gc_timed: counters.timed,
        gc_passive: counters.passive,
        gc_flushed: counters.flushed,
        gc_ignored: counters.ignored,
        overflow: counters.overflow,
    }
}

impl FlowViewer {
    /// Looks at every flow, a few thousand at a time.
    pub(super) fn look(&self, query: &FlowQuery) -> Result<Flows, String> {
        let Some(table) = &self.table else { return Ok(Flows::default()) };
        let worker = table.worker().map_err(|error| error.to_string())?;
        let limit = query.limit.unwrap_or(USUAL).min(MOST) as usize;
        let now = graph::steady_now();
        // The best so far, the worst of them first.
        let mut best: BTreeMap<(Reverse<u64>, u32), Account> = BTreeMap::new();
        let (mut matching, mut next) = (0u64, Some(0));
        while let Some(from) = next {
            worker.online();
            next = worker.flows(from, STEP, now, &mut |_, account| {
                if !wanted(query, account) {
                    return;
                }
                matching += 1;
                best.insert((Reverse(rank(query.order, account, now)), account.id), *account);
                if best.len() > limit {
                    best.pop_last();
                }
            });
            worker.offline();
        }
        let flows = best.values().map(|account| self.entry(account, now)).collect();
        Ok(Flows { table: Some(counters(table)), matching, flows })
    }

    /// Ends the flows that are asked for; how many they were. Their accounts are given, and their
    /// mappings freed, as those of others.
    pub(super) fn clear(&self, query: &FlowQuery) -> Result<u64, String> {
        let Some(table) = &self.table else { return Err("flows are not tracked".to_owned()) };
        let now = graph::steady_now();
        let (mut cleared, mut next) = (0, Some(0));
        while let Some(from) = next {
            // A new one for each step: what it has ended goes to those that free it when it leaves.
            let mut worker = table.worker().map_err(|error| error.to_string())?;
            let mut these = Vec::new();
            next = worker.flows(from, STEP, now, &mut |hit, account| {
                if wanted(query, account) {
                    these.push(*hit);
                }
            });
            cleared += these.iter().filter(|hit| worker.end(hit, End::Flushed)).count() as u64;
        }
        Ok(cleared)
    }

    fn entry(&self, account: &Account, now: u64) -> FlowEntry {
        let (original, leaving) = (&account.original, account.reply.reversed());
        let translated = || FlowEnds {
            source: Some(leaving.source_address()),
            source_port: leaving.source_port,
            destination: Some(leaving.destination_address()),
            destination_port: leaving.destination_port,
        };
        FlowEntry {
            protocol: original.protocol,
            source: Some(original.source_address()),
            source_port: original.source_port,
            destination: Some(original.destination_address()),
            destination_port: original.destination_port,
            phase: account.phase.name().to_owned(),
            age_seconds: seconds(now.saturating_sub(account.start)),
            idle_seconds: seconds(now.saturating_sub(account.last)),
            packets: account.packets,
            bytes: account.bytes,
            bits_per_second: rate(account, now) as f64,
            ports: account.ports.map(|port| self.ports.get(usize::from(port)).cloned()),
            mark: account.mark,
            translated: account.is_translated().then(translated),
        }
    }
}

/// Bits a second since it began; over a second at least.
fn rate(account: &Account, now: u64) -> u64 {
    let bits = account.bytes.iter().sum::<u64>().saturating_mul(8);
    (u128::from(bits) * 1_000_000_000 / u128::from(now.saturating_sub(account.start).max(1_000_000_000)))
        as u64
}

fn rank(order: FlowOrder, account: &Account, now: u64) -> u64 {
    match order {
        FlowOrder::Rate => rate(account, now),
        FlowOrder::Bytes => account.bytes.iter().sum(),
        FlowOrder::Age => now.saturating_sub(account.start),
    }
}

/// Whether a flow is asked for.
pub(super) fn wanted(query: &FlowQuery, account: &Account) -> bool {
    let ends = [&account.original, &account.reply];
    let host = |address: IpAddr| query.host.is_none_or(|host| host.contains(&address));
    let port = |port: u16| query.port.is_none_or(|wanted| wanted == port);
    query.protocol.is_none_or(|protocol| protocol == account.original.protocol)
        && ends.iter().any(|end| host(end.source_address()) || host(end.destination_address()))
        && ends.iter().any(|end| port(end.source_port) || port(end.destination_port))
}
