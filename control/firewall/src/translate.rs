//! Chains of nftables as chains of the filter.

use std::collections::{BTreeMap, HashMap, HashSet};

use rules::{Address, Chain, Family, Filter, Match, Place, Rule, Set, Verdict};
use serde_json::Value;

use crate::condition::{self, Sets};
use crate::field::{self, Field};
use crate::ruleset::{self, Base, Key, Ruleset, of_table};
use crate::statement::{self, Decides, Statement};
use crate::value::{self, Kind};
use crate::writing::Writing;
use crate::{Problem, Why};

/// The priority of connection tracking at prerouting: what stands before it knows no state.
const TRACKING: i64 = -200;
/// How deep jumps may be nested (`NFT_JUMP_STACK_SIZE`).
pub(crate) const DEEPEST: usize = 16;

/// From where packets come to a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    /// Before their way is known.
    before: bool,
    /// Before their connection is known.
    untracked: bool,
    /// When their way is known.
    behind: bool,
}

/// Makes a filter of chains.
pub(crate) struct Translator<'r> {
    ruleset: &'r Ruleset,
    /// The families whose packets are to be judged: IPv4, IPv6.
    families: [bool; 2],
    /// The chains and handles of rules that are adopted, and none of the filter.
    taken: &'r HashSet<(Key, u64)>,
    pub filter: Filter,
    pub problems: Vec<Problem>,
    numbers: HashMap<Key, usize>,
    sets: HashMap<Key, usize>,
    reached: BTreeMap<Key, Reached>,
}

/// Why a rule is not understood, and of which families the packets are that it concerns.
struct Refused {
    why: Why,
    families: [bool; 2],
}

