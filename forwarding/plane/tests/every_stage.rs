//! A frame is sent, dropped, answered or left to Linux alike, and counted alike, by whichever code
//! it goes and whichever stages there are.
//!
//! One corpus of frames (`corpus`) goes through the elements alone, through the short ways in front
//! of them, and through the driver's programs in front of these: under every filter, with and
//! without translation, hooks, sampling and reverse path checks. What the elements make of it
//! without hooks and samples is the measure for all others. Compared are the port and the bytes,
//! the class for Linux, the reason, the rules' counts, what is sampled, and at last the account of
//! every flow. Then once more with a VLAN on each port, or a bridge, or a VLAN of a bridge that
//! tells them apart, which the frames come and go by: nothing else changes, but that Linux learns
//! of hosts on bridges that it does not know.
//!
//! Linux is not asked here: `lanes.rs` asks it about packets of no flow, and the system tests about
//! the odd ones.

mod corpus;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use corpus::{Frame, Hosts, IN, Kind, OUT, OWN, interface, tags};
use elements::router::Sources;
use graph::Hand;
use ipnet::IpNet;
use port::Pool;
use rules::Seen;
use ways::{ASTRAY, Front, Hooked, Lane, Outcome, REVERSE_PATHS, Round, Router, Rules, Stages, TRANSLATED};
use wire::{Class, Reason};

const STATELESS: &str = "set hosts 10.1.0.2, 198.18.0.1, 2001:db8:1::2
chain input
drop udp to any port 25
reject udp to any port 24
drop ttl !2-254 from any to any port 9
chain forward policy drop
drop tcp to any port 25
reject tcp to any port 23
reject with prohibited udp to any port 23
reject with host-unreachable from any to any port 26
reject with no-route from any to any port 5
mark 7 from any to any port 9
accept from any to any port 9 marked 7
accept set-dscp ef udp to any port 5004
accept tcp flags fin/fin name ends
accept tcp from @hosts to any port !5000-6000 name hosts
accept length 0-100 udp to any port 53
accept from any
chain output
drop out outside from any to any port 5060
accept out outside name leaves
";
const STATEFUL: &str = "chain input
drop udp to any port 25
chain forward policy drop
drop state invalid name invalid
accept set-dscp af11 dnat
accept state established,related name known
drop tcp to any port 25
reject tcp to any port 23
reject with prohibited udp to any port 23
reject with host-unreachable from any to any port 26
reject with no-route from any to any port 5
accept set-dscp ef udp in inside to any port 5004
mark 7 from any to any port 9
accept in inside
accept tcp to any port 80
";

const FILTERS: [Rules; 4] = [
    Rules { name: "none", text: "", known: false },
    Rules { name: "none, flows known", text: "", known: true },
    Rules { name: "stateless", text: STATELESS, known: false },
    Rules { name: "stateful", text: STATEFUL, known: false },
];

/// By the ports themselves.
const PORTS: Kind = Kind { tagged: false, vrf: false, ruled: false, bridge: None };

/// Hosts that are reached by the link outside, and by no other.
const WORLD: [&str; 2] = ["198.18.0.0/21", "2001:db8:f::/64"];

/// Differences that are shown.
const SHOWN: usize = 60;

/// Frames that a lane takes at least, if it takes any.
const LEAST: u64 = 200;

/// What differs and is meant to.
struct Intended {
    /// Parts of the frames' names.
    frames: &'static [&'static str],
    /// By which ways.
    ways: fn(&Stages) -> bool,
    /// Whether both outcomes are as they are meant to be: the elements' first.
    holds: fn(&Outcome, &Outcome) -> bool,
    why: &'static str,
}

