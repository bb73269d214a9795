//! Sentences that are to stay true: which packets, and what becomes of them.
//!
//! ```text
//! ssh from 192.0.2.0/24 reaches me
//! 198.51.100.7 tcp 443 is forwarded
//! 10.0.0.5 > 198.51.100.7 udp 53 in lan0 is forwarded
//! nothing of 10.9.0.0/16 is dropped
//! telnet from any to 198.51.100.0/24 is dropped
//! ```
//!
//! Packets are described by the matches of rules ([`crate::matches`]), and by the words of
//! questions to `bifrost explain`: an address alone is where they go, `A > B` says both ends, and a
//! port behind a protocol is where they go. A service stands for its protocol and port.

use std::fmt;
use std::ops::Range;

use wire::protocol;

use crate::language::{Line, Uses, Word, Words, nets};
use crate::matches::{Side, port_named};
use crate::mistake::{Hint, Page};
use crate::model::*;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It comes to the router itself.
    Here,
    /// It leaves by an interface.
    Forwarded,
    /// Neither: a rule, a route or the lack of one ends it.
    Dropped,
}

/// What is to stay true.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// As it is written.
    pub text: String,
    /// Where it is written.
    pub place: Place,
    /// It says this of none of its packets, and not of all.
    pub nothing: bool,
    /// What it says of them.
    pub fate: Fate,
    /// Its packets.
    pub matches: Match,
    /// They are pings: echo requests, of whichever family.
    pub ping: bool,
}

impl Sentence {
    /// Whether another one says the same, however it is written.
    pub(super) fn says_as(&self, other: &Sentence) -> bool {
        (self.nothing, self.fate, self.ping) == (other.nothing, other.fate, other.ping)
            && self.matches == other.matches
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Services: protocols and the name of their port.
const SERVICES: &[(&str, &[u8])] = &[
    ("ssh", &[protocol::TCP]),
    ("telnet", &[protocol::TCP]),
    ("smtp", &[protocol::TCP]),
    ("http", &[protocol::TCP]),
    ("https", &[protocol::TCP]),
    ("bgp", &[protocol::TCP]),
    ("ftp", &[protocol::TCP]),
    ("ldap", &[protocol::TCP]),
    ("ldaps", &[protocol::TCP]),
    ("dns", &[protocol::TCP, protocol::UDP]),
    ("ntp", &[protocol::UDP]),
    ("snmp", &[protocol::UDP]),
    ("tftp", &[protocol::UDP]),
    ("syslog", &[protocol::UDP]),
];

/// What a sentence looks like.
const EXPECTED: &str = "[nothing] PACKETS, then reaches me, is forwarded or is dropped: \
                        ssh from 192.0.2.0/24 reaches me";
const ENDS: &str = "reaches me, is forwarded or is dropped";
/// What a packet does not bring with it.
const BEYOND: [&str; 4] = ["marked", "time", "rate", "out"];

/// Reads a sentence. `None` when something is wrong with it, which the page then knows.
pub(crate) fn sentence(
    page: &mut Page,
    text: &str,
    words: Words,
    place: Place,
    filter: Option<&Filter>,
) -> Option<Sentence> {
    let before = page.found.len();
    let whole = words.whole()?;
    let line = Line { page, words, rule: Rule::default(), uses: Uses::default(), side: None, failed: false };
    let mut reader = Reader { line, whole, ping: false, service: None };
    let nothing = reader.line.words.take_if("nothing");
    let fate = reader.packets();
    reader.agree(filter);
    let Reader { line: Line { page, rule, failed, .. }, ping, .. } = reader;
    if failed || page.found.len() > before {
        return None;
    }
    Some(Sentence { text: text.trim().to_owned(), place, nothing, fate: fate?, matches: rule.matches, ping })
}

struct Reader<'p, 't, 'd> {
    line: Line<'p, 't, 'd>,
    whole: Range<usize>,
    ping: bool,
    /// The service that was named.
    service: Option<&'t str>,
}

impl<'t> Reader<'_, 't, '_> {
    /// Reads which packets, up to what becomes of them.
    fn packets(&mut self) -> Option<Fate> {
        while let Some(word) = self.line.words.take() {
            match word.text {
                "reaches" | "is" => return self.end(&word),
                "nothing" => self.wrong(&word, "nothing stands before all else", Hint::expected(EXPECTED)),
                "of" => self.addresses(&word, "from"),
                ">" => self.arrow(&word),
                "ping" => self.service(&word, "ping"),
                text if SERVICES.iter().any(|(name, _)| *name == text) => self.service(&word, text),
                text if BEYOND.contains(&text) => {
                    let message = format!("{text:?} is nothing that a packet brings with it");
                    let hint = Hint::expected("from, to, in, a protocol, and what rules match of packets");
                    self.wrong(&word, message, hint);
                    return None;
                }
                text if is_address(text) => {
                    self.line.words.back();
                    self.addresses(&word, "to");
                }
                text => {
                    if !Match::read(&mut self.line, &word) {
                        self.unknown(&word);
                        return None;
                    }
                    if !self.line.failed && (protocol::number(text).is_some() || text == "proto") {
                        self.ports();
                    }
                }
            }
            // What follows a mistake hardly says what it means.
            if self.line.failed {
                return None;
            }
        }
        let end = self.whole.end;
        let message = "it does not say what becomes of these packets";
        self.line.page.wrong(end.saturating_sub(1)..end, message, Hint::expected(ENDS));
        self.line.failed = true;
        None
    }

