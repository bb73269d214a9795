//! DHCP for IPv4 through a relay.
//!
//! A host's message gets the relay's address on its link (`giaddr`), by which the server chooses
//! the subnet, and where it answers. Besides, it can get an option with names of the link and of
//! the relay (RFC 3046), which the server repeats and the relay takes off again.

use std::net::Ipv4Addr;

use crate::Refused;

/// Where servers and relays listen.
pub const SERVER: u16 = 67;
/// Where hosts do.
pub const CLIENT: u16 = 68;
/// Bytes of a message at least: old hosts and servers take none that is shorter (RFC 1542, 2.1).
pub const SHORTEST: usize = 300;
/// Bytes of the relay's option at most.
pub const OPTION_AT_MOST: usize = 257;
/// Relays that a message may have passed, at most (RFC 1542, 4.1.1).
pub const HOPS: u8 = 16;

/// The first byte of a host's message, and of a server's.
pub const REQUEST: u8 = 1;
/// See [`REQUEST`].
pub const REPLY: u8 = 2;

/// Bytes in front of the options, with what tells them.
const FIXED: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Where fields stand.
const HOPS_AT: usize = 3;
const FLAGS: usize = 10;
const HOST: usize = 12;
const YOURS: usize = 16;
const GATEWAY: usize = 24;
const HARDWARE: usize = 28;
/// Link addresses of Ethernet: their kind, and how long they are.
const ETHERNET: [u8; 2] = [1, 6];
/// The bit of the flags that says: to all on the link.
const TO_ALL: u8 = 0x80;
/// Options, and what the relay's is made of.
const PAD: u8 = 0;
const INFORMATION: u8 = 82;
const END: u8 = 255;
const CIRCUIT: u8 = 1;
const REMOTE: u8 = 2;
/// What fits into a frame of 1,500 bytes behind the headers of IPv4 and UDP.
const FRAME: usize = 1500 - 28;

/// A relay as it is for the hosts of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    option: Vec<u8>,
    trusts: bool,
}

/// A server's answer on its way to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The relay's address on the host's link.
    pub gateway: Ipv4Addr,
    /// The host's link address; `None`: all on the link.
    pub mac: Option<[u8; 6]>,
    /// The host's address; broadcast: all on the link.
    pub to: Ipv4Addr,
    /// What it gets.
    pub message: Vec<u8>,
}

impl Agent {
    /// For the hosts of an interface. With `circuit` servers are told its name, of at most 15
    /// bytes; `remote` is a name of the relay for them, of at most 200. `trusts`: what comes
    /// without a relay's address may have the option already, of a switch.
    pub fn new(interface: &str, circuit: bool, remote: Option<&str>, trusts: bool) -> Agent {
        let mut parts = Vec::new();
        for (code, name) in [(CIRCUIT, circuit.then_some(interface)), (REMOTE, remote)] {
            if let Some(name) = name {
                parts.extend([code, name.len() as u8]);
                parts.extend(name.as_bytes());
            }
        }
        let option = match parts.len() {
            0 => Vec::new(),
            length => [&[INFORMATION, length as u8], &parts[..]].concat(),
        };
        Agent { option, trusts }
    }

    /// The option as it stands in messages; empty: none.
    pub fn option(&self) -> &[u8] {
        &self.option
    }

    /// What a server gets of a host's message. `own` is the relay's address on the link.
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn forward(&self, message: &[u8], own: Ipv4Addr) -> Result<Vec<u8>, Refused> {
        let options = options(message, REQUEST)?;
        if message[HOPS_AT] >= HOPS {
            return Err(Refused::Hops);
        }
        let mut relayed = message.to_vec();
        relayed[HOPS_AT] += 1;
        match address(message, GATEWAY) {
            gateway if gateway == own => return Err(Refused::Loop),
            // RFC 3046, 2.1.1: what another relay passed is as that one made it.
            gateway if !gateway.is_unspecified() => return Ok(relayed),
            _ => relayed[GATEWAY..GATEWAY + 4].copy_from_slice(&own.octets()),
        }
        match options.information {
            Some(_) if !self.trusts => Err(Refused::Untrusted),
            Some(_) => Ok(relayed),
            None if self.option.is_empty() => Ok(relayed),
            // A message of BOOTP has no such options; and one that is too long goes without.
            None if options.end < FIXED || options.end + self.option.len() >= FRAME => Ok(relayed),
            None => {
                relayed.truncate(options.end);
                relayed.extend(&self.option);
                relayed.push(END);
                relayed.resize(relayed.len().max(SHORTEST), PAD);
                Ok(relayed)
            }
        }
    }

