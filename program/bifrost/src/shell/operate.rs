//! Operate mode: questions and actions.

use std::path::Path;
use std::process::Command;

use candidate::{Document, Word};

use super::ShellError;
use super::editing::Editing;
use super::foreign::{self, Meant};
use super::output;
use super::pipe::{Form, Pipes};
use super::session::{Next, Session, help, meant, no_command};
use crate::control::Request;

/// The commands of operate mode.
pub(super) const COMMANDS: [(&str, &str); 28] = [
    ("show", "what the router knows: `show ?` lists it"),
    ("configure", "change the configuration (`exclusive`: and nobody else; `private`: nothing is kept)"),
    ("ping", "is a host there? `ping ADDRESS [count N] [source ADDRESS] [interface NAME] [size N]`"),
    ("traceroute", "the way to a host"),
    ("explain", "what would happen to a packet, step by step"),
    ("trace", "follow packets through the elements"),
    ("capture", "copy packets to a file"),
    ("tcpdump", "what passes the ports"),
    ("top", "ports, workers, routes and drops, live"),
    ("rtstat", "the flow table, live"),
    ("monitor", "watch: `monitor ports`, `flows`, `traffic` (as tcpdump), `log`"),
    ("log", "what Bifrost and FRR said: `log [LINES]`"),
    ("flows", "search the flow log, and the flows that live"),
    ("clear", "end flows that live"),
    ("restart", "have a daemon start anew that serves hosts: `restart dns`; or `frr`"),
    ("redundancy", "hand a virtual router over, or take part in it again"),
    ("history", "configurations that were in force"),
    ("compare", "what differs between two of them"),
    ("confirm", "keep what was committed with `commit confirmed`"),
    ("rollback", "put an earlier configuration in force again"),
    ("reload", "have the daemon read its file again"),
    ("upgrade", "have the installed program take over"),
    ("doctor", "is this machine fit to be a router?"),
    ("support", "gather all that whoever helps would ask for, in an archive"),
    ("unlock", "give a lock of the configuration back, or take another's away (`unlock force`)"),
    ("help", "this list"),
    ("exit", "leave the shell"),
    ("quit", "leave the shell"),
];

/// Those whose output may be longer than a screen.
const LONG: [&str; 6] = ["show", "history", "compare", "flows", "doctor", "explain"];

/// What `monitor` watches.
pub(super) const WATCHED: [(&str, &str); 4] = [
    ("ports", "ports, workers, routes and drops: `top`"),
    ("flows", "the flow table: `rtstat`"),
    ("traffic", "packets: `interface NAME`, `filter EXPRESSION`, or tcpdump's own words"),
    ("log", "what Bifrost and FRR say"),
];

/// Where systemd's journal is, if it is.
const JOURNAL: &str = "/run/systemd/journal";

impl Session {
    pub(super) fn operate(&mut self, words: Vec<Word>) -> Result<Next, ShellError> {
        let (words, pipes) = Session::divided(words)?;
        self.operate_words(words, &pipes)
    }

    /// Does a command of operate mode, in either mode.
    pub(super) fn operate_words(&mut self, words: Vec<String>, pipes: &Pipes) -> Result<Next, ShellError> {
        let words = match foreign::meant(&words) {
            None => words,
            Some(Meant::Nothing(why)) => {
                self.hint(why);
                return Ok(Next::Line);
            }
            Some(Meant::Frr(words)) => {
                self.frr(&words, pipes)?;
                return Ok(Next::Line);
            }
            Some(Meant::Ours(ours)) => {
                self.hint(&ours.join(" "));
                ours
            }
        };
        let Some((name, rest)) = words.split_first() else {
            return Err(ShellError::said("a command is missing in front of the |"));
        };
        let name = match meant(name, COMMANDS.iter().map(|(name, _)| *name)) {
            Ok(name) => name,
            Err(may_be)
                if ["set", "delete", "commit", "edit"].contains(&name.as_str()) && may_be.is_empty() =>
            {
                return Err(ShellError::said(format!("{name} is a command of configure mode: `configure`")));
            }
            Err(may_be) => return Err(no_command(name, "operate", &may_be, &COMMANDS)),
        };
        match name {
            "exit" | "quit" => return Ok(Next::End),
            "help" => output::show(&help(&COMMANDS), pipes)?,
            "configure" => self.begin(rest)?,
            "ping" => self.ping(rest, pipes)?,
            "traceroute" => {
                let mut command = Command::new("traceroute");
                command.args(rest);
                output::run(command, pipes, false)?;
            }
            "monitor" => self.monitor(rest, pipes)?,
            "log" => log(rest, false, pipes)?,
            "unlock" => self.unlock(rest)?,
            "show" => self.show(rest, pipes)?,
            name => self.ourselves(name, rest, pipes)?,
        }
        Ok(Next::Line)
    }

