//! Linux's routing rules, given to the workers: those that the mirror can follow, with the plane's
//! tables and interfaces for Linux's.
//!
//! What marks the router's own filter sets is not told to rules. So where it sets some, a family
//! with a rule that asks for a mark is Linux's.

use std::net::IpAddr;
use std::sync::Arc;

use config::Foreign as Wish;
use elements::router::steer;
use fib::{InterfaceId, TableId};
use mirror::{Act, Beyond, Mirror, Reach, Rule, RuleList};
use rules::{Action, RoutingRule, RoutingRules, Seen, Selector, Span};
use wire::ethernet;

use super::explain::step;
use super::forwarding::Forwarding;
use crate::control::status::Step;

/// Why a rule is left, and with it its family.
const MARKED: &str = "marks, which the router's own filter may set";

/// What the workers were given.
#[derive(Default)]
pub(crate) struct Steering {
    given: [Vec<RoutingRule>; 2],
    /// Which packets rules choose the table of.
    pub(crate) concerns: Reach,
}

impl Steering {
    /// Gives the workers the rules that Linux has now. What cannot be followed is added to what is
    /// left. True: ports are to be told, for other packets are concerned.
    pub fn follow(&mut self, beyond: &mut Beyond, forwarding: &Forwarding, wish: Wish) -> bool {
        let Forwarding { plane, mirror, .. } = forwarding;
        let filter = &plane.policy().settings().filter;
        let marks = filter.rules().any(|(_, rule)| rule.effects.mark.is_some());
        let (mut lists, mut concerns) = ([Vec::new(), Vec::new()], Reach::default());
        for (n, ((list, rules), given)) in beyond.followed.iter().zip(&mut lists).zip(&self.given).enumerate()
        {
            let marked = marks && !list.marked.is_empty();
            if list.rules.is_empty() && !marked || wish == Wish::Ignore {
                continue;
            }
            // What is left from now on is not before ports are told: until then all is as before.
            rules.clone_from(given);
            if marked {
                beyond.rules.extend(list.marked.iter().map(|rule| format!("{rule} ({MARKED})")));
                beyond.ruled.add([n == 0, n == 1], &[]);
                continue;
            }
            match compile(list, mirror, &plane.interface_names().collect::<Vec<_>>()) {
                Some(compiled) => {
                    *rules = compiled;
                    concerns = concerns.or(&list.concerns);
                }
                // Until the tables have been read; or there is no room for them.
                None => beyond.ruled = beyond.ruled.clone().or(&list.concerns),
            }
        }
        if lists != self.given {
            let [four, six] = &lists;
            plane.steering().change([
                Arc::new(RoutingRules::new(false, four.clone())),
                Arc::new(RoutingRules::new(true, six.clone())),
            ]);
            self.given = lists;
        }
        std::mem::replace(&mut self.concerns, concerns) != self.concerns
    }
}

/// The rules with the plane's tables and interfaces; `None` where a table is not known.
fn compile(list: &RuleList, mirror: &Mirror, names: &[(&str, InterfaceId)]) -> Option<Vec<RoutingRule>> {
    list.rules
        .iter()
        .map(|rule| Some(RoutingRule { selector: selector(rule, names), action: action(rule, mirror)? }))
        .collect()
}

fn action(rule: &Rule, mirror: &Mirror) -> Option<Action> {
    Some(match rule.act {
        Act::Look { table, no_default } => {
            Action::Look { table: mirror.table_of_rule(table)?.0, longer: no_default.then_some(0) }
        }
        Act::GoTo(place) => Action::GoTo(place),
        Act::Refuse => Action::Refuse,
    })
}

fn selector(rule: &Rule, names: &[(&str, InterfaceId)]) -> Selector {
    let Rule { not, from, to, protocol, dscp, .. } = *rule;
    let inputs = rule.input.as_ref().map(|input| {
        let known = names.iter().filter(|(name, _)| name == input);
        known.map(|(_, id)| id.0).collect()
    });
    let ports = rule.ports.map(|ports| ports.map(|(first, last)| Span { first, last }));
    Selector { not, from, to, inputs, protocol, ports, dscp }
}

impl Forwarding {
    /// Which routing rules a frame matches that comes in by an interface and is bound for an
    /// address (and port, if it is translated) of its family, and the table of the one that
    /// decides; `None` where no rule chooses it.
    pub(super) fn explain_rules(
        &self,
        input: InterfaceId,
        frame: &[u8],
        (destination, port): (IpAddr, Option<u16>),
        steps: &mut Vec<Step>,
    ) -> Option<TableId> {
        let view = self.tables.view();
        if view.hops().link(input).table() != TableId::BY_RULES {
            return None;
        }
        let family = usize::from(destination.is_ipv6());
        let rules = &self.plane.steering().lists()[family];
        let seen = Seen::read(frame.get(ethernet::HEADER..)?, input.0)?.bound_for(destination, port);
        let followed = &self.mirror.beyond().followed[family].rules;
        let mut table = None;
        let found = steer::route(&view, rules, rules.first(0, &seen), &seen, destination, |at, decides| {
            let words = followed.get(at).map_or("", |rule| rule.words.as_str());
            let look = match rules.rules().get(at).map(|rule| rule.action) {
                Some(Action::Look { table, .. }) => Some(TableId(table)),
                _ => None,
            };
            table = look;
            let detail = match (decides, look) {
                (true, Some(_)) => "it decides",
                (true, None) => "it refuses: Linux says how",
                (false, Some(_)) => "its table has no route that counts: on to the next rule",
                (false, None) => "on to the rule that it names",
            };
            step(steps, "routing rule", words, detail);
        });
        if found.is_none() && !rules.is_empty() {
            step(steps, "routing rule", "none decides", "Linux has it");
        }
        table.filter(|_| found.is_some())
    }
}
