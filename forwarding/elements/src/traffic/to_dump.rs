//! ToDump: writes packets to a file.
//!
//! Group: traffic
//! Usage: `ToDump(FILENAME [, SNAPLEN, ENCAP, USE_ENCAP_FROM, EXTRA_LENGTH, NANO, UNBUFFERED])`
//! Ports: 1 input, 0-1 outputs; agnostic
//!
//! Writes a file that tcpdump, Wireshark and [FromDump] read: pcap, or pcapng when the file's name
//! ends in `.pcapng`; one that ends in `.gz` besides is compressed. Packets go on by the output if
//! it is connected. With a pull input and no output it pulls packets by itself.
//!
//! A packet without a timestamp gets that of the moment, in the file.
//!
//! - `FILENAME` (file): `-` is standard output.
//! - `SNAPLEN` (unsigned): bytes written of a packet at most; 0: all. Default: 2000.
//! - `ENCAP` (word): what packets begin with: `ETHER`, `IP`, `802_11`, or `#` and the link type's
//!   number. Default: `ETHER`.
//! - `USE_ENCAP_FROM` (names): elements, such as FromDump or FromDevice, whose packets begin alike,
//!   and with what.
//! - `EXTRA_LENGTH` (boolean): whether what was left out of a packet before (the extra length
//!   annotation) counts in the length that the file says. Default: true.
//! - `NANO` (boolean): whether times are in nanoseconds; in pcapng they are. Default: false.
//! - `UNBUFFERED` (boolean): whether each packet is written at once. Default: false.
//!
//! Handlers:
//! - `filename` (read): the file's name.
//! - `count` (read): packets written.
//! - `reset_counts` (write): sets `count` to 0.
//!
//! See also: [FromDump], [ToDevice]

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use graph::arguments::{Arguments, Blame, Filename, Raw, Refused, Word, offset};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::Reason;
use wire::capture::pcapng::{Captured, Writer};
use wire::capture::{link, pcap};

use crate::basic::of_type;

/// The class `ToDump`.
pub const CLASS: Class = Class {
    name: "ToDump",
    ports: "1/0-1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("to_dump.rs"),
    make,
};

fn make(arguments: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let name = arguments.mandatory::<Filename>("FILENAME");
    let snap = arguments.optional::<u32>("SNAPLEN").unwrap_or(2000);
    let encap = arguments.optional::<Word>("ENCAP");
    let from = arguments.keyword::<Raw>("USE_ENCAP_FROM");
    let extra_length = arguments.keyword("EXTRA_LENGTH").unwrap_or(true);
    let nanoseconds = arguments.keyword("NANO").unwrap_or(false);
    let unbuffered = arguments.keyword("UNBUFFERED").unwrap_or(false);
    if encap.is_some() && from.is_some() {
        arguments.wrong(Blame::Element, "specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'");
    }
    let kind = encap.map_or(Some(link::ETHERNET), |Word(name)| link::parse(&name));
    if kind.is_none() {
        arguments.wrong("ENCAP", "bad encapsulation type");
    }
    let names =
        from.iter().flat_map(|Raw(names)| names.split_whitespace()).map(str::to_owned).collect::<Vec<_>>();
    if from.is_some() && names.is_empty() {
        arguments.wrong("USE_ENCAP_FROM", "element names missing after 'USE_ENCAP_FROM'");
    }
    arguments.finish()?;
    let name = name.ok_or(Refused)?.0;
    Ok(Box::new(ToDump {
        shape: Shape {
            next_generation: name.trim_end_matches(".gz").ends_with(".pcapng"),
            nanoseconds,
            snap: if snap == 0 { u32::MAX } else { snap },
            link: kind.ok_or(Refused)?,
        },
        name,
        from: names,
        extra_length,
        unbuffered,
        pulls: setup.outputs == 0,
        dump: None,
        count: 0,
        bytes: Vec::new(),
        batch: Batch::new(),
    }))
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// pcapng, not pcap.
    next_generation: bool,
    nanoseconds: bool,
    snap: u32,
    link: u32,
}

/// A file being written. Its header is written before the first packet, or when it ends without
/// one: an element that takes over the file of another one has opened it by then, and may not begin
/// it anew.
struct Dump {
    shape: Shape,
    state: State,
}

enum State {
    Opened(Target),
    Pcap(Box<dyn Write + Send>),
    Pcapng(Writer<Box<dyn Write + Send>>),
    /// Nothing more can be written.
    Ended,
}

/// What a file is written to.
enum Target {
    Output,
    File(File),
    Compressed(File),
}

impl Target {
    fn open(name: &str) -> io::Result<Target> {
        if name == "-" {
            return Ok(Target::Output);
        }
        // What is in it goes when the header is written, not before.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(name)?;
        Ok(if name.ends_with(".gz") { Target::Compressed(file) } else { Target::File(file) })
    }

    fn begin(self) -> io::Result<Box<dyn Write + Send>> {
        let emptied = |file: File| {
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok::<_, io::Error>(BufWriter::new(file))
        };
        Ok(match self {
            Target::Output => Box::new(BufWriter::new(io::stdout())),
            Target::File(file) => Box::new(emptied(file)?),
            Target::Compressed(file) => Box::new(GzEncoder::new(emptied(file)?, Compression::default())),
        })
    }
}

