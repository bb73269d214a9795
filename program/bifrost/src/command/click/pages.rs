//! The documentation of elements: `--doc` and `--html`.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use graph::reference::{self, Page};
use graph::{Class, Registry};

use super::Failure;

/// Columns to fill on a terminal whose width is unknown.
const WIDTH: usize = 80;

/// Prints what a class is for, or with an empty name the list of all classes.
pub fn show(registry: &Registry, class: &str) -> Result<ExitCode, Failure> {
    if class.is_empty() {
        return list(registry);
    }
    let Some(found) = registry.find(class) else {
        let nearest =
            registry.nearest(class).map_or(String::new(), |name| format!("; did you mean '{name}'?"));
        eprintln!("unknown element class '{class}'{nearest}");
        return Ok(ExitCode::FAILURE);
    };
    let page = page(found)?;
    let width = ratatui::crossterm::terminal::size().map_or(WIDTH, |(columns, _)| usize::from(columns));
    let examples = elements::examples::of(class);
    print(&reference::text(&page, &examples, width.clamp(40, 100), io::stdout().is_terminal()))
}

fn list(registry: &Registry) -> Result<ExitCode, Failure> {
    let pages: Vec<Page> = registry.classes().map(page).collect::<Result<_, _>>()?;
    let width = pages.iter().map(|page| page.class.len()).max().unwrap_or(0);
    let lines = pages.iter().map(|page| format!("{:width$}  {}\n", page.class, page.summary));
    print(&lines.collect::<String>())
}

/// Prints the reference of all classes.
pub fn html(registry: &Registry) -> Result<ExitCode, Failure> {
    let pages: Vec<Page> = registry.classes().map(page).collect::<Result<_, _>>()?;
    print(&reference::html(&pages, &elements::examples::all()))
}

fn page(class: &'static Class) -> Result<Page, Failure> {
    Page::parse(class.source, class.name).map_err(|mistakes| {
        let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        Failure::Said(format!("the documentation of {}: {}", class.name, mistakes.join("; ")))
    })
}

fn print(text: &str) -> Result<ExitCode, Failure> {
    io::stdout().write_all(text.as_bytes()).map_err(Failure::output)?;
    Ok(ExitCode::SUCCESS)
}