    /// What a host gets of a server's answer.
    ///
    /// # Errors
    /// Why it goes no further.
    pub fn back(&self, answer: &[u8]) -> Result<Answer, Refused> {
        let options = options(answer, REPLY)?;
        let mut message = answer.to_vec();
        if let Some(at) = options.information
            && !self.option.is_empty()
            && answer[at..].starts_with(&self.option)
        {
            message.drain(at..at + self.option.len());
            message.resize(message.len().max(SHORTEST), PAD);
        }
        // RFC 2131, 4.1: to the address that it shall have, at its link address, unless it wants
        // otherwise. What has neither an address nor gets one can only be told as all are.
        let [yours, host] = [YOURS, HOST].map(|at| address(answer, at));
        let to = if yours.is_unspecified() { host } else { yours };
        let mac = *answer[HARDWARE..].first_chunk().expect("it has the length of a message");
        let of_one = answer[FLAGS] & TO_ALL == 0
            && answer[1..3] == ETHERNET
            && mac != [0; 6]
            && mac[0] & 1 == 0
            && !(to.is_unspecified() || to.is_multicast() || to.is_broadcast() || to.is_loopback());
        let (mac, to) = if of_one { (Some(mac), to) } else { (None, Ipv4Addr::BROADCAST) };
        Ok(Answer { gateway: address(answer, GATEWAY), mac, to, message })
    }
}

/// The address of a relay that a server's answer is for.
pub fn gateway(answer: &[u8]) -> Option<Ipv4Addr> {
    options(answer, REPLY).ok().map(|_| address(answer, GATEWAY))
}

fn address(message: &[u8], at: usize) -> Ipv4Addr {
    let bytes: [u8; 4] = *message[at..].first_chunk().expect("it has the length of a message");
    bytes.into()
}

struct Options {
    /// Where they end; less than [`FIXED`]: there are none.
    end: usize,
    /// Where a relay's is.
    information: Option<usize>,
}

