//! A managed file: Bifrost's, or somebody's.
//!
//! Its first line says that Bifrost made it. What has no such line is another's, and never
//! overwritten; but what is as its package brought it is nobody's own: it is kept beside, and comes
//! back when Bifrost has nothing to say any more.
//!
//! A daemon checks a text before that stands in its place, so it is written beside first, where the
//! daemon may read it; then it is renamed. Whoever is killed meanwhile leaves a note beside it that
//! the daemon has not been told yet.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::tool;

/// By which a file is known to be Bifrost's.
const MARK: &str = "# Made by Bifrost from router.toml";
/// The rest of that line.
const REST: &str = ": what is changed here is lost.\n";
/// A text that is checked.
const NEW: &str = "bifrost-new";
/// What the package had brought.
const BEFORE: &str = "before-bifrost";
/// The daemon has not been told.
const DUE: &str = "bifrost-due";
/// What its reader failed at.
pub const FAILED: &str = "failed";
/// Daemons run as others.
const MODE: u32 = 0o644;
/// Where a file is for root alone.
const PRIVATE: u32 = 0o600;
/// What packages brought is noted in these: by dpkg, and by ucf.
const NOTES: [&str; 2] = ["/var/lib/dpkg/status", "/var/lib/ucf/hashfile"];
/// Letters of a sum.
const SUM: usize = 32;

/// What stands in the place of a managed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Nothing,
    /// What Bifrost made, without its first line.
    Ours(String),
    /// What a package brought.
    Packaged,
    /// What somebody wrote.
    Others,
}

/// Why a file cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is another's.
    #[error(
        "{} was written by somebody else, and stays as it is: move it away (mv {} {}.mine) if Bifrost shall write it",
        path.display(), path.display(), path.display()
    )]
    Others {
        /// The file.
        path: PathBuf,
    },
    /// There is no place for it.
    #[error("{}: there is no such folder; install {package}", folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
        /// Who has it.
        package: &'static str,
    },
    /// It may not be written here.
    #[error(
        "{} cannot be written: what Bifrost may write is in the unit's ReadWritePaths when it starts; \
         after a package was installed, `systemctl restart bifrost`",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses something.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// A file that Bifrost may make.
#[derive(Clone, Debug)]
pub struct Managed {
    path: PathBuf,
    mode: u32,
}

impl Managed {
    /// The file of this path.
    pub fn new(path: PathBuf) -> Managed {
        Managed { path, mode: MODE }
    }

    /// The same, for root alone.
    pub fn private(path: PathBuf) -> Managed {
        Managed { path, mode: PRIVATE }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(".");
        path.push(ending);
        path.into()
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> FileError + '_ {
        move |error| match error.kind() {
            ErrorKind::ReadOnlyFilesystem => FileError::ReadOnly { path: self.path.clone() },
            _ => FileError::Io { what, path: self.path.clone(), error },
        }
    }

    /// What stands there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn standing(&self) -> Result<Standing, FileError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Standing::Nothing),
            Err(error) => return Err(self.failed("read")(error)),
        };
        // What is ours has no other letters.
        let text = String::from_utf8_lossy(&bytes);
        if let Some(rest) = text.strip_prefix(MARK) {
            let (_, text) = rest.split_once('\n').unwrap_or_default();
            return Ok(Standing::Ours(text.to_owned()));
        }
        Ok(if is_as_brought(&self.path) { Standing::Packaged } else { Standing::Others })
    }

    /// Whether the daemon has yet to be told of what stands there.
    pub fn is_due(&self) -> bool {
        self.beside(DUE).exists()
    }

    /// What its reader said that it failed at.
    pub fn failure(&self) -> Option<String> {
        fs::read_to_string(self.beside(FAILED)).ok().map(|said| said.trim().to_owned())
    }

    /// Whether what its package had brought comes back when Bifrost has nothing to say.
    pub fn is_kept(&self) -> bool {
        self.beside(BEFORE).exists()
    }

    /// The daemon has been told.
    pub fn told(&self) {
        // One that cannot be removed costs a restart more.
        let _ = fs::remove_file(self.beside(DUE));
    }

    /// Writes a text beside the file, for the daemon's check; says where.
    ///
    /// # Errors
    /// The system's; that there is no folder, which `package` has.
    pub fn stage(&self, text: &str, package: &'static str) -> Result<PathBuf, FileError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            return Err(FileError::NoFolder { folder: folder.to_owned(), package });
        }
        let new = self.beside(NEW);
        self.unstage();
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
            file.set_permissions(Permissions::from_mode(self.mode))?;
            write!(file, "{MARK}{REST}{text}")?;
            file.sync_all()
        };
        write().map_err(self.failed("write"))?;
        Ok(new)
    }

    /// Takes away what was written beside it.
    pub fn unstage(&self) {
        // There is none as a rule.
        let _ = fs::remove_file(self.beside(NEW));
    }

    /// Makes the file such: with a text, or as it was before Bifrost wrote it.
    ///
    /// # Errors
    /// The system's; that the file is another's.
    pub fn make(&self, text: Option<&str>, package: &'static str) -> Result<(), FileError> {
        let standing = self.standing()?;
        if standing == Standing::Others {
            return Err(FileError::Others { path: self.path.clone() });
        }
        let before = self.beside(BEFORE);
        let Some(text) = text else {
            if !matches!(standing, Standing::Ours(_)) {
                return Ok(());
            }
            self.note()?;
            let back = fs::rename(&before, &self.path);
            return match back {
                Err(error) if error.kind() == ErrorKind::NotFound => fs::remove_file(&self.path),
                back => back,
            }
            .map_err(self.failed("remove"));
        };
        let new = self.stage(text, package)?;
        self.note()?;
        if standing == Standing::Packaged {
            let _ = fs::remove_file(&before);
            fs::hard_link(&self.path, &before).map_err(self.failed("keep"))?;
        }
        fs::rename(new, &self.path).map_err(self.failed("replace"))
    }

    fn note(&self) -> Result<(), FileError> {
        fs::write(self.beside(DUE), "").map_err(self.failed("write beside"))
    }
}

