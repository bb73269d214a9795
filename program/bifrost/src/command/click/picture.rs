//! A configuration as a drawing: `--dot` and `--svg`.

use std::io::{self, Write};
use std::process::ExitCode;

use graph::Program;
use graph::drawing::{Picture, dot, svg};

use super::{Configuration, Failure};

/// Prints the drawing of a program.
pub fn print(program: &Program, configuration: &Configuration, as_svg: bool) -> Result<ExitCode, Failure> {
    let graph = program
        .instantiate(&configuration.environment, configuration.manner.clone())
        .map_err(|refusal| Failure::Said(refusal.to_string()))?;
    let picture = Picture::from(&*graph.description());
    let text = if as_svg { svg(&picture) } else { dot(&picture) };
    io::stdout().write_all(text.as_bytes()).map_err(Failure::output)?;
    Ok(ExitCode::SUCCESS)
}
