//! # IPFilter: filters IPv4 packets by what they are.
//!
//! Group: ip
//! Usage: `IPFilter(ACTION PATTERN, ...)`
//! Ports: 1 input, any number of outputs; push
//!
//! The first pattern that a packet matches decides: `allow` sends it out by output 0, a number by
//! that output, `drop` and `deny` drop it. A packet that matches none is dropped. Patterns are
//! described with [IPClassifier]. Headers must be marked: [CheckIPHeader] and [MarkIPHeader] do
//! that.
//!
//! All patterns together become one program in which nothing is asked twice, so that long lists
//! cost little.
//!
//! ```text
//! IPFilter(deny src 10.0.0.0/8 or 172.16.0.0/12,     // nobody outside has these
//!          allow icmp type echo or echo-reply,
//!          allow tcp and (dst port www or https),
//!          allow dst udp port domain,
//!          allow tcp and ack,                        // answers
//!          deny all)
//! ```
//!
//! Handlers:
//! - `program` (read): the program, a line a comparison: its number, offset, value, mask, and where
//!   it leads. Offsets from 256 on are in the IPv4 header, from 512 on in the header behind it.
//! - `config` (read, write): the configuration.
//!
//! See also: [IPClassifier], [Classifier], [CheckIPHeader], [MarkIPHeader], [AddressInfo],
//! [PortInfo]
//!
//! # IPClassifier: sorts IPv4 packets by what they are.
//!
//! Group: ip
//! Usage: `IPClassifier(PATTERN, ...)`
//! Ports: 1 input, as many outputs as patterns; push
//!
//! A packet leaves by the output of the first pattern that it matches, and is dropped when it
//! matches none. Headers must be marked: [CheckIPHeader] and [MarkIPHeader] do that. A pattern
//! alone may be `-`, `any` or `all`: every packet.
//!
//! Patterns are primitives, joined by `and` (`&&`, or nothing), `or` (`||`), `not` (`!`), `A ? B :
//! C` (with space around the colon) and parentheses. The primitives are:
//!
//! - `ip proto PROTO`: the protocol, by name or number.
//! - `[src|dst|src and dst|src or dst] host ADDR`: an address; without a side, either.
//! - `[src|dst|...] net ADDR/BITS` or `net ADDR mask MASK`: a network.
//! - `[src|dst|...] [tcp|udp] port PORT`: a port by name or number; without a protocol, of either.
//! - `ip vers N`, `ip hl N`, `ip tos N`, `ip dscp N`, `ip id N`, `ip ttl N`, `ip len N`: fields of
//!   the IPv4 header.
//! - `ip ect`, `ip ce`: ECN-capable, congestion experienced.
//! - `ip frag`, `ip unfrag`: a fragment, not a fragment.
//! - `tcp opt NAME`: a flag: `syn`, `fin`, `ack`, `rst`, `psh`, `urg`. `tcp win N`: the window.
//! - `icmp type TYPE`: by name or number.
//! - `ip[POS:LEN] N`, `transp[POS:LEN] N`, `tcp[POS:LEN] N`, ...: up to four bytes, in one word, of
//!   the IPv4 header or the one behind it.
//! - `[src|dst|...] ether host MAC`: an Ethernet address; the link header must be marked.
//! - `true`, `false`: every packet, none.
//!
//! In front of a value may stand `=`, `!=`, and with numbers `<`, `>`, `<=`, `>=`; before that, `&
//! MASK`. A relation asks for a packet that has the field: `src tcp port != 5` is a TCP packet,
//! `not src tcp port 5` may be anything. What is behind the IPv4 header is that of first fragments
//! only. Most words can be left out: `tcp` for `ip proto tcp`, `www` for `port www`, `10.0.0.0/8`
//! for `net 10.0.0.0/8`; and `src port 80 or 81` is `src port 80 or src port 81`.
//!
//! ```text
//! IPClassifier(10.0.0.0/24 and syn, 10.0.0.0/24 and fin ack, 10.0.0.0/24 and tcp, -)
//! IPClassifier(dst tcp port 8000 or 8080, dst tcp port > 1023, tcp)
//! ```
//!
//! Handlers:
//! - `program` (read): as that of [IPFilter].
//! - `config` (read, write): the configuration.
//! - `pattern0`, `pattern1`, ... (read, write): one of the patterns.
//!
//! See also: [IPFilter], [Classifier], [CheckIPHeader], [MarkIPHeader], [AddressInfo], [PortInfo]

mod condition;
mod expression;
mod primitive;
#[cfg(test)]
mod proofs;
mod words;

use graph::arguments::{Arguments, Blame, Refused, Scope, parse_integer};
use graph::language::unquote;
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::Reason;

use crate::decision::{Condition, NOWHERE, Next, Program, Tests, optimize};
use condition::{NETWORK, TRANSPORT};

