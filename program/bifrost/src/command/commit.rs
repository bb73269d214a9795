//! `bifrost commit`, `confirm`, `rollback`, `history` and `compare`: configurations that are put in
//! force, and those that were.

use std::fs;
use std::path::{Path, PathBuf};

use crate::control::{Client, CommitRequest, Committed, Compared, History, Request, Text};
use candidate::unified;
use chrono::{DateTime, Local};
use clap::Args as Arguments;
use revisions::{How, Revision};

use super::Failure;
use super::args::Output;
use super::table::{Table, or_dash, print, print_value};
use crate::subject::word;

/// `commit`.
#[derive(Debug, Arguments)]
pub struct Commit {
    /// The configuration (default: the file that the daemon starts from)
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How
    #[command(flatten)]
    pub how: Committing,
}

/// `rollback`.
#[derive(Debug, Arguments)]
pub struct Rollback {
    /// The revision (default: the one before)
    #[arg(value_name = "N")]
    pub revision: Option<u64>,
    /// How
    #[command(flatten)]
    pub how: Committing,
}

/// How a configuration is put in force.
#[derive(Debug, Arguments)]
pub struct Committing {
    /// Only say what would change
    #[arg(long)]
    pub check: bool,
    /// Go back unless `bifrost confirm` comes within so many minutes, or a time such as 90s
    #[arg(long, value_name = "MINUTES", value_parser = minutes, conflicts_with = "check")]
    pub confirmed: Option<u64>,
    /// What is to be known of it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub comment: String,
    /// The revision that it was made from: refuse if something else runs
    #[arg(long, value_name = "N")]
    pub base: Option<u64>,
    /// Do it even if something else runs by now, the file was changed by hand, or a sentence of
    /// [expect] does not hold any more
    #[arg(long)]
    pub force: bool,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// Seconds, from minutes or a time with its unit.
pub(crate) fn minutes(text: &str) -> Result<u64, String> {
    let minutes = text.parse().ok().and_then(|minutes: u64| minutes.checked_mul(60));
    let seconds = minutes.or_else(|| Some(notation::duration(text)?.as_secs()));
    let in_range = seconds.filter(|seconds| (1..=7 * 24 * 3600).contains(seconds));
    in_range.ok_or_else(|| "expected minutes, or a time from 1s to 1w".to_owned())
}

/// `compare`.
#[derive(Debug, Arguments)]
pub struct Compare {
    /// The first
    #[arg(value_name = "A", value_parser = version)]
    pub from: Option<Version>,
    /// The second
    #[arg(value_name = "B", value_parser = version)]
    pub to: Option<Version>,
    /// How
    #[command(flatten)]
    pub output: Output,
}

/// A configuration, as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// What runs.
    Running,
    /// The file that the daemon starts from.
    Disk,
    /// One that was in force.
    Revision(u64),
    /// Another file.
    File(PathBuf),
}

fn version(text: &str) -> Result<Version, String> {
    Ok(match text {
        "running" => Version::Running,
        "disk" => Version::Disk,
        _ => text.parse().map_or_else(|_| Version::File(text.into()), Version::Revision),
    })
}

pub fn commit(args: Commit, client: Client) -> Result<(), Failure> {
    let what = args.file.as_deref().map_or(Ok(Text::Disk), file)?;
    put(what, args.how, client)
}

pub fn rollback(args: Rollback, client: Client) -> Result<(), Failure> {
    put(args.revision.map_or(Text::Before, Text::Revision), args.how, client)
}

/// Tells what it will do, then does just that.
fn put(what: Text, how: Committing, mut client: Client) -> Result<(), Failure> {
    let request = CommitRequest {
        what,
        check: true,
        base: how.base,
        running: None,
        force: how.force,
        confirmed: how.confirmed,
        comment: how.comment,
        from: origin(),
        made_from: None,
    };
    let mut told: Committed = client.ask(&Request::Commit(request.clone()))?;
    let effects = match told.effects.as_slice() {
        [] => "nothing changes that a section tells of\n".to_owned(),
        effects => effects.iter().map(|effect| format!("{effect}\n")).collect(),
    };
    if !how.output.json {
        print(&effects)?;
    }
    if !how.check {
        let running = Some(told.running);
        let done: Committed =
            client.ask(&Request::Commit(CommitRequest { check: false, running, ..request }))?;
        // What flows would come to is only told before.
        told = Committed { effects: told.effects, ..done };
        if !how.output.json {
            print(&format!("{}\n", told.done))?;
        }
    }
    if how.output.json { print_value(&told) } else { Ok(()) }
}

