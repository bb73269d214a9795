//! Configure mode: what a line does to the candidate.

use candidate::{Document, Word, split};

use super::ShellError;
use super::editing::{Editing, fresh};
use super::output;
use super::pipe::Pipes;
use super::session::{Next, Session, help, meant, no_command};
use super::views::{load, save};

/// The commands of configure mode.
pub(super) const COMMANDS: [(&str, &str); 28] = [
    ("set", "give a key a value, or a list one more: `set interface eth0 mtu 9000`"),
    ("delete", "remove a value, one of a list, or a section"),
    ("show", "the candidate, or a part: `show interface eth0 | display set`, `show | compare`"),
    ("edit", "go into a section; its path need not be typed then"),
    ("up", "go out of it, or N levels"),
    ("top", "go out of all, or do one command from there"),
    ("insert", "another order: `insert nat rule web before home`, `insert filter forward rules RULE first`"),
    ("copy", "make a section again: `copy interface eth0 to eth1`"),
    ("rename", "give a section another name: `rename interface eth0 to eth1`"),
    ("annotate", "write a comment above: `annotate interface eth0 \"to the world\"`"),
    ("compare", "how the candidate differs (`compare toml`: line by line; `compare 7`: from revision 7)"),
    ("commit", "put the candidate in force: `commit [check] [confirmed MINUTES] [comment TEXT] [and-quit]`"),
    ("confirm", "keep what was committed with `commit confirmed`"),
    ("discard", "drop the candidate, and begin again with what is there"),
    ("rebase", "do the same changes to what somebody else has put in force meanwhile"),
    (
        "load",
        "`load merge FILE`, `load replace FILE`, `load set FILE` (set-lines), `load import` (what is there)",
    ),
    ("save", "write the candidate to a file: `save FILE`"),
    ("lock", "nobody else commits (`lock take`: even if somebody else has the lock)"),
    ("unlock", "give the lock back"),
    ("status", "what the candidate was made from, and what waits"),
    ("run", "a command of operate mode: `run show ports`"),
    ("do", "the same"),
    ("no", "the same as delete"),
    ("rollback", "of operate mode: `run rollback N`; `rollback 0` is `discard`"),
    ("help", "this list"),
    ("exit", "go out of a section; at the top, leave configure mode"),
    ("quit", "the same"),
    ("end", "leave configure mode"),
];

/// Where a line leads.
pub(super) enum After {
    /// Where one is.
    Here,
    /// To operate mode.
    Operate,
}

impl Session {
    /// Does a line in configure mode.
    pub(super) fn configure(
        &mut self,
        mut editing: Editing,
        line: &str,
        words: Vec<Word>,
    ) -> Result<Next, ShellError> {
        let done = editing.renew(&self.user_state).and_then(|()| self.configured(&mut editing, line, words));
        match done {
            Ok(After::Here) => {
                self.editing = Some(editing);
                Ok(Next::Line)
            }
            Ok(After::Operate) => {
                editing.leave(&self.user_state);
                self.lock = None;
                Ok(Next::Line)
            }
            Err(error) => {
                self.editing = Some(editing);
                Err(error)
            }
        }
    }

