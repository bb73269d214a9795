//! What a primitive asks of the words of a packet.
//!
//! Offsets below [`NETWORK`] are in the Ethernet header, which begins at 2 so that the IPv4 header
//! behind it would be aligned; those from [`NETWORK`] on in the IPv4 header, those from
//! [`TRANSPORT`] on in the header behind it.

use graph::arguments::PROTOCOL_TCP_OR_UDP;
use wire::protocol;

use super::primitive::{Field, Kind, Primitive, Relation, Side};
use crate::decision::Condition;

/// Where the IPv4 header begins.
pub const NETWORK: usize = 256;
/// Where the transport header begins.
pub const TRANSPORT: usize = 512;

const FRAGMENT: usize = NETWORK + 4;
const PROTOCOL: usize = NETWORK + 8;

fn word(offset: usize, value: u32, mask: u32) -> Condition {
    Condition::Word { offset, mask, value: value & mask }
}

/// The condition of a complete primitive.
pub fn condition(primitive: &Primitive) -> Condition {
    let Some(kind) = primitive.kind else { return Condition::ALWAYS };
    let mut all = Vec::new();
    // Only the first fragment has a transport header.
    if matches!(kind, Kind::Port | Kind::TcpOption | Kind::Field(Field { proto: 1.., .. })) {
        all.push(word(FRAGMENT, 0, 0x1fff));
    }
    all.extend(primitive.proto.and_then(has_protocol));
    let unlike = |condition: Condition, negated| if negated { condition.unlike() } else { condition };
    match kind {
        Kind::Host | Kind::Net => {
            let (source, destination) = (NETWORK + 12, NETWORK + 16);
            all.push(sides(primitive, compared(primitive, source, 0), compared(primitive, destination, 0)));
        }
        Kind::Port => {
            all.push(sides(primitive, compared(primitive, TRANSPORT, 16), compared(primitive, TRANSPORT, 0)));
        }
        Kind::Ether => {
            let [a, b, c, d, e, f] = primitive.ether;
            let [ma, mb, mc, md, me, mf] = primitive.ether_mask;
            let half =
                |offset, bytes, mask| word(offset, u32::from_be_bytes(bytes), u32::from_be_bytes(mask));
            let destination =
                [half(0, [0, 0, a, b], [0, 0, ma, mb]), half(4, [c, d, e, f], [mc, md, me, mf])];
            let source = [half(8, [a, b, c, d], [ma, mb, mc, md]), half(12, [e, f, 0, 0], [me, mf, 0, 0])];
            all.push(sides(primitive, Condition::All(source.into()), Condition::All(destination.into())));
        }
        Kind::Proto => match (primitive.value, primitive.proto) {
            (0..256, _) => all.push(unlike(compared(primitive, PROTOCOL, 16), primitive.negated)),
            (several, None) => {
                all.extend(has_protocol(several).map(|condition| unlike(condition, primitive.negated)))
            }
            (_, Some(_)) => {}
        },
        Kind::Fragment | Kind::Unfragmented => {
            all.push(unlike(word(FRAGMENT, 0, 0x3fff), !primitive.negated));
        }
        Kind::TcpOption => all.push(word(TRANSPORT + 12, primitive.value << 16, primitive.mask << 16)),
        Kind::Capable | Kind::Congestion => {}
        Kind::Field(field) => {
            let base = if field.proto == 0 { NETWORK } else { TRANSPORT };
            let (offset, bit) = ((field.offset / 32 * 4) as usize, field.offset % 32);
            let shift = 32 - (bit + field.bits).min(32);
            all.push(unlike(compared(primitive, base + offset, shift), primitive.negated));
        }
    }
    if all.is_empty() { Condition::ALWAYS } else { Condition::All(all) }
}

/// The protocol is this one; `None` for a number that stands for all with a transport header.
fn has_protocol(proto: u32) -> Option<Condition> {
    let one = |proto: u32| word(PROTOCOL, proto << 16, 0xff << 16);
    match proto {
        PROTOCOL_TCP_OR_UDP => {
            Some(Condition::Any(vec![one(protocol::TCP.into()), one(protocol::UDP.into())]))
        }
        0..256 => Some(one(proto)),
        _ => None,
    }
}

fn sides(primitive: &Primitive, source: Condition, destination: Condition) -> Condition {
    let sides = match primitive.side {
        Some(Side::Source) => Condition::All(vec![source]),
        Some(Side::Destination) => Condition::All(vec![destination]),
        Some(Side::Both) => Condition::All(vec![source, destination]),
        Some(Side::Either) | None => Condition::Any(vec![source, destination]),
    };
    if primitive.negated { sides.unlike() } else { sides }
}

/// Whether the bits of the mask, which begin `shift` bits from the right of the word, are equal to
/// or greater than the value.
fn compared(primitive: &Primitive, offset: usize, shift: u32) -> Condition {
    let (value, mask) = (primitive.value & primitive.mask, primitive.mask);
    if primitive.relation == Relation::Equal {
        return word(offset, value << shift, mask << shift);
    }
    greater(offset, shift, value, mask)
}

/// From the highest bits down. Where the value's are zeros, any one there is greater and none
/// leaves it to the bits below; where they are ones, only ones leave it to the bits below.
fn greater(offset: usize, shift: u32, mut value: u32, mut mask: u32) -> Condition {
    let mut parts = Vec::new();
    while value < mask {
        let ones = value > mask >> 1;
        let other = if ones { !(value + 1) & mask } else { value };
        // Bits above the first that is different.
        let upper = mask & u32::MAX.checked_shl(32 - other.leading_zeros()).unwrap_or(0);
        let upper = if other == 0 { mask } else { upper };
        if upper == 0 {
            break;
        }
        parts.push((ones, word(offset, if ones { upper << shift } else { 0 }, upper << shift)));
        mask &= !upper;
        value &= mask;
    }
    let below = parts.into_iter().rev().fold(None, |below: Option<Condition>, (ones, equal)| {
        let here = if ones { equal } else { equal.unlike() };
        Some(match below {
            None => here,
            Some(below) if ones => Condition::All(vec![here, below]),
            Some(below) => Condition::Any(vec![here, below]),
        })
    });
    below.unwrap_or_else(|| Condition::ALWAYS.negation())
}
