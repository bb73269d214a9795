//! Linux's translation of addresses: base chains of the type `nat`, as rules of the plane's.
//!
//! The plane has one list of rules, of which the first that matches decides; nftables has chains
//! that lead to others. So chains are written out: what is asked for before a jump is asked for by
//! each rule behind it, and what leaves a chain early (`return`, `goto`) is taken out of what the
//! rest of that chain is for. What a base chain lets pass (`accept`) becomes an exemption.
//!
//! Only a connection's first packet comes to these chains, in Linux as in the plane. So what they
//! ask of the state of connections needs no answer but that it is new.

use nat::Action;
use rules::{FlowState, Match};
use serde_json::Value;

use crate::condition::{self, Sets};
use crate::field::{self, Field, Operator};
use crate::into_nat;
use crate::ruleset::{self, Base, Key, Rule, Ruleset, of_table};
use crate::statement::{self, Decides, Statement};
use crate::target;
use crate::translate::{DEEPEST, families, name};
use crate::value;
use crate::{Problem, Why};

/// What becomes of the first packets of some connections.
pub(crate) struct Piece {
    /// The base chain that they came to: its number.
    pub base: usize,
    pub chain: Key,
    pub handle: u64,
    pub of: Packets,
    /// `None`: they stay as they are.
    pub action: Option<Action>,
}

/// Which packets.
#[derive(Clone, Default)]
pub(crate) struct Packets {
    /// Those that one of these matches.
    pub of: Vec<Match>,
    /// Those alone that are to one of the router's own addresses.
    pub own: bool,
}

/// What a rule asks for.
#[derive(Clone)]
enum Asked {
    Of(Vec<Field>, Operator, Value),
    /// One element of several.
    Element(Vec<Field>, Value),
    Own,
}

impl Asked {
    /// What it asks for besides, before it.
    fn in_parts(&self) -> Vec<Asked> {
        let fields: &[Field] = match self {
            Asked::Of(fields, ..) | Asked::Element(fields, _) => fields,
            Asked::Own => &[],
        };
        let implied = fields.iter().flat_map(Field::implies);
        let implied = implied.map(|(field, value)| Asked::Of(vec![field], Operator::Is, value));
        implied.chain([self.clone()]).collect()
    }
}

/// What base chains for translation say: rules, and why not.
#[derive(Default)]
pub(crate) struct Translation {
    pub rules: Vec<nat::Rule>,
    pub problems: Vec<Problem>,
}

/// Translates base chains of the type `nat`, for these families.
pub(crate) fn read(ruleset: &Ruleset, bases: &[(&ruleset::Chain, &Base)], adopted: [bool; 2]) -> Translation {
    let mut found = Translation::default();
    for hook in ["prerouting", "postrouting"] {
        let here = bases.iter().enumerate().filter(|(_, (_, base))| base.hook == hook);
        let mut walk = Walk::new(ruleset, adopted);
        for (n, (chain, base)) in here {
            walk.base = n;
            walk.base_chain(chain, base);
        }
        found.problems.append(&mut walk.problems);
        into_nat::write(&mut found, walk.pieces, bases, adopted);
    }
    found
}

/// Reads chains.
struct Walk<'r> {
    ruleset: &'r Ruleset,
    base: usize,
    adopted: [bool; 2],
    pieces: Vec<Piece>,
    /// How many rules these stand for.
    rules: usize,
    /// How many chains were read, as often as they are come to.
    visits: usize,
    problems: Vec<Problem>,
}

/// Chains that are read at most, as often as they are come to: jumps may multiply.
const MOST_VISITS: usize = 10_000;