const INTENDED: &[Intended] = &[
    Intended {
        frames: &[""],
        ways: |stages| stages.kind.ruled && !stages.nat,
        holds: is_left_by_rules,
        why: "what no routing rule decides is Linux's, and errors about packets that rules concern are its to send",
    },
    Intended {
        frames: &[""],
        ways: |stages| stages.kind.ruled && stages.nat,
        holds: |wanted, got| is_left_by_rules(wanted, got) && !(has_expired(wanted) && is_of_translated(got)),
        why: "the same where addresses are translated, but for those: Linux does not know them",
    },
    Intended {
        frames: &[""],
        ways: |stages| stages.kind.ruled,
        holds: |_, got| {
            let unread = |frame: &[u8]| frame.get(14..).and_then(|ip| Seen::read(ip, 0)).is_none();
            matches!(&got.linux[..], [(_, Hand::Receive, frame)] if unread(frame))
        },
        why: "only Linux knows what rules that ask for ports make of headers that are not as they should be",
    },
    Intended {
        frames: &["a header of 15 words", "protocol 0 to 2001:db8:"],
        ways: |stages| !matches!(stages.lane, Lane::Elements | Lane::Short),
        holds: |wanted, got| {
            matches!(wanted.dropped[..], [(Reason::BadHeaderLength | Reason::Truncated, 1)])
                && matches!(got.linux[..], [(Class::Rest, Hand::Receive, _)])
        },
        why: "what is for this machine the driver hands over before it reads on, and Linux refuses it itself",
    },
    Intended {
        frames: &["option", "route", "hop-by-hop", "a header of 15 words"],
        ways: knows_flows_for_the_driver,
        holds: |wanted, got| {
            matches!(wanted.linux[..], [(Class::Transit, Hand::Receive, _)])
                && wanted.rules.is_empty()
                && (got.linux == wanted.linux || got.dropped == [(Reason::Truncated, 1)])
        },
        why: "what has options is Linux's to judge where no flows are known, and a worker's where they are",
    },
    Intended {
        frames: &["to 198.18.14.1", "to 2001:db8:f:14::1"],
        ways: knows_flows_for_the_driver,
        holds: |wanted, got| {
            let filtered = wanted.dropped == [(Reason::Filtered, 1)] && got.linux.len() == 1;
            (filtered || wanted.linux == got.linux) && got.rules.is_empty()
        },
        why: "what leaves by no port is Linux's to judge where flows are known, for it sees both their directions",
    },
    Intended {
        frames: &["14 bytes of IPv", "15 bytes of IPv", "with nothing"],
        ways: |stages| stages.kind.tagged,
        holds: |wanted, got| {
            wanted.dropped == [(Reason::Truncated, 1)]
                && matches!(got.linux[..], [(Class::Rest, Hand::Receive, _)])
        },
        why: "where two tags could not stand, nobody looks for one",
    },
    Intended {
        frames: &["type 0x8100 with ", "type 0x88a8 with "],
        ways: |stages| stages.kind.tagged || !matches!(stages.lane, Lane::Elements | Lane::Short),
        holds: |wanted, got| match (&wanted.linux[..], &got.linux[..]) {
            ([(class, _, without)], [(same, _, with)]) => {
                class == same && [&with[..12], &with[16..]].concat() == *without
            }
            _ => false,
        },
        why: "a tag that says only a priority is taken off by workers, or by Linux",
    },
];

/// Whether Linux has what the elements would answer where no routing rules are, or drop.
fn is_left_by_rules(wanted: &Outcome, got: &Outcome) -> bool {
    let answered = wanted.sent.len() == 1 && !wanted.dropped.is_empty();
    let unanswered = wanted.dropped == [(Reason::NoRoute, 1)];
    (answered || unanswered) && got.sent.is_empty() && matches!(got.linux[..], [(_, Hand::Receive, _)])
}

fn has_expired(wanted: &Outcome) -> bool {
    wanted.dropped == [(Reason::TtlExpired, 1)]
}

/// Whether Linux has a packet whose source or destination is translated.
fn is_of_translated(got: &Outcome) -> bool {
    let within = |nets: &[&str], address: &[u8; 16]| {
        nets.iter().any(|net| net.parse::<IpNet>().unwrap().contains(&nat::address(address)))
    };
    let headers = |frame: &[u8]| frame.get(14..).and_then(|ip| wire::Headers::parse(ip).ok());
    let mut all = got.linux.iter().filter_map(|(.., frame)| headers(frame));
    all.any(|headers| {
        let leaves = within(&TRANSLATED, &headers.source) && within(&WORLD, &headers.destination);
        leaves || within(&ASTRAY, &headers.destination)
    })
}

/// Whether flows are known that no rule asks for, so that they can be offloaded: unlike with
/// the elements that are the measure.
fn knows_flows_for_the_driver(stages: &Stages) -> bool {
    stages.lane == Lane::Offloaded && !stages.nat && stages.rules.text == STATELESS
}

/// The router's own addresses.
fn sources(kind: Kind) -> Arc<Sources> {
    let sources = Sources::new();
    let table = kind.table().of_addresses();
    sources.set_local4(OWN.map(|own| (table, own[0].parse().unwrap())));
    for (port, [four, six]) in [IN, OUT].into_iter().zip(OWN) {
        let (four, six) = (format!("{four}/24"), format!("{six}/64"));
        sources.set_interface(
            interface(port, kind),
            table,
            vec![four.parse().unwrap()],
            vec![six.parse().unwrap()],
        );
    }
    sources
}

