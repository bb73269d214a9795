//! What the program prints, run as an operator runs it.

mod rig;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rig::{Fake, Rig, bifrost, directory, text};

/// Compares with a file in `tests/expected/`; with BLESS=1 in the environment it writes the file
/// instead.
fn expect(name: &str, said: &str) {
    let path = format!("{}/tests/expected/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(path, said).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(said == expected, "{name} is otherwise:\n{said}\n-- expected:\n{expected}");
}

fn ok(rig: &Rig, args: &[&str]) -> String {
    let output = rig.run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// What is shown, as text and as JSON.
const SUBJECTS: [&str; 23] = [
    "ports",
    "interfaces",
    "neighbours",
    "drops",
    "workers",
    "graph",
    "flows",
    "expect",
    "filter",
    "nat",
    "classifier",
    "config",
    "mirror",
    "mirror-port",
    "redundancy",
    "sharing",
    "discovery",
    "bfd",
    "repairs",
    "flowlog",
    "api",
    "version",
    "routes",
];

#[test]
fn every_subject_is_shown_as_a_table() {
    let rig = Rig::start("show", Fake { routes: 3, ..Fake::default() });
    // Rates need two samples of the same counters, and are then zero.
    for subject in SUBJECTS {
        expect(&format!("show-{subject}.txt"), &ok(&rig, &["show", subject]));
    }
}

#[test]
fn ports_are_shown_by_name() {
    let rig = Rig::start("ports", Fake::default());
    let shown = |args: &[&str]| {
        let json: Vec<serde_json::Value> = serde_json::from_str(&ok(&rig, args)).unwrap();
        json.iter().map(|port| port["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&["show", "ports", "eth1", "--json"]), ["eth1"]);
    assert_eq!(shown(&["sh", "po", "eth*", "--json"]), ["eth0", "eth1"]);
    assert!(shown(&["show", "ports", "wlan*", "--json"]).is_empty());
    let said = ok(&rig, &["show", "ports", "eth1"]);
    assert!(said.contains("\neth1 ") && !said.contains("\neth0 "), "{said}");
    let refused = rig.run(&["show", "ports", "eht1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(text(&refused.stderr), "bifrost: no port is called eht1; there are: eth0 eth1\n");
}

#[test]
fn what_was_done_is_said_as_json() {
    let rig = Rig::start("done", Fake::default());
    let said = |args: &[&str]| -> serde_json::Value { serde_json::from_str(&ok(&rig, args)).unwrap() };
    assert!(said(&["clear", "flows", "--all", "--json"])["ended"].is_u64());
    let sample = said(&["top", "--json", "--seconds", "0"]);
    assert!(sample["ports"].is_array(), "{sample}");
    let file = directory("check-json").join("router.toml");
    std::fs::write(&file, "[[port]]\nname = \"lo\"\n[workers]\ncores = [0]\n").unwrap();
    let path = file.to_str().unwrap();
    for args in [&["check", path, "--json"][..], &["run", "-c", path, "--check", "--json"]] {
        let report = said(args);
        assert_eq!(report["ports"], serde_json::json!([{ "name": "lo", "interfaces": ["lo"] }]));
        assert_eq!((&report["file"], &report["worker_cores"]), (&path.into(), &serde_json::json!([0])));
        assert_eq!(report["warnings"], serde_json::json!([]));
    }
}

#[test]
fn a_daemon_restarts_by_its_name() {
    let rig = Rig::start("restart", Fake::default());
    assert_eq!(ok(&rig, &["restart", "dns"]), "unbound has restarted; its cache is empty then\n");
    let done: serde_json::Value = serde_json::from_str(&ok(&rig, &["restart", "dns", "--json"])).unwrap();
    assert_eq!(done, serde_json::json!({ "done": "unbound has restarted; its cache is empty then" }));
    let refused = rig.run(&["restart", "dhcp"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        text(&refused.stderr),
        "bifrost: the file has no service \"dhcp\"; what can restart: dns, frr\n"
    );
}

#[test]
fn configurations_are_committed_compared_and_shown() {
    let rig = Rig::start("commit", Fake::default());
    let file = rig.directory.join("new.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[[port]]\nname = \"lo\"\n").unwrap();
    let said = ok(&rig, &["commit", path, "--confirmed", "5", "--comment", "why"]);
    let (effects, done) = said.split_once('\n').unwrap();
    assert_eq!(effects, "[police]: other limits");
    assert!(done.contains("revision 8") && done.contains("name = ") && done.contains("Some(300)"), "{done}");
    assert_eq!(ok(&rig, &["commit", "--check"]), "[police]: other limits\n");
    assert!(ok(&rig, &["rollback", "7", "--confirmed", "90s"]).contains("Revision(7) Some(90)"));
    assert!(ok(&rig, &["rollback"]).contains("Before None"));
    assert_eq!(ok(&rig, &["confirm"]), "revision 8 stays\n");
    for wrong in [&["commit", "--confirmed", "0"][..], &["commit", "--confirmed", "soon"], &["rollback", "x"]]
    {
        assert_eq!(rig.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let missing = rig.run(&["commit", "/nowhere/router.toml"]);
    assert!(text(&missing.stderr).contains("/nowhere/router.toml: cannot read it"), "{missing:?}");

    let shown = ok(&rig, &["history"]);
    for words in
        ["revision 8 is in force\n", "in 1m 30s, unless", "was changed since", "root (alice)  192.0.2.7"]
    {
        assert!(shown.contains(words), "{words} is not in {shown}");
    }
    let diff = ok(&rig, &["compare", "7", path]);
    // A name with quotation marks stands in such, as diff(1) writes it.
    assert!(diff.starts_with("--- Revision(7)\n+++ \"File {"), "{diff}");
    assert!(diff.contains("\n-icmp = { rate = 100, ") && diff.contains("\n+icmp = { rate = 200, "), "{diff}");
    assert!(ok(&rig, &["compare"]).starts_with("--- Running\n+++ Disk\n"));
    assert!(ok(&rig, &["compare", "disk"]).starts_with("--- Running\n+++ Disk\n"));
    let document = include_str!("../../../docs/json.md");
    for words in
        [&["history", "--json"][..], &["compare", "--json"], &["commit", "--json"], &["confirm", "--json"]]
    {
        document_names(words[0], &serde_json::from_str(&ok(&rig, words)).unwrap(), document);
    }
}

#[test]
fn the_graph_is_drawn() {
    let rig = Rig::start("draw", Fake::default());
    expect("show-graph.dot", &ok(&rig, &["show", "graph", "--dot"]));
    let drawing = ok(&rig, &["show", "graph", "--svg"]);
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{drawing}");
    for part in
        ["check4 [0] -&gt; [0] lookup4\nok", "lookup4 :: Lookup4(TABLE main)", ">CheckIpHeader4</text>"]
    {
        assert!(drawing.contains(part), "{part} is not in {drawing}");
    }
}

#[test]
fn every_subject_is_shown_as_json_with_stable_names() {
    let rig = Rig::start("json", Fake { routes: 3, ..Fake::default() });
    let document = include_str!("../../../docs/json.md");
    for subject in SUBJECTS {
        let said = ok(&rig, &["show", subject, "--json"]);
        let value: serde_json::Value = serde_json::from_str(&said).unwrap();
        document_names(subject, &value, document);
        // What was sampled differs from run to run in the derived figures only, which are zero
        // here.
        expect(&format!("show-{subject}.json"), &said);
    }
}

/// Every name in the JSON is in the document.
fn document_names(subject: &str, value: &serde_json::Value, document: &str) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                let number = name.parse::<u8>().is_ok();
                assert!(
                    number || document.contains(&format!("`{name}`")),
                    "{subject}: {name} is not in docs/json.md"
                );
                document_names(subject, value, document);
            }
        }
        serde_json::Value::Array(list) => {
            list.iter().for_each(|value| document_names(subject, value, document))
        }
        _ => {}
    }
}

#[test]
fn flows_are_found_in_files_and_among_those_that_live() {
    let files = directory("flow-files");
    let rig = Rig::start("flow-log", Fake { flow_files: files.clone(), ..Fake::default() });
    let lines = |args: &[&str]| ok(&rig, args).lines().map(str::to_owned).collect::<Vec<_>>();
    let all = lines(&["flows", "--json"]);
    assert_eq!(all.len(), 2, "{all:?}");
    let one = lines(&["flows", "--port", "443", "--json"]);
    let flow: serde_json::Value = serde_json::from_str(&one[0]).unwrap();
    assert_eq!((one.len(), &flow["dst_port"], &flow["reply_bytes"]), (1, &443.into(), &20_000.into()));
    assert!(lines(&["flows", "--no-live", "--json"]).is_empty());
    let sums = lines(&["flows", "--by", "dst,bytes", "--csv"]);
    assert!(sums.len() == 2 && sums[1].contains("203.0.113.7") && sums[1].contains("42000"), "{sums:?}");

    // Without a daemon files are all, and one is told so.
    let alone =
        bifrost(&["--socket", "/nowhere/socket", "flows", "--dir", files.to_str().unwrap(), "--json"]);
    assert!(alone.status.success() && alone.stdout.is_empty());
    assert!(text(&alone.stderr).contains("only what files have"), "{}", text(&alone.stderr));
    let garbage = files.join("flows-20200101T000000.000000Z.parquet");
    std::fs::write(&garbage, "no flows").unwrap();
    let lacking = rig.run(&["flows", "--json", garbage.to_str().unwrap()]);
    assert_eq!(lacking.status.code(), Some(1), "the answer lacks what the file has");
    assert!(text(&lacking.stderr).contains("flows-20200101"), "{}", text(&lacking.stderr));
    std::fs::remove_file(garbage).unwrap();
    let missing = rig.run(&["flows", "/nowhere/flows.parquet"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nowhere/flows.parquet"), "{}", text(&missing.stderr));
    let wrong = rig.run(&["flows", "--since", "2h", "--until", "3h"]);
    assert_eq!(wrong.status.code(), Some(1));
    std::fs::remove_dir_all(files).unwrap();
}

#[test]
fn flows_are_ended_by_what_they_are() {
    let rig = Rig::start("clear", Fake::default());
    for (asked, as_json) in [
        (&["--all"][..], r#"{"order":"rate"}"#),
        (
            &["--host", "198.18.0.9", "--port", "443", "--proto", "tcp"],
            r#"{"host":"198.18.0.9/32","port":443,"protocol":6,"order":"rate"}"#,
        ),
    ] {
        let said = ok(&rig, &[&["clear", "flows"], asked].concat());
        assert_eq!(said, format!("{} flows ended\n", as_json.len()));
    }
}

#[test]
fn routes_are_found_by_prefix_and_by_address() {
    let rig = Rig::start("routes", Fake { routes: 5_000, ..Fake::default() });
    assert_eq!(ok(&rig, &["show", "routes"]).lines().count(), 5_000);
    assert_eq!(ok(&rig, &["show", "routes", "10.0.1.0/24"]).lines().count(), 256);
    assert_eq!(ok(&rig, &["show", "routes", "--limit", "7"]).lines().count(), 7);
    assert!(ok(&rig, &["show", "routes", "10.0.0.9"]).starts_with("10.0.0.9/32"));
    let list: Vec<serde_json::Value> =
        serde_json::from_str(&ok(&rig, &["show", "routes", "--json"])).unwrap();
    assert_eq!(list.len(), 5_000);
    assert_eq!(ok(&rig, &["show", "routes", "192.0.2.0/24", "--json"]), "[]\n");

    let output = rig.run(&["show", "routes", "192.0.2.1"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), "bifrost: no route to 192.0.2.1\n"));
    let output = rig.run(&["show", "routes", "10.0.0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("expected a prefix such as 10.0.0.0/8, or an address"));
}

#[test]
fn explain_says_each_step() {
    let rig = Rig::start("explain", Fake::default());
    let question = "198.18.0.9 > 203.0.113.7 udp 53 in eth0";
    expect("explain.txt", &ok(&rig, &["explain", question]));
    let words: Vec<&str> = [&["explain"], &question.split(' ').collect::<Vec<_>>()[..]].concat();
    assert_eq!(ok(&rig, &words), ok(&rig, &["explain", question]), "with or without quotes");
    expect("explain.json", &ok(&rig, &["explain", question, "--json"]));

    let output = rig.run(&["explain", "198.18.0.9 > 203.0.113.300"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "bifrost: \"203.0.113.300\" is not a destination: an address, a prefix or \"any\"\n  \
         198.18.0.9 > 203.0.113.300\n               ^^^^^^^^^^^^^\n"
    );
    let output = rig.run(&["explain", "198.18.0.9 > 203.0.113.7 in eth9"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "bifrost: eth9 is not a port of Bifrost: ports are eth0, eth1\n");
}

#[test]
fn trace_follows_packets() {
    let rig = Rig::start("follow", Fake::default());
    expect("trace.txt", &ok(&rig, &["trace", "udp 53", "--count", "2"]));
    let lines = ok(&rig, &["trace", "--json", "--count", "2"]);
    assert_eq!(lines.lines().count(), 4);
    for line in lines.lines() {
        document_names("trace", &serde_json::from_str(line).unwrap(), include_str!("../../../docs/json.md"));
    }
    assert_eq!(rig.run(&["trace", "in", "eth9"]).status.code(), Some(1));
    assert_eq!(rig.run(&["trace", "udpp"]).status.code(), Some(2));
}

#[test]
fn a_capture_opens_in_wireshark() {
    let rig = Rig::start("capture", Fake::default());
    let file = rig.directory.join("a.pcapng");
    let args = ["capture", "udp 53", "-w", file.to_str().unwrap(), "--count", "4", "--at", "lookup4"];
    let output = rig.run(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), format!("4 packets written to {}\n", file.display()));
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "ip.src",
        "ip.checksum.status",
        "udp.dstport",
        "frame.comment",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args(["-o", "ip.check_checksum:TRUE", "-T", "fields", "-r"]).arg(&file);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("tshark is installed");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "1700000000.000000001\teth1\t198.18.0.9\t1\t53\tat lookup4\n\
         1700000000.000000002\teth0\t198.18.0.9\t1\t53\tat lookup4\n\
         1700000000.000000003\teth1\t198.18.0.9\t1\t53\tat lookup4\n\
         1700000000.000000004\teth0\t198.18.0.9\t1\t53\tat lookup4\n"
    );
    let request = rig.fake.captured.lock().unwrap().clone().unwrap();
    assert_eq!(
        (request.filter.to_string(), request.at.as_deref(), request.snap),
        ("udp 53".into(), Some("lookup4"), 65_535)
    );
}

#[test]
fn a_capture_flows_through_a_pipe_and_ends_on_ctrl_c() {
    let rig = Rig::start("pipe", Fake::default());
    let mut capture = Command::new(env!("CARGO_BIN_EXE_bifrost"))
        .args(["--socket", rig.socket().to_str().unwrap(), "capture", "-w", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = capture.stdout.take().unwrap();
    let mut header = [0; 200];
    out.read_exact(&mut header).unwrap(); // packets arrive while it runs
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(capture.id() as i32), nix::sys::signal::SIGINT)
        .unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let output = capture.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("packets written to -"), "{}", text(&output.stderr));
    assert_eq!((header.len() + rest.len()) % 4, 0, "whole blocks");
}

#[test]
fn a_capture_that_is_refused_makes_no_file() {
    let rig = Rig::start("nofile", Fake::default());
    let file = rig.directory.join("a.pcapng");
    let output = rig.run(&["capture", "-w", file.to_str().unwrap(), "--at", "nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "bifrost: there is no element \"nowhere\"; see `bifrost show graph`\n");
    assert!(!file.exists());
}

#[test]
fn top_prints_lines_where_there_is_no_terminal() {
    let rig = Rig::start("top", Fake::default());
    let began = Instant::now();
    let said = ok(&rig, &["top", "--interval", "0.2", "--seconds", "1"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert!((4..=8).contains(&said.lines().count()), "{said}");
    assert!(
        said.lines().all(|line| line.contains("routes 250,010") && line.contains("express 0 %")),
        "{said}"
    );
}

#[test]
fn top_gives_the_terminal_back() {
    let rig = Rig::start("terminal", Fake::default());
    let pid = rig.directory.join("pid");
    let program =
        format!("{} --socket {} top --seconds 30", env!("CARGO_BIN_EXE_bifrost"), rig.socket().display());
    let command = format!(
        "stty rows 30 cols 110; sh -c 'echo $$ > {}; exec {program}'; echo back; stty -a",
        pid.display()
    );
    for (how, keys) in [("a key", Some("q")), ("ctrl-c", Some("\u{3}")), ("a signal", None)] {
        // script(1) gives it a terminal, and writes all that it prints to its own output.
        let mut script = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1) is installed");
        let (mut stdin, mut stdout) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let mut said = Vec::new();
        read_until(&mut stdout, &mut said, "eth0");
        match keys {
            Some(keys) => stdin.write_all(keys.as_bytes()).unwrap(),
            None => {
                let pid = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGTERM).unwrap();
            }
        }
        read_until(&mut stdout, &mut said, "flusho");
        drop(stdin);
        stdout.read_to_end(&mut said).unwrap();
        script.wait().unwrap();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("\u{1b}[?1049l"), "{how}: the alternate screen is left: {said}");
        let after = said.rsplit("\u{1b}[?1049l").next().unwrap();
        assert!(
            after.contains("back") && after.contains(" echo ") && after.contains(" icanon"),
            "{how}: {after}"
        );
    }
}

/// Reads on until a word has been said, or all has.
fn read_until(from: &mut impl Read, said: &mut Vec<u8>, word: &str) {
    let mut bytes = [0; 4096];
    while !String::from_utf8_lossy(said).contains(word) {
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(read) => said.extend(&bytes[..read]),
        }
    }
}

#[test]
fn without_a_daemon_it_says_what_to_do() {
    let directory = directory("none");
    let socket = directory.join("control.sock");
    let output = bifrost(&["--socket", socket.to_str().unwrap(), "show", "ports"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        format!(
            "bifrost: Bifrost is not running: nothing answers on {}\n  start it with `bifrost run` or `systemctl start \
             bifrost`, or say where it listens with --socket\n",
            socket.display()
        )
    );
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn without_permission_it_says_whose_the_socket_is() {
    let rig = Rig::start("permission", Fake::default());
    std::fs::set_permissions(&rig.directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .args([env!("CARGO_BIN_EXE_bifrost"), "--socket", rig.socket().to_str().unwrap(), "show", "ports"])
        .output()
        .expect("setpriv(1) is installed");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("you may not use") && said.contains("(root:root, mode 660)"), "{said}");
    assert!(said.contains("join its group"), "{said}");
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let rig = Rig::start("head", Fake { routes: 200_000, ..Fake::default() });
    let mut show = Command::new(env!("CARGO_BIN_EXE_bifrost"))
        .args(["--socket", rig.socket().to_str().unwrap(), "show", "routes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(show.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("10.0.0.0/32"));
    let output = show.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_wrong_file_is_refused_and_a_sound_one_explained() {
    let directory = directory("check");
    let file = directory.join("router.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[[port]]\nname = \"lo\"\nlane = \"expres\"\n").unwrap();
    let message = format!(
        "bifrost: {path}:3:8: lane cannot be \"expres\"\n  |\n3 | lane = \"expres\"\n  |        ^^^^^^^^\n  = expected: \
         \"auto\", \"express\" or \"worker\"\n  = perhaps meant: \"express\"\n\n1 mistake; nothing was changed\n"
    );
    for args in [&["check", path][..], &["run", "-c", path], &["run", "-c", path, "--check"]] {
        let output = bifrost(args);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), message.as_str()), "{args:?}");
    }
    std::fs::write(&file, "[[port]]\nname = \"lo\"\n[[port]]\nname = \"nothing*\"\n[workers]\ncores = [0]\n")
        .unwrap();
    for args in [&["check", path][..], &["run", "-c", path, "--check"]] {
        let output = bifrost(args);
        assert!(output.status.success());
        assert_eq!(
            text(&output.stdout),
            format!(
                "{path}: no mistakes\nport lo: lo\nport nothing*: no such interface now\nworkers on cores: 0\n"
            )
        );
    }
    std::fs::write(&file, b"[log]\nlevel = \"inf\xff\"\n").unwrap();
    assert!(text(&bifrost(&["check", path]).stderr).contains(":2:13: this is not text in UTF-8"));
    let output = bifrost(&["check", directory.join("none.toml").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("none.toml: cannot read it: No such file"));
    std::fs::write(&file, "").unwrap();
    for args in [&["check", path][..], &["run", "-c", path], &["run", "-c", path, "--check"]] {
        let output = bifrost(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output.stderr).contains("it names no port"), "{}", text(&output.stderr));
    }
    std::fs::write(&file, "without_ports = \"on\"\n").unwrap();
    assert!(text(&bifrost(&["check", path]).stdout).contains("Bifrost will have nothing to do"));
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn names_that_no_interface_has_are_worth_a_word() {
    let directory = directory("absent");
    let file = directory.join("router.toml");
    let path = file.to_str().unwrap();
    let text_of = |rule: &str| {
        format!(
            "[[port]]\nname = \"core0\"\n[filter.forward]\nrules = [\"{rule}\"]\n[[nat.rule]]\nname = \"out\"\ntype = \"masquerade\"\nout = \"coer0\"\n"
        )
    };
    std::fs::write(&file, text_of("drop in croe0")).unwrap();
    let output = bifrost(&["check", path]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("no interface is called croe0 now, perhaps meant: core0"), "{said}");
    assert!(
        said.contains("translation rule out: no interface is called coer0 now, perhaps meant: core0"),
        "{said}"
    );
    std::fs::write(&file, text_of("drop in core0,lo,c* out wlan*").replace("coer0", "core0")).unwrap();
    let said = text(&bifrost(&["check", path]).stdout).to_owned();
    assert!(said.contains("is called wlan* now\n") && said.matches("is called").count() == 1, "{said}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_command_line_that_makes_no_sense_is_exit_code_2() {
    for args in [
        &["shwo"][..],
        &[],
        &["show", "prots"],
        &["run", "eth/0"],
        &["run", "-c", "f", "eth0"],
        &["show", "graph", "--dot", "--json"],
        &["show", "graph", "--svg", "--dot"],
        &["capture", "udp"],
        &["trace", "--count", "0"],
        &["top", "--interval", "0"],
        &["explain"],
        // Nobody ends all flows by saying nothing.
        &["--socket", "/nowhere/socket", "clear", "flows"],
        &["clear", "flows", "--all", "--port", "80"],
    ] {
        assert_eq!(bifrost(args).status.code(), Some(2), "{args:?}");
    }
    assert!(text(&bifrost(&["show", "prots"]).stderr).contains("ports"), "a near match");
    assert_eq!(bifrost(&["--help"]).status.code(), Some(0));
    assert_eq!(text(&bifrost(&["--version"]).stdout), concat!("bifrost ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn completions_and_manual_come_from_the_same_definitions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = bifrost(&["completions", shell]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("BIFROST_COMPLETE"), "{shell}");
    }
    // What the scripts ask for is what there is: commands, and the interfaces of this machine.
    let offered = |words: &[&str]| {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_bifrost"));
        asked.env("BIFROST_COMPLETE", "fish").args(["--", "bifrost"]).args(words);
        text(&asked.output().unwrap().stdout).to_owned()
    };
    assert!(offered(&["show", "cl"]).contains("classifier"));
    for before in
        [&["run"][..], &["show", "ports"], &["doctor"], &["gen"], &["rfc2544", "eth0"], &["gen", "--sink"]]
    {
        let said = offered(&[before, &["l"]].concat());
        assert!(said.lines().any(|line| line == "lo"), "{before:?}: {said}");
    }
    let script = bifrost(&["completions", "bash"]).stdout;
    let directory = directory("man");
    let file = directory.join("bifrost.bash");
    std::fs::write(&file, script).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&file).status().unwrap().success());

    let manual = directory.join("man1");
    assert!(bifrost(&["man", manual.to_str().unwrap()]).status.success());
    let pages: Vec<String> = std::fs::read_dir(&manual)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for page in
        ["bifrost.1", "bifrost-run.1", "bifrost-show-ports.1", "bifrost-explain.1", "bifrost-capture.1"]
    {
        assert!(pages.iter().any(|name| name == page), "{page} is not among {pages:?}");
    }
    let explain = std::fs::read_to_string(manual.join("bifrost-explain.1")).unwrap();
    assert!(explain.contains("without sending one"));
    // The page of the configuration has every line of the sample.
    let page = std::fs::read_to_string(manual.join("router.toml.5")).unwrap();
    let plain = page.replace("\\-", "-").replace("\\e", "\\");
    for line in include_str!("../../../docs/router.toml").lines() {
        assert!(plain.contains(&format!("\n\\&{line}\n")), "{line}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// With BLESS=1 in the environment it writes the table instead.
#[test]
fn the_documents_table_of_reasons_is_the_programs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drops.md");
    let document = std::fs::read_to_string(path).unwrap();
    let head = "|---|---|\n";
    let (before, rest) = document.split_once(head).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    let reasons = wire::Reason::ALL.into_iter().filter(|reason| *reason != wire::Reason::None);
    let row = |reason: wire::Reason| {
        format!("| `{}` | {} |", reason.name(), reason.description().trim_end_matches('.'))
    };
    let rows: Vec<_> = reasons.map(row).collect();
    let expected = format!("{before}{head}{}\n\n{after}", rows.join("\n"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &expected).unwrap();
    } else {
        assert_eq!(document, expected, "BLESS=1 writes the table of docs/drops.md anew");
    }
}

#[test]
fn every_command_is_documented() {
    let document = include_str!("../../../docs/commands.md");
    for (above, arguments) in [("", &["--help"][..]), ("show ", &["show", "--help"])] {
        let help = bifrost(arguments).stdout;
        let commands = text(&help).lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in commands.take_while(|line| !line.is_empty()) {
            let command = line.split_whitespace().next().unwrap();
            let documented = document.contains(&format!("`bifrost {above}{command}"));
            assert!(documented || command == "help", "{above}{command} is not in docs/commands.md");
        }
    }
}
