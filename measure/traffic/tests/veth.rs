//! Trials over a veth pair between two hosts in namespaces: the kernel's live frames out, its
//! judging program in.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lab::{Host, Lab};
use traffic::{Port, Report, Stream, Trial};

struct Pair {
    _lab: Lab,
    hosts: [Host; 2],
}

impl Pair {
    fn new(name: &str) -> Pair {
        let lab = Lab::new(name).unwrap();
        let hosts = [lab.host("a").unwrap(), lab.host("b").unwrap()];
        lab.link(hosts[0].end("veth0"), hosts[1].end("veth1")).unwrap();
        Pair { _lab: lab, hosts }
    }

    fn port(&self, kind: &str, end: usize) -> Port {
        Port::open(&format!("{kind}veth{end}@{}", self.hosts[end].namespace()), false).unwrap()
    }

    fn trial(&self, kinds: [&str; 2], streams: &str, duration: f64) -> Report {
        let trial = Trial {
            streams: Stream::parse_all(streams).unwrap(),
            to: Some(self.port(kinds[1], 1)),
            duration: Some(Duration::from_secs_f64(duration)),
            ..Trial::new(self.port(kinds[0], 0))
        };
        trial.run().unwrap()
    }
}

/// A schedule's own rate is exact; what is measured is whether all that was due has left when the
/// second is over.
fn within(got: f64, wanted: f64, part: f64) -> bool {
    (got - wanted).abs() <= wanted * part
}

#[test]
fn live_frames_arrive_whole_in_order_and_at_their_rate() {
    let _alone = alone();
    let pair = Pair::new("trl");
    let streams = "
        [[stream]]
        name = 'small'
        rate = '100kpps'
        flows = 1000
        destination = 'random 10.0.0.0/8'
        fill = 'count'
        [[stream]]
        name = 'mix'
        size = 'imix'
        rate = '50Mbps'
        pattern = 'poisson'
        flows = 64
        source = '10.0.0.0/16'
        flow_length = 10
        fill = 'count'
        [[stream]]
        name = 'six'
        size = '88-1518'
        rate = '10kpps'
        pattern = 'burst 10 gap 1ms'
        source = '2001:db8::1'
        destination = '2001:db8:1::/64'
        protocol = 'icmp'
        vlan = [7]
        fill = 'count'
    ";
    let report = pair.trial(["", ""], streams, 1.0);
    assert_eq!(report.sender, "live frames");
    assert_eq!(report.receiver.as_deref(), Some("program in the driver"));
    for stream in &report.streams {
        assert_eq!(stream.lost, Some(0), "{}", stream.name);
        assert_eq!((stream.duplicates, stream.corrupt), (Some(0), Some(0)), "{}", stream.name);
        assert_eq!(stream.reordering.unwrap().packets, 0, "{}", stream.name);
        assert_eq!(stream.received.unwrap(), stream.sent, "{}", stream.name);
        assert_eq!(stream.latency.as_ref().unwrap().count, stream.sent.packets);
    }
    let small = &report.streams[0];
    assert_eq!((small.offered, small.sent.packets), (100_000, 100_000));
    // What a machine under load holds up at the very end is told as lateness.
    let late = small.lateness.as_ref().unwrap().max as f64 / 1e9;
    assert!(within(small.sent_rate, 100e3, 1e-3 + late), "{}", small.sent_rate);
    assert!(within(report.streams[1].sent.layer1_bits() as f64, 50e6, 0.1));
}

#[test]
fn what_would_have_come_after_a_stop_was_not_due() {
    let _alone = alone();
    let pair = Pair::new("trs");
    let trial = Trial {
        streams: Stream::parse_all("[[stream]]\nrate = '50kpps'").unwrap(),
        to: Some(pair.port("", 1)),
        ..Trial::new(pair.port("", 0))
    };
    let running = trial.start().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    running.stop();
    // Whoever looks later sees the same.
    while !running.is_over() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = running.wait().unwrap();
    let only = &report.streams[0];
    // A packet that had its time while the sender was told to stop may be missing.
    let missing = only.offered - only.sent.packets;
    assert!(only.sent.packets > 5000 && missing * 1000 <= only.offered, "{only:?}");
    assert!(!report.notes.iter().any(|note| note.contains("could not be sent")), "{:?}", report.notes);
}

