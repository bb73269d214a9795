//! Configurations that were in force, and the file that the daemon starts from.
//!
//! A commit changes three things: the history, the file, and, where it is to be confirmed, the wait
//! for that. They lie in two folders, and the machine may stop between any two steps. So all that
//! can fail is done beside first ([`Store::stage`]); then one `rename` is the commit
//! ([`Staged::commit`]). What a kill left half done the next one who opens the store takes back
//! ([`Store::open`]), by one rule: while the new file lies beside the old one, its revision was
//! never committed.
//!
//! ```text
//!   /etc/bifrost/router.toml                   what the daemon starts from
//!   /etc/bifrost/.router.toml.commit-8         the same of revision 8, until it is committed
//!   /var/lib/bifrost/revisions/%2Fetc%2Fbifrost%2Frouter.toml/
//!       7.toml  8.toml                         a line of what is known of it, then the file as it was
//!       wait                                   the last revision goes, unless somebody confirms it
//! ```
//!
//! One file here for each: what is known of a revision (`revision`), how long is waited (`wait`),
//! the store (`store`), and what it does to files (`disk`).

mod disk;
mod revision;
mod store;
mod wait;

pub use revision::{How, Revision};
pub use store::{Staged, Store, StoreError};
pub use wait::{Clock, Wait};
