//! `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP`: next hops that are objects of their own, which many
//! routes name by number.

use super::{address, attributes_after, u16_at, u32_at, u32_value};
use crate::model::Path;

const FIXED: usize = 8;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The number that routes and groups name.
    pub id: u32,
    /// Who made it, as in routes.
    pub protocol: u8,
    /// What it is.
    pub content: ObjectContent,
}

/// What a next-hop object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectContent {
    /// One way out.
    Path(Path),
    /// Packets are dropped silently.
    Blackhole,
    /// Other objects by number, each with its weight (1 to 65,536).
    Group(Vec<(u32, u32)>),
    /// Of a bridge's forwarding database: no IP route uses it.
    Bridge,
}

/// Parses the body.
pub fn parse(body: &[u8]) -> Option<Object> {
    let protocol = *body.get(2)?;
    let mut id = None;
    let mut path = Path { ifindex: 0, gateway: None, weight: 1, encap: false };
    let mut content = None;
    for (kind, value) in attributes_after(body, FIXED)? {
        match kind {
            NHA_ID => id = Some(u32_value(value)?),
            NHA_GROUP => content = Some(ObjectContent::Group(members(value)?)),
            NHA_BLACKHOLE => content = Some(ObjectContent::Blackhole),
            NHA_OIF => path.ifindex = u32_value(value)?,
            NHA_GATEWAY => path.gateway = Some(address(value)?),
            NHA_ENCAP_TYPE => path.encap = u16_at(value, 0)? != 0,
            NHA_ENCAP => path.encap = true,
            NHA_FDB => content = Some(ObjectContent::Bridge),
            _ => {}
        }
    }
    Some(Object {
        id: id.filter(|id| *id != 0)?,
        protocol,
        content: content.unwrap_or(ObjectContent::Path(path)),
    })
}

/// `struct nexthop_grp`: id (32), weight - 1 (low 8, then high 8 bits), reserved (16).
fn members(value: &[u8]) -> Option<Vec<(u32, u32)>> {
    let mut members = Vec::with_capacity(value.len() / 8);
    for entry in value.chunks_exact(8) {
        members.push((u32_at(entry, 0)?, (u32::from(entry[5]) << 8 | u32::from(entry[4])) + 1));
    }
    Some(members)
}
