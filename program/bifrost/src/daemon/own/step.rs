//! A step: what it does, for the operator, and as a line of `ip -batch`.

use std::fmt;
use std::io::{Seek, Write};
use std::process::Stdio;

use config::{InterfaceKind, PrivateKey, PublicKey, Vxlan};
use ipnet::IpNet;
use mirror::netlink::socket;
use mirror::netlink::wireguard::Peer;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::linux::{Key, Way};
use super::rules::{Place, Rule};
use super::{GROUP, PROTOCOL, wireguard};
use crate::daemon::tool;

/// One change of Linux's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Make {
        name: String,
        kind: InterfaceKind,
        mac: Option<String>,
        ours: bool,
    },
    Delete {
        name: String,
    },
    Up {
        name: String,
    },
    /// `why`: it comes up again.
    Down {
        name: String,
        why: Option<String>,
    },
    Join {
        name: String,
        master: String,
    },
    Leave {
        name: String,
        master: String,
    },
    Bond {
        name: String,
        kind: InterfaceKind,
    },
    Mtu {
        name: String,
        mtu: u32,
    },
    Mac {
        name: String,
        mac: String,
    },
    Alias {
        name: String,
        alias: String,
    },
    Address {
        name: String,
        address: IpNet,
        again: bool,
    },
    NoAddress {
        name: String,
        address: IpNet,
    },
    Route {
        key: Key,
        way: Way,
        how: How,
    },
    NoRoute {
        key: Key,
        /// The protocol that made it.
        by: u8,
    },
    PrivateKey {
        name: String,
        key: Option<PrivateKey>,
    },
    Port {
        name: String,
        port: u16,
    },
    Peer {
        name: String,
        key: PublicKey,
        peer: Peer,
        new: bool,
    },
    NoPeer {
        name: String,
        key: PublicKey,
    },
    Rule {
        place: Place,
        rule: Rule,
    },
    NoRule {
        place: Place,
        rule: Rule,
        /// The protocol that made it.
        by: u8,
    },
}

/// By what a step is gone.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// A line of `ip`, with the family that it must be told where the line does not say it.
    Ip(Option<&'static str>),
    /// A message, for what `ip` does not know.
    Netlink,
}

/// How a route comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// There was none.
    New,
    /// In place of one of Bifrost's.
    Changed,
    /// It may have gone with its interface.
    Again,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Make { name, kind, .. } => write!(f, "{name} is made, {}", told(kind)),
            Step::Delete { name } => write!(f, "{name} is deleted"),
            Step::Up { name } => write!(f, "{name} is set up"),
            Step::Down { name, why: None } => write!(f, "{name} is set down"),
            Step::Down { name, why: Some(why) } => write!(f, "{name} goes down for a moment: {why}"),
            Step::Join { name, master } => write!(f, "{name} joins {master}"),
            Step::Leave { name, master } => write!(f, "{name} leaves {master}"),
            Step::Bond { name, kind } => write!(f, "{name} becomes {}", told(kind)),
            Step::Mtu { name, mtu } => write!(f, "{name}: the MTU is {mtu}"),
            Step::Mac { name, mac } => write!(f, "{name}: the Ethernet address is {mac}"),
            Step::Alias { name, alias } => write!(f, "{name}: the description is {alias:?}"),
            Step::Address { name, address, again: false } => write!(f, "{name}: address {address} is added"),
            Step::Address { name, address, .. } => write!(f, "{name}: address {address} is set again"),
            Step::NoAddress { name, address } => write!(f, "{name}: address {address} is removed"),
            Step::Route { key, way, how } => {
                let how = match how {
                    How::New => "is added",
                    How::Changed => "changes",
                    How::Again => "is set again",
                };
                write!(f, "route {}{} {how}", key.to, in_table(key))?;
                match way {
                    Way::End(word) => write!(f, ": {word}"),
                    Way::Via(hops) => hops.iter().try_for_each(|hop| {
                        hop.gateway.iter().try_for_each(|gateway| write!(f, " via {gateway}"))?;
                        hop.device.iter().try_for_each(|device| write!(f, " by {device}"))
                    }),
                }
            }
            Step::NoRoute { key, .. } => write!(f, "route {}{} is removed", key.to, in_table(key)),
            Step::PrivateKey { name, key: Some(_) } => write!(f, "{name}: the private key is set"),
            Step::PrivateKey { name, key: None } => write!(f, "{name}: the private key is removed"),
            Step::Port { name, port } => write!(f, "{name}: the UDP port is {port}"),
            Step::Peer { name, key, new: true, .. } => write!(f, "{name}: peer {key} is added"),
            Step::Peer { name, key, .. } => write!(f, "{name}: peer {key} changes"),
            Step::NoPeer { name, key } => write!(f, "{name}: peer {key} is removed"),
            Step::Rule { place, rule } => write!(f, "{place} is added: {rule}"),
            Step::NoRule { place, rule, .. } => write!(f, "{place} is removed: {rule}"),
        }
    }
}

