//! FromDump: packets from a file, with the times they were captured at.
//!
//! Group: traffic
//! Usage: `FromDump(FILENAME [, TIMING, STOP, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END, END_AFTER, INTERVAL, END_CALL, FILEPOS])`
//! Ports: no inputs, 1-2 outputs; agnostic, the second output push
//!
//! Reads files of tcpdump and Wireshark: pcap in both byte orders, with micro- and nanoseconds, and
//! pcapng; also compressed by gzip. A packet gets the timestamp of the file, and in the extra
//! length annotation how many bytes the file left out.
//!
//! With `FORCE_IP` the network header is found behind the link header, and packets that are not IP
//! leave by output 1 if it is connected. A file of raw IP packets is always read like this.
//!
//! - `FILENAME` (file): `-` is standard input.
//! - `TIMING` (boolean): whether packets leave with the distances in time that the file has.
//!   Otherwise as fast as they are taken. Default: false.
//! - `STOP` (boolean): whether to stop the program at the end of the file. Default: false.
//! - `ACTIVE` (boolean): whether it gives out packets at first. Default: true.
//! - `SAMPLE` (0 to 1): the probability that a packet is given out. Default: 1.
//! - `FORCE_IP` (boolean): as above. Default: false.
//! - `START` (time): only packets from this time on, in seconds since 1970.
//! - `START_AFTER` (time): only packets so long after the first one.
//! - `END` (time): only packets before this time.
//! - `END_AFTER` (time): only packets until so long after the first one.
//! - `INTERVAL` (time): only packets until so long after the start.
//! - `END_CALL` (handler [value]): a handler to write at the end of the time, and at the end of the
//!   file. The default with an end of the time is `active false` of this element.
//! - `FILEPOS` (unsigned): where in the file to begin: a packet's position, as `packet_filepos`
//!   tells it.
//! - `MMAP` (boolean): has no effect.
//!
//! Handlers:
//! - `filename` (read): the file's name.
//! - `filesize` (read): its bytes; `-` when it is no regular file.
//! - `filepos` (read, write): how far it was read; written, where to go on.
//! - `sampling_prob` (read): the probability of `SAMPLE`.
//! - `active` (read, write): whether it gives out packets.
//! - `encap` (read): the link type: what packets begin with.
//! - `stop` (write): stops it, and the program.
//! - `packet_filepos` (read): where in the file the packet was that was given out last.
//! - `extend_interval` (write): moves the end of the time by as much, and goes on.
//! - `count` (read): packets given out.
//! - `reset_counts` (write): sets `count` to 0.
//! - `reset_timing` (write): lets `TIMING` begin anew with the next packet.
//!
//! See also: [ToDump], [FromDevice]

