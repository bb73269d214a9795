//! Names of interfaces, with the wild cards of a shell.

use std::fmt;
use std::str::FromStr;

/// Longest name of a Linux interface, bytes (IFNAMSIZ without the final zero).
const LONGEST_NAME: usize = 15;
/// Longest pattern, bytes.
const LONGEST_PATTERN: usize = 64;

/// A name, or a pattern of names: `*` stands for any characters, `?` for one, `[01]` and `[a-f]`
/// for one of a set, `[!0]` for one not of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Literal(char),
    One,
    Any,
    Set { negated: bool, ranges: Vec<(char, char)> },
}

/// Why a text is no name of an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is empty.
    #[error("a name has at least one character")]
    Empty,
    /// It is too long.
    #[error("a name of a Linux interface has at most {LONGEST_NAME} characters")]
    LongName,
    /// It is too long.
    #[error("a pattern has at most {LONGEST_PATTERN} characters")]
    LongPattern,
    /// Linux allows no such name.
    #[error("a name of a Linux interface has no {0:?}")]
    Character(char),
    /// Linux allows no such name.
    #[error("a Linux interface cannot be called {0:?}")]
    Dots(String),
    /// No `]`.
    #[error("a \"[\" without its \"]\"")]
    Open,
    /// `[]`.
    #[error("a set \"[]\" with nothing in it")]
    EmptySet,
    /// `[9-0]`.
    #[error("a range {0}-{1} that runs backwards")]
    Backwards(char, char),
}

impl Pattern {
    /// Whether an interface of this name is meant.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        // Where the last `*` was met, and how much of the name it has taken: the classic linear
        // backtrack.
        let mut star: Option<(usize, usize)> = None;
        let (mut part, mut at) = (0, 0);
        while at < name.len() {
            match self.parts.get(part) {
                Some(Part::Any) => {
                    star = Some((part, at));
                    part += 1;
                }
                Some(one) if one.takes(name[at]) => {
                    part += 1;
                    at += 1;
                }
                _ => {
                    let Some((from, taken)) = star else { return false };
                    star = Some((from, taken + 1));
                    part = from + 1;
                    at = taken + 1;
                }
            }
        }
        self.parts[part..].iter().all(|part| *part == Part::Any)
    }

    /// The name, when the pattern stands for one only.
    pub fn literal(&self) -> Option<&str> {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_))).then_some(&self.text)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Part {
    fn takes(&self, c: char) -> bool {
        match self {
            Part::Literal(literal) => *literal == c,
            Part::One | Part::Any => true,
            Part::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > LONGEST_PATTERN {
            return Err(PatternError::LongPattern);
        }
        if text == "." || text == ".." {
            return Err(PatternError::Dots(text.to_owned()));
        }
        let mut parts = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            parts.push(match c {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => {
                    let (set, after) = rest.as_str().split_once(']').ok_or(PatternError::Open)?;
                    rest = after.chars();
                    set_of(set)?
                }
                '/' | ':' => return Err(PatternError::Character(c)),
                c if c.is_whitespace() || c.is_control() => return Err(PatternError::Character(c)),
                c => Part::Literal(c),
            });
        }
        let pattern = Pattern { text: text.to_owned(), parts };
        match pattern.literal() {
            Some(name) if name.len() > LONGEST_NAME => Err(PatternError::LongName),
            _ => Ok(pattern),
        }
    }
}

/// Whether an interface of Linux's can be called so (`dev_valid_name`).
pub(crate) fn is_interface_name(name: &str) -> bool {
    let refused = |c: char| matches!(c, '/' | ':') || c.is_whitespace();
    !name.is_empty() && name.len() <= LONGEST_NAME && !matches!(name, "." | "..") && !name.contains(refused)
}

fn set_of(text: &str) -> Result<Part, PatternError> {
    let (negated, text) = match text.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if text.is_empty() {
        return Err(PatternError::EmptySet);
    }
    let chars: Vec<char> = text.chars().collect();
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let low = chars[at];
        let high = if chars.get(at + 1) == Some(&'-') && at + 2 < chars.len() { chars[at + 2] } else { low };
        if high < low {
            return Err(PatternError::Backwards(low, high));
        }
        at += if high != low || (chars.get(at + 1) == Some(&'-') && at + 2 < chars.len()) { 3 } else { 1 };
        ranges.push((low, high));
    }
    Ok(Part::Set { negated, ranges })
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_cards_match_as_in_a_shell() {
        let cases = [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth", true),
            ("eth*", "eth10", true),
            ("*", "lo", true),
            ("*0", "eth00", true),
            ("e*h*0", "ethxh10", true),
            ("e*h*0", "ethxh1", false),
            ("ens?f[01]", "ens1f0", true),
            ("ens?f[01]", "ens1f2", false),
            ("ens?f[0-3a]", "ens9fa", true),
            ("veth[!0]", "veth1", true),
            ("veth[!0]", "veth0", false),
            ("a[-x]", "a-", true),
            ("a?", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(pattern.parse::<Pattern>().unwrap().matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let pattern: Pattern = "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".parse().unwrap();
        assert!(!pattern.matches(&"a".repeat(200)));
    }

    #[test]
    fn what_linux_allows_no_interface_to_be_called_is_refused() {
        use PatternError::*;
        let cases = [
            ("", Empty),
            ("a/b", Character('/')),
            ("a b", Character(' ')),
            ("..", Dots("..".into())),
            ("eth[0", Open),
            ("eth[]", EmptySet),
            ("eth[9-0]", Backwards('9', '0')),
            ("a-name-far-too-long", LongName),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Pattern>(), Err(error), "{text}");
        }
        assert!("a-name-far-too-long*".parse::<Pattern>().is_ok());
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_agrees_with_a_naive_matcher(pattern in "[ab*?]{1,8}", name in "[ab]{0,10}") {
            fn naive(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern, name) {
                    ([], []) => true,
                    ([b'*', rest @ ..], _) => (0..=name.len()).any(|n| naive(rest, &name[n..])),
                    ([b'?', p @ ..], [_, n @ ..]) => naive(p, n),
                    ([a, p @ ..], [b, n @ ..]) => a == b && naive(p, n),
                    _ => false,
                }
            }
            let parsed: Pattern = pattern.parse().unwrap();
            proptest::prop_assert_eq!(parsed.matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn no_text_makes_it_panic(pattern in ".{0,20}", name in ".{0,20}") {
            if let Ok(pattern) = pattern.parse::<Pattern>() {
                pattern.matches(&name);
            }
        }
    }
}
