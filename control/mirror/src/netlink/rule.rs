//! `RTM_NEWRULE` and `RTM_DELRULE`: policy rules, which choose the table that decides about a
//! packet.

use super::{IPV4, IPV6, address, attributes_after, string, u16_at, u32_at, u32_value};
use ipnet::IpNet;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FIXED: usize = 12;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_DSCP: u16 = 25;
const FRA_FLOWLABEL: u16 = 26;
const FIB_RULE_INVERT: u32 = 2;
const TO_TABLE: u8 = 1;
const GOTO: u8 = 2;
const UNSET: u32 = u32::MAX;

const LOCAL: u32 = 255;
const MAIN: u32 = 254;
const DEFAULT: u32 = 253;
const VRF_TABLES: &str = "lookup [l3mdev-table]";

/// What a rule message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMessage {
    /// Whether it is one of IPv6.
    pub ipv6: bool,
    /// Its place: the lowest is asked first.
    pub priority: u32,
    /// Which packets, in the words of `ip rule`; `from all` = every packet.
    pub selector: String,
    /// What happens to them, in the words of `ip rule`.
    pub action: String,
    /// The rule says no more than "look into this table".
    pub table: Option<u32>,
    /// Only packets that this machine itself sends.
    pub own_packets: bool,
    /// Only packets that come in by this interface.
    pub input: Option<String>,
    /// Only packets of interfaces in a VRF.
    pub vrf: bool,
}

impl RuleMessage {
    /// Whether it is one of the rules that Linux starts with, which Bifrost does as well.
    pub fn is_default(&self) -> bool {
        let known = |table| match table {
            // Whoever has VRFs is told to move it behind their rule, which changes nothing else.
            LOCAL => self.priority < 32766,
            MAIN => self.priority == 32766,
            DEFAULT => self.priority == 32767,
            _ => false,
        };
        self.selector == "from all" && self.table.is_some_and(known)
    }

    /// Whether it is the rule that Linux makes with the first VRF: what comes in by a VRF's
    /// interfaces is routed by its table.
    pub fn leads_to_vrfs(&self) -> bool {
        self.vrf && self.selector == "from all" && self.action == VRF_TABLES
    }
}

impl Display for RuleMessage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let family = if self.ipv6 { "ipv6" } else { "ipv4" };
        write!(f, "{family} {}: {} {}", self.priority, self.selector, self.action)
    }
}

/// Parses the body; `None` for other families.
pub fn parse(body: &[u8]) -> Option<RuleMessage> {
    let fixed: &[u8; FIXED] = body.get(..FIXED)?.try_into().ok()?;
    let [family, to_length, from_length, tos, table, _, _, action, ..] = *fixed;
    if family != IPV4 && family != IPV6 {
        return None;
    }
    let inverted = u32_at(fixed, 8)? & FIB_RULE_INVERT != 0;
    let any = if family == IPV4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let (mut from, mut to, mut table): (IpAddr, IpAddr, u32) = (any, any, u32::from(table));
    let (mut priority, mut goto, mut mark, mut mask) = (0, 0, None, UNSET);
    let (mut input, mut l3mdev, mut suppress) = (None, false, String::new());
    let mut words = String::new();
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            FRA_DST => to = address(value)?,
            FRA_SRC => from = address(value)?,
            FRA_IIFNAME => input = Some(string(value)),
            FRA_OIFNAME => words += &format!(" oif {}", string(value)),
            FRA_GOTO => goto = u32_value(value)?,
            FRA_PRIORITY => priority = u32_value(value)?,
            FRA_FWMARK => mark = Some(u32_value(value)?),
            FRA_FWMASK => mask = u32_value(value)?,
            FRA_TABLE => table = u32_value(value)?,
            FRA_L3MDEV => l3mdev = *value.first()? != 0,
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP if u32_value(value)? != UNSET => {
                let what = if kind == FRA_SUPPRESS_IFGROUP { "ifgroup" } else { "prefixlength" };
                suppress += &format!(" suppress_{what} {}", u32_value(value)?);
            }
            FRA_UID_RANGE => words += &format!(" uidrange {}-{}", u32_at(value, 0)?, u32_at(value, 4)?),
            FRA_IP_PROTO => words += &format!(" ipproto {}", value.first()?),
            FRA_SPORT_RANGE => words += &format!(" sport {}-{}", u16_at(value, 0)?, u16_at(value, 2)?),
            FRA_DPORT_RANGE => words += &format!(" dport {}-{}", u16_at(value, 0)?, u16_at(value, 2)?),
            FRA_DSCP => words += &format!(" dscp {}", value.first()?),
            FRA_TUN_ID => words += " tun_id",
            FRA_FLOWLABEL => words += " flowlabel",
            _ => {}
        }
    }
    let mut selector = String::from(if inverted { "not from " } else { "from " });
    selector += &prefix(from, from_length)?.unwrap_or_else(|| "all".to_string());
    if let Some(to) = prefix(to, to_length)? {
        selector += &format!(" to {to}");
    }
    if tos != 0 {
        selector += &format!(" tos {tos:#04x}");
    }
    match mark {
        Some(mark) if mask == UNSET => selector += &format!(" fwmark {mark:#x}"),
        Some(mark) => selector += &format!(" fwmark {mark:#x}/{mask:#x}"),
        None => {}
    }
    if let Some(input) = &input {
        selector += &format!(" iif {input}");
    }
    let looks_up = action == TO_TABLE && !l3mdev;
    Some(RuleMessage {
        ipv6: family == IPV6,
        priority,
        selector: selector + &words,
        action: match action {
            TO_TABLE if l3mdev => format!("{VRF_TABLES}{suppress}"),
            TO_TABLE => format!("lookup {}{suppress}", table_name(table)),
            GOTO => format!("goto {goto}"),
            3 => "nop".to_string(),
            6 => "blackhole".to_string(),
            7 => "unreachable".to_string(),
            8 => "prohibit".to_string(),
            other => format!("action {other}"),
        },
        table: (looks_up && suppress.is_empty()).then_some(table),
        own_packets: !inverted && input.as_deref() == Some("lo"),
        input: input.filter(|_| !inverted),
        vrf: l3mdev && !inverted,
    })
}

/// The prefix in words, `Some(None)` when it is every address.
fn prefix(address: IpAddr, length: u8) -> Option<Option<String>> {
    let prefix = IpNet::new(address, length).ok()?;
    let words = if length == prefix.max_prefix_len() { address.to_string() } else { prefix.to_string() };
    Some((length > 0).then_some(words))
}

fn table_name(table: u32) -> String {
    match table {
        LOCAL => "local".to_string(),
        MAIN => "main".to_string(),
        DEFAULT => "default".to_string(),
        number => number.to_string(),
    }
}