pub fn confirm(output: Output, mut client: Client) -> Result<(), Failure> {
    let done: String = client.ask(&Request::Confirm)?;
    match output.json {
        true => print_value(&serde_json::json!({ "done": done })),
        false => print(&format!("{done}\n")),
    }
}

pub fn history(output: Output, mut client: Client) -> Result<(), Failure> {
    let history: History = client.ask(&Request::History)?;
    if output.json {
        return print_value(&history);
    }
    let mut text = match history.running {
        Some(revision) => format!("revision {revision} is in force\n"),
        None => "what is in force was not committed\n".to_owned(),
    };
    if let Some(waits) = history.waits {
        let left = notation::lasting(waits.seconds, " ");
        text += &format!("it goes back in {left}, unless `bifrost confirm` keeps it\n");
    }
    if history.disk_differs {
        text += &format!("{} was changed since: `bifrost compare running disk`\n", history.file);
    }
    let mut table = Table::new(&[">revision", "when", "by", "from", "how", "release", "comment"]);
    for revision in &history.revisions {
        table.row(row(revision));
    }
    print(&format!("{text}{}", if history.revisions.is_empty() { String::new() } else { table.render() }))
}

fn row(revision: &Revision) -> Vec<String> {
    let when = DateTime::from_timestamp(revision.time as i64, 0).filter(|_| revision.time > 0);
    let when = when.map(|when| when.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S"));
    let login = revision.login.as_ref().map_or(String::new(), |login| format!(" ({login})"));
    let of = revision.of.map_or(String::new(), |of| format!(" to {of}"));
    let how = match revision.how {
        How::Unconfirmed => "unconfirmed, back".to_owned(),
        how => word(how),
    };
    vec![
        revision.number.to_string(),
        or_dash(&when),
        format!("{}{login}", or_dash(&revision.user)),
        or_dash(&revision.from),
        format!("{how}{of}"),
        revision.release.clone(),
        remarks(revision).replace(char::is_control, " "),
    ]
}

/// The comment, and what was forced.
fn remarks(revision: &Revision) -> String {
    let forced = match revision.breaks.as_slice() {
        [] => return revision.comment.clone(),
        [one] => format!("forced: {one:?} does not hold"),
        [one, more @ ..] => format!("forced: {one:?} does not hold, and {} more", more.len()),
    };
    if revision.comment.is_empty() { forced } else { format!("{} ({forced})", revision.comment) }
}

pub fn compare(args: Compare, mut client: Client) -> Result<(), Failure> {
    let [a, b] = match (args.from, args.to) {
        (Some(from), Some(to)) => [from, to],
        (Some(to), None) => [Version::Running, to],
        (None, _) => [Version::Running, Version::Disk],
    };
    let texts = [text(&a)?, text(&b)?];
    let Compared { names: [a, b], texts: [before, after] } = client.ask(&Request::Compare { texts })?;
    let diff = unified([&a, &b], [&before, &after]);
    match args.output.json {
        true => print_value(&serde_json::json!({ "from": a, "to": b, "diff": diff })),
        false if diff.is_empty() => print(&format!("{a} and {b} are the same\n")),
        false => print(&diff),
    }
}

fn text(version: &Version) -> Result<Text, Failure> {
    match version {
        Version::Running => Ok(Text::Running),
        Version::Disk => Ok(Text::Disk),
        Version::Revision(number) => Ok(Text::Revision(*number)),
        Version::File(path) => file(path),
    }
}

/// A file of the client's: with its own rights, and not with the daemon's.
fn file(path: &Path) -> Result<Text, Failure> {
    let name = path.display().to_string();
    let text = config::source::read_text(path)
        .map_err(|error| Failure::Said(format!("{name}: cannot read it: {error}")))?;
    Ok(Text::File { name, text })
}

/// From where this is said: the address of an SSH client, or a terminal.
pub(crate) fn origin() -> Option<String> {
    let mut process = "self".to_owned();
    // sudo takes the variable away; those above it have it.
    for _ in 0..32 {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if let Some(found) = variables.find_map(|one| one.strip_prefix(b"SSH_CONNECTION=")) {
            return String::from_utf8_lossy(found).split(' ').next().map(str::to_owned);
        }
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Behind the name, which may have anything in it: state, parent.
        match status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) {
            Some(parent) if parent != "0" => process = parent.to_owned(),
            _ => break,
        }
    }
    let input = fs::read_link("/proc/self/fd/0").ok()?;
    let terminal = input.to_str()?.strip_prefix("/dev/")?;
    (terminal.starts_with("pts/") || terminal.starts_with("tty")).then(|| terminal.to_owned())
}