use graph::arguments::{Arguments, Blame, Filename, Fixed, Refused, Timestamp, offset, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use port::Packet;
use wire::capture::{CaptureError, Reader, link};

use super::input::Source;
use crate::basic::call::Call;
use crate::basic::of_type;
use crate::basic::random::Random;

/// The class `FromDump`.
pub const CLASS: Class = Class {
    name: "FromDump",
    ports: "0/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("from_dump.rs"),
    make,
};

/// Binary digits of a probability.
const SAMPLING: u32 = 28;
/// Packets that are passed over in one turn.
const TRIES: u32 = 16;
/// How long to wait for packet memory.
const PATIENCE: u64 = 1_000_000;

fn make(arguments: &mut Arguments<'_>, setup: &mut graph::Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let _: Option<bool> = arguments.keyword("MMAP");
    let name = arguments.mandatory::<Filename>("FILENAME");
    let timing = arguments.optional("TIMING").unwrap_or(false);
    let stop = arguments.keyword("STOP").unwrap_or(false);
    let active = arguments.keyword("ACTIVE").unwrap_or(true);
    let sample = arguments.keyword::<Fixed<SAMPLING>>("SAMPLE").map_or(1 << SAMPLING, |sample| sample.0);
    let force_ip = arguments.keyword("FORCE_IP").unwrap_or(false);
    let mut time =
        |keyword| arguments.keyword::<Timestamp>(keyword).map(|time| time.0).filter(|time| *time != 0);
    let (start, start_after) = (time("START"), time("START_AFTER"));
    let (end, end_after, interval) = (time("END"), time("END_AFTER"), time("INTERVAL"));
    let call = arguments.keyword::<Call>("END_CALL");
    let begin = arguments.keyword("FILEPOS").unwrap_or(0);
    if sample > 1 << SAMPLING {
        arguments.strange("SAMPLE", "SAMPLE probability reduced to 1");
    } else if sample == 0 {
        arguments.strange("SAMPLE", "SAMPLE probability is 0; emitting no packets");
    }
    if start.is_some() && start_after.is_some() {
        arguments.wrong(Blame::Element, "START and START_AFTER are mutually exclusive");
    }
    let ends = [end, end_after, interval].into_iter().flatten().count();
    if ends > 1 {
        arguments.wrong(Blame::Element, "END, END_AFTER, and INTERVAL are mutually exclusive");
    }
    if stop && call.is_some() {
        arguments.wrong(Blame::Element, "END_CALL and STOP are mutually exclusive");
    }
    let at_end = match call {
        Some(call) => AtEnd::Call(call),
        None if stop => AtEnd::Stop,
        None if ends > 0 => AtEnd::Rest,
        None => AtEnd::Nothing,
    };
    arguments.finish()?;
    let first = start.map(Moment::At).or(start_after.map(Moment::AfterFirst));
    let last = end.map(Moment::At).or(end_after.map(Moment::AfterFirst)).or(interval.map(Moment::AfterStart));
    Ok(Box::new(FromDump {
        name: name.ok_or(Refused)?.0,
        pushes: setup.outputs > 0,
        timing,
        active,
        sample,
        force_ip,
        first,
        last,
        over: false,
        at_end,
        begin,
        dump: None,
        next: None,
        times_known: false,
        offset: 0,
        position: 0,
        count: 0,
        random: Random::new(),
        bytes: Vec::new(),
    }))
}

/// A moment, by what it is told.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Nanoseconds since 1970.
    At(i64),
    AfterFirst(i64),
    AfterStart(i64),
}

/// What to do at the end.
enum AtEnd {
    Nothing,
    Stop,
    /// To be inactive.
    Rest,
    Call(Call),
}

/// A packet that was read, and is not yet given out.
struct Next {
    time: i64,
    length: u32,
    link: u32,
}

struct FromDump {
    name: String,
    pushes: bool,
    timing: bool,
    active: bool,
    sample: u32,
    force_ip: bool,
    first: Option<Moment>,
    last: Option<Moment>,
    /// `last` has come.
    over: bool,
    at_end: AtEnd,
    /// Where in the file to begin; 0: behind its header.
    begin: u64,
    dump: Option<Reader<Source>>,
    /// Its bytes are in `bytes`.
    next: Option<Next>,
    /// Whether relative moments were made absolute, and `offset` is set.
    times_known: bool,
    /// With `TIMING`: steady time of a packet less its timestamp.
    offset: i64,
    /// Where in the file `next`, or what was given out last, began.
    position: u64,
    count: u64,
    random: Random,
    bytes: Vec<u8>,
}

impl FromDump {
    fn open(&mut self) -> Result<(), String> {
        if self.dump.is_some() {
            return Ok(());
        }
        let name = self.shown().to_owned();
        let said = |error: CaptureError| format!("{name}: {}", said(&error));
        let mut dump =
            Reader::new(Source::open(&self.name).map_err(|error| said(error.into()))?).map_err(&said)?;
        match dump.link() {
            Some(link::RAW) => self.force_ip = true,
            Some(kind) if self.force_ip && !link::may_have_ip(kind) => {
                return Err(format!("{name}: unknown linktype {kind}; can't force IP packets"));
            }
            _ => {}
        }
        if self.begin != 0 {
            seek(&mut dump, self.begin).map_err(&said)?;
        }
        self.dump = Some(dump);
        Ok(())
    }

