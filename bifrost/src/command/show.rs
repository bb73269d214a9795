//! `bifrost show`: each subject as a table, or as the JSON that came over the socket.

use std::io::{BufWriter, Write, stdout};

use crate::control::status::*;
use crate::control::{Client, Request, RouteQuery};
use crate::screen::units::{self, count};
use config::Pattern;
use graph::drawing;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Failure;
use super::args::{Output, Place, Show};
use super::listing::listing;
use super::picture;
use super::table::{Table, or_dash, print};

pub fn show(what: Show, client: Client) -> Result<(), Failure> {
    match what {
        Show::Ports { names, output } => some_ports(client, &names, output),
        Show::Routes { place, limit, output } => routes(client, place, limit, output),
        Show::Neighbours(output) => subject(client, Request::Neighbours, output, neighbours),
        Show::Drops(output) => subject(client, Request::Drops, output, drops),
        Show::Workers(output) => subject(client, Request::Workers, output, workers),
        Show::Graph { dot: true, .. } => picture::print(client, drawing::dot),
        Show::Graph { svg: true, .. } => picture::print(client, drawing::svg),
        Show::Graph { output, .. } => subject(client, Request::Graph, output, listing),
        Show::Flows(asked) => super::flows::flows(client, &asked),
        Show::Nat(output) => subject(client, Request::Nat, output, super::flows::nat),
        Show::Filter(output) => {
            subject(client, Request::Filter, output, |chains: &Vec<_>| super::flows::filter(chains))
        }
        Show::Classifier(output) => subject(client, Request::Classifier, output, classifier),
        Show::Config(output) => subject(client, Request::Config, output, config),
        Show::Mirror(output) => subject(client, Request::Mirror, output, mirror),
        Show::Flowlog(output) => subject(client, Request::FlowLog, output, super::flow_log::status),
        Show::Sflow(output) => subject(client, Request::Sflow, output, super::flow_log::sflow),
        Show::MirrorPort(output) => subject(client, Request::MirrorPort, output, mirror_port),
        Show::Version(output) => subject(client, Request::Version, output, version),
    }
}

fn subject<T: DeserializeOwned>(
    mut client: Client,
    request: Request,
    output: Output,
    text: fn(&T) -> String,
) -> Result<(), Failure> {
    match output.json {
        true => print_json(&client.ask::<Box<RawValue>>(&request)?),
        false => print(&text(&client.ask(&request)?)),
    }
}

/// Ports, all or those that are named. A name without a port is a mistake; a pattern may mean none.
fn some_ports(mut client: Client, names: &[Pattern], output: Output) -> Result<(), Failure> {
    let all: Vec<Box<RawValue>> = client.ask(&Request::Ports)?;
    let ports =
        all.iter().map(|port| serde_json::from_str(port.get())).collect::<Result<Vec<PortStatus>, _>>();
    let ports =
        ports.map_err(|error| Failure::Said(format!("the daemon's answer makes no sense: {error}")))?;
    let known = |name: &str| ports.iter().any(|port| port.name == name);
    if let Some(unknown) = names.iter().filter_map(Pattern::literal).find(|name| !known(name)) {
        let there: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        return Err(Failure::Said(format!("no port is called {unknown}; there are: {}", there.join(" "))));
    }
    let wanted = |port: &PortStatus| names.is_empty() || names.iter().any(|name| name.matches(&port.name));
    if output.json {
        let chosen = all.iter().zip(&ports).filter(|(_, port)| wanted(port)).map(|(json, _)| json.get());
        return print(&list(chosen));
    }
    print(&self::ports(&ports.into_iter().filter(wanted).collect()))
}

/// The configuration in force, as it can be put into a file.
fn config(config: &Config) -> String {
    match &config.file {
        Some(_) => config.text.clone(),
        None => "# no file: the ports were named on the command line\n".to_owned(),
    }
}

