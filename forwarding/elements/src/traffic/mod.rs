//! See [the library](crate).

mod contents;
mod discard;
mod from_device;
mod from_dump;
mod from_ip_summary_dump;
mod host;
mod idle;
mod infinite_source;
mod input;
mod kernel_tun;
mod method;
mod random_source;
mod rated_source;
mod summary;
mod timed_sink;
mod timed_source;
mod to_device;
mod to_dump;
mod to_ip_summary_dump;

use graph::Class;
use port::Packet;
use wire::capture::link;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &discard::CLASS,
    &from_device::CLASS,
    &from_dump::CLASS,
    &from_ip_summary_dump::CLASS,
    &host::FROM,
    &host::TO,
    &idle::IDLE,
    &idle::SIMPLE_IDLE,
    &infinite_source::CLASS,
    &kernel_tun::TAP,
    &kernel_tun::TUN,
    &random_source::CLASS,
    &rated_source::CLASS,
    &timed_sink::CLASS,
    &timed_source::CLASS,
    &to_device::CLASS,
    &to_dump::CLASS,
    &to_ip_summary_dump::CLASS,
];

/// Notes where the IP packet is behind a link header, and its destination. False when there is
/// none.
fn mark_ip(packet: &mut Packet, kind: u32) -> bool {
    let Some(ip) = link::find_ip(packet.data(), kind) else { return false };
    let destination = packet.data().get(ip.offset + 16..).and_then(<[u8]>::first_chunk::<4>).copied();
    packet.set_network(ip.offset as isize);
    packet.set_transport(Some((ip.offset + ip.header) as isize));
    if let (4, Some(destination)) = (ip.version, destination) {
        packet.destination = destination;
    }
    true
}

/// What the operating system says of an error, without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}
