//! `[discovery.NAME]`: router discovery on an interface, for IPv4 (`.ipv4`, RFC 1256) and IPv6
//! (`.ipv6`, RFC 4861).

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use discovery::{Advertisement, Domain, Preference, RaOption, Times, irdp};
use ipnet::Ipv6Net;
use notation::duration;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use crate::mistake::{Hint, Page};
use crate::pattern::is_interface_name;
use crate::track::{self, Tracked};
use crate::virtual_router::VirtualRouter;

/// Router discovery on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// What it is called here.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// For IPv4.
    pub ipv4: Option<Discovery4>,
    /// For IPv6.
    pub ipv6: Option<Discovery6>,
}

/// What is said by ICMP router discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery4 {
    /// The virtual router that says it, while it is active here; without: the interface itself.
    pub vrrp: Option<String>,
    /// When.
    pub times: Times,
    /// Seconds for which hosts believe it.
    pub lifetime: u16,
    /// To all on the link, where hosts know no groups.
    pub broadcast: bool,
    /// Of the interface's addresses.
    pub preference: i32,
    /// Of single ones.
    pub addresses: BTreeMap<Ipv4Addr, i32>,
    /// What must be there, and by how much preferences are lower where it is not; `None`: hosts use
    /// the router never.
    pub track: Vec<(Tracked, Option<u32>)>,
}

/// What is said by router advertisements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery6 {
    /// The virtual router that says it, while it is active here; without: the interface itself.
    pub vrrp: Option<String>,
    /// When.
    pub times: Times,
    /// All but the router's link address and the prefixes that its interface has.
    pub says: Advertisement,
    /// How long prefixes of the interface are valid and preferred, in seconds; `None`: what is said
    /// names its own.
    pub own_prefixes: Option<[u32; 2]>,
    /// What must be there, and what the preference is where it is not; `None`: hosts do not use it
    /// as a default router.
    pub track: Vec<(Tracked, Option<Preference>)>,
}

