//! FromIPSummaryDump: makes packets of what lines of a file say of them.
//!
//! Group: traffic
//! Usage: `FromIPSummaryDump(FILENAME [, STOP, ACTIVE, ZERO, TIMING, CHECKSUM, SAMPLE, PROTO, MULTIPACKET, FIELDS, FLOWID, ALLOW_NONEXISTENT, DATA])`
//! Ports: no inputs, 1 output; agnostic
//!
//! Reads what [ToIPSummaryDump] writes, or anybody: a line `!data` with the names of fields, and
//! then a line for each packet, with their values. `-` says nothing, and so do values that are left
//! out at the end of a line. Lines that begin with `#`, and blank ones, don't count. The file may
//! be compressed by gzip.
//!
//! Packets have IPv4 headers, if a field says anything of them, and what is not said is 0; but the
//! TTL is 100, and the protocol `PROTO`. A packet that is to be longer than what is known of it has
//! only the beginning, and the extra length annotation says how much is missing; with `CHECKSUM` it
//! has all its bytes.
//!
//! Besides `!data` these lines say something: `!proto 17` (or `U`), `!flowid SRC SPORT DST DPORT
//! [PROTO]`, `!aggregate N`, and `!binary`, behind which fields are in binary.
//!
//! - `FILENAME` (file): `-` is standard input.
//! - `STOP` (boolean): whether to stop the program at the end of the file. Default: false.
//! - `ACTIVE` (boolean): whether it gives out packets at first. Default: true.
//! - `ZERO` (boolean): has no effect: what is not said is 0.
//! - `TIMING` (boolean): whether packets leave with the distances in time that their timestamps
//!   have. Default: false.
//! - `CHECKSUM` (boolean): whether packets have right checksums, and all their bytes. Default:
//!   false.
//! - `SAMPLE` (0 to 1): the probability that a packet is given out. Default: 1.
//! - `PROTO` (byte): the IP protocol of packets that don't say theirs. Default: 6, TCP.
//! - `MULTIPACKET` (boolean): whether a line with a `count` makes as many packets. Default: false.
//! - `FIELDS` (names): the fields in a file without a line `!data`.
//! - `CONTENTS`, `DEFAULT_FIELDS`, `DEFAULT_CONTENTS` (names): older names of FIELDS.
//! - `FLOWID` (address, port, address, port [, protocol]): of packets that don't say theirs.
//! - `DEFAULT_FLOWID`: the older name of FLOWID.
//! - `ALLOW_NONEXISTENT` (boolean): whether the file need not be there. Default: false.
//! - `DATA` (bytes): what the file would have, instead of FILENAME.
//!
//! Handlers:
//! - `sampling_prob` (read): the probability of `SAMPLE`.
//! - `active` (read, write): whether it gives out packets.
//! - `encap` (read): `IP`: what packets begin with.
//! - `stop` (write): stops it, and the program.
//! - `filename` (read): the file's name.
//! - `filesize` (read): its bytes; `-` when it is no regular file.
//! - `filepos` (read): how far it was read.
//!
//! See also: [ToIPSummaryDump], [FromDump]

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::net::Ipv4Addr;

use graph::arguments::{
    Argument, Arguments, Blame, Bytes, Filename, Fixed, Kind, Raw, Refused, Scope, parse_integer, unparse,
};
use graph::language::{split_words, unquote};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::protocol;

use super::input::Source;
use super::summary::{self, Draft, Entry, Flow, Made};
use crate::basic::random::Random;

/// The class `FromIPSummaryDump`.
pub const CLASS: Class = Class {
    name: "FromIPSummaryDump",
    ports: "0/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("from_ip_summary_dump.rs"),
    make,
};

/// Binary digits of a probability.
const SAMPLING: u32 = 28;
/// Packets that are passed over in one turn.
const TRIES: u32 = 64;
/// How long to wait for packet memory.
const PATIENCE: u64 = 1_000_000;
/// No record is longer.
const LONGEST: u64 = 1 << 20;

