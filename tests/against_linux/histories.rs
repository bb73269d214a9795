//! Histories of TCP, UDP and ICMP: what each packet is to its flow (`new`, `established`,
//! `related`, `invalid`) Linux's conntrack says, and Bifrost says the same, in both lanes and both
//! families; but for what `histories.txt` notes and docs/filter.md explains.
//!
//! The filter writes its opinion into the packet, as a code point.

use std::collections::BTreeMap;
use std::fmt;

use wire::checksum::{self, Sum};
use wire::protocol::{DESTINATION_OPTIONS, ICMP, ICMP6, SCTP, TCP, UDP, UDP_LITE};

use super::{HOSTS, Sent, Side, network, through};
use crate::network::{Line, ports};

/// Flows are carried in the driver, or pass workers.
const LANES: [&str; 2] = ["auto", "worker"];
/// A history a line: its head says how it is written.
const HISTORIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/against_linux/histories.txt");
const DOCUMENTATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/filter.md");

/// Which code point stands for which state.
const STATES: [(u8, &str); 4] = [(10, "new"), (12, "established"), (14, "related"), (18, "invalid")];

fn config(lane: &str) -> String {
    let rules = STATES.map(|(dscp, state)| format!("set-dscp {dscp} accept state {state}\n")).concat();
    let ports = ports(lane, &["left", "right"]);
    format!("{ports}[flow]\nmemory = 16\n[filter.forward]\nrules = '''\n{rules}'''\n")
}

/// The same for Linux.
fn table() -> String {
    let rules = STATES.map(|(dscp, state)| {
        format!("ct state {state} ip dscp set {dscp} accept\nct state {state} ip6 dscp set {dscp} accept\n")
    });
    format!(
        "table inet probe {{ chain forward {{ type filter hook forward priority 0;\n{}}}\n}}\n",
        rules.concat()
    )
}

/// A kind of packet.
#[derive(Clone, Debug)]
enum Kind {
    Tcp {
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
        window: u16,
        scale: Option<u8>,
        length: usize,
    },
    Udp {
        length: usize,
    },
    /// UDP-Lite, whose checksum is over so many bytes.
    Lite {
        covered: u16,
    },
    /// A chunk of SCTP that opens an association, or answers that.
    Init {
        answer: bool,
    },
    Echo {
        reply: bool,
    },
    /// About a packet of the history, of whose TCP sequence number the quote may differ, to the
    /// other host of that side perhaps.
    Error {
        name: String,
        of: usize,
        moved: u32,
        astray: bool,
    },
}

/// A packet of a history.
#[derive(Clone, Debug)]
struct Step {
    /// As it is written.
    text: String,
    from: Side,
    kind: Kind,
    /// Its checksum is wrong.
    damaged: bool,
    /// In IPv6, it stands behind destination options.
    behind: bool,
    /// What Bifrost says where Linux says something else.
    differs: Option<String>,
}

/// A line of the text.
#[derive(Clone, Debug)]
struct History {
    line: usize,
    section: String,
    steps: Vec<Step>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.steps.iter().map(|step| step.text.as_str()).collect();
        write!(f, "line {}: {}", self.line, words.join(" "))
    }
}

/// Reads all histories; what is wrong with the text ends the test.
fn histories(text: &str) -> Vec<History> {
    let (mut section, mut begins) = (String::new(), BTreeMap::new());
    let mut all = Vec::new();
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
        if let Some(title) = text.strip_prefix("## ") {
            section = title.to_owned();
        } else if let Some((name, words)) = text.strip_prefix('@').and_then(|rest| rest.split_once(" = ")) {
            begins.insert(format!("@{name}"), words.to_owned());
        } else if !text.is_empty() && !text.starts_with('#') {
            let words: Vec<&str> = text
                .split(' ')
                .flat_map(|word| match word.strip_prefix('@') {
                    Some(_) => {
                        begins.get(word).unwrap_or_else(|| panic!("line {line}: no {word}")).split(' ')
                    }
                    None => word.split(' '),
                })
                .collect();
            let read = |word: &str| step(word).unwrap_or_else(|| panic!("line {line}: {word}?"));
            let steps = words.into_iter().map(read).collect();
            all.push(History { line, section: section.clone(), steps });
        }
    }
    all
}

