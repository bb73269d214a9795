//! The key that two routers have in common.

use std::fmt;
use std::str::FromStr;

/// Bytes of a key.
const LENGTH: usize = 32;

/// 256 bits, of which no message shows any.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is too short, or too long.
    #[error("a key is 64 hexadecimal digits, and these are {0} characters")]
    Length(usize),
    /// It is not hexadecimal.
    #[error("a key is 64 hexadecimal digits, and there is another character among them")]
    Digit,
    /// It is no secret.
    #[error("a key of one digit alone is no secret")]
    Weak,
}

impl Key {
    pub(crate) fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| digit.to_digit(16).map(|digit| digit as u8).ok_or(KeyError::Digit))
            .collect::<Result<_, _>>()?;
        if digits.len() != 2 * LENGTH {
            return Err(KeyError::Length(digits.len()));
        }
        if digits.iter().all(|digit| *digit == digits[0]) {
            return Err(KeyError::Weak);
        }
        let mut key = [0; LENGTH];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Key(key))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits_and_never_shown() {
        let text = "00112233445566778899aAbBcCdDeEfF00112233445566778899aabbccddeeff";
        let key: Key = format!(" {text}\n").parse().unwrap();
        assert_eq!(key.bytes()[..4], [0, 0x11, 0x22, 0x33]);
        assert_eq!(format!("{key:?}"), "***");
        assert_eq!(text[1..].parse::<Key>(), Err(KeyError::Length(63)));
        assert_eq!(text.replace('7', "g").parse::<Key>(), Err(KeyError::Digit));
        assert_eq!("0".repeat(64).parse::<Key>(), Err(KeyError::Weak));
    }
}
