//! A commit or reload that breaks a sentence of `[expect]` is refused, with a packet of which
//! `explain` says the same; forced, it is in the history. What it does to flows that live is told
//! before, and is what then happens to them. (The network of `network.rs`.)

use std::fs;
use std::time::Duration;

use lab::Ping;
use serde_json::Value;

use crate::network::{Line, SERVER, ports};

const EXPECT: &str = r#"
[expect]
sentences = """
  ping of 10.1.0.0/24 in left reaches me
  10.2.0.2 tcp 443 in left is forwarded
  nothing of 10.1.0.0/24 > 10.9.0.0/16 is forwarded   # a block that leads nowhere
  198.51.100.7 tcp 80 from 10.1.0.2 in left is forwarded
"""
"#;

fn with(rules: &str) -> String {
    let nat = "[[nat.rule]]\nname = \"web\"\ntype = \"destination\"\nin = \"left\"\nprotocol = \"tcp\"\nports = \"80\"\n\
               destination = \"198.51.100.7\"\nto = [\"10.2.0.2:8080\"]\n";
    ports("worker", &["left", "right"])
        + "[flow]\nmemory = 16\n[filter.forward]\nrules = '''\n"
        + rules
        + "\n'''\n"
        + nat
        + EXPECT
}

fn when(is: bool) -> Result<(), String> {
    if is { Ok(()) } else { Err("not yet".to_owned()) }
}

#[test]
fn unless_it_is_forced() {
    let net = Line::stopped("expect", &with("accept state established,related")).started();
    if !net.router.is_bifrost() {
        return;
    }
    let router = &net.router;
    router.host().run("ip route add blackhole 10.9.0.0/16").unwrap();
    lab::wait_for("the route is heard", Duration::from_secs(5), || {
        when(router.ask("show routes 10.9.0.1").is_ok_and(|said| said.contains("blackhole")))
    })
    .unwrap();
    let holds = || -> Vec<Value> {
        let all: Value = serde_json::from_str(&router.ask("show expect --json").unwrap()).unwrap();
        all.as_array().unwrap().iter().map(|one| one["holds"].clone()).collect()
    };
    assert_eq!(holds(), vec![Value::Bool(true); 4], "{}", router.ask("show expect").unwrap());

    // Where it really goes decides: behind the port forward.
    let file = router.host().folder().join("router.toml");
    let sound = fs::read_to_string(&file).unwrap();
    let broken = "drop tcp to 10.2.0.2 port 8080 name mapped\naccept state established,related";
    for (command, undo) in [("reload", false), ("reload --dry-run", true), ("commit --check", true)] {
        router.configure(&with(broken)).unwrap();
        let said = router.ask(command).expect_err(command).to_string();
        for words in [
            "stays as it is",
            "\"198.51.100.7 tcp 80 from 10.1.0.2 in left is forwarded\"",
            "packet: 10.1.0.2 > 198.51.100.7 tcp 40000:80 in left",
            "rule web leads it to 10.2.0.2:8080; dropped by rule mapped",
        ] {
            assert!(said.contains(words), "{command}: {words} is not in {said}");
        }
        if undo {
            fs::write(&file, &sound).unwrap();
        }
    }
    assert_eq!(holds(), vec![Value::Bool(true); 4]);
    // The packet that was shown is one of which `explain` says the same.
    router.configure(&with(broken)).unwrap();
    let said = router.ask("commit --force").unwrap();
    assert!(said.contains("which is forced") && said.contains("is in force"), "{said}");
    let explained = router.ask("explain '10.1.0.2 > 198.51.100.7 tcp 40000:80 in left'").unwrap();
    assert!(explained.contains("dropped by rule mapped"), "{explained}");
    let history: Value = serde_json::from_str(&router.ask("history --json").unwrap()).unwrap();
    let breaks = &history["revisions"][0]["breaks"];
    assert_eq!(breaks[0], "198.51.100.7 tcp 80 from 10.1.0.2 in left is forwarded", "{history}");
    assert_eq!(holds()[3], Value::Bool(false));
    router.ask("rollback").unwrap();
    // A route decides too.
    router.host().run("ip route del blackhole 10.9.0.0/16; ip route add 10.9.0.0/16 via 10.2.0.2").unwrap();
    lab::wait_for("the sentence is broken by a route", Duration::from_secs(5), || {
        when(holds()[2] == Value::Bool(false))
    })
    .unwrap();

    // What is broken anyhow keeps nobody from a change; and flows that live are told of.
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(20)).unwrap();
    lab::wait_for("the flow lives", Duration::from_secs(5), || {
        when(router.ask("show flows --proto icmp").is_ok_and(|said| said.contains(SERVER[0])))
    })
    .unwrap();
    router.configure(&with("drop icmp name quiet\naccept state established,related")).unwrap();
    let said = router.ask("commit --check").unwrap();
    assert!(
        said.contains("does not hold, as it does not now")
            && said.contains("would be dropped\n  ")
            && said.contains(" by rule quiet "),
        "{said}"
    );
    let said = router.ask("commit").unwrap();
    assert!(said.contains(" by rule quiet "), "{said}");
    std::thread::sleep(Duration::from_millis(300));
    assert!(ping.stop().lost() > 0, "the flow is dropped as it was told");
}