/// Reads a message as far as a relay has to.
fn options(message: &[u8], kind: u8) -> Result<Options, Refused> {
    // BOOTP's has 64 bytes there, of whatever kind.
    if message.len() < FIXED || message[2] > 16 {
        return Err(Refused::Malformed);
    }
    match message[0] {
        REQUEST | REPLY if message[0] == kind => {}
        REQUEST | REPLY => return Err(Refused::NotRelayed),
        _ => return Err(Refused::Malformed),
    }
    if message[FIXED - COOKIE.len()..FIXED] != COOKIE {
        return Ok(Options { end: 0, information: None });
    }
    let (mut at, mut information) = (FIXED, None);
    loop {
        match message[at..] {
            // Some end without the word for it.
            [] | [END, ..] => return Ok(Options { end: at, information }),
            [PAD, ..] => at += 1,
            [code, length, ref rest @ ..] if rest.len() >= length.into() => {
                if code == INFORMATION {
                    information.get_or_insert(at);
                }
                at += 2 + usize::from(length);
            }
            _ => return Err(Refused::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    /// A host's message with these options.
    fn asked(options: &[u8]) -> Vec<u8> {
        let mut message = vec![0; FIXED];
        message[..4].copy_from_slice(&[REQUEST, 1, 6, 0]);
        message[HARDWARE..HARDWARE + 6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        message[FIXED - 4..].copy_from_slice(&COOKIE);
        message.extend([53, 1, 1]);
        message.extend(options);
        message.push(END);
        message.resize(message.len().max(SHORTEST), PAD);
        message
    }

    fn agent() -> Agent {
        Agent::new("vlan10", true, Some("north"), false)
    }

    #[test]
    fn a_server_is_told_the_link_and_a_host_is_not() {
        let asked = asked(&[]);
        let relayed = agent().forward(&asked, OWN).unwrap();
        assert_eq!((relayed[HOPS_AT], address(&relayed, GATEWAY)), (1, OWN));
        let option = [&[82, 15, 1, 6][..], b"vlan10", &[2, 5], b"north", &[END]].concat();
        assert_eq!(relayed[FIXED..FIXED + 3 + 18], [&[53, 1, 1], &option[..]].concat());
        let mut answer = relayed.clone();
        answer[0] = REPLY;
        answer[YOURS..YOURS + 4].copy_from_slice(&[192, 0, 2, 50]);
        let back = agent().back(&answer).unwrap();
        assert_eq!((back.gateway, back.mac), (OWN, Some([2, 0, 0, 0, 0, 9])));
        assert_eq!(back.to, Ipv4Addr::new(192, 0, 2, 50));
        assert_eq!(back.message[FIXED..], asked[FIXED..]);
        // Another's stays.
        let other = Agent::new("vlan11", true, Some("north"), false);
        assert_eq!(other.back(&answer).unwrap().message, answer);
    }

    #[test]
    fn a_host_is_answered_as_it_can_hear() {
        let mut answer = asked(&[]);
        answer[0] = REPLY;
        let to = |answer: &[u8]| agent().back(answer).map(|back| (back.mac, back.to)).unwrap();
        let all = (None, Ipv4Addr::BROADCAST);
        assert_eq!(to(&answer), all, "it has no address");
        answer[HOST + 3] = 9;
        answer[HOST] = 10;
        assert_eq!(to(&answer).1, Ipv4Addr::new(10, 0, 0, 9), "it has one");
        answer[YOURS..YOURS + 4].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!(to(&answer), (Some([2, 0, 0, 0, 0, 9]), Ipv4Addr::new(10, 0, 0, 7)));
        answer[FLAGS] = TO_ALL;
        assert_eq!(to(&answer), all, "it asks for that");
        answer[FLAGS] = 0;
        answer[1] = 32;
        assert_eq!(to(&answer), all, "it is on no Ethernet");
    }

    #[test]
    fn what_must_not_pass_does_not() {
        let refused = |message: &[u8]| agent().forward(message, OWN).unwrap_err();
        let mut message = asked(&[]);
        message[HOPS_AT] = HOPS;
        assert_eq!(refused(&message), Refused::Hops);
        message[HOPS_AT] = 0;
        message[GATEWAY..GATEWAY + 4].copy_from_slice(&OWN.octets());
        assert_eq!(refused(&message), Refused::Loop);
        message[0] = REPLY;
        assert_eq!(refused(&message), Refused::NotRelayed);
        message[0] = 3;
        assert_eq!(refused(&message), Refused::Malformed);
        assert_eq!(refused(&asked(&[12, 200, 1])), Refused::Malformed, "an option ends behind the message");
        assert_eq!(refused(&[REQUEST; 239]), Refused::Malformed);
        let named = asked(&[82, 3, 1, 1, b'x']);
        assert_eq!(refused(&named), Refused::Untrusted);
        let trusting = Agent::new("vlan10", true, None, true).forward(&named, OWN).unwrap();
        assert_eq!((address(&trusting, GATEWAY), &trusting[FIXED..]), (OWN, &named[FIXED..]));
    }

    #[test]
    fn what_another_relay_passed_stays_as_that_made_it() {
        let mut message = asked(&[82, 3, 1, 1, b'x']);
        message[GATEWAY..GATEWAY + 4].copy_from_slice(&[198, 51, 100, 1]);
        let relayed = agent().forward(&message, OWN).unwrap();
        message[HOPS_AT] = 1;
        assert_eq!(relayed, message);
    }

    #[test]
    fn a_message_of_bootp_and_one_without_room_get_no_option() {
        let mut bootp = asked(&[]);
        bootp[FIXED - 1] = 0;
        let relayed = agent().forward(&bootp, OWN).unwrap();
        assert_eq!((address(&relayed, GATEWAY), &relayed[FIXED..]), (OWN, &bootp[FIXED..]));
        let long = [&[43, 255][..], &[7; 255]].concat().repeat(4);
        let full = |more: u8| asked(&[&long[..], &[43, more], &[7].repeat(more.into())].concat());
        assert_eq!(full(182).len() + 17, FRAME + 1);
        assert_eq!(agent().forward(&full(182), OWN).unwrap()[FIXED..], full(182)[FIXED..]);
        assert_eq!(agent().forward(&full(181), OWN).unwrap().len(), FRAME);
    }

    proptest! {
        #[test]
        fn any_options_are_the_hosts_own_again(
            all in prop::collection::vec((1u8..=254, prop::collection::vec(any::<u8>(), 0..40)), 0..12),
        ) {
            let mut options = Vec::new();
            for (code, data) in all.into_iter().filter(|(code, _)| *code != INFORMATION) {
                options.extend([code, data.len() as u8]);
                options.extend(data);
            }
            let asked = asked(&options);
            let mut answer = agent().forward(&asked, OWN).unwrap();
            prop_assert!(agent().option.len() == 17 && crate::has(&answer, &agent().option));
            answer[0] = REPLY;
            prop_assert_eq!(&agent().back(&answer).unwrap().message[FIXED..], &asked[FIXED..]);
        }

        #[test]
        fn any_bytes_are_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..700), kind in 0u8..3) {
            let mut bytes = bytes;
            crate::fuzz(&bytes);
            if bytes.len() > FIXED {
                bytes[0] = kind;
                bytes[FIXED - 4..FIXED].copy_from_slice(&COOKIE);
                crate::fuzz(&bytes);
            }
        }
    }
}
