//! A candidate: what it was made from, how it differs, and where it is kept.

use std::path::Path;

use candidate::{Document, changes, lines};
use config::secrets;

use super::ShellError;
use super::pipe::Form;
use super::session::Session;
use super::user_state::{SavedCandidate, UserState};
use crate::control::History;

/// A candidate being edited.
pub(super) struct Editing {
    /// The daemon's file.
    pub file: String,
    pub saved: SavedCandidate,
    /// Its text, as a document.
    pub document: Document,
    /// Where in it: the words of a section.
    pub above: Vec<String>,
    /// It is of this session alone.
    pub private: bool,
}

impl Editing {
    /// Takes up the candidate that was kept, or makes one of what the daemon's file has.
    ///
    /// A private one is of this session alone, and not kept.
    pub fn begin(session: &Session, private: bool) -> Result<Editing, ShellError> {
        let history = session.history()?;
        let file = history.file.clone();
        if let Some(kept) = session.user_state.load(&file)?.filter(|_| !private) {
            let document = Document::parse(&kept.text)?;
            let editing = Editing { file, saved: kept, document, above: Vec::new(), private };
            let count = editing.changes()?.len();
            eprintln!(
                "# your candidate of before: {count} change(s); `show | compare` shows them, `discard` drops them"
            );
            if editing.is_behind(session)? {
                eprintln!("# {}", behind(&history, editing.saved.revision));
            }
            return Ok(editing);
        }
        let kept = fresh(session, &history)?;
        if history.disk_differs {
            eprintln!(
                "# {file} was changed by hand and is not in force: the candidate begins with what it has"
            );
        }
        let document = Document::parse(&kept.text)?;
        Ok(Editing { file, saved: kept, document, above: Vec::new(), private })
    }

    /// The set-lines and delete-lines of what was changed, secrets covered.
    pub fn changes(&self) -> Result<Vec<String>, ShellError> {
        changed(&self.saved.base, self.document.text())
    }

    /// Whether anything was changed.
    pub fn differs(&self) -> bool {
        self.saved.base != self.document.text()
    }

    /// What is said when configure mode is left.
    pub fn leave(&self, user_state: &UserState) {
        if self.private && self.differs() {
            eprintln!("# what was not committed of your private candidate is gone");
        } else if self.differs() {
            let count = self.changes().map_or(1, |changes| changes.len());
            eprintln!(
                "# your candidate is kept ({}): {count} change(s) that are not committed",
                user_state.name
            );
        }
    }

    /// Keeps what was changed, where the other sessions of the same person find it.
    pub fn keep(&mut self, user_state: &UserState) -> Result<(), ShellError> {
        self.saved.text = self.document.text().to_owned();
        match self.private {
            true => Ok(()),
            false => user_state.keep(&self.file, Some(&self.saved).filter(|_| self.differs())),
        }
    }

    /// Takes over what another session of the same person has done.
    pub fn renew(&mut self, user_state: &UserState) -> Result<(), ShellError> {
        match user_state.load(&self.file)? {
            Some(kept) if kept != self.saved && !self.private => {
                eprintln!("# another session of yours has changed the candidate");
                self.document = Document::parse(&kept.text)?;
                self.saved = kept;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether something else is in the daemon's file by now than what the candidate was made from.
    pub fn is_behind(&self, session: &Session) -> Result<bool, ShellError> {
        Ok(now(session, &self.file)? != self.saved.base)
    }
}

/// What the daemon's file has; where it cannot be read here, what runs, with its secrets covered.
pub(super) fn now(session: &Session, file: &str) -> Result<String, ShellError> {
    if let Some(text) = read(file) {
        return Ok(text);
    }
    let running: crate::subject::Config = session.connect()?.subject("config")?;
    Ok(running.text)
}

/// The daemon's file, if it can be read here.
pub(super) fn read(file: &str) -> Option<String> {
    // The folder that the daemon was started in is not this one.
    let path = Some(Path::new(file)).filter(|path| path.is_absolute())?;
    config::source::read_text(path).ok()
}

/// A candidate without a change.
pub(super) fn fresh(session: &Session, history: &History) -> Result<SavedCandidate, ShellError> {
    let base = now(session, &history.file)?;
    Ok(SavedCandidate { revision: history.running, text: base.clone(), base })
}

/// What is said of a candidate whose base is no longer there.
pub(super) fn behind(history: &History, made_from: Option<u64>) -> String {
    let newest = history.revisions.first();
    let came = newest.filter(|newest| Some(newest.number) != made_from).map(|newest| {
        let user = newest.login.as_ref().or(newest.user.as_ref());
        format!(
            ": revision {} came{}",
            newest.number,
            user.map_or(String::new(), |user| format!(" by {user}"))
        )
    });
    let from = made_from.map_or("what ran".to_owned(), |revision| format!("revision {revision}"));
    format!(
        "your candidate was made from {from}, and something else is there by now{}\n# `compare theirs` shows what \
         changed meanwhile, `rebase` does your changes to it",
        came.unwrap_or_default()
    )
}

/// The lines that make one text of another, secrets covered.
fn changed(before: &str, after: &str) -> Result<Vec<String>, ShellError> {
    let [before, after] = secrets::covered_both(before, after);
    Ok(changes(&Document::parse(&before)?.tree(), &Document::parse(&after)?.tree()))
}

/// A document in a form, its secrets covered.
pub(super) fn formed(document: &Document, form: Form) -> String {
    let text = secrets::covered(document.text());
    let Ok(covered) = Document::parse(&text) else { return text };
    match form {
        Form::Toml => text,
        Form::Set => lines(&covered.tree()).into_iter().map(|line| line + "\n").collect(),
        Form::Json => serde_json::to_string_pretty(&covered.tree().json()).unwrap_or_default() + "\n",
    }
}
