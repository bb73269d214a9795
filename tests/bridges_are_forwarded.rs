//! A bridge of Linux's with an address, of Bifrost's ports, is routed by the plane in both lanes:
//! from hosts behind its members, to them, and from one to another where a route says so. What it
//! bridges stays Linux's. Linux's word on where a host is moves it, and Linux learns from hosts as
//! if nobody had been in between. What the plane cannot do for a bridge as Linux does it, Linux
//! does. (The network of `bridged.rs`.)

use std::time::Duration;

use lab::{Flows, Host, Sink, wait_for};

use crate::bridged::{Bridged, HOSTS, MEMBERS, MOVER, PATIENCE, addresses, bridge};
use crate::network::{LANES, SERVER, all_arrive, at, ports};

/// What a host hears of packets that another sends, byte for byte, sorted.
fn heard(net: &Bridged, from: &Host, to: &Host, packets: &str) -> Vec<String> {
    let mut tcpdump = to.command("tcpdump");
    tcpdump.args(["-n", "-l", "-t", "-xx", "-i", "eth0", "udp port 7777"]);
    let mut tcpdump = to.spawn("tcpdump", tcpdump).unwrap();
    wait_for("tcpdump", PATIENCE, || match tcpdump.output() {
        output if output.contains("listening") => Ok(()),
        output => Err(output),
    })
    .unwrap();
    let interface = if from.name() == "server" { "wan" } else { "br0" };
    let gateway = net.router.host().mac(interface).unwrap();
    from.scapy(&format!(
        "link = Ether(src='{}', dst='{gateway}')\nfor packet in {packets}: sendp(link / packet, iface='eth0', verbose=False)",
        from.mac("eth0").unwrap()
    ))
    .unwrap();
    let last = "0x0000:";
    let count = |output: &str| output.matches(last).count();
    wait_for("the last packet", PATIENCE, || match tcpdump.output() {
        output if count(&output) >= 5 => Ok(()),
        output => Err(output),
    })
    .unwrap();
    let _ = tcpdump.stop(PATIENCE);
    let output = tcpdump.output();
    let lines = output.lines().filter(|line| line.trim_start().starts_with("0x"));
    let mut heard: Vec<String> = Vec::new();
    for line in lines {
        match heard.last_mut().filter(|_| !line.contains(last)) {
            Some(packet) => packet.push_str(line.trim()),
            None => heard.push(line.trim().to_owned()),
        }
    }
    heard.sort();
    heard
}

/// What leaves by the bridge, and what came by it, is what Linux would have made of it.
fn bytes_are_those_of_linux(net: &mut Bridged) {
    let packets = |four: &str, six: &str, own: [&str; 2]| {
        format!(
            "[IP(src='{0}', dst='{four}', id=1, ttl=64, tos=0x28, flags='DF') / UDP(sport=7777, dport=7777) / b'one', \
              IP(src='{0}', dst='{four}', id=2, ttl=2) / UDP(sport=7777, dport=7777) / bytes(1400), \
              IP(src='{0}', dst='{four}', id=3, ttl=9) / UDP(sport=7777, dport=7777, chksum=0), \
              IPv6(src='{1}', dst='{six}', hlim=64, tc=7, fl=9) / UDP(sport=7777, dport=7777) / b'four', \
              IPv6(src='{1}', dst='{six}', hlim=2) / UDP(sport=7777, dport=7777) / bytes(1400)]",
            own[0], own[1]
        )
    };
    let both = |net: &Bridged| {
        net.reachable(&[0, 2]);
        let mut all = Vec::new();
        for host in [0, 2] {
            let own = addresses(HOSTS[host].1);
            let own = [own[0].as_str(), own[1].as_str()];
            let out = packets(SERVER[0], SERVER[1], own);
            all.push(heard(net, &net.hosts[host], &net.server, &out));
            all.push(heard(net, &net.server, &net.hosts[host], &packets(own[0], own[1], SERVER)));
        }
        all
    };
    let (before, by_plane) = (net.counted().0, both(net));
    assert!(net.counted().0 - before >= 16, "the plane has them");
    net.router.stop().unwrap();
    let by_linux = both(net);
    assert!(by_linux.iter().all(|packets| packets.len() == 5), "{by_linux:?}");
    assert_eq!(by_plane, by_linux);
    net.router.restart().unwrap();
    net.sends_by(&MEMBERS);
}

