//! The history of a file, and the file.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::disk::{Disk, Files};
use crate::revision::{How, Revision};
use crate::wait::{Clock, Wait};

#[cfg(test)]
mod tests;

/// Why the store cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{}: {what}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Another process has it.
    #[error("{}: another Bifrost keeps its revisions there", .0.display())]
    Busy(PathBuf),
    /// There is no such revision.
    #[error("there is no revision {number}; {there}")]
    Absent {
        /// The revision that was asked for.
        number: u64,
        /// Those that are there.
        there: String,
    },
    /// A file is there and makes no sense.
    #[error("{}: it makes no sense here; remove it to go on without it", .0.display())]
    Strange(PathBuf),
}

type Result<T> = std::result::Result<T, StoreError>;

/// The history of a file, and the file.
pub struct Store {
    /// Of its revisions.
    folder: PathBuf,
    file: PathBuf,
    disk: Box<dyn Disk>,
    /// Held while this process has the store.
    lock: Mutex<Option<Flock<File>>>,
}

impl Store {
    /// The history that is kept for `file` below a `state` folder. Nothing is read or made yet.
    pub fn new(state: &Path, file: &Path) -> Store {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let name = file.to_string_lossy().replace('%', "%25").replace('/', "%2F");
        let folder = state.join("revisions").join(name);
        Store { folder, file, disk: Box::new(Files), lock: Mutex::default() }
    }

