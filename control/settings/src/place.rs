//! Places of the machine that have a value.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A place that has a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Place {
    /// The name that the kernel has for the machine.
    Hostname,
    /// The name that a file of hosts has for this machine: the line of Debian's own address for it.
    Host(PathBuf),
    /// A file, or a link.
    Path(PathBuf),
    /// A setting of the kernel, by its name with dots (`sysctl(8)`).
    Sysctl(String),
}

/// What a place has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Nothing is there.
    Nothing,
    /// A text.
    Text(String),
    /// A link that leads there.
    Link(PathBuf),
}

/// Debian's address for the machine's own name, where it has no other one.
const OWN: &str = "127.0.1.1";
/// Programs of every user read them.
const MODE: u32 = 0o644;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Hostname => f.write_str("the machine's name"),
            Place::Host(path) => write!(f, "the machine's name in {}", path.display()),
            Place::Path(path) => write!(f, "{}", path.display()),
            Place::Sysctl(name) => f.write_str(name),
        }
    }
}

impl Place {
    /// What it has.
    ///
    /// # Errors
    /// The system's; that the kernel has no such setting.
    pub fn read(&self) -> io::Result<Value> {
        match self {
            Place::Hostname => Ok(Value::Text(nix::unistd::gethostname()?.to_string_lossy().into_owned())),
            Place::Host(path) => {
                let text = text_of(path)?;
                let line = text.lines().find_map(|line| line.strip_prefix(OWN)?.strip_prefix([' ', '\t']));
                Ok(line.map_or(Value::Nothing, |names| Value::Text(names.trim().to_owned())))
            }
            Place::Path(path) => match fs::symlink_metadata(path) {
                Ok(facts) if facts.is_symlink() => Ok(Value::Link(fs::read_link(path)?)),
                Ok(_) => Ok(Value::Text(fs::read_to_string(path)?)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Value::Nothing),
                Err(error) => Err(error),
            },
            Place::Sysctl(name) => match fs::read_to_string(setting(name)) {
                // Several numbers have tabs between them.
                Ok(text) => Ok(Value::Text(text.split_whitespace().collect::<Vec<_>>().join(" "))),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Err(io::Error::other("the kernel has no such setting"))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Gives it a value.
    ///
    /// # Errors
    /// The system's; that it cannot have such a value.
    pub fn write(&self, value: &Value) -> io::Result<()> {
        match (self, value) {
            (Place::Hostname, Value::Text(name)) => Ok(nix::unistd::sethostname(name)?),
            (Place::Host(path), _) => {
                let ours =
                    |line: &&str| line.strip_prefix(OWN).is_some_and(|rest| rest.starts_with([' ', '\t']));
                let text = text_of(path)?;
                let mut lines: Vec<String> =
                    text.lines().filter(|line| !ours(line)).map(str::to_owned).collect();
                if let Value::Text(names) = value {
                    lines.insert(lines.len().min(1), format!("{OWN}\t{names}"));
                }
                replace(path, &(lines.join("\n") + "\n"), MODE)
            }
            (Place::Path(path), Value::Text(text)) => replace(path, text, MODE),
            (Place::Path(path), Value::Link(to)) => {
                let new = beside(path)?;
                symlink(to, &new)?;
                fs::rename(new, path)
            }
            (Place::Path(path), Value::Nothing) => match fs::remove_file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => {
                    // A folder that was made for it goes with the last one.
                    let _ = path.parent().map(fs::remove_dir);
                    removed
                }
            },
            (Place::Sysctl(name), Value::Text(text)) => fs::write(setting(name), text),
            (Place::Hostname | Place::Sysctl(_), _) => Err(io::Error::other("it cannot have nothing")),
        }
    }
}

/// A file's text; of none it is empty.
fn text_of(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Where the kernel has a setting: dots stand between folders, and a stroke for a dot in a name.
fn setting(name: &str) -> PathBuf {
    let parts = name.split('.').map(|part| part.replace('/', "."));
    Path::new("/proc/sys").join(parts.collect::<PathBuf>())
}

/// A name beside a path at which nothing is, in a folder that is there.
fn beside(path: &Path) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut new = OsString::from(path);
    new.push(".bifrost-new");
    // One that was killed left it.
    let _ = fs::remove_file(&new);
    Ok(new.into())
}

/// Puts a text in the place of a file, at once.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let new = beside(path)?;
    let mut file = File::options().write(true).create_new(true).open(&new)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_line_among_hosts_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let place = Place::Host(path.clone());
        assert_eq!(place.read().unwrap(), Value::Nothing);
        fs::write(&path, "127.0.0.1 localhost\n127.0.1.10 other\n").unwrap();
        place.write(&Value::Text("r1.example.net r1".into())).unwrap();
        assert_eq!(place.read().unwrap(), Value::Text("r1.example.net r1".into()));
        place.write(&Value::Text("r2".into())).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "127.0.0.1 localhost\n127.0.1.1\tr2\n127.0.1.10 other\n");
        place.write(&Value::Nothing).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "127.0.0.1 localhost\n127.0.1.10 other\n");
    }

    #[test]
    fn settings_of_the_kernel_are_found_by_their_names() {
        assert_eq!(
            setting("net.ipv4.conf.eth0/10.rp_filter"),
            Path::new("/proc/sys/net/ipv4/conf/eth0.10/rp_filter")
        );
        let swappiness = Place::Sysctl("vm.swappiness".into()).read().unwrap();
        assert!(matches!(swappiness, Value::Text(text) if text.parse::<u32>().is_ok()));
        let error = Place::Sysctl("net.ipv4.no_such".into()).read().unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no such setting");
    }
}