fn make(arguments: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let name = arguments.optional::<Filename>("FILENAME");
    let stop = arguments.keyword("STOP").unwrap_or(false);
    let active = arguments.keyword("ACTIVE").unwrap_or(true);
    let _: Option<bool> = arguments.keyword("ZERO");
    let timing = arguments.keyword("TIMING").unwrap_or(false);
    let checksum = arguments.keyword("CHECKSUM").unwrap_or(false);
    let sample = arguments.keyword::<Fixed<SAMPLING>>("SAMPLE").map_or(1 << SAMPLING, |sample| sample.0);
    let proto = arguments.keyword("PROTO").unwrap_or(protocol::TCP);
    let multipacket = arguments.keyword("MULTIPACKET").unwrap_or(false);
    let mut last = |keywords: &[&str]| {
        keywords.iter().filter_map(|keyword| arguments.keyword::<Raw>(keyword)).last().map(|Raw(text)| text)
    };
    let fields = last(&["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"]);
    let flow = last(&["DEFAULT_FLOWID", "FLOWID"]);
    let may_be_missing = arguments.keyword("ALLOW_NONEXISTENT").unwrap_or(false);
    let data = arguments.keyword::<Bytes>("DATA");
    if sample > 1 << SAMPLING {
        arguments.strange("SAMPLE", "SAMPLE probability reduced to 1");
    } else if sample == 0 {
        arguments.strange("SAMPLE", "SAMPLE probability is 0; emitting no packets");
    }
    match (&name, &data) {
        (Some(_), Some(_)) => arguments.wrong(Blame::Element, "FILENAME and DATA conflict"),
        (None, None) => arguments.wrong("FILENAME", "required argument missing"),
        _ => {}
    }
    let mut form =
        Form { fields: Vec::new(), order: Vec::new(), protocol: proto, flow: None, aggregate: 0, units: 8 };
    let scope = arguments.scope();
    let mut problems = Vec::new();
    if let Some(fields) = fields {
        problems.extend(form.set_fields(&fields));
    }
    if let Some(flow) = flow {
        problems.extend(form.set_flow(&flow, &scope));
    }
    for problem in problems {
        arguments.strange(Blame::Element, problem);
    }
    arguments.finish()?;
    Ok(Box::new(FromIpSummaryDump {
        name: name.map_or(String::new(), |Filename(name)| name),
        data: data.map(|Bytes(data)| data),
        pushes: setup.outputs > 0,
        stop,
        active,
        timing,
        checksum,
        sample,
        multipacket,
        may_be_missing,
        file: None,
        form,
        binary: false,
        next: None,
        offset: None,
        complained: false,
        random: Random::new(),
        record: Vec::new(),
    }))
}

/// What lines with `!` have said so far.
struct Form {
    fields: Vec<&'static Entry>,
    /// The fields' numbers, in the order in which they are put into a packet.
    order: Vec<usize>,
    protocol: u8,
    flow: Option<Flow>,
    aggregate: u32,
    /// What fragment offsets are counted in: they were in units of 8 bytes once.
    units: u64,
}

impl Form {
    /// Takes names of fields. What is wrong with them is said; such a field is passed over.
    fn set_fields(&mut self, names: &str) -> Vec<String> {
        let mut problems = Vec::new();
        self.fields.clear();
        for word in split_words(names) {
            let name = String::from_utf8_lossy(&unquote(word)).into_owned();
            self.fields.extend(summary::find(&name).or_else(|| {
                problems.push(format!("unknown content type '{name}'"));
                summary::find("none")
            }));
        }
        if self.fields.is_empty() {
            problems.push("no contents specified".to_owned());
        }
        self.order = (0..self.fields.len()).collect();
        self.order.sort_by_key(|at| self.fields[*at].3);
        problems
    }

    fn set_protocol(&mut self, text: &str, scope: &Scope<'_>) -> Option<String> {
        let number = parse_integer(text, 0, 255).ok().map(|number| number as u32);
        let letter = match text {
            "T" => Some(protocol::TCP.into()),
            "U" => Some(protocol::UDP.into()),
            "I" => Some(protocol::ICMP.into()),
            _ => None,
        };
        let number = scope.number(Kind::Protocol, text).or(number).or(letter);
        match number.and_then(|number| u8::try_from(number).ok()) {
            Some(number) => self.protocol = number,
            None => return Some(format!("bad protocol '{text}'")),
        }
        None
    }

