//! Click's configuration language: pure text, it knows nothing of packets.

#[allow(dead_code)]
mod flat;
#[allow(dead_code)]
mod lexer;
mod quoting;
mod report;
#[allow(dead_code)]
mod tree;

pub use flat::{Flat, FlatConnection, FlatElement};
pub use quoting::{Piece, first_word, quote, split_arguments, split_words, uncomment, unquote};
pub use report::{Message, Position, Report, Severity, Span, Texts};
