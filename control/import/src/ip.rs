//! What `ip -json -details` says of interfaces, routes and rules.

use std::net::{IpAddr, Ipv4Addr};

use config::{Asks, Does, InterfaceKind, Vxlan};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

/// An answer of `ip`'s: a list, or nothing at all.
///
/// # Errors
/// What is no such list.
pub fn read<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    match text.trim_ascii() {
        [] => Ok(Vec::new()),
        text => serde_json::from_slice(text),
    }
}

/// An interface, as `ip -json -details address show` has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Link {
    /// Its name.
    pub ifname: String,
    /// `UP`, `LOOPBACK` and others.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The longest packet.
    pub mtu: u32,
    /// The group's name or number.
    #[serde(default)]
    pub group: String,
    /// `ether`, `loopback` and others.
    #[serde(default)]
    pub link_type: String,
    /// Its address on the link.
    pub address: Option<String>,
    /// That of the hardware, where another one is used.
    pub permaddr: Option<String>,
    /// Its description.
    pub ifalias: Option<String>,
    /// Whom it belongs to.
    pub master: Option<String>,
    /// What it lies on.
    pub link: Option<String>,
    /// What it is.
    #[serde(default)]
    pub linkinfo: Info,
    /// Its addresses.
    #[serde(default)]
    pub addr_info: Vec<Address>,
}

/// What an interface is.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Info {
    /// `vlan`, `bridge` and others.
    #[serde(default)]
    pub info_kind: String,
    /// More of that.
    #[serde(default)]
    pub info_data: Value,
}

/// An address of an interface.
#[derive(Clone, Debug, Deserialize)]
pub struct Address {
    /// The address.
    pub local: Option<IpAddr>,
    /// The other end of a line.
    pub address: Option<IpAddr>,
    /// Of its subnet.
    pub prefixlen: u8,
    /// `global`, `link`, `host`.
    #[serde(default)]
    pub scope: String,
    /// By DHCP or SLAAC, for a while.
    #[serde(default)]
    pub dynamic: bool,
    /// By SLAAC, for ever as well.
    #[serde(default, rename = "mngtmpaddr")]
    pub slaac: bool,
    /// For the privacy of who uses it.
    #[serde(default)]
    pub temporary: bool,
}

impl Address {
    /// Whether somebody gave it to the interface.
    pub fn is_given(&self) -> bool {
        self.address.is_none() && !self.is_learned() && self.scope != "host"
    }

    /// Whether a client or Linux has it of others.
    pub fn is_learned(&self) -> bool {
        self.dynamic || self.slaac || self.temporary
    }

    /// With the length of its subnet.
    pub fn net(&self) -> Option<IpNet> {
        IpNet::new(self.local?, self.prefixlen).ok()
    }
}

