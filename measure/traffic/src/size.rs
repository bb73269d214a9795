//! Sizes of frames.
//!
//! A size is that of the Ethernet frame **with** its frame check sequence, as RFC 2544 counts: 64
//! is the smallest frame, of which 60 bytes are in memory. Tags and labels are inside it.

use std::fmt;
use std::str::FromStr;

/// Bytes of the frame check sequence, which the device adds.
pub const FCS: u32 = 4;
/// Smallest frame (IEEE 802.3).
pub const SMALLEST: u32 = 64;
/// Largest frame that can be asked for: a jumbo frame.
pub const LARGEST: u32 = 9216 + 18 + FCS;
/// Bytes on the wire beside the frame: preamble, start delimiter and gap (IEEE 802.3).
pub const LAYER1: u32 = 20;
/// The mix called `imix`: 7 of 64, 4 of 594, 1 of 1518 bytes.
pub const IMIX: [(u32, u32); 3] = [(64, 7), (594, 4), (1518, 1)];
/// Entries of a cycle at most.
const CYCLE: usize = 4096;

/// Sizes of a stream's frames.
///
/// As text: `64`, `64-1518` (each as often), `64:7,594:4,1518:1` (size and weight), `imix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<Part>);

/// Sizes from `first` to `last`, `weight` times as often as those of a part with weight 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Smallest.
    pub first: u32,
    /// Largest.
    pub last: u32,
    /// At least 1.
    pub weight: u32,
}

/// A text that says no sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum SizeError {
    #[error(
        "`{0}` is no size: write 64, 64-1518, sizes with weights as 64:7,594:4,1518:1, or imix (bytes with the check sequence)"
    )]
    Text(String),
    #[error("size {0} is outside {SMALLEST} to {LARGEST} (bytes with the check sequence)")]
    Range(u32),
    #[error("the weights of the sizes add up to {0}, more than {CYCLE}: divide them by a common number")]
    Weights(u64),
}

crate::text::as_text!(Sizes);

impl Sizes {
    /// All frames of one size.
    pub fn fixed(size: u32) -> Result<Sizes, SizeError> {
        Sizes::mix(vec![Part { first: size, last: size, weight: 1 }])
    }

    /// Parts with weights.
    pub fn mix(parts: Vec<Part>) -> Result<Sizes, SizeError> {
        for part in &parts {
            for size in [part.first, part.last] {
                if !(SMALLEST..=LARGEST).contains(&size) {
                    return Err(SizeError::Range(size));
                }
            }
            if part.last < part.first || part.weight == 0 {
                return Err(SizeError::Text(part.to_string()));
            }
        }
        let total: u64 = parts.iter().map(|part| u64::from(part.weight)).sum();
        match total {
            0 => Err(SizeError::Text(String::new())),
            1..=4096 => Ok(Sizes(parts)),
            _ => Err(SizeError::Weights(total)),
        }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Largest size.
    pub fn largest(&self) -> u32 {
        self.0.iter().map(|part| part.last).max().unwrap_or(SMALLEST)
    }

    /// Smallest size.
    pub fn smallest(&self) -> u32 {
        self.0.iter().map(|part| part.first).min().unwrap_or(SMALLEST)
    }

    /// The order in which sizes follow each other, over and over: each as often as its weight says,
    /// mixed the same way each time.
    pub fn cycle(&self) -> Vec<u32> {
        if let [part] = self.0[..]
            && part.first == part.last
        {
            return vec![part.first];
        }
        let total: usize = self.0.iter().map(|part| part.weight as usize).sum();
        // A range needs room for each of its sizes, a mix of fixed sizes does not.
        let widest = self.0.iter().map(|part| (part.last - part.first + 1) as usize).max().unwrap_or(1);
        let rounds = (widest.min(CYCLE) / total).max(1).min(CYCLE / total);
        let mut sizes = Vec::with_capacity(rounds * total);
        for part in &self.0 {
            let count = part.weight as usize * rounds;
            let span = (part.last - part.first) as usize;
            sizes.extend((0..count).map(|i| {
                let step = if count > 1 { i * span / (count - 1) } else { span / 2 };
                part.first + step as u32
            }));
        }
        let mut random = crate::random::Random(0x512e);
        random.shuffle(&mut sizes);
        sizes
    }

    /// Bytes of a frame on average.
    pub fn mean(&self) -> f64 {
        let cycle = self.cycle();
        cycle.iter().map(|&size| f64::from(size)).sum::<f64>() / cycle.len() as f64
    }
}

impl Default for Sizes {
    /// 64 bytes.
    fn default() -> Sizes {
        Sizes(vec![Part { first: SMALLEST, last: SMALLEST, weight: 1 }])
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last != self.first {
            write!(f, "-{}", self.last)?;
        }
        if self.weight != 1 { write!(f, ":{}", self.weight) } else { Ok(()) }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Sizes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Sizes, SizeError> {
        if text.trim().eq_ignore_ascii_case("imix") {
            return Sizes::mix(
                IMIX.iter().map(|&(size, weight)| Part { first: size, last: size, weight }).collect(),
            );
        }
        let wrong = || SizeError::Text(text.to_owned());
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let parts = text.split(',').map(|part| {
            let (sizes, weight) = match part.split_once(':') {
                Some((sizes, weight)) => (sizes, number(weight)?),
                None => (part, 1),
            };
            let (first, last) = match sizes.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(sizes)?, number(sizes)?),
            };
            if last < first || weight == 0 {
                return Err(wrong());
            }
            Ok(Part { first, last, weight })
        });
        Sizes::mix(parts.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_is_seven_four_one() {
        let imix: Sizes = "imix".parse().unwrap();
        assert_eq!(imix.to_string(), "64:7,594:4,1518");
        assert_eq!(imix, imix.to_string().parse().unwrap());
        let cycle = imix.cycle();
        let count = |size| cycle.iter().filter(|&&other| other == size).count();
        assert_eq!((cycle.len(), count(64), count(594), count(1518)), (12, 7, 4, 1));
    }

    #[test]
    fn a_range_has_each_size_once_in_mixed_order() {
        let mut cycle = "64-1518".parse::<Sizes>().unwrap().cycle();
        assert_ne!(cycle, (64..=1518).collect::<Vec<_>>());
        cycle.sort_unstable();
        assert_eq!(cycle, (64..=1518).collect::<Vec<_>>());
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for text in
            ["", "x", "64-", "70-64", "64:0", "63", "99999", "64,,", "64:4097", "-1", "64:99999999999"]
        {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains("size"), "{text}: {error}");
        }
    }
}
