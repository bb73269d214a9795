//! What Linux does to forwarded packets beyond its routes: routing rules (`ip rule`) that choose
//! other tables, which can be followed for the most part ([`crate::rules`]); filters (nftables,
//! legacy iptables, `tc`) and IPsec policies on a forwarded packet's way through Linux; and
//! queueing disciplines that shape what leaves.
//!
//! What is not followed must never be a surprise, least of all where a rule is there to drop
//! packets: so what is there is shown by `show mirror`, and with it which packets it could touch
//! ([`Reach`]): those are left to Linux, unless the operator wants otherwise.
//!
//! Rules, what `tc` has made and IPsec policies are read again, whole, when Linux tells that one
//! changed. nftables is not listened to, because its notifications carry every element of every
//! set: its generation is asked for once a second, and its chains are read when that moved. A chain
//! without rules whose policy is to accept, as distributions ship it, is passed over. A system
//! without nftables has none to show; it is asked seldom, because Linux looks for the module each
//! time.

use crate::netlink::request;
mod traffic;

use crate::netlink::rule::RuleMessage;
use crate::netlink::socket::{self, Dump, IpsecChanges, Netfilter};
use crate::netlink::{self, netfilter, rule, tc, xfrm};
use crate::rules::{self, Rule, RuleList};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use traffic::{Filters, Hook, Traffic};

/// Rules of a family that are told with their text; the others are counted.
const LISTED: usize = 16;
/// The number of table `local`.
const LOCAL: u32 = 255;
/// Pause between two questions for nftables' generation.
const LOOK: Duration = Duration::from_millis(500);
/// The same where there is no nftables, or it may not be asked.
const LOOK_IN_VAIN: Duration = Duration::from_secs(60);

/// Which packets something of Linux's could touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Those of IPv4, of IPv6, whatever they come in by.
    pub all: [bool; 2],
    /// By the interface that they come in by.
    pub inputs: BTreeMap<String, [bool; 2]>,
}

impl Reach {
    /// Whether it reaches packets of IPv4, of IPv6, that come in by an interface.
    pub fn of(&self, input: &str) -> [bool; 2] {
        union(self.all, self.inputs.get(input).copied().unwrap_or_default())
    }

    /// Whether it reaches packets that another one does not.
    pub fn exceeds(&self, other: &Reach) -> bool {
        let beyond = |own: [bool; 2], other: [bool; 2]| (0..2).any(|n| own[n] && !other[n]);
        beyond(self.all, other.all)
            || self.inputs.iter().any(|(input, families)| beyond(*families, other.of(input)))
    }

    /// The families of which it reaches some.
    pub fn families(&self) -> [bool; 2] {
        self.inputs.values().fold(self.all, |families, some| union(families, *some))
    }

    /// Adds packets of families that come in by the interfaces `inputs`; where none is named, all.
    pub fn add(&mut self, families: [bool; 2], inputs: &[String]) {
        if inputs.is_empty() {
            self.all = union(self.all, families);
        }
        for input in inputs {
            let had = self.inputs.entry(input.clone()).or_default();
            *had = union(*had, families);
        }
    }

    /// What it reaches but for families.
    #[must_use]
    pub fn without(self, families: [bool; 2]) -> Reach {
        let left = |[four, six]: [bool; 2]| [four && !families[0], six && !families[1]];
        let inputs = self.inputs.into_iter().map(|(input, reached)| (input, left(reached)));
        Reach { all: left(self.all), inputs: inputs.filter(|(_, reached)| *reached != [false; 2]).collect() }
    }

    /// What either reaches.
    #[must_use]
    pub fn or(mut self, other: &Reach) -> Reach {
        self.all = union(self.all, other.all);
        other.inputs.iter().for_each(|(input, families)| self.add(*families, std::slice::from_ref(input)));
        self
    }
}

/// Families of one or the other.
pub fn union(one: [bool; 2], other: [bool; 2]) -> [bool; 2] {
    [one[0] || other[0], one[1] || other[1]]
}

