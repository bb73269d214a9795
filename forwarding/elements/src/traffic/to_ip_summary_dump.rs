//! ToIPSummaryDump: writes a line about each packet.
//!
//! Group: traffic
//! Usage: `ToIPSummaryDump(FILENAME [, FIELDS, HEADER, VERBOSE, BANNER, MULTIPACKET, BAD_PACKETS, CAREFUL_TRUNC, EXTRA_LENGTH, BINARY])`
//! Ports: 1 input, 0-1 outputs; agnostic in, push out
//!
//! Writes what the fields say of a packet, with spaces between and `-` for what the packet does not
//! have: a text for statistics, for comparing, and for [FromIPSummaryDump]. Packets go on by the
//! output if it is connected. From a pull input it pulls by itself.
//!
//! | field | example |
//! |---|---|
//! | `timestamp`, `first_timestamp` | `996033261.451094` |
//! | `ts_sec`, `ts_usec`, `ts_usec1` | seconds; the microseconds behind them; both as microseconds |
//! | `ip_src`, `ip_dst` | `192.0.2.1` |
//! | `ip_len`, `ip_hl`, `ip_id`, `ip_tos`, `ip_dscp`, `ip_ttl`, `ip_sum` | `132` |
//! | `ip_ecn` | `no`, `ect1`, `ect2`, `ce` |
//! | `ip_proto` | `T`, `U`, `I`, or a number |
//! | `ip_frag` | `F` first fragment, `f` later one, `!` not to be fragmented, `.` |
//! | `ip_fragoff` | `0`, `24+` with more behind it, `0!` not to be fragmented; in bytes |
//! | `ip_opt` | `rr{10.0.0.1}+5`, `ssrr{1.0.0.1^1.0.0.2}`, `ts.ip{1.0.0.1=5}+2`; `.` for none |
//! | `ip_capture_len` | how much of the packet is there |
//! | `sport`, `dport` | of TCP, UDP and their like |
//! | `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_window`, `tcp_urp` | `93167339` |
//! | `tcp_flags` | `SA`; `.` for none |
//! | `tcp_opt`, `tcp_ntopt`, `tcp_sack` | `mss1400;wscale10;ts1:2`; all but times; SACK alone |
//! | `udp_len` | `34` |
//! | `icmp_type`, `icmp_code`, `icmp_flowid`, `icmp_seq`, `icmp_nextmtu` | `8` |
//! | `icmp_type_name`, `icmp_code_name` | `echo` |
//! | `payload`, `payload_len` | `"GET /\n"` |
//! | `link`, `paint`, `direction` | the paint annotation; as direction `>` for 0 and `<` for 1 |
//! | `aggregate`, `count` | the aggregate annotation; how many packets this one stands for |
//! | `eth_src`, `eth_dst`, `eth_type` | `00-0A-95-A6-D9-BC`, `0800` |
//! | `wire_len` | the packet's length, with its link header |
//!
//! - `FILENAME` (file): `-` is standard output.
//! - `FIELDS` (names): as above. Instead of `ip_src` write `src` or `"ip src"` as well. Default:
//!   `timestamp ip_src`.
//! - `CONTENTS`, `DATA` (names): older names of FIELDS.
//! - `HEADER` (boolean): whether the file begins with lines that say what it is. Default: true.
//! - `VERBOSE` (boolean): whether they say on which host it was written, and when. Default: false.
//! - `BANNER` (text): who wrote it.
//! - `MULTIPACKET` (boolean): whether a packet that stands for several has as many lines; not with
//!   the field `count`. Default: false.
//! - `BAD_PACKETS` (boolean): whether a line `!bad` says what is wrong with the packet of the next
//!   line. Default: false.
//! - `CAREFUL_TRUNC` (boolean): whether it is wrong that a packet is shorter than its IP header
//!   says. Default: true.
//! - `EXTRA_LENGTH` (boolean): whether the extra length annotation counts. Default: true.
//! - `BINARY` (boolean): whether fields are written in binary, which takes less space. Default:
//!   false.
//!
//! Handlers:
//! - `flush` (write): writes what is still in memory to the file.
//!
//! See also: [FromIPSummaryDump], [ToDump], [IPPrint]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use graph::arguments::{Arguments, Blame, Filename, Raw, Refused, offset, unparse};
use graph::language::{split_words, unquote};
use graph::{BATCH, Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;

use super::summary::{self, Entry, Field, Size, View};

/// The class `ToIPSummaryDump`.
pub const CLASS: Class = Class {
    name: "ToIPSummaryDump",
    ports: "1/0-1",
    processing: "a/h",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("to_ip_summary_dump.rs"),
    make,
};

fn make(arguments: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let name = arguments.mandatory::<Filename>("FILENAME");
    let said = ["FIELDS", "CONTENTS", "DATA"].map(|keyword| arguments.keyword::<Raw>(keyword));
    let names = said.into_iter().flatten().last().map_or("timestamp ip_src".to_owned(), |Raw(names)| names);
    let verbose = arguments.keyword("VERBOSE").unwrap_or(false);
    let header = arguments.keyword("HEADER").unwrap_or(true);
    let banner = arguments.keyword::<String>("BANNER");
    let multipacket = arguments.keyword("MULTIPACKET").unwrap_or(false);
    let bad_packets = arguments.keyword("BAD_PACKETS").unwrap_or(false);
    let careful = arguments.keyword("CAREFUL_TRUNC").unwrap_or(true);
    let extra_length = arguments.keyword("EXTRA_LENGTH").unwrap_or(true);
    let binary = arguments.keyword("BINARY").unwrap_or(false);
    let mut fields: Vec<&'static Entry> = Vec::new();
    for word in split_words(&names) {
        let word = String::from_utf8_lossy(&unquote(word)).into_owned();
        match summary::find(&word) {
            Some((.., Size::Text, _)) if binary => {
                arguments.wrong(Blame::Element, format!("cannot use field {word} with BINARY"));
            }
            Some(field) => fields.push(field),
            None => arguments.wrong(Blame::Element, format!("unknown content type '{word}'")),
        }
    }
    if split_words(&names).is_empty() {
        arguments.wrong(Blame::Element, "no contents specified");
    }
    arguments.finish()?;
    Ok(Box::new(ToIpSummaryDump {
        name: name.ok_or(Refused)?.0,
        multipacket: multipacket && fields.iter().all(|(_, field, ..)| *field != Field::Count),
        fields,
        header,
        verbose,
        banner,
        bad_packets,
        careful,
        extra_length,
        binary,
        out: None,
        bytes: Vec::new(),
        line: Vec::new(),
        batch: Batch::new(),
    }))
}

struct ToIpSummaryDump {
    name: String,
    fields: Vec<&'static Entry>,
    header: bool,
    verbose: bool,
    banner: Option<String>,
    multipacket: bool,
    bad_packets: bool,
    careful: bool,
    extra_length: bool,
    binary: bool,
    /// `None`: there was an error, and nothing more is written.
    out: Option<Box<dyn Write + Send>>,
    /// For packets in several segments.
    bytes: Vec<u8>,
    line: Vec<u8>,
    batch: Batch,
}

impl ToIpSummaryDump {
    /// The lines in front of all packets.
    fn head(&self) -> String {
        let mut text = format!("!IPSummaryDump {}.{}\n", summary::VERSION.0, summary::VERSION.1);
        if let Some(banner) = &self.banner {
            text += &format!("!creator {}\n", unparse::quoted(banner));
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                text += &format!("!host {}\n", host.trim());
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            text += &format!("!runtime {}\n", unparse::timestamp(now.as_nanos() as i64));
        }
        // A text says all digits by itself.
        let name = |entry: &&Entry| match (entry.1, self.binary) {
            (Field::NanoTimestamp, false) => "timestamp",
            _ => entry.0,
        };
        let names: Vec<&str> = self.fields.iter().map(name).collect();
        text += &format!("!data {}\n", names.join(" "));
        if self.binary {
            text += "!binary\n";
        }
        text
    }

    fn summarize(&mut self, packet: &Packet, cx: &mut Context<'_>) {
        let mut whole = std::mem::take(&mut self.bytes);
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let bytes = if packet.segment_count() == 1 {
            packet.data()
        } else {
            whole.clear();
            packet.segments().for_each(|segment| whole.extend_from_slice(segment));
            &whole
        };
        let mut view = View::new(packet, bytes, self.extra_length, self.careful);
        let icmp_type = view.icmp_type().unwrap_or_default();
        if self.binary {
            line.extend([0; 4]);
        }
        for (index, field) in self.fields.iter().enumerate() {
            let value = view.get(field.1);
            if self.binary {
                summary::write_binary(field, value.as_ref(), &mut line);
                continue;
            }
            if index > 0 {
                line.push(b' ');
            }
            match value {
                Some(value) => summary::write(field.1, &value, icmp_type, &cx.scope(), &mut line),
                None => line.push(b'-'),
            }
        }
        if self.binary {
            let length = line.len() as u32;
            line[..4].copy_from_slice(&length.to_be_bytes());
        } else {
            line.push(b'\n');
        }
        let bad = view.bad.filter(|_| self.bad_packets).map(|bad| format!("!bad {bad}\n"));
        let written = match bad {
            Some(bad) => self.note(&bad).and_then(|()| self.put(&line)),
            None => self.put(&line),
        };
        self.line = line;
        self.bytes = whole;
        if let Err(error) = written {
            self.out = None;
            let line =
                format!("{} :: {}: {}: {}", cx.name(), CLASS.name, self.shown(), super::reason(&error));
            cx.say(&line);
        }
    }

    /// Writes a line that is about no packet.
    fn note(&mut self, text: &str) -> io::Result<()> {
        if self.binary {
            self.put(&(1 << 31 | (text.len() + 4) as u32).to_be_bytes())?;
        }
        self.put(text.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), |out| out.write_all(bytes))
    }

    fn shown(&self) -> &str {
        if self.name == "-" { "<stdout>" } else { &self.name }
    }

    /// A line for a packet, or one for each of those that it stands for.
    fn write_packet(&mut self, packet: &mut Packet, cx: &mut Context<'_>) {
        let word = |packet: &Packet, place| u32::from_ne_bytes(packet.annotation(place));
        let more = word(packet, offset::EXTRA_PACKETS);
        if !self.multipacket || more == 0 {
            return self.summarize(packet, cx);
        }
        let count = more.saturating_add(1);
        let length = packet.total_len() as u32;
        let missing = if self.extra_length { word(packet, offset::EXTRA_LENGTH) } else { 0 };
        let mut left = length.saturating_add(missing).max(length.saturating_mul(count));
        let end = packet.annotations().timestamp;
        let first = i64::from_ne_bytes(packet.annotation(offset::FIRST_TIMESTAMP));
        let begin = if first == 0 { end } else { first };
        packet.set_annotation(offset::EXTRA_PACKETS, [0; 4]);
        for number in 0..count {
            let each = left / (count - number);
            left -= each;
            packet.set_annotation(offset::EXTRA_LENGTH, (each - length).to_ne_bytes());
            packet.annotations_mut().timestamp = begin + (end - begin) / i64::from(more) * i64::from(number);
            if number == more {
                packet.annotations_mut().timestamp = end;
            }
            self.summarize(packet, cx);
        }
    }

    fn flush(&mut self) {
        if let Some(out) = &mut self.out {
            // The next packet will tell.
            let _ = out.flush();
        }
    }
}

impl Element for ToIpSummaryDump {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let said = |error: &io::Error| format!("{}: {}", self.name, super::reason(error));
        let mut out: Box<dyn Write + Send> = match &*self.name {
            // By lines, among what others print there.
            "-" => Box::new(io::stdout()),
            name => Box::new(BufWriter::new(File::create(name).map_err(|error| said(&error))?)),
        };
        if self.header {
            out.write_all(self.head().as_bytes()).map_err(|error| said(&error))?;
        }
        self.out = Some(out);
        if cx.input_is_pull(0) {
            cx.schedule();
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            self.write_packet(packet, cx);
        }
    }

    fn task(&mut self, cx: &mut Context<'_>) -> bool {
        cx.schedule();
        let mut batch = std::mem::take(&mut self.batch);
        let packets = cx.pull(0, BATCH, &mut batch);
        self.act(&mut batch, cx);
        cx.emit_batch(0, &mut batch);
        self.batch = batch;
        if packets == 0 {
            // Who looks into the file while nothing comes sees all that came.
            self.flush();
        }
        packets > 0
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::write("flush")]
    }

    fn write(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "flush" => self.flush(),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

impl Drop for ToIpSummaryDump {
    fn drop(&mut self) {
        self.flush();
    }
}
