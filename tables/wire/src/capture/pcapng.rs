//! pcapng (draft-ietf-opsawg-pcapng), which Wireshark and tshark read.
//!
//! A file is a row of blocks. A section's header says in which byte order they are; descriptions of
//! interfaces say what the packets behind them begin with and in what unit their times are. What is
//! written here is one section with little-endian numbers and times in nanoseconds.

use std::io::{self, Write};

use super::{CaptureError, Record};

/// A section's header; the same in either byte order.
pub const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;

const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
/// Of a packet.
const OPTION_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_FCS_LENGTH: u16 = 13;
const OPTION_TIME_OFFSET: u16 = 14;

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The interface that it was seen on.
    pub interface: &'a str,
    /// What it begins with.
    pub link: u16,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Its bytes, as far as they are kept.
    pub bytes: &'a [u8],
    /// Bytes that it had.
    pub length: u32,
    /// Whether it was leaving, where that is known.
    pub outgoing: Option<bool>,
    /// What there is to say about it; empty: nothing.
    pub comment: &'a str,
}

/// A file being written.
pub struct Writer<W: Write> {
    out: W,
    snap: u32,
    /// Interfaces described so far, name and link type; the place is the number.
    interfaces: Vec<(String, u16)>,
}

impl<W: Write> Writer<W> {
    /// Begins a file; `snap` is the most bytes kept of a packet.
    pub fn new(out: W, snap: u32) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, snap, interfaces: Vec::new() };
        let mut body = BYTE_ORDER.to_le_bytes().to_vec();
        body.extend(1u16.to_le_bytes());
        body.extend(0u16.to_le_bytes());
        body.extend(u64::MAX.to_le_bytes()); // length of the section: not known
        option(&mut body, OPTION_USER_APPLICATION, concat!("Bifrost ", env!("CARGO_PKG_VERSION")).as_bytes());
        end_of_options(&mut body);
        writer.block(SECTION_HEADER, &body)?;
        Ok(writer)
    }

    /// Adds a packet.
    pub fn packet(&mut self, packet: &Captured<'_>) -> io::Result<()> {
        let interface = self.interface(packet.interface, packet.link)?;
        let captured = packet.bytes.len() as u32;
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((packet.time >> 32) as u32).to_le_bytes());
        body.extend((packet.time as u32).to_le_bytes());
        body.extend(captured.to_le_bytes());
        body.extend(packet.length.max(captured).to_le_bytes());
        padded(&mut body, packet.bytes);
        if !packet.comment.is_empty() {
            option(&mut body, OPTION_COMMENT, packet.comment.as_bytes());
        }
        if let Some(outgoing) = packet.outgoing {
            let direction = if outgoing { 2u32 } else { 1 };
            option(&mut body, OPTION_FLAGS, &direction.to_le_bytes());
        }
        if packet.outgoing.is_some() || !packet.comment.is_empty() {
            end_of_options(&mut body);
        }
        self.block(ENHANCED_PACKET, &body)
    }

    /// Hands on what has been written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The number of an interface, which is described when it is new.
    pub fn interface(&mut self, name: &str, link: u16) -> io::Result<u32> {
        let known = self.interfaces.iter().position(|known| known.0 == name && known.1 == link);
        if let Some(number) = known {
            return Ok(number as u32);
        }
        let mut body = link.to_le_bytes().to_vec();
        body.extend([0, 0]);
        body.extend(self.snap.to_le_bytes());
        option(&mut body, OPTION_NAME, name.as_bytes());
        option(&mut body, OPTION_TIME_RESOLUTION, &[9]);
        end_of_options(&mut body);
        self.block(INTERFACE_DESCRIPTION, &body)?;
        self.interfaces.push((name.to_owned(), link));
        Ok(self.interfaces.len() as u32 - 1)
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(body)?;
        self.out.write_all(&length)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend([0; 4]);
}

/// Everything begins at a multiple of four bytes.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// What is known of an interface of a file that is read.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u16,
    snap: u32,
    /// Ticks of its clock in a second.
    ticks: u64,
    /// Seconds to add.
    offset: i64,
    /// Bytes of the check sequence that each packet ends with.
    fcs: u32,
}

