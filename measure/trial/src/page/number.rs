//! Numbers as people read them on axes and in tables.

const PLAIN: [(f64, &str); 4] = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
const NANOSECONDS: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];

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
            Format::Plain => scaled(value, &PLAIN),
            Format::Percent => format!("{} %", short(value * 100.0)),
            Format::Nanoseconds => scaled(value, &NANOSECONDS),
            Format::Exact => short(value),
        }
    }
}

impl Format {
    /// The number with four digits, zeros at the end as well: for tables, where numbers stand below
    /// each other.
    pub fn figure(self, value: f64) -> String {
        let (size, unit) = match self {
            Format::Percent => (1e-2, " %"),
            Format::Exact => (1.0, ""),
            Format::Plain => unit(value, &PLAIN),
            Format::Nanoseconds => unit(value, &NANOSECONDS),
        };
        let scaled = value / size;
        let digits = match scaled.abs() {
            _ if !value.is_finite() => return self.text(value),
            _ if scaled == 0.0 => 0,
            size if size >= 999.95 => 0,
            size if size >= 99.995 => 1,
            size if size >= 9.9995 => 2,
            _ => 3,
        };
        format!("{scaled:.digits$}{unit}")
    }
}

/// The largest unit that fits.
fn unit(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let fits = units.iter().find(|(unit, _)| value.abs() >= *unit * 0.9995).or(units.last());
    let (size, name) = fits.copied().unwrap_or((1.0, ""));
    (size, if value == 0.0 { "" } else { name })
}

fn scaled(value: f64, units: &[(f64, &'static str)]) -> String {
    let (size, name) = unit(value, units);
    format!("{}{name}", short(value / size))
}

/// Up to three digits, and no zeros at the end.
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

    #[test]
    fn figures_have_four_digits() {
        assert_eq!(Format::Plain.figure(2_200_000.0), "2.200 M");
        assert_eq!(Format::Plain.figure(14_880_952.0), "14.88 M");
        assert_eq!(Format::Plain.figure(999_999.9), "1.000 M");
        assert_eq!(Format::Nanoseconds.figure(123_456.0), "123.5 µs");
        assert_eq!(Format::Percent.figure(0.14), "14.00 %");
        assert_eq!(Format::Percent.figure(0.0), "0 %");
        assert_eq!(Format::Nanoseconds.figure(0.0), "0");
    }
}
