//! What elements tell each other about a packet beyond the handle: Click's annotations.
//!
//! 48 bytes that elements use by offset, as Click lays them out (`DST_IP` and `PAINT` are in the
//! handle, where they are cheapest), a timestamp, where the link and transport headers begin, and
//! to whom the frame was addressed. They fill one cache line at the front of the packet's chunk,
//! which is touched only by packets that have been annotated.

/// Bytes of annotations by offset.
pub const ANNOTATION_BYTES: usize = 48;

/// To whom a frame was addressed, as seen by the device that received it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// To this machine.
    #[default]
    Host,
    /// To everybody.
    Broadcast,
    /// To a group.
    Multicast,
    /// To somebody else; seen because the device is promiscuous.
    OtherHost,
    /// Sent by this machine.
    Outgoing,
    /// Looped back.
    Loopback,
    /// Sent by this machine, too fast to be queued.
    FastRoute,
}

/// Notes on one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    /// By offset, as Click's packet_anno.hh has them.
    pub(crate) bytes: [u8; ANNOTATION_BYTES],
    /// When it was received or made: nanoseconds since 1970; 0: not known.
    pub timestamp: i64,
    /// Where in the chunk the link header begins; 0: not known.
    pub(crate) link: u16,
    /// Where in the chunk the transport header begins; 0: not known.
    pub(crate) transport: u16,
    /// To whom it was addressed.
    pub kind: PacketType,
}

const _: () = assert!(size_of::<Annotations>() == 64);

impl Annotations {
    /// Nothing noted.
    pub const NONE: Annotations = Annotations {
        bytes: [0; ANNOTATION_BYTES],
        timestamp: 0,
        link: 0,
        transport: 0,
        kind: PacketType::Host,
    };

    /// The `N` bytes at `offset`; zeros when they are not all inside.
    #[inline]
    pub(crate) fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.bytes.get(offset..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    /// Sets the bytes at `offset`; nothing when they are not all inside.
    #[inline]
    pub(crate) fn set<const N: usize>(&mut self, offset: usize, bytes: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
            *place = bytes;
        }
    }
}

impl crate::Packet {
    /// Where in the chunk the transport header begins: where it was said to, else behind the
    /// network header, if that is known and there. 0: not known.
    #[inline]
    fn transport_place(&self) -> u16 {
        let said = self.annotations().transport;
        if said != 0 {
            return said;
        }
        let header = match self.network().first() {
            Some(first) if first >> 4 == 4 => u16::from(first & 15) * 4,
            Some(first) if first >> 4 == 6 => 40,
            _ => return 0,
        };
        let offset = self.network_offset().map(|network| network + header as isize);
        offset.and_then(|offset| self.place_of(offset)).unwrap_or_default()
    }

    /// Bytes from the front to the transport header, negative when the front is behind it; `None`
    /// while nobody has said where it is or where the network header is.
    #[inline]
    pub fn transport_offset(&self) -> Option<isize> {
        self.offset_of(self.transport_place())
    }

    /// Says that an IP header begins `offset` bytes behind the front, and the transport header
    /// behind it. False, and nothing done, when that is outside the chunk.
    #[inline(always)]
    pub fn mark_ip(&mut self, offset: isize) -> bool {
        if self.is_annotated() {
            self.annotations_mut().transport = 0;
        }
        self.set_network(offset)
    }

    /// Says that the transport header begins `offset` bytes behind the front; `None`, or outside
    /// the chunk: not known.
    #[inline]
    pub fn set_transport(&mut self, offset: Option<isize>) {
        let place = offset.and_then(|offset| self.place_of(offset)).unwrap_or_default();
        // Where it is anyhow need not be written down.
        if place != self.transport_place() {
            self.annotations_mut().transport = place;
        }
    }

    /// The bytes of the first segment from the transport header on; none while nobody has said
    /// where that is.
    #[inline]
    pub fn transport(&self) -> &[u8] {
        self.bytes_from(self.transport_place())
    }

    /// The bytes of the first segment from the transport header on, to change.
    #[inline]
    pub fn transport_mut(&mut self) -> &mut [u8] {
        self.bytes_from_mut(self.transport_place())
    }

    /// Where in the chunk the link header begins: where it was said to, else at the front, if the
    /// network header is known to come later. 0: not known.
    #[inline]
    fn link_place(&self) -> u16 {
        match self.annotations().link {
            0 if self.l3() > 0 => self.place_of(0).unwrap_or_default(),
            said => said,
        }
    }

    /// Bytes from the front to the link header, negative when the front is behind it; `None` while
    /// nobody has said.
    #[inline]
    pub fn link_offset(&self) -> Option<isize> {
        self.offset_of(self.link_place())
    }

