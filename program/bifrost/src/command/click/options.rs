//! What the command line of `click` says: the options of Click's user-level driver as they are, and
//! a few of ours.

use std::path::PathBuf;

use clap::Args;

/// `click`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, disable_version_flag = true, infer_long_args = true)]
pub struct Click {
    /// The configuration's file (default, and `-`: standard input), and values of its `$variables`
    #[arg(value_name = "FILE|NAME=VALUE")]
    pub words: Vec<String>,
    /// Read the configuration from this file
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<String>,
    /// Take this text as the configuration
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub expression: Vec<String>,
    /// Run tasks on so many threads: those that StaticThreadSched names
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Pin each thread to a core, the first to this one
    #[arg(short = 'a', long, value_name = "CORE", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub affinity: Option<usize>,
    /// Undo an earlier `--affinity`
    #[arg(long, hide = true, overrides_with = "affinity")]
    pub no_affinity: bool,
    /// Listen for control connections on this TCP port, or with `+` the first free one from there:
    /// on 127.0.0.1, or with `*:` before it on every address of this machine
    #[arg(short, long, value_name = "[*:]PORT[+]")]
    pub port: Vec<String>,
    /// Listen for control connections on this Unix socket
    #[arg(short, long, value_name = "FILE")]
    pub unix_socket: Vec<String>,
    /// Take this open file descriptor as a control connection
    // The id and the type are those of the program's own `--socket`, which it hides here.
    #[arg(id = "socket", long = "socket", value_name = "FD")]
    pub sockets: Vec<PathBuf>,
    /// Let the `hotconfig` handler, and SIGHUP, change the configuration of the running program
    #[arg(short = 'R', long)]
    pub allow_reconfigure: bool,
    /// Undo an earlier `--allow-reconfigure`
    #[arg(long, hide = true, overrides_with = "allow_reconfigure")]
    pub no_allow_reconfigure: bool,
    /// Print a read handler's value after the run: ELEMENT.HANDLER, where ELEMENT may be a class or
    /// have `*`, `?` and `[]`
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    pub handlers: Vec<String>,
    /// Exit with a read handler's value
    #[arg(short = 'x', long, value_name = "ELEMENT.HANDLER")]
    pub exit_handler: Vec<String>,
    /// Write the configuration without compounds to this file (`-`: standard output)
    #[arg(short, long, value_name = "FILE")]
    pub output: Vec<String>,
    /// Do not run
    #[arg(short, long)]
    pub quit: bool,
    /// Print how long the run took
    #[arg(short, long)]
    pub time: bool,
    /// Do not print warnings
    #[arg(short = 'w', long)]
    pub no_warnings: bool,
    /// Print warnings
    #[arg(long, hide = true, overrides_with = "no_warnings")]
    pub warnings: bool,
    /// Simulate time: it begins at SECONDS since 1970, and jumps on when there is nothing to do
    #[arg(long, visible_alias = "simulation-time", value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "1000000000")]
    pub simtime: Option<f64>,
    /// Look for required libraries in these directories, separated by `:`
    #[arg(short = 'C', long, value_name = "PATH", env = "CLICKPATH", hide_env_values = true)]
    pub clickpath: Option<String>,
    /// Handle packets in batches, as the router does, and not one at a time as Click does
    #[arg(long)]
    pub batch: bool,
    /// Packets that there may be at a time
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub packets: u32,
    /// Print the configuration tidied up, and do not run it
    #[arg(long)]
    pub format: bool,
    /// Print the graph as a drawing for Graphviz, and do not run it
    #[arg(long)]
    pub dot: bool,
    /// Print the graph as a drawing in SVG, and do not run it
    #[arg(long)]
    pub svg: bool,
    /// Print what an element is for, or the list of all
    #[arg(long, value_name = "ELEMENT", num_args = 0..=1, default_missing_value = "")]
    pub doc: Option<String>,
    /// Print the reference of all elements as one HTML page
    #[arg(long)]
    pub html: bool,
    /// Print this, and end
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// Print the release, and end
    #[arg(short, long)]
    pub version: bool,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; `None` is standard input.
    File(Option<PathBuf>),
    /// The command line.
    Expression(String),
}

impl Source {
    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Source::File(Some(path)) => path.display().to_string(),
            Source::File(None) => "<stdin>".to_owned(),
            Source::Expression(_) => "config".to_owned(),
        }
    }
}

/// The values of a configuration's variables.
pub type Parameters = Vec<(String, String)>;