fn in_table(key: &Key) -> String {
    if key.table == 254 { String::new() } else { format!(" in table {}", key.table) }
}

fn told(kind: &InterfaceKind) -> String {
    match kind {
        InterfaceKind::Vlan { parent, id, protocol } => format!("VLAN {id} ({protocol}) on {parent}"),
        InterfaceKind::Bond { mode, .. } => format!("a bond of mode {mode}"),
        InterfaceKind::Vrf { table } => format!("a VRF with table {table}"),
        InterfaceKind::Macvlan { parent, mode } => format!("a macvlan ({mode}) on {parent}"),
        InterfaceKind::Vxlan(vxlan) => {
            let parent = vxlan.parent.as_ref().map(|parent| format!(" on {parent}"));
            let remote = vxlan.remote.map(|remote| format!(" to {remote}"));
            format!("VXLAN {}{}{}", vxlan.vni, parent.unwrap_or_default(), remote.unwrap_or_default())
        }
        InterfaceKind::Tunnel { mode, local, remote, .. } => {
            format!("a tunnel ({mode}) from {local} to {remote}")
        }
        other => format!("a {}", other.word()),
    }
}

impl Step {
    fn by(&self) -> By {
        match self {
            Step::PrivateKey { .. } | Step::Port { .. } | Step::Peer { .. } | Step::NoPeer { .. } => {
                By::Netlink
            }
            Step::Rule { place, .. } | Step::NoRule { place, .. } if place.ipv6 => By::Ip(Some("-6")),
            Step::Rule { .. } | Step::NoRule { .. } => By::Ip(Some("-4")),
            _ => By::Ip(None),
        }
    }

