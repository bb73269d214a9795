//! `bifrost cli`, as scripts and people use it, against a daemon that is none. (What it commits is
//! tried with a real one: `tests/a_shell_edits_and_commits.rs`.)

mod rig;

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use rig::{Fake, Rig, text};

fn shell(rig: &Rig, lines: &[&str]) -> Output {
    let state = rig.directory.join("own");
    let mut words = vec!["cli", "--state", state.to_str().unwrap()];
    lines.iter().for_each(|line| words.extend(["-c", line]));
    rig.run(&words)
}

fn said(rig: &Rig, line: &str) -> String {
    let output = shell(rig, &[line]);
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn lines_are_done_up_to_the_first_that_fails() {
    let rig = Rig::start("shell", Fake::default());
    let plain = rig.run(&["show", "ports"]);
    assert_eq!(said(&rig, "show ports"), text(&plain.stdout));
    assert_eq!(said(&rig, "sh po"), text(&plain.stdout));
    let both = shell(&rig, &["# a comment", "show ports", "", "show version"]);
    assert!(text(&both.stdout).starts_with(text(&plain.stdout)) && text(&both.stdout).contains("pid 4711"));
    let output = shell(&rig, &["show nothing", "show version"]);
    assert_eq!(output.status.code(), Some(2), "the code of the command");
    assert!(output.stdout.is_empty() && text(&output.stderr).contains("nothing"));
    for (line, words) in [
        ("shwo ports", "did you mean show?"),
        ("tr x", "may be traceroute, trace"),
        ("set port eth0", "of configure mode"),
        ("show ports |", "what behind the |"),
        ("show ports | nothing", "there are match"),
        ("show \"ports", "a quote is not closed"),
        ("| count", "missing in front"),
        ("configure now", "exclusive"),
    ] {
        let output = shell(&rig, &[line, "show version"]);
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains(words),
            "{line}: {}",
            text(&output.stderr)
        );
    }
    assert!(said(&rig, "exit").is_empty() && said(&rig, "help").contains("configure"));
}

#[test]
fn lines_are_read_from_a_pipe() {
    let rig = Rig::start("piped", Fake::default());
    let mut child = Command::new(env!("CARGO_BIN_EXE_bifrost"))
        .arg("--socket")
        .arg(rig.socket())
        .arg("cli")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"show version\nquit\nshow ports\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("pid 4711") && !text(&output.stdout).contains("eth0"));
    let wrong = Command::new("sh")
        .args(["-c", "printf '\\n# one\\nshwo ports\\n' | \"$1\" --socket \"$2\" cli", "sh"])
        .arg(env!("CARGO_BIN_EXE_bifrost"))
        .arg(rig.socket())
        .output()
        .unwrap();
    assert!(text(&wrong.stderr).starts_with("bifrost: line 3: there is no command shwo"), "{wrong:?}");
}

#[test]
fn pipes_choose_count_and_change_the_form() {
    let rig = Rig::start("pipes", Fake::default());
    let all = said(&rig, "show ports");
    let count = all.lines().filter(|line| line.contains("eth0")).count();
    assert!(count > 0);
    assert_eq!(said(&rig, "show ports | match ETH0 | count"), format!("Count: {count} lines\n"));
    assert!(!said(&rig, "show ports | except eth0").contains("eth0"));
    assert_eq!(said(&rig, "show ports | last 1").lines().count(), 1);
    assert_eq!(said(&rig, "show ports | json"), text(&rig.run(&["show", "ports", "--json"]).stdout));
    assert_eq!(said(&rig, "show config | display set"), "set port eth*\n");
    let json: serde_json::Value = serde_json::from_str(&said(&rig, "show config | display json")).unwrap();
    assert_eq!(json["port"][0]["name"], "eth*");
    assert_eq!(said(&rig, "show configuration commands"), "set port eth*\n");
}

