//! Router discovery: routers say that they are there, and hosts choose among them.
//!
//! | file | what it is |
//! |---|---|
//! | `irdp.rs` | for IPv4: ICMP router discovery (RFC 1256) |
//! | `advertisement.rs` | for IPv6: router advertisements (RFC 4861, 4191) |
//! | `option.rs` | what these say besides: prefixes, routes, name servers (RFC 8106), PREF64 (RFC 8781), the portal (RFC 8910) |
//! | `domain.rs` | the names of domains |
//! | `schedule.rs` | when something is sent, for both |
//!
//! Nothing here has a socket, a thread or a clock: frames are read and made, and what happens is
//! told with the time at which it did.

#![forbid(unsafe_code)]

mod advertisement;
mod domain;
pub mod irdp;
mod option;
mod schedule;

pub use advertisement::{Advertisement, HEADER, Heard, Preference, hear, solicitation};
pub use domain::Domain;
pub use option::RaOption;
pub use schedule::{Schedule, Time, Times};

/// Any bytes, as a fuzzer has them: read as a frame of either family. What is read is written again
/// and read again, and must be the same.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wire::Mac;
    use wire::neighbour::{ALL_NODES, Carried};
    let _ = (hear(bytes), irdp::hear(bytes));
    // Frames that are right around a message are rare: so there is one around any bytes.
    if bytes.len() >= 4 {
        let router = Ipv6Addr::from(0xfe80 << 112 | 1);
        let around = |message: &[u8]| {
            Carried { from_mac: Mac([2; 6]), to_mac: Mac::BROADCAST, from: router, to: ALL_NODES, message }
                .emit()
        };
        if let Some(Heard::Advertisement { advertisement, .. }) = hear(&around(bytes)) {
            let again = hear(&around(&advertisement.message()));
            assert!(
                matches!(&again, Some(Heard::Advertisement { advertisement: read, .. }) if *read == advertisement)
            );
        }
        let from = Ipv4Addr::new(192, 0, 2, 1);
        let around =
            |message: &[u8]| irdp::frame(Mac([2; 6]), Mac::BROADCAST, from, irdp::ALL_HOSTS, message);
        if let Some(irdp::Heard { message: irdp::Message::Advertisement(read), .. }) =
            irdp::hear(&around(bytes))
        {
            let again = irdp::hear(&around(&read.message())).map(|heard| heard.message);
            assert_eq!(again, Some(irdp::Message::Advertisement(read)));
        }
    }
}
