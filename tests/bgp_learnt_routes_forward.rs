//! IPv4 and IPv6 routes learnt over BGP from another implementation carry packets.
//!
//! ```text
//!   customer ------------- router -------------- isp
//!        .2  10.1.0.0/24   .1  .1  10.9.0.0/24   .2   BIRD, AS 65001: 2,000 IPv4 and 1,000 IPv6 prefixes
//!       ::2  2001:db8:1::  ::1 ::1 2001:db8:9::  ::2
//!                   FRR bgpd, AS 65000
//! ```

use std::time::Duration;

use lab::prefixes;

use crate::network::{LANES, all_arrive};
use crate::upstream::Upstream;

#[test]
fn in_each_lane() {
    for lane in LANES {
        let (v4, v6) =
            (prefixes::ipv4(2000, &mut prefixes::Random(1)), prefixes::ipv6(1000, &mut prefixes::Random(1)));
        let groups = [
            ("four", v4.iter().map(|p| (*p).into()).collect()),
            ("six", v6.iter().map(|p| (*p).into()).collect()),
        ];
        let net = Upstream::new("bgp", lane, &groups, "");
        net.learnt(3000, Duration::from_secs(15));

        // Some hosts inside the announced prefixes; the ISP is all of them.
        let hosts: Vec<String> = (v4.iter().take(5).map(|p| (u32::from(p.network()) | 1).to_be_bytes()))
            .map(|octets| std::net::Ipv4Addr::from(octets).to_string())
            .chain(
                v6.iter().take(5).map(|p| std::net::Ipv6Addr::from(u128::from(p.network()) | 1).to_string()),
            )
            .collect();
        hosts.iter().for_each(|address| net.isp_is(address));
        let addresses: Vec<&str> = hosts.iter().map(String::as_str).collect();
        addresses.iter().for_each(|address| net.customer.reaches(address, Duration::from_secs(5)).unwrap());
        all_arrive(&net.router, &net.customer, &net.isp, &addresses, 1000);
    }
}
