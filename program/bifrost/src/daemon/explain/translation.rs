//! How a packet is translated, and by which rules: as the flow that it belongs to, or, of one that
//! opens a flow, asked of bindings that are only thought of.

use std::sync::Arc;

use fib::InterfaceId;
use flow::Tuple;
use nat::{Destination, Nat, Refusal, Rule};
use plane::FlowSnapshot;

use super::{Step, endpoint, step};

/// What translation there is or would be.
pub(super) struct Translation<'n> {
    pub nat: Option<&'n Arc<Nat>>,
    pub flow: Option<FlowSnapshot>,
    input: InterfaceId,
    original: Tuple,
    aim: Result<Option<Destination>, Refusal>,
}

impl Translation<'_> {
    /// Whether the destination of its flow is translated.
    pub fn has_dnat(&self) -> bool {
        match (&self.flow, &self.aim) {
            (Some(flow), _) => flow.has_dnat(),
            (None, Ok(Some(aim))) => {
                (aim.address, aim.port) != (self.original.destination, self.original.destination_port)
            }
            (None, _) => false,
        }
    }

    /// For a packet that came in by `input`, of a flow that is known or of none.
    pub fn of(
        nat: Option<&Arc<Nat>>,
        input: InterfaceId,
        original: Tuple,
        flow: Option<FlowSnapshot>,
    ) -> Translation<'_> {
        let opens = nat.filter(|_| flow.is_none());
        let aim = opens.map_or(Ok(None), |nat| nat.destination(&original, input.0));
        Translation { nat, flow, input, original, aim }
    }

    /// Tells where it goes, if that is not where it says; and gives address and port.
    pub fn explain_destination(&self, rules: &[Rule], steps: &mut Vec<Step>) -> Option<([u8; 16], u16)> {
        let (to, why) = match (&self.flow, &self.aim) {
            (Some(flow), _) => {
                let leaving = flow.leaving();
                let to = (leaving.destination, leaving.destination_port);
                if to == (self.original.destination, self.original.destination_port) {
                    return None;
                }
                (to, OF_ITS_FLOW.to_owned())
            }
            (None, Ok(aim)) => {
                let aim = (*aim)?;
                ((aim.address, aim.port), by(rules, aim.rule()))
            }
            (None, Err(refusal)) => {
                step(steps, "translation", "none", &refusal.to_string());
                return None;
            }
        };
        step(steps, "translation", &format!("goes to {}", endpoint(to.0, to.1)), &why);
        Some(to)
    }

    /// Tells where it seems to come from when it leaves by `output`, if that is not where it does.
    pub fn explain_source(&self, rules: &[Rule], output: InterfaceId, steps: &mut Vec<Step>) {
        let was = (self.original.source, self.original.source_port);
        let (from, why) = match (&self.flow, self.nat, &self.aim) {
            (Some(flow), ..) => {
                let leaving = flow.leaving();
                ((leaving.source, leaving.source_port), OF_ITS_FLOW.to_owned())
            }
            (None, Some(nat), Ok(aim)) => {
                let ports = [self.input, output].map(|port| port.0.min(flow::NO_PORT));
                let binding = match nat.bind(&self.original, aim.as_ref(), ports, 0) {
                    Ok(Some(binding)) => binding,
                    Ok(None) => return,
                    Err(refusal) => return step(steps, "translation", "none", &refusal.to_string()),
                };
                let (from, port) = (binding.reply.destination, binding.reply.destination_port);
                let given =
                    if port == was.1 { "" } else { "; which of its ports is known when a flow begins" };
                // Who comes from the other family gets its address there by the rule of the mapping
                // that it calls.
                ((from, port), by(rules, binding.rules[1].or(binding.rules[0])) + given)
            }
            _ => return,
        };
        if from != was {
            step(steps, "translation", &format!("comes from {}", endpoint(from.0, from.1)), &why);
        }
    }
}

/// Why a packet is translated so that does not open its flow.
const OF_ITS_FLOW: &str = "as its flow has been since it began";

fn by(rules: &[Rule], number: Option<usize>) -> String {
    match number.and_then(|number| rules.get(number)) {
        Some(rule) => format!("rule {}: {}", rule.name, rule.action.name()),
        None => "announced in a control connection".to_owned(),
    }
}
