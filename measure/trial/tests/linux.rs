//! Trials of Linux as a router between two hosts in namespaces, whose port carries a rate that is
//! known: a token bucket's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lab::{Host, Lab};
use traffic::Port;
use trial::{Direction, End, Frames, Method, Modifiers, Pair, Plan, Test, Tester, Times, html_page, run};

/// The router's MAC addresses.
const MACS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:01:02"];
/// What the token bucket lets through, in frames of 60 bytes (a frame of 64 without its check
/// sequence) a second.
const BUCKET: f64 = 10e6 / 8.0 / 60.0;

/// Two hosts with a router between them, which Linux is; the hosts behind both are reached by a
/// neighbour that is known.
fn network(name: &str) -> (Lab, Host, Tester) {
    let lab = Lab::new(name).unwrap();
    let (from, router, to) =
        (lab.host("from").unwrap(), lab.router("router").unwrap(), lab.host("to").unwrap());
    lab.link(from.end("veth0"), router.end("north").address("10.1.0.1/24").mac(MACS[0])).unwrap();
    lab.link(to.end("veth1"), router.end("south").address("10.2.0.1/24").mac(MACS[1])).unwrap();
    for (interface, neighbour, mac, hosts) in [
        ("north", "10.1.0.2", from.mac("veth0").unwrap(), "198.18.0.0/16"),
        ("south", "10.2.0.2", to.mac("veth1").unwrap(), "198.19.0.0/16"),
    ] {
        router.run(&format!("ip neigh replace {neighbour} lladdr {mac} dev {interface}")).unwrap();
        router.run(&format!("ip route replace {hosts} via {neighbour}")).unwrap();
    }
    router.run("tc qdisc add dev south root tbf rate 10mbit burst 6kb limit 6kb").unwrap();
    let end = |host: &Host, port: &str, mac: &str, hosts: &str| End {
        port: Port::open(&format!("{port}@{}", host.namespace()), false).unwrap(),
        hosts: hosts.parse().unwrap(),
        device_mac: Some(mac.parse().unwrap()),
    };
    let pair = Pair {
        from: end(&from, "veth0", MACS[0], "198.18.0.0/16"),
        to: end(&to, "veth1", MACS[1], "198.19.0.0/16"),
    };
    let mut tester = Tester::new("Linux", vec![pair], 100e6, Arc::new(AtomicBool::new(false)));
    tester.flows = 100;
    (lab, router, tester)
}

fn plan(tests: &[Test]) -> Plan {
    Plan {
        tests: tests.to_vec(),
        frames: vec![Frames::fixed(64)],
        direction: Direction::OneWay,
        method: Method::Rfc { seconds: 0.3, width: 0.2 },
        times: Times {
            latency: 0.2,
            latency_repetitions: 1,
            latency_loads: vec![0.5],
            loss: 0.2,
            reset: 2.0,
            ..Plan::short(0.2).times
        },
        ..Plan::short(0.2)
    }
}

#[test]
fn a_token_bucket_lets_through_what_it_should() {
    let (_lab, _router, mut tester) = network("trl1");
    let plan = plan(&[Test::Throughput, Test::Latency, Test::Loss]);
    let report = run(&mut tester, &plan, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
    // The bucket holds 100 frames and its queue some hundreds, which a trial of 0.3 s has beside
    // its share. On a busy machine less is carried, but never more.
    let rate = report.throughput[0].rate().unwrap();
    assert!(rate < 1.3 * BUCKET, "{rate} frames/s, not {BUCKET}; {:?}", report.notes);
    let full = report.loss[0].points[0];
    assert!(full.loss > 0.7 && full.forwarded < 1.3 * BUCKET, "{full:?}");
    assert!(report.latency[0].latency.mean > 1_000.0, "{:?}", report.latency);
    assert!(html_page(&[report]).html().contains("Throughput against line rate"));
}

#[test]
fn a_reset_takes_as_long_as_nothing_is_forwarded() {
    let (_lab, router, mut tester) = network("trl2");
    let namespace = router.namespace();
    let forward = |on: u8| format!("ip netns exec {namespace} sysctl -qw net.ipv4.ip_forward={on}");
    tester.commands.reset = Some(format!("{}; sleep 0.5; {}", forward(0), forward(1)));
    let report = run(&mut tester, &plan(&[Test::Reset]), None, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let reset = &report.reset[0];
    // A busy machine may be late with the commands.
    assert!((0.4..1.9).contains(&reset.by_loss), "{reset:?}");
}

#[test]
fn what_no_command_does_is_left_out() {
    let (_lab, _router, mut tester) = network("trl3");
    let modifiers = Modifiers { filters: 25, ..Modifiers::default() };
    let plan = Plan { modifiers, ..plan(&[Test::Loss]) };
    let report = run(&mut tester, &plan, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(
        report.loss.is_empty() && report.notes[0].text.contains("no command was given"),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_trial_whose_link_goes_down_is_none() {
    let (_lab, router, mut tester) = network("trl4");
    let plan = Plan { times: Times { loss: 2.0, ..Plan::short(0.2).times }, ..plan(&[Test::Loss]) };
    let cut = std::thread::spawn(move || {
        // In the middle of the trial: it is under way.
        while router.interface_number("south", "statistics/tx_packets").unwrap() < 1000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        router.run("ip link set south down").unwrap();
    });
    let error = run(&mut tester, &plan, None, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    cut.join().unwrap();
    let error = error.to_string();
    assert!(error.contains("no carrier") && error.contains("does not count"), "{error}");
}

#[test]
fn a_device_that_dies_with_its_links_up_is_no_loss() {
    let (_lab, router, mut tester) = network("trl5");
    let plan = Plan { times: Times { loss: 2.0, ..Plan::short(0.2).times }, ..plan(&[Test::Loss]) };
    let killed = router.clone();
    let kill = std::thread::spawn(move || {
        while killed.interface_number("south", "statistics/tx_packets").unwrap() < 1000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        killed.run("ip route replace blackhole 198.19.0.0/16").unwrap();
    });
    let from = tester.pairs[0].from.port.name().to_owned();
    let mut run = |plan: &Plan| run(&mut tester, plan, None, &AtomicBool::new(false), &mut |_| {});
    let error = run(&plan).unwrap_err().to_string();
    kill.join().unwrap();
    assert!(error.contains("nothing came back from") && error.contains("does not count"), "{error}");
    // Nor is one that is dead from the start.
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("not one frame came back") && error.contains("addresses right"), "{error}");
    // One that carries small frames alone lives.
    router.run("ip route replace 198.19.0.0/16 via 10.2.0.2").unwrap();
    router
        .run(
            "nft 'table ip big { chain big { type filter hook forward priority 0; ip length 1500 drop; }; }'",
        )
        .unwrap();
    let times = Times { loss: 0.2, ..plan.times.clone() };
    let report = run(&Plan { frames: vec![Frames::fixed(1518)], times, ..plan.clone() }).unwrap();
    assert_eq!(report.loss[0].points[0].loss, 1.0, "{:?}", report.loss);
    assert!(
        report.notes.iter().any(|note| note.text.contains("though small ones did")),
        "{:?}",
        report.notes
    );
    // One way alone is dead: it is said which.
    router.run("nft delete table ip big; ip route replace blackhole 198.18.0.0/16").unwrap();
    let error = run(&Plan { direction: Direction::Both, ..plan }).unwrap_err().to_string();
    assert!(error.contains(&format!("not one frame came back by {from}, nor")), "{error}");
}
