//! `bifrost tcpdump`: tcpdump itself, shown what passes Bifrost's ports.
//!
//! The expression is compiled by tcpdump and chooses packets in the driver; what it chose is
//! written to tcpdump's standard input as a file of packets, and all of its options about what to
//! show and what to write are its own. Options about how to capture are done here or, where they
//! say something about devices that there is nothing to say about here, passed over.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ExitCode, Stdio};
use std::thread;

use nix::net::if_::if_nametoindex;

use super::capture::end_on_signal;
use super::{Failure, connect};
use crate::control::status::{PortState, PortStatus, SeenPacket};
use crate::control::{CopyRequest, Directions, Request};
use crate::service::tcpdump;

/// The most bytes kept of a packet unless told otherwise, as tcpdump has it.
const SNAP: u32 = 262_144;
/// Link types: Ethernet, and Linux's own, which says the interface.
const ETHERNET: u32 = 1;
const LINUX_SLL2: u32 = 276;
/// Of pcap, with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const HEADER: usize = 14;

/// tcpdump's options with a value, by letter.
const WITH_VALUE: &str = "BcCEFGijmMQrsTVwWyzZ";
/// Options about devices that only a capture of Linux's has.
const OF_DEVICES: &str = "BIjpJ";
/// Options for which tcpdump itself is the program.
const OTHERS: &str = "dLrVy";

/// A command line of tcpdump's.
#[derive(Debug, Default, PartialEq)]
struct Line {
    interface: Option<String>,
    list: bool,
    direction: Directions,
    count: Option<u64>,
    snap: u32,
    /// A file with the expression.
    file: Option<String>,
    expression: Vec<String>,
    /// What is tcpdump's.
    passed: Vec<String>,
}

impl Line {
    fn read(words: &[String]) -> Result<Line, String> {
        let mut line = Line { snap: SNAP, ..Line::default() };
        let mut words = words.iter().cloned();
        while let Some(word) = words.next() {
            if word == "--" {
                line.expression.extend(words.by_ref());
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, mut value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                };
                let Some(letter) = letter(name) else {
                    line.passed.push(word.clone());
                    continue;
                };
                if value.is_none() && WITH_VALUE.contains(letter) {
                    value = words.next();
                }
                line.option(letter, value)?;
            } else if word.len() > 1 && word.starts_with('-') {
                let mut letters = word[1..].chars();
                while let Some(letter) = letters.next() {
                    let value = WITH_VALUE.contains(letter).then(|| match letters.as_str() {
                        "" => words.next(),
                        rest => Some(rest.to_owned()),
                    });
                    let done = value.is_some();
                    line.option(letter, value.flatten())?;
                    if done {
                        break;
                    }
                }
            } else {
                line.expression.push(word);
            }
        }
        Ok(line)
    }

    fn option(&mut self, letter: char, value: Option<String>) -> Result<(), String> {
        if WITH_VALUE.contains(letter) && value.is_none() {
            return Err(format!("option -{letter} wants a value"));
        }
        let value = value.unwrap_or_default();
        let number =
            |what: &str| value.parse::<u64>().map_err(|_| format!("-{letter} {value:?} is no {what}"));
        match letter {
            'i' => self.interface = Some(value).filter(|name| name != "any"),
            'D' => self.list = true,
            'c' => self.count = Some(number("number of packets")?.max(1)),
            's' => {
                self.snap = match number("number of bytes")?.min(u64::from(SNAP)) as u32 {
                    0 => SNAP,
                    snap => snap,
                }
            }
            'Q' => {
                self.direction = match value.as_str() {
                    "in" => Directions::In,
                    "out" => Directions::Out,
                    "inout" => Directions::Both,
                    _ => return Err(format!("-Q {value:?}: the direction is in, out or inout")),
                }
            }
            'F' => self.file = Some(value),
            _ if OTHERS.contains(letter) => {
                return Err(format!("-{letter} has nothing to do with Bifrost's ports: use tcpdump itself"));
            }
            _ if OF_DEVICES.contains(letter) => {}
            _ => {
                self.passed.push(format!("-{letter}"));
                if WITH_VALUE.contains(letter) {
                    self.passed.push(value);
                }
            }
        }
        Ok(())
    }

    /// What tcpdump would take for the expression.
    fn expression(&self) -> Result<String, Failure> {
        match &self.file {
            None => Ok(self.expression.join(" ")),
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| Failure::Io { what: format!("cannot read {file}"), error }),
        }
    }
}

