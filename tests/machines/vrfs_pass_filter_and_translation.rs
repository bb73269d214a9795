//! A stateful filter and translation judge each VRF by its own interfaces and flows, though all
//! have the same addresses, and follow what leaves one VRF for another. The plane does it; Linux
//! says the same when the plane is killed, and while it is handed what no worker can complete. (The
//! networks of `vrfs.rs`.)

use std::time::Duration;

use lab::{Host, Iperf, Ping, Teller, inside, wait_for};

use super::vrfs::{FAR, NETWORKS, Vrfs, configuration};

const POLICY: &str = r#"
[flow]
memory = 16

[filter.input]
rules = '''
drop tcp in red-near to any port 8002
drop tcp in blue-near to any port 8003
'''

[filter.forward]
policy = "drop"
rules = '''
accept state established,related
drop state invalid
accept icmp
accept icmpv6
accept udp to any port 7
accept tcp in red-near,plain-near to any port 8000,8002-8003 state new
accept tcp in blue-near out blue-far to any port 8001-8003,8006 state new
accept tcp in blue-far to 10.0.1.2 port 8001 state new
jump others
'''

[filter.chains.others]
rules = '''
accept tcp in red-* to 10.88.0.0/16 port 8001
accept tcp in plain-far out blue-near to any port 8004
drop tcp in !red-far to any port 8005
accept tcp to any port 8005
'''

[[nat.rule]]
name = "red"
type = "masquerade"
in = ["red-near"]
out = ["red-far"]

[[nat.rule]]
name = "not of near"
type = "masquerade"
in = ["blue-far", "plain-far"]
out = ["blue-far", "plain-far"]

[[nat.rule]]
name = "world"
type = "masquerade"
in = ["red-near"]
out = ["plain-far"]

[[nat.rule]]
name = "web"
type = "destination"
in = ["blue-far"]
protocol = "tcp"
ports = "8080"
to = "10.0.1.2:8001"
"#;

/// Addresses beside those that all networks have: of near red, of far plain, and of near blue.
const SEVEN: &str = "10.77.0.2";
const EIGHT: &str = "10.88.0.2";
const NINE: &str = "10.99.0.2";

/// A call: from which side of which network, from an address, to one and a port, and which address
/// seems to call; `-`: nobody answers.
type Call = (&'static str, &'static str, &'static str, u16, &'static str);

const CALLS: &[Call] = &[
    // Each by its own interfaces; red translates.
    ("near red", "", "10.0.2.2", 8000, "10.0.2.1"),
    ("near blue", "", "10.0.2.2", 8000, "-"),
    ("near plain", "", "10.0.2.2", 8000, "10.0.1.2"),
    ("near red", "", "10.0.2.2", 8001, "-"),
    ("near blue", "", "10.0.2.2", 8001, "10.0.1.2"),
    ("near plain", "", "10.0.2.2", 8001, "-"),
    ("near red", "", "2001:db8:2::2", 8000, "2001:db8:2::1"),
    ("near blue", "", "2001:db8:2::2", 8000, "-"),
    ("near blue", "", "2001:db8:2::2", 8001, "2001:db8:1::2"),
    ("near plain", "", "2001:db8:2::2", 8000, "2001:db8:1::2"),
    // What comes in is asked for the interface that it comes by.
    ("near red", "", "10.0.2.2", 8002, "-"),
    ("near red", "", "10.0.2.2", 8003, "10.0.2.1"),
    ("near blue", "", "10.0.2.2", 8002, "10.0.1.2"),
    ("near blue", "", "2001:db8:2::2", 8003, "-"),
    ("near plain", "", "10.0.2.2", 8002, "10.0.1.2"),
    // And in chains that others jump to.
    ("near red", "", "10.0.2.2", 8005, "-"),
    ("far red", "", "10.0.1.2", 8005, "10.0.2.2"),
    ("far blue", "", "10.0.1.2", 8005, "-"),
    // To a host in the VRF, by the router's address there.
    ("far blue", "", "10.0.2.1", 8080, "10.0.2.2"),
    ("far red", "", "10.0.2.1", 8080, "-"),
    ("far plain", "", "10.0.2.1", 8080, "-"),
    // Out of a VRF, translated; and into one.
    ("near red", SEVEN, EIGHT, 8000, "10.0.2.1"),
    ("near red", SEVEN, EIGHT, 8001, "10.0.2.1"),
    ("near red", SEVEN, EIGHT, 8004, "-"),
    ("far plain", EIGHT, NINE, 8004, EIGHT),
    ("far plain", EIGHT, NINE, 8000, "-"),
];

