//! Click's argument conventions.
//!
//! An element's configuration is a list of [pieces](crate::language::Piece) between commas. An
//! element asks for its arguments one after the other, each by its keyword and as a type; whether
//! the user wrote them by position or by keyword, and in which order, is settled here
//! ([`Arguments`]). What is written becomes a checked value ([`Argument`]): numbers with units,
//! addresses, annotations, also by the names that a configuration gave them ([`Names`], seen from
//! an element's place: [`Scope`]). Every mistake lands in the report, with its place. [`unparse`]
//! is the way back: values as Click prints them.
//!
//! ```
//! use graph::arguments::{Arguments, Names, Scope, Seconds};
//! use graph::language::Report;
//!
//! let (names, mut report) = (Names::new(), Report::new());
//! let mut arguments = Arguments::new("\"hello\", STOP true, INTERVAL 2 ms", Scope::new(&names, "source"), &mut report);
//! let data: Option<String> = arguments.mandatory("DATA");
//! let limit: i32 = arguments.optional("LIMIT").unwrap_or(-1);
//! let interval: Option<Seconds> = arguments.keyword("INTERVAL");
//! let stop = arguments.keyword("STOP").unwrap_or(false);
//! assert!(arguments.finish().is_ok());
//! assert_eq!((data.as_deref(), limit, interval, stop), (Some("hello"), -1, Some(Seconds(2_000_000)), true));
//! ```

mod address;
mod annotation;
mod argument;
mod built_in;
mod device;
mod names;
mod number;
mod reading;
mod replace;
mod time;
pub mod unparse;

pub use address::{AddressOrPrefix4, AddressOrPrefix6, Port, Prefix4, Prefix6, TcpPort, UdpPort};
pub use annotation::{Anno, AnnoByte, AnnoShort, AnnoWord, AnyAnno, offset};
pub use argument::{
    Argument, Bytes, ElementName, Filename, HandlerName, Keyword, Raw, Word, parse_error, read,
};
pub use built_in::{PROTOCOL_PAYLOAD, PROTOCOL_TCP_OR_UDP, PROTOCOL_TRANSPORT};
pub use names::{Kind, Names, Scope};
pub use number::{Decimal, Fixed, PortRange, parse_integer};
pub use reading::{Arguments, Blame, Refused};
pub(crate) use replace::replace;
pub use time::{Bandwidth, Seconds, Timestamp};
