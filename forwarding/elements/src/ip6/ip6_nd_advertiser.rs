//! IP6NDAdvertiser: answers neighbour solicitations.
//!
//! Group: ip6
//! Usage: `IP6NDAdvertiser(IP6/LENGTH [IP6/LENGTH...] ETH, ...)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Expects neighbour solicitations with their Ethernet header. When somebody asks for an address
//! that one of the arguments covers, an advertisement with the Ethernet address of that argument
//! leaves, from a router (RFC 4861, 7.2.4); of several arguments the longest prefix counts. A host
//! that asks whether an address is still free (RFC 4862, 5.4) is answered by multicast. Everything
//! else, and what fails the tests of RFC 4861, 7.1.1, is dropped.
//!
//! - `IP6/LENGTH` (IPv6 address or prefix), one or more, and `ETH` (Ethernet address), between
//!   spaces
//!
//! ```click
//! c :: Classifier(12/86dd 54/87, 12/86dd 54/88, -);
//! c[0] -> IP6NDAdvertiser(2001:db8::1 fe80::1 2:0:0:0:0:1) -> Queue -> ToDevice(eth0);
//! ```
//!
//! See also: [IP6NDSolicitor], [ARPResponder]

use graph::arguments::{AddressOrPrefix6, Argument, Arguments, Prefix6, Refused, Scope};
use graph::language::split_words;
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::{Mac, Reason};

use super::neighbour;
use wire::neighbour::{ADVERTISEMENT, ALL_NODES, Message, ROUTER, SOLICITATION, SOLICITED, group_mac};

pub const CLASS: Class = Class {
    name: "IP6NDAdvertiser",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ip6_nd_advertiser.rs"),
    make,
};

struct Ip6NdAdvertiser {
    entries: Vec<(Prefix6, Mac)>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mut entries = Vec::new();
    for (number, piece) in args.rest().iter().enumerate() {
        match read(&piece.text, &args.scope()) {
            Ok(more) => entries.extend(more),
            Err(message) => args.wrong(piece, format!("argument {number} {message}")),
        }
    }
    args.finish()?;
    Ok(Box::new(Ip6NdAdvertiser { entries }))
}

/// What one argument says.
fn read(text: &str, scope: &Scope<'_>) -> Result<Vec<(Prefix6, Mac)>, String> {
    let (mut prefixes, mut mac) = (Vec::new(), None);
    for word in split_words(text) {
        if let Ok(AddressOrPrefix6(prefix)) = AddressOrPrefix6::parse(word, scope) {
            prefixes.push(prefix);
        } else if let Ok(address) = Mac::parse(word, scope) {
            if mac.replace(address).is_some() {
                return Err("has more than one Ethernet address".to_owned());
            }
        } else {
            return Err("should be `IP6/MASK ETHADDR'".to_owned());
        }
    }
    if prefixes.is_empty() {
        return Err("had no IP6 address and masks".to_owned());
    }
    let mac = mac.ok_or_else(|| "had no Ethernet address".to_owned())?;
    Ok(prefixes.into_iter().map(|prefix| (prefix, mac)).collect())
}

impl Ip6NdAdvertiser {
    fn answer(&self, packet: &Packet) -> Option<Packet> {
        let asked = Message::parse(packet.data()).filter(|message| message.kind == SOLICITATION)?;
        let covering = self.entries.iter().filter(|(prefix, _)| prefix.contains(asked.target));
        let (_, mac) = *covering.max_by_key(|(prefix, _)| prefix.length)?;
        let to_all = asked.from.is_unspecified();
        let answer = Message {
            from_mac: mac,
            to_mac: if to_all { group_mac(ALL_NODES) } else { asked.from_mac },
            from: asked.target,
            to: if to_all { ALL_NODES } else { asked.from },
            kind: ADVERTISEMENT,
            flags: if to_all { ROUTER } else { ROUTER | SOLICITED },
            target: asked.target,
            link: Some(mac),
        };
        let mut answer = neighbour::packet(&answer)?;
        answer.input = packet.input;
        Some(answer)
    }
}

impl Element for Ip6NdAdvertiser {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut others = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match self.answer(packet) {
                Some(answer) => *packet = answer,
                None => others |= 1 << index,
            }
        }
        batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
    }
}
