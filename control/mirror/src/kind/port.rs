//! Ports: what has queues, and no header beside Ethernet's. Recognised from the configuration,
//! which names it; how frames enter and leave by it is the business of its queues (`port::Queue`:
//! network cards, memif).

use super::{Around, Kind, Leg, NotOurs, Place};
use crate::model::{Link, Links};
use fib::Tags;

/// What is of no other kind: a network card, a veth, a TAP, or something that is Linux's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port;

/// Why such an interface stays with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("it has no Ethernet address")]
    Address,
    #[error("no [[port]] names it")]
    Unnamed,
}

impl Kind for Port {
    fn place<'a>(&self, link: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs> {
        if around.port(link).is_none() {
            return Err(if link.mac.is_none() { Why::Address } else { Why::Unnamed }.into());
        }
        let leg = Leg { port: link, receives: true, sends: true, tags: Tags::None };
        Ok(Place::on_ports(link, vec![leg], Tags::None))
    }
}

/// The names by which the configuration may mean an interface as a port: its own, and that of its
/// bond. None where it cannot be one.
pub fn port_names<'a>(link: &'a Link, links: &'a Links) -> impl Iterator<Item = &'a str> {
    let bond = links.bond_of(link);
    let can_be = matches!(link.is, super::Is::Port(_) | super::Is::Bridge(_));
    let names = [Some(link), bond].into_iter().flatten().filter(move |_| can_be);
    names.map(|named| named.name.as_str())
}

#[cfg(test)]
mod tests {
    use crate::kind::tests::{link, place};
    use crate::model::Link;
    use fib::Tags;
    use wire::Mac;

    #[test]
    fn a_port_is_what_the_configuration_names() {
        assert_eq!(place(&["e1"], &[link(1)]), Ok((1, vec![1], Tags::None)));
        assert_eq!(place(&["e2"], &[link(1)]), Err("it has no Ethernet address".to_owned()));
        let card = Link { mac: Some(Mac([2; 6])), ..link(1) };
        assert_eq!(place(&[], &[card]), Err("no [[port]] names it".to_owned()));
    }
}