    fn wrong(&mut self, word: &Word, message: impl Into<String>, hint: Hint) {
        self.line.wrong(word, message, hint);
    }

    /// Reads addresses as if `as_if` stood before them.
    fn addresses(&mut self, word: &Word, as_if: &'static str) {
        if !Match::read(&mut self.line, &Word { text: as_if, at: word.at.clone() }) {
            self.unknown(word);
        }
    }

    /// `A > B`: what was read as where packets go is where they come from.
    fn arrow(&mut self, word: &Word) {
        let matches = &mut self.line.rule.matches;
        let ends = (matches.source.is_some(), self.line.side);
        if self.line.side == Some(Side::Source) && matches.destination.is_none() {
            // `of A > B`.
            return self.addresses(word, "to");
        }
        if ends != (false, Some(Side::Destination)) {
            let hint = Hint::expected("SOURCE > DESTINATION, with an address on either side");
            return self.wrong(word, "\">\" stands between two addresses", hint);
        }
        matches.source = matches.destination.take();
        matches.source_ports = matches.destination_ports.take();
        self.addresses(word, "to");
    }

    fn service(&mut self, word: &Word<'t>, name: &'t str) {
        if self.line.rule.matches.protocols.is_some() || self.service.is_some() {
            let message = "the protocol stands there already";
            return self.wrong(word, message, Hint::expected("a service, or a protocol and a port"));
        }
        self.service = Some(name);
        let protocols = SERVICES.iter().find(|(known, _)| *known == name).map(|(_, protocols)| *protocols);
        let matches = &mut self.line.rule.matches;
        match protocols {
            Some(protocols) => {
                matches.protocols = Some(List { not: false, items: protocols.to_vec() });
                let port = port_named(name).map(|port| Span { first: port, last: port });
                matches.destination_ports = port.map(|port| List { not: false, items: vec![port] });
            }
            None => self.ping = true,
        }
    }

    /// `tcp 443`, `udp 1024-65535:53`: ports behind the protocol.
    fn ports(&mut self) {
        let is_port = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && !is_address(text);
        let Some(text) = self.line.words.peek().filter(|text| is_port(text)) else { return };
        if let Some((source, destination)) = text.split_once(':') {
            let Some(word) = self.line.words.take() else { return };
            for (side, text) in [(Side::Source, source), (Side::Destination, destination)] {
                match crate::language::span(text) {
                    Ok(span) => self.set_ports(&word, side, List { not: false, items: vec![span] }),
                    Err((message, hint)) => {
                        self.wrong(&word, message, hint.or_expected("tcp 443, tcp 1024-65535:443"))
                    }
                }
            }
            return;
        }
        let Some(word) = self.line.words.peek_word() else { return };
        let list = self.line.list("the ports", "ports and ranges: 80,443,1024-65535", crate::language::span);
        list.into_iter().for_each(|list| self.set_ports(&word, Side::Destination, list));
    }