/// Reads a packet.
fn step(text: &str) -> Option<Step> {
    let (word, differs) = match text.strip_suffix('}').map(|text| text.split_once('{')) {
        Some(noted) => noted.map(|(word, state)| (word, Some(state.to_owned())))?,
        None => (text, None),
    };
    let from = if word.starts_with('>') { Side::Left } else { Side::Right };
    let word = word.strip_prefix(['>', '<'])?;
    let (word, damaged) = word.strip_suffix('x').map_or((word, false), |word| (word, true));
    let (word, behind) = word.strip_suffix('d').map_or((word, false), |word| (word, true));
    let kind = match word {
        "init" => Kind::Init { answer: false },
        "initack" => Kind::Init { answer: true },
        "echo" => Kind::Echo { reply: false },
        "reply" => Kind::Echo { reply: true },
        _ if word.starts_with('!') => error(word)?,
        _ if word.starts_with('l') => Kind::Lite { covered: word[1..].parse().ok()? },
        _ if word.starts_with('u') => Kind::Udp { length: word[1..].parse().ok()? },
        _ => segment(word)?,
    };
    Some(Step { text: text.to_owned(), from, kind, damaged, behind, differs })
}

/// `!NAME:OF[+MOVED][@]`
fn error(word: &str) -> Option<Kind> {
    let (word, astray) = word.strip_suffix('@').map_or((word, false), |word| (word, true));
    let (name, of) = word[1..].split_once(':')?;
    let (of, moved) = of.split_once('+').unwrap_or((of, "0"));
    Some(Kind::Error { name: name.to_owned(), of: of.parse().ok()?, moved: moved.parse().ok()?, astray })
}

/// `FLAGS SEQUENCE[,ACKNOWLEDGEMENT][+LENGTH][wWINDOW][sSCALE]`, without the space
fn segment(word: &str) -> Option<Kind> {
    let end = word.find(|c: char| c.is_ascii_digit())?;
    let (letters, mut rest) = word.split_at(end);
    let bit = |letter| Some(1 << "FSRPAU".find(letter)?);
    let flags = letters.chars().filter(|c| *c != '-').map(bit).try_fold(0, |all, bit| Some(all | bit?))?;
    let mut number = |mark: &str| -> Option<Option<u32>> {
        let Some(from) = rest.strip_prefix(mark) else { return Some(None) };
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        rest = &from[end..];
        from[..end].parse().ok().map(Some)
    };
    let kind = Kind::Tcp {
        flags,
        sequence: number("")??,
        acknowledgement: number(",")?.unwrap_or(0),
        length: number("+")?.unwrap_or(0) as usize,
        window: number("w")?.unwrap_or(1000) as u16,
        scale: number("s")?.map(|scale| scale as u8),
    };
    rest.is_empty().then_some(kind)
}

/// A family, and what is written differently in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Four,
    Six,
}

impl Family {
    fn address(self, side: Side, host: u8) -> Vec<u8> {
        let net = if side == Side::Left { 1 } else { 2 };
        match self {
            Family::Four => vec![10, net, 0, host],
            // As it is written, and so read: hexadecimal.
            Family::Six => {
                let host = host / 10 * 16 + host % 10;
                vec![0x20, 1, 0xd, 0xb8, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]
            }
        }
    }

    /// Type and code of an ICMP error; `None` where the family has none like it.
    fn error(self, name: &str) -> Option<(u8, u8)> {
        let (four, six) = match name {
            "net" => ((3, 0), Some((1, 0))),
            "host" => ((3, 1), Some((1, 3))),
            "port" => ((3, 3), Some((1, 4))),
            "big" => ((3, 4), Some((2, 0))),
            "prohibited" => ((3, 13), Some((1, 1))),
            "quench" => ((4, 0), None),
            "redirect" => ((5, 1), None),
            "ttl" => ((11, 0), Some((3, 0))),
            "parameter" => ((12, 0), Some((4, 0))),
            _ => panic!("{name}?"),
        };
        if self == Family::Four { Some(four) } else { six }
    }

