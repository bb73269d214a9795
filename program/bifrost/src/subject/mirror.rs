//! How well the plane's tables follow Linux's, what is not followed, and Linux's own copy of the
//! rules.

use ::mirror::Mirror;
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::command::table::Table;
use crate::daemon::Control;
use crate::screen::units::count;

/// How well the plane's tables follow Linux's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Where routes come from: `netlink` or `netlink+fpm`.
    pub source: String,
    /// Everything that was read is in the plane's tables.
    pub synced: bool,
    /// Interfaces known.
    pub links: u64,
    /// Addresses known.
    pub addresses: u64,
    /// Neighbours known.
    pub neighbours: u64,
    /// Next-hop objects known.
    pub next_hop_objects: u64,
    /// Routes by origin.
    pub routes: Vec<OriginCount>,
    /// Routes in tables that Bifrost does not use.
    pub unused_tables: Vec<UnusedTable>,
    /// IPv4 routing rules beyond Linux's defaults.
    pub rules_ipv4: u64,
    /// The same, IPv6.
    pub rules_ipv6: u64,
    /// The first of them, as `ip rule` writes them, their family before: `ipv4 100: from 10.0.0.0/8
    /// lookup 77`.
    pub rules: Vec<String>,
    /// Those of them that Bifrost does not follow, each with the reason in parentheses.
    #[serde(default)]
    pub rules_left: Vec<String>,
    /// What packets forwarded by Linux pass, and packets forwarded by Bifrost do not: chains of
    /// nftables (`inet filter forward`), tables of legacy iptables (`iptables filter`), filters of
    /// `tc` (`tc ingress eth0 (bpf)`), IPsec policies (`xfrm policy fwd 10.0.0.0/8 to
    /// 192.0.2.0/24`).
    pub filters: Vec<String>,
    /// Queueing disciplines that shape what Linux sends by ports, and not what Bifrost does: `tbf
    /// on eth0`.
    #[serde(default)]
    pub shapers: Vec<String>,
    /// Routes for some packets only, by source or type of service: what goes to their prefixes is
    /// left to Linux.
    #[serde(default)]
    pub restricted_routes: u64,
    /// Whether what these could touch is left to Linux; else it passes them by, as configured.
    #[serde(default)]
    pub filters_respected: bool,
    /// The families (`ipv4`, `ipv6`) for which nftables' chains are adopted: the plane judges as
    /// they do.
    #[serde(default)]
    pub filters_adopted: Vec<String>,
    /// What stands in the way of adopting them for a family, with the chain and the rule's handle.
    #[serde(default)]
    pub filters_not_adopted: Vec<String>,
    /// The same of routing rules.
    #[serde(default)]
    pub rules_respected: bool,
    /// Why Linux does not have the router's own filter and translation, which are to hold when the
    /// plane is gone; `null` while it has.
    pub filter_refused: Option<String>,
    /// How often Linux was given them again, because somebody had changed or removed its copy.
    #[serde(default)]
    pub filter_restored: u64,
    /// Netlink and FPM messages read.
    pub messages: u64,
    /// Times a netlink socket overflowed and everything was read again.
    pub overruns: u64,
    /// Routes that did not fit the plane's tables, left to Linux.
    pub not_programmed: u64,
    /// The comparison of the plane with Linux.
    pub audit: AuditStatus,
    /// The connection of FRR's zebra, when configured.
    pub fpm: Option<FpmStatus>,
}

/// Routes of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginCount {
    /// `kernel`, `static`, `bgp`, ...
    pub origin: String,
    /// IPv4 routes.
    pub ipv4: u64,
    /// IPv6 routes.
    pub ipv6: u64,
}

/// Routes of a table that Bifrost does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedTable {
    /// Linux's table number.
    pub table: u32,
    /// Its routes.
    pub routes: u64,
}

/// The continuous comparison of the plane's tables with Linux's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditStatus {
    /// Whole passes done.
    pub passes: u64,
    /// Differences found so far.
    pub differences: u64,
    /// Differences repaired so far.
    pub repaired: u64,
    /// Seconds since the last whole pass ended; absent before the first.
    pub last_pass_seconds_ago: Option<u64>,
}

