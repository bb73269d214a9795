//! The lock of the configuration: an administrator who has it commits, and nobody else.
//!
//! The daemon keeps it, and forgets it when it was not asked for again for a minute: so a shell
//! that died locks nobody out.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ShellError;
use super::pipe::Pipes;
use super::session::Session;
use crate::command::origin;
use crate::control::{Client, LockStatus, LockWish, Request};

/// How often it is asked for again.
const AGAIN: Duration = Duration::from_secs(15);

/// A lock that is held.
pub(super) struct Lock {
    socket: PathBuf,
    /// Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn ask(socket: &Path, wish: LockWish) -> Result<LockStatus, ShellError> {
    Ok(Client::connect(socket)?.ask(&Request::Lock { wish, from: origin() })?)
}

impl Lock {
    fn hold(socket: &Path, take: bool) -> Result<Lock, ShellError> {
        ask(socket, if take { LockWish::Take } else { LockWish::Hold })?;
        let (end, ended) = channel();
        let again = socket.to_owned();
        let renew = move || {
            while ended.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
                // Whoever has taken it has it; the next commit says so.
                if let Err(ShellError::Failure(error)) = ask(&again, LockWish::Hold) {
                    eprintln!("# the lock: {error}");
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("lock".to_owned()).spawn(renew).ok();
        Ok(Lock { socket: socket.to_owned(), end: Some(end), thread })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // What cannot be given back is forgotten in a minute.
        let _ = ask(&self.socket, LockWish::Release);
    }
}

/// Who has the lock, in a line.
pub(super) fn told(socket: &Path) -> Result<String, ShellError> {
    let status = ask(socket, LockWish::Show)?;
    Ok(match status.holder {
        None => "nobody has locked the configuration".to_owned(),
        Some(holder) if status.yours => format!("you have locked the configuration, {}", holder.since()),
        Some(holder) => format!("{} has locked the configuration, {}", holder.name(), holder.since()),
    })
}

impl Session {
    /// Locks the configuration; with `take` even if somebody else has.
    pub(super) fn hold(&mut self, take: bool) -> Result<(), ShellError> {
        // One that is held already is given back in front of the new one, not behind it.
        self.lock = None;
        self.lock = Some(Lock::hold(&self.socket, take)?);
        println!("nobody else commits until you `unlock` or leave configure mode");
        Ok(())
    }

    /// Gives the lock back, or takes another's away.
    pub(super) fn unlock(&mut self, words: &[String]) -> Result<(), ShellError> {
        let wish = match words {
            [] => LockWish::Release,
            [word] if word == "force" => LockWish::Break,
            _ => return Err(ShellError::said("unlock: alone, or `unlock force`")),
        };
        self.lock = None;
        ask(&self.socket, wish)?;
        println!("{}", told(&self.socket)?);
        Ok(())
    }

    pub(super) fn show_lock(&self, pipes: &Pipes) -> Result<(), ShellError> {
        if pipes.json {
            let status = ask(&self.socket, LockWish::Show)?;
            let json = serde_json::to_string(&status).unwrap_or_default();
            return super::output::show(&(json + "\n"), pipes);
        }
        super::output::show(&(told(&self.socket)? + "\n"), pipes)
    }
}
