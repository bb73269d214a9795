//! The flow log before real hosts: what passed is found again with its bytes, among the flows that
//! live, in files and at a collector; also when the router was killed. (The network of
//! `network.rs`; the collector is the server.)

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use lab::wait_for;
use serde_json::Value;

use crate::network::{Line, ports};

/// The flow table is swept in 4 seconds, and a record waits for a second before it is written.
const PATIENCE: Duration = Duration::from_secs(20);

/// What `bifrost flows` says of TCP with this port on the other side.
fn logged(net: &Line, port: u16, options: &str) -> Vec<Value> {
    let said = net.router.ask(&format!("flows --proto tcp --dport {port} {options} --json")).unwrap();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A connection on which the customer sends so many bytes and the server as many back, each closing
/// its side.
fn talk(net: &Line, port: u16, bytes: usize) {
    let server = format!(
        "import socket; s = socket.create_server(('10.2.0.2', {port})); c, _ = s.accept(); n = 0
while n < {bytes}: n += len(c.recv(65536))
c.sendall(bytes({bytes})); c.close()"
    );
    let mut command = net.server.command("python3");
    command.args(["-c", &server]);
    let mut server = net.server.spawn(&format!("server-{port}"), command).unwrap();
    net.server.listens(port).unwrap();
    let client = format!(
        "import socket; c = socket.create_connection(('10.2.0.2', {port}), 5); c.sendall(bytes({bytes}))
while c.recv(65536): pass"
    );
    let mut command = net.customer.command("python3");
    command.args(["-c", &client]);
    let mut client = net.customer.spawn(&format!("client-{port}"), command).unwrap();
    assert!(client.wait(PATIENCE).unwrap().success(), "{}", client.output());
    server.wait(PATIENCE).unwrap();
}

/// The record of an ended connection on which so many bytes went each way: these, and headers.
fn is_whole(record: &Value, bytes: u64) -> Result<(), String> {
    for side in ["bytes", "reply_bytes"] {
        let counted = record[side].as_u64().unwrap_or(0);
        if !(bytes..bytes + bytes / 10 + 1000).contains(&counted) {
            return Err(format!("{side} is {counted}, of {bytes} sent: {record}"));
        }
    }
    Ok(())
}

/// Takes half of what comes, says so, and takes the rest.
const TAKE: &str = r#"
import socket
c, _ = socket.create_server(("10.2.0.2", 8006)).accept()
n = 0
while n < 400_000:
    n += len(c.recv(65536))
    if n == 200_000: print("half", flush=True)
"#;

/// Gives half, and the rest when there is a file.
const GIVE: &str = r#"
import os, socket, sys, time
c = socket.create_connection(("10.2.0.2", 8006), 5)
c.sendall(bytes(200_000))
while not os.path.exists(sys.argv[1]): time.sleep(0.1)
c.sendall(bytes(200_000))
"#;

#[test]
fn and_survive_a_crash() {
    let folder = std::env::temp_dir().join(format!("bifrost-flows-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let directory = folder.join("log");
    let config = |more: &str| {
        ports("worker", &["left", "right"])
            + &format!(
                "[flow]\nmemory = 16\n[flow.timeouts]\ntcp_finished = \"1s\"\nicmp = \"2s\"\n[flow_log.files]\ndirectory = \"{}\"\n\
                 [[flow_log.collector]]\naddress = \"10.2.0.2:4739\"\n{more}",
                directory.display()
            )
    };
    let net = Line::stopped("flow-log", &config(""));
    if !net.router.is_bifrost() {
        return;
    }
    let collected = net.server.folder().join("nfcapd");
    std::fs::create_dir_all(&collected).unwrap();
    let mut nfcapd = net.server.command("nfcapd");
    nfcapd.args(["-b", "10.2.0.2", "-p", "4739", "-t", "3600", "-w"]).arg(&collected);
    let mut nfcapd = net.server.spawn("nfcapd", nfcapd).unwrap();
    let mut net = net.started();

    // A connection that ended, and one that lives.
    talk(&net, 8001, 1_000_000);
    wait_for("the connection in the log", PATIENCE, || match &logged(&net, 8001, "--no-live")[..] {
        [record] => is_whole(record, 1_000_000).map(|()| record.clone()),
        other => Err(format!("{other:?}")),
    })
    .map(|record| {
        assert_eq!((&record["src_addr"], &record["dst_addr"]), (&"10.1.0.2".into(), &"10.2.0.2".into()));
        assert_eq!((&record["in_if_name"], &record["out_if_name"]), (&"left".into(), &"right".into()));
        assert_eq!(record["end_reason"], "end");
    })
    .unwrap();
    let mut sleeper = net.server.command("python3");
    sleeper.args(["-m", "http.server", "--bind", "10.2.0.2", "8002"]);
    let _sleeper = net.server.spawn("sleeper", sleeper).unwrap();
    net.server.listens(8002).unwrap();
    let mut caller = net.customer.command("python3");
    caller.args([
        "-c",
        "import socket, time; c = socket.create_connection(('10.2.0.2', 8002)); time.sleep(60)",
    ]);
    let _caller = net.customer.spawn("caller", caller).unwrap();
    wait_for("the living connection", PATIENCE, || match &logged(&net, 8002, "")[..] {
        [record] if record["end_reason"].is_null() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    assert!(logged(&net, 8002, "--no-live").is_empty(), "it has not ended");
    let top = net.router.ask("flows --since 1h --host 10.2.0.2 --port 8001 --top 20 --by dst,bytes").unwrap();
    assert!(top.contains("10.2.0.2"), "{top}");

    // What there is to be counted is counted.
    let status = net.router.show("flowlog").unwrap();
    let of = |name: &str| status[name].as_u64().unwrap();
    assert!(of("offered") > 0 && of("missed") + of("lost") + of("unsampled") == 0, "{status}");
    let outputs = status["outputs"].as_array().unwrap();
    assert!(
        outputs.len() == 3 && outputs.iter().all(|output| output["lost"] == serde_json::json!({})),
        "{status}"
    );
    assert!(net.router.ask("show flowlog").unwrap().contains("ipfix udp 10.2.0.2:4739"));

    // Killed: what was in the journal is there, with the router and without it.
    talk(&net, 8003, 300_000);
    let in_files = |net: &Line| match &logged(net, 8003, "--no-live")[..] {
        [record] => is_whole(record, 300_000),
        other => Err(format!("{other:?}")),
    };
    wait_for("the journal", PATIENCE, || in_files(&net)).unwrap();
    // And a connection that outlives the router.
    let go_on = net.customer.folder().join("go-on");
    let mut pauses = net.server.command("python3");
    pauses.args(["-c", TAKE]);
    let mut pauses = net.server.spawn("pauses", pauses).unwrap();
    net.server.listens(8006).unwrap();
    let mut caller = net.customer.command("python3");
    caller.args(["-c", GIVE]).arg(&go_on);
    let _giving = net.customer.spawn("giving", caller).unwrap();
    wait_for("the first half", PATIENCE, || match pauses.output().contains("half") {
        true => Ok(()),
        false => Err(pauses.output()),
    })
    .unwrap();
    // All flows are written down every ten seconds.
    let state = net.router.host().folder().join("control.flows");
    let written = || std::fs::metadata(&state).map(|file| file.ino()).ok();
    let before = written();
    wait_for("what it has counted to be written down", PATIENCE, || match written() {
        now if now != before => Ok(()),
        now => Err(format!("{now:?}")),
    })
    .unwrap();
    net.router.kill_nine();
    let alone = format!("flows --proto tcp --dport 8003 --json --dir {}", directory.display());
    assert_eq!(net.router.ask(&alone).unwrap().lines().count(), 1, "without the router");
    net.router.restart().unwrap();
    wait_for("the log after the crash", PATIENCE, || in_files(&net)).unwrap();
    std::fs::write(&go_on, "").unwrap();
    assert!(pauses.wait(PATIENCE).unwrap().success(), "{}", pauses.output());
    wait_for("all that went both before and after the crash", PATIENCE, || {
        match &logged(&net, 8006, "--no-live")[..] {
            [record] if record["bytes"].as_u64() >= Some(400_000) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .unwrap();
    assert_eq!(logged(&net, 8001, "--no-live").len(), 1);

    // The collector has them as well.
    net.reachable();
    talk(&net, 8004, 200_000);
    wait_for("the connection after the crash", PATIENCE, || match &logged(&net, 8004, "--no-live")[..] {
        [record] => is_whole(record, 200_000),
        other => Err(format!("{other:?}")),
    })
    .unwrap();

    // A changed plan takes effect, a wrong one changes nothing.
    net.router.configure(&config("queue = 1")).unwrap();
    let wrong = net.router.ask("reload").unwrap_err().to_string();
    assert!(wrong.contains("collector[0].queue") && wrong.contains('^'), "{wrong}");
    net.router
        .configure(&config("[[flow_log.collector]]\naddress = \"10.2.0.2:9995\"\nprotocol = \"netflow9\"\n"))
        .unwrap();
    net.router.ask("reload").unwrap();
    let status = net.router.show("flowlog").unwrap();
    assert_eq!(status["outputs"].as_array().unwrap().len(), 4, "{status}");

    // The end of the router is the end of its flows, for the log.
    talk(&net, 8005, 100_000);
    net.router.stop().unwrap();
    let said = net.router.ask(&alone.replace("8003", "8005")).unwrap();
    let last: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(last.len(), 1, "{said}");
    is_whole(&last[0], 100_000).unwrap();
    let journals = std::fs::read_dir(&directory).unwrap();
    let parquet =
        journals.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "parquet"));
    assert!(parquet.count() >= 2, "one of before the crash, one of after it");
    std::fs::remove_dir_all(&folder).unwrap();

    nfcapd.stop(PATIENCE).unwrap();
    let read = format!(
        "nfdump -R {} -q -N -o 'fmt:%dp %byt %pkt' 'proto tcp and dst ip 10.2.0.2'",
        collected.display()
    );
    let flows = net.server.run(&read).unwrap();
    let bytes = |port: &str| -> u64 {
        let lines = flows.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let of_port = lines.filter(|words| words.first() == Some(&port));
        of_port.map(|words| words[1].parse::<u64>().unwrap_or(0)).sum()
    };
    // What was under way to it when the router was killed may be lost to it, and only to it.
    for (port, sent) in [("8001", 1_000_000), ("8004", 200_000)] {
        assert!(
            (sent..sent + sent / 10 + 1000).contains(&bytes(port)),
            "{port}: {} of {sent}: {flows}",
            bytes(port)
        );
    }
}
