//! Forwarding in the driver against Linux's own, on one rig, in one run.
//!
//! ```text
//!  source            router                sink
//!  dvs ------------- dvr0   dvr1 --------- dvk
//!  core A: makes     core B: forwards      core A: counts and drops
//! ```
//!
//! Three network namespaces joined by veth. The load is made by XDP live frames: 64-byte packets to
//! 65,536 destinations inside the table, in random order. The router's input polls in a kernel
//! thread of its own on core B (threaded NAPI), the source and the sink share core A. Linux has the
//! same routes and the same neighbours, no firewall, and is measured first; then the program is
//! attached to the router's two interfaces and nothing else changes. The figure is the ratio; both
//! rates are rows of their own.
//!
//! Where packets are judged as well ([`judged`]), both sides have the same rules. Frames of a VLAN
//! ([`tagged`]) are held against those without.

mod judged;
mod tagged;

use crate::ruler::{Ruler, run_on};
use fib::{
    Adjacency, Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, NextHop, NextHopId, Path, PortId,
    Tables, Tag, Tags,
};
use ipnet::IpNet;
use judged::List;
use lab::prefixes::{Random, inside4, inside6, ipv4, ipv6};
use lab::{Host, Lab};
use port::traffic::{Sink, Source};
use port::{Driver, Lane, Mode};
use std::error::Error;
use std::ffi::CString;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DESTINATIONS: usize = 65_536;
const GATEWAYS: usize = 16;
const SAMPLES: usize = 5;
const SAMPLE: Duration = Duration::from_millis(600);
const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0xbe, 1];
const ROUTER_MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 0xbe, 2], [2, 0, 0, 0, 0xbe, 3]];
const SINK_MAC: [u8; 6] = [2, 0, 0, 0, 0xbe, 4];

/// A bench: its names (ratio, Bifrost's rate, Linux's rate), family, routes, and what packets are
/// judged by.
struct Case {
    names: [&'static str; 3],
    version: u8,
    routes: usize,
    judged: Option<List>,
}

const CASES: [Case; 6] = [
    Case {
        names: ["device/v4/small", "device/v4/small/bifrost", "device/v4/small/linux"],
        version: 4,
        routes: 16,
        judged: None,
    },
    Case {
        names: ["device/v4/full", "device/v4/full/bifrost", "device/v4/full/linux"],
        version: 4,
        routes: 1_000_000,
        judged: None,
    },
    Case {
        names: ["device/v6/small", "device/v6/small/bifrost", "device/v6/small/linux"],
        version: 6,
        routes: 16,
        judged: None,
    },
    Case {
        names: ["device/v6/full", "device/v6/full/bifrost", "device/v6/full/linux"],
        version: 6,
        routes: 240_000,
        judged: None,
    },
    Case {
        names: ["device/v4/stateful", "device/v4/stateful/bifrost", "device/v4/stateful/linux"],
        version: 4,
        routes: 16,
        judged: Some(List::Stateful),
    },
    Case {
        names: ["device/v4/rules-600", "device/v4/rules-600/bifrost", "device/v4/rules-600/linux"],
        version: 4,
        routes: 16,
        judged: Some(List::Long),
    },
];

/// All benches of the family.
pub fn run(ruler: &mut Ruler) {
    for case in &CASES {
        if !case.names.iter().any(|name| ruler.wants(name)) {
            continue;
        }
        // On a thread of its own, because it moves between network namespaces and cores.
        let result = std::thread::scope(|scope| {
            let measured = move || match case.judged {
                None => measure(case),
                Some(list) => judged::measure(list, case),
            };
            let measure = move || measured().map_err(|error| error.to_string());
            scope.spawn(measure).join().unwrap_or_else(|_| Err("the bench panicked".into()))
        });
        match result {
            Ok((bifrost, linux)) => {
                let ratio = bifrost.iter().map(|rate| rate / median(&linux)).collect();
                for (name, unit, samples) in [
                    (case.names[0], "x Linux", ratio),
                    (case.names[1], "Mpps", bifrost),
                    (case.names[2], "Mpps", linux),
                ] {
                    ruler.record(name, unit, samples);
                }
            }
            Err(error) => eprintln!("{}: not measured: {error}", case.names[0]),
        }
    }
    tagged::run(ruler);
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

type Outcome<T> = Result<T, Box<dyn Error>>;

fn measure(case: &Case) -> Outcome<(Vec<f64>, Vec<f64>)> {
    let rig = Rig::new()?;
    let mut random = Random(20261121);
    let (routes, destinations) = table(case, &mut random);
    rig.route_by_linux(case, &routes)?;
    rig.source.enter()?;
    let address: IpAddr = if case.version == 4 { "10.0.0.2".parse()? } else { "2001:db8:be::2".parse()? };
    let source = Source::new(SOURCE_MAC, ROUTER_MAC[0], address, &destinations)?;
    rig.sink.enter()?;
    let sink = Sink::attach(index("dvk")?)?;
    rig.pin("dvk", rig.cores[0])?;
    rig.pin("dvr0", rig.cores[1])?;
    let linux = rig.rates(&source, &sink)?;

    rig.router.enter()?;
    let (driver, _tables) = rig.attach(&routes, None)?;
    rig.pin("dvr0", rig.cores[1])?;
    let bifrost = rig.rates(&source, &sink)?;
    all_express(&driver)?;
    Ok((bifrost, linux))
}

/// Whether nearly all that came in was forwarded in the driver.
fn all_express(driver: &Driver) -> Outcome<()> {
    let counted = driver.counters(PortId(0))?;
    let (express, all) =
        (counted.lane(Lane::Express).packets, counted.lanes.iter().map(|count| count.packets).sum::<u64>());
    match express * 100 < all * 99 {
        true => Err(format!("only {express} of {all} packets took the express lane").into()),
        false => Ok(()),
    }
}

/// The routes with the gateway of each, and addresses inside them.
fn table(case: &Case, random: &mut Random) -> (Vec<(IpNet, usize)>, Vec<IpAddr>) {
    let nets: Vec<IpNet> = match case.version {
        4 => ipv4(case.routes.max(1000), random).into_iter().map(IpNet::from).collect(),
        _ => ipv6(case.routes.max(1000), random).into_iter().map(IpNet::from).collect(),
    };
    let nets = &nets[..nets.len().min(case.routes)];
    let destinations = (0..DESTINATIONS)
        .map(|_| match nets[random.next() as usize % nets.len()] {
            IpNet::V4(net) => IpAddr::V4(inside4(net, random).into()),
            IpNet::V6(net) => IpAddr::V6(inside6(net, random).into()),
        })
        .collect();
    let routes = nets.iter().map(|net| (*net, random.next() as usize % GATEWAYS)).collect();
    (routes, destinations)
}

/// The VLAN on port number `port`.
fn logical(port: usize) -> InterfaceId {
    InterfaceId(InterfaceId::FIRST_LOGICAL.0 + port as u16)
}

fn gateway(version: u8, number: usize) -> String {
    if version == 4 { format!("10.0.1.{}", number + 2) } else { format!("2001:db8:be:1::{:x}", number + 2) }
}

fn command(line: &str) -> Outcome<()> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default()).args(words).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

fn index(name: &str) -> Outcome<u32> {
    let name = CString::new(name)?;
    // SAFETY: a valid C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(std::io::Error::last_os_error().into()),
        index => Ok(index),
    }
}