    fn set_flow(&mut self, text: &str, scope: &Scope<'_>) -> Option<String> {
        let words = split_words(text);
        let address = |at: usize| match *words.get(at)? {
            "-" => Some(Ipv4Addr::UNSPECIFIED),
            word => Ipv4Addr::parse(word, scope).ok(),
        };
        let port = |at: usize| match *words.get(at)? {
            "-" => Some(0),
            word => parse_integer(word, 0, 0xffff).ok().map(|port| port as u16),
        };
        let (Some(source), Some(source_port), Some(destination), Some(destination_port)) =
            (address(0), port(1), address(2), port(3))
        else {
            self.flow = None;
            return Some("bad !flowid specification".to_owned());
        };
        self.flow = Some(Flow { source, source_port, destination, destination_port });
        words.get(4).and_then(|word| self.set_protocol(word, scope))
    }

    /// A packet of a line's words.
    fn read(&self, line: &str, scope: &Scope<'_>) -> Option<Draft> {
        let mut words = values(line);
        words.truncate(self.fields.len());
        let mut draft = Draft::new(self.protocol, self.flow, self.aggregate);
        let mut any = false;
        for &at in &self.order {
            let Some(word) = words.get(at).filter(|word| **word != "-") else { continue };
            let (entry, field) = (self.fields[at], self.fields[at].1);
            if let Some(value) = summary::read(entry, word, draft.icmp_type(), self.units, scope) {
                draft.put(field, &value);
                any = true;
            }
        }
        any.then_some(draft)
    }

    /// A packet of a binary record.
    fn read_binary(&self, mut record: &[u8]) -> Option<Draft> {
        let mut values = Vec::with_capacity(self.fields.len());
        for entry in &self.fields {
            let Some((value, length)) = summary::read_binary(entry, record) else { break };
            record = &record[length..];
            values.push(value);
        }
        let mut draft = Draft::new(self.protocol, self.flow, self.aggregate);
        for &at in &self.order {
            if let Some(value) = values.get(at) {
                draft.put(self.fields[at].1, value);
            }
        }
        (!values.is_empty()).then_some(draft)
    }
}

/// The words of a line: what stands between spaces, but for those in double quotes.
fn values(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quoted, mut escaped) = (None, false, false);
    for (at, byte) in line.bytes().enumerate() {
        if !quoted && byte.is_ascii_whitespace() {
            words.extend(start.take().map(|start| &line[start..at]));
            continue;
        }
        start.get_or_insert(at);
        if !escaped && byte == b'"' {
            quoted = !quoted;
        }
        escaped = quoted && !escaped && byte == b'\\';
    }
    words.extend(start.map(|start| &line[start..]));
    words
}

/// A file being read.
struct File {
    input: BufReader<Box<dyn Read + Send>>,
    /// The line, or record, that was read last.
    number: u64,
    position: u64,
}

impl File {
    /// Reads a line into `line`, without its end. False at the end of the file.
    fn line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let read = self.input.read_until(b'\n', line)?;
        self.position += read as u64;
        self.number += 1;
        while line.pop_if(|last| matches!(last, b'\n' | b'\r')).is_some() {}
        Ok(read > 0)
    }

    /// Reads a binary record's contents into `record`, and says whether it is a line. `None` at the
    /// end of the file.
    fn record(&mut self, record: &mut Vec<u8>) -> io::Result<Option<bool>> {
        record.clear();
        if (&mut self.input).take(4).read_to_end(record)? < 4 {
            return Ok(None);
        }
        let word = record.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let (length, is_line) = (u64::from(word & !(1 << 31)), word >> 31 != 0);
        if !(4..LONGEST).contains(&length) {
            return Err(io::Error::other("binary record of a wrong length"));
        }
        record.clear();
        let read = (&mut self.input).take(length - 4).read_to_end(record)? as u64;
        self.position += length;
        self.number += 1;
        while is_line && record.pop_if(|last| matches!(last, b'\n' | 0)).is_some() {}
        Ok((read == length - 4).then_some(is_line))
    }
}

struct FromIpSummaryDump {
    name: String,
    data: Option<Vec<u8>>,
    pushes: bool,
    stop: bool,
    active: bool,
    timing: bool,
    checksum: bool,
    sample: u32,
    multipacket: bool,
    may_be_missing: bool,
    /// `None`: at its end.
    file: Option<File>,
    form: Form,
    binary: bool,
    /// What was read, and is not yet given out.
    next: Option<Made>,
    /// With `TIMING`: steady time of a packet less its timestamp, once that is known.
    offset: Option<i64>,
    /// A line made no sense, and that was said.
    complained: bool,
    random: Random,
    record: Vec<u8>,
}