/// Two hosts that spin on two cores keep each other from running: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of the programs in the kernel that this process holds.
fn programs() -> BTreeSet<String> {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let said = descriptors.filter_map(|one| std::fs::read_to_string(one.ok()?.path()).ok());
    said.filter_map(|text| {
        let line = text.lines().find(|line| line.starts_with("prog_id:"))?;
        Some(line.split_whitespace().nth(1)?.to_owned())
    })
    .collect()
}

#[test]
fn one_trial_after_the_other_is_judged_for_itself_by_the_same_programs() {
    let _alone = alone();
    let pair = Pair::new("tro");
    let (from, to) = (pair.port("live:", 0), pair.port("live:", 1));
    let trial = |streams: &str| {
        let trial = Trial {
            streams: Stream::parse_all(streams).unwrap(),
            to: Some(to.clone()),
            duration: Some(Duration::from_millis(200)),
            ..Trial::new(from.clone())
        };
        trial.run().unwrap()
    };
    let first = trial("[[stream]]\nrate = '20kpps'\nsize = '100-900'\nflows = 300\nsource = '10.0.0.0/16'");
    let loaded = programs();
    assert_eq!(loaded.len(), 2, "one that sends, one that judges");
    // Slower and faster, with fewer sizes and flows, in bursts and with other headers; and as it
    // was.
    for (stream, sent) in [
        ("rate = '10kpps'\nsize = '64'\nflows = 7\nsource_port = '1-7'", 2000),
        ("rate = '40kpps'\npattern = 'burst 32 gap 5ms'\nsize = '200,400'\nsource = '10.9.0.0/24'", 0),
        (
            "rate = '20kpps'\nsize = '100-900'\nflows = 300\nsource = '10.0.0.0/16'",
            first.streams[0].sent.packets,
        ),
    ] {
        let report = trial(&format!("[[stream]]\n{stream}"));
        let only = &report.streams[0];
        assert!(sent == 0 || only.sent.packets == sent, "{stream}: {only:?}");
        assert_eq!(only.received, Some(only.sent), "{stream}");
        assert_eq!((only.lost, only.corrupt, only.duplicates), (Some(0), Some(0), Some(0)), "{stream}");
        assert_eq!(only.latency.as_ref().unwrap().count, only.sent.packets, "{stream}");
        assert_eq!(only.lateness.as_ref().unwrap().count, only.sent.packets, "{stream}");
        // The hosts themselves may say a word (IPv6's neighbour discovery); what the trial before
        // sent would be thousands.
        assert!(report.foreign.packets < 100, "{stream}: {:?}", report.foreign);
        assert_eq!(programs(), loaded, "{stream}");
    }
    // Two streams are another program's, in the place of the first.
    let two = trial("[[stream]]\nrate = '5kpps'\n[[stream]]\nrate = '5kpps'");
    assert!(two.streams.iter().all(|stream| stream.received == Some(stream.sent)), "{two:?}");
    assert!(programs().len() == 2 && programs().is_disjoint(&loaded));
}

#[test]
fn the_kernel_and_af_xdp_understand_each_other() {
    let _alone = alone();
    let pair = Pair::new("trx");
    let stream = "
        [[stream]]
        rate = '20kpps'
        size = '120-1400'
        flows = 100
        source = '2001:db8::/64'
        destination = 'random 2001:db8:1::/64'
        extension_headers = ['hop-by-hop', 'fragment']
        protocol = 'tcp'
        vlan = [9, 10]
    ";
    for kinds in [["xsk:", "live:"], ["live:", "xsk:"], ["xsk:", "xsk:"]] {
        let report = pair.trial(kinds, stream, 0.3);
        let only = &report.streams[0];
        assert_eq!(only.sent.packets, 6000, "{kinds:?}");
        assert_eq!((only.lost, only.corrupt, only.duplicates), (Some(0), Some(0), Some(0)), "{kinds:?}");
        assert_eq!(only.received, Some(only.sent), "{kinds:?}");
        let latency = only.latency.as_ref().unwrap();
        assert!(
            latency.count == 6000 && latency.min > 0 && latency.p50 < 1_000_000_000,
            "{kinds:?}: {latency:?}"
        );
    }
}

