//! Two routers share an address, their flows and a translation. One failure after another comes
//! over them, chosen by chance, while connections are open, begin and end: a router is killed,
//! hangs, stops, is replaced by a new process, reads its file again or hands over; a link goes;
//! they do not hear each other, or only one of them does. After each, connections have gone on, one
//! router is active and the other is not, they know the same flows, and their routes are Linux's.
//! Advertisements on both wires show that never two were active for long, and never none. (The
//! network of `redundant.rs`.)
//!
//! `FAILURES=500 SEED=7` chooses how many and which.

use std::{
    fmt, fs,
    thread::sleep,
    time::{Duration, Instant},
};

use chance::Random;
use lab::{Host, Process, Router, Signal, wait_for};
use serde_json::Value;

use crate::network::STATEFUL;
use crate::redundant::{Pair, SERVER, config, state};
use crate::stalls::Stalls;

/// How long two may be active, or none, with advertisements each 20 ms. The backup waits for 80 ms
/// at most; the rest is what two busy cores need to begin.
const BOUND: Duration = Duration::from_millis(160);

const TRANSLATION: &str = r#"
[[nat.rule]]
name = "home"
type = "source"
out = "right"
source = "10.1.0.0/24"
pool = "10.2.0.1"
"#;

/// Sends back what it hears, and speaks by itself where it is asked to.
const SERVE: &str = r#"
import selectors, socket, time
listening = socket.create_server(("", 8000), backlog=1000)
listening.setblocking(False)
waiting = selectors.DefaultSelector()
waiting.register(listening, selectors.EVENT_READ)
speaking, due = set(), 0
def end(peer):
    waiting.unregister(peer)
    speaking.discard(peer)
    peer.close()
while True:
    for key, _ in waiting.select(0.05):
        peer = key.fileobj
        if peer is listening:
            peer, _ = listening.accept()
            peer.setblocking(False)
            waiting.register(peer, selectors.EVENT_READ)
            continue
        try:
            said = peer.recv(4096)
            if said == b"speak\n":
                speaking.add(peer)
            elif said:
                peer.sendall(said)
            else:
                end(peer)
        except OSError:
            end(peer)
    if time.monotonic() > due:
        due = time.monotonic() + 0.2
        for peer in list(speaking):
            try:
                peer.sendall(b"x")
            except BlockingIOError:
                pass
            except OSError:
                end(peer)
"#;

/// Connections that stay, by half of which only the server speaks; in each round one more is made,
/// and ends after eight rounds. Those that were made in the last seconds may be lost: a flow is
/// shared a moment after it began.
const TALK: &str = r#"
import socket, sys, time
stay = [socket.create_connection((sys.argv[1], 8000), 20) for _ in range(int(sys.argv[2]))]
for one in stay[1::2]:
    one.sendall(b"speak\n")
young, lost = [], 0
print("all are open", flush=True)
for round in range(100_000_000):
    word = b"%d\n" % round
    for n, one in enumerate(stay):
        if n % 2 == 0:
            one.sendall(word)
    for n, one in enumerate(stay):
        said = one.recv(4096)
        assert said and (n % 2 or said == word), (n, said)
    try:
        one = socket.create_connection((sys.argv[1], 8000), 4)
        one.settimeout(2)
        young.append((time.monotonic(), one))
    except OSError as why:
        lost += 1
        print("not opened", why, flush=True)
    for begun, one in list(young):
        try:
            one.sendall(word)
            assert one.recv(4096) == word
        except OSError as why:
            lost += 1
            print("lost", one.getsockname(), "after", time.monotonic() - begun, why, flush=True)
            young.remove((begun, one))
    if len(young) > 8:
        young.pop(0)[1].close()
    print("round", round, "lost", lost, flush=True)
    time.sleep(0.05)
"#;