/// A section of a file that is read: what its blocks mean.
#[derive(Clone, Debug, Default)]
pub struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

/// The next numbers of a block's body.
struct Body<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (number, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*number)
    }

    fn short(&mut self) -> Option<u16> {
        let bytes = self.take()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn word(&mut self) -> Option<u32> {
        let bytes = self.take()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// The next option: its code and value.
    fn option(&mut self) -> Option<(u16, Body<'a>)> {
        let (code, length) = (self.short()?, usize::from(self.short()?));
        let value = self.bytes.get(..length)?;
        self.bytes = self.bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, Body { bytes: value, big_endian: self.big_endian }))
    }

    /// How many bytes the check sequence has that a packet ends with, where the options behind it
    /// say so.
    fn fcs(&mut self) -> Option<u32> {
        while let Some((code, mut value)) = self.option() {
            if code == OPTION_FLAGS {
                return value.word().map(|flags| flags >> 5 & 0xf).filter(|&fcs| fcs != 0);
            }
        }
        None
    }
}

impl Section {
    /// The section that a section header of these first bytes of its body begins.
    ///
    /// # Errors
    /// When the byte order is none.
    pub fn begin(byte_order: [u8; 4]) -> Result<Section, CaptureError> {
        match (u32::from_le_bytes(byte_order), u32::from_be_bytes(byte_order)) {
            (BYTE_ORDER, _) => Ok(Section { big_endian: false, interfaces: Vec::new() }),
            (_, BYTE_ORDER) => Ok(Section { big_endian: true, interfaces: Vec::new() }),
            _ => Err(CaptureError::BadMagic),
        }
    }

    /// A number of a block's frame.
    pub fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The link type of the first interface.
    pub fn link(&self) -> Option<u32> {
        self.interfaces.first().map(|interface| interface.link.into())
    }

    /// Reads a block of a kind; the packet that it has, and its bytes. Blocks without a packet are
    /// taken in or passed over.
    ///
    /// # Errors
    /// When a packet's block contradicts itself, or names no interface.
    pub fn block<'a>(
        &mut self,
        kind: u32,
        body: &'a [u8],
    ) -> Result<Option<(Record, &'a [u8])>, CaptureError> {
        let mut body = Body { bytes: body, big_endian: self.big_endian };
        match kind {
            INTERFACE_DESCRIPTION => {
                let interface = interface(&mut body).ok_or(CaptureError::BadRecord)?;
                self.interfaces.push(interface);
                Ok(None)
            }
            ENHANCED_PACKET | OLD_PACKET | SIMPLE_PACKET => {
                self.packet(kind, &mut body).map(Some).ok_or(CaptureError::BadRecord)
            }
            _ => Ok(None),
        }
    }

    fn packet<'a>(&self, kind: u32, body: &mut Body<'a>) -> Option<(Record, &'a [u8])> {
        let number = match kind {
            SIMPLE_PACKET => 0,
            ENHANCED_PACKET => body.word()?,
            _ => {
                let number = body.short()?;
                // Packets dropped before it.
                body.short()?;
                number.into()
            }
        };
        let interface = self.interfaces.get(number as usize)?;
        let (time, captured, length) = if kind == SIMPLE_PACKET {
            let length = body.word()?;
            let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
            (0, length.min(snap), length)
        } else {
            let time = u64::from(body.word()?) << 32 | u64::from(body.word()?);
            (interface.time(time), body.word()?, body.word()?)
        };
        let bytes = body.bytes.get(..captured as usize)?;
        body.bytes = body.bytes.get(bytes.len().next_multiple_of(4)..).unwrap_or_default();
        let own = if kind == SIMPLE_PACKET { None } else { body.fcs() };
        let length = length.max(captured).saturating_sub(own.unwrap_or(interface.fcs));
        let record = Record { time, length, link: interface.link.into() };
        Some((record, &bytes[..bytes.len().min(length as usize)]))
    }
}

