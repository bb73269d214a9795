//! What is known of a revision, and how it stands in its file: a line, then the text as it was.
//!
//! The line is a comment of TOML, so that a revision can be used as a configuration as it is.

use serde::{Deserialize, Serialize};

/// What the first line begins with.
const HEAD: &str = "# revision ";

/// What is known of a configuration that was in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Its number, from 1; each has one more than the one before.
    pub number: u64,
    /// When it was put in force, in seconds since 1970 by the clock of then.
    pub time: u64,
    /// How it came.
    pub how: How,
    /// The revision whose text it has again, if it is a way back.
    pub of: Option<u64>,
    /// The user who asked for it; none: nobody did.
    pub user: Option<String>,
    /// Who had logged in to be that user, where it is known and another one.
    pub login: Option<String>,
    /// From where, as the client said: an address or a terminal.
    pub from: Option<String>,
    /// What was said about it.
    pub comment: String,
    /// The release that put it in force.
    pub release: String,
    /// Sentences of `[expect]` that did not hold any more, and it was forced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<String>,
}

/// How a configuration came to be in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By a commit.
    #[default]
    Commit,
    /// The file was read again.
    Reload,
    /// Somebody went back to an earlier one.
    Rollback,
    /// Nobody confirmed the one before in time.
    Unconfirmed,
    /// It ran already when the next one came: the daemon was started with it.
    Start,
    /// Its first line makes no sense here.
    Unreadable,
}

impl Revision {
    /// The file of it.
    pub(crate) fn file(&self, text: &str) -> String {
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{HEAD}{line}\n{text}")
    }

    /// A revision and its text, from its file.
    pub(crate) fn read(file: &str) -> Option<(Revision, &str)> {
        let (line, text) = file.split_once('\n')?;
        Some((serde_json::from_str(line.strip_prefix(HEAD)?).ok()?, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(comment in any::<String>(), text in any::<String>(), number in any::<u64>()) {
            let revision = Revision { number, comment, user: Some("root".into()), ..Revision::default() };
            let file = revision.file(&text);
            prop_assert_eq!(Revision::read(&file), Some((revision, text.as_str())));
        }

        #[test]
        fn no_text_does_harm(text in "(# revision )?[^é]*\\n?.*") {
            let _ = Revision::read(&text);
        }
    }
}
