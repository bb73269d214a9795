//! `bifrost show`: each subject as a table, or as the JSON that came over the socket.

use std::io::{BufWriter, Write, stdout};

use crate::control::status::*;
use crate::control::{Client, Request, RouteQuery};
use crate::subject::{Entry, Subject, word};
use config::Pattern;
use graph::drawing;
use serde_json::value::RawValue;

use super::Failure;
use super::args::{Output, Place, Show, ShowWith};
use super::picture;
use super::table::print;

pub fn show(what: Show, client: Client) -> Result<(), Failure> {
    match what {
        Show::Subject(entry, output) => subject(client, entry, output),
        Show::With(ShowWith::Ports { names, output }) => some_ports(client, &names, output),
        Show::With(ShowWith::Routes { place, limit, vrf, output }) => {
            let query = RouteQuery { limit, vrf, ..RouteQuery::default() };
            routes(client, place, query, output)
        }
        Show::With(ShowWith::Graph { dot: true, .. }) => picture::print(client, drawing::dot),
        Show::With(ShowWith::Graph { svg: true, .. }) => picture::print(client, drawing::svg),
        Show::With(ShowWith::Graph { output, .. }) => {
            subject(client, const { &Entry::of::<Vec<GraphNode>>() }, output)
        }
        Show::With(ShowWith::Flows(asked)) => super::flows::flows(client, &asked),
        Show::With(ShowWith::Expect(output)) => super::expect::expect(client, output),
    }
}

fn subject(mut client: Client, entry: &Entry, output: Output) -> Result<(), Failure> {
    let answer: Box<RawValue> = client.subject(&entry.ask())?;
    match output.json {
        true => print_json(&answer),
        false => print(&(entry.table)(&answer).map_err(strange)?),
    }
}

fn strange(error: serde_json::Error) -> Failure {
    Failure::Said(format!("the daemon's answer makes no sense: {error}"))
}

/// Ports, all or those that are named. A name without a port is a mistake; a pattern may mean none.
fn some_ports(mut client: Client, names: &[Pattern], output: Output) -> Result<(), Failure> {
    let all: Vec<Box<RawValue>> = client.subject("ports")?;
    let ports =
        all.iter().map(|port| serde_json::from_str(port.get())).collect::<Result<Vec<PortStatus>, _>>();
    let ports = ports.map_err(strange)?;
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
    let wanted: Vec<PortStatus> = ports.into_iter().filter(wanted).collect();
    print(&wanted.table())
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

fn routes(
    mut client: Client,
    place: Option<Place>,
    query: RouteQuery,
    output: Output,
) -> Result<(), Failure> {
    let in_vrf = query.vrf.is_some();
    let query = match place {
        None => query,
        Some(Place::Prefix(net)) => RouteQuery { within: Some(net), ..query },
        Some(Place::Address(address)) => RouteQuery { address: Some(address), ..query },
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
        writeln!(out, "{}", route(&entry?, in_vrf)).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)?;
    match place {
        Some(Place::Address(address)) if !found => Err(Failure::Said(format!("no route to {address}"))),
        _ => Ok(()),
    }
}

/// One route in a line, as `ip route` would say it.
fn route(route: &RouteEntry, in_vrf: bool) -> String {
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
    // Whoever asks for a VRF's knows the table.
    if route.table != 254 && !in_vrf {
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
