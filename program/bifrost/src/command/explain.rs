//! `bifrost explain`.

use std::fmt::Write;
use std::path::Path;

use crate::control::Request;
use crate::control::status::Step;
use serde_json::value::RawValue;

use super::args::Explain;
use super::table::print;
use super::{Failure, connect, show};

pub fn explain(args: &Explain, socket: &Path) -> Result<(), Failure> {
    let question = args.question()?;
    let mut client = connect(socket)?;
    let request = Request::Explain(question.clone());
    if args.output.json {
        return show::print_json(&client.ask::<Box<RawValue>>(&request)?);
    }
    let steps: Vec<Step> = client.ask(&request)?;
    print(&format!("{question}\n{}", lines(&steps)))
}

/// One line a step: where, what, and under it why.
fn lines(steps: &[Step]) -> String {
    let width = steps.iter().map(|step| step.step.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        let _ = writeln!(text, "{:>3}  {:<width$}  {}", number + 1, step.step, step.decision);
        for line in step.detail.lines() {
            let _ = writeln!(text, "     {:<width$}    {line}", "");
        }
    }
    text
}
