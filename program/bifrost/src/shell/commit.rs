//! The candidate is put in force; and what others have put there meanwhile comes to it.

use candidate::{Document, Word, changes, quote};

use super::ShellError;
use super::configure::After;
use super::editing::{Editing, behind, now, read};
use super::session::{Session, meant};
use super::user_state::SavedCandidate;
use crate::command::{minutes, origin};
use crate::control::{CommitRequest, Committed, Request, Text};

/// How a candidate is committed.
#[derive(Debug, Default, PartialEq)]
struct How {
    check: bool,
    confirmed: Option<u64>,
    comment: String,
    and_quit: bool,
    force: bool,
}

/// What may follow `commit`.
pub(super) const COMMIT: [(&str, &str); 5] = [
    ("check", "only say what would change"),
    ("confirmed", "go back unless `confirm` comes in time: 10 minutes, or so many, or a time such as 90s"),
    ("comment", "what is to be known of it, in quotes"),
    ("and-quit", "and leave configure mode"),
    ("force", "even if something else is there than what it was made from, or [expect] does not hold"),
];

impl How {
    fn of(words: &[Word]) -> Result<How, ShellError> {
        let mut how = How::default();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match meant(&word.text, COMMIT.iter().map(|(name, _)| *name)) {
                Ok("check") => how.check = true,
                Ok("and-quit") => how.and_quit = true,
                Ok("force") => how.force = true,
                Ok("confirmed") => {
                    let time = words.next_if(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
                    let seconds = minutes(time.map_or("10", |word| &word.text)).map_err(ShellError::said)?;
                    how.confirmed = Some(seconds);
                }
                Ok("comment") => {
                    let comment =
                        words.next().ok_or_else(|| ShellError::said("commit comment: what comment?"))?;
                    how.comment = comment.text.clone();
                }
                _ => {
                    let known = COMMIT.map(|(name, _)| name).join(", ");
                    return Err(ShellError::said(format!("commit {}? There are {known}", quote(&word.text))));
                }
            }
        }
        if how.check && how.confirmed.is_some() {
            return Err(ShellError::said("a check is nothing to confirm"));
        }
        Ok(how)
    }
}

impl Session {
    /// Puts the candidate in force.
    pub(super) fn commit(&mut self, editing: &mut Editing, words: &[Word]) -> Result<After, ShellError> {
        let how = How::of(words)?;
        let history = self.history()?;
        if !how.force && editing.is_behind(self)? {
            let told = behind(&history, editing.saved.revision).replace("\n# ", "\n");
            return Err(ShellError::said(format!("{told}\nor `commit force` puts it in force as it is")));
        }
        if !editing.differs() && !history.disk_differs {
            println!("nothing is changed");
            return Ok(if how.and_quit { After::Operate } else { After::Here });
        }
        let text = editing.document.text().to_owned();
        // Who may not read the file knows its revision.
        let made_from = Some(editing.saved.base.clone()).filter(|_| read(&editing.file).is_some());
        let request = CommitRequest {
            what: Text::File { name: "candidate".to_owned(), text: text.clone() },
            check: true,
            base: editing.saved.revision.filter(|_| made_from.is_none()),
            running: None,
            force: how.force,
            confirmed: how.confirmed,
            comment: how.comment,
            from: origin(),
            made_from,
        };
        let told: Committed = self.connect()?.ask(&Request::Commit(request.clone()))?;
        match told.effects.as_slice() {
            [] => println!("nothing changes that a section tells of"),
            effects => effects.iter().for_each(|effect| println!("{effect}")),
        }
        if how.check {
            return Ok(After::Here);
        }
        let running = Some(told.running);
        let done: Committed =
            self.connect()?.ask(&Request::Commit(CommitRequest { check: false, running, ..request }))?;
        println!("{}", done.done.replace("`bifrost confirm`", "`confirm`"));
        editing.saved =
            SavedCandidate { revision: done.revision.or(editing.saved.revision), base: text.clone(), text };
        editing.keep(&self.user_state)?;
        if how.and_quit { Ok(After::Operate) } else { Ok(After::Here) }
    }

    /// Does the candidate's changes to what is there by now.
    pub(super) fn rebase(&self, editing: &mut Editing) -> Result<(), ShellError> {
        let history = self.history()?;
        let theirs = now(self, &editing.file)?;
        if theirs == editing.saved.base {
            println!("the candidate is made from what is there");
            return Ok(());
        }
        let base = Document::parse(&editing.saved.base)?.tree();
        let mine = changes(&base, &editing.document.tree());
        let others = changes(&base, &Document::parse(&theirs)?.tree());
        let mut document = Document::parse(&theirs)?;
        let mut failed = Vec::new();
        // Without the value, which may be a secret.
        let place = |line: &str| {
            let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
            let value = rest.find(" = ").or(rest.find(" \"")).or(rest.rfind(' '));
            rest[..value.unwrap_or(rest.len())].to_owned()
        };
        for line in &mine {
            match document.run(&[], line) {
                Ok(()) => {}
                // Both have removed it.
                Err(candidate::EditError::Absent(_)) if others.contains(line) => {}
                Err(error) => failed.push(format!("{}: {error}", place(line))),
            }
        }
        // The same place: whoever commits last decides, and should know.
        let both = mine.iter().filter(|line| line.starts_with("set ") && !others.contains(line));
        for line in both.filter(|line| others.iter().any(|other| place(other) == place(line))) {
            println!("both of you have changed this, and yours is kept: {}", place(line));
        }
        for line in &failed {
            println!("could not be done again: {line}");
        }
        editing.saved =
            SavedCandidate { revision: history.running, base: theirs, text: document.text().to_owned() };
        editing.document = document;
        editing.keep(&self.user_state)?;
        println!("{} change(s) to what is there now: `show | compare`", editing.changes()?.len());
        Ok(())
    }
}
