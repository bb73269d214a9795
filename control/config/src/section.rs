//! Reading the keys of one section: types, ranges, choices, and the keys that nobody knows.
//!
//! A reader asks for the keys that it knows; what it did not ask for is unknown when it is done. So
//! the code that reads a section is also the list of its keys.

use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};

use notation::grouped;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::mistake::{Hint, Page, near};

/// A value and where it stands.
pub(crate) struct Found<T> {
    pub value: T,
    pub at: Range<usize>,
}

/// One table of the file, being read.
pub(crate) struct Section<'a> {
    /// As an operator would write it: `[workers]`, `[[port]]`.
    name: String,
    /// Where it begins.
    pub at: Range<usize>,
    table: &'a DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub fn new(name: impl Into<String>, at: Range<usize>, table: &'a DeTable<'a>) -> Section<'a> {
        Section { name: name.into(), at, table, known: Vec::new() }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    /// The value as it is.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.find(key)
    }

    /// A whole number in a range.
    pub fn number(&mut self, page: &mut Page, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.find(key)?;
        let expected = format!("a whole number from {}", ends(&range));
        in_range(page, key, value, &range, expected)
    }

    /// A whole number in a range, or 0 (`None`), which leaves the choice to Bifrost.
    pub fn number_or_auto(
        &mut self,
        page: &mut Page,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = self.find(key)?;
        let expected = format!("0 (as many as fit the machine), or a whole number from {}", ends(&range));
        match number_of(value.get_ref()) {
            Some(0) => None,
            _ => in_range(page, key, value, &range, expected),
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &mut self,
        page: &mut Page,
        key: &'static str,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let value = self.find(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => None,
        };
        if let Some((_, chosen)) = words.iter().find(|(word, _)| Some(*word) == text) {
            return Some(*chosen);
        }
        let names = words.iter().map(|(word, _)| *word);
        let (message, meant) = match (text, value.get_ref()) {
            (Some(text), _) => (format!("{key} cannot be {text:?}"), near(text, names.clone())),
            (None, DeValue::Boolean(on)) => {
                let word = if *on { "on" } else { "off" };
                (format!("{key} cannot be {on}"), names.clone().find(|name| *name == word))
            }
            (None, other) => (format!("{key} cannot be {}", kind(other)), None),
        };
        let hint = Hint { expected: Some(list(names, "or")), meant: meant.map(|word| format!("{word:?}")) };
        page.wrong(value.span(), message, hint);
        None
    }

    /// A text that `read` understands; `read` says what is wrong with it otherwise.
    pub fn text<T>(
        &mut self,
        page: &mut Page,
        key: &'static str,
        expected: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Found<T>> {
        let value = self.find(key)?;
        let at = value.span();
        match value.get_ref() {
            DeValue::String(text) => match read(text) {
                Ok(value) => return Some(Found { value, at }),
                Err(message) => page.wrong(at, format!("{key}: {message}"), Hint::expected(expected)),
            },
            other => page.wrong(at, format!("{key} cannot be {}", kind(other)), Hint::expected(expected)),
        }
        None
    }

    /// A list of texts that `read` understands; `None` where one of them is wrong.
    pub fn texts<T>(
        &mut self,
        page: &mut Page,
        key: &'static str,
        expected: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.find(key)?;
        let mut wrong = |at, message| page.wrong(at, format!("{key}: {message}"), Hint::expected(expected));
        let DeValue::Array(list) = value.get_ref() else {
            wrong(value.span(), format!("this is {}, not a list", kind(value.get_ref())));
            return None;
        };
        let items = list.iter().map(|item| {
            let text = match item.get_ref() {
                DeValue::String(text) => read(text),
                other => Err(format!("it cannot have {}", kind(other))),
            };
            text.map_err(|message| wrong(item.span(), message)).ok()
        });
        // All of them, so that each mistake is noted.
        items.collect::<Vec<_>>().into_iter().collect()
    }

    /// `true` or `false`.
    pub fn flag(&mut self, page: &mut Page, key: &'static str) -> Option<bool> {
        let value = self.find(key)?;
        if let DeValue::Boolean(on) = value.get_ref() {
            return Some(*on);
        }
        let message = format!("{key} cannot be {}", kind(value.get_ref()));
        page.wrong(value.span(), message, Hint::expected("true or false"));
        None
    }

    /// All that it has, where keys are names: nothing is unknown then.
    pub fn all(self) -> impl Iterator<Item = (&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
        self.table.iter()
    }

    /// A table inside this one, called `name`.
    pub fn section(&mut self, page: &mut Page, key: &'static str, name: &str) -> Option<Section<'a>> {
        let value = self.find(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section::new(name, value.span(), table)),
            other => {
                page.wrong(
                    value.span(),
                    format!("{key} cannot be {}", kind(other)),
                    Hint::expected(format!("a section {name}")),
                );
                None
            }
        }
    }

    /// The place to name when something that must be there is not.
    pub fn require<T>(&self, page: &mut Page, key: &str, found: Option<T>, expected: &str) -> Option<T> {
        // A key that is there and wrong has its message already.
        if found.is_none() && !self.table.contains_key(key) {
            let article = if key.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            let message = format!("{} needs {article} {key}", self.name);
            page.missing(self.at.clone(), message, Hint::expected(expected));
        }
        found
    }

    /// Names every key that was not asked for.
    pub fn finish(self, page: &mut Page) {
        for key in self.table.keys() {
            if self.known.iter().any(|known| *known == key.get_ref().as_ref()) {
                continue;
            }
            let what = if self.name.is_empty() {
                "there is no section".to_owned()
            } else {
                format!("{} has no key", self.name)
            };
            let hint = Hint {
                expected: Some(self.known.join(", ")),
                meant: near(key.get_ref(), self.known.iter().copied()).map(str::to_owned),
            };
            page.wrong(key.span(), format!("{what} {:?}", key.get_ref()), hint);
        }
    }
}

