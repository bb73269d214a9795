//! IPPrint: prints IPv4 packets as they pass.
//!
//! Group: ip
//! Usage: `IPPrint([LABEL] [, keywords CONTENTS, PAYLOAD, MAXLENGTH, ID, TIMESTAMP, PAINT, TOS, TTL, LENGTH, AGGREGATE, SWAP, ACTIVE, OUTFILE, CHANNEL])`
//! Ports: 1 input, 1 output; agnostic
//!
//! A line for each packet, in tcpdump's manner, on standard error. Expects marked headers, as
//! CheckIPHeader leaves them; packets without pass silently.
//!
//! ```text
//! in: 1000000000.000000: 10.0.0.1.1025 > 10.0.0.2.53: udp 13
//! in: 1000000000.000000: 10.0.0.1.1026 > 10.0.0.2.80: S 7:8(1,40,40) win 65535
//! in: 1000000000.000000: 10.0.0.1 > 10.0.0.2: icmp echo (1, 2)
//! ```
//!
//! Of TCP segments it says the flags (`S`, `F`, `R`, `P`, or `.` for none of them), the first
//! sequence number and the one after the last, and in parentheses the length of the data, of what
//! is there from the packet's front on, and of the IPv4 packet; of fragments the identification,
//! length and offset, with a `+` when more follow.
//!
//! - `LABEL` (text): what the line begins with
//! - `CONTENTS` (word): `HEX`, the packet's bytes in hexadecimal, from its front on; `ASCII`, as
//!   text with a dot for what is none; `NONE`. Default NONE; `true` and `false` mean HEX and NONE
//! - `PAYLOAD` (word): as `CONTENTS`, but what is behind the UDP or TCP header; only one of both
//!   may be given
//! - `MAXLENGTH` (integer): so many bytes are printed, all with -1. Default 1500. `NBYTES` is its
//!   older name
//! - `ID`, `TTL`, `TOS`, `LENGTH` (booleans): whether to print these fields of the header. Default
//!   false.
//! - `TIMESTAMP` (boolean): whether to print the packet's timestamp. Default true.
//! - `PAINT`, `AGGREGATE` (booleans): whether to print these annotations. Default false.
//! - `SWAP` (boolean): false prints identifiers and sequence numbers of ICMP echo with their bytes
//!   the other way round, as some hosts mean them. Default true.
//! - `ACTIVE` (boolean): whether to print at all. Default true.
//! - `OUTFILE` (file): prints there, not to standard error
//! - `CHANNEL` (word): accepted, and without effect: there is one channel
//!
//! Handlers:
//! - `active` (read, write): whether it prints
//!
//! See also: [Print], [ARPPrint], [IP6Print], [CheckIPHeader]

use std::fmt::{Result as Written, Write as _};
use std::fs::File;
use std::io::Write as _;

use graph::arguments::{Arguments, Blame, Filename, Kind, Refused, Scope, Word, offset, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{icmp4, ipv4, protocol, tcp};

use crate::basic::written;

/// See [`IpPrint`].
pub const CLASS: Class = Class {
    name: "IPPrint",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip_print.rs"),
    make,
};

/// How bytes are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Hex,
    Ascii,
}

