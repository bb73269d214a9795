//! A ruleset as nftables tells it, as far as it concerns transit (`libnftables-json(5)`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::Why;
use crate::value::bare;

/// The table that Linux is given by Bifrost itself, family and name.
const OWN: (&str, &str) = ("inet", rules::TABLE);

/// A text that is no ruleset.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON.
    #[error("nft's answer is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Something is missing in it.
    #[error("nft's answer has no {0}")]
    Missing(&'static str),
}

/// What a chain, a set or a map is known by: family, table, name.
pub(crate) type Key = (String, String, String);

/// All that is there.
#[derive(Debug, Default)]
pub(crate) struct Ruleset {
    /// In the order in which they were told.
    pub chains: Vec<Chain>,
    /// Sets and maps.
    pub sets: HashMap<Key, Set>,
    /// Some connection may be translated.
    pub translates: bool,
    by_name: HashMap<Key, usize>,
    /// Family and name of tables with flags.
    flagged: HashSet<(String, String)>,
}

/// A chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub key: Key,
    /// Where it stands, if packets come to it by themselves.
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

/// Where a base chain stands.
#[derive(Debug)]
pub(crate) struct Base {
    /// `filter`, `nat` or `route`.
    pub kind: String,
    /// `prerouting`, `forward`, ...
    pub hook: String,
    pub priority: i64,
    pub drops: bool,
}

/// A rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub handle: u64,
    pub comment: Option<String>,
    /// Its statements.
    pub statements: Vec<Value>,
}

/// A set, or a map.
#[derive(Debug)]
pub(crate) struct Set {
    /// What its elements are: `ipv4_addr`, ...; several names for a concatenation.
    pub kinds: Vec<String>,
    /// Its elements; of a map, pairs.
    pub elements: Vec<Value>,
    /// It changes by itself.
    pub moves: bool,
}

impl Ruleset {
    /// Reads what `nft -j list ruleset` printed.
    pub fn read(json: &str) -> Result<Ruleset, Unreadable> {
        let all: Value = serde_json::from_str(json)?;
        let mut ruleset = Ruleset::default();
        for object in array(&all["nftables"]).ok_or(Unreadable::Missing("list of objects"))? {
            let Some((kind, about)) = object.as_object().and_then(|object| object.iter().next()) else {
                continue;
            };
            match kind.as_str() {
                "table" if !about["flags"].is_null() => {
                    let text = |name: &str| about[name].as_str().unwrap_or_default().to_owned();
                    ruleset.flagged.insert((text("family"), text("name")));
                }
                "chain" => ruleset.add_chain(about)?,
                "rule" => ruleset.add_rule(about)?,
                "set" | "map" => ruleset.add_set(about)?,
                _ => {}
            }
        }
        let nat = |chain: &&Chain| chain.base.as_ref().is_some_and(|base| base.kind == "nat");
        ruleset.translates = ruleset.chains.iter().filter(nat).any(|chain| !ruleset.does_nothing(chain));
        Ok(ruleset)
    }

    /// The chains that the rules of one lead to, directly.
    pub fn targets(&self, key: &Key) -> Vec<Key> {
        let mut targets = Vec::new();
        let rules = self.chain(key).map(|chain| chain.rules.as_slice()).unwrap_or_default();
        rules.iter().flat_map(|rule| &rule.statements).for_each(|of| self.targets_of(key, of, &mut targets));
        targets
    }

    fn targets_of(&self, key: &Key, of: &Value, into: &mut Vec<Key>) {
        match of {
            Value::Object(object) => {
                for (word, about) in object {
                    match about["target"].as_str() {
                        Some(target) if word == "jump" || word == "goto" => into.push(of_table(key, target)),
                        _ => self.targets_of(key, about, into),
                    }
                }
            }
            Value::Array(several) => several.iter().for_each(|one| self.targets_of(key, one, into)),
            Value::String(text) => {
                let set = text.strip_prefix('@').and_then(|name| self.sets.get(&of_table(key, name)));
                // Elements of maps are pairs.
                let pairs =
                    set.into_iter().flat_map(|set| &set.elements).filter(|element| element.is_array());
                pairs.for_each(|pair| self.targets_of(key, pair, into));
            }
            _ => {}
        }
    }

    /// Whether a base chain for translation lets all pass as it is: so are those whose rules only
    /// lead to chains without rules.
    pub fn does_nothing(&self, chain: &Chain) -> bool {
        let harmless = ["match", "counter", "accept", "return", "continue", "jump", "goto"];
        let passes = |statement: &Value| {
            let kind = statement.as_object().and_then(|object| object.keys().next());
            kind.is_some_and(|kind| harmless.contains(&kind.as_str()))
        };
        let (mut known, mut due) = (HashSet::new(), vec![chain.key.clone()]);
        while let Some(key) = due.pop() {
            let rules = self.chain(&key).map(|chain| chain.rules.as_slice()).unwrap_or_default();
            if !rules.iter().flat_map(|rule| &rule.statements).all(passes) {
                return false;
            }
            due.extend(self.targets(&key).into_iter().filter(|target| known.insert(target.clone())));
        }
        !chain.base.as_ref().is_some_and(|base| base.drops)
    }

    /// The chain of a name.
    pub fn chain(&self, key: &Key) -> Option<&Chain> {
        self.by_name.get(key).map(|number| &self.chains[*number])
    }