/// The FPM connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FpmStatus {
    /// Address listened on.
    pub listen: String,
    /// A zebra is connected.
    pub connected: bool,
    /// Connections so far.
    pub connections: u64,
    /// Frames applied.
    pub frames: u64,
}

impl Subject for MirrorStatus {
    const NAME: &'static str = "mirror";
    const ABOUT: &'static str = "How well the plane's tables follow Linux's";

    fn answer(control: &mut Control) -> Result<Self, String> {
        Ok(status(control))
    }

    fn table(&self) -> String {
        let audit = &self.audit;
        let ago = audit
            .last_pass_seconds_ago
            .map_or("none ended yet".to_owned(), |s| format!("the last ended {s} s ago"));
        let mut text = format!(
            "source: {}, {}\nknown: {} links, {} addresses, {} neighbours, {} next-hop objects\n\
         messages: {}, overruns: {}, routes left to Linux: {}\n\
         audit: {} passes ({ago}), {} differences, {} repaired\n",
            self.source,
            if self.synced { "in step with Linux" } else { "catching up with Linux" },
            count(self.links),
            count(self.addresses),
            count(self.neighbours),
            count(self.next_hop_objects),
            count(self.messages),
            count(self.overruns),
            count(self.not_programmed),
            count(audit.passes),
            count(audit.differences),
            count(audit.repaired),
        );
        if let Some(fpm) = &self.fpm {
            let connected = if fpm.connected { "connected" } else { "nobody is connected" };
            text += &format!(
                "fpm: {connected} at {}, {} connections, {} frames\n",
                fpm.listen,
                count(fpm.connections),
                count(fpm.frames)
            );
        }
        for other in &self.unused_tables {
            text += &format!("table {}: {} routes, not used yet\n", other.table, count(other.routes));
        }
        if self.restricted_routes > 0 {
            text += &format!(
                "routes for some sources or types of service only: {}; what goes to their prefixes is left to Linux\n",
                count(self.restricted_routes)
            );
        }
        text += &self.rules_and_filters();
        if let Some(why) = &self.filter_refused {
            text += &format!(
                "Linux lacks the router's filter and translation: {}\n",
                why.lines().next().unwrap_or_default()
            );
        }
        if self.filter_restored > 0 {
            text += &format!(
                "Linux's copy of the filter and translation: changed by others, put back {} time(s)\n",
                count(self.filter_restored)
            );
        }
        let mut table = Table::new(&["routes by", ">ipv4", ">ipv6"]);
        for origin in &self.routes {
            table.row(vec![origin.origin.clone(), count(origin.ipv4), count(origin.ipv6)]);
        }
        text + &table.render()
    }
}

impl MirrorStatus {
    /// What becomes of Linux's routing rules, chains and queueing disciplines, a line each.
    fn rules_and_filters(&self) -> String {
        let mut text = String::new();
        let done = |respected: bool| match respected {
            true => "what it could touch is left to Linux",
            false => "passed by, as configured",
        };
        for rule in &self.rules {
            let left = self.rules_left.iter().find(|left| left.starts_with(rule.as_str()));
            text += &match left {
                Some(left) => format!("routing rule {left}: {}\n", done(self.rules_respected)),
                None if self.rules_respected => format!("routing rule {rule}: followed\n"),
                None => format!("routing rule {rule}: {}\n", done(false)),
            };
        }
        let others = (self.rules_ipv4 + self.rules_ipv6).saturating_sub(self.rules.len() as u64);
        if others > 0 {
            text += &format!("routing rules: {} more\n", count(others));
        }
        for filter in &self.filters {
            let adopted = self.adopted(filter).map(|families| format!("adopted for {families}"));
            text += &format!(
                "filter {filter}: {}\n",
                adopted.unwrap_or_else(|| done(self.filters_respected).to_owned())
            );
        }
        for why in &self.filters_not_adopted {
            text += &format!("not adopted: {why}\n");
        }
        for shaper in &self.shapers {
            text += &format!("queueing discipline {shaper}: does not shape what Bifrost forwards\n");
        }
        text
    }

