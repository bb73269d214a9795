//! Addresses that ports lease to masqueraded flows, and flows that have lost theirs.
//!
//! A flow keeps what it has been given, but nobody answers to an address that its port has no more
//! (another lease, a line that was dialled anew), nor by another line than the one whose address it
//! is (a second uplink takes over). A host that goes on sending, as telephones and tunnels do,
//! would keep such a flow for ever and never be heard. So it ends, as in Linux, and its next packet
//! begins another.

use flow::Tuple;

use crate::addresses::octets;
use crate::compiled::{Port, Ruleset};
use crate::mapping::Endpoint;
use crate::nat::Nat;
use crate::rule::Action;
use crate::space::Class;

impl Port {
    fn owns(&self, address: &[u8; 16]) -> bool {
        self.addresses.iter().any(|own| octets(*own) == *address)
    }
}

impl Ruleset {
    /// Whether a port had an address before that it has no more.
    pub(crate) fn has_withdrawn(&self, before: &Ruleset) -> bool {
        before.ports.iter().any(|old| {
            let now = self.port(old.number);
            old.addresses.iter().any(|address| !now.is_some_and(|port| port.addresses.contains(address)))
        })
    }
}

impl Nat {
    /// Whether a flow was leased the address that it leaves with, and that is the address of no
    /// port any more, or not of the one that it leaves by now. `output`: the port that it left by
    /// when it began, and now.
    pub fn has_lost(&self, original: &Tuple, leaving: &Tuple, input: u16, output: [u16; 2]) -> bool {
        let set = self.ruleset();
        let [began, now] = output;
        let owned = match began == now {
            // By an inside port leaves what goes back to a host inside, with the address of an
            // outside one.
            true => set.ports.iter().any(|port| port.owns(&leaving.source)),
            false => set.port(now).is_some_and(|port| port.owns(&leaving.source)),
        };
        !owned && leaving.source != original.source && self.is_leased(&set, original, leaving, [input, began])
    }

    /// Whether masquerading gave it the address that it leaves with.
    fn is_leased(&self, set: &Ruleset, original: &Tuple, leaving: &Tuple, [input, output]: [u16; 2]) -> bool {
        let outside = Endpoint { address: leaving.source, port: leaving.source_port };
        let mapping = Class::of(leaving.protocol).and_then(|class| self.mappings().behind(&outside, class));
        if let Some(mapping) = mapping {
            return mapping.inside.scope.leased != 0;
        }
        // Of what has no ports nobody keeps a book, and of what lived before a restart none is left
        // if no port had the address any more. It is known by what would be done to it now.
        let inside = Tuple { source: original.source, ..*leaving };
        let mut rules = set.rules.iter().filter(|compiled| {
            !matches!(compiled.rule.action, Action::Destination { .. } | Action::Nat64 { .. })
                && compiled.output.has(output)
                && compiled.input.has(input)
                && compiled.takes(&inside)
        });
        rules.next().is_some_and(|compiled| matches!(compiled.rule.action, Action::Masquerade(_)))
    }
}
