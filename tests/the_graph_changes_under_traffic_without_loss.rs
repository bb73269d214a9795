//! What stands at the hooks of the graph changes while packets pass: none is lost, and an element
//! that stays keeps what it knows. (The network of `network.rs`.)

use std::time::Duration;

use lab::{Flows, Ping, Sink, wait_for};

use crate::network::{Line, SERVER, at, ports};

/// A router.toml with these hooks.
fn config(hooks: &[(&str, &str)]) -> String {
    let lines: String = hooks.iter().map(|(hook, body)| format!("{hook} = '''{body}'''\n")).collect();
    ports("worker", &["left", "right"]) + "[graph]\n" + &lines
}

const COUNTED: &str = "input -> c :: Counter -> output";
const QUEUED: &str = "input -> q :: Queue(1000) -> u :: Unqueue -> output";

/// What stands at the hooks, change by change. The counter stays throughout, and so does the queue:
/// packets in one that goes would have no way to go on.
const CHANGES: &[&[(&str, &str)]] = &[
    &[("forward", COUNTED), ("postrouting", QUEUED)],
    &[("forward", COUNTED), ("postrouting", QUEUED), ("prerouting", "input -> Null -> Null -> output")],
    &[
        ("forward", "input -> Paint(3) -> c :: Counter -> Null -> output"),
        ("postrouting", "input -> Counter -> q :: Queue(1000) -> u :: Unqueue(BURST 8) -> output"),
        ("punt", "input -> Counter -> output"),
    ],
    &[
        ("forward", "input -> t :: Tee -> c :: Counter -> output; t[1] -> Discard"),
        ("postrouting", "input -> q :: Queue(2000) -> u :: Unqueue -> Null -> output"),
    ],
    &[
        ("forward", "input -> t :: Tee -> c :: Counter -> output; t[1] -> Discard"),
        ("postrouting", "input -> q :: Queue(2000) -> u :: Unqueue -> Null -> output"),
        ("prerouting", "input -> n :: Counter -> output"),
    ],
];

/// A hook with a mistake, and words that are said of it: where, with the place marked, and what was
/// meant.
const WRONG: &[(&str, &str, &[&str])] = &[
    (
        "forward",
        "\ninput -> c :: Counter\n  -> Conter -> output",
        &["[graph] forward:2:6: error:", "-> Conter -> output", "^^^^^^", "Counter"],
    ),
    ("prerouting", "input -> Paint(300) -> output", &["[graph] prerouting:1:", "Paint", "^"]),
    // Right by itself, and wrong where it stands.
    ("postrouting", "input -> Queue -> output", &["out/Queue@1", "put an Unqueue between", "^"]),
];

fn count(net: &Line) -> u64 {
    net.router.ask("read forward4/c.count").unwrap().trim().parse().unwrap()
}

#[test]
fn and_what_stays_goes_on_counting() {
    let net = Line::stopped("graph", &config(CHANGES[0]));
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let ping = Ping::start(&net.customer, SERVER[1], Duration::from_millis(5)).unwrap();
    let sink = Sink::start(&net.server, 9000).unwrap();
    let mut before = count(&net);
    let first = before;
    let flows = Flows::start(&net.customer, vec![at(SERVER[0], 9000)], 16, 64, 3000).unwrap();
    for round in 0..3 {
        for hooks in CHANGES {
            net.router.configure(&config(hooks)).unwrap();
            let done = net.router.ask("reload").unwrap();
            assert!(done.contains("read again"), "{done}");
            // It counts on, from where it was.
            let now = wait_for("the counter to go on", Duration::from_secs(2), || match count(&net) {
                now if now > before => Ok(now),
                now => Err(format!("round {round}: {now} after {before}")),
            });
            before = now.unwrap();
        }
    }
    let sent = flows.stop();
    sink.has_received(sent, Duration::from_secs(2)).unwrap_or_else(|e| panic!("{e} of {sent}"));
    assert_eq!(count(&net) - first, sent, "each datagram was counted, once");
    let ping = ping.stop();
    assert_eq!(ping.lost(), 0, "{ping:?}");

    let graph = net.router.ask("show graph").unwrap();
    for element in ["forward4/c", "forward6/c", "prerouting4/n", "out/q", "Queue"] {
        assert!(graph.contains(element), "{element}: {graph}");
    }
    // Nothing stands there any more, and nothing is left of it.
    net.router.configure(&config(&[])).unwrap();
    net.router.ask("reload").unwrap();
    let refused = net.router.ask("read forward4/c.count").unwrap_err().to_string();
    assert!(refused.contains("no element named 'forward4/c'"), "{refused}");
    net.reachable();
}

#[test]
fn a_wrong_text_is_refused_with_its_place_and_the_old_graph_runs_on() {
    let mut net = Line::stopped("graph", &config(CHANGES[0]));
    if !net.router.is_bifrost() {
        return;
    }
    net = net.started();
    let sink = Sink::start(&net.server, 9000).unwrap();
    let first = count(&net);
    let flows = Flows::start(&net.customer, vec![at(SERVER[0], 9000)], 16, 64, 2000).unwrap();
    for (hook, body, words) in WRONG {
        // What is right beside it does not take effect either.
        let forward = if *hook == "forward" { *body } else { "input -> output" };
        let others = [("forward", forward), (*hook, *body)];
        let others = &others[..if *hook == "forward" { 1 } else { 2 }];
        net.router.configure(&config(others)).unwrap();
        let refused = net.router.ask("reload").unwrap_err().to_string();
        for word in *words {
            assert!(refused.contains(word), "{hook}: the message lacks '{word}': {refused}");
        }
    }
    // The signal does the same, and the log says it.
    let process = net.router.process().unwrap().pid();
    net.router.host().run(&format!("kill -HUP {process}")).unwrap();
    wait_for("the refusal in the log", Duration::from_secs(2), || {
        let log = net.router.log();
        if log.contains("the configuration stays as it is") { Ok(()) } else { Err(log) }
    })
    .unwrap();
    let sent = flows.stop();
    sink.has_received(sent, Duration::from_secs(2)).unwrap_or_else(|e| panic!("{e} of {sent}"));
    assert_eq!(count(&net) - first, sent);

    // Put right, the signal is enough.
    net.router
        .configure(&config(&[("forward", COUNTED), ("prerouting", "input -> p :: Counter -> output")]))
        .unwrap();
    net.router.host().run(&format!("kill -HUP {process}")).unwrap();
    wait_for("the change", Duration::from_secs(2), || {
        net.router.ask("read prerouting4/p.count").map(drop).map_err(|error| error.to_string())
    })
    .unwrap();
    assert_eq!(count(&net) - first, sent, "and the counter is still the same one");
}
