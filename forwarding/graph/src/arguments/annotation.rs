//! Annotations: where in a packet's notes something is, by name or by offset.

use super::names::{Kind, Scope};
use super::{Argument, parse_error, parse_integer};
use port::ANNOTATION_BYTES;

/// Where Click keeps what, in bytes. Several share a place; elements that use them together must
/// not mind.
pub mod offset {
    #![allow(missing_docs, reason = "the names are Click's and say what they are")]
    pub const DST_IP: usize = 0;
    pub const DST_IP6: usize = 0;
    pub const PAINT: usize = port::PAINT;
    pub const ICMP_PARAMPROB: usize = 17;
    pub const FIX_IP_SRC: usize = 19;
    pub const VLAN_TCI: usize = 20;
    pub const AGGREGATE: usize = 20;
    pub const FWD_RATE: usize = 20;
    pub const MISC_IP: usize = 20;
    pub const EXTRA_PACKETS: usize = 24;
    pub const REV_RATE: usize = 24;
    pub const SEND_ERR: usize = 26;
    pub const GRID_ROUTE_CB: usize = 27;
    pub const IPREASSEMBLER: usize = 28;
    pub const EXTRA_LENGTH: usize = 28;
    pub const FIRST_TIMESTAMP: usize = 32;
    pub const PACKET_NUMBER: usize = 32;
    pub const IPSEC_SPI: usize = 32;
    pub const SEQUENCE_NUMBER: usize = 36;
    pub const PERFCTR: usize = 40;
    pub const IPSEC_SA_DATA_REFERENCE: usize = 40;
    pub const WIFI_EXTRA: usize = 16;
}

/// The size above 16 bits of offset, as Click packs them into one number.
const fn pack(offset: usize, size: u32) -> u32 {
    size << 16 | offset as u32
}

/// What annotations are called.
pub(super) const ANNOTATIONS: &[(&str, u32)] = &[
    ("AGGREGATE", pack(offset::AGGREGATE, 4)),
    ("DST_IP", pack(offset::DST_IP, 4)),
    ("DST_IP6", pack(offset::DST_IP6, 16)),
    ("EXTRA_LENGTH", pack(offset::EXTRA_LENGTH, 4)),
    ("EXTRA_PACKETS", pack(offset::EXTRA_PACKETS, 4)),
    ("FIRST_TIMESTAMP", pack(offset::FIRST_TIMESTAMP, 8)),
    ("FIX_IP_SRC", pack(offset::FIX_IP_SRC, 1)),
    ("FWD_RATE", pack(offset::FWD_RATE, 4)),
    ("GRID_ROUTE_CB", pack(offset::GRID_ROUTE_CB, 1)),
    ("ICMP_PARAMPROB", pack(offset::ICMP_PARAMPROB, 1)),
    ("IPREASSEMBLER", pack(offset::IPREASSEMBLER, 4)),
    ("IPSEC_SA_DATA_REFERENCE", pack(offset::IPSEC_SA_DATA_REFERENCE, 8)),
    ("IPSEC_SPI", pack(offset::IPSEC_SPI, 4)),
    ("MISC_IP", pack(offset::MISC_IP, 4)),
    ("PACKET_NUMBER", pack(offset::PACKET_NUMBER, 4)),
    ("PAINT", pack(offset::PAINT, 1)),
    ("PERFCTR", pack(offset::PERFCTR, 8)),
    ("REV_RATE", pack(offset::REV_RATE, 4)),
    ("SEQUENCE_NUMBER", pack(offset::SEQUENCE_NUMBER, 4)),
    ("VLAN", pack(offset::VLAN_TCI, 2)),
    ("VLAN_TCI", pack(offset::VLAN_TCI, 2)),
    ("WIFI_EXTRA", pack(offset::WIFI_EXTRA, 28)),
];

/// An annotation of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyAnno {
    /// The first byte; less than [`ANNOTATION_BYTES`].
    pub offset: usize,
    /// How many bytes, as its name says; `None` when only an offset was given.
    pub size: Option<usize>,
}

impl Argument for AnyAnno {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<AnyAnno, String> {
        let number = match scope.number(Kind::Annotation, text) {
            Some(number) => number,
            None => parse_integer(text, 0, i32::MAX.into()).map_err(|_| parse_error())? as u32,
        };
        let (offset, size) = ((number & 0xffff) as usize, (number >> 16) as usize);
        let anno = AnyAnno { offset, size: (size > 0).then_some(size) };
        if offset + size.max(1) <= ANNOTATION_BYTES { Ok(anno) } else { Err(parse_error()) }
    }
}

/// An annotation of `SIZE` bytes: by its name, or by its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno<const SIZE: usize> {
    /// The first byte; all `SIZE` are inside.
    pub offset: usize,
}

/// An annotation of one byte: `PAINT`, `16`.
pub type AnnoByte = Anno<1>;
/// An annotation of two bytes: `VLAN_TCI`, `20`.
pub type AnnoShort = Anno<2>;
/// An annotation of four bytes: `DST_IP`, `AGGREGATE`, `20`.
pub type AnnoWord = Anno<4>;

impl<const SIZE: usize> Argument for Anno<SIZE> {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Anno<SIZE>, String> {
        let AnyAnno { offset, size } = AnyAnno::parse(text, scope)?;
        let fits = size.is_none_or(|size| size == SIZE) && offset + SIZE <= ANNOTATION_BYTES;
        if fits { Ok(Anno { offset }) } else { Err(parse_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Names;

    #[test]
    fn annotations_have_names_and_offsets() {
        let names = Names::new();
        let scope = Scope::new(&names, "");
        assert_eq!(AnnoByte::parse("PAINT", &scope), Ok(Anno { offset: 16 }));
        assert_eq!(AnnoByte::parse("47", &scope), Ok(Anno { offset: 47 }));
        assert_eq!(AnnoWord::parse("44", &scope), Ok(Anno { offset: 44 }));
        assert_eq!(AnyAnno::parse("VLAN", &scope), Ok(AnyAnno { offset: 20, size: Some(2) }));
        assert_eq!(AnyAnno::parse("20", &scope), Ok(AnyAnno { offset: 20, size: None }));
        for wrong in ["45", "-1", "PAINT", "paint", "", "4294967295", "2147483647"] {
            assert!(AnnoWord::parse(wrong, &scope).is_err(), "{wrong}");
        }
        assert!(AnnoByte::parse("48", &scope).is_err() && AnnoByte::parse("DST_IP", &scope).is_err());
    }

    #[test]
    fn all_annotations_are_inside() {
        for (name, _) in ANNOTATIONS {
            let names = Names::new();
            assert!(AnyAnno::parse(name, &Scope::new(&names, "")).is_ok(), "{name}");
        }
    }
}