/// Prefixes at most, so that all fits into one packet of the least MTU of IPv6.
pub const PREFIXES: usize = 16;
const PREFIX_OPTION: usize = 32;
const LINK_OPTION: usize = 8;
/// What an ICMPv6 message may have in a packet of 1,280 bytes.
pub const MOST: usize = 1280 - 40;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    interface: Spanned<String>,
    ipv4: Option<Spanned<Written4>>,
    ipv6: Option<Spanned<Written6>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written4 {
    vrrp: Option<Spanned<String>>,
    interval: Option<Spanned<Time>>,
    least_interval: Option<Spanned<Time>>,
    lifetime: Option<Spanned<Time>>,
    #[serde(default)]
    broadcast: bool,
    #[serde(default)]
    preference: Level,
    #[serde(default)]
    addresses: BTreeMap<Ipv4Addr, Level>,
    #[serde(default)]
    track: Vec<Spanned<track::Written<u32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written6 {
    vrrp: Option<Spanned<String>>,
    interval: Option<Spanned<Time>>,
    least_interval: Option<Spanned<Time>>,
    lifetime: Option<Spanned<Time>>,
    #[serde(default)]
    preference: Rank,
    #[serde(default = "usual_hop_limit")]
    hop_limit: u8,
    #[serde(default)]
    managed: bool,
    #[serde(default)]
    other: bool,
    reachable: Option<Spanned<Time>>,
    retransmit: Option<Spanned<Time>>,
    mtu: Option<Spanned<u32>>,
    valid: Option<Spanned<Time>>,
    preferred: Option<Spanned<Time>>,
    prefixes: Option<Spanned<Vec<Spanned<WrittenPrefix>>>>,
    #[serde(default)]
    routes: Vec<Spanned<WrittenRoute>>,
    #[serde(default)]
    dns: Vec<Spanned<Ipv6Addr>>,
    #[serde(default)]
    search: Vec<Name>,
    pref64: Option<Spanned<Ipv6Net>>,
    captive_portal: Option<Spanned<String>>,
    #[serde(default)]
    track: Vec<Spanned<track::Written<Rank>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrefix {
    prefix: Ipv6Net,
    valid: Option<Spanned<Time>>,
    preferred: Option<Spanned<Time>>,
    #[serde(default = "yes")]
    on_link: bool,
    #[serde(default = "yes")]
    autonomous: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRoute {
    prefix: Ipv6Net,
    #[serde(default)]
    preference: Rank,
    lifetime: Option<Spanned<Time>>,
}

fn yes() -> bool {
    true
}

fn usual_hop_limit() -> u8 {
    64
}

#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Time(Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Time, String> {
        duration(&text).map(Time).ok_or(format!("{text:?} is no time such as \"10m\""))
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(untagged, expecting = "a preference is a whole number from -2147483648 to 2147483647, or \"never\"")]
enum Level {
    Number(i32),
    Never(Never),
    #[default]
    #[serde(skip)]
    Usual,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
}

impl Level {
    fn number(self) -> i32 {
        match self {
            Level::Number(number) => number,
            Level::Never(Never::Never) => irdp::NEVER,
            Level::Usual => 0,
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rank {
    Low,
    #[default]
    Medium,
    High,
}

impl From<Rank> for Preference {
    fn from(rank: Rank) -> Preference {
        match rank {
            Rank::Low => Preference::Low,
            Rank::Medium => Preference::Medium,
            Rank::High => Preference::High,
        }
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Name(Domain);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        text.parse().map(Name).map_err(|()| format!("{text:?} is no name of a domain"))
    }
}

/// Every section of this kind.
pub(crate) fn discoveries(
    page: &mut Page,
    value: &Spanned<DeValue>,
    routers: &[VirtualRouter],
) -> Vec<Discovery> {
    let DeValue::Table(table) = value.get_ref() else {
        page.wrong(value.span(), "discovery is no section", Hint::expected("sections [discovery.NAME]"));
        return Vec::new();
    };
    let mut all: Vec<Discovery> = Vec::new();
    let mut interfaces: HashMap<String, String> = HashMap::new();
    for (name, section) in table {
        let name = name.get_ref();
        let written = match Written::deserialize(toml::de::ValueDeserializer::from(section.clone())) {
            Ok(written) => written,
            Err(error) => {
                let at = error.span().unwrap_or(section.span());
                let message = format!("[discovery.{name}]: {}", error.message().replace('\n', ", "));
                page.wrong(at, message, Hint::default());
                continue;
            }
        };
        let mut said = Said { page, title: format!("[discovery.{name}]") };
        let interface = written.interface.get_ref();
        if !is_interface_name(interface) {
            let message = format!("{interface:?} is no interface's name");
            said.wrong(written.interface.span(), message, "the name of an interface, such as \"eth1\"");
        }
        if let Some(other) = interfaces.insert(interface.clone(), name.to_string()) {
            let message = format!("[discovery.{other}] is for {interface} already");
            said.wrong(written.interface.span(), message, "a section for each interface");
        }
        if written.ipv4.is_none() && written.ipv6.is_none() {
            let expected = format!("[discovery.{name}.ipv4], [discovery.{name}.ipv6], or both");
            said.wrong(section.span(), "it says nothing".to_owned(), &expected);
        }
        let ipv4 = written.ipv4.as_ref().map(|ipv4| said.ipv4(ipv4.get_ref()));
        let ipv6 = written.ipv6.as_ref().map(|ipv6| said.ipv6(ipv6));
        let by4 = written.ipv4.as_ref().and_then(|ipv4| ipv4.get_ref().vrrp.as_ref()).map(|by| (by, false));
        let by6 = written.ipv6.as_ref().and_then(|ipv6| ipv6.get_ref().vrrp.as_ref()).map(|by| (by, true));
        for (by, ipv6) in by4.into_iter().chain(by6) {
            let is = |router: &&VirtualRouter| {
                router.name == *by.get_ref() && router.interface == *interface && router.is_ipv6() == ipv6
            };
            if !routers.iter().any(|router| is(&router)) {
                let family = if ipv6 { "IPv6" } else { "IPv4" };
                let message = format!("there is no [vrrp.{}] of {family} on {interface}", by.get_ref());
                said.wrong(by.span(), message, "the name of a virtual router on the same interface");
            }
        }
        all.push(Discovery { name: name.to_string(), interface: interface.clone(), ipv4, ipv6 });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Where mistakes of a section are told.
struct Said<'p, 't> {
    page: &'p mut Page<'t>,
    title: String,
}

impl Said<'_, '_> {
    fn wrong(&mut self, at: Range<usize>, message: String, expected: &str) {
        self.page.wrong(at, format!("{}: {message}", self.title), Hint::expected(expected));
    }

    /// A time of whole units in a range.
    fn time(
        &mut self,
        what: &str,
        written: Option<&Spanned<Time>>,
        unit: Duration,
        [least, most]: [u64; 2],
    ) -> Option<u64> {
        let written = written?;
        let time = written.get_ref().0;
        let units = (time.as_nanos() / unit.as_nanos()) as u64;
        if !time.as_nanos().is_multiple_of(unit.as_nanos()) || !(least..=most).contains(&units) {
            let unit = if unit == SECOND { "seconds" } else { "milliseconds" };
            self.wrong(
                written.span(),
                format!("{what} cannot be that"),
                &format!("{least} to {most} {unit}"),
            );
        }
        Some(units)
    }

    fn ipv4(&mut self, written: &Written4) -> Discovery4 {
        let most = self.time("interval", written.interval.as_ref(), SECOND, [4, 1800]).unwrap_or(600);
        let least = self.time("least_interval", written.least_interval.as_ref(), SECOND, [3, most]);
        let lifetime = self.time("lifetime", written.lifetime.as_ref(), SECOND, [most, 9000]);
        let times = Times {
            interval: [least.unwrap_or((most * 3 / 4).max(3)), most].map(Duration::from_secs),
            answer: ANSWER4,
        };
        Discovery4 {
            vrrp: written.vrrp.as_ref().map(|by| by.get_ref().clone()),
            times,
            lifetime: lifetime.unwrap_or(most * 3) as u16,
            broadcast: written.broadcast,
            preference: written.preference.number(),
            addresses: written.addresses.iter().map(|(own, level)| (*own, level.number())).collect(),
            track: self.track(&written.track, |lower| *lower),
        }
    }

    fn ipv6(&mut self, section: &Spanned<Written6>) -> Discovery6 {
        let written = section.get_ref();
        let ever = u64::from(u32::MAX);
        let most = self.time("interval", written.interval.as_ref(), SECOND, [4, 65_535]).unwrap_or(600);
        let least = self.time("least_interval", written.least_interval.as_ref(), SECOND, [3, most * 3 / 4]);
        let lifetime = match &written.lifetime {
            Some(none) if none.get_ref().0.is_zero() => Some(0),
            some => self.time("lifetime", some.as_ref(), SECOND, [most, 65_535]),
        };
        let lifetime = lifetime.unwrap_or((most * 3).min(65_535));
        let times = Times {
            interval: [least.unwrap_or((most / 3).max(3)), most].map(Duration::from_secs),
            answer: ANSWER6,
        };
        let reachable = self.time("reachable", written.reachable.as_ref(), MILLISECOND, [0, 3_600_000]);
        let retransmit = self.time("retransmit", written.retransmit.as_ref(), MILLISECOND, [0, ever]);
        // As long as they hold that are not said again (RFC 8106, 5.1).
        let lasting = (most * 3).min(ever) as u32;
        let mut options = Vec::new();
        if let Some(mtu) = &written.mtu {
            if !(1280..=65_535).contains(mtu.get_ref()) {
                self.wrong(mtu.span(), "mtu is out of range".to_owned(), "1280 to 65535");
            }
            options.push(RaOption::Mtu(*mtu.get_ref()));
        }
        let usual = self.lifetimes(written.valid.as_ref(), written.preferred.as_ref(), [VALID, PREFERRED]);
        self.options6(written, usual, lasting, &mut options);
        let says = Advertisement {
            hop_limit: written.hop_limit,
            managed: written.managed,
            other: written.other,
            preference: written.preference.into(),
            lifetime: lifetime as u16,
            reachable: reachable.unwrap_or(0) as u32,
            retransmit: retransmit.unwrap_or(0) as u32,
            options,
        };
        let own_prefixes = written.prefixes.is_none().then_some(usual);
        let room = MOST - LINK_OPTION - own_prefixes.map_or(0, |_| PREFIXES * PREFIX_OPTION);
        let length = says.message().len();
        if length > room {
            let message = format!("all of it takes {length} bytes, more than fits into a packet");
            self.wrong(
                section.span(),
                message,
                &format!("at most {room} bytes: fewer prefixes, routes or names"),
            );
        }
        let track = self.track(&written.track, |rank| Preference::from(*rank));
        let vrrp = written.vrrp.as_ref().map(|by| by.get_ref().clone());
        Discovery6 { vrrp, times, says, own_prefixes, track }
    }

    /// What is said besides: prefixes, routes, name servers, and the rest. `usual`: how long a
    /// prefix holds that says nothing else; `lasting`: how long the rest does.
    fn options6(&mut self, written: &Written6, usual: [u32; 2], lasting: u32, options: &mut Vec<RaOption>) {
        if let Some(prefixes) = &written.prefixes {
            if prefixes.get_ref().len() > PREFIXES {
                self.wrong(prefixes.span(), "these are too many prefixes".to_owned(), "16 at most");
            }
            for prefix in prefixes.get_ref() {
                options.push(self.prefix(prefix, usual));
            }
        }
        for route in &written.routes {
            let WrittenRoute { prefix, preference, lifetime } = route.get_ref();
            let lifetime = self.time("lifetime", lifetime.as_ref(), SECOND, [0, u64::from(u32::MAX)]);
            options.push(RaOption::Route {
                prefix: prefix.trunc(),
                preference: (*preference).into(),
                lifetime: lifetime.map_or(lasting, |seconds| seconds as u32),
            });
        }
        let servers: Vec<Ipv6Addr> = written.dns.iter().map(|server| *server.get_ref()).collect();
        for server in written.dns.iter().filter(|server| server.get_ref().is_multicast()) {
            self.wrong(
                server.span(),
                format!("{} is no host", server.get_ref()),
                "addresses of name servers",
            );
        }
        if !servers.is_empty() {
            options.push(RaOption::Dns { servers, lifetime: lasting });
        }
        let domains: Vec<Domain> = written.search.iter().map(|name| name.0.clone()).collect();
        if !domains.is_empty() {
            options.push(RaOption::Search { domains, lifetime: lasting });
        }
        if let Some(prefix) = &written.pref64 {
            if !RaOption::is_pref64(prefix.get_ref()) {
                let message = format!("{} cannot be a prefix of NAT64", prefix.get_ref());
                self.wrong(prefix.span(), message, "a prefix of 32, 40, 48, 56, 64 or 96 bits (RFC 8781)");
            }
            let lifetime = lasting.min(65_528).next_multiple_of(8) as u16;
            options.push(RaOption::Pref64 { prefix: prefix.get_ref().trunc(), lifetime });
        }
        if let Some(uri) = &written.captive_portal {
            let text = uri.get_ref();
            if !text.starts_with("https://") || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                let expected = "a URI such as \"https://portal.example.net/api\" (RFC 8910)";
                self.wrong(uri.span(), format!("captive_portal cannot be {text:?}"), expected);
            }
            options.push(RaOption::CaptivePortal(text.clone()));
        }
    }

    fn prefix(&mut self, written: &Spanned<WrittenPrefix>, usual: [u32; 2]) -> RaOption {
        let WrittenPrefix { prefix, valid, preferred, on_link, autonomous } = written.get_ref();
        if *autonomous && prefix.prefix_len() != 64 {
            let message = format!("hosts make no addresses of their own in {prefix}");
            self.wrong(written.span(), message, "a prefix of 64 bits, or autonomous = false");
        }
        let [valid, preferred] = self.lifetimes(valid.as_ref(), preferred.as_ref(), usual);
        RaOption::Prefix {
            prefix: prefix.trunc(),
            on_link: *on_link,
            autonomous: *autonomous,
            valid,
            preferred,
        }
    }

    fn lifetimes(
        &mut self,
        valid: Option<&Spanned<Time>>,
        preferred: Option<&Spanned<Time>>,
        usual: [u32; 2],
    ) -> [u32; 2] {
        let most = u64::from(u32::MAX);
        let valid = self.time("valid", valid, SECOND, [0, most]).map_or(usual[0], |time| time as u32);
        let asked = self.time("preferred", preferred, SECOND, [0, u64::from(valid)]);
        [valid, asked.map_or(usual[1].min(valid), |time| time as u32)]
    }

    fn track<L, T>(
        &mut self,
        written: &[Spanned<track::Written<L>>],
        lower: impl Fn(&L) -> T,
    ) -> Vec<(Tracked, Option<T>)> {
        let mut list = Vec::new();
        for one in written {
            match one.get_ref().what() {
                Ok(what) => list.push((what, one.get_ref().lower.as_ref().map(&lower))),
                Err((message, expected)) => self.wrong(one.span(), message, expected),
            }
        }
        list
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// `MAX_RESPONSE_DELAY` of RFC 1256, `MAX_RA_DELAY_TIME` of RFC 4861.
const ANSWER4: Duration = Duration::from_secs(2);
const ANSWER6: Duration = Duration::from_millis(500);
/// 30 days and 7 days, in seconds (RFC 4861, 6.2.1).
const VALID: u32 = 2_592_000;
const PREFERRED: u32 = 604_800;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(sections: &str) -> Result<Vec<Discovery>, String> {
        let text = format!("[[port]]\nname = \"eth0\"\n{sections}\n");
        let read = Router::read("router.toml", &text, &Machine::this());
        read.map(|router| router.discovery).map_err(|mistakes| mistakes.to_string())
    }

    const LAN: &str = "[discovery.lan]\ninterface = \"eth1\"\n";

    fn four(lines: &str) -> Result<Discovery4, String> {
        read(&format!("{LAN}[discovery.lan.ipv4]\n{lines}")).map(|mut all| all.remove(0).ipv4.unwrap())
    }

    fn six(lines: &str) -> Result<Discovery6, String> {
        read(&format!("{LAN}[discovery.lan.ipv6]\n{lines}")).map(|mut all| all.remove(0).ipv6.unwrap())
    }

    #[test]
    fn a_section_says_what_the_rfcs_say_unless_it_says_more() {
        let usual = four("").unwrap();
        assert_eq!(usual.times.interval, [450, 600].map(Duration::from_secs));
        assert_eq!((usual.lifetime, usual.preference, usual.broadcast), (1800, 0, false));
        let more = "interval = \"4s\"\npreference = -2147483648\n\
                    addresses = { \"192.0.2.1\" = \"never\", \"192.0.2.2\" = 7 }\n\
                    track = [{ route = \"0.0.0.0/0\", from = \"bgp\", lower = 50 }, { interface = \"wan0\" }]";
        let more = four(more).unwrap();
        assert_eq!(more.times.interval, [3, 4].map(Duration::from_secs));
        assert_eq!((more.lifetime, more.preference), (12, irdp::NEVER));
        assert_eq!(more.addresses.values().collect::<Vec<_>>(), [&irdp::NEVER, &7]);
        let route = Tracked::Route { prefix: "0.0.0.0/0".parse().unwrap(), from: Some("bgp".to_owned()) };
        assert_eq!(more.track, [(route, Some(50)), (Tracked::Interface("wan0".to_owned()), None)]);

        let usual = six("").unwrap();
        assert_eq!(usual.times.interval, [200, 600].map(Duration::from_secs));
        assert_eq!((usual.says.lifetime, usual.own_prefixes), (1800, Some([VALID, PREFERRED])));
        let more = "lifetime = \"0s\"\nmtu = 1400\nprefixes = [{ prefix = \"2001:db8:1::1/64\", valid = \"1h\" }]\n\
                    routes = [{ prefix = \"2001:db8::/32\", preference = \"high\" }]\ndns = [\"2001:db8::53\"]\n\
                    search = [\"example.net\"]\npref64 = \"64:ff9b::/96\"\ncaptive_portal = \"https://portal.example.net/\"\n\
                    track = [{ route = \"::/0\", lower = \"low\" }]";
        let more = six(more).unwrap();
        assert_eq!((more.says.lifetime, more.own_prefixes, more.says.options.len()), (0, None, 7));
        let prefix = "2001:db8:1::/64".parse().unwrap();
        let (valid, preferred) = (3600, 3600);
        let prefix = RaOption::Prefix { prefix, on_link: true, autonomous: true, valid, preferred };
        assert_eq!(more.says.options[1], prefix);
        assert_eq!(more.track[0].1, Some(Preference::Low));
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        let prefixes = "{ prefix = \"2001:db8::/64\" },".repeat(17);
        let names: String = (0..40).map(|n| format!("\"a-rather-long-name-{n}.example.net\",")).collect();
        for (lines, message) in [
            ("interval = \"3s\"", "interval cannot be that"),
            ("interval = \"1500ms\"", "interval cannot be that"),
            ("interval = \"soon\"", "is no time"),
            ("lifetime = \"60s\"", "lifetime cannot be that"),
            ("mtu = 1279", "mtu is out of range"),
            ("preference = \"best\"", "unknown variant `best`"),
            ("prefixes = [{ prefix = \"2001:db8::/48\" }]", "hosts make no addresses"),
            (
                "prefixes = [{ prefix = \"2001:db8::/64\", valid = \"1h\", preferred = \"2h\" }]",
                "preferred cannot",
            ),
            (&format!("prefixes = [{prefixes}]"), "too many prefixes"),
            (&format!("search = [{names}]"), "more than fits"),
            ("search = [\"a..b\"]", "no name of a domain"),
            ("pref64 = \"64:ff9b::/95\"", "cannot be a prefix of NAT64"),
            ("captive_portal = \"ftp://x\"", "captive_portal cannot be"),
            ("dns = [\"ff02::1\"]", "is no host"),
            ("track = [{ lower = \"low\" }]", "one thing"),
            ("flags = 5", "unknown field `flags`"),
        ] {
            let refused = six(lines).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{lines}: {refused}");
        }
        for (lines, message) in [
            ("preference = 2147483648", "a preference is a whole number"),
            ("preference = \"best\"", "a preference is a whole number"),
            ("addresses = { \"fe80::1\" = 1 }", "invalid IPv4"),
            ("interval = \"1801s\"", "interval cannot be that"),
            ("lifetime = \"9001s\"", "lifetime cannot be that"),
            ("least_interval = \"2s\"", "least_interval cannot be that"),
        ] {
            let refused = four(lines).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{lines}: {refused}");
        }
        assert!(read(LAN).unwrap_err().contains("it says nothing"));
        let by = format!("{LAN}ipv4 = {{ vrrp = \"gate\" }}\n");
        let gate = "[vrrp.gate]\ninterface = \"eth1\"\nid = 7\naddresses = [\"192.0.2.1\"]\n";
        let elsewhere = gate.replace("eth1", "eth2");
        let six = gate.replace("192.0.2.1", "fe80::1");
        assert!(read(&format!("{by}{gate}")).is_ok());
        for wrong in ["", &elsewhere, &six] {
            let refused = read(&format!("{by}{wrong}")).unwrap_err();
            assert!(refused.contains("there is no [vrrp.gate] of IPv4 on eth1"), "{refused}");
        }
        let twice = format!("{LAN}ipv4 = {{}}\n{}ipv6 = {{}}", LAN.replace("lan", "dmz"));
        assert!(read(&twice).unwrap_err().contains("is for eth1 already"));
    }
}
