//! A bond of Linux's on Bifrost's ports is forwarded by the plane, in both lanes, and so is a VLAN
//! on it: with LACP at both ends, with one member in reserve, with a hash alone. Linux's word about
//! a member moves its flows; what the plane cannot do for a bond as Linux does it, Linux does. (The
//! network of `bonded.rs`.)

use std::time::{Duration, Instant};

use lab::{Flows, Sink, inside, wait_for};

use super::bonded::{Bonded, LEFT, RIGHT, TAGGED};
use crate::network::ports;

const LACP: &str = "mode 802.3ad miimon 10 lacp_rate fast xmit_hash_policy layer3+4";
const XOR: &str = "mode balance-xor miimon 10 xmit_hash_policy layer2+3";
const RESERVE: &str = "mode active-backup miimon 10";
const BOTH: [&str; 2] = ["left0", "left1"];

/// Requests to each address.
const REQUESTS: u64 = 50;
/// Datagrams a second, and the flows that they are of.
const RATE: u32 = 1000;
const FLOWS: usize = 64;
/// Longest that all flows may be without a way, in an emulated machine. With two cores it was 0 to
/// 21 ms where a member goes that carries half of them, 17 to 52 ms where it carries all and Linux
/// chooses the next one, and at most 83 ms where LACP takes one back.
const OUTAGE: Duration = Duration::from_millis(200);

/// Asks for all addresses; how many packets the plane took, and how many Linux forwarded.
fn ask(net: &Bonded) -> (u64, u64) {
    let (taken, forwarded) = (net.received(), net.router.host().linux_forwarded().unwrap());
    net.left.asks(&RIGHT, REQUESTS).unwrap();
    net.right.asks(&[LEFT, TAGGED].concat(), REQUESTS).unwrap();
    (net.received() - taken, net.router.host().linux_forwarded().unwrap() - forwarded)
}

/// Packets that the requests and answers come to.
const PACKETS: u64 = 2 * 6 * REQUESTS;

fn plane_forwards(net: &Bonded) {
    net.reachable();
    let (taken, forwarded) = ask(net);
    // Linux resolves neighbours, and forwards what it was handed for that.
    assert!(taken + forwarded >= PACKETS && forwarded < PACKETS / 10, "{taken} taken, {forwarded} by Linux");
}

fn linux_forwards(net: &Bonded) {
    net.reachable();
    let (_, forwarded) = ask(net);
    assert!(forwarded >= PACKETS, "Linux forwarded {forwarded}");
}

/// Flows to the left, while `change` happens to the bond. By how many of all flows' packets arrived
/// fewer than were sent, as time; and what each member sent.
fn under_traffic(net: &Bonded, what: &str, change: impl FnOnce()) -> (Duration, [u64; 2]) {
    let sink = Sink::start(&net.left, 9000).unwrap();
    let before = net.sent();
    let to = format!("{}:9000", LEFT[0]).parse().unwrap();
    let flows = Flows::start(&net.right, vec![to], FLOWS, 64, RATE).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    change();
    std::thread::sleep(Duration::from_secs(1));
    let sent = flows.stop();
    let _ = sink.has_received(sent, Duration::from_secs(2));
    let lost = sent - sink.received();
    let outage = Duration::from_secs_f64(lost as f64 / f64::from(RATE));
    let after = net.sent();
    let by = [after[0] - before[0], after[1] - before[1]];
    eprintln!(
        "{what}: {lost} of {sent} datagrams lost ({outage:?} of all traffic), {by:?} sent by the members"
    );
    drop(sink.stop());
    (outage, by)
}