impl Interface {
    /// A time of its clock in nanoseconds since 1970.
    fn time(&self, ticks: u64) -> i64 {
        let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks.max(1));
        let offset = i128::from(self.offset) * 1_000_000_000;
        i64::try_from(i128::try_from(nanoseconds).unwrap_or(i128::MAX).saturating_add(offset))
            .unwrap_or(i64::MAX)
    }
}

fn interface(body: &mut Body<'_>) -> Option<Interface> {
    let (link, _, snap) = (body.short()?, body.short()?, body.word()?);
    let mut interface = Interface { link, snap, ticks: 1_000_000, offset: 0, fcs: 0 };
    while let Some((code, mut value)) = body.option() {
        match (code, value.bytes) {
            // A negative power of 2 or of 10.
            (OPTION_TIME_RESOLUTION, [power]) => {
                let (base, power) = if power & 0x80 == 0 { (10u64, *power) } else { (2, power & 0x7f) };
                interface.ticks = base.checked_pow(power.into())?;
            }
            // Bits, and bytes in the files of those who read the format's example as such.
            (OPTION_FCS_LENGTH, [length]) => {
                interface.fcs = u32::from(if *length < 16 { *length } else { length / 8 });
            }
            (OPTION_TIME_OFFSET, [_, _, _, _, _, _, _, _]) => {
                let (first, second) = (u64::from(value.word()?), u64::from(value.word()?));
                let (high, low) = if value.big_endian { (first, second) } else { (second, first) };
                interface.offset = (high << 32 | low) as i64;
            }
            _ => {}
        }
    }
    Some(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a packet of so many bytes, the last four of which are its check sequence.
    fn read(big_endian: bool, kind: u32, fcs: u8, flags: Option<u32>, captured: usize) -> (usize, u32) {
        let short = |number: u16| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        let word = |number: u32| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        let mut section = Section { big_endian, interfaces: Vec::new() };
        let link = [short(1), short(0)].concat();
        let options = [short(OPTION_FCS_LENGTH), short(1)].concat();
        section
            .block(INTERFACE_DESCRIPTION, &[&link[..], &word(0), &options, &[fcs, 0, 0, 0]].concat())
            .unwrap();
        let mut body = match kind {
            SIMPLE_PACKET => word(64).to_vec(),
            _ => [[0; 12].as_slice(), &word(captured as u32), &word(64)].concat(),
        };
        padded(&mut body, &vec![7; captured]);
        if let Some(flags) = flags {
            let comment = [short(OPTION_COMMENT), short(1)].concat();
            let header = [short(OPTION_FLAGS), short(4)].concat();
            body.extend([&comment[..], b"a...", &header, &word(flags)].concat());
        }
        let (record, bytes) = section.block(kind, &body).unwrap().unwrap();
        (bytes.len(), record.length)
    }

    #[test]
    fn check_sequences_are_no_part_of_packets() {
        for big_endian in [false, true] {
            let enhanced = |fcs, flags, captured| read(big_endian, ENHANCED_PACKET, fcs, flags, captured);
            assert_eq!((enhanced(32, None, 64), enhanced(4, None, 64)), ((60, 60), (60, 60)));
            assert_eq!((enhanced(32, None, 62), enhanced(32, None, 50)), ((60, 60), (50, 60)));
            assert_eq!((enhanced(0, None, 64), enhanced(0, Some(0x19), 64)), ((64, 64), (64, 64)));
            // A packet's own flags go before what is said of all.
            assert_eq!((enhanced(0, Some(4 << 5), 64), enhanced(32, Some(2 << 5), 64)), ((60, 60), (62, 62)));
            assert_eq!((enhanced(32, Some(1), 64), enhanced(255, None, 7)), ((60, 60), (7, 33)));
            assert_eq!(read(big_endian, OLD_PACKET, 16, Some(4 << 5), 63), (60, 60));
            assert_eq!(read(big_endian, SIMPLE_PACKET, 32, None, 64), (60, 60));
        }
    }
}
