//! A NIC with more receive queues than there are workers: one worker serves them all, and a
//! masquerade loses no connection, whichever queues its two directions come in by. Where the
//! operator allows one queue only, and packets cannot be kept off the others, such a port stays
//! with Linux and says why. (The network of `network.rs`, with several queues each way.)

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::network::{Line, ports};

const NAT: &str = r#"
[flow]
memory = 16
[[nat.rule]]
name = "home"
type = "masquerade"
out = "right"
source = "10.1.0.0/24"
"#;

const CONNECTIONS: usize = 200;

/// The network, in which the server has no way back to the customer's addresses.
fn network(config: &str, queues: u32) -> Option<Line> {
    let mut net = Line::made("served", config, 1500, queues);
    if !net.router.is_bifrost() {
        return None;
    }
    net.server.run("ip route del default").unwrap();
    net.router.restart().unwrap();
    net.customer.reaches("10.2.0.2", Duration::from_secs(10)).unwrap();
    Some(net)
}

/// How many of many connections bring back what was sent by them.
fn connections_that_live(net: &Line) -> usize {
    let server: SocketAddr = "10.2.0.2:7000".parse().unwrap();
    let listener = net.server.inside(move || TcpListener::bind(server).unwrap()).unwrap().join().unwrap();
    // Ends with the last caller's goodbye, a connection of one byte.
    let echo = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut word) = (stream.unwrap(), [0; 8]);
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            match stream.read(&mut word) {
                Ok(1) => return,
                Ok(length) => stream.write_all(&word[..length]).unwrap_or(()),
                Err(_) => {}
            }
        }
    });
    let speak = move || {
        let exchange = |number: usize| -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&server, Duration::from_millis(900))?;
            stream.set_read_timeout(Some(Duration::from_millis(900)))?;
            let (sent, mut came) = ((number as u64).to_be_bytes(), [0; 8]);
            stream.write_all(&sent)?;
            stream.read_exact(&mut came)?;
            Ok(sent == came)
        };
        (0..CONNECTIONS).filter(|number| exchange(*number).unwrap_or(false)).count()
    };
    let living = net.customer.inside(speak).unwrap().join().unwrap();
    let goodbye = move || TcpStream::connect(server).unwrap().write_all(b"!").unwrap();
    net.server.inside(goodbye).unwrap().join().unwrap();
    echo.join().unwrap();
    living
}

#[test]
fn by_the_workers_that_there_are() {
    for (lane, queues) in [("worker", 4), ("auto", 4), ("worker", 2), ("auto", 2)] {
        let Some(net) = network(&(ports(lane, &["left", "right"]) + NAT), queues) else { return };
        let living = connections_that_live(&net);
        let shown = net.router.ask("show ports").unwrap();
        assert_eq!(living, CONNECTIONS, "{lane} lane, {queues} queues: {shown}");
        for port in net.router.subject("ports").unwrap().as_array().unwrap() {
            let workers: Vec<_> =
                port["queues"].as_array().unwrap().iter().map(|queue| queue["worker"].as_u64()).collect();
            assert_eq!(workers, vec![Some(0); queues as usize], "{port}");
        }
        // Who answered the first calls is resolved by Linux, nothing else is its.
        let (express, worker) = net.lanes();
        assert!(
            express + worker >= 8 * CONNECTIONS as u64,
            "{express} in the driver, {worker} by the worker"
        );
    }
}

#[test]
fn or_the_port_is_linuxs_where_flows_would_break() {
    let one = ports("worker", &["left", "right"]).replace("lane =", "queues = 1\nlane =");
    let Some(mut net) = network(&(one.clone() + NAT), 4) else { return };
    assert_eq!(connections_that_live(&net), CONNECTIONS, "{}", net.router.ask("show ports").unwrap());
    let shown = net.router.subject("ports").unwrap();
    for port in shown.as_array().unwrap() {
        let why = port["mode_reason"].as_str().unwrap_or_default();
        assert!(why.contains("3 of 4 receive queues") && why.contains("ethtool -L"), "{port}");
    }
    // Without flows, what the other queues bring may as well be Linux's. (Mappings outlive a
    // reload, so it takes a start.)
    net.router.configure(&one).unwrap();
    net.router.restart().unwrap();
    lab::wait_for("the ports to be taken", Duration::from_secs(15), || {
        let shown = net.router.subject("ports").unwrap();
        match shown.as_array().unwrap().iter().all(|port| port["lane"] == "worker") {
            true => Ok(()),
            false => Err(shown.to_string()),
        }
    })
    .unwrap();
}
