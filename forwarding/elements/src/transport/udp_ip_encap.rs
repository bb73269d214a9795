//! UDPIPEncap: makes packets the data of UDP datagrams.
//!
//! Group: transport
//! Usage: `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Puts an IPv4 header and a UDP header in front of every packet, marks them, and sets the
//! destination annotation. The time to live is 250; packets are numbered from 0.
//!
//! - `SRC` (IPv4 address): from whom
//! - `SPORT` (UDP port): from which port
//! - `DST` (IPv4 address, or `DST_ANNO`): to whom; `DST_ANNO`: to the address in the packet's
//!   destination annotation
//! - `DPORT` (UDP port): to which port
//! - `CHECKSUM` (boolean): whether datagrams have a checksum, which costs a look at all bytes.
//!   Default true.
//!
//! Handlers:
//! - `src`, `sport`, `dst`, `dport` (read, write): the arguments
//! - `config` (read, write): its arguments
//!
//! See also: [IPEncap], [ICMPIPEncap], [StripIPHeader], [CheckUDPHeader]

use std::net::Ipv4Addr;

use graph::arguments::{Arguments, Refused, UdpPort};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Reason, checksum, ipv4, protocol, udp};

use crate::basic::of_type;
use crate::ip::Destination;

/// See [`UdpIpEncap`].
pub const CLASS: Class = Class {
    name: "UDPIPEncap",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("udp_ip_encap.rs"),
    make,
};

const HEADERS: usize = ipv4::HEADER + udp::HEADER;
const TTL: u8 = 250;

const WRONG_DESTINATION: &str = "bad DST";

/// Makes datagrams.
struct UdpIpEncap {
    source: Ipv4Addr,
    source_port: UdpPort,
    destination: Destination,
    destination_port: UdpPort,
    checksum: bool,
    id: u16,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (source, source_port) = (args.mandatory("SRC"), args.mandatory("SPORT"));
    let destination =
        args.mandatory_with("DST", |text, scope| Destination::parse(text, scope, WRONG_DESTINATION));
    let destination_port = args.mandatory("DPORT");
    let checksum = args.optional("CHECKSUM").unwrap_or(true);
    args.finish()?;
    Ok(Box::new(UdpIpEncap {
        source: source.ok_or(Refused)?,
        source_port: source_port.ok_or(Refused)?,
        destination: destination.ok_or(Refused)?,
        destination_port: destination_port.ok_or(Refused)?,
        checksum,
        id: 0,
    }))
}

impl UdpIpEncap {
    /// False, and nothing done, when there is no room in front of the packet.
    fn encapsulate(&mut self, packet: &mut Packet) -> bool {
        let length = packet.total_len() + udp::HEADER;
        let Some(front) = packet.push(HEADERS).and_then(<[u8]>::first_chunk_mut::<HEADERS>) else {
            return false;
        };
        front[20..22].copy_from_slice(&self.source_port.0.to_be_bytes());
        front[22..24].copy_from_slice(&self.destination_port.0.to_be_bytes());
        front[24..26].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        front[26..28].fill(0);
        let destination = self.destination.of(packet);
        let header = ipv4::Repr { id: self.id, ttl: TTL, ..ipv4::Repr::new(self.source, destination) };
        self.id = self.id.wrapping_add(1);
        if let Some(front) = packet.data_mut().first_chunk_mut::<{ ipv4::HEADER }>() {
            *front = header.header(length);
        }
        if self.checksum {
            let (source, length) = (self.source.into(), length as u16);
            let pseudo = checksum::pseudo4(source, destination.into(), protocol::UDP, length);
            let datagram = packet.data().get(ipv4::HEADER..).unwrap_or_default();
            let sum = pseudo.with_parts(std::iter::once(datagram).chain(packet.segments().skip(1)));
            let sum = udp::stated(sum.finish());
            if let Some(place) = packet.data_mut().get_mut(26..28) {
                place.copy_from_slice(&sum.to_be_bytes());
            }
        }
        packet.set_network(0);
        packet.set_transport(Some(ipv4::HEADER as isize));
        true
    }
}

impl Element for UdpIpEncap {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.encapsulate(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("src").replacing(Some(0), "SRC"),
            Handler::read("sport").replacing(Some(1), "SPORT"),
            Handler::read("dst").replacing(Some(2), "DST"),
            Handler::read("dport").replacing(Some(3), "DPORT"),
        ]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match (handler, self.destination) {
            ("src", _) => Ok(self.source.to_string()),
            ("sport", _) => Ok(self.source_port.0.to_string()),
            ("dst", Destination::Address(address)) => Ok(address.to_string()),
            ("dst", Destination::Annotation) => Ok(Ipv4Addr::UNSPECIFIED.to_string()),
            ("dport", _) => Ok(self.destination_port.0.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn take_state(&mut self, old: Box<dyn Element>) {
        if let Some(old) = of_type::<UdpIpEncap>(old) {
            self.id = old.id;
        }
    }
}
