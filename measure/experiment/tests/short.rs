//! Every experiment runs end to end in its short form: as root, with the program bifrost built
//! beside this one.

use experiment::outcome::{Cell, Table};
use experiment::{EXPERIMENTS, Machine, Outcome, Run};

#[test]
fn every_experiment_measures_what_it_promises() {
    let outcomes: Vec<Outcome> = EXPERIMENTS
        .iter()
        .map(|experiment| {
            let outcome =
                experiment.run(&Run { short: true, tell: &|line| println!("{line}"), program: None });
            println!("{}", outcome.text());
            outcome
        })
        .collect();
    for outcome in &outcomes {
        let name = outcome.name;
        assert_eq!(outcome.failed, None, "{name}");
        let wide = outcome.tables.iter().map(Table::text).collect::<String>();
        let wide = wide.lines().find(|line| line.chars().count() > 80).map(str::to_owned);
        assert_eq!(wide, None, "{name}: a terminal has 80 columns");
        assert!(!outcome.tables.is_empty() && !outcome.notes.is_empty(), "{name} has nothing to show");
        let not_measured = outcome.notes.iter().find(|note| note.contains("not measured"));
        // What the notes of some say of watts.
        assert_eq!(not_measured.filter(|note| !note.contains("watts")), None, "{name}");
        for table in &outcome.tables {
            assert!(!table.rows.is_empty(), "{name}: {} is empty", table.title);
            for row in &table.rows {
                assert_eq!(
                    row.cells.len() + 1,
                    table.headings.len(),
                    "{name}: {}: {}",
                    table.title,
                    row.name
                );
                let measured = row.cells.iter().any(|cell| !matches!(cell, Cell::Nothing));
                assert!(measured, "{name}: {}: nothing is known of {}", table.title, row.name);
            }
        }
    }
    let html = experiment::report::page(&Machine::here(true), &outcomes, EXPERIMENTS.len()).html();
    for experiment in EXPERIMENTS {
        assert!(html.contains(&format!("<h2>{}</h2>", experiment.name)), "{}", experiment.name);
    }
}
