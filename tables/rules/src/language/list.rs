//! Rule lists: lines that begin chains, make sets, and are rules; what they name is found when all
//! has been read.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::address::{self, nets};
use super::line::Uses;
use super::rule;
use super::words::{Word, Words};
use crate::matches::Unknown;
use crate::mistake::{Hint, Mistake, Mistakes, Page};
use crate::model::*;
use crate::set::Set;

/// How a file that a rule list or `router.toml` names is read: relative to what is the caller's to
/// say.
pub(crate) type Reading<'r> = dyn FnMut(&Path) -> std::io::Result<String> + 'r;

/// A filter while it is read.
#[derive(Default)]
pub(crate) struct Draft {
    filter: Filter,
    pub mistakes: Vec<Mistake>,
    /// Chains that were begun, with the place where. Others are only named so far.
    begun: HashMap<String, String>,
    /// What is said where no set of a name turns up: chain, rule and the mistake.
    sets: Vec<(String, Mistake)>,
    chains: Vec<(String, Mistake)>,
    /// Rules that ask for what is not known at some hooks: the chain, the hooks, and what is said
    /// if packets come there from them.
    unknown: Vec<(usize, &'static [Hook], Mistake)>,
    /// Names of rules.
    names: HashMap<String, usize>,
}

impl Draft {
    /// The number of a chain, which is made if it isn't there.
    pub fn chain(&mut self, name: &str) -> usize {
        let chains = &mut self.filter.chains;
        chains.iter().position(|chain| chain.name == name).unwrap_or_else(|| {
            chains.push(Chain::new(name));
            chains.len() - 1
        })
    }

    /// Notes that a chain begins here; a chain begins once.
    pub fn begin(&mut self, page: &mut Page, name: &str, at: Range<usize>) -> usize {
        let place = format!("{}:{}", page.file, page.line_of(at.start));
        if let Some(before) = self.begun.insert(name.to_owned(), place) {
            page.wrong(at, format!("chain {name} is there already, at {before}"), Hint::none());
        }
        self.chain(name)
    }

    /// Sets the policy of a hook's chain.
    pub fn policy(&mut self, page: &mut Page, chain: usize, word: &str, at: Range<usize>) {
        if chain >= Hook::ALL.len() {
            let hint = Hint::expected("a rule at its end that matches everything");
            return page.wrong(at, "only input, forward and output have a policy; other chains return", hint);
        }
        self.filter.chains[chain].policy = match word {
            "accept" => Policy::Accept,
            "drop" => Policy::Drop,
            _ => {
                let hint = Hint::near(word, ["accept", "drop"]).or_expected("accept or drop");
                return page.wrong(at, format!("a policy cannot be {word:?}"), hint);
            }
        };
    }

    /// Adds a set.
    pub fn set(&mut self, page: &mut Page, name: &str, at: Range<usize>, set: Set) {
        let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if name.is_empty() || name.len() > 60 || !name.chars().all(known) {
            let hint = Hint::expected("letters, digits, -, _ and . (60 at most)");
            page.wrong(at, format!("a set cannot be called {name:?}"), hint);
        } else if self.filter.set(name).is_some() {
            page.wrong(at, format!("set {name} is there already"), Hint::none());
        } else {
            self.filter.sets.push((name.to_owned(), set));
        }
    }

    /// The members of a set from a file.
    pub fn set_from_file(
        &mut self,
        page: &mut Page,
        file: &str,
        at: Range<usize>,
        files: &mut Reading,
    ) -> Set {
        let Some(text) = open(page, file, at, files) else { return Set::default() };
        let mut members = Page::new(file, &text);
        let set = address::members(&mut members);
        self.mistakes.append(&mut members.found);
        set
    }

    /// Reads a rule list from a file. Rules before its first chain are of `chain`.
    pub fn file(
        &mut self,
        page: &mut Page,
        file: &str,
        at: Range<usize>,
        chain: Option<usize>,
        files: &mut Reading,
    ) {
        if let Some(text) = open(page, file, at, files) {
            self.list(file, &text, chain, files);
        }
    }

    /// Reads a rule list.
    pub fn list(&mut self, file: &str, text: &str, chain: Option<usize>, files: &mut Reading) {
        let mut page = Page::new(file, text);
        self.lines(&mut page, text, &|at| at, chain, files);
        self.mistakes.append(&mut page.found);
    }