    /// Takes the store for this process, and takes back what a kill left half done. False: nothing
    /// was ever kept, and with `make` unset nothing is made for it.
    ///
    /// # Errors
    /// That another process has it; the system's.
    pub fn open(&self, make: bool) -> Result<bool> {
        if make {
            self.disk.make_folder(&self.folder).map_err(self.at(&self.folder, "cannot make it"))?;
        } else if !self.folder.exists() {
            return Ok(false);
        }
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            let folder = File::open(&self.folder).map_err(self.at(&self.folder, "cannot open it"))?;
            let taken = Flock::lock(folder, FlockArg::LockExclusiveNonblock);
            *lock = Some(taken.map_err(|_| StoreError::Busy(self.folder.clone()))?);
        }
        drop(lock);
        self.recover()?;
        Ok(true)
    }

    /// Takes back what was staged and never committed.
    fn recover(&self) -> Result<()> {
        if let Some((first, beside)) = self.staged()? {
            for number in self.all()?.into_iter().filter(|number| *number >= first) {
                self.remove(&self.path(number))?;
            }
            self.remove(&beside)?;
        }
        for (path, _) in self.names(&self.folder)?.into_iter().filter(|(_, name)| name.ends_with(".new")) {
            self.remove(&path)?;
        }
        if self.wait_file()?.is_some_and(|wait| self.newest().is_ok_and(|newest| newest != wait.revision)) {
            self.remove(&self.folder.join("wait"))?;
        }
        Ok(())
    }

    /// The file that the daemon starts from, where it really is.
    fn target(&self) -> PathBuf {
        fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone())
    }

    /// What a new file is called until it is committed, less the number of its revision.
    fn prefix(&self) -> String {
        let name = self.target().file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!(".{name}.commit-")
    }

    /// The file that lies beside, if one does, and the first revision that came with it.
    fn staged(&self) -> Result<Option<(u64, PathBuf)>> {
        let (target, prefix) = (self.target(), self.prefix());
        let beside = self.names(target.parent().unwrap_or(Path::new("/")))?.into_iter();
        Ok(beside.filter_map(|(path, name)| Some((name.strip_prefix(&prefix)?.parse().ok()?, path))).min())
    }

    fn names(&self, folder: &Path) -> Result<Vec<(PathBuf, String)>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(self.at(folder, "cannot read it"))?,
        };
        let entries = entries.map(|entry| entry.map(|entry| (entry.path(), entry.file_name())));
        let entries = entries.collect::<io::Result<Vec<_>>>().map_err(self.at(folder, "cannot read it"))?;
        Ok(entries.into_iter().map(|(path, name)| (path, name.to_string_lossy().into_owned())).collect())
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.toml"))
    }

    /// Numbers of revisions that are there, committed or not, the newest first.
    fn all(&self) -> Result<Vec<u64>> {
        let names = self.names(&self.folder)?.into_iter();
        let mut all: Vec<u64> =
            names.filter_map(|(_, name)| name.strip_suffix(".toml")?.parse().ok()).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        Ok(all)
    }

    /// Those that were committed.
    fn numbers(&self) -> Result<Vec<u64>> {
        let before = self.staged()?.map_or(u64::MAX, |(first, _)| first);
        Ok(self.all()?.into_iter().filter(|number| *number < before).collect())
    }

    /// The number of the newest revision; 0: there is none.
    pub fn newest(&self) -> Result<u64> {
        Ok(self.numbers()?.first().copied().unwrap_or(0))
    }

    /// All revisions, the newest first.
    pub fn list(&self) -> Result<Vec<Revision>> {
        let unreadable = |number| Revision { number, how: How::Unreadable, ..Revision::default() };
        let read = |number| {
            let mut line = String::new();
            BufReader::new(File::open(self.path(number)).ok()?).read_line(&mut line).ok()?;
            Some(Revision { number, ..Revision::read(&line)?.0 })
        };
        Ok(self.numbers()?.into_iter().map(|number| read(number).unwrap_or(unreadable(number))).collect())
    }

    /// A revision's text, as it was.
    ///
    /// # Errors
    /// That there is no such revision; the system's.
    pub fn text(&self, number: u64) -> Result<String> {
        let numbers = self.numbers()?;
        if !numbers.contains(&number) {
            let there = match (numbers.last(), numbers.first()) {
                (Some(first), Some(last)) => format!("those there are: {first} to {last}"),
                _ => "none is kept yet: the first commit begins".to_owned(),
            };
            return Err(StoreError::Absent { number, there });
        }
        let path = self.path(number);
        let file = fs::read_to_string(&path).map_err(self.at(&path, "cannot read it"))?;
        Ok(Revision::read(&file).ok_or(StoreError::Strange(path))?.1.to_owned())
    }

    /// What waits to be confirmed.
    pub fn wait(&self) -> Result<Option<Wait>> {
        // Whatever came behind it has settled it.
        let newest = self.newest()?;
        Ok(self.wait_file()?.filter(|wait| wait.revision == newest))
    }

    fn wait_file(&self) -> Result<Option<Wait>> {
        let path = self.folder.join("wait");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| StoreError::Strange(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.at(&path, "cannot read it")(error)),
        }
    }

    /// Begins to wait as before, after a start of the machine.
    pub fn wait_on(&self, wait: &Wait, clock: &Clock) -> Result<Wait> {
        let wait = wait.renewed(clock);
        self.write_wait(&wait)?;
        self.sync(&self.folder)?;
        Ok(wait)
    }

    fn write_wait(&self, wait: &Wait) -> Result<()> {
        self.write_whole(&self.folder.join("wait"), &serde_json::to_vec(wait).unwrap_or_default())
    }

    /// Ends the wait: the newest revision stays.
    pub fn confirm(&self) -> Result<()> {
        self.remove(&self.folder.join("wait"))?;
        self.sync(&self.folder)
    }

    /// Forgets the oldest revisions, but `keep`.
    pub fn prune(&self, keep: usize) -> Result<()> {
        self.numbers()?.into_iter().skip(keep).try_for_each(|number| self.remove(&self.path(number)))
    }

    /// Makes all that a commit needs, beside what is there. `new` are revisions, whose numbers they
    /// get here, and their texts; the last one is to be in force, and with `known` in the file as
    /// well. That is the text which the file is thought to have: if it has another one by now, that
    /// is kept beside it as `FILE.saved`. With `wait` the last one waits to be confirmed for so
    /// long.
    ///
    /// # Errors
    /// The system's. Then all is as it was.
    pub fn stage(
        self: &Arc<Store>,
        mut new: Vec<(Revision, &str)>,
        known: Option<&str>,
        wait: Option<(Duration, &Clock)>,
    ) -> Result<Staged> {
        self.open(true)?;
        let first = self.newest()? + 1;
        new.iter_mut().zip(first..).for_each(|((revision, _), number)| revision.number = number);
        let number = first + new.len() as u64 - 1;
        let target = self.target();
        let nothing = (PathBuf::new(), PathBuf::new());
        let mut staged =
            Staged { store: self.clone(), number, made: Vec::new(), last: nothing, saved: None, owner: None };
        if let (Some(known), Some((_, text))) = (known, new.last()) {
            staged.beside(&target, first, known, text)?;
        }
        for (revision, text) in &new {
            let path = self.path(revision.number);
            let beside = path.with_extension("new");
            staged.made.push(beside.clone());
            self.write(&beside, revision.file(text).as_bytes(), 0o600)?;
            if known.is_none() && revision.number == number {
                staged.last = (beside, path);
            } else {
                staged.made.push(path.clone());
                self.rename(&beside, &path)?;
            }
        }
        if let Some((time, clock)) = wait {
            staged.made.push(self.folder.join("wait"));
            self.write_wait(&Wait::new(number, time, clock))?;
        }
        self.sync(&self.folder)?;
        Ok(staged)
    }

    fn write_whole(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let beside = path.with_extension("new");
        self.write(&beside, bytes, 0o600)?;
        self.rename(&beside, path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
        self.disk.write(path, bytes, mode).map_err(self.at(path, "cannot write it"))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to).map_err(self.at(to, "cannot put it in place"))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.at(path, "cannot remove it")(error))
            }
            _ => Ok(()),
        }
    }

    fn sync(&self, folder: &Path) -> Result<()> {
        self.disk.sync(folder).map_err(self.at(folder, "cannot have it written out"))
    }

    fn at(&self, path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> StoreError + use<> {
        let path = path.to_owned();
        move |error| StoreError::Io { path, what, error }
    }
}

