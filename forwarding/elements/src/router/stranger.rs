//! Frames of hosts that Linux does not know behind the member of a bridge that they came by, where
//! transit depends on flows.
//!
//! Linux would learn from such a frame where the host is, but knows nothing of its flow. So the
//! driver hands it to a worker, with word of the member written over the destination, which is the
//! bridge's own address (`forwarding/bpf/bridge.h`). The worker puts the address back, goes on as
//! with any other frame, and has Linux learn: from a frame of the host's to the bridge that carries
//! nothing, which Linux takes off the member, learns from, and drops.

use abi::driver::STRANGER;
use fib::{Hops, InterfaceFlags};
use graph::{Context, Hand};
use port::{Packet, pool};
use wire::{Class, Mac};

use super::{ETHERNET, u16_at};

/// A type that nothing listens to: the second for local experiments (IEEE 802).
pub(super) const NOTHING: u16 = 0x88b6;
/// Bytes of tags at most.
const TAGS: usize = 8;
/// Chunks of packet memory that are left to what is received.
pub(super) const RESERVE: usize = 64;

/// Makes a frame one to its interface again, whose address this is, and has Linux learn from whom
/// it is. What it carries; `None`, and nothing done, where it is no such frame.
#[cold]
pub(super) fn enter(hops: &Hops<'_>, packet: &mut Packet, mac: u64, cx: &mut Context<'_>) -> Option<u16> {
    let input = packet.input;
    let Mac(own) = Mac::from_u64(mac);
    let header = packet.data_mut().first_chunk_mut::<ETHERNET>()?;
    if header[..2] != [own[0] ^ STRANGER, own[1]]
        || !hops.interface(input).flags().contains(InterfaceFlags::BRIDGED)
    {
        return None;
    }
    let member = u32::from_be_bytes([header[2], header[3], header[4], header[5]]);
    header[..6].copy_from_slice(&own);
    let ether_type = u16_at(header, 12);
    // With its tags, for a bridge may learn of each VLAN by itself.
    let link = hops.link(input);
    let mut frame = [0; ETHERNET + TAGS];
    let length = ETHERNET + link.length().min(TAGS);
    frame[..12].copy_from_slice(&header[..12]);
    frame[12..][..TAGS].copy_from_slice(&link.tags());
    frame[length - 2..length].copy_from_slice(&NOTHING.to_be_bytes());
    if pool::available() > RESERVE
        && let Some(mut frame) = Packet::new(&frame[..length])
    {
        frame.input = input;
        cx.punt(frame, Class::Neighbour, Hand::Learn(member));
    }
    Some(ether_type)
}
