//! Taking the terminal, and giving it back.
//!
//! A terminal can go away: its window is closed, its connection breaks. What then reads keys by the
//! library is never done: it takes the end of the file for no key yet and asks again, for ever. So
//! the terminal is asked first whether it is still there.

use std::fs::File;
use std::io::{self, IsTerminal, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// The terminal, taken over: raw, on the alternate screen. Given back when dropped, and before the
/// message of a panic.
pub struct Terminal {
    screen: DefaultTerminal,
    keys: OwnedFd,
}

/// What the operator pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `q`, Escape or Ctrl-C; or the terminal is gone.
    Quit,
    /// Any other character.
    Char(char),
    /// Nothing pressed, but the terminal has a new size: draw again.
    Resized,
}

impl Terminal {
    /// Takes the terminal over.
    pub fn open() -> io::Result<Terminal> {
        // Where the library reads keys.
        let keys = match stdin().is_terminal() {
            true => stdin().as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        Ok(Terminal { screen: ratatui::try_init()?, keys })
    }

    /// Draws one picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.screen.draw(picture).map(drop)
    }

    /// Waits at most so long for a key.
    pub fn key(&mut self, timeout: Duration) -> io::Result<Option<Key>> {
        let mut fds = [PollFd::new(self.keys.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
            // A signal: it may be that of a new size.
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if fds[0].revents().is_some_and(|events| events.intersects(gone)) {
            return Ok(Some(Key::Quit));
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Resize(..) => Some(Key::Resized),
            Event::Key(key) if key.kind == KeyEventKind::Release => None,
            Event::Key(key) => match key.code {
                KeyCode::Esc => Some(Key::Quit),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
                KeyCode::Char('q') => Some(Key::Quit),
                KeyCode::Char(c) => Some(Key::Char(c)),
                _ => None,
            },
            _ => None,
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing can be told of it if the terminal is gone.
        let _ = ratatui::try_restore();
    }
}
