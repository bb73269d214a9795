//! The candidate as it is shown, compared, and written to files.

use std::path::{Path, PathBuf};

use candidate::{Document, Word, changes, lines, quote, split, unified};
use clap::ValueEnum;
use config::secrets;

use super::ShellError;
use super::editing::{Editing, behind, formed, now};
use super::output;
use super::pipe::{Form, Pipes};
use super::session::Session;
use super::user_state::write;
use crate::command::args::Origin;
use crate::command::import::gather;
use crate::control::{Request, Text};

impl Session {
    pub(super) fn show_candidate(
        &self,
        editing: &Editing,
        words: &[String],
        pipes: &Pipes,
    ) -> Result<(), ShellError> {
        if let Some(with) = &pipes.compare {
            return self.compare(editing, with, pipes);
        }
        let all: Vec<String> = editing.above.iter().chain(words).map(|word| quote(word)).collect();
        let words = split(&all.join(" ")).map_err(candidate::EditError::from)?;
        if words.is_empty() {
            return output::show(&formed(&editing.document, pipes.form), pipes);
        }
        if pipes.form == Form::Json {
            // What stands there alone, and not the way to it.
            let covered = Document::parse(&secrets::covered(editing.document.text()))?;
            let found = covered.at(&words)?.ok_or_else(|| candidate::EditError::Absent(all.join(" ")))?;
            let json = serde_json::to_string_pretty(&found.json()).unwrap_or_default();
            return output::show(&(json + "\n"), pipes);
        }
        output::show(&formed(&editing.document.only(&words)?, pipes.form), pipes)
    }

    /// How the candidate differs: from its base, a revision, or what is there by now.
    pub(super) fn compare(&self, editing: &Editing, with: &str, pipes: &Pipes) -> Result<(), ShellError> {
        let (with, form) = match with.split_once(' ').unwrap_or((with, "")) {
            (form @ ("set" | "toml" | "json"), rest) => (rest, form),
            (with, form) => (with, form),
        };
        let mine = editing.document.text();
        let [before, after] = match with {
            "" => secrets::covered_both(&editing.saved.base, mine),
            "theirs" => secrets::covered_both(&editing.saved.base, &now(self, &editing.file)?),
            with => {
                let version = match (with, with.strip_prefix("revision ").unwrap_or(with).parse()) {
                    ("running", _) => Text::Running,
                    ("disk", _) => Text::Disk,
                    (_, Ok(number)) => Text::Revision(number),
                    _ => {
                        return Err(ShellError::said(
                            "compare with what? `theirs`, `running`, `disk`, or the number of a revision; in the form \
                             `toml` or `json`",
                        ));
                    }
                };
                let texts = [version, Text::File { name: "candidate".to_owned(), text: mine.to_owned() }];
                let compared: crate::control::Compared = self.connect()?.ask(&Request::Compare { texts })?;
                compared.texts
            }
        };
        let form = if pipes.form == Form::Json { "json" } else { form };
        let text = if form == "toml" {
            unified(["before", "candidate"], [&before, &after])
        } else {
            let lines = changes(&Document::parse(&before)?.tree(), &Document::parse(&after)?.tree());
            match form {
                "json" => serde_json::to_string_pretty(&lines).unwrap_or_default() + "\n",
                _ if lines.is_empty() && before != after => "# only comments and looks differ\n".to_owned(),
                _ => lines.into_iter().map(|line| line + "\n").collect(),
            }
        };
        output::show(&text, pipes)
    }

    pub(super) fn status(&self, editing: &Editing, pipes: &Pipes) -> Result<(), ShellError> {
        let history = self.history()?;
        let from = editing
            .saved
            .revision
            .map_or("what was never committed".to_owned(), |number| format!("revision {number}"));
        let mut text = format!(
            "candidate of {}: {} change(s) to {from} of {}\n",
            self.user_state.name,
            editing.changes()?.len(),
            editing.file
        );
        if editing.is_behind(self)? {
            text += &(behind(&history, editing.saved.revision).replace("\n# ", "\n") + "\n");
        }
        if let Some(waits) = history.waits {
            let time = notation::lasting(waits.seconds, " ");
            text += &format!("revision {} goes back in {time} unless it is confirmed\n", waits.revision);
        }
        text += &(super::lock::told(&self.socket)? + "\n");
        output::show(&text, pipes)
    }
}

/// Takes a file over: as a whole, what it says, or as lines.
pub(super) fn load(editing: &mut Editing, words: &[Word]) -> Result<(), ShellError> {
    const HOW: &str = "`load merge FILE`, `load replace FILE`, `load set FILE`, or `load import`";
    if let [how, rest @ ..] = words
        && how.text == "import"
    {
        return load_import(editing, rest);
    }
    let [how, path] = words else { return Err(ShellError::said(format!("load what? {HOW}"))) };
    let path = Path::new(&path.text);
    let text = config::source::read_text(path)
        .map_err(|error| ShellError::said(format!("{}: cannot read it: {error}", path.display())))?;
    let mut document = editing.document.clone();
    let set = |document: &mut Document, number: usize, line: &str| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let done = document.run(&[], line);
        done.map_err(|error| ShellError::said(format!("{}:{}: {line}: {error}", path.display(), number + 1)))
    };
    match how.text.as_str() {
        "replace" | "override" => document = Document::parse(&text)?,
        "merge" => {
            for (number, line) in lines(&Document::parse(&text)?.tree()).iter().enumerate() {
                set(&mut document, number, line)?;
            }
        }
        "set" => {
            for (number, line) in text.lines().enumerate() {
                set(&mut document, number, line)?;
            }
        }
        _ => return Err(ShellError::said(format!("load {}? {HOW}", how.text))),
    }
    editing.document = document;
    Ok(())
}

/// Takes over what is there and the candidate does not say.
fn load_import(editing: &mut Editing, words: &[Word]) -> Result<(), ShellError> {
    let said = |text: String| ShellError::said(text);
    let origin = match words.first() {
        None => None,
        Some(word) => Some(Origin::from_str(&word.text, false).map_err(|_| {
            let all = Origin::value_variants().iter().filter_map(|it| it.to_possible_value());
            let all: Vec<String> = all.map(|it| it.get_name().to_owned()).collect();
            said(format!("load import {}? {}, or nothing for Linux and FRR", word.text, all.join(", ")))
        })?),
    };
    let files: Vec<PathBuf> = words.iter().skip(1).map(|word| PathBuf::from(&word.text)).collect();
    let sockets = config::Router::read("candidate", editing.document.text(), &config::Machine::this())
        .map_or_else(|_| config::Routing::default().sockets, |router| router.routing.sockets);
    let found = gather(origin, &files, &sockets, Some(editing.document.text()))
        .map_err(|failure| said(failure.to_string()))?;
    found.left.iter().for_each(|left| println!("not taken: {left}"));
    editing.document = Document::parse(&found.text)?;
    Ok(())
}

/// Writes the candidate to a file.
pub(super) fn save(editing: &Editing, words: &[Word]) -> Result<(), ShellError> {
    let [path] = words else { return Err(ShellError::said("save where? `save FILE`")) };
    let done = write(Path::new(&path.text), editing.document.text().as_bytes());
    done.map_err(|error| ShellError::said(format!("{}: cannot write it: {error}", path.text)))?;
    println!("{}: with its secrets, for you alone to read", path.text);
    Ok(())
}
