//! Whether a sentence holds: all of its packets are followed to their ends, and the first part of
//! them that ends otherwise is shown by one of its packets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::ground::{Divided, Ground, Lead, Routes, To, address, places};
use super::numbers::Numbers;
use super::sentence::{Fate, Sentence};
use super::space::{Axis, Names, Space, numbers_of, space_of, with_ports};
use super::walk::{Came, Part, TooMany, Ways};
use super::witness::{self, Seen};
use crate::evaluate::Outcome;
use crate::explain::decided;
use crate::model::*;

/// What came of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It holds for every packet that it is about.
    Holds,
    /// It does not hold.
    Broken(Breach),
    /// It cannot be told: why.
    Open(String),
}

/// A packet that a sentence does not hold for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The packet, as `bifrost explain` is asked about it.
    pub packet: String,
    /// What becomes of it, and what decides that.
    pub why: String,
}

/// How packets ended.
enum End {
    Is(Fate),
    Unknown(String),
}

/// Packets that ended alike.
struct Ended {
    part: Part,
    end: End,
    /// The hook, the rule and what it said; `None`: no rule decided.
    by: Option<(Hook, Outcome, Option<RuleId>)>,
    /// What of the route is to be told.
    route: Option<String>,
}

/// Ranges of destinations at most that routes divide a sentence's packets into.
const MOST_RANGES: usize = 8_000_000;

/// Destinations by where they go: parts that have the same ones share what routes make of them.
#[derive(Default)]
struct Led<'r> {
    /// By their name, with themselves, for only what lives keeps its name.
    known: HashMap<usize, (Numbers, Vec<Divided<'r>>)>,
    ranges: usize,
}

impl<'r> Led<'r> {
    fn divide(
        &mut self,
        routes: &'r Routes,
        family: Family,
        destinations: &Numbers,
    ) -> Result<&[Divided<'r>], TooMany> {
        let (_, led) = self.known.entry(destinations.name()).or_insert_with(|| {
            let led = routes.divide(family, destinations);
            self.ranges += led.iter().map(|(_, numbers)| numbers.ranges().len()).sum::<usize>();
            (destinations.clone(), led)
        });
        if self.ranges > MOST_RANGES { Err(TooMany) } else { Ok(led) }
    }
}

/// What is unicast: of IPv6 what is given out, or stands for IPv4.
fn unicast(family: Family) -> Numbers {
    let four = |from: u8, to: u8| (u128::from(from) << 24, u128::from(to) << 24 | 0xff_ffff);
    match family {
        Family::Ipv4 => Numbers::of([four(1, 126), four(128, 223)]),
        Family::Ipv6 => Numbers::of([
            (0x64_ff9b_u128 << 96, 0x64_ff9b_u128 << 96 | 0xffff_ffff),
            (0x2000_u128 << 112, 0x3fff_u128 << 112 | u128::MAX >> 16),
            (0xfc00_u128 << 112, 0xfdff_u128 << 112 | u128::MAX >> 16),
        ]),
    }
}

/// A SYN alone.
const SYN: u128 = 2;
/// An ACK alone.
const ACK: u128 = 16;
const NEW: u128 = 0;

/// Asks a filter about sentences. What it needs to know of the filter is found once.
pub struct Judge<'f> {
    filter: &'f Filter,
    ground: Cow<'f, Ground>,
    ways: [Ways<'f>; 2],
}

