//! Which packets to follow or to copy.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::words::{Protocol, WordError, Words};

/// A set of packets: those that agree with every part that is there. With no part, every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Source address inside this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<IpNet>,
    /// Destination address inside this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpNet>,
    /// Protocol above IP, by number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Source port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Destination port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Port that the packet arrived by, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// TTL or hop limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
    /// Length of the IP packet, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u16>,
    /// The don't-fragment bit is set.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dont_fragment: bool,
}

impl Filter {
    /// The packet agrees with every part except `input`, which the caller compares (it knows ports
    /// by number). What is no IP packet (`None`) agrees only with a filter that asks nothing of it.
    pub fn matches(&self, facts: Option<&Facts>) -> bool {
        let Some(facts) = facts else { return self.asks_only_input() };
        let (sport, dport) = facts.ports.unzip();
        self.source.is_none_or(|net| net.contains(&facts.source))
            && self.destination.is_none_or(|net| net.contains(&facts.destination))
            && self.protocol.is_none_or(|protocol| protocol == facts.protocol)
            && self.source_port.is_none_or(|port| sport == Some(port))
            && self.destination_port.is_none_or(|port| dport == Some(port))
            && self.ttl.is_none_or(|ttl| ttl == facts.ttl)
            && self.length.is_none_or(|length| u32::from(length) == facts.length)
            && (!self.dont_fragment || facts.dont_fragment)
    }

    fn asks_only_input(&self) -> bool {
        let rest = Filter { input: None, ..self.clone() };
        rest == Filter::default()
    }
}

impl FromStr for Filter {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Filter, WordError> {
        let words = Words::read(text)?;
        Ok(Filter {
            source: words.source.map(|part| part.value),
            destination: words.destination.map(|part| part.value),
            protocol: words.protocol,
            source_port: words.source_port,
            destination_port: words.destination_port,
            input: words.input,
            ttl: words.ttl,
            length: words.length.map(|part| part.value),
            dont_fragment: words.dont_fragment.is_some(),
        })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        if self.source.is_some() || self.destination.is_some() {
            let show = |net: Option<IpNet>| match net {
                None => "any".to_owned(),
                Some(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
                Some(net) => net.to_string(),
            };
            parts.push(format!("{} > {}", show(self.source), show(self.destination)));
        }
        if let Some(protocol) = self.protocol {
            parts.push(protocol.to_string());
        }
        match (self.source_port, self.destination_port) {
            (None, None) => {}
            (None, Some(destination)) => parts.push(destination.to_string()),
            (Some(source), None) => parts.push(format!("{source}:")),
            (Some(source), Some(destination)) => parts.push(format!("{source}:{destination}")),
        }
        parts.extend(self.input.iter().map(|name| format!("in {name}")));
        parts.extend(self.ttl.iter().map(|ttl| format!("ttl {ttl}")));
        parts.extend(self.length.iter().map(|length| format!("len {length}")));
        if self.dont_fragment {
            parts.push("df".to_owned());
        }
        f.write_str(if parts.is_empty() { "any" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_may_be_left_out() {
        for text in [
            "any",
            "udp",
            "udp 53",
            "tcp 179:",
            "in eth0",
            "any > 10.0.0.0/8",
            "10.0.0.0/8 > any tcp 40000:443 in eth0 ttl 1 len 1500 df",
            "2001:db8::/32 > 2001:db8::1 icmp6",
        ] {
            assert_eq!(text.parse::<Filter>().unwrap().to_string(), text);
        }
        assert_eq!("".parse::<Filter>().unwrap(), Filter::default());
        assert_eq!("any > any".parse::<Filter>().unwrap(), Filter::default());
    }

    #[test]
    fn a_packet_must_agree_with_every_part() {
        let facts = Facts {
            source: "10.1.2.3".parse().unwrap(),
            destination: "203.0.113.7".parse().unwrap(),
            protocol: Protocol(17),
            ports: Some((4000, 53)),
            ttl: 64,
            length: 60,
            dont_fragment: false,
            later_fragment: false,
        };
        let matches = |text: &str| text.parse::<Filter>().unwrap().matches(Some(&facts));
        for yes in
            ["any", "udp", "udp 53", "udp 4000:", "10.0.0.0/8 > any", "any > 203.0.113.7", "ttl 64 len 60"]
        {
            assert!(matches(yes), "{yes}");
        }
        for no in ["tcp", "udp 54", "udp 53:", "11.0.0.0/8 > any", "::/0 > any", "ttl 63", "len 61", "df"] {
            assert!(!matches(no), "{no}");
        }
        assert!(Filter::default().matches(None));
        assert!("in eth0".parse::<Filter>().unwrap().matches(None));
        assert!(!"udp".parse::<Filter>().unwrap().matches(None));
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces = [
            "any",
            ">",
            "10.0.0.0/8",
            "::",
            "udp",
            "53",
            ":",
            "é",
            "\t",
            "in",
            "ttl",
            "len",
            "999999999999",
            "df",
        ];
        let mut random = chance::Random(3);
        for _ in 0..100_000 {
            let mut text = String::new();
            for _ in 0..random.below(16) {
                text += random.pick(&pieces);
                text += if random.one_in(2) { " " } else { "" };
            }
            match text.parse::<Filter>() {
                Ok(filter) => assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter)),
                Err(error) => assert!(error.to_string().contains('^')),
            }
        }
    }
}
