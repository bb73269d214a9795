//! What Linux did with a packet, Bifrost does, byte for byte: replays `linux.txt` (see there).
//!
//! Not compared: the identification of IPv4 answers and the flow label of IPv6 answers, which are
//! numbers of no meaning, and what depends on them, the IPv4 header checksum (which must be right
//! all the same).

mod rig;

use rig::Rig;
use wire::checksum;

struct Case {
    name: String,
    sent: Vec<u8>,
    /// Port and frame.
    expected: Vec<(u16, Vec<u8>)>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut name = String::new();
    for line in include_str!("linux.txt").lines() {
        let Some((kind, rest)) = line.split_once(' ') else { continue };
        let bytes =
            || (0..rest.len()).step_by(2).map(|i| u8::from_str_radix(&rest[i..i + 2], 16).unwrap()).collect();
        match kind {
            "#" => name = rest.to_owned(),
            ">" => cases.push(Case { name: name.clone(), sent: bytes(), expected: Vec::new() }),
            "a" => cases.last_mut().unwrap().expected.push((1, bytes())),
            "b" => cases.last_mut().unwrap().expected.push((2, bytes())),
            other => panic!("unknown line {other}"),
        }
    }
    cases
}

/// Clears what need not be equal in answers.
fn masked((port, mut frame): (u16, Vec<u8>)) -> (u16, Vec<u8>) {
    match (port, frame[14] >> 4) {
        (1, 4) => {
            assert!(checksum::verify(&frame[14..34]));
            frame[18..20].fill(0);
            frame[24..26].fill(0);
        }
        (1, 6) => {
            frame[15] &= 0xf0;
            frame[16..18].fill(0);
        }
        _ => {}
    }
    (port, frame)
}

#[test]
fn every_packet_has_the_same_fate_as_in_linux() {
    let cases = cases();
    assert!(cases.len() > 50);
    for case in cases {
        let mut rig = Rig::new();
        let outcome = rig.run(1, std::slice::from_ref(&case.sent));
        assert!(case.expected.is_empty() || !case.name.ends_with("silence"));
        let sent: Vec<_> = outcome.sent.into_iter().map(masked).collect();
        let expected: Vec<_> = case.expected.into_iter().map(masked).collect();
        assert_eq!(sent, expected, "{}\nreasons {:?}\nours and Linux's", case.name, rig.reasons());
        assert!(outcome.punted.is_empty(), "{} left to Linux: {:02x?}", case.name, outcome.punted);
        assert_eq!(expected_drops(&sent), rig.dropped(), "{}: {:?}", case.name, rig.reasons());
    }
}

/// A packet that was not forwarded was dropped, whether answered or not.
fn expected_drops(sent: &[(u16, Vec<u8>)]) -> u64 {
    u64::from(!sent.iter().any(|(port, _)| *port == 2))
}
