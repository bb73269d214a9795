//! The way to FRR's bfdd: a stream, on which nobody waits for the other.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bfd::frr::{Message, Reader};
use config::Bfd as Plan;
use mirror::peer;

/// For a connection within this machine.
const PATIENCE: Duration = Duration::from_millis(200);
/// What bfdd may leave unread. It sends little and reads at once; so one that does not is stuck.
const UNREAD: usize = 1 << 20;

/// See the head of this file.
pub(super) struct Connection {
    stream: TcpStream,
    reader: Reader,
    unsent: Vec<u8>,
}

impl Connection {
    pub(super) fn open(plan: &Plan) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&plan.frr, PATIENCE)?;
        // Whoever answers there says which packets are sent from this machine's addresses.
        peer::check(&stream, plan.frr, &plan.users, "bfd.users").map_err(io::Error::other)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, reader: Reader::default(), unsent: Vec::new() })
    }

    /// All messages that have come.
    ///
    /// # Errors
    /// Why there will be none any more.
    pub(super) fn hear(&mut self) -> Result<Vec<Message>, String> {
        let mut buffer = [0; 8192];
        loop {
            let read = self.stream.read(&mut buffer);
            match read {
                Ok(0) => return Err("it has closed the connection".to_owned()),
                Ok(count) => self.reader.feed(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let mut messages = Vec::new();
        while let Some(message) = self.reader.next().map_err(|wrong| wrong.to_string())? {
            messages.push(message);
        }
        Ok(messages)
    }

    /// The version of the protocol that bfdd speaks.
    pub(super) fn version(&self) -> u8 {
        self.reader.version()
    }

    pub(super) fn tell(&mut self, message: &[u8]) {
        self.unsent.extend_from_slice(message);
    }

    /// Sends what was told. False: some of it has to wait.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    pub(super) fn flush(&mut self) -> Result<bool, String> {
        while !self.unsent.is_empty() {
            let written = self.stream.write(&self.unsent);
            match written {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        match self.unsent.len() {
            unread if unread > UNREAD => Err("it reads nothing any more".to_owned()),
            unread => Ok(unread == 0),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