struct Judged {
    net: Vrfs,
    _tellers: Vec<Teller>,
}

impl Judged {
    fn new() -> Judged {
        let net = Vrfs::new();
        let hosts = net.near.iter().chain(&net.far);
        let tellers = hosts.map(|host| host.tells(&[8000, 8001, 8002, 8003, 8004, 8005]).unwrap()).collect();
        // Between red and the network that is in no VRF, and between that one and blue.
        let [red, blue, _] = &net.near;
        red.run(&format!("ip address add {SEVEN}/32 dev lo; ip route add {EIGHT} via 10.0.1.1")).unwrap();
        blue.run(&format!("ip address add {NINE}/32 dev lo; ip route add {EIGHT} via 10.0.1.1")).unwrap();
        net.far[2]
            .run(&format!("ip address add {EIGHT}/32 dev lo; ip route add {NINE} via 10.0.2.1"))
            .unwrap();
        net.run(&format!(
            "for vrf in 'dev red-near onlink' 'vrf red'; do ip route add {SEVEN} via 10.0.1.2 $vrf; done
             for vrf in 'dev blue-near onlink' 'vrf blue'; do ip route add {NINE} via 10.0.1.2 $vrf; done
             for vrf in '' 'vrf red' 'vrf blue'; do
                 ip route add {EIGHT} via 10.0.2.2 dev plain-far onlink $vrf
             done"
        ));
        Judged { net, _tellers: tellers }
    }

    fn reload(&self, config: &str) {
        self.net.router.configure(config).unwrap();
        self.net.router.ask("reload").unwrap();
    }

    fn host(&self, name: &str) -> &Host {
        let (side, network) = name.split_once(' ').unwrap();
        let at = NETWORKS.iter().position(|(name, _)| *name == network).unwrap();
        if side == "near" { &self.net.near[at] } else { &self.net.far[at] }
    }

    fn call(&self, kind: &str, (from, source, to, port, _): &Call, own: u16) -> String {
        self.host(from).call(kind, (source, own), (to, *port)).unwrap()
    }

    /// Whoever forwards says this.
    fn are_as_said(&self, by: &str) {
        let wrong = |call: &Call| {
            let told = self.call("tcp", call, 0);
            (told != call.4).then(|| format!("{call:?}: {told}"))
        };
        let wrong: Vec<String> = std::thread::scope(|scope| {
            let calls = CALLS.iter().map(|call| scope.spawn(move || wrong(call)));
            let calls: Vec<_> = calls.collect();
            calls.into_iter().filter_map(|call| call.join().unwrap()).collect()
        });
        let copy = self.net.router.host().run("nft list table inet bifrost").unwrap_or_default();
        assert!(wrong.is_empty(), "by {by}: {wrong:#?}\n{copy}\n{}", self.net.router.log());
    }

    /// What may pass does so by the plane alone.
    fn plane_forwards(&self) {
        for (near, (name, _)) in self.net.near.iter().zip(NETWORKS) {
            wait_for("the plane to forward", Duration::from_secs(30), || self.net.asks(near, name, &FAR))
                .unwrap();
        }
    }

    /// The very same datagrams in two networks are two flows.
    fn are_told_apart(&self, own: u16) {
        for (network, seen) in
            [("near red", "10.0.2.1"), ("near blue", "10.0.1.2"), ("near plain", "10.0.1.2")]
        {
            let call = (network, "10.0.1.2", "10.0.2.2", 7, seen);
            assert_eq!(self.call("udp", &call, own), seen, "{network}\n{}", self.net.router.log());
        }
    }
}

