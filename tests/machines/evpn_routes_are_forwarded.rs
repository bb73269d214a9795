//! Two routers tell each other by BGP of a tenant's networks and hosts (EVPN, RFC 8365, 9135 and
//! 9136, by FRR), and carry its packets in VXLAN. On the first one Bifrost forwards: prefixes by
//! the tenant's own VXLAN, in a bridge that has no other member; hosts of a subnet that both
//! routers have by another one, in the bridge that hosts are on.
//!
//! ```text
//!   near ------- tenant       router ============= peer      tenant ------- far
//!   10.1.1.2     10.1.1.1    10.0.0.1  underlay  10.0.0.2     10.1.2.1     10.1.2.2
//!   host -------- br10  VXLAN 10  lo 10.255.0.1  lo 10.255.0.2   br10 -------- guest
//!   10.10.0.2     10.10.0.1                                      10.10.0.1     10.10.0.3
//! ```

use std::time::Duration;

use lab::{Frr, Host, Lab, Router, inside, wait_for};

use crate::network::{ports, turn};

const PATIENCE: Duration = Duration::from_secs(60);
/// What packets to each of a tenant's addresses come to.
const REQUESTS: u64 = 50;

/// A router's part of the tenant's network: the VRF with its VXLAN, and the subnet of both routers.
fn tenant(host: &Host, own: u8, hosts: &str) {
    host.run(&format!(
        "ip address add 10.255.0.{own}/32 dev lo
         ip link add blue type vrf table 100; ip link set blue up
         ip link add br100 address 02:00:00:00:64:0{own} type bridge; ip link set br100 master blue; ip link set br100 up
         ip link add vx100 type vxlan id 100 local 10.255.0.{own} dstport 4789 nolearning
         ip link set vx100 master br100; bridge link set dev vx100 learning off; ip link set vx100 up
         ip link add br10 address 02:00:00:00:0a:01 type bridge; ip link set br10 master blue; ip link set br10 up
         ip address add 10.10.0.1/24 dev br10
         ip link add vx10 type vxlan id 10 local 10.255.0.{own} dstport 4789 nolearning
         ip link set vx10 master br10; bridge link set dev vx10 learning off; ip link set vx10 up
         ip link set {hosts} master br10; ip link set tenant master blue"
    ))
    .unwrap();
}

fn frr(own: u8, other: u8) -> String {
    format!(
        "vrf blue
 vni 100
exit-vrf
ip route 10.255.0.{other}/32 10.0.0.{other}
router bgp 6500{own}
 bgp router-id 10.255.0.{own}
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 10.0.0.{other} remote-as 6500{other}
 address-family l2vpn evpn
  neighbor 10.0.0.{other} activate
  advertise-all-vni
 exit-address-family
exit
router bgp 6500{own} vrf blue
 bgp router-id 10.255.0.{own}
 address-family ipv4 unicast
  redistribute connected
 exit-address-family
 address-family l2vpn evpn
  advertise ipv4 unicast
 exit-address-family
exit
"
    )
}

fn forwarded() {
    let _turn = turn();
    let lab = Lab::new("evpn").unwrap();
    let host = |name| lab.host(name).unwrap();
    let (router, peer) = (lab.router("router").unwrap(), lab.router("peer").unwrap());
    let [near, other, far, guest] = ["near", "host", "far", "guest"].map(host);
    lab.link(router.end("core").address("10.0.0.1/24"), peer.end("core").address("10.0.0.2/24")).unwrap();
    for (of, tenant_host, bridged, n) in [(&router, &near, &other, 1), (&peer, &far, &guest, 2)] {
        lab.link(
            of.end("tenant").address(&format!("10.1.{n}.1/24")),
            tenant_host.end("eth0").address(&format!("10.1.{n}.2/24")),
        )
        .unwrap();
        let last = n + 1;
        lab.link(of.end("hosts"), bridged.end("eth0").address(&format!("10.10.0.{last}/24"))).unwrap();
        tenant_host.run(&format!("ip route add default via 10.1.{n}.1")).unwrap();
        bridged.run("ip route add default via 10.10.0.1").unwrap();
        tenant(of, n, "hosts");
        of.run(&format!("ip address replace 10.1.{n}.1/24 dev tenant")).unwrap();
    }
    let _ours = Frr::start(&router, &["bgpd", "staticd"], &frr(1, 2), false).unwrap();
    let _theirs = Frr::start(&peer, &["bgpd", "staticd"], &frr(2, 1), false).unwrap();
    let mut plane = Router::stopped(&router, &ports("express", &["core", "tenant", "hosts"])).unwrap();
    plane.restart().unwrap();
    let state = || {
        let linux = "ip route show vrf blue; bridge fdb show | grep vx; ip neigh show";
        format!("{}\n{}\n{}", router.run(linux).unwrap(), plane.ask("show interfaces").unwrap(), plane.log())
    };
    let goes = |from: &Host, to: &str| {
        from.reaches(to, PATIENCE).unwrap_or_else(|e| panic!("{} to {to}: {e}\n{}", from.name(), state()));
    };
    let is_adopted = |name: &str| {
        wait_for("an interface is adopted", PATIENCE, || {
            let shown = plane.subject("interfaces").unwrap();
            let mut all = shown.as_array().unwrap().iter();
            match all.find(|shown| shown["name"] == name) {
                Some(shown) if shown["adopted"] == true => Ok(()),
                shown => Err(format!("{shown:?}\n{}", state())),
            }
        })
        .unwrap();
    };
    let by_workers = |from: &Host, to: &str| {
        goes(from, to);
        let before = router.linux_forwarded().unwrap();
        let said = from.run(&format!("ping -q -c {REQUESTS} -i 0.02 -W 5 {to}")).unwrap();
        assert!(said.contains(" 0% packet loss"), "{} to {to}: {said}", from.name());
        let by_linux = router.linux_forwarded().unwrap() - before;
        let name = from.name();
        assert!(by_linux < REQUESTS / 4, "{name} to {to}: {by_linux} of {REQUESTS} by Linux\n{}", state());
    };
    // A prefix of the other router's, by the tenant's own VXLAN (type 5).
    goes(&near, "10.1.2.2");
    is_adopted("br100");
    by_workers(&near, "10.1.2.2");
    by_workers(&other, "10.1.2.2");
    // A host of a subnet that both have, by that subnet's VXLAN (type 2).
    goes(&guest, "10.10.0.1");
    goes(&near, "10.10.0.3");
    is_adopted("br10");
    by_workers(&near, "10.10.0.3");
    // What is bridged is Linux's.
    goes(&other, "10.10.0.3");

    // The other router goes: its routes are withdrawn, and come back.
    peer.run("ip link set core down").unwrap();
    wait_for("the tenant's route is gone", PATIENCE, || {
        match router.run("ip route show vrf blue").unwrap() {
            routes if !routes.contains("10.1.2.0/24") => Ok(()),
            routes => Err(routes),
        }
    })
    .unwrap();
    peer.run("ip link set core up").unwrap();
    by_workers(&near, "10.1.2.2");
}

#[test]
fn on_6_12() {
    inside!("6.12", forwarded);
}
