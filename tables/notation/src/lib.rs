//! How what operators write is read, printed, and told to be wrong: alike in files, in flags and in
//! commands.
//!
//! Names of protocols are in `wire::protocol`. Click's texts are Click's: its words for times and
//! rates (`forwarding/graph/src/arguments/`) and the shape of its messages
//! (`forwarding/graph/src/language/report.rs`) are what its users and its test suite know, so they
//! are not these.

mod mistake;
mod ports;
mod quantity;
mod time;

pub use mistake::{Hint, Mistake, Page, carets, list, near, printable};
pub use ports::ports;
pub use quantity::{Quantity, grouped, scaled, size};
pub use time::{duration, lasting, seconds};
