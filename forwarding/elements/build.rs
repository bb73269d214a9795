//! Lists the example texts in `examples/`, so that a new one needs no line of code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("examples");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut texts: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    texts.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    texts.sort();
    let mut list = String::from("&[\n");
    for path in texts {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    list.push_str("]\n");
    let out = Path::new(&std::env::var("OUT_DIR").unwrap_or_default()).join("examples.rs");
    if let Err(error) = std::fs::write(&out, list) {
        panic!("{}: {error}", out.display());
    }
}