    /// What is watched until the user has seen enough.
    fn monitor(&self, rest: &[String], pipes: &Pipes) -> Result<(), ShellError> {
        let Some((what, rest)) = rest.split_first() else { return self.ourselves("top", &[], pipes) };
        match meant(what, WATCHED.iter().map(|(name, _)| *name)) {
            Ok("ports") => self.ourselves("top", rest, pipes),
            Ok("flows") => self.ourselves("rtstat", rest, pipes),
            Ok("traffic") => self.ourselves("tcpdump", &traffic(rest), pipes),
            // Where nobody can end it, it ends by itself.
            Ok(_) => log(rest, self.on_terminal, pipes),
            Err(_) => {
                Err(ShellError::said(format!("monitor {what}? It is one of ports, flows, traffic, log")))
            }
        }
    }

    /// A command of this program.
    fn ourselves(&self, name: &str, rest: &[String], pipes: &Pipes) -> Result<(), ShellError> {
        let mut command = output::ourselves(&self.socket);
        command.arg(name).args(rest);
        if pipes.json {
            command.arg("--json");
        }
        output::run(command, pipes, LONG.contains(&name))
    }

    fn show(&mut self, rest: &[String], pipes: &Pipes) -> Result<(), ShellError> {
        let first = rest.first().map_or("", String::as_str);
        match first {
            "lock" => return self.show_lock(pipes),
            "history" => return self.ourselves("history", &rest[1..], pipes),
            // The configuration in force, by its words.
            "config" | "configuration" if rest.get(1).is_some_and(|word| word.as_str() == "commands") => {
                self.hint("show config | display set");
                return self.show_running(Form::Set, pipes);
            }
            "config" | "configuration" if pipes.form != Form::Toml => {
                return self.show_running(pipes.form, pipes);
            }
            _ => {}
        }
        self.ourselves("show", rest, pipes)
    }

    /// The configuration in force in another form, its secrets covered.
    fn show_running(&self, form: Form, pipes: &Pipes) -> Result<(), ShellError> {
        let running: crate::subject::Config = self.connect()?.subject("config")?;
        let document = candidate::Document::parse(&running.text)?;
        output::show(&super::editing::formed(&document, form), pipes)
    }

    /// What FRR is asked, by its own shell.
    fn frr(&self, words: &[String], pipes: &Pipes) -> Result<(), ShellError> {
        let mut line = words.join(" ");
        if pipes.json {
            line += " json";
        }
        let mut command = Command::new("vtysh");
        if let Some(sockets) = self.sockets() {
            command.arg("--vty_socket").arg(sockets);
        }
        command.arg("-c").arg(&line);
        output::run(command, pipes, words.first().is_some_and(|word| word == "show")).map_err(|error| {
            match error {
                ShellError::Failure(_) => ShellError::said(format!(
                    "`{line}` is FRR's to answer, and its vtysh is not installed here"
                )),
                error => error,
            }
        })
    }

    /// Where FRR's daemons have their sockets, if the configuration says.
    fn sockets(&self) -> Option<String> {
        let running: crate::subject::Config = self.connect().ok()?.subject("config").ok()?;
        let tree = Document::parse(&running.text).ok()?.tree();
        Some(tree.get("routing")?.get("sockets")?.text()?.to_owned())
    }

