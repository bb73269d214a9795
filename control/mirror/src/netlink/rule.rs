//! `RTM_NEWRULE` and `RTM_DELRULE`: routing rules, which choose the table that decides about a
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
const FRA_FLOW: u16 = 11;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_PAD: u16 = 18;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_DSCP: u16 = 25;
const FRA_FLOWLABEL: u16 = 26;
const FRA_FLOWLABEL_MASK: u16 = 27;
const FRA_SPORT_MASK: u16 = 28;
const FRA_DPORT_MASK: u16 = 29;
const FRA_DSCP_MASK: u16 = 30;
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
    /// The same, to be followed.
    pub asks: Asks,
    /// The same, to be followed.
    pub does: Does,
    /// What of it the plane does not know.
    pub odd: Option<&'static str>,
}

/// Which packets a rule asks for; what is not said is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// For all others.
    pub not: bool,
    /// Source.
    pub from: Option<IpNet>,
    /// Destination.
    pub to: Option<IpNet>,
    /// Legacy type of service.
    pub tos: u8,
    /// Code point.
    pub dscp: Option<u8>,
    /// Mark and mask.
    pub mark: Option<(u32, u32)>,
    /// Interface that it came in by.
    pub input: Option<String>,
    /// Interface that a socket is bound to: transit has none.
    pub output: bool,
    /// Protocol of the upper layer.
    pub protocol: Option<u8>,
    /// Source and destination ports, first and last.
    pub ports: [Option<(u16, u16)>; 2],
    /// Of interfaces in a VRF.
    pub vrf: bool,
}

impl Asks {
    /// Whether it asks for a mark that a packet does not have by itself.
    pub fn is_marked(&self) -> bool {
        self.mark.is_some_and(|(mark, mask)| mark & mask != 0)
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It looks into a table; routes whose prefixes are no longer than this do not count.
    Look {
        /// Number of the table; 0 = that of the packet's VRF.
        table: u32,
        /// See above.
        suppress: Option<u32>,
    },
    /// The rules from this priority on decide.
    GoTo(u32),
    /// Nothing.
    Nop,
    /// It refuses.
    Refuse,
    /// Something that is not known.
    Other,
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
        self.selector == "from all" && self.table().is_some_and(known)
    }

    /// The table, of a rule that says no more than "look into this table".
    pub fn table(&self) -> Option<u32> {
        match self.does {
            Does::Look { table, suppress: None } if table != 0 && self.odd.is_none() => Some(table),
            _ => None,
        }
    }

    /// Whether it asks only for packets that this machine itself sends.
    pub fn own_packets(&self) -> bool {
        !self.asks.not && self.asks.input.as_deref() == Some("lo")
    }

    /// The interface by which all come that it asks for.
    pub fn input(&self) -> Option<&String> {
        self.asks.input.as_ref().filter(|_| !self.asks.not)
    }