/// What differs: what became of a frame, by the elements and otherwise; and by which ways.
#[derive(Default)]
struct Findings {
    complaints: BTreeMap<String, Vec<String>>,
    /// Which of [`INTENDED`] there were.
    met: [bool; INTENDED.len()],
}

impl Findings {
    fn add(&mut self, what: String, stages: &Stages, reverse_path: &str) {
        let ways = self.complaints.entry(what).or_default();
        ways.push(format!("{stages}, reverse path {reverse_path}"));
    }

    fn add_all(&mut self, more: Findings) {
        more.complaints.into_iter().for_each(|(what, ways)| {
            self.complaints.entry(what).or_default().extend(ways);
        });
        self.met.iter_mut().zip(more.met).for_each(|(met, more)| *met |= more);
    }

    fn is_intended(&mut self, name: &str, stages: &Stages, wanted: &Outcome, got: &Outcome) -> bool {
        let applies = |intended: &Intended| {
            let named = intended.frames.iter().any(|part| name.contains(part));
            named && (intended.ways)(stages) && (intended.holds)(wanted, got)
        };
        let found = INTENDED.iter().position(applies);
        found.into_iter().for_each(|row| self.met[row] = true);
        found.is_some()
    }

    /// What became of every frame, and at last of the flows.
    fn compare(&mut self, frames: &[Frame], stages: &Stages, way: &str, wanted: &Round, got: &Round) {
        for ((wanted, got), Frame { name, .. }) in wanted.outcomes.iter().zip(&got.outcomes).zip(frames) {
            if wanted != got && !self.is_intended(name, stages, wanted, got) {
                self.add(format!("{name}\n  elements: {wanted}\n  this way: {got}"), stages, way);
            }
        }
        if let (Some(wanted), Some(got)) = (&wanted.accounts, &got.accounts) {
            let missing = wanted.iter().filter(|account| !got.contains(account));
            let more = got.iter().filter(|account| !wanted.contains(account));
            let lines = missing.map(|account| format!("  elements: {account}"));
            let lines: Vec<_> = lines.chain(more.map(|account| format!("  this way: {account}"))).collect();
            if !lines.is_empty() || wanted.len() != got.len() {
                self.add(format!("accounts of flows\n{}", lines.join("\n")), stages, way);
            }
        }
    }

    /// What sFlow would tell of every frame that a worker saw.
    fn compare_samples(&mut self, frames: &[Frame], stages: &Stages, way: &str, wanted: &Round, got: &Round) {
        for ((wanted, got), Frame { name, .. }) in wanted.samples.iter().zip(&got.samples).zip(frames) {
            if got.is_some() && wanted != got {
                let what = format!("{name}: sampled\n  elements: {wanted:02x?}\n  this way: {got:02x?}");
                self.add(what, stages, way);
            }
        }
    }
}

struct Trial {
    frames: Vec<Frame>,
    /// The same with tags.
    tagged: Vec<Frame>,
    findings: Findings,
}

impl Trial {
    /// What becomes of all frames by these stages, by each kind of reverse path check; `None`:
    /// there is no such lane.
    fn rounds(&self, stages: Stages, front: &mut Front) -> Option<Vec<Round>> {
        let frames = if stages.kind.tagged { &self.tagged } else { &self.frames };
        let mut router = Router::new(stages, front, &sources(stages.kind));
        if !router.has_lane() {
            return None;
        }
        Some(REVERSE_PATHS.iter().map(|(_, flags)| router.run(frames, *flags)).collect())
    }

    /// Everything with one filter, translated or not.
    fn all_of(&mut self, rules: Rules, nat: bool, front: &mut Front) {
        let stages = |lane, hooks, sampling| Stages { rules, nat, hooks, sampling, kind: PORTS, lane };
        let measure = self.rounds(stages(Lane::Elements, Hooked::Nothing, false), front).unwrap();
        let sampled = self.rounds(stages(Lane::Elements, Hooked::Nothing, true), front).unwrap();
        for hooks in [Hooked::Nothing, Hooked::Within, Hooked::Behind] {
            for sampling in [false, true] {
                for lane in [Lane::Elements, Lane::Short, Lane::Classified, Lane::Express, Lane::Offloaded] {
                    // As `Policy::offloads` and `Plane::offloads` have it.
                    if lane == Lane::Offloaded && (hooks != Hooked::Nothing || sampling) {
                        continue;
                    }
                    // A driver shares one flow table.
                    let mut own = (lane == Lane::Offloaded).then(|| Front::new(PORTS));
                    let stages = stages(lane, hooks, sampling);
                    let Some(rounds) = self.rounds(stages, own.as_mut().unwrap_or(front)) else { continue };
                    for (n, (way, _)) in REVERSE_PATHS.iter().enumerate() {
                        let (frames, got) = (&self.frames, &rounds[n]);
                        self.findings.compare(frames, &stages, way, &measure[n], got);
                        if sampling {
                            self.findings.compare_samples(frames, &stages, way, &sampled[n], got);
                        }
                        let short = matches!(lane, Lane::Short | Lane::Classified) && hooks != Hooked::Within;
                        let takes = matches!(lane, Lane::Express | Lane::Offloaded) || short;
                        if takes != (got.taken >= LEAST) {
                            self.findings.add(format!("the lane took {} frames", got.taken), &stages, way);
                        }
                    }
                }
            }
        }
    }

