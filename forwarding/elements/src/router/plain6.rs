//! Plain packets of IPv6.

use fib::View;
use port::Packet;
use wire::which::{lowest, numbers};
use wire::{ethernet, protocol};

use super::family::V6;
use super::plain::{Chosen, Input};
use super::wide::wide;
use super::{ETHERNET, u16_at, u32_at, u64_at};

/// Bytes of the headers of both layers.
const FRAME: usize = ETHERNET + 40;

impl Chosen<V6> {
    /// The same of the packets whose bits are set.
    #[inline(always)]
    pub(super) fn choose(&mut self, view: &View, packets: &mut [Packet], which: u64, upper: bool) {
        choose(self, view, packets, which, upper);
    }
}

wide! {
    fn choose(chosen: &mut Chosen<V6>, view: &View, packets: &mut [Packet], which: u64, upper: bool) {
        let (hops, mut input) = (view.hops(), Input::none(chosen.by_rules, upper));
        let mut count = 0;
        for place in numbers(which) {
            let Some(packet) = packets.get_mut(place) else { continue };
            input.turn_to::<V6>(&hops, packet.input);
            let Some(frame) = packet.data().first_chunk::<FRAME>() else { continue };
            let Some(header) = frame.last_chunk::<40>() else { continue };
            let address = |at| u128::from(u64_at(header, at)) << 64 | u128::from(u64_at(header, at + 8));
            chosen.note(count, place, address(24));
            let end = FRAME + usize::from(u16_at(header, 4));
            let plain = (u16_at(frame, 12) == ethernet::IPV6)
                & (header[0] >> 4 == 6)
                & (end <= packet.len())
                & (header[6] != protocol::HOP_BY_HOP)
                & (header[7] > 1)
                & TRAVELS[usize::from(header[8])]
                & TRAVELS[usize::from(header[24])]
                & input.takes(packet, frame);
            if upper {
                let ports = ports(header[6], packet.data().get(FRAME..end).unwrap_or_default());
                let upper = &mut chosen.upper;
                upper.sources[count] = address(8);
                upper.protocols[count] = u32::from(header[6]);
                upper.ports[count] = ports.unwrap_or_default();
                upper.lengths[count] = (end - ETHERNET) as u32;
                upper.inputs[count] = packet.input.0;
                // What is not plain leaves its number to the next.
                upper.whole = upper.whole & !(1 << count) | u64::from(ports.is_some()) << count;
            }
            packet.cut(if plain { end as u16 } else { u16::MAX });
            count += usize::from(plain);
        }
        (chosen.count, chosen.group) = (count, 0..packets.len());
        chosen.upper.whole &= lowest(count);
        chosen.sources_are_asked = input.sources_are_asked;
        if upper && chosen.sources_are_asked {
            chosen.vouch(view);
        }
    }
}

/// Whether a first byte of an address is one of 2000::/3 or fc00::/7: of what is neither, some is
/// never forwarded.
const TRAVELS: [bool; 256] = {
    let mut travels = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        travels[byte] = byte >> 5 == 1 || byte >> 1 == 0xfc >> 1;
        byte += 1;
    }
    travels
};

/// Both ports of a packet of TCP or UDP, if its header, which begins here, is in order.
#[inline(always)]
fn ports(protocol: u8, upper: &[u8]) -> Option<u32> {
    match protocol {
        protocol::UDP => upper.first_chunk::<8>().map(|header| u32_at(header, 0)),
        protocol::TCP => {
            let header = upper.first_chunk::<20>()?;
            let data = usize::from(header[12] >> 4) * 4;
            (20..=upper.len()).contains(&data).then(|| u32_at(header, 0))
        }
        _ => None,
    }
}
