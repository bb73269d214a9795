//! What is done to files, a step each, so that tests can fail and end at every one.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The steps.
pub(crate) trait Disk: Send + Sync {
    /// Makes a folder, and those above it, for its owner alone.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Makes a file with these permissions, or another one of it, and has it written out.
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Has a folder's names written out.
    fn sync(&self, folder: &Path) -> io::Result<()>;
}

/// The machine's.
pub(crate) struct Files;

impl Disk for Files {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}
