//! What FRR is told, as pure code: no daemon is asked here.
//!
//! ```text
//!   config::Routing ──► render ──► wanted ──────────────┐
//!                                                       ├─► diff ──► commands ──► script, for vtysh
//!   show running-config ──► parse ──► owned part of it ─┘                └──────► sessions: reset, refreshed
//! ```
//!
//! FRR's configuration is a tree of lines: some open a context, which has lines of its own
//! ([`Config`]). [`render`] writes what a file says as such a tree, in the form in which FRR shows
//! it. [`Owned`] says which of the lines that FRR has are the file's to change. [`diff`] finds the
//! commands between the two, and [`sessions`] what they do to BGP's sessions.

mod diff;
mod owned;
mod render;
pub mod sessions;
mod slot;
mod tree;

pub use diff::{Command, diff, script};
pub use owned::Owned;
pub use render::{render, render_for};
pub use tree::{Config, Node};

/// As a fuzzer calls the parser: whatever it reads, it reads its own text of it as the same, and
/// there is nothing between the two.
pub fn fuzz(bytes: &[u8]) {
    let config = Config::parse(&String::from_utf8_lossy(bytes));
    let again = Config::parse(&config.text());
    assert_eq!(config, again);
    assert!(diff(&config, &again).is_empty());
    let way = diff(&Config::default(), &config);
    let _ = (script(&way), sessions::effects(&Config::default(), &config, &way));
    let _ = script(&diff(&config, &Config::default()));
}
