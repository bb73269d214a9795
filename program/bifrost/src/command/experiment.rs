//! `bifrost experiment`: the tables that routers were once measured by, here and now.

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use experiment::{EXPERIMENTS, Experiment as Question, Machine, Outcome, Run};

use super::table::{Table, print};
use super::{Failure, result_file};

/// The name that stands for all of them.
const ALL: &str = "all";

/// `experiment`.
#[derive(Debug, Args)]
pub struct Experiment {
    /// Which one, or `all`
    #[arg(value_name = "NAME", required_unless_present = "list", value_parser = names())]
    pub name: Option<String>,
    /// Say which there are, and what each one asks
    #[arg(long, conflicts_with_all = ["name", "short", "report", "json"])]
    pub list: bool,
    /// In seconds, with small tables and few samples: to see that it works, not for figures
    #[arg(long)]
    pub short: bool,
    /// Write one page with all that was found: tables, charts, the machine
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// As JSON; names are stable
    #[arg(long)]
    pub json: bool,
}

fn names() -> clap::builder::PossibleValuesParser {
    EXPERIMENTS.iter().map(|one| one.name).chain([ALL]).collect::<Vec<_>>().into()
}

/// Runs one or all. Ends with 1 when one of them could not be made whole; what the others found is
/// there all the same.
pub fn experiment(args: &Experiment) -> Result<ExitCode, Failure> {
    let Some(name) = args.name.as_deref().filter(|_| !args.list) else { return list() };
    let chosen: Vec<&Question> = EXPERIMENTS.iter().filter(|one| name == ALL || one.name == name).collect();
    args.report.as_deref().map_or(Ok(()), result_file::can_be)?;
    let machine = args.report.is_some().then(|| {
        say("the machine");
        Machine::here(args.short)
    });
    // It may be called anything.
    let program = std::env::current_exe().ok();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (number, one) in chosen.iter().enumerate() {
        let tell = |line: &str| say(&format!("{}/{} {}: {line}", number + 1, chosen.len(), one.name));
        let outcome = one.run(&Run { short: args.short, tell: &tell, program: program.as_deref() });
        if !args.json {
            print(&format!("{}{}", if number > 0 { "\n" } else { "" }, outcome.text()))?;
        }
        outcomes.push(outcome);
        // After each, so that an interrupt leaves a page of what there was.
        if let (Some(file), Some(machine)) = (&args.report, &machine) {
            let html = experiment::report::page(machine, &outcomes, chosen.len()).html();
            result_file::keep(file, &html)?;
        }
    }
    if args.json {
        let json = match &outcomes[..] {
            [one] if name != ALL => serde_json::to_string_pretty(one),
            all => serde_json::to_string_pretty(all),
        };
        print(&(json.map_err(|error| Failure::output(error.into()))? + "\n"))?;
    }
    let whole = outcomes.iter().all(|outcome| outcome.failed.is_none());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() -> Result<ExitCode, Failure> {
    let mut table = Table::new(&["name", "root", "what is asked"]);
    for one in EXPERIMENTS {
        let root = if one.needs_root { "yes" } else { "" };
        table.row(vec![one.name.to_owned(), root.to_owned(), one.question.to_owned()]);
    }
    print(&table.render())?;
    Ok(ExitCode::SUCCESS)
}

/// A line of progress; nobody may be reading.
fn say(line: &str) {
    let _nobody_reads = writeln!(stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Experiment,
    }

    #[test]
    fn one_or_all_or_the_list() {
        let parse = |line: &str| Line::try_parse_from(line.split(' ')).map(|line| line.args);
        let args = parse("x all --report out.html --short").unwrap();
        assert!(args.short && args.name.as_deref() == Some(ALL));
        assert_eq!(args.report, Some("out.html".into()));
        assert!(parse("x livelock --json").unwrap().json && parse("x --list").unwrap().list);
        for line in ["x", "x livelok", "x --list --json", "x all lookup"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