    /// Whether it is the rule that Linux makes with the first VRF: what comes in by a VRF's
    /// interfaces is routed by its table.
    pub fn leads_to_vrfs(&self) -> bool {
        self.asks.vrf && self.selector == "from all" && self.action == VRF_TABLES
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
    let (mut odd, mut length, mut suppress) = (None, None, String::new());
    let (mut asks, mut words) = (Asks { not: inverted, tos, ..Asks::default() }, String::new());
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            FRA_DST => to = address(value)?,
            FRA_SRC => from = address(value)?,
            FRA_IIFNAME => asks.input = Some(string(value)),
            FRA_OIFNAME => {
                asks.output = true;
                words += &format!(" oif {}", string(value));
            }
            FRA_GOTO => goto = u32_value(value)?,
            FRA_PRIORITY => priority = u32_value(value)?,
            FRA_FWMARK => mark = Some(u32_value(value)?),
            FRA_FWMASK => mask = u32_value(value)?,
            FRA_TABLE => table = u32_value(value)?,
            FRA_L3MDEV => asks.vrf = *value.first()? != 0,
            FRA_SUPPRESS_PREFIXLEN | FRA_SUPPRESS_IFGROUP if u32_value(value)? != UNSET => {
                let ifgroup = kind == FRA_SUPPRESS_IFGROUP;
                let what = if ifgroup { "ifgroup" } else { "prefixlength" };
                suppress += &format!(" suppress_{what} {}", u32_value(value)?);
                if ifgroup {
                    odd = Some("suppress_ifgroup");
                } else {
                    length = u32_value(value);
                }
            }
            FRA_UID_RANGE => {
                odd = Some("uidrange");
                words += &format!(" uidrange {}-{}", u32_at(value, 0)?, u32_at(value, 4)?);
            }
            FRA_IP_PROTO => {
                asks.protocol = value.first().copied().filter(|protocol| *protocol != 0);
                words += &format!(" ipproto {}", value.first()?);
            }
            FRA_SPORT_RANGE | FRA_DPORT_RANGE => {
                let (first, last) = (u16_at(value, 0)?, u16_at(value, 2)?);
                let (side, name) = if kind == FRA_SPORT_RANGE { (0, "sport") } else { (1, "dport") };
                asks.ports[side] = Some((first, last)).filter(|_| first != 0);
                words += &format!(" {name} {first}-{last}");
            }
            FRA_DSCP => {
                asks.dscp = value.first().copied();
                words += &format!(" dscp {}", value.first()?);
            }
            FRA_TUN_ID => {
                odd = Some("tun_id");
                words += " tun_id";
            }
            FRA_FLOWLABEL => {
                odd = Some("flowlabel");
                words += " flowlabel";
            }
            FRA_SPORT_MASK | FRA_DPORT_MASK if u16_at(value, 0)? != u16::MAX => odd = Some("masks of ports"),
            FRA_DSCP_MASK if *value.first()? != 0x3f => odd = Some("masks of dscp"),
            FRA_PAD
            | FRA_PROTOCOL
            | FRA_FLOW
            | FRA_FLOWLABEL_MASK
            | FRA_SUPPRESS_IFGROUP
            | FRA_SUPPRESS_PREFIXLEN
            | FRA_SPORT_MASK
            | FRA_DPORT_MASK
            | FRA_DSCP_MASK => {}
            _ => odd = Some("what it says is not known"),
        }
    }
    (asks.from, asks.to) = (prefix(from, from_length)?, prefix(to, to_length)?);
    asks.mark = mark.map(|mark| (mark, mask));
    let lookup = Lookup { table, suppress, length };
    Some(RuleMessage {
        ipv6: family == IPV6,
        priority,
        selector: selector(&asks) + &words,
        action: lookup.action(action, goto, asks.vrf),
        does: lookup.does(action, goto, asks.vrf),
        asks,
        odd,
    })
}

/// What a rule asks for, as `ip rule` writes the first of it.
fn selector(asks: &Asks) -> String {
    let mut selector = String::from(if asks.not { "not from " } else { "from " });
    selector += &asks.from.map_or_else(|| "all".to_string(), in_words);
    if let Some(to) = asks.to {
        selector += &format!(" to {}", in_words(to));
    }
    if asks.tos != 0 {
        selector += &format!(" tos {:#04x}", asks.tos);
    }
    match asks.mark {
        Some((mark, UNSET)) => selector += &format!(" fwmark {mark:#x}"),
        Some((mark, mask)) => selector += &format!(" fwmark {mark:#x}/{mask:#x}"),
        None => {}
    }
    if let Some(input) = &asks.input {
        selector += &format!(" iif {input}");
    }
    selector
}

/// The table that a rule looks into, where it does.
struct Lookup {
    table: u32,
    /// Which routes there do not count, as `ip rule` writes it.
    suppress: String,
    length: Option<u32>,
}

impl Lookup {
    /// What the rule does, as `ip rule` writes it.
    fn action(&self, action: u8, goto: u32, vrf: bool) -> String {
        match action {
            TO_TABLE if vrf => format!("{VRF_TABLES}{}", self.suppress),
            TO_TABLE => format!("lookup {}{}", table_name(self.table), self.suppress),
            GOTO => format!("goto {goto}"),
            3 => "nop".to_string(),
            6 => "blackhole".to_string(),
            7 => "unreachable".to_string(),
            8 => "prohibit".to_string(),
            other => format!("action {other}"),
        }
    }

    fn does(&self, action: u8, goto: u32, vrf: bool) -> Does {
        match action {
            TO_TABLE if vrf => Does::Look { table: 0, suppress: self.length },
            TO_TABLE => Does::Look { table: self.table, suppress: self.length },
            GOTO => Does::GoTo(goto),
            3 => Does::Nop,
            6..=8 => Does::Refuse,
            _ => Does::Other,
        }
    }
}

/// The prefix, `Some(None)` when it is every address.
fn prefix(address: IpAddr, length: u8) -> Option<Option<IpNet>> {
    let prefix = IpNet::new(address, length).ok()?;
    Some((length > 0).then_some(prefix))
}

fn in_words(prefix: IpNet) -> String {
    let whole = prefix.prefix_len() == prefix.max_prefix_len();
    if whole { prefix.addr().to_string() } else { prefix.to_string() }
}

fn table_name(table: u32) -> String {
    match table {
        LOCAL => "local".to_string(),
        MAIN => "main".to_string(),
        DEFAULT => "default".to_string(),
        number => number.to_string(),
    }
}