struct Rig {
    source: Host,
    router: Host,
    sink: Host,
    /// Source and sink; router.
    cores: [usize; 2],
    /// Gone with its hosts when the rig is dropped, or this program is ended.
    _lab: Lab,
}

impl Rig {
    fn new() -> Outcome<Rig> {
        let cores = std::thread::available_parallelism()?.get();
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
        let last = online.trim().rsplit([',', '-']).next().unwrap_or("0").parse::<usize>()?;
        if last == 0 {
            return Err(format!("needs two cores, and has {cores}").into());
        }
        let lab = Lab::new("bench")?;
        let rig = Rig {
            source: lab.host("source")?,
            router: lab.router("router")?,
            sink: lab.host("sink")?,
            cores: [last - 1, last],
            _lab: lab,
        };
        for (end, mac, peer, peer_mac, host) in [
            ("dvr0", ROUTER_MAC[0], "dvs", SOURCE_MAC, &rig.source),
            ("dvr1", ROUTER_MAC[1], "dvk", SINK_MAC, &rig.sink),
        ] {
            let [mac, peer_mac] = [mac, peer_mac].map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
            rig.router.run(&format!(
                "ip link add {end} address {mac} type veth peer name {peer} address {peer_mac} netns {}
                 ip link set {end} up",
                host.namespace()
            ))?;
            host.run(&format!("ip link set {peer} up"))?;
        }
        // A veth polls (and can be redirected to by its peer) with GRO or a program.
        rig.router.run("ethtool -K dvr0 gro on; echo 1 >/sys/class/net/dvr0/threaded")?;
        rig.sink.run("ethtool -K dvk gro on; echo 1 >/sys/class/net/dvk/threaded")?;
        rig.router.run(
            "sysctl -qw net.ipv4.conf.dvr0.rp_filter=0 net.ipv6.route.max_size=2147483647
             ip addr add 10.0.0.1/24 dev dvr0; ip addr add 10.0.1.1/24 dev dvr1
             ip addr add 2001:db8:be::1/64 dev dvr0 nodad; ip addr add 2001:db8:be:1::1/64 dev dvr1 nodad",
        )?;
        let mac = SINK_MAC.map(|byte| format!("{byte:02x}")).join(":");
        let neighbours = (0..GATEWAYS).flat_map(|number| [4, 6].map(|version| gateway(version, number)));
        let lines = neighbours
            .map(|address| format!("neigh replace {address} lladdr {mac} nud permanent dev dvr1\n"));
        rig.router.ip_batch(&lines.collect::<String>())?;
        Ok(rig)
    }

