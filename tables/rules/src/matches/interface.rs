//! `in LIST`, `out LIST`: ports of the router, by the names of their interfaces.

use std::hash::{Hash, Hasher};

use super::{Condition, Examples, List, Match, Row, Test, Unknown, set_of};
use crate::classifier::region::{IN_PORT, Key, Narrowing, Region};
use crate::language::{Item, Line, Word};
use crate::mistake::Hint;
use crate::model::Hook;
use crate::nftables::Sentence;

/// A port of the router by its interface's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name, or a pattern with a trailing `*`.
    pub name: String,
    /// The ports it means now ([`Filter::resolve`](crate::Filter::resolve)).
    pub numbers: Vec<u16>,
}

/// What was written counts, not which ports it means now.
impl Hash for Interface {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

pub(crate) struct ByInput;

impl Condition for ByInput {
    type Value = List<Interface>;

    const WORDS: &'static [&'static str] = &["in"];
    const TEST: Test<List<Interface>> = Test::Constant(|list, _, context, _| {
        list.holds(|interface| interface.numbers.contains(&context.in_port))
    });
    const MANUAL: Row =
        Some(("`in LIST`", "the port that it came by: interfaces' names, `eth*` for all of a kind"));
    const EXAMPLES: Examples = Examples::Items("in", &["eth0", "eth1", "wlan*", "none7"]);

    fn read(line: &mut Line, _: &Word) -> Option<List<Interface>> {
        interfaces(line)
    }

    fn print(list: &List<Interface>, _: &Match) -> String {
        format!("in {}", list.print(|interface| interface.name.clone()))
    }

    fn nftables(list: &List<Interface>, sentence: &mut Sentence) -> Option<()> {
        sentence.say(format!("{} {}", sentence.input(), names(list)));
        Some(())
    }

    fn narrow<const W: usize>(list: &List<Interface>, narrowing: &mut Narrowing<W>) {
        narrow(list, (Key::<W>::SMALL, IN_PORT), narrowing);
    }
}

pub(crate) struct ByOutput;

impl Condition for ByOutput {
    type Value = List<Interface>;

    const WORDS: &'static [&'static str] = &["out"];
    const TEST: Test<List<Interface>> = Test::Constant(|list, _, context, _| {
        context.out_port.is_some_and(|port| list.holds(|interface| interface.numbers.contains(&port)))
    });
    const MANUAL: Row = Some(("`out LIST`", "the port that it will leave by; not where packets come in"));
    const EXAMPLES: Examples = Examples::Items("out", &["eth0", "eth1", "wlan*"]);
    const UNKNOWN: Option<Unknown> = Some(Unknown {
        hooks: &[Hook::Input],
        why: "where packets come in, it is not known by which port they will leave",
        instead: "out in forward or output, or in a chain that input does not jump to",
    });

    fn read(line: &mut Line, _: &Word) -> Option<List<Interface>> {
        interfaces(line)
    }

    fn print(list: &List<Interface>, _: &Match) -> String {
        format!("out {}", list.print(|interface| interface.name.clone()))
    }

    fn nftables(list: &List<Interface>, sentence: &mut Sentence) -> Option<()> {
        sentence.say(format!("oifname {}", names(list)));
        Some(())
    }

    fn narrow<const W: usize>(list: &List<Interface>, narrowing: &mut Narrowing<W>) {
        if list.not {
            // A port that is not known is not another one.
            narrowing.inexact();
        }
        narrow(list, (Key::<W>::LAST, 0), narrowing);
    }
}

fn interfaces(line: &mut Line) -> Option<List<Interface>> {
    line.list("the port", "names of interfaces: eth0,eth1 or wlan*", interface)
}

fn interface(text: &str) -> Item<Interface> {
    let body = text.strip_suffix('*').unwrap_or(text);
    // Names of Linux interfaces have 15 bytes at most.
    if body.is_empty() || body.len() > 15 || body.contains(['*', '/', '"', '\\']) {
        return Err((format!("no interface is called {text:?}"), Hint::none()));
    }
    Ok(Interface { name: text.to_owned(), numbers: Vec::new() })
}

/// A set of interfaces' names, without those that a pattern in it means as well.
fn names(list: &List<Interface>) -> String {
    let covers = |pattern: &Interface, name: &Interface| {
        pattern
            .name
            .strip_suffix('*')
            .is_some_and(|start| name.name.starts_with(start) && pattern.name != name.name)
    };
    let own = |name: &&Interface| !list.items.iter().any(|pattern| covers(pattern, name));
    let items = list.items.iter().filter(own).cloned().collect();
    set_of(&List { not: list.not, items }, |interface| format!("\"{}\"", interface.name))
}

/// `word` and `shift` are where a port's number lies in the key.
fn narrow<const W: usize>(list: &List<Interface>, (word, shift): (usize, u32), narrowing: &mut Narrowing<W>) {
    let numbers = List { not: list.not, items: list.items.iter().flat_map(|item| &item.numbers).collect() };
    narrowing.list_of(&numbers, |port| Region::ALL.with(word, u32::from(**port) << shift, 0xffff << shift));
}
