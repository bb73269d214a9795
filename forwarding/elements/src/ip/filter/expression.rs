//! From the words of a pattern to its condition.
//!
//! ```text
//! expression:  any ? expression : any ? ... : any     or just   any
//! any:         all or all ...                         also ||
//! all:         factor and factor ...                  also &&, or nothing in between
//! factor:      not factor    ( expression )    primitive        also !
//! primitive:   qualifiers [POS:LEN] & MASK relation value, each of them as far as it is there
//! ```

use std::net::Ipv4Addr;

use graph::arguments::{Argument, Kind as Name, Prefix4, Scope, parse_integer};
use wire::{Mac, protocol};

use super::condition::condition;
use super::primitive::{
    Data, Field, Header, Kind, Mask, Primitive, Relation, Side, kind_name, protocol_name,
};
use crate::decision::Condition;

/// So deep may parentheses be.
const DEPTH: usize = 200;

/// Reads a pattern.
pub struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
    depth: usize,
    scope: Scope<'a>,
    /// The primitive before, as far as it counts for the next.
    before: Primitive,
    /// What is wrong.
    pub mistakes: Vec<String>,
    /// What is hardly meant.
    pub warnings: Vec<String>,
}

/// What a name means.
enum Meaning {
    /// A part of the grammar, or nothing.
    None,
    /// What the primitive is about.
    Kind(Kind),
    /// A value of this kind.
    Value(Kind, u32),
    /// Several things, or none that is meant here.
    Wrong(String),
}

/// What a word that says what a primitive is about means.
fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "ce" => Kind::Congestion,
        "dscp" => Kind::Field(Field::DSCP),
        "ect" => Kind::Capable,
        "frag" => Kind::Fragment,
        "hl" => Kind::Field(Field::HEADER_LENGTH),
        "host" => Kind::Host,
        "id" => Kind::Field(Field::ID),
        "len" => Kind::Field(Field::LENGTH),
        "net" => Kind::Net,
        "opt" => Kind::TcpOption,
        "port" => Kind::Port,
        "proto" => Kind::Proto,
        "tos" => Kind::Field(Field::TOS),
        "ttl" => Kind::Field(Field::TTL),
        "type" => Kind::Field(Field::ICMP_TYPE),
        "unfrag" => Kind::Unfragmented,
        "vers" => Kind::Field(Field::VERSION),
        "win" => Kind::Field(Field::TCP_WINDOW),
        _ => return None,
    })
}

/// Words of the grammar, which are no names.
const GRAMMAR: [&str; 6] = ["dest", "dst", "ether", "ip", "not", "src"];

/// TCP's flags by name.
const TCP_OPTIONS: [(&str, u32); 6] =
    [("ack", 16), ("fin", 1), ("psh", 8), ("rst", 4), ("syn", 2), ("urg", 32)];

const TCP: Option<u32> = Some(protocol::TCP as u32);
const UDP: Option<u32> = Some(protocol::UDP as u32);
const ICMP: Option<u32> = Some(protocol::ICMP as u32);
const TCP_OR_UDP: Option<u32> = Some(graph::arguments::PROTOCOL_TCP_OR_UDP);

/// What it could be about, the value that the name then has, and the protocols for which it can be.
type Known<'a> = (Kind, Option<u32>, &'a [Option<u32>]);

