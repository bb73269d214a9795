//! Numbers as people read them on axes and in tables.

/// How the numbers of an axis are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// With k, M, G.
    #[default]
    Plain,
    /// A part of one, as percent.
    Percent,
    /// Nanoseconds, as ns, µs, ms or s.
    Nanoseconds,
    /// As it is, with no more digits than it needs.
    Exact,
}

impl Format {
    /// The number as text; a dash where it is none.
    pub fn text(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        match self {
            Format::Plain => scaled(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]),
            Format::Percent => format!("{} %", short(value * 100.0)),
            Format::Nanoseconds => scaled(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")]),
            Format::Exact => short(value),
        }
    }
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let size = value.abs();
    let unit = units.iter().find(|(unit, _)| size >= *unit * 0.9995).or(units.last());
    let (unit, name) = unit.copied().unwrap_or((1.0, ""));
    format!("{}{}", short(value / unit), if value == 0.0 { "" } else { name })
}

/// Up to four digits, and no zeros at the end.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        size if size < 1e-12 => return "0".to_owned(),
        size if size >= 0.0001 => 5,
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(Format::Plain.text(14_880_952.0), "14.9 M");
        assert_eq!(Format::Plain.text(0.0), "0");
        assert_eq!(Format::Plain.text(999_999.0), "1 M");
        assert_eq!(Format::Percent.text(0.005), "0.5 %");
        assert_eq!(Format::Percent.text(1.0), "100 %");
        assert_eq!(Format::Nanoseconds.text(12_340.0), "12.3 µs");
        assert_eq!(Format::Nanoseconds.text(2e9), "2 s");
        assert_eq!(Format::Exact.text(99.999), "100");
        assert_eq!(Format::Plain.text(f64::NAN), "–");
        assert_eq!(Format::Exact.text(3e-7), "3e-7");
    }
}
