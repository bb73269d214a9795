//! `length LIST`: how long the IP packet is.

use super::{Condition, Examples, List, Match, Row, Span, Test, ranges_of};
use crate::language::{Line, Word, span};
use crate::nftables::Sentence;

pub(crate) struct ByLength;

impl Condition for ByLength {
    type Value = List<Span>;

    const WORDS: &'static [&'static str] = &["length"];
    const TEST: Test<List<Span>> =
        Test::Moment(|list, headers| list.holds(|span| span.contains(headers.length)));
    const MANUAL: Row = Some(("`length LIST`", "bytes of the IP packet: `1500`, `0-128`"));
    const EXAMPLES: Examples = Examples::Items("length", &["0-63", "64", "100-1500", "1400-65535"]);

    fn read(line: &mut Line, _: &Word) -> Option<List<Span>> {
        line.list("the lengths", "bytes, and ranges of them: 0-128", span)
    }

    fn print(list: &List<Span>, _: &Match) -> String {
        format!("length {}", list.print(Span::to_string))
    }

    fn nftables(list: &List<Span>, sentence: &mut Sentence) -> Option<()> {
        sentence.say(format!("meta length {}", ranges_of(list)?));
        Some(())
    }
}
