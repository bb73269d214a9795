//! SYNs of random sources, many times as many as the flow table has room for: connections that are
//! open go on, busy or idle, none of their flows is evicted, the table keeps to its memory and says
//! what it evicted; half-open flows are gone in their time, and with them the ports that
//! translation gave them.
//!
//! ```text
//!    flooder --- 10.3.0.0/24 --- router          (198.18.0.0/15 behind the flooder)
//!   customer --- 10.1.0.0/24 ---   ''   --- 10.2.0.0/24 --- server     (and nobody at .3)
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use lab::{Iperf, wait_for};
use serde_json::Value;

use crate::network::{Line, ports};

const POLICY: &str = r#"
[flow]
memory = 8

[flow.timeouts]
tcp_opening = "5s"

[filter.forward]
rules = '''
accept state established,related
drop state invalid
accept tcp state new
accept icmp state new
drop
'''
"#;

const NAT: &str = r#"
[[nat.rule]]
name = "all"
type = "masquerade"
out = "right"
source = ["10.1.0.0/24", "198.18.0.0/15"]
"#;

/// Connections that nobody sends anything by meanwhile.
const IDLE: usize = 50;
/// SYNs a second, and for how many seconds.
const RATE: u64 = 40_000;
const SECONDS: u64 = 8;
/// Megabits a second of the transfer each way.
const MEGABITS: u32 = 20;

/// Opens the connections; both ends of each.
fn idle(net: &Line) -> Vec<[TcpStream; 2]> {
    let listener = net.server.inside(|| TcpListener::bind("10.2.0.2:7000")).unwrap().join().unwrap().unwrap();
    let open = move || (0..IDLE).map(|_| TcpStream::connect("10.2.0.2:7000").unwrap()).collect::<Vec<_>>();
    let near = net.customer.inside(open).unwrap().join().unwrap();
    near.into_iter().map(|near| [near, listener.accept().unwrap().0]).collect()
}

/// Says a word by every connection, both ways.
fn talk(connections: &mut [[TcpStream; 2]]) {
    for (number, pair) in connections.iter_mut().enumerate() {
        for way in 0..2 {
            let mut word = [0; 4];
            pair[way].write_all(b"word").unwrap();
            pair[1 - way].set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            pair[1 - way]
                .read_exact(&mut word)
                .unwrap_or_else(|e| panic!("connection {number}, way {way}: {e}"));
            assert_eq!(&word, b"word");
        }
    }
}

/// What the table counts.
fn table(net: &Line) -> Value {
    net.router.show("flows --top 1").unwrap()["table"].clone()
}

/// Flows that one end of has this port or address.
fn matching(net: &Line, which: &str) -> Vec<Value> {
    net.router.show(&format!("flows {which} --top 1000")).unwrap()["flows"].as_array().unwrap().clone()
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"))
}

#[test]
fn carried_or_translated() {
    for (lane, nat) in [("auto", ""), ("worker", NAT)] {
        under_a_flood(lane, nat);
    }
}

