//! The filter as `router.toml` says it.
//!
//! ```toml
//! [filter]
//! rules_file = "filter.rules"        # chains, sets and rules; see `language`
//!
//! [filter.sets]
//! bogons = ["10.0.0.0/8", "192.168.0.0/16"]
//! scanners = { file = "scanners.txt" }
//!
//! [filter.forward]                   # or input, output
//! policy = "drop"
//! rules = """
//! accept state established,related
//! accept tcp to 198.51.100.0/24 port 80,443
//! """
//!
//! [filter.chains.guests]             # to jump to
//! rules = ["police 20Mbit", "accept"]
//! rules_file = "guests.rules"
//! ```
//!
//! Rules are written in one language wherever they stand; the rules of a chain's `rules_file` come
//! behind those of its `rules`. The section is walked here rather than derived, as the rest of
//! `router.toml` is, so that every mistake in it is told at once, at its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::language::{Draft, Reading};
use crate::mistake::{Hint, Mistakes, Page};
use crate::model::{Filter, Hook};

impl Filter {
    /// Reads the section `[filter]`. `file` and `text` are the whole file that it is part of, for
    /// messages; `files` reads the files that it names.
    ///
    /// # Errors
    /// All mistakes at once, those in the files it names included.
    pub fn read_toml(
        file: &str,
        text: &str,
        section: &DeTable,
        files: &mut Reading,
    ) -> Result<Filter, Mistakes> {
        let mut page = Page::new(file, text);
        let mut draft = Draft::default();
        Section { page: &mut page, draft: &mut draft, files }.filter(section);
        draft.mistakes.splice(0..0, page.found);
        draft.finish()
    }
}

struct Section<'s, 't, 'r> {
    page: &'s mut Page<'t>,
    draft: &'s mut Draft,
    files: &'s mut Reading<'r>,
}

type Value<'v> = Spanned<DeValue<'v>>;

impl Section<'_, '_, '_> {
    fn filter(&mut self, section: &DeTable) {
        // Sets first: they have nothing to refer to.
        if let Some(value) = section.get("sets") {
            self.each(value, "[filter.sets]", |section, name, value| section.set(name, value));
        }
        for hook in Hook::ALL {
            if let Some((key, value)) = section.get_key_value(hook.name()) {
                self.chain(hook.name(), key.span(), value, true);
            }
        }
        if let Some(value) = section.get("chains") {
            self.each(value, "[filter.chains]", |section, name, value| {
                section.chain(name.get_ref(), name.span(), value, false);
            });
        }
        if let Some(value) = section.get("rules_file") {
            self.file(value, None);
        }
        const KNOWN: [&str; 6] = ["input", "forward", "output", "chains", "sets", "rules_file"];
        self.unknown(section, "[filter]", &KNOWN);
    }

    /// Every key of a table, and its value.
    fn each(
        &mut self,
        value: &Value,
        name: &str,
        mut read: impl FnMut(&mut Self, &Spanned<toml::de::DeString>, &Value),
    ) {
        match value.get_ref() {
            DeValue::Table(table) => table.iter().for_each(|(key, value)| read(self, key, value)),
            _ => self.page.wrong(value.span(), format!("{name} is a section"), Hint::none()),
        }
    }

    fn unknown(&mut self, table: &DeTable, name: &str, known: &[&str]) {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let hint = Hint::near(key.get_ref(), known.iter().copied()).or_expected(known.join(", "));
            self.page.wrong(key.span(), format!("{name} has no key {:?}", key.get_ref()), hint);
        }
    }

    fn text<'v>(&mut self, value: &'v Value, expected: &str) -> Option<&'v str> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            _ => {
                self.page.wrong(value.span(), "this is no text", Hint::expected(expected));
                None
            }
        }
    }

    fn set(&mut self, name: &Spanned<toml::de::DeString>, value: &Value) {
        let expected = "[\"192.0.2.0/24\", ...] or { file = \"PATH\" }";
        let set = match value.get_ref() {
            DeValue::Array(items) => {
                let mut members = Vec::new();
                for item in items.iter() {
                    let Some(text) = self.text(item, expected) else { continue };
                    match crate::language::nets(text) {
                        Ok(nets) => members.extend(nets),
                        Err(message) => self.page.wrong(item.span(), message, Hint::expected(expected)),
                    }
                }
                members.into_iter().collect()
            }
            DeValue::Table(table) => {
                self.unknown(table, "a set", &["file"]);
                let Some(file) = table.get("file") else {
                    return self.page.wrong(value.span(), "the set has no file", Hint::expected(expected));
                };
                let Some(path) = self.text(file, expected) else { return };
                self.draft.set_from_file(self.page, path, file.span(), self.files)
            }
            _ => return self.page.wrong(value.span(), "this is no set", Hint::expected(expected)),
        };
        self.draft.set(self.page, name.get_ref(), name.span(), set);
    }

    fn chain(&mut self, name: &str, at: Range<usize>, value: &Value, hook: bool) {
        let DeValue::Table(table) = value.get_ref() else {
            return self.page.wrong(
                value.span(),
                format!("{name} is a section"),
                Hint::expected("policy, rules, rules_file"),
            );
        };
        let chain = self.draft.begin(self.page, name, at);
        if let Some(policy) = table.get("policy")
            && let Some(word) = self.text(policy, "\"accept\" or \"drop\"")
        {
            self.draft.policy(self.page, chain, word, policy.span());
        }
        match table.get("rules").map(|value| (value, value.get_ref())) {
            Some((_, DeValue::Array(items))) => items.iter().for_each(|item| self.rules(item, chain)),
            Some((value, _)) => self.rules(value, chain),
            None => {}
        }
        if let Some(value) = table.get("rules_file") {
            self.file(value, Some(chain));
        }
        let known: &[&str] =
            if hook { &["policy", "rules", "rules_file"] } else { &["rules", "rules_file", "policy"] };
        self.unknown(table, name, known);
    }

    fn rules(&mut self, value: &Value, chain: usize) {
        let Some(text) = self.text(value, "rules, one a line") else { return };
        let at = value.span();
        // A text without escapes stands in the file as it is, so its mistakes can be shown exactly.
        let inside =
            self.page.text.get(at.clone()).and_then(|raw| raw.find(text)).map(|found| at.start + found);
        let place = move |part: Range<usize>| match inside {
            Some(start) => start + part.start..start + part.end,
            None => at.clone(),
        };
        self.draft.lines(self.page, text, &place, Some(chain), self.files);
    }

    fn file(&mut self, value: &Value, chain: Option<usize>) {
        if let Some(path) = self.text(value, "the path of a rule list") {
            self.draft.file(self.page, path, value.span(), chain, self.files);
        }
    }
}