fn judged() {
    let mut judged = Judged::new();
    judged.reload(&(configuration().replace("express", "auto") + POLICY));
    judged.plane_forwards();
    judged.are_as_said("the plane");
    judged.are_told_apart(9999);
    judged.plane_forwards();
    let shown = judged.net.router.ask("show interfaces").unwrap();
    let ours = shown.lines().filter(|line| line.contains("-near") && line.contains("Bifrost"));
    assert_eq!(ours.count(), 3, "{shown}");

    // Of a host whose link address is not known: Linux sends what was translated, in the VRF.
    judged.net.run("for port in red-far blue-far plain-far; do ip neigh flush dev $port; done");
    for (from, source, to) in
        [("red", "10.0.1.2", "10.0.2.2"), ("blue", "10.0.1.2", "10.0.2.2"), ("red", SEVEN, EIGHT)]
    {
        let ping = format!("ping -c 3 -i 0.3 -W 4 -I {source} {to} || true");
        let said = judged.host(&format!("near {from}")).run(&ping).unwrap();
        assert!(said.contains(" 0% packet loss"), "{from} to {to}: {said}\n{}", judged.net.router.log());
    }
    for (question, says) in [
        ("10.0.1.2 > 10.0.2.2 tcp 5000:8001 in blue-near", "in blue-near out blue-far state new"),
        ("10.0.1.2 > 10.0.2.2 tcp 5000:8000 in red-near", "comes from 10.0.2.1"),
    ] {
        // The first question has programs checked by the kernel, which takes an emulated machine
        // its time.
        wait_for("an explanation", Duration::from_secs(60), || {
            let said = judged.net.router.ask(&format!("explain '{question}'")).map_err(|e| e.to_string())?;
            if said.contains(says) && said.contains("sent by") { Ok(()) } else { Err(said) }
        })
        .unwrap();
    }

    // The plane is killed, and comes back: flows go on.
    let near = &judged.net.near;
    let pings = [0, 1, 2].map(|n| Ping::start(&near[n], "10.0.2.2", Duration::from_millis(50)).unwrap());
    let mut transfer = Iperf::start(&near[1], &judged.net.far[1], "10.0.2.2", 8006, 2).unwrap();
    wait_for("the plane to carry all of it", Duration::from_secs(20), || {
        let answered = pings.each_ref().map(|ping| ping.statistics().received);
        match answered.iter().all(|answered| *answered > 5) && !transfer.megabits().is_empty() {
            true => Ok(()),
            false => Err(format!("{answered:?} answers")),
        }
    })
    .unwrap();
    judged.net.router.kill_nine();
    judged.are_as_said("Linux");
    judged.are_told_apart(9998);
    let killed = pings.each_ref().map(|ping| ping.statistics().lost());
    assert!(killed.iter().all(|lost| *lost <= 5), "{killed:?}");
    judged.net.router.restart().unwrap();
    judged.plane_forwards();
    let lost = pings.map(|ping| ping.stop().lost());
    assert!(lost.iter().all(|lost| *lost <= 20), "{lost:?}, {killed:?}\n{}", judged.net.router.log());
    judged.are_as_said("the plane once more");
    assert!(transfer.lives());
    let megabits = transfer.stop().unwrap();
    assert!(megabits.iter().rev().skip(1).take(2).all(|megabits| *megabits > 0.5), "{megabits:?}");

    // Who leaves a VRF is an interface like others to Linux's copy as well.
    judged.net.run("ip link set blue-near nomaster; ip link set blue-far nomaster");
    let copy = || judged.net.router.host().run("nft list table inet bifrost").unwrap();
    assert!(copy().contains("chain v_forward"), "{}", copy());
    wait_for("the copy to know", Duration::from_secs(10), || match copy() {
        copy if copy.contains("\"blue-near\" : 1002") => Err(copy),
        _ => Ok(()),
    })
    .unwrap();
}

#[test]
fn and_linux_says_the_same() {
    inside!("6.12", judged);
}
