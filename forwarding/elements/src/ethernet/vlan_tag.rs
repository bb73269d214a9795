//! The VLAN tag that arguments ask for.

use graph::arguments::{Arguments, Word, offset, parse_integer};
use graph::{Context, Handler, HandlerError};
use port::Packet;

/// Bits of the VLAN's number in a tag.
pub(super) const ID: u16 = 0xfff;

/// Which tag a packet gets.
pub(super) struct Tag {
    /// Priority, drop eligibility and the VLAN's number (IEEE 802.1Q, TCI).
    pub(super) tci: u16,
    /// Whether the packet's annotation says the TCI instead.
    annotated: bool,
    /// The VLAN whose packets get no tag.
    native: Option<u16>,
}

impl Tag {
    /// The arguments `[VLAN_TCI, VLAN_PCP, VLAN_ID, NATIVE_VLAN]`.
    pub(super) fn read(args: &mut Arguments<'_>) -> Tag {
        let tci = args.optional_with("VLAN_TCI", |text, scope| {
            let Word(word) = graph::arguments::Argument::parse(text, scope)?;
            if word == "ANNO" { Ok(None) } else { within(&word, 0, 0xffff).map(Some) }
        });
        let annotated = tci == Some(None);
        let tci = plain(args, tci.flatten());
        let native = args.keyword_with("NATIVE_VLAN", |text, _| within(text, -1, ID.into())).unwrap_or(0);
        Tag { tci, annotated, native: u16::try_from(native).ok() }
    }

    /// The TCI for a packet; `None`: it stays without.
    pub(super) fn of(&self, packet: &Packet) -> Option<u16> {
        let tci = if self.annotated { annotation(packet) } else { self.tci };
        (self.native != Some(tci & ID)).then_some(tci)
    }

    /// The handlers of a tag's parts.
    pub(super) fn handlers() -> Vec<Handler> {
        ["vlan_tci", "vlan_id", "vlan_pcp", "native_vlan"].map(Handler::read_write).into()
    }

    pub(super) fn read_handler(&self, handler: &str) -> Result<String, HandlerError> {
        match handler {
            "vlan_tci" if self.annotated => Ok("ANNO".to_owned()),
            "vlan_tci" => Ok(self.tci.to_string()),
            "vlan_id" => Ok((self.tci & ID).to_string()),
            "vlan_pcp" => Ok((self.tci >> 13).to_string()),
            "native_vlan" => Ok(self.native.map_or(-1, i32::from).to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    pub(super) fn write_handler(
        &mut self,
        handler: &str,
        value: &str,
        _: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        if handler == "vlan_tci" && value.trim() == "ANNO" {
            self.annotated = true;
            return Ok(());
        }
        let number = |least, most| within(value.trim(), least, most).map_err(HandlerError::refused);
        match handler {
            "vlan_tci" => (self.tci, self.annotated) = (number(0, 0xffff)? as u16, false),
            "vlan_id" => self.tci = self.tci & !ID | number(0, ID.into())? as u16,
            "vlan_pcp" => self.tci = self.tci & 0x1fff | (number(0, 7)? as u16) << 13,
            "native_vlan" => self.native = u16::try_from(number(-1, ID.into())?).ok(),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

/// The TCI of `VLAN_TCI`, or of `VLAN_ID`, with the priority `VLAN_PCP`.
pub(super) fn plain(args: &mut Arguments<'_>, tci: Option<i32>) -> u16 {
    let priority = args.optional_with("VLAN_PCP", |text, _| within(text, 0, 7)).unwrap_or(0);
    let id = args.keyword_with("VLAN_ID", |text, _| within(text, 0, ID.into())).unwrap_or(0);
    tci.unwrap_or(id) as u16 | (priority as u16) << 13
}

/// An integer of a range.
pub(super) fn within(text: &str, least: i32, most: i32) -> Result<i32, String> {
    let number = parse_integer(text, least.into(), most.into())?;
    i32::try_from(number).map_err(|_| graph::arguments::parse_error())
}

/// The TCI that a packet is annotated with.
pub(super) fn annotation(packet: &Packet) -> u16 {
    u16::from_be_bytes(packet.annotation(offset::VLAN_TCI))
}

/// Annotates a packet with a TCI.
pub(super) fn annotate(packet: &mut Packet, tci: u16) {
    packet.set_annotation(offset::VLAN_TCI, tci.to_be_bytes());
}