/// What a name means where a primitive is about `kind`, if that is known, and of `proto`.
fn meaning(word: &str, kind: Option<Kind>, proto: Option<u32>, scope: &Scope<'_>) -> Meaning {
    if kind.is_none() {
        if GRAMMAR.contains(&word) {
            return Meaning::None;
        }
        if let Some(kind) = kind_of(word) {
            return Meaning::Kind(kind);
        }
    }
    let option = TCP_OPTIONS.iter().find(|(name, _)| *name == word).map(|&(_, flag)| flag);
    let all: [Known<'_>; 5] = [
        (Kind::Proto, scope.number(Name::Protocol, word), &[proto]),
        (Kind::Port, scope.number(Name::Port(protocol::TCP), word), &[None, TCP, TCP_OR_UDP]),
        (Kind::Port, scope.number(Name::Port(protocol::UDP), word), &[None, UDP, TCP_OR_UDP]),
        (Kind::TcpOption, option, &[None, TCP, TCP_OR_UDP]),
        (Kind::Field(Field::ICMP_TYPE), scope.number(Name::IcmpType, word), &[None, ICMP]),
    ];
    let mut fitting: Vec<(Kind, u32)> = (all.iter())
        .filter(|(of, _, protos)| kind.is_none_or(|kind| kind == *of) && protos.contains(&proto))
        .filter_map(|&(of, value, _)| value.map(|value| (of, value)))
        .collect();
    // A port that has the same number in TCP and UDP is one.
    fitting.dedup();
    let with = |kind: Option<Kind>| {
        let proto = proto.map(protocol_name).unwrap_or_default();
        format!("'{} {proto} {word}'", kind_name(kind))
    };
    let known: Vec<String> =
        all.iter().filter(|(_, value, _)| value.is_some()).map(|&(of, ..)| with(Some(of))).collect();
    match fitting.as_slice() {
        [(kind, value)] => Meaning::Value(*kind, *value),
        _ if known.is_empty() => Meaning::None,
        _ => {
            let what = if fitting.is_empty() { "meaningless" } else { "ambiguous" };
            Meaning::Wrong(format!("{} is {what}; try {}", with(kind), known.join(", ")))
        }
    }
}

impl<'a> Reader<'a> {
    /// Reads these words.
    pub fn new(words: &'a [&'a str], scope: Scope<'a>) -> Reader<'a> {
        let (mistakes, warnings) = (Vec::new(), Vec::new());
        Reader { words, at: 0, depth: 0, scope, before: Primitive::NONE, mistakes, warnings }
    }

    /// The condition of the whole pattern. It means nothing when there are mistakes.
    pub fn read(&mut self) -> Condition {
        let condition = self.expression();
        if let Some(word) = self.words.get(self.at) {
            self.mistakes.push(format!("garbage after expression at '{word}'"));
        }
        condition
    }

    fn wrong(&mut self, message: impl Into<String>) {
        self.mistakes.push(message.into());
    }

    fn next_is(&self, words: &[&str]) -> bool {
        self.words.get(self.at).is_some_and(|word| words.contains(word))
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let taken = self.next_is(words);
        self.at += usize::from(taken);
        taken
    }

    fn expression(&mut self) -> Condition {
        if self.depth >= DEPTH {
            self.wrong(format!("more than {DEPTH} expressions inside each other"));
            self.at = self.words.len();
            return Condition::ALWAYS;
        }
        self.depth += 1;
        let mut parts = vec![self.any()];
        while self.take(&["?"]) {
            let start = self.at;
            parts.push(self.expression());
            if self.at == start || !self.take(&[":"]) {
                self.wrong("missing ':' in ternary expression");
                break;
            }
            parts.push(self.any());
        }
        self.depth -= 1;
        Condition::Choice(parts)
    }

    fn any(&mut self) -> Condition {
        let mut parts = vec![self.all()];
        while self.take(&["or", "||"]) {
            parts.push(self.all());
        }
        Condition::Any(parts)
    }

    fn all(&mut self) -> Condition {
        let mut parts = Vec::new();
        let mut wanted = true;
        loop {
            let start = self.at;
            parts.extend(self.factor());
            if self.at == start {
                if wanted {
                    self.wrong("missing expression");
                }
                return Condition::All(parts);
            }
            wanted = self.take(&["and", "&&"]);
        }
    }

    fn factor(&mut self) -> Option<Condition> {
        let mut negated = false;
        let start = self.at;
        while self.take(&["not", "!"]) {
            negated = !negated;
        }
        let negations = self.at;
        let condition = if self.take(&["("]) {
            let start = self.at;
            let inside = self.expression();
            if self.at == start {
                self.wrong("missing expression after '('");
            }
            if !self.take(&[")"]) && self.at != start {
                self.wrong("missing ')'");
            }
            Some(if negated { inside.negation() } else { inside })
        } else {
            self.primitive(negated)
        };
        if self.at == negations && negations > start {
            self.wrong(format!("missing expression after '{}'", self.words[negations - 1]));
        }
        condition
    }

