//! SetIPAddress: sets the destination address annotation.
//!
//! Group: ip
//! Usage: `SetIPAddress(IPADDR [, keyword ANNO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Sets an annotation, usually that of the destination, to an address, the same for all packets:
//! for example that of a gateway, before [ARPQuerier].
//!
//! - `IPADDR` (address): the address.
//! - `ANNO` (annotation of four bytes): which one is set. Default `DST_IP`.
//!
//! Handlers:
//! - `addr` (read, write): `IPADDR`.
//! - `config` (read, write): its arguments.
//!
//! See also: [GetIPAddress], [StoreIPAddress]

use std::net::Ipv4Addr;

use graph::arguments::{AnnoWord, Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

/// See [`SetIpAddress`].
pub const CLASS: Class = Class {
    name: "SetIPAddress",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("set_ip_address.rs"),
    make,
};

/// Sets an address annotation.
pub struct SetIpAddress {
    address: Ipv4Addr,
    anno: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let address = args.mandatory("IPADDR");
    let anno = args.keyword::<AnnoWord>("ANNO").map_or(offset::DST_IP, |anno| anno.offset);
    args.finish()?;
    Ok(Box::new(SetIpAddress { address: address.ok_or(Refused)?, anno }))
}

impl Element for SetIpAddress {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            packet.set_annotation(self.anno, self.address.octets());
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("addr")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "addr" => Ok(self.address.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "addr" => self.address = cx.argument(value)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
