//! # ScheduleInfo: says how often elements have their turn.
//!
//! Group: control
//! Usage: `ScheduleInfo(ELEMENT SHARE, ...)`
//! Ports: none
//!
//! Each argument is the name of an element and a number: one with twice the number has twice as
//! many turns; without it it is 1. The name may be one of a compound element; then its elements'
//! own numbers are multiplied by it. What is said further outside for an element itself counts
//! instead of what is said inside.

use graph::arguments::{Arguments, Fixed, Refused};
use graph::{Class, Context, Element, Setup};

/// The class.
pub const CLASS: Class = Class {
    name: "ScheduleInfo",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("schedule.rs"),
    make,
};

/// Tickets of an element with the share 1.
const TICKETS: u64 = 1 << 10;

struct ScheduleInfo {
    /// Elements and compounds as this one calls them, and tickets.
    shares: Vec<(String, u32)>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let mut shares = Vec::new();
    for (piece, words) in args.rest_words() {
        match words.as_slice() {
            [] => {}
            [name, share] => match args.parse_part::<Fixed<10>>(&piece, share) {
                Some(Fixed(tickets)) => shares.push((name.clone(), tickets)),
                None => return Err(Refused),
            },
            _ => args.wrong(&piece, "expected 'ELEMENTNAME PARAM'"),
        }
    }
    args.finish()?;
    Ok(Box::new(ScheduleInfo { shares }))
}

impl ScheduleInfo {
    /// The tickets of what is called by this name in the compound that this element, by its own
    /// name, stands in.
    fn tickets(&self, own: &str, name: &str) -> Option<u32> {
        let context = own.rfind('/').map_or("", |slash| &own[..=slash]);
        let inside = name.strip_prefix(context)?;
        self.shares.iter().rev().find(|(known, _)| known == inside).map(|(_, tickets)| *tickets)
    }
}

impl Element for ScheduleInfo {
    fn class(&self) -> &'static str {
        "ScheduleInfo"
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        // Each of them works out the elements in its own compound, with what those inside and
        // outside say.
        let nodes: Vec<(graph::NodeId, String)> =
            cx.description().nodes.iter().map(|node| (node.id, node.name.clone())).collect();
        let own = cx.id();
        let mut infos: Vec<(String, Vec<(String, u32)>)> = Vec::new();
        for (node, name) in &nodes {
            if *node == own {
                infos.push((name.clone(), self.shares.clone()));
            } else if let Some(other) = cx.element::<ScheduleInfo>(*node) {
                infos.push((name.clone(), other.shares.clone()));
            }
        }
        infos.sort_by_key(|(name, _)| name.matches('/').count());
        let infos: Vec<(String, ScheduleInfo)> =
            infos.into_iter().map(|(name, shares)| (name, ScheduleInfo { shares })).collect();
        for (node, name) in nodes {
            let mut tickets = TICKETS;
            let mut named = false;
            let ends = name.match_indices('/').map(|(slash, _)| slash).chain([name.len()]);
            for end in ends {
                // The outermost that knows the name counts.
                let found = infos.iter().find_map(|(own, info)| info.tickets(own, &name[..end]));
                if let Some(found) = found {
                    tickets = tickets * u64::from(found) / TICKETS;
                    named = true;
                }
            }
            if named {
                cx.set_tickets(node, u32::try_from(tickets).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }
}
