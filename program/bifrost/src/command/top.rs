//! `bifrost top`.

use std::io::{IsTerminal, Write, stdout};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::control::status::Snapshot;
use crate::control::{Client, ClientError, Request};
use crate::screen::{Key, Terminal, View, draw, line};
use crate::service::Signals;
use serde_json::value::RawValue;

use super::args::Top;
use super::table::print;
use super::{Failure, PATIENCE};

pub fn top(args: &Top, mut client: Client) -> Result<(), Failure> {
    let request = Request::Watch { interval_ms: (args.interval * 1000.0) as u64 };
    let quiet = Some(PATIENCE + Duration::from_secs_f64(args.interval));
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    if args.json {
        return objects(client, &request, quiet, end);
    }
    if !stdout().is_terminal() {
        return lines(client, &request, quiet, end);
    }
    let (sender, samples) = channel();
    // Its own thread, so that keys are answered at once however slow the daemon is. It ends with
    // the program.
    thread::spawn(move || {
        let stream = match client.stream::<Snapshot>(&request, quiet) {
            Ok(stream) => stream,
            Err(error) => return drop(sender.send(Err(error))),
        };
        for sample in stream {
            if sender.send(sample).is_err() {
                return;
            }
        }
    });
    live(samples, end)
}

fn lines(
    mut client: Client,
    request: &Request,
    quiet: Option<Duration>,
    end: Option<Instant>,
) -> Result<(), Failure> {
    let mut out = stdout().lock();
    for sample in client.stream::<Snapshot>(request, quiet)? {
        let view = View { title: "Bifrost", snapshot: &sample?, notes: &[], held: false, help: false };
        writeln!(out, "{}", line(&view)).and_then(|()| out.flush()).map_err(Failure::output)?;
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    Ok(())
}

/// What came over the socket, a line each.
fn objects(
    mut client: Client,
    request: &Request,
    quiet: Option<Duration>,
    end: Option<Instant>,
) -> Result<(), Failure> {
    for sample in client.stream::<Box<RawValue>>(request, quiet)? {
        print(&format!("{}\n", sample?))?;
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    Ok(())
}

fn live(samples: Receiver<Result<Snapshot, ClientError>>, end: Option<Instant>) -> Result<(), Failure> {
    let fail = |error| Failure::Io { what: "the terminal".to_owned(), error };
    // Told to end, it gives the terminal back first.
    let mut signals = Signals::install().map_err(fail)?;
    let mut terminal = Terminal::open().map_err(fail)?;
    let mut latest: Option<Snapshot> = None;
    let (mut held, mut help) = (false, false);
    loop {
        match samples.try_recv() {
            Ok(sample) => {
                let sample = sample?;
                if !held {
                    latest = Some(sample);
                }
            }
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::Said("Bifrost has stopped".to_owned()));
            }
            Err(TryRecvError::Empty) => {}
        }
        if let Some(snapshot) = &latest {
            let view = View { title: "Bifrost", snapshot, notes: &[], held, help };
            terminal.draw(|frame| draw(frame, &view)).map_err(fail)?;
        }
        match terminal.key(Duration::from_millis(200)).map_err(fail)? {
            Some(Key::Quit) => return Ok(()),
            Some(Key::Char(' ')) => held = !held,
            Some(Key::Char('?' | 'h')) => help = !help,
            Some(Key::Char(_) | Key::Resized) | None => {}
        }
        if signals.take().is_some() || end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
    }
}
