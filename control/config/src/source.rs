//! Reading a file that somebody may be writing.
//!
//! Editors and configuration management often write in place: for some milliseconds the file is
//! empty, or its first half. What is read then parses, and means something else. So a file counts
//! as read when it has not changed from before the read until after it, and is older than
//! [`SETTLED`]; a younger one is read again until two reads that far apart found the same file.
//! That costs a reload right behind the editor a tenth of a second.
//!
//! Only regular files are read: a FIFO has no end, and a device neither. What is not regular is
//! refused before a byte is read, and opening it does not wait.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

/// For how long a file must not have changed.
const SETTLED: Duration = Duration::from_millis(100);
/// How often it is read again before it is refused as one that does not come to rest.
const ATTEMPTS: u32 = 30;
/// Bytes of a file at most.
const LONGEST: u64 = 256 << 20;
/// Opening does not wait for a writer.
const NONBLOCK: i32 = 0o4000;

/// What tells one state of a file from another.
#[derive(PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> State {
        State {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The bytes of a regular file that is at rest.
///
/// # Errors
/// The system's; that it is no regular file; that it is longer than 256 MiB; that it goes on
/// changing.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut before = None;
    for _ in 0..ATTEMPTS {
        let (bytes, state, age) = read_once(path)?;
        // A new file may have taken its place meanwhile.
        let now = State::of(&std::fs::metadata(path)?);
        // While a file is cut off, Linux tells its new length with its old time.
        let settled = age >= SETTLED && !bytes.is_empty();
        if now == state && (settled || before.as_ref() == Some(&state)) {
            return Ok(bytes);
        }
        before = Some(now);
        thread::sleep(SETTLED);
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "it goes on changing while it is read; try again when nothing writes to it",
    ))
}

/// As [`read`], for a text.
///
/// # Errors
/// As [`read`]; that it is not text in UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// The bytes, what the file was when it was opened, and how long it had been so; no time where the
/// clock says that it was changed in the future.
fn read_once(path: &Path) -> io::Result<(Vec<u8>, State, Duration)> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "it is a directory" } else { "it is not a regular file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let state = State::of(&metadata);
    let changed = Duration::new(metadata.ctime().max(0) as u64, metadata.ctime_nsec().max(0) as u32);
    let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed).unwrap_or_default();
    let bytes = all(&file)?;
    // What was written while it was read.
    let state = if State::of(&file.metadata()?) == state && bytes.len() as u64 == state.bytes {
        state
    } else {
        State { inode: 0, ..state }
    };
    Ok((bytes, state, age))
}

fn all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 256 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    /// A folder of a test's own, removed when it is over.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("bifrost-source-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_is_written_in_place_is_never_read_by_half() {
        let folder = Folder::new("half");
        let path = folder.0.join("file");
        let whole = |number: usize| format!("{number}\n").repeat(50);
        std::fs::write(&path, whole(0)).unwrap();
        let writer = {
            let path = path.clone();
            thread::spawn(move || {
                let mut longest = Duration::ZERO;
                for number in 1..8 {
                    let began = Instant::now();
                    let mut file = File::create(&path).unwrap();
                    for line in whole(number).lines() {
                        writeln!(file, "{line}").unwrap();
                        thread::sleep(Duration::from_micros(500));
                    }
                    drop(file);
                    longest = longest.max(began.elapsed());
                    thread::sleep(Duration::from_millis(130));
                }
                longest
            })
        };
        let mut halves = Vec::new();
        while !writer.is_finished() {
            let text = read_text(&path).unwrap();
            let number = text.lines().next().and_then(|line| line.parse().ok());
            if number.is_none_or(|number| text != whole(number)) {
                halves.push(text);
            }
        }
        // A writer that the machine let stand for so long looks like one that is done.
        assert!(writer.join().unwrap() >= SETTLED || halves.is_empty(), "{halves:?}");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = Folder::new("fifo");
        let fifo = folder.0.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let began = Instant::now();
        for (path, reason) in
            [(fifo.as_path(), "regular"), (Path::new("/dev/zero"), "regular"), (&folder.0, "directory")]
        {
            let error = read(path).unwrap_err().to_string();
            assert!(error.contains(reason), "{}: {error}", path.display());
        }
        assert!(began.elapsed() < Duration::from_secs(2), "it waited for a writer");
        assert_eq!(read(Path::new("/no/such/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
