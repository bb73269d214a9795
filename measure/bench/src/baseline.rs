//! The figures of an earlier day, to be seen beside those of today.
//!
//! `measure/bench/baseline.json` is committed: what each figure was on the day it was last kept
//! (`make bench KEEP=1`), in a form that outlives the machine's mood. Times are kept as multiples
//! of the plain copy loop of the same run, rates likewise; memory and ratios stand for themselves.
//! What is worse than then by more than a tenth is told at the end of a run. It is told and not
//! asserted: on a shared machine a figure may be off by as much for no fault of the code, and
//! whoever sees it measures again.

use crate::ruler::Row;
use std::collections::BTreeMap;
use std::path::Path;

const KEPT: &str = include_str!("../baseline.json");
/// How much worse is worth telling.
const TOLERATED: f64 = 0.10;

/// Shares of something are small beside their noise, and not compared.
fn is_compared(row: &Row) -> bool {
    !row.unit.starts_with('%')
}

/// What a figure of this unit is compared by.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Less is better, and a slow machine has more.
    Time,
    /// More is better, and a slow machine has less.
    Rate,
    /// Less is better, on any machine.
    Size,
    /// More is better, on any machine.
    Ratio,
}

fn kind(unit: &str) -> Kind {
    match unit {
        "cycles" | "ns" | "ms" | "s" => Kind::Time,
        "MB" | "bytes" => Kind::Size,
        unit if unit.ends_with("/s") || unit == "Mpps" => Kind::Rate,
        _ => Kind::Ratio,
    }
}

/// The figure in the form in which it is kept; `reference` in its unit of time.
fn normal(row: &Row, reference: f64) -> f64 {
    match kind(&row.unit) {
        Kind::Time => row.median / reference,
        Kind::Rate => row.median * reference,
        Kind::Size | Kind::Ratio => row.median,
    }
}

/// How much worse a figure is than it was: 0.2 is a fifth more time, or a fifth less of what was
/// there.
fn worse_by(kind: Kind, now: f64, then: f64) -> f64 {
    match kind {
        Kind::Time | Kind::Size => now / then - 1.0,
        Kind::Rate | Kind::Ratio => 1.0 - now / then,
    }
}

/// Lines to be shown at the end of a run.
pub fn beside(rows: &[Row], reference: f64) -> Vec<String> {
    // Invariant: the file is written by `keep`, and a test reads it.
    let kept: BTreeMap<String, f64> = serde_json::from_str(KEPT).unwrap_or_default();
    let known =
        rows.iter().filter(|row| is_compared(row)).filter_map(|row| Some((row, *kept.get(row.name)?)));
    let compared: Vec<(&Row, f64)> =
        known.map(|(row, then)| (row, worse_by(kind(&row.unit), normal(row, reference), then))).collect();
    let mut worse: Vec<&(&Row, f64)> = compared.iter().filter(|(_, by)| *by > TOLERATED).collect();
    worse.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut lines = vec![format!(
        "{} figures beside bench/baseline.json: {} worse by more than {:.0} %{}",
        compared.len(),
        worse.len(),
        TOLERATED * 100.0,
        if worse.is_empty() { "" } else { ", on a busy machine perhaps by chance: measure these again" }
    )];
    lines.extend(worse.iter().map(|(row, by)| format!("  {:<32} {:>5.0} % worse", row.name, by * 100.0)));
    lines
}

/// Keeps these figures, with those kept before that were not measured now.
pub fn keep(rows: &[Row], reference: f64, file: &Path) -> std::io::Result<()> {
    let mut kept: BTreeMap<String, f64> = match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error),
    };
    kept.extend(
        rows.iter().filter(|row| is_compared(row)).map(|row| (row.name.to_owned(), normal(row, reference))),
    );
    std::fs::write(file, serde_json::to_string_pretty(&kept)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_figures_are_read() {
        let kept: BTreeMap<String, f64> = serde_json::from_str(KEPT).unwrap();
        assert!(kept.len() > 20 && kept.values().all(|value| *value > 0.0), "{kept:?}");
    }

    #[test]
    fn worse_is_more_time_and_less_of_a_rate() {
        assert!((worse_by(kind("cycles"), 1.2, 1.0) - 0.2).abs() < 1e-9);
        assert!((worse_by(kind("updates/s"), 80.0, 100.0) - 0.2).abs() < 1e-9);
        assert!(worse_by(kind("MB"), 90.0, 100.0) < 0.0 && worse_by(kind("x Linux"), 4.0, 3.0) < 0.0);
    }

    #[test]
    fn what_a_slow_machine_does_to_all_is_no_news() {
        let row =
            |unit: &str, median| Row { name: "a", unit: unit.into(), median, min: 0.0, max: 0.0, samples: 1 };
        assert_eq!(normal(&row("cycles", 50.0), 100.0), normal(&row("cycles", 100.0), 200.0));
        assert_eq!(normal(&row("Mpps", 10.0), 100.0), normal(&row("Mpps", 5.0), 200.0));
    }
}