/// See [`IpFilter`].
pub const IP_FILTER: Class = Class {
    name: "IPFilter",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mod.rs"),
    make: |args, setup| make(args, setup, Form::Filter),
};
/// See [`IpFilter`].
pub const IP_CLASSIFIER: Class = Class {
    name: "IPClassifier",
    make: |args: &mut Arguments<'_>, setup: &mut Setup<'_>| make(args, setup, Form::Classifier),
    ..IP_FILTER
};

/// How patterns are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each with what to do.
    Filter,
    /// Each for the output of its number.
    Classifier,
}

/// Sends each packet out by the output of the first pattern that it matches.
pub struct IpFilter {
    form: Form,
    outputs: usize,
    patterns: Vec<String>,
    program: Program,
    outputs_of: [u16; BATCH],
}

/// Patterns, compiled.
struct Compiled {
    tests: Tests,
    /// By number of the pattern.
    mistakes: Vec<(usize, String)>,
    warnings: Vec<(usize, String)>,
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>, form: Form) -> Result<Box<dyn Element>, Refused> {
    let pieces = args.rest();
    if form == Form::Classifier && pieces.len() != setup.outputs {
        args.wrong(Blame::Element, count_message(setup.outputs));
        return Err(Refused);
    }
    let patterns: Vec<String> = pieces.iter().map(|piece| piece.text.clone()).collect();
    let scope = args.scope();
    let compiled = compile(&patterns, form, setup.outputs, &scope);
    let place = |number: usize| pieces.get(number).map_or(Blame::Element, Blame::Piece);
    for (number, message) in &compiled.warnings {
        args.strange(place(*number), message);
    }
    for (number, message) in &compiled.mistakes {
        args.wrong(place(*number), message);
    }
    args.finish()?;
    if form == Form::Classifier {
        for output in (0..setup.outputs).filter(|output| !compiled.tests.leads_to(*output)) {
            args.strange(place(output), format!("output {output} matches no packets"));
        }
    }
    let program = Program::grouped(&compiled.tests);
    Ok(Box::new(IpFilter { form, outputs: setup.outputs, patterns, program, outputs_of: [0; BATCH] }))
}

fn count_message(outputs: usize) -> String {
    format!("need {outputs} arguments, one per output port")
}

/// What is compared first: what comes first in the packet.
fn rank(offset: usize) -> usize {
    offset
}

fn compile(patterns: &[String], form: Form, outputs: usize, scope: &Scope<'_>) -> Compiled {
    let nothing = Tests { tests: Vec::new(), otherwise: Next::Nowhere };
    let mut compiled = Compiled { tests: nothing, mistakes: Vec::new(), warnings: Vec::new() };
    let mut parts = Vec::new();
    for (number, pattern) in patterns.iter().enumerate() {
        let text = String::from_utf8_lossy(&unquote(pattern)).into_owned();
        let slot = number.to_string();
        let mut words = words::words(&text);
        if form == Form::Classifier {
            words.insert(0, &slot);
        }
        let Some((action, pattern)) = words.split_first() else {
            compiled.mistakes.push((number, format!("empty pattern {number}")));
            continue;
        };
        let mut said = |list: Vec<String>, into: fn(&mut Compiled) -> &mut Vec<(usize, String)>| {
            let messages = list.into_iter().map(|message| (number, format!("pattern {number}: {message}")));
            into(&mut compiled).extend(messages);
        };
        let target = match target(action, outputs) {
            Ok((target, warning)) => {
                said(warning.into_iter().collect(), |compiled| &mut compiled.warnings);
                target
            }
            Err(mistake) => {
                said(vec![mistake], |compiled| &mut compiled.mistakes);
                Next::Nowhere
            }
        };
        let condition = match pattern {
            [] | ["-" | "any" | "all"] => Condition::ALWAYS,
            pattern => {
                let mut reader = expression::Reader::new(pattern, *scope);
                let condition = reader.read();
                said(reader.mistakes, |compiled| &mut compiled.mistakes);
                said(reader.warnings, |compiled| &mut compiled.warnings);
                condition
            }
        };
        parts.push(condition.tests().on_pass(target));
    }
    if compiled.mistakes.is_empty()
        && let Some(tests) = join(parts)
    {
        compiled.tests = tests.on_fail(Next::Nowhere);
        optimize::sort(&mut compiled.tests.tests, rank);
    }
    compiled
}

/// Joins patterns, neighbours first: each time twice as many are one, and made shorter together.
fn join(mut parts: Vec<Tests>) -> Option<Tests> {
    if parts.len() == 1 {
        return parts.pop().map(|only| optimize::optimize(only, rank));
    }
    while parts.len() > 1 {
        let mut joined = Vec::with_capacity(parts.len().div_ceil(2));
        let mut rest = parts.into_iter();
        while let Some(first) = rest.next() {
            joined.push(match rest.next() {
                Some(second) => optimize::optimize(first.or_else(second), rank),
                None => first,
            });
        }
        parts = joined;
    }
    parts.pop()
}