impl<'f> Judge<'f> {
    /// Of a filter with what is known around it.
    pub fn new(filter: &'f Filter, ground: &'f Ground) -> Judge<'f> {
        let mut ground = Cow::Borrowed(ground);
        if ground.routes.is_none() || ground.interfaces.is_empty() {
            // One that nobody has named.
            let ground = ground.to_mut();
            ground.interfaces.push(String::new());
            ground.inputs.push(ground.interfaces.len() - 1);
            ground.outputs.push(ground.interfaces.len() - 1);
        }
        let names = Names { sets: &filter.sets, interfaces: &ground.interfaces };
        let ways = Family::BOTH.map(|family| Ways::new(filter, family, &names));
        Judge { filter, ways, ground }
    }

    /// Whether a sentence holds.
    pub fn judge(&self, sentence: &Sentence) -> Judgement {
        let (mut any, mut open) = (false, None);
        for family in Family::BOTH {
            let Some(space) = self.packets(sentence, family) else { continue };
            any = true;
            match self.of_family(sentence, family, &space) {
                Ok(Judgement::Holds) => {}
                Ok(Judgement::Open(why)) => open = open.or(Some(why)),
                Ok(broken) => return broken,
                Err(TooMany) => {
                    open = open.or(Some("rules and routes cut its packets into too many parts".to_owned()));
                }
            }
        }
        match open {
            Some(why) => Judgement::Open(why),
            None if !any => Judgement::Open("no packet is like that here".to_owned()),
            None => Judgement::Holds,
        }
    }

    /// The router's own addresses.
    fn own(&self, family: Family) -> Numbers {
        let own = self.ground.own.iter().filter(|own| own.is_ipv4() == (family == Family::Ipv4));
        Numbers::of(own.map(|own| numbers_of(&(*own).into())))
    }

    /// All packets that a sentence is about in a family, if there are any.
    fn packets(&self, sentence: &Sentence, family: Family) -> Option<Space> {
        let Sentence { matches, ping, nothing: _, fate, .. } = sentence;
        let names = Names { sets: &self.filter.sets, interfaces: &self.ground.interfaces };
        let mut space = space_of(matches, family, &names)?;
        let one = Numbers::one;
        let (icmp, echo) = match family {
            Family::Ipv4 => (1, 8 << 8),
            Family::Ipv6 => (58, 128 << 8),
        };
        if *ping {
            space.narrow(Axis::Protocol, &one(icmp));
        }
        if matches.icmp.is_none() {
            space.narrow(Axis::Icmp, &one(echo));
        }
        if matches.states.is_none() {
            space.narrow(Axis::State, &one(NEW));
        }
        if matches.flags.is_none() {
            let opens = space.at(Axis::State) == &one(NEW);
            space.narrow(Axis::Flags, &one(if opens { SYN } else { ACK }));
        }
        if matches.fragment.is_none() {
            space.narrow(Axis::Fragment, &one(0));
        }
        if matches.ttl.is_none() {
            // With less it goes nowhere.
            space.narrow(Axis::Ttl, &Numbers::span(2, 255));
        }
        if matches.source.is_none() {
            space.narrow(Axis::Source, &unicast(family));
        }
        if matches.in_ports.is_none() {
            space.narrow(Axis::Input, &places(&self.ground.inputs));
        }
        let everywhere: Vec<usize> = (0..self.ground.interfaces.len()).collect();
        space.narrow(Axis::Output, &places(&everywhere));
        if matches.destination.is_none() {
            let here = match &self.ground.routes {
                Some(routes) => {
                    let led = routes.divide(family, &unicast(family));
                    let here = led.into_iter().filter(|(lead, _)| *lead == Some(&Lead::Here));
                    Numbers::of(here.flat_map(|(_, numbers)| numbers.ranges().to_vec()))
                }
                None => Numbers::none(),
            };
            match fate {
                Fate::Here if self.ground.routes.is_some() => {
                    space.narrow(Axis::Destination, &self.own(family));
                }
                Fate::Forwarded => space.narrow(Axis::Destination, &unicast(family).without(&here)),
                _ => space.narrow(Axis::Destination, &unicast(family)),
            }
        }
        (!space.is_empty()).then_some(space)
    }

    fn of_family(&self, sentence: &Sentence, family: Family, all: &Space) -> Result<Judgement, TooMany> {
        let mut open = None;
        for ended in self.ends(sentence, family, all.clone())? {
            let fate = match &ended.end {
                End::Unknown(why) => {
                    open = open.or_else(|| Some(why.clone()));
                    continue;
                }
                End::Is(fate) => *fate,
            };
            if (fate == sentence.fate) != sentence.nothing {
                continue;
            }
            if !self.is_certain(sentence, all, &ended) {
                open = open
                    .or(Some("it depends on addresses and routes, which only the daemon knows".to_owned()));
                continue;
            }
            return Ok(Judgement::Broken(self.breach(family, fate, &ended)));
        }
        Ok(open.map_or(Judgement::Holds, Judgement::Open))
    }

    /// Whether packets end so wherever routes lead: only asked where nobody knows those.
    fn is_certain(&self, sentence: &Sentence, all: &Space, ended: &Ended) -> bool {
        let whole = |axis| ended.part.space.at(axis) == all.at(axis);
        self.ground.routes.is_some()
            || whole(Axis::Output)
                && (sentence.matches.destination.is_some()
                    || ended.part.came.is_none() && whole(Axis::Destination))
    }

    /// How packets end.
    fn ends(&self, sentence: &Sentence, family: Family, space: Space) -> Result<Vec<Ended>, TooMany> {
        let ways = &self.ways[family as usize];
        let mut ends = Vec::new();
        let start = Part { space, mark: 0, dscp: None, at_times_of: None, came: None };
        let mut parts = Vec::new();
        for ended in ways.through(Hook::Input, vec![start])? {
            let by = Some((Hook::Input, ended.outcome, ended.rule));
            match ended.outcome {
                Outcome::Accept => parts.push(ended.part),
                _ => ends.push(Ended { part: ended.part, end: End::Is(Fate::Dropped), by, route: None }),
            }
        }
        let parts = self.aimed(family, parts, &mut ends)?;
        let (mut transit, mut led) = (Vec::new(), Led::default());
        for part in parts {
            self.lead(sentence, family, part, &mut led, &mut transit, &mut ends)?;
        }
        let outputs = places(&self.ground.outputs);
        for ended in ways.through(Hook::Forward, transit)? {
            let by = Some((Hook::Forward, ended.outcome, ended.rule));
            if ended.outcome != Outcome::Accept {
                ends.push(Ended { part: ended.part, end: End::Is(Fate::Dropped), by, route: None });
                continue;
            }
            let forwarded = |part, by| Ended { part, end: End::Is(Fate::Forwarded), by, route: None };
            let elsewhere = ended.part.space.at(Axis::Output).without(&outputs);
            if !elsewhere.is_empty() {
                let space = ended.part.space.clone().with(Axis::Output, elsewhere);
                ends.push(forwarded(Part { space, ..ended.part.clone() }, by));
            }
            let mut part = ended.part;
            part.space.narrow(Axis::Output, &outputs);
            if part.space.is_empty() {
                continue;
            }
            for ended in ways.through(Hook::Output, vec![part])? {
                let last = Some((Hook::Output, ended.outcome, ended.rule));
                ends.push(match ended.outcome {
                    Outcome::Accept => forwarded(ended.part, if ended.rule.is_some() { last } else { by }),
                    _ => Ended { part: ended.part, end: End::Is(Fate::Dropped), by: last, route: None },
                });
            }
        }
        Ok(ends)
    }

    /// Packets with the destinations that they are translated to.
    fn aimed(&self, family: Family, parts: Vec<Part>, ends: &mut Vec<Ended>) -> Result<Vec<Part>, TooMany> {
        let mut open = parts;
        let mut aimed = Vec::new();
        for aim in &self.ground.aims {
            let Some(space) = aim.space(family) else { continue };
            let mut next = Vec::new();
            for part in open {
                let Some(both) = part.space.and(&space) else {
                    next.push(part);
                    continue;
                };
                let with = |space| Part { space, ..part.clone() };
                match &aim.to {
                    To::Itself => aimed.push(with(both)),
                    To::Unfollowed(what) => ends.push(Ended {
                        part: with(both),
                        end: End::Unknown(format!("{what} by rule {} is not followed", aim.rule)),
                        by: None,
                        route: None,
                    }),
                    To::Targets(targets) => {
                        let led = aim.led(targets, family, &both);
                        if led.is_empty() {
                            next.push(with(both));
                        }
                        aimed.extend(
                            led.into_iter()
                                .map(|(space, came)| Part { came: Some(Arc::new(came)), ..with(space) }),
                        );
                    }
                }
                part.space.without(&space, |space| next.push(Part { space, ..part.clone() }));
            }
            open = next;
            super::walk::bounded(open.len() + aimed.len())?;
        }
        aimed.append(&mut open);
        Ok(aimed)
    }

    /// Where routes lead packets.
    fn lead<'s>(
        &'s self,
        sentence: &Sentence,
        family: Family,
        part: Part,
        led: &mut Led<'s>,
        transit: &mut Vec<Part>,
        ends: &mut Vec<Ended>,
    ) -> Result<(), TooMany> {
        let Some(routes) = &self.ground.routes else {
            match sentence.fate {
                Fate::Here => ends.push(Ended { part, end: End::Is(Fate::Here), by: None, route: None }),
                _ => transit.push(part),
            }
            return Ok(());
        };
        for (lead, destinations) in led.divide(routes, family, part.space.at(Axis::Destination))? {
            let space = part.space.clone().with(Axis::Destination, destinations.clone());
            let mut part = Part { space, ..part.clone() };
            let (end, route) = match lead {
                Some(Lead::By(interfaces)) => {
                    part.space.narrow(Axis::Output, &places(interfaces));
                    if !part.space.is_empty() {
                        transit.push(part);
                    }
                    continue;
                }
                Some(Lead::Here) => (Fate::Here, None),
                Some(Lead::Nowhere(why)) => (Fate::Dropped, Some(why.clone())),
                None => (Fate::Dropped, Some("no route leads there".to_owned())),
            };
            ends.push(Ended { part, end: End::Is(end), by: None, route });
        }
        Ok(())
    }

    /// One of the packets, and why it ends so.
    fn breach(&self, family: Family, fate: Fate, ended: &Ended) -> Breach {
        let seen = witness::of(&ended.part, family, &self.ground.interfaces, &self.own(family));
        let mut why = String::new();
        let Seen { packet, destination, output, .. } = &seen;
        if let Some(came) = &ended.part.came {
            let Came { rule, .. } = &**came;
            why += &format!("{rule} leads it to {}; ", seen.led);
        }
        let there = address(family, *destination);
        let prefix = self.ground.routes.as_ref().and_then(|routes| routes.prefix_of(family, *destination));
        match (fate, &ended.route, prefix) {
            (Fate::Here, _, Some(prefix)) => {
                why += &format!("it is for the router itself: route {prefix} is local")
            }
            (Fate::Here, ..) => why += &format!("it is for the router itself, at {there}"),
            (Fate::Dropped, Some(route), Some(prefix)) => {
                why += &format!("dropped: route {prefix} is {route}")
            }
            (Fate::Dropped, Some(route), None) => why += &format!("dropped: {route}"),
            _ => {}
        }
        if let Some((hook, outcome, rule)) = ended.by {
            if fate == Fate::Forwarded {
                let by = self.ground.interfaces.get(*output).filter(|name| !name.is_empty());
                why += &match (by, prefix) {
                    (Some(by), Some(prefix)) => format!("forwarded by {by}, where route {prefix} leads; "),
                    _ => "forwarded; ".to_owned(),
                };
            }
            why += &decided(self.filter, hook, outcome, rule);
        }
        if let Some((_, rule)) = ended.part.at_times_of.and_then(|id| self.filter.rule(id)) {
            why += &format!("; at the times of the rule at {}", rule.place);
        }
        Breach { packet: packet.clone(), why }
    }
}

/// Whether packets show ports.
pub(super) fn shows_ports(protocol: u128, fragment: u128) -> bool {
    with_ports().has(protocol) && fragment < 2
}
