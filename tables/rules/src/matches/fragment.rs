//! `fragment [LIST]`: which part of a packet this is.

use wire::{Fragment, Headers};

use super::{Condition, Examples, Match, Row, Test};
use crate::language::{Line, Word, bits_by_name, bits_of, named};
use crate::names::{self, Names};
use crate::nftables::Sentence;

/// Packets that are whole, as a bit of [`Match::fragment`].
pub const WHOLE: u8 = 1;
/// First fragments.
pub const FIRST: u8 = 2;
/// Later fragments.
pub const LATER: u8 = 4;

const PARTS: &Names<u8> = &[("whole", WHOLE), ("first", FIRST), ("later", LATER)];

pub(crate) struct ByFragment;

impl Condition for ByFragment {
    type Value = u8;

    const WORDS: &'static [&'static str] = &["fragment"];
    const TEST: Test<u8> = Test::Moment(|parts, headers| parts & part_of(headers) != 0);
    const MANUAL: Row =
        Some(("`fragment [LIST]`", "`first`, `later`, `whole`; alone it means `first,later`"));
    const EXAMPLES: Examples = Examples::Items("fragment", &["first", "later", "whole"]);

    fn read(line: &mut Line, _: &Word) -> Option<u8> {
        let follows = line.words.peek().and_then(|text| text.trim_start_matches('!').split(',').next());
        if follows.is_some_and(|text| names::number(PARTS, text).is_some()) {
            let list = line.list("the parts", "first, later, whole", |text| named(PARTS, text, "part"));
            list.map(|list| bits_of(&list, 7))
        } else {
            Some(FIRST | LATER)
        }
    }

    fn print(bits: &u8, _: &Match) -> String {
        match *bits {
            0 => "fragment !whole,first,later".to_owned(),
            bits => format!("fragment {}", bits_by_name(bits, PARTS, ",")),
        }
    }

    /// It is widened, or its rule left out.
    fn nftables(_: &u8, _: &mut Sentence) -> Option<()> {
        Some(())
    }

    fn inexpressible(_: &u8) -> Option<&'static str> {
        Some("fragments (it puts them together first)")
    }
}

/// Which part of a packet this is, as a bit.
fn part_of(headers: &Headers) -> u8 {
    match headers.fragment {
        Fragment::Whole => WHOLE,
        Fragment::First => FIRST,
        Fragment::Later => LATER,
    }
}