/// Whether a file is as a package brought it, as far as packages note that.
fn is_as_brought(path: &Path) -> bool {
    let Some(name) = path.to_str() else { return false };
    let sums: Vec<String> = NOTES
        .iter()
        .filter_map(|notes| fs::read(notes).ok())
        .flat_map(|notes| noted(&String::from_utf8_lossy(&notes), name))
        .collect();
    if sums.is_empty() {
        return false;
    }
    let sum = tool::command("md5sum", "coreutils").ok().and_then(|mut md5sum| md5sum.arg(path).output().ok());
    let sum = sum.and_then(|output| Some(String::from_utf8(output.stdout).ok()?.get(..SUM)?.to_owned()));
    sum.is_some_and(|sum| sums.contains(&sum))
}

/// The sums that notes have for a file: of its line, the word that is one.
fn noted(notes: &str, name: &str) -> Vec<String> {
    let is_sum = |word: &&str| word.len() == SUM && word.chars().all(|c| c.is_ascii_hexdigit());
    let of_file = |line: &&str| line.contains(name) && line.split_whitespace().any(|word| word == name);
    let lines = notes.lines().filter(of_file);
    lines.filter_map(|line| line.split_whitespace().find(is_sum).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_brought_is_known_by_its_sum() {
        let sum = "d41d8cd98f00b204e9800998ecf8427e";
        let dpkg = format!("Package: kea\nConffiles:\n /etc/kea/a.conf.old {sum}0\n /etc/kea/a.conf {sum}\n");
        assert_eq!(noted(&dpkg, "/etc/kea/a.conf"), [sum]);
        assert_eq!(noted(&format!("{sum}  /etc/chrony/chrony.conf\n"), "/etc/chrony/chrony.conf"), [sum]);
        assert!(noted(&dpkg, "/etc/kea/b.conf").is_empty());
    }

    #[test]
    fn a_file_is_made_and_taken_back_and_anothers_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.conf");
        let file = Managed::new(path.clone());
        assert_eq!(file.standing().unwrap(), Standing::Nothing);
        file.make(None, "d").unwrap();
        for text in ["one\n", "two\n"] {
            file.make(Some(text), "d").unwrap();
            assert_eq!(file.standing().unwrap(), Standing::Ours(text.to_owned()));
            assert!(file.is_due());
            file.told();
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        file.make(None, "d").unwrap();
        assert!(!path.exists() && file.is_due());
        file.told();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

        fs::write(&path, "theirs\n").unwrap();
        for text in [Some("one\n"), None] {
            let said = file.make(text, "d").unwrap_err().to_string();
            assert!(said.contains("somebody else") && said.contains("mv "), "{said}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs\n");
        let nowhere = Managed::new(folder.path().join("no/d.conf"));
        assert!(nowhere.make(Some(""), "thed").unwrap_err().to_string().ends_with("install thed"));
    }

    #[test]
    fn what_was_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = Managed::new(folder.path().join("d.conf"));
        file.make(Some("ours\n"), "d").unwrap();
        fs::write(file.beside(BEFORE), "the package's\n").unwrap();
        file.make(Some("others\n"), "d").unwrap();
        file.make(None, "d").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "the package's\n");
        assert!(!file.beside(BEFORE).exists());
    }
}
