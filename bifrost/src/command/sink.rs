//! `bifrost sink`.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args as Arguments;
use traffic::Port;
use traffic::control::{Event, listen, serve, token};

use super::Failure;
use super::r#gen::{read, said};
use super::trial_view::nanoseconds;
use crate::screen::units::count;
use crate::service::Signals;

/// `sink`.
#[derive(Debug, Arguments)]
pub struct Sink {
    /// Where packets arrive: as `bifrost gen` takes it
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Where to listen for a `bifrost gen --control`
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5790")]
    pub listen: String,
    /// A file whose first line is the token that the generator must show
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Receive even by an interface that this machine is reached by
    #[arg(long)]
    pub force: bool,
}

/// Serves generators until it is told to end.
pub fn run(args: &Sink) -> Result<(), Failure> {
    let token = token(&read(&args.token_file)?).map_err(said)?;
    let port = Port::open_to_receive(&args.port, args.force).map_err(said)?;
    let listener = listen(&args.listen).map_err(said)?;
    let mut signals =
        Signals::install().map_err(|error| Failure::Io { what: "signals".to_owned(), error })?;
    say(&format!("{} is listened on; generators come to {}", args.port, args.listen));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, &token, &port, &stop, |event| say(&words(&event))));
        while signals.take().is_none() && !serving.is_finished() {
            thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap_or(Ok(())).map_err(said)
    })
}

/// A line; nobody may be reading, which does not end the sink.
fn say(line: &str) {
    let _ = writeln!(stdout().lock(), "{line}");
}

fn words(event: &Event) -> String {
    match event {
        Event::Refused(peer, why) => format!("{peer} refused: {why}"),
        // Names are the generator's: they are not to move this terminal's cursor.
        Event::Begins(peer, streams) => format!("{peer} sends {}", streams.join(", ").escape_debug()),
        Event::Ended(tally, foreign, broken) => {
            let order = &tally.order;
            let latency = tally.latency.distribution().map_or(String::new(), |latency| {
                format!(", latency {} (half), {} (99 %)", nanoseconds(latency.p50), nanoseconds(latency.p99))
            });
            let broken = broken.as_ref().map_or(String::new(), |broken| {
                format!("; the port {} broke meanwhile: {}", broken.port, broken.why)
            });
            format!(
                "received {} packets, {} duplicates, {} reordered, {} corrupt, {} foreign{latency}{broken}",
                count(tally.received.packets),
                count(order.duplicates),
                count(order.reordered),
                count(tally.corrupt),
                count(foreign.packets),
            )
        }
        Event::Lost(why) => format!("the generator is lost: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_generator_do_not_act_on_the_terminal() {
        let names = vec!["\u{1b}[2Jgone\n".to_owned(), "Größe 64".to_owned()];
        let line = words(&Event::Begins("10.0.0.1:5".to_owned(), names));
        assert_eq!(line, "10.0.0.1:5 sends \\u{1b}[2Jgone\\n, Größe 64");
    }
}