/// Says when none of two routers, or both of them, told that they are active: lines of what, and
/// from when to when, in seconds of the clock that never goes back.
const WATCH: &str = r#"
import select, socket, sys, time
ports, last = sys.argv[1:3], {}
every, silent = 0.02, 0.05
sockets = {}
for port in ports:
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    one.bind((port, 3))
    sockets[one] = port
    last[port] = 0.0
state, since = "one", 0
print("watching", flush=True)
while True:
    ready, _, _ = select.select(list(sockets), [], [], 0.005)
    for one in ready:
        frame, (_, _, direction, _, _) = one.recvfrom(2048)
        if direction == 4 or len(frame) < 42 or frame[12:14] != b"\x08\x00" or frame[23] != 112:
            continue
        packet = frame[14 + (frame[14] & 15) * 4:]
        # Priority 0: it resigns.
        last[sockets[one]] = time.monotonic() if packet[2] else 0.0
    now = time.monotonic()
    active = sum(now - heard < silent for heard in last.values())
    seen = ["none", "one", "both"][active]
    if seen != state:
        if state != "one":
            print(state, since, now, flush=True)
        state, since = seen, now
"#;

/// What comes over a router, or between the two.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Killed, and started again later; with what it wrote down, or on a new disk.
    Killed { after: Duration, disk: bool },
    /// Stopped, and started again later.
    Stopped { after: Duration },
    /// It does nothing for so long.
    Hangs(Duration),
    /// Another process takes over from it.
    Upgraded,
    /// It reads its file again, in which something has changed.
    Reloaded,
    /// It hands over, and takes part again later.
    Released(Duration),
    /// The link of one of its interfaces is down for so long.
    Unplugged(&'static str, Duration),
    /// It is not heard for so long, at these switches; it hears the other one, or does not.
    Unheard { at: &'static [&'static str], both_ways: bool, lasts: Duration },
}

impl Failure {
    fn any(random: &mut Random) -> Failure {
        let mut time = |least, most| Duration::from_millis((least + random.below(most - least)) as u64);
        let (short, long) = (time(5, 400), time(50, 1500));
        let disk = random.chance(50);
        match random.below(9) {
            0 | 1 => Failure::Killed { after: long, disk },
            2 => Failure::Stopped { after: long },
            3 => Failure::Hangs(short),
            4 => Failure::Upgraded,
            5 => Failure::Reloaded,
            6 => Failure::Released(long),
            7 => Failure::Unplugged(random.pick(&["left", "right"]), long),
            _ => Failure::Unheard {
                at: random.pick(&[&["left"] as &[_], &["right"], &["left", "right"]]),
                both_ways: random.chance(50),
                lasts: long,
            },
        }
    }

    /// Two may be active while it lasts, for they can not know of each other.
    fn parts(self) -> bool {
        matches!(self, Failure::Unheard { .. } | Failure::Unplugged(..))
    }
}

/// One of the two routers.
#[derive(Clone, Copy)]
enum Which {
    One,
    Two,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::One => "one",
            Which::Two => "two",
        })
    }
}