/// What is bridged passes as before, and so does what is routed back to the bridge: Linux tells its
/// sender once that there is a shorter way.
fn neighbours_reach_each_other(net: &Bridged) {
    let a = &net.hosts[0];
    let (taken, _) = net.counted();
    for to in [addresses(11), addresses(12)].concat() {
        a.reaches(&to, PATIENCE).unwrap();
        let said = a.run(&format!("ping -q -c 20 -i 0.01 {to}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    assert!(net.counted().0 - taken < 20, "what is bridged is Linux's");
    let redirects = crate::network::overheard(a, "icmp[0] = 5");
    let before = net.counted();
    let said = a.run("ip route add 10.9.0.0/24 via 10.1.0.1; sysctl -qw net.ipv4.conf.all.accept_redirects=0 net.ipv4.conf.eth0.accept_redirects=0; ping -q -c 200 -i 0.01 10.9.0.1").unwrap();
    assert!(said.contains(" 0% packet loss"), "{said}");
    wait_for("a redirect", PATIENCE, || match redirects.output() {
        output if output.contains("redirect") => Ok(()),
        output => Err(output),
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
    drop(redirects);
    let after = net.counted();
    assert!(after.0 - before.0 >= 150 && after.1 - before.1 <= 50, "{before:?} {after:?}\n{}", net.state());
}

/// A host that moves without a word but its next packet is found where it is, as Linux finds it.
fn a_host_moves(net: &Bridged) {
    let mover = &net.mover;
    for (from, into, port) in [("eth1", "eth0", "lan3"), ("eth0", "eth1", "lan2"), ("eth1", "eth0", "lan3")] {
        net.move_host(from, into);
        // An answer may be on its way to where the host was.
        let said = mover.run(&format!("ping -c 20 -i 0.02 -W 1 {} || true", SERVER[0])).unwrap();
        let answered = said.matches("bytes from").count();
        assert!(answered >= 15, "{answered} answered: {said}\n{}", net.state());
        let fdb = net.router.host().run("bridge fdb show br br0").unwrap();
        assert!(fdb.contains(&format!("{MOVER} dev {port}")), "{fdb}");
        let before = net.counted();
        let said = mover.run(&format!("ping -q -c 100 -i 0.01 {}", SERVER[0])).unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}");
        let after = net.counted();
        assert!(after.0 - before.0 >= 180, "{before:?} {after:?}\n{}", net.state());
    }
}

/// Datagrams to hosts while something happens to another's member; how many were lost.
fn lost_meanwhile(net: &Bridged, to: usize, change: impl FnOnce()) -> u64 {
    let sink = Sink::start(&net.hosts[to], 9000).unwrap();
    let flows = Flows::start(&net.server, vec![at(&addresses(HOSTS[to].1)[0], 9000)], 8, 64, 1000).unwrap();
    sink.has_received(200, PATIENCE).unwrap();
    change();
    std::thread::sleep(Duration::from_millis(300));
    let sent = flows.stop();
    let _ = sink.has_received(sent, Duration::from_secs(2));
    sent - sink.received()
}

/// Members that go and come back take their own hosts along, and nobody else's.
fn members_come_and_go(net: &Bridged) {
    let lost = lost_meanwhile(net, 2, || {
        net.run("ip link set lan0 down");
        net.sends_by(&MEMBERS[1..]);
        assert!(net.server.reaches(&addresses(10)[0], Duration::ZERO).is_err());
        net.run("ip link set lan0 up");
        net.sends_by(&MEMBERS);
    });
    assert!(lost <= 20, "{lost} lost");
    net.plane_forwards(&[0]);
    // The other end's word is the carrier.
    net.hosts[0].run("ip link set eth0 down").unwrap();
    net.sends_by(&MEMBERS[1..]);
    net.hosts[0].run("ip link set eth0 up; ip address replace 2001:db8:1::10/64 dev eth0 nodad; ip route replace default via 10.1.0.1; ip route replace default via 2001:db8:1::1; ip route replace 10.9.0.0/24 via 10.1.0.1").unwrap();
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0]);
    let lost = lost_meanwhile(net, 2, || {
        net.run("ip link set lan0 nomaster");
        net.sends_by(&MEMBERS[1..]);
        assert_eq!(net.interface("lan0")["adopted"], true, "it is a port of its own");
        net.run("ip link set lan0 master br0");
        net.sends_by(&MEMBERS);
    });
    assert!(lost <= 100, "{lost} lost");
    net.plane_forwards(&[0, 1, 2, 3]);
}

/// What Linux knows no more of a host that is silent, the plane does not either; it learns again.
fn entries_age(net: &Bridged) {
    let [four, _] = addresses(13);
    net.plane_forwards(&[3]);
    let sink = Sink::start(&net.hosts[3], 9000).unwrap();
    // Nothing that the host says by itself shall renew it.
    net.run("ip neighbour replace 10.1.0.13 lladdr $(ip -j neighbour show 10.1.0.13 | jq -r '.[0].lladdr') dev br0 nud permanent; ip link set br0 type bridge ageing_time 100");
    let known = || net.router.host().run("bridge fdb show dynamic br br0").unwrap();
    let mac = net.hosts[3].mac("eth0").unwrap();
    let mut sent = 0;
    // A host that happens to say something meanwhile is known again, for a second.
    wait_for("Linux to look for it", 2 * PATIENCE, || {
        wait_for("it ages", PATIENCE, || if known().contains(&mac) { Err(known()) } else { Ok(()) }).unwrap();
        let before = net.counted();
        let flows = Flows::start(&net.server, vec![at(&four, 9000)], 8, 64, 500).unwrap();
        sink.has_received(sent + 300, PATIENCE).unwrap();
        sent += flows.stop();
        sink.has_received(sent, PATIENCE).unwrap();
        match net.counted() {
            after if after.1 - before.1 >= 20 => Ok(()),
            after => Err(format!("{before:?} {after:?}")),
        }
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", net.state()));
    net.run("ip link set br0 type bridge ageing_time 30000; ip neighbour del 10.1.0.13 dev br0");
    drop(sink.stop());
    net.plane_forwards(&[3]);
}

/// A chain for bridges, and a member that is no port.
fn what_the_plane_cannot_do_linux_does(net: &Bridged) {
    net.run("nft add table bridge f; nft add chain bridge f c '{ type filter hook input priority 0; }'; nft add rule bridge f c counter");
    net.is_linuxs("Linux's filter bridge f c");
    net.linux_forwards(&[0]);
    net.run("nft delete table bridge f");
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0]);

    let other = net.lab.host("other").unwrap();
    net.lab.link(other.end("eth0").address("10.1.0.20/24"), net.router.host().end("guest")).unwrap();
    other.run("ip route add default via 10.1.0.1").unwrap();
    net.run("ip link set guest master br0");
    other.reaches(SERVER[0], PATIENCE).unwrap_or_else(|e| panic!("{e}\n{}", net.state()));
    net.server.reaches("10.1.0.20", PATIENCE).unwrap();
    net.plane_forwards(&[0, 3]);
    let before = net.counted();
    let said = net.server.run("ping -q -c 50 -i 0.01 10.1.0.20").unwrap();
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert!(net.counted().1 - before.1 >= 100, "a host behind what is no port is Linux's");
    net.run("sysctl -qw net.ipv4.conf.br0.rp_filter=1");
    net.is_linuxs("its member guest is no port");
    net.linux_forwards(&[0]);
    net.run("ip link del guest");
    net.sends_by(&MEMBERS);
    // A source is believed from whichever member it comes by.
    net.plane_forwards(&[0, 1, 2, 3]);
    net.run("sysctl -qw net.ipv4.conf.br0.rp_filter=0; ip link set br0 mtu 1400");
    net.plane_forwards(&[0]);
    net.run("ip link set br0 mtu 1500; ip link set lan0 mtu 1400; ip link set br0 mtu 1500");
    net.is_linuxs("its member lan0 has a smaller MTU");
    net.run("ip link set lan0 mtu 1500; ip link set br0 mtu 1500");
    net.sends_by(&MEMBERS);
}

fn in_lane(lane: &str, before: bool) {
    let mut net = Bridged::stopped(lane);
    if before {
        net.run(&bridge());
        net.router.restart().unwrap();
    } else {
        net.router.restart().unwrap();
        net.run(&bridge());
    }
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0, 1, 2, 3]);
    for host in [0, 1, 3] {
        let to = addresses(HOSTS[host].1);
        all_arrive(&net.router, &net.server, &net.hosts[host], &[&to[0], &to[1]], 1000);
        all_arrive(&net.router, &net.hosts[host], &net.server, &SERVER, 1000);
    }
    neighbours_reach_each_other(&net);
    a_host_moves(&net);
    members_come_and_go(&net);
    entries_age(&net);
    what_the_plane_cannot_do_linux_does(&net);
    net.run("ip link del br0");
    net.run(&bridge());
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0, 1, 2, 3]);
    bytes_are_those_of_linux(&mut net);
}

