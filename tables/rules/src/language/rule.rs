//! One line of a rule list as a rule. What it matches is read by the matches themselves
//! ([`crate::matches`]).

use super::address::nets;
use super::item::number32;
use super::line::{Line, Used, Uses};
use super::words::{Word, Words};
use crate::matches::{dscp, is_about};
use crate::mistake::{Hint, Page};
use crate::model::*;
use wire::{IcmpError, protocol};

const ACTIONS: &[&str] =
    &["accept", "drop", "reject", "jump", "return", "log", "count", "mark", "set-dscp", "police"];
/// The ways of rejecting that have a word.
fn rejects() -> impl Iterator<Item = (&'static str, Reject)> {
    let errors = IcmpError::ALL.iter().filter_map(|error| Some((error.asked()?.0, Reject::Icmp(*error))));
    [("tcp-reset", Reject::TcpReset)].into_iter().chain(errors)
}

/// The word for a way of rejecting.
pub(crate) fn name_of_reject(reject: Reject) -> Option<&'static str> {
    rejects().find(|(_, known)| *known == reject).map(|(name, _)| name)
}

/// Reads a rule. `None` when something is wrong with it, which the page then knows.
pub(crate) fn rule(page: &mut Page, words: Words, place: Place) -> Option<(Rule, Uses)> {
    let before = page.found.len();
    let comment = words.comment.map(str::to_owned);
    let start = words_start(&words, page);
    let rule = Rule { place, comment, ..Rule::default() };
    let mut line = Line { page, words, rule, uses: Uses::default(), side: None, failed: false };
    line.actions();
    line.matches();
    if line.page.found.len() == before {
        line.agree(start);
    }
    let Line { page, rule, uses, failed, .. } = line;
    (!failed && page.found.len() == before).then_some((rule, uses))
}

fn words_start(words: &Words, page: &Page) -> std::ops::Range<usize> {
    words.whole().unwrap_or(page.text.len()..page.text.len())
}

