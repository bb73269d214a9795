//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address (IEEE 802), written `00:11:22:aa:bb:cc`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

/// A text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an Ethernet address; expected six two-digit hexadecimal numbers such as 00:11:22:aa:bb:cc"
)]
pub struct MacError(String);

impl Mac {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// 00:00:00:00:00:00
    pub const ZERO: Mac = Mac([0; 6]);

    /// Whether the group bit is set: multicast, or the broadcast address.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == Mac::BROADCAST
    }

    /// The address as a 48-bit big-endian number, as the forwarding tables keep it.
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address of a 48-bit big-endian number; bits above 48 are ignored.
    pub const fn from_u64(number: u64) -> Mac {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = MacError;

    /// Six hexadecimal numbers of one or two digits between colons, or between hyphens.
    fn from_str(text: &str) -> Result<Mac, MacError> {
        let error = || MacError(text.to_owned());
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(error)?;
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(error());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        if parts.next().is_some() { Err(error()) } else { Ok(Mac(bytes)) }
    }
}

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Mac {
        Mac(bytes)
    }
}

impl serde::Serialize for Mac {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Mac {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let mac: Mac = "00:1b:21:Aa:bB:0c".parse().unwrap();
        assert_eq!(mac, Mac([0, 0x1b, 0x21, 0xaa, 0xbb, 0x0c]));
        assert_eq!(mac.to_string(), "00:1b:21:aa:bb:0c");
        assert_eq!("0-1b-21-aa-bb-c".parse(), Ok(mac));
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert_eq!(mac.to_u64(), 0x001b_21aa_bb0c);
    }

    #[test]
    fn serde_writes_the_text() {
        let mac = Mac([0, 1, 2, 3, 4, 0xff]);
        let json = serde_json::to_string(&mac).unwrap();
        assert_eq!(json, r#""00:01:02:03:04:ff""#);
        assert_eq!(serde_json::from_str::<Mac>(&json).unwrap(), mac);
        assert!(serde_json::from_str::<Mac>(r#""fish""#).is_err());
    }

    #[test]
    fn wrong_texts_are_refused() {
        for text in
            ["", "00:11:22:33:44", "00:11:22:33:44:55:66", "00:11:22:33:44:5g", "00:11:22:33:44:+5", "::::::"]
        {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