impl<'r> Walk<'r> {
    fn new(ruleset: &'r Ruleset, adopted: [bool; 2]) -> Walk<'r> {
        Walk { ruleset, base: 0, adopted, pieces: Vec::new(), rules: 0, visits: 0, problems: Vec::new() }
    }

    fn base_chain(&mut self, chain: &ruleset::Chain, base: &Base) {
        let families = families(&chain.key);
        let seen = [families[0] && self.adopted[0], families[1] && self.adopted[1]];
        let family = match seen {
            [true, true] => None,
            [true, false] => Some(rules::Family::Ipv4),
            [false, true] => Some(rules::Family::Ipv6),
            [false, false] => return,
        };
        if base.drops {
            self.problems.push(Problem {
                families: seen,
                chain: name(&chain.key),
                handle: None,
                why: "it drops in a chain that translates".to_owned(),
            });
        }
        let all = Packets { of: vec![Match { family, ..Match::default() }], own: false };
        self.chain(&chain.key, all, 0);
        if self.visits > MOST_VISITS || self.rules > into_nat::MOST {
            let why = format!("it stands for more than {} rules", into_nat::MOST);
            let chain = name(&chain.key);
            self.problems.push(Problem { families: seen, chain, handle: None, why });
        }
    }

    /// Reads a chain that these packets come to.
    fn chain(&mut self, key: &Key, mut left: Packets, depth: usize) {
        let Some(chain) = self.ruleset.chain(key) else { return };
        self.visits += 1;
        if self.visits > MOST_VISITS {
            return;
        }
        for rule in &chain.rules {
            if left.of.is_empty() {
                return;
            }
            let mut met = left.clone();
            if let Err(why) = self.rule(key, rule, &mut met, &mut left, depth) {
                let possible = |n: usize| met.of.iter().any(|of| of.possible_in(rules::Family::BOTH[n]));
                let families = [0, 1].map(|n| self.adopted[n] && possible(n));
                let (chain, handle) = (name(key), Some(rule.handle));
                self.problems.push(Problem { families, chain, handle, why });
            }
        }
    }

    /// Reads a rule: `met` are the packets that meet what it asks for, `left` those that come to
    /// the next one.
    fn rule(
        &mut self,
        key: &Key,
        rule: &Rule,
        met: &mut Packets,
        left: &mut Packets,
        depth: usize,
    ) -> Result<(), Why> {
        let mut asked = Vec::new();
        for (n, statement) in rule.statements.iter().enumerate() {
            if met.of.is_empty() {
                return Ok(());
            }
            let is_last = n + 1 == rule.statements.len();
            if let Some(choices) = target::read(statement, self.ruleset, key)? {
                if !is_last {
                    return Err("what stands behind its verdict".to_owned());
                }
                for choice in choices {
                    let mut of = met.clone();
                    if let Some((fields, value)) = choice.only {
                        narrow(&mut of, &Asked::Element(fields, value))?;
                    }
                    self.piece(key, rule, of, Some(choice.action));
                }
                return Ok(());
            }
            match statement::read(statement)? {
                Statement::Match(about) => {
                    let condition = self.asked(key, about)?;
                    narrow(met, &condition)?;
                    asked.push(condition);
                }
                Statement::Map { key: of, data } => {
                    let fields = field::fields(of)?;
                    for pair in self.ruleset.elements(key, data)? {
                        let Some([value, verdict]) = pair.as_array().map(Vec::as_slice) else {
                            return Err("a map of something else than verdicts".to_owned());
                        };
                        if value.as_str() == Some("*") {
                            return Err("a map with a verdict for all the rest".to_owned());
                        }
                        let element = Asked::Element(fields.clone(), value::bare(value).clone());
                        let mut of = met.clone();
                        narrow(&mut of, &element)?;
                        asked.push(element);
                        self.decide(key, rule, statement::verdict(verdict)?, of, (&asked, left), depth)?;
                        asked.pop();
                    }
                    return if is_last { Ok(()) } else { Err("what stands behind its verdict".to_owned()) };
                }
                Statement::Nothing => {}
                Statement::Limit { .. } => return Err("a limit on what is translated".to_owned()),
                Statement::Log { .. } => return Err("a line in the log of what is translated".to_owned()),
                Statement::Mark(_) | Statement::Dscp { .. } => {
                    return Err("it changes packets in a chain that translates".to_owned());
                }
                Statement::Verdict(decides) => {
                    return self.decide(key, rule, decides, met.clone(), (&asked, left), depth);
                }
            }
        }
        Ok(())
    }

    fn decide(
        &mut self,
        key: &Key,
        rule: &Rule,
        decides: Decides<'_>,
        met: Packets,
        (asked, left): (&[Asked], &mut Packets),
        depth: usize,
    ) -> Result<(), Why> {
        match decides {
            Decides::Continue => return Ok(()),
            Decides::Drop | Decides::Reject(..) => {
                return Err("it drops in a chain that translates".to_owned());
            }
            Decides::Jump(target) | Decides::Goto(target) => {
                if depth == DEEPEST {
                    return Err(format!("jumps that are nested more than {DEEPEST} deep"));
                }
                self.chain(&of_table(key, target), met.clone(), depth + 1);
            }
            Decides::Accept | Decides::Return => {}
        }
        match decides {
            Decides::Jump(_) => Ok(()),
            // Behind a base chain is its policy.
            Decides::Return | Decides::Goto(_) if depth > 0 => {
                *left = without(left, asked)?;
                Ok(())
            }
            _ => {
                self.piece(key, rule, met, None);
                Ok(())
            }
        }
    }

    fn piece(&mut self, key: &Key, rule: &Rule, of: Packets, action: Option<Action>) {
        self.rules += of.of.len();
        if self.rules <= into_nat::MOST {
            let (base, chain, handle) = (self.base, key.clone(), rule.handle);
            self.pieces.push(Piece { base, chain, handle, of, action });
        }
    }

    fn asked(&self, key: &Key, about: &Value) -> Result<Asked, Why> {
        let operator = Operator::read(about["op"].as_str().unwrap_or("=="))?;
        let fib = &about["left"]["fib"];
        let local = about["right"] == "local" || about["right"] == u64::from(RTN_LOCAL);
        if fib["result"] == "type" && fib["flags"] == serde_json::json!(["daddr"]) && local {
            return match operator {
                Operator::Is => Ok(Asked::Own),
                _ => Err("it asks for what is not to the router itself".to_owned()),
            };
        }
        let right = match about["right"].as_str().and_then(|text| text.strip_prefix('@')) {
            Some(_) => serde_json::json!({ "set": self.ruleset.elements(key, &about["right"])? }),
            None => about["right"].clone(),
        };
        Ok(Asked::Of(field::fields(&about["left"])?, operator, right))
    }
}

/// Sets have been put in the place of their names.
pub(crate) struct NoNames;

impl Sets for NoNames {
    fn address(&mut self, name: &str) -> Result<rules::Address, Why> {
        Err(format!("the set {name}"))
    }