/// Prints packets.
struct IpPrint {
    label: String,
    /// How bytes are printed, if they are.
    form: Option<Form>,
    /// Only what is behind the transport header.
    payload: bool,
    /// So many bytes; `None`: all.
    bytes: Option<usize>,
    timestamp: bool,
    aggregate: bool,
    paint: bool,
    id: bool,
    ttl: bool,
    tos: bool,
    length: bool,
    swap: bool,
    active: bool,
    path: Option<String>,
    file: Option<File>,
    /// The line being made.
    line: String,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let label = args.optional("LABEL").unwrap_or_default();
    let bytes = args.keyword::<i32>("MAXLENGTH");
    let bytes = args.keyword("NBYTES").or(bytes).unwrap_or(1500);
    let mut form = |keyword: &str, words: &str, yes: &[&str], no: &[&str]| {
        let Word(word) = args.keyword(keyword)?;
        let word = word.to_uppercase();
        match word.as_str() {
            "HEX" => Some(Form::Hex),
            "ASCII" => Some(Form::Ascii),
            word if yes.contains(&word) => Some(Form::Hex),
            word if no.contains(&word) => None,
            _ => {
                let what = keyword.to_lowercase();
                args.wrong(Blame::Element, format!("bad {what} value '{word}'; should be {words}"));
                None
            }
        }
    };
    let [yes, no] = [["1", "TRUE", "YES", "T", "Y", "HEX"], ["0", "FALSE", "NO", "F", "N", "NONE"]];
    let contents = form("CONTENTS", "'NONE', 'HEX', or 'ASCII'", &yes, &no);
    let payload = form("PAYLOAD", "'false', 'hex', or 'ascii'", &["YES", "TRUE"], &["NO", "FALSE"]);
    if contents.is_some() && payload.is_some() {
        args.wrong(Blame::Element, "specify at most one of PAYLOAD and CONTENTS");
    }
    let mut flag = |keyword, otherwise| args.keyword(keyword).unwrap_or(otherwise);
    let print = IpPrint {
        label,
        form: contents.or(payload),
        payload: payload.is_some(),
        bytes: usize::try_from(bytes).ok(),
        timestamp: flag("TIMESTAMP", true),
        aggregate: flag("AGGREGATE", false),
        paint: flag("PAINT", false),
        id: flag("ID", false),
        ttl: flag("TTL", false),
        tos: flag("TOS", false),
        length: flag("LENGTH", false),
        swap: flag("SWAP", true),
        active: flag("ACTIVE", true),
        path: args.keyword::<Filename>("OUTFILE").map(|file| file.0),
        file: None,
        line: String::new(),
    };
    args.keyword::<Word>("CHANNEL");
    args.finish()?;
    Ok(Box::new(print))
}

/// A packet and the parts of it that a line is about.
struct Shown<'a> {
    packet: &'a Packet,
    /// The 20 bytes of the header.
    header: &'a [u8; ipv4::HEADER],
    /// Behind the IPv4 header, as far as both the packet and its first segment go.
    transport: &'a [u8],
}

impl<'a> Shown<'a> {
    /// `None` when there is no whole header.
    fn new(packet: &'a Packet) -> Option<Shown<'a>> {
        let header = packet.network().first_chunk::<{ ipv4::HEADER }>()?;
        let mut shown = Shown { packet, header, transport: &[] };
        let behind = shown.behind();
        let length = usize::try_from(shown.payload_length()).unwrap_or(0);
        shown.transport = &behind[..behind.len().min(length)];
        Some(shown)
    }

    /// All of the first segment behind the IPv4 header.
    fn behind(&self) -> &'a [u8] {
        match self.packet.transport_offset() {
            Some(_) => self.packet.transport(),
            None => self.packet.network().get(usize::from(self.header[0] & 15) * 4..).unwrap_or_default(),
        }
    }

    fn number(&self, at: usize) -> u16 {
        u16_at(self.header, at).unwrap_or_default()
    }

    /// As the header says; less than 0 when it is nonsense.
    fn payload_length(&self) -> i32 {
        i32::from(self.number(2)) - i32::from(self.header[0] & 15) * 4
    }

    fn is_first(&self) -> bool {
        self.number(6) & ipv4::FRAGMENT_OFFSET == 0
    }

    fn address(&self, at: usize) -> String {
        address(self.header, at)
    }

    /// Source and destination, with the ports when they are there.
    fn ends(&self) -> String {
        let (from, to) = (self.address(12), self.address(16));
        match self.transport {
            [s0, s1, d0, d1, ..] if self.is_first() && has_ports(self.header[9]) => {
                let (source, destination) = (u16::from_be_bytes([*s0, *s1]), u16::from_be_bytes([*d0, *d1]));
                format!("{from}.{source} > {to}.{destination}: ")
            }
            _ => format!("{from} > {to}: "),
        }
    }

