//! How a packet that opens a flow would be translated, and by which rules: asked of bindings that are only thought of.

use std::net::IpAddr;
use std::sync::Arc;

use fib::PortId;
use flow::Tuple;
use nat::{Destination, Nat, Refusal, Rule};
use wire::{Headers, ethernet};

use super::{Step, endpoint, step};

/// What translation there would be.
pub(super) struct Translation<'n> {
    pub nat: &'n Arc<Nat>,
    input: PortId,
    original: Tuple,
    aim: Result<Option<Destination>, Refusal>,
}

impl Translation<'_> {
    /// For a frame that came in by `input`.
    pub fn of<'n>(nat: &'n Arc<Nat>, input: PortId, frame: &[u8]) -> Option<Translation<'n>> {
        let headers = Headers::parse(frame.get(ethernet::HEADER..)?).ok()?;
        let original = Tuple::of(&headers, 0);
        Some(Translation { nat, input, original, aim: nat.destination(&original, input.0) })
    }

    /// Where it goes, if that is not where it says.
    pub fn aim(&self) -> Option<Destination> {
        self.aim.as_ref().ok().copied().flatten()
    }

    /// Tells where it goes, if that is not where it says; and gives the address.
    pub fn explain_destination(&self, rules: &[Rule], steps: &mut Vec<Step>) -> Option<IpAddr> {
        let aim = match &self.aim {
            Ok(aim) => (*aim)?,
            Err(refusal) => {
                step(steps, "translation", "none", &refusal.to_string());
                return None;
            }
        };
        let address = nat::address(&aim.address);
        step(
            steps,
            "translation",
            &format!("goes to {}", endpoint(aim.address, aim.port)),
            &by(rules, aim.rule()),
        );
        Some(address)
    }

    /// Tells where it seems to come from when it leaves by `output`, if that is not where it does.
    pub fn explain_source(&self, rules: &[Rule], output: PortId, steps: &mut Vec<Step>) {
        let Ok(aim) = &self.aim else { return };
        let ports = [self.input, output].map(|port| port.0.min(flow::NO_PORT));
        let binding = match self.nat.bind(&self.original, aim.as_ref(), ports, 0) {
            Ok(Some(binding)) => binding,
            Ok(None) => return,
            Err(refusal) => return step(steps, "translation", "none", &refusal.to_string()),
        };
        let (from, port) = (binding.reply.destination, binding.reply.destination_port);
        let (was, was_port) = (self.original.source, self.original.source_port);
        let given = if port == was_port { "" } else { "; which of its ports is known when a flow begins" };
        if from != was || port != was_port {
            let detail = by(rules, binding.rules[1]) + given;
            step(steps, "translation", &format!("comes from {}", endpoint(from, port)), &detail);
        }
    }
}

fn by(rules: &[Rule], number: Option<usize>) -> String {
    match number.and_then(|number| rules.get(number)) {
        Some(rule) => format!("rule {}: {}", rule.name, rule.action.name()),
        None => "announced in a control connection".to_owned(),
    }
}