/// What Linux does to packets that it forwards beside routing them by its tables `local` and
/// `main`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Chains of nftables (`inet filter forward`), which can be adopted.
    pub chains: Vec<String>,
    /// Filters that cannot: tables of legacy iptables (`iptables filter`), filters of `tc` (`tc
    /// ingress eth0 (bpf)`), programs (`tcx ingress eth0`) and IPsec policies (`xfrm policy fwd
    /// 10.0.0.0/8 to 192.0.2.0/24`).
    pub filters: Vec<String>,
    /// What the chains could touch.
    pub chained: Reach,
    /// What the other filters could touch.
    pub filtered: Reach,
    /// Whether chains see what comes for this machine or leaves it, of IPv4, of IPv6: so they see
    /// the headers of tunnels.
    pub own: [bool; 2],
    /// Chains of nftables and tables of legacy ebtables that see what is routed from a bridge or to
    /// it (`bridge filter input`).
    pub bridged: Vec<String>,
    /// Routing rules that the plane does not follow, as `ip rule` writes them, and why; the first
    /// of many.
    pub rules: Vec<String>,
    /// What they could touch.
    pub ruled: Reach,
    /// Those that it can follow.
    pub followed: [RuleList; 2],
    /// Queueing disciplines that shape what Linux sends: the interface, and what it is (`tbf`).
    pub shapers: Vec<(String, String)>,
    /// What is at an interface's way out, which nothing else than what leaves by it meets.
    leaving: Vec<(String, String, [bool; 2])>,
}

impl Beyond {
    /// The chains, and the other filters.
    pub fn all_filters(&self) -> Vec<String> {
        [self.chains.as_slice(), &self.filters].concat()
    }

    /// With a program that stands at an interface's way in or out by tcx, which netlink does not
    /// tell. At the way out of a port only.
    pub fn add_program(&mut self, interface: &str, egress: bool) {
        let way = if egress { "egress" } else { "ingress" };
        self.filters.push(format!("tcx {way} {interface}"));
        let inputs = [interface.to_owned()];
        self.filtered.add([true; 2], if egress { &[] } else { &inputs });
    }

    /// What concerns a router with these ports. What leaves by another interface is Linux's in any
    /// case.
    #[must_use]
    pub fn of_ports(mut self, is_port: impl Fn(&str) -> bool) -> Beyond {
        self.shapers.retain(|(interface, _)| is_port(interface));
        for (_, words, families) in self.leaving.drain(..).filter(|(interface, ..)| is_port(interface)) {
            self.filters.push(words);
            self.filtered.add(families, &[]);
        }
        self
    }
}

/// Asks Linux once, for whoever has no mirror. What it does not tell is not there.
pub fn survey() -> Beyond {
    let now = Instant::now();
    let mut policy = Policy::new(now);
    policy.tick(now, now + SURVEY);
    policy.beyond()
}

/// How long it may take to ask once.
const SURVEY: Duration = Duration::from_secs(5);

/// What is read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Rules { ipv6: bool },
    Chains,
    Qdiscs,
    Traffic(Hook),
    Ipsec,
}

/// See the module's description.
pub(crate) struct Policy {
    rules: [Rules; 2],
    /// The tables that rules look into, and whether some pass over default routes.
    tables: BTreeSet<u32>,
    no_defaults: [bool; 2],
    /// Rules that are read to compare them.
    audits: [bool; 2],
    /// They were read, and nobody has been told.
    pub news: bool,
    chains: Vec<String>,
    chained: Reach,
    own: [bool; 2],
    bridged: Vec<String>,
    legacy: Vec<String>,
    legacy_bridged: Vec<String>,
    traffic: Traffic,
    ipsec: Ipsec,
    ipsec_changes: Option<IpsecChanges>,
    due: VecDeque<What>,
    reading: Option<(What, Dump, Found)>,
    netfilter: Option<Netfilter>,
    generation: Option<u32>,
    /// The generation in which chains were read.
    chains_of: Option<u32>,
    look: Instant,
    /// All has been read, or could not be.
    known: bool,
}

/// Rules of one family that are not Linux's defaults.
#[derive(Default)]
pub(crate) struct Rules {
    /// How many.
    pub count: usize,
    /// The first of them, by priority.
    pub first: Vec<String>,
    /// All that Linux has.
    messages: Vec<RuleMessage>,
    /// The place of the rule that leads to table `local`.
    local: Option<u32>,
    /// That of the rule that leads to VRFs' tables.
    vrfs: Option<u32>,
}

/// What a dump told so far.
#[derive(Default)]
struct Found {
    rules: Rules,
    tables: Vec<u32>,
    chains: Vec<String>,
    chained: Reach,
    own: [bool; 2],
    bridged: Vec<String>,
    qdiscs: Vec<tc::Qdisc>,
    traffic: Filters,
    ipsec: Ipsec,
}

/// IPsec policies that forwarded packets meet.
#[derive(Default)]
struct Ipsec {
    /// The first of them.
    first: Vec<String>,
    count: usize,
    families: [bool; 2],
    /// In which directions what has no policy is dropped.
    blocks: Vec<&'static str>,
}

