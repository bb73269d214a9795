//! A configuration in Click's language that runs on a host, and a client of Click's control
//! protocol to talk with it.
//!
//! The protocol, `Click::ControlSocket/1.3`, is lines over TCP: a request, and an answer whose
//! lines begin with a number and a hyphen, but the last, which has a space there. 200 and 220 are
//! good, 5 and two digits an error.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    time::Duration,
};

use crate::{Host, LabError, Process, Result, router, wait_for};

/// Where it listens, on the host's own address 127.0.0.1.
const PORT: u16 = 7777;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// `bifrost click` on a host.
pub struct Click {
    process: Process,
    host: Host,
    line: BufReader<TcpStream>,
}

impl Click {
    /// Runs a configuration, whose text may be changed while it runs, and waits until it answers.
    ///
    /// # Errors
    /// What it printed, when it ends at once.
    pub fn start(host: &Host, text: &str) -> Result<Click> {
        Click::start_with(host, &[], text)
    }

    /// As [`Click::start`], with more options of `bifrost click`.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(host: &Host, options: &[&str], text: &str) -> Result<Click> {
        let file = host.folder().join("router.click");
        std::fs::write(&file, text).map_err(LabError::io(file.display().to_string()))?;
        let mut command = host.command(&router::program()?.display().to_string());
        command.args(["click", "-R", "-p", &PORT.to_string()]).args(options).arg(&file);
        let mut process = host.spawn("click", command)?;
        let line = wait_for("click to answer", Duration::from_secs(10), || match process.ended() {
            Some(status) => Ok(Err(status)),
            None => connect(host).map(Ok).map_err(|error| error.to_string()),
        })?;
        match line {
            Ok(line) => Ok(Click { process, host: host.clone(), line }),
            Err(status) => Err(LabError::Command {
                host: host.name().to_owned(),
                command: "bifrost click".to_owned(),
                status: status.to_string(),
                said: process.output(),
            }),
        }
    }

    /// A read handler's value.
    ///
    /// # Errors
    /// The refusal.
    pub fn read(&mut self, handler: &str) -> Result<String> {
        self.ask(&format!("READ {handler}\n"))?;
        let mut bytes = Vec::new();
        let head = self.answer_line()?;
        let length = head.strip_prefix("DATA ").and_then(|length| length.parse().ok());
        let Some(length) = length else { return Err(unexpected("DATA and a length", head)) };
        let taken = (&mut self.line).take(length).read_to_end(&mut bytes);
        taken.map_err(LabError::io("the control socket"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// The refusal.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<()> {
        self.ask(&format!("WRITEDATA {handler} {}\n{value}", value.len()))
    }

    /// Another connection to it.
    pub fn connect(&self) -> Result<TcpStream> {
        connect(&self.host).map(BufReader::into_inner)
    }

    /// The file that it runs.
    pub fn file(&self) -> PathBuf {
        self.host.folder().join("router.click")
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn ask(&mut self, request: &str) -> Result<()> {
        self.line.get_mut().write_all(request.as_bytes()).map_err(LabError::io("the control socket"))?;
        let mut said = String::new();
        loop {
            let line = self.answer_line()?;
            said += line.get(4..).unwrap_or_default();
            match (line.starts_with('2'), line.as_bytes().get(3)) {
                (_, Some(b'-')) => said.push('\n'),
                (true, _) => return Ok(()),
                (false, _) => {
                    return Err(LabError::Command {
                        host: self.host.name().to_owned(),
                        command: request.to_owned(),
                        status: line.get(..3).unwrap_or_default().to_owned(),
                        said,
                    });
                }
            }
        }
    }

    fn answer_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.line.read_line(&mut line).map_err(LabError::io("the control socket"))?;
        Ok(line.trim_end().to_owned())
    }
}

/// Connects, and reads the greeting.
fn connect(host: &Host) -> Result<BufReader<TcpStream>> {
    let connected = host.inside(|| TcpStream::connect(("127.0.0.1", PORT)))?.join();
    let connected = connected.unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")));
    let stream = connected.map_err(LabError::io("the control socket"))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(LabError::io("the control socket"))?;
    let (mut line, mut greeting) = (BufReader::new(stream), String::new());
    line.read_line(&mut greeting).map_err(LabError::io("the control socket"))?;
    match greeting.starts_with("Click::ControlSocket/1.") {
        true => Ok(line),
        false => Err(unexpected("Click's greeting", greeting)),
    }
}

fn unexpected(expected: &'static str, got: String) -> LabError {
    LabError::Output { program: "bifrost click".to_owned(), expected, got }
}
