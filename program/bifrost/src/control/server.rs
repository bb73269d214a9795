//! The daemon's side of the control socket.
//!
//! A thread accepts, a thread a client answers, a thread samples the counters. Threads and blocking
//! reads, because the few clients of a router do not need more and can be understood this way. What
//! keeps a bad client from hurting: requests of bounded length, a limit on clients (the one idle
//! for longest makes room), a timeout on every read and write, and streams that are written as they
//! are made, so that the memory of an answer is a page however long the answer is.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use config::Role;
use nix::sys::socket::Shutdown;
use nix::unistd::{Gid, chown, getegid};
use port::Peer;
use tracing::{info, warn};

use super::access::{Access, Judge, longest};
use super::answer::Answer;
use super::conversation::Conversation;
use super::protocol::Reply;
use super::rates::{self, Rates};

/// Most clients at once.
pub const MAX_CLIENTS: usize = 64;
/// A client that asks nothing for so long is let go.
const IDLE: Duration = Duration::from_secs(60);
/// A client that takes nothing for so long is let go (twice so long where a part of a write went
/// through).
const STUCK: Duration = Duration::from_secs(4);
/// Stack of a client's thread; answers live on the heap.
const STACK: usize = 512 * 1024;

/// Why the control socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A daemon answers there.
    #[error("another Bifrost is running: it answers on {}", .0.display())]
    Running(PathBuf),
    /// There is something else at the path.
    #[error("{} is there and is not a socket: remove it, or set another path at control.socket", .0.display())]
    NotASocket(PathBuf),
    /// No such group.
    #[error("there is no group {name:?} (control.{key}): make it with `groupadd {name}`")]
    Group {
        /// The group.
        name: String,
        /// Where it is named.
        key: &'static str,
    },
    /// The system refused.
    #[error("control socket {}: {what}: {error}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// The control socket, answering until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
    identity: (u64, u64),
}

struct Shared {
    answer: Arc<dyn Answer>,
    judge: Judge,
    rates: Arc<Rates>,
    listener: UnixListener,
    clients: Mutex<Clients>,
    stopping: AtomicBool,
    started: Instant,
}

#[derive(Default)]
struct Clients {
    next: u64,
    open: HashMap<u64, Connection>,
}

/// What the accepting thread knows of a client.
struct Connection {
    stream: UnixStream,
    /// Since when it has asked nothing; none while it is being answered.
    idle_since: Option<Instant>,
}

impl Server {
    /// Opens the socket and answers on it. A socket that nobody answers on is replaced.
    pub fn start(access: &Access, answer: Arc<dyn Answer>) -> Result<Server, ServerError> {
        make_way(&access.socket)?;
        Server::replace(access, answer)
    }

    /// As [`Server::start`], whoever answers there: who has connected stays with that one.
    pub fn replace(access: &Access, answer: Arc<dyn Answer>) -> Result<Server, ServerError> {
        let path = access.socket.clone();
        let fail = |what| {
            let path = path.clone();
            move |error| ServerError::Io { path, what, error }
        };
        let judge = Judge::new(access)?;
        if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(fail("cannot make its directory"))?;
        }
        // Made beside its place and moved there when its permissions are right: never open to the
        // wrong ones.
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let _ = std::fs::remove_file(&beside);
        let listener = UnixListener::bind(&beside).map_err(fail("cannot bind"))?;
        let ready =
            permit(&beside, &judge).map_err(fail("cannot set its group and permissions")).and_then(|()| {
                std::fs::rename(&beside, &path).map_err(fail("cannot put it in place"))?;
                std::fs::metadata(&path).map_err(fail("cannot look at it"))
            });
        let metadata = ready.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;

