//! The process that runs the sessions. It is not the daemon: a session that ends resets routing
//! protocols, so an upgrade or a fault of the daemon must not end any.
//!
//! It listens at a socket beside the daemon's ([`place`]). The daemon says each second which
//! sessions of whom are wanted ([`Request::Follow`]), and starts this process where none is there.
//! Where systemd starts it first (`bifrost-bfd.service`), a stop of the daemon's service leaves it
//! alone. It waits until sessions are wanted, and ends when they are not any more.
//!
//! An older process may serve a newer daemon. So requests only grow: what is not understood is not
//! answered, and [`Request::End`] stays as it is.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use config::{Bfd as Plan, BfdKeys};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use signal_hook::{consts::TERM_SIGNALS, iterator::Signals};
use tracing::{info, warn};

use super::super::orders::{Orders, orders};
use super::thread::{Order, Runner};
use crate::subject::BfdStatus;

/// How long who asks may take, and the thread of the sessions to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest request: as many keys as a file may have, and some more.
const LONGEST: u64 = 256 * 1024;

/// What the process is told, a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Run the sessions of the bfdd that listens there, if it is root's or of one of these users,
    /// and authenticate those of some peers.
    Follow {
        frr: SocketAddr,
        users: Vec<String>,
        #[serde(default)]
        peers: Vec<BfdKeys>,
    },
    /// Say how they are: a [`BfdStatus`].
    Status,
    /// Say whom sessions reach, and from then on each change, until the daemon goes: a
    /// [`PeerReport`](super::reachability::PeerReport) a line.
    Watch,
    /// Tell the other ends that this is no failure, and end. Who runs none goes on waiting.
    End,
}

/// Where the process of the daemon with this socket listens: `control.sock`, `control.bfd.sock`.
pub(super) fn place(control: &Path) -> PathBuf {
    control.with_extension("bfd.sock")
}

/// Tells the process something that it answers nothing to. Never waits.
pub(super) fn tell(place: &Path, request: &Request) -> io::Result<()> {
    let mut stream = UnixStream::connect(place)?;
    stream.set_nonblocking(true)?;
    stream.write_all((serde_json::to_string(request)? + "\n").as_bytes())
}

/// Asks how the sessions are.
pub(super) fn ask(place: &Path) -> io::Result<BfdStatus> {
    let mut stream = UnixStream::connect(place)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all((serde_json::to_string(&Request::Status)? + "\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Runs the process of the daemon with this socket, until it is told to end.
///
/// # Errors
/// Nothing can listen there. That another one does already is none: this one is not needed.
pub(crate) fn run(control: &Path) -> io::Result<()> {
    let place = &place(control);
    // The socket is this user's alone.
    umask(Mode::from_bits_truncate(0o177));
    if UnixStream::connect(place).is_ok() {
        info!("bfd: another process runs the sessions already");
        return Ok(());
    }
    match fs::remove_file(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(place)?;
    let (orders, inbox) = orders()?;
    let mut signals = Signals::new(TERM_SIGNALS)?;
    let runner = Runner::new(inbox);
    thread::Builder::new().name("bfd".to_owned()).spawn(move || runner.run())?;
    // Rights are each thread's own: that one gives up its when it is urgent.
    confine::client();
    let (farewell, socket) = (orders.clone(), place.to_owned());
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            end(&farewell, &socket);
        }
    })?;
    for stream in listener.incoming() {
        let served = stream.and_then(|stream| serve(stream, &orders, place));
        if let Err(error) = served {
            warn!("bfd: who asked was not served: {error}");
        }
    }
    Ok(())
}

fn serve(mut stream: UnixStream, orders: &Orders<Order>, place: &Path) -> io::Result<()> {
    let user = getsockopt(&stream, PeerCredentials)?.uid();
    if user != 0 && user != geteuid().as_raw() {
        return Err(io::Error::other(format!("user {user} has nothing to say here")));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new((&stream).take(LONGEST)).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        Request::Follow { frr, users, peers } => drop(orders.tell(Order::Follow(Plan { frr, users, peers }))),
        Request::Status => {
            let status = orders.ask(Order::Status).recv_timeout(PATIENCE).map_err(io::Error::other)?;
            stream.write_all((serde_json::to_string(&status)? + "\n").as_bytes())?;
        }
        Request::Watch => drop(orders.tell(Order::Watch(stream))),
        Request::End if orders.ask(Order::IsWanted).recv_timeout(PATIENCE) == Ok(false) => {}
        Request::End => end(orders, place),
    }
    Ok(())
}

fn end(orders: &Orders<Order>, place: &Path) -> ! {
    // The process is gone in any case.
    let _ = orders.ask(Order::Stop).recv_timeout(PATIENCE);
    let _ = fs::remove_file(place);
    std::process::exit(0)
}