    fn elements(&self, name: &str) -> Result<Vec<Value>, Why> {
        Err(format!("the set {name}"))
    }
}

/// Leaves of packets those that meet a condition.
fn narrow(packets: &mut Packets, asked: &Asked) -> Result<(), Why> {
    match asked {
        Asked::Own => packets.own = true,
        Asked::Of(fields, operator, right) => {
            condition::narrow(&mut packets.of, fields, *operator, right, &mut NoNames)?;
        }
        Asked::Element(fields, value) => {
            condition::element(&mut packets.of, fields, value, &mut NoNames)?;
        }
    }
    // A packet that comes to these chains is its connection's first.
    let new = FlowState::New as u8;
    packets.of.retain_mut(|of| of.states.take().is_none_or(|states| states & new != 0));
    Ok(())
}

/// Packets but those that meet all conditions.
fn without(packets: &Packets, asked: &[Asked]) -> Result<Packets, Why> {
    let (mut rest, mut met) = (Vec::new(), packets.clone());
    for condition in asked.iter().flat_map(Asked::in_parts) {
        let condition = &condition;
        let (fields, operator, value) = match condition {
            Asked::Of(fields, operator, right) => (fields, operator.turned()?, right),
            Asked::Element(fields, value) => (fields, Operator::Not, value),
            Asked::Own => return Err("it returns what is to the router itself".to_owned()),
        };
        let mut missed = met.clone();
        let states = matches!(fields.as_slice(), [Field::State]);
        match states {
            // All are new: who asks for that misses nobody, who asks for others all.
            true => {
                narrow(&mut met, condition)?;
                missed.of.retain(|_| met.of.is_empty());
            }
            false => {
                narrow(&mut missed, &Asked::Of(fields.clone(), operator, value.clone()))?;
                narrow(&mut met, condition)?;
            }
        }
        rest.append(&mut missed.of);
        condition::bounded(&rest)?;
    }
    Ok(Packets { of: rest, own: packets.own })
}

/// A destination that is one of the router's own addresses (`linux/rtnetlink.h`).
const RTN_LOCAL: u8 = 2;
