//! Writing pcapng (draft-ietf-opsawg-pcapng), which Wireshark and tshark read: one section, one interface
//! description a port, one enhanced packet block a packet, with the element as its comment. Numbers are
//! little-endian, times in nanoseconds.

use std::io::{self, Write};

use crate::control::status::CapturedPacket;

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
const ETHERNET: u16 = 1;

const OPTION_COMMENT: u16 = 1;
const OPTION_NAME: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// A pcapng file being written.
pub struct Writer<W: Write> {
    out: W,
    snap: u32,
    /// Names of the interfaces described so far; the place is the number.
    interfaces: Vec<String>,
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
    pub fn packet(&mut self, packet: &CapturedPacket) -> io::Result<()> {
        let interface = self.interface(&packet.input)?;
        let mut body = interface.to_le_bytes().to_vec();
        body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
        body.extend((packet.time_ns as u32).to_le_bytes());
        body.extend((packet.frame.len() as u32).to_le_bytes());
        body.extend(packet.length.max(packet.frame.len() as u32).to_le_bytes());
        padded(&mut body, &packet.frame);
        option(&mut body, OPTION_COMMENT, format!("at {}", packet.element).as_bytes());
        end_of_options(&mut body);
        self.block(ENHANCED_PACKET, &body)
    }

    /// Hands on what has been written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn interface(&mut self, name: &str) -> io::Result<u32> {
        if let Some(number) = self.interfaces.iter().position(|known| known == name) {
            return Ok(number as u32);
        }
        let mut body = ETHERNET.to_le_bytes().to_vec();
        body.extend([0, 0]);
        body.extend(self.snap.to_le_bytes());
        option(&mut body, OPTION_NAME, name.as_bytes());
        option(&mut body, OPTION_TIME_RESOLUTION, &[9]);
        end_of_options(&mut body);
        self.block(INTERFACE_DESCRIPTION, &body)?;
        self.interfaces.push(name.to_owned());
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
