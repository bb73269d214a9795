//! `[expect]`: whether sentences hold by a configuration and by what Linux has now.
//!
//! What is asked are the candidate's rules and its translation, behind Linux's own firewall where
//! that is adopted, over the routes, addresses and interfaces that there are. These are taken from
//! the control thread in slices; the rest is done by who asks, on what was taken, so that it holds
//! nobody up.

use std::collections::HashMap;
use std::net::IpAddr;

use config::{Foreign, Router};
use firewall::Adopted;
use ipnet::IpNet;
use mirror::show;
use nat::{Action, Rule};
use rules::Filter;
use rules::expect::{Aim, Ground, Judge, Judgement, Lead, Routes, Sentence, Target, To};

use super::control::{Control, Door};
use super::reload::{Reloading, unchanged};
use crate::control::Expectation;

/// Prefixes that the control thread looks at before others get their turn.
const SLICE: usize = 4096;

/// What is known of an interface.
struct Known {
    ifindex: u32,
    name: String,
    /// It is in a VRF, whose table routes what comes by it.
    in_vrf: bool,
    /// Packets come in by it as such: it is no member of a bond or bridge, and not the loopback.
    is_entry: bool,
    addresses: Vec<IpAddr>,
    /// It is the plane's.
    ours: bool,
}

/// A sentence, and what came of it.
pub(super) type Judged = (Sentence, Judgement);

impl Reloading {
    /// Whether the sentences that run hold now.
    pub(super) fn expectations(&self, door: &Door) -> Result<Vec<Expectation>, String> {
        let router = self.on_control(door, |control| Ok(control.forwarding.router.clone()))?;
        let judged = self.judge(door, &router, &router.expect)?;
        Ok(judged.iter().map(told).collect())
    }

    /// What a configuration breaks that held before, and a line for each sentence that does not
    /// hold by it or cannot be told.
    ///
    /// # Errors
    /// What the daemon says when it is stopping.
    pub(super) fn breaks(&self, door: &Door, after: &Router) -> Result<(Vec<Judged>, Vec<String>), String> {
        if after.expect.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let before = self.on_control(door, |control| Ok(control.forwarding.router.clone()))?;
        let (mut broken, mut notes) = (Vec::new(), Vec::new());
        let is_broken = |(_, judgement): &Judged| matches!(judgement, Judgement::Broken(_));
        let judged = self.judge(door, after, &after.expect)?;
        // What does not hold anyhow is broken by nobody, and does not keep who mends it.
        let of_before: Vec<Sentence> = judged
            .iter()
            .filter(|one| is_broken(one))
            .filter_map(|(sentence, _)| before.expect.iter().find(|known| known.text == sentence.text))
            .cloned()
            .collect();
        let known = match of_before.is_empty() {
            true => Vec::new(),
            false => self.judge(door, &before, &of_before)?,
        };
        for one in judged {
            let (sentence, judgement) = &one;
            let was = || known.iter().any(|known| known.0.text == sentence.text && is_broken(known));
            match judgement {
                Judgement::Holds => {}
                Judgement::Open(why) => {
                    notes.push(format!("[expect]: {:?} cannot be told: {why}", sentence.text))
                }
                Judgement::Broken(_) if was() => {
                    notes.push(format!("[expect]: {}", told_of(&one, "does not hold, as it does not now")));
                }
                Judgement::Broken(_) => broken.push(one),
            }
        }
        Ok((broken, notes))
    }

    /// The same as a refusal, unless it is forced; what breaks then, and lines for the operator.
    pub(super) fn keeps(
        &self,
        door: &Door,
        after: &Router,
        force: bool,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let (broken, mut notes) = self.breaks(door, after)?;
        let lines =
            |notes: &[String]| notes.iter().flat_map(|note| note.lines()).map(str::to_owned).collect();
        if broken.is_empty() {
            return Ok((Vec::new(), lines(&notes)));
        }
        if !force {
            let list: Vec<String> = broken.iter().map(shown).collect();
            return Err(unchanged(format!(
                "it breaks what [expect] says is to stay true\n{}\n`bifrost commit --force` puts it in force all the same",
                list.join("\n")
            )));
        }
        notes.extend(
            broken.iter().map(|one| format!("[expect]: {}", told_of(one, "does not hold, which is forced"))),
        );
        Ok((broken.into_iter().map(|(sentence, _)| sentence.text).collect(), lines(&notes)))
    }