    fn configured(
        &mut self,
        editing: &mut Editing,
        line: &str,
        words: Vec<Word>,
    ) -> Result<After, ShellError> {
        let Some(first) = words.first() else { return Ok(After::Here) };
        let name = match meant(&first.text, COMMANDS.iter().map(|(name, _)| *name)) {
            Ok(name) => name,
            Err(may_be) => {
                // Questions need no word in front, where it is clear that they are one.
                let known = super::operate::COMMANDS.iter().map(|(name, _)| *name);
                if may_be.is_empty() && meant(&first.text, known).is_ok_and(|name| name != "configure") {
                    self.hint(&format!("run {line}"));
                    return self.in_between(words);
                }
                return Err(no_command(&first.text, "configure", &may_be, &COMMANDS));
            }
        };
        let rest_of_line = line.get(first.at.end..).unwrap_or_default();
        match name {
            "set" | "delete" | "insert" | "copy" | "rename" | "annotate" => {
                editing.document.run(&editing.above, &format!("{name}{rest_of_line}"))?;
                editing.keep(&self.user_state)?;
            }
            "no" => {
                self.hint(&format!("delete{rest_of_line}"));
                editing.document.run(&editing.above, &format!("delete{rest_of_line}"))?;
                editing.keep(&self.user_state)?;
            }
            "edit" => editing.above = editing.document.section(&editing.above, &words[1..])?,
            "up" => {
                let levels = match words.get(1).map(|word| word.text.parse::<usize>()) {
                    None => 1,
                    Some(Ok(levels)) => levels,
                    Some(Err(_)) => return Err(ShellError::said("up: expected a number of levels")),
                };
                editing.above.truncate(editing.above.len().saturating_sub(levels));
            }
            "top" => return self.at_the_top(editing, rest_of_line),
            "exit" | "quit" if !editing.above.is_empty() => editing.above.clear(),
            "exit" | "quit" | "end" => return Ok(After::Operate),
            "help" => output::show(&help(&COMMANDS), &Pipes::default())?,
            "run" | "do" => return self.in_between(words[1..].to_vec()),
            "confirm" => self.confirm()?,
            "lock" => {
                let take = match &words[1..] {
                    [] => false,
                    [word] if word.text == "take" => true,
                    _ => return Err(ShellError::said("lock: alone, or `lock take`")),
                };
                self.hold(take)?;
            }
            "unlock" => {
                self.lock = None;
                self.unlock(&words[1..].iter().map(|word| word.text.clone()).collect::<Vec<_>>())?;
            }
            "rollback" => {
                if words.get(1).is_none_or(|word| word.text != "0") {
                    return Err(ShellError::said(
                        "`run rollback N` puts revision N in force, `rollback 0` drops the candidate",
                    ));
                }
                self.discard(editing)?;
            }
            "discard" => self.discard(editing)?,
            "show" | "compare" | "status" => {
                let (words, pipes) = Session::divided(words)?;
                match name {
                    "show" => self.show_candidate(editing, &words[1..], &pipes)?,
                    "compare" => self.compare(editing, &words[1..].join(" "), &pipes)?,
                    _ => self.status(editing, &pipes)?,
                }
            }
            "commit" => return self.commit(editing, &words[1..]),
            "rebase" => self.rebase(editing)?,
            "load" => {
                load(editing, &words[1..])?;
                editing.keep(&self.user_state)?;
                println!("{} change(s)", editing.changes()?.len());
            }
            _ => save(editing, &words[1..])?,
        }
        Ok(After::Here)
    }

    /// A command of operate mode.
    fn in_between(&mut self, words: Vec<Word>) -> Result<After, ShellError> {
        match words.first() {
            Some(word) if "configure".starts_with(&word.text) && word.text.len() > 3 => Ok(After::Here),
            _ => {
                self.operate(words)?;
                Ok(After::Here)
            }
        }
    }

    fn at_the_top(&mut self, editing: &mut Editing, rest: &str) -> Result<After, ShellError> {
        let above = std::mem::take(&mut editing.above);
        if rest.trim().is_empty() {
            return Ok(After::Here);
        }
        // A command is done there, and one is where one was.
        let words = split(rest.trim()).map_err(candidate::EditError::from)?;
        let done = self.configured(editing, rest.trim(), words);
        if editing.above.is_empty() {
            editing.above = above;
        }
        done
    }

    fn discard(&self, editing: &mut Editing) -> Result<(), ShellError> {
        editing.saved = fresh(self, &self.history()?)?;
        editing.document = Document::parse(&editing.saved.text)?;
        editing.above.clear();
        editing.keep(&self.user_state)
    }
}