    /// As `ip` reads it.
    pub fn line(&self) -> String {
        match self {
            Step::Make { name, kind, mac, ours } => {
                let on = match kind {
                    InterfaceKind::Vlan { parent, .. } | InterfaceKind::Macvlan { parent, .. } => {
                        format!(" link {parent}")
                    }
                    _ => String::new(),
                };
                let mac = mac.as_ref().map_or_else(String::new, |mac| format!(" address {mac}"));
                let group = if *ours { format!(" group {GROUP}") } else { String::new() };
                format!("link add{on} name {name}{mac}{group} type {}", parameters(kind))
            }
            Step::Delete { name } => format!("link delete dev {name}"),
            Step::Up { name } => format!("link set dev {name} up"),
            Step::Down { name, .. } => format!("link set dev {name} down"),
            Step::Join { name, master } => format!("link set dev {name} master {master}"),
            Step::Leave { name, .. } => format!("link set dev {name} nomaster"),
            Step::Bond { name, kind } => format!("link set dev {name} type {}", parameters(kind)),
            Step::Mtu { name, mtu } => format!("link set dev {name} mtu {mtu}"),
            Step::Mac { name, mac } => format!("link set dev {name} address {mac}"),
            Step::Alias { name, alias } => {
                // One that somebody else gave it may have what cannot stand in such a line.
                let alias = alias.replace(|c: char| c.is_control() || matches!(c, '"' | '#' | '\\'), " ");
                format!("link set dev {name} alias \"{alias}\"")
            }
            Step::Address { name, address, .. } => format!("address replace {address} dev {name}"),
            Step::NoAddress { name, address } => format!("address delete {address} dev {name}"),
            Step::Route { key, way, how } => {
                let verb = if *how == How::New { "add" } else { "replace" };
                let (kind, hops) = match way {
                    Way::End(word) => (*word, Vec::new()),
                    Way::Via(hops) => ("unicast", hops.iter().map(hop).collect()),
                };
                let hops = match hops.as_slice() {
                    [one] => format!(" {one}"),
                    several => several.iter().map(|hop| format!(" nexthop {hop}")).collect(),
                };
                // What `ip` takes behind the hops it takes for a part of the last one.
                format!("route {verb} {kind} {}{hops}", route(key, PROTOCOL)).trim_end().to_owned()
            }
            Step::NoRoute { key, by } => format!("route delete {}", route(key, *by)),
            Step::PrivateKey { .. } | Step::Port { .. } | Step::Peer { .. } | Step::NoPeer { .. } => {
                String::new()
            }
            Step::Rule { place, rule: Rule { asks, does } } => {
                format!("rule add {asks} priority {} protocol {PROTOCOL} {does}", place.priority)
            }
            Step::NoRule { place, rule: Rule { asks, does }, by } => {
                format!("rule delete {asks} priority {} protocol {by} {does}", place.priority)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} ({})", self.priority, if self.ipv6 { "IPv6" } else { "IPv4" })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.asks, self.does)
    }
}

fn route(key: &Key, by: u8) -> String {
    format!("{} table {} metric {} protocol {by}", key.to, key.table, key.metric)
}

fn hop(hop: &super::linux::Hop) -> String {
    let gateway = hop.gateway.map(|gateway| format!("via {gateway}"));
    let device = hop.device.as_ref().map(|device| format!("dev {device}"));
    [gateway, device].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn parameters(kind: &InterfaceKind) -> String {
    match kind {
        InterfaceKind::Vlan { id, protocol, .. } => format!("vlan protocol {protocol} id {id}"),
        InterfaceKind::Bond { mode, lacp_rate, miimon } => {
            let mut text = format!("bond mode {mode}");
            miimon.iter().for_each(|time| text += &format!(" miimon {time}"));
            let rate = lacp_rate.filter(|_| *mode == "802.3ad");
            rate.iter().for_each(|rate| text += &format!(" lacp_rate {rate}"));
            text
        }
        InterfaceKind::Vrf { table } => format!("vrf table {table}"),
        InterfaceKind::Tunnel { mode, local, remote, key, ttl } => {
            let key = key.map_or_else(String::new, |key| format!(" key {key}"));
            let ttl = if *ttl == 0 && local.is_ipv4() { "inherit".to_owned() } else { ttl.to_string() };
            let mode = match *mode {
                "ip6tnl" => "ip6tnl mode any".to_owned(),
                mode @ ("ipip6" | "ip6ip6") => format!("ip6tnl mode {mode}"),
                mode => mode.to_owned(),
            };
            format!("{mode} local {local} remote {remote}{key} ttl {ttl}")
        }
        InterfaceKind::Macvlan { mode, .. } => format!("macvlan mode {mode}"),
        InterfaceKind::Vxlan(Vxlan { vni, local, remote, parent, port, learning }) => {
            let mut text = format!("vxlan id {vni} dstport {port}");
            local.iter().for_each(|local| text += &format!(" local {local}"));
            let word = if remote.is_some_and(|remote| remote.is_multicast()) { "group" } else { "remote" };
            remote.iter().for_each(|remote| text += &format!(" {word} {remote}"));
            parent.iter().for_each(|parent| text += &format!(" dev {parent}"));
            text + if *learning { " learning" } else { " nolearning" }
        }
        other => other.word().to_owned(),
    }
}

/// A step that Linux refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("Linux refuses that {step}: {why}")]
pub(super) struct Failed<'a> {
    pub step: &'a Step,
    pub why: String,
}

/// Goes the steps; those that Linux refused. Without `on` the first one that it refuses is the
/// last.
///
/// # Errors
/// When none could be gone.
pub(super) fn run(steps: &[Step], on: bool) -> Result<Vec<Failed<'_>>, String> {
    let (mut all, mut began) = (Vec::new(), false);
    for steps in steps.chunk_by(|one, next| one.by() == next.by()) {
        let done = match steps[0].by() {
            By::Ip(family) => batch(steps, family, on),
            By::Netlink => messages(steps, on),
        };
        match done {
            Ok(failed) => all.extend(failed),
            Err(why) if began => all.push(Failed { step: &steps[0], why }),
            Err(why) => return Err(why),
        }
        began = true;
        if !on && !all.is_empty() {
            break;
        }
    }
    Ok(all)
}

