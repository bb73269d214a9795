//! Flows handed to Linux when the router stops.
//!
//! Linux has the router's rules ([`fallback`](super::fallback)), but none of its flows. A
//! connection whose inner side speaks first would begin anew there; what comes from outside first
//! would be nobody's: no rule accepts it, and of a translated one nobody knows whose it is. So
//! conntrack is told of all flows, with their translation, while they are still the plane's, and
//! goes on with them at their next packet, from whichever side.
//!
//! A kill hands nothing over. In VRFs connections belong to zones, which the one that begins there
//! chooses: those are left out. So are flows between the families, which Linux has not.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use flow::{Account, Phase, Timeouts, Tuple};
use mirror::{Connection, Conntrack, Direction};
use tracing::{info, warn};
use wire::protocol;

use super::forwarding::Forwarding;

/// How long it may take: some hundred thousand flows.
const TIME: Duration = Duration::from_secs(2);
/// Entries of the flow table looked at before others may free theirs.
const STEP: u32 = 4096;
/// Connections that Linux has room for where it does not say.
const ROOM: usize = 65_536;

/// Hands all flows to Linux, those that are translated first: they are lost without it.
pub(super) fn hand_over(forwarding: &Forwarding) {
    let policy = forwarding.plane.policy();
    let Some(table) = policy.table().filter(|_| policy.depends_on_flows()) else { return };
    let timeouts = forwarding.router.flow.as_ref().map_or_else(Timeouts::default, |flow| flow.timeouts);
    let (begun, mut told, mut room) = (Instant::now(), 0usize, room());
    let mut tell = || -> std::io::Result<usize> {
        let worker = table.worker().map_err(std::io::Error::other)?;
        worker.offline();
        let (mut linux, now) = (Conntrack::open()?, graph::steady_now());
        for translated in [true, false] {
            let mut next = Some(0);
            while let Some(from) = next.filter(|_| room > 0 && begun.elapsed() < TIME) {
                let mut some = Vec::new();
                worker.online();
                next =
                    worker.flows(from, STEP, now, &mut |hit, _| some.push(worker.snapshot(hit, now).account));
                worker.offline();
                let some = some.iter().filter(|account| account.is_translated() == translated);
                for connection in some.filter_map(|account| connection(account, &timeouts, now)).take(room) {
                    let taken = usize::from(linux.tell(&connection)?);
                    (told, room) = (told + taken, room - taken);
                }
            }
        }
        linux.finish()
    };
    match tell() {
        Ok(refused) => info!("{} of the flows are known to Linux", told.saturating_sub(refused)),
        Err(error) => warn!("Linux is not told of flows: {error}"),
    }
}

/// How many more connections Linux may have, with some left for new ones.
fn room() -> usize {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{name}")).ok()?;
        text.trim().parse::<usize>().ok()
    };
    let most = read("max").unwrap_or(ROOM);
    (most - most / 4).saturating_sub(read("count").unwrap_or(0))
}

/// A flow as Linux knows connections; `None`: it has ended, or was not answered by TCP, or belongs
/// to a VRF.
fn connection(account: &Account, timeouts: &Timeouts, now: u64) -> Option<Connection> {
    let Account { original, reply, phase, .. } = account;
    let udp = matches!(original.protocol, protocol::UDP | protocol::UDP_LITE);
    let lives = match phase {
        Phase::Open => timeouts.tcp_established,
        Phase::Answered | Phase::Closing => timeouts.tcp_closing,
        Phase::Stream if udp => timeouts.udp_stream,
        Phase::Unreplied | Phase::Replied | Phase::Stream if udp => timeouts.udp,
        Phase::Unreplied | Phase::Replied | Phase::Stream => match original.protocol {
            protocol::ICMP | protocol::ICMP6 => timeouts.icmp,
            _ => timeouts.other,
        },
        Phase::Opening | Phase::Finished | Phase::Reset => return None,
    };
    let idle = Duration::from_nanos(now.saturating_sub(account.last));
    let lives = lives.checked_sub(idle).filter(|_| original.table == 0 && reply.table == 0)?;
    Some(Connection {
        protocol: original.protocol,
        original: direction(original),
        reply: direction(reply),
        answered: *phase != Phase::Unreplied,
        closing: *phase == Phase::Closing,
        lives,
    })
}

fn direction(tuple: &Tuple) -> Direction {
    let address = |bytes: [u8; 16]| IpAddr::from(Ipv6Addr::from(bytes)).to_canonical();
    Direction {
        source: address(tuple.source),
        destination: address(tuple.destination),
        ports: [tuple.source_port, tuple.destination_port],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::End;

    fn account(phase: Phase) -> Account {
        let headers = wire::Headers {
            source: wire::headers::mapped([10, 0, 0, 1]),
            destination: wire::headers::mapped([192, 0, 2, 1]),
            version: 4,
            protocol: protocol::TCP,
            source_port: 4000,
            destination_port: 443,
            ..wire::Headers::default()
        };
        let original = Tuple::of(&headers, 0);
        Account {
            id: 1,
            original,
            reply: original.reversed(),
            start: 0,
            last: 10_000_000_000,
            packets: [1; 2],
            bytes: [40; 2],
            tcp_flags: [0; 2],
            phase,
            ports: [0, 1],
            mark: 0,
            end: End::Slice,
        }
    }

    #[test]
    fn what_lives_is_handed_over_for_as_long_as_it_would_live() {
        let (timeouts, now) = (Timeouts::default(), 70_000_000_000);
        let open = connection(&account(Phase::Open), &timeouts, now).unwrap();
        assert_eq!(open.lives, timeouts.tcp_established - Duration::from_secs(60));
        assert_eq!((open.original.source, open.original.ports), ("10.0.0.1".parse().unwrap(), [4000, 443]));
        assert!(open.answered && !open.closing && open.reply.ports == [443, 4000]);
        assert!(connection(&account(Phase::Closing), &timeouts, now).unwrap().closing);
        for (protocol, lives) in [(protocol::SCTP, timeouts.other), (protocol::ICMP, timeouts.icmp)] {
            let original = Tuple { protocol, ..account(Phase::Replied).original };
            let other = Account { original, last: now, ..account(Phase::Replied) };
            assert_eq!(connection(&other, &timeouts, now).unwrap().lives, lives);
        }
        for over in [Phase::Opening, Phase::Finished, Phase::Reset] {
            assert_eq!(connection(&account(over), &timeouts, now), None);
        }
        let old = Account { last: 0, ..account(Phase::Open) };
        assert_eq!(connection(&old, &timeouts, timeouts.tcp_established.as_nanos() as u64 + 1), None);
        let original = Tuple { table: 3, ..account(Phase::Open).original };
        assert_eq!(
            connection(&Account { original, ..account(Phase::Open) }, &timeouts, now),
            None,
            "a VRF's"
        );
    }
}
