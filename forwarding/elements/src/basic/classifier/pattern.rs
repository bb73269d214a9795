//! Patterns as they are written.

use crate::decision::Condition;

/// Clauses that must all hold; without any, every packet matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(pub Vec<Clause>);

/// Bytes in a certain place, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// The first byte.
    pub offset: usize,
    /// Value and mask of each byte; a value has no bits outside its mask.
    pub bytes: Vec<(u8, u8)>,
    pub negated: bool,
}

/// No packet is longer; an offset behind it is a slip of the hand.
const LARGEST: usize = 65_535;

impl Pattern {
    /// Reads a pattern; also what is wrong with it.
    pub fn parse(text: &str) -> (Pattern, Vec<String>) {
        let (mut clauses, mut mistakes) = (Vec::new(), Vec::new());
        let mut rest = if text == "-" { "" } else { text.trim_ascii_start() };
        while !rest.is_empty() {
            match clause(rest, &mut mistakes) {
                Ok((clause, behind)) => {
                    clauses.push(clause);
                    rest = behind.trim_ascii_start();
                }
                Err(mistake) => {
                    mistakes.push(mistake);
                    break;
                }
            }
        }
        (Pattern(clauses), mistakes)
    }

    /// The same as a condition on words.
    pub fn condition(&self) -> Condition {
        if self.0.is_empty() {
            Condition::ALWAYS
        } else {
            Condition::All(self.0.iter().map(Clause::condition).collect())
        }
    }
}

impl Clause {
    fn condition(&self) -> Condition {
        let mut words: Vec<(usize, u32, u32)> = Vec::new();
        for (index, &(value, mask)) in self.bytes.iter().enumerate() {
            let place = self.offset + index;
            let shift = 24 - place % 4 * 8;
            let (mask, value) = (u32::from(mask) << shift, u32::from(value) << shift);
            match words.last_mut().filter(|word| word.0 == place / 4 * 4) {
                Some(word) => *word = (word.0, word.1 | mask, word.2 | value),
                None => words.push((place / 4 * 4, mask, value)),
            }
        }
        let word = |(offset, mask, value)| Condition::Word { offset, mask, value };
        let all = Condition::All(words.into_iter().map(word).collect());
        if self.negated { all.negation() } else { all }
    }
}

/// Reads the clause that a text begins with; also what is behind it. Mistakes in the lengths do not
/// keep it from going on.
fn clause<'a>(text: &'a str, mistakes: &mut Vec<String>) -> Result<(Clause, &'a str), String> {
    let (negated, text) = match text.strip_prefix('!') {
        Some(text) => (true, text.trim_ascii_start()),
        None => (false, text),
    };
    let (number, text) = span(text, |byte| byte.is_ascii_digit());
    if number.is_empty() {
        return Err("expected a digit".to_owned());
    }
    let text = text.strip_prefix('/').ok_or("expected '/'")?;
    let is_digit = |byte: u8| byte.is_ascii_hexdigit() || byte == b'?';
    let (value, mut text) = span(text, is_digit);
    let mut mask = None;
    if let Some(behind) = text.strip_prefix('%') {
        let (digits, behind) = span(behind, is_digit);
        (mask, text) = (Some(digits), behind);
    }
    if value.len() < 2 {
        mistakes.push("value has less than 2 hex digits".to_owned());
    } else if !value.len().is_multiple_of(2) {
        mistakes.push("value has odd number of hex digits".to_owned());
    }
    if let Some(mask) = mask.filter(|mask| mask.len() != value.len()) {
        let how = if mask.len() > value.len() { "many" } else { "few" };
        mistakes.push(format!("mask has too {how} hex digits"));
    }
    let offset = number.parse().ok().filter(|offset| *offset <= LARGEST);
    let offset = offset.ok_or_else(|| format!("offset {number} is behind the end of every packet"))?;
    let byte = |at: usize| {
        let (value, mut bits) = byte(&value[at..at + 2]);
        if let Some(pair) = mask.and_then(|mask| mask.get(at..at + 2)) {
            let (mask, known) = byte(pair);
            bits &= mask & known;
        }
        (value & bits, bits)
    };
    let bytes = (0..value.len() / 2).map(|index| byte(index * 2)).collect();
    Ok((Clause { offset, bytes, negated }, text))
}

/// The bytes at the front that are of a kind, and what is behind them.
fn span(text: &str, kind: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|byte| kind(*byte)).count())
}

/// Two digits: the value and which bits of it are known.
fn byte(digits: &str) -> (u8, u8) {
    let digit = |character: char| character.to_digit(16).map_or((0, 0), |digit| (digit as u8, 15));
    digits
        .chars()
        .map(digit)
        .fold((0, 0), |(value, mask), (digit, known)| (value << 4 | digit, mask << 4 | known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clauses_have_masks_and_negations() {
        let clause = |offset, bytes: &[(u8, u8)], negated| Clause { offset, bytes: bytes.to_vec(), negated };
        let (Pattern(clauses), mistakes) = Pattern::parse(" 12/0806 !20/0?%f1  9/?? ! 0/1234%?f0f");
        assert_eq!(mistakes, Vec::<String>::new());
        assert_eq!(
            clauses,
            [
                clause(12, &[(8, 255), (6, 255)], false),
                clause(20, &[(0, 0xf0)], true),
                clause(9, &[(0, 0)], false),
                clause(0, &[(2, 0x0f), (4, 0x0f)], true),
            ]
        );
        assert_eq!(Pattern::parse("-"), (Pattern(vec![]), vec![]));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, mistake) in [
            ("x", "expected a digit"),
            ("!", "expected a digit"),
            ("12", "expected '/'"),
            ("12/", "value has less than 2 hex digits"),
            ("12/080", "value has odd number of hex digits"),
            ("12/0800%ff", "mask has too few hex digits"),
            ("12/08%ffff", "mask has too many hex digits"),
            ("65536/00", "offset 65536 is behind the end of every packet"),
            ("12/08 - ", "expected a digit"),
        ] {
            assert_eq!(Pattern::parse(text).1, [mistake], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r"[-!0-9a-f?%/ ä]{0,20}") {
            Pattern::parse(&text);
        }
    }
}
