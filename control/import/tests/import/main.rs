//! What comes of texts: the file, and what is missing in it. That the plan of it is empty with real
//! daemons is a system test.

mod frr;
mod interfaces;
mod linux;
mod netplan;
mod vyos;

use config::{Machine, Router};
use import::{Draft, Imported};

/// What is said of words for which there is no key.
const ODD: &str = "there is no key for it, or it is not understood";

fn read(text: &str) -> Router {
    Router::read("router.toml", text, &Machine::this()).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

/// The sections of a file, without empty lines and comments.
fn body(text: &str) -> String {
    let (_, body) = text.split_once("without_ports = \"on\"\n").unwrap();
    let lines = body.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

/// What was gathered is this file, without what is missing.
fn comes_to(draft: Draft, file: &str, missing: &[impl AsRef<str>]) -> Imported {
    let found = draft.finish(None);
    read(&found.annotated());
    assert_eq!(body(&found.text), file, "{}", found.text);
    let left: Vec<String> = found.left.iter().map(ToString::to_string).collect();
    let missing: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
    assert_eq!(left, missing);
    found
}