impl Click {
    /// Where the configuration comes from, and what is to be put for its variables. The error says
    /// what is wrong with the command line.
    pub fn source(&self) -> Result<(Source, Parameters), String> {
        let mut parameters = Parameters::new();
        let mut files: Vec<&String> = self.file.iter().collect();
        for word in &self.words {
            match parameter(word) {
                None => files.push(word),
                Some((name, _)) if parameters.iter().any(|(known, _)| known == name) => {
                    return Err(format!("parameter '{name}' multiply defined"));
                }
                Some((name, value)) => parameters.push((name.to_owned(), value.to_owned())),
            }
        }
        let source = match (files.as_slice(), self.expression.as_slice()) {
            ([], []) => Source::File(None),
            ([file], []) if *file == "-" => Source::File(None),
            ([file], []) => Source::File(Some(PathBuf::from(file))),
            ([], [text]) => Source::Expression(text.clone()),
            _ => return Err("router configuration specified twice".to_owned()),
        };
        for (twice, what) in [(&self.output, "output file"), (&self.exit_handler, "--exit-handler")] {
            if twice.len() > 1 {
                return Err(format!("{what} specified twice"));
            }
        }
        Ok((source, parameters))
    }

    /// The control sockets asked for, as configurations of ControlSocket.
    pub fn control_sockets(&self) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for port in &self.port {
            let (everywhere, port) = port.strip_prefix("*:").map_or((false, &**port), |port| (true, port));
            let number = port.strip_suffix('+').unwrap_or(port);
            if !number.parse::<u16>().is_ok_and(|number| number > 0) {
                return Err(format!("'--port' expects a TCP port number, not '{port}'"));
            }
            all.push(format!("TCP, {port}, LOCALHOST {}", !everywhere));
        }
        all.extend(self.unix_socket.iter().map(|path| format!("UNIX, {}", graph::language::quote(path))));
        for fd in &self.sockets {
            let fd = fd.display().to_string();
            if fd.parse::<u32>().is_err() {
                return Err(format!("'--socket' expects a file descriptor, not '{fd}'"));
            }
            all.push(format!("SOCKET, {fd}"));
        }
        Ok(all)
    }
}

/// `NAME=VALUE`, where the name is one of a variable.
fn parameter(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let named = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    named.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        click: Click,
    }

    fn read(line: &str) -> Click {
        Line::try_parse_from(["click"].into_iter().chain(line.split_whitespace())).unwrap().click
    }

    #[test]
    fn click_s_command_lines_are_understood() {
        let click = read("-qe Idle -h a.b -h *.c -j2 --simtime -p 8000+ x=1");
        assert!(click.quit && click.simtime == Some(1e9) && click.threads == 2);
        assert_eq!(click.handlers, ["a.b", "*.c"]);
        let parameters = vec![("x".to_owned(), "1".to_owned())];
        assert_eq!(click.source(), Ok((Source::Expression("Idle".to_owned()), parameters)));
        assert_eq!(click.control_sockets().unwrap(), ["TCP, 8000+, LOCALHOST true"]);
        assert_eq!(read("-p *:8000+").control_sockets().unwrap(), ["TCP, 8000+, LOCALHOST false"]);
        assert_eq!(read("--simtime=5 f").simtime, Some(5.0));
        assert_eq!(read("--simtime f").source().unwrap().0.name(), "f");
        assert_eq!(read("-").source().unwrap().0, Source::File(None));
        assert_eq!(read("a/b=c").source().unwrap().0.name(), "a/b=c");
        assert_eq!(read("--sock 3 --unix-sock s").control_sockets().unwrap(), ["UNIX, \"s\"", "SOCKET, 3"]);
        assert_eq!(
            ["", "-a", "-a=3", "--affinity", "--affinity=2"].map(|line| read(line).affinity),
            [None, Some(0), Some(3), Some(0), Some(2)]
        );
        assert_eq!(read("-a --no-affinity").affinity, None);
        assert_eq!(read("--doc").doc.as_deref(), Some(""));
        assert!(!read("-w --warnings").no_warnings);
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for (line, wrong) in [
            ("a b", "router configuration specified twice"),
            ("-e a b", "router configuration specified twice"),
            ("x=1 x=2", "parameter 'x' multiply defined"),
            ("-o a -o b", "output file specified twice"),
            ("-x a -x b", "--exit-handler specified twice"),
        ] {
            assert_eq!(read(line).source().unwrap_err(), wrong);
        }
        assert!(read("-p 0").control_sockets().is_err() && read("-p *:+").control_sockets().is_err());
        assert!(read("--socket x").control_sockets().is_err());
    }
}
