//! The same rig, where packets are judged: established flows through a stateful list, and through
//! 600 rules of which the last one matches. Linux has the same rules as nftables (as `rules`
//! renders them) with its connection tracking; Bifrost is a whole plane, whose worker sees the
//! first packets of each flow and whose driver forwards the rest.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fib::{Adjacency, Capacity, NextHop, NextHopId, Path, PortId, Tables};
use ipnet::IpNet;
use lab::prefixes::Random;
use plane::{Bridging, Hooks, Interface, Plane, PlaneSettings, PolicySettings, PortSettings};
use port::traffic::{Sink, Source};
use port::{Driver, HugePages, Lane};
use rules::Filter;

use super::{Case, GATEWAYS, Outcome, ROUTER_MAC, Rig, SINK_MAC, SOURCE_MAC, index, table};

/// Rules of the long list.
const RULES: usize = 600;
/// Packets sent at once while flows begin: as many as a veth's queue holds, for who takes them out
/// may have to be woken up first. And a worker that gets copies is not fast.
const HANDFUL: u32 = 256;
/// How long the flows of a run may take to be known.
const PATIENCE: Duration = Duration::from_secs(60);

/// What packets are judged by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// Established flows pass, new ones from the inside begin.
    Stateful,
    /// An access list; the last rule matches.
    Long,
}

impl List {
    fn filter(self) -> Outcome<Filter> {
        let text = match self {
            List::Stateful => {
                "chain forward policy drop\ndrop state invalid\naccept state established,related\n\
                               accept in dvr0\n"
                    .to_owned()
            }
            List::Long => long(),
        };
        Ok(Filter::read("bench", &text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))?)
    }
}

/// Rules about other hosts and services, and then one for everything.
fn long() -> String {
    let mut random = Random(600);
    let mut below = |most: u64| random.next() % most;
    let mut text = String::from("chain forward policy drop\n");
    for _ in 1..RULES {
        let action = if below(5) < 3 { "accept" } else { "drop" };
        let protocol = if below(4) < 3 { "tcp" } else { "udp" };
        let from = format!("172.{}.{}.0/24", 16 + below(16), below(256));
        let to = format!("192.168.{}.{}", below(256), below(256));
        text += &format!("{action} {protocol} from {from} to {to} port {}\n", 1 + below(1024));
    }
    text + "accept\n"
}

/// Rates of Bifrost and of Linux.
pub(super) fn measure(list: List, case: &Case) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let rig = Rig::new()?;
    let (routes, destinations) = table(case, &mut Random(20_261_121));
    rig.route_by_linux(case, &routes)?;
    let inside: IpAddr = Ipv4Addr::new(10, 0, 0, 2).into();
    let mac = SOURCE_MAC.map(|byte| format!("{byte:02x}")).join(":");
    rig.router.run(&format!("ip neigh replace {inside} lladdr {mac} nud permanent dev dvr0"))?;
    rig.source.enter()?;
    let source = Source::new(SOURCE_MAC, ROUTER_MAC[0], inside, &destinations)?;
    rig.sink.enter()?;
    let answers = Source::answers(SINK_MAC, ROUTER_MAC[1], &destinations, inside)?;
    let sink = Sink::attach(index("dvk")?)?;
    rig.pin("dvk", rig.cores[0])?;
    rig.pin("dvr0", rig.cores[1])?;
    let filter = list.filter()?;
    let ends = Ends { rig: &rig, source: &source, answers: &answers, count: destinations.len() as u32 };

    let ports = ["dvr0", "dvr1"].map(str::to_owned);
    let ruleset =
        filter.nftables(&ports, None, true).map_err(|wrong| format!("not for nftables: {wrong:?}"))?;
    nft(&rig, &ruleset)?;
    // Room for all flows, or Linux drops what it cannot track; newer kernels let a namespace have
    // no more than the machine. None ends meanwhile.
    rig.router.run(
        "cd /proc/sys/net/netfilter; echo 600 >nf_conntrack_udp_timeout_stream
         [ $(cat nf_conntrack_max) -ge 131072 ] || echo 131072 >nf_conntrack_max",
    )?;
    for _ in 0..2 {
        ends.talk()?;
    }
    let linux = rig.rates(&source, &sink)?;
    nft(&rig, "flush ruleset\n")?;

    rig.router.enter()?;
    let (mut plane, mut tables) = attach(&rig, filter, &routes)?;
    rig.pin("dvr0", rig.cores[1])?;
    let start = Instant::now();
    while ends.offloaded(&plane)? < 0.999 {
        if start.elapsed() > PATIENCE {
            return Err("flows are not offloaded".into());
        }
        ends.talk()?;
    }
    let before = plane.driver_counters(&plane.ports()[0]);
    let bifrost = rig.rates(&source, &sink)?;
    let counted = plane.driver_counters(&plane.ports()[0]).since(&before);
    let all: u64 = counted.lanes.iter().map(|count| count.packets).sum();
    if counted.lane(Lane::Express).packets * 100 < all * 99 {
        return Err(format!("not all packets were offloaded: {:?}", counted.lanes).into());
    }
    plane.stop(&mut tables);
    Ok((bifrost, linux))
}

