//! The filter: its language, and the classifier it compiles to.

mod check;
mod classifier;
mod evaluate;
mod explain;
mod language;
mod ledger;
mod matching;
mod meter;
mod mistake;
mod model;
mod moment;
mod names;
mod nftables;
mod set;
mod settings;

pub use check::Warning;
pub use classifier::{BATCH, Compiled, MOST_STEPS, TooLong};
pub use evaluate::{Decision, Outcome, Step};
pub use explain::Explanation;
pub use ledger::{Accounts, Counter, Ledger};
pub use matching::Context;
pub use mistake::{Mistake, Mistakes};
pub use model::*;
pub use moment::Now;
pub use nftables::{Inexpressible, TABLE};
pub use set::Set;
