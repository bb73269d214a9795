//! The numbers of a C header, for the tests that compare them with those on this side: what `#define` and `enum` name.
//! A test takes this file in by its path.

use std::collections::BTreeMap;

/// Constants by name. Macros with arguments, and what is no number, are left out.
pub struct Header(pub BTreeMap<String, u64>);

impl Header {
    /// Reads a header.
    pub fn read(text: &str) -> Header {
        let mut header = Header(BTreeMap::new());
        let text = without_comments(text).replace("\\\n", " ");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(define) = line.strip_prefix("#define ") {
                let (name, value) = define.split_once(' ').unwrap_or((define, ""));
                if let Some(value) = header.value(value) {
                    header.0.insert(name.to_owned(), value);
                }
            } else if line.starts_with("enum ") && line.contains('{') {
                let mut body = line.split_once('{').unwrap().1.to_owned();
                while !body.contains('}') {
                    body += lines.next().expect("the end of an enum");
                }
                header.add_enum(body.split_once('}').unwrap().0);
            }
        }
        header
    }

    fn add_enum(&mut self, body: &str) {
        let mut next = 0;
        for constant in body.split(',').map(str::trim).filter(|constant| !constant.is_empty()) {
            let (name, value) = constant.split_once(" = ").unwrap_or((constant, ""));
            next = self.value(value).unwrap_or(next);
            self.0.insert(name.to_owned(), next);
            next += 1;
        }
    }

    /// Those with a prefix, in lower case without it.
    pub fn family(&self, prefix: &str) -> BTreeMap<String, u64> {
        let of = |(name, value): (&String, &u64)| Some((name.strip_prefix(prefix)?.to_lowercase(), *value));
        self.0.iter().filter_map(of).collect()
    }

    /// What an expression comes to, if it is of numbers and names that are known.
    fn value(&self, text: &str) -> Option<u64> {
        let mut expression = Expression { header: self, text: text.trim() };
        let value = expression.from(0)?;
        expression.text.is_empty().then_some(value)
    }
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("*/").expect("the end of a comment").1)
}

/// What is left of an expression.
struct Expression<'a> {
    header: &'a Header,
    text: &'a str,
}

/// What an operator makes of two numbers.
type Apply = fn(u64, u64) -> u64;

/// By how tightly they bind, as in C.
const OPERATORS: [(&str, u8, Apply); 6] = [
    ("|", 1, |a, b| a | b),
    ("&", 2, |a, b| a & b),
    ("<<", 3, |a, b| a << b),
    ("+", 4, |a, b| a + b),
    ("-", 4, |a, b| a - b),
    ("*", 5, |a, b| a * b),
];

impl Expression<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.text.strip_prefix(token);
        self.text = rest.unwrap_or(self.text).trim_start();
        rest.is_some()
    }

    /// Operators that bind at least so tightly.
    fn from(&mut self, least: u8) -> Option<u64> {
        let mut value = self.operand()?;
        while let Some((token, binds, apply)) =
            OPERATORS.iter().find(|(token, binds, _)| *binds >= least && self.text.starts_with(token))
        {
            self.takes(token);
            value = apply(value, self.from(binds + 1)?);
        }
        Some(value)
    }

    fn operand(&mut self) -> Option<u64> {
        if self.takes("(") {
            let value = self.from(0)?;
            return self.takes(")").then_some(value);
        }
        let end = self.text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest.trim_start();
        let number = word.trim_end_matches(['u', 'l']);
        match number.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
            None => number.parse().ok().or_else(|| self.header.0.get(word).copied()),
        }
    }
}

#[test]
fn numbers_are_read_as_a_compiler_reads_them() {
    let header = Header::read(
        "#define A 0x10 /* sixteen */\n#define B ((1u << 3) - 1 | A)\n#define F(x) ((x) + 1)\n\
         enum e { E_A, E_B = 4, /* four\n */ E_C };\nenum f {\n    F_A = 1,\n    F_B,\n};\n#pragma once\n",
    );
    assert_eq!((header.0["A"], header.0["B"]), (16, 23));
    assert_eq!(header.family("E_"), [("a".into(), 0), ("b".into(), 4), ("c".into(), 5)].into());
    assert_eq!(header.family("F_"), [("a".into(), 1), ("b".into(), 2)].into());
    assert!(!header.0.contains_key("F(x)"));
}