    fn primitive(&mut self, mut negated: bool) -> Option<Condition> {
        let start = self.at;
        if start >= self.words.len() || self.next_is(&[")", "||", "or", "?", ":"]) {
            return None;
        }
        for (word, always) in [("true", true), ("false", false)] {
            if self.take(&[word]) {
                let always = always != negated;
                return Some(if always { Condition::ALWAYS } else { Condition::ALWAYS.negation() });
            }
        }
        let mut primitive = Primitive::NONE;
        let mut header = None;
        self.qualifiers(&mut primitive, &mut header, &mut negated);
        // With a qualifier, nothing is left out that the primitive before could say.
        if self.at != start {
            self.before = Primitive::NONE;
        }
        if self.before.data == Data::Of(Kind::Ether) {
            header = Some(Header::Ether);
        }
        if self.sign() == "[" && self.at > start && primitive.kind.is_none() {
            self.brackets(&mut primitive);
        }
        let mask = self.mask(header);
        self.relation(&mut primitive);
        let valid = self.value(&mut primitive, header);
        if self.at == start {
            let word = self.words[start];
            self.wrong(format!("empty term near '{word}'"));
            return None;
        }
        if !valid {
            return None;
        }
        match primitive.complete(&self.before, header, mask, &mut self.warnings) {
            Ok(complete) => {
                self.before = complete;
                let condition = condition(&complete);
                Some(if negated { condition.negation() } else { condition })
            }
            Err(mistake) => {
                self.wrong(mistake);
                None
            }
        }
    }

