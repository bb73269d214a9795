//! `bifrost cli` edits a candidate as words say, keeps the file's comments, and commits it: by
//! lines of a script, by several administrators, and as a person types.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lab::{Lab, Router, wait_for};

use crate::network::turn;

const CONFIG: &str = "# the house's router\n\n[[port]]\nname = \"p0\"\n[tables]\nipv4 = 1024\nipv6 = 1024\nnext_hops = 1024\n\
                      # Not too many.\n[police]\nicmp = { rate = 1, burst = 10 }   # a few\n";

struct House {
    router: Router,
    _lab: Lab,
    _turn: crate::network::Turn,
}

impl House {
    /// None where Linux is the router.
    fn new(name: &str) -> Option<House> {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let host = lab.router("router").unwrap();
        host.run("ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up").unwrap();
        let mut router = Router::stopped(&host, CONFIG).unwrap();
        router.restart().unwrap();
        router.is_bifrost().then_some(House { router, _lab: lab, _turn: turn })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.router.host().folder().join(name)
    }

    fn words(&self, who: &str, lines: &[&str]) -> String {
        let lines: String = lines.iter().map(|line| format!(" -c '{line}'")).collect();
        self.router.client(&format!("cli --state {}{lines}", self.path(who).display()))
    }

    /// Lines of an administrator's, each with a folder of his own.
    fn says(&self, who: &str, lines: &[&str]) -> Result<String, String> {
        self.router.host().run(&format!("{} 2>&1", self.words(who, lines))).map_err(|error| error.to_string())
    }

    fn rate(&self) -> u64 {
        let shown = self.router.subject("classifier").unwrap();
        let classes = shown["classes"].as_array().unwrap();
        classes.iter().find(|class| class["class"] == "icmp").unwrap()["rate"].as_u64().unwrap()
    }

    fn file(&self) -> String {
        fs::read_to_string(self.path("router.toml")).unwrap()
    }
}

#[test]
fn by_lines_and_by_several_administrators() {
    let Some(house) = House::new("shell") else { return };
    let said =
        house.says("alice", &["conf t", "set police icmp rate 2", "show | compare", "commit check"]).unwrap();
    assert!(said.contains("set police icmp rate 2\n") && said.contains("[police]"), "{said}");
    assert_eq!(house.rate(), 1, "a check changes nothing");
    // The candidate is kept from one session to the next, and the comments are.
    let said = house.says("alice", &["configure", "commit comment \"less ICMP\""]).unwrap();
    assert!(said.contains("1 change(s)") && said.contains("revision 2 is in force"), "{said}");
    assert_eq!(house.rate(), 2);
    let file = house.file();
    for words in [
        "# the house's router\n\n[[port]]",
        "# Not too many.\n[police]\nicmp = { rate = 2, burst = 10 }   # a few\n",
    ] {
        assert!(file.contains(words), "{file}");
    }
    assert!(house.router.ask("history").unwrap().contains("less ICMP"));

    // What is wrong is told with its cure, and nothing of the rest is done.
    let said = house.says("alice", &["configure", "set police icmp rtae 5", "commit"]).unwrap_err();
    assert!(said.contains("did you mean \"rate\"?"), "{said}");
    let said = house.says("alice", &["configure", "set vrrp lan interface p0", "commit"]).unwrap_err();
    assert!(said.contains("stays as it is") && said.contains("missing field"), "{said}");
    house.says("alice", &["configure", "discard"]).unwrap();
    assert_eq!((house.rate(), house.file()), (2, file));

    // Somebody else was faster.
    house.says("bob", &["configure", "set police rest rate 777"]).unwrap();
    house.says("alice", &["configure", "set police icmp rate 3", "commit"]).unwrap();
    let said = house.says("bob", &["configure", "commit"]).unwrap_err();
    assert!(said.contains("revision 3 came by") && said.contains("rebase"), "{said}");
    let said = house
        .says("bob", &["configure", "compare theirs", "rebase", "show | compare", "commit confirmed 5"])
        .unwrap();
    assert!(
        said.contains("set police icmp rate 3\n") && said.contains("set police rest rate 777\n"),
        "{said}"
    );
    assert!(said.contains("unless `confirm` comes within 5m"), "{said}");
    assert!(
        house.file().contains("rate = 3") && house.file().contains("rest = { rate = 777 }"),
        "{}",
        house.file()
    );
    let said = house.says("alice", &["confirm", "configure", "status"]).unwrap();
    assert!(said.contains("revision 4 stays") && said.contains("0 change(s) to revision 4"), "{said}");

    // A file that was changed by hand is what the candidate begins with.
    fs::write(house.path("router.toml"), house.file().replace("rate = 3", "rate = 4")).unwrap();
    let said = house.says("alice", &["configure", "set police rest burst 9", "commit"]).unwrap();
    assert!(said.contains("changed by hand") && house.rate() == 4, "{said}");
    assert!(house.file().contains("rest = { rate = 777, burst = 9 }"), "{}", house.file());

    // What is private is of one session alone.
    house.says("alice", &["configure", "set police icmp rate 99"]).unwrap();
    let said = house.says("alice", &["configure private", "show | compare", "set log level warn"]).unwrap();
    assert!(!said.contains("rate 99") && said.contains("is gone"), "{said}");
    assert!(house.says("alice", &["configure", "discard"]).unwrap().contains("1 change(s)"));

    // Set-lines and whole files come in, and go out.
    let lines = house.path("lines");
    fs::write(&lines, "# more\nset log level debug\nset police icmp burst 11\n").unwrap();
    let (load, save) =
        (format!("load set {}", lines.display()), format!("save {}", house.path("saved.toml").display()));
    house.says("alice", &["configure", &load, &save, "discard"]).unwrap();
    let saved = fs::read_to_string(house.path("saved.toml")).unwrap();
    assert!(saved.contains("level = \"debug\"") && saved.contains("# Not too many."), "{saved}");
    let merge = format!("load merge {}", house.path("saved.toml").display());
    assert!(house.says("alice", &["configure", &merge, "discard"]).unwrap().contains("2 change(s)"));

    // Only who has the lock commits; whoever takes it away does so knowingly.
    let nobody = house.path("nobody");
    fs::create_dir(&nobody).unwrap();
    let host = house.router.host();
    host.run(&format!("chown 65534 {}", nobody.display())).unwrap();
    let as_nobody = |lines: &[&str]| {
        let words = house.words("nobody", lines);
        host.run(&format!("setpriv --reuid 65534 --regid 0 --clear-groups {words} 2>&1"))
            .map_err(|error| error.to_string())
    };
    // Her session lasts for as long as somebody may type.
    let mut shell = host.command("sh");
    shell.args(["-c", &house.words("alice", &[])]);
    let mut alice = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut keyboard = alice.stdin.take().unwrap();
    keyboard.write_all(b"configure exclusive\n").unwrap();
    wait_for("the lock", Duration::from_secs(10), || match as_nobody(&["show lock"]) {
        Ok(said) if said.starts_with("root has locked") => Ok(()),
        said => Err(format!("{said:?}")),
    })
    .unwrap();
    let said = as_nobody(&["rollback 4"]).unwrap_err();
    assert!(said.contains("root has locked the configuration") && said.contains("unlock force"), "{said}");
    assert!(as_nobody(&["configure exclusive"]).unwrap_err().contains("root has locked"));
    assert!(as_nobody(&["unlock force"]).unwrap().contains("nobody has locked"));
    assert!(as_nobody(&["rollback 4"]).unwrap().contains("is in force"));
    assert_eq!(house.rate(), 3);
    drop(keyboard);
    alice.wait().unwrap();
}