/// The mirror port.
fn mirror_port(status: &Option<MirrorPortStatus>) -> String {
    let Some(status) = status else {
        return "nothing is mirrored: [mirror] in router.toml begins it\n".to_owned();
    };
    let up = if status.up { "" } else { ", which is down or not there" };
    let filter = if status.filter.is_empty() { "every packet" } else { &status.filter };
    let mut table = Table::new(&["copies", ">packets"]);
    for (name, value) in [
        ("sent", status.sent),
        ("lost: they came too fast", status.missed),
        ("lost: the interface is down", status.down),
        ("lost: the interface's queue is full", status.slow),
        ("lost: longer than the interface's MTU", status.too_long),
    ] {
        table.row(vec![name.to_owned(), count(value)]);
    }
    format!("{filter}, to {}{up}\n{}", status.to, table.render())
}

/// A list of values, an item a line.
fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.collect();
    if items.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", items.join(",\n")) }
}

/// Prints a value as it came; a list with one item a line.
pub fn print_json(value: &RawValue) -> Result<(), Failure> {
    let text = match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(items) => list(items.iter().map(|item| item.get())),
        Err(_) => format!("{}\n", value.get()),
    };
    print(&text)
}

/// The word of an enumeration, as in the JSON.
fn word<T: Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn ports(ports: &Vec<PortStatus>) -> String {
    let mut table = Table::new(&[
        "port", "state", "driver", "mode", "lane", ">queues", ">in pps", ">in", ">out pps", ">out",
        ">express", ">worker", ">linux", ">drops",
    ]);
    for port in ports {
        let zero_copy = port.queues.iter().any(|queue| queue.zero_copy);
        let mode = port.xdp_mode.map(|mode| word(mode) + if zero_copy { ", zero-copy" } else { "" });
        table.row(vec![
            port.name.clone(),
            word(port.state),
            or_dash(&port.driver),
            or_dash(&mode),
            or_dash(&lanes(port)),
            port.queues.len().to_string(),
            units::packets(port.rates.received.packets_per_second),
            units::bits(port.rates.received.bits_per_second),
            units::packets(port.rates.sent.packets_per_second),
            units::bits(port.rates.sent.bits_per_second),
            count(port.received.express.packets),
            count(port.received.worker.packets),
            count(port.received.linux.packets),
            count(port.drops),
        ]);
    }
    let mut text = table.render();
    for port in ports {
        let reasons = [("lane", &port.lane_reason), ("mode", &port.mode_reason)];
        for (what, reason) in reasons.into_iter().filter_map(|(what, reason)| Some((what, reason.as_ref()?)))
        {
            text += &format!("{} {what}: {reason}\n", port.name);
        }
    }
    text
}

/// The port's lane, and the other one where at least one in a hundred packets takes it: flows that a worker has decided go on in
/// the driver, and the driver leaves to workers what it cannot do.
fn lanes(port: &PortStatus) -> Option<String> {
    let lane = port.lane?;
    let Lanes { express, worker, linux } = port.received;
    let hundredth = (express.packets + worker.packets + linux.packets).div_ceil(100).max(1);
    let other = match lane {
        Lane::Worker => (Lane::Express, express.packets),
        Lane::Express => (Lane::Worker, worker.packets),
        Lane::Linux => return Some(lane.name().to_owned()),
    };
    Some(match other {
        (other, packets) if packets >= hundredth => format!("{}+{}", lane.name(), other.name()),
        _ => lane.name().to_owned(),
    })
}

fn routes(
    mut client: Client,
    place: Option<Place>,
    limit: Option<u64>,
    output: Output,
) -> Result<(), Failure> {
    let query = match place {
        None => RouteQuery { limit, ..RouteQuery::default() },
        Some(Place::Prefix(net)) => RouteQuery { within: Some(net), limit, ..RouteQuery::default() },
        Some(Place::Address(address)) => {
            RouteQuery { address: Some(address), limit, ..RouteQuery::default() }
        }
    };
    let request = Request::Routes(query);
    let mut out = BufWriter::new(stdout().lock());
    // Written as they come: a million routes need no more memory than one.
    if output.json {
        let mut before = "[\n";
        for route in client.stream::<Box<RawValue>>(&request, Some(super::PATIENCE))? {
            write!(out, "{before}{}", route?).map_err(Failure::output)?;
            before = ",\n";
        }
        let end = if before == "[\n" { "[]\n" } else { "\n]\n" };
        return out.write_all(end.as_bytes()).and_then(|()| out.flush()).map_err(Failure::output);
    }
    let mut found = false;
    for entry in client.stream::<RouteEntry>(&request, Some(super::PATIENCE))? {
        found = true;
        writeln!(out, "{}", route(&entry?)).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)?;
    match place {
        Some(Place::Address(address)) if !found => Err(Failure::Said(format!("no route to {address}"))),
        _ => Ok(()),
    }
}