    fn shown(&self) -> &str {
        if self.name == "-" { "<stdin>" } else { &self.name }
    }

    fn complain(&self, error: &CaptureError, cx: &mut Context<'_>) {
        let line = format!("{}: {}", self.shown(), said(error));
        cx.say(&line);
    }

    /// Reads the next packet that is wanted into `next`, or finds that it isn't (and true
    /// nevertheless). False at the end.
    fn read_next(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(dump) = &mut self.dump else { return false };
        self.position = dump.position();
        let record = match dump.next(&mut self.bytes) {
            Ok(Some(record)) => record,
            Ok(None) => return false,
            Err(error) => {
                self.complain(&error, cx);
                self.dump = None;
                return false;
            }
        };
        if !self.times_known {
            self.fix_times(record.time, cx);
        }
        if let Some(Moment::At(first)) = self.first {
            if record.time < first {
                return true;
            }
            self.first = None;
        }
        // Whoever is called at the end may move it.
        while let Some(Moment::At(last)) = self.last
            && !self.over
            && record.time >= last
        {
            self.over = true;
            self.end(cx);
            if !self.active {
                return false;
            }
        }
        if self.sample < 1 << SAMPLING && self.random.below(1 << SAMPLING) >= u64::from(self.sample) {
            return true;
        }
        self.next = Some(Next { time: record.time, length: record.length, link: record.link });
        true
    }

    /// What is relative to the first packet becomes absolute, when that is known.
    fn fix_times(&mut self, time: i64, cx: &mut Context<'_>) {
        let start = |moment| match moment {
            Moment::At(at) => at,
            Moment::AfterFirst(after) | Moment::AfterStart(after) => time.saturating_add(after),
        };
        let first = self.first.map_or(time, start);
        self.first = self.first.map(|_| Moment::At(first));
        self.last = self.last.map(|last| match last {
            Moment::AfterStart(after) => Moment::At(first.saturating_add(after)),
            other => Moment::At(start(other)),
        });
        self.offset = (cx.now() as i64).saturating_sub(time);
        self.times_known = true;
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        match std::mem::replace(&mut self.at_end, AtEnd::Nothing) {
            AtEnd::Nothing => {}
            AtEnd::Stop => {
                self.active = false;
                cx.stop();
                self.at_end = AtEnd::Stop;
            }
            AtEnd::Rest => {
                self.active = false;
                self.at_end = AtEnd::Rest;
            }
            AtEnd::Call(call) => {
                call.write(self, cx);
                self.at_end = AtEnd::Call(call);
            }
        }
    }

    /// When the next packet is due, in steady nanoseconds, unless it is now.
    fn due(&self, cx: &mut Context<'_>) -> Option<u64> {
        let next = self.next.as_ref().filter(|_| self.timing)?;
        let due = u64::try_from(next.time.saturating_add(self.offset)).unwrap_or_default();
        (due > cx.now()).then_some(due)
    }

    /// The next packet as one of this graph. `None` when there is no memory for it now.
    fn make(&mut self) -> Option<Packet> {
        let next = self.next.take()?;
        let Some(mut packet) = Packet::new(&self.bytes) else {
            self.next = Some(next);
            return None;
        };
        packet.set_link(Some(0));
        let annotations = packet.annotations_mut();
        annotations.timestamp = next.time;
        let left_out = next.length.saturating_sub(self.bytes.len() as u32);
        if left_out != 0 {
            packet.set_annotation(offset::EXTRA_LENGTH, left_out.to_ne_bytes());
        }
        Some(packet)
    }

    /// A packet to be given out now. Otherwise whether to go on asking, or when.
    fn give(&mut self, cx: &mut Context<'_>) -> Result<Packet, Wait> {
        for _ in 0..TRIES {
            if self.next.is_none() && !self.read_next(cx) {
                return Err(Wait::End);
            }
            let Some(next) = &self.next else { continue };
            if let Some(due) = self.due(cx) {
                return Err(Wait::Until(due));
            }
            let kind = next.link;
            let Some(mut packet) = self.make() else { return Err(Wait::Until(cx.now() + PATIENCE)) };
            if !self.force_ip || super::mark_ip(&mut packet, kind) {
                self.count += 1;
                return Ok(packet);
            }
            cx.emit(1, packet);
        }
        Err(Wait::Turn)
    }

