//! `bifrost settings`: the machine's own settings, made as the daemon says that they are wanted.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use settings::Settings;

use super::Failure;
use super::table::print;

/// Makes what a file wants. What was before is kept beside it, and so is what failed, for the
/// daemon to tell.
pub fn settings(file: &Path) -> Result<(), Failure> {
    let (kept, failed) = (beside(file, "before"), beside(file, services::FAILED));
    let made =
        wanted(file).and_then(|wanted| ::settings::make(&wanted, &kept).map_err(|wrong| wrong.to_string()));
    let noted = match &made {
        Err(wrong) => fs::write(&failed, wrong),
        Ok(_) => remove(&failed),
    };
    let lines = made.map_err(Failure::Said)?;
    noted.map_err(|error| Failure::Io { what: format!("cannot write {}", failed.display()), error })?;
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// What a file wants; none wants nothing.
fn wanted(file: &Path) -> Result<Settings, String> {
    let said = |wrong: String| format!("{}: {wrong}", file.display());
    match fs::read_to_string(file) {
        Ok(text) => Settings::read(&text).map_err(said),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Settings::default()),
        Err(error) => Err(said(error.to_string())),
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    path.into()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