    /// The same by interfaces of another kind, by every lane.
    fn by_others(&mut self, rules: Rules, nat: bool, kind: Kind) {
        let stages = |lane, kind| Stages { rules, nat, hooks: Hooked::Nothing, sampling: false, kind, lane };
        let measure = self.rounds(stages(Lane::Elements, PORTS), &mut Front::new(PORTS)).unwrap();
        for lane in [Lane::Elements, Lane::Short, Lane::Classified, Lane::Express, Lane::Offloaded] {
            // The driver asks no routing rules: `Port::entry_of` has it so.
            if kind.ruled && matches!(lane, Lane::Express | Lane::Offloaded) {
                continue;
            }
            let stages = stages(lane, kind);
            let Some(rounds) = self.rounds(stages, &mut Front::new(kind)) else { continue };
            for ((way, _), (wanted, got)) in REVERSE_PATHS.iter().zip(measure.iter().zip(&rounds)) {
                self.findings.compare(&self.frames, &stages, way, wanted, got);
                let strangers = kind.bridge == Some(Hosts::Strangers);
                let offloads = lane == Lane::Offloaded && !kind.vrf && !strangers;
                if (lane == Lane::Express || offloads) && got.taken < LEAST {
                    self.findings.add(format!("the lane took {} frames", got.taken), &stages, way);
                }
            }
        }
    }
}

/// A frame as it comes by the VLAN on its port, if it has a whole link header.
fn tagged(frame: &Frame) -> Frame {
    let mut bytes = frame.bytes.clone();
    if bytes.len() >= 14 {
        bytes.splice(12..12, tags(frame.input, Kind { tagged: true, ..PORTS }).bytes());
    }
    Frame { name: frame.name.clone(), bytes, ..*frame }
}

/// All ways with one filter, translated or not.
fn trial(rules: Rules, nat: bool) -> Findings {
    Pool::heap(512).install();
    let mut front = Front::new(PORTS);
    let frames = corpus::frames();
    let with_tags = frames.iter().map(tagged).collect();
    let mut trial = Trial { frames, tagged: with_tags, findings: Findings::default() };
    trial.all_of(rules, nat, &mut front);
    for [tagged, vrf] in [[true, false], [false, true], [true, true]] {
        trial.by_others(rules, nat, Kind { tagged, vrf, ..PORTS });
    }
    trial.by_others(rules, nat, Kind { ruled: true, ..PORTS });
    // Strangers are a worker's only where something depends on flows.
    for (hosts, asked) in [(Hosts::Known, !nat), (Hosts::Strangers, rules.text == STATEFUL)] {
        if asked {
            trial.by_others(rules, nat, Kind { bridge: Some(hosts), ..PORTS });
            trial.by_others(rules, nat, Kind { tagged: true, bridge: Some(hosts), ..PORTS });
        }
    }
    trial.findings
}

#[test]
fn every_way_comes_to_the_same_under_all_stages() {
    wire::set_flow_key("what all lanes know");
    let trials: Vec<_> = FILTERS.iter().flat_map(|rules| [(*rules, false), (*rules, true)]).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut findings = Findings::default();
        while let Some((rules, nat)) = trials.get(next.fetch_add(1, Relaxed)) {
            findings.add_all(trial(*rules, *nat));
        }
        findings
    };
    let mut all = Findings::default();
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| all.add_all(thread.join().unwrap()));
    });
    let Findings { complaints, met } = all;
    let each = |(what, ways): (&String, &Vec<String>)| {
        format!("{what}\n  in {} combinations, first: {}", ways.len(), ways[0])
    };
    let some: Vec<_> = complaints.iter().take(SHOWN).map(each).collect();
    assert!(some.is_empty(), "{} outcomes differ:\n{}", complaints.len(), some.join("\n"));
    for (intended, met) in INTENDED.iter().zip(met) {
        assert!(met, "it no longer differs: {}", intended.why);
    }
}
