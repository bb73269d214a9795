//! Multicast: a copy of packets to groups for each interface that wants them
//!
//! Group: router
//! Usage: `Multicast`
//! Ports: 1 input, 2 outputs; push
//!
//! Expects frames with their network header noted. Where Linux's multicast routing tables have an
//! entry for source and group (S,G), or for the group (*,G), and all interfaces of it are the
//! plane's, a packet that came in by the entry's interface leaves by each of the others whose
//! threshold its TTL or hop limit exceeds: one hop less to live, in a frame to the group's own link
//! address. No error is ever told about a packet to a group (RFC 1812, 4.3.2.7).
//!
//! Everything else is as it came and goes to Linux, which is the control plane: what there is no
//! entry for, what comes in by another interface (PIM wants to know of both), groups of the link,
//! IGMP, MLD and PIM, options, packets that do not fit an interface, and what is no multicast at
//! all. So does one packet of each entry in about a second: Linux forwards it itself, and by its
//! counts knows that the source is still there.
//!
//! Outputs:
//! - 0: copies, whole frames that are ready to leave
//! - 1: for Linux, unchanged
//!
//! See also: [Classify], [Transmit], [Punt]

use std::sync::Arc;

use fib::{AdjacencyWord, GroupEntry, GroupReader, Groups, Hops, InterfaceId, TableId, View, mapped};
use graph::{Batch, Class, Context, Element};
use port::{Packet, pool};
use wire::{Reason, checksum, ethernet, ipv4, protocol};

use super::check_ip_header4::is_usual;
use super::family::{Family, V4, V6};
use super::reverse_path::comes_from;
use super::rewrite::Source;
use super::router_context::on_tables;
use super::{ETHERNET, RouterContext, SENDS, Sources, cut_to, u16_at, u32_at, u64_at};

/// The class `Multicast`.
pub const CLASS: Class = Class {
    name: "Multicast",
    ports: "1/2",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("multicast.rs"),
    make: |arguments, setup| on_tables(arguments, setup, Multicast::new),
};

const OUT: usize = 0;
const LINUX: usize = 1;

/// Chunks of packet memory that copies leave to what is received: a quarter of the least that a
/// worker may have.
const RESERVE: usize = 256;

/// Replicates packets to groups. Outputs: `out`, `linux`. Drops `unwanted` what leaves by no
/// interface; of copies those by a port that is down (`port_down`), and those for which there is
/// no memory (`no_buffer`).
pub struct Multicast {
    view: View,
    sources: Arc<Sources>,
    reader: GroupReader,
    /// On their way out.
    copies: Batch,
}

/// What is asked of a packet to a group.
#[derive(Clone, Copy)]
struct Sent {
    source: u128,
    group: u128,
    ttl: u8,
    /// Bytes from its network header on.
    total: usize,
    ether_type: u16,
}

