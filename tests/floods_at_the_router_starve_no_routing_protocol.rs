//! Floods at the router, of each kind that a neighbour's link can carry, end no session: BGP, OSPF
//! and BFD stay up by the very port that the flood comes in by. Timers are so short that each flood
//! outlasts them.
//!
//! ```text
//!   peer (FRR) ------------- router (FRR: bgpd, ospfd, bfdd)
//!         .2   10.9.0.0/24   .1  right
//! ```

use std::time::Duration;

use lab::{Frr, Host, Lab, Router, wait_for};

use crate::network::{ports, turn};

/// How long each flood lasts: longer than any session waits.
const FLOOD: Duration = Duration::from_secs(4);

fn speaker(own: u8, other: u8) -> String {
    format!(
        "
interface eth0
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 3
interface right
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 3
router ospf
 ospf router-id 10.9.0.{own}
router bgp 6500{own}
 bgp router-id 10.9.0.{own}
 timers bgp 1 3
 no bgp ebgp-requires-policy
 neighbor 10.9.0.{other} remote-as 6500{other}
 neighbor 10.9.0.{other} timers connect 1
bfd
 peer 10.9.0.{other}
  detect-multiplier 10
  receive-interval 250
  transmit-interval 250
"
    )
}

/// Floods, by name: what scapy makes the frame behind Ethernet of, with `source` a forged address
/// for each.
const KINDS: [(&str, &str); 8] = [
    ("BGP", "IP(src=source, dst='10.9.0.1') / TCP(sport=sport, dport=179, flags='S')"),
    ("OSPF to all", "IP(src=link, dst='224.0.0.5', ttl=1, proto=89) / Raw(bytes(44))"),
    ("OSPF to the router", "IP(src=source, dst='10.9.0.1', ttl=1, proto=89) / Raw(bytes(44))"),
    (
        "BFD",
        "IP(src=source, dst='10.9.0.1', ttl=255 - n % 2) / UDP(sport=sport, dport=3784) / Raw(bytes(24))",
    ),
    ("ARP", "ARP(op=1, psrc=link, pdst='10.9.0.1', hwsrc='02:00:00:00:00:02')"),
    (
        "ND",
        "IPv6(src='fe80::%x' % (n + 9), dst='ff02::1:ff00:1', hlim=255) / ICMPv6ND_NS(tgt='2001:db8:9::1')",
    ),
    ("ICMP", "IP(src=source, dst='10.9.0.1') / ICMP()"),
    ("UDP", "IP(src=source, dst='10.9.0.1') / UDP(sport=sport, dport=5000)"),
];

/// Sends frames of a kind as fast as one core makes them; how many.
fn flood(host: &Host, gateway: &str, frame: &str) -> u64 {
    let multicast = if frame.contains("224.0.0.5") { "01:00:5e:00:00:05" } else { gateway };
    let sent = host.scapy(&format!(
        "import random, socket
random.seed(7)
frames = []
for n in range(1000):
    source = '198.18.%d.%d' % (random.randrange(256), random.randrange(256))
    link = '10.9.0.%d' % (10 + n % 240)
    sport = 1024 + random.randrange(60000)
    frames.append(bytes(Ether(src='02:00:00:00:00:02', dst='{multicast}') / {frame}))
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('eth0', 0))
end = time.monotonic() + {}
sent = 0
while time.monotonic() < end:
    for frame in frames:
        try: sent += out.send(frame) > 0
        except OSError: pass
print(sent)",
        FLOOD.as_secs()
    ));
    sent.unwrap().trim().parse().unwrap()
}

/// How each protocol's session stands and how often it has gone down, or what is missing.
fn sessions(frr: &Frr) -> Result<[u64; 3], String> {
    let show = |what: &str| frr.show(what).map_err(|error| error.to_string());
    let bgp = show("show bgp ipv4 unicast summary json")?;
    let peer = &bgp["peers"]["10.9.0.2"];
    let ospf = show("show ip ospf neighbor json")?;
    let neighbour = &ospf["neighbors"]["10.9.0.2"][0];
    let neighbour = if neighbour.is_null() { &ospf["10.9.0.2"][0] } else { neighbour };
    let full = neighbour["nbrState"].as_str().or(neighbour["state"].as_str()).unwrap_or("none");
    let bfd = show("show bfd peers json")?;
    let counted = show("show bfd peers counters json")?;
    if peer["state"] != "Established" || !full.starts_with("Full") || bfd[0]["status"] != "up" {
        return Err(format!("BGP {}, OSPF {full}, BFD {}", peer["state"], bfd[0]["status"]));
    }
    let went = counted[0]["session-down"].as_u64().ok_or("BFD does not count")?;
    let dropped = peer["connectionsDropped"].as_u64().ok_or("BGP does not count")?;
    // OSPF tells since when: what has begun again is younger.
    let detail = show("show ip ospf neighbor 10.9.0.2 detail json")?.to_string();
    let changes = detail.split("\"stateChangeCounter\":").nth(1).ok_or(detail.clone())?;
    let changes: String = changes.chars().take_while(char::is_ascii_digit).collect();
    Ok([dropped, changes.parse().map_err(|_| detail)?, went])
}

/// What is for the router the driver judges, whatever the lane.
#[test]
fn by_the_port_of_the_flood() {
    let _turn = turn();
    let lab = Lab::new("floods").unwrap();
    let (peer, host) = (lab.host("peer").unwrap(), lab.router("router").unwrap());
    lab.link(
        host.end("right").address("10.9.0.1/24").address("2001:db8:9::1/64"),
        peer.end("eth0").address("10.9.0.2/24").address("2001:db8:9::2/64"),
    )
    .unwrap();
    let router = Router::start(&host, &ports("express", &["right"])).unwrap();
    let daemons = ["bgpd", "ospfd", "bfdd"];
    let frr = Frr::start(&host, &daemons, &speaker(1, 2), false).unwrap();
    let _other = Frr::start(&peer, &daemons, &speaker(2, 1), false).unwrap();
    wait_for("all sessions", Duration::from_secs(30), || sessions(&frr).map(drop)).unwrap();
    // They are known within a second or two.
    std::thread::sleep(Duration::from_secs(3));
    let gateway = host.mac("right").unwrap();
    for (kind, frame) in KINDS {
        let before = sessions(&frr).unwrap();
        let sent = flood(&peer, &gateway, frame);
        let after = sessions(&frr);
        let classes = router.subject("classifier").unwrap();
        assert_eq!(after, Ok(before), "{sent} frames of {kind}: {classes}");
        eprintln!("{kind}: {sent} frames in {FLOOD:?}");
    }
}
