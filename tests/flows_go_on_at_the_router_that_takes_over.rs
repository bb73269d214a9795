//! Two routers with one address between them, a stateful filter and address translation share their
//! flows. The active one is killed: some hundred connections go on by the other one, whoever speaks
//! first then, and with the address that they had outside. Who comes back has them again before it
//! takes over. (The network of `redundant.rs`.)

use std::time::Duration;

use lab::{Host, Process, Router, wait_for};
use serde_json::Value;

use crate::network::STATEFUL;
use crate::redundant::{Pair, SERVER, becomes, config};

const TRANSLATION: &str = r#"
[[nat.rule]]
name = "home"
type = "source"
out = "right"
source = "10.1.0.0/24"
pool = "10.2.0.1"
"#;

const CONNECTIONS: u64 = 300;

/// To every second connection it speaks by itself, to the others when it is asked.
const SERVE: &str = r#"
import selectors, socket, time
listening = socket.create_server(("", 8000), backlog=1000)
listening.setblocking(False)
waiting = selectors.DefaultSelector()
waiting.register(listening, selectors.EVENT_READ)
speaking, due = [], time.monotonic()
while True:
    for key, _ in waiting.select(0.05):
        if key.fileobj is listening:
            peer, _ = listening.accept()
            peer.setblocking(False)
            waiting.register(peer, selectors.EVENT_READ, "new")
            continue
        peer = key.fileobj
        said = peer.recv(4096)
        if not said:
            print("an end", flush=True)
            waiting.unregister(peer)
        elif said == b"speak\n":
            waiting.unregister(peer)
            speaking.append(peer)
        else:
            peer.sendall(said)
    if time.monotonic() > due:
        due = time.monotonic() + 0.2
        for peer in speaking:
            try:
                peer.sendall(b"x")
            except BlockingIOError:
                pass
"#;

/// Many connections; a round is over when something has come by every one of them.
const TALK: &str = r#"
import socket, sys, time
many = []
for n in range(int(sys.argv[2])):
    many.append(socket.create_connection((sys.argv[1], 8000), 10))
    if n % 2:
        many[n].sendall(b"speak\n")
print("all are open", flush=True)
for round in range(100_000):
    for n, one in enumerate(many):
        if n % 2 == 0:
            one.sendall(b"%d\n" % round)
    for n, one in enumerate(many):
        one.settimeout(30)
        said = one.recv(4096)
        assert said and (n % 2 or said == b"%d\n" % round), (n, said)
    print("round", round, flush=True)
    time.sleep(0.1)
"#;

fn python(host: &Host, script: &str, arguments: &[&str]) -> Process {
    let mut command = host.command("python3");
    command.args(["-c", script]).args(arguments);
    host.spawn("python", command).unwrap()
}

fn of(own: u8, lines: &str) -> String {
    let [listen, peer] = [own, 5 - own].map(|last| format!("10.1.0.{last}"));
    let key = "0123456789abcdef".repeat(4);
    let lines = format!("interval = \"20ms\"\ntrack = [{{ flows = \"shared\" }}]\n{lines}");
    let sharing = format!("[sharing]\nlisten = \"{listen}\"\npeer = \"{peer}\"\nkey = \"{key}\"\n");
    config(&lines) + &sharing + STATEFUL + TRANSLATION
}

fn sharing(router: &Router) -> Value {
    router.show("sharing").unwrap()
}

fn shares(router: &Router, key: &str, least: u64) {
    wait_for(&format!("{key} to be {least}"), Duration::from_secs(15), || {
        let status = sharing(router);
        match status["state"] == "shared" && status[key].as_u64().is_some_and(|flows| flows >= least) {
            true => Ok(()),
            false => Err(format!("{status:#}\n{}", router.log())),
        }
    })
    .unwrap();
}

fn go_on(talk: &mut Process, routers: &[&Router]) {
    let rounds = |talk: &Process| talk.output().lines().filter(|line| line.starts_with("round")).count();
    let before = rounds(talk);
    wait_for("all connections to go on", Duration::from_secs(20), || {
        let ended = talk.ended().is_some();
        match rounds(talk) {
            now if now >= before + 4 => Ok(()),
            now if !ended => Err(format!("{now} rounds after {before}")),
            _ => Err(format!("it ended: {}", talk.output())),
        }
    })
    .unwrap_or_else(|error| {
        let all: Vec<String> = routers.iter().map(|it| format!("{:#}\n{}", sharing(it), it.log())).collect();
        panic!("{error}\n{}", all.join("\n"))
    });
}

#[test]
fn and_come_back() {
    let net = Pair::new("shared-flows");
    let mut one = Router::start(&net.one, &of(2, "priority = 200")).unwrap();
    if !one.is_bifrost() {
        return;
    }
    let two = Router::start(&net.two, &of(3, "priority = 100")).unwrap();
    becomes(&one, "left", "active");
    becomes(&two, "left", "backup");
    net.customer.reaches(SERVER, Duration::from_secs(10)).unwrap();
    let server = python(&net.server, SERVE, &[]);
    net.server.listens(8000).unwrap();
    let mut talk = python(&net.customer, TALK, &[SERVER, &CONNECTIONS.to_string()]);
    wait_for("all to be open", Duration::from_secs(20), || match talk.output().contains("all are open") {
        true => Ok(()),
        false => Err(talk.output()),
    })
    .unwrap();
    go_on(&mut talk, &[&one, &two]);
    shares(&two, "held", CONNECTIONS);

    one.kill_nine();
    becomes(&two, "left", "active");
    go_on(&mut talk, &[&two]);
    wait_for("the loss of the other to be told", Duration::from_secs(5), || {
        let status = sharing(&two);
        (status["state"] == "silent").then_some(()).ok_or(format!("{status:#}"))
    })
    .unwrap();
    assert!(two.log().contains("nothing is heard of 10.1.0.2"), "{}", two.log());

    // Without what it wrote down.
    std::fs::remove_file(net.one.folder().join("control.flows")).unwrap();
    one.restart().unwrap();
    becomes(&one, "left", "active");
    go_on(&mut talk, &[&one, &two]);
    shares(&one, "told", CONNECTIONS);
    shares(&two, "held", CONNECTIONS);
    assert!(!server.output().contains("an end"), "{}", server.output());
    let dropped = sharing(&one)["dropped"].clone();
    assert!(dropped.as_object().unwrap().values().all(|number| *number == 0), "{dropped}");
}