/// Why there is no packet now.
enum Wait {
    /// There are none any more.
    End,
    /// The next one is due then, or packet memory may be there again.
    Until(u64),
    /// Only for this turn.
    Turn,
}

impl FromIpSummaryDump {
    fn shown(&self) -> &str {
        match &*self.name {
            "-" => "<stdin>",
            "" => "<data>",
            name => name,
        }
    }

    fn complain(&self, text: &str, cx: &mut Context<'_>) {
        let number = self.file.as_ref().map_or(0, |file| file.number);
        let record = if self.binary { "record " } else { "" };
        let line = format!("{}:{record}{number}: {text}", self.shown());
        cx.say(&line);
    }

    /// Takes what a line with `!` says.
    fn bang(&mut self, line: &str, cx: &mut Context<'_>) {
        let (word, rest) = line.split_once(|sign: char| sign.is_ascii_whitespace()).unwrap_or((line, ""));
        let words = split_words(rest);
        let problems = match word {
            "!data" | "!contents" => self.form.set_fields(rest),
            "!proto" => match &*words {
                [word] => self.form.set_protocol(word, &cx.scope()).into_iter().collect(),
                _ => vec!["bad !proto".to_owned()],
            },
            "!flowid" => self.form.set_flow(rest, &cx.scope()).into_iter().collect(),
            "!aggregate" => match words.first().and_then(|word| parse_integer(word, 0, u32::MAX.into()).ok())
            {
                Some(number) if words.len() == 1 => {
                    self.form.aggregate = number as u32;
                    Vec::new()
                }
                _ => vec!["bad !aggregate specification".to_owned()],
            },
            "!binary" => {
                self.binary = true;
                if let Some(file) = &mut self.file {
                    file.number = 0;
                }
                Vec::new()
            }
            "!IPSummaryDump" => {
                let version = words.first().and_then(|version| version.split_once('.'));
                let version =
                    version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
                match version {
                    Some(version @ (major, minor))
                        if version <= summary::VERSION && major == summary::VERSION.0 =>
                    {
                        self.form.units = if minor == 0 { 1 } else { 8 };
                        Vec::new()
                    }
                    _ => vec![format!("warning: unexpected IPSummaryDump version {rest}")],
                }
            }
            _ => Vec::new(),
        };
        for problem in problems {
            self.complain(&problem, cx);
        }
    }

    /// Reads the next packet into `next`. False at the end of the file.
    fn read_next(&mut self, cx: &mut Context<'_>) -> bool {
        while let Some(file) = &mut self.file {
            let mut record = std::mem::take(&mut self.record);
            let read = match self.binary {
                true => file.record(&mut record).map(|is_line| is_line.map(|is_line| !is_line)),
                false => file.line(&mut record).map(|more| more.then_some(false)),
            };
            let is_record = match read {
                Ok(Some(is_record)) => is_record,
                Ok(None) => {
                    self.file = None;
                    break;
                }
                Err(error) => {
                    self.complain(&super::reason(&error), cx);
                    self.file = None;
                    break;
                }
            };
            self.take_record(&record, is_record, cx);
            self.record = record;
            if self.next.is_some() {
                return true;
            }
        }
        false
    }

    fn take_record(&mut self, record: &[u8], is_record: bool, cx: &mut Context<'_>) {
        let draft = if is_record {
            self.form.read_binary(record)
        } else {
            let line = String::from_utf8_lossy(record);
            match line.bytes().next() {
                None | Some(b'#') => return,
                Some(b'!') => return self.bang(&line, cx),
                _ if line.trim().is_empty() => return,
                _ => self.form.read(&line, &cx.scope()),
            }
        };
        match draft {
            Some(draft) => self.next = Some(draft.finish(self.checksum)),
            None if self.complained => {}
            None => {
                self.complained = true;
                let known = !self.form.fields.is_empty();
                self.complain(if known { "packet parse error" } else { "no '!data' provided" }, cx);
            }
        }
    }