        let shared = Arc::new(Shared {
            answer,
            judge,
            rates: Arc::default(),
            listener,
            clients: Mutex::default(),
            stopping: AtomicBool::new(false),
            started: Instant::now(),
        });
        let accepting = shared.clone();
        let sampling = shared.clone();
        let accept =
            spawn("control", move || accept_clients(&accepting)).map_err(fail("cannot start a thread"))?;
        let sample =
            spawn("control-rates", move || sample_rates(&sampling)).map_err(fail("cannot start a thread"))?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Server { shared, threads: vec![accept, sample], path, identity })
    }

    /// The rates that it samples, for others who tell them.
    pub(crate) fn rates(&self) -> Arc<Rates> {
        self.shared.rates.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd;
        self.shared.stopping.store(true, Relaxed);
        // Wakes the accepting thread: accept() fails from now on.
        let _ = nix::sys::socket::shutdown(self.shared.listener.as_raw_fd(), Shutdown::Both);
        for connection in self.shared.clients().open.values() {
            let _ = connection.stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        // Not if another daemon has put its own there meanwhile.
        if std::fs::metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, Clients> {
        // Every change of the map is a single insertion, removal or store: sound after a panic as
        // well.
        self.clients.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn set_idle(&self, client: u64, idle_since: Option<Instant>) {
        if let Some(connection) = self.clients().open.get_mut(&client) {
            connection.idle_since = idle_since;
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body)
}

/// Sees to it that nothing is at the path that matters.
fn make_way(path: &Path) -> Result<(), ServerError> {
    match std::fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(ServerError::NotASocket(path.to_owned())),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Ok(_) => Err(ServerError::Running(path.to_owned())),
            Err(error) => Err(ServerError::Io {
                path: path.to_owned(),
                what: "cannot tell whether it is in use",
                error,
            }),
        },
    }
}

fn permit(path: &Path, judge: &Judge) -> io::Result<()> {
    if judge.group() != getegid().as_raw() {
        chown(path, None, Some(Gid::from_raw(judge.group())))?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(judge.mode()))
}

fn sample_rates(shared: &Shared) {
    while !shared.stopping.load(Relaxed) {
        shared.rates.sample(&*shared.answer);
        thread::park_timeout(rates::INTERVAL);
    }
}

fn accept_clients(shared: &Arc<Shared>) {
    while !shared.stopping.load(Relaxed) {
        match shared.listener.accept() {
            Ok((stream, _)) => admit(shared, stream),
            Err(_) if shared.stopping.load(Relaxed) => return,
            Err(error) => {
                // Out of file descriptors, say: those being served will give theirs back.
                warn!("control socket: cannot accept a client: {error}");
                thread::park_timeout(Duration::from_millis(200));
            }
        }
    }
}

/// A client that gets no answer is told why. What does not go out at once is lost on it.
fn refuse(stream: &UnixStream, reply: &Reply) {
    let Ok(mut line) = serde_json::to_vec(reply) else { return };
    line.push(b'\n');
    let _ = nix::sys::socket::send(
        std::os::fd::AsRawFd::as_raw_fd(stream),
        &line,
        nix::sys::socket::MsgFlags::MSG_DONTWAIT | nix::sys::socket::MsgFlags::MSG_NOSIGNAL,
    );
}

fn admit(shared: &Arc<Shared>, stream: UnixStream) {
    let (role, peer) = match Peer::of(&stream) {
        Ok(peer) => match shared.judge.role(&peer) {
            Some(role) => (role, peer),
            None => {
                warn!("control socket: refused user {}, who is in none of its groups", peer.uid);
                let why = "you may not use this socket: only root and members of its groups may \
                           (control.group, operate_group and read_group in router.toml)";
                return refuse(&stream, &Reply::Denied(why.to_owned()));
            }
        },
        Err(error) => return warn!("control socket: cannot tell who a client is: {error}"),
    };
    let timeouts = || {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(STUCK))?;
        stream.try_clone()
    };
    let kept = match timeouts() {
        Ok(kept) => kept,
        Err(error) => return warn!("control socket: cannot serve a client: {error}"),
    };
    let client = {
        let mut clients = shared.clients();
        if clients.open.len() >= MAX_CLIENTS && !make_room(&mut clients) {
            warn!("control socket: {MAX_CLIENTS} clients are being answered; refused another");
            let busy = format!("busy: {MAX_CLIENTS} clients are being answered; try again");
            refuse(&stream, &Reply::Error(busy));
            return;
        }
        let client = clients.next;
        clients.next += 1;
        clients.open.insert(client, Connection { stream: kept, idle_since: Some(Instant::now()) });
        client
    };
    let serving = shared.clone();
    let started = spawn("control-client", move || {
        confine::client();
        let _leaving = Leaving { shared: &serving, client };
        if let Err(error) = serve(&serving, client, &stream, role, &peer)
            && !serving.stopping.load(Relaxed)
            && !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
        {
            info!("control socket: let a client go: {}", explain(&error));
        }
    });
    if let Err(error) = started {
        shared.clients().open.remove(&client);
        warn!("control socket: cannot start a thread for a client: {error}");
    }
}

/// Forgets a client's connection, however its thread ends.
struct Leaving<'a> {
    shared: &'a Shared,
    client: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.clients().open.remove(&self.client);
    }
}

/// Lets the client go that has been idle for longest. False when every one is being answered.
fn make_room(clients: &mut Clients) -> bool {
    let idle =
        clients.open.iter().filter_map(|(client, connection)| Some((connection.idle_since?, *client))).min();
    let Some((_, client)) = idle else { return false };
    if let Some(connection) = clients.open.remove(&client) {
        let _ = connection.stream.shutdown(std::net::Shutdown::Both);
        info!("control socket: {MAX_CLIENTS} clients; let the one idle for longest go");
    }
    true
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it neither asked nor read for too long".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Answers one client until it leaves.
fn serve(shared: &Shared, client: u64, stream: &UnixStream, role: Role, peer: &Peer) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = BufWriter::with_capacity(64 * 1024, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(longest(role) as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue; // It ended a stream.
        }
        shared.set_idle(client, None);
        let mut conversation = Conversation {
            answer: &*shared.answer,
            role,
            peer,
            rates: &shared.rates,
            started: shared.started,
            stopping: &shared.stopping,
            reader: &reader,
            writer: &mut writer,
        };
        conversation.reply_to(&line)?;
        if line.len() > longest(role) {
            return Ok(());
        }
        shared.set_idle(client, Some(Instant::now()));
    }
}
