//! Packets that only Linux can complete reach it whole, and nothing of them is lost.
//! (The network of `network.rs`.)

use std::time::Duration;

use lab::{Flows, Sink};

use crate::network::{LANES, Line, SERVER, at, ports};

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
fn ipv6_with_a_hop_by_hop_header() {
    for lane in LANES {
        let net = Line::new("options", lane);
        let gateway = net.router.host().mac("left").unwrap();
        let said = net
            .customer
            .scapy(&format!(
                "packet = IPv6(src='2001:db8:1::2', dst='2001:db8:2::2') / IPv6ExtHdrHopByHop() / ICMPv6EchoRequest(seq=9)
answers = AsyncSniffer(iface='eth0', lfilter=lambda p: ICMPv6EchoReply in p and p[ICMPv6EchoReply].seq == 9, count=1, timeout=5)
answers.start()
for _ in range(50):
    if not answers.running: break
    sendp(Ether(dst='{gateway}') / packet, iface='eth0', verbose=False)
    time.sleep(0.05)
answers.join()
print(len(answers.results))"
            ))
            .unwrap();
        assert_eq!(said.trim(), "1", "{lane}");
    }
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
