//! TCP at full speed arrives byte for byte: a gigabyte in each family, through each lane.
//! (The network of `network.rs`.)

use crate::network::{LANES, Line, SERVER};

#[test]
fn in_each_lane() {
    for lane in LANES {
        let net = Line::new("tcp", lane);
        for address in SERVER {
            let sent = lab::transfer(&net.customer, &net.server, address.parse().unwrap(), 1 << 30).unwrap();
            assert_eq!(sent.sent, sent.arrived, "{lane}, {address}");
            println!(
                "{lane}, to {address}: {:.2} Gb/s",
                sent.bytes as f64 * 8.0 / sent.time.as_secs_f64() / 1e9
            );
        }
    }
}
