//! One line of a rule list as a rule.

use std::net::IpAddr;

use super::address::{self, nets};
use super::item::*;
use super::words::{Word, Words};
use crate::mistake::{Hint, Page};
use crate::model::*;
use crate::names::{self, Names};
use wire::protocol;

/// A name that a rule uses, and where.
pub(crate) struct Used {
    pub name: String,
    pub at: std::ops::Range<usize>,
}

/// What a rule needs from elsewhere.
#[derive(Default)]
pub(crate) struct Uses {
    pub chains: Vec<Used>,
    pub sets: Vec<Used>,
    /// Where it asks for the port a packet leaves by.
    pub out: Option<std::ops::Range<usize>>,
}

/// A line being read.
struct Line<'p, 't, 'd> {
    page: &'p mut Page<'d>,
    words: Words<'t>,
    rule: Rule,
    uses: Uses,
    wrong: bool,
}

const ACTIONS: &[&str] =
    &["accept", "drop", "reject", "jump", "return", "log", "count", "mark", "set-dscp", "police"];
const MATCHES: &[&str] = &[
    "ip", "ip6", "proto", "from", "to", "port", "type", "flags", "dscp", "length", "fragment", "in", "out",
    "state", "marked", "time", "rate", "name", "kernel",
];
const RATE: &str = "a rate: 100pps, 5kpps, 10Mbit";
const REJECTS: &Names<Reject> = &[
    ("tcp-reset", Reject::TcpReset),
    ("port-unreachable", Reject::PortUnreachable),
    ("host-unreachable", Reject::HostUnreachable),
    ("no-route", Reject::NoRoute),
    ("prohibited", Reject::Prohibited),
];

/// The word for a way of rejecting.
pub(crate) fn name_of_reject(reject: Reject) -> Option<&'static str> {
    names::name(REJECTS, &reject)
}

/// Reads a rule. `None` when something is wrong with it, which the page then knows.
pub(crate) fn rule(page: &mut Page, words: Words, place: Place) -> Option<(Rule, Uses)> {
    let before = page.found.len();
    let comment = words.comment.map(str::to_owned);
    let start = words_start(&words, page);
    let rule = Rule { place, comment, ..Rule::default() };
    let mut line = Line { page, words, rule, uses: Uses::default(), wrong: false };
    line.actions();
    line.matches();
    if line.page.found.len() == before {
        line.agree(start);
    }
    let Line { page, rule, uses, wrong, .. } = line;
    (!wrong && page.found.len() == before).then_some((rule, uses))
}

fn words_start(words: &Words, page: &Page) -> std::ops::Range<usize> {
    words.whole().unwrap_or(page.text.len()..page.text.len())
}

impl<'t> Line<'_, 't, '_> {
    fn wrong(&mut self, word: &Word, message: impl Into<String>, hint: Hint) {
        self.page.wrong(word.at.clone(), message, hint);
        self.wrong = true;
    }

