//! `bifrost show flows`, `bifrost clear flows`, `bifrost show filter` and `bifrost rtstat`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::control::status::{FlowEnds, FlowEntry, FlowQuery, FlowTable, Flows};
use crate::control::{Client, Protocol, Request};
use crate::screen::units::{self, count};
use serde_json::value::RawValue;

use super::Failure;
use super::args::{Output, Rtstat, ShowFlows, WhichFlows};
use super::show::print_json;
use super::table::{Table, print, print_value};

/// Lines of rtstat between two headings.
const PAGE: u64 = 20;

pub fn flows(mut client: Client, asked: &ShowFlows) -> Result<(), Failure> {
    let query = FlowQuery { order: asked.by.into(), limit: asked.top, ..chosen(&asked.which) };
    let request = Request::Flows(query);
    if asked.output.json {
        return print_json(&client.ask::<Box<RawValue>>(&request)?);
    }
    let shown: Flows = client.ask(&request)?;
    let Some(table) = shown.table else {
        return print("flows are not tracked: [flow] in router.toml, or a rule with `state`, lets them be\n");
    };
    let columns = [
        "protocol", "from", "to", "phase", ">age", ">idle", ">packets", ">back", ">bytes", ">back", ">rate",
        "by", "leaves",
    ];
    // Only where something is translated.
    let any = shown.flows.iter().any(|flow| flow.translated.is_some());
    let shown_columns = columns.len() - usize::from(!any);
    let mut rows = Table::new(&columns[..shown_columns]);
    for flow in &shown.flows {
        let mut row = row(flow);
        row.truncate(shown_columns);
        rows.row(row);
    }
    let total = format!(
        "{} of {} flows, {} of them shown; room for {}\n",
        count(shown.matching),
        count(table.size),
        count(shown.flows.len() as u64),
        count(table.capacity)
    );
    print(&(rows.render() + &total))
}

/// `clear flows`.
pub fn clear(mut client: Client, which: &WhichFlows, output: Output) -> Result<(), Failure> {
    let cleared: u64 = client.ask(&Request::ClearFlows(chosen(which)))?;
    if output.json {
        return print_value(&serde_json::json!({ "ended": cleared }));
    }
    print(&format!("{} flows ended\n", count(cleared)))
}

fn chosen(which: &WhichFlows) -> FlowQuery {
    let WhichFlows { host, port, proto } = *which;
    FlowQuery { host, port, protocol: proto.map(|protocol| protocol.0), ..FlowQuery::default() }
}

/// An address with its port.
pub(crate) fn end(address: Option<IpAddr>, port: u16) -> String {
    match address {
        Some(address) if port == 0 => address.to_string(),
        Some(address) => SocketAddr::new(address, port).to_string(),
        None => "-".to_owned(),
    }
}

fn row(flow: &FlowEntry) -> Vec<String> {
    let name = |port: &Option<String>| port.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        Protocol(flow.protocol).to_string(),
        end(flow.source, flow.source_port),
        end(flow.destination, flow.destination_port),
        flow.phase.clone(),
        units::time(flow.age_seconds as u64),
        units::time(flow.idle_seconds as u64),
        count(flow.packets[0]),
        count(flow.packets[1]),
        count(flow.bytes[0]),
        count(flow.bytes[1]),
        units::bits(flow.bits_per_second),
        format!("{} > {}", name(&flow.ports[0]), name(&flow.ports[1])),
        flow.translated.map_or("-".to_owned(), |leaving| leaves(flow, &leaving)),
    ]
}

/// Which ends of a flow are others as it leaves.
fn leaves(flow: &FlowEntry, leaving: &FlowEnds) -> String {
    let ends = [
        ("from", (flow.source, flow.source_port), (leaving.source, leaving.source_port)),
        ("to", (flow.destination, flow.destination_port), (leaving.destination, leaving.destination_port)),
    ];
    let changed = ends.into_iter().filter(|(_, came, left)| came != left);
    changed
        .map(|(word, _, (address, port))| format!("{word} {}", end(address, port)))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The columns of the tool by which route caches were watched, for today's table: figures of each
/// interval.
pub fn rtstat(mut client: Client, asked: &Rtstat) -> Result<(), Failure> {
    let mut before: Option<FlowTable> = None;
    let mut lines = 0;
    while asked.count.is_none_or(|count| lines < count) {
        let shown: Flows = client.ask(&Request::FlowTable)?;
        let Some(now) = shown.table else {
            return Err(Failure::Said(
                "flows are not tracked: [flow] in router.toml lets them be".to_owned(),
            ));
        };
        if let Some(before) = before {
            if asked.json {
                let line = serde_json::to_string(&now).unwrap_or_default();
                print(&(line + "\n"))?;
            } else {
                if lines.is_multiple_of(PAGE) {
                    print(HEADING)?;
                }
                print(&line(&before, &now, asked.interval as f64))?;
            }
            lines += 1;
            if asked.count == Some(lines) {
                break;
            }
        }
        before = Some(now);
        std::thread::sleep(Duration::from_secs(asked.interval));
    }
    Ok(())
}

const HEADING: &str = "     size |      hit      tot  invalid | gc:active    timed  passive  ignored overflow |  lookups   search\n";

fn line(before: &FlowTable, now: &FlowTable, seconds: f64) -> String {
    let rate = |of: fn(&FlowTable) -> u64| of(now).saturating_sub(of(before)) as f64 / seconds;
    format!(
        "{:>9} | {:>8.0} {:>8.0} {:>8.0} | {:>9.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} | {:>8.0} {:>8.0}\n",
        now.size,
        rate(|table| table.hits),
        rate(|table| table.new),
        rate(|table| table.invalid),
        rate(|table| table.gc_active),
        rate(|table| table.gc_timed),
        rate(|table| table.gc_passive),
        rate(|table| table.gc_ignored),
        rate(|table| table.overflow),
        rate(|table| table.lookups),
        rate(|table| table.searches),
    )
}
