//! Advertisements that did not come from the link, are broken, or speak of other addresses change
//! nothing, and are counted. (The network of `redundant.rs`.)

use std::time::Duration;

use lab::{Router, wait_for};

use crate::redundant::{Pair, becomes, config, status};

#[test]
fn whatever_it_says() {
    let net = Pair::new("vr-lies");
    let one = Router::start(&net.one, &config("priority = 100\ninterval = \"10ms\"")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    becomes(&one, "left", "active");
    // The best priority but an owner's, and a higher address.
    let lie = |ttl: u8, change: &str| {
        let script = format!(
            "body = bytearray([0x31, 10, 254, 1, 0, 1, 0, 0, 10, 1, 0, 1])
{change}
def total(body):
    return checksum(bytes([10, 1, 0, 9, 224, 0, 0, 18, 0, 112, 0, len(body)]) + bytes(body))
if body[6:8] == b'\\0\\0': body[6:8] = total(body).to_bytes(2, 'big')
frame = Ether(dst='01:00:5e:00:00:12') / IP(src='10.1.0.9', dst='224.0.0.18', ttl={ttl}, proto=112) / Raw(bytes(body))
sendp([frame] * 20, iface='eth0', verbose=False)"
        );
        net.customer.scapy(&script).unwrap();
    };
    for (reason, ttl, change) in [
        ("ttl", 254, ""),
        ("checksum", 255, "body[6:8] = b'\\x12\\x34'"),
        ("addresses", 255, "body[11] = 7"),
        ("version", 255, "body[0] = 0x41"),
        ("length", 255, "body[3] = 2"),
        ("zero", 255, "body[5] = 0"),
    ] {
        lie(ttl, change);
        let counted = || match status(&one, "left")["refused"][reason].as_u64() {
            Some(20) => Ok(()),
            other => Err(format!("{reason}: {other:?}\n{}", one.log())),
        };
        wait_for("all to be counted", Duration::from_secs(5), counted).unwrap();
        let now = status(&one, "left");
        assert_eq!((now["state"].as_str(), now["changes"].as_u64()), (Some("active"), Some(2)), "{reason}");
    }
    // The truth is believed.
    lie(255, "");
    let changed = || match status(&one, "left")["changes"].as_u64() {
        Some(4..) => Ok(()),
        other => Err(format!("{other:?}\n{}", one.log())),
    };
    wait_for("it to yield, and to come back", Duration::from_secs(5), changed).unwrap();
    becomes(&one, "left", "active");
}
