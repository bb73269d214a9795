//! Click's configuration language: pure text, it knows nothing of packets.

mod report;

pub use report::{Message, Position, Report, Severity, Span, Texts};
