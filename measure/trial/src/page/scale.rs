//! Axes: where a value lies between the two ends of a scale, and where lines are drawn across.

use super::number::Format;

/// How values are spread over an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of ten. Values that are not above 0 are left out.
    Log,
    /// Percentiles (0 to 100) by their nines: 90, 99, 99.9 are equally far apart, and 100 one more
    /// step.
    Nines,
    /// Names; values are their numbers, from 0.
    Categories(Vec<String>),
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    pub(super) format: Format,
    from: Option<f64>,
    to: Option<f64>,
}

impl Axis {
    fn new(label: &str, scale: Scale) -> Axis {
        Axis { label: label.to_owned(), scale, format: Format::Plain, from: None, to: None }
    }

    /// An even axis.
    pub fn linear(label: &str) -> Axis {
        Axis::new(label, Scale::Linear)
    }

    /// An axis by powers of ten.
    pub fn log(label: &str) -> Axis {
        Axis::new(label, Scale::Log)
    }

    /// An axis of percentiles.
    pub fn nines(label: &str) -> Axis {
        Axis { format: Format::Exact, ..Axis::new(label, Scale::Nines) }
    }

    /// An axis of names.
    pub fn categories(label: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Axis {
        Axis::new(label, Scale::Categories(names.into_iter().map(Into::into).collect()))
    }

    /// It begins there, or lower where values are.
    #[must_use]
    pub fn from(self, from: f64) -> Axis {
        Axis { from: Some(from), ..self }
    }

    /// It ends there, or higher where values are.
    #[must_use]
    pub fn to(self, to: f64) -> Axis {
        Axis { to: Some(to), ..self }
    }

    /// How its numbers are written.
    #[must_use]
    pub fn format(self, format: Format) -> Axis {
        Axis { format, ..self }
    }

    /// A value as text: a category's name, or the number.
    pub(super) fn text(&self, value: f64) -> String {
        match &self.scale {
            Scale::Categories(names) => names.get(value.max(0.0) as usize).cloned().unwrap_or_default(),
            _ => self.format.text(value),
        }
    }

    /// The value in the scale's own, even measure; none when it has no place there.
    fn measure(&self, value: f64) -> Option<f64> {
        match &self.scale {
            Scale::Linear => value.is_finite().then_some(value),
            Scale::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
            Scale::Nines => (0.0..=100.0).contains(&value).then(|| -(1.0 - value / 100.0).max(NINES).log10()),
            Scale::Categories(names) => {
                (value >= 0.0 && value < names.len() as f64).then(|| value.floor() + 0.5)
            }
        }
    }

    /// Fits the axis to its values.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Fitted<'_> {
        let measures = values.chain(self.from).chain(self.to).filter_map(|value| self.measure(value));
        let (mut low, mut high) = measures
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let ticks = match &self.scale {
            Scale::Categories(names) => {
                (low, high) = (0.0, names.len().max(1) as f64);
                (0..names.len()).map(|n| (n as f64 + 0.5, n as f64)).collect()
            }
            Scale::Linear => {
                let step = nice((high - low).max(high.abs() * 1e-9).max(f64::MIN_POSITIVE * 1e9) / 5.0);
                // The ends are where lines are.
                (low, high) = ((low / step + 1e-6).floor() * step, (high / step - 1e-6).ceil() * step);
                if high <= low {
                    high = low + step;
                }
                let count = ((high - low) / step).round().clamp(1.0, 20.0) as usize;
                (0..=count).map(|n| low + n as f64 * step).map(|at| (at, at)).collect()
            }
            Scale::Log => {
                (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
                if high <= low {
                    high = low + 1.0;
                }
                let every = ((high - low) / 8.0).ceil().max(1.0);
                let count = ((high - low) / every) as usize;
                let mut ticks: Vec<(f64, f64)> =
                    (0..=count).map(|n| low + n as f64 * every).map(|at| (at, 10f64.powf(at))).collect();
                if high - low <= 2.0 {
                    let between = (0..(high - low) as usize).flat_map(|n| [2.0, 5.0].map(|digit| (n, digit)));
                    let between = between.map(|(n, digit)| digit * 10f64.powf(low + n as f64));
                    ticks.extend(between.map(|value: f64| (value.log10(), value)));
                }
                ticks
            }
            Scale::Nines => {
                low = low.min(high - 0.5);
                let marks =
                    [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0].map(|at| (self.measure(at), at));
                let inside = move |at: &f64| (low - 1e-9..=high + 1e-9).contains(at);
                marks.into_iter().filter_map(|(at, value)| Some((at.filter(inside)?, value))).collect()
            }
        };
        Fitted { axis: self, low, high, ticks }
    }
}

/// Where 100 % lies: as 99.9999 % would.
const NINES: f64 = 1e-6;

/// 1, 2 or 5 times a power of ten, at least `value`.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= value * 0.999)
        .unwrap_or(power)
}