/// Where an action sends packets, and what is strange about it.
fn target(action: &str, outputs: usize) -> Result<(Next, Option<String>), String> {
    let changed = || "meaning of 'deny' has changed (now it means 'drop')".to_owned();
    match action {
        "allow" if outputs == 0 => Err("'allow' is meaningless, element has zero outputs".to_owned()),
        "allow" => Ok((Next::Output(0), None)),
        "deny" => Ok((Next::Nowhere, (outputs > 1).then(changed))),
        "drop" => Ok((Next::Nowhere, None)),
        _ => match parse_integer(action, i32::MIN.into(), i32::MAX.into()) {
            Ok(slot) if slot < 0 || slot >= outputs as i128 => Err(format!("slot '{slot}' out of range")),
            Ok(slot) => Ok((Next::Output(slot as usize), None)),
            Err(_) => Err(format!("unknown slot ID '{action}'")),
        },
    }
}

/// The headers of a packet, as the program's offsets name their bytes.
struct Headers<'a> {
    link: &'a [u8],
    network: &'a [u8],
    transport: &'a [u8],
    length: usize,
}

impl<'a> Headers<'a> {
    #[inline(always)]
    fn of(packet: &'a Packet) -> Headers<'a> {
        let network = packet.network();
        let transport = match packet.transport_offset() {
            Some(_) => packet.transport(),
            None => network.get(header_length(network)..).unwrap_or_default(),
        };
        // As long as there is a byte behind the IPv4 header, that is whole.
        let length = if transport.is_empty() { NETWORK + network.len() } else { TRANSPORT + transport.len() };
        Headers { link: packet.link(), network, transport, length }
    }

    #[inline(always)]
    fn word(&self, offset: usize) -> u32 {
        let (bytes, at) = if offset >= TRANSPORT {
            (self.transport, offset - TRANSPORT)
        } else if offset >= NETWORK {
            (self.network, offset - NETWORK)
        } else {
            return self.link_word(offset);
        };
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(word) => u32::from_ne_bytes(*word),
            None => partial(bytes, at),
        }
    }

    #[cold]
    fn link_word(&self, offset: usize) -> u32 {
        match offset.checked_sub(2) {
            Some(at) => partial(self.link, at),
            None => {
                let [a, b, ..] = partial(self.link, 0).to_ne_bytes();
                u32::from_ne_bytes([0, 0, a, b])
            }
        }
    }
}

/// What an IPv4 header says that its length is.
fn header_length(network: &[u8]) -> usize {
    network.first().map_or(0, |first| usize::from(first & 15) * 4)
}

/// The bytes that are there, and zeros.
#[cold]
fn partial(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes.get(at..).unwrap_or_default()).for_each(|(word, byte)| *word = *byte);
    u32::from_ne_bytes(word)
}

impl IpFilter {
    /// Takes over other patterns, if they are right.
    fn change(&mut self, patterns: Vec<String>, cx: &Context<'_>) -> Result<(), HandlerError> {
        if self.form == Form::Classifier && patterns.len() != self.outputs {
            return Err(HandlerError::refused(count_message(self.outputs)));
        }
        let compiled = compile(&patterns, self.form, self.outputs, &cx.scope());
        if !compiled.mistakes.is_empty() {
            let mistakes: Vec<String> = compiled.mistakes.into_iter().map(|(_, message)| message).collect();
            return Err(HandlerError::refused(mistakes.join("\n")));
        }
        (self.program, self.patterns) = (Program::grouped(&compiled.tests), patterns);
        Ok(())
    }

    /// Which pattern a handler is for.
    fn pattern(&self, handler: &str) -> Option<usize> {
        let number = handler.strip_prefix("pattern")?.parse().ok()?;
        (self.form == Form::Classifier && number < self.patterns.len()).then_some(number)
    }
}

impl Element for IpFilter {
    fn class(&self) -> &'static str {
        match self.form {
            Form::Filter => IP_FILTER.name,
            Form::Classifier => IP_CLASSIFIER.name,
        }
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn push(&mut self, _: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let (mut none, mut kept) = (0u64, 0);
        for (index, packet) in batch.packets().iter().enumerate() {
            let headers = Headers::of(packet);
            let output = self.program.output(headers.length, |offset| headers.word(offset));
            self.outputs_of[kept] = output as u16;
            kept += usize::from(output != NOWHERE);
            none |= u64::from(output == NOWHERE) << index;
        }
        batch.take(none, |_, packet| cx.drop(packet, Reason::Filtered));
        cx.emit_each(batch, &mut self.outputs_of);
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut handlers = vec![Handler::read("program"), Handler::read("config")];
        if self.form == Form::Classifier {
            let patterns = 0..self.patterns.len();
            handlers.extend(patterns.map(|number| Handler::read_write(format!("pattern{number}"))));
        }
        handlers
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "program" => Ok(self.program.to_string()),
            "config" => Ok(self.patterns.join(", ")),
            _ => match self.pattern(handler) {
                Some(number) => Ok(self.patterns[number].clone()),
                None => Err(HandlerError::unknown(handler)),
            },
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Some(number) = self.pattern(handler) else { return Err(HandlerError::unknown(handler)) };
        let mut patterns = self.patterns.clone();
        patterns[number] = value.trim().to_owned();
        self.change(patterns, cx)
    }
}
