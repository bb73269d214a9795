//! The figures of an earlier day, to be seen beside those of today.
//!
//! `measure/bench/baseline.json` is committed: what each figure was on the day it was last kept
//! (`make bench KEEP=1`), in a form that outlives the machine's mood. Times are kept as multiples
//! of the plain copy loop of the same run, rates likewise; memory and ratios stand for themselves.
//! They are kept for each processor by itself, as those multiples differ between processors.
//! What is worse than then by more than a tenth is told at the end of a run. It is told and not
//! asserted: on a shared machine a figure may be off by as much for no fault of the code, and
//! whoever sees it measures again.

use crate::ruler::Row;
use std::collections::BTreeMap;
use std::path::Path;

const KEPT: &str = include_str!("../baseline.json");
/// How much worse is worth telling.
const TOLERATED: f64 = 0.10;

/// Of each processor, by the name it has for Linux, the figures by their names.
type Kept = BTreeMap<String, BTreeMap<String, f64>>;

/// The name of this machine's processor.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut fields = info.lines().filter_map(|line| line.split_once(':'));
    let name = fields.find(|(key, _)| key.trim() == "model name").map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

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
    let kept: Kept = serde_json::from_str(KEPT).unwrap_or_default();
    let processor = processor();
    let Some(kept) = kept.get(&processor) else {
        let known: Vec<&str> = kept.keys().map(String::as_str).collect();
        return vec![format!(
            "bench/baseline.json has no figures of this processor ({processor}), only of {}",
            known.join(" and ")
        )];
    };
    let known =
        rows.iter().filter(|row| is_compared(row)).filter_map(|row| Some((row, *kept.get(row.name)?)));
    let compared: Vec<(&Row, f64)> =
        known.map(|(row, then)| (row, worse_by(kind(&row.unit), normal(row, reference), then))).collect();
    let mut worse: Vec<&(&Row, f64)> = compared.iter().filter(|(_, by)| *by > TOLERATED).collect();
    worse.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut lines = vec![format!(
        "{} figures beside bench/baseline.json ({processor}): {} worse by more than {:.0} %{}",
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
    let mut kept: Kept = match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept::new(),
        Err(error) => return Err(error),
    };
    let rows = rows.iter().filter(|row| is_compared(row));
    kept.entry(processor())
        .or_default()
        .extend(rows.map(|row| (row.name.to_owned(), normal(row, reference))));
    std::fs::write(file, serde_json::to_string_pretty(&kept)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_figures_are_read() {
        let kept: Kept = serde_json::from_str(KEPT).unwrap();
        assert!(kept.values().all(|kept| kept.len() > 20), "{kept:?}");
        assert!(kept.values().flat_map(BTreeMap::values).all(|value| *value > 0.0), "{kept:?}");
    }

    #[test]
    fn figures_are_kept_for_this_processor_and_others_stay() {
        let file = std::env::temp_dir().join(format!("bifrost-baseline-{}", std::process::id()));
        std::fs::write(&file, "{\"Other\": {\"a\": 1.5}}").unwrap();
        let row = |median| Row::new("a", "cycles", vec![median]);
        keep(&[row(90.0)], 30.0, &file).unwrap();
        let kept: Kept = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((kept["Other"]["a"], kept[&processor()]["a"], kept.len()), (1.5, 3.0, 2));
    }

    #[test]
    fn worse_is_more_time_and_less_of_a_rate() {
        assert!((worse_by(kind("cycles"), 1.2, 1.0) - 0.2).abs() < 1e-9);
        assert!((worse_by(kind("updates/s"), 80.0, 100.0) - 0.2).abs() < 1e-9);
        assert!(worse_by(kind("MB"), 90.0, 100.0) < 0.0 && worse_by(kind("x Linux"), 4.0, 3.0) < 0.0);
    }

    #[test]
    fn what_a_slow_machine_does_to_all_is_no_news() {
        let row = |unit: &str, median| Row::new("a", unit, vec![median]);
        assert_eq!(normal(&row("cycles", 50.0), 100.0), normal(&row("cycles", 100.0), 200.0));
        assert_eq!(normal(&row("Mpps", 10.0), 100.0), normal(&row("Mpps", 5.0), 200.0));
    }
}
