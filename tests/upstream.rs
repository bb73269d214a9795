//! The network of the BGP tests: a customer, a router with FRR's bgpd, and an ISP with BIRD.

use std::time::Duration;

use ipnet::IpNet;
use lab::{Bird, Frr, Host, Lab, Router, Speaker, wait_for};

use crate::network::{Turn, ports, turn};

/// See the picture in `bgp_learnt_routes_forward`. Fields go in the order they are dropped.
pub struct Upstream {
    pub router: Router,
    _frr: Frr,
    pub bird: Bird,
    pub customer: Host,
    pub isp: Host,
    _lab: Lab,
    _turn: Turn,
}

const BGP: &str = "
router bgp 65000
 bgp router-id 10.9.0.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 10.9.0.2 remote-as 65001
 neighbor 2001:db8:9::2 remote-as 65001
 address-family ipv4 unicast
  neighbor 10.9.0.2 activate
  network 10.1.0.0/24
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:9::2 activate
  network 2001:db8:1::/64
 exit-address-family
";

impl Upstream {
    /// Everything started, sessions up, and the customer's networks known at the ISP. `more` is
    /// added to router.toml; FRR feeds the plane by FPM too when that has an `[fpm]`.
    pub fn new(name: &str, lane: &str, groups: &[(&str, Vec<IpNet>)], more: &str) -> Upstream {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let (customer, host, isp) =
            (lab.host("customer").unwrap(), lab.router("router").unwrap(), lab.router("isp").unwrap());
        lab.link(
            customer.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )
        .unwrap();
        lab.link(
            host.end("right").address("10.9.0.1/24").address("2001:db8:9::1/64"),
            isp.end("eth0").address("10.9.0.2/24").address("2001:db8:9::2/64"),
        )
        .unwrap();
        customer.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1").unwrap();

        let router = Router::start(&host, &format!("{}{more}", ports(lane, &["left", "right"]))).unwrap();
        let frr = Frr::start(&host, &["bgpd", "staticd"], BGP, more.contains("[fpm]")).unwrap();
        let neighbours = [("10.9.0.1".parse().unwrap(), 65000), ("2001:db8:9::1".parse().unwrap(), 65000)];
        let speaker = Speaker { asn: 65001, router_id: "10.9.0.2", neighbours: &neighbours, groups };
        let bird = Bird::start(&isp, &speaker).unwrap();
        bird.established(Duration::from_secs(15)).unwrap();
        wait_for("the ISP to know the customer", Duration::from_secs(10), || {
            let known = isp.run("ip route show 10.1.0.0/24; ip -6 route show 2001:db8:1::/64").unwrap();
            if known.lines().count() == 2 { Ok(()) } else { Err(known) }
        })
        .unwrap();
        Upstream { router, _frr: frr, bird, customer, isp, _lab: lab, _turn: turn }
    }

    /// Waits until the router's Linux has `count` routes from BGP.
    pub fn learnt(&self, count: usize, limit: Duration) {
        wait_for(&format!("{count} routes from BGP"), limit, || match self.learnt_now() {
            n if n == count => Ok(()),
            n => Err(format!("{n} are there")),
        })
        .unwrap();
    }

    /// How many routes from BGP the router's Linux has.
    pub fn learnt_now(&self) -> usize {
        let counted = "ip route show proto bgp | wc -l; ip -6 route show proto bgp | wc -l";
        let counts = self.router.host().run(counted).unwrap();
        counts.split_whitespace().map(|n| n.parse::<usize>().unwrap()).sum()
    }

    /// Gives the ISP an address, of a host that it would reach.
    pub fn isp_is(&self, address: &str) {
        let rest = if address.contains(':') { "/128 dev lo nodad" } else { "/32 dev lo" };
        self.isp.run(&format!("ip address add {address}{rest}")).unwrap();
    }
}