#[test]
fn words_of_other_routers_are_understood_with_a_hint() {
    let rig = Rig::start("foreign", Fake { routes: 3, ..Fake::default() });
    for (line, ours) in [
        ("show ip route", "show routes"),
        ("sh ip int br", "show interfaces"),
        ("show arp", "show neighbours"),
        ("show run", "show config"),
        ("show system commit", "history"),
    ] {
        let output = shell(&rig, &[line]);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), format!("# here: {ours}\n"));
        assert_eq!(said(&rig, ours), text(&output.stdout), "{line}");
    }
    let output = shell(&rig, &["wr"]);
    assert!(output.status.success() && text(&output.stderr).contains("saved already"));
    // Whether FRR is there or not, it is asked.
    let output = shell(&rig, &["show ip bgp summary"]);
    assert!(
        !output.status.success() && !text(&output.stderr).contains("no command"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn who_has_locked_the_configuration_is_shown() {
    let rig = Rig::start("lock", Fake::default());
    assert_eq!(said(&rig, "show lock"), "alice has locked the configuration, for 1m 30s\n");
    let json: serde_json::Value = serde_json::from_str(&said(&rig, "show lock | json")).unwrap();
    assert_eq!((&json["holder"]["login"], &json["yours"]), (&"alice".into(), &false.into()));
    let document = include_str!("../../../docs/json.md");
    for name in ["holder", "yours", "login", "seconds"] {
        assert!(document.contains(&format!("`{name}`")), "{name} is not documented");
    }
}

#[test]
fn the_json_schema_is_printed() {
    let rig = Rig::start("schema", Fake::default());
    let schema: serde_json::Value = serde_json::from_slice(&rig.run(&["schema"]).stdout).unwrap();
    assert_eq!(schema["properties"]["port"]["items"]["properties"]["lane"]["enum"][1], "express");
}

#[test]
fn it_is_a_login_shell() {
    let rig = Rig::start("login", Fake::default());
    let run = |name: &str, words: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(env!("CARGO_BIN_EXE_bifrost"));
        command.arg0(name).args(words).arg("--socket").arg(rig.socket()).stdin(Stdio::null());
        command.output().unwrap()
    };
    // By ssh with a command, and without one.
    assert!(text(&run("bifrost", &["-c", "show version"]).stdout).contains("pid 4711"));
    assert!(run("-bifrost", &[]).status.success());
}

/// What is on a terminal.
struct Terminal {
    child: std::process::Child,
    keys: std::process::ChildStdin,
    screen: std::process::ChildStdout,
    all: String,
}

impl Terminal {
    fn new(rig: &Rig) -> Terminal {
        let state = rig.directory.join("typed");
        let program = format!(
            "{} --socket {} cli --state {}",
            env!("CARGO_BIN_EXE_bifrost"),
            rig.socket().display(),
            state.display()
        );
        // script(1) gives it a terminal, and writes all that it prints to its own output.
        let mut child = Command::new("script")
            .args(["-qec", &format!("stty rows 40 cols 100; exec {program}"), "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script(1) is installed");
        let (keys, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Terminal { child, keys, screen, all: String::new() }
    }

    /// Types, and reads until a word has come; what came until then.
    fn types(&mut self, keys: &str, word: &str) -> String {
        self.keys.write_all(keys.as_bytes()).unwrap();
        let mut said = String::new();
        let mut bytes = [0; 4096];
        while !said.contains(word) {
            match self.screen.read(&mut bytes) {
                Ok(0) | Err(_) => panic!("{keys:?}: no {word:?} in {said:?}, after {:?}", self.all),
                Ok(read) => said += &String::from_utf8_lossy(&bytes[..read]),
            }
        }
        self.all += &said;
        said
    }
}

#[test]
fn a_person_types_and_sees_what_could_follow() {
    let rig = Rig::start("typed", Fake::default());
    let mut terminal = Terminal::new(&rig);
    // A revision waits to be confirmed: the prompt says so.
    terminal.types("", "[confirm within 1m 30s]> ");
    terminal.types("sh\tpor\t", "show ports ");
    terminal.types("\r", "eth0");
    let said = terminal.types("show ?", "> show ");
    assert!(said.contains("what can follow:") && said.contains("Workers: core, load"), "{said}");
    terminal.types("\u{15}show ports | \t", "no-more");
    terminal.types("mat\t", "match ");
    terminal.types("^eth0 | count\r", "Count: ");
    // A mistake ends nothing.
    terminal.types("shwo\r", "did you mean show?");
    // Up is the line before.
    terminal.types("\u{1b}[A\u{1b}[A\r", "Count: ");
    terminal.types("\u{3}", "> ");
    terminal.keys.write_all(b"exit\r").unwrap();
    assert!(terminal.child.wait().unwrap().success());
}
