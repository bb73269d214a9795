//! The line in which an operator describes a packet, for `explain`, `trace` and `capture` alike:
//!
//! ```text
//! [SRC > DST] [PROTOCOL [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df]
//!
//! 198.18.0.9 > 203.0.113.7 udp 53 in eth0
//! any > 10.0.0.0/8 tcp 40000:443
//! ```
//!
//! SRC and DST are an address, a prefix or `any`; PROTOCOL is a name or a number. What each program
//! requires of it is for [`Question`](super::Question) and [`Filter`](super::Filter) to say.

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use ipnet::IpNet;
use notation::{carets, printable};
use serde::{Deserialize, Serialize};
use wire::protocol;

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol(pub u8);

impl Protocol {
    fn named(name: &str) -> Option<Protocol> {
        protocol::number(name).map(Protocol)
    }

    /// It starts with a source and a destination port.
    pub fn has_ports(self) -> bool {
        protocol::has_ports(self.0)
    }
}

impl FromStr for Protocol {
    type Err = ();

    /// A name or a number.
    fn from_str(text: &str) -> Result<Protocol, ()> {
        Protocol::named(text).or_else(|| text.parse().ok().map(Protocol)).ok_or(())
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match protocol::name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A line that could not be understood; shows the line with a caret under the word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {}\n  {}", printable(&self.text), self.carets())]
pub struct WordError {
    message: String,
    text: String,
    at: Range<usize>,
}

impl WordError {
    pub(super) fn new(text: &str, at: Range<usize>, message: impl Into<String>) -> WordError {
        WordError { message: message.into(), text: text.to_owned(), at }
    }

    fn carets(&self) -> String {
        let characters = |part| self.text.get(part).map_or(0, |part: &str| part.chars().count());
        carets(characters(0..self.at.start), characters(self.at.clone()))
    }
}

/// A part of the line, and where it stood.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part<T> {
    pub value: T,
    pub at: Range<usize>,
}

/// The parts of a line, before anyone says which of them must be there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Words {
    pub source: Option<Part<IpNet>>,
    pub destination: Option<Part<IpNet>>,
    pub protocol: Option<Protocol>,
    pub source_port: Option<u16>,
    pub destination_port: Option<u16>,
    pub input: Option<String>,
    pub ttl: Option<u8>,
    pub length: Option<Part<u16>>,
    pub dont_fragment: Option<Part<()>>,
}

impl Words {
    pub fn read(text: &str) -> Result<Words, WordError> {
        Reader { text, words: split(text), next: 0 }.read()
    }
}

