//! What the log is made of: one flow, or one slice of a long one.
//!
//! A flow that ends leaves one record. A flow that lives longer than the active timeout leaves a
//! record at each timeout (a *slice*: same `flow`, `slice` counting up from 0) and a last one when
//! it ends. Counts and times are those of the slice, not of the flow, so that adding up records
//! adds up traffic (delta counters, as IPFIX calls them).
//!
//! A record speaks of both directions. `forward` is the direction of the flow's first packet,
//! `reply` the other; addresses, ports, interfaces, next hop and AS numbers are as the forward
//! direction has them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One ended flow, one slice of a long one, or (without a `reason`) one that still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Which flow: never used again by another while the router runs. Files hold it as a signed
    /// number of 64 bits.
    pub flow: u64,
    /// Which slice of the flow, from 0.
    pub slice: u32,
    /// Whose packets, before any translation.
    pub key: Key,
    /// First packet of the slice, ns since 1970-01-01 UTC.
    pub start: u64,
    /// Last packet of the slice, ns since 1970-01-01 UTC.
    pub end: u64,
    /// What went in the direction of the first packet.
    pub forward: Counts,
    /// What came back.
    pub reply: Counts,
    /// Why there is a record; absent: the flow lives.
    pub reason: Option<Reason>,
    /// Where the forward direction comes in.
    pub input: Interface,
    /// Where it goes out.
    pub output: Interface,
    /// The forward direction's addresses and ports behind the router, when they were translated.
    pub translated: Option<Endpoints>,
    /// The gateway of the forward direction; absent: on the link itself, or not known.
    pub next_hop: Option<IpAddr>,
    /// AS that the forward direction comes from; 0: not known.
    pub source_as: u32,
    /// AS that it goes to; 0: not known.
    pub destination_as: u32,
}

/// What packets of one flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Sender of the first packet.
    pub source: IpAddr,
    /// Receiver of the first packet, of the same family.
    pub destination: IpAddr,
    /// 0 where there are no ports; of ICMP echo the identifier.
    pub source_port: u16,
    /// 0 where there are no ports; of ICMP echo the identifier.
    pub destination_port: u16,
    /// Number of the upper protocol.
    pub protocol: u8,
    /// ICMP type of the first packet; 0 for other protocols.
    pub icmp_type: u8,
    /// ICMP code of the first packet; 0 for other protocols.
    pub icmp_code: u8,
    /// VRF or routing table; 0: the main one.
    pub table: u32,
}

impl Key {
    /// Whether it is of ICMP or ICMPv6, whose ports are no ports.
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, ICMP | ICMP6)
    }
}

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMP6: u8 = 58;

/// What went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets, headers included.
    pub bytes: u64,
    /// All TCP flags seen, or-ed together; 0 for other protocols.
    pub tcp_flags: u8,
}

/// Two ends of a translated flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// Sender.
    pub source: IpAddr,
    /// Receiver, of the same family.
    pub destination: IpAddr,
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
}

/// Why a record was made: flowEndReason of IPFIX (RFC 5102, section 5.11.3), whose numbers these
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// Silent for longer than its timeout.
    Idle = 1,
    /// It lives, and its slice was due.
    Active = 2,
    /// FIN both ways, or RST.
    End = 3,
    /// Flushed by an operator, a change of configuration or the end of the router.
    Forced = 4,
    /// Another flow needed its place.
    Resources = 5,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 5] =
        [Reason::Idle, Reason::Active, Reason::End, Reason::Forced, Reason::Resources];

    /// As files and tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Idle => "idle",
            Reason::Active => "active",
            Reason::End => "end",
            Reason::Forced => "forced",
            Reason::Resources => "resources",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Linux interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interface {
    /// Its ifindex; 0: none, or not known.
    pub index: u32,
    /// Its name. The forwarding core may leave it empty: the log knows names by index
    /// ([`crate::Names`]).
    pub name: Name,
}

/// Name of an interface: at most 15 bytes, as Linux has it (IFNAMSIZ), without a pointer to
/// anywhere.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name([u8; 16]);

impl Name {
    /// What is longer than 15 bytes is cut between characters. What would act on a terminal, as
    /// text of others' files might, is a `?`.
    pub fn new(text: &str) -> Name {
        let (mut bytes, mut end) = ([0; 16], 0);
        for sign in text.chars().map(|sign| if sign.is_control() { '?' } else { sign }) {
            let next = end + sign.len_utf8();
            if next > 15 {
                break;
            }
            sign.encode_utf8(&mut bytes[end..next]);
            end = next;
        }
        Name(bytes)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(0);
        // Made of text, cut where a character ends.
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Nobody has told it.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// 16 bytes, padded with zeros.
    pub fn padded(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an interface")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name::new(text))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The address behind 16 bytes in which IPv4 is mapped into IPv6 (`::ffff:a.b.c.d`), as the flow
/// table keeps it.
pub fn address(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

impl Record {
    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.forward.packets.saturating_add(self.reply.packets)
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.forward.bytes.saturating_add(self.reply.bytes)
    }

    /// A flow of this key with nothing counted and nothing else known: the place to begin from.
    pub fn of(key: Key) -> Record {
        Record {
            flow: 0,
            slice: 0,
            key,
            start: 0,
            end: 0,
            forward: Counts::default(),
            reply: Counts::default(),
            reason: None,
            input: Interface::default(),
            output: Interface::default(),
            translated: None,
            next_hop: None,
            source_as: 0,
            destination_as: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(Name::new("eth0").as_str(), "eth0");
        assert_eq!(Name::new("a-very-long-interface").as_str(), "a-very-long-int");
        assert_eq!(Name::new("aaaaaaaaaaaaaa\u{e9}").as_str(), "aaaaaaaaaaaaaa");
        assert!(Name::new("").is_empty());
        assert_eq!(Name::new("\u{1b}[2J\u{9b}e\0h").as_str(), "?[2J?e?h");
    }

    #[test]
    fn a_mapped_address_is_ipv4() {
        let mut bytes = [0; 16];
        bytes[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 7]);
        assert_eq!(address(bytes).to_string(), "192.0.2.7");
        bytes[0] = 0x20;
        assert!(address(bytes).is_ipv6());
    }
}