impl Policy {
    pub fn new(now: Instant) -> Policy {
        let mut policy = Policy {
            rules: Default::default(),
            tables: BTreeSet::new(),
            no_defaults: [false; 2],
            audits: [false; 2],
            news: false,
            chains: Vec::new(),
            chained: Reach::default(),
            own: [false; 2],
            bridged: Vec::new(),
            legacy: Vec::new(),
            legacy_bridged: Vec::new(),
            traffic: Traffic::default(),
            ipsec: Ipsec::default(),
            ipsec_changes: IpsecChanges::open().ok(),
            due: VecDeque::new(),
            reading: None,
            netfilter: None,
            generation: None,
            chains_of: None,
            look: now,
            known: false,
        };
        policy.rules_changed();
        policy.traffic_changed();
        policy.wants(What::Ipsec);
        policy
    }

    /// A rule came or went, or messages were lost: they are read again.
    pub fn rules_changed(&mut self) {
        for ipv6 in [true, false] {
            // Before all else: traffic goes by them.
            self.due.retain(|what| *what != What::Rules { ipv6 });
            self.due.push_front(What::Rules { ipv6 });
        }
    }

    /// Rules are read again though nothing was heard of them.
    pub fn audit_rules(&mut self) {
        if !self.rules_are_due() {
            self.audits = [true; 2];
            self.rules_changed();
        }
    }

    /// A queueing discipline or a filter of `tc` came or went: they are read again.
    pub fn traffic_changed(&mut self) {
        self.wants(What::Qdiscs);
    }

    fn wants(&mut self, what: What) {
        if !self.due.contains(&what) {
            self.due.push_back(what);
        }
    }

    /// Routing rules beyond those that Linux starts with, IPv4 and IPv6.
    pub fn rules(&self) -> &[Rules; 2] {
        &self.rules
    }

    /// Whether Linux looks into table `local` before that of a VRF, for IPv4 and IPv6.
    pub fn local_first(&self) -> [bool; 2] {
        [0, 1].map(|family| match (self.rules[family].local, self.rules[family].vrfs) {
            (Some(local), Some(vrfs)) => local < vrfs,
            _ => true,
        })
    }

    /// Whether Linux's rules lead to VRFs' tables, for each family that has rules.
    pub fn leads_to_vrfs(&self) -> bool {
        let leads = |rules: &Rules| rules.vrfs.is_some() || rules.local.is_none();
        self.rules[0].vrfs.is_some() && self.rules.iter().all(leads)
    }

    /// Whether all has been read once.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// All that is there.
    pub fn beyond(&self) -> Beyond {
        let mut filtered = Reach::default();
        for table in &self.legacy {
            let ipv6 = table.starts_with("ip6");
            filtered.add([!ipv6, ipv6], &[]);
        }
        let mut filters = self.legacy.to_vec();
        let mut leaving = Vec::new();
        for hook in self.traffic.hooks() {
            if hook.egress {
                leaving.push((hook.interface, hook.words, hook.families));
            } else {
                filtered.add(hook.families, &[hook.interface]);
                filters.push(hook.words);
            }
        }
        filtered.add(self.ipsec.families, &[]);
        filters.extend(self.ipsec.in_words());
        let marks = !self.chains.is_empty() || !filters.is_empty() || !leaving.is_empty();
        let [four, six] =
            [false, true].map(|ipv6| rules::understand(&self.rules[usize::from(ipv6)].messages, ipv6, marks));
        let first = |list: &RuleList| {
            let words = list.left.iter().take(LISTED).map(|(rule, why)| format!("{rule} ({why})"));
            words.collect::<Vec<_>>()
        };
        Beyond {
            chains: self.chains.clone(),
            filters,
            chained: self.chained.clone(),
            filtered,
            own: self.own,
            bridged: self.bridged.iter().chain(&self.legacy_bridged).cloned().collect(),
            rules: first(&four).into_iter().chain(first(&six)).collect(),
            ruled: four.leaves.clone().or(&six.leaves),
            followed: [four, six],
            shapers: self.traffic.shapers().to_vec(),
            leaving,
        }
    }

    /// The generation of nftables that its chains were read in.
    pub fn nftables(&self) -> Option<u32> {
        self.chains_of
    }

    /// Whether rules changed that have not been read yet.
    pub fn rules_are_due(&self) -> bool {
        let of_rules = |what: &What| matches!(what, What::Rules { .. });
        self.due.iter().any(of_rules) || self.reading.as_ref().is_some_and(|(what, ..)| of_rules(what))
    }

