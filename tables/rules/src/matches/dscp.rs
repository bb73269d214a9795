//! `dscp LIST`: the code point, which an earlier rule may have set.

use super::{Condition, Examples, List, Match, Row, Test, set_of};
use crate::language::{Item, Line, Word};
use crate::mistake::Hint;
use crate::names::{self, Names};
use crate::nftables::Sentence;

/// Code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
const DSCP: &Names<u8> = &[
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
    ("cs0", 0),
    ("be", 0),
];

pub(crate) struct ByDscp;

impl Condition for ByDscp {
    type Value = List<u8>;

    const WORDS: &'static [&'static str] = &["dscp"];
    const TEST: Test<List<u8>> =
        Test::Circumstance(|list, circumstances| list.holds(|number| *number == circumstances.dscp));
    const MANUAL: Row = Some(("`dscp LIST`", "code points: `ef`, `af11`, `cs1`, 0 to 63"));
    const EXAMPLES: Examples = Examples::Items("dscp", &["ef", "0", "af11", "cs6"]);

    fn read(line: &mut Line, _: &Word) -> Option<List<u8>> {
        line.list("the code points", "ef, af11, cs1, ... or 0 to 63", dscp)
    }

    fn print(list: &List<u8>, _: &Match) -> String {
        format!("dscp {}", list.print(|number| name_of(*number)))
    }

    fn nftables(list: &List<u8>, sentence: &mut Sentence) -> Option<()> {
        sentence.say(format!("{} dscp {}", sentence.ip(), set_of(list, u8::to_string)));
        Some(())
    }

    fn by_family(_: &List<u8>) -> bool {
        true
    }
}

/// Reads a code point.
pub(crate) fn dscp(text: &str) -> Item<u8> {
    let number = names::number(DSCP, text).or_else(|| text.parse().ok()).filter(|number| *number < 64);
    number.ok_or_else(|| {
        let known = DSCP.iter().map(|(name, _)| *name);
        (
            format!("there is no code point {text:?}"),
            Hint::near(text, known).or_expected("ef, af11, cs1, ... or 0 to 63"),
        )
    })
}

/// The code point of a name (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
pub fn code_point(name: &str) -> Option<u8> {
    names::number(DSCP, name)
}

/// The name of a code point, or its number where it has none.
pub(crate) fn name_of(number: u8) -> String {
    names::name(DSCP, &number).map_or_else(|| number.to_string(), str::to_owned)
}
