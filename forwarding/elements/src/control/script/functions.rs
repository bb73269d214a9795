//! What a script can work out: the read handlers that depend on nothing but what they are given.

use graph::arguments::{Argument, Names, Scope, parse_integer, unparse};
use graph::language::{first_word, split_words};

use super::sprintf::sprintf;
use super::text;

/// The names of the functions, in the order in which they are listed.
pub(super) const FUNCTIONS: [&str; 33] = [
    "add", "sub", "min", "max", "mul", "div", "idiv", "mod", "rem", "neg", "abs", "eq", "ne", "gt", "ge",
    "lt", "le", "not", "sprintf", "first", "random", "and", "or", "nand", "nor", "if", "in", "length",
    "unquote", "htons", "htonl", "ntohs", "ntohl",
];

/// Works a function out; `None` when there is none of that name. The error is Click's message.
pub(super) fn call(name: &str, argument: &str) -> Option<Result<String, String>> {
    let words = split_words(argument);
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, &words),
        "mod" | "rem" => remainder(name, &words),
        "neg" | "abs" => sign(name, argument),
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, &words),
        "not" => boolean(argument).map(|value| truth(!value)),
        "and" | "nand" => every(&words).map(|all| truth(all == (name == "and"))),
        "or" | "nor" => any(&words).map(|any| truth(any == (name == "or"))),
        "if" => choose(&words),
        "in" => Ok(truth(words.split_first().is_some_and(|(word, others)| {
            let word = text(word);
            !word.is_empty() && others.iter().any(|other| text(other) == word)
        }))),
        "sprintf" => sprintf(argument),
        "first" => Ok(first_word(argument).map_or(String::new(), |(word, _)| word.to_owned())),
        "random" => random(&words),
        "length" => Ok(argument.len().to_string()),
        "unquote" => Ok(text(argument)),
        "htons" | "ntohs" => integer(argument).map(|value| (value as u16).to_be().to_string()),
        "htonl" | "ntohl" => integer(argument).map(|value| (value as u32).to_be().to_string()),
        _ => return None,
    })
}

/// A whole number, or one with a fraction.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl Number {
    fn parse(word: &str) -> Option<Number> {
        whole(word).map(Number::Whole).or_else(|| real(word).map(Number::Real))
    }

    fn real(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    fn show(self) -> String {
        match self {
            Number::Whole(value) => value.to_string(),
            Number::Real(value) => unparse::real(value),
        }
    }
}

pub(super) fn whole(word: &str) -> Option<i64> {
    parse_integer(word, i64::MIN.into(), i64::MAX.into()).ok().and_then(|value| i64::try_from(value).ok())
}

fn real(word: &str) -> Option<f64> {
    f64::parse(word, &Scope::new(&Names::new(), "")).ok()
}

fn integer(word: &str) -> Result<i64, String> {
    whole(word.trim()).ok_or_else(|| "syntax error".to_owned())
}

fn boolean(word: &str) -> Result<bool, String> {
    bool::parse(word.trim(), &Scope::new(&Names::new(), "")).map_err(|_| "syntax error".to_owned())
}

pub(super) fn truth(value: bool) -> String {
    unparse::boolean(value).to_owned()
}

fn arithmetic(name: &str, words: &[&str]) -> Result<String, String> {
    let numbers: Option<Vec<Number>> = words.iter().map(|word| Number::parse(word)).collect();
    let numbers = numbers.ok_or_else(|| "expected list of numbers".to_owned())?;
    // Division is of real numbers, whatever is divided.
    let divides = matches!(name, "div" | "idiv");
    let mut numbers =
        numbers.into_iter().map(|number| if divides { Number::Real(number.real()) } else { number });
    let nothing = if matches!(name, "add" | "sub") { 0 } else { 1 };
    let first = numbers.next().unwrap_or(Number::Whole(nothing));
    let result = numbers.fold(first, |sum, number| match (sum, number) {
        (Number::Whole(sum), Number::Whole(number)) => Number::Whole(match name {
            "add" => sum.wrapping_add(number),
            "sub" => sum.wrapping_sub(number),
            "min" => sum.min(number),
            "max" => sum.max(number),
            _ => sum.wrapping_mul(number),
        }),
        (sum, number) => {
            let (sum, number) = (sum.real(), number.real());
            Number::Real(match name {
                "add" => sum + number,
                "sub" => sum - number,
                "min" => sum.min(number),
                "max" => sum.max(number),
                "mul" => sum * number,
                _ => sum / number,
            })
        }
    });
    Ok(if name == "idiv" { Number::Whole(result.real() as i64).show() } else { result.show() })
}

fn remainder(name: &str, words: &[&str]) -> Result<String, String> {
    let wrong = || "expected two numbers".to_owned();
    let [a, b] = words else { return Err(wrong()) };
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return a.checked_rem(b).map(|rest| rest.to_string()).ok_or_else(|| "division by zero".to_owned());
    }
    match (real(a), real(b)) {
        (Some(a), Some(b)) if name == "rem" => Ok(unparse::real(a % b)),
        _ => Err(wrong()),
    }
}

