//! The network of the demo.
//!
//! ```text
//!   customer ------------- router -------------- isp --------------- server
//!        .2  10.1.0.0/24   .1  .1  10.9.0.0/24   .2 .1 198.18.0.0/24 .10
//!       ::2  2001:db8:1::  ::1 ::1 2001:db8:9::  ::2   2001:db8:77:: ::10
//!      eth0             left   right          uplink   lan          eth0
//!              FRR bgpd and Bifrost, AS 65000    BIRD, AS 65001
//! ```
//!
//! The ISP announces the server's networks and a table like the Internet's. What is sent to other
//! addresses in that table ends at the ISP, which has nowhere to send it.

use std::time::{Duration, Instant};

use ipnet::{IpNet, Ipv4Net};
use lab::{Bird, Frr, Host, Lab, Result, Router, Speaker, prefixes, wait_for};

/// IPv4 and IPv6 prefixes that the ISP announces.
pub const ANNOUNCED: (usize, usize) = (200_000, 50_000);
/// The server's address in each family.
pub const SERVER: [&str; 2] = ["198.18.0.10", "2001:db8:77::10"];

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

/// The hosts, with everything running but the plane. Fields go in the order they are dropped.
pub struct Stage {
    pub router: Router,
    pub frr: Frr,
    _bird: Bird,
    pub customer: Host,
    pub isp: Host,
    pub server: Host,
    /// The IPv4 prefixes announced.
    pub prefixes: Vec<Ipv4Net>,
    _lab: Lab,
}

impl Stage {
    /// Builds the network and starts the routing daemons.
    pub fn new() -> Result<Stage> {
        let lab = Lab::new("demo")?;
        let (customer, server) = (lab.host("customer")?, lab.host("server")?);
        let (host, isp) = (lab.router("router")?, lab.router("isp")?);
        lab.link(
            customer.end("eth0").address("10.1.0.2/24").address("2001:db8:1::2/64"),
            host.end("left").address("10.1.0.1/24").address("2001:db8:1::1/64"),
        )?;
        lab.link(
            host.end("right").address("10.9.0.1/24").address("2001:db8:9::1/64"),
            isp.end("uplink").address("10.9.0.2/24").address("2001:db8:9::2/64"),
        )?;
        lab.link(
            isp.end("lan").address("198.18.0.1/24").address("2001:db8:77::1/64"),
            server.end("eth0").address("198.18.0.10/24").address("2001:db8:77::10/64"),
        )?;
        customer.run("ip route add default via 10.1.0.1; ip -6 route add default via 2001:db8:1::1")?;
        server.run("ip route add default via 198.18.0.1; ip -6 route add default via 2001:db8:77::1")?;
        isp.run("ip route add blackhole default; ip -6 route add blackhole default")?;

        let last = std::thread::available_parallelism().map_or(1, |n| n.get()) - 1;
        let router = Router::stopped(
            &host,
            &format!(
                "[[port]]\nname = \"left\"\n[[port]]\nname = \"right\"\n[workers]\ncores = [{last}]\n\
                 [audit]\ninterval = \"2s\"\n"
            ),
        )?;
        let frr = Frr::start(&host, &["bgpd"], BGP, false)?;
        let v4 = prefixes::ipv4(ANNOUNCED.0 - 1, &mut prefixes::Random(20261121));
        let v6 = prefixes::ipv6(ANNOUNCED.1 - 1, &mut prefixes::Random(20261121));
        // Invariant: both are written correctly.
        let own: [IpNet; 2] = ["198.18.0.0/24", "2001:db8:77::/48"].map(|p| p.parse().expect("a prefix"));
        let groups = [
            ("internet4", v4.iter().map(|p| (*p).into()).chain([own[0]]).collect()),
            ("internet6", v6.iter().map(|p| (*p).into()).chain([own[1]]).collect()),
        ];
        let neighbours = [([10, 9, 0, 1].into(), 65000), ([0x2001, 0xdb8, 9, 0, 0, 0, 0, 1].into(), 65000)];
        let speaker = Speaker { asn: 65001, router_id: "10.9.0.2", neighbours: &neighbours, groups: &groups };
        let bird = Bird::start(&isp, &speaker)?;
        Ok(Stage { router, frr, _bird: bird, customer, isp, server, prefixes: v4, _lab: lab })
    }

    /// Waits until the router's Linux has learnt every prefix; how long that took.
    pub fn learn(&self) -> Result<Duration> {
        let start = Instant::now();
        let wanted = format!("{} {}", ANNOUNCED.0, ANNOUNCED.1);
        wait_for("the ISP's routes", Duration::from_secs(90), || {
            let counted = "echo $(ip route show proto bgp | wc -l) $(ip -6 route show proto bgp | wc -l)";
            let counts = self.router.host().run(counted).map_err(|e| e.to_string())?;
            std::thread::sleep(Duration::from_millis(100));
            if counts.trim() == wanted {
                Ok(())
            } else {
                Err(format!("{} of {wanted} are there", counts.trim()))
            }
        })?;
        let took = start.elapsed();
        for address in SERVER {
            self.customer.reaches(address, Duration::from_secs(10))?;
        }
        Ok(took)
    }

    /// Starts Bifrost and waits until its tables follow Linux's; how long that took.
    pub fn start_bifrost(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.router.restart()?;
        wait_for("Bifrost to take over the routes", Duration::from_secs(30), || {
            let mirror = self.router.show("mirror").map_err(|e| e.to_string())?;
            if mirror["synced"] == true { Ok(()) } else { Err(mirror.to_string()) }
        })?;
        Ok(start.elapsed())
    }
}
