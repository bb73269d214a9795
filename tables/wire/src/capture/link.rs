//! Link types: what the bytes of a captured packet begin with, by the numbers of capture files.

/// No header but the address family, in the byte order of the machine that captured.
pub const NULL: u32 = 0;
/// Ethernet.
pub const ETHERNET: u32 = 1;
/// PPP.
pub const PPP: u32 = 9;
/// FDDI.
pub const FDDI: u32 = 10;
/// PPP in HDLC-like framing, or Cisco's HDLC.
pub const PPP_HDLC: u32 = 50;
/// LLC over ATM (RFC 2684).
pub const ATM: u32 = 100;
/// An IP packet without a header.
pub const RAW: u32 = 101;
/// Cisco's HDLC.
pub const CISCO_HDLC: u32 = 104;
/// IEEE 802.11.
pub const WIFI: u32 = 105;
/// Linux's cooked capture.
pub const LINUX_COOKED: u32 = 113;
/// IEEE 802.11 behind a Prism header.
pub const PRISM: u32 = 119;
/// Aironet.
pub const AIRONET: u32 = 120;
/// ATM as SunATM has it.
pub const SUN_ATM: u32 = 123;
/// IEEE 802.11 behind a radiotap header.
pub const RADIOTAP: u32 = 127;

/// Names as Click has them; of several for one number the first is printed.
const NAMES: &[(&str, u32)] = &[
    ("NULL", NULL),
    ("IP", RAW),
    ("ETHER", ETHERNET),
    ("FDDI", FDDI),
    ("ATM", ATM),
    ("RFC1483", ATM),
    ("ATM_RFC1483", ATM),
    ("802_11", WIFI),
    ("802.11", WIFI),
    ("802_11_RADIO", RADIOTAP),
    ("802.11_RADIO", RADIOTAP),
    ("SLL", LINUX_COOKED),
    ("AIRONET", AIRONET),
    ("HDLC", CISCO_HDLC),
    ("PPP_HDLC", PPP_HDLC),
    ("PPP", PPP),
    ("SUNATM", SUN_ATM),
    ("PRISM", PRISM),
];

/// The link type of a name, or of `#` and a number.
pub fn parse(text: &str) -> Option<u32> {
    let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, link)| *link);
    named.or_else(|| text.strip_prefix('#')?.parse().ok().filter(|link| *link <= i32::MAX as u32))
}

/// A link type's name, or `#` and its number.
pub fn name(link: u32) -> String {
    let named = NAMES.iter().find(|(_, named)| *named == link);
    named.map_or_else(|| format!("#{link}"), |(name, _)| (*name).to_owned())
}

/// Whether [`find_ip`] knows a link type.
pub fn may_have_ip(link: u32) -> bool {
    link != AIRONET && NAMES.iter().any(|(_, named)| *named == link)
}

/// An IP packet inside a captured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Where it begins.
    pub offset: usize,
    /// Bytes of its header, with options but without extension headers.
    pub header: usize,
    /// 4 or 6.
    pub version: u8,
}

/// Finds the IP packet behind a link header. `None` when there is none, or its header is not whole.
pub fn find_ip(bytes: &[u8], link: u32) -> Option<Ip> {
    let offset = match link {
        RAW => 0,
        ETHERNET => behind_ethernet(bytes, 0)?,
        FDDI => behind_fddi(bytes, 0)?,
        SUN_ATM => behind_llc(bytes, 4)?,
        ATM => behind_llc(bytes, 0)?,
        LINUX_COOKED => behind_type(bytes, 14)?,
        CISCO_HDLC => behind_type(bytes, 2)?,
        PPP_HDLC => match *bytes.first_chunk()? {
            [0xff, _, 0, 0x21 | 0x57] => 4,
            [0x0f | 0x8f, ..] => behind_type(bytes, 2)?,
            _ => return None,
        },
        PPP => behind_ppp(bytes)?,
        PRISM => behind_wifi(bytes, 144)?,
        WIFI => behind_wifi(bytes, 0)?,
        RADIOTAP => match *bytes.first_chunk()? {
            [_, _, low, high] => match u16::from_le_bytes([low, high]) {
                0..8 => return None,
                length => behind_wifi(bytes, length.into())?,
            },
        },
        NULL => {
            let [a, b, c, d] = *bytes.first_chunk()?;
            let family = if a == 0 && b == 0 { [d, c] } else { [a, b] };
            // As BSD systems number IPv4, and each of them IPv6.
            matches!(u16::from_le_bytes(family), 2 | 24 | 28 | 30).then_some(4)?
        }
        _ => return None,
    };
    ip_at(bytes, offset)
}

fn ip_at(bytes: &[u8], offset: usize) -> Option<Ip> {
    let ip = bytes.get(offset..)?;
    let first = *ip.first()?;
    let (version, header) = (first >> 4, usize::from(first & 15) * 4);
    match version {
        4 if header >= 20 && header <= ip.len() => Some(Ip { offset, header, version }),
        6 if ip.len() >= 40 => Some(Ip { offset, header: 40, version }),
        _ => None,
    }
}