/// A commit that is ready; dropped before it is committed it was never there.
pub struct Staged {
    store: Arc<Store>,
    /// The number of the revision that is to be in force.
    pub number: u64,
    /// Where the file's text of before is kept, if it was another than thought.
    pub saved: Option<PathBuf>,
    /// What was made, in order; empty once it is committed.
    made: Vec<PathBuf>,
    /// The rename that commits.
    last: (PathBuf, PathBuf),
    /// Whose the file was, if it was not the daemon's.
    owner: Option<(u32, u32)>,
}

impl Staged {
    /// The new file beside the old one, with its permissions.
    fn beside(&mut self, target: &Path, first: u64, known: &str, text: &str) -> Result<()> {
        let store = self.store.clone();
        let folder = target.parent().unwrap_or(Path::new("/"));
        let path = folder.join(format!("{}{first}", store.prefix()));
        let mut mode = 0o600;
        if let Ok(now) = fs::metadata(target) {
            mode = now.permissions().mode() & 0o777;
            self.owner = Some((now.uid(), now.gid()));
            if fs::read(target).is_ok_and(|bytes| bytes != known.as_bytes()) {
                let mut saved = target.as_os_str().to_owned();
                saved.push(".saved");
                let bytes = fs::read(target).map_err(store.at(target, "cannot read it"))?;
                store.write(Path::new(&saved), &bytes, 0o600)?;
                self.saved = Some(saved.into());
            }
        }
        self.made.push(path.clone());
        store.write(&path, text.as_bytes(), mode)?;
        self.owner = self
            .owner
            .filter(|owner| fs::metadata(&path).is_ok_and(|made| (made.uid(), made.gid()) != *owner));
        self.last = (path, target.to_owned());
        store.sync(folder)
    }

    /// Commits it: one rename. On a thread that may give files away, if the file is another user's.
    ///
    /// # Errors
    /// The system's. Then all is as it was, as soon as this is dropped.
    pub fn commit(&mut self) -> Result<()> {
        let (from, to) = &self.last;
        if let Some((user, group)) = self.owner {
            chown(from, Some(user), Some(group)).map_err(self.store.at(from, "cannot give it its owner"))?;
        }
        self.store.rename(from, to)?;
        self.made.clear();
        Ok(())
    }

    /// Has what was committed written out.
    ///
    /// # Errors
    /// The system's: it is committed, but a machine that loses its power now may not know.
    pub fn settle(&self) -> Result<()> {
        self.store.sync(self.last.1.parent().unwrap_or(Path::new("/")))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // The new file goes last: it says that the rest was never committed. What stays now is
        // removed when the store is opened next.
        let _ = self.made.iter().rev().try_for_each(|path| self.store.remove(path));
    }
}