    /// For which families a chain is adopted, in words; `None`: for none that it sees.
    fn adopted(&self, filter: &str) -> Option<String> {
        let sees = match filter.split(' ').next()? {
            "ip" => &["ipv4"][..],
            "ip6" => &["ipv6"],
            "inet" => &["ipv4", "ipv6"],
            _ => return None,
        };
        let (adopted, left): (Vec<&str>, Vec<&str>) =
            sees.iter().partition(|family| self.filters_adopted.iter().any(|adopted| adopted == *family));
        let left = match left.as_slice() {
            [] => String::new(),
            left => format!("; {} is left to Linux", left.join(" and ")),
        };
        (!adopted.is_empty()).then(|| adopted.join(" and ") + &left)
    }
}

/// The mirror, with what is not mirrored and with Linux's copy of the rules.
fn status(control: &Control) -> MirrorStatus {
    let Control { forwarding, parts, .. } = control;
    let status = forwarding.mirror.status();
    let model = forwarding.mirror.model();
    let audit = status.audit.as_ref();
    MirrorStatus {
        source: status.source.to_owned(),
        synced: status.ready,
        links: model.links.iter().count() as u64,
        addresses: model.addresses().count() as u64,
        neighbours: status.neighbours as u64,
        next_hop_objects: status.next_hop_objects as u64,
        routes: origins(&forwarding.mirror),
        unused_tables: status
            .other_tables
            .iter()
            .map(|(table, routes)| UnusedTable { table: *table, routes: *routes as u64 })
            .collect(),
        rules_ipv4: status.rules_ipv4 as u64,
        rules_ipv6: status.rules_ipv6 as u64,
        rules: status.rules,
        rules_left: parts.ports.foreign.beyond.rules.clone(),
        filters: parts.ports.foreign.beyond.all_filters(),
        shapers: (parts.ports.foreign.beyond.shapers.iter())
            .map(|(interface, kind)| format!("{kind} on {interface}"))
            .collect(),
        restricted_routes: status.restricted as u64,
        filters_respected: forwarding.router.linux_filter != config::Foreign::Ignore,
        filters_adopted: (["ipv4", "ipv6"].into_iter().zip(forwarding.firewall.families))
            .filter(|(_, adopted)| *adopted)
            .map(|(family, _)| family.to_owned())
            .collect(),
        filters_not_adopted: (parts.ports.firewall.problems.iter().map(ToString::to_string))
            .chain(parts.ports.firewall.refused.clone())
            .collect(),
        rules_respected: forwarding.router.linux_rules == config::Foreign::Respect,
        filter_refused: parts.fallback.refused(),
        filter_restored: parts.fallback.restored(),
        messages: status.messages,
        overruns: status.overflows,
        not_programmed: status.missing as u64,
        audit: AuditStatus {
            passes: audit.map_or(0, |audit| audit.rounds),
            differences: audit.map_or(0, |audit| audit.differences),
            repaired: audit.map_or(0, |audit| audit.differences),
            last_pass_seconds_ago: audit.and_then(|audit| audit.last_seconds_ago),
        },
        fpm: status.fpm.as_ref().map(|fpm| FpmStatus {
            listen: forwarding.mirror.fpm_address().map(|address| address.to_string()).unwrap_or_default(),
            connected: fpm.state != "away",
            connections: fpm.connections,
            frames: fpm.frames,
        }),
    }
}

/// How many routes there are by who made them. With FPM, what zebra does not tell (kernel's and
/// connected routes) still comes from netlink.
pub(crate) fn origins(mirror: &Mirror) -> Vec<OriginCount> {
    let status = mirror.status();
    let origin = |count: &mirror::OriginCount| OriginCount {
        origin: count.origin.clone(),
        ipv4: count.ipv4 as u64,
        ipv6: count.ipv6 as u64,
    };
    if status.source == "netlink" {
        return status.origins.iter().map(origin).collect();
    }
    let mut routes: Vec<OriginCount> = status.fpm_origins.iter().map(origin).collect();
    let told: Vec<String> = routes.iter().map(|count| count.origin.clone()).collect();
    routes.extend(status.origins.iter().filter(|count| !told.contains(&count.origin)).map(origin));
    routes
}
