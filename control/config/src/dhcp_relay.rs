//! `[dhcp_relay.NAME]`: hosts' questions for addresses are passed to servers elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use toml::Spanned;

use crate::interface::{Interface, interface_name};
use crate::mistake::{Hint, Page};
use crate::section::{Section, named};
use crate::service::{Dhcp, Dhcp6, Services, some};

/// Interfaces, and the servers that their hosts ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpRelay {
    /// What it is called here.
    pub name: String,
    /// Where hosts are; each is in one relay only.
    pub interfaces: Vec<String>,
    /// Who is asked by hosts of IPv4: all of them.
    pub servers4: Vec<Ipv4Addr>,
    /// Who is asked by hosts of IPv6.
    pub servers6: Vec<Ipv6Addr>,
    /// Whether servers of IPv4 are told the interface's name (RFC 3046, circuit ID). Those of IPv6
    /// always are.
    pub circuit_id: bool,
    /// A name of this router for servers of IPv4 (RFC 3046, remote ID).
    pub remote_id: Option<String>,
    /// Hosts' messages may have an option of RFC 3046 already: switches make it.
    pub trusted: bool,
}

const NAME: &str = "names of interfaces, such as \"vlan10\"";
const SERVERS: &str = "addresses of servers, such as \"192.0.2.5\" or \"2001:db8::5\"";

/// Every section of this kind.
pub(crate) fn relays(
    page: &mut Page,
    root: &mut Section,
    own: &[Interface],
    services: &Services,
) -> Vec<DhcpRelay> {
    let mut relays: Vec<DhcpRelay> = Vec::new();
    for (name, mut section) in named(page, root, "dhcp_relay", "dhcp_relay") {
        let at = section.at.clone();
        let relay = one(page, name, &mut section);
        let mut wrong = |message: String, expected: &str| {
            page.wrong(at.clone(), format!("[dhcp_relay.{name}]: {message}"), Hint::expected(expected));
        };
        for interface in &relay.interfaces {
            let taken = relays.iter().find(|other| other.interfaces.contains(interface));
            if let Some(other) = taken {
                wrong(format!("[dhcp_relay.{}] has {interface} already", other.name), "each interface once");
            }
            let vrf = own.iter().find(|it| it.name == *interface).and_then(|it| it.vrf.as_ref());
            if let Some(vrf) = vrf {
                wrong(format!("{interface} is in {vrf}"), "interfaces in no VRF");
            }
        }
        let four = services.dhcp.as_ref().filter(|_| !relay.servers4.is_empty()).map(Dhcp::listens);
        let six = services.dhcp6.as_ref().filter(|_| !relay.servers6.is_empty()).map(Dhcp6::listens);
        for (served, service) in [(four, "dhcp"), (six, "dhcp6")] {
            let served = served.unwrap_or_default();
            if let Some(name) = relay.interfaces.iter().find(|name| served.contains(name)) {
                wrong(
                    format!("[service.{service}] serves {name} itself"),
                    "one of the two at each interface",
                );
            }
        }
        section.finish(page);
        relays.push(relay);
    }
    relays.sort_by(|one, other| one.name.cmp(&other.name));
    relays
}

fn one(page: &mut Page, name: &str, section: &mut Section) -> DhcpRelay {
    let interfaces = section.texts(page, "interfaces", NAME, interface_name);
    let mut interfaces = some(page, section, "interfaces", interfaces, NAME);
    interfaces.sort();
    if let (Some(pair), Some(at)) = (
        interfaces.windows(2).find(|pair| pair[0] == pair[1]),
        section.value("interfaces").map(Spanned::span),
    ) {
        page.wrong(at, format!("interfaces: {} is there twice", pair[0]), Hint::expected(NAME));
    }
    let servers = section.texts(page, "servers", SERVERS, server);
    let servers = some(page, section, "servers", servers, SERVERS);
    let (mut servers4, mut servers6) = (Vec::new(), Vec::new());
    for server in servers {
        match server {
            IpAddr::V4(server) => servers4.push(server),
            IpAddr::V6(server) => servers6.push(server),
        }
    }
    let remote = "at most 64 visible letters";
    let remote_id = section.text(page, "remote_id", remote, |text| {
        let visible = |c: char| c.is_ascii_graphic() || c == ' ';
        match (1..=64).contains(&text.len()) && text.chars().all(visible) {
            true => Ok(text.to_owned()),
            false => Err(format!("{text:?} is not that")),
        }
    });
    DhcpRelay {
        name: name.to_owned(),
        interfaces,
        servers4,
        servers6,
        circuit_id: section.flag(page, "circuit_id").unwrap_or(true),
        remote_id: remote_id.map(|found| found.value),
        trusted: section.flag(page, "trusted").unwrap_or(false),
    }
}

fn server(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address"))?;
    let odd = match address {
        IpAddr::V4(four) => four.is_broadcast(),
        // By which interface would nobody say.
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    match odd || address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        false => Ok(address),
        true => Err(format!("{address} is no address of a server elsewhere")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(text: &str) -> Result<Vec<DhcpRelay>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n{text}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.dhcp_relays).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn a_relay_has_interfaces_and_servers_of_both_families() {
        let relays = read(
            "[dhcp_relay.students]\ninterfaces = [\"vlan20\", \"vlan10\"]\n\
             servers = [\"192.0.2.5\", \"2001:db8::5\", \"192.0.2.6\"]\nremote_id = \"north\"\n",
        );
        let expected = DhcpRelay {
            name: "students".to_owned(),
            interfaces: vec!["vlan10".to_owned(), "vlan20".to_owned()],
            servers4: vec![Ipv4Addr::new(192, 0, 2, 5), Ipv4Addr::new(192, 0, 2, 6)],
            servers6: vec![Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5)],
            circuit_id: true,
            remote_id: Some("north".to_owned()),
            trusted: false,
        };
        assert_eq!(relays, Ok(vec![expected]));
    }

    #[test]
    fn what_two_would_answer_is_refused() {
        const ONE: &str = "[dhcp_relay.one]\ninterfaces = [\"vlan10\"]\nservers = [\"192.0.2.5\"]\n";
        let wrong = |more: &str| read(&format!("{ONE}{more}")).unwrap_err();
        let two = wrong("[dhcp_relay.two]\ninterfaces = [\"vlan10\"]\nservers = [\"2001:db8::5\"]\n");
        assert!(two.contains("[dhcp_relay.one] has vlan10 already"), "{two}");
        let own = wrong("[service.dhcp.subnet.lan]\nprefix = \"192.0.2.0/24\"\ninterface = \"vlan10\"\n");
        assert!(own.contains("[service.dhcp] serves vlan10 itself"), "{own}");
        let vrf = wrong(
            "[interface.red]\nkind = \"vrf\"\ntable = 10\n\
             [interface.vlan10]\nkind = \"vlan\"\nparent = \"eth0\"\nid = 10\nvrf = \"red\"\n",
        );
        assert!(vrf.contains("vlan10 is in red"), "{vrf}");
    }
}