impl Sent {
    /// Reads the headers of a frame to a group's link address; `None` for what Linux is to have
    /// anyway.
    #[inline(always)]
    fn read(packet: &Packet) -> Option<Sent> {
        let frame = packet.data().first_chunk::<{ ETHERNET + 20 }>()?;
        match (u16_at(frame, 12), frame[..3] == [1, 0, 0x5e], frame[..2] == [0x33, 0x33]) {
            (ethernet::IPV4, true, _) => Sent::read4(frame.last_chunk()?),
            (ethernet::IPV6, _, true) => {
                Sent::read6(packet.data().first_chunk::<{ ETHERNET + 40 }>()?.last_chunk()?)
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn read4(header: &[u8; 20]) -> Option<Sent> {
        let (source, group, total) = (u32_at(header, 12), u32_at(header, 16), u16_at(header, 2));
        let routed = group >> 28 == 14 && group >> 8 != 0xe0_0000;
        let for_routers = matches!(header[9], protocol::IGMP | protocol::PIM);
        let valid = header[0] == 0x45 && total >= 20 && is_usual(source.to_be_bytes());
        (routed && !for_routers && valid && checksum::verify_header(header)).then_some(Sent {
            source: mapped(source),
            group: mapped(group),
            ttl: header[8],
            total: total.into(),
            ether_type: ethernet::IPV4,
        })
    }

    #[inline(always)]
    fn read6(header: &[u8; 40]) -> Option<Sent> {
        let address = |at| u128::from(u64_at(header, at)) << 64 | u128::from(u64_at(header, at + 8));
        let (source, group) = (address(8), address(24));
        // Scopes up to that of the link (RFC 4291, 2.7).
        let routed = group >> 120 == 0xff && group >> 112 & 0xf > 2;
        let for_routers = matches!(header[6], protocol::HOP_BY_HOP | protocol::ICMP6 | protocol::PIM);
        let travels = source > 1 && source >> 120 != 0xff && source >> 118 != 0xfe80 >> 6;
        (routed && !for_routers && travels && header[0] >> 4 == 6).then(|| Sent {
            source,
            group,
            ttl: header[7],
            total: usize::from(u16_at(header, 4)) + header.len(),
            ether_type: ethernet::IPV6,
        })
    }

    /// The link address of the group (RFC 1112, 6.4; RFC 2464, 7), as that of a neighbour.
    #[inline(always)]
    fn neighbour(&self) -> AdjacencyWord {
        let mac = match self.ether_type {
            ethernet::IPV6 => 0x3333 << 32 | self.group as u64 & 0xffff_ffff,
            _ => 0x1_005e << 24 | self.group as u64 & 0x7f_ffff,
        };
        AdjacencyWord([mac << 16, 0])
    }
}

/// What becomes of a packet.
enum Way<'a> {
    Linux,
    /// Out by those of the entry's interfaces whose bits are set.
    Out(&'a GroupEntry, u64),
}

impl Multicast {
    /// Forwards by the entries that all workers share.
    pub fn new(router: &RouterContext) -> Multicast {
        Multicast {
            view: router.view.clone(),
            sources: router.sources.clone(),
            reader: GroupReader::new(router.multicast.clone()),
            copies: Batch::new(),
        }
    }
}

/// The entry by which packets are forwarded that come from a source, to a group, by an interface.
fn entry<'a>(
    view: &View,
    sources: &Sources,
    groups: &'a Groups,
    sent: &Sent,
    input: InterfaceId,
) -> Option<&'a GroupEntry> {
    let entry = groups.find(sent.source, sent.group).filter(|entry| entry.inputs.contains(&input))?;
    let hops = view.hops();
    let ipv6 = sent.ether_type == ethernet::IPV6;
    let forwards = hops.interface(input).flags().contains(if ipv6 { V6::FORWARD } else { V4::FORWARD });
    if !forwards || hops.link(input).table() != TableId::MAIN {
        return None;
    }
    // Linux asks this of IPv4 only.
    let source = sent.source as u32;
    let comes =
        ipv6 || !sources.is_local4(input, source) && comes_from::<V4>(view, view.lookup4(source), input);
    comes.then_some(entry)
}

/// By which of an entry's interfaces a packet leaves.
#[inline(always)]
fn way<'a>(hops: &Hops<'_>, entry: &'a GroupEntry, sent: &Sent) -> Way<'a> {
    let mut out = 0;
    for (index, leaving) in entry.outputs.iter().enumerate() {
        if sent.ttl > leaving.threshold {
            // Linux cuts it, or says that it is too big.
            if sent.total > hops.interface(leaving.interface).mtu() as usize {
                return Way::Linux;
            }
            out |= 1 << index;
        }
    }
    Way::Out(entry, out)
}

/// One hop less to live.
#[inline(always)]
fn age(packet: &mut Packet, ether_type: u16) {
    match ether_type {
        ethernet::IPV6 => {
            if let Some(frame) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 40 }>() {
                frame[ETHERNET + 7] = frame[ETHERNET + 7].saturating_sub(1);
            }
        }
        _ => {
            if let Some(frame) = packet.data_mut().first_chunk_mut::<{ ETHERNET + 20 }>() {
                frame.last_chunk_mut().into_iter().for_each(ipv4::age);
            }
        }
    }
}