impl Dump {
    fn begin(&mut self) -> io::Result<()> {
        let State::Opened(target) = std::mem::replace(&mut self.state, State::Ended) else { return Ok(()) };
        let mut out = target.begin()?;
        let Shape { next_generation, nanoseconds, snap, link } = self.shape;
        self.state = if next_generation {
            let mut writer = Writer::new(out, snap)?;
            writer.interface("", link as u16)?;
            State::Pcapng(writer)
        } else {
            out.write_all(&pcap::header(nanoseconds, snap, link))?;
            State::Pcap(out)
        };
        Ok(())
    }

    fn write(&mut self, time: i64, bytes: &[u8], length: u32) -> io::Result<()> {
        if matches!(self.state, State::Opened(_)) {
            self.begin()?;
        }
        match &mut self.state {
            State::Pcap(out) => {
                out.write_all(&pcap::record(self.shape.nanoseconds, time, bytes.len() as u32, length))?;
                out.write_all(bytes)
            }
            State::Pcapng(writer) => {
                let time = u64::try_from(time).unwrap_or_default();
                let link = self.shape.link as u16;
                writer.packet(&Captured {
                    interface: "",
                    link,
                    time,
                    bytes,
                    length,
                    outgoing: None,
                    comment: "",
                })
            }
            State::Opened(_) | State::Ended => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Pcap(out) => out.flush(),
            State::Pcapng(writer) => writer.flush(),
            State::Opened(_) | State::Ended => Ok(()),
        }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // A file without packets has its header all the same. Nobody is left to be told of an
        // error.
        let _ = self.begin();
        let _ = self.flush();
    }
}

struct ToDump {
    name: String,
    shape: Shape,
    /// Elements that say what packets begin with.
    from: Vec<String>,
    extra_length: bool,
    unbuffered: bool,
    /// No output: with a pull input it pulls by itself.
    pulls: bool,
    /// `None`: there was an error, and nothing more is written.
    dump: Option<Dump>,
    count: u64,
    /// For packets in several segments.
    bytes: Vec<u8>,
    batch: Batch,
}

impl ToDump {
    fn shown(&self) -> &str {
        if self.name == "-" { "<stdout>" } else { &self.name }
    }

    /// What the packets of other elements begin with.
    fn ask(&self, cx: &mut Context<'_>) -> Result<Option<u32>, String> {
        let mut found: Option<u32> = None;
        for name in &self.from {
            let text = cx
                .read_handler(&format!("{name}.encap"), "")
                .map_err(|error| format!("'{name}' has no 'encap' read handler: {error}"))?;
            let kind = link::parse(text.trim())
                .ok_or_else(|| format!("'{name}.encap' did not return a valid encapsulation type"))?;
            if found.is_some_and(|found| found != kind) {
                return Err("source encapsulation types disagree".to_owned());
            }
            found = Some(kind);
        }
        Ok(found)
    }

    fn write(&mut self, packet: &Packet, cx: &mut Context<'_>) {
        let Some(dump) = &mut self.dump else { return };
        let notes = packet.annotations();
        let time = if notes.timestamp == 0 { cx.wall() } else { notes.timestamp };
        let extra =
            if self.extra_length { u32::from_ne_bytes(packet.annotation(offset::EXTRA_LENGTH)) } else { 0 };
        let whole = if packet.segment_count() == 1 {
            packet.data()
        } else {
            self.bytes.clear();
            packet.segments().for_each(|segment| self.bytes.extend_from_slice(segment));
            &self.bytes
        };
        let kept = &whole[..whole.len().min(self.shape.snap as usize)];
        let written = dump.write(time, kept, (whole.len() as u32).saturating_add(extra));
        match written.and_then(|()| if self.unbuffered { dump.flush() } else { Ok(()) }) {
            Ok(()) => self.count += 1,
            Err(error) => {
                dump.state = State::Ended;
                self.dump = None;
                let line = format!("ToDump({}): {}", self.shown(), super::reason(&error));
                cx.say(&line);
            }
        }
    }
}

impl Element for ToDump {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(kind) = self.ask(cx)? {
            self.shape.link = kind;
        }
        let target =
            Target::open(&self.name).map_err(|error| format!("{}: {}", self.name, super::reason(&error)))?;
        self.dump = Some(Dump { shape: self.shape, state: State::Opened(target) });
        self.pulls &= cx.input_is_pull(0);
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.packets() {
            self.write(packet, cx);
        }
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        if self.dump.is_none() {
            return false;
        }
        cx.schedule();
        let mut batch = std::mem::take(&mut self.batch);
        let packets = cx.pull(0, BATCH, &mut batch);
        self.act(&mut batch, cx);
        cx.drop_batch(&mut batch, Reason::Discarded);
        self.batch = batch;
        if packets == 0
            && let Some(dump) = &mut self.dump
        {
            // Who looks into the file while nothing comes sees all that came.
            let _ = dump.flush();
        }
        packets > 0
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("filename"), Handler::read("count"), Handler::write("reset_counts")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "filename" => Ok(self.shown().to_owned()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        let Some(mut old) = of_type::<ToDump>(old) else { return };
        let goes_on = |dump: &Dump| dump.shape == self.shape && !matches!(dump.state, State::Opened(_));
        if old.name == self.name && old.dump.as_ref().is_some_and(goes_on) {
            // What this one opened must not begin the file anew.
            if let Some(own) = &mut self.dump {
                own.state = State::Ended;
            }
            self.dump = old.dump.take();
        }
    }
}