    /// The next word if another follows it, so that it can be a sign in front of a value.
    fn sign(&self) -> &'a str {
        if self.at + 1 < self.words.len() { self.words[self.at] } else { "" }
    }

    fn qualifiers(&mut self, primitive: &mut Primitive, header: &mut Option<Header>, negated: &mut bool) {
        while let Some(&word) = self.words.get(self.at) {
            match meaning(word, None, None, &self.scope) {
                Meaning::Kind(kind) => {
                    if primitive.kind.replace(kind).is_some() {
                        self.wrong("type specified twice");
                    }
                    if let Kind::Field(Field { proto: proto @ 1.., .. }) = kind {
                        self.set_proto(primitive, proto.into());
                    }
                }
                Meaning::Value(Kind::Proto, proto) => self.set_proto(primitive, proto),
                Meaning::Value(..) | Meaning::Wrong(_) => return,
                Meaning::None => match word {
                    "src" | "dst" | "dest" => {
                        let side = self.side();
                        if primitive.side.replace(side).is_some() {
                            self.wrong("'src' or 'dst' specified twice");
                        }
                    }
                    "ip" | "ether" if header.is_none() => {
                        *header = Some(if word == "ip" { Header::Ip } else { Header::Ether });
                    }
                    "not" | "!" => *negated = !*negated,
                    _ => return,
                },
            }
            self.at += 1;
        }
    }

    fn set_proto(&mut self, primitive: &mut Primitive, proto: u32) {
        if primitive.proto.replace(proto).is_some_and(|before| before != proto) {
            self.wrong("transport protocol specified twice");
        }
    }

    /// `src`, `dst`, `src and dst`, `src or dst`; leaves the last word to be taken.
    fn side(&mut self) -> Side {
        match self.words[self.at..] {
            ["src", joint, "dst" | "dest", ..] => {
                let side = match joint {
                    "and" | "&&" => Side::Both,
                    "or" | "||" => Side::Either,
                    _ => return Side::Source,
                };
                self.at += 2;
                side
            }
            ["src", ..] => Side::Source,
            _ => Side::Destination,
        }
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]`, in bytes.
    fn brackets(&mut self, primitive: &mut Primitive) {
        let inside = self.at + 1;
        let Some(length) = self.words[inside..].iter().position(|word| *word == "]") else {
            self.at = inside;
            return self.wrong("missing ']'");
        };
        let text = self.words[inside..inside + length].concat();
        self.at = inside + length + 1;
        let number =
            |text: &str| parse_integer(text, i32::MIN.into(), i32::MAX.into()).ok().map(|n| n as i64);
        let place = match (text.split_once(':'), text.split_once(',')) {
            (Some((first, length)), _) => number(first).zip(number(length)),
            (None, Some((first, last))) => {
                number(first).zip(number(last)).map(|(first, last)| (first, last - first + 1))
            }
            (None, None) => number(&text).map(|first| (first, 1)),
        };
        let Some((first, length)) = place else {
            return self.wrong("syntax error after '[', expected '[POS]' or '[POS:LEN]'");
        };
        if !(1..=4).contains(&length) {
            return self.wrong("LEN in '[POS:LEN]' out of range, should be between 1 and 4");
        }
        if !(0..8192).contains(&first) || first / 4 != (first + length - 1) / 4 {
            return self.wrong(format!("field [{first}:{length}] does not fit in a single word"));
        }
        let proto = primitive.proto.unwrap_or(0) as u16;
        primitive.kind =
            Some(Kind::Field(Field { proto, offset: first as u32 * 8, bits: length as u32 * 8 }));
    }

    /// `& MASK`.
    fn mask(&mut self, header: Option<Header>) -> Option<Mask> {
        if self.sign() != "&" {
            return None;
        }
        let word = self.words[self.at + 1];
        let number = parse_integer(word, 0, u32::MAX.into()).ok().map(|number| Mask::Number(number as u32));
        let mask = number
            .or_else(|| {
                let address = Ipv4Addr::parse(word, &self.scope).ok();
                address.filter(|_| header != Some(Header::Ether)).map(|address| Mask::Address(address.into()))
            })
            .or_else(|| {
                let address = Mac::parse(word, &self.scope).ok();
                address.filter(|_| header != Some(Header::Ip)).map(|Mac(bytes)| Mask::Ether(bytes))
            })?;
        self.at += 2;
        if matches!(mask, Mask::Number(0) | Mask::Address(0)) {
            self.wrong("zero mask ignored");
            return None;
        }
        Some(mask)
    }

    fn relation(&mut self, primitive: &mut Primitive) {
        (primitive.relation, primitive.negated) = match self.sign() {
            "=" | "==" => (Relation::Equal, false),
            "!=" => (Relation::Equal, true),
            ">" => (Relation::Greater, false),
            "<" => (Relation::Less, false),
            ">=" => (Relation::Less, true),
            "<=" => (Relation::Greater, true),
            _ => return,
        };
        self.at += 1;
    }

    /// The value, if there is one. False when the word is one that means nothing here.
    fn value(&mut self, primitive: &mut Primitive, header: Option<Header>) -> bool {
        let Some(&word) = self.words.get(self.at) else { return true };
        self.at += 1;
        match meaning(word, primitive.kind, primitive.proto, &self.scope) {
            Meaning::Wrong(message) => {
                self.wrong(message);
                return false;
            }
            Meaning::Value(kind, value) => {
                (primitive.data, primitive.value) = (Data::Of(kind), value);
                return true;
            }
            Meaning::None | Meaning::Kind(_) => {}
        }
        let is_ip = header != Some(Header::Ether);
        if let Ok(number) = parse_integer(word, i32::MIN.into(), i32::MAX.into()) {
            (primitive.data, primitive.value) = (Data::Number, number as i32 as u32);
        } else if is_ip && let Ok(address) = Ipv4Addr::parse(word, &self.scope) {
            (primitive.data, primitive.value) = (Data::Of(Kind::Host), address.into());
            let mask = match self.words[self.at..] {
                ["mask", mask, ..] => Ipv4Addr::parse(mask, &self.scope).ok(),
                _ => None,
            };
            if let Some(mask) = mask {
                self.at += 2;
                (primitive.data, primitive.mask) = (Data::Of(Kind::Net), mask.into());
            } else if primitive.kind == Some(Kind::Net)
                && let Ok(Prefix4 { address, mask }) = Prefix4::parse(word, &self.scope)
            {
                primitive.data = Data::Of(Kind::Net);
                (primitive.value, primitive.mask) = (address.into(), mask.into());
            }
        } else if is_ip && let Ok(Prefix4 { address, mask }) = Prefix4::parse(word, &self.scope) {
            primitive.data = Data::Of(Kind::Net);
            (primitive.value, primitive.mask) = (address.into(), mask.into());
        } else if header != Some(Header::Ip)
            && let Ok(Mac(bytes)) = Mac::parse(word, &self.scope)
        {
            (primitive.data, primitive.ether) = (Data::Of(Kind::Ether), bytes);
        } else {
            self.at -= 1;
            if primitive.relation != Relation::Equal || primitive.negated {
                self.wrong(format!("dangling operator near '{word}'"));
            }
        }
        true
    }
}
