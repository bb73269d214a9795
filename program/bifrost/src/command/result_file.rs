//! Files that results are written to. That they can be is better known before the work than after
//! it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Failure;

/// Refuses a file that cannot be written: for want of its folder, or because it is one.
pub fn can_be(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = |why: String| Err(Failure::Said(format!("{}: {why}", file.display())));
    match (folder.is_dir(), file.is_dir()) {
        (false, _) => wrong(format!("there is no folder {}", folder.display())),
        (_, true) => wrong("that is a folder: name a file in it".to_owned()),
        _ => Ok(()),
    }
}

/// Writes a file. What was there stays until the new one is whole.
pub fn keep(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::Io { what: format!("cannot write {}", file.display()), error };
    // A pipe, a device, or a link to what only its owner may name: written where it is.
    if fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return fs::write(file, text).map_err(failed);
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
    written.map_err(|error| {
        let _never_made = fs::remove_file(&beside);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_one_is_whole() {
        let folder = std::env::temp_dir().join(format!("bifrost-results-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("page.html");
        keep(&file, "old").unwrap();
        // The new one cannot be written.
        fs::create_dir(folder.join("page.html.new")).unwrap();
        assert!(keep(&file, "new").unwrap_err().to_string().contains("cannot write"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        fs::remove_dir(folder.join("page.html.new")).unwrap();
        keep(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        // A link stays one.
        let link = folder.join("link.html");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        keep(&link, "through").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&file).unwrap() == "through");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        for wrong in [folder.join("none/page.html"), folder.clone()] {
            assert!(can_be(&wrong).is_err(), "{}", wrong.display());
        }
        assert!(can_be(&file).is_ok() && can_be(Path::new("page.html")).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }
}