/// In a time namespace this program reads a clock that those in the kernel do not.
#[test]
fn a_shifted_clock_shifts_no_latency() {
    let _alone = alone();
    let mut within = Command::new("unshare");
    within.args(["--time", "--fork", "--monotonic", "86400"]).arg(std::env::current_exe().unwrap());
    let run = within.args(["--exact", "the_kernel_and_af_xdp_understand_each_other"]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_token_bucket_delays_a_burst_as_it_must() {
    let _alone = alone();
    let lab = Lab::new("trt").unwrap();
    let (a, r, b) = (lab.host("a").unwrap(), lab.router("r").unwrap(), lab.host("b").unwrap());
    lab.link(a.end("veth0"), r.end("left").address("10.0.0.254/24")).unwrap();
    lab.link(r.end("right").address("10.0.1.254/24"), b.end("veth1").address("10.0.1.1/24")).unwrap();
    let (router, sink) = (r.mac("left").unwrap(), b.mac("veth1").unwrap());
    r.run(&format!("ip neigh replace 10.0.1.1 lladdr {sink} dev right nud permanent")).unwrap();
    // A packet of 1,014 bytes each 811.2 µs, and the first of a burst at once.
    r.run("tc qdisc add dev right root tbf rate 10mbit burst 1600 limit 1000000").unwrap();
    let port = |host: &Host, end: &str| Port::open(&format!("{end}@{}", host.namespace()), false).unwrap();
    let stream = format!(
        "[[stream]]\nsize = 1018\npattern = 'burst 20 gap 60ms'\ndestination_mac = '{router}'\nsource = '10.0.0.1'\ndestination = '10.0.1.1'"
    );
    let trial = Trial {
        streams: Stream::parse_all(&stream).unwrap(),
        to: Some(port(&b, "veth1")),
        count: Some(200),
        ..Trial::new(port(&a, "veth0"))
    };
    let report = trial.run().unwrap();
    let only = &report.streams[0];
    assert_eq!((only.sent.packets, only.lost, only.reordering.unwrap().packets), (200, Some(0), 0));
    let latency = only.latency.as_ref().unwrap();
    // The packets of a burst wait 0, 0 or 1, ... 18 or 19 turns. A busy machine adds to that, and
    // never takes away.
    let turn = 811_200;
    assert!(latency.max >= 18 * turn && latency.max < 60 * turn, "{latency:?}");
    assert!(latency.p50 >= 8 * turn && latency.p50 < 14 * turn, "{latency:?}");
    assert!(latency.mean >= 8.5 * turn as f64, "{latency:?}");
}

/// Whether the program in the driver and the thread that receives agree on when the last packet was
/// lost.
#[test]
fn the_last_loss_is_known_to_both_judges() {
    let _alone = alone();
    let lab = Lab::new("trw").unwrap();
    let (a, r, b) = (lab.host("a").unwrap(), lab.router("r").unwrap(), lab.host("b").unwrap());
    lab.link(a.end("veth0"), r.end("left").address("10.0.0.254/24")).unwrap();
    lab.link(r.end("right").address("10.0.1.254/24"), b.end("veth1").address("10.0.1.1/24")).unwrap();
    let (router, sink) = (r.mac("left").unwrap(), b.mac("veth1").unwrap());
    r.run(&format!("ip neigh replace 10.0.1.1 lladdr {sink} dev right nud permanent")).unwrap();
    // 25,000 packets a second for one, of which the bucket lets through 6,000; then 5,000, and more
    // than a window of them.
    r.run("tc qdisc add dev right root tbf rate 10mbit burst 10kb limit 60kb").unwrap();
    let port = |host: &Host, end: &str| Port::open(&format!("{end}@{}", host.namespace()), false).unwrap();
    let stream = |rate: &str, more: &str| {
        format!(
            "[[stream]]\nsize = 204\nrate = '{rate}'\n{more}\ndestination_mac = '{router}'\nsource = '10.0.0.1'\ndestination = '10.0.1.1'\n"
        )
    };
    let streams = stream("5kpps", "") + &stream("20kpps", "pattern = 'burst 20000 gap 60s'");
    for kind in ["live", "xsk"] {
        let trial = Trial {
            streams: Stream::parse_all(&streams).unwrap(),
            to: Some(Port::open(&format!("{kind}:veth1@{}", b.namespace()), false).unwrap()),
            duration: Some(Duration::from_secs(4)),
            drain: Duration::from_secs(1),
            ..Trial::new(port(&a, "veth0"))
        };
        let report = trial.run().unwrap();
        let [steady, burst] = report.streams.as_slice() else { panic!("two streams") };
        assert!(steady.lost.unwrap() > 1000 && burst.lost.unwrap() > 4000, "{kind}: {steady:?}");
        // The burst lasts until 1.0 s; what comes behind it finds room again as soon as a frame has
        // left.
        assert!((0.2..0.3).contains(&steady.lost_until.unwrap()), "{kind}: {steady:?}");
        assert!((0.9..=1.0).contains(&burst.lost_until.unwrap()), "{kind}: {burst:?}");
    }
}

#[test]
fn a_link_that_is_lost_for_a_moment_is_told_of() {
    let _alone = alone();
    let pair = Pair::new("trb");
    for (end, said) in [(0, "port live:veth0@"), (1, "port live:veth1@")] {
        let trial = Trial {
            streams: Stream::parse_all("[[stream]]\nrate = '2kpps'").unwrap(),
            to: Some(pair.port("live:", 1)),
            duration: Some(Duration::from_millis(600)),
            ..Trial::new(pair.port("live:", 0))
        };
        let running = trial.start().unwrap();
        while running.report().sent().packets < 200 {
            assert!(!running.is_over(), "{:?}", running.report());
            std::thread::sleep(Duration::from_millis(1));
        }
        pair.hosts[end]
            .run(&format!("ip link set dev veth{end} down && ip link set dev veth{end} up"))
            .unwrap();
        let report = running.wait().unwrap();
        // Both ends of the cable lose it; the one that was looked at first is told.
        let why = report.interrupted.unwrap_or_default();
        assert!(why.contains(said) || why.contains("port live:veth0@"), "{end}: {why:?}");
    }
}

#[test]
fn what_would_vanish_or_cut_off_is_refused() {
    let _alone = alone();
    let pair = Pair::new("trr");
    pair.hosts[1].run("ethtool -K veth1 gro off").unwrap();
    let trial = Trial { streams: vec![Stream::default()], count: Some(1), ..Trial::new(pair.port("", 0)) };
    let error = trial.run().unwrap_err().to_string();
    assert!(error.contains("would vanish") && error.contains("gro on"), "{error}");
    // Longer than the port's own MTU.
    let refused = |stream: &str| {
        let streams = Stream::parse_all(&format!("[[stream]]\n{stream}")).unwrap();
        let trial = Trial { streams, count: Some(1), ..Trial::new(pair.port("live:", 0)) };
        trial.run().unwrap_err().to_string()
    };
    let long = refused("size = '64-1519'");
    assert!(long.contains("1519 bytes are more than") && long.contains("(1518)"), "{long}");
    assert!(long.contains("dev veth0 mtu 1501"), "{long}");
    assert!(refused("size = 1527\nvlan = [1, 2]").contains("(1526)"));
    assert!(refused("size = 1526\nvlan = [1, 2]").contains("would vanish"), "it is not the size");
    pair.hosts[0].run("ip addr add 10.9.0.1/24 dev veth0; ip route add default via 10.9.0.2").unwrap();
    let name = format!("veth0@{}", pair.hosts[0].namespace());
    let error = Port::open(&name, false).unwrap_err().to_string();
    assert!(error.contains("default route") && error.contains("--force"), "{error}");
    Port::open(&name, true).unwrap();
}