    /// The tables that rules look into, beside `main`.
    pub fn tables(&self) -> BTreeSet<u32> {
        self.tables.clone()
    }

    /// Whether rules may pass over default routes, of IPv4 and IPv6.
    pub fn no_defaults(&self) -> [bool; 2] {
        self.no_defaults
    }

    /// Looks whether something changed, and reads what did, until `deadline`.
    pub fn tick(&mut self, now: Instant, deadline: Instant) {
        if now >= self.look {
            self.look(now);
        }
        while self.step(deadline) {}
    }

    /// Reads the rules that changed, until `deadline`.
    pub fn read_rules(&mut self, deadline: Instant) {
        while self.rules_are_due() && self.step(deadline) {}
    }

    /// One piece; whether there is more to read, and time for it.
    fn step(&mut self, deadline: Instant) -> bool {
        match self.read() {
            Ok(more) => {
                self.known |= !more;
                more && Instant::now() < deadline
            }
            Err(error) => {
                self.known = true;
                tracing::debug!(%error, "cannot read what Linux does beyond routes; it is read again later");
                self.generation = None;
                self.due.extend(self.reading.take().map(|(what, ..)| what));
                false
            }
        }
    }

    fn look(&mut self, now: Instant) {
        self.legacy = legacy_tables();
        self.legacy_bridged = legacy_bridge_tables().collect();
        if self.ipsec_changes.as_mut().is_some_and(IpsecChanges::any) {
            self.wants(What::Ipsec);
        }
        let generation = self.ask_generation();
        self.look = now + if generation.is_ok() { LOOK } else { LOOK_IN_VAIN };
        match generation {
            Ok(generation) if self.generation == Some(generation) => {}
            Ok(generation) => {
                self.generation = Some(generation);
                self.wants(What::Chains);
            }
            Err(error) => {
                tracing::debug!(%error, "cannot ask for nftables' chains");
                self.netfilter = None;
            }
        }
    }

    fn ask_generation(&mut self) -> io::Result<u32> {
        if self.netfilter.is_none() {
            self.netfilter = Some(Netfilter::open()?);
        }
        let Some(netfilter) = &mut self.netfilter else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        netfilter.generation()
    }

    /// One piece; whether there is more to read.
    fn read(&mut self) -> io::Result<bool> {
        let Some((what, dump, found)) = &mut self.reading else {
            let Some(&what) = self.due.front() else {
                return Ok(false);
            };
            let dump = match what {
                What::Rules { ipv6 } => Dump::rules(ipv6)?,
                What::Chains => Dump::chains()?,
                What::Qdiscs => Dump::qdiscs()?,
                What::Traffic(hook) => Dump::traffic_filters(hook.ifindex, hook.egress)?,
                What::Ipsec => match Dump::ipsec() {
                    Ok(dump) => dump,
                    Err(error) => {
                        tracing::debug!(%error, "Linux has no IPsec");
                        self.due.pop_front();
                        return Ok(true);
                    }
                },
            };
            self.due.pop_front();
            self.reading = Some((what, dump, Found::default()));
            return Ok(true);
        };
        for message in netlink::messages(dump.receive()?) {
            match i32::from(message.kind) {
                libc::NLMSG_DONE => {
                    let (what, found) = (*what, std::mem::take(found));
                    self.reading = None;
                    self.take_over(what, found);
                    return Ok(true);
                }
                // A Linux built without: it has none, of this family.
                libc::NLMSG_ERROR => {
                    tracing::debug!(error = %netlink::error(&message), ?what, "Linux does not tell");
                    self.reading = None;
                    return Ok(true);
                }
                _ => found.take_in(message.kind, message.body),
            }
        }
        Ok(true)
    }

    fn take_over_rules(&mut self, ipv6: bool, rules: Rules) {
        let family = usize::from(ipv6);
        let had = std::mem::replace(&mut self.rules[family], rules);
        let audited = std::mem::take(&mut self.audits[family]);
        if audited && self.known && had.messages != self.rules[family].messages {
            tracing::warn!(ipv6, "routing rules differed from Linux's, and are as Linux has them now");
        }
        let lists =
            [false, true].map(|ipv6| rules::understand(&self.rules[usize::from(ipv6)].messages, ipv6, false));
        self.tables = lists.iter().flat_map(|list| &list.tables).copied().collect();
        self.no_defaults = lists.map(|list| list.rules.iter().any(Rule::passes_over_defaults));
    }

