//! Where a frame's payload is.

use wire::{ethernet, protocol};

/// The payload of the UDP datagram, TCP segment or echo request in an Ethernet frame, behind any
/// tags and labels; `None` when there is none. What pads a short frame is not part of it.
#[inline]
pub fn find(frame: &[u8]) -> Option<&[u8]> {
    // What nearly every frame is, without a loop.
    if let Some(header) = frame.first_chunk::<42>()
        && header[12..15] == [8, 0, 0x45]
        && header[23] == protocol::UDP
    {
        let end = 14 + usize::from(u16::from_be_bytes([header[16], header[17]]));
        return frame.get(42..end);
    }
    walk(frame)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn walk(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    let mut kind = number(frame, at)?;
    at += 2;
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        kind = number(frame, at + 2)?;
        at += 4;
    }
    let mut six = kind == ethernet::IPV6;
    if kind == 0x8847 {
        // Labels up to the one at the bottom; what is below says its version itself.
        while frame.get(at + 2)? & 1 == 0 {
            at += 4;
        }
        at += 4;
        six = frame.get(at)? >> 4 == 6;
    } else if kind != ethernet::IPV4 && !six {
        return None;
    }
    let ip = frame.get(at..)?;
    let (mut next, mut upper, end);
    if six {
        (next, upper) = (*ip.get(6)?, 40);
        end = 40 + usize::from(number(ip, 4)?);
        // A header each turn at least.
        while matches!(next, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | 60) {
            let length = if next == protocol::FRAGMENT { 0 } else { *ip.get(upper + 1)? };
            (next, upper) = (*ip.get(upper)?, upper + 8 + 8 * usize::from(length));
        }
    } else {
        (next, upper) = (*ip.get(9)?, usize::from(ip.first()? & 15) * 4);
        end = usize::from(number(ip, 2)?);
    }
    let payload = match next {
        protocol::UDP | protocol::ICMP | protocol::ICMP6 => upper + 8,
        protocol::TCP => upper + usize::from(ip.get(upper + 12)? >> 4) * 4,
        _ => return None,
    };
    ip.get(payload..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_no_danger(mut frame in proptest::collection::vec(any::<u8>(), 0..200), kind in 0usize..6) {
            let kinds = [[8, 0], [0x86, 0xdd], [0x81, 0], [0x88, 0xa8], [0x88, 0x47], [0, 0]];
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(&kinds[kind]);
            }
            find(&frame);
        }
    }
}
