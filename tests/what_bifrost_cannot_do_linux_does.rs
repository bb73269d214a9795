//! Packets that only Linux can complete reach it whole, and nothing of them is lost.
//! (The network of `network.rs`.)

use std::time::Duration;

use lab::{Flows, Sink, wait_for};

use crate::network::{LANES, Line, SERVER, at, overheard, ports};

#[test]
fn packets_with_ipv4_options() {
    for lane in LANES {
        let net = Line::new("options", lane);
        // Record route: each router on the way writes the address that it sends from.
        let said = net.customer.run("ping -n -R -c 20 -i 0.02 -W 1 10.2.0.2").unwrap();
        assert!(said.contains("20 received") && said.contains("10.2.0.1"), "{lane}: {said}");
    }
}

#[test]
fn packets_with_ipv4_options_of_translated_flows() {
    // Linux has no such translation, and would let its packets pass as they are.
    let rule = "[flow]\nmemory = 8\n[[nat.rule]]\nname = \"blocks\"\ntype = \"deterministic\"\nout = \"right\"\n\
                inside = \"10.1.0.0/24\"\npool = \"198.51.100.0/28\"\nblock = 1024\nfallback = \"open\"\n";
    let net = Line::stopped("options", &(ports("worker", &["left", "right"]) + rule)).started();
    if !net.router.is_bifrost() {
        return;
    }
    let seen = overheard(&net.server, "src host 10.1.0.2 or dst port 9999");
    let said = net.customer.run("ping -n -R -c 20 -i 0.02 -W 1 10.2.0.2").unwrap();
    assert!(said.contains("20 received"), "{said}\n{}", net.router.ask("show drops").unwrap());
    // Too large for the way, to be fragmented; and to a neighbour that is not known.
    let router = net.router.host();
    router.run("ip link set right mtu 1300").unwrap();
    net.server.run("ip link set eth0 mtu 1300").unwrap();
    let said = net.customer.run("ping -n -R -M dont -s 1350 -c 5 -i 0.02 -W 1 10.2.0.2").unwrap();
    assert!(said.contains("5 received"), "{said}\n{}", net.router.ask("show drops").unwrap());
    let said = net.customer.run("ping -n -R -M do -s 1350 -c 1 -W 1 10.2.0.2 || true").unwrap();
    assert!(said.contains("mtu = 1300"), "{said}");
    router.run("ip neighbour flush dev right").unwrap();
    net.customer.run("ping -n -R -c 1 -W 3 10.2.0.2 >/dev/null").unwrap();
    // Linux would not send on what says its own way: to a neighbour that is known, and to one that
    // is not.
    let gateway = router.mac("left").unwrap();
    for (port, element) in [(53, "options4"), (54, "looked4")] {
        net.customer
            .scapy(&format!(
                "for option in [IPOption_LSRR(routers=['10.2.0.2']), IPOption_SSRR(routers=['10.2.0.2']), IPOption(b'\\x94\\x01\\x00\\x00')]:
    sendp(Ether(dst='{gateway}') / IP(src='10.1.0.2', dst='10.2.0.2', options=[option]) / UDP(sport={port}, dport=9999), iface='eth0', verbose=False)"
            ))
            .unwrap();
        wait_for("them to be dropped", Duration::from_secs(5), || {
            match net.router.subject("drops").unwrap() {
                drops
                    if drops.as_array().is_some_and(|all| {
                        all.iter().any(|drop| {
                            drop["reason"] == "untranslatable"
                                && drop["element"] == element
                                && drop["packets"].as_u64() == Some(3)
                        })
                    }) =>
                {
                    Ok(())
                }
                drops => Err(drops.to_string()),
            }
        })
        .unwrap();
        router.run("ip neighbour flush dev right").unwrap();
    }
    assert!(!seen.output().contains("IP "), "{}", seen.output());
}

#[test]
fn ipv6_with_a_hop_by_hop_header() {
    for lane in LANES {
        let net = Line::new("options", lane);
        let headers = "IPv6(src='2001:db8:1::2', dst='2001:db8:2::2') / IPv6ExtHdrHopByHop()";
        assert!(net.is_answered(headers, 6), "{lane}");
    }
}

#[test]
fn ipv6_with_a_hop_by_hop_header_of_translated_flows() {
    // Linux translates none of them itself: what it got unseen left with the inside's prefix.
    let rule = "[flow]\nmemory = 8\n[[nat.rule]]\nname = \"ours\"\ntype = \"nptv6\"\nout = \"right\"\n\
                inside = \"2001:db8:1::/64\"\noutside = \"2001:db8:ff01::/64\"\nfallback = \"open\"\n";
    let net = Line::stopped("hopbyhop", &(ports("worker", &["left", "right"]) + rule)).started();
    if !net.router.is_bifrost() {
        return;
    }
    let seen = overheard(&net.server, "ip6 src host 2001:db8:1::2 or ip6[6] == 0");
    let router = net.router.host();
    let answered = |header: &str, id: u16| {
        net.is_answered(&format!("IPv6(src='2001:db8:1::2', dst='2001:db8:2::2') / {header}"), id)
    };
    let drops = || net.router.ask("show drops").unwrap();
    assert!(answered("IPv6ExtHdrHopByHop(options=[RouterAlert()])", 7), "{}", drops());
    router.run("ip neighbour flush dev right").unwrap();
    assert!(answered("IPv6ExtHdrHopByHop()", 8), "{}", drops());
    // Who does not know these is to drop the packet, and Linux is not asked.
    assert!(!answered("IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x9e, optdata=b'1234')])", 9));
    assert!(drops().contains("untranslatable"), "{}", drops());
    let output = seen.output();
    assert!(!output.contains("2001:db8:1::2 >"), "{output}");
    assert!(output.contains("2001:db8:ff01:"), "{output}");
}

#[test]
fn what_leaves_by_an_interface_that_is_not_ours() {
    for lane in LANES {
        let net = Line::stopped("foreign", &ports(lane, &["left"])).started();
        for address in SERVER {
            let sink = Sink::start(&net.server, 9000).unwrap();
            let flows = Flows::start(&net.customer, vec![at(address, 9000)], 20, 64, 2000).unwrap();
            sink.has_received(2000, Duration::from_secs(5)).unwrap();
            let sent = flows.stop();
            sink.has_received(sent, Duration::from_secs(2))
                .unwrap_or_else(|e| panic!("{lane}: {e} of {sent}"));
        }
        // And back, where what arrives by a foreign interface leaves by one of ours.
        let sink = Sink::start(&net.customer, 9000).unwrap();
        let flows = Flows::start(&net.server, vec![at("10.1.0.2", 9000)], 20, 64, 2000).unwrap();
        sink.has_received(2000, Duration::from_secs(5)).unwrap();
        let sent = flows.stop();
        sink.has_received(sent, Duration::from_secs(2)).unwrap();
    }
}