    /// Says that the link header begins `offset` bytes behind the front; `None`, or outside the
    /// chunk: not known.
    #[inline]
    pub fn set_link(&mut self, offset: Option<isize>) {
        let place = offset.and_then(|offset| self.place_of(offset)).unwrap_or_default();
        // Where it is anyhow need not be written down.
        let known = !self.is_annotated() && offset == Some(0) && self.l3() > 0;
        if !known && place != self.link_place() {
            self.annotations_mut().link = place;
        }
    }

    /// The bytes of the first segment from the link header on, wherever the front is; none while
    /// nobody has said.
    #[inline]
    pub fn link(&self) -> &[u8] {
        self.bytes_from(self.link_place())
    }

    /// The `N` bytes of notes at `offset`, wherever they are kept; zeros when they are not all
    /// inside.
    #[inline(always)]
    pub fn annotation<const N: usize>(&self, offset: usize) -> [u8; N] {
        if offset == DESTINATION && N == 4 {
            let mut bytes = [0; N];
            bytes.copy_from_slice(&self.destination);
            return bytes;
        }
        let mut bytes = self.annotations().array(offset);
        for (at, byte) in bytes.iter_mut().enumerate() {
            match offset + at {
                place if place < self.destination.len() => *byte = self.destination[place],
                PAINT => *byte = self.paint,
                _ => {}
            }
        }
        bytes
    }

    /// Sets the bytes of notes at `offset`, wherever they are kept; nothing when they are not all
    /// inside.
    #[inline(always)]
    pub fn set_annotation<const N: usize>(&mut self, offset: usize, bytes: [u8; N]) {
        if offset + N > ANNOTATION_BYTES {
            return;
        }
        let mut rest = false;
        for (at, &byte) in bytes.iter().enumerate() {
            match offset + at {
                place if place < self.destination.len() => self.destination[place] = byte,
                PAINT => self.paint = byte,
                _ => rest = true,
            }
        }
        if rest {
            self.annotations_mut().set(offset, bytes);
        }
    }

    /// The byte of notes at `offset`.
    #[inline]
    pub fn annotation_byte(&self, offset: usize) -> u8 {
        if offset == PAINT { self.paint } else { self.annotation::<1>(offset)[0] }
    }

    /// Sets the byte of notes at `offset`.
    #[inline]
    pub fn set_annotation_byte(&mut self, offset: usize, value: u8) {
        if offset == PAINT {
            self.paint = value;
        } else {
            self.set_annotation(offset, [value]);
        }
    }
}

/// Click's offset of the annotation that is [`Packet::destination`](crate::Packet::destination).
pub const DESTINATION: usize = 0;
/// Click's offset of the paint annotation.
pub const PAINT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, Pool};

    #[test]
    fn headers_stay_where_they_are_when_the_front_moves() {
        Pool::heap(2).install();
        let mut packet = Packet::new(b"ethernet-ip-tcp").unwrap();
        assert_eq!(
            (packet.network(), packet.network_offset(), packet.transport()),
            (&b""[..], None, &b""[..])
        );
        packet.set_link(Some(0));
        assert!(packet.set_network(9));
        packet.set_transport(Some(12));
        assert!(packet.pull(9));
        assert_eq!((packet.network(), packet.transport()), (&b"ip-tcp"[..], &b"tcp"[..]));
        assert!(packet.pull(4));
        assert_eq!((packet.network(), packet.network_offset()), (&b"ip-tcp"[..], Some(-4)));
        packet.network_mut()[0] = b'I';
        packet.transport_mut()[0] = b'T';
        let copy = packet.duplicate().unwrap();
        assert_eq!(
            (copy.data(), copy.network(), copy.link()),
            (&b"cp"[..], &b"Ip-Tcp"[..], &b"ethernet-Ip-Tcp"[..])
        );
        packet.truncate(0);
        assert_eq!((packet.network(), packet.link()), (&b"Ip-T"[..], &b"ethernet-Ip-T"[..]));
        assert!(!packet.set_network(-100_000) && !packet.set_network(100_000));
    }

    #[test]
    fn a_chunk_used_again_has_no_old_notes() {
        Pool::heap(1).install();
        let mut packet = Packet::new(b"first").unwrap();
        packet.set_annotation_byte(PAINT, 3);
        packet.set_annotation_byte(5, 7);
        packet.annotations_mut().timestamp = 9;
        packet.set_annotation(46, [1, 2, 3]);
        assert_eq!(
            (packet.annotation_byte(PAINT), packet.annotation_byte(5), packet.annotation_byte(46)),
            (3, 7, 0)
        );
        assert_eq!(packet.annotation::<2>(5), [7, 0]);
        packet.set_annotation(0, [1, 2, 3, 4, 5]);
        assert_eq!((packet.destination, packet.annotation::<6>(0)), ([1, 2, 3, 4], [1, 2, 3, 4, 5, 7]));
        drop(packet);
        let packet = Packet::new(b"second").unwrap();
        assert_eq!(packet.annotations(), &Annotations::NONE);
        assert_eq!(packet.annotation_byte(PAINT), 0);
    }
}
