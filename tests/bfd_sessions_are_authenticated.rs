//! BFD sessions that Bifrost runs for FRR are authenticated, though FRR knows nothing of it: BIRD
//! believes their packets and is believed, by each type of authentication; who has another key is
//! not, and the operator sees why. A key takes the place of another while the session stays up.
//! (The network of `network.rs`; the router runs FRR, the server BIRD.)

use std::time::Duration;

use bfd::Kind;
use lab::{Bird, Frr, wait_for};
use serde_json::Value;

use crate::network::{Line, ports};

const SOON: Duration = Duration::from_secs(30);
/// So many packets in a row that are believed: a session that goes down is down before that.
const PACKETS: u64 = 10;
const PEERS: [&str; 2] = ["10.2.0.2", "2001:db8:2::2"];

/// What FRR wants.
fn sessions() -> String {
    let peer = |prefix: &str| {
        format!(" peer {prefix}2 local-address {prefix}1 interface right\n  profile fast\n exit\n")
    };
    let profile = " profile fast\n  receive-interval 100\n  transmit-interval 100\n exit\n";
    format!("bfd\n{profile}{}{}exit\n", peer("10.2.0."), peer("2001:db8:2::"))
}

/// A key: its number, what packets show of it, and itself.
type OneKey<'a> = (u8, Kind, &'a str);

/// The router's file.
fn file(keys: &[OneKey]) -> String {
    let one = |(id, kind, key): &OneKey| format!("{{ id = {id}, type = \"{kind}\", key = \"{key}\" }}");
    let keys: Vec<String> = keys.iter().map(one).collect();
    let peer = |peer| format!("[bfd.peer.\"{peer}\"]\nkeys = [{}]\n", keys.join(", "));
    let peers = if keys.is_empty() { String::new() } else { PEERS.map(peer).concat() };
    format!("{}[bfd]\n{peers}", ports("auto", &["left", "right"]))
}

/// BIRD's file. All of its keys are of one type.
fn birds(keys: &[OneKey]) -> String {
    let word = |kind| match kind {
        Kind::Password => "simple",
        Kind::Md5 => "keyed md5",
        Kind::MeticulousMd5 => "meticulous keyed md5",
        Kind::Sha1 => "keyed sha1",
        Kind::MeticulousSha1 => "meticulous keyed sha1",
    };
    let kind = keys.first().map_or("none", |(_, kind, _)| word(*kind));
    let keys: String =
        keys.iter().map(|(id, _, key)| format!("password \"{key}\" {{ id {id}; }};\n")).collect();
    format!(
        "router id 10.2.0.2;
log stderr all;
protocol device {{ }}
protocol bfd {{
  interface \"eth0\" {{
    interval 100 ms;
    idle tx interval 1 s;
    multiplier 3;
    authentication {kind};
    {keys}
  }};
  neighbor 10.2.0.1 dev \"eth0\" local 10.2.0.2;
  neighbor 2001:db8:2::1 dev \"eth0\" local 2001:db8:2::2;
}}
"
    )
}

struct Net {
    bird: Bird,
    _frr: Frr,
    line: Line,
}

impl Net {
    fn new(name: &str, ours: &[OneKey], theirs: &[OneKey]) -> Net {
        let mut line = Line::stopped(name, "");
        line.router.configure(&file(ours)).unwrap();
        let bfdd = "bfdd --dplaneaddr ipv4:127.0.0.1:50700";
        let frr = Frr::start(line.router.host(), &[bfdd], &sessions(), false).unwrap();
        let bird = Bird::start_with(&line.server, &birds(theirs)).unwrap();
        line.router.restart().unwrap();
        Net { bird, _frr: frr, line }
    }

    fn ours(&self, keys: &[OneKey]) {
        self.line.router.configure(&file(keys)).unwrap();
        self.line.router.ask("reload").unwrap();
    }

    fn theirs(&self, keys: &[OneKey]) {
        self.bird.configure(&birds(keys)).unwrap();
    }

    fn shown(&self) -> Vec<Value> {
        let shown = self.line.router.show("bfd").unwrap();
        shown["sessions"].as_array().cloned().unwrap_or_default()
    }

    /// Of each session.
    fn numbers(&self, key: &str) -> Vec<u64> {
        self.shown().iter().map(|one| one[key].as_u64().unwrap()).collect()
    }

    /// Until each session has counted so many more.
    fn hears(&self, key: &str, more: u64) {
        let before = self.numbers(key);
        wait_for(&format!("{more} more {key}"), SOON, || {
            let now = self.numbers(key);
            match now.iter().zip(&before).all(|(now, then)| now.saturating_sub(*then) >= more) {
                true => Ok(()),
                false => Err(format!("{now:?}, before {before:?}")),
            }
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.line.router.log()));
    }

