//! ARPResponder: answers ARP requests.
//!
//! Group: ethernet
//! Usage: `ARPResponder(IP/MASK [IP/MASK...] ETH, ...)`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! Expects ARP requests with their Ethernet header. When somebody asks for an address that one of
//! the arguments covers, the answer, with the Ethernet address of that argument, leaves by output
//! 0; of several arguments the most specific counts. Everything else leaves by output 1 if that is
//! connected. Besides a router's own addresses it can answer for whole networks that the router
//! stands in for (proxy ARP).
//!
//! Answers go out by the port that the request came in by: they have its input port and VLAN
//! annotation.
//!
//! - `IP/MASK` (IPv4 address or prefix), one or more, and `ETH` (Ethernet address), in any order
//!   between spaces. A name of [AddressInfo] may stand for both an address and an Ethernet address.
//!
//! Handlers:
//! - `table` (read): what is answered, a prefix and an Ethernet address a line
//! - `lookup` (read with an IPv4 address): the Ethernet address that is answered for it, or nothing
//! - `add` (write `IP/MASK [IP/MASK...] ETH`): answers for these too
//! - `remove` (write `IP/MASK`): answers for this no more
//! - `config` (read, write): the arguments; what is written replaces what is answered
//!
//! ```click
//! FromDevice(eth0) -> c :: Classifier(12/0806 20/0001, -);
//! c[0] -> ARPResponder(10.0.0.1 10.9.0.0/16 2:0:0:0:0:1) -> Queue -> ToDevice(eth0);
//! ```
//!
//! See also: [ARPQuerier], [ARPFaker], [AddressInfo]

use std::net::Ipv4Addr;

use graph::arguments::{AddressOrPrefix4, Argument, Arguments, Prefix4, Refused, Scope, offset, unparse};
use graph::language::split_words;
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::{Mac, Reason, arp};

pub const CLASS: Class = Class {
    name: "ARPResponder",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("arp_responder.rs"),
    make,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Without bits outside the mask.
    prefix: Prefix4,
    mac: Mac,
}

/// What one argument says.
struct Entries(Vec<Entry>);

impl Argument for Entries {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Entries, String> {
        let (words, mut prefixes, mut mac) = (split_words(text), Vec::new(), None);
        for word in &words {
            if let Ok(AddressOrPrefix4(prefix)) = AddressOrPrefix4::parse(word, scope) {
                prefixes.push(Prefix4 { address: prefix.network(), ..prefix });
            } else if let Ok(address) = Mac::parse(word, scope) {
                if mac.replace(address).is_some() {
                    return Err("more than one ETH".to_owned());
                }
            } else {
                return Err("expected IP/MASK ETH".to_owned());
            }
        }
        if prefixes.is_empty() {
            return Err("missing IP/MASK".to_owned());
        }
        // A name may stand for both kinds of address.
        let named = || words.iter().find_map(|word| Mac::parse(word, scope).ok());
        let mac = mac.or_else(named).ok_or_else(|| "missing ETH".to_owned())?;
        Ok(Entries(prefixes.into_iter().map(|prefix| Entry { prefix, mac }).collect()))
    }
}

/// In the order that they are tried: whatever lies inside another comes before it.
#[derive(Default)]
struct ArpResponder {
    entries: Vec<Entry>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mut responder = ArpResponder::default();
    for (number, piece) in args.rest().iter().enumerate() {
        match Entries::parse(&piece.text, &args.scope()) {
            Err(message) => args.wrong(piece, format!("argument {number}: {message}")),
            Ok(Entries(entries)) => {
                for entry in entries {
                    if responder.add(entry) {
                        args.strange(piece, format!("multiple entries for {}", entry.prefix));
                    }
                }
            }
        }
    }
    args.finish()?;
    Ok(Box::new(responder))
}

impl ArpResponder {
    /// Adds an entry; true when it takes the place of another.
    fn add(&mut self, entry: Entry) -> bool {
        if let Some(same) = self.entries.iter_mut().find(|other| other.prefix == entry.prefix) {
            same.mac = entry.mac;
            return true;
        }
        let wider = |other: &Entry| {
            other.prefix.mask & entry.prefix.mask == other.prefix.mask
                && other.prefix.contains(entry.prefix.address)
        };
        let place = self.entries.iter().position(wider).unwrap_or(self.entries.len());
        self.entries.insert(place, entry);
        false
    }

    fn lookup(&self, address: Ipv4Addr) -> Option<Mac> {
        self.entries.iter().find(|entry| entry.prefix.contains(address)).map(|entry| entry.mac)
    }

    fn answer(&self, packet: &Packet) -> Option<Packet> {
        let request = super::arp::message(packet.data()).filter(|arp| arp.operation == arp::REQUEST)?;
        let reply = arp::Repr {
            operation: arp::REPLY,
            sender_mac: self.lookup(request.target)?,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        };
        let mut answer = super::arp::frame(request.sender_mac, &reply)?;
        answer.input = packet.input;
        let vlan = packet.annotation::<2>(offset::VLAN_TCI);
        answer.set_annotation(offset::VLAN_TCI, vlan);
        Some(answer)
    }
}

impl Element for ArpResponder {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut others = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            match self.answer(packet) {
                Some(answer) => *packet = answer,
                None => others |= 1 << index,
            }
        }
        if others != 0 && cx.has_output(1) {
            cx.emit_some(1, batch, others);
        } else {
            batch.take(others, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![
            Handler::read("table"),
            Handler::read("lookup").with_argument(),
            Handler::write("add"),
            Handler::write("remove"),
        ]
    }

    fn read(&mut self, handler: &str, argument: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "table" => {
                let line = |entry: &Entry| format!("{} {}\n", entry.prefix, unparse::ethernet(entry.mac));
                Ok(self.entries.iter().map(line).collect())
            }
            "lookup" => {
                let address =
                    cx.argument(argument).map_err(|_| HandlerError::refused("expected IP address"))?;
                Ok(self.lookup(address).map_or(String::new(), unparse::ethernet))
            }
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "add" => {
                let Entries(entries) = cx.argument(value)?;
                for entry in entries {
                    self.add(entry);
                }
            }
            "remove" => {
                let AddressOrPrefix4(prefix) =
                    cx.argument(value).map_err(|_| HandlerError::refused("expected IP/MASK"))?;
                let prefix = Prefix4 { address: prefix.network(), ..prefix };
                let place = self.entries.iter().position(|entry| entry.prefix == prefix);
                let place = place.ok_or_else(|| HandlerError::refused(format!("{prefix} not found")))?;
                self.entries.remove(place);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::arguments::Names;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_prefix_answers(prefixes in proptest::collection::vec((0u32..64, 26u32..=32), 1..20), asked in 0u32..64) {
            let mut responder = ArpResponder::default();
            for (number, (address, length)) in prefixes.iter().enumerate() {
                let prefix = Prefix4::new(Ipv4Addr::from(*address), *length);
                let prefix = Prefix4 { address: prefix.network(), ..prefix };
                responder.add(Entry { prefix, mac: Mac::from_u64(number as u64) });
            }
            let asked = Ipv4Addr::from(asked);
            // The longest; of equal ones the last.
            let expected = prefixes.iter().enumerate()
                .filter(|(_, (address, length))| Prefix4::new(Ipv4Addr::from(*address), *length).contains(asked))
                .max_by_key(|(number, (_, length))| (*length, *number))
                .map(|(number, _)| Mac::from_u64(number as u64));
            prop_assert_eq!(responder.lookup(asked), expected);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-f:./ -]{0,40}") {
            let _ = Entries::parse(&text, &Scope::new(&Names::new(), ""));
        }
    }
}