    fn rouse(&mut self, cx: &mut Context<'_>) {
        if self.active && self.pushes && !cx.output_is_pull(0) {
            cx.schedule();
        }
    }
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

fn seek(dump: &mut Reader<Source>, to: u64) -> Result<(), CaptureError> {
    let now = dump.position();
    dump.moved(to, |source| source.seek(now, to))
}

/// An error without the number that Rust prints behind what the operating system says.
fn said(error: &CaptureError) -> String {
    match error {
        CaptureError::Io(error) => super::reason(error),
        other => other.to_string(),
    }
}

impl Element for FromDump {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let AtEnd::Call(call) = &self.at_end {
            call.clone().check(self, cx).map_err(|error| format!("END_CALL: {error}"))?;
        }
        self.open()?;
        if !cx.output_is_pull(0) {
            cx.announce_task();
        }
        self.rouse(cx);
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
                    // The end is told once, not each time that somebody asks.
                    if self.dump.take().is_some() {
                        self.end(cx);
                    }
                    return;
                }
                Err(Wait::Turn) => return cx.wake_at(0),
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("filename"),
            Handler::read("filesize"),
            Handler::read_write("filepos"),
            Handler::read("sampling_prob"),
            Handler::read_write("active"),
            Handler::read("encap"),
            Handler::write("stop"),
            Handler::read("packet_filepos"),
            Handler::write("extend_interval"),
            Handler::read("count"),
            Handler::write("reset_counts"),
            Handler::write("reset_timing"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        Ok(match handler {
            "filename" => self.shown().to_owned(),
            "filesize" => match std::fs::metadata(&self.name) {
                Ok(facts) if facts.is_file() => facts.len().to_string(),
                _ => "-".to_owned(),
            },
            "filepos" => self.dump.as_ref().map_or(self.position, |dump| dump.position()).to_string(),
            "sampling_prob" => unparse::fixed(self.sample.min(1 << SAMPLING), SAMPLING),
            "active" => unparse::boolean(self.active).to_owned(),
            "encap" => {
                // Another element may ask for it while elements begin to work.
                self.open().map_err(HandlerError::refused)?;
                self.dump.as_ref().and_then(|dump| dump.link()).map_or("<none>".to_owned(), link::name)
            }
            "packet_filepos" => self.position.to_string(),
            "count" => self.count.to_string(),
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "filepos" => {
                let to =
                    cx.argument(value).map_err(|_| HandlerError::refused("argument must be file offset"))?;
                let dump = self.dump.as_mut().ok_or_else(|| HandlerError::refused("the file is not open"))?;
                seek(dump, to).map_err(|error| HandlerError::refused(said(&error)))?;
                self.next = None;
            }
            "active" => {
                self.active = cx.argument(value).map_err(|_| HandlerError::refused("type mismatch"))?;
                self.rouse(cx);
            }
            "stop" => {
                self.active = false;
                cx.stop();
            }
            "extend_interval" => {
                let Timestamp(more) = cx
                    .argument(value)
                    .map_err(|_| HandlerError::refused("'extend_interval' takes a time interval"))?;
                if let Some(Moment::At(last) | Moment::AfterFirst(last) | Moment::AfterStart(last)) =
                    &mut self.last
                {
                    *last = last.saturating_add(more);
                }
                self.over = false;
                self.active = true;
                self.rouse(cx);
            }
            "reset_counts" => self.count = 0,
            "reset_timing" => self.times_known = false,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let Some(old) = of_type::<FromDump>(old) else { return };
        if old.name == self.name {
            self.dump = old.dump;
            self.next = old.next;
            self.bytes = old.bytes;
            self.offset = old.offset;
            self.position = old.position;
        }
    }
}
