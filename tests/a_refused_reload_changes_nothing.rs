//! A reload that is refused leaves all as it was: ports, rules, what stands at hooks, the copy that
//! Linux has. Refused is also what an editor has written by half, and what is no file at all. (The
//! network of `network.rs`.)

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Ping, Router};

use crate::network::{Line, SERVER, ports};

/// A sound configuration with everything that a reload can change.
fn sound() -> String {
    ports("worker", &["left", "right"])
        + r#"
[graph]
forward = "input -> c :: Counter -> output"
[filter.forward]
policy = "drop"
rules = """
accept proto icmp name ping
accept proto icmpv6 name ping6
"""
"#
}

/// What a reload could have changed. Counters of packets go on, so they are left out.
fn state(router: &Router) -> [String; 4] {
    let ports = router.subject("ports").unwrap();
    let ports: Vec<String> =
        ports.as_array().unwrap().iter().map(|port| format!("{} {}", port["name"], port["state"])).collect();
    let filter = router.subject("filter").unwrap();
    let rules = |chain: &serde_json::Value| {
        let rules = chain["rules"].as_array().into_iter().flatten();
        format!("{} {:?}", chain["policy"], rules.map(|rule| rule["text"].clone()).collect::<Vec<_>>())
    };
    let filter: Vec<String> = filter.as_array().unwrap().iter().map(rules).collect();
    let graph = router.show("graph").unwrap();
    let graph: Vec<String> =
        graph.as_array().unwrap().iter().map(|node| format!("{} {}", node["name"], node["class"])).collect();
    let linux = router.host().run("nft -s list table inet bifrost").unwrap();
    [ports.join("\n"), filter.join("\n"), graph.join("\n"), linux]
}

/// What is wrong, and what it makes of the sound file.
fn wrong() -> Vec<(&'static str, String)> {
    let sound = sound();
    let other = sound.replace("accept proto icmp name", "accept proto tcp name");
    assert_ne!(other, sound);
    vec![
        ("an empty file", String::new()),
        ("a comment alone", "# to be written\n".to_owned()),
        ("a rule that is none", sound.replace("accept proto icmp name", "acept proto icmp name")),
        (
            "other rules, and an element that cannot begin",
            other.replace("c :: Counter", "Tee -> c :: Counter; FromDump(/no/such/file) -> Discard; c"),
        ),
        (
            "other rules, and a flow log where none can be",
            other + "[flow_log.files]\ndirectory = \"/proc/flows\"\n",
        ),
    ]
}

#[test]
fn whatever_is_wrong() {
    let net = Line::stopped("refused", &sound()).started();
    if !net.router.is_bifrost() {
        return;
    }
    let before = state(&net.router);
    let ping = Ping::start(&net.customer, SERVER[0], Duration::from_millis(10)).unwrap();
    for (what, file) in wrong() {
        net.router.configure(&file).unwrap();
        let said = net.router.ask("reload").expect_err(what).to_string();
        assert!(said.contains("stays as it is"), "{what}: {said}");
        let after = state(&net.router);
        assert_eq!(before, after, "{what}");
    }
    let ping = ping.stop();
    assert!(ping.lost() == 0, "{ping:?}");
    // The sound file is taken after all that.
    net.router.configure(&sound()).unwrap();
    net.router.ask("reload").unwrap();
    assert_eq!(before, state(&net.router));
}

#[test]
fn when_an_editor_writes_in_place() {
    let net = Line::stopped("editor", &sound()).started();
    if !net.router.is_bifrost() {
        return;
    }
    let before = state(&net.router);
    let path = net.router.host().folder().join("router.toml");
    let text = fs::read_to_string(&path).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let editor = {
        let (path, over) = (path.clone(), over.clone());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // Cut off, then written a line at a time.
                fs::write(&path, "").unwrap();
                thread::sleep(Duration::from_millis(20));
                for lines in 1..=text.lines().count() {
                    let part: String = text.lines().take(lines).map(|line| format!("{line}\n")).collect();
                    fs::write(&path, part).unwrap();
                    thread::sleep(Duration::from_millis(2));
                }
                thread::sleep(Duration::from_millis(300));
            }
        })
    };
    for _ in 0..20 {
        net.router.ask("reload").unwrap();
        assert_eq!(before, state(&net.router));
    }
    over.store(true, Ordering::Relaxed);
    editor.join().unwrap();
}

#[test]
fn when_the_file_is_a_pipe() {
    let mut net = Line::stopped("pipe", &sound()).started();
    if !net.router.is_bifrost() {
        return;
    }
    let folder = net.router.host().folder().to_owned();
    fs::remove_file(folder.join("router.toml")).unwrap();
    net.router.host().run(&format!("mkfifo {}/router.toml", folder.display())).unwrap();
    let began = Instant::now();
    let said = net.router.ask("reload").unwrap_err().to_string();
    assert!(said.contains("not a regular file"), "{said}");
    let pid = net.router.process().unwrap().pid();
    net.router.host().run(&format!("kill -HUP {pid}")).unwrap();
    net.router.subject("ports").unwrap();
    net.reachable();
    net.router.stop().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