fn messages(steps: &[Step], on: bool) -> Result<Vec<Failed<'_>>, String> {
    let mut linux =
        socket::WireGuard::open().map_err(|error| format!("cannot ask Linux of WireGuard: {error}"))?;
    let mut failed = Vec::new();
    for step in steps {
        failed.extend(wireguard::go(&mut linux, step));
        if !on && !failed.is_empty() {
            break;
        }
    }
    Ok(failed)
}

fn batch<'s>(steps: &'s [Step], family: Option<&str>, on: bool) -> Result<Vec<Failed<'s>>, String> {
    let mut ip = tool::command("ip", "iproute2")?;
    // In memory, so that `ip` can say as much as it wants.
    let refused = |error: std::io::Error| format!("cannot run ip: {error}");
    let memory = memfd_create(c"steps", MFdFlags::MFD_CLOEXEC).map_err(|error| refused(error.into()))?;
    let mut lines = std::fs::File::from(memory);
    steps.iter().try_for_each(|step| writeln!(lines, "{}", step.line())).map_err(refused)?;
    lines.rewind().map_err(refused)?;
    ip.args(family).args(on.then_some("-force")).args(["-batch", "-"]);
    ip.stdin(lines).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = ip.output().map_err(refused)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = failed(&said, steps);
    match output.status.success() || !failed.is_empty() {
        true => Ok(failed),
        false => Err(format!("ip: {}", said.trim())),
    }
}

/// Of what `ip` said the steps that were refused, with the reason.
fn failed<'a>(said: &str, steps: &'a [Step]) -> Vec<Failed<'a>> {
    let (mut failed, mut reason) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let step = line.strip_prefix("Command failed -:").and_then(|number| number.parse::<usize>().ok());
        match step.and_then(|number| steps.get(number.wrapping_sub(1))) {
            Some(step) => {
                failed.push(Failed { step, why: std::mem::take(&mut reason).join(" ") });
            }
            None => reason.push(line.trim_start_matches("RTNETLINK answers: ").trim_start_matches("Error: ")),
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_refuses_is_told_of_the_step() {
        let steps = [
            Step::Up { name: "eth0".to_owned() },
            Step::Address {
                name: "eth0".to_owned(),
                address: "2001:db8::1/64".parse().unwrap(),
                again: false,
            },
        ];
        let said = "RTNETLINK answers: Permission denied\nCommand failed -:2\n";
        let [failed_one] = &failed(said, &steps)[..] else { panic!("one is refused") };
        assert_eq!(failed_one.step, &steps[1]);
        assert_eq!(
            failed_one.to_string(),
            "Linux refuses that eth0: address 2001:db8::1/64 is added: Permission denied"
        );
        assert!(failed("", &steps).is_empty());
    }
}