/// The sections that a table has, each with its name and where that stands.
pub(crate) fn named<'a>(
    page: &mut Page,
    section: &mut Section<'a>,
    key: &'static str,
    title: &str,
) -> Vec<(&'a str, Section<'a>)> {
    let Some(value) = section.value(key) else { return Vec::new() };
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!("{key} cannot be {}", kind(value.get_ref()));
        page.wrong(value.span(), message, Hint::expected(format!("sections [{title}.NAME]")));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, value) in table {
        let title = format!("[{title}.{}]", written(name.get_ref()));
        match value.get_ref() {
            DeValue::Table(keys) => {
                found.push((name.get_ref().as_ref(), Section::new(title, name.span(), keys)));
            }
            other => {
                let message = format!("{title} cannot be {}", kind(other));
                page.wrong(value.span(), message, Hint::expected(format!("a section {title}")));
            }
        }
    }
    found
}

/// A name as a header has it.
fn written(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

fn in_range(
    page: &mut Page,
    key: &str,
    value: &Spanned<DeValue>,
    range: &RangeInclusive<u64>,
    expected: String,
) -> Option<u64> {
    let found = number_of(value.get_ref());
    let number = found.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
    if number.is_none() {
        let message = match found {
            Some(_) => format!("{key} is out of range"),
            None => format!("{key} cannot be {}", kind(value.get_ref())),
        };
        page.wrong(value.span(), message, Hint::expected(expected));
    }
    number
}

/// `1 to 1,024`.
fn ends(range: &RangeInclusive<u64>) -> String {
    format!("{} to {}", grouped(*range.start()), grouped(*range.end()))
}

pub(crate) fn number_of(value: &DeValue) -> Option<i128> {
    match value {
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix()).ok(),
        _ => None,
    }
}

/// What a value is, in words.
pub(crate) fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

/// `"a", "b" or "c"`.
fn list<'w>(words: impl Iterator<Item = &'w str>, and: &str) -> String {
    let mut words: Vec<String> = words.map(|word| format!("{word:?}")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} {and} {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}
