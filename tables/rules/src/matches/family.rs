//! `ip`, `ip6`: the family.

use super::{Condition, Match, Row, Test};
use crate::classifier::region::Narrowing;
use crate::language::{Line, Word};
use crate::mistake::Hint;
use crate::nftables::Sentence;

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both.
    pub const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// 4 or 6.
    pub const fn version(self) -> u8 {
        match self {
            Family::Ipv4 => 4,
            Family::Ipv6 => 6,
        }
    }
}

pub(crate) struct ByFamily;

impl Condition for ByFamily {
    type Value = Family;

    const WORDS: &'static [&'static str] = &["ip", "ip6"];
    const TEST: Test<Family> = Test::Constant(|family, headers, _, _| family.version() == headers.version);
    const MANUAL: Row = Some(("`ip`, `ip6`", "the family"));

    fn read(line: &mut Line, word: &Word) -> Option<Family> {
        let family = if word.text == "ip" { Family::Ipv4 } else { Family::Ipv6 };
        if line.rule.matches.family.is_some_and(|other| other != family) {
            line.wrong(word, "no packet is of both families", Hint::none());
        }
        Some(family)
    }

    fn print(family: &Family, _: &Match) -> String {
        if *family == Family::Ipv4 { "ip" } else { "ip6" }.to_owned()
    }

    /// Whoever writes a rule for one family only has said so.
    fn nftables(_: &Family, _: &mut Sentence) -> Option<()> {
        Some(())
    }

    /// Each family has regions of its own.
    fn narrow<const W: usize>(_: &Family, _: &mut Narrowing<W>) {}

    fn possible_in(only: &Family, family: Family) -> bool {
        *only == family
    }

    fn by_family(_: &Family) -> bool {
        true
    }
}