    fn tcp(&self, line: &mut String) -> Written {
        let bytes = self.transport;
        match bytes.len() {
            _ if !self.is_first() => return line.write_str("tcp"),
            0..14 => return line.write_str("truncated-tcp"),
            _ => {}
        }
        let flags = bytes[13];
        let total = i32::from(self.number(2));
        let mut length = self.payload_length() - i32::from(bytes[12] >> 4) * 4;
        length += i32::from(flags & tcp::flag::SYN != 0) + i32::from(flags & tcp::flag::FIN != 0);
        let letters =
            [(tcp::flag::SYN, 'S'), (tcp::flag::FIN, 'F'), (tcp::flag::RST, 'R'), (tcp::flag::PSH, 'P')];
        let before = line.len();
        line.extend(letters.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, letter)| letter));
        if line.len() == before {
            line.push('.');
        }
        let sequence = u32_at(bytes, 4).unwrap_or_default();
        let (end, there) = (sequence.wrapping_add_signed(length), self.packet.total_len());
        write!(line, " {sequence}:{end}({length},{there},{total})")?;
        if flags & tcp::flag::ACK != 0 {
            write!(line, " ack {}", u32_at(bytes, 8).unwrap_or_default())?;
        }
        match u16_at(bytes, 14) {
            Some(window) => write!(line, " win {window}"),
            None => line.write_str("truncated-tcp"),
        }
    }

    fn udp(&self, line: &mut String) -> Written {
        match u16_at(self.transport, 4) {
            _ if !self.is_first() => line.write_str("udp"),
            Some(length) if self.transport.len() >= 8 => write!(line, "udp {length}"),
            _ => line.write_str("truncated-udp"),
        }
    }

    fn icmp(&self, swap: bool, scope: &Scope<'_>, line: &mut String) -> Written {
        let &[icmp_type, code, ..] = self.transport else {
            return line.write_str(if self.is_first() { "truncated-icmp" } else { "icmp" });
        };
        if !self.is_first() {
            return line.write_str("icmp");
        }
        let whole = self.transport.first_chunk::<{ icmp4::HEADER }>();
        let code_name = scope.name_of(Kind::IcmpCode(icmp_type), code.into());
        match icmp_type {
            icmp4::ECHO | icmp4::ECHO_REPLY => {
                line.push_str(if icmp_type == icmp4::ECHO { "icmp echo " } else { "icmp echo-reply " });
                let Some(header) = whole else { return line.write_str("truncated-icmp") };
                let number = |at| {
                    let number = u16_at(header, at).unwrap_or_default();
                    if swap { number } else { number.swap_bytes() }
                };
                write!(line, "({}, {})", number(4), number(6))
            }
            icmp4::UNREACHABLE => {
                let code_name = code_name.map_or_else(|| format!("code {code}"), str::to_owned);
                let about = self.transport.get(icmp4::HEADER..).unwrap_or_default();
                let Some(header) = about.first_chunk::<{ ipv4::HEADER }>() else {
                    return write!(line, "icmp unreachable {code_name} truncated-icmp");
                };
                write!(line, "icmp {} unreachable {code_name}", address(header, 16))?;
                let protocol = scope.name_of(Kind::Protocol, header[9].into());
                match code {
                    icmp4::unreachable::PROTOCOL => {
                        let number = || header[9].to_string();
                        write!(line, " {}", protocol.map_or_else(number, str::to_owned))
                    }
                    icmp4::unreachable::PORT => {
                        let number = || format!("protocol {}", header[9]);
                        write!(line, " {}", protocol.map_or_else(number, str::to_owned))?;
                        match u16_at(about, usize::from(header[0] & 15) * 4 + 2) {
                            Some(port) => write!(line, "/{port}"),
                            None => line.write_str("truncated-icmp"),
                        }
                    }
                    icmp4::unreachable::FRAGMENTATION_NEEDED => match u16_at(self.transport, 6) {
                        Some(mtu) if mtu != 0 => write!(line, " (mtu {mtu})"),
                        _ => Ok(()),
                    },
                    _ => Ok(()),
                }
            }
            _ => {
                match scope.name_of(Kind::IcmpType, icmp_type.into()) {
                    Some(name) => write!(line, "icmp {name}")?,
                    None => write!(line, "icmp type {icmp_type}")?,
                }
                match code_name {
                    Some(name) => write!(line, " {name}"),
                    None if code != 0 => write!(line, " code {code}"),
                    None => Ok(()),
                }
            }
        }
    }

    /// The bytes behind the transport header.
    fn payload(&self) -> impl Iterator<Item = &'a u8> {
        let behind = self.behind();
        let header = match self.header[9] {
            protocol::TCP if self.is_first() => behind.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4),
            protocol::UDP if self.is_first() => wire::udp::HEADER,
            _ => 0,
        };
        let first = behind.get(header..).unwrap_or_default();
        std::iter::once(first).chain(self.packet.segments().skip(1)).flatten()
    }
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

