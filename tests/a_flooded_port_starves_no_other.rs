//! A flood that comes in by one port leaves the packets of another alone.
//!
//! ```text
//!   flooder --- 10.3.0.0/24 --- router --- 10.4.0.0/24 --- drain
//!  customer --- 10.1.0.0/24 ---   ''   --- 10.2.0.0/24 --- server
//! ```

use std::time::Duration;

use lab::{Flows, Lab, Ping, Router, Sink};

use crate::network::{LANES, at, ports, turn};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let _turn = turn();
        let lab = Lab::new("flood").unwrap();
        let host = lab.router("router").unwrap();
        let ends = [("customer", 1), ("server", 2), ("flooder", 3), ("drain", 4)].map(|(name, n)| {
            let end = lab.host(name).unwrap();
            lab.link(
                host.end(name).address(&format!("10.{n}.0.1/24")),
                end.end("eth0").address(&format!("10.{n}.0.2/24")),
            )
            .unwrap();
            end.run(&format!("ip route add default via 10.{n}.0.1")).unwrap();
            end
        });
        let [customer, server, flooder, drain] = &ends;
        let _router =
            Router::start(&host, &ports(lane, &["customer", "server", "flooder", "drain"])).unwrap();
        customer.reaches("10.2.0.2", Duration::from_secs(5)).unwrap();
        flooder.reaches("10.4.0.2", Duration::from_secs(5)).unwrap();

        let sink = Sink::start(server, 9000).unwrap();
        let _drain = Sink::start(drain, 9000).unwrap();
        let before = drain.interface_number("eth0", "statistics/rx_packets").unwrap();
        let flood = Flows::start(flooder, vec![at("10.4.0.2", 9000)], 16, 64, 2_000_000).unwrap();
        let ping = Ping::start(customer, "10.2.0.2", Duration::from_millis(10)).unwrap();
        let flows = Flows::start(customer, vec![at("10.2.0.2", 9000)], 4, 64, 2000).unwrap();
        sink.has_received(6000, Duration::from_secs(20)).unwrap();
        let sent = flows.stop();
        let ping = ping.stop();
        let flooded = flood.stop();
        std::thread::sleep(Duration::from_millis(200));
        let lost = sent - sink.received();
        let drained = drain.interface_number("eth0", "statistics/rx_packets").unwrap() - before;
        println!("{lane}: flood of {flooded}, {drained} drained; {lost} of {sent} lost; {ping:?}");
        assert!(flooded > 20 * sent, "that was no flood: {flooded} packets beside {sent}");
        assert!(lost * 100 <= sent, "{lane}: {lost} of {sent} were lost beside a flood of {flooded}");
        assert!(ping.lost() * 50 <= ping.sent, "{lane}: {ping:?}");
    }
}
