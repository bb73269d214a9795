//! The filter for Linux: the same rules as nftables text, for what never comes to the plane and for
//! when there is no plane.
//!
//! One table of Bifrost's own, `inet bifrost`, whose text begins by deleting the one before: `nft
//! -f` takes it whole or not at all, in one transaction, and no packet meets half a filter.
//!
//! **Where the chains stand.** *input* is all that comes in by a port before it is routed, so it
//! stands at the kernel's `prerouting`, behind connection tracking and before address translation
//! (priority -150): transit and the router's own packets pass it, as they do in the plane's driver
//! and graph. *forward* stands at `forward`. *output* is all that leaves by a port; `postrouting`
//! would see just that, but nothing can be rejected there, so it stands at `forward` (behind the
//! chain forward) and at `output` (the router's own packets), before source translation at both.
//! Only Bifrost's ports are filtered, as in the plane: what other interfaces (and the loopback)
//! carry, passes.
//!
//! **In VRFs.** What comes in by a member of a VRF passes Linux's `prerouting` twice, by the member
//! and then by the VRF's device, and its other chains by the device alone. At `forward` Linux still
//! tells the member apart (`meta sdifname`), but nowhere else, and nftables takes no chain that
//! asks for it elsewhere. So where there are VRFs every chain for transit stands there a second
//! time, for their packets, with the member's name where the interface's was. What passes by the
//! device itself has been judged, or will be, by the member.
//!
//! **What is alike.** Addresses, sets (one for each family), ports, protocols, TCP flags, ICMP
//! types, code points, lengths, interfaces, marks and times in UTC are the same comparisons. States
//! are those of conntrack, rates nftables' own token buckets (of each source: a dynamic set of the
//! same size), policers a limit that drops, logs go to the kernel's log. A rule that does more than
//! decide jumps to a small chain of its own, so that its match stands once; and rates have names,
//! for a rule may come to several lines (of two families, or of states that the kernel knows
//! otherwise): a rate is one, and used up once.
//!
//! **What is not.** Conntrack puts fragments together before anything here sees them, so nothing
//! can ask for them; and a local time of day would be wrong after the next change of summer time. A
//! rule that asks for these is refused, unless it (or the configuration) says which way to err:
//! *open*, accepting rules are widened and dropping ones left out; *closed*, the other way round.
//! Jumps cannot err one way, so they have to be written without. (Where no rule asks for a state,
//! Linux need not track connections, and fragments come one by one: as in the plane, later ones
//! show neither ports nor flags nor types.)

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use wire::IcmpError;

use crate::matches::{asks_for_states, lines_of_states};
use crate::model::*;
use crate::set::Set;

/// The name of the table, in family inet.
pub const TABLE: &str = "bifrost";
/// Chains that may jump to each other in a row; the kernel's own limit is 16, of which a rule's own
/// chain takes one.
const DEEPEST: usize = 14;
/// Elements that stand on one line.
const ON_A_LINE: usize = 16;

/// What a rate and its burst may come to: Linux reckons in billionths of them. That is 147 Gbit/s,
/// and more than Linux forwards.
const MOST_BYTES: u64 = u64::MAX / 1_000_000_000;

/// SYN alone of these opens a connection of TCP.
pub(crate) const FLAGS: &str = "tcp flags & (fin | syn | rst | ack)";
/// True of what shows its upper layer's header. Linux's short way of loading one, two or four bytes
/// takes the data of a later fragment for that header; loading three goes the long way, which does
/// not.
const SHOWN: &str = "@th,0,24 >= 0";

/// What comes by the device of a VRF, and what does not.
const OF_VRF: &str = "meta iifkind \"vrf\"";
const NOT_OF_VRF: &str = "meta iifkind != \"vrf\"";
/// What leaves by the device of a VRF: it will leave by a member, and comes here again then.
const BY_VRF: &str = "meta oifkind \"vrf\"";

/// As what Linux shows chains the interface that a packet came in by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// As the one it came in by.
    Interface,
    /// As the member of a VRF that it came in by, at `forward`.
    Member,
}

impl Sight {
    /// What the names of chains begin with.
    fn prefix(self) -> &'static str {
        if self == Sight::Interface { "c_" } else { "v_" }
    }
}

/// A rule that the kernel's filter cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}\n  the kernel's filter cannot express {what}; {advice}")]
pub struct Inexpressible {
    /// The rule.
    pub rule: RuleId,
    /// It and where it stands.
    pub text: String,
    /// What of it.
    pub what: &'static str,
    /// What to do.
    pub advice: &'static str,
}

