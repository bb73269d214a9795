//! Communities as FRR shows them (RFC 1997, RFC 8092, RFC 4360).

use super::route_target::RouteTarget;

/// Names of communities, and their values.
const WELL_KNOWN: [(&str, u32); 5] = [
    ("graceful-shutdown", 0xffff_0000),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("local-AS", 0xffff_ff03),
];

/// Communities as FRR shows them: each once, by value.
pub(super) fn communities<'t>(words: impl Iterator<Item = &'t str>) -> Result<String, String> {
    let value = |word: &str| {
        let known = WELL_KNOWN.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        known.or_else(|| {
            let (high, low) = word.split_once(':')?;
            Some(u32::from(half(high)?) << 16 | u32::from(half(low)?))
        })
    };
    let mut values = Vec::new();
    for word in words {
        values.push(value(word).ok_or_else(|| format!("{word:?} is no community"))?);
    }
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return Err("there is no community".to_owned());
    }
    let shown = |value: &u32| {
        let known = WELL_KNOWN.iter().find(|(_, known)| known == value);
        known.map_or_else(|| format!("{}:{}", value >> 16, value & 0xffff), |(name, _)| (*name).to_owned())
    };
    Ok(values.iter().map(shown).collect::<Vec<_>>().join(" "))
}

fn half(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Large communities as FRR shows them.
pub(super) fn large_communities<'t>(words: impl Iterator<Item = &'t str>) -> Result<String, String> {
    let mut values = Vec::new();
    for word in words {
        let parts: Option<Vec<u32>> =
            word.split(':').map(|part| part.parse().ok().filter(|_| !part.starts_with('+'))).collect();
        match parts {
            Some(parts) if parts.len() == 3 => values.push(parts),
            _ => return Err(format!("{word:?} is no large community")),
        }
    }
    values.sort_unstable();
    values.dedup();
    if values.is_empty() {
        return Err("there is no large community".to_owned());
    }
    let shown = |parts: &Vec<u32>| format!("{}:{}:{}", parts[0], parts[1], parts[2]);
    Ok(values.iter().map(shown).collect::<Vec<_>>().join(" "))
}

/// Extended communities, each with its kind in front: `rt 65001:1 soo 192.0.2.1:5`. FRR shows them
/// in the order of their bytes: of the forms of the number first, then of the kinds.
pub(super) fn extended_communities(words: &[&str]) -> Result<String, String> {
    let form = |target: &RouteTarget| match target {
        RouteTarget::Short(..) => 0,
        RouteTarget::Address(..) => 1,
        RouteTarget::Long(..) => 2,
    };
    let mut values = Vec::new();
    for pair in words.chunks(2) {
        match pair {
            [kind @ ("rt" | "soo"), number] => {
                let number = RouteTarget::read(number)?;
                values.push((form(&number), *kind, number));
            }
            _ => return Err(format!("{:?} is not of the form rt NUMBER or soo NUMBER", pair.join(" "))),
        }
    }
    values.sort_unstable();
    values.dedup();
    match values.is_empty() {
        true => Err("there is no extended community".to_owned()),
        false => Ok(values
            .iter()
            .map(|(_, kind, number)| format!("{kind} {number}"))
            .collect::<Vec<_>>()
            .join(" ")),
    }
}
