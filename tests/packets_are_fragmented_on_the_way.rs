//! An IPv4 packet too big for the next link, with DF clear, is cut to pieces that fit and arrives
//! whole. (The network of `network.rs`, whose link to the server carries 1300 bytes.)

use std::time::Duration;

use lab::{Capture, Flows, Sink};

use crate::network::{LANES, Line, at, ports};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::made("cut", &ports(lane, &["left", "right"]), 1300, 1).started();
        net.customer.sysctl(&[("net.ipv4.ip_no_pmtu_disc", "1")]).unwrap();
        let mut capture = Capture::start(&net.server, "eth0", "udp or ip[6:2] & 0x1fff != 0").unwrap();
        let sink = Sink::start(&net.server, 9000).unwrap();
        let flows = Flows::start(&net.customer, vec![at("10.2.0.2", 9000)], 8, 1472, 1000).unwrap();
        sink.has_received(500, Duration::from_secs(5)).unwrap();
        let sent = flows.stop();
        // UDP's checksum covers what the server put together again.
        sink.has_received(sent, Duration::from_secs(2)).unwrap();

        let packets = capture.decode().unwrap();
        let lengths: Vec<u64> = (packets.iter())
            .map(|p| p["_source"]["layers"]["ip"]["ip.len"].as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(lengths.len() as u64, 2 * sent, "{lane}: two pieces each");
        assert!(lengths.iter().all(|length| *length <= 1300), "{lane}: {:?}", lengths.iter().max());
    }
}