#[test]
fn in_the_express_lane() {
    in_lane(LANES[0], true);
}

#[test]
fn in_the_worker_lane() {
    in_lane(LANES[1], false);
}

#[test]
fn beside_rules_on_flows_every_member_learns() {
    let mut net = Bridged::stopped(LANES[1]);
    net.run(&bridge());
    let ports = ports(LANES[1], &[&MEMBERS[..], &["wan"]].concat());
    let judged = |rules: &str| format!("{ports}[filter.forward]\nrules = [{rules}]\n");
    net.router.configure(&judged("\"drop udp to any port 9\", \"accept\"")).unwrap();
    net.router.restart().unwrap();
    net.run("bridge link set dev lan1 learning off");
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0]);
    net.router.configure(&judged("\"accept state established\", \"accept\"")).unwrap();
    net.router.ask("reload").unwrap();
    net.is_linuxs("its member lan1 learns nobody by itself");
    net.linux_forwards(&[0]);
    net.run("bridge link set dev lan1 learning on");
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0]);
    net.run("bridge link set dev lan2 learning on locked on");
    net.is_linuxs("its member lan2 learns nobody by itself");
    net.router.configure(&ports).unwrap();
    net.router.ask("reload").unwrap();
    net.sends_by(&MEMBERS);
    net.plane_forwards(&[0]);
}