impl<'r> Translator<'r> {
    pub fn new(ruleset: &'r Ruleset, families: [bool; 2], taken: &'r HashSet<(Key, u64)>) -> Translator<'r> {
        Translator {
            ruleset,
            families,
            taken,
            filter: Filter::default(),
            problems: Vec::new(),
            numbers: HashMap::new(),
            sets: HashMap::new(),
            reached: BTreeMap::new(),
        }
    }

    /// Translates these chains and all that they lead to; the number of each in the filter.
    pub fn chains(&mut self, bases: &[(&ruleset::Chain, &Base)]) -> Vec<usize> {
        for (chain, base) in bases {
            let before = base.hook == "prerouting";
            let untracked = before && base.priority <= TRACKING;
            self.reach(&chain.key, Reached { before, untracked, behind: !before });
        }
        if let Some(key) = self.too_deep() {
            let why = format!("jumps that are nested more than {DEEPEST} deep");
            // No ruleset that Linux has taken is like that: nothing of it is believed.
            self.problems.push(Problem { families: [true; 2], chain: name(&key), handle: None, why });
            return Vec::new();
        }
        for key in self.reached.keys() {
            self.numbers.insert(key.clone(), self.filter.chains.len());
            self.filter.chains.push(Chain::new(name(key)));
        }
        for (key, reached) in self.reached.clone() {
            let Some(chain) = self.ruleset.chain(&key) else { continue };
            let rules = self.chain(chain, reached);
            self.filter.chains[self.numbers[&key]].rules = rules;
        }
        bases.iter().map(|(chain, _)| self.numbers[&chain.key]).collect()
    }

    /// Notes from where packets come to a chain, and to those that it leads to.
    fn reach(&mut self, key: &Key, from: Reached) {
        let known = self.reached.entry(key.clone()).or_default();
        let before = (known.before, known.untracked, known.behind);
        known.before |= from.before;
        known.untracked |= from.untracked;
        known.behind |= from.behind;
        let (now, first) = ((known.before, known.untracked, known.behind), before == (false, false, false));
        if now == before && !first {
            return;
        }
        for target in self.ruleset.targets(key) {
            self.reach(&target, from);
        }
    }

    /// A chain that leads to others deeper than Linux would go; one that leads in a circle does.
    fn too_deep(&self) -> Option<Key> {
        let leads: Vec<(&Key, Vec<Key>)> =
            self.reached.keys().map(|key| (key, self.ruleset.targets(key))).collect();
        let mut depths: BTreeMap<&Key, usize> = BTreeMap::new();
        for _ in 0..=DEEPEST + 1 {
            for (key, targets) in &leads {
                let deepest = targets.iter().map(|target| depths.get(target).copied().unwrap_or(0) + 1).max();
                depths.insert(key, deepest.unwrap_or(0));
            }
        }
        depths.into_iter().find(|(_, depth)| *depth > DEEPEST).map(|(key, _)| key.clone())
    }

    fn chain(&mut self, chain: &ruleset::Chain, reached: Reached) -> Vec<Rule> {
        let mut translated = Vec::new();
        let is_taken = |rule: &&ruleset::Rule| self.taken.contains(&(chain.key.clone(), rule.handle));
        for rule in chain.rules.iter().filter(|rule| !is_taken(rule)).collect::<Vec<_>>() {
            match self.rule(&chain.key, rule, reached) {
                Ok(rules) => translated.extend(rules),
                Err(Refused { why, families }) => {
                    let concerned = [0, 1].map(|n| families[n] && self.families[n]);
                    if concerned != [false; 2] {
                        self.problems.push(Problem {
                            families: concerned,
                            chain: name(&chain.key),
                            handle: Some(rule.handle),
                            why,
                        });
                    }
                }
            }
        }
        translated
    }

    fn rule(&mut self, key: &Key, rule: &ruleset::Rule, reached: Reached) -> Result<Vec<Rule>, Refused> {
        let place = Place { file: name(key).into(), line: rule.handle.try_into().unwrap_or(usize::MAX) };
        let form = Rule { comment: rule.comment.clone(), place, ..Rule::default() };
        let mut writing = Writing { form, matches: vec![Match::default()], ..Writing::default() };
        let refused = |why: Why, writing: &Writing| {
            let of_table = families(key);
            let met = writing.rules.iter().map(|rule| &rule.matches).chain(&writing.matches);
            let met: Vec<&Match> = met.collect();
            let possible = |n: usize| of_table[n] && met.iter().any(|of| of.possible_in(Family::BOTH[n]));
            Refused { why, families: [possible(0), possible(1)] }
        };
        for (n, statement) in rule.statements.iter().enumerate() {
            match self.statement(key, statement, &mut writing) {
                Ok(true) => {}
                // A verdict map may say to continue.
                Ok(false) if n + 1 < rule.statements.len() => {
                    return Err(refused("what stands behind its verdict".to_owned(), &writing));
                }
                Ok(false) => break,
                Err(why) => return Err(refused(why, &writing)),
            }
            if writing.matches.is_empty() {
                break;
            }
        }
        let finished = writing.end(None).and_then(|()| suits(&writing.rules, reached));
        match finished {
            Ok(()) => Ok(writing.rules),
            Err(why) => Err(refused(why, &writing)),
        }
    }

    /// Takes over a statement; whether others follow.
    fn statement(&mut self, key: &Key, statement: &Value, writing: &mut Writing) -> Result<bool, Why> {
        match statement::read(statement)? {
            Statement::Match(about) if !self.ruleset.translates && is_of_translated(about) => {
                writing.matches.clear();
            }
            Statement::Match(about) => {
                writing.goes_on()?;
                condition::ask(&mut writing.matches, about, &mut Named { key, translator: self })?;
            }
            Statement::Map { key: of, data } => {
                writing.goes_on()?;
                let fields = field::fields(of)?;
                let elements = self.ruleset.elements(key, data)?;
                self.map(key, &fields, &elements, writing)?;
                return Ok(false);
            }
            Statement::Limit { rate, rounded } => {
                writing.goes_on()?;
                (writing.rate, writing.rounded) = (Some(rate), rounded);
            }
            Statement::Log { log, prefix } => {
                // Lines begin with the rule's name, behind which the log puts a colon.
                let prefix = prefix.map(|prefix| prefix.trim().trim_end_matches(':').to_owned());
                writing.prefix = prefix.filter(|prefix| !prefix.is_empty());
                writing.effects.log = Some(log);
            }
            Statement::Mark(mark) => writing.effects.mark = Some(mark),
            Statement::Dscp { ipv6, value } => {
                let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
                writing.of_family(family);
                writing.effects.dscp = Some(value);
            }
            Statement::Verdict(decides) => {
                let verdict = self.verdict(key, decides, writing)?;
                writing.end(verdict)?;
                return Ok(false);
            }
            Statement::Nothing => {}
        }
        Ok(true)
    }

    /// A verdict for each element of a map.
    fn map(&mut self, key: &Key, of: &[Field], elements: &[Value], writing: &mut Writing) -> Result<(), Why> {
        let pairs = elements.iter().map(|element| match element.as_array().map(Vec::as_slice) {
            Some([value, verdict]) => Ok((value::bare(value), verdict)),
            _ => Err("a map of something else than verdicts".to_owned()),
        });
        let pairs: Vec<(&Value, &Value)> = pairs.collect::<Result<_, Why>>()?;
        let any = |value: &Value| value.as_str() == Some("*");
        let comes_back = |verdict: &Value| verdict.get("jump").or(verdict.get("continue")).is_some();
        if pairs.iter().any(|(value, _)| any(value)) && pairs.iter().any(|(_, verdict)| comes_back(verdict)) {
            return Err("a map with jumps and a verdict for all the rest".to_owned());
        }
        let matches = std::mem::take(&mut writing.matches);
        let (named, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(value, _)| !any(value));
        for (value, verdict) in named.into_iter().chain(rest) {
            writing.matches.clone_from(&matches);
            if !any(value) {
                let mut sets = Named { key, translator: self };
                condition::element(&mut writing.matches, of, value, &mut sets)?;
            }
            let decides = statement::verdict(verdict)?;
            let verdict = self.verdict(key, decides, writing)?;
            writing.write(verdict)?;
            condition::bounded(&writing.matches)?;
        }
        writing.matches.clear();
        Ok(())
    }

    fn verdict(&self, key: &Key, decides: Decides, writing: &mut Writing) -> Result<Option<Verdict>, Why> {
        writing.goes = false;
        Ok(Some(match decides {
            Decides::Accept => Verdict::Accept,
            Decides::Drop => Verdict::Drop,
            Decides::Return => Verdict::Return,
            Decides::Continue => return Ok(None),
            Decides::Reject(kind, family) => {
                if let Some(family) = family {
                    writing.of_family(family);
                }
                if !writing.matches.iter().all(|of| statement::fits(kind, of)) {
                    return Err("a reset to what is not TCP".to_owned());
                }
                Verdict::Reject(kind)
            }
            Decides::Jump(target) | Decides::Goto(target) => {
                writing.goes = matches!(decides, Decides::Goto(_));
                let target = of_table(key, target);
                let number = *self.numbers.get(&target).ok_or("a jump to no chain")?;
                Verdict::Jump { chain: name(&target), number }
            }
        }))
    }
}