    /// Judges sentences by the rules of a configuration.
    fn judge(&self, door: &Door, router: &Router, sentences: &[Sentence]) -> Result<Vec<Judged>, String> {
        if sentences.is_empty() {
            return Ok(Vec::new());
        }
        let firewall = match router.linux_filter {
            Foreign::Adopt => self.on_control(door, |control| Ok(control.forwarding.firewall.clone()))?,
            Foreign::Respect | Foreign::Ignore => Adopted::default(),
        };
        let nat = router.nat.as_ref().or(firewall.nat.as_ref());
        let ground = self.ground(door, router, nat)?;
        Ok(judged(&firewall.behind(&router.filter), ground, sentences))
    }

    /// What there is now, around a configuration.
    fn ground(&self, door: &Door, router: &Router, nat: Option<&nat::Rules>) -> Result<Ground, String> {
        let known = self.on_control(door, |control| Ok(control.interfaces_known()))?;
        let (mut leads, mut next) = (Vec::new(), Some(None));
        while let Some(after) = next {
            let (page, further) =
                self.on_control(door, move |control| Ok(control.forwarding.mirror.leads_page(after, SLICE)))?;
            leads.extend(page);
            next = further.map(Some);
        }
        Ok(ground(router, nat, &known, leads))
    }
}

impl Control {
    fn interfaces_known(&self) -> Vec<Known> {
        let model = self.forwarding.mirror.model();
        let known = |link: &mirror::model::Link| Known {
            ifindex: link.ifindex,
            name: link.name.clone(),
            in_vrf: model.vrf_device(link.ifindex).is_some(),
            is_entry: link.master.is_none() && !link.loopback,
            addresses: model.addresses_of(link.ifindex).map(|own| own.net.addr()).collect(),
            ours: self.forwarding.plane.interface_named(&link.name).is_some(),
        };
        model.links.iter().map(known).collect()
    }
}

/// Whether sentences hold by the rules of a configuration alone: there is no daemon that knows
/// addresses and routes.
pub fn offline(router: &Router) -> Vec<Judged> {
    let ground = Ground { aims: aims(router.nat.as_ref(), &[]), ..Ground::default() };
    judged(&router.filter, ground, &router.expect)
}

fn judged(filter: &Filter, mut ground: Ground, sentences: &[Sentence]) -> Vec<Judged> {
    let matches = filter.rules().map(|(_, rule)| &rule.matches);
    let matches = matches.chain(sentences.iter().map(|sentence| &sentence.matches));
    ground.learn(matches.flat_map(|matches| [&matches.in_ports, &matches.out_ports]).flatten());
    let judge = Judge::new(filter, &ground);
    sentences.iter().map(|sentence| (sentence.clone(), judge.judge(sentence))).collect()
}

fn ground(router: &Router, nat: Option<&nat::Rules>, known: &[Known], leads: Vec<show::Lead>) -> Ground {
    let places: HashMap<u32, usize> = known.iter().zip(0..).map(|(one, at)| (one.ifindex, at)).collect();
    let is_ours = |one: &Known| one.ours || router.port(&one.name).is_some();
    let ours = || known.iter().enumerate().filter(|(_, one)| is_ours(one));
    let lead = |lead: show::Lead| {
        let to = match lead.kind {
            "unicast" => {
                match lead.by.iter().filter_map(|ifindex| places.get(ifindex).copied()).collect::<Vec<_>>() {
                    none if none.is_empty() => Lead::Nowhere("without a way".to_owned()),
                    mut by => {
                        by.sort_unstable();
                        by.dedup();
                        Lead::By(by)
                    }
                }
            }
            "local" | "broadcast" | "anycast" | "multicast" => Lead::Here,
            kind => Lead::Nowhere(kind.to_owned()),
        };
        (lead.prefix, to)
    };
    let is_reached = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let own = known.iter().filter(|one| !one.in_vrf).flat_map(|one| one.addresses.iter().copied());
    Ground {
        interfaces: known.iter().map(|one| one.name.clone()).collect(),
        inputs: ours().filter(|(_, one)| one.is_entry && !one.in_vrf).map(|(at, _)| at).collect(),
        outputs: ours().map(|(at, _)| at).collect(),
        aims: aims(nat, known),
        own: own.filter(is_reached).collect(),
        routes: Some(Routes::new(leads.into_iter().map(lead))),
    }
}