/// A member that goes moves its flows, whether it is this end or the other that says so; so does
/// one that comes back.
fn members_come_and_go(net: &Bonded) {
    let router = net.router.host();
    let run = |host: &lab::Host, what: &str| host.run(what).map(drop).unwrap();
    let (outage, by) = under_traffic(net, "nothing", || ());
    assert!(outage < OUTAGE && by.iter().all(|sent| *sent > 300), "{by:?}");

    let (outage, _) = under_traffic(net, "off", || run(router, "ip link set left0 down"));
    assert!(outage < OUTAGE, "{outage:?}");
    net.sends_by(&["left1"]);
    let (_, by) = under_traffic(net, "one", || ());
    assert!(by[0] == 0 && by[1] > 1000, "{by:?}");
    let back = || {
        run(router, "ip link set left0 up");
        net.sends_by(&BOTH);
    };
    let (outage, _) = under_traffic(net, "on", back);
    assert!(outage < OUTAGE, "{outage:?}");

    // The other end's word is the carrier here.
    let (outage, _) = under_traffic(net, "no carrier", || run(&net.left, "ip link set eth1 down"));
    assert!(outage < OUTAGE, "{outage:?}");
    net.sends_by(&["left0"]);
    let back = || {
        run(&net.left, "ip link set eth1 up");
        net.sends_by(&BOTH);
        // However slow the guest is to hash the flows anew.
        let before = net.sent();
        lab::wait_for("both members to send", Duration::from_secs(10), || {
            let sent = net.sent();
            match sent.iter().zip(before).all(|(sent, before)| sent - before > 200) {
                true => Ok(()),
                false => Err(format!("{before:?}, then {sent:?}")),
            }
        })
        .unwrap();
    };
    let (outage, by) = under_traffic(net, "carrier", back);
    assert!(outage < OUTAGE && by.iter().all(|sent| *sent > 200), "{outage:?} {by:?}");
    plane_forwards(net);
}

fn config(lane: &str, ports_of_bond: &[&str]) -> String {
    ports(lane, &[ports_of_bond, &["right"]].concat())
}

/// A virtual router on the bond, whose link address frames come to by either member.
const VIRTUAL: &str = "[vrrp.lan]\ninterface = \"bond0\"\nid = 7\naddresses = [\"10.1.0.254\"]\n";

fn by_a_virtual_router(net: &Bonded) {
    wait_for("it is active", Duration::from_secs(20), || {
        let shown = net.router.ask("show redundancy").unwrap();
        if shown.contains(" active ") { Ok(()) } else { Err(shown) }
    })
    .unwrap();
    net.left.run(&format!("ip route add {}/32 via 10.1.0.254", RIGHT[0])).unwrap();
    net.left.reaches(RIGHT[0], Duration::from_secs(10)).unwrap();
    let neighbour = net.left.run("ip neighbour show 10.1.0.254").unwrap();
    assert!(neighbour.contains("00:00:5e:00:01:07"), "{neighbour}");
    let sink = Sink::start(&net.right, 9000).unwrap();
    let to = format!("{}:9000", RIGHT[0]).parse().unwrap();
    let linux = net.router.host().linux_forwarded().unwrap();
    let flows = Flows::start(&net.left, vec![to], FLOWS, 64, RATE).unwrap();
    sink.has_received(u64::from(RATE), Duration::from_secs(20)).unwrap();
    let sent = flows.stop();
    sink.has_received(sent, Duration::from_secs(5)).unwrap();
    let linux = net.router.host().linux_forwarded().unwrap() - linux;
    assert!(linux < sent / 10, "Linux forwarded {linux} of {sent}");
    drop(sink.stop());
    net.left.run(&format!("ip route del {}/32", RIGHT[0])).unwrap();
}

/// Both ends by LACP; the bond is there before the plane.
fn lacp(lane: &str) {
    let mut net = Bonded::stopped("bonded", &(config(lane, &["bond0"]) + VIRTUAL));
    net.bond(LACP);
    net.router.restart().unwrap();
    net.becomes_ours();
    net.sends_by(&BOTH);
    plane_forwards(&net);
    let shown = net.router.ask("show ports").unwrap();
    assert!(!shown.contains("bond0"), "a bond is no port: {shown}");
    by_a_virtual_router(&net);
    members_come_and_go(&net);
}