const CHOOSE: &str =
    "say \"kernel open\" or \"kernel closed\" in the rule, for which way to err when the plane is gone";

impl Filter {
    /// The filter as text for `nft -f`. `ports`: the interfaces it is for (names, or patterns with
    /// a trailing `*`); `fallback`: what is done with rules that the kernel cannot express and that
    /// don't say themselves; `pickup`: whether a TCP connection that is met in mid-stream is new,
    /// as Linux has it, or invalid.
    ///
    /// # Errors
    /// All rules that cannot be expressed and have no such choice.
    pub fn nftables(
        &self,
        ports: &[String],
        fallback: Option<Fallback>,
        pickup: bool,
    ) -> Result<String, Vec<Inexpressible>> {
        self.write(ports, fallback, pickup, false)
    }

    /// As [`Filter::nftables`], where some of the interfaces are members of VRFs.
    ///
    /// # Errors
    /// As there.
    pub fn nftables_with_vrfs(
        &self,
        ports: &[String],
        fallback: Option<Fallback>,
        pickup: bool,
    ) -> Result<String, Vec<Inexpressible>> {
        self.write(ports, fallback, pickup, true)
    }

    fn write(
        &self,
        ports: &[String],
        fallback: Option<Fallback>,
        pickup: bool,
        vrfs: bool,
    ) -> Result<String, Vec<Inexpressible>> {
        let mut writer = Writer {
            filter: self,
            fallback,
            pickup,
            sight: Sight::Interface,
            in_pieces: self.rules().all(|(_, rule)| !asks_for_states(&rule.matches)),
            first_rules: self.first_rules(),
            sets: BTreeMap::new(),
            rates: BTreeMap::new(),
            own_chains: BTreeMap::new(),
            wrong: Vec::new(),
        };
        writer.depth();
        let mut chains = String::new();
        for (number, chain) in self.chains.iter().enumerate() {
            chains += &writer.chain(number, chain);
        }
        if vrfs {
            writer.sight = Sight::Member;
            for (number, chain) in self.chains.iter().enumerate().filter(|(n, _)| *n != Hook::Input as usize)
            {
                chains += &writer.chain(number, chain);
            }
        }
        if !writer.wrong.is_empty() {
            return Err(writer.wrong);
        }
        let mut text = format!("add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
        for (name, set) in &writer.sets {
            text += &elements(name, set);
        }
        text.extend(writer.rates.into_values());
        text += &chains;
        text.extend(writer.own_chains.into_values());
        text += &self.hooks(ports, vrfs);
        text += "}\n";
        Ok(text)
    }

    /// The base chains.
    fn hooks(&self, ports: &[String], vrfs: bool) -> String {
        let names: Vec<String> = ports.iter().map(|name| format!("\"{name}\"")).collect();
        let names = names.join(", ");
        let by = |key: &str| match ports {
            [] => format!("{key} != \"lo\""),
            _ => format!("{key} {{ {names} }}"),
        };
        let (input, output, member) = (&by("iifname"), &by("oifname"), &by("meta sdifname"));
        let mut text = String::new();
        let bases = [
            ("at_prerouting", "prerouting", -150, OF_VRF, [input, input], Hook::Input),
            ("at_forward", "forward", 0, "", [input, member], Hook::Forward),
            ("at_forward_out", "forward", 10, BY_VRF, [output, output], Hook::Output),
            ("at_output", "output", 10, BY_VRF, [output, output], Hook::Output),
        ];
        for (name, hook, priority, past, [plain, in_vrf], chain) in bases {
            let _ = writeln!(text, "\tchain {name} {{");
            let _ = writeln!(text, "\t\ttype filter hook {hook} priority {priority}; policy accept;");
            if vrfs && !past.is_empty() {
                let _ = writeln!(text, "\t\t{past} accept");
            }
            let own = format!("{NOT_OF_VRF} {plain}");
            let ways = match vrfs && hook == "forward" {
                true => vec![(own, Sight::Interface), (format!("{OF_VRF} {in_vrf}"), Sight::Member)],
                false => vec![(plain.clone(), Sight::Interface)],
            };
            for (condition, sight) in ways {
                let _ = writeln!(text, "\t\t{condition} jump {}{}", sight.prefix(), chain.name());
                if self.hook(chain).policy == Policy::Drop {
                    let _ =
                        writeln!(text, "\t\t{condition} counter drop comment \"policy of {}\"", chain.name());
                }
            }
            text += "\t}\n";
        }
        text
    }
}

/// Text of a set with its elements.
fn elements(name: &str, set: &Written) -> String {
    let (kind, ranges) = match set {
        Written::Four(set) => ("ipv4_addr", ranges(set, false)),
        Written::Six(set) => ("ipv6_addr", ranges(set, true)),
    };
    let mut text = format!("\tset {name} {{\n\t\ttype {kind}; flags interval;\n");
    if !ranges.is_empty() {
        let lines: Vec<String> = ranges.chunks(ON_A_LINE).map(|line| line.join(", ")).collect();
        let _ = writeln!(text, "\t\telements = {{ {} }}", lines.join(",\n\t\t\t"));
    }
    text + "\t}\n"
}

/// The ranges of one family.
pub(crate) fn ranges(set: &Set, six: bool) -> Vec<String> {
    match six {
        false => set.ranges4().iter().map(|&(a, b)| range(Ipv4Addr::from(a), Ipv4Addr::from(b))).collect(),
        true => set.ranges6().iter().map(|&(a, b)| range(Ipv6Addr::from(a), Ipv6Addr::from(b))).collect(),
    }
}

pub(crate) fn range<A: PartialEq + std::fmt::Display>(first: A, last: A) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// A set of one family.
enum Written {
    Four(Set),
    Six(Set),
}

pub(crate) struct Writer<'f> {
    filter: &'f Filter,
    fallback: Option<Fallback>,
    pickup: bool,
    /// For which packets chains are being written.
    sight: Sight,
    /// Whether fragments may come here as they are.
    in_pieces: bool,
    first_rules: Vec<u32>,
    sets: BTreeMap<String, Written>,
    /// Rates, by name: those of a rule are one of each kind, however many lines it comes to.
    rates: BTreeMap<String, String>,
    /// The chains of rules that do more than decide, by name.
    own_chains: BTreeMap<String, String>,
    wrong: Vec<Inexpressible>,
}

