//! ICMP router discovery for IPv4 (RFC 1256): messages, and the frames that carry them.

use std::net::Ipv4Addr;

use wire::{Mac, checksum, ethernet, ipv4, protocol};

/// Where routers speak to hosts.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Where hosts speak to routers.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The preference of an address that is never to be used as a default router.
pub const NEVER: i32 = i32::MIN;
/// Addresses of one advertisement at most.
pub const ADDRESSES: usize = 255;

/// ICMP types.
const ADVERTISEMENT: u8 = 9;
const SOLICITATION: u8 = 10;

/// A router's addresses on the link, and how much each is preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// Seconds for which this holds; 0: no longer.
    pub lifetime: u16,
    /// 1 to 255 of them. The highest preference is used first; [`NEVER`]: it is not used.
    pub addresses: Vec<(Ipv4Addr, i32)>,
}

impl Advertisement {
    /// From the ICMP type on.
    pub fn message(&self) -> Vec<u8> {
        let count = self.addresses.len().min(ADDRESSES);
        let mut bytes = vec![ADVERTISEMENT, 0, 0, 0, count as u8, 2];
        bytes.extend(self.lifetime.to_be_bytes());
        for (address, preference) in &self.addresses[..count] {
            bytes.extend(address.octets());
            bytes.extend(preference.to_be_bytes());
        }
        summed(bytes)
    }

    /// RFC 1256, 5.2. Entries longer than they are known are read as far as they are.
    fn read(message: &[u8]) -> Option<Advertisement> {
        let [_, 0, _, _, count, words, a, b, ref entries @ ..] = *message else { return None };
        let entry = usize::from(words) * 4;
        let right = count > 0 && words >= 2 && entries.len() >= usize::from(count) * entry;
        let read = |entry: &[u8]| {
            let (address, preference) = (*entry.first_chunk::<4>()?, *entry[4..].first_chunk::<4>()?);
            Some((address.into(), i32::from_be_bytes(preference)))
        };
        let addresses = right.then(|| entries.chunks_exact(entry).take(count.into()).filter_map(read))?;
        Some(Advertisement { lifetime: u16::from_be_bytes([a, b]), addresses: addresses.collect() })
    }
}

/// A host's question, from the ICMP type on.
pub fn solicitation() -> Vec<u8> {
    summed(vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0])
}

fn summed(mut message: Vec<u8>) -> Vec<u8> {
    let sum = checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// A message with who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its link address.
    pub mac: Mac,
    /// Its address; unspecified, where a host has none yet.
    pub from: Ipv4Addr,
    /// What it says.
    pub message: Message,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who is there?
    Solicitation,
    /// This router.
    Advertisement(Advertisement),
}

/// Reads a frame; `None` when it is neither, or fails one of the tests of RFC 1256, 4.2 and 5.2.
pub fn hear(frame: &[u8]) -> Option<Heard> {
    let frame = ethernet::Frame::parse(frame).ok().filter(|frame| frame.ether_type() == ethernet::IPV4)?;
    let ip = ipv4::Packet::parse(frame.payload()).ok()?;
    let whole = ip.checksum_ok() && ip.fragment_offset() == 0 && !ip.more_fragments();
    let message = ip.payload();
    if !whole || ip.protocol() != protocol::ICMP || !checksum::verify(message) {
        return None;
    }
    let message = match *message {
        [SOLICITATION, 0, _, _, _, _, _, _, ..] => Message::Solicitation,
        [ADVERTISEMENT, ..] => Message::Advertisement(Advertisement::read(message)?),
        _ => return None,
    };
    Some(Heard { mac: frame.source(), from: ip.source(), message })
}

/// The frame of a message, which no router passes on.
pub fn frame(from_mac: Mac, to_mac: Mac, from: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let link = ethernet::Repr { destination: to_mac, source: from_mac, ether_type: ethernet::IPV4 };
    let header = ipv4::Repr { ttl: 1, protocol: protocol::ICMP, ..ipv4::Repr::new(from, to) };
    [&link.header()[..], &header.header(message.len()), message].concat()
}

/// The Ethernet address of a group (RFC 1112, 6.4), or of all on the link.
pub fn group_mac(group: Ipv4Addr) -> Mac {
    let [_, b, c, d] = group.octets();
    if group.is_broadcast() { Mac::BROADCAST } else { Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn around(message: &[u8]) -> Vec<u8> {
        frame(MAC, group_mac(ALL_HOSTS), Ipv4Addr::new(192, 0, 2, 1), ALL_HOSTS, message)
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(lifetime: u16, list in prop::collection::vec(any::<(u32, i32)>(), 1..=255)) {
            let addresses = list.iter().map(|(address, preference)| ((*address).into(), *preference)).collect();
            let said = Advertisement { lifetime, addresses };
            let heard = hear(&around(&said.message())).map(|heard| heard.message);
            prop_assert_eq!(heard, Some(Message::Advertisement(said)));
        }
    }

    #[test]
    fn the_rules_of_the_rfc_are_kept() {
        let said = Advertisement { lifetime: 1800, addresses: vec![(Ipv4Addr::new(192, 0, 2, 1), NEVER)] };
        let right = said.message();
        assert_eq!(right[4..16], [1, 2, 7, 8, 192, 0, 2, 1, 0x80, 0, 0, 0]);
        assert_eq!(around(&right)[14 + 8], 1, "the TTL");
        // Longer entries, as a later version might have: their beginning is known.
        let longer = summed(vec![9, 0, 0, 0, 1, 3, 7, 8, 192, 0, 2, 1, 0x80, 0, 0, 0, 1, 2, 3, 4]);
        assert_eq!(hear(&around(&longer)).unwrap().message, Message::Advertisement(said));
        for wrong in [
            vec![9, 0, 0, 0, 0, 2, 7, 8],
            vec![9, 0, 0, 0, 1, 1, 7, 8, 192, 0, 2, 1],
            vec![9, 0, 0, 0, 2, 2, 7, 8, 192, 0, 2, 1, 0, 0, 0, 0],
            vec![9, 1, 0, 0, 1, 2, 7, 8, 192, 0, 2, 1, 0, 0, 0, 0],
            vec![10, 1, 0, 0, 0, 0, 0, 0],
            vec![10, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(hear(&around(&summed(wrong.clone()))), None, "{wrong:?}");
        }
        let mut broken = around(&solicitation());
        assert_eq!(hear(&broken).unwrap().message, Message::Solicitation);
        *broken.last_mut().unwrap() ^= 1;
        assert_eq!(hear(&broken), None);
        assert_eq!(group_mac(ALL_ROUTERS), Mac([1, 0, 0x5e, 0, 0, 2]));
    }
}
