//! One client: bytes in, answers out.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use graph::Context;

use super::command::{self, Rules};

/// What the server says first.
const GREETING: &str = "Click::ControlSocket/1.3\r\n";
/// Bytes read at a time.
const CHUNK: usize = 16 * 1024;
/// A client that sends more without an end is not listened to any more.
const LONGEST: usize = 16 << 20;

/// A connected socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// One that somebody else opened.
    Given(std::fs::File, RawFd),
}

impl Stream {
    /// A socket that is open already.
    pub(super) fn open(fd: RawFd) -> io::Result<Stream> {
        // Opened anew by its name: nothing else is known of it than its number.
        let path = format!("/proc/self/fd/{fd}");
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
        let fd = file.as_raw_fd();
        Ok(Stream::Given(file, fd))
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Given(file, _) => {
                let flags = nix::fcntl::OFlag::O_RDWR | nix::fcntl::OFlag::O_NONBLOCK;
                nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETFL(flags))
                    .map_err(io::Error::from)
                    .map(drop)
            }
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Stream::Tcp(stream) => stream.as_raw_fd(),
            Stream::Unix(stream) => stream.as_raw_fd(),
            Stream::Given(_, fd) => *fd,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Given(file, _) => file.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buffer),
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Given(file, _) => file.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a connection wants to be looked at again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Further requests have come already.
    More,
    /// Its client reads slowly.
    Slow,
}

/// A client.
pub(super) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Nothing more comes from it, or is wanted.
    ended: bool,
    /// It does not read any more.
    deaf: bool,
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Connection {
        // If it cannot be had so, its reads and writes are those that block.
        let _ = stream.set_nonblocking();
        Connection { stream, input: Vec::new(), output: GREETING.into(), ended: false, deaf: false }
    }

    /// Whether there is nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        self.deaf || (self.ended && self.input.is_empty() && self.output.is_empty())
    }

    /// Whether nothing more comes from it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Reads, answers one request, writes.
    pub(super) fn serve(&mut self, rules: &Rules, cx: &mut Context<'_>) -> Option<Again> {
        self.receive();
        let mut answered = false;
        // One at a time: others have their turn in between.
        if let Some(taken) = command::answer(&self.input, self.ended, &mut self.output, rules, cx) {
            self.input.drain(..taken.bytes.min(self.input.len()));
            answered = true;
            if taken.quits {
                self.ended = true;
                self.input.clear();
            }
        } else if self.ended {
            self.input.clear();
        }
        self.flush();
        if !self.output.is_empty() {
            Some(Again::Slow)
        } else if answered && !self.input.is_empty() {
            Some(Again::More)
        } else {
            None
        }
    }

    fn receive(&mut self) {
        if self.ended {
            return;
        }
        let mut buffer = [0; CHUNK];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.input.extend_from_slice(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.ended = true,
        }
        if self.input.len() > LONGEST {
            self.input.clear();
            self.ended = true;
        }
    }

    /// Writes what can be written now.
    pub(super) fn flush(&mut self) {
        let mut written = 0;
        while written < self.output.len() && !self.deaf {
            match self.stream.write(&self.output[written..]) {
                Ok(0) => self.deaf = true,
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.deaf = true,
            }
        }
        self.output.drain(..written);
    }
}

/// What the system says of an error, without its number.
pub(super) fn reason(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |number| nix::errno::Errno::from_raw(number).desc().to_owned())
}
