//! `bifrost token`: a token for the interface for programs.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::Args as Arguments;
use config::{Role, Token as Known, source};

use super::Failure;
use super::args::Output;
use super::table::{print, print_value};
use crate::api::{hash_of, new_token};

/// `token`.
#[derive(Debug, Arguments)]
pub struct Token {
    /// What the history calls who has it
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
    /// What it may do: viewer, operator or admin
    #[arg(value_name = "ROLE", value_parser = role)]
    pub role: Role,
    /// The file of tokens that [api] names
    #[arg(long, value_name = "FILE", default_value = "/etc/bifrost/tokens")]
    pub file: PathBuf,
    /// How
    #[command(flatten)]
    pub output: Output,
}

fn name(text: &str) -> Result<String, String> {
    let fits = Known::can_be_called(text);
    fits.then(|| text.to_owned()).ok_or_else(|| "expected letters, digits, `-`, `_`, `.` and `@`".to_owned())
}

fn role(text: &str) -> Result<Role, String> {
    text.parse()
}

/// Makes one, adds its hash to the file, and prints it: nobody can print it again.
pub fn token(args: Token) -> Result<(), Failure> {
    let file = args.file.display();
    let fail =
        |what: &str, error: std::io::Error| Failure::Said(format!("{file}: cannot {what} it: {error}"));
    let text = match source::read_text(&args.file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(|error| fail("read", error))?,
    };
    let known = Known::read_all(&text)
        .map_err(|(line, wrong)| Failure::Said(format!("{file}: line {line}: {wrong}")))?;
    if known.iter().any(|known| known.name == args.name) {
        let said = format!("{file}: {} has a token: remove its line to give it another", args.name);
        return Err(Failure::Said(said));
    }
    let token = new_token().map_err(Failure::Said)?;
    let hash: String = hash_of(&token).iter().map(|byte| format!("{byte:02x}")).collect();
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let line = format!("{gap}{} {} {hash}\n", args.name, args.role.word());
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&args.file);
    let written = opened.and_then(|mut opened| {
        opened.write_all(line.as_bytes())?;
        opened.sync_all()
    });
    written.map_err(|error| fail("write", error))?;
    eprintln!("{} is known to {file}; `bifrost reload` makes the router know it", args.name);
    if args.output.json {
        let role = args.role.word();
        return print_value(&serde_json::json!({ "name": args.name, "role": role, "token": token }));
    }
    print(&format!("{token}\n"))
}