/// Keys on a terminal, and what is seen there.
struct Typing {
    keys: fs::File,
    written: PathBuf,
    seen: usize,
}

impl Typing {
    fn types(&mut self, keys: &str, word: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        let text = || String::from_utf8_lossy(&fs::read(&self.written).unwrap_or_default()).into_owned();
        let seen = self.seen;
        wait_for(&format!("{word:?} after {keys:?}"), Duration::from_secs(10), || {
            let text = text();
            text.get(seen..).and_then(|new| new.find(word)).map(|_| ()).ok_or(text)
        })
        .unwrap();
        self.seen = text().len();
    }
}

#[test]
fn as_a_person_types() {
    let Some(house) = House::new("typed") else { return };
    let host = house.router.host();
    let (written, keys) = (house.path("screen"), house.path("keys"));
    let program = house.words("carol", &[]);
    let mut command = host.command("sh");
    command.arg("-c").arg("mkfifo \"$2\" && exec script -qfc \"$1\" \"$3\" <> \"$2\"");
    command.arg("sh").arg(format!("stty rows 40 cols 100; TERM=xterm; export TERM; exec {program}"));
    command.arg(&keys).arg(&written);
    let _terminal = host.spawn("typed", command).unwrap();
    wait_for("the prompt", Duration::from_secs(10), || {
        fs::read_to_string(&written)
            .ok()
            .filter(|text| text.contains("> "))
            .map(|_| ())
            .ok_or("none".to_owned())
    })
    .unwrap();
    let keys = fs::OpenOptions::new().write(true).open(&keys).unwrap();
    let mut typing = Typing { keys, written, seen: 0 };
    typing.types("configu\t\r", "# ");
    // Keys of the file, with what they are for; and interfaces that Linux has.
    typing.types("set pol?", "limits on what is handed to Linux");
    typing.types("\u{15}set int\t", "set interface ");
    typing.types("\t", "p1");
    typing.types("p0 mt\t9\u{7f}1400\r", "*# ");
    typing.types("edit police icmp\r", "(police icmp)*# ");
    typing.types("set ra\t5\r", "*# ");
    typing.types("top show | comp\t\r", "set police icmp rate 5");
    typing.types("commit confirmed 5\r", "[confirm within ");
    typing.types("confirm\r", "stays");
    typing.types("exit\r", "# ");
    // What is pasted is as many lines as it has.
    typing.types("\u{1b}[200~set interface p0 mtu 1300\rset log level debug\u{1b}[201~\r", "*# ");
    typing.types("show | compare\r", "set log level debug");
    typing.types("discard\r", "# ");
    typing.types("exit\r", "> ");
    typing.types("exit\r", "exit");
    assert_eq!(house.rate(), 5);
    assert!(house.file().contains("[interface.p0]\nmtu = 1400\n"), "{}", house.file());
}