    /// A whole packet, whose upper layer's checksum is at `field`.
    fn packet(
        self,
        number: u32,
        ends: [&[u8]; 2],
        protocol: u8,
        mut upper: Vec<u8>,
        field: usize,
    ) -> Vec<u8> {
        let length = upper.len() as u16;
        let mut head = match self {
            Family::Four => {
                let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
                head[2..4].copy_from_slice(&(20 + length).to_be_bytes());
                head[4..6].copy_from_slice(&(number as u16).to_be_bytes());
                head
            }
            Family::Six => {
                let mut head = (6 << 28 | number).to_be_bytes().to_vec();
                head.extend(length.to_be_bytes());
                head.extend([protocol, 64]);
                head
            }
        };
        head.extend(ends.concat());
        let covered = match protocol {
            UDP_LITE => usize::from(u16::from_be_bytes([upper[4], upper[5]])),
            _ => upper.len(),
        };
        let pseudo = match protocol {
            ICMP => Sum::new(),
            _ => Sum::new().with(&ends.concat()).with_u16(protocol.into()).with_u16(length),
        };
        if protocol == SCTP {
            let sum = crc32c::crc32c(&upper).to_le_bytes();
            upper[field..field + 4].copy_from_slice(&sum);
        } else {
            let sum = pseudo.with(&upper[..covered]).finish();
            upper[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if self == Family::Four {
            let sum = checksum::of(&head).to_be_bytes();
            head[10..12].copy_from_slice(&sum);
        }
        [head, upper].concat()
    }
}

/// The packets of a history, each with a number of its own; `None` for one that the family has not.
/// Ports and identifiers are the history's own as well.
fn packets(history: &History, family: Family, own: u16, first: u32) -> Vec<Option<Sent>> {
    let mut sent: Vec<Option<Sent>> = Vec::new();
    for (step, number) in history.steps.iter().zip(first..) {
        let packet = packet(step, family, own, number, &sent);
        sent.push(packet.map(|ip| Sent { side: step.from, ip }));
    }
    sent
}

fn packet(step: &Step, family: Family, own: u16, number: u32, sent: &[Option<Sent>]) -> Option<Vec<u8>> {
    let astray = matches!(step.kind, Kind::Error { astray: true, .. });
    let (from, to) =
        (family.address(step.from, HOSTS[0]), family.address(step.from.other(), HOSTS[usize::from(astray)]));
    let (port, server) = (own.to_be_bytes(), 80u16.to_be_bytes());
    let ports = if step.from == Side::Left { [port, server] } else { [server, port] }.concat();
    let (protocol, upper, field) = match &step.kind {
        Kind::Tcp { flags, sequence, acknowledgement, window, scale, length } => {
            let options = scale.map_or(vec![], |scale| vec![3, 3, scale, 1]);
            let mut upper = ports;
            upper.extend(sequence.to_be_bytes());
            upper.extend(acknowledgement.to_be_bytes());
            upper.extend([0x50 + ((options.len() as u8 / 4) << 4), *flags]);
            upper.extend(window.to_be_bytes());
            upper.extend([0; 4]);
            upper.extend(options);
            upper.resize(upper.len() + length, 0x61);
            (TCP, upper, 16)
        }
        Kind::Udp { length } => {
            let mut upper = ports;
            upper.extend((8 + *length as u16).to_be_bytes());
            upper.resize(8 + length, 0);
            (UDP, upper, 6)
        }
        Kind::Lite { covered } => {
            let mut upper = ports;
            upper.extend(covered.to_be_bytes());
            upper.resize(28, 0);
            (UDP_LITE, upper, 6)
        }
        Kind::Init { answer } => {
            // Verification tag and checksum; chunk, flags, length; initiate tag, window, streams
            // each way, first number.
            let mut upper = [ports, vec![0, 0, 0, u8::from(*answer), 0, 0, 0, 0]].concat();
            upper.extend([if *answer { 2 } else { 1 }, 0, 0, 20, 0, 0, 0, 1 + u8::from(*answer)]);
            upper.extend([0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9]);
            (SCTP, upper, 8)
        }
        Kind::Echo { reply } => {
            let (protocol, kind) = match (family, reply) {
                (Family::Four, false) => (ICMP, 8),
                (Family::Four, true) => (ICMP, 0),
                (Family::Six, false) => (ICMP6, 128),
                (Family::Six, true) => (ICMP6, 129),
            };
            (protocol, [&[kind, 0, 0, 0], &port[..], &[0, 1], &[0x61; 24]].concat(), 2)
        }
        Kind::Error { name, of, moved, .. } => {
            let (kind, code) = family.error(name)?;
            let mut quote = sent[of - 1].as_ref()?.ip.clone();
            let (at, protocol) = if family == Family::Four { (20, ICMP) } else { (40, ICMP6) };
            if *moved != 0 {
                let sequence = u32::from_be_bytes(quote[at + 4..at + 8].try_into().expect("four bytes"));
                quote[at + 4..at + 8].copy_from_slice(&sequence.wrapping_add(*moved).to_be_bytes());
            }
            (protocol, [&[kind, code, 0, 0, 0, 0, 0, 0][..], &quote].concat(), 2)
        }
    };
    let upper_length = upper.len();
    let mut packet = family.packet(number, [&from, &to], protocol, upper, field);
    if step.behind && family == Family::Six {
        let length = (upper_length as u16 + 8).to_be_bytes();
        packet[4..7].copy_from_slice(&[length[0], length[1], DESTINATION_OPTIONS]);
        packet.splice(40..40, [protocol, 0, 1, 4, 0, 0, 0, 0]);
    }
    if step.damaged {
        // In the checksum itself: what else the packet says stays.
        let at = packet.len() - upper_length + field;
        packet[at] ^= 0x10;
    }
    Some(packet)
}

/// What the filter thought of a packet, by its code point.
fn state(sent: Option<&Sent>) -> &'static str {
    let Some(Sent { ip, .. }) = sent else { return "lost" };
    let dscp = if ip[0] >> 4 == 4 { ip[1] >> 2 } else { (ip[0] & 15) << 2 | ip[1] >> 6 };
    STATES.iter().find(|(code, _)| *code == dscp).map_or("unmarked", |(_, state)| state)
}

/// All histories, each with the states of its packets; `None` for packets that the family has not.
type Told = Vec<Vec<Option<&'static str>>>;

fn tell(net: &Line, histories: &[History], family: Family, ports: u16) -> Told {
    let mut first = 1;
    let mut all = Vec::new();
    for (history, own) in histories.iter().zip(ports..) {
        all.push((first, packets(history, family, own, first)));
        first += history.steps.len() as u32;
    }
    assert!(first < 1 << 16, "as many packets as IPv4 can number");
    let longest = histories.iter().map(|history| history.steps.len()).max().unwrap_or(0);
    let rounds: Vec<Vec<Sent>> = (0..longest)
        .map(|round| all.iter().filter_map(|(_, packets)| packets.get(round)?.clone()).collect())
        .collect();
    let came = through(net, &rounds);
    let states = |(first, packets): &(u32, Vec<Option<Sent>>)| {
        (*first..)
            .zip(packets)
            .map(|(number, packet)| packet.as_ref().map(|_| state(came.get(&number))))
            .collect()
    };
    all.iter().map(states).collect()
}

/// Where Bifrost and Linux do not agree, or agree though a difference is noted.
fn difference(history: &History, bifrost: &[Option<&str>], linux: &[Option<&str>]) -> Option<String> {
    let is_wrong = history.steps.iter().zip(bifrost).zip(linux).any(|((step, bifrost), linux)| {
        match (&step.differs, bifrost, linux) {
            (_, None, _) | (_, _, None) => false,
            (None, bifrost, linux) => bifrost != linux,
            (Some(noted), Some(bifrost), Some(linux)) => noted != bifrost || bifrost == linux,
        }
    });
    let row = |states: &[Option<&str>]| {
        states.iter().map(|state| state.unwrap_or("-")).collect::<Vec<_>>().join(" ")
    };
    is_wrong.then(|| format!("{history}\n  Linux   {}\n  Bifrost {}", row(linux), row(bifrost)))
}

#[test]
fn in_each_lane() {
    let [text, documentation] = [HISTORIES, DOCUMENTATION].map(|file| std::fs::read_to_string(file).unwrap());
    let histories = histories(&text);
    for history in histories.iter().filter(|history| history.steps.iter().any(|step| step.differs.is_some()))
    {
        let Some(title) = history.section.strip_prefix("Other than Linux: ") else {
            panic!("{history}: a difference that no section explains");
        };
        assert!(documentation.contains(title), "docs/filter.md does not say: {title}");
    }
    let mut net = network("against", &config(LANES[0]));
    let families = [Family::Four, Family::Six];
    let router = net.router.host().clone();
    router.run(&format!("nft -f - <<'END'\n{}END\n", table())).unwrap();
    let linux = families.map(|family| tell(&net, &histories, family, 10_000));
    router.run("nft delete table inet probe").unwrap();
    if !net.router.is_bifrost() {
        return;
    }
    let mut wrongs = Vec::new();
    // A router that starts anew knows the flows that it had: each run has ports of its own.
    for (lane, first) in LANES.into_iter().zip([20_000, 30_000]) {
        net.router.configure(&config(lane)).unwrap();
        net.router.restart().unwrap();
        net.reachable();
        for (family, linux) in families.iter().zip(&linux) {
            let bifrost = tell(&net, &histories, *family, first);
            let wrong = histories.iter().zip(&bifrost).zip(linux);
            let wrong = wrong.filter_map(|((history, bifrost), linux)| difference(history, bifrost, linux));
            wrongs.extend(wrong.map(|wrong| format!("{lane}, {family:?}, {wrong}")));
        }
    }
    assert!(wrongs.is_empty(), "{} differ\n{}", wrongs.len(), wrongs.join("\n"));
}