    fn route_by_linux(&self, case: &Case, routes: &[(IpNet, usize)]) -> Outcome<()> {
        let lines = routes.iter().map(|(net, number)| {
            format!("route replace {net} via {} dev dvr1\n", gateway(case.version, *number))
        });
        Ok(self.router.ip_batch(&lines.collect::<String>())?)
    }

    /// The driver's program on both of the router's interfaces, and the same routes in its tables.
    /// They lead by the VLAN with this number, if there is one. The calling thread is in the
    /// router's namespace.
    fn attach(&self, routes: &[(IpNet, usize)], vlan: Option<u16>) -> Outcome<(Driver, Tables)> {
        let capacity = Capacity::default();
        let mut driver = Driver::new(&capacity.sizes())?;
        let mut tables = Tables::new(capacity, Some(driver.table_memory()?))?;
        for (number, name) in ["dvr0", "dvr1"].into_iter().enumerate() {
            let (port, ifindex) = (PortId(number as u16), index(name)?);
            let flags = InterfaceFlags::UP
                | InterfaceFlags::TARGET
                | InterfaceFlags::FORWARD4
                | InterfaceFlags::FORWARD6
                | InterfaceFlags::EXPRESS;
            let entry = InterfaceEntry::of_port(port, ifindex, 1500, ROUTER_MAC[number], flags);
            tables.set_interface(port.interface(), Some(entry))?;
            driver.set_target(port, ifindex)?;
            driver.attach(port, ifindex, Mode::Native)?;
            if let Some(id) = vlan {
                let tags = Tags::One(Tag { service: false, id });
                // Linux has no such interface here, and needs none.
                let entry = InterfaceEntry { ifindex: 1000 + ifindex, tags, ..entry };
                tables.set_interface(logical(number), Some(entry))?;
            }
        }
        let out = if vlan.is_some() { logical(1) } else { InterfaceId(1) };
        let hops: Vec<NextHopId> = (0..GATEWAYS)
            .map(|_| {
                let adjacency =
                    tables.add_adjacency(&Adjacency { interface: out, mtu: 1500, mac: Some(SINK_MAC) })?;
                tables.add_next_hop(&NextHop::Forward(vec![Path { adjacency, weight: 1 }]))
            })
            .collect::<Result<_, _>>()?;
        for (net, number) in routes {
            match net {
                IpNet::V4(net) => tables.insert4(*net, hops[*number])?,
                IpNet::V6(net) => tables.insert6(*net, hops[*number])?,
            };
        }
        Ok((driver, tables))
    }

    /// Keeps the polling threads of an interface on a core, before all else there (the load, for
    /// one).
    fn pin(&self, device: &str, core: usize) -> Outcome<()> {
        let prefix = format!("napi/{device}-");
        let mut found = false;
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let path = entry.path();
            let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
            let process = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&prefix) {
                command(&format!("taskset -pc {core} {process}"))?;
                command(&format!("chrt -f -p 1 {process}"))?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(format!("no polling thread of {device} (threaded NAPI)").into()) }
    }

    /// Millions of packets a second that reach the sink, under full load.
    fn rates(&self, source: &Source, sink: &Sink) -> Outcome<Vec<f64>> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                self.source.enter().map_err(|error| error.to_string())?;
                let ifindex = index("dvs").map_err(|error| error.to_string())?;
                pin_first(self.cores[0]);
                while !stop.load(Ordering::Relaxed) {
                    let sent = source.send(ifindex, 1 << 20);
                    sent.map_err(|error| format!("cannot make load: {error}"))?;
                }
                Ok::<(), String>(())
            });
            std::thread::sleep(SAMPLE);
            let samples = (0..SAMPLES).map(|_| {
                let (start, before) = (Instant::now(), sink.packets()?);
                std::thread::sleep(SAMPLE);
                Ok((sink.packets()? - before) as f64 / start.elapsed().as_secs_f64() / 1e6)
            });
            let samples = samples.collect::<std::io::Result<Vec<f64>>>();
            stop.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| Err("the load panicked".into()))?;
            Ok(samples?)
        })
    }
}

fn pin_first(core: usize) {
    run_on(core);
    // SAFETY: no pointers; when it fails, the thread runs as one of many.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}
