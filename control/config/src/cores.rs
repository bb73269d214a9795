//! Lists of processor cores, as taskset(1) and the kernel write them.

use std::fmt;
use std::str::FromStr;

/// Cores, ascending, each once, at least one. Reads and writes `2-5,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

/// Highest number that is believed.
const HIGHEST: usize = 65_535;

impl Cores {
    /// Puts a list in order; `None` when it is empty.
    pub fn of(mut cores: Vec<usize>) -> Option<Cores> {
        cores.sort_unstable();
        cores.dedup();
        (!cores.is_empty()).then_some(Cores(cores))
    }
}

impl FromStr for Cores {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Cores, &'static str> {
        const EXPECTED: &str = "expected a list of cores, such as \"2-5,8\"";
        let number =
            |text: &str| text.trim().parse::<usize>().ok().filter(|core| *core <= HIGHEST).ok_or(EXPECTED);
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if high < low {
                return Err("expected a range of cores that runs upwards, such as \"2-5\"");
            }
            cores.extend(low..=high);
        }
        Cores::of(cores).ok_or(EXPECTED)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut comma = "";
        while let Some(&low) = rest.first() {
            let run = rest.iter().enumerate().take_while(|(n, core)| **core == low + n).count();
            match run {
                1 => write!(f, "{comma}{low}")?,
                _ => write!(f, "{comma}{low}-{}", low + run - 1)?,
            }
            rest = &rest[run..];
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_they_are_written() {
        for (text, cores) in
            [("2-5,8", vec![2, 3, 4, 5, 8]), ("0", vec![0]), ("1,3", vec![1, 3]), ("0-1", vec![0, 1])]
        {
            assert_eq!(text.parse(), Ok(Cores(cores)));
            assert_eq!(text.parse::<Cores>().unwrap().to_string(), text);
        }
        assert_eq!("3, 1,1".parse(), Ok(Cores(vec![1, 3])));
        for text in ["", "a", "1-", "-1", "5-2", "1,,2", "0-99999999999", "1-2-3"] {
            assert!(text.parse::<Cores>().is_err(), "{text}");
        }
    }
}