/// What becomes of a rule that cannot be expressed whole.
enum Way {
    /// As it is.
    Whole,
    /// Without what cannot be expressed.
    Widened,
    /// Not at all.
    LeftOut,
}

impl Writer<'_> {
    /// Refuses jumps that are nested deeper than the kernel goes.
    fn depth(&mut self) {
        let chains = &self.filter.chains;
        // Jumps lead nowhere back, so each chain is as deep as the deepest it jumps to, and one
        // more.
        let mut depths = vec![0usize; chains.len()];
        for _ in 0..=DEEPEST + 1 {
            for (number, chain) in chains.iter().enumerate() {
                depths[number] =
                    chain.jumps().map(|(to, _)| depths[to] + 1).max().unwrap_or(0).min(DEEPEST + 2);
            }
        }
        for hook in Hook::ALL {
            let number = hook as usize;
            if depths[number] > DEEPEST
                && let Some(place) =
                    chains[number].rules.iter().position(|rule| matches!(&rule.verdict, Some(Verdict::Jump { number: to, .. }) if depths[*to] + 1 > DEEPEST))
            {
                let advice = "nest chains 14 deep at most";
                self.refuse(RuleId(self.first_rules[number] + place as u32), "jumps that are nested so deep", advice);
            }
        }
    }

    fn refuse(&mut self, rule: RuleId, what: &'static str, advice: &'static str) {
        let text = self.filter.rule(rule).map_or_else(String::new, |(chain, rule)| {
            format!("{}: chain {}: {rule}", rule.place, chain.name)
        });
        self.wrong.push(Inexpressible { rule, text, what, advice });
    }

    fn chain(&mut self, number: usize, chain: &Chain) -> String {
        let mut text = format!("\tchain {}{} {{\n", self.sight.prefix(), chain.name);
        for (place, rule) in chain.rules.iter().enumerate() {
            let id = RuleId(self.first_rules[number] + place as u32);
            let what = rule.matches.inexpressible();
            let way = match what {
                None => Way::Whole,
                Some(what) => self.way(id, rule, what),
            };
            if !matches!(way, Way::LeftOut) {
                for family in families(rule) {
                    for states in lines_of_states(&rule.matches, self.pickup) {
                        let line = self.rule(id, rule, family, &states);
                        text.extend(line.map(|line| format!("\t\t{line}\n")));
                    }
                }
            }
        }
        text + "\t}\n"
    }

    /// How a rule is rendered of which something cannot be expressed.
    fn way(&mut self, id: RuleId, rule: &Rule, what: &'static str) -> Way {
        let lets_pass = match &rule.verdict {
            Some(Verdict::Jump { .. } | Verdict::Return) => {
                self.refuse(
                    id,
                    what,
                    "a jump or return can err neither way: ask for it in the rules of the chain",
                );
                return Way::LeftOut;
            }
            Some(Verdict::Accept) => true,
            _ => false,
        };
        match rule.fallback.or(self.fallback) {
            None => {
                self.refuse(id, what, CHOOSE);
                Way::LeftOut
            }
            Some(fallback) if lets_pass == (fallback == Fallback::Open) => Way::Widened,
            Some(_) => Way::LeftOut,
        }
    }

    /// A rule for one family, or for both; `None` when no packet matches it.
    fn rule(&mut self, id: RuleId, rule: &Rule, family: Option<Family>, states: &str) -> Option<String> {
        let mut words = self.conditions(id, rule, family, states)?;
        words.push("counter".to_owned());
        let Effects { count: _, police, log, mark, dscp } = &rule.effects;
        let mut effects = Vec::new();
        if let Some(rate) = police {
            effects.push(format!("{} drop", self.limit(id, "police", rate, true)));
        }
        if let Some(log) = log {
            let turn = if log.every > 1 { format!("numgen inc mod {} 0 ", log.every) } else { String::new() };
            let name = rule.name.clone().unwrap_or_else(|| rule.place.to_string());
            effects.push(format!(
                "{turn}{} log prefix \"{}: \"",
                self.limit(id, "log", &log.limit, false),
                quoted(&name, 100)
            ));
        }
        let mut plain = Vec::new();
        plain.extend(mark.map(|mark| format!("meta mark set {mark:#x}")));
        if let (Some(dscp), Some(family)) = (dscp, family) {
            plain.push(format!("{} dscp set {dscp}", word_of(family)));
        }
        let own_chain = !effects.is_empty() || rule.verdict == Some(Verdict::Reject(Reject::Auto));
        let (mut last, verdict) = match &rule.verdict {
            None => (String::new(), vec![]),
            Some(Verdict::Accept) => ("accept".to_owned(), vec![]),
            Some(Verdict::Drop) => ("drop".to_owned(), vec![]),
            Some(Verdict::Return) => ("return".to_owned(), vec![]),
            Some(Verdict::Jump { chain, .. }) => (format!("jump {}{chain}", self.sight.prefix()), vec![]),
            Some(Verdict::Reject(Reject::Auto)) => {
                (reject(Reject::Auto), vec!["meta l4proto tcp reject with tcp reset".to_owned()])
            }
            Some(Verdict::Reject(kind)) => (reject(*kind), vec![]),
        };
        if own_chain {
            let name = format!(
                "{}{}{}",
                if self.sight == Sight::Interface { "r" } else { "vr" },
                id.0,
                family.map_or("", |family| if family == Family::Ipv4 { "_4" } else { "_6" })
            );
            // A chain that one goes to returns where its caller would have: to return from it is to
            // return from both.
            let how = if rule.verdict == Some(Verdict::Return) { "goto" } else { "jump" };
            effects.extend(plain.drain(..).chain(verdict));
            effects.extend((how == "jump" && !last.is_empty()).then(|| last.clone()));
            last = format!("{how} {name}");
            let text = format!("\tchain {name} {{\n\t\t{}\n\t}}\n", effects.join("\n\t\t"));
            self.own_chains.insert(name, text);
        }
        words.append(&mut plain);
        words.push(last);
        let comment = match &rule.comment {
            Some(comment) => format!("{} {comment}", rule.place),
            None => rule.place.to_string(),
        };
        words.push(format!("comment \"{}\"", quoted(&comment, 120)));
        words.retain(|word| !word.is_empty());
        Some(words.join(" "))
    }

    /// What a packet is asked for, with the rate at the end; `None` when nothing can match.
    fn conditions(
        &mut self,
        id: RuleId,
        rule: &Rule,
        family: Option<Family>,
        states: &str,
    ) -> Option<Vec<String>> {
        let mut words = Vec::new();
        words.extend(
            family.map(|family| {
                format!("meta nfproto {}", if family == Family::Ipv4 { "ipv4" } else { "ipv6" })
            }),
        );
        let mut sentence = Sentence { writer: self, words, id, matches: &rule.matches, family, states };
        rule.matches.nftables(&mut sentence)?;
        Some(sentence.words)
    }

    /// A rate of each source: a dynamic set that holds a limit for each.
    fn meter(&mut self, id: RuleId, family: Family, size: u32, rate: &Rate, over: bool) -> String {
        let name = format!("m{}_{}", id.0, family.version());
        let kind = if family == Family::Ipv4 { "ipv4_addr" } else { "ipv6_addr" };
        let text = format!(
            "\tset {name} {{\n\t\ttype {kind}; size {size}; flags dynamic,timeout; timeout 1m;\n\t}}\n"
        );
        let update = format!("update @{name} {{ {} saddr limit {} }}", word_of(family), limit(rate, over));
        self.rates.insert(name, text);
        update
    }

    /// A rate of all packets that a rule matches, for `what`.
    fn limit(&mut self, id: RuleId, what: &str, rate: &Rate, over: bool) -> String {
        let name = format!("{what}{}", id.0);
        let words = format!("limit name \"{name}\"");
        let text = format!("\tlimit {name} {{\n\t\t{}\n\t}}\n", limit(rate, over));
        self.rates.insert(name, text);
        words
    }
}