    fn need(&mut self, what: &str, expected: &str) -> Option<Word<'t>> {
        let word = self.words.need(self.page, what, expected);
        self.wrong |= word.is_none();
        word
    }

    fn actions(&mut self) {
        let mut any = false;
        while let Some(text) = self.words.peek().filter(|text| ACTIONS.contains(text)) {
            let Some(word) = self.words.take() else { break };
            any = true;
            match text {
                "log" => {
                    let log = self.log();
                    self.rule.effects.log = log;
                }
                "count" => self.rule.effects.count = true,
                "mark" => {
                    let mark = self.need("the mark", "a number").and_then(|word| self.number32(&word));
                    self.rule.effects.mark = mark;
                }
                "set-dscp" => {
                    let word = self.need("the code point", "ef, af11, cs1, ... or 0 to 63");
                    self.rule.effects.dscp = word.and_then(|word| self.dscp(&word));
                }
                "police" => self.rule.effects.police = self.rate(),
                _ => {
                    let verdict = self.verdict(text);
                    if self.rule.verdict.is_some() {
                        self.wrong(&word, "a rule decides once", Hint::none());
                    }
                    self.rule.verdict = verdict;
                }
            }
        }
        if !any {
            let expected = "accept, drop, reject, jump, return, log, count, mark, set-dscp or police";
            match self.words.take() {
                Some(word) if word.text == "pass" || word.text == "permit" || word.text == "allow" => {
                    let hint = Hint { expected: None, meant: Some("\"accept\"".into()) };
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                Some(word) if word.text == "deny" || word.text == "block" => {
                    let hint = Hint { expected: None, meant: Some("\"drop\"".into()) };
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                Some(word) => {
                    let hint = Hint::near(word.text, ACTIONS.iter().copied()).or_expected(expected);
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                None => {}
            }
        }
    }

    fn verdict(&mut self, text: &str) -> Option<Verdict> {
        Some(match text {
            "accept" => Verdict::Accept,
            "drop" => Verdict::Drop,
            "return" => Verdict::Return,
            "jump" => {
                let word = self.need("the chain", "the name of a chain")?;
                self.uses.chains.push(Used { name: word.text.to_owned(), at: word.at });
                Verdict::Jump { chain: word.text.to_owned(), number: 0 }
            }
            _ => {
                if !self.words.take_if("with") {
                    return Some(Verdict::Reject(Reject::Auto));
                }
                let kinds = REJECTS.iter().map(|(name, _)| *name);
                let expected = "tcp-reset, port-unreachable, host-unreachable, no-route or prohibited";
                let word = self.need("the kind", expected)?;
                match names::number(REJECTS, word.text) {
                    Some(kind) => Verdict::Reject(kind),
                    None => {
                        let hint = Hint::near(word.text, kinds).or_expected(expected);
                        self.wrong(&word, format!("nothing is rejected with {:?}", word.text), hint);
                        return None;
                    }
                }
            }
        })
    }

    fn log(&mut self) -> Option<Log> {
        let mut log = Log { every: 1, limit: Rate::new(100, Unit::Packets) };
        loop {
            if self.words.take_if("every") {
                let word = self.need("how many packets", "a number from 1")?;
                match word.text.parse() {
                    Ok(every) if every > 0 => log.every = every,
                    _ => self.wrong(&word, format!("{:?} is no number from 1", word.text), Hint::none()),
                }
            } else if self.words.take_if("at") {
                if !self.words.take_if("most") {
                    let word = self.need("\"most\"", "log at most 10pps")?;
                    self.wrong(&word, "behind \"at\" stands \"most\"", Hint::expected("log at most 10pps"));
                    return None;
                }
                log.limit = self.rate()?;
            } else {
                return Some(log);
            }
        }
    }

    /// `100pps burst 20`, `10Mbit burst 64kB`.
    fn rate(&mut self) -> Option<Rate> {
        let word = self.need("the rate", RATE)?;
        let mut rate = match rate_of(word.text) {
            Ok((per_second, unit)) => Rate::new(per_second, unit),
            Err(message) => {
                self.wrong(&word, message, Hint::expected(RATE));
                return None;
            }
        };
        if self.words.take_if("burst") {
            let expected = match rate.unit {
                Unit::Packets => "a number of packets, from 1",
                Unit::Bits => "a number of bytes, from 1: 15000B, 64kB, 1MB",
            };
            let word = self.need("the burst", expected)?;
            match burst_of(word.text, rate.unit) {
                Some(burst) => rate.burst = burst,
                None => {
                    self.wrong(
                        &word,
                        format!("{:?} is no burst of this rate", word.text),
                        Hint::expected(expected),
                    );
                }
            }
        }
        Some(rate)
    }

    fn matches(&mut self) {
        // Which `port` belongs to which address: the last one named.
        let mut side = None;
        while let Some(word) = self.words.take() {
            let before = self.rule.matches.clone();
            match word.text {
                "ip" => self.family(&word, Family::Ipv4),
                "ip6" => self.family(&word, Family::Ipv6),
                "proto" => self.protocols(&word),
                "from" => {
                    side = Some(Side::Source);
                    let list = self.addresses();
                    self.rule.matches.source = list;
                }
                "to" => {
                    side = Some(Side::Destination);
                    let list = self.addresses();
                    self.rule.matches.destination = list;
                }
                "port" => {
                    let list = self.list("the ports", "ports and ranges: 80,443,1024-65535", port);
                    match side {
                        Some(Side::Source) => self.rule.matches.source_ports = list,
                        Some(Side::Destination) => self.rule.matches.destination_ports = list,
                        None => {
                            let hint = Hint::expected("from any port 53, or to any port 53");
                            self.wrong(&word, "ports of which side?", hint);
                        }
                    }
                }
                "type" => self.icmp(&word),
                "flags" => {
                    self.rule.matches.flags =
                        self.list("the flags", "syn, syn+ack, syn/syn+ack+fin+rst", flags);
                }
                "dscp" => {
                    self.rule.matches.dscp =
                        self.list("the code points", "ef, af11, cs1, ... or 0 to 63", dscp);
                }
                "length" => {
                    self.rule.matches.length =
                        self.list("the lengths", "bytes, and ranges of them: 0-128", span);
                }
                "fragment" => self.fragment(),
                "in" => {
                    self.rule.matches.in_ports =
                        self.list("the port", "names of interfaces: eth0,eth1 or wlan*", interface);
                }
                "out" => {
                    self.uses.out = Some(word.at.clone());
                    self.rule.matches.out_ports =
                        self.list("the port", "names of interfaces: eth0,eth1 or wlan*", interface);
                }
                "state" => {
                    let list =
                        self.list("the states", "new, established, related, invalid, untracked", |text| {
                            named(names::STATES, text, "state")
                        });
                    let bits = list.map(|list| bits_of(&list, 0x1f));
                    self.rule.matches.states = bits;
                }
                "marked" => self.mark(),
                "time" => self.time(&word),
                "rate" => self.rate_match(),
                "name" => {
                    let Some(word) = self.need("the name", "a word") else { return };
                    self.rule.name = Some(word.text.to_owned());
                }
                "kernel" => {
                    let Some(word) = self.need("what the kernel does", "open or closed") else { return };
                    match word.text {
                        "open" => self.rule.fallback = Some(Fallback::Open),
                        "closed" => self.rule.fallback = Some(Fallback::Closed),
                        _ => self.wrong(
                            &word,
                            format!("kernel cannot be {:?}", word.text),
                            Hint::expected("open or closed"),
                        ),
                    }
                }
                text => match protocol::number(text) {
                    Some(number) => {
                        if self.rule.matches.protocols.is_some() {
                            let hint = Hint::expected("proto tcp,udp for several");
                            self.wrong(&word, "the protocol stands there already", hint);
                        }
                        self.rule.matches.protocols = Some(List { not: false, items: vec![number] });
                        continue;
                    }
                    None => self.unknown(&word),
                },
            }
            if twice(&before, &self.rule.matches) {
                self.wrong(&word, format!("{:?} stands there already", word.text), Hint::none());
            }
        }
    }

    fn unknown(&mut self, word: &Word) {
        if ACTIONS.contains(&word.text) {
            let hint = Hint::expected("actions first, then what they are done with");
            return self.wrong(word, format!("{:?} stands too far behind", word.text), hint);
        }
        let protocols = protocol::NAMES.iter().map(|(name, _)| *name);
        let hint = if nets(word.text).is_ok() || word.text.starts_with('@') || word.text == "any" {
            Hint::expected("from or to before an address")
        } else {
            Hint::near(word.text, MATCHES.iter().copied().chain(protocols))
        };
        self.wrong(word, format!("{:?} is nothing that a rule matches", word.text), hint);
    }

    fn family(&mut self, word: &Word, family: Family) {
        if self.rule.matches.family.is_some_and(|other| other != family) {
            self.wrong(word, "no packet is of both families", Hint::none());
        }
        self.rule.matches.family = Some(family);
    }

    fn protocols(&mut self, word: &Word) {
        let list = self.list("the protocols", "names or numbers: tcp, gre, 47", |text| {
            protocol::number(text).or_else(|| text.parse().ok()).ok_or_else(|| {
                let known = protocol::NAMES.iter().map(|(name, _)| *name);
                (format!("there is no protocol {text:?}"), Hint::near(text, known))
            })
        });
        if self.rule.matches.protocols.is_some() {
            self.wrong(word, "the protocol stands there already", Hint::none());
        }
        self.rule.matches.protocols = list;
    }

    /// The items of a list, each read by `read`.
    fn list<T>(
        &mut self,
        what: &str,
        expected: &str,
        mut read: impl FnMut(&str) -> Result<T, (String, Hint)>,
    ) -> Option<List<T>> {
        let Some((not, words)) = self.words.list(self.page, what, expected) else {
            self.wrong = true;
            return None;
        };
        let mut items = Vec::new();
        for word in &words {
            match read(word.text) {
                Ok(item) => items.push(item),
                Err((message, hint)) => {
                    let expected = hint.expected.clone().unwrap_or_else(|| expected.to_owned());
                    self.wrong(word, message, hint.or_expected(expected));
                }
            }
        }
        (!items.is_empty()).then_some(List { not, items })
    }

    fn addresses(&mut self) -> Option<List<Address>> {
        if self.words.take_if("any") {
            return None;
        }
        let (not, words) = match self.words.list(self.page, "the address", address::EXPECTED) {
            Some(list) => list,
            None => {
                self.wrong = true;
                return None;
            }
        };
        let mut items = Vec::new();
        for word in &words {
            if let Some(name) = word.text.strip_prefix('@') {
                self.uses.sets.push(Used { name: name.to_owned(), at: word.at.clone() });
                items.push(Address::Set { name: name.to_owned(), number: 0 });
                continue;
            }
            match nets(word.text) {
                Ok(nets) => items.extend(nets.into_iter().map(Address::Net)),
                Err(_) if word.text == "any" => {
                    let message = "any is every address: it stands alone, and is not turned round";
                    self.wrong(word, message, Hint::expected("any, or a list without it"));
                }
                Err(message) => self.wrong(word, message, Hint::expected(address::EXPECTED)),
            }
        }
        (!items.is_empty()).then_some(List { not, items })
    }

    fn icmp(&mut self, word: &Word) {
        let known = match self.rule.matches.protocols.as_ref().map(|list| (list.not, list.items.as_slice())) {
            Some((false, [protocol::ICMP])) => names::ICMP,
            Some((false, [protocol::ICMP6])) => names::ICMP6,
            _ => {
                self.wrong(word, "types of which protocol?", Hint::expected("icmp or icmpv6 before type"));
                names::ICMP
            }
        };
        self.rule.matches.icmp = self.list(
            "the types",
            "names, numbers, ranges, or type/code: echo-request, 13-18, 3/4",
            |text| icmp(known, text),
        );
    }

    fn fragment(&mut self) {
        let follows = self.words.peek().and_then(|text| text.trim_start_matches('!').split(',').next());
        let bits = if follows.is_some_and(|text| names::number(names::FRAGMENTS, text).is_some()) {
            let list =
                self.list("the parts", "first, later, whole", |text| named(names::FRAGMENTS, text, "part"));
            list.map(|list| bits_of(&list, 7))
        } else {
            Some(fragment::FIRST | fragment::LATER)
        };
        self.rule.matches.fragment = bits;
    }

    fn mark(&mut self) {
        let Some(word) = self.need("the mark", "a number, or number/mask") else { return };
        let (not, text) = word.text.strip_prefix('!').map_or((false, word.text), |text| (true, text));
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        match (number32(value), number32(mask)) {
            (Some(value), Some(mask)) => {
                self.rule.matches.mark = Some(Mark { not, value: value & mask, mask });
            }
            _ => {
                let hint = Hint::expected("a number, or number/mask: 5, 0x10/0xf0");
                self.wrong(&word, format!("{text:?} is no mark"), hint);
            }
        }
    }

    fn time(&mut self, at: &Word) {
        let expected = "time 22:00-06:00 mon-fri,sun utc";
        let mut window = Window { minutes: None, days: 0, zone: Zone::Utc };
        let mut zone = None;
        while zone.is_none() {
            let Some(text) = self.words.peek() else { break };
            if text == "utc" || text == "local" {
                zone = Some(if text == "utc" { Zone::Utc } else { Zone::Local });
                self.words.take();
            } else if text.contains(':') && window.minutes.is_none() {
                let Some(word) = self.words.take() else { break };
                // What follows is read all the same, and no mistake of its own.
                window.minutes = hours(text).or_else(|| {
                    let message = format!("{text:?} is no part of a day");
                    self.wrong(&word, message, Hint::expected("08:00-18:00"));
                    Some((0, 0))
                });
            } else if names::DAYS.contains(&text.get(..3).unwrap_or_default()) {
                let list = self.list("the days", "mon, tue-fri", days);
                window.days |= list.map_or(Window::EVERY_DAY, |list| bits_of(&list, Window::EVERY_DAY));
            } else {
                break;
            }
        }
        let Some(zone) = zone else {
            return self.wrong(
                at,
                "whose time?",
                Hint::expected(format!("utc or local at the end: {expected}")),
            );
        };
        if window.minutes.is_none() && window.days == 0 {
            return self.wrong(at, "which time?", Hint::expected(expected));
        }
        if window.days == 0 {
            window.days = Window::EVERY_DAY;
        }
        self.rule.matches.time = Some(Window { zone, ..window });
    }

    fn rate_match(&mut self) {
        let Some(word) = self.need("\"over\" or \"below\"", "rate over 100pps, rate below 10Mbit") else {
            return;
        };
        let over = match word.text {
            "over" => true,
            "below" => false,
            text => {
                let hint = Hint::expected("rate over 100pps, rate below 10Mbit");
                return self.wrong(&word, format!("a rate is over or below, not {text:?}"), hint);
            }
        };
        let Some(rate) = self.rate() else { return };
        let mut sources = None;
        if self.words.take_if("per") {
            let Some(word) = self.need("\"source\"", "per source") else { return };
            if word.text != "source" {
                return self.wrong(
                    &word,
                    format!("rates are not kept per {:?}", word.text),
                    Hint::expected("per source"),
                );
            }
            sources = Some(65_536);
            if self.words.take_if("table") {
                let expected = "how many sources the table holds, 64 to 4000000";
                let Some(word) = self.need("the size", expected) else { return };
                match word.text.parse::<u32>() {
                    Ok(size) if (64..=4_000_000).contains(&size) => sources = Some(size),
                    _ => self.wrong(
                        &word,
                        format!("{:?} is no size of a table", word.text),
                        Hint::expected(expected),
                    ),
                }
            }
        }
        self.rule.matches.rate = Some(RateMatch { over, rate, sources });
    }

    fn number32(&mut self, word: &Word) -> Option<u32> {
        let number = number32(word.text);
        if number.is_none() {
            self.wrong(word, format!("{:?} is no number of 32 bits", word.text), Hint::expected("5, 0x10"));
        }
        number
    }

    fn dscp(&mut self, word: &Word) -> Option<u8> {
        dscp(word.text).map_err(|(message, hint)| self.wrong(word, message, hint)).ok()
    }

    /// Whether what the rule says goes together; fills in what follows from it.
    fn agree(&mut self, at: std::ops::Range<usize>) {
        let Match { flags, icmp, source_ports, destination_ports, .. } = &self.rule.matches;
        let ports = source_ports.is_some() || destination_ports.is_some();
        let (has_flags, has_icmp) = (flags.is_some(), icmp.is_some());
        let only = |protocols: &Option<List<u8>>, fits: &dyn Fn(u8) -> bool| {
            protocols.as_ref().is_none_or(|list| !list.not && list.items.iter().all(|&number| fits(number)))
        };
        let mut complain = |message: &str, expected: &str| {
            self.page.wrong(at.clone(), message, Hint::expected(expected));
            self.wrong = true;
        };
        let matches = &mut self.rule.matches;
        if ports && !only(&matches.protocols, &protocol::has_ports) {
            complain("only some protocols have ports", "tcp, udp, sctp, dccp or udplite, or no protocol");
        }
        if has_flags && !only(&matches.protocols, &|number| number == protocol::TCP) {
            complain("only TCP has flags", "tcp");
        }
        if has_flags {
            matches.protocols = Some(List { not: false, items: vec![protocol::TCP] });
        }
        let tcp = matches.protocols.as_ref().is_some_and(|list| !list.not && list.items == [protocol::TCP]);
        if self.rule.verdict == Some(Verdict::Reject(Reject::TcpReset)) && !tcp {
            complain("only TCP can be reset", "tcp in the rule, or reject without a kind");
        }
        if has_icmp {
            let six = matches.protocols.as_ref().is_some_and(|list| list.items == [protocol::ICMP6]);
            let family = if six { Family::Ipv6 } else { Family::Ipv4 };
            if matches.family.is_some_and(|other| other != family) {
                complain("no packet is of both families", "icmp with ip, icmpv6 with ip6");
            }
            matches.family = Some(family);
        }
        if Family::BOTH.iter().all(|&family| !matches.possible_in(family)) {
            complain("no packet is of both families", "addresses of one family, or of both on either side");
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// Whether a second match of the same kind has replaced a first.
fn twice(before: &Match, after: &Match) -> bool {
    fn replaced<T: PartialEq>(before: &Option<T>, after: &Option<T>) -> bool {
        before.is_some() && before != after
    }
    replaced(&before.source, &after.source)
        || replaced(&before.destination, &after.destination)
        || replaced(&before.source_ports, &after.source_ports)
        || replaced(&before.destination_ports, &after.destination_ports)
        || replaced(&before.flags, &after.flags)
        || replaced(&before.icmp, &after.icmp)
        || replaced(&before.dscp, &after.dscp)
        || replaced(&before.length, &after.length)
        || replaced(&before.fragment, &after.fragment)
        || replaced(&before.in_ports, &after.in_ports)
        || replaced(&before.out_ports, &after.out_ports)
        || replaced(&before.states, &after.states)
        || replaced(&before.mark, &after.mark)
        || replaced(&before.time, &after.time)
        || replaced(&before.rate, &after.rate)
}

impl Match {
    /// Whether packets of a family can match at all.
    pub fn possible_in(&self, family: Family) -> bool {
        let in_list = |list: &Option<List<Address>>| {
            list.as_ref().is_none_or(|list| {
                list.items.iter().any(|item| match item {
                    Address::Net(net) => IpAddr::is_ipv4(&net.addr()) == (family == Family::Ipv4),
                    Address::Set { .. } => true,
                })
            })
        };
        self.family.is_none_or(|only| only == family) && in_list(&self.source) && in_list(&self.destination)
    }
}