/// One route in a line, as `ip route` would say it.
fn route(route: &RouteEntry) -> String {
    let mut text = format!("{:<20} ", route.prefix.to_string());
    text += &route.from.map_or(String::new(), |from| format!("from {from} "));
    text += &route.tos.as_ref().map_or(String::new(), |tos| format!("tos {tos} "));
    text += &route.origin;
    match route.kind {
        RouteKind::Forward | RouteKind::Connected => {}
        kind => text += &format!(" {}", word(kind)),
    }
    for (n, hop) in route.next_hops.iter().enumerate() {
        text += if n == 0 { " " } else { " | " };
        text += &hop.via.map(|via| format!("via {via} ")).unwrap_or_default();
        text += &format!("dev {}", hop.dev);
        text += &if route.next_hops.len() > 1 { format!(" weight {}", hop.weight) } else { String::new() };
        text += match (hop.resolved, route.kind) {
            (false, RouteKind::Forward) => " unresolved",
            _ => "",
        };
    }
    if route.table != 254 {
        text += &format!(" table {}", route.table);
    }
    if route.metric != 0 {
        text += &format!(" metric {}", route.metric);
    }
    if !route.selected {
        text += " (not selected)";
    } else if !route.programmed {
        text += " (left to Linux)";
    }
    text
}

