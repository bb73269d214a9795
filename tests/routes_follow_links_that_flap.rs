//! Links lose their carrier, or are switched off, again and again under FRR; at every moment the
//! plane has the routes that Linux has. What Linux deletes without a word (next-hop objects, and
//! the IPv4 routes that use them) is no exception, and the audit finds nothing to repair.
//!
//! ```text
//!                              .2 a
//!   router (FRR: staticd) ------- b    prefixes by a, by a and b, by b or else c
//!                         ------- c
//! ```
//!
//! `FLAP_SECONDS=600` flaps for ten minutes.

use std::time::{Duration, Instant};

use lab::{Frr, Host, Lab, Router, Routes, compare, prefixes::Random, wait_for};

use crate::network::{LANES, ports, turn};

/// Prefixes of each kind and family.
const PREFIXES: u32 = 30;
/// A difference that lasts longer is a fault. It takes some 50 ms; the rest is for a machine with
/// much else to do.
const BOUND: Duration = Duration::from_secs(1);

#[test]
fn without_the_audit() {
    let _turn = turn();
    let seconds = std::env::var("FLAP_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let lab = Lab::new("carrier").unwrap();
    let host = lab.router("router").unwrap();
    // FRR expects IPv6 addresses to outlive a link that goes down.
    host.sysctl(&[("net.ipv6.conf.all.keep_addr_on_down", "1")]).unwrap();
    let neighbours = ["a", "b", "c"].map(|name| lab.host(name).unwrap());
    for (n, neighbour) in (1..).zip(&neighbours) {
        let (four, six) = (format!("10.{n}.0"), format!("2001:db8:{n}:"));
        lab.link(
            host.end(neighbour.name()).address(&format!("{four}.1/24")).address(&format!("{six}:1/64")),
            neighbour.end("eth0").address(&format!("{four}.2/24")).address(&format!("{six}:2/64")),
        )
        .unwrap();
    }
    let config = format!("{}[audit]\ninterval = \"1s\"\n", ports(LANES[0], &["a", "b", "c"]));
    let router = Router::start(&host, &config).unwrap();
    if !router.is_bifrost() {
        return;
    }
    let _frr = Frr::start(&host, &["staticd"], &statics(), false).unwrap();
    wait_for("FRR to make next-hop objects and routes", Duration::from_secs(10), || {
        let counted = host.run("ip route | grep -c nhid || true; ip nexthop | wc -l").unwrap();
        let counts: Vec<u32> = counted.lines().map(|line| line.trim().parse().unwrap()).collect();
        if counts[0] >= 3 * PREFIXES && counts[1] > 3 { Ok(()) } else { Err(counted) }
    })
    .unwrap();
    router.equals_linux(Duration::from_secs(5)).unwrap();

    let mut watch = Watch::default();
    let mut random = Random(20);
    let mut next = Instant::now();
    let (start, mut flaps) = (Instant::now(), 0);
    let mut dark = [false; 3];
    while start.elapsed() < Duration::from_secs(seconds) {
        if Instant::now() >= next {
            let which = random.below(3);
            dark[which] = !dark[which];
            flap(&host, &neighbours[which], dark[which], random.chance(50));
            flaps += 1;
            next = Instant::now() + Duration::from_millis(30 + random.below(400) as u64);
        }
        watch.look(&router);
    }
    println!(
        "{flaps} flaps, {} looks; the plane had Linux's routes within {:?}, of which {:?} are certain",
        watch.looks, watch.within, watch.worst
    );
    assert!(watch.worst < BOUND, "for {:?}: {}\n{}", watch.worst, watch.what, router.log());

    neighbours.iter().for_each(|neighbour| flap(&host, neighbour, false, true));
    let passes = audit(&router, "passes");
    wait_for("two audits", Duration::from_secs(20), || match audit(&router, "passes") {
        now if now >= passes + 2 => Ok(()),
        now => Err(format!("{} passes", now - passes)),
    })
    .unwrap();
    assert_eq!(audit(&router, "differences"), 0, "the audit found something: {}", router.log());
    router.equals_linux(Duration::from_secs(5)).unwrap();
}

/// FRR's configuration: routes of both families.
fn statics() -> String {
    let mut lines = String::new();
    for n in 0..PREFIXES {
        for (kind, ways) in [vec![(1, 1)], vec![(1, 1), (2, 1)], vec![(2, 1), (3, 200)]].iter().enumerate() {
            for (neighbour, distance) in ways {
                lines += &format!(
                    "ip route 198.18.{}.0/24 10.{neighbour}.0.2 {distance}\n",
                    kind * 64 + n as usize
                );
                lines +=
                    &format!("ipv6 route 2001:db8:f{kind}{n:02}::/48 2001:db8:{neighbour}::2 {distance}\n");
            }
        }
    }
    lines
}

/// A link goes dark (its carrier is lost, or it is switched off), or comes back.
fn flap(host: &Host, neighbour: &Host, dark: bool, by_carrier: bool) {
    match (dark, by_carrier) {
        (true, true) => neighbour.run("ip link set eth0 down").unwrap(),
        (true, false) => host.run(&format!("ip link set dev {} down", neighbour.name())).unwrap(),
        (false, _) => {
            neighbour.run("ip link set eth0 up").unwrap();
            host.run(&format!("ip link set dev {} up", neighbour.name())).unwrap()
        }
    };
}

fn audit(router: &Router, what: &str) -> u64 {
    router.subject("mirror").unwrap()["audit"][what].as_u64().unwrap()
}

/// How long the plane's routes were others than Linux's.
#[derive(Default)]
struct Watch {
    linux: Routes,
    /// Since when Linux is known to have these routes, and until when it had others.
    since: Option<Instant>,
    others: Option<Instant>,
    followed: bool,
    looks: u32,
    /// At least so long they differed, and at most.
    worst: Duration,
    within: Duration,
    what: String,
}

impl Watch {
    /// One look at both. Linux's routes are read again after the plane's: when they did not change
    /// between, then the plane was asked at a moment at which they were these, and at least as long
    /// as they have been seen to be.
    fn look(&mut self, router: &Router) {
        let asked = Instant::now();
        let plane = router.routes().unwrap();
        let answered = Instant::now();
        let linux = router.linux_routes().unwrap();
        self.looks += 1;
        if linux != self.linux {
            (self.linux, self.followed) = (linux, false);
            self.since = Some(Instant::now());
            return;
        }
        let Some(since) = self.since else { return };
        match compare(&plane, &self.linux) {
            Ok(()) if self.followed => self.others = Some(asked),
            Ok(()) => {
                self.within = self.within.max(self.others.map_or(Duration::ZERO, |others| answered - others));
                (self.followed, self.others) = (true, Some(asked));
            }
            Err(what) if asked - since >= self.worst => (self.worst, self.what) = (asked - since, what),
            Err(_) => {}
        }
    }
}
