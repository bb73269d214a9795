//! A configuration that is being edited.
//!
//! A [`Document`] is the text of a `router.toml`, whose comments and order stay. It is changed by
//! lines of words:
//!
//! ```text
//! set interface eth0 addresses 192.0.2.1/24     a value, or one more of a list
//! set filter forward rules accept tcp port 80   one more line
//! set workers cores = [1, 2]                    any value, in TOML
//! delete route 198.51.100.0/24                  whatever stands there
//! insert nat rule web before home               another order
//! ```
//!
//! Words lead through the keys of [`config::schema`]. A section with names is followed by a name, a
//! list of tables by the value of the key by which they are told apart: `port eth0`, `route
//! 192.0.2.0/24`. Where several have the same, `#2` is added for the second, and so on; what has no
//! such key is `#1`, `#2`.
//!
//! [`lines`] are the set-lines that make a document, [`changes`] the lines that make one of
//! another; [`unified`] shows two texts as `diff -u` does.
//!
//! Nothing here reads a file or knows a daemon; whether a document makes sense is for
//! [`config::Router`] to say.

mod apply;
mod comments;
mod document;
mod edit;
mod help;
mod json;
mod lines;
mod order;
mod place;
mod tree;
mod unified;
mod value;
mod way;
mod whole;
mod words;
mod written;

pub use document::{Document, EditError};
pub use help::{Offer, offers};
pub use json::JsonError;
pub use lines::{changes, lines};
pub use place::{Path, Spot};
pub use tree::Tree;
pub use unified::unified;
pub use words::{Word, WordsError, quote, split, split_open};

/// Any bytes, as lines that change a document: nothing panics, and what comes of it is TOML.
pub fn fuzz(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (first, rest) = text.split_once('\u{0}').unwrap_or(("", &text));
    let mut document = Document::parse(first).unwrap_or_default();
    // The same lines on what it says, and a patch in JSON if there is one; then the document says
    // so.
    let mut tree = document.tree();
    for line in rest.lines().take(64) {
        let _ = tree.run(line);
        if let Ok(patch) = serde_json::from_str(line) {
            let _ = tree.merge(&patch);
        }
    }
    let mut made = document.clone();
    match made.be(&tree) {
        Ok(()) => assert!(made.tree().same(&tree), "{:?}", made.text()),
        Err(_) => assert_eq!(made, document),
    }
    for line in rest.lines().take(64) {
        let before = document.text().to_owned();
        match document.run(&[], line) {
            Ok(()) => assert!(Document::parse(document.text()).is_ok(), "{line:?} on {before:?}"),
            Err(_) => assert_eq!(document.text(), before, "{line:?}"),
        }
        if let Ok(words) = split(line) {
            let _ = offers(&document, &[], &words.iter().map(|word| word.text.clone()).collect::<Vec<_>>());
        }
    }
    let mut again = Document::default();
    for line in lines(&document.tree()) {
        again.run(&[], &line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    assert!(again.tree().same(&document.tree()), "{:?}", document.text());
}