fn sign(name: &str, argument: &str) -> Result<String, String> {
    let number = Number::parse(argument.trim()).ok_or_else(|| "expected one number".to_owned())?;
    Ok(match (number, name) {
        (Number::Whole(value), "neg") => Number::Whole(value.wrapping_neg()),
        (Number::Whole(value), _) => Number::Whole(value.wrapping_abs()),
        (Number::Real(value), "neg") => Number::Real(-value),
        (Number::Real(value), _) => Number::Real(value.abs()),
    }
    .show())
}

fn compare(name: &str, words: &[&str]) -> Result<String, String> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let [a, b] = words else { return Err("expected two numbers".to_owned()) };
    let order = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => a.cmp(&b),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()).unwrap_or(Greater),
        _ => text(a).cmp(&text(b)),
    };
    Ok(truth(match name {
        "eq" => order == Equal,
        "ne" => order != Equal,
        "gt" => order == Greater,
        "ge" => order != Less,
        "lt" => order == Less,
        _ => order != Greater,
    }))
}

/// Whether all are true; those behind the first that is not are not looked at.
fn every(words: &[&str]) -> Result<bool, String> {
    for word in words {
        if !boolean(word)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether one is true; those behind it are not looked at.
fn any(words: &[&str]) -> Result<bool, String> {
    for word in words {
        if boolean(word)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn choose(words: &[&str]) -> Result<String, String> {
    let condition = boolean(words.first().copied().unwrap_or(""))?;
    Ok(words.get(if condition { 1 } else { 2 }).copied().unwrap_or("").to_owned())
}

fn random(words: &[&str]) -> Result<String, String> {
    let numbers: Option<Vec<u32>> = words.iter().map(|word| u32::try_from(whole(word)?).ok()).collect();
    let (least, most) = match numbers.as_deref() {
        Some([]) => (0, u32::MAX >> 1),
        Some([count]) if *count > 0 => (0, count - 1),
        Some([least, most]) if least <= most => (*least, *most),
        _ => return Err("bad N".to_owned()),
    };
    use std::hash::BuildHasher;
    // Each of them is seeded anew.
    let any = std::hash::RandomState::new().hash_one(0);
    Ok((u64::from(least) + any % (u64::from(most - least) + 1)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(line: &str) -> String {
        let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
        call(name, argument).unwrap().unwrap_or_else(|wrong| format!("! {wrong}"))
    }

    #[test]
    fn numbers() {
        for (line, value) in [
            ("add 10 5 2", "17"),
            ("add", "0"),
            ("mul", "1"),
            ("add 1 0.5", "1.5"),
            ("sub 10 5 2", "3"),
            ("min 4 -2 9", "-2"),
            ("max 1 2.5", "2.5"),
            ("mul 3 0x10", "48"),
            ("div 75 2.5 5", "6"),
            ("div 1 3", "0.333333333333"),
            ("idiv 7 2", "3"),
            ("mod 7 3", "1"),
            ("mod 7 0", "! division by zero"),
            ("mod 7.5 2", "! expected two numbers"),
            ("rem 7.5 2", "1.5"),
            ("neg 3", "-3"),
            ("abs -2.5", "2.5"),
            ("neg x", "! expected one number"),
            ("add 1 x", "! expected list of numbers"),
            ("htons 1", "256"),
            ("htonl 1", "16777216"),
        ] {
            assert_eq!(of(line), value, "{line}");
        }
    }

    #[test]
    fn truth_and_texts() {
        for (line, value) in [
            ("eq 10 0xA", "true"),
            ("le 9 8", "false"),
            ("eq 10x 10x", "true"),
            ("lt \"a\" b", "true"),
            ("eq 1", "! expected two numbers"),
            ("not false", "true"),
            ("not maybe", "! syntax error"),
            ("and true true 0", "false"),
            ("or false maybe", "! syntax error"),
            ("or true maybe", "true"),
            ("nand true true", "false"),
            ("nor false", "true"),
            ("if true a b", "a"),
            ("if 0 a b", "b"),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("first \"a b\" c", "\"a b\""),
            ("length abcde", "5"),
            ("unquote \"a\"", "a"),
        ] {
            assert_eq!(of(line), value, "{line}");
        }
        assert!(call("step", "").is_none());
        let random: u32 = of("random 3 5").parse().unwrap();
        assert!((3..=5).contains(&random));
        assert_eq!(
            (of("random 1"), of("random 0"), of("random 5 3")),
            ("0".into(), "! bad N".into(), "! bad N".into())
        );
    }

    proptest! {
        #[test]
        fn any_argument_has_an_answer(which in 0..FUNCTIONS.len(), argument in r#"[-0-9.x"%a-f ]{0,24}"#) {
            if let Some(answer) = call(FUNCTIONS[which], &argument) {
                prop_assert!(answer.is_ok() || !answer.unwrap_err().is_empty());
            }
        }
    }
}
