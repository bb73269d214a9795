//! `bifrost doctor`: is this machine fit to be a router?

use std::process::ExitCode;

use clap::Args;
use doctor::{Area, Examination, Finding, Kernel, Level, Options, Place};

use mirror::Beyond;

use super::Failure;
use super::table::{Table, print};

/// Columns of text; longer remarks go on below.
const WIDTH: usize = 100;
/// Where the remarks begin: level, subject and the spaces around them.
const INDENT: usize = 2 + 8 + 1 + 22 + 1;

/// `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Interfaces to look at [default: all with hardware behind them]
    #[arg(value_name = "PORT", add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub ports: Vec<String>,
    /// Leave out the measurement of memory, which takes some seconds of a core
    #[arg(long)]
    pub quick: bool,
    /// As JSON; names are stable
    #[arg(long)]
    pub json: bool,
}

/// Looks, and says what was found. Fails only when something is a problem.
pub fn doctor(args: Doctor) -> Result<ExitCode, Failure> {
    let beyond = super::beyond::survey(|name| match args.ports.as_slice() {
        [] => true,
        ports => ports.iter().any(|port| port == name),
    });
    let options = Options { ports: args.ports, quick: args.quick };
    let mut examination = doctor::examine(&Place::new("/"), &Kernel, &options);
    let of_ports = examination.findings.iter().position(|finding| finding.area == Area::Port);
    let at = of_ports.unwrap_or(examination.findings.len());
    examination.findings.splice(at..at, foreign(&beyond));
    if args.json {
        let json = serde_json::to_string_pretty(&examination);
        let json = json.map_err(|error| Failure::output(error.into()))?;
        print(&(json + "\n"))?;
    } else {
        print(&text(&examination))?;
    }
    Ok(if examination.has_problem() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What Linux does to forwarded packets and Bifrost does not have.
fn foreign(beyond: &Beyond) -> Vec<Finding> {
    let finding = |subject, found: &[String], fine: &str, cure: &str| {
        if found.is_empty() {
            return Finding::new(Area::Forwarding, subject, Level::Ok, fine);
        }
        let shown = found.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
        let more = if found.len() > 4 { format!(" and {} more", found.len() - 4) } else { String::new() };
        let text = format!(
            "{shown}{more}: transit that it could touch is left to Linux, which is slower; in router.toml, {cure}"
        );
        Finding::new(Area::Forwarding, subject, Level::Advice, text)
    };
    let shapers: Vec<String> =
        beyond.shapers.iter().map(|(interface, kind)| format!("{kind} on {interface}")).collect();
    let shaping = match shapers.as_slice() {
        [] => Finding::new(Area::Forwarding, "shaping", Level::Ok, "no queueing discipline that shapes"),
        shapers => {
            let text = format!("{}: they do not shape what Bifrost forwards", shapers.join(", "));
            Finding::new(Area::Forwarding, "shaping", Level::Advice, text)
        }
    };
    vec![
        shaping,
        finding(
            "Linux's filter",
            &beyond.all_filters(),
            "no chain, filter or policy that transit could meet",
            "linux_filter = \"adopt\" forwards by it where it can, \"ignore\" past it",
        ),
        finding(
            "routing rules",
            &beyond.rules,
            "only those that every Linux has",
            "linux_rules = \"ignore\" forwards past it",
        ),
    ]
}

fn text(examination: &Examination) -> String {
    let mut text = String::new();
    for (name, value) in &examination.machine {
        text += &format!("{name:<9} {value}\n");
    }
    if !examination.memory_latency.is_empty() {
        let mut table = Table::new(&[">in use", ">a step takes"]);
        for (bytes, nanoseconds) in &examination.memory_latency {
            table.row(vec![size(*bytes), format!("{nanoseconds:.1} ns")]);
        }
        text += &format!("\n{}", table.render());
    }
    let mut heading = String::new();
    for finding in &examination.findings {
        let next = match &finding.port {
            Some(port) => format!("{} {}", finding.area.name(), shown(port)),
            None => finding.area.name().to_owned(),
        };
        if next != heading {
            text += &format!("\n{next}\n");
            heading = next;
        }
        text += &lines(finding);
    }
    let count = |level: Level, one: &str, many: &str| {
        let count = examination.count(level);
        format!("{count} {}", if count == 1 { one } else { many })
    };
    text + &format!(
        "\n{}, {}, {}, {}\n",
        count(Level::Problem, "problem", "problems"),
        count(Level::Advice, "piece of advice", "pieces of advice"),
        count(Level::Unknown, "unknown", "unknown"),
        count(Level::Ok, "ok", "ok"),
    )
}

/// A finding, broken into lines, with the command that mends it below.
fn lines(finding: &Finding) -> String {
    let mut text = String::new();
    let begin = format!("  {:<8} {:<22} ", finding.level.name(), finding.subject);
    for (n, line) in broken(&shown(&finding.text), WIDTH - INDENT).into_iter().enumerate() {
        let begin = if n == 0 { begin.as_str() } else { "" };
        text += &format!("{begin:<INDENT$}{line}\n");
    }
    // Commands stay whole: they are copied.
    if let Some(command) = &finding.mend {
        text += &format!("{:<INDENT$}-> {command}\n", "");
    }
    text
}

/// A text with names in it that are not to move this terminal's cursor.
fn shown(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() };
    text.chars().map(harmless).collect()
}

fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let is_full =
            !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > width;
        if is_full {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last] += word;
        }
    }
    lines
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::Area;

    #[test]
    fn names_do_not_act_on_the_terminal() {
        let finding = Finding {
            area: Area::Port,
            port: Some("it's\u{1b}[2J".to_owned()),
            subject: "link",
            level: Level::Advice,
            text: "strict on \u{7}eth0".to_owned(),
            mend: None,
        };
        let examination = Examination {
            schema: doctor::SCHEMA,
            machine: Vec::new(),
            memory_latency: Vec::new(),
            findings: vec![finding],
        };
        let text = text(&examination);
        assert!(
            text.starts_with("\nport it's\\u{1b}[2J\n") && text.contains("strict on \\u{7}eth0\n"),
            "{text:?}"
        );
    }

    #[test]
    fn remarks_are_broken_and_commands_are_not() {
        let finding = Finding {
            area: Area::Port,
            port: Some("eth0".to_owned()),
            subject: "queues",
            level: Level::Advice,
            text: "word ".repeat(30),
            mend: Some("ethtool ".repeat(20).trim().to_owned()),
        };
        let examination = Examination {
            schema: doctor::SCHEMA,
            machine: vec![("cpu".to_owned(), "fast".to_owned())],
            memory_latency: vec![(8 << 10, 1.25), (64 << 20, 90.0)],
            findings: vec![finding],
        };
        let text = text(&examination);
        assert!(text.starts_with("cpu       fast\n\nin use  a step takes\n 8 KiB"), "{text}");
        assert!(text.contains("\nport eth0\n  advice   queues                 word word"), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH || line.contains("-> ethtool")), "{text}");
        assert!(text.ends_with("0 problems, 1 piece of advice, 0 unknown, 0 ok\n"), "{text}");
    }
}
