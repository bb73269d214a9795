//! Frame sizes, as RFC 2544 section 9.1 and RFC 6985 mean them: bytes on Ethernet with the FCS,
//! without preamble and gap.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The sizes of RFC 2544 section 9.1 for Ethernet, which RFC 5180 section 5.1.1 keeps for IPv6.
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Preamble, start delimiter and gap between frames, in bytes.
const BETWEEN: f64 = 20.0;
/// The shortest and the longest frame, jumbo frames among them.
const LIMITS: std::ops::RangeInclusive<u16> = 64..=16_000;
/// More frames in a repeating sequence than anybody writes.
const LONGEST: usize = 1024;
/// IMIX: 7 parts of 40, 4 of 576, 1 of 1500 bytes of IP, as frames.
const IMIX: [(u16, usize); 3] = [(64, 7), (594, 4), (1518, 1)];
/// What the letters of a genome stand for (RFC 6985 section 3); `z`, the MTU, is left out: nobody
/// could compare it.
const GENOME: [(char, u16); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('j', 16_000),
];

/// The sizes of the frames of a trial: one, or a sequence that repeats.
///
/// Written as `64`, as `imix`, as weights (`64:7,594:4,1518:1`) or as a genome (`aaaaaaaddddg`, RFC
/// 6985).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Frames {
    /// The repeating sequence; one size alone is a sequence of one.
    sequence: Vec<u16>,
    text: String,
}

/// A size or mix that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {why}; expected a size such as 64, `imix`, weights such as 64:7,594:4,1518:1, or a genome such as aaaaaaaddddg"
)]
pub struct FramesError {
    text: String,
    why: &'static str,
}

impl Frames {
    /// Frames of one size, brought within 64 to 16,000 bytes.
    pub fn fixed(size: u16) -> Frames {
        let size = size.clamp(*LIMITS.start(), *LIMITS.end());
        Frames { sequence: vec![size], text: size.to_string() }
    }

    /// The usual mix: 7 frames of 64, 4 of 594 and 1 of 1518 bytes, evenly mingled.
    pub fn imix() -> Frames {
        Frames { sequence: mingled(&IMIX), text: "imix".to_owned() }
    }

    /// The sizes of RFC 2544.
    pub fn standard() -> Vec<Frames> {
        SIZES.into_iter().map(Frames::fixed).collect()
    }

    /// The sequence that repeats, never empty.
    pub fn sequence(&self) -> &[u16] {
        &self.sequence
    }

    /// The one size, or none for a mix.
    pub fn size(&self) -> Option<u16> {
        match self.sequence[..] {
            [size] => Some(size),
            _ => None,
        }
    }

    /// Each size with how often it comes in the sequence, shortest first.
    pub fn weights(&self) -> Vec<(u16, usize)> {
        let mut weights: Vec<(u16, usize)> = Vec::new();
        let mut sorted = self.sequence.clone();
        sorted.sort_unstable();
        for size in sorted {
            match weights.last_mut() {
                Some((last, weight)) if *last == size => *weight += 1,
                _ => weights.push((size, 1)),
            }
        }
        weights
    }

    /// Mean bytes of a frame.
    pub fn mean(&self) -> f64 {
        self.sequence.iter().map(|&size| f64::from(size)).sum::<f64>() / self.sequence.len() as f64
    }

    /// Frames a second that fill a line of so many bits a second: `line / (8 * (mean + 20))`.
    pub fn line_rate(&self, bits: f64) -> f64 {
        bits / (8.0 * (self.mean() + BETWEEN))
    }

    /// Bits a second on the line (layer 1) at so many frames a second.
    pub fn line_bits(&self, frames: f64) -> f64 {
        frames * 8.0 * (self.mean() + BETWEEN)
    }

