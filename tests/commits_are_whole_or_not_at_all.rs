//! A commit changes what runs, the file and the history, or none of them: whatever is wrong with
//! the configuration or the disk, whoever commits besides, and whenever the daemon is killed. What
//! nobody confirms in time goes back, also while the daemon is dead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Lab, Router, wait_for};
use serde_json::Value;

use crate::network::turn;

/// A router with a port and nobody else.
struct House {
    router: Router,
    _lab: Lab,
    _turn: crate::network::Turn,
}

/// A configuration by which ICMP has this limit.
fn limit(rate: u64) -> String {
    format!(
        "[[port]]\nname = \"p0\"\n[tables]\nipv4 = 1024\nipv6 = 1024\nnext_hops = 1024\n\
         [police]\nicmp = {{ rate = {rate}, burst = 10 }}\n"
    )
}

/// What is to be the same after a change that did not happen.
#[derive(Debug, PartialEq)]
struct State {
    rate: u64,
    running: String,
    file: String,
    history: Value,
}

impl House {
    /// Started with a limit of 1; none where Linux is the router.
    fn new(name: &str) -> Option<House> {
        House::on(name, |_| {})
    }

    /// The same, whose folder is made ready by `prepare`.
    fn on(name: &str, prepare: impl FnOnce(&Path)) -> Option<House> {
        let turn = turn();
        let lab = Lab::new(name).unwrap();
        let host = lab.router("router").unwrap();
        host.run("ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up").unwrap();
        prepare(host.folder());
        let mut router = Router::stopped(&host, &limit(1)).unwrap();
        router.restart().unwrap();
        router.is_bifrost().then_some(House { router, _lab: lab, _turn: turn })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.router.host().folder().join(name)
    }

    /// A file of an administrator's own, and what it has.
    fn own(&self, rate: u64) -> (String, String) {
        let text = fs::read_to_string(self.path("router.toml")).unwrap();
        let (_, control) = text.split_once("[control]").unwrap();
        let text = format!("{}[control]{control}", limit(rate));
        let path = self.path(&format!("own-{rate}.toml"));
        fs::write(&path, &text).unwrap();
        (path.display().to_string(), text)
    }

    fn commit(&self, rate: u64, options: &str) -> Result<String, String> {
        let (path, _) = self.own(rate);
        self.router.ask(&format!("commit {path} {options}")).map_err(|error| error.to_string())
    }

    fn history(&self) -> Value {
        serde_json::from_str(&self.router.ask("history --json").unwrap()).unwrap()
    }

    fn rate(&self) -> u64 {
        let shown = self.router.subject("classifier").unwrap();
        let classes = shown["classes"].as_array().unwrap();
        classes.iter().find(|class| class["class"] == "icmp").unwrap()["rate"].as_u64().unwrap()
    }

    fn state(&self) -> State {
        State {
            rate: self.rate(),
            running: self.router.show("config").unwrap()["text"].as_str().unwrap().to_owned(),
            file: fs::read_to_string(self.path("router.toml")).unwrap(),
            history: self.history()["revisions"].clone(),
        }
    }

    fn is_refused(&self, rate: u64, options: &str, words: &str) {
        let before = self.state();
        let said = self.commit(rate, options).unwrap_err();
        assert!(said.contains(words) && said.contains("stays as it is"), "{words}: {said}");
        assert_eq!(self.state(), before, "{words}");
    }

    /// All of it is this limit, and the history's newest revision.
    fn is(&self, rate: u64) {
        let history = self.history();
        assert_eq!((self.rate(), &history["disk_differs"]), (rate, &Value::Bool(false)), "{history}");
        assert!(fs::read_to_string(self.path("router.toml")).unwrap().contains(&limit(rate)));
        let newest = &history["revisions"][0]["number"];
        assert!(*newest == Value::Null || history["running"] == *newest, "{history}");
    }

    fn becomes(&self, rate: u64, within: Duration) {
        wait_for(&format!("a limit of {rate}"), within, || match self.rate() {
            now if now == rate => Ok(()),
            now => Err(format!("{now}")),
        })
        .unwrap();
        // The history is written last.
        wait_for("nothing to wait", within, || match &self.history()["waits"] {
            Value::Null => Ok(()),
            waits => Err(waits.to_string()),
        })
        .unwrap();
        self.is(rate);
    }
}