/// The letter of a long option that is done here.
fn letter(name: &str) -> Option<char> {
    Some(match name {
        "interface" => 'i',
        "list-interfaces" => 'D',
        "direction" => 'Q',
        "snapshot-length" => 's',
        "buffer-size" => 'B',
        "monitor-mode" => 'I',
        "time-stamp-type" => 'j',
        "list-time-stamp-types" => 'J',
        "no-promiscuous-mode" | "immediate-mode" => 'p',
        "linktype" => 'y',
        "list-data-link-types" => 'L',
        _ => return None,
    })
}

pub fn tcpdump(words: &[String], socket: &Path) -> Result<ExitCode, Failure> {
    let line = Line::read(words).map_err(Failure::Said)?;
    if line.list {
        return list(socket).map(|()| ExitCode::SUCCESS);
    }
    let mut program = tcpdump::command().map_err(|missing| {
        Failure::Said(format!("{missing}; `bifrost extcap` and `bifrost capture` write files without it"))
    })?;
    let filter = tcpdump::compile(&line.expression()?).map_err(Failure::Said)?;
    let mut client = connect(socket)?;
    let request = Request::Copy(CopyRequest {
        ports: line.interface.iter().cloned().collect(),
        filter,
        direction: line.direction,
        count: line.count,
        snap: line.snap,
    });
    end_on_signal(client.stopper()?)?;
    let mut packets = client.live::<SeenPacket>(&request, None)?;
    // A group of its own: what Ctrl-C ends is the capture, and tcpdump then shows what there is
    // still.
    program
        .args(["-r", "-"])
        .args(&line.passed)
        .process_group(0)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child =
        program.spawn().map_err(|error| Failure::Io { what: "cannot run tcpdump".to_owned(), error })?;
    let link = if line.interface.is_some() { ETHERNET } else { LINUX_SLL2 };
    let mut to = child.stdin.take().map(|stdin| Stream { out: BufWriter::new(stdin), link });
    let said = child.stderr.take().map(|stderr| thread::spawn(move || tell(BufReader::new(stderr))));
    let mut seen = 0u64;
    let mut write = |packet: Option<&SeenPacket>, flush| match &mut to {
        Some(to) => to.write(packet, line.snap, flush),
        None => Ok(()),
    };
    let mut alive = write(None, true).is_ok();
    let what = line.interface.as_deref().unwrap_or("any");
    let kind = if link == ETHERNET { "EN10MB (Ethernet)" } else { "LINUX_SLL2 (Linux cooked v2)" };
    eprintln!("listening on {what} by Bifrost, link-type {kind}, snapshot length {} bytes", line.snap);
    while alive && let Some(packet) = packets.next() {
        let drained = packets.drained();
        // An error means that tcpdump has ended, and has said why.
        alive = write(Some(&packet?), drained).is_ok();
        seen += u64::from(alive);
    }
    drop(to);
    let end = packets.end().unwrap_or_default();
    let status = child.wait().map_err(|error| Failure::Io { what: "lost tcpdump".to_owned(), error })?;
    said.map(thread::JoinHandle::join);
    eprintln!("{seen} packets captured\n{} packets lost (they came too fast)", end.missed);
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

/// What tcpdump says, but for what is only true of files: where it reads from, and that they may be
/// of another machine.
fn tell(from: impl BufRead) {
    let of_files = ["reading from file -", "Warning: interface names might be incorrect"];
    for line in from.lines().map_while(Result::ok) {
        if !of_files.iter().any(|text| line.starts_with(text)) {
            eprintln!("{line}");
        }
    }
}

/// The ports, as `tcpdump -D` lists interfaces.
fn list(socket: &Path) -> Result<(), Failure> {
    let ports: Vec<PortStatus> = connect(socket)?.subject("ports")?;
    let mut text = String::new();
    for (at, port) in ports.iter().enumerate() {
        let state = if port.state == PortState::Up { "Up, Running" } else { "none" };
        text += &format!("{}.{} [{state}]\n", at + 1, port.name);
    }
    super::table::print(
        &(text + &format!("{}.any (all of Bifrost's ports) [Up, Running]\n", ports.len() + 1)),
    )
}

/// A file of packets on its way to tcpdump.
struct Stream {
    out: BufWriter<ChildStdin>,
    link: u32,
}

impl Stream {
    /// A packet, or what comes before all.
    fn write(&mut self, packet: Option<&SeenPacket>, snap: u32, flush: bool) -> io::Result<()> {
        match packet {
            None => {
                let version = 2u32 | 4 << 16;
                for word in [MAGIC, version, 0, 0, snap, self.link] {
                    self.out.write_all(&word.to_ne_bytes())?;
                }
            }
            Some(packet) => {
                let cooked = if self.link == LINUX_SLL2 { cooked(packet) } else { None };
                let bytes = cooked.as_deref().unwrap_or(&packet.frame);
                let more = packet.length.saturating_sub(packet.frame.len() as u32);
                let (seconds, rest) = (packet.time_ns / 1_000_000_000, packet.time_ns % 1_000_000_000);
                for word in [seconds as u32, rest as u32, bytes.len() as u32, bytes.len() as u32 + more] {
                    self.out.write_all(&word.to_ne_bytes())?;
                }
                self.out.write_all(bytes)?;
            }
        }
        if flush { self.out.flush() } else { Ok(()) }
    }
}

/// The packet behind a header of `LINUX_SLL2`, which says the interface and the direction.
fn cooked(packet: &SeenPacket) -> Option<Vec<u8>> {
    let (header, rest) = packet.frame.split_at_checked(HEADER)?;
    let ifindex = if_nametoindex(packet.port.as_str()).unwrap_or(0);
    let kind = match (packet.outgoing, header[..6] == [0xff; 6], header[0] & 1) {
        (true, ..) => 4,
        (_, true, _) => 1,
        (.., 1) => 2,
        _ => 0,
    };
    let mut bytes = header[12..14].to_vec();
    bytes.extend([0, 0]);
    bytes.extend(ifindex.to_be_bytes());
    bytes.extend([0, 1, kind, 6]);
    bytes.extend(&header[6..12]);
    bytes.extend([0, 0]);
    bytes.extend(rest);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, String> {
        Line::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_ours_or_tcpdumps() {
        let line = read("-nvei eth1 -c5 -s 96 -w out.pcap -Q in host 10.0.0.1 -X and port 80").unwrap();
        assert_eq!(line.interface.as_deref(), Some("eth1"));
        assert_eq!((line.count, line.snap, line.direction), (Some(5), 96, Directions::In));
        assert_eq!(line.passed, ["-n", "-v", "-e", "-w", "out.pcap", "-X"]);
        assert_eq!(line.expression, ["host", "10.0.0.1", "and", "port", "80"]);
        let line = read("--interface=any --direction out -p --immediate-mode -s0 --number -- -x").unwrap();
        assert_eq!((line.interface, line.direction, line.snap), (None, Directions::Out, SNAP));
        assert_eq!((line.passed, line.expression), (vec!["--number".to_owned()], vec!["-x".to_owned()]));
        assert!(read("-D").unwrap().list);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (line, message) in [
            ("-r file", "use tcpdump itself"),
            ("-c few", "no number of packets"),
            ("-Q sideways", "in, out or inout"),
            ("-i", "wants a value"),
        ] {
            assert!(read(line).unwrap_err().contains(message), "{line}");
        }
    }

    #[test]
    fn a_cooked_packet_says_its_direction() {
        let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &[0x45, 7]].concat();
        let mut packet = SeenPacket { frame, outgoing: true, ..SeenPacket::default() };
        let bytes = cooked(&packet).unwrap();
        assert_eq!(bytes[..2], [8, 0]);
        assert_eq!(bytes[8..12], [0, 1, 4, 6]);
        assert_eq!((&bytes[12..18], &bytes[20..]), (&[2, 0, 0, 0, 0, 2][..], &[0x45, 7][..]));
        packet.outgoing = false;
        assert_eq!(cooked(&packet).unwrap()[10], 0);
        packet.frame.truncate(13);
        assert_eq!(cooked(&packet), None);
    }
}