    /// The same, with no frame shorter than `least` bytes; whether any was.
    pub fn at_least(&self, least: u16) -> (Frames, bool) {
        if self.sequence.iter().all(|&size| size >= least) {
            return (self.clone(), false);
        }
        let sequence: Vec<u16> = self.sequence.iter().map(|&size| size.max(least)).collect();
        let mut raised = Frames { sequence, text: String::new() };
        raised.text = match raised.size() {
            Some(size) => size.to_string(),
            None => {
                raised.weights().iter().map(|(size, n)| format!("{size}:{n}")).collect::<Vec<_>>().join(",")
            }
        };
        (raised, true)
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Frames> for String {
    fn from(frames: Frames) -> String {
        frames.text
    }
}

impl TryFrom<String> for Frames {
    type Error = FramesError;

    fn try_from(text: String) -> Result<Frames, FramesError> {
        text.parse()
    }
}

impl FromStr for Frames {
    type Err = FramesError;

    fn from_str(text: &str) -> Result<Frames, FramesError> {
        let fail = |why| FramesError { text: text.chars().take(80).collect(), why };
        let size = |text: &str| match text.parse::<u16>() {
            Ok(size) if LIMITS.contains(&size) => Ok(size),
            Ok(_) => Err(fail("a frame has 64 to 16000 bytes")),
            Err(_) => Err(fail("that is no number of bytes")),
        };
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Frames::imix());
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase()) {
            let gene = |letter| GENOME.iter().find(|(gene, _)| *gene == letter).map(|(_, size)| *size);
            let sequence: Option<Vec<u16>> = text.chars().map(gene).collect();
            let sequence = sequence.ok_or_else(|| fail("a genome has the letters a to j"))?;
            if sequence.len() > LONGEST {
                return Err(fail("a sequence has at most 1024 frames"));
            }
            return Ok(Frames { sequence, text: text.to_owned() });
        }
        if !text.contains(':') {
            return Ok(Frames::fixed(size(text)?));
        }
        let mut weights = Vec::new();
        for part in text.split(',') {
            let (bytes, weight) = part.split_once(':').ok_or_else(|| fail("a weight is missing"))?;
            let weight = weight.parse::<usize>().ok().filter(|weight| (1..=LONGEST).contains(weight));
            weights.push((size(bytes)?, weight.ok_or_else(|| fail("a weight is 1 to 1024"))?));
        }
        if weights.iter().map(|(_, weight)| weight).sum::<usize>() > LONGEST {
            return Err(fail("a sequence has at most 1024 frames"));
        }
        Ok(Frames { sequence: mingled(&weights), text: text.to_owned() })
    }
}

/// A sequence with these weights, each size spread evenly over it: always the size that is most in
/// arrears.
fn mingled(weights: &[(u16, usize)]) -> Vec<u16> {
    let total: usize = weights.iter().map(|(_, weight)| weight).sum();
    let mut credit = vec![0i64; weights.len()];
    let mut sequence = Vec::with_capacity(total);
    for _ in 0..total {
        for (credit, (_, weight)) in credit.iter_mut().zip(weights) {
            *credit += *weight as i64;
        }
        let next = (0..credit.len()).rev().max_by_key(|&n| credit[n]).unwrap_or(0);
        credit[next] -= total as i64;
        sequence.push(weights[next].0);
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_rates_are_those_of_the_books() {
        assert!((Frames::fixed(64).line_rate(10e9) - 14_880_952.38).abs() < 0.01);
        assert!((Frames::fixed(1518).line_rate(10e9) - 812_743.82).abs() < 0.01);
        assert!((Frames::fixed(64).line_bits(14_880_952.380952) - 10e9).abs() < 1.0);
    }

    #[test]
    fn mixes_in_every_notation() {
        let imix: Frames = "imix".parse().unwrap();
        assert_eq!(imix.weights(), [(64, 7), (594, 4), (1518, 1)]);
        assert!((imix.mean() - (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
        let genome: Frames = "aaddg".parse().unwrap();
        assert_eq!(genome.sequence(), [64, 64, 512, 512, 1518]);
        let weights: Frames = "64:2,1518:2".parse().unwrap();
        assert_eq!(weights.sequence(), [64, 1518, 64, 1518]);
        assert_eq!("128".parse::<Frames>().unwrap().size(), Some(128));
        assert_eq!(imix.at_least(78).0.weights(), [(78, 7), (594, 4), (1518, 1)]);
        assert_eq!(Frames::fixed(64).at_least(78), (Frames::fixed(78), true));
        assert_eq!(Frames::fixed(128).at_least(78), (Frames::fixed(128), false));
    }

    #[test]
    fn nonsense_is_told() {
        for text in ["", "63", "70000", "64:0", "64:7,", "xyz", "64:99999", "-1", "64:7:1", "Aag"] {
            let error = text.parse::<Frames>().unwrap_err();
            assert!(error.to_string().contains("expected"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(text in "[a-z0-9:,]{0,24}") {
            if let Ok(frames) = text.parse::<Frames>() {
                let json = serde_json::to_string(&frames).unwrap();
                prop_assert_eq!(serde_json::from_str::<Frames>(&json).unwrap(), frames.clone());
                prop_assert!(frames.mean() >= 64.0 && !frames.sequence().is_empty());
                let (raised, _) = frames.at_least(96);
                prop_assert_eq!(raised.to_string().parse::<Frames>().unwrap().weights(), raised.weights());
            }
        }
    }
}
