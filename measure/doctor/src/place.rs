//! The files that are read, under a directory: the machine's own root, or one that was made up.
//!
//! A file may be missing, forbidden, garbage or endless; none of that is more than a reason for not
//! knowing.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// More of a file than this is not read; `/proc/interrupts` of a large server has a tenth.
const MOST: u64 = 4 << 20;
/// Names of a directory at most.
const NAMES: usize = 20_000;

/// A directory with `proc` and `sys` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: PathBuf,
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// There is no such file.
    Missing,
    /// It may not be read.
    Denied,
    /// What it has cannot be understood.
    Garbage(String),
    /// The system's word.
    Other(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Missing => f.write_str("there is no such file here"),
            Unread::Denied => f.write_str("only root may read it"),
            Unread::Garbage(text) => write!(f, "`{text}` makes no sense"),
            Unread::Other(error) => f.write_str(error),
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unread::Missing,
            io::ErrorKind::PermissionDenied => Unread::Denied,
            _ => Unread::Other(error.to_string()),
        }
    }
}

impl Place {
    /// Files under this directory; `/` for the machine itself.
    pub fn new(root: impl Into<PathBuf>) -> Place {
        Place { root: root.into() }
    }

    /// The text of a file, without the white space around it. Bytes that are no text are replaced.
    pub fn text(&self, path: &str) -> Result<String, Unread> {
        // A pipe where a file should be would be waited for for ever.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.root.join(path))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_matches(|character: char| character.is_whitespace() || character == '\0').to_owned())
    }

    /// A file with a number alone.
    pub fn number(&self, path: &str) -> Result<i64, Unread> {
        let text = self.text(path)?;
        text.parse().map_err(|_| Unread::Garbage(text.chars().take(40).collect()))
    }

    /// The number behind a name, as in `MemTotal:  24000 kB`.
    pub fn named(&self, path: &str, name: &str) -> Result<u64, Unread> {
        let text = self.text(path)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.and_then(|value| value.split_whitespace().next()).ok_or(Unread::Missing)?;
        value.parse().map_err(|_| Unread::Garbage(value.chars().take(40).collect()))
    }

    /// Names in a directory, in order.
    pub fn names(&self, path: &str) -> Result<Vec<String>, Unread> {
        let entries = std::fs::read_dir(self.root.join(path))?.take(NAMES);
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Names in a directory that are a prefix and a number, as `cpu3`: the numbers, in order.
    pub fn numbered(&self, path: &str, prefix: &str) -> Result<Vec<u32>, Unread> {
        let names = self.names(path)?;
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Whether a file can be written at all, by whoever may.
    pub fn is_writable(&self, path: &str) -> bool {
        self.root.join(path).metadata().is_ok_and(|data| data.permissions().mode() & 0o222 != 0)
    }

    /// Whether there is such a file or directory.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}
