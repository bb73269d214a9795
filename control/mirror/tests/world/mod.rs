//! A network namespace with a mirror in it, as the tests need it.

#![allow(dead_code, reason = "each test binary uses a part")]

use fib::{Capacity, InterfaceEntry, InterfaceFlags, InterfaceId, Locality, NextHop, NextHopId, Tables};
use ipnet::IpNet;
use mirror::model::{Link, Model};
use mirror::{Mirror, Options, Plane};
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A namespace of its own, entered by the calling thread, removed at the end.
pub struct Namespace(String);

impl Namespace {
    pub fn enter() -> Namespace {
        let name = format!("mirror-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run(&["netns", "add", &name]);
        let file = File::open(format!("/run/netns/{name}")).unwrap();
        nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        run(&["link", "set", "lo", "up"]);
        Namespace(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Runs `ip` in the thread's namespace.
pub fn ip(command: &str) {
    run(&command.split_whitespace().collect::<Vec<_>>());
}

/// Runs `ip`, and returns what it prints; `None` when it fails.
pub fn ip_says(command: &str) -> Option<String> {
    let output = Command::new("ip").args(command.split_whitespace()).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a batch of `ip` commands, passing over those that fail.
pub fn batch(commands: &str) {
    batch_start(commands).wait().unwrap();
}

/// The same, without waiting for its end.
pub fn batch_start(commands: &str) -> std::process::Child {
    let path = std::env::temp_dir().join(format!(
        "mirror-batch-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    ));
    File::create(&path).unwrap().write_all(commands.as_bytes()).unwrap();
    let child = Command::new("ip")
        .args(["-force", "-batch"])
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The child has it open before it reads; give it that moment, then leave nothing behind.
    std::thread::sleep(Duration::from_millis(100));
    std::fs::remove_file(path).unwrap();
    child
}

/// CPU time of this thread.
pub fn cpu() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Notes what the plane is told.
#[derive(Default)]
pub struct Told {
    pub links: Vec<Link>,
    pub gone: Vec<u32>,
    pub locals: Vec<IpAddr>,
}

impl Plane for Told {
    fn link(&mut self, link: &Link) {
        self.links.push(link.clone());
    }
    fn link_gone(&mut self, ifindex: u32) {
        self.gone.push(ifindex);
    }
    fn local(&mut self, address: IpAddr, of: Locality) {
        self.locals.retain(|known| *known != address);
        if of.any() {
            self.locals.push(address);
        }
    }
}

/// A mirror and its tables.
pub struct World {
    pub mirror: Mirror,
    pub tables: Tables,
    pub told: Told,
    /// Most CPU time that one call of the mirror took (by the clock, other tests would count too).
    pub longest: Duration,
    _namespace: Namespace,
}

pub fn quiet() -> Options {
    Options { audit_interval: None, receive_buffer: 16 << 20, ..Options::default() }
}

impl World {
    /// Two veth pairs, p0-h0 and p1-h1; p0 and p1 are ports 0 and 1 with 10.0.0.1/24, 10.0.1.1/24,
    /// 2001:db8:0::1/64 and 2001:db8:1::1/64; h0 and h1 are up, so that there is carrier. An
    /// unbound pair x0-x1 has 10.9.0.1/24.
    pub fn new(options: Options, capacity: Capacity) -> World {
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        let namespace = Namespace::enter();
        for (port, host) in [("p0", "h0"), ("p1", "h1"), ("x0", "x1")] {
            ip(&format!("link add name {port} type veth peer name {host}"));
            ip(&format!("link set {port} up"));
            ip(&format!("link set {host} up"));
        }
        for (index, port) in ["p0", "p1"].iter().enumerate() {
            ip(&format!("addr add 10.0.{index}.1/24 dev {port}"));
            ip(&format!("-6 addr add 2001:db8:{index}::1/64 dev {port} nodad"));
        }
        ip("addr add 10.9.0.1/24 dev x0");
        let mut world = World {
            mirror: Mirror::new(options).unwrap(),
            tables: Tables::new(capacity, None).unwrap(),
            told: Told::default(),
            longest: Duration::ZERO,
            _namespace: namespace,
        };
        world.settle();
        world.bind("p0", 0);
        world.bind("p1", 1);
        world.settle();
        world
    }

    pub fn small(options: Options) -> World {
        World::new(options, Capacity { ipv4: 20_000, ipv6: 20_000, next_hops: 2_000 })
    }

    pub fn ifindex(&self, name: &str) -> u32 {
        self.mirror.model().links.by_name(name).unwrap().ifindex
    }

    pub fn bind(&mut self, name: &str, port: u16) {
        let link = self.mirror.model().links.by_name(name).unwrap();
        let (ifindex, mtu, mac) = (link.ifindex, link.mtu, link.mac.unwrap().0);
        let entry = InterfaceEntry::of_port(fib::PortId(port), ifindex, mtu, mac, InterfaceFlags::UP);
        self.tables.set_interface(InterfaceId(port), Some(entry)).unwrap();
        self.mirror.bind(ifindex, InterfaceId(port), &mut self.tables);
    }

    /// Lets the mirror work until nothing has come for a while.
    pub fn settle(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < Duration::from_millis(150) || !self.at_rest() {
            assert!(Instant::now() < deadline, "the mirror does not come to rest");
            if self.turn() || !self.at_rest() {
                quiet_since = Instant::now();
            }
        }
    }

    fn at_rest(&self) -> bool {
        self.mirror.ready() && self.mirror.status().unsure == 0
    }

    /// One turn of the control loop; whether something was there to do.
    pub fn turn(&mut self) -> bool {
        let before = self.mirror.status().messages;
        let start = cpu();
        let more = self.mirror.sync(&mut self.tables, &mut self.told).unwrap();
        let between = cpu();
        self.mirror.tick(&mut self.tables).unwrap();
        self.longest = self.longest.max(between - start).max(cpu() - between);
        let heard = self.mirror.status().messages != before;
        if !more && !heard {
            std::thread::sleep(Duration::from_millis(1));
        }
        more || heard
    }

    /// Turns until `condition` holds.
    pub fn until(&mut self, what: &str, mut condition: impl FnMut(&World) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition(self) {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            self.turn();
        }
    }

    /// What the tables say to a packet for `address`.
    pub fn decision(&self, address: &str) -> NextHop {
        let id = match address.parse().unwrap() {
            IpAddr::V4(address) => self.tables.view().lookup4(address.into()),
            IpAddr::V6(address) => self.tables.view().lookup6(address.into()),
        };
        self.tables.next_hop(id)
    }

    pub fn id(&self, prefix: &str) -> Option<NextHopId> {
        match prefix.parse().unwrap() {
            IpNet::V4(prefix) => self.tables.get4(prefix),
            IpNet::V6(prefix) => self.tables.get6(prefix),
        }
    }

    /// The (port, MAC) that packets for `address` leave to, one for each path.
    pub fn ways(&self, address: &str) -> Vec<(u16, Option<[u8; 6]>)> {
        let (NextHop::Forward(paths) | NextHop::Sourced(paths)) = self.decision(address) else {
            return Vec::new();
        };
        let of = |path: &fib::Path| self.tables.adjacency(path.adjacency).unwrap();
        paths.iter().map(|path| (of(path).interface.0, of(path).mac)).collect()
    }

    /// Reads Linux anew, and compares with what notifications led to; then what a mirror that
    /// starts now would program, with what is programmed. Linux changes by itself now and then
    /// (addresses complete their duplicate detection): a difference counts when it stays.
    pub fn assert_equal_to_linux(&mut self) {
        for _ in 0..5 {
            if self.differences().is_empty() {
                return;
            }
            self.settle();
        }
        let differences = self.differences();
        assert!(differences.is_empty(), "{}", differences[..differences.len().min(20)].join("\n"));
    }

    fn differences(&mut self) -> Vec<String> {
        let mut fresh = Mirror::new(quiet()).unwrap();
        let mut tables =
            Tables::new(Capacity { ipv4: 1_200_000, ipv6: 20_000, next_hops: 4_000 }, None).unwrap();
        let mut told = Told::default();
        while !fresh.ready() {
            fresh.sync(&mut tables, &mut told).unwrap();
        }
        for (name, port) in [("p0", 0), ("p1", 1)] {
            if let Some(link) = fresh.model().links.by_name(name) {
                let ifindex = link.ifindex;
                fresh.bind(ifindex, InterfaceId(port), &mut tables);
            }
        }
        while fresh.sync(&mut tables, &mut told).unwrap() || !fresh.ready() {}
        let mut found = difference("model", &model_text(self.mirror.model()), &model_text(fresh.model()));
        found.extend(difference("tables", &table_text(&self.tables), &table_text(&tables)));
        found
    }
}

fn difference(what: &str, have: &[String], want: &[String]) -> Vec<String> {
    use std::collections::HashSet;
    let (has, wants): (HashSet<_>, HashSet<_>) = (have.iter().collect(), want.iter().collect());
    let extra = have.iter().filter(|line| !wants.contains(line)).map(|line| format!("{what} has {line}"));
    let lacks = want.iter().filter(|line| !has.contains(line)).map(|line| format!("{what} lacks {line}"));
    let mut found: Vec<String> = extra.chain(lacks).collect();
    if found.is_empty() && have != want {
        let at = have.iter().zip(want).position(|(have, want)| have != want);
        found.push(format!("{what}: order or number differs, first at {at:?}: {:?}", at.map(|at| &have[at])));
    }
    found.sort_by_key(|line| line.split_whitespace().nth(2).map(str::to_string));
    found
}

/// Every route with all it says, in a canonical order of equals.
pub fn model_text(model: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    for (prefix, routes) in model.routes.after(None) {
        let text = |route: &mirror::model::Route| {
            format!(
                "{prefix} {:?} {:?} {} {} {} {} {} {} {:?}",
                route.table,
                route.kind,
                route.metric,
                route.origin,
                route.tos,
                route.mtu,
                route.preference,
                route.sourced,
                model.routes.targets().at(route.target)
            )
        };
        let mut these: Vec<String> = routes.iter().map(text).collect();
        if prefix.addr().is_ipv6() {
            these.sort();
        }
        lines.extend(these);
    }
    lines.extend(model.links.iter().map(|link| format!("{link:?}")));
    lines.extend(model.objects.iter(mirror::model::SourceId::Netlink).map(|object| format!("{object:?}")));
    lines
}

/// Every prefix with what it leads to.
pub fn table_text(tables: &Tables) -> Vec<String> {
    let all4 = tables.iter4().map(|(prefix, id)| (IpNet::V4(prefix), id));
    let all6 = tables.iter6().map(|(prefix, id)| (IpNet::V6(prefix), id));
    let text = |(prefix, id): (IpNet, NextHopId)| match tables.next_hop(id) {
        NextHop::Forward(ref paths) | NextHop::Sourced(ref paths) => {
            let mut to: Vec<String> = paths
                .iter()
                .map(|path| format!("{} {:?}", path.weight, tables.adjacency(path.adjacency)))
                .collect();
            to.sort();
            let sourced = matches!(tables.next_hop(id), NextHop::Sourced(_));
            format!("{prefix} {to:?}{}", if sourced { " sourced" } else { "" })
        }
        other => format!("{prefix} {other:?}"),
    };
    let mut lines: Vec<String> = all4.chain(all6).map(text).collect();
    lines.sort();
    lines
}
