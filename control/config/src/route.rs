//! `[[route]]`: a static route.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use toml::Spanned;
use toml::de::DeValue;

use crate::interface::{Interface, InterfaceKind, interface_name};
use crate::mistake::{Hint, Page};
use crate::section::{Section, kind as kind_of};

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub to: IpNet,
    /// In which table.
    pub table: RouteTable,
    /// Of several the lowest is used; `None`: Linux's default.
    pub metric: Option<u32>,
    /// What becomes of the packets.
    pub way: RouteAction,
}

/// The table that a route is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteTable {
    /// By its number; 254 is the main one.
    Number(u32),
    /// That of a VRF.
    Vrf(String),
}

/// What a static route does with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteAction {
    /// They go on.
    Via {
        /// To one of these; none: to hosts on the link.
        gateways: Vec<IpAddr>,
        /// By this interface; `None`: by the one on whose link the gateway is.
        device: Option<String>,
    },
    /// They end here, in this way: a word of iproute2.
    End(&'static str),
}

impl Route {
    /// The ways for packets to end.
    pub const ENDS: [(&str, &str); 3] =
        [("blackhole", "blackhole"), ("unreachable", "unreachable"), ("prohibit", "prohibit")];
}

/// The main table.
const MAIN: u32 = 254;
/// What a prefix is told to be.
pub(crate) const NET: &str = "a prefix, such as \"192.0.2.0/24\"";
const TO: &str = "a prefix, such as \"192.0.2.0/24\", or \"default\"";
const VIA: &str = "the address of a gateway, or a list of them";

/// Every section of this kind, in the order of the file.
pub(crate) fn routes(page: &mut Page, value: &Spanned<DeValue>, interfaces: &[Interface]) -> Vec<Route> {
    let DeValue::Array(list) = value.get_ref() else {
        let hint = Hint::expected("[[route]], with two brackets, once for each route");
        page.wrong(value.span(), format!("route cannot be {}", kind_of(value.get_ref())), hint);
        return Vec::new();
    };
    let mut routes = Vec::new();
    let mut places = HashMap::new();
    for item in list.iter() {
        let DeValue::Table(table) = item.get_ref() else {
            let message = format!("{} is not a route", kind_of(item.get_ref()));
            page.wrong(item.span(), message, Hint::expected("[[route]] sections"));
            continue;
        };
        let Some(route) = one(page, Section::new("[[route]]", item.span(), table), interfaces) else {
            continue;
        };
        let key = (route.to, route.table.clone(), route.metric);
        if let Some(other) = places.insert(key, item.span().start) {
            let line = page.line_of(other);
            let message = format!("a route to {} is there already, on line {line}", route.to);
            page.wrong(item.span(), message, Hint::expected("another metric, or `via` with a list"));
        }
        routes.push(route);
    }
    routes
}

fn one(page: &mut Page, mut section: Section, interfaces: &[Interface]) -> Option<Route> {
    let gateways = match section.value("via").map(Spanned::get_ref) {
        Some(DeValue::Array(_)) => section.texts(page, "via", VIA, gateway),
        Some(_) => section.text(page, "via", VIA, gateway).map(|found| vec![found.value]),
        None => Some(Vec::new()),
    };
    let device = section.text(page, "device", "the name of an interface", interface_name);
    let end = section.choice(page, "kind", &Route::ENDS);
    let to = section.text(page, "to", TO, |text| prefix(text, gateways.as_deref().unwrap_or_default()));
    let to = section.require(page, "to", to, TO);
    let metric = section.number(page, "metric", 0..=u64::from(u32::MAX)).map(|metric| metric as u32);
    let in_table = table(page, &mut section, interfaces, "a route is in one table");
    let mut wrong = |section: &mut Section, key: &'static str, message: String, expected: &str| {
        // The section itself, where no key is at fault: an empty one would be listed among its
        // keys.
        let found = if key.is_empty() { None } else { section.value(key) };
        let at = found.map_or(section.at.clone(), Spanned::span);
        page.wrong(at, message, Hint::expected(expected));
    };
    if in_table == Some(RouteTable::Number(255)) {
        wrong(&mut section, "table", "table 255 is Linux's own".to_owned(), "another table");
    }
    let listed = gateways.clone().unwrap_or_default();
    let given = section.value("via").is_some() || section.value("device").is_some();
    match (end.or(section.value("kind").map(|_| "")), given) {
        (Some(_), true) => {
            let message = "what ends here goes by no gateway and no device".to_owned();
            wrong(&mut section, "kind", message, "a kind alone");
        }
        (None, false) => {
            wrong(&mut section, "", "[[route]] leads nowhere".to_owned(), "a via, a device or a kind");
        }
        _ => {}
    }
    let ipv6 = to.as_ref().map(|to| to.value.addr().is_ipv6());
    if let Some(other) = listed.iter().find(|gateway| ipv6.is_some_and(|six| six != gateway.is_ipv6())) {
        let message = format!("the gateway {other} is of another family than the prefix");
        wrong(&mut section, "via", message, "gateways of the prefix's family");
    }
    let on_link = |it: &IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
    if let (Some(gateway), false) = (listed.iter().find(|it| on_link(it)), section.value("device").is_some())
    {
        wrong(&mut section, "via", format!("{gateway} is on every link"), "a device as well");
    }
    section.finish(page);
    Some(Route {
        to: to?.value,
        table: in_table.unwrap_or(RouteTable::Number(MAIN)),
        metric,
        way: match end {
            Some(end) => RouteAction::End(end),
            None => RouteAction::Via { gateways: gateways?, device: device.map(|found| found.value) },
        },
    })
}

/// `table` or `vrf`; both of them are told to be too much, by `message`.
pub(crate) fn table(
    page: &mut Page,
    section: &mut Section,
    interfaces: &[Interface],
    message: &str,
) -> Option<RouteTable> {
    let number = section.number(page, "table", 1..=u64::from(u32::MAX)).map(|number| number as u32);
    let vrf = section.text(page, "vrf", "the name of a VRF", interface_name);
    let Some(vrf) = vrf else { return number.map(RouteTable::Number) };
    let named = interfaces.iter().find(|it| it.name == vrf.value);
    if number.is_some() {
        page.wrong(vrf.at, message, Hint::expected("a table or a vrf"));
    } else if let Some(named) = named.filter(|named| !matches!(named.kind, InterfaceKind::Vrf { .. })) {
        let message = format!("{} is a {}, no VRF", vrf.value, named.kind.word());
        page.wrong(vrf.at, message, Hint::expected("the name of a VRF"));
    }
    Some(RouteTable::Vrf(vrf.value))
}

fn gateway(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(it) if !it.is_unspecified() && !it.is_multicast() => Ok(it),
        _ => Err(format!("{text:?} is no address of a gateway")),
    }
}

fn prefix(text: &str, gateways: &[IpAddr]) -> Result<IpNet, String> {
    if text == "default" {
        return match gateways.first() {
            Some(IpAddr::V4(_)) => Ok(Ipv4Net::default().into()),
            Some(IpAddr::V6(_)) => Ok(Ipv6Net::default().into()),
            None => Err("without a gateway it is \"0.0.0.0/0\" or \"::/0\"".to_owned()),
        };
    }
    net(text)
}

/// A prefix, whose bits behind its length are not there, or an address.
pub(crate) fn net(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let net = net.map_err(|_| format!("{text:?} is no prefix"))?;
    match net == net.trunc() {
        true => Ok(net),
        false => Err(format!("{text:?} has bits behind its length; perhaps meant: \"{}\"", net.trunc())),
    }
}