/// The rules that translate destinations.
fn aims(nat: Option<&nat::Rules>, known: &[Known]) -> Vec<Aim> {
    let rules = nat.iter().flat_map(|nat| &nat.rules);
    rules.filter_map(|rule| aim(rule, known)).collect()
}

fn aim(rule: &Rule, known: &[Known]) -> Option<Aim> {
    let is_named = |[patterns, not]: [&[String]; 2], one: &Known| {
        let means = |word: &String| {
            word.strip_suffix('*').map_or(*word == one.name, |start| one.name.starts_with(start))
        };
        (patterns.is_empty() || patterns.iter().any(means)) && !not.iter().any(means)
    };
    let places = |words: [&[String]; 2]| {
        let meant = known.iter().enumerate().filter(|(_, one)| is_named(words, one));
        let all = words.iter().all(|words| words.is_empty()) || known.is_empty();
        (!all).then(|| meant.map(|(at, _)| at).collect::<Vec<_>>())
    };
    let nat::Match { source, destination, protocols, source_ports, destination_ports, .. } = &rule.matches;
    let input: [&[String]; 2] = [&rule.matches.input, &rule.matches.not_input];
    let output: [&[String]; 2] = [&rule.matches.output, &rule.matches.not_output];
    let all = Aim {
        rule: format!("rule {}", rule.name),
        input: None,
        source: Vec::new(),
        destination: Vec::new(),
        protocols: Vec::new(),
        source_ports: Vec::new(),
        ports: Vec::new(),
        to: To::Itself,
    };
    let matching = || Aim {
        input: places(input),
        source: source.clone(),
        destination: destination.clone(),
        protocols: protocols.clone(),
        source_ports: source_ports.clone(),
        ports: destination_ports.clone(),
        ..all.clone()
    };
    match &rule.action {
        Action::None if rule.matches.leaves_anywhere() => Some(matching()),
        Action::Destination { targets, hairpin, .. } => {
            let mut aim = matching();
            if *hairpin {
                aim.input = None;
            }
            if destination.is_empty() {
                let own = known.iter().filter(|one| one.ours && is_named(input, one));
                aim.destination = own.flat_map(|one| &one.addresses).map(|own| IpNet::from(*own)).collect();
                if aim.destination.is_empty() {
                    // Of no address that anybody knows.
                    return None;
                }
            }
            let target = |target: &nat::Target| Target { net: target.net, ports: target.ports.clone() };
            Some(Aim { to: To::Targets(targets.iter().map(target).collect()), ..aim })
        }
        Action::OneToOne { inside, outside, hairpin } => Some(Aim {
            input: if *hairpin { None } else { places(output) },
            destination: vec![*outside],
            to: To::Targets(vec![Target { net: *inside, ports: None }]),
            ..all
        }),
        Action::Nptv6(nptv6) => Some(Aim {
            input: places(output),
            destination: vec![nptv6.outside().into()],
            to: To::Unfollowed("NPTv6"),
            ..all
        }),
        Action::Nat64 { prefix, .. } => {
            Some(Aim { destination: vec![prefix.net().into()], to: To::Unfollowed("NAT64"), ..all })
        }
        _ => None,
    }
}

/// A sentence that does not hold, with a packet and what decides about it.
pub fn shown(one: &Judged) -> String {
    told_of(one, "does not hold")
}

fn told_of((sentence, judgement): &Judged, how: &str) -> String {
    match judgement {
        Judgement::Broken(breach) => format!(
            "{:?} ({}) {how}:\n  packet: {}\n  {}",
            sentence.text, sentence.place, breach.packet, breach.why
        ),
        Judgement::Open(why) => format!("{:?} cannot be told: {why}", sentence.text),
        Judgement::Holds => format!("{:?} holds", sentence.text),
    }
}

fn told((sentence, judgement): &Judged) -> Expectation {
    let (holds, packet, why) = match judgement {
        Judgement::Holds => (Some(true), None, None),
        Judgement::Broken(breach) => (Some(false), Some(breach.packet.clone()), Some(breach.why.clone())),
        Judgement::Open(why) => (None, None, Some(why.clone())),
    };
    Expectation { sentence: sentence.text.clone(), place: sentence.place.to_string(), holds, packet, why }
}