fn under_a_flood(lane: &str, nat: &str) {
    let config = ports(lane, &["left", "right", "flood"]) + POLICY + nat;
    let net = Line::stopped("syns", &config);
    if !net.router.is_bifrost() {
        return;
    }
    let flooder = net.lab.host("flooder").unwrap();
    net.lab
        .link(
            net.router.host().end("flood").address("10.3.0.1/24"),
            flooder.end("eth0").address("10.3.0.2/24"),
        )
        .unwrap();
    let server = net.server.mac("eth0").unwrap();
    let gateway = net.router.host().mac("flood").unwrap();
    net.router
        .host()
        .run(&format!(
            "ip route add 198.18.0.0/15 via 10.3.0.2; ip neighbour replace 10.2.0.3 lladdr {server} dev right nud permanent"
        ))
        .unwrap();
    let mut net = net;
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();

    let mut connections = idle(&net);
    talk(&mut connections);
    let mut transfers = [
        Iperf::start(&net.customer, &net.server, "10.2.0.2", 5201, MEGABITS).unwrap(),
        Iperf::start(&net.server, &net.customer, "10.1.0.2", 5202, MEGABITS).unwrap(),
    ];
    let seconds = |transfers: &[Iperf; 2], count: usize| {
        wait_for("the transfers", Duration::from_secs(30), || {
            match transfers.iter().map(|t| t.megabits().len()).min() {
                Some(n) if n >= count => Ok(n),
                n => Err(format!("{n:?} seconds")),
            }
        })
        .unwrap()
    };
    let begun = seconds(&transfers, 2);
    let before = table(&net);
    let known: Vec<Value> = matching(&net, "--port 7000 --host 10.2.0.2");
    assert_eq!(known.iter().filter(|flow| flow["phase"] == "open").count(), IDLE, "{known:?}");

    let (rate, time) = (format!("{RATE}pps"), format!("{SECONDS}s"));
    let mut flood = flooder
        .generate(
            &[
                &["eth0", "--no-stamp", "--rate", &rate, "--duration", &time, "--flows", "400000"][..],
                &[
                    "--destination-mac",
                    &gateway,
                    "--destination",
                    "10.2.0.3",
                    "--source",
                    "random 198.18.0.0/15",
                ],
                &["--protocol", "tcp", "--tcp-flags", "SYN", "--source-port", "random 1024-65535"],
            ]
            .concat(),
        )
        .unwrap();
    let mut largest = 0;
    while flood.ended().is_none() {
        let now = table(&net);
        largest = largest.max(number(&now, "size"));
        assert!(number(&now, "size") <= number(&now, "capacity"), "{now}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let after = table(&net);
    let came = |name: &str| number(&after, name) - number(&before, name);
    println!(
        "{lane}: {} new, {} evicted, {} found no room, {largest} at most; {}",
        came("new"),
        came("gc_passive"),
        came("overflow"),
        flood.output()
    );
    seconds(&transfers, begun + SECONDS as usize + 1);

    // Many more than there is room for, and it was the half-open ones that made room.
    assert!(number(&after, "capacity") * 119 <= 8 << 20 && number(&after, "memory") <= 8 << 20, "{after}");
    assert!(came("new") > 4 * number(&after, "capacity"), "that was no flood: {after}");
    assert!(came("gc_passive") > came("new") / 2, "{after}");
    assert!(came("overflow") < came("new") / 4, "most find room: {after}");
    assert!(came("gc_active") < 10, "{after}");

    // Who was connected is, and on the same flows.
    talk(&mut connections);
    let still = matching(&net, "--port 7000 --host 10.2.0.2");
    let age = |flow: &Value| flow["age_seconds"].as_f64().unwrap();
    assert_eq!(still.len(), IDLE, "{still:?}");
    assert!(still.iter().all(|flow| flow["phase"] == "open" && age(flow) > SECONDS as f64), "{still:?}");
    for transfer in &mut transfers {
        assert!(transfer.lives());
        let seen = transfer.megabits();
        let during = &seen[begun..];
        let mean = during.iter().sum::<f64>() / during.len() as f64;
        assert!(mean > 0.8 * f64::from(MEGABITS) && during.iter().all(|second| *second > 1.0), "{seen:?}");
    }

    // What was half open is gone when its time is over, and nothing is left of it.
    wait_for("half-open flows to go", Duration::from_secs(15), || {
        match matching(&net, "--host 10.2.0.3").len() {
            0 => Ok(()),
            left => Err(format!("{left} or more")),
        }
    })
    .unwrap();
    let late = table(&net);
    assert!(number(&late, "size") < 100 + IDLE as u64, "{late}");
    assert!(number(&late, "gc_timed") > number(&after, "capacity") / 2, "{late}");
    if !nat.is_empty() {
        wait_for("their ports to be given back", Duration::from_secs(60), || {
            let shown = net.router.subject("nat").map_err(|error| error.to_string())?;
            match number(&shown, "mappings") {
                few if few < 100 + IDLE as u64 => Ok(()),
                many => Err(format!("{many} mappings")),
            }
        })
        .unwrap();
    }
    assert!(net.router.process().is_some_and(|daemon| daemon.ended().is_none()), "{}", net.router.log());
    let line = net.router.ask("rtstat --interval 1 --count 1").unwrap();
    assert!(line.contains("passive") && line.contains("overflow"), "{line}");
}