fn pair(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// Behind an Ethernet type of IP at `at`.
fn behind_type(bytes: &[u8], at: usize) -> Option<usize> {
    matches!(pair(bytes, at)?, 0x0800 | 0x86dd).then_some(at + 2)
}

fn behind_ethernet(bytes: &[u8], at: usize) -> Option<usize> {
    let tag = at + 12;
    behind_type(bytes, if pair(bytes, tag)? == 0x8100 { tag + 4 } else { tag })
}

fn behind_fddi(bytes: &[u8], at: usize) -> Option<usize> {
    // Asynchronous frames carry LLC.
    if bytes.get(at)? & 0xf0 != 0x50 {
        return None;
    }
    behind_llc(bytes, at + 13)
}

fn behind_llc(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at..)? {
        [0xaa, 0xaa, 3, 0, 0, 0, ..] if behind_type(bytes, at + 6).is_some() => Some(at + 8),
        [0x06, 0x06, _, _, ..] => Some(at + 4),
        // Bridged Ethernet and FDDI (RFC 2684, section 5.2).
        [0xaa, 0xaa, _, 0x00, 0x80, 0xc2, 0, 1 | 7, ..] => behind_ethernet(bytes, at + 8),
        [0xaa, 0xaa, _, 0x00, 0x80, 0xc2, 0, 4 | 10, ..] => behind_fddi(bytes, at + 9),
        // Cisco's bridging: the type is where Ethernet has it.
        [0xaa, 0xaa, _, 0, 0, 0 | 0xf8, ..] => behind_type(bytes, at + 6),
        _ => None,
    }
}

fn behind_ppp(bytes: &[u8]) -> Option<usize> {
    let at = if bytes.starts_with(&[0xff, 3]) { 2 } else { 0 };
    match *bytes.get(at..)? {
        [0x21 | 0x57, ..] => Some(at + 1),
        [0, 0x21 | 0x57, ..] => Some(at + 2),
        _ => None,
    }
}

fn behind_wifi(bytes: &[u8], at: usize) -> Option<usize> {
    let [kind, flags] = *bytes.get(at..)?.first_chunk()?;
    // Of data frames, those between two access points have a fourth address.
    (kind & 0x0c == 0x08).then_some(())?;
    behind_llc(bytes, at + if flags & 3 == 3 { 30 } else { 24 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

    fn found(link: u32, header: &[u8]) -> Option<usize> {
        find_ip(&[header, &IP].concat(), link).map(|ip| ip.offset)
    }

    #[test]
    fn ip_is_found_behind_each_link_header() {
        let ethernet = [[0; 12].as_slice(), &[8, 0]].concat();
        let vlan = [[0; 12].as_slice(), &[0x81, 0, 0, 5, 8, 0]].concat();
        let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        let wifi = [[8, 1].as_slice(), &[0; 22], &llc].concat();
        for (link, header) in [
            (RAW, [].as_slice()),
            (ETHERNET, &ethernet),
            (ETHERNET, &vlan),
            (ATM, &llc),
            (SUN_ATM, &[[0; 4].as_slice(), &llc].concat()),
            (FDDI, &[[0x50].as_slice(), &[0; 12], &llc].concat()),
            (LINUX_COOKED, &[[0; 14].as_slice(), &[8, 0]].concat()),
            (CISCO_HDLC, &[0x0f, 0, 8, 0]),
            (PPP_HDLC, &[0xff, 3, 0, 0x21]),
            (PPP, &[0xff, 3, 0x21]),
            (WIFI, &wifi),
            (RADIOTAP, &[[0, 0, 8, 0, 0, 0, 0, 0].as_slice(), &wifi].concat()),
            (PRISM, &[[0; 144].as_slice(), &wifi].concat()),
            (NULL, &[2, 0, 0, 0]),
            (NULL, &[0, 0, 0, 2]),
        ] {
            assert_eq!(found(link, header), Some(header.len()), "{}", name(link));
            assert!(may_have_ip(link));
        }
        assert_eq!(found(AIRONET, &[]), None);
        assert_eq!(find_ip(&IP[..19], RAW), None);
        assert_eq!(found(ETHERNET, &[[0; 12].as_slice(), &[8, 6]].concat()), None);
    }

    #[test]
    fn link_types_have_names() {
        assert_eq!(
            (parse("ETHER"), parse("802.11"), parse("#7"), parse("x")),
            (Some(1), Some(105), Some(7), None)
        );
        assert_eq!((name(105), name(101), name(7)), ("802_11".into(), "IP".into(), "#7".into()));
    }

    proptest! {
        #[test]
        fn what_is_found_is_inside(bytes: Vec<u8>, link in 0u32..130) {
            if let Some(ip) = find_ip(&bytes, link) {
                prop_assert!(ip.offset + ip.header <= bytes.len());
            }
        }
    }
}
