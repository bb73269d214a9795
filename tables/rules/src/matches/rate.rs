//! `rate over|below RATE [burst SIZE] [per source [table N]]`: how many of those that match all the
//! rest come.

use super::{Condition, Examples, Match, Row, Test};
use crate::language::{Line, Word};
use crate::mistake::Hint;
use crate::model::Rate;
use crate::nftables::Sentence;

/// Below or above a rate.
#[derive(Clone, Copy, Debug, PartialEq, Hash)]
pub struct RateMatch {
    /// It matches what exceeds the rate, rather than what keeps to it.
    pub over: bool,
    /// The rate.
    pub rate: Rate,
    /// Of each source address by itself, in a table of so many addresses; `None`: of all together.
    pub sources: Option<u32>,
}

/// Sources that a table holds unless its size is said.
const SOURCES: u32 = 65_536;

pub(crate) struct ByRate;

impl Condition for ByRate {
    type Value = RateMatch;

    const WORDS: &'static [&'static str] = &["rate"];
    /// Asked last, of the rule's meter ([`crate::meter`]), which a rate is used up by.
    const TEST: Test<RateMatch> = Test::Circumstance(|_, _| true);
    const MANUAL: Row = Some((
        "`rate over\\|below RATE [burst SIZE] [per source [table N]]`",
        "`100pps`, `5kpps`, `10Mbit` a second",
    ));
    const EXAMPLES: Examples =
        Examples::Whole(&["rate below 2pps burst 3", "rate over 5pps", "rate over 1pps burst 2 per source"]);

    fn read(line: &mut Line, _: &Word) -> Option<RateMatch> {
        let word = line.need("\"over\" or \"below\"", "rate over 100pps, rate below 10Mbit")?;
        let over = match word.text {
            "over" => true,
            "below" => false,
            text => {
                let hint = Hint::expected("rate over 100pps, rate below 10Mbit");
                line.wrong(&word, format!("a rate is over or below, not {text:?}"), hint);
                return None;
            }
        };
        let rate = line.rate()?;
        let mut sources = None;
        if line.words.take_if("per") {
            let word = line.need("\"source\"", "per source")?;
            if word.text != "source" {
                let message = format!("rates are not kept per {:?}", word.text);
                line.wrong(&word, message, Hint::expected("per source"));
                return None;
            }
            sources = Some(SOURCES);
            if line.words.take_if("table") {
                let expected = "how many sources the table holds, 64 to 4000000";
                let word = line.need("the size", expected)?;
                match word.text.parse::<u32>() {
                    Ok(size) if (64..=4_000_000).contains(&size) => sources = Some(size),
                    _ => {
                        let message = format!("{:?} is no size of a table", word.text);
                        line.wrong(&word, message, Hint::expected(expected));
                    }
                }
            }
        }
        Some(RateMatch { over, rate, sources })
    }

    fn print(RateMatch { over, rate, sources }: &RateMatch, _: &Match) -> String {
        let side = if *over { "over" } else { "below" };
        let sources = match sources {
            None => String::new(),
            Some(SOURCES) => " per source".to_owned(),
            Some(table) => format!(" per source table {table}"),
        };
        format!("rate {side} {rate}{sources}")
    }

    fn nftables(RateMatch { over, rate, sources }: &RateMatch, sentence: &mut Sentence) -> Option<()> {
        let words = match sources {
            Some(size) => sentence.limit_of_sources(*size, rate, *over),
            None => sentence.limit("rate", rate, *over),
        };
        sentence.say(words);
        Some(())
    }

    fn by_family(rate: &RateMatch) -> bool {
        rate.sources.is_some()
    }

    fn remark(rate: &RateMatch) -> &'static str {
        if rate.over { " (if the rate is exceeded)" } else { " (while the rate is kept to)" }
    }
}