/// Without LACP; the bond is made while the plane runs, of interfaces that are ports already, and
/// goes again.
fn xor(lane: &str) {
    let mut net = Bonded::stopped("bonded", &config(lane, &["left*"]));
    net.router.restart().unwrap();
    net.bond(XOR);
    net.becomes_ours();
    net.sends_by(&BOTH);
    plane_forwards(&net);
    members_come_and_go(&net);
    // A source is believed from whichever member it comes by.
    net.router.host().run("sysctl -w net.ipv4.conf.bond0.rp_filter=1 net.ipv4.conf.all.rp_filter=1").unwrap();
    plane_forwards(&net);
    net.router.host().run("ip link set left1 nomaster").unwrap();
    net.left.run("ip link set eth1 nomaster").unwrap();
    net.sends_by(&["left0"]);
    plane_forwards(&net);
    assert_eq!(net.interface("left1")["adopted"], true, "it is a port of its own again");
}

/// One member in reserve: nothing leaves by it, and what comes by it is dropped, as Linux drops it.
fn reserve(lane: &str) {
    let mut net = Bonded::stopped("bonded", &config(lane, &["bond0"]));
    net.bond(RESERVE);
    net.router.restart().unwrap();
    net.becomes_ours();
    net.sends_by(&["left0"]);
    plane_forwards(&net);
    let (outage, by) = under_traffic(&net, "in reserve", || ());
    assert!(outage < OUTAGE && by[1] == 0 && by[0] > 1000, "{outage:?} {by:?}");
    let said = net.router.ask("show ports").unwrap();
    assert!(said.contains("bond0 has it in reserve"), "{said}");

    let fail = || net.router.host().run("ip link set left0 down").map(drop).unwrap();
    let (outage, by) = under_traffic(&net, "failover", fail);
    assert!(outage < OUTAGE && by[1] > 300, "{outage:?} {by:?}");
    net.sends_by(&["left1"]);
    net.router.host().run("ip link set left0 up").unwrap();
    plane_forwards(&net);

    // The ends disagree: what the left one sends comes by the member that is in reserve here.
    net.left.run("ip link set bond0 type bond active_slave eth0").unwrap();
    net.sends_by(&["left1"]);
    assert!(net.left.run(&format!("ping -q -c 3 -i 0.2 -W 1 {}", RIGHT[0])).is_err(), "in reserve");
    net.router.host().run("ip link set bond0 type bond active_slave left0").unwrap();
    net.sends_by(&["left0"]);
    plane_forwards(&net);
}

fn left_to_linux() {
    let mut net = Bonded::stopped("bonded", &config("auto", &["left*"]));
    net.bond("mode balance-rr miimon 10");
    net.router.restart().unwrap();
    linux_forwards(&net);
    for (name, reason) in [("bond0", "balance-rr"), ("bond0.10", "balance-rr"), ("left0", "belongs to bond0")]
    {
        assert!(net.why(name).is_some_and(|why| why.contains(reason)), "{:?}", net.why(name));
    }
    drop(net);
    let mut net = Bonded::stopped("bonded", &config("auto", &["left0"]));
    net.bond(XOR);
    net.router.restart().unwrap();
    linux_forwards(&net);
    assert_eq!(net.why("bond0").as_deref(), Some("its member left1 is no port of Bifrost's"));
    // With its last stranger it becomes ours.
    net.router.host().run("ip link set left1 nomaster").unwrap();
    net.left.run("ip link set eth1 nomaster").unwrap();
    let begun = Instant::now();
    wait_for("the bond is adopted", Duration::from_secs(10), || net.why("bond0").map_or(Ok(()), Err))
        .unwrap();
    eprintln!("adopted {:?} after its last stranger left", begun.elapsed());
    plane_forwards(&net);
}

mod by_lacp {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", || lacp("worker"));
    }
}

mod by_a_hash {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", || xor("express"));
    }
}

mod with_a_member_in_reserve {
    use super::*;

    #[test]
    fn on_6_12() {
        inside!("6.12", || reserve("worker"));
    }
}

#[test]
fn and_what_the_plane_cannot_do_is_linuxs() {
    inside!("6.12", left_to_linux);
}