    /// The set of a name in a chain's table, if it stays as it is.
    pub fn set(&self, key: &Key, name: &str) -> Result<&Set, Why> {
        let set = self.sets.get(&of_table(key, name));
        let set = set.ok_or_else(|| format!("the set {name}, which is not there"))?;
        match set.moves {
            true => Err(format!("the set {name}, which changes by itself")),
            false => Ok(set),
        }
    }

    /// The elements of a set or map that stands in a rule, or that it names.
    pub fn elements(&self, key: &Key, data: &Value) -> Result<Vec<Value>, Why> {
        let elements = match data.as_str().and_then(|text| text.strip_prefix('@')) {
            Some(name) => &self.set(key, name)?.elements,
            None => data["set"].as_array().ok_or("a map without elements")?,
        };
        Ok(elements.iter().map(|element| bare(element).clone()).collect())
    }

    /// Whether a chain's table has flags: it may be dormant. Which ones, nft 1.0 does not tell.
    pub fn is_flagged(&self, chain: &Chain) -> bool {
        self.flagged.contains(&(chain.key.0.clone(), chain.key.1.clone()))
    }

    /// The base chains that transit of either family passes and that could do something to it, in
    /// the order in which they are passed.
    pub fn of_transit(&self) -> Vec<(&Chain, &Base)> {
        let concerns = |base: &Base, chain: &Chain| {
            let passed = ["ingress", "prerouting", "forward", "postrouting", "egress"];
            let ip = ["inet", "ip", "ip6", "netdev"].contains(&chain.key.0.as_str());
            let idle = match base.kind.as_str() {
                "nat" => self.does_nothing(chain),
                _ => chain.rules.is_empty() && !base.drops,
            };
            ip && passed.contains(&base.hook.as_str()) && !idle
        };
        let bases = self.chains.iter().filter_map(|chain| chain.base.as_ref().map(|base| (chain, base)));
        let mut found: Vec<_> = bases.filter(|(chain, base)| concerns(base, chain)).collect();
        // Which of equal priority is passed first is not told.
        found.sort_by_key(|(_, base)| base.priority);
        found
    }

    /// Whether some rule, of transit or not, has Linux keep track of connections.
    pub fn tracks(&self) -> bool {
        let asks = |rule: &Rule| {
            rule.statements.iter().any(|statement| {
                let text = statement.to_string();
                ["\"ct\"", "\"ct ", "masquerade", "snat", "dnat", "redirect"]
                    .iter()
                    .any(|word| text.contains(word))
            })
        };
        self.chains.iter().flat_map(|chain| &chain.rules).any(asks)
    }

    fn add_chain(&mut self, about: &Value) -> Result<(), Unreadable> {
        let key = key(about, "name").ok_or(Unreadable::Missing("name of a chain"))?;
        if (key.0.as_str(), key.1.as_str()) == OWN {
            return Ok(());
        }
        let text = |name: &str| about[name].as_str().map(str::to_owned);
        let base = text("hook").map(|hook| Base {
            kind: text("type").unwrap_or_default(),
            hook,
            priority: about["prio"].as_i64().unwrap_or_default(),
            drops: about["policy"].as_str() == Some("drop"),
        });
        self.by_name.insert(key.clone(), self.chains.len());
        self.chains.push(Chain { key, base, rules: Vec::new() });
        Ok(())
    }

    fn add_rule(&mut self, about: &Value) -> Result<(), Unreadable> {
        let key = key(about, "chain").ok_or(Unreadable::Missing("chain of a rule"))?;
        let Some(number) = self.by_name.get(&key) else { return Ok(()) };
        self.chains[*number].rules.push(Rule {
            handle: about["handle"].as_u64().unwrap_or_default(),
            comment: about["comment"].as_str().map(str::to_owned),
            statements: array(&about["expr"]).ok_or(Unreadable::Missing("statements of a rule"))?.clone(),
        });
        Ok(())
    }

    fn add_set(&mut self, about: &Value) -> Result<(), Unreadable> {
        let key = key(about, "name").ok_or(Unreadable::Missing("name of a set"))?;
        let words = |value: &Value| match value {
            Value::Array(several) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            one => one.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
        };
        let elements = array(&about["elem"]).cloned().unwrap_or_default();
        let dynamic = words(&about["flags"]).iter().any(|flag| flag == "dynamic" || flag == "timeout");
        let ends = |element: &Value| {
            let element = element.as_array().and_then(|pair| pair.first()).unwrap_or(element);
            !element["elem"]["expires"].is_null() || !element["elem"]["timeout"].is_null()
        };
        let moves = dynamic || !about["timeout"].is_null() || elements.iter().any(ends);
        self.sets.insert(key, Set { kinds: words(&about["type"]), elements, moves });
        Ok(())
    }
}

/// Another name in the same table.
pub(crate) fn of_table((family, table, _): &Key, name: &str) -> Key {
    (family.clone(), table.clone(), name.to_owned())
}

fn key(about: &Value, name: &str) -> Option<Key> {
    let text = |name: &str| about[name].as_str().map(str::to_owned);
    Some((text("family")?, text("table")?, text(name)?))
}

fn array(value: &Value) -> Option<&Vec<Value>> {
    value.as_array()
}
