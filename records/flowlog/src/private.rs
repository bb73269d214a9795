//! Files that tell who spoke with whom: nobody but this program and its group reads them, and
//! nobody else chooses where they lie.
//!
//! Their names are known in advance. So a file is never opened that was there before it, by
//! whatever name or link: what is in its place is taken away, or it is an error. A directory in
//! which others may write is not used, for they could do the same between two steps; and what is
//! read back must be ours.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;

/// What this program and its group may do with a file.
const FILE: u32 = 0o640;
/// And with a directory.
const DIRECTORY: u32 = 0o750;
/// Others may write.
const OPEN_TO_ALL: u32 = 0o002;

/// Makes a directory that only we and our group can look into, or sees that nobody else can write
/// in the one that is there.
///
/// # Errors
/// When it cannot be made, or is another user's, or everybody may write there.
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)?;
    let found = fs::metadata(path)?;
    if !is_ours(&found) {
        let who = found.uid();
        return Err(refused(format!(
            "the directory is user {who}'s, who could take files away; use one of root's"
        )));
    }
    if found.mode() & OPEN_TO_ALL != 0 {
        let mode = found.mode() & 0o7777;
        return Err(refused(format!(
            "everybody may write there (mode {mode:04o}); use a directory of its own"
        )));
    }
    Ok(())
}

/// Makes a file to be written that was not there before.
///
/// # Errors
/// When something is there, be it a link that leads nowhere.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)
}

/// Makes a file to be written in the place of whatever is there: of a link, not of what it leads
/// to.
///
/// # Errors
/// When it cannot be made.
pub fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Opens a file to be added to, making it if it is not there.
///
/// # Errors
/// When a link is there, or something that is no file.
pub fn append(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    plain(how.append(true).create(true).mode(FILE), path)
}

/// Opens a file that this program wrote before.
///
/// # Errors
/// When it is a link, no file, or another user's.
pub fn open(path: &Path) -> io::Result<File> {
    let file = plain(OpenOptions::new().read(true), path)?;
    let found = file.metadata()?;
    match is_ours(&found) {
        true => Ok(file),
        false => Err(refused(format!("user {} wrote it, not this program", found.uid()))),
    }
}

/// A pipe of that name would have us wait for ever.
fn plain(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = how.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused("it is no regular file".to_owned())),
    }
}

fn is_ours(found: &fs::Metadata) -> bool {
    found.uid() == 0 || found.uid() == geteuid().as_raw()
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn only_we_and_our_group_read_what_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        directory(&below).unwrap();
        directory(&below).unwrap();
        assert_eq!((mode(&folder.path().join("a")), mode(&below)), (0o750, 0o750));
        for (n, make) in [create_new, create, append].into_iter().enumerate() {
            let path = below.join(n.to_string());
            make(&path).unwrap().write_all(b"x").unwrap();
            assert_eq!(mode(&path), 0o640);
        }
    }

    #[test]
    fn a_link_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, link) = (folder.path().join("precious"), folder.path().join("link"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &link).unwrap();
        assert!(create_new(&link).is_err() && append(&link).is_err() && open(&link).is_err());
        create(&link).unwrap().write_all(b"ours").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        // Not even one that leads to where nothing is.
        let nowhere = folder.path().join("nowhere");
        symlink(folder.path().join("made"), &nowhere).unwrap();
        assert!(create_new(&nowhere).is_err() && append(&nowhere).is_err());
        assert!(!folder.path().join("made").exists());
    }

    #[test]
    fn places_and_files_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (place, file) = (folder.path().join("place"), folder.path().join("file"));
        directory(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(directory(&place).unwrap_err().to_string().contains("mode 1777"));
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        directory(&place).unwrap();
        fs::write(&file, "x").unwrap();
        assert_eq!(open(&file).unwrap().read(&mut [0; 2]).unwrap(), 1);
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(open(&folder.path().join("pipe")).is_err());
        // Who is not root has nobody to give them to.
        if geteuid().is_root() {
            [&place, &file].into_iter().for_each(|path| chown(path, Some(65_534), None).unwrap());
            assert!(directory(&place).unwrap_err().to_string().contains("user 65534"));
            assert!(open(&file).unwrap_err().to_string().contains("user 65534"));
        }
    }
}