/// Writes the frame that leaves by an interface, and puts it with the others.
#[inline(always)]
fn send(
    mut packet: Packet,
    interface: InterfaceId,
    hops: &Hops<'_>,
    sent: &Sent,
    copies: &mut Batch,
    cx: &mut Context<'_>,
) {
    let source = Source::of(hops, interface);
    packet.output = interface;
    let sends = hops.interface(interface).flags().contains(SENDS);
    if !(sends && source.head(&mut packet, sent.neighbour(), sent.ether_type)) {
        return cx.drop(packet, Reason::PortDown);
    }
    if copies.room() == 0 {
        cx.emit_batch(OUT, copies);
    }
    if let Err(packet) = copies.push(packet) {
        cx.emit(OUT, packet);
    }
}

#[inline(always)]
fn copy_of(packet: &Packet) -> Option<Packet> {
    if packet.segment_count() > 1 {
        return packet.duplicate();
    }
    let mut copy = Packet::new(packet.data())?;
    copy.input = packet.input;
    copy.set_network(ETHERNET as isize);
    Some(copy)
}

/// Sends a packet by some of an entry's interfaces, the last of which gets the packet itself.
#[inline(always)]
fn replicate(
    mut packet: Packet,
    entry: &GroupEntry,
    mut out: u64,
    hops: &Hops<'_>,
    sent: &Sent,
    copies: &mut Batch,
    cx: &mut Context<'_>,
) {
    if out == 0 {
        return cx.drop(packet, Reason::Unwanted);
    }
    age(&mut packet, sent.ether_type);
    let mut room = pool::available().saturating_sub(RESERVE);
    while out & (out - 1) != 0 {
        let interface = entry.outputs[out.trailing_zeros() as usize].interface;
        out &= out - 1;
        match copy_of(&packet).filter(|_| room > 0) {
            Some(copy) => send(copy, interface, hops, sent, copies, cx),
            None => cx.count_missing(Reason::NoBuffer),
        }
        room = room.saturating_sub(1);
    }
    let last = entry.outputs[out.trailing_zeros() as usize].interface;
    send(packet, last, hops, sent, copies, cx);
}

impl Element for Multicast {
    fn class(&self) -> &'static str {
        "Multicast"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["out", "linux"]
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let Multicast { view, sources, reader, copies } = self;
        let groups = reader.groups();
        if groups.is_empty() {
            return cx.emit_batch(LINUX, batch);
        }
        let (now, hops) = (cx.now(), view.hops());
        // Packets of a stream come together: its entry is looked for, and counted for, once.
        let mut last = None;
        let mut run: Option<(&GroupEntry, [u64; 2])> = None;
        for mut packet in batch.drain() {
            let Some(sent) = Sent::read(&packet).filter(|sent| cut_to(&mut packet, sent.total)) else {
                cx.emit(LINUX, packet);
                continue;
            };
            let of = (sent.source, sent.group, packet.input);
            let entry = match last {
                Some((same, entry)) if same == of => entry,
                _ => entry(view, sources, groups, &sent, packet.input),
            };
            last = Some((of, entry));
            let way = match entry {
                Some(entry) if !entry.count.is_due(now) => way(&hops, entry, &sent),
                _ => Way::Linux,
            };
            let Way::Out(entry, out) = way else {
                cx.emit(LINUX, packet);
                continue;
            };
            let (packets, bytes) = (u64::from(out != 0), sent.total as u64 * u64::from(out != 0));
            match &mut run {
                Some((same, count)) if std::ptr::eq(*same, entry) => {
                    *count = [count[0] + packets, count[1] + bytes];
                }
                _ => {
                    let before = run.replace((entry, [packets, bytes]));
                    before.into_iter().for_each(|(entry, [packets, bytes])| entry.count.add(packets, bytes));
                }
            }
            replicate(packet, entry, out, &hops, &sent, copies, cx);
        }
        cx.emit_batch(OUT, copies);
        run.into_iter().for_each(|(entry, [packets, bytes])| entry.count.add(packets, bytes));
    }
}
