//! What `bifrost rfc2544` shows: how far it is, and in the end its figures.

use std::io::{IsTerminal, Write, stderr};

use trial::page::Format;
use trial::report::{BackToBack, LatencyAt, LossCurve, Recovery, Report, Reset, Throughput};
use trial::{Event, Progress, duration};

use crate::command::table::Table;

/// Progress, on standard error: a line that changes on a terminal, and what was found on lines of
/// its own.
#[derive(Default)]
pub(super) struct Screen {
    /// Columns of the line that changes.
    width: usize,
}

impl Screen {
    pub(super) fn show(&mut self, progress: &Progress<'_>) {
        let at = format!("[{}/{}] {} {}", progress.step, progress.steps, progress.test, progress.frames);
        match progress.event {
            Event::Found(found) => {
                self.clear();
                eprintln!("{at}: {found}");
            }
            Event::Begins(offered) => {
                let load = format!("{} frames/s", Format::Plain.figure(offered.rate));
                self.line(&format!(
                    "{at}: trial {} at {load}, {} left",
                    progress.trials + 1,
                    left(progress.left)
                ));
            }
            Event::Ended { offered, measured, recalled: false } => {
                let loss = Format::Percent.text(measured.loss(offered));
                let load = format!("{} frames/s", Format::Plain.figure(offered.rate));
                self.line(&format!("{at}: {load}, {loss} lost, {} left", left(progress.left)));
            }
            Event::Ended { recalled: true, .. } => {}
        }
    }

    fn line(&mut self, text: &str) {
        if stderr().is_terminal() {
            let width = text.chars().count();
            eprint!("\r{text}{:1$}", "", self.width.saturating_sub(width));
            let _ = stderr().flush();
            self.width = width;
        }
    }

    pub(super) fn clear(&mut self) {
        if self.width > 0 {
            eprint!("\r{:1$}\r", "", self.width);
            self.width = 0;
        }
    }
}

fn left(seconds: f64) -> String {
    format!("about {}", duration(seconds.max(1.0).ceil().max(10.0)))
}

/// The figures as tables.
pub(super) fn text(report: &Report) -> String {
    let parts = [
        ("throughput", throughput(&report.throughput), report.throughput.is_empty()),
        ("latency", latency(&report.latency), report.latency.is_empty()),
        ("frame loss", loss(&report.loss), report.loss.is_empty()),
        ("back-to-back", back_to_back(&report.back_to_back), report.back_to_back.is_empty()),
        ("recovery", recovery(&report.recovery), report.recovery.is_empty()),
        ("reset", reset(&report.reset), report.reset.is_empty()),
    ];
    let mut text = String::new();
    for (name, table, _) in parts.into_iter().filter(|(.., is_empty)| !is_empty) {
        text += &format!("{name}\n{}\n", table.render());
    }
    for note in &report.notes {
        text += &format!("{note}\n");
    }
    text + &format!("{} trials, of {} of load together\n", report.trials, duration(report.seconds))
}

fn figure(rate: f64) -> String {
    Format::Plain.figure(rate)
}

fn time(nanoseconds: f64) -> String {
    Format::Nanoseconds.figure(nanoseconds)
}

fn throughput(rows: &[Throughput]) -> Table {
    let mut table = Table::new(&["size", ">loss", ">frames/s", ">of the line", ">came back", ">trials"]);
    for row in rows {
        for goal in &row.goals {
            table.row(vec![
                row.frames.to_string(),
                Format::Percent.text(goal.loss),
                goal.lower.map_or("-".to_owned(), figure),
                goal.lower.map_or("-".to_owned(), |lower| format!("{:.1} %", 100.0 * lower / row.line_rate)),
                goal.conditional.map_or("-".to_owned(), figure),
                row.trials.to_string(),
            ]);
        }
    }
    table
}

fn latency(rows: &[LatencyAt]) -> Table {
    let mut table = Table::new(&["size", ">load", ">min", ">mean", ">50 %", ">99 %", ">99.9 %", ">max"]);
    for row in rows {
        let at = |percentile| row.latency.at(percentile).map_or("-".to_owned(), time);
        let load = Format::Percent.text(row.load);
        let (min, mean, max) = (time(row.latency.min), time(row.latency.mean), time(row.latency.max));
        table.row(vec![row.frames.to_string(), load, min, mean, at(50.0), at(99.0), at(99.9), max]);
    }
    table
}

fn loss(rows: &[LossCurve]) -> Table {
    let mut table = Table::new(&["size", ">offered", ">of the line", ">lost"]);
    for curve in rows {
        for point in &curve.points {
            let share = format!("{:.1} %", 100.0 * point.rate / curve.line_rate);
            table.row(vec![
                curve.frames.to_string(),
                figure(point.rate),
                share,
                Format::Percent.figure(point.loss),
            ]);
        }
    }
    table
}

fn back_to_back(rows: &[BackToBack]) -> Table {
    let mut table = Table::new(&["size", ">frames", ">min", ">max", ">buffer"]);
    for row in rows {
        let longest = &row.longest;
        let (mean, buffer) = (format!("{:.0}", longest.mean), time(row.corrected * 1e9));
        table.row(vec![
            row.frames.to_string(),
            mean,
            longest.min.to_string(),
            longest.max.to_string(),
            buffer,
        ]);
    }
    table
}

fn recovery(rows: &[Recovery]) -> Table {
    let mut table = Table::new(&["size", ">overload", ">recovered after", ">min", ">max"]);
    for row in rows {
        let [mean, min, max] = [row.mean, row.min, row.max].map(|seconds| time(seconds * 1e9));
        table.row(vec![row.frames.to_string(), figure(row.overload), mean, min, max]);
    }
    table
}

fn reset(rows: &[Reset]) -> Table {
    let mut table = Table::new(&["size", ">rate", ">lost", ">not forwarding"]);
    for row in rows {
        table.row(vec![
            row.frames.to_string(),
            figure(row.rate),
            row.lost.to_string(),
            duration(row.by_loss),
        ]);
    }
    table
}