fn address(header: &[u8; ipv4::HEADER], at: usize) -> String {
    std::net::Ipv4Addr::from(u32_at(header, at).unwrap_or_default()).to_string()
}

/// Prints bytes on lines of their own.
fn print<'a>(bytes: impl Iterator<Item = &'a u8>, form: Form, line: &mut String) -> Written {
    let (width, group) = if form == Form::Hex { (24, 4) } else { (48, 8) };
    for (index, byte) in bytes.enumerate() {
        line.push_str(match index {
            _ if index % width == 0 => "\n  ",
            _ if index % group == 0 => " ",
            _ => "",
        });
        match form {
            Form::Hex => write!(line, "{byte:02x}")?,
            Form::Ascii => line.push(if (32..127).contains(byte) { char::from(*byte) } else { '.' }),
        }
    }
    Ok(())
}

impl IpPrint {
    /// Makes the line for a packet.
    fn describe(&self, packet: &Packet, scope: &Scope<'_>, line: &mut String) -> Written {
        if !self.label.is_empty() {
            write!(line, "{}: ", self.label)?;
        }
        if self.timestamp {
            write!(line, "{}: ", unparse::timestamp(packet.annotations().timestamp))?;
        }
        let aggregate = u32::from_ne_bytes(packet.annotation(offset::AGGREGATE));
        match (self.aggregate, self.paint) {
            (true, true) => write!(line, "#{aggregate}.{}: ", packet.paint)?,
            (true, false) => write!(line, "#{aggregate}: ")?,
            (false, true) => write!(line, "paint {}: ", packet.paint)?,
            (false, false) => {}
        }
        let Some(shown) = Shown::new(packet) else { return line.write_str("truncated-ip") };
        let (header, id) = (shown.header, shown.number(4));
        let fields = [
            (self.id, "id", id),
            (self.ttl, "ttl", header[8].into()),
            (self.tos, "tos", header[1].into()),
            (self.length, "length", shown.number(2)),
        ];
        for (_, name, value) in fields.iter().filter(|(wanted, ..)| *wanted) {
            write!(line, "{name} {value} ")?;
        }
        line.push_str(&shown.ends());
        match header[9] {
            protocol::TCP => shown.tcp(line)?,
            protocol::UDP => shown.udp(line)?,
            protocol::ICMP => shown.icmp(self.swap, scope, line)?,
            other => write!(line, "ip-proto-{other}")?,
        }
        let fragment = shown.number(6);
        if fragment & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0 {
            let at = u32::from(fragment & ipv4::FRAGMENT_OFFSET) * 8;
            let more = if fragment & ipv4::MORE_FRAGMENTS != 0 { "+" } else { "" };
            write!(line, " (frag {id}:{}@{at}{more})", shown.payload_length())?;
        }
        let bytes = self.bytes.unwrap_or(usize::MAX);
        match self.form {
            Some(form) if self.payload => print(shown.payload().take(bytes), form, line),
            Some(form) => print(packet.segments().flatten().take(bytes), form, line),
            None => Ok(()),
        }
    }
}

impl Element for IpPrint {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, _: &mut Context<'_>) -> Result<(), String> {
        if let Some(path) = &self.path {
            self.file = Some(File::create(path).map_err(|error| format!("{path}: {error}"))?);
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        let mut line = std::mem::take(&mut self.line);
        for packet in batch.packets().iter().filter(|packet| packet.network_offset().is_some()) {
            line.clear();
            // Writing to a text does not fail.
            let _ = self.describe(packet, &cx.scope(), &mut line);
            match &mut self.file {
                Some(file) => {
                    line.push('\n');
                    // A full disk must not stop packets.
                    let _ = file.write_all(line.as_bytes());
                }
                None => cx.say(&line),
            }
        }
        self.line = line;
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("active")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "active" => Ok(unparse::boolean(self.active).to_owned()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