/// Splits at white space; `>` is a word of its own.
fn split(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || c == '>' {
            if let Some(start) = start.take() {
                words.push(start..at);
            }
            if c == '>' {
                words.push(at..at + 1);
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    if let Some(start) = start {
        words.push(start..text.len());
    }
    words
}

struct Reader<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
    next: usize,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Words, WordError> {
        let mut parts = Words::default();
        if self.words.get(1).is_some_and(|at| &self.text[at.clone()] == ">") {
            parts.source = self.address("a source")?;
            self.next += 1;
            parts.destination = self.address("a destination")?;
            self.one_family(&parts)?;
        } else if self.peek() == Some("any") && self.words.len() == 1 {
            self.next += 1;
        }
        while let Some(word) = self.peek() {
            let at = self.here();
            self.next += 1;
            match word {
                "in" if parts.input.is_none() => parts.input = Some(self.port_name()?),
                "ttl" if parts.ttl.is_none() => parts.ttl = Some(self.number("a TTL", 0, 255)?.value),
                "len" if parts.length.is_none() => {
                    parts.length = Some(self.number("a length in bytes", 20, 65535)?)
                }
                "df" if parts.dont_fragment.is_none() => parts.dont_fragment = Some(Part { value: (), at }),
                "in" | "ttl" | "len" | "df" => return self.fail(at, format!("{word:?} is said twice")),
                _ if parts.protocol.is_none() => self.protocol(word, at, &mut parts)?,
                _ => return self.fail(at, unexpected(word)),
            }
        }
        Ok(parts)
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|at| &self.text[at.clone()])
    }

    /// Where the next word stands, or the end of the line.
    fn here(&self) -> Range<usize> {
        self.words.get(self.next).cloned().unwrap_or(self.text.len()..self.text.len())
    }

    fn fail<T>(&self, at: Range<usize>, message: impl Into<String>) -> Result<T, WordError> {
        Err(WordError::new(self.text, at, message))
    }

    fn address(&mut self, what: &str) -> Result<Option<Part<IpNet>>, WordError> {
        let at = self.here();
        let Some(word) = self.peek() else {
            return self.fail(at, format!("expected {what}: an address, a prefix or \"any\""));
        };
        self.next += 1;
        if word == "any" {
            return Ok(None);
        }
        match IpNet::from_str(word).or_else(|_| IpAddr::from_str(word).map(IpNet::from)) {
            Ok(net) => Ok(Some(Part { value: net.trunc(), at })),
            Err(_) => self.fail(at, format!("{word:?} is not {what}: an address, a prefix or \"any\"")),
        }
    }

    fn one_family(&self, parts: &Words) -> Result<(), WordError> {
        let (Some(source), Some(destination)) = (&parts.source, &parts.destination) else { return Ok(()) };
        if source.value.addr().is_ipv4() == destination.value.addr().is_ipv4() {
            return Ok(());
        }
        let message = format!("a packet has one family: {} is not of {}'s", destination.value, source.value);
        self.fail(destination.at.clone(), message)
    }

    fn protocol(&mut self, word: &str, at: Range<usize>, parts: &mut Words) -> Result<(), WordError> {
        let known: Option<Protocol> = word.parse().ok();
        let Some(found) = known else { return self.fail(at, unexpected(word)) };
        parts.protocol = Some(found);
        let Some(ports) =
            self.peek().filter(|next| next.starts_with(|c: char| c.is_ascii_digit() || c == ':'))
        else {
            return Ok(());
        };
        let at = self.here();
        self.next += 1;
        if !found.has_ports() {
            return self.fail(at, format!("{found} has no ports"));
        }
        let (source, destination) = match ports.split_once(':') {
            Some((source, destination)) => (source, destination),
            None => ("", ports),
        };
        parts.source_port = self.one_port(source, &at)?;
        parts.destination_port = self.one_port(destination, &at)?;
        Ok(())
    }

    fn one_port(&self, word: &str, at: &Range<usize>) -> Result<Option<u16>, WordError> {
        if word.is_empty() {
            return Ok(None);
        }
        match word.parse() {
            Ok(port) => Ok(Some(port)),
            Err(_) => self.fail(at.clone(), format!("{word:?} is not a port: expected 0 to 65535")),
        }
    }

    fn port_name(&mut self) -> Result<String, WordError> {
        let at = self.here();
        match self.peek().filter(|word| *word != ">") {
            Some(name) => {
                self.next += 1;
                Ok(name.to_owned())
            }
            None => self.fail(at, "expected the name of a port after \"in\""),
        }
    }

    fn number<T: TryFrom<u32>>(&mut self, what: &str, low: u32, high: u32) -> Result<Part<T>, WordError> {
        let at = self.here();
        let found = self.peek().and_then(|word| word.parse::<u32>().ok());
        self.next += 1;
        match found.filter(|n| (low..=high).contains(n)).and_then(|n| T::try_from(n).ok()) {
            Some(value) => Ok(Part { value, at }),
            None => self.fail(at, format!("expected {what}, {low} to {high}")),
        }
    }
}

/// The known word that may have been meant.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let near = known
        .map(|name| (strsim::damerau_levenshtein(name, word), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min();
    near.map(|(_, name)| name)
}

fn unexpected(word: &str) -> String {
    let known = protocol::NAMES.iter().map(|(name, _)| *name).chain(["in", "ttl", "len", "df"]);
    let hint = nearest(word, known).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
    format!(
        "did not expect {word:?}{hint}\nexpected: [SRC > DST] [PROTOCOL [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df]"
    )
}
