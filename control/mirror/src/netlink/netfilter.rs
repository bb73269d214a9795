//! nftables over netlink: which chains see packets that Linux forwards.
//!
//! Unlike in the other messages, numbers in attributes are in network byte order. `iptables` of
//! today writes nftables too; only the legacy one has tables of its own, which Linux lists in
//! `/proc`.

use super::{attributes, attributes_after, request, string, u32_at};

/// `NFT_MSG_NEWCHAIN` of `NFNL_SUBSYS_NFTABLES`.
pub const CHAIN: u16 = NFTABLES | 3;
/// `NFT_MSG_NEWGEN`.
pub const GENERATION: u16 = NFTABLES | 15;

const NFTABLES: u16 = 10 << 8;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
const NFT_MSG_NEWRULE: u16 = NFTABLES | 6;
const NFT_MSG_GETRULE: u16 = NFTABLES | 7;
const NFT_MSG_GETGEN: u16 = NFTABLES | 16;
const FIXED: usize = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_DEV: u16 = 3;
const NFTA_HOOK_DEVS: u16 = 4;
const NFTA_GEN_ID: u16 = 1;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// A family of chains: what passes bridges.
const BRIDGE: &str = "bridge";
/// `NFPROTO_INET`.
const INET: u8 = 1;
const NF_ACCEPT: u32 = 1;

/// The table that Linux is given, family and name, so that it filters and translates alike.
const OWN: (&str, &str) = ("inet", "bifrost");

/// A chain of nftables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// `inet`, `ip`, `ip6`, `netdev` or `bridge`.
    pub family: &'static str,
    /// Its table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// `NF_INET_*` or `NF_NETDEV_*`, by family; `None` = only called by others.
    pub hook: Option<u32>,
    /// Packets that no rule decides about pass.
    pub accepts: bool,
    /// Its rules.
    pub rules: u32,
    /// The interfaces whose packets it sees; none: it is not at the hooks of an interface.
    pub devices: Vec<String>,
}

impl Chain {
    /// Whether it belongs to the table that Linux is given.
    pub fn is_own(&self) -> bool {
        (self.family, self.table.as_str()) == OWN
    }

    /// Which families' packets it sees: IPv4, IPv6.
    pub fn families(&self) -> [bool; 2] {
        [self.family != "ip6", self.family != "ip"]
    }

    /// The interfaces by which a packet comes in that it sees; none: all of them.
    pub fn inputs(&self) -> &[String] {
        match (self.family, self.hook) {
            ("netdev", Some(0)) | ("inet", Some(5)) => &self.devices,
            _ => &[],
        }
    }

    /// Whether it can drop or rewrite what comes for this machine, or what this machine sends.
    pub fn concerns_this_machine(&self) -> bool {
        // Input and output.
        let passed = !["netdev", BRIDGE].contains(&self.family) && matches!(self.hook, Some(1 | 3));
        passed && !self.is_own() && (self.rules > 0 || !self.accepts)
    }

    /// Whether it can drop or rewrite packets that Linux forwards. Those of Bifrost's own table say
    /// what Bifrost does itself.
    pub fn concerns_forwarding(&self) -> bool {
        if self.is_own() || self.family == BRIDGE {
            return false;
        }
        let passed = match (self.family, self.hook) {
            // Ingress and egress of an interface.
            ("netdev", Some(0 | 1)) => true,
            // Prerouting, forward, postrouting; ingress is there for `inet` alone.
            ("inet", Some(0 | 2 | 4 | 5)) | (_, Some(0 | 2 | 4)) => true,
            _ => false,
        };
        passed && (self.rules > 0 || !self.accepts)
    }

    /// Whether it can drop or rewrite what is routed from a bridge or to it. What a bridge passes
    /// from member to member is Linux's in any case.
    pub fn concerns_bridges(&self) -> bool {
        const FORWARD: u32 = 2;
        let passed = self.family == BRIDGE && self.hook.is_some_and(|hook| hook != FORWARD);
        passed && (self.rules > 0 || !self.accepts)
    }
}

