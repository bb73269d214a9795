//! A session: its mode, and what a line does.

use std::path::{Path, PathBuf};

use candidate::{Word, quote, split};

use super::ShellError;
use super::editing::Editing;
use super::pipe::Pipes;
use super::user_state::UserState;
use crate::control::{Client, History, Request};

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another line.
    Line,
    /// The end of the shell.
    End,
}

/// What the shell knows.
pub(super) struct Session {
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// Where the administrator's own things are.
    pub user_state: UserState,
    /// Somebody sits in front of it.
    pub on_terminal: bool,
    /// The candidate, in configure mode.
    pub editing: Option<Editing>,
    /// Nobody else commits while it is there.
    pub lock: Option<super::lock::Lock>,
}

impl Session {
    pub fn new(socket: &Path, state: Option<PathBuf>, on_terminal: bool) -> Session {
        Session {
            socket: socket.to_owned(),
            user_state: UserState::new(state),
            on_terminal,
            editing: None,
            lock: None,
        }
    }

    pub fn connect(&self) -> Result<Client, ShellError> {
        Ok(Client::connect(&self.socket)?)
    }

    /// What was in force, and what waits.
    pub fn history(&self) -> Result<History, ShellError> {
        Ok(self.connect()?.ask(&Request::History)?)
    }

    /// Does a line.
    pub fn line(&mut self, line: &str) -> Result<Next, ShellError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with('!') {
            return Ok(Next::Line);
        }
        let words = split(line).map_err(candidate::EditError::from)?;
        match self.editing.take() {
            None => self.operate(words),
            Some(editing) => self.configure(editing, line, words),
        }
    }

    /// What is said at the end.
    pub fn close(&mut self) {
        if let Some(editing) = self.editing.take() {
            editing.leave(&self.user_state);
        }
    }

    /// Says how it is said here.
    pub fn hint(&self, line: &str) {
        eprintln!("# here: {line}");
    }

    /// Divides words into a command and its pipes.
    pub fn divided(words: Vec<Word>) -> Result<(Vec<String>, Pipes), ShellError> {
        let (words, pipes) = Pipes::divide(words)?;
        Ok((words.into_iter().map(|word| word.text).collect(), pipes))
    }
}

/// The word of a list that is meant: whole, or by a beginning that no other has.
///
/// # Errors
/// All that it may be; none: nothing.
pub(super) fn meant<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Result<&'w str, Vec<&'w str>> {
    let begun: Vec<&str> = known.filter(|known| !word.is_empty() && known.starts_with(word)).collect();
    match begun.as_slice() {
        [one] => Ok(one),
        all => all.iter().find(|known| **known == word).copied().ok_or_else(|| all.to_vec()),
    }
}

/// What is said of a word that is no command.
pub(super) fn no_command(word: &str, mode: &str, may_be: &[&str], known: &[(&str, &str)]) -> ShellError {
    if !may_be.is_empty() {
        return ShellError::said(format!("{} may be {}", quote(word), may_be.join(", ")));
    }
    let near = notation::near(word, known.iter().map(|(name, _)| *name));
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    ShellError::said(format!("there is no command {} in {mode} mode{near} `help` lists them", quote(word)))
}

/// A list of commands, with what they do.
pub(super) fn help(known: &[(&str, &str)]) -> String {
    let width = known.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    known.iter().map(|(name, about)| format!("{name:<width$}  {about}\n")).collect()
}
