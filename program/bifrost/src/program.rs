//! The program: what its command line says is done, and how it ends.
//!
//! A crate with elements of its own links this library and calls [`main`] with their classes; then
//! its program is Bifrost with these elements. The program `bifrost` itself adds none.
//!
//! Exit codes: 0 done, 1 failed (the reason is on standard error), 2 the command line makes no
//! sense. Those of `click` are Click's.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::command::{self, Failure, args::Args};

/// Runs the program. `extra` are classes of elements beside those of the library.
pub fn main(extra: &[&'static graph::Class]) -> ExitCode {
    command::offer();
    let (words, is_click) = words(std::env::args_os());
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            let code = if !error.use_stderr() {
                0
            } else if is_click {
                1
            } else {
                2
            };
            // Nobody is left to be told that nobody listens.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match command::execute(args, extra) {
        Ok(code) => code,
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("bifrost: {message}");
            ExitCode::from(2)
        }
        Err(failure) => {
            eprintln!("bifrost: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The words of the command line, and whether they are Click's: called by the name `click`, the
/// program is its command `click`; called as a login shell, its command `cli`.
fn words(line: impl Iterator<Item = OsString>) -> (Vec<OsString>, bool) {
    let mut words: Vec<OsString> = line.collect();
    let name =
        words.first().and_then(|name| Path::new(name).file_name()).map(OsString::from).unwrap_or_default();
    if name == "click" {
        words.insert(1, "click".into());
    }
    // As a login shell it is called by its name with a dash, and with `-c` for a single command.
    let is_shell = name.to_string_lossy().starts_with('-') || name == "bifrost-cli";
    if is_shell || (name == "bifrost" && words.get(1).is_some_and(|word| word == "-c")) {
        words.insert(1, "cli".into());
    }
    let is_click = words.get(1).is_some_and(|command| command == "click");
    (words, is_click)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_click_it_is_click() {
        let words = |line: &str| words(line.split(' ').map(OsString::from));
        assert_eq!(words("/usr/bin/click -q f").0, ["/usr/bin/click", "click", "-q", "f"]);
        assert_eq!(words("-bifrost").0, ["-bifrost", "cli"]);
        assert_eq!(words("bifrost -c x").0, ["bifrost", "cli", "-c", "x"]);
        assert_eq!(words("/usr/bin/bifrost-cli").0, ["/usr/bin/bifrost-cli", "cli"]);
        assert!(words("click").1 && words("bifrost click x").1 && !words("bifrost show").1);
    }
}