#[test]
fn by_several_administrators() {
    let Some(house) = House::new("commit") else { return };
    let said = house.commit(2, "--comment 'less ICMP'").unwrap();
    assert!(said.contains("revision 2 is in force"), "{said}");
    house.is(2);
    let history = house.history();
    let [newest, first] = &history["revisions"].as_array().unwrap()[..] else { panic!("{history}") };
    assert_eq!((&newest["comment"], &newest["user"]), (&"less ICMP".into(), &"root".into()));
    assert_eq!((&first["how"], &first["number"]), (&"start".into(), &1.into()));

    // Wrong in its text, and wrong only when it is tried.
    let wrong = house.path("wrong.toml");
    let (_, text) = house.own(3);
    let files = "[flow_log.files]\ndirectory = \"/proc/flows\"\n";
    for text in [text.replace("[police]", "[plice]"), format!("{text}{files}")] {
        fs::write(&wrong, text).unwrap();
        let before = house.state();
        let said = house.router.ask(&format!("commit {}", wrong.display())).unwrap_err().to_string();
        assert!(said.contains("stays as it is"), "{said}");
        assert_eq!(house.state(), before);
    }
    // Made from what no longer runs.
    house.is_refused(3, "--base 1", "revision 1 is not what runs: revision 2 came by root");
    house.commit(3, "--base 2").unwrap();
    house.commit(4, "--base 2 --force").unwrap();
    house.is(4);

    // Only told.
    let before = house.state();
    assert!(house.commit(5, "--check").unwrap().contains("police"));
    assert_eq!(house.state(), before);

    // By hand: noticed, in nobody's way unless somebody overwrites it, and committed as it is.
    let by_hand = before.file.replace("rate = 4", "rate = 6");
    fs::write(house.path("router.toml"), &by_hand).unwrap();
    let diff = house.router.ask("compare running disk").unwrap();
    assert!(diff.contains("\n-icmp = { rate = 4,") && diff.contains("\n+icmp = { rate = 6,"), "{diff}");
    assert!(house.router.ask("show config").unwrap().contains("was changed since"));
    house.is_refused(7, "", "was changed by hand");
    house.router.ask("commit --comment hand").unwrap();
    house.is(6);
    fs::write(house.path("router.toml"), by_hand.replace("rate = 6", "rate = 8")).unwrap();
    house.commit(7, "--force").unwrap();
    house.is(7);
    assert!(fs::read_to_string(house.path("router.toml.saved")).unwrap().contains("rate = 8"));

    // A reload of a changed file is a revision, one of the same file is none.
    fs::write(house.path("router.toml"), house.own(9).1).unwrap();
    house.router.ask("reload").unwrap();
    house.is(9);
    let history = house.history();
    house.router.ask("reload").unwrap();
    assert_eq!((&history["revisions"][0]["how"], house.history()), (&"reload".into(), history.clone()));

    // Back, by number and by one.
    house.router.ask("rollback 2").unwrap();
    house.is(2);
    house.router.ask("rollback").unwrap();
    house.is(9);
    assert_eq!(house.router.ask("compare 2 2").unwrap(), "revision 2 and revision 2 are the same\n");
    let said = house.router.ask("rollback 99").unwrap_err().to_string();
    assert!(said.contains("there is no revision 99; those there are: 1 to "), "{said}");
}

#[test]
fn unless_somebody_confirms_them_in_time() {
    let Some(mut house) = House::new("confirm") else { return };
    let said = house.commit(2, "--confirmed 60s").unwrap();
    assert!(said.contains("`bifrost confirm`") && said.contains("revision 1 comes back"), "{said}");
    // Nobody else commits meanwhile, not even by a reload.
    house.is_refused(3, "--force", "revision 2 waits");
    assert!(house.router.ask("rollback --confirmed 5").unwrap_err().to_string().contains("revision 2 waits"));
    fs::write(house.path("router.toml"), house.own(3).1).unwrap();
    assert!(house.router.ask("reload").unwrap_err().to_string().contains("revision 2 waits"));
    fs::write(house.path("router.toml"), house.own(2).1).unwrap();
    assert_eq!(house.router.ask("confirm").unwrap(), "revision 2 stays\n");
    assert!(house.router.ask("confirm").is_err());
    house.is(2);

    // Alive, killed and started before the time is over, and dead until after it.
    house.commit(3, "--confirmed 1s").unwrap();
    house.becomes(2, Duration::from_secs(10));
    assert_eq!(house.history()["revisions"][0]["how"], "unconfirmed");
    let began = Instant::now();
    house.commit(4, "--confirmed 6s").unwrap();
    house.router.kill_nine();
    house.router.restart().unwrap();
    // A machine may be slow.
    if began.elapsed() < Duration::from_secs(5) {
        house.is(4);
    }
    assert!(house.router.log().contains("waits for `bifrost confirm`"), "{}", house.router.log());
    house.becomes(2, Duration::from_secs(20));
    house.commit(5, "--confirmed 1s").unwrap();
    house.router.kill_nine();
    std::thread::sleep(Duration::from_millis(1_100));
    house.router.restart().unwrap();
    house.is(2);
    let log = house.router.log();
    assert!(log.contains("nobody confirmed revision 7 in time: revision 6 is in force again"), "{log}");
    // At once, by hand.
    house.commit(6, "--confirmed 5").unwrap();
    house.router.ask("rollback").unwrap();
    house.is(2);
    assert!(house.history()["waits"].is_null());
}