fn neighbours(neighbours: &Vec<Neighbour>) -> String {
    let mut table = Table::new(&["address", "port", "mac", "state", "in table"]);
    for neighbour in neighbours {
        table.row(vec![
            neighbour.address.to_string(),
            neighbour.dev.clone(),
            or_dash(&neighbour.mac),
            neighbour.state.clone(),
            if neighbour.programmed { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.render()
}

fn drops(drops: &Vec<DropCount>) -> String {
    if drops.is_empty() {
        return "nothing was dropped\n".to_owned();
    }
    let mut table = Table::new(&["reason", "lane", "port", "element", ">packets", ">now pps"]);
    for drop in drops {
        table.row(vec![
            drop.reason.clone(),
            drop.lane.name().to_owned(),
            or_dash(&drop.port),
            or_dash(&drop.element),
            count(drop.packets),
            units::packets(drop.per_second),
        ]);
    }
    table.render()
}

fn workers(workers: &Vec<WorkerStatus>) -> String {
    let mut table = Table::new(&[
        ">worker",
        ">core",
        "state",
        ">load",
        ">pps",
        ">batch",
        ">packets",
        ">wakeups",
        ">restarts",
        "queues",
    ]);
    for worker in workers {
        table.row(vec![
            worker.index.to_string(),
            worker.core.to_string(),
            word(worker.state),
            units::share(worker.load),
            units::packets(worker.packets_per_second),
            format!("{:.1}", worker.batch_average),
            count(worker.packets),
            count(worker.wakeups),
            count(worker.restarts),
            worker.queues.join(" "),
        ]);
    }
    table.render()
}

fn classifier(status: &ClassifierStatus) -> String {
    let mut table = Table::new(&["class", ">rate pps", ">burst", ">passed", ">dropped"]);
    for class in &status.classes {
        table.row(vec![
            class.class.clone(),
            count(class.rate),
            count(class.burst),
            count(class.passed),
            count(class.dropped),
        ]);
    }
    format!("local addresses: {}\n{}", count(status.local_addresses), table.render())
}

fn mirror(status: &MirrorStatus) -> String {
    let audit = &status.audit;
    let ago = audit
        .last_pass_seconds_ago
        .map_or("none ended yet".to_owned(), |s| format!("the last ended {s} s ago"));
    let mut text = format!(
        "source: {}, {}\nknown: {} links, {} addresses, {} neighbours, {} next-hop objects\n\
         messages: {}, overruns: {}, routes left to Linux: {}\n\
         audit: {} passes ({ago}), {} differences, {} repaired\n",
        status.source,
        if status.synced { "in step with Linux" } else { "catching up with Linux" },
        count(status.links),
        count(status.addresses),
        count(status.neighbours),
        count(status.next_hop_objects),
        count(status.messages),
        count(status.overruns),
        count(status.not_programmed),
        count(audit.passes),
        count(audit.differences),
        count(audit.repaired),
    );
    if let Some(fpm) = &status.fpm {
        let connected = if fpm.connected { "connected" } else { "nobody is connected" };
        text += &format!(
            "fpm: {connected} at {}, {} connections, {} frames\n",
            fpm.listen,
            count(fpm.connections),
            count(fpm.frames)
        );
    }
    for other in &status.unused_tables {
        text += &format!("table {}: {} routes, not used yet\n", other.table, count(other.routes));
    }
    if status.restricted_routes > 0 {
        text += &format!(
            "routes for some sources or types of service only: {}; what goes to their prefixes is left to Linux\n",
            count(status.restricted_routes)
        );
    }
    let done = |respected: bool| match respected {
        true => "what it could touch is left to Linux",
        false => "passed by, as configured",
    };
    for rule in &status.rules {
        text += &format!("policy rule {rule}: {}\n", done(status.rules_respected));
    }
    let others = (status.rules_ipv4 + status.rules_ipv6).saturating_sub(status.rules.len() as u64);
    if others > 0 {
        text += &format!("policy rules: {} more\n", count(others));
    }
    for filter in &status.filters {
        text += &format!("filter {filter}: {}\n", done(status.filters_respected));
    }
    for shaper in &status.shapers {
        text += &format!("queueing discipline {shaper}: does not shape what Bifrost forwards\n");
    }
    if let Some(why) = &status.filter_refused {
        text += &format!(
            "Linux lacks the router's filter and translation: {}\n",
            why.lines().next().unwrap_or_default()
        );
    }
    if status.filter_restored > 0 {
        text += &format!(
            "Linux's copy of the filter and translation: changed by others, put back {} time(s)\n",
            count(status.filter_restored)
        );
    }
    let mut table = Table::new(&["routes by", ">ipv4", ">ipv6"]);
    for origin in &status.routes {
        table.row(vec![origin.origin.clone(), count(origin.ipv4), count(origin.ipv6)]);
    }
    text + &table.render()
}

fn version(version: &Version) -> String {
    format!(
        "bifrost {}\npid {}, up for {}\n{}\n",
        version.version,
        version.pid,
        units::time(version.uptime_seconds),
        match &version.configuration {
            Some(file) => format!("configuration: {file}"),
            None => "ports named on the command line".to_owned(),
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_is_what_packets_take() {
        let shown = |lane, express: u64, worker: u64| {
            let traffic = |packets| Traffic { packets, bytes: 0 };
            let received = Lanes { express: traffic(express), worker: traffic(worker), ..Lanes::default() };
            lanes(&PortStatus { lane, received, ..PortStatus::default() })
        };
        assert_eq!(shown(None, 0, 0), None);
        for (lane, express, worker, said) in [
            (Lane::Worker, 0, 0, "worker"),
            (Lane::Worker, 0, 1_000, "worker"),
            (Lane::Worker, 999_000, 1_000, "worker+express"),
            (Lane::Worker, 1, 1_000, "worker"),
            (Lane::Express, 1_000_000, 12, "express"),
            (Lane::Express, 90, 10, "express+worker"),
            (Lane::Linux, 5, 5, "linux"),
        ] {
            assert_eq!(shown(Some(lane), express, worker).as_deref(), Some(said), "{express} {worker}");
        }
    }
}
