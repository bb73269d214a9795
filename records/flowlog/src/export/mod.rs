//! Records out to collectors: IPFIX (RFC 7011) and NetFlow version 9 (RFC 3954).
//!
//! **One record or two for a connection?** RFC 5103 has one, with *reverse* information elements;
//! older exporters send one for each direction. Two are the default here: NetFlow 9 has no reverse
//! elements at all, and collectors that skip what they don't know would lose the reply without a
//! word. Even nfdump 1.7, which reads reverse counts, takes the reverse TCP flags for the forward
//! ones (a test shows it). The two share `flowId` and say which is which by `biflowDirection`.
//! `biflow = true` sends one, half as many bytes, to collectors that are made for it (SiLK, YAF's).
//!
//! **Times** are milliseconds (elements 152 and 153), which everybody reads; `times =
//! "nanoseconds"` sends 156 and 157 instead (tshark reads them, nfdump 1.7 takes them for 1970).
//! NetFlow 9 has milliseconds since the exporter started (21 and 22). Files have all nanoseconds
//! always.
//!
//! **Translated flows** carry the addresses behind the router in the elements of RFC 8158 (225 to
//! 228, 281, 282), NAT64 with IPv6 in front and IPv4 behind. The reply of a translated connection
//! is told as it arrives at the router: from the far end to the router's address, behind the router
//! to the inner address.
//!
//! **ICMP** has type and code in the destination port as well (type x 256 + code), where collectors
//! look for it.
//!
//! **What stays the same** is sent as options: the sampling interval, and interface names by index.
//! All elements but the reverse ones are IANA's, so collectors need no type information (RFC 5610).
//!
//! | file | what is there |
//! |---|---|
//! | `fields` | which element a template has, and how a record fills it |
//! | `encoder` | records into messages: templates, options, sequence numbers, sizes |
//! | `udp`, `tcp` | messages into the network |

mod encoder;
mod fields;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

pub use encoder::{Encoder, Message, Style};
pub use fields::Dialect;
pub(crate) use tcp::{STALLED, Stream};
pub(crate) use udp::{Datagrams, Way, payload};