impl Link {
    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.flags.iter().any(|flag| flag == "UP")
    }

    /// Its Ethernet address. Tunnels and VRFs have none of their own, nor has a bridge without
    /// members.
    pub fn mac(&self) -> Option<String> {
        const NONE: &str = "00:00:00:00:00:00";
        let of_its_own = |mac: &&String| {
            mac.len() == NONE.len() && *mac != NONE && !matches!(self.kind(), Some(InterfaceKind::Vrf { .. }))
        };
        self.address.as_ref().filter(of_its_own).cloned()
    }

    /// What it is, if it is something that could be made here.
    pub fn kind(&self) -> Option<InterfaceKind> {
        let data = &self.linkinfo.info_data;
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let number = |key: &str| data.get(key).and_then(Value::as_u64);
        Some(match self.linkinfo.info_kind.as_str() {
            "bridge" => InterfaceKind::Bridge,
            "dummy" => InterfaceKind::Dummy,
            "wireguard" => InterfaceKind::Wireguard,
            "vrf" => InterfaceKind::Vrf { table: u32::try_from(number("table")?).ok()? },
            "vlan" => InterfaceKind::Vlan {
                parent: self.link.clone()?,
                id: u16::try_from(number("id")?).ok()?,
                protocol: word(&InterfaceKind::VLAN_PROTOCOLS, text("protocol")?)?,
            },
            "bond" => InterfaceKind::Bond {
                mode: word(&InterfaceKind::BOND_MODES, text("mode")?)?,
                lacp_rate: text("ad_lacp_rate").and_then(|rate| word(&InterfaceKind::LACP_RATES, rate)),
                miimon: number("miimon").and_then(|time| u32::try_from(time).ok()),
            },
            "macvlan" => InterfaceKind::Macvlan {
                parent: self.link.clone()?,
                mode: word(&InterfaceKind::MACVLAN_MODES, text("mode")?)?,
            },
            "vxlan" => {
                let end = |keys: [&str; 2]| keys.into_iter().find_map(text).and_then(|end| end.parse().ok());
                InterfaceKind::Vxlan(Vxlan {
                    vni: u32::try_from(number("id")?).ok()?,
                    local: end(["local", "local6"]),
                    remote: end(["remote", "remote6"]).or_else(|| end(["group", "group6"])),
                    parent: text("link").map(str::to_owned),
                    port: u16::try_from(number("port")?).ok()?,
                    learning: data.get("learning").and_then(Value::as_bool).unwrap_or(true),
                })
            }
            mode => InterfaceKind::Tunnel {
                mode: match (mode, text("proto")) {
                    ("ip6tnl", Some(proto @ ("ipip6" | "ip6ip6"))) => word(&InterfaceKind::TUNNELS, proto)?,
                    _ => word(&InterfaceKind::TUNNELS, mode)?,
                },
                local: text("local")?.parse().ok()?,
                remote: text("remote")?.parse().ok()?,
                // As an address, and of both directions the same here.
                key: text("ikey").and_then(|key| key.parse::<Ipv4Addr>().ok()).map(u32::from),
                ttl: number("ttl").and_then(|ttl| u8::try_from(ttl).ok()).unwrap_or(0),
            },
        })
    }
}

/// The word of a list that a text is.
pub(crate) fn word(words: &[(&'static str, &'static str)], text: &str) -> Option<&'static str> {
    words.iter().map(|(word, _)| *word).find(|word| *word == text)
}

/// A route, as `ip -Numeric -json -details route show` has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Route {
    /// Where to.
    pub dst: String,
    /// Its table's number; absent: the main one.
    pub table: Option<String>,
    /// Of several the lowest is used.
    pub metric: Option<u32>,
    /// Its type's number or name.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Who made it, by number.
    #[serde(default)]
    pub protocol: String,
    /// The gateway.
    pub gateway: Option<IpAddr>,
    /// The interface.
    pub dev: Option<String>,
    /// Several ways.
    #[serde(default)]
    pub nexthops: Vec<Hop>,
    /// `onlink` and others.
    #[serde(default)]
    pub flags: Vec<String>,
    /// All else.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

/// The word of the way in which packets end, by its number or name.
fn end(text: &str) -> Option<&'static str> {
    match text {
        "6" | "blackhole" => Some("blackhole"),
        "7" | "unreachable" => Some("unreachable"),
        "8" | "prohibit" => Some("prohibit"),
        _ => None,
    }
}

/// One of several ways.
#[derive(Clone, Debug, Deserialize)]
pub struct Hop {
    /// The gateway.
    pub gateway: Option<IpAddr>,
    /// The interface.
    pub dev: Option<String>,
    /// Its share.
    pub weight: Option<u32>,
    /// `onlink` and others.
    #[serde(default)]
    pub flags: Vec<String>,
    /// All else.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

impl Route {
    /// Where to.
    pub fn to(&self, ipv6: bool) -> Option<IpNet> {
        let to = match (self.dst.as_str(), ipv6) {
            ("default", false) => "0.0.0.0/0",
            ("default", true) => "::/0",
            (other, _) => other,
        };
        to.parse::<IpNet>().or_else(|_| to.parse::<IpAddr>().map(IpNet::from)).ok()
    }

    /// The word of the way in which packets end here, if they do.
    pub fn end(&self) -> Option<&'static str> {
        end(&self.kind)
    }

    /// The table's number.
    pub fn table(&self) -> u32 {
        self.table.as_ref().and_then(|table| table.parse().ok()).unwrap_or(254)
    }

    /// Its ways by gateways and interfaces.
    pub fn hops(&self) -> Vec<(Option<IpAddr>, Option<String>)> {
        match self.nexthops.is_empty() {
            true => vec![(self.gateway, self.dev.clone())],
            false => self.nexthops.iter().map(|hop| (hop.gateway, hop.dev.clone())).collect(),
        }
    }
}