    fn set_ports(&mut self, word: &Word, side: Side, list: List<Span>) {
        let matches = &mut self.line.rule.matches;
        let ports = match side {
            Side::Source => &mut matches.source_ports,
            Side::Destination => &mut matches.destination_ports,
        };
        if ports.replace(list).is_some() {
            self.wrong(word, "the ports stand there already", Hint::none());
        }
    }

    /// What becomes of the packets; nothing stands behind it.
    fn end(&mut self, word: &Word) -> Option<Fate> {
        let fate = match word.text {
            "reaches" => {
                let me = self.line.need("\"me\"", "reaches me")?;
                if me.text != "me" {
                    let message = format!("a packet reaches me, or is forwarded: not {:?}", me.text);
                    self.wrong(&me, message, Hint::expected("reaches me"));
                }
                Fate::Here
            }
            _ => {
                let what = self.line.need("what becomes of them", "is forwarded or is dropped")?;
                match what.text {
                    "forwarded" => Fate::Forwarded,
                    "dropped" => Fate::Dropped,
                    text => {
                        let meant = match text {
                            "rejected" | "blocked" | "denied" | "filtered" | "refused" | "discarded" => {
                                Hint { expected: None, meant: Some("\"dropped\"".to_owned()) }
                            }
                            "accepted" | "allowed" | "permitted" | "passed" | "routed" | "sent" => Hint {
                                expected: None,
                                meant: Some("\"forwarded\", or \"reaches me\"".to_owned()),
                            },
                            "not" => {
                                Hint { expected: None, meant: Some("\"nothing ... is dropped\"".to_owned()) }
                            }
                            text => Hint::near(text, ["forwarded", "dropped"]),
                        };
                        let message = format!("a packet is forwarded or dropped, not {text:?}");
                        self.wrong(&what, message, meant.or_expected("forwarded or dropped"));
                        return None;
                    }
                }
            }
        };
        if let Some(word) = self.line.words.take() {
            let message = format!("{:?} stands behind what becomes of the packets", word.text);
            self.wrong(&word, message, Hint::expected("all that says which packets before it"));
        }
        Some(fate)
    }

    fn unknown(&mut self, word: &Word) {
        let services = SERVICES.iter().map(|(name, _)| *name);
        let protocols = protocol::NAMES.iter().map(|(name, _)| *name);
        let words = Match::words().chain(["nothing", "of", "ping", "reaches", "is"]);
        let hint = Hint::near(word.text, words.chain(services).chain(protocols)).or_expected(EXPECTED);
        self.wrong(word, format!("{:?} says nothing of packets", word.text), hint);
    }

    /// Whether what it says goes together, and whether there are the sets that it names.
    fn agree(&mut self, filter: Option<&Filter>) {
        let set = |name: &str| filter.map_or(Some(0), |filter| filter.set(name));
        let Line { page, rule, uses, failed, .. } = &mut self.line;
        for used in &uses.sets {
            if set(&used.name).is_none() {
                let known = filter.iter().flat_map(|filter| &filter.sets).map(|(name, _)| name.as_str());
                let hint = Hint::near(&used.name, known);
                page.wrong(used.at.clone(), format!("the filter has no set {:?}", used.name), hint);
                *failed = true;
            }
        }
        for item in [&mut rule.matches.source, &mut rule.matches.destination]
            .into_iter()
            .flatten()
            .flat_map(|list| &mut list.items)
        {
            if let Address::Set { name, number } = item {
                *number = set(name).unwrap_or_default();
            }
        }
        if *failed {
            return;
        }
        let mut complain = |message: &str, expected: &str| {
            page.wrong(self.whole.clone(), message, Hint::expected(expected));
            *failed = true;
        };
        if self.ping && (rule.matches.protocols.is_some() || rule.matches.destination_ports.is_some()) {
            complain("a ping has no protocol besides ICMP, and no ports", "ping, with addresses");
        }
        rule.matches.agree(&mut complain);
    }
}

/// Whether a word is an address, or begins a list of them.
fn is_address(text: &str) -> bool {
    let first = text.trim_start_matches('!').split(',').next().unwrap_or_default();
    let looks = first.contains(['.', '/']) || first.contains("::") || first.matches(':').count() > 1;
    text == "any" || first.starts_with('@') || nets(first).is_ok() || looks
}
