//! Which field of a packet a rule of nftables asks for, and how it is compared.

use rules::Family;
use serde_json::Value;
use wire::protocol;

use crate::Why;
use crate::value::{self, Kind};

/// The bits of `frag-off` that say where a fragment begins.
const OFFSET: u32 = 0x1fff;

/// What of a packet is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Address {
        destination: bool,
        ipv6: bool,
    },
    /// Of these protocols; of whichever the rule asked for before where there is none.
    Port {
        destination: bool,
        of: Option<u8>,
    },
    /// The source's and the destination's in one number, as nft joins them.
    Ports,
    Protocol {
        family: Option<Family>,
    },
    Family,
    Length {
        family: Option<Family>,
    },
    Ttl {
        family: Family,
    },
    Dscp {
        family: Family,
    },
    Flags {
        mask: u8,
    },
    IcmpType {
        ipv6: bool,
    },
    IcmpCode {
        ipv6: bool,
    },
    Input,
    Output,
    State,
    /// What of a connection is translated.
    Status,
    Mark {
        mask: u32,
    },
    Offset,
}

impl Field {
    /// What a packet is, whatever it says there, that a rule asks for this: it has no port of UDP
    /// that is not UDP.
    pub fn implies(&self) -> Vec<(Field, Value)> {
        let family = |family| match family {
            Family::Ipv4 => (Field::Family, "ipv4".into()),
            Family::Ipv6 => (Field::Family, "ipv6".into()),
        };
        let above = |number: u8| (Field::Protocol { family: None }, number.into());
        let of = |ipv6: bool| family(if ipv6 { Family::Ipv6 } else { Family::Ipv4 });
        match *self {
            Field::Address { ipv6, .. } => vec![of(ipv6)],
            Field::Protocol { family: Some(of) } | Field::Length { family: Some(of) } => vec![family(of)],
            Field::Ttl { family: of } | Field::Dscp { family: of } => vec![family(of)],
            Field::Port { of: Some(number), .. } => vec![above(number)],
            Field::Flags { .. } => vec![above(protocol::TCP)],
            Field::IcmpType { ipv6: false } | Field::IcmpCode { ipv6: false } => {
                vec![of(false), above(protocol::ICMP)]
            }
            Field::IcmpType { ipv6: true } | Field::IcmpCode { ipv6: true } => {
                vec![of(true), above(protocol::ICMP6)]
            }
            Field::Offset => vec![of(false)],
            _ => Vec::new(),
        }
    }
}

/// How it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// It is one of these.
    Is,
    /// It is none of these.
    Not,
    /// It has one of these bits.
    Has,
    Below,
    Above,
    AtMost,
    AtLeast,
}

impl Operator {
    pub fn read(text: &str) -> Result<Operator, Why> {
        Ok(match text {
            "==" => Operator::Is,
            "!=" => Operator::Not,
            "in" => Operator::Has,
            "<" => Operator::Below,
            ">" => Operator::Above,
            "<=" => Operator::AtMost,
            ">=" => Operator::AtLeast,
            other => return Err(format!("the comparison {other:?}")),
        })
    }

    /// The one that holds where this does not.
    pub fn turned(self) -> Result<Operator, Why> {
        Ok(match self {
            Operator::Is => Operator::Not,
            Operator::Not => Operator::Is,
            Operator::Below => Operator::AtLeast,
            Operator::Above => Operator::AtMost,
            Operator::AtMost => Operator::Above,
            Operator::AtLeast => Operator::Below,
            Operator::Has => return Err("what has none of some bits".to_owned()),
        })
    }
}

/// The parts of what an expression asks for: several for a concatenation.
pub(crate) fn fields(left: &Value) -> Result<Vec<Field>, Why> {
    match left["concat"].as_array() {
        Some(parts) => parts.iter().map(field).collect(),
        None => Ok(vec![field(left)?]),
    }
}

fn field(left: &Value) -> Result<Field, Why> {
    if let Some([of, mask]) = left["&"].as_array().map(Vec::as_slice) {
        return masked(field(of).or_else(|why| offset(of).ok_or(why))?, mask);
    }
    let unknown = || format!("it asks for {}", in_words(left));
    if let Some(name) = left["meta"]["key"].as_str() {
        return Ok(match name {
            "iifname" | "iif" => Field::Input,
            "oifname" | "oif" => Field::Output,
            "l4proto" => Field::Protocol { family: None },
            "nfproto" | "protocol" => Field::Family,
            "length" => Field::Length { family: None },
            "mark" => Field::Mark { mask: u32::MAX },
            _ => return Err(unknown()),
        });
    }
    match left["ct"]["key"].as_str() {
        Some("state") => return Ok(Field::State),
        Some("status") => return Ok(Field::Status),
        _ => {}
    }
    let payload = &left["payload"];
    if payload["base"] == "th" && payload["offset"] == 0 && payload["len"] == 32 {
        return Ok(Field::Ports);
    }
    let (Some(of), Some(field)) = (payload["protocol"].as_str(), payload["field"].as_str()) else {
        return Err(unknown());
    };
    let ipv6 = of == "ip6" || of == "icmpv6";
    let family = if ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    Ok(match (of, field) {
        ("ip" | "ip6", "saddr") => Field::Address { destination: false, ipv6 },
        ("ip" | "ip6", "daddr") => Field::Address { destination: true, ipv6 },
        ("ip", "protocol") => Field::Protocol { family: Some(family) },
        ("ip", "length") => Field::Length { family: Some(family) },
        ("ip", "ttl") | ("ip6", "hoplimit") => Field::Ttl { family },
        ("ip" | "ip6", "dscp") => Field::Dscp { family },
        ("tcp", "flags") => Field::Flags { mask: u8::MAX },
        ("icmp" | "icmpv6", "type") => Field::IcmpType { ipv6 },
        ("icmp" | "icmpv6", "code") => Field::IcmpCode { ipv6 },
        ("th", "sport" | "dport") => Field::Port { destination: field == "dport", of: None },
        (of, "sport" | "dport") => {
            let of = protocol::number(of).filter(|of| protocol::has_ports(*of)).ok_or_else(unknown)?;
            Field::Port { destination: field == "dport", of: Some(of) }
        }
        _ => return Err(unknown()),
    })
}

/// Where fragments begin, of which only some bits are understood.
fn offset(left: &Value) -> Option<Field> {
    let payload = &left["payload"];
    (payload["protocol"] == "ip" && payload["field"] == "frag-off").then_some(Field::Offset)
}

fn masked(field: Field, mask: &Value) -> Result<Field, Why> {
    let kind = if matches!(field, Field::Flags { .. }) { Kind::Flags } else { Kind::Plain };
    let bits = value::number(kind, mask).ok_or_else(|| format!("the mask {mask}"))?;
    match field {
        Field::Flags { .. } if bits <= u32::from(u8::MAX) => Ok(Field::Flags { mask: bits as u8 }),
        Field::Mark { .. } => Ok(Field::Mark { mask: bits }),
        Field::Offset if bits == OFFSET => Ok(Field::Offset),
        _ => Err(format!("the mask {bits:#x}")),
    }
}

/// An expression, short enough for a line.
pub(crate) fn in_words(expression: &Value) -> String {
    let Some((kind, about)) = expression.as_object().and_then(|object| object.iter().next()) else {
        return expression.to_string();
    };
    let text = |name: &str| about[name].as_str();
    match (text("protocol"), text("field"), text("key").or(text("name"))) {
        (Some(protocol), Some(field), _) => format!("{protocol} {field}"),
        (_, _, Some(name)) => format!("{kind} {name}"),
        _ => kind.clone(),
    }
}