struct Trial {
    one: Router,
    two: Router,
    talk: Process,
    watches: [(&'static str, Process); 2],
    _server: Process,
    net: Pair,
    reloads: u32,
}

fn python(host: &Host, script: &str, arguments: &[&str]) -> Process {
    let mut command = host.command("python3");
    command.args(["-c", script]).args(arguments);
    host.spawn("python", command).unwrap()
}

fn of(which: Which, reloads: u32) -> String {
    let (own, priority) = match which {
        Which::One => (2, 200),
        Which::Two => (3, 100),
    };
    let [listen, peer] = [own, 5 - own].map(|last| format!("10.1.0.{last}"));
    let key = "0123456789abcdef".repeat(4);
    let lines = format!("priority = {priority}\ninterval = \"20ms\"\ntrack = [{{ flows = \"shared\" }}]\n");
    let sharing = format!("[sharing]\nlisten = \"{listen}\"\npeer = \"{peer}\"\nkey = \"{key}\"\n");
    let rules = STATEFUL.replace("\ndrop\n", &format!("\ndrop udp to any port {}\ndrop\n", 1 + reloads));
    config(&lines) + &sharing + &rules + TRANSLATION
}

impl Trial {
    fn begin() -> Option<Trial> {
        let net = Pair::new("failures");
        let one = Router::start(&net.one, &of(Which::One, 0)).unwrap();
        if !one.is_bifrost() {
            return None;
        }
        let two = Router::start(&net.two, &of(Which::Two, 0)).unwrap();
        net.customer.reaches(SERVER, Duration::from_secs(20)).unwrap();
        let _server = python(&net.server, SERVE, &[]);
        net.server.listens(8000).unwrap();
        let talk = python(&net.customer, TALK, &[SERVER, "40"]);
        let said = |process: &Process, what: &str| {
            wait_for(what, Duration::from_secs(20), || match process.output().contains(what) {
                true => Ok(()),
                false => Err(process.output()),
            })
            .unwrap();
        };
        said(&talk, "all are open");
        let watches = [("left", &net.left), ("right", &net.right)].map(|(name, switch)| {
            let watch = python(switch, WATCH, &["one", "two"]);
            said(&watch, "watching");
            (name, watch)
        });
        Some(Trial { one, two, talk, watches, _server, net, reloads: 0 })
    }

    fn switch(&self, name: &str) -> &Host {
        if name == "left" { &self.net.left } else { &self.net.right }
    }

    fn happens(&mut self, failure: Failure, to: Which) {
        let (other, folder) = match to {
            Which::One => (Which::Two, self.net.one.folder()),
            Which::Two => (Which::One, self.net.two.folder()),
        };
        let flows = folder.join("control.flows");
        let reloads = self.reloads;
        let router = match to {
            Which::One => &mut self.one,
            Which::Two => &mut self.two,
        };
        match failure {
            Failure::Killed { after, disk } => {
                router.kill_nine();
                sleep(after);
                if !disk {
                    let _ = fs::remove_file(flows);
                }
                router.restart().unwrap();
            }
            Failure::Stopped { after } => {
                router.stop().unwrap();
                sleep(after);
                router.restart().unwrap();
            }
            Failure::Hangs(time) => {
                let process = router.process().unwrap();
                process.signal(Signal::SIGSTOP);
                sleep(time);
                process.signal(Signal::SIGCONT);
            }
            Failure::Upgraded => drop(router.upgrade().unwrap()),
            Failure::Reloaded => {
                self.reloads += 1;
                router.configure(&of(to, reloads + 1)).unwrap();
                router.ask("reload").unwrap();
            }
            Failure::Released(time) => {
                router.ask("redundancy release left").unwrap();
                sleep(time);
                router.ask("redundancy resume left").unwrap();
            }
            Failure::Unplugged(name, time) => {
                let switch = self.switch(name);
                switch.run(&format!("ip link set {to} down")).unwrap();
                sleep(time);
                switch.run(&format!("ip link set {to} up")).unwrap();
            }
            Failure::Unheard { at, both_ways, lasts } => {
                let mut ways = vec![(to, other)];
                ways.extend(both_ways.then_some((other, to)));
                let rules: String =
                    ways.iter().map(|(from, to)| format!("iifname {from} oifname {to} drop; ")).collect();
                let table = format!(
                    "table bridge parted {{ chain parted {{ type filter hook forward priority 0; {rules} }}; }}"
                );
                at.iter().for_each(|name| drop(self.switch(name).run(&format!("nft '{table}'")).unwrap()));
                sleep(lasts);
                let heal = "nft delete table bridge parted";
                at.iter().for_each(|name| drop(self.switch(name).run(heal).unwrap()));
            }
        }
    }

    /// Waits until all is as it was; what is not.
    fn settles(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let rounds = |talk: &Process| talk.output().lines().filter(|it| it.starts_with("round")).count();
        let before = rounds(&self.talk);
        let limit = Duration::from_secs(20);
        let both = |what: &str, is: &dyn Fn() -> Result<(), String>| {
            wait_for(what, limit, is).map_err(|error| error.to_string())
        };
        both("one to be active and two to be backup", &|| {
            for name in ["left", "right"] {
                let states = (state(&self.one, name), state(&self.two, name));
                if states != ("active".into(), "backup".into()) {
                    return Err(format!("{name}: {states:?}"));
                }
            }
            Ok(())
        })?;
        let talk = &mut self.talk;
        wait_for("all connections to go on", limit, || {
            let ended = talk.ended().is_some();
            match rounds(talk) {
                now if now >= before + 3 => Ok(Ok(())),
                _ if ended => Ok(Err(talk.output().lines().rev().take(12).collect::<Vec<_>>().join("\n"))),
                now => Err(format!("{now} rounds after {before}")),
            }
        })
        .map_err(|error| error.to_string())?
        .map_err(|said| format!("the connections ended:\n{said}"))?;
        both("the same flows at both", &|| {
            let [one, two] = [&self.one, &self.two].map(|router| router.show("sharing").unwrap_or_default());
            let shared = |status: &Value| status["state"] == "shared" && status["differing"] == 0;
            match shared(&one) && shared(&two) && two["held"].as_u64() >= Some(40) {
                true => Ok(()),
                false => Err(format!("{one:#}\n{two:#}")),
            }
        })?;
        for router in [&self.one, &self.two] {
            router.equals_linux(limit).map_err(|error| error.to_string())?;
        }
        println!("    settled after {:?}", begun.elapsed());
        Ok(())
    }

    /// For how long none or both of the routers were active at most, of what was seen behind this
    /// many lines, by the name of the switch.
    fn seen(&self, behind: [usize; 2]) -> Vec<(&'static str, &'static str, Duration)> {
        let mut seen = Vec::new();
        for ((name, watch), behind) in self.watches.iter().zip(behind) {
            for line in watch.output().lines().skip(behind) {
                let words: Vec<&str> = line.split(' ').collect();
                let [what, from, to] = words[..] else { continue };
                let time = to.parse::<f64>().unwrap() - from.parse::<f64>().unwrap();
                let what = if what == "both" { "both" } else { "none" };
                seen.push((*name, what, Duration::from_secs_f64(time)));
            }
        }
        seen
    }

    fn lines(&self) -> [usize; 2] {
        [0, 1].map(|n| self.watches[n].1.output().lines().count())
    }

    fn logs(&self) -> String {
        let tail = |router: &Router| {
            let log = router.log();
            let lines: Vec<&str> = log.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        format!("one:\n{}\ntwo:\n{}", tail(&self.one), tail(&self.two))
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn and_their_connections() {
    let Some(mut trial) = Trial::begin() else { return };
    trial.settles().unwrap();
    let mut random = Random(number("SEED", 1));
    for n in 1..=number("FAILURES", 10) {
        let failure = Failure::any(&mut random);
        let to = random.pick(&[Which::One, Which::One, Which::Two]);
        println!("{n}: {failure:?} at {to}");
        let (lines, stalls) = (trial.lines(), Stalls::start());
        trial.happens(failure, to);
        let settled = trial.settles();
        let stalled = stalls.stop();
        if let Err(error) = settled {
            panic!("after {n} failures, {failure:?} at {to}: {error}\n{}", trial.logs());
        }
        let seen = trial.seen(lines);
        println!("    {seen:?}, stalled for {stalled:?}");
        for (switch, what, time) in seen {
            let parted = what == "both" && failure.parts();
            assert!(
                parted || time < BOUND + stalled,
                "{what} of the routers active at {switch} for {time:?}, {failure:?} at {to}\n{}",
                trial.logs()
            );
        }
    }
    println!("{}", trial.talk.output().lines().last().unwrap_or_default());
}
