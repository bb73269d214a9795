//! What is shown while the traffic runs: Bifrost's own live screen (or line), with what the demo
//! knows beside it.

use std::time::Duration;

use bifrost::{
    control::status::Snapshot,
    screen::{self, Key, Note, Terminal, View, units},
};
use lab::{LabError, PingStatistics, Result};

use crate::{comparison::Comparison, sample::Sample};

const TITLE: &str = "Bifrost";

/// The terminal while the demo has it.
pub struct Screen {
    terminal: Terminal,
    comparison: Comparison,
    newest: Option<Snapshot>,
    held: bool,
    help: bool,
}

impl Screen {
    /// Takes the terminal; it is given back when this is dropped, and when a signal ends the demo.
    pub fn open(comparison: Comparison) -> Result<Screen> {
        lab::on_interrupt(ratatui::restore);
        let terminal = Terminal::open().map_err(refused)?;
        Ok(Screen { terminal, comparison, newest: None, held: false, help: false })
    }

    /// Shows a sample. Without an answer from Bifrost, the last one stays and is marked as held.
    pub fn show(&mut self, sample: &Sample) -> Result<()> {
        let mut notes = vec![Note {
            label: "measured".to_owned(),
            text: format!(
                "Linux alone {} packets/s, Bifrost {}: {:.1} times as much on the same network",
                units::packets(self.comparison.linux),
                units::packets(self.comparison.bifrost),
                self.comparison.multiple()
            ),
        }];
        notes.extend(told(sample));
        let held = self.held || sample.snapshot.is_err();
        if let (Ok(snapshot), false) = (&sample.snapshot, self.held) {
            self.newest = Some(snapshot.clone());
        }
        let nothing = Snapshot::default();
        let snapshot = self.newest.as_ref().unwrap_or(&nothing);
        let view = View { title: TITLE, snapshot, notes: &notes, held, help: self.help };
        self.terminal.draw(|frame| screen::draw(frame, &view)).map_err(refused)
    }

    /// Waits for a second; whether the operator has had enough.
    pub fn quit(&mut self) -> Result<bool> {
        match self.terminal.key(Duration::from_secs(1)).map_err(refused)? {
            Some(Key::Quit) => return Ok(true),
            Some(Key::Char(' ')) => self.held = !self.held,
            Some(Key::Char('?' | 'h')) => self.help = !self.help,
            Some(Key::Char(_) | Key::Resized) | None => {}
        }
        Ok(false)
    }
}

/// A sample in one line, for output that is no terminal.
pub fn line(sample: &Sample) -> String {
    match &sample.snapshot {
        Ok(snapshot) => {
            screen::line(&View { title: TITLE, snapshot, notes: &told(sample), held: false, help: false })
        }
        Err(why) => format!("Bifrost does not answer: {why}"),
    }
}

/// What the routing daemon and the hosts say.
fn told(sample: &Sample) -> Vec<Note> {
    let note = |label: &str, text| Note { label: label.to_owned(), text };
    let outcome = &sample.outcome;
    let sessions: Vec<String> = (sample.sessions.iter())
        .map(|(neighbour, state, prefixes)| format!("{neighbour} {state} ({})", units::count(*prefixes)))
        .collect();
    let sent: usize = outcome.pings.iter().map(|ping| ping.sent).sum();
    let lost: usize = outcome.pings.iter().map(PingStatistics::lost).sum();
    let median = outcome.pings.iter().map(|ping| ping.median).max().unwrap_or_default();
    vec![
        note("BGP", sessions.join(", ")),
        note(
            "ping",
            format!("{lost} of {} lost, {:.2} ms", units::count(sent as u64), median.as_secs_f64() * 1e3),
        ),
        note("TCP", format!("{:.0} Mb/s", outcome.megabits)),
        note("UDP", format!("{} flows, {} datagrams arrived", outcome.flows, units::count(outcome.udp.1))),
    ]
}

fn refused(source: std::io::Error) -> LabError {
    LabError::Io { what: "the terminal".to_owned(), source }
}