/// Both ends of all flows.
struct Ends<'r> {
    rig: &'r Rig,
    source: &'r Source,
    answers: &'r Source,
    count: u32,
}

impl Ends<'_> {
    /// A packet of every flow there, and back.
    fn talk(&self) -> Outcome<()> {
        for (host, device, source) in
            [(&self.rig.source, "dvs", self.source), (&self.rig.sink, "dvk", self.answers)]
        {
            host.enter()?;
            let ifindex = index(device)?;
            for _ in 0..self.count / HANDFUL {
                source.send(ifindex, HANDFUL)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(self.rig.router.enter()?)
    }

    /// Which part of the packets of the flows' first direction is offloaded now.
    fn offloaded(&self, plane: &Plane) -> Outcome<f64> {
        let before = plane.driver_counters(&plane.ports()[0]);
        self.talk()?;
        let counted = plane.driver_counters(&plane.ports()[0]).since(&before);
        let all: u64 = counted.lanes.iter().map(|count| count.packets).sum();
        Ok(counted.lane(Lane::Express).packets as f64 / all.max(1) as f64)
    }
}

fn nft(rig: &Rig, ruleset: &str) -> Outcome<()> {
    let file = rig.router.folder().join("ruleset");
    std::fs::write(&file, ruleset)?;
    rig.router.run(&format!("nft -f {}", file.display()))?;
    Ok(())
}

/// A plane on both of the router's interfaces, with the same routes. The calling thread is in the
/// router's namespace.
fn attach(rig: &Rig, filter: Filter, routes: &[(IpNet, usize)]) -> Outcome<(Plane, Tables)> {
    let capacity = Capacity::default();
    let driver = Driver::new(&capacity.sizes())?;
    let mut tables = Tables::new(capacity, Some(driver.table_memory()?))?;
    let settings = PlaneSettings {
        cores: vec![rig.cores[1]],
        frames: 8192,
        huge_pages: HugePages::Off,
        hooks: Hooks::default(),
        policy: PolicySettings { filter, offload: true, ..PolicySettings::default() },
        registry: elements::registry(),
    };
    let mut plane = Plane::start(&settings, driver, tables.view())?;
    let mut add = |port: u16, mac| -> Outcome<NextHopId> {
        let adjacency = tables.add_adjacency(&Adjacency {
            interface: PortId(port).interface(),
            mtu: 1500,
            mac: Some(mac),
        })?;
        Ok(tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }]))?)
    };
    let back = add(0, SOURCE_MAC)?;
    let hops = (0..GATEWAYS).map(|_| add(1, SINK_MAC)).collect::<Outcome<Vec<_>>>()?;
    tables.insert4("10.0.0.0/24".parse()?, back)?;
    for (net, number) in routes {
        if let IpNet::V4(net) = net {
            tables.insert4(*net, hops[*number])?;
        }
    }
    for (number, name) in ["dvr0", "dvr1"].into_iter().enumerate() {
        let id = plane.expect(name, PortSettings::default())?;
        let interface = Interface {
            name: name.to_owned(),
            ifindex: index(name)?,
            master: None,
            mac: ROUTER_MAC[number],
            mtu: 1500,
            up: true,
            forwarding4: true,
            forwarding6: true,
            rp_filter: 0,
            firewall: [None; 2],
            bridge: Bridging::No,
            priorities: fib::Priorities::default(),
            table: fib::TableId::MAIN,
            left_to_linux: [false; 2],
        };
        if !plane.take(id, interface, &mut tables) {
            return Err(format!("{name} cannot be taken").into());
        }
    }
    std::thread::sleep(Duration::from_millis(1100));
    plane.supervise(&mut tables);
    Ok((plane, tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_rules_for_both() {
        for list in [List::Stateful, List::Long] {
            let filter = list.filter().unwrap();
            assert!(filter.nftables(&["dvr0".to_owned()], None, true).unwrap().contains("at_forward"));
        }
        assert_eq!(List::Long.filter().unwrap().rules().count(), RULES);
    }
}