/// An axis with its ends.
#[derive(Clone, Debug)]
pub(super) struct Fitted<'a> {
    pub(super) axis: &'a Axis,
    low: f64,
    high: f64,
    /// Where lines go, in the even measure, and the value there.
    ticks: Vec<(f64, f64)>,
}

impl Fitted<'_> {
    /// Where the value lies, 0 at one end and 1 at the other.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        self.axis.measure(value).map(|measure| self.share(measure))
    }

    fn share(&self, measure: f64) -> f64 {
        let share = (measure - self.low) / (self.high - self.low);
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Where bars stand: at 0, or at the end.
    pub(super) fn base(&self) -> f64 {
        if self.axis.scale == Scale::Linear { self.share(0.0) } else { 0.0 }
    }

    /// Lines across, with what is written there.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let text = |value: f64| match (&self.axis.scale, value) {
            (Scale::Nines, 100.0) => "max".to_owned(),
            (Scale::Nines, value) => format!("{value}"),
            _ => self.axis.text(value),
        };
        self.ticks.iter().map(move |(at, value)| (self.share(*at), text(*value)))
    }

    /// The part of the axis that a category has.
    pub(super) fn band(&self) -> f64 {
        match &self.axis.scale {
            Scale::Categories(names) => 1.0 / names.len().max(1) as f64,
            _ => 0.02,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.fit(values.iter().copied()).ticks().map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_are_at_round_numbers() {
        assert_eq!(ticks(&Axis::linear("").from(0.0), &[93.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(&Axis::linear("").from(0.0), &[14.88]), ["0", "5", "10", "15"]);
        assert_eq!(ticks(&Axis::log(""), &[120.0, 9e6]), ["100", "1 k", "10 k", "100 k", "1 M", "10 M"]);
        assert_eq!(ticks(&Axis::log(""), &[2.0, 9.0]), ["1", "10", "2", "5"]);
        assert_eq!(ticks(&Axis::nines(""), &[50.0, 99.9]), ["50", "90", "99", "99.9"]);
        assert_eq!(
            ticks(&Axis::nines(""), &[10.0, 100.0]),
            ["50", "90", "99", "99.9", "99.99", "99.999", "max"]
        );
        assert_eq!(ticks(&Axis::categories("", ["a", "b"]), &[]), ["a", "b"]);
        assert_eq!(ticks(&Axis::linear(""), &[5.0, 5.0]).first().map(String::as_str), Some("5"));
    }

    #[test]
    fn places() {
        let axis = Axis::log("");
        let fitted = axis.fit([1.0, 1e4].into_iter());
        assert_eq!((fitted.place(100.0), fitted.place(0.0), fitted.place(f64::NAN)), (Some(0.5), None, None));
        let axis = Axis::categories("", ["a", "b"]);
        let fitted = axis.fit([].into_iter());
        assert_eq!((fitted.place(0.0), fitted.place(1.0), fitted.place(2.0)), (Some(0.25), Some(0.75), None));
    }
}
