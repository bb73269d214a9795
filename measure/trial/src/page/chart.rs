//! Charts, as SVG: lines, bars and points between two axes.

use super::escape;
use super::scale::{Axis, Fitted, Scale};

/// The whole drawing, in its own units; the page makes it as large as there is room.
const SIZE: (f64, f64) = (640.0, 360.0);
/// Space around the plot: left, right, top, bottom.
const MARGIN: (f64, f64, f64, f64) = (62.0, 18.0, 14.0, 48.0);
/// Colours in the style sheet; series beyond take them again, with dashes.
const COLOURS: usize = 8;
/// The widest bar.
const BAR: f64 = 26.0;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    title: String,
    caption: Option<String>,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

/// Values that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    mark: Mark,
    values: Vec<(f64, f64)>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line through points.
    Line,
    /// Bars beside those of other series.
    Bars,
    /// Points alone.
    Points,
    /// A quiet dashed line to compare with: a limit, what was expected.
    Reference,
}

impl Series {
    fn new(name: &str, mark: Mark, values: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.to_owned(), mark, values: values.into_iter().collect() }
    }

    /// A line through these points.
    pub fn line(name: &str, values: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Line, values)
    }

    /// Bars; with categories x is the number of one.
    pub fn bars(name: &str, values: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Bars, values)
    }

    /// Points.
    pub fn points(name: &str, values: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Points, values)
    }

    /// A limit, or what was expected.
    pub fn reference(name: &str, values: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series::new(name, Mark::Reference, values)
    }
}

impl Chart {
    /// A chart between these axes.
    pub fn new(title: &str, x: Axis, y: Axis) -> Chart {
        Chart { title: title.to_owned(), caption: None, x, y, series: Vec::new() }
    }

    /// One more series. Colours go by the order of series; a reference takes none.
    #[must_use]
    pub fn series(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    /// A sentence under the chart.
    #[must_use]
    pub fn caption(self, text: impl Into<String>) -> Chart {
        Chart { caption: Some(text.into()), ..self }
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.mark == Mark::Reference || series.values.is_empty())
    }

    /// The chart as a figure.
    pub(super) fn html(&self) -> String {
        let mut html = format!("<figure>\n<figcaption>{}</figcaption>\n", escape(&self.title));
        if self.series.len() > 1 {
            html += "<ul class=\"key\">\n";
            for (n, series) in self.series.iter().enumerate() {
                let key = match series.mark {
                    Mark::Bars | Mark::Points => "box",
                    Mark::Line => "line",
                    Mark::Reference => "line dashed",
                };
                html +=
                    &format!("<li><i class=\"{key} {}\"></i>{}</li>\n", self.class(n), escape(&series.name));
            }
            html += "</ul>\n";
        }
        html += &self.svg();
        if let Some(caption) = &self.caption {
            html += &format!("<p>{}</p>\n", escape(caption));
        }
        html + "</figure>\n"
    }

    /// The colour of a series, and whether it is dashed.
    fn class(&self, number: usize) -> String {
        let mut coloured = 0;
        for series in self.series.iter().take(number) {
            coloured += usize::from(series.mark != Mark::Reference);
        }
        match self.series.get(number).map(|series| series.mark) {
            Some(Mark::Reference) | None => "ref".to_owned(),
            Some(_) if coloured >= COLOURS => format!("c{} again", coloured % COLOURS),
            Some(_) => format!("c{coloured}"),
        }
    }

    fn svg(&self) -> String {
        let ((width, height), (left, right, top, bottom)) = (SIZE, MARGIN);
        let values = || self.series.iter().flat_map(|series| series.values.iter());
        let x = self.x.fit(values().map(|(x, _)| *x));
        let y = self.y.fit(values().map(|(_, y)| *y));
        let frame = Frame {
            x: (left, width - right - left),
            y: (height - bottom, top + bottom - height),
            axes: (&x, &y),
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title)
        );
        frame.grid(&mut svg);
        let bars = self.series.iter().filter(|series| series.mark == Mark::Bars).count();
        let mut bar = 0;
        for (n, series) in self.series.iter().enumerate() {
            svg += &format!("<g class=\"{}\">\n", self.class(n));
            match series.mark {
                Mark::Bars => {
                    frame.bars(series, bar, bars, &mut svg);
                    bar += 1;
                }
                Mark::Line => {
                    frame.path(series, &mut svg);
                    frame.points(series, &mut svg);
                }
                Mark::Points => frame.points(series, &mut svg),
                Mark::Reference => frame.path(series, &mut svg),
            }
            svg += "</g>\n";
        }
        if self.is_empty() {
            svg += &format!(
                "<text class=\"none\" x=\"{}\" y=\"{}\">nothing was measured</text>\n",
                width / 2.0,
                height / 2.0
            );
        }
        svg + "</svg>\n"
    }
}