    /// A packet to be given out now. Otherwise whether to go on asking, or when.
    fn give(&mut self, cx: &mut Context<'_>) -> Result<Packet, Wait> {
        for _ in 0..TRIES {
            if self.next.is_none() && !self.read_next(cx) {
                return Err(Wait::End);
            }
            let Some(next) = &mut self.next else { continue };
            if self.timing {
                let now = cx.now() as i64;
                let due = next.time.saturating_add(*self.offset.get_or_insert(now.saturating_sub(next.time)));
                if now < due {
                    return Err(Wait::Until(due as u64));
                }
            }
            let made = if self.multipacket && next.count > 1 { next.clone().split() } else { next.clone() };
            let chosen =
                self.sample >= 1 << SAMPLING || self.random.below(1 << SAMPLING) < u64::from(self.sample);
            let packet = if chosen { made.packet() } else { None };
            if chosen && packet.is_none() {
                return Err(Wait::Until(cx.now() + PATIENCE));
            }
            if self.multipacket && next.count > 1 {
                next.split();
            } else {
                self.next = None;
            }
            if let Some(packet) = packet {
                return Ok(packet);
            }
        }
        Err(Wait::Turn)
    }

    fn rouse(&mut self, cx: &mut Context<'_>) {
        if self.active && self.pushes && !cx.output_is_pull(0) {
            cx.schedule();
        }
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        if self.stop {
            cx.stop();
        }
    }
}

impl Element for FromIpSummaryDump {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if !cx.output_is_pull(0) {
            cx.announce_task();
        }
        self.rouse(cx);
        let input: Box<dyn Read + Send> = match &self.data {
            Some(data) => Box::new(Cursor::new(data.clone())),
            None => match Source::open(&self.name) {
                Ok(source) => Box::new(source),
                Err(error) if self.may_be_missing && error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(format!("{}: {}", self.shown(), super::reason(&error))),
            },
        };
        let mut input = BufReader::new(input);
        // What standard input has is not waited for before all elements are there.
        if self.name != "-" {
            let begin =
                input.fill_buf().map_err(|error| format!("{}: {}", self.shown(), super::reason(&error)))?;
            let known = ["!IPSummaryDump", "!creator", "!data", "!contents", "!proto", "!flowid"];
            let strange = !known.iter().any(|word| begin.starts_with(word.as_bytes()));
            if begin.is_empty() {
                if self.may_be_missing {
                    return Ok(());
                }
                return Err(format!("{}: empty file", self.shown()));
            }
            if strange && self.form.fields.is_empty() {
                let line =
                    format!("{}:1: warning: missing banner line; is this an IP summary dump?", self.shown());
                cx.say(&line);
            }
        }
        self.file = Some(File { input, number: 0, position: 0 });
        Ok(())
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        match self.give(cx) {
            Ok(packet) => {
                cx.schedule();
                cx.emit(0, packet);
                true
            }
            Err(Wait::Turn) => {
                cx.schedule();
                true
            }
            Err(Wait::Until(due)) => {
                cx.set_timer(0, due);
                false
            }
            Err(Wait::End) => {
                self.end(cx);
                false
            }
        }
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.rouse(cx);
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while self.active && batch.len() < quota {
            match self.give(cx) {
                // There is room, so none comes back.
                Ok(packet) => drop(batch.push(packet)),
                Err(Wait::Until(due)) => return cx.wake_at(due),
                Err(Wait::End) => {
                    // Told once, not each time that somebody asks.
                    let told = std::mem::replace(&mut self.stop, false);
                    if told {
                        cx.stop();
                    }
                    return;
                }
                Err(Wait::Turn) => return cx.wake_at(0),
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("sampling_prob"),
            Handler::read_write("active"),
            Handler::read("encap"),
            Handler::write("stop"),
            Handler::read("filename"),
            Handler::read("filesize"),
            Handler::read("filepos"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "sampling_prob" => unparse::fixed(self.sample.min(1 << SAMPLING), SAMPLING),
            "active" => unparse::boolean(self.active).to_owned(),
            "encap" => "IP".to_owned(),
            "filename" => self.shown().to_owned(),
            "filesize" => match std::fs::metadata(&self.name) {
                Ok(facts) if facts.is_file() => facts.len().to_string(),
                _ => "-".to_owned(),
            },
            "filepos" => self.file.as_ref().map_or("-".to_owned(), |file| file.position.to_string()),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => {
                self.active =
                    cx.argument(value.trim()).map_err(|_| HandlerError::refused("type mismatch"))?;
                self.rouse(cx);
            }
            "stop" => {
                self.active = false;
                cx.stop();
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_quotes() {
        assert_eq!(values("1.2.3.4  \"a \\\" b\" - "), ["1.2.3.4", "\"a \\\" b\"", "-"]);
        assert_eq!(values(" \"open end "), ["\"open end "]);
        assert_eq!(values("\t"), [""; 0]);
    }
}