/// The request for all chains.
pub fn dump_chains() -> Vec<u8> {
    request::message(NFT_MSG_GETCHAIN, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &[0; FIXED])
}

/// The request for all rules of the table that Linux is given.
pub fn dump_own_rules() -> Vec<u8> {
    let mut body = vec![INET, 0, 0, 0];
    request::attribute(&mut body, NFTA_RULE_TABLE, format!("{}\0", OWN.1).as_bytes());
    request::message(NFT_MSG_GETRULE, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &body)
}

/// A rule of the table that Linux is given, as far as it stays the same while nobody changes it.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnRule {
    chain: String,
    handle: u64,
    /// Each expression's name and, but for what it has counted, its data.
    expressions: Vec<u8>,
}

/// `None` for messages that are no rule of the table that Linux is given.
pub fn parse_own_rule(kind: u16, body: &[u8]) -> Option<OwnRule> {
    if kind != NFT_MSG_NEWRULE || *body.first()? != INET {
        return None;
    }
    let (mut table, mut rule) = (String::new(), OwnRule::default());
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NFTA_RULE_TABLE => table = string(value),
            NFTA_RULE_CHAIN => rule.chain = string(value),
            NFTA_RULE_HANDLE => rule.handle = u64::from_be_bytes(value.try_into().ok()?),
            NFTA_RULE_EXPRESSIONS => {
                attributes(value).for_each(|(_, one)| expression(one, &mut rule.expressions));
            }
            _ => {}
        }
    }
    (table == OWN.1).then_some(rule)
}

fn expression(one: &[u8], into: &mut Vec<u8>) {
    let mut counts = false;
    for (kind, value) in attributes(one) {
        counts |= kind == NFTA_EXPR_NAME && value.starts_with(b"counter\0");
        if kind != NFTA_EXPR_DATA || !counts {
            into.extend_from_slice(value);
        }
    }
}

/// The request for the number that every change of nftables increments.
pub fn get_generation() -> Vec<u8> {
    request::message(NFT_MSG_GETGEN, libc::NLM_F_REQUEST, &[0; FIXED])
}

/// Parses the body of a [`CHAIN`]; `None` for families whose packets are not routed.
pub fn parse_chain(body: &[u8]) -> Option<Chain> {
    let family = match *body.first()? {
        1 => "inet",
        2 => "ip",
        5 => "netdev",
        7 => BRIDGE,
        10 => "ip6",
        _ => return None,
    };
    let (table, name) = (String::new(), String::new());
    let mut chain = Chain { family, table, name, hook: None, accepts: true, rules: 0, devices: Vec::new() };
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NFTA_CHAIN_TABLE => chain.table = string(value),
            NFTA_CHAIN_NAME => chain.name = string(value),
            NFTA_CHAIN_HOOK => {
                for (kind, value) in attributes(value) {
                    match kind {
                        NFTA_HOOK_HOOKNUM => chain.hook = Some(network_u32(value)?),
                        NFTA_HOOK_DEV => chain.devices.push(string(value)),
                        NFTA_HOOK_DEVS => {
                            chain.devices.extend(attributes(value).map(|(_, name)| string(name)));
                        }
                        _ => {}
                    }
                }
            }
            NFTA_CHAIN_POLICY => chain.accepts = network_u32(value)? == NF_ACCEPT,
            NFTA_CHAIN_USE => chain.rules = network_u32(value)?,
            _ => {}
        }
    }
    Some(chain)
}

/// Parses the body of a [`GENERATION`].
pub fn parse_generation(body: &[u8]) -> Option<u32> {
    let mut attributes = attributes_after(body, FIXED)?;
    network_u32(attributes.find(|(kind, _)| *kind == NFTA_GEN_ID)?.1)
}

fn network_u32(value: &[u8]) -> Option<u32> {
    u32_at(value, 0).map(u32::from_be)
}