    fn wait(&self, what: &str, is: impl Fn(&Value) -> bool) {
        wait_for(what, SOON, || match self.shown() {
            all if all.len() == 2 && all.iter().all(&is) => Ok(()),
            all => Err(format!("{all:?}")),
        })
        .unwrap_or_else(|error| {
            panic!("{error}\n{}\n{}", self.bird.ask("show bfd sessions").unwrap(), self.line.router.log())
        });
    }

    /// Both sessions are up, signed so, and stay up while packets come that are all believed.
    fn are_up(&self, (id, kind, _): OneKey) {
        let what = format!("sessions with {kind}");
        self.wait(&what, |one| {
            one["state"] == "up" && one["authentication"] == kind.name() && one["key_id"] == id
        });
        // What was refused while the keys were changed is past once many packets are believed and
        // none is refused.
        wait_for(&what, SOON, || {
            let before = ["refused", "changes"].map(|key| self.numbers(key));
            self.hears("received", PACKETS);
            match ["refused", "changes"].map(|key| self.numbers(key)) == before {
                true => Ok(()),
                false => Err(format!("{:?}", self.shown())),
            }
        })
        .unwrap();
        let said = self.bird.ask("show bfd sessions").unwrap();
        assert_eq!(said.lines().filter(|line| line.contains(" Up ")).count(), 2, "{said}");
    }

    /// Neither session is up, and the operator sees why.
    fn are_refused(&self, why: &str) {
        let down = |one: &Value| {
            one["state"] != "up" && one["refused_why"].as_str().is_some_and(|said| said.contains(why))
        };
        wait_for(&format!("sessions to be down: {why}"), SOON, || {
            let received = self.numbers("received");
            self.hears("refused", 2);
            match self.numbers("received") == received && self.shown().iter().all(down) {
                true => Ok(()),
                false => Err(format!("{:?}", self.shown())),
            }
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", self.line.router.log()));
        let said = self.line.router.ask("show bfd").unwrap();
        assert!(said.contains("authentication failed") && said.contains(why), "{said}");
        let said = self.bird.ask("show bfd sessions").unwrap();
        assert!(!said.contains(" Up "), "{said}");
    }
}

#[test]
fn by_each_type_and_who_has_another_key_is_not_believed() {
    let keys: Vec<OneKey> = Kind::NAMED.iter().map(|(word, kind)| (7, *kind, *word)).collect();
    let net = Net::new("bfdauth", &keys[..1], &keys[..1]);
    for key in &keys {
        net.ours(std::slice::from_ref(key));
        net.theirs(std::slice::from_ref(key));
        net.are_up(*key);
    }
    for (_, kind, _) in &keys {
        net.ours(&[(7, *kind, "this-one")]);
        net.theirs(&[(7, *kind, "another-one")]);
        net.are_refused("password or digest is wrong");
    }
    net.theirs(&[(8, Kind::MeticulousSha1, "this-one")]);
    net.are_refused("it names key 8");
    net.theirs(&[(7, Kind::Sha1, "this-one")]);
    net.are_refused("another type");
    net.theirs(&[]);
    net.are_refused("it is not authenticated");
    // Nobody is told a key.
    let shown = net.line.router.ask("show config").unwrap() + &net.line.router.log();
    assert!(shown.contains("***") && !shown.contains("this-one"), "{shown}");
    net.ours(&[]);
    net.wait("sessions without keys", |one| one["state"] == "up" && one["authentication"].is_null());
    net.theirs(&keys[4..]);
    net.are_refused("it is authenticated, and this end has no key");
    net.ours(&keys[4..]);
    net.are_up(keys[4]);
}

#[test]
fn and_keys_change_while_they_stay_up_and_who_begins_anew_is_believed() {
    let (old, new) = ((1, Kind::MeticulousSha1, "old"), (2, Kind::MeticulousSha1, "new"));
    let net = Net::new("bfdroll", &[old], &[old]);
    net.are_up(old);
    let changes = net.numbers("changes");
    let steps: [(&[OneKey], &[OneKey]); 4] =
        [(&[old, new], &[old]), (&[old, new], &[new, old]), (&[new, old], &[new, old]), (&[new], &[new])];
    for (ours, theirs) in steps {
        net.ours(ours);
        net.theirs(theirs);
        net.are_up(ours[0]);
    }
    assert_eq!((net.numbers("changes"), net.numbers("refused")), (changes, vec![0, 0]));

    // The process that runs them dies. BIRD has heard greater numbers than those of a router that
    // counts from the beginning, and waits for the next one of them for a while.
    let socket = net.line.router.socket().to_owned();
    let kill = format!("kill -KILL $(pgrep -f -- '--socket {} [b]fd')", socket.display());
    net.line.router.host().run(&kill).unwrap();
    net.are_up(new);
}
