//! The packet that `explain` is asked about.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use wire::protocol;

use super::words::{Part, Protocol, WordError, Words};

/// One packet, wholly described. What the operator leaves out is assumed: a ping (an ICMP echo
/// request) of 84 bytes, TTL 64, ports 0, from whichever port Linux would expect that source at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol above IP, by number.
    pub protocol: Protocol,
    /// Source port; 0 for protocols without.
    #[serde(default)]
    pub source_port: u16,
    /// Destination port; 0 for protocols without.
    #[serde(default)]
    pub destination_port: u16,
    /// Port that it arrives by, by name; absent: for the daemon to choose.
    #[serde(default)]
    pub input: Option<String>,
    /// TTL or hop limit on arrival.
    pub ttl: u8,
    /// Length of the IP packet, bytes.
    pub length: u16,
    /// IPv4's don't-fragment bit.
    #[serde(default)]
    pub dont_fragment: bool,
}

impl FromStr for Question {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Question, WordError> {
        let words = Words::read(text)?;
        let source = host(text, words.source, "source")?;
        let destination = host(text, words.destination, "destination")?;
        let ping = if source.is_ipv4() { protocol::ICMP } else { protocol::ICMP6 };
        if let Some(length) = &words.length
            && source.is_ipv6()
            && length.value < 40
        {
            return Err(WordError::new(text, length.at.clone(), "an IPv6 packet has at least 40 bytes"));
        }
        if let (Some(df), IpAddr::V6(_)) = (&words.dont_fragment, source) {
            return Err(WordError::new(
                text,
                df.at.clone(),
                "\"df\" is of IPv4: IPv6 routers never fragment",
            ));
        }
        Ok(Question {
            source,
            destination,
            protocol: words.protocol.unwrap_or(Protocol(ping)),
            source_port: words.source_port.unwrap_or(0),
            destination_port: words.destination_port.unwrap_or(0),
            input: words.input,
            ttl: words.ttl.unwrap_or(64),
            length: words.length.map_or(84, |part| part.value),
            dont_fragment: words.dont_fragment.is_some(),
        })
    }
}

fn host(text: &str, part: Option<Part<IpNet>>, what: &str) -> Result<IpAddr, WordError> {
    match part {
        Some(Part { value, at }) if value.prefix_len() < value.max_prefix_len() => {
            Err(WordError::new(text, at, format!("expected one {what} address, not a prefix")))
        }
        Some(part) => Ok(part.value.addr()),
        None => Err(WordError::new(
            text,
            0..text.len(),
            format!(
                "expected one {what} address: SRC > DST [PROTOCOL [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df]"
            ),
        )),
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {}", self.source, self.destination, self.protocol)?;
        if self.protocol.has_ports() {
            write!(f, " {}:{}", self.source_port, self.destination_port)?;
        }
        if let Some(input) = &self.input {
            write!(f, " in {input}")?;
        }
        write!(f, " ttl {} len {}", self.ttl, self.length)?;
        if self.dont_fragment {
            write!(f, " df")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_as_it_is_written() {
        let question: Question = "198.18.0.9 > 203.0.113.7 udp 53 in eth0".parse().unwrap();
        assert_eq!(question.to_string(), "198.18.0.9 > 203.0.113.7 udp 0:53 in eth0 ttl 64 len 84");
        for text in [
            "198.18.0.9 > 203.0.113.7 udp 4000:53 in eth0 ttl 1 len 1500 df",
            "2001:db8::1 > 2001:db8:1::2 icmp6 ttl 64 len 84",
            "10.0.0.1 > 10.0.0.2 89 ttl 1 len 20".replace("89", "ospf").as_str(),
        ] {
            assert_eq!(text.parse::<Question>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.1>10.0.0.2".parse::<Question>().unwrap().protocol, Protocol(1));
        assert_eq!("::1>::2".parse::<Question>().unwrap().protocol, Protocol(58));
        assert_eq!(
            "::1 > ::2 icmpv6".parse::<Question>().unwrap().to_string(),
            "::1 > ::2 icmp6 ttl 64 len 84"
        );
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_stands() {
        let cases = [
            (
                "198.18.0.9 > 203.0.113.300 udp 53",
                "\"203.0.113.300\" is not a destination: an address, a prefix or \"any\"\n  \
                 198.18.0.9 > 203.0.113.300 udp 53\n               ^^^^^^^^^^^^^",
            ),
            (
                "10.0.0.1 > 10.0.0.0/8",
                "expected one destination address, not a prefix\n  10.0.0.1 > 10.0.0.0/8\n             ^^^^^^^^^^",
            ),
            (
                "10.0.0.1 > 2001:db8::1",
                "a packet has one family: 2001:db8::1/128 is not of 10.0.0.1/32's\n  \
                 10.0.0.1 > 2001:db8::1\n             ^^^^^^^^^^^",
            ),
            (
                "10.0.0.1 > 10.0.0.2 udpp 53",
                "did not expect \"udpp\"; did you mean \"udp\"?\nexpected: [SRC > DST] [PROTOCOL \
                 [[SPORT:]DPORT]] [in PORT] [ttl N] [len N] [df]\n  10.0.0.1 > 10.0.0.2 udpp 53\n                      ^^^^",
            ),
            (
                "10.0.0.1 > 10.0.0.2 icmp 53",
                "icmp has no ports\n  10.0.0.1 > 10.0.0.2 icmp 53\n                           ^^",
            ),
            (
                "10.0.0.1 > 10.0.0.2 udp 70000",
                "\"70000\" is not a port: expected 0 to 65535\n  10.0.0.1 > 10.0.0.2 udp 70000\n                          ^^^^^",
            ),
            (
                "10.0.0.1 > 10.0.0.2 ttl 256",
                "expected a TTL, 0 to 255\n  10.0.0.1 > 10.0.0.2 ttl 256\n                          ^^^",
            ),
            (
                "10.0.0.1 > 10.0.0.2 in",
                "expected the name of a port after \"in\"\n  10.0.0.1 > 10.0.0.2 in\n                        ^",
            ),
            (
                "2001:db8::1 > 2001:db8::2 df",
                "\"df\" is of IPv4: IPv6 routers never fragment\n  2001:db8::1 > 2001:db8::2 df\n                            ^^",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Question>().unwrap_err().to_string(), expected);
        }
        assert!("udp 53".parse::<Question>().is_err());
        assert!("".parse::<Question>().is_err());
    }
}