    /// Reads lines of a page. `place` says which bytes of the page some bytes of the lines are.
    pub fn lines(
        &mut self,
        page: &mut Page,
        text: &str,
        place: &dyn Fn(Range<usize>) -> Range<usize>,
        mut chain: Option<usize>,
        files: &mut Reading,
    ) {
        let file: Arc<str> = page.file.into();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let mut words = Words::of(line, |at| place(start + at.start..start + at.end));
            start += line.len();
            let (Some(whole), Some(first)) = (words.whole(), words.peek()) else { continue };
            match first {
                "chain" => {
                    words.take();
                    chain = self.chain_line(page, &mut words).or(chain);
                }
                "set" => {
                    words.take();
                    self.set_line(page, &mut words, files);
                }
                _ => {
                    let Some(chain) = chain else {
                        page.wrong(
                            whole,
                            "the rule is in no chain",
                            Hint::expected("chain forward, say, on a line above"),
                        );
                        continue;
                    };
                    let written = Place { file: file.clone(), line: page.line_of(whole.start) };
                    if let Some((rule, uses)) = rule::rule(page, words, written) {
                        self.add(page, chain, rule, uses, whole);
                    }
                }
            }
        }
    }

    fn chain_line(&mut self, page: &mut Page, words: &mut Words) -> Option<usize> {
        let Word { text: name, at } = words.need(page, "the name", "chain NAME [policy accept|drop]")?;
        let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
        if name.len() > 60 || !name.chars().all(known) {
            let hint = Hint::expected("letters, digits, -, _ and . (60 at most)");
            page.wrong(at.clone(), format!("a chain cannot be called {name:?}"), hint);
        }
        let chain = self.begin(page, name, at);
        if words.take_if("policy")
            && let Some(word) = words.need(page, "the policy", "accept or drop")
        {
            self.policy(page, chain, word.text, word.at);
        }
        if let Some(word) = words.take() {
            let message = format!("{:?} stands behind the chain", word.text);
            page.wrong(word.at, message, Hint::expected("chain NAME [policy accept|drop]"));
        }
        Some(chain)
    }

    fn set_line(&mut self, page: &mut Page, words: &mut Words, files: &mut Reading) {
        let expected = "set NAME file PATH, or set NAME ADDRESS, ...";
        let Some(name) = words.need(page, "the name", expected) else { return };
        let set = if words.take_if("file") {
            let Some(path) = words.need(page, "the path", expected) else { return };
            self.set_from_file(page, path.text, path.at, files)
        } else {
            let Some((_, items)) = words.list(page, "the members", expected) else { return };
            let mut members = Vec::new();
            for item in items {
                match nets(item.text) {
                    Ok(nets) => members.extend(nets),
                    Err(message) => {
                        page.wrong(item.at, message, Hint::expected("addresses, prefixes and ranges"))
                    }
                }
            }
            members.into_iter().collect()
        };
        self.set(page, name.text, name.at, set);
    }

    fn add(&mut self, page: &mut Page, chain: usize, rule: Rule, uses: Uses, whole: Range<usize>) {
        for used in uses.sets {
            let known: Vec<&str> = self.filter.sets.iter().map(|(name, _)| name.as_str()).collect();
            let hint = Hint::near(&used.name, known);
            let mistake = page.at(used.at, format!("there is no set {:?}", used.name), hint);
            self.sets.push((used.name, mistake));
        }
        for used in uses.chains {
            let message = format!("there is no chain {:?}", used.name);
            let mistake = page.at(used.at, message, Hint::none());
            self.chains.push((used.name, mistake));
        }
        for (at, Unknown { hooks, why, instead }) in uses.unknown {
            self.unknown.push((chain, hooks, page.at(at, why, Hint::expected(instead))));
        }
        if let Some(name) = &rule.name
            && let Some(line) = self.names.insert(name.clone(), rule.place.line)
        {
            page.wrong(whole, format!("a rule is called {name} already, on line {line}"), Hint::none());
        }
        self.filter.chains[chain].rules.push(rule);
    }