/// One line: a rule for one family or for both, and for one of [`lines_of_states`]. Matches add
/// what they ask for.
pub(crate) struct Sentence<'w, 'f> {
    writer: &'w mut Writer<'f>,
    words: Vec<String>,
    /// The rule.
    pub id: RuleId,
    /// All that it asks for.
    pub matches: &'w Match,
    /// The one family that the line is for.
    pub family: Option<Family>,
    /// What it asks of the flow's state.
    pub states: &'w str,
}

impl Sentence<'_, '_> {
    /// Adds words.
    pub fn say(&mut self, words: String) {
        self.words.push(words);
    }

    /// Adds words that may stand there already.
    pub fn say_once(&mut self, words: &str) {
        if self.words.iter().all(|said| said != words) {
            self.say(words.to_owned());
        }
    }

    /// Asks that the packet shows its upper layer's header, before anything of it is asked for.
    pub fn say_shown(&mut self) {
        if self.writer.in_pieces {
            self.say_once(SHOWN);
        }
    }

    /// Whether what it asks of the state says by itself that the packet is of TCP.
    pub fn says_tcp(&self) -> bool {
        self.states.contains(FLAGS)
    }

    /// The name of the interface that a packet came in by.
    pub fn input(&self) -> &'static str {
        match self.writer.sight {
            Sight::Interface => "iifname",
            Sight::Member => "meta sdifname",
        }
    }

    /// What fields of the family's header begin with.
    pub fn ip(&self) -> &'static str {
        self.family.map_or("ip", word_of)
    }

    /// The members of one of the filter's sets.
    pub fn set(&self, number: usize) -> &Set {
        &self.writer.filter.sets[number].1
    }

    /// Defines a set of the family's addresses.
    pub fn write_set(&mut self, name: &str, set: Set) {
        let written = if self.family == Some(Family::Ipv6) { Written::Six(set) } else { Written::Four(set) };
        self.writer.sets.insert(name.to_owned(), written);
    }

    /// A rate of all packets that the rule matches, for `what`.
    pub fn limit(&mut self, what: &str, rate: &Rate, over: bool) -> String {
        self.writer.limit(self.id, what, rate, over)
    }

    /// A rate of each source.
    pub fn limit_of_sources(&mut self, size: u32, rate: &Rate, over: bool) -> String {
        self.writer.meter(self.id, self.family.unwrap_or(Family::Ipv4), size, rate, over)
    }
}

