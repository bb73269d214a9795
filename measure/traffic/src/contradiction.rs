//! What a stream says that does not go together. Whatever has no effect is refused: who wrote it
//! counts on it.

use crate::range::{Loaded, Number, Order, Range};
use crate::rate::{Pattern, Rate};
use crate::stream::{Protocol, Stream};

/// A field, and what is wrong with it.
pub(crate) type Wrong = (&'static str, String);

/// Whether a field is wrong, and what to do then.
type Rule = (&'static str, bool, &'static str);

fn first(rules: &[Rule]) -> Result<(), Wrong> {
    match rules.iter().find(|(_, is_wrong, _)| *is_wrong) {
        Some((field, _, reason)) => Err((field, (*reason).to_owned())),
        None => Ok(()),
    }
}

/// Of a stream that replays a file.
pub(crate) fn replayed(stream: &Stream) -> Result<(), Wrong> {
    let usual = Stream::default();
    let own =
        "packets of a file are sent as they are: leave it out, or change the file (tcprewrite, editcap)";
    let timed = stream.speed() != 0.0;
    first(&[
        ("size", stream.size != usual.size, own),
        ("flows", stream.flows != usual.flows, own),
        ("flow_length", stream.flow_length != usual.flow_length, own),
        ("source_mac", stream.source_mac.is_some(), own),
        ("destination_mac", stream.destination_mac.is_some(), own),
        ("vlan", !stream.vlan.is_empty(), own),
        ("vlan_priority", stream.vlan_priority != usual.vlan_priority, own),
        ("mpls", !stream.mpls.is_empty(), own),
        ("source", stream.source != usual.source, own),
        ("destination", stream.destination != usual.destination, own),
        ("protocol", stream.protocol != usual.protocol, own),
        ("source_port", stream.source_port != usual.source_port, own),
        ("destination_port", stream.destination_port != usual.destination_port, own),
        ("tcp_flags", stream.tcp_flags != usual.tcp_flags, own),
        ("dscp", stream.dscp != usual.dscp, own),
        ("ttl", stream.ttl != usual.ttl, own),
        ("udp_checksum", !stream.udp_checksum, own),
        ("extension_headers", !stream.extension_headers.is_empty(), own),
        ("fill", stream.fill != usual.fill, own),
        (
            "rate",
            timed && stream.rate != Rate::Max,
            "does not go with replay_speed, by which packets have the file's times: leave out one of the two",
        ),
        (
            "pattern",
            timed && stream.pattern != Pattern::Constant,
            "is that of a rate, and packets have the file's times: leave it out, or say replay_speed 0",
        ),
        poisson(stream),
    ])
}

/// Of a stream whose packets are made, with addresses read.
pub(crate) fn made(stream: &Stream, source: &Loaded, destination: &Loaded) -> Result<(), Wrong> {
    let usual = Stream::default();
    let replays = "is of the replay of a file, and none is named: say replay, or leave it out";
    first(&[
        ("replay_speed", stream.replay_speed.is_some(), replays),
        ("replay_loops", stream.replay_loops.is_some(), replays),
        poisson(stream),
        (
            "vlan_priority",
            stream.vlan_priority != 0 && stream.vlan.is_empty(),
            "stands in a tag: give a VLAN (0 for a priority alone)",
        ),
        (
            "tcp_flags",
            stream.protocol != Protocol::Tcp && stream.tcp_flags != usual.tcp_flags,
            "are for TCP: say protocol tcp as well",
        ),
        (
            "udp_checksum",
            stream.protocol != Protocol::Udp && !stream.udp_checksum,
            "is UDP's: only protocol udp can go without",
        ),
        (
            "destination_port",
            stream.protocol == Protocol::Icmp && stream.destination_port != usual.destination_port,
            "is none of ICMP's: leave it out (source_port is the identifier)",
        ),
    ])?;
    let all = different(stream, source, destination);
    let flows = u128::from(stream.flows);
    let longer = "give them longer ranges (source 10.0.0.0/16, source_port 1024-65535); those that count do it together, `random` ones do not";
    if flows > 1 && all < flows {
        return Err(("flows", format!("{flows} at a time, and addresses and ports make {all}: {longer}")));
    }
    if stream.flow_length != 0 && all <= flows {
        let reason = format!(
            "a new flow would be one of those before it, for addresses and ports make {all}: {longer}"
        );
        return Err(("flow_length", reason));
    }
    Ok(())
}

fn poisson(stream: &Stream) -> Rule {
    let none = stream.pattern == Pattern::Poisson && stream.rate == Rate::Max;
    ("pattern", none, "gaps of poisson are drawn around those of a rate: say one")
}

/// Flows that differ in something, at most. Ranges that count do it together: they make as many as
/// their lengths have for their least common multiple.
pub(crate) fn different(stream: &Stream, source: &Loaded, destination: &Loaded) -> u128 {
    let mac = |macs: &Option<Range<_>>| macs.map_or((1, Order::Counting), of);
    let mut ranges = vec![
        mac(&stream.destination_mac),
        mac(&stream.source_mac),
        source.values(),
        destination.values(),
        of(stream.source_port),
    ];
    if stream.protocol != Protocol::Icmp {
        ranges.push(of(stream.destination_port));
    }
    ranges.into_iter().fold(1, |all: u128, (count, order)| match order {
        Order::Random => all.saturating_mul(count),
        Order::Counting => (all / divisor(all, count)).saturating_mul(count),
    })
}

fn of<T: Number>(range: Range<T>) -> (u128, Order) {
    (range.count(), range.order)
}

/// The greatest common one.
fn divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Ends, Plan};

    fn refused(text: &str) -> String {
        let stream = Stream::parse_all(&format!("[[stream]]\nname = 'it'\n{text}")).unwrap().remove(0);
        match &stream.replay {
            Some(_) => replayed(&stream)
                .map_or_else(|(field, reason)| format!("{field}: {reason}"), |()| String::new()),
            None => Plan::new(&stream, Ends::NONE).map_or_else(|error| error.to_string(), |_| String::new()),
        }
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for (field, text) in [
            ("replay_speed", "replay_speed = 1.0"),
            ("replay_loops", "replay_loops = 0"),
            ("pattern", "pattern = 'poisson'"),
            ("vlan_priority", "vlan_priority = 3"),
            ("tcp_flags", "tcp_flags = 'SYN'"),
            ("udp_checksum", "udp_checksum = false\nprotocol = 'tcp'"),
            ("destination_port", "destination_port = 53\nprotocol = 'icmp'"),
            ("size", "replay = 'x'\nsize = 128"),
            ("vlan", "replay = 'x'\nvlan = [7]"),
            ("source", "replay = 'x'\nsource = '10.0.0.0/8'"),
            ("rate", "replay = 'x'\nreplay_speed = 2\nrate = '1kpps'"),
            ("pattern", "replay = 'x'\npattern = 'burst 2 gap 1s'"),
            ("pattern", "replay = 'x'\nreplay_speed = 0\npattern = 'poisson'"),
        ] {
            let refused = refused(text);
            assert!(refused.contains(&format!("{field}: ")), "{text}: {refused:?}");
        }
        for text in [
            "protocol = 'icmp'\nsource_port = 7",
            "size = 128\nprotocol = 'tcp'\ntcp_flags = 'SYN'",
            "replay = 'x'\nrate = '1kpps'\npattern = 'poisson'",
            "replay = 'x'\nreplay_speed = 2\nreplay_loops = 0",
            "replay = 'x'\nreplay_speed = 0\npattern = 'burst 2 gap 1s'",
        ] {
            assert_eq!(refused(text), "", "{text}");
        }
    }

    #[test]
    fn there_are_as_many_flows_as_addresses_and_ports_make() {
        for (is_refused, text) in [
            // By source ports, which nothing is said of.
            (false, "flows = 64512"),
            (false, "flow_length = 10"),
            (true, "flows = 64513"),
            (true, "flows = 2\nsource_port = 7"),
            (false, "flows = 256\nsource = '10.0.0.0/24'"),
            (true, "flows = 257\nsource = '10.0.0.0/24'\ndestination = '10.1.0.0/24'"),
            (false, "flows = 768\nsource = '10.0.0.0/24'\ndestination_port = '1-3'"),
            (false, "flows = 65536\nsource = '10.0.0.0/24'\ndestination = 'random 10.1.0.0/24'"),
            (true, "flows = 3\nprotocol = 'icmp'\nsource_port = '1-2'"),
            (false, "flows = 2\nprotocol = 'icmp'\nsource_port = '1-2'"),
            (false, "flows = 2\nsource_mac = '02:00:00:00:00:01..02:00:00:00:00:02'"),
            (true, "flow_length = 10\nsource_port = 7"),
            (true, "flows = 256\nflow_length = 10\nsource = '10.0.0.0/24'"),
            (false, "flows = 255\nflow_length = 10\nsource = '10.0.0.0/24'"),
            (false, "size = 128\nflows = 4000000\nsource = '2001:db8::/32'\ndestination = '::1'"),
        ] {
            assert_eq!(refused(text).contains("flow"), is_refused, "{text}: {:?}", refused(text));
        }
        let refused = refused("flows = 10000\nsource = '10.0.0.0/24'");
        assert!(refused.contains("10000 at a time, and addresses and ports make 256"), "{refused}");
    }

    #[test]
    fn a_replay_goes_by_the_files_times_unless_there_is_a_rate() {
        let speed =
            |more: &str| Stream::parse_all(&format!("[[stream]]\nreplay = 'x'\n{more}")).unwrap()[0].speed();
        assert_eq!((speed(""), speed("rate = '1kpps'"), speed("replay_speed = 3")), (1.0, 0.0, 3.0));
    }
}
