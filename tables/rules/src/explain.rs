//! The way of one packet through the filter, in words.

use std::fmt::Write;

use wire::Headers;

use crate::evaluate::{Decision, Outcome, Step};
use crate::language::name_of_reject;
use crate::matching::Context;
use crate::model::*;
use crate::moment::Now;

/// What a filter does with a packet, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decision; rates are taken to be kept, and nothing is logged or counted.
    pub decision: Decision,
    /// The chain and rule that decide, in a line: `dropped by rule web (filter.rules:12) of chain
    /// forward: drop tcp ...`.
    pub summary: String,
    /// Every step on the way, one a line, indented by jumps.
    pub steps: Vec<String>,
}

impl Outcome {
    /// What became of the packet: accepted, dropped, rejected.
    fn in_words(self) -> String {
        match self {
            Outcome::Accept => "accepted".to_owned(),
            Outcome::Drop => "dropped".to_owned(),
            Outcome::Reject(kind) => match name_of_reject(kind) {
                Some(kind) => format!("rejected with {kind}"),
                None => "rejected".to_owned(),
            },
        }
    }
}

/// The chain and rule that decide, in a line.
pub(crate) fn decided(filter: &Filter, hook: Hook, outcome: Outcome, rule: Option<RuleId>) -> String {
    let outcome = outcome.in_words();
    match rule.and_then(|id| filter.rule(id)) {
        Some((chain, rule)) => {
            let name = rule.name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            format!("{outcome} by rule {name}({}) of chain {}: {rule}", rule.place, chain.name)
        }
        None if filter.hook(hook).rules.is_empty() && outcome == "accepted" => {
            format!("{outcome}: chain {} has no rules", hook.name())
        }
        None => format!("{outcome} by the policy of chain {}", hook.name()),
    }
}

impl Filter {
    /// Tells the way of a packet through a hook. Nothing that rules remember is touched: a rate
    /// counts as kept to.
    pub fn explain(&self, hook: Hook, headers: &Headers, context: &Context, now: &Now) -> Explanation {
        let mut teller = Teller { filter: self, depth: 1, passed: 0, steps: Vec::new(), jumps: Vec::new() };
        teller.steps.push(format!("chain {}", hook.name()));
        let decision = self.walk(hook, headers, context, now, None, &mut |step| teller.tell(step));
        let mut summary = decided(self, hook, decision.outcome, decision.rule);
        if let Some(dscp) = decision.dscp {
            let _ = write!(summary, "; DSCP set to {dscp}");
        }
        if decision.mark != context.mark {
            let _ = write!(summary, "; marked {:#x}", decision.mark);
        }
        if decision.varies {
            summary.push_str("; other packets of the flow may fare otherwise");
        }
        Explanation { decision, summary, steps: teller.steps }
    }
}

struct Teller<'f> {
    filter: &'f Filter,
    depth: usize,
    /// Rules in a row that did not match.
    passed: usize,
    steps: Vec<String>,
    /// Chains that jumps led to and that have not ended.
    jumps: Vec<usize>,
}

impl Teller<'_> {
    fn line(&mut self, text: &str) {
        self.steps.push(format!("{}{text}", "  ".repeat(self.depth)));
    }

    fn tell_passed(&mut self) {
        match std::mem::take(&mut self.passed) {
            0 => {}
            1 => self.line("1 rule does not match"),
            n => self.line(&format!("{n} rules do not match")),
        }
    }

    fn tell(&mut self, step: Step) {
        match step {
            Step::Passed(_) => self.passed += 1,
            Step::Matched(id) => {
                self.tell_passed();
                let Some((_, rule)) = self.filter.rule(id) else { return };
                let remarks = rule.matches.remarks();
                let name = rule.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                let text = format!("{} {name}{rule}{remarks}", rule.place);
                self.line(&text);
                match &rule.verdict {
                    Some(Verdict::Jump { chain, number }) => {
                        let text = format!("chain {chain}");
                        self.line(&text);
                        self.jumps.push(*number);
                        self.depth += 1;
                    }
                    Some(Verdict::Return) => self.leave("return"),
                    _ => {}
                }
            }
            Step::Policed(_) => self.tell_passed(),
            Step::Ended(_) => {
                self.tell_passed();
                self.leave("end of the chain");
            }
        }
    }

    fn leave(&mut self, how: &str) {
        if self.jumps.pop().is_some() {
            self.line(how);
            self.depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: [u8; 4], port: u16) -> Headers {
        Headers {
            source: wire::headers::mapped(source),
            destination: wire::headers::mapped([192, 0, 2, 1]),
            version: 4,
            protocol: 6,
            source_port: 40_000,
            destination_port: port,
            ..Headers::default()
        }
    }

    #[test]
    fn names_rule_and_chain_and_the_way_there() {
        let text = "chain forward policy drop\n drop from 10.0.0.0/8\n drop gre\n mark 0x7 jump web to 192.0.2.0/24 port 80,443\n reject rate over 5pps\n\
            chain web\n drop from 172.16.0.0/12\n accept tcp state new name web-in\n";
        let filter =
            Filter::read("f", text, &mut |_| Err(std::io::ErrorKind::NotFound.into())).expect("a filter");
        let explain = |headers, state| {
            let context = Context { state, ..Context::default() };
            filter.explain(Hook::Forward, &headers, &context, &Now::default())
        };
        let told = explain(packet([198, 51, 100, 7], 443), FlowState::New);
        assert_eq!(
            told.summary,
            "accepted by rule web-in (f:8) of chain web: accept tcp state new; marked 0x7"
        );
        assert_eq!(
            told.steps,
            [
                "chain forward",
                "  2 rules do not match",
                "  f:4 mark 0x7 jump web to 192.0.2.0/24 port 80,443",
                "  chain web",
                "    1 rule does not match",
                "    f:8 web-in: accept tcp state new",
            ]
        );
        let told = explain(packet([198, 51, 100, 7], 443), FlowState::Established);
        assert_eq!(
            told.summary,
            "dropped by the policy of chain forward; marked 0x7; other packets of the flow may fare otherwise"
        );
        assert!(told.steps.contains(&"    end of the chain".to_owned()), "{:?}", told.steps);
        let told =
            filter.explain(Hook::Output, &packet([1, 1, 1, 1], 1), &Context::default(), &Now::default());
        assert_eq!(told.summary, "accepted: chain output has no rules");
    }
}