/// Where the plot lies in the drawing: begin and extent on each side (the vertical extent is
/// negative: upwards).
struct Frame<'a> {
    x: (f64, f64),
    y: (f64, f64),
    axes: (&'a Fitted<'a>, &'a Fitted<'a>),
}

impl Frame<'_> {
    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (across, up) = (self.axes.0.place(x)?, self.axes.1.place(y)?);
        Some((self.x.0 + across * self.x.1, self.y.0 + up * self.y.1))
    }

    fn grid(&self, svg: &mut String) {
        let ((left, wide), (low, high)) = (self.x, self.y);
        let (right, top) = (left + wide, low + high);
        for (share, text) in self.axes.1.ticks() {
            let y = low + share * high;
            *svg +=
                &format!("<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\n");
            *svg += &format!(
                "<text class=\"ty\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
                left - 7.0,
                y + 4.0,
                escape(&text)
            );
        }
        let is_named = matches!(self.axes.0.axis.scale, Scale::Categories(_));
        for (share, text) in self.axes.0.ticks() {
            let x = left + share * wide;
            if !is_named {
                *svg += &format!(
                    "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{low}\" x2=\"{x:.1}\" y2=\"{top}\"/>\n"
                );
            }
            *svg +=
                &format!("<text class=\"tx\" x=\"{x:.1}\" y=\"{}\">{}</text>\n", low + 17.0, escape(&text));
        }
        *svg += &format!("<line class=\"axis\" x1=\"{left}\" y1=\"{low}\" x2=\"{right}\" y2=\"{low}\"/>\n");
        let (middle, below) = (left + wide / 2.0, low + 38.0);
        *svg += &format!(
            "<text class=\"label\" x=\"{middle}\" y=\"{below}\">{}</text>\n",
            escape(&self.axes.0.axis.label)
        );
        let middle = low + high / 2.0;
        let label = escape(&self.axes.1.axis.label);
        *svg += &format!(
            "<text class=\"label\" x=\"14\" y=\"{middle}\" transform=\"rotate(-90 14 {middle})\">{label}</text>\n"
        );
    }

    /// What is told of a value when the pointer rests on it.
    fn told(&self, name: &str, (x, y): (f64, f64)) -> String {
        let (x, y) = (self.axes.0.axis.text(x), self.axes.1.axis.text(y));
        format!("<title>{}: {} at {}</title>", escape(name), escape(&y), escape(&x))
    }

    fn path(&self, series: &Series, svg: &mut String) {
        let points: Vec<String> = series
            .values
            .iter()
            .filter_map(|value| self.at(*value))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        if points.len() > 1 {
            *svg += &format!("<polyline points=\"{}\"/>\n", points.join(" "));
        }
    }

    fn points(&self, series: &Series, svg: &mut String) {
        for value in &series.values {
            if let Some((x, y)) = self.at(*value) {
                let told = self.told(&series.name, *value);
                *svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">{told}</circle>\n");
            }
        }
    }

    /// Bars of the `number`th of `count` series, side by side, two units apart, round at the end
    /// that tells.
    fn bars(&self, series: &Series, number: usize, count: usize, svg: &mut String) {
        let band = self.axes.0.band() * self.x.1;
        let room = (band * 0.76 / count.max(1) as f64).max(1.0);
        let width = (room - 2.0).clamp(1.0, BAR);
        let slot = width + 2.0;
        let base = self.y.0 + self.axes.1.base() * self.y.1;
        for value in &series.values {
            let Some((x, y)) = self.at(*value) else { continue };
            let left = x - slot * count as f64 / 2.0 + slot * number as f64 + 1.0;
            let round = 3f64.min(width / 2.0).min((base - y).abs());
            let (right, down) = (left + width, if y <= base { round } else { -round });
            *svg += &format!(
                "<path d=\"M{left:.1} {base:.1}V{:.1}Q{left:.1} {y:.1} {:.1} {y:.1}H{:.1}Q{right:.1} {y:.1} {right:.1} {:.1}V{base:.1}Z\">{}</path>\n",
                y + down,
                left + round,
                right - round,
                y + down,
                self.told(&series.name, *value)
            );
        }
    }
}
