//! The form of examples itself: what the README shows, and packets whose bytes are known.

use crate::packet::Sample;
use crate::text::{matches, parse};

/// Packets as they are written and as bytes, which other programs agree on.
const PACKETS: &[(&str, &str)] = &[
    (
        "udp 10.0.0.1:1000 > 10.0.0.2:53 \"abc\"",
        "hex 4500001f00000000401166cc0a0000010a00000203e80035000b 2356 616263",
    ),
    (
        "ip 1.0.0.1 > 1.0.0.2 / udp 1 > 2 checksum 0000 length 5",
        "hex 4500001c00000000 401178cf 01000001 01000002 0001000200050000",
    ),
    ("hex 0102 \"a\\x62\\<63 64>\" zeros 2", "hex 010261626364 0000"),
    (
        "ether 0:1:2:3:4:5 > ff:ff:ff:ff:ff:ff / vlan 5 priority 1 / arp request 0:1:2:3:4:5 1.1.1.1 > 0:0:0:0:0:0 1.1.1.2",
        "hex ffffffffffff 000102030405 8100 2005 0806 0001 0800 06 04 0001 000102030405 01010101 000000000000 01010102",
    ),
    (
        "tcp 10.0.0.1:1000 > 10.0.0.2:80 flags SA seq 1 ack 2 window 3 options 020405b4 ttl 9 df tos 4 id 5",
        "hex 4504002c 00054000 09065dc1 0a000001 0a000002 03e80050 00000001 00000002 60120003 7fd6 0000 020405b4",
    ),
    ("icmp unreachable code 3 rest 00000578", "hex 0303 f784 00000578"),
    (
        "ip6 2001:db8::1 > 2001:db8::2 hlim 255 / icmp6 135 rest 00000000",
        "hex 60000000 00083aff 20010db8000000000000000000000001 20010db8000000000000000000000002 8700 1d48 00000000",
    ),
    (
        "ip 1.1.1.1 > 2.2.2.2 offset 16 mf protocol 17 checksum 1234",
        "hex 45000014 00002002 40111234 01010101 02020202",
    ),
];

/// Texts that are no packets.
const NO_PACKETS: &[&str] = &[
    "",
    "same",
    "foo",
    "udp 1 > ",
    "udp 1.2.3.4:5 > 6.7.8.9:100000",
    "udp 1.2.3.4:5 > [::1]:10",
    "ip 1.2.3.4 > 5.6.7.8 ttl",
    "ip 1.2.3.4 > 5.6.7.8 ttl 256",
    "ip 1.2.3.4 > 5.6.7.8 foo",
    "ip 1.2.3.4 > 5.6.7.8 \"x\" / udp 1 > 2",
    "ether 1:1:1:1:1:1 > 2:2:2:2:2:2 \"what is it\"",
    "hex 123",
    "hex 12, paint red",
    "hex 12, foo",
    "tcp 1 > 2 flags SX",
];

/// Whether all of this is read as it should be.
pub fn check() -> Result<(), String> {
    for (text, bytes) in PACKETS {
        let [packet, expected] = [Sample::parse(text, None)?, Sample::parse(bytes, None)?];
        if packet.bytes != expected.bytes {
            return Err(format!("{text}\nshould be\n  {expected}\nbut is\n  {packet}"));
        }
        let printed = packet.to_string();
        if Sample::parse(&printed, None)? != packet {
            return Err(format!("{printed} is not read back"));
        }
    }
    for text in NO_PACKETS {
        if let Ok(packet) = Sample::parse(text, None) {
            return Err(format!("'{text}' was read as {packet}"));
        }
    }
    for (expected, actual, fits) in [
        ("a...c", "a b c", true),
        ("a...b...c", "a b x", false),
        ("...", "", true),
        ("a", "a  \n", true),
        ("a", "ab", false),
        ("...ab", "aab", true),
    ] {
        if matches(expected, actual) != fits {
            return Err(format!("'{expected}' and '{actual}'"));
        }
    }
    let readme = include_str!("../../examples/README.md");
    let blocks: Vec<&str> =
        readme.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [examples, packet] = blocks.as_slice() else { return Err("the README has other blocks".to_owned()) };
    if parse(examples)?.len() != 2 {
        return Err("the README should have two examples".to_owned());
    }
    Sample::parse(packet.trim(), None)?;
    for wrong in [
        "in: hex 00",
        "example: x",
        "example: x\nelement: Y\nfoo: z",
        "nothing",
        "example: x\nelement: Y\nread: z",
    ] {
        if parse(wrong).is_ok() {
            return Err(format!("this was read as examples:\n{wrong}"));
        }
    }
    Ok(())
}
