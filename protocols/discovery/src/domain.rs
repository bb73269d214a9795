//! Names of domains, as advertisements carry them: labels without compression (RFC 1035, 3.1; RFC
//! 8106, 5.2).

use std::fmt;
use std::str::FromStr;

/// A name of 1 to 253 characters, its labels of 1 to 63. Letters are small, and there is no dot at
/// its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Domain(String);

impl FromStr for Domain {
    type Err = ();

    fn from_str(text: &str) -> Result<Domain, ()> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
        let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(known);
        let right = name.len() <= 253 && name.split('.').all(label);
        right.then_some(Domain(name)).ok_or(())
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Domain {
    /// Appends it as labels and the root.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        for label in self.0.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
    }

    /// Reads one, and what stands behind it. `None` for what is none.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<(Domain, &[u8])> {
        let mut labels = Vec::new();
        loop {
            let (&length, more) = bytes.split_first()?;
            if length == 0 {
                let name = labels.join(".").parse().ok()?;
                return Some((name, more));
            }
            // Longer ones are refused with the name; a pointer (RFC 1035, 4.1.4) looks like one.
            let label = more.get(..usize::from(length))?;
            labels.push(std::str::from_utf8(label).ok()?);
            bytes = &more[usize::from(length)..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_meant() {
        let name: Domain = "Example.NET.".parse().unwrap();
        assert_eq!(name.to_string(), "example.net");
        let long = format!("{}.{}", "a".repeat(63), "b".repeat(63));
        for wrong in ["", ".", "a..b", "a b", "ä.net", &"a".repeat(64), &format!("{long}.{long}")] {
            assert_eq!(wrong.parse::<Domain>(), Err(()), "{wrong}");
        }
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        assert_eq!(bytes, b"\x07example\x03net\x00");
        bytes.extend(b"xy");
        assert_eq!(Domain::read(&bytes), Some((name, &b"xy"[..])));
        assert_eq!(Domain::read(b"\x07exam"), None);
        assert_eq!(Domain::read(b"\xc0\x0c\x00"), None);
    }
}
