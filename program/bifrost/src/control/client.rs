//! The command line's side of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::protocol::{End, Reply, Request};

/// Longest line of an answer that is believed.
const MAX_LINE: u64 = 256 * 1024 * 1024;
/// A daemon that does not answer for so long is reported as stuck.
const PATIENCE: Duration = Duration::from_secs(15);
/// The same for another configuration: many ports may be taken, and a file may lie where reading
/// takes long.
const RELOAD: Duration = Duration::from_secs(600);

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens at the socket.
    #[error(
        "Bifrost is not running: nothing answers on {}\n  start it with `bifrost run` or `systemctl start bifrost`, \
         or say where it listens with --socket", .0.display()
    )]
    NotRunning(PathBuf),
    /// The socket is not for this user.
    #[error(
        "you may not use {}{}\n  run this as root, or join its group (control.group in router.toml)",
        path.display(), owner.as_deref().unwrap_or("")
    )]
    Permission {
        /// The socket.
        path: PathBuf,
        /// Whose it is, when that could be found.
        owner: Option<String>,
    },
    /// The daemon does this for others, and for whom.
    #[error("{0}")]
    Denied(String),
    /// The daemon said no, and why.
    #[error("{0}")]
    Refused(String),
    /// The daemon said something that this program does not understand.
    #[error(
        "the daemon's answer makes no sense here: {0}\n  daemon and command line may be of different releases"
    )]
    Strange(String),
    /// It does not answer.
    #[error("Bifrost does not answer: it accepted the request and said nothing for {} s", PATIENCE.as_secs())]
    Silent,
    /// The connection broke.
    #[error("lost the connection to Bifrost: {0}")]
    Lost(io::Error),
}

/// A connection to the daemon.
pub struct Client {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Client {
    /// Connects to the daemon that listens at `socket`.
    pub fn connect(socket: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NotRunning(socket.to_owned())
            }
            io::ErrorKind::PermissionDenied => {
                ClientError::Permission { path: socket.to_owned(), owner: owner(socket) }
            }
            _ => ClientError::Lost(error),
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(ClientError::Lost)?;
        Ok(Client { stream: BufReader::with_capacity(64 * 1024, stream), line: Vec::new() })
    }

    /// Asks for a subject of `bifrost show` by its name over the socket.
    pub fn subject<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ClientError> {
        self.send(&serde_json::json!({ "ask": name }))?;
        self.value()
    }

    /// Asks for one value.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        self.send(request)?;
        let takes_long = matches!(
            request,
            Request::Reload { .. }
                | Request::Commit(_)
                | Request::Handover { .. }
                | Request::Restart { .. }
                | Request::Upgrade
        );
        if takes_long {
            self.stream.get_ref().set_read_timeout(Some(RELOAD)).map_err(ClientError::Lost)?;
        }
        self.value()
    }

    fn value<T: DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        match self.reply()? {
            Reply::Ok(value) => parse(&value),
            Reply::Error(error) => Err(ClientError::Refused(error)),
            Reply::Denied(error) => Err(ClientError::Denied(error)),
            Reply::Begun(()) | Reply::Item(_) | Reply::End(_) => {
                Err(ClientError::Strange("a stream".to_owned()))
            }
        }
    }

    /// Asks for a stream of what there is. `quiet` is how long it may have nothing to say; `None`
    /// is for ever.
    pub fn stream<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        quiet: Option<Duration>,
    ) -> Result<Stream<'_, T>, ClientError> {
        self.send(request)?;
        self.stream.get_ref().set_read_timeout(quiet).map_err(ClientError::Lost)?;
        Ok(Stream { client: self, end: None, item: PhantomData })
    }

    /// Asks for a stream of what happens (a trace, a capture, copies), and returns when it has
    /// begun.
    pub fn live<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        quiet: Option<Duration>,
    ) -> Result<Stream<'_, T>, ClientError> {
        self.send(request)?;
        match self.reply()? {
            Reply::Begun(()) => {}
            Reply::Error(error) => return Err(ClientError::Refused(error)),
            Reply::Denied(error) => return Err(ClientError::Denied(error)),
            _ => return Err(ClientError::Strange("something else than a live stream".to_owned())),
        }
        self.stream.get_ref().set_read_timeout(quiet).map_err(ClientError::Lost)?;
        Ok(Stream { client: self, end: None, item: PhantomData })
    }

    /// What ends a stream from another thread.
    pub fn stopper(&self) -> Result<Stopper, ClientError> {
        Ok(Stopper(self.stream.get_ref().try_clone().map_err(ClientError::Lost)?))
    }

    fn send(&mut self, request: &impl Serialize) -> Result<(), ClientError> {
        let mut line =
            serde_json::to_vec(request).map_err(|error| ClientError::Strange(error.to_string()))?;
        line.push(b'\n');
        match self.stream.get_mut().write_all(&line) {
            // It may have said why before it hung up: let the reading find out.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ClientError::Lost(error)),
            _ => Ok(()),
        }
    }

    fn reply(&mut self) -> Result<Reply, ClientError> {
        self.line.clear();
        match self.stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.last() == Some(&b'\n') => {}
            Ok(_) => return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(ClientError::Silent);
            }
            Err(error) => return Err(ClientError::Lost(error)),
        }
        serde_json::from_slice(&self.line).map_err(|error| ClientError::Strange(error.to_string()))
    }
}

/// Ends a stream that would go on: anything said meanwhile does.
pub struct Stopper(UnixStream);

impl Stopper {
    /// Asks the daemon to end the stream; what it has sent, and how it ended, still arrive.
    pub fn stop(&self) {
        // A daemon that is gone has ended it as well.
        let _ = (&self.0).write_all(b"\n");
    }
}

/// The items of a streamed answer, in order, each or the error that ended it.
pub struct Stream<'a, T> {
    client: &'a mut Client,
    end: Option<End>,
    item: PhantomData<T>,
}

impl<T> Stream<'_, T> {
    /// How it ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whatever has arrived has been taken: the next item will have to be waited for.
    pub fn drained(&self) -> bool {
        self.client.stream.buffer().is_empty()
    }
}

impl<T: DeserializeOwned> Iterator for Stream<'_, T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let item = match self.client.reply() {
            Ok(Reply::Item(value)) => parse(&value),
            Ok(Reply::End(end)) => {
                self.end = Some(end);
                return None;
            }
            Ok(Reply::Error(error)) => Err(ClientError::Refused(error)),
            Ok(Reply::Denied(error)) => Err(ClientError::Denied(error)),
            Ok(Reply::Ok(_)) => Err(ClientError::Strange("a single value".to_owned())),
            Ok(Reply::Begun(())) => Err(ClientError::Strange("a live stream".to_owned())),
            Err(error) => Err(error),
        };
        if item.is_err() {
            self.end = Some(End::default());
        }
        Some(item)
    }
}

fn parse<T: DeserializeOwned>(value: &RawValue) -> Result<T, ClientError> {
    serde_json::from_str(value.get()).map_err(|error| ClientError::Strange(error.to_string()))
}

/// ` (root:bifrost, mode 660)`.
fn owner(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    let user = nix::unistd::User::from_uid(metadata.uid().into()).ok()??;
    let group = nix::unistd::Group::from_gid(metadata.gid().into()).ok()??;
    Some(format!(" ({}:{}, mode {:o})", user.name, group.name, metadata.mode() & 0o777))
}
