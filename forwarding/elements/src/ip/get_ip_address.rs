//! GetIPAddress: copies an IPv4 address from the packet into an annotation.
//!
//! Group: ip
//! Usage: `GetIPAddress(OFFSET [, ANNO, keyword IP])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Copies the four bytes at `OFFSET`, or an address of the marked IPv4 header, into an annotation,
//! usually that of the destination, which routing elements and [ARPQuerier] go by. In an IPv4
//! packet the destination stands at offset 16. A packet that is too short, or has no marked header,
//! is left as it is.
//!
//! - `OFFSET` (number of bytes): where the address is. Either this or `IP` is given.
//! - `ANNO` (annotation of four bytes): where it goes. Default `DST_IP`.
//! - `IP` (`src` or `dst`): takes this address of the marked IPv4 header.
//!
//! See also: [StoreIPAddress], [SetIPAddress], [StaticIPLookup], [ARPQuerier]

use graph::arguments::{AnnoWord, Arguments, Blame, Refused, Word, offset};
use graph::{Batch, Class, Context, Element, Setup};

/// See [`GetIpAddress`].
pub const CLASS: Class = Class {
    name: "GetIPAddress",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("get_ip_address.rs"),
    make,
};

/// Copies addresses into annotations.
pub struct GetIpAddress {
    from: From,
    anno: usize,
}

/// Where the address is.
#[derive(Clone, Copy)]
enum From {
    /// So many bytes behind the front.
    Front(usize),
    /// So many bytes behind the beginning of the marked network header.
    Network(usize),
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let at = args.optional::<i32>("OFFSET").and_then(|at| usize::try_from(at).ok());
    let anno = args.optional::<AnnoWord>("ANNO").map_or(offset::DST_IP, |anno| anno.offset);
    let ip = args.keyword::<Word>("IP");
    args.finish()?;
    let from = match (at, ip.as_ref().map(|Word(word)| word.as_str())) {
        (Some(at), None) => Ok(From::Front(at)),
        (None, Some("src")) => Ok(From::Network(12)),
        (None, Some("dst")) => Ok(From::Network(16)),
        (None, Some(_)) => Err("bad IP"),
        (Some(_), Some(_)) | (None, None) => Err("set one of OFFSET, IP"),
    };
    let from = from.map_err(|message| {
        args.wrong(Blame::Element, message);
        Refused
    })?;
    Ok(Box::new(GetIpAddress { from, anno }))
}

impl Element for GetIpAddress {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let (bytes, at) = match self.from {
                From::Front(at) => (packet.data(), at),
                From::Network(at) => (packet.network(), at),
            };
            if let Some(&address) = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
                packet.set_annotation(self.anno, address);
            }
        }
    }
}
