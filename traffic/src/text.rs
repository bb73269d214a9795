//! Values of the model are written as text, alike in files, in flags and in messages.

/// Makes a type with `FromStr` and `Display` a string in serde's eyes; plain numbers and booleans are taken as their text.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::text::Text::deserialize(deserializer)?.0.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use as_text;

/// A text, or what may stand for one.
pub(crate) struct Text(pub String);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A number with an optional decimal factor before its unit: `1.5M`, `10k`, `64`. The rest is the unit.
pub(crate) fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: f64 = digits.replace('_', "").parse().ok()?;
    let unit = unit.trim_start();
    let (factor, unit) = match unit.as_bytes().first() {
        Some(b'k' | b'K') => (1e3, &unit[1..]),
        Some(b'M') => (1e6, &unit[1..]),
        Some(b'G') => (1e9, &unit[1..]),
        Some(b'T') => (1e12, &unit[1..]),
        _ => (1.0, unit),
    };
    Some((number * factor, unit.trim()))
}

/// A length of time: `10s`, `100us`, `1.5ms`, `2m`, `250` (seconds).
pub fn time(text: &str) -> Option<std::time::Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: f64 = digits.parse().ok()?;
    let factor = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    std::time::Duration::try_from_secs_f64(number * factor).ok()
}
