//! ControlSocket: lets other programs read and write handlers.
//!
//! Group: control
//! Usage: `ControlSocket(TCP, PORT [, READONLY, PROXY, VERBOSE, LOCALHOST, RETRIES, RETRY_WARNINGS])`
//! Usage: `ControlSocket(UNIX, FILENAME [, ...])`
//! Usage: `ControlSocket(SOCKET, FD [, ...])`
//! Ports: none
//!
//! Listens on a TCP port or a Unix socket, or talks on an open file descriptor, in Click's protocol
//! `Click::ControlSocket/1.3`. Requests and answers are lines, and each answer begins with a
//! number: 200 is good, 220 good with warnings, 5 and two digits is an error; a hyphen behind the
//! number says that more lines follow. `READ HANDLER [ARGUMENT]` is answered with `DATA` and the
//! number of bytes, which follow; `WRITE HANDLER [VALUE]` writes. With `READDATA` and `WRITEDATA` a
//! number of bytes follows the request, with `READUNTIL` and `WRITEUNTIL` text up to a line.
//! `CHECKREAD` and `CHECKWRITE` ask whether there is such a handler. `HELP` lists them, `QUIT`
//! ends.
//!
//! - `TYPE` (keyword): `TCP`, `UNIX` or `SOCKET`.
//! - `PORT` (TCP port): where to listen; with `+` behind it the first of ten that is free.
//! - `FILENAME` (filename): the Unix socket; what is there is replaced.
//! - `FD` (integer): the open file descriptor.
//! - `READONLY` (boolean): refuse to write. Default: false.
//! - `PROXY` (element): all handlers are those of this element, which is given their whole names.
//! - `VERBOSE` (boolean): say when connections begin and end. Default: false.
//! - `LOCALHOST` (boolean): listen on 127.0.0.1 only. Default: false.
//! - `RETRIES` (integer): how often to try again, once a second, when the port is taken. Default:
//!   0.
//! - `RETRY_WARNINGS` (boolean): say so each time. Default: true.
//!
//! Handlers:
//! - `port` (read): the TCP port.
//! - `filename` (read): the Unix socket.
//!
//! See also: [Script]

mod command;
mod connection;

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixListener;

use graph::arguments::{Arguments, Blame, ElementName, Filename, Refused, TcpPort, Word};
use graph::{Class, Context, Element, Handler, HandlerError, Setup};

use command::Rules;
use connection::{Connection, Stream};

/// The class.
pub const CLASS: Class = Class {
    name: "ControlSocket",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mod.rs"),
    make,
};

/// Ports tried behind the one given.
const PORTS: u16 = 10;
/// Longest path of a Unix socket.
const LONGEST_PATH: usize = 107;
/// The timer that tries again to listen.
const RETRY: u32 = 0;
/// The timer that goes on with connections that could not be written to, or have more requests.
const RESUME: u32 = 1;
const SECOND: u64 = 1_000_000_000;
/// How soon to look again at a reader that is slow.
const SLOW: u64 = 1_000_000;

/// Where clients come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Tcp { port: u16, search: bool },
    Unix(String),
    Open(RawFd),
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

struct ControlSocket {
    place: Place,
    rules: Rules,
    verbose: bool,
    localhost: bool,
    retries: i64,
    retry_warnings: bool,
    listener: Option<Listener>,
    connections: HashMap<RawFd, Connection>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let kind = args.mandatory::<String>("TYPE").unwrap_or_default();
    let read_only = args.keyword("READONLY").unwrap_or(false);
    let proxy = args.keyword::<ElementName>("PROXY").map(|ElementName(name)| name);
    let verbose = args.keyword("VERBOSE").unwrap_or(false);
    let retries = args.keyword::<i32>("RETRIES").unwrap_or(0);
    let retry_warnings = args.keyword("RETRY_WARNINGS").unwrap_or(true);
    let localhost = args.keyword("LOCALHOST").unwrap_or(false);
    let place = match kind.to_uppercase().as_str() {
        "TCP" => args
            .mandatory_with("PORT", |text, scope| {
                use graph::arguments::Argument;
                let Word(word) = Word::parse(text, scope)?;
                let (number, search) =
                    word.strip_suffix('+').map_or((&*word, false), |number| (number, true));
                match TcpPort::parse(number, scope) {
                    Ok(port) => Ok((port.0, search)),
                    Err(_) => Err("PORT requires TCP port".to_owned()),
                }
            })
            .map(|(port, search)| Place::Tcp { port, search }),
        "UNIX" => {
            let path = args.mandatory::<Filename>("FILENAME").map(|Filename(path)| path);
            if path.as_ref().is_some_and(|path| path.len() > LONGEST_PATH) {
                args.wrong("FILENAME", "filename too long");
            }
            path.map(Place::Unix)
        }
        "SOCKET" => args.mandatory::<i32>("FD").map(Place::Open),
        "" => None,
        kind => {
            args.wrong(Blame::Element, format!("unknown socket type '{kind}'"));
            None
        }
    };
    args.finish()?;
    Ok(Box::new(ControlSocket {
        place: place.ok_or(Refused)?,
        rules: Rules { read_only, proxy, own: None },
        verbose,
        localhost,
        retries: retries.into(),
        retry_warnings,
        listener: None,
        connections: HashMap::new(),
    }))
}

