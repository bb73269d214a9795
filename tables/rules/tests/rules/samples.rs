//! Packets whose fate anyone can tell by reading the rules, through everything that decides.

use std::net::IpAddr;
use std::sync::Arc;

use rules::{BATCH, Compiled, Context, Decision, Filter, FlowState, Hook, Ledger, Now, Outcome, Reject};
use wire::{Headers, headers::mapped, tcp::flag};

const RULES: &str = include_str!("samples.rules");
const PACKETS: &str = include_str!("samples.packets");

fn address(text: &str) -> [u8; 16] {
    match text.parse().expect("an address") {
        IpAddr::V4(address) => mapped(address.octets()),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A line of samples.packets.
fn sample(line: &str) -> (Headers, Context, Outcome) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [state, protocol, source, sport, destination, dport, special, dscp, length, ":", verdict] = words[..]
    else {
        panic!("{line}")
    };
    let number = |text: &str| text.parse::<u16>().expect("a number");
    let flags = |text: &str| {
        text.split('+').fold(0, |bits, name| {
            bits | match name {
                "syn" => flag::SYN,
                "fin" => flag::FIN,
                "ack" => flag::ACK,
                _ => panic!("{line}"),
            }
        })
    };
    let protocol_number = match protocol {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "icmpv6" => 58,
        _ => 47,
    };
    let headers = Headers {
        source: address(source),
        destination: address(destination),
        version: if source.contains(':') { 6 } else { 4 },
        protocol: protocol_number,
        source_port: number(sport),
        destination_port: number(dport),
        tcp_flags: if protocol == "tcp" { flags(special) } else { 0 },
        icmp_type: if protocol.starts_with("icmp") { number(special) as u8 } else { 0 },
        dscp: number(dscp) as u8,
        length: number(length),
        ttl: 64,
        ..Headers::default()
    };
    let state = match state {
        "established" => FlowState::Established,
        "invalid" => FlowState::Invalid,
        _ => FlowState::New,
    };
    let outcome = match verdict {
        "accept" => Outcome::Accept,
        "drop" => Outcome::Drop,
        _ => Outcome::Reject(Reject::TcpReset),
    };
    (headers, Context { state, out_port: Some(1), ..Context::default() }, outcome)
}

#[test]
fn everything_decides_as_a_reader_does() {
    let filter = Filter::read("samples.rules", RULES, &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    let filter = Arc::new(filter.unwrap_or_else(|mistakes| panic!("{mistakes}")));
    assert_eq!(filter.check().expect("short"), []);
    let compiled = Compiled::new(filter.clone(), Ledger::new(1).open(&filter)).expect("short");
    let lines: Vec<&str> = PACKETS.lines().filter(|line| !line.starts_with('#')).collect();
    let now = Now::default();
    for lines in lines.chunks(BATCH) {
        let samples: Vec<(Headers, Context, Outcome)> = lines.iter().map(|line| sample(line)).collect();
        let headers: Vec<Headers> = samples.iter().map(|sample| sample.0).collect();
        let contexts: Vec<Context> = samples.iter().map(|sample| sample.1).collect();
        let mut decisions = vec![Decision::default(); lines.len()];
        compiled.classify(0, Hook::Forward, &now, &headers, &contexts, &mut decisions);
        for ((line, (headers, context, outcome)), decision) in lines.iter().zip(&samples).zip(&decisions) {
            let told = filter.explain(Hook::Forward, headers, context, &now);
            assert_eq!(
                told.decision.outcome,
                *outcome,
                "{line}\n{}\n{}",
                told.summary,
                told.steps.join("\n")
            );
            assert_eq!(decision.outcome, *outcome, "{line}");
        }
    }
}

#[test]
fn a_set_changes_without_the_rules() {
    let filter =
        Filter::read("f", RULES, &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("a filter");
    let filter = Arc::new(filter);
    let before = Compiled::new(filter.clone(), Ledger::new(1).open(&filter)).expect("short");
    let (_, set) = before.sets().iter().find(|(name, _)| name == "bogons").expect("it is there");
    let after = before.with_set("bogons", set.change(&["192.0.2.0/24".parse().expect("a prefix")], &[]));
    let after = after.expect("it is there");
    let (headers, context, _) = sample("new udp 192.0.2.1 4000 203.0.113.5 53 - 0 60 : accept");
    let outcome = |compiled: &Compiled| {
        let mut decisions = [Decision::default()];
        compiled.classify(0, Hook::Forward, &Now::default(), &[headers], &[context], &mut decisions);
        decisions[0].outcome
    };
    assert_eq!((outcome(&before), outcome(&after)), (Outcome::Accept, Outcome::Drop));
    assert!(before.with_set("bogus", rules::Set::default()).is_none());
}
