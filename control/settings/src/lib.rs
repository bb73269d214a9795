//! The machine's own settings, as `[system]` says them: its name, its time zone, whom it asks for
//! names, its banner, settings of the kernel, and accounts.
//!
//! The daemon may do none of this: it has few capabilities, and its file system is read-only. So it
//! writes what is wanted into a file that only root reads ([`Settings::text`]), and has a unit of
//! its own restarted, `bifrost-system`, which runs once as root and makes it so ([`make`]).
//!
//! A setting is a [place](Place) that has a value. What a place had before Bifrost first wrote it
//! is kept in a file, and comes back when nothing is said of it any more. So to undo is to make
//! what the file said before. An account is Bifrost's by a group that it is in ([`accounts`]).
//!
//! | file | what it is |
//! |---|---|
//! | `place.rs` | places, and their values |
//! | `kept.rs` | what places had before |
//! | `accounts.rs` | accounts, by the tools of Debian's `passwd` |
//! | `wanted.rs` | what `[system]` asks of them |

mod accounts;
mod kept;
mod place;
mod wanted;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use accounts::Account;
use kept::Kept;
pub use place::{Place, Value};
pub use wanted::{KEYS, NET_BANNER, check, this_program, wanted};

/// What is wanted of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Values, in the order in which they are written.
    pub places: Vec<(Place, Value)>,
    /// All accounts that Bifrost makes.
    pub accounts: Vec<Account>,
}

/// Why the machine cannot be as it is wanted.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// What is wanted cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A place does not take its value.
    #[error("{place} cannot be set: {error}")]
    Place {
        /// The place.
        place: Place,
        /// Why.
        error: io::Error,
    },
    /// An account would get rights that are not Bifrost's.
    #[error(
        "the user {name:?} would be in the group {group:?}, which may be more than Bifrost's: call the \
         group of [control] \"bifrost\", or let its name begin with \"bifrost-\""
    )]
    Group {
        /// The account.
        name: String,
        /// The group.
        group: String,
    },
    /// An account is another's.
    #[error(
        "there is a user {0:?} already, whom Bifrost did not make: call this one otherwise, or remove \
         that one (userdel {0})"
    )]
    Others(String),
    /// A tool fails.
    #[error("{tool} fails for the user {name:?}: {said}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// The account.
        name: String,
        /// What it says.
        said: String,
    },
}

impl Settings {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Settings::default()
    }

    /// As a text, for [`Settings::read`].
    ///
    /// # Panics
    /// Never: it is a list of texts.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("texts are JSON");
        text.push('\n');
        text
    }

    /// Reads a text; lines of comments stand before it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Settings, String> {
        let at = text.find('{').unwrap_or(0);
        serde_json::from_str(&text[at..]).map_err(|error| error.to_string())
    }
}

/// Makes the machine as it is wanted. `kept` is the file of what was before. Says what it did.
///
/// # Errors
/// The first that fails; what stands before it is done.
pub fn make(settings: &Settings, kept: &Path) -> Result<Vec<String>, SettingsError> {
    let mut kept = Kept::open(kept)?;
    let mut said = Vec::new();
    let mut set = |place: &Place, value: &Value| {
        let failed = |error| SettingsError::Place { place: place.clone(), error };
        if place.read().map_err(failed)? != *value {
            place.write(value).map_err(failed)?;
            said.push(format!("{place} is set"));
        }
        Ok(())
    };
    for (place, value) in &settings.places {
        kept.keep(place)?;
        set(place, value)?;
    }
    let wanted: BTreeMap<&Place, &Value> =
        settings.places.iter().map(|(place, value)| (place, value)).collect();
    // In the order of their names the machine's name comes before the file that has it.
    for (place, value) in kept.all().filter(|(place, _)| !wanted.contains_key(place)).collect::<Vec<_>>() {
        set(&place, &value)?;
        kept.forget(&place)?;
    }
    said.extend(accounts::make(&settings.accounts)?);
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Place::Path(folder.path().join(name));
        let kept = folder.path().join("kept");
        let text = |text: &str| Value::Text(text.to_owned());
        at("theirs").write(&text("theirs\n")).unwrap();
        at("link").write(&Value::Link("/usr/share/zoneinfo/UTC".into())).unwrap();
        let places = vec![
            (at("theirs"), text("ours\n")),
            (at("link"), Value::Link("/usr/share/zoneinfo/Europe/Paris".into())),
            (at("deep/new"), text("new\n")),
        ];
        let mut settings = Settings { places, ..Settings::default() };
        for _ in 0..2 {
            let read = Settings::read(&format!("# a comment\n{}", settings.text())).unwrap();
            assert_eq!(read, settings);
            let said = make(&settings, &kept).unwrap();
            settings.places.iter().for_each(|(place, value)| assert_eq!(place.read().unwrap(), *value));
            settings.places[0].1 = text("ours again\n");
            assert_eq!(make(&settings, &kept).unwrap().len(), usize::from(!said.is_empty()));
        }
        settings.places.remove(0);
        assert_eq!(make(&settings, &kept).unwrap().len(), 1);
        assert_eq!(at("theirs").read().unwrap(), text("theirs\n"));
        make(&Settings::default(), &kept).unwrap();
        assert_eq!(at("link").read().unwrap(), Value::Link("/usr/share/zoneinfo/UTC".into()));
        assert_eq!(at("deep/new").read().unwrap(), Value::Nothing);
        assert!(!kept.exists());
    }

    #[test]
    fn what_is_not_settings_is_refused() {
        for wrong in ["", "{}", "{\"places\":[],\"accounts\":[],\"more\":1}", "{\"places\":[[\"Name\"]]}"] {
            assert!(Settings::read(wrong).is_err(), "{wrong}");
        }
    }
}
