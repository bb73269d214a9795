//! Programs that decide about packets: one for a whole list of patterns, in which nothing is asked
//! twice.
//!
//! A [`Condition`] says what must hold of some words of four bytes. It becomes a list of
//! [`Test`](tests::Test)s, each of which compares one word and leads to a later test or to an
//! output; [`optimize`](optimize::optimize) makes the list shorter; a [`Program`] runs it. The
//! programs of Classifier, IPClassifier and IPFilter differ in what an offset means, and in nothing
//! else.
//!
//! What a packet does not have: a test compares the bytes that are there, and when they are as
//! asked for, but some are missing, it has a result of its own for that
//! ([`Test::short`](tests::Test::short)).
//!
//! | file | what it is |
//! |---|---|
//! | [`condition`] | what must hold |
//! | [`tests`](mod@tests) | the tests of a list of conditions, and lists joined |
//! | [`optimize`](mod@optimize) | the same with fewer tests |
//! | [`program`] | running them, and printing them as Click does |

pub mod condition;
pub mod optimize;
pub mod program;
pub mod tests;

pub use condition::Condition;
pub use program::{NOWHERE, Program};
pub use tests::{Next, Tests};