impl ControlSocket {
    /// Begins to listen; else what failed.
    fn listen(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {}", connection::reason(&error));
        let listener = match &mut self.place {
            Place::Tcp { port, search } => {
                let address = if self.localhost { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
                let last = if *search { port.saturating_add(PORTS) } else { *port };
                let (found, listener) = loop {
                    match TcpListener::bind((address, *port)) {
                        Ok(listener) => break (*port, listener),
                        Err(_) if *port < last => *port += 1,
                        Err(error) => return Err(failed("bind", error)),
                    }
                };
                (*port, *search) = (found, false);
                listener.set_nonblocking(true).map_err(|error| failed("fcntl", error))?;
                Listener::Tcp(listener)
            }
            Place::Unix(path) => {
                // What is left of a program that is gone; if it is no socket, binding says so.
                let _ = std::fs::remove_file(&*path);
                let listener = UnixListener::bind(path).map_err(|error| failed("bind", error))?;
                listener.set_nonblocking(true).map_err(|error| failed("fcntl", error))?;
                Listener::Unix(listener)
            }
            Place::Open(fd) => {
                let stream = Stream::open(*fd).map_err(|error| failed("socket", error))?;
                self.connect(stream, cx);
                return Ok(());
            }
        };
        cx.watch(listener.as_raw_fd());
        self.listener = Some(listener);
        Ok(())
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        let accepted = match &self.listener {
            None => return,
            Some(Listener::Tcp(listener)) => listener
                .accept()
                .map(|(stream, from)| (Stream::Tcp(stream), format!(" from {}.{}", from.ip(), from.port()))),
            Some(Listener::Unix(listener)) => {
                listener.accept().map(|(stream, _)| (Stream::Unix(stream), String::new()))
            }
        };
        match accepted {
            Ok((stream, from)) => {
                if self.verbose {
                    let fd = stream.as_raw_fd();
                    cx.say(&format!("{} :: ControlSocket: opened connection {fd}{from}", cx.name()));
                }
                self.connect(stream, cx);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => {
                cx.say(&format!("{} :: ControlSocket: accept: {}", cx.name(), connection::reason(&error)));
            }
        }
    }

    fn connect(&mut self, stream: Stream, cx: &mut Context<'_>) {
        let fd = stream.as_raw_fd();
        cx.watch(fd);
        self.connections.insert(fd, Connection::new(stream));
        self.serve(fd, cx);
    }

    /// Reads and writes what can be, and answers what has been asked.
    fn serve(&mut self, fd: RawFd, cx: &mut Context<'_>) {
        let Some(connection) = self.connections.get_mut(&fd) else { return };
        self.rules.own = match &self.place {
            Place::Tcp { port, .. } => Some(("port", port.to_string())),
            Place::Unix(path) => Some(("filename", path.clone())),
            Place::Open(_) => None,
        };
        let again = connection.serve(&self.rules, cx);
        if connection.is_over() {
            cx.unwatch(fd);
            self.connections.remove(&fd);
            if self.verbose {
                cx.say(&format!("{} :: ControlSocket: closed connection {fd}", cx.name()));
            }
        } else if let Some(again) = again {
            if again == connection::Again::Slow && connection.has_ended() {
                // Nothing more comes from it: it would be readable all the time.
                cx.unwatch(fd);
            }
            let wait = if again == connection::Again::Slow { SLOW } else { 0 };
            let now = cx.now();
            cx.set_timer(RESUME, now + wait);
        }
    }

    /// That it could not listen: whether it tries again.
    fn failed(&mut self, message: &str, cx: &mut Context<'_>) -> bool {
        if self.retries <= 0 {
            return false;
        }
        if self.retry_warnings {
            let tries = if self.retries == 1 { "try" } else { "tries" };
            cx.say(&format!(
                "{} :: ControlSocket: warning: {message} ({} {tries} left)",
                cx.name(),
                self.retries
            ));
        }
        self.retries -= 1;
        let now = cx.now();
        cx.set_timer(RETRY, now + SECOND);
        true
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Unix(listener) => listener.as_raw_fd(),
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        for connection in self.connections.values_mut() {
            connection.flush();
        }
        if let (Some(Listener::Unix(_)), Place::Unix(path)) = (&self.listener, &self.place) {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Element for ControlSocket {
    fn class(&self) -> &'static str {
        "ControlSocket"
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        match self.listen(cx) {
            Err(message) if !self.failed(&message, cx) => Err(message),
            _ => Ok(()),
        }
    }

    fn timer(&mut self, id: u32, cx: &mut Context<'_>) {
        if id == RESUME {
            let waiting: Vec<RawFd> = self.connections.keys().copied().collect();
            waiting.into_iter().for_each(|fd| self.serve(fd, cx));
        } else if self.listener.is_none()
            && let Err(message) = self.listen(cx)
            && !self.failed(&message, cx)
        {
            cx.say(&format!("{} :: ControlSocket: {message}", cx.name()));
            cx.stop();
        }
    }

    fn ready(&mut self, fd: RawFd, cx: &mut Context<'_>) {
        if self.listener.as_ref().is_some_and(|listener| listener.as_raw_fd() == fd) {
            self.accept(cx);
        } else {
            self.serve(fd, cx);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        match self.place {
            Place::Tcp { .. } => vec![Handler::read("port")],
            Place::Unix(_) => vec![Handler::read("filename")],
            Place::Open(_) => Vec::new(),
        }
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match &self.place {
            Place::Tcp { port, search } if handler == "port" => {
                Ok(format!("{port}{}", if *search { "+" } else { "" }))
            }
            Place::Unix(path) if handler == "filename" => Ok(path.clone()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
