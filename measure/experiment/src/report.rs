//! One page of all that was found, with the machine that it was found on.

use trial::page::{Axis, Chart, Format, Page, Section, Series, Table};

use crate::{Machine, Outcome};

/// The page. It can be made of as many outcomes as there are yet.
pub fn page(machine: &Machine, outcomes: &[Outcome], all: usize) -> Page {
    let mut page = Page::new("Bifrost: experiments").lead(
        "The tables that open-source routers and the research beside them were measured by, measured again on this machine. Figures of then are \
         beside those of now: other machines, real network cards; what can be compared is the shape.",
    );
    if outcomes.len() < all {
        page = page.lead(format!(
            "This page has {} of {all} experiments: the run has not come to its end.",
            outcomes.len()
        ));
    }
    for (name, value) in &machine.facts {
        page = page.fact(name, value);
    }
    page = page.fact("release", env!("CARGO_PKG_VERSION"));
    page = page.section(memory(machine)).section(commands(outcomes));
    outcomes.iter().fold(page, |page, outcome| page.section(outcome.section()))
}

fn memory(machine: &Machine) -> Section {
    let section = Section::new("the machine's memory");
    if machine.memory_latency.is_empty() {
        return section.text("Not measured.");
    }
    let points = machine.memory_latency.iter().map(|(bytes, time)| (*bytes as f64, *time));
    let chart = Chart::new(
        "How long memory takes to answer",
        Axis::log("bytes in use"),
        Axis::log("ns").format(Format::Plain),
    );
    let mut table = Table::new(&[">in use", ">a step takes, ns"]);
    for (bytes, time) in &machine.memory_latency {
        let size =
            if *bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
        table = table.row([size, format!("{time:.1}")]);
    }
    section
        .text("A chase from address to address in random order, as lat_mem_rd measures: a table's size says which of these latencies a lookup waits for.")
        .chart(chart.series(Series::line("a step", points)))
        .table(table)
}

fn commands(outcomes: &[Outcome]) -> Section {
    let mut table = Table::new(&["experiment", "command", ">took, s", "ended"]);
    for outcome in outcomes {
        let ended = if outcome.failed.is_some() { "early" } else { "whole" };
        let seconds = format!("{:.0}", outcome.seconds);
        table = table.row([outcome.name, &outcome.command, &seconds, ended]);
    }
    Section::new("experiments").table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_machine_and_what_there_is_yet() {
        let machine = Machine {
            facts: vec![("cpu".to_owned(), "fast".to_owned())],
            memory_latency: vec![(8192, 1.2), (64 << 20, 90.0)],
        };
        let mut outcome = Outcome::new(&crate::EXPERIMENTS[3], false);
        outcome.failed = Some("no root".to_owned());
        let html = page(&machine, &[outcome], 15).html();
        for words in [
            "fast",
            "1 of 15 experiments",
            "64 MiB",
            "bifrost experiment separation-inline",
            "early",
            "no root",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(page(&Machine::default(), &[], 0).html().contains("Not measured"));
    }
}