/// The families for which a rule is written: both at once where nothing in it depends on the
/// family.
fn families(rule: &Rule) -> Vec<Option<Family>> {
    if !rule.matches.by_family() && rule.effects.dscp.is_none() {
        return vec![None];
    }
    Family::BOTH.into_iter().filter(|&family| rule.matches.possible_in(family)).map(Some).collect()
}

const fn word_of(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ip6",
    }
}

fn reject(kind: Reject) -> String {
    let error = match kind {
        Reject::TcpReset => return "reject with tcp reset".to_owned(),
        Reject::Auto => IcmpError::RefusedPort,
        Reject::Icmp(error) => error,
    };
    format!("reject with icmpx {}", error.asked().unwrap_or_default().1)
}

fn limit(rate: &Rate, over: bool) -> String {
    let over = if over { "over " } else { "" };
    match rate.unit {
        Unit::Packets => {
            format!("rate {over}{}/second burst {} packets", rate.per_second, rate.burst.min(u32::MAX.into()))
        }
        Unit::Bits => {
            let burst = rate.burst.min(u32::MAX.into());
            let bytes = (rate.per_second / 8).clamp(1, MOST_BYTES - burst);
            format!("rate {over}{bytes} bytes/second burst {burst} bytes")
        }
    }
}

/// Text that can stand between quotes.
fn quoted(text: &str, most: usize) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() && !"\"\\".contains(*c) || *c == ' ').take(most).collect()
}
