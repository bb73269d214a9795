//! What of an administrator is kept: the candidate, and the lines that were typed.
//!
//! Each has one candidate for each file of a daemon's, whichever terminal he sits at.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ShellError;

/// A candidate as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedCandidate {
    /// The revision that it was made from, if that had one.
    pub revision: Option<u64>,
    /// The text that it was made from.
    pub base: String,
    /// Its text.
    pub text: String,
}

/// The folder of what is kept of one administrator.
pub(super) struct UserState {
    folder: PathBuf,
    /// Whose it is.
    pub name: String,
}

impl UserState {
    pub fn new(folder: Option<PathBuf>) -> UserState {
        let user = nix::unistd::geteuid();
        let name_of = |id: nix::unistd::Uid| {
            nix::unistd::User::from_uid(id).ok().flatten().map_or(id.to_string(), |user| user.name)
        };
        // Who logged in, through sudo as well: several people are root.
        let login = fs::read_to_string("/proc/self/loginuid").ok();
        let login = login.and_then(|text| text.trim().parse().ok()).filter(|login| *login != u32::MAX);
        let name = name_of(login.map_or(user, nix::unistd::Uid::from_raw));
        let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let folder = folder.unwrap_or_else(|| match user.is_root() {
            true => PathBuf::from("/var/lib/bifrost/candidates"),
            false => std::env::var_os("XDG_STATE_HOME")
                .map_or_else(|| home().join(".local/state"), PathBuf::from)
                .join("bifrost"),
        });
        UserState { folder, name }
    }

    /// The file of the lines that were typed.
    pub fn lines(&self) -> PathBuf {
        self.folder.join(format!("{}.history", self.name))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(format!("{}{}.json", self.name, file.replace('%', "%25").replace('/', "%")))
    }

    /// The candidate for a daemon's file.
    pub fn load(&self, file: &str) -> Result<Option<SavedCandidate>, ShellError> {
        let path = self.path(file);
        let wrong = |error: String| {
            ShellError::said(format!("{}: cannot read your candidate: {error}", path.display()))
        };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error.to_string())),
        }
    }

    /// Keeps it, or forgets it.
    pub fn keep(&self, file: &str, kept: Option<&SavedCandidate>) -> Result<(), ShellError> {
        let path = self.path(file);
        let done = match kept {
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            Some(kept) => self.make().and_then(|()| {
                let beside = path.with_extension(format!("new-{}", std::process::id()));
                write(&beside, &serde_json::to_vec(kept).unwrap_or_default())?;
                fs::rename(&beside, &path)
            }),
        };
        done.map_err(|error| {
            ShellError::said(format!("{}: cannot keep your candidate: {error}", path.display()))
        })
    }

    /// The folder, for its owner alone: configurations have secrets.
    pub fn make(&self) -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }
}

/// Writes a file that only its owner reads.
pub(super) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