impl Line<'_, '_, '_> {
    fn actions(&mut self) {
        let mut any = false;
        while let Some(text) = self.words.peek().filter(|text| ACTIONS.contains(text)) {
            let Some(word) = self.words.take() else { break };
            any = true;
            match text {
                "log" => {
                    let log = self.log();
                    self.rule.effects.log = log;
                }
                "count" => self.rule.effects.count = true,
                "mark" => {
                    let mark = self.need("the mark", "a number").and_then(|word| self.number32(&word));
                    self.rule.effects.mark = mark;
                }
                "set-dscp" => {
                    let word = self.need("the code point", "ef, af11, cs1, ... or 0 to 63");
                    self.rule.effects.dscp = word.and_then(|word| self.dscp(&word));
                }
                "police" => self.rule.effects.police = self.rate(),
                _ => {
                    let verdict = self.verdict(text);
                    if self.rule.verdict.is_some() {
                        self.wrong(&word, "a rule decides once", Hint::none());
                    }
                    self.rule.verdict = verdict;
                }
            }
        }
        if !any {
            let expected = "accept, drop, reject, jump, return, log, count, mark, set-dscp or police";
            match self.words.take() {
                Some(word) if word.text == "pass" || word.text == "permit" || word.text == "allow" => {
                    let hint = Hint { expected: None, meant: Some("\"accept\"".into()) };
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                Some(word) if word.text == "deny" || word.text == "block" => {
                    let hint = Hint { expected: None, meant: Some("\"drop\"".into()) };
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                Some(word) => {
                    let hint = Hint::near(word.text, ACTIONS.iter().copied()).or_expected(expected);
                    self.wrong(&word, format!("a rule begins with what is done, not {:?}", word.text), hint);
                }
                None => {}
            }
        }
    }

    fn verdict(&mut self, text: &str) -> Option<Verdict> {
        Some(match text {
            "accept" => Verdict::Accept,
            "drop" => Verdict::Drop,
            "return" => Verdict::Return,
            "jump" => {
                let word = self.need("the chain", "the name of a chain")?;
                self.uses.chains.push(Used { name: word.text.to_owned(), at: word.at });
                Verdict::Jump { chain: word.text.to_owned(), number: 0 }
            }
            _ => {
                if !self.words.take_if("with") {
                    return Some(Verdict::Reject(Reject::Auto));
                }
                let kinds: Vec<&str> = rejects().map(|(name, _)| name).collect();
                let expected = kinds.join(", ");
                let word = self.need("the kind", &expected)?;
                match rejects().find(|(name, _)| *name == word.text) {
                    Some((_, kind)) => Verdict::Reject(kind),
                    None => {
                        let hint = Hint::near(word.text, kinds).or_expected(expected);
                        self.wrong(&word, format!("nothing is rejected with {:?}", word.text), hint);
                        return None;
                    }
                }
            }
        })
    }

    fn log(&mut self) -> Option<Log> {
        let mut log = Log { every: 1, limit: Rate::new(100, Unit::Packets) };
        loop {
            if self.words.take_if("every") {
                let word = self.need("how many packets", "a number from 1")?;
                match word.text.parse() {
                    Ok(every) if every > 0 => log.every = every,
                    _ => self.wrong(&word, format!("{:?} is no number from 1", word.text), Hint::none()),
                }
            } else if self.words.take_if("at") {
                if !self.words.take_if("most") {
                    let word = self.need("\"most\"", "log at most 10pps")?;
                    self.wrong(&word, "behind \"at\" stands \"most\"", Hint::expected("log at most 10pps"));
                    return None;
                }
                log.limit = self.rate()?;
            } else {
                return Some(log);
            }
        }
    }

    fn matches(&mut self) {
        while let Some(word) = self.words.take() {
            match word.text {
                "name" => {
                    let Some(word) = self.need("the name", "a word") else { return };
                    self.rule.name = Some(word.text.to_owned());
                }
                "kernel" => {
                    let Some(word) = self.need("what the kernel does", "open or closed") else { return };
                    match word.text {
                        "open" => self.rule.fallback = Some(Fallback::Open),
                        "closed" => self.rule.fallback = Some(Fallback::Closed),
                        _ => self.wrong(
                            &word,
                            format!("kernel cannot be {:?}", word.text),
                            Hint::expected("open or closed"),
                        ),
                    }
                }
                _ if Match::read(self, &word) => {}
                _ => self.unknown(&word),
            }
        }
    }

    fn unknown(&mut self, word: &Word) {
        if ACTIONS.contains(&word.text) {
            let hint = Hint::expected("actions first, then what they are done with");
            return self.wrong(word, format!("{:?} stands too far behind", word.text), hint);
        }
        let protocols = protocol::NAMES.iter().map(|(name, _)| *name);
        let hint = if nets(word.text).is_ok() || word.text.starts_with('@') || word.text == "any" {
            Hint::expected("from or to before an address")
        } else {
            Hint::near(word.text, Match::words().chain(["name", "kernel"]).chain(protocols))
        };
        self.wrong(word, format!("{:?} is nothing that a rule matches", word.text), hint);
    }

    fn number32(&mut self, word: &Word) -> Option<u32> {
        let number = number32(word.text);
        if number.is_none() {
            self.wrong(word, format!("{:?} is no number of 32 bits", word.text), Hint::expected("5, 0x10"));
        }
        number
    }

    fn dscp(&mut self, word: &Word) -> Option<u8> {
        dscp(word.text).map_err(|(message, hint)| self.wrong(word, message, hint)).ok()
    }

    /// Whether what the rule says goes together; fills in what follows from it.
    fn agree(&mut self, at: std::ops::Range<usize>) {
        let Line { page, rule, failed, .. } = self;
        let mut complain = |message: &str, expected: &str| {
            page.wrong(at.clone(), message, Hint::expected(expected));
            *failed = true;
        };
        rule.matches.agree(&mut complain);
        if rule.verdict == Some(Verdict::Reject(Reject::TcpReset)) && !is_about(&rule.matches, protocol::TCP)
        {
            complain("only TCP can be reset", "tcp in the rule, or reject without a kind");
        }
    }
}