    fn take_over(&mut self, what: What, found: Found) {
        match what {
            What::Rules { ipv6 } => {
                self.take_over_rules(ipv6, found.rules(ipv6));
                self.news = true;
            }
            What::Chains => {
                (self.chains, self.chained, self.own) = (found.chains, found.chained, found.own);
                (self.bridged, self.chains_of) = (found.bridged, self.generation);
            }
            What::Qdiscs => {
                let hooks = self.traffic.set_qdiscs(&found.qdiscs);
                hooks.into_iter().for_each(|hook| self.wants(What::Traffic(hook)));
            }
            What::Traffic(hook) => self.traffic.set_filters(hook, found.traffic),
            What::Ipsec => {
                self.ipsec = found.ipsec;
                // A Linux before 5.14 does not know of it.
                self.ipsec.block(socket::ipsec_blocks().unwrap_or_default());
            }
        }
    }
}

impl Found {
    fn take_in(&mut self, kind: u16, body: &[u8]) {
        match kind {
            netfilter::CHAIN => {
                let Some(chain) = netfilter::parse_chain(body) else { return };
                if chain.concerns_bridges() {
                    self.bridged.push(format!("{} {} {}", chain.family, chain.table, chain.name));
                }
                if chain.concerns_this_machine() {
                    self.own = union(self.own, chain.families());
                }
                if chain.concerns_forwarding() {
                    self.chains.push(format!("{} {} {}", chain.family, chain.table, chain.name));
                    self.chained.add(chain.families(), chain.inputs());
                }
            }
            tc::RTM_NEWQDISC => self.qdiscs.extend(tc::parse_qdisc(body)),
            tc::RTM_NEWTFILTER => {
                tc::parse_filter(body).into_iter().for_each(|filter| self.traffic.add(filter))
            }
            xfrm::XFRM_MSG_NEWPOLICY => xfrm::parse(body).into_iter().for_each(|one| self.ipsec.add(one)),
            request::RTM_NEWRULE => {
                let Some(rule) = rule::parse(body) else { return };
                if rule.is_default() {
                    if rule.table() == Some(LOCAL) {
                        self.rules.local = Some(rule.priority);
                    }
                    self.tables.extend(rule.table());
                } else if rule.leads_to_vrfs() {
                    self.rules.vrfs = Some(rule.priority);
                } else if !rule.own_packets() {
                    self.add(rule.to_string());
                }
                self.rules.messages.push(rule);
            }
            _ => {}
        }
    }

    fn add(&mut self, rule: String) {
        self.rules.count += 1;
        if self.rules.first.len() < LISTED {
            self.rules.first.push(rule);
        }
    }

    /// The rules found; a default one that is not there is as notable as one more.
    fn rules(mut self, ipv6: bool) -> Rules {
        let family = if ipv6 { "ipv6" } else { "ipv4" };
        for (priority, table, name) in [(0, LOCAL, "local"), (32766, 254, "main")] {
            if !self.tables.contains(&table) {
                self.add(format!("{family} {priority}: from all lookup {name} (missing)"));
            }
        }
        self.rules
    }
}

impl Ipsec {
    fn block(&mut self, directions: Vec<&'static str>) {
        self.families = union(self.families, [!directions.is_empty(); 2]);
        self.blocks = directions;
    }

    fn add(&mut self, policy: xfrm::Policy) {
        self.count += 1;
        self.families[usize::from(policy.ipv6)] = true;
        if self.first.len() < LISTED {
            self.first.push(format!("xfrm policy {}", policy.words));
        }
    }

    fn in_words(&self) -> impl Iterator<Item = String> {
        let more = self.count - self.first.len();
        let more = (more > 0).then(|| format!("xfrm policies: {more} more"));
        let blocks = self.blocks.iter().map(|direction| format!("xfrm policy default block {direction}"));
        self.first.iter().cloned().chain(more).chain(blocks)
    }
}

/// The tables of legacy ebtables that Linux has loaded. Whether they are empty it tells only who
/// would have it load them.
fn legacy_bridge_tables() -> impl Iterator<Item = String> {
    let loaded = |table: &&str| Path::new("/sys/module").join(format!("ebtable_{table}")).exists();
    ["broute", "nat", "filter"].into_iter().filter(loaded).map(|table| format!("ebtables {table}"))
}

/// The tables of legacy iptables that are in use. Linux makes them when they are first asked for.
fn legacy_tables() -> Vec<String> {
    let mut found = Vec::new();
    for (file, program) in [("ip_tables_names", "iptables"), ("ip6_tables_names", "ip6tables")] {
        let names = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        found.extend(names.lines().map(|name| format!("{program} {name}")));
    }
    found
}
