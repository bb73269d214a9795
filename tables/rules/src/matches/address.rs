//! `from LIST`, `to LIST`: addresses, prefixes, ranges and sets.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Condition, Family, List, Match, Row, Side, Test};
use crate::classifier::region::Narrowing;
use crate::language::{Line, Used, Word, address, nets};
use crate::matching::{Sets, number_of};
use crate::mistake::Hint;
use crate::nftables::Sentence;
use crate::set::Set;

/// An item of an address list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// All addresses of a prefix, host bits clear.
    Net(IpNet),
    /// All addresses of a set.
    Set {
        /// Its name.
        name: String,
        /// Its number in [`Filter::sets`](crate::Filter::sets).
        number: usize,
    },
}

/// What was written counts, not what number it got.
impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Address::Net(net) => net.hash(state),
            Address::Set { name, .. } => name.hash(state),
        }
    }
}

impl Address {
    /// One address.
    pub fn host(address: IpAddr) -> Address {
        Address::Net(IpNet::from(address))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Net(net) if net.prefix_len() == net.max_prefix_len() => write!(f, "{}", net.addr()),
            Address::Net(net) => write!(f, "{net}"),
            Address::Set { name, .. } => write!(f, "@{name}"),
        }
    }
}

impl List<Address> {
    fn holds_address(&self, address: &[u8; 16], version: u8, sets: &Sets) -> bool {
        let number = number_of(address, version);
        let mut about = false;
        let inside = self.items.iter().any(|item| match item {
            Address::Net(IpNet::V4(net)) if version == 4 => {
                about = true;
                number as u32 & u32::from(net.netmask()) == u32::from(net.network())
            }
            Address::Net(IpNet::V6(net)) if version == 6 => {
                about = true;
                number & u128::from(net.netmask()) == u128::from(net.network())
            }
            Address::Net(_) => false,
            Address::Set { number: set, .. } => {
                about = true;
                let set = &sets[*set].1;
                if version == 4 { set.contains4(number as u32) } else { set.contains6(number) }
            }
        });
        // Turned round, a list is still about the families of its addresses only.
        if self.not { about && !inside } else { inside }
    }

    fn possible_in(&self, family: Family) -> bool {
        self.items.iter().any(|item| match item {
            Address::Net(net) => IpAddr::is_ipv4(&net.addr()) == (family == Family::Ipv4),
            Address::Set { .. } => true,
        })
    }
}

pub(crate) struct BySource;

impl Condition for BySource {
    type Value = List<Address>;

    const WORDS: &'static [&'static str] = &["from"];
    const TEST: Test<List<Address>> =
        Test::Constant(|list, headers, _, sets| list.holds_address(&headers.source, headers.version, sets));
    const MANUAL: Row = Some((
        "`from LIST [port LIST]`, `to LIST [port LIST]`",
        "`any`, addresses, prefixes, ranges `a-b`, sets `@name`; ports and ranges",
    ));

    fn read(line: &mut Line, _: &Word) -> Option<List<Address>> {
        line.side = Some(Side::Source);
        addresses(line)
    }

    fn print(list: &List<Address>, _: &Match) -> String {
        format!("from {}", list.print(Address::to_string))
    }

    fn nftables(list: &List<Address>, sentence: &mut Sentence) -> Option<()> {
        compare(sentence, "saddr", list)
    }

    fn narrow<const W: usize>(list: &List<Address>, narrowing: &mut Narrowing<W>) {
        narrowing.addresses(list, Side::Source);
    }

    fn possible_in(list: &List<Address>, family: Family) -> bool {
        list.possible_in(family)
    }

    fn by_family(_: &List<Address>) -> bool {
        true
    }
}

pub(crate) struct ByDestination;

impl Condition for ByDestination {
    type Value = List<Address>;

    const WORDS: &'static [&'static str] = &["to"];
    const TEST: Test<List<Address>> = Test::Constant(|list, headers, _, sets| {
        list.holds_address(&headers.destination, headers.version, sets)
    });
    const MANUAL: Row = None;

    fn read(line: &mut Line, _: &Word) -> Option<List<Address>> {
        line.side = Some(Side::Destination);
        addresses(line)
    }

    fn print(list: &List<Address>, _: &Match) -> String {
        format!("to {}", list.print(Address::to_string))
    }

    fn nftables(list: &List<Address>, sentence: &mut Sentence) -> Option<()> {
        compare(sentence, "daddr", list)
    }

    fn narrow<const W: usize>(list: &List<Address>, narrowing: &mut Narrowing<W>) {
        narrowing.addresses(list, Side::Destination);
    }

    fn possible_in(list: &List<Address>, family: Family) -> bool {
        list.possible_in(family)
    }

    fn by_family(_: &List<Address>) -> bool {
        true
    }
}

fn addresses(line: &mut Line) -> Option<List<Address>> {
    if line.words.take_if("any") {
        return None;
    }
    let (not, words) = line.items("the address", address::EXPECTED)?;
    let mut items = Vec::new();
    for word in &words {
        if let Some(name) = word.text.strip_prefix('@') {
            line.uses.sets.push(Used { name: name.to_owned(), at: word.at.clone() });
            items.push(Address::Set { name: name.to_owned(), number: 0 });
            continue;
        }
        match nets(word.text) {
            Ok(nets) => items.extend(nets.into_iter().map(Address::Net)),
            Err(_) if word.text == "any" => {
                let message = "any is every address: it stands alone, and is not turned round";
                line.wrong(word, message, Hint::expected("any, or a list without it"));
            }
            Err(message) => line.wrong(word, message, Hint::expected(address::EXPECTED)),
        }
    }
    (!items.is_empty()).then_some(List { not, items })
}

/// An address list of one family as a comparison, with a set unless it is one range: thousands of
/// sets take Linux a minute to load. `None` when it is not about the family.
fn compare(sentence: &mut Sentence, side: &str, list: &List<Address>) -> Option<()> {
    let Some(family) = sentence.family else { return Some(()) };
    let six = family == Family::Ipv6;
    let not = if list.not { "!= " } else { "" };
    let name = match list.items.as_slice() {
        [Address::Set { name, number }] => {
            let name = format!("s_{name}_{}", family.version());
            let set = sentence.set(*number).clone();
            sentence.write_set(&name, set);
            name
        }
        items => {
            // Several items, and sets among them, melt into one set.
            let nets = items.iter().flat_map(|item| -> Box<dyn Iterator<Item = IpNet> + '_> {
                match item {
                    Address::Net(net) => Box::new(std::iter::once(*net)),
                    Address::Set { number, .. } => Box::new(sentence.set(*number).members()),
                }
            });
            let set: Set = nets.collect();
            let about = if six { set.ranges6().len() } else { set.ranges4().len() };
            let named = items.iter().any(|item| matches!(item, Address::Set { .. }));
            if about == 0 && !named {
                return None;
            }
            if let (false, [range]) = (named, &*crate::nftables::ranges(&set, six)) {
                sentence.say(format!("{} {side} {not}{range}", sentence.ip()));
                return Some(());
            }
            let name = format!("a{}_{side}_{}", sentence.id.0, family.version());
            sentence.write_set(&name, set);
            name
        }
    };
    sentence.say(format!("{} {side} {not}@{name}", sentence.ip()));
    Some(())
}