#[test]
fn when_the_daemon_is_killed_during_one() {
    let Some(mut house) = House::new("killed") else { return };
    let began = Instant::now();
    house.commit(2, "").unwrap();
    let whole = began.elapsed();
    let (mut before, mut taken) = (2, 0);
    // From the middle of one until long after its end.
    for (rate, eighths) in (100..).zip([5, 7, 8, 24]) {
        let (path, _) = house.own(rate);
        let mut commit = house.router.command();
        commit.args(["commit", &path, "--confirmed", "10"]);
        let mut commit = house.router.host().spawn("commit", commit).unwrap();
        std::thread::sleep(whole * eighths / 8);
        house.router.kill_nine();
        let told = commit.wait(Duration::from_secs(10)).unwrap().success();
        house.router.restart().unwrap();
        let now = house.rate();
        assert!(now == before || now == rate, "{now} is neither {before} nor {rate}");
        assert!(!told || now == rate, "it was told that it is in force");
        house.is(now);
        assert_eq!(house.history()["waits"].is_null(), now == before);
        if now == rate {
            house.router.ask("confirm").unwrap();
            taken += 1;
        }
        before = now;
    }
    assert!(taken > 0, "every commit was too late");
}

/// A small file system of its own.
struct Small(PathBuf);

impl Small {
    fn on(folder: PathBuf) -> Small {
        fs::create_dir_all(&folder).unwrap();
        let small = Small(folder);
        small.mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]);
        small
    }

    /// Once nobody writes there.
    fn mount(&self, how: &[&str]) {
        wait_for("a mount", Duration::from_secs(10), || {
            let done = Command::new("mount").args(how).arg(&self.0).output().unwrap();
            if done.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&done.stderr).into_owned())
            }
        })
        .unwrap_or_else(|error| panic!("mount {how:?}: {error}"));
    }
}

#[test]
fn on_a_disk_that_is_full_or_read_only() {
    let mut disks = Vec::new();
    let house = House::on("disk", |folder| {
        // The history on one, the file on another, to which a link leads.
        disks = vec![Small::on(folder.join("state")), Small::on(folder.join("etc"))];
        std::os::unix::fs::symlink("etc/router.toml", folder.join("router.toml")).unwrap();
    });
    let Some(house) = house else { return };
    house.commit(2, "").unwrap();
    let mut rate = 2;
    for disk in &disks {
        let filler = disk.0.join("filler");
        // As far as it goes.
        let _ = fs::write(&filler, vec![0; 1 << 20]);
        house.is_refused(3, "", "No space left on device");
        fs::remove_file(&filler).unwrap();
        rate += 10;
        house.commit(rate, "").unwrap();
        disk.mount(&["-o", "remount,ro"]);
        house.is_refused(3, "--confirmed 5", "Read-only file system");
        disk.mount(&["-o", "remount,rw"]);
        rate += 10;
        house.commit(rate, "").unwrap();
        house.is(rate);
    }
    assert!(house.path("router.toml").is_symlink());

    // A way back needs no disk; as soon as there is one, it is written down.
    house.commit(50, "--confirmed 1s").unwrap();
    for disk in &disks {
        disk.mount(&["-o", "remount,ro"]);
    }
    wait_for("the way back", Duration::from_secs(10), || match house.rate() {
        now if now == rate => Ok(()),
        now => Err(now.to_string()),
    })
    .unwrap();
    for disk in &disks {
        disk.mount(&["-o", "remount,rw"]);
    }
    house.becomes(rate, Duration::from_secs(20));
}
