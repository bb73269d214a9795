//! How far a long read is: one line on standard error, only where that is a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use super::read::State;

/// Nothing is shown of what is done by then.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often the line changes.
const EVERY: Duration = Duration::from_millis(100);
/// Cells of the bar.
const WIDTH: usize = 24;

/// The line.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    next: Instant,
    shown: bool,
}

impl Progress {
    /// Shown if standard error is a terminal.
    pub fn on_terminal() -> Progress {
        Progress { terminal: stderr().is_terminal(), next: Instant::now() + PATIENCE, shown: false }
    }

    /// Never shown.
    pub fn silent() -> Progress {
        Progress { terminal: false, next: Instant::now(), shown: false }
    }

    pub(super) fn show(&mut self, state: State) {
        if !self.terminal || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        self.shown = true;
        // What cannot be shown is not missed.
        let _ = write!(stderr(), "\r\x1b[K{}", line(state));
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(state: State) -> String {
    let share = state.bytes as f64 / state.bytes_in_all.max(1) as f64;
    let share = share.clamp(0.0, 1.0);
    let full = (share * WIDTH as f64) as usize;
    format!(
        "{}{} {:3.0} %  file {} of {}",
        "#".repeat(full),
        ".".repeat(WIDTH - full),
        share * 100.0,
        state.files_read + state.files_skipped,
        state.files
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_progress() {
        let state = State { files: 8, files_read: 3, files_skipped: 1, bytes: 50, bytes_in_all: 100 };
        assert_eq!(line(state), "############............  50 %  file 4 of 8");
        assert!(line(State::default()).contains("  0 %"));
    }
}
