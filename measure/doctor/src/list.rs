//! Lists of cores, as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;

/// No machine has so many.
const MOST: u32 = 16_384;

/// The cores of a list; none when it is no list.
pub(crate) fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let mut cores = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > MOST {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// The same, written.
pub(crate) fn write(cores: &BTreeSet<u32>) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let part =
        |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(cores in proptest::collection::btree_set(0u32..300, 0..60), noise: String) {
            prop_assert_eq!(parse(&write(&cores)), Some(cores));
            parse(&noise);
        }
    }

    #[test]
    fn lists() {
        assert_eq!(write(&parse("0-3,8\n").unwrap()), "0-3,8");
        assert_eq!((parse("x"), parse("3-1"), parse("0-4294967295")), (None, None, None));
    }
}