    /// ping, by its own options or by the words of other routers.
    fn ping(&self, rest: &[String], pipes: &Pipes) -> Result<(), ShellError> {
        let mut command = Command::new("ping");
        let mut words = rest.iter();
        let mut counted = false;
        while let Some(word) = words.next() {
            let option = match word.as_str() {
                "count" | "repeat" => "-c",
                "source" | "interface" => "-I",
                "size" => "-s",
                "ttl" => "-t",
                word => {
                    counted |= word.starts_with("-c");
                    command.arg(word);
                    continue;
                }
            };
            counted |= option == "-c";
            let value = words.next().ok_or_else(|| ShellError::said(format!("ping: what {word}?")))?;
            command.arg(option).arg(value);
        }
        // Where nobody can end it, it ends by itself.
        if !counted && !self.on_terminal {
            command.args(["-c", "5"]);
        }
        output::run(command, pipes, false)
    }

    /// Goes to configure mode.
    fn begin(&mut self, rest: &[String]) -> Result<(), ShellError> {
        let known = |word: &String| meant(word, ["exclusive", "private"].into_iter()).unwrap_or_default();
        let (exclusive, private) = match rest {
            [] => (false, false),
            [word] if known(word) == "exclusive" => (true, false),
            [word] if known(word) == "private" => (false, true),
            [word, ..] => {
                return Err(ShellError::said(format!(
                    "configure {word}? Alone, or with `exclusive` or `private`"
                )));
            }
        };
        let editing = Editing::begin(self, private)?;
        self.editing = Some(editing);
        if exclusive {
            self.hold(false)?;
        }
        Ok(())
    }

    /// Keeps what waits, and says what came of it.
    pub(super) fn confirm(&self) -> Result<(), ShellError> {
        let done: String = self.connect()?.ask(&Request::Confirm)?;
        println!("{done}");
        Ok(())
    }
}

/// The words of `monitor traffic interface NAME filter EXPRESSION`, as tcpdump has them; its own
/// stay.
fn traffic(words: &[String]) -> Vec<String> {
    let (mut made, words) = match words {
        [interface, name, words @ ..] if interface == "interface" => {
            (vec!["-i".to_owned(), name.clone()], words)
        }
        words => (Vec::new(), words),
    };
    let begins = words.first().is_some_and(|word| ["filter", "matching"].contains(&word.as_str()));
    made.extend_from_slice(&words[usize::from(begins)..]);
    made
}

/// The end of what Bifrost and FRR said, as systemd has it; `on`: and what they say from now on.
fn log(rest: &[String], on: bool, pipes: &Pipes) -> Result<(), ShellError> {
    let lines = match rest {
        [] => 100,
        [lines] => lines.parse::<u32>().map_err(|_| {
            ShellError::said(format!("log {lines}? A number of lines, or nothing for the last 100"))
        })?,
        _ => return Err(ShellError::said("log: a number of lines, or nothing for the last 100")),
    };
    if !Path::new(JOURNAL).is_dir() {
        return Err(ShellError::said(
            "systemd's journal has the log, and is not here: see what started Bifrost, or [system.syslog]",
        ));
    }
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--unit=bifrost", "--unit=frr"]).arg(format!("--lines={lines}"));
    if on {
        command.arg("--follow");
    }
    output::run(command, pipes, !on)
}

#[cfg(test)]
mod tests {
    use super::traffic;

    #[test]
    fn traffic_is_watched_by_the_words_of_others_and_by_tcpdumps_own() {
        for (line, expected) in [
            ("interface eth0 filter port 53", "-i eth0 port 53"),
            ("interface eth0 matching arp", "-i eth0 arp"),
            ("interface eth0", "-i eth0"),
            ("filter host 192.0.2.1", "host 192.0.2.1"),
            ("-ni eth0 -c 5 udp", "-ni eth0 -c 5 udp"),
            ("interface", "interface"),
            ("", ""),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(traffic(&words).join(" "), expected, "{line}");
        }
    }
}
