//! Click's configuration language: pure text, it knows nothing of packets.
//!
//! A text becomes a [`Tree`] ([`parse`]), and the tree a [`Flat`] list of elements and connections
//! ([`expand`]), which a builder makes into a graph. [`format()`] prints a tree in one tidy form;
//! [`unparse`] prints what it expanded to. Whatever is wrong on the way is collected in a
//! [`Report`].
//!
//! | file | what it is |
//! |---|---|
//! | `report` | places in texts, and messages about them |
//! | `lexer` | words and signs |
//! | `tree`, `parser`, `library` | what is written |
//! | `body`, `scope`, `wiring` | what the names mean, and which ports are connected |
//! | `variables`, `quoting` | what stands in configuration strings |
//! | `expand`, `tunnels`, `flat` | what is built |
//! | `format` | what is written, tidily |

mod body;
mod expand;
mod flat;
mod format;
mod lexer;
mod library;
mod parser;
mod quoting;
mod report;
mod scope;
pub mod tree;
mod tunnels;
mod variables;
mod wiring;

pub use expand::expand;
pub use flat::{Flat, FlatConnection, FlatElement, unparse};
pub use format::format;
pub use library::{FindLibrary, parse_with_libraries};
pub use parser::parse;
pub use quoting::{Piece, first_word, quote, split_arguments, split_words, uncomment, unquote};
pub use report::{Message, Position, Report, Severity, Span, Texts};
pub use tree::Tree;
pub use variables::replace_variables;
