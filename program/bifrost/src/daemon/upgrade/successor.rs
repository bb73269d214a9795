//! The side of the process that takes over.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::unistd::dup2_stdin;
use plane::Handed;

use super::super::DaemonError;
use super::super::control::Control;
use super::channel::{Channel, Word, handed};

/// How long the process that runs may take to make way: it writes down its flows.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process that runs, as the one that takes over from it sees it.
pub struct Predecessor {
    channel: Channel,
}

impl Predecessor {
    /// Whoever started this one: it is at standard input.
    ///
    /// # Errors
    /// It is not.
    pub fn at_standard_input() -> io::Result<Predecessor> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        // Programs that this one starts are not to have it.
        dup2_stdin(File::open("/dev/null")?)?;
        Ok(Predecessor { channel: Channel::new(socket) })
    }

    /// Tells it why it stays.
    pub fn tell_failed(&self, why: &str) {
        // Who is gone need not be told.
        let _ = self.channel.say(&Word::Failed(why.to_owned()), None);
    }

    /// Tells it that it is not needed any more.
    pub(in super::super) fn tell_done(&self) -> Result<(), DaemonError> {
        self.channel.say(&Word::Done, None).map_err(gone)
    }

    /// Has it make way, and gives what it hands over: ports, and names of virtual routers that it
    /// was active for.
    pub(in super::super) fn make_way(&self) -> Result<(Vec<Handed>, Vec<String>), DaemonError> {
        let release = crate::RELEASE.to_owned();
        self.channel.say(&Word::Ready { release }, None).map_err(gone)?;
        let mut ports = Vec::new();
        loop {
            let late = || gone(io::ErrorKind::TimedOut.into());
            match self.channel.hear(PATIENCE).map_err(gone)?.ok_or_else(late)? {
                (Word::Go { active }, _) => return Ok((ports, active)),
                (word, Some(link)) => {
                    let strange = || gone(io::ErrorKind::InvalidData.into());
                    ports.push(handed(word, link).ok_or_else(strange)?);
                }
                _ => return Err(gone(io::ErrorKind::InvalidData.into())),
            }
        }
    }
}

fn gone(error: io::Error) -> DaemonError {
    DaemonError::System { what: "cannot take over from the process that runs", error }
}

impl Control {
    /// Reads all that Linux has, while another process forwards. Ends early when it is told to
    /// stop.
    pub(in super::super) fn read_beside(&mut self) -> Result<(), DaemonError> {
        let stop = self.forwarding.stop.clone();
        while !(self.forwarding.mirror.ready() && self.forwarding.mirror.knows_beyond()) {
            if stop.is_asked() {
                return Ok(());
            }
            if !self.read_some()? {
                self.wait(None, Duration::from_millis(10));
            }
        }
        Ok(())
    }
}
