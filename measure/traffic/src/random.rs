//! Numbers that look random and are the same in every run.

pub use chance::{Random, STEP, mix};
