//! VLANs and VRFs of Linux stand beside Bifrost's ports: what passes by them is Linux's to forward, tags and all, and the plane
//! takes none of it. What is in a VRF stays apart from the rest. (The network of `tagged.rs`.)

use lab::inside;

use super::tagged::Tagged;
use crate::network::ports;

const TAGS: [u16; 2] = [10, 20];
/// Requests in each family and VLAN.
const REQUESTS: u64 = 20;

/// All that is asked for in each VLAN is answered, and Linux forwarded it.
fn all_pass(net: &Tagged) {
    let (taken, forwarded) = (net.received(), net.router.host().linux_forwarded().unwrap());
    for address in TAGS.iter().flat_map(|tag| Tagged::on_the_right(*tag)) {
        let said = net.left.run(&format!("ping -q -c {REQUESTS} -i 0.02 -W 5 {address}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{address}: {said}");
    }
    let forwarded = net.router.host().linux_forwarded().unwrap() - forwarded;
    assert!(forwarded >= 2 * 2 * 2 * REQUESTS, "Linux forwarded {forwarded} packets");
    assert_eq!(net.received(), taken, "the plane took packets of VLANs");
}

fn carries() {
    let mut net = Tagged::stopped("tagged", &ports("auto", &["left", "right"]), &TAGS);
    net.router.restart().unwrap();
    TAGS.iter().for_each(|tag| net.reachable(*tag));
    all_pass(&net);

    // By the router's address in the other VLAN, as long as both are in one table.
    let [other, _] = Tagged::on_the_right(20);
    let by_the_other = format!("ip route add {other}/32 via 10.10.1.1 && ping -q -c 2 -W 5 {other}");
    net.left.run(&by_the_other).unwrap();
    net.left.run(&format!("ip route del {other}/32")).unwrap();

    net.into_vrf(20, "blue", 1020);
    TAGS.iter().for_each(|tag| net.reachable(*tag));
    all_pass(&net);
    assert!(net.left.run(&by_the_other).is_err(), "a VRF is reached from outside of it");
}

#[test]
fn on_6_12() {
    inside!("6.12", carries);
}

#[test]
fn on_the_newest() {
    inside!("newest", carries);
}
