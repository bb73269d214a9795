//! The driver forwards what it has room to know. Flows of more verdicts than it can hold are
//! forwarded by workers, none of their packets lost; with the flow table full of flows that are
//! wanted, these stay offloaded, new ones are refused and counted, and have room again when others
//! have fallen silent. (The network of `network.rs`.)

use std::net::UdpSocket;
use std::time::Duration;

use lab::{Sink, wait_for};

use crate::network::{Line, ports};

/// The server's port, and the customer's, each with a rule of its own.
const SINK: u16 = 9000;
const PORTS: std::ops::Range<u16> = 20_000..23_000;
const ROUNDS: u64 = 5;

#[test]
fn with_more_verdicts_than_the_driver_knows() {
    let rules: String = PORTS.map(|port| format!("accept udp from any port {port}\n")).collect();
    let config = ports("auto", &["left", "right"])
        + &format!(
            "[flow]\nmemory = 16\n[filter.forward]\npolicy = \"drop\"\nrules = '''\naccept icmp\naccept icmpv6\n{rules}'''\n"
        );
    let net = Line::stopped("verdicts", &config);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let sink = Sink::start(&net.server, SINK).unwrap();
    let before = net.lanes();
    let send = move || {
        for _ in 0..ROUNDS {
            for port in PORTS {
                let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
                socket.send_to(b"as the rule says", ("10.2.0.2", SINK)).unwrap();
                if port % 8 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    };
    net.customer.inside(send).unwrap().join().unwrap();
    let flows = PORTS.len() as u64;
    sink.has_received(ROUNDS * flows, Duration::from_secs(5)).unwrap();
    let after = net.lanes();
    let [offloaded, worker] = [after.0 - before.0, after.1 - before.1];
    println!("{offloaded} offloaded, {worker} by workers");
    // The first packet of each is a worker's; of 3000 verdicts the driver knows 2048 at most.
    assert!(
        offloaded > (ROUNDS - 1) * 1800 && offloaded <= (ROUNDS - 1) * 2048,
        "{offloaded} offloaded, {worker} by workers"
    );
    assert!(worker >= flows + (ROUNDS - 1) * (flows - 2048), "{offloaded} offloaded, {worker} by workers");
    let filter = net.router.subject("filter").unwrap();
    let forward = filter.as_array().unwrap().iter().find(|chain| chain["chain"] == "forward").unwrap();
    for rule in forward["rules"].as_array().unwrap().iter().skip(2) {
        assert_eq!(rule["packets"], ROUNDS, "{rule}");
    }
}

/// Ports of the server that send back what comes; the customer has so many sockets.
const ECHOES: std::ops::Range<u16> = 10_000..10_200;
const SOCKETS: usize = 120;

/// Sends a datagram from each socket to each port, several times, and waits for the answers, not
/// long for each; how many came. `word` tells these datagrams from others.
fn exchange(sockets: &[UdpSocket], times: u8, patience: u64, word: u8) -> usize {
    let mut came = 0;
    for socket in sockets {
        socket.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
        for time in 0..times {
            for port in ECHOES {
                socket.send_to(&[word, time], ("10.2.0.2", port)).unwrap();
            }
            let (mut here, mut datagram) = (0, [0; 16]);
            while here < ECHOES.len()
                && let Ok(length) = socket.recv(&mut datagram)
            {
                here += usize::from(datagram[..length] == [word, time]);
            }
            came += here;
        }
    }
    came
}

#[test]
fn with_a_table_that_is_full() {
    let config = ports("auto", &["left", "right"])
        + "[flow]\nmemory = 4\n[flow.timeouts]\npressed = \"20s\"\n[filter.forward]\nrules = '''
accept state established,related
drop state invalid
accept in left state new
drop'''\n";
    let net = Line::stopped("full", &config);
    if !net.router.is_bifrost() {
        return;
    }
    let net = net.started();
    let echo = || ECHOES.map(|port| UdpSocket::bind(("0.0.0.0", port)).unwrap()).collect::<Vec<_>>();
    for socket in net.server.inside(echo).unwrap().join().unwrap() {
        std::thread::spawn(move || {
            let mut datagram = [0; 16];
            while let Ok((length, from)) = socket.recv_from(&mut datagram) {
                let _the_test_may_be_over = socket.send_to(&datagram[..length], from);
            }
        });
    }
    let open = || (0..SOCKETS + 1).map(|_| UdpSocket::bind(("0.0.0.0", 0)).unwrap()).collect::<Vec<_>>();
    let mut sockets = net.customer.inside(open).unwrap().join().unwrap();
    let late = [sockets.pop().unwrap()];
    let table = || net.router.show("flows --top 1").unwrap()["table"].clone();
    let capacity = table()["capacity"].as_u64().unwrap() as usize;
    let wanted = SOCKETS * ECHOES.len();
    assert!(wanted > capacity * 5 / 4, "more flows than room: {capacity}");

    // Twice each, so that both sides want them; those that come late find no room.
    let answers = exchange(&sockets, 2, 60, 1);
    let shown = table();
    println!("{answers} answers for {wanted} flows: {shown}");
    assert!(
        answers < 2 * wanted && shown["size"].as_u64().unwrap() as usize > capacity * 95 / 100,
        "{shown}"
    );
    assert!(shown["overflow"].as_u64().unwrap() > 100, "{shown}");
    let drops = net.router.subject("drops").unwrap();
    let full = drops.as_array().unwrap().iter().find(|drop| drop["reason"] == "flows_full");
    assert!(full.is_some_and(|drop| drop["packets"].as_u64().unwrap() > 100), "{drops}");

    // Those that are known stay offloaded, whoever finds no room beside them.
    let before = net.lanes();
    let first = &sockets[..SOCKETS / 4];
    assert_eq!(exchange(first, 1, 2000, 2), first.len() * ECHOES.len());
    let after = net.lanes();
    let [offloaded, worker] = [after.0 - before.0, after.1 - before.1];
    assert!(
        offloaded >= 2 * (first.len() * ECHOES.len()) as u64 && worker < offloaded / 20,
        "{offloaded}, {worker}"
    );

    // What has been silent for long enough makes room.
    let mut word = 2;
    wait_for("room for another", Duration::from_secs(60), || {
        word += 1;
        match exchange(&late, 1, 200, word) {
            all if all == ECHOES.len() => Ok(()),
            some => Err(format!("{some} answers")),
        }
    })
    .unwrap();
}