/// Whether all that rules ask for is known where packets come from.
fn suits(rules: &[Rule], reached: Reached) -> Result<(), Why> {
    for of in rules.iter().map(|rule| &rule.matches) {
        if reached.before && of.out_ports.is_some() {
            return Err("the interface that a packet leaves by, before that is known".to_owned());
        }
        if reached.behind && of.ttl.is_some() {
            return Err("the TTL behind where it is decremented".to_owned());
        }
        if reached.untracked && of.states.is_some() {
            return Err("the state of a connection before connections are tracked".to_owned());
        }
        if reached.before && of.translated.is_some() {
            return Err("whether a destination is translated, before that is known".to_owned());
        }
    }
    Ok(())
}

/// Whether a condition holds for packets of translated connections alone (`ct status dnat`).
fn is_of_translated(about: &Value) -> bool {
    let asked = value::number(Kind::Status, &about["right"]);
    about["left"]["ct"]["key"] == "status" && about["op"] == "in" && asked.is_some()
}

/// The sets of a table.
struct Named<'t, 'r> {
    key: &'t Key,
    translator: &'t mut Translator<'r>,
}

impl Sets for Named<'_, '_> {
    fn address(&mut self, name: &str) -> Result<Address, Why> {
        let full = of_table(self.key, name);
        let text = self::name(&full);
        if let Some(number) = self.translator.sets.get(&full) {
            return Ok(Address::Set { name: text, number: *number });
        }
        let set = self.translator.ruleset.set(self.key, name)?;
        if !matches!(set.kinds.as_slice(), [kind] if kind == "ipv4_addr" || kind == "ipv6_addr") {
            return Err(format!("the set {name}, which is not of addresses"));
        }
        let prefixes = set.elements.iter().map(|element| {
            value::prefixes(value::bare(element)).ok_or_else(|| format!("the address {element}"))
        });
        let members: Vec<_> = prefixes.collect::<Result<_, Why>>()?;
        let set: Set = members.into_iter().flatten().collect();
        let number = self.translator.filter.sets.len();
        self.translator.filter.sets.push((text.clone(), set));
        self.translator.sets.insert(full, number);
        Ok(Address::Set { name: text, number })
    }

    fn elements(&self, name: &str) -> Result<Vec<Value>, Why> {
        let set = self.translator.ruleset.set(self.key, name)?;
        Ok(set.elements.iter().map(|element| value::bare(element).clone()).collect())
    }
}

/// A chain's or a set's name in full, as `nft` has it.
pub(crate) fn name((family, table, name): &Key) -> String {
    format!("{family} {table} {name}")
}

/// The families whose packets a table sees: IPv4, IPv6.
pub(crate) fn families(key: &Key) -> [bool; 2] {
    [key.0 != "ip6", key.0 != "ip"]
}
