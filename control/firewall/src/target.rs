//! Into what a rule of nftables translates: `masquerade`, `snat`, `dnat`, as actions of the
//! plane's.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use nat::{Action, Addresses, Dynamic, Filtering, MOST_ADDRESSES, Pooling, Spread, Target};
use serde_json::Value;

use crate::Why;
use crate::field::{self, Field};
use crate::ruleset::{Key, Ruleset};
use crate::value::{self, Kind};

/// Ports that Linux gives out where nothing is said of them: a low one to who has a low one.
const ALL_PORTS: RangeInclusive<u16> = 1..=u16::MAX;

/// One of the things that a statement does.
pub(crate) struct Choice {
    /// For these packets alone: a map's element.
    pub only: Option<(Vec<Field>, Value)>,
    pub action: Action,
}

/// What is put in the place of an address and port.
#[derive(Debug)]
struct Place {
    first: IpAddr,
    last: IpAddr,
    ports: Option<RangeInclusive<u16>>,
}

/// Reads a statement; `None`: it does not translate.
pub(crate) fn read(statement: &Value, ruleset: &Ruleset, key: &Key) -> Result<Option<Vec<Choice>>, Why> {
    let object = statement.as_object().and_then(|object| object.iter().next());
    let Some((kind, about)) = object else { return Ok(None) };
    if !["masquerade", "snat", "dnat", "redirect"].contains(&kind.as_str()) {
        return Ok(None);
    }
    let persistent = flags(about)?;
    let single = |action| Ok(Some(vec![Choice { only: None, action }]));
    match kind.as_str() {
        "redirect" => Err("it redirects to the router itself".to_owned()),
        "masquerade" => {
            let ports = ports(&about["port"])?.unwrap_or(ALL_PORTS);
            single(Action::Masquerade(dynamic(ports, persistent)))
        }
        kind => {
            let action = |place: Place| match kind {
                "snat" => source(place, persistent),
                _ => destination(place),
            };
            let map = &about["addr"]["map"];
            if map.is_null() {
                return single(action(place(&about["addr"], &about["port"])?)?);
            }
            let fields = field::fields(&map["key"])?;
            let choice = |pair: &Value| {
                let pair = pair.as_array().map(Vec::as_slice);
                let Some([from, to]) = pair else { return Err("a map of something else".to_owned()) };
                let place = match to["concat"].as_array().map(Vec::as_slice) {
                    Some([address, port]) => place(address, port),
                    _ => place(to, &about["port"]),
                };
                let only = Some((fields.clone(), value::bare(from).clone()));
                Ok(Choice { only, action: action(place?)? })
            };
            let pairs = ruleset.elements(key, &map["data"])?;
            pairs.iter().map(choice).collect::<Result<_, Why>>().map(Some)
        }
    }
}

/// Whether a host keeps its address.
fn flags(about: &Value) -> Result<bool, Why> {
    if about["type_flags"] == "prefix" {
        return Err("a prefix for another".to_owned());
    }
    let of = &about["flags"];
    let flags: Vec<&str> = match of {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    match flags.iter().find(|flag| **flag != "persistent") {
        Some(other) => Err(format!("translation that is {other}")),
        None => Ok(!flags.is_empty()),
    }
}

fn dynamic(ports: RangeInclusive<u16>, persistent: bool) -> Dynamic {
    let pooling = if persistent { Pooling::Paired } else { Pooling::Arbitrary };
    Dynamic { ports, pooling, filtering: Filtering::default(), hairpin: false, host_limit: None }
}

fn source(place: Place, persistent: bool) -> Result<Action, Why> {
    let text = format!("{}-{}", place.first, place.last);
    let addresses: Addresses = text.parse().map_err(|_| format!("the addresses {text}"))?;
    if addresses.len() > MOST_ADDRESSES {
        return Err(format!("a pool of more than {MOST_ADDRESSES} addresses"));
    }
    let dynamic = dynamic(place.ports.unwrap_or(ALL_PORTS), persistent);
    Ok(Action::Source { addresses, dynamic })
}

fn destination(place: Place) -> Result<Action, Why> {
    if place.first != place.last {
        return Err("one of several destinations".to_owned());
    }
    if place.ports.as_ref().is_some_and(|ports| ports.start() != ports.end()) {
        return Err("one of several ports".to_owned());
    }
    let targets = vec![Target { net: IpNet::from(place.first), ports: place.ports }];
    Ok(Action::Destination { targets, spread: Spread::default(), hairpin: false })
}

fn place(address: &Value, port: &Value) -> Result<Place, Why> {
    let unknown = || format!("the address {address}");
    let one = |value: &Value| value.as_str()?.parse::<IpAddr>().ok();
    // nft says it of some ranges.
    let prefix = &address["prefix"];
    let range = match address["range"].as_array().map(Vec::as_slice) {
        Some([first, last]) => one(first).zip(one(last)),
        _ if prefix.is_object() => {
            value::prefixes(address).and_then(|nets| nets.first().map(|net| (net.network(), net.broadcast())))
        }
        _ => one(address).map(|address| (address, address)),
    };
    let (first, last) = range.ok_or_else(unknown)?;
    Ok(Place { first, last, ports: ports(port)? })
}

fn ports(value: &Value) -> Result<Option<RangeInclusive<u16>>, Why> {
    if value.is_null() {
        return Ok(None);
    }
    let range = value::range(Kind::Plain, value);
    let small = range.and_then(|(first, last)| Some(first.try_into().ok()?..=last.try_into().ok()?));
    small.filter(|ports| ports.start() <= ports.end()).map(Some).ok_or_else(|| format!("the ports {value}"))
}