    /// The filter, when nothing is wrong with it.
    pub fn finish(mut self) -> Result<Filter, Mistakes> {
        for (name, mut mistake) in std::mem::take(&mut self.sets) {
            if self.filter.set(&name).is_none() {
                mistake.meant =
                    Hint::near(&name, self.filter.sets.iter().map(|(name, _)| name.as_str())).meant;
                self.mistakes.push(mistake);
            }
        }
        let mut jumps_fit = true;
        for (name, mut mistake) in std::mem::take(&mut self.chains) {
            let known = self.filter.chains.iter().map(|chain| chain.name.as_str());
            let hook = Hook::ALL.iter().any(|hook| hook.name() == name);
            if hook {
                mistake.message = format!("{name} is where packets begin; no rule jumps there");
            } else if known.clone().any(|known| known == name) && self.begun.contains_key(&name) {
                continue;
            } else {
                mistake.meant = Hint::near(&name, known).meant;
            }
            jumps_fit = false;
            self.mistakes.push(mistake);
        }
        self.number();
        if jumps_fit {
            self.circles();
            let reached = Hook::ALL.map(|hook| self.reached(hook as usize));
            for (chain, hooks, mistake) in std::mem::take(&mut self.unknown) {
                if hooks.iter().any(|hook| reached[*hook as usize][chain]) {
                    self.mistakes.push(mistake);
                }
            }
        }
        if self.mistakes.is_empty() { Ok(self.filter) } else { Err(Mistakes(self.mistakes)) }
    }

    /// Writes the numbers of sets and chains beside their names.
    fn number(&mut self) {
        let chains: HashMap<String, usize> =
            self.filter.chains.iter().enumerate().map(|(n, chain)| (chain.name.clone(), n)).collect();
        let sets: HashMap<&str, usize> =
            self.filter.sets.iter().enumerate().map(|(n, (name, _))| (name.as_str(), n)).collect();
        for rule in self.filter.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            if let Some(Verdict::Jump { chain, number }) = &mut rule.verdict {
                *number = chains.get(chain).copied().unwrap_or_default();
            }
            let lists = [&mut rule.matches.source, &mut rule.matches.destination];
            for item in lists.into_iter().flatten().flat_map(|list| &mut list.items) {
                if let Address::Set { name, number } = item {
                    *number = sets.get(name.as_str()).copied().unwrap_or_default();
                }
            }
        }
    }

    /// Which chains packets of a chain come to.
    fn reached(&self, from: usize) -> Vec<bool> {
        let mut reached = vec![false; self.filter.chains.len()];
        let mut open = vec![from];
        while let Some(chain) = open.pop() {
            if !std::mem::replace(&mut reached[chain], true) {
                open.extend(self.filter.chains[chain].jumps().map(|(to, _)| to));
            }
        }
        reached
    }

    /// Notes jumps that lead back to where they stand.
    fn circles(&mut self) {
        let mut found = Vec::new();
        for (number, chain) in self.filter.chains.iter().enumerate() {
            for (to, rule) in chain.jumps().filter(|(to, _)| self.reached(*to)[number]) {
                let name = &self.filter.chains[to].name;
                found.push(Mistake {
                    file: rule.place.file.to_string(),
                    line: rule.place.line,
                    column: 1,
                    text: rule.to_string(),
                    width: rule.to_string().chars().count(),
                    message: format!("the jump to {name} leads back to {}", chain.name),
                    expected: Some("chains that end".to_owned()),
                    meant: None,
                });
            }
        }
        self.mistakes.append(&mut found);
    }
}

impl Chain {
    /// The rules that jump, and where to.
    pub(crate) fn jumps(&self) -> impl Iterator<Item = (usize, &Rule)> {
        self.rules.iter().filter_map(|rule| match rule.verdict {
            Some(Verdict::Jump { number, .. }) => Some((number, rule)),
            _ => None,
        })
    }
}

fn open(page: &mut Page, file: &str, at: Range<usize>, files: &mut Reading) -> Option<String> {
    match files(Path::new(file)) {
        // Some editors begin every text in UTF-8 with a mark.
        Ok(text) => Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) => {
            page.wrong(at, format!("cannot read {file:?}: {error}"), Hint::none());
            None
        }
    }
}

impl Filter {
    /// Reads a rule list. `file` is what messages call it; `files` reads the files that it names.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn read(file: &str, text: &str, files: &mut Reading) -> Result<Filter, Mistakes> {
        let mut draft = Draft::default();
        draft.list(file, text, None, files);
        draft.finish()
    }
}