/// A routing rule, as `ip -Numeric -json -details rule show` has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Rule {
    /// Its place: the lowest is asked first.
    pub priority: u32,
    /// All else.
    #[serde(flatten)]
    pub rest: serde_json::Map<String, Value>,
}

impl Rule {
    fn text(&self, key: &str) -> Option<&str> {
        self.rest.get(key).and_then(Value::as_str)
    }

    /// Who made it; 0: nobody says so.
    pub fn protocol(&self) -> u8 {
        self.text("protocol").and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Which packets it asks for and what it does, as a file can say it.
    ///
    /// # Errors
    /// The key for which there is none there.
    pub fn said(&self) -> Result<(Asks, Does<u32>), String> {
        let mut asks = Asks::default();
        let mut does = None;
        for (key, value) in &self.rest {
            let odd = || key.clone();
            let number = || value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(odd);
            let hex = |value: &Value| {
                let text = value.as_str()?;
                let digits = text.strip_prefix("0x");
                digits.map_or_else(|| text.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())
            };
            let name = || value.as_str().map(str::to_owned).ok_or_else(odd);
            match key.as_str() {
                "protocol" | "srclen" | "dstlen" | "fwmask" | "iif_detached" | "oif_detached" => {}
                "unresolved" => {}
                "not" => asks.not = true,
                "src" | "dst" if value == "all" => {}
                "src" => asks.from = Some(self.net("src", "srclen").ok_or_else(odd)?),
                "dst" => asks.to = Some(self.net("dst", "dstlen").ok_or_else(odd)?),
                "iif" => asks.input = Some(name()?),
                "oif" => asks.output = Some(name()?),
                "fwmark" => {
                    let mask = self.rest.get("fwmask").map_or(Some(u32::MAX), hex);
                    asks.mark = Some((hex(value).ok_or_else(odd)?, mask.ok_or_else(odd)?));
                }
                "tos" => asks.tos = hex(value).and_then(|tos| u8::try_from(tos).ok()).ok_or_else(odd)?,
                "ipproto" => asks.protocol = value.as_str().and_then(protocol).ok_or_else(odd).map(Some)?,
                "sport" | "sport_start" => asks.source_ports = self.ports(key, "sport_end"),
                "dport" | "dport_start" => asks.ports = self.ports(key, "dport_end"),
                "sport_end" | "dport_end" => {}
                "table" => {
                    let table = value.as_str().and_then(table).ok_or_else(odd)?;
                    let suppress = self.rest.get("suppress_prefixlen").and_then(Value::as_u64);
                    let suppress = suppress.and_then(|length| u32::try_from(length).ok());
                    does = Some(Does::Look { table, suppress });
                }
                "suppress_prefixlen" => {}
                "goto" => does = Some(Does::GoTo(number()?)),
                "action" => does = Some(Does::End(value.as_str().and_then(end).ok_or_else(odd)?)),
                "uid_start" | "uid_end" => return Err("uidrange".to_owned()),
                _ => return Err(odd()),
            }
        }
        // What neither looks nor ends does something else.
        Ok((asks, does.ok_or("action")?))
    }

    fn net(&self, key: &str, length: &str) -> Option<IpNet> {
        let address: IpAddr = self.text(key)?.parse().ok()?;
        match self.rest.get(length).and_then(Value::as_u64) {
            Some(length) => IpNet::new(address, u8::try_from(length).ok()?).ok(),
            None => Some(address.into()),
        }
    }

    fn ports(&self, first: &str, last: &str) -> Option<(u16, u16)> {
        let number =
            |key: &str| self.rest.get(key).and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok());
        let first = number(first)?;
        Some((first, number(last).unwrap_or(first)))
    }
}

/// A protocol's name or number.
fn protocol(text: &str) -> Option<u8> {
    wire::protocol::number(text).or_else(|| text.trim_start_matches("ipproto-").parse().ok())
}

/// A table's name or number.
fn table(text: &str) -> Option<u32> {
    match text {
        "local" => Some(255),
        "main" => Some(254),
        "default" => Some(253),
        text => text.parse().ok(),
    }
}
