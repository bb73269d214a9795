//! Taking the terminal, and giving it back.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

/// The terminal, taken over: raw, on the alternate screen. Given back when dropped, and before the message
/// of a panic.
pub struct Terminal(DefaultTerminal);

/// What the operator pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `q`, Escape or Ctrl-C.
    Quit,
    /// Any other character.
    Char(char),
    /// Nothing pressed, but the terminal has a new size: draw again.
    Resized,
}

impl Terminal {
    /// Takes the terminal over.
    pub fn open() -> io::Result<Terminal> {
        Ok(Terminal(ratatui::try_init()?))
    }

    /// Draws one picture.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.0.draw(picture).map(drop)
    }

    /// Waits at most so long for a key.
    pub fn key(&mut self, timeout: Duration) -> io::Result<Option<Key>> {
        if !event::poll(timeout)? {
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
        ratatui::restore();
    }
}
