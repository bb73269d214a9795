//! `bifrost sink`.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args as Arguments;
use serde_json::{Value, json};
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
    #[arg(value_name = "PORT", add = clap_complete::ArgValueCandidates::new(super::interfaces::candidates))]
    pub port: String,
    /// Where to listen for a `bifrost gen --control`
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5790")]
    pub listen: String,
    /// A file whose first line is the token that the generator must show
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// One JSON object a line, for what happens
    #[arg(long)]
    pub json: bool,
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
    say(&match args.json {
        true => json!({ "event": "ready", "port": args.port, "listen": args.listen }).to_string(),
        false => format!("{} is listened on; generators come to {}", args.port, args.listen),
    });
    let tell = |event: Event| say(&if args.json { object(&event).to_string() } else { words(&event) });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, &token, &port, &stop, tell));
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
        Event::Ended { tally, foreign, missed, interrupted } => {
            let order = &tally.order;
            let latency = tally.latency.distribution().map_or(String::new(), |latency| {
                format!(", latency {} (half), {} (99 %)", nanoseconds(latency.p50), nanoseconds(latency.p99))
            });
            let missed = match missed {
                0 => String::new(),
                missed => format!(", {} lost at the port", count(*missed)),
            };
            let interrupted = interrupted.as_ref().map_or(String::new(), |why| format!("; {why}"));
            format!(
                "received {} packets, {} duplicates, {} reordered, {} corrupt, {} foreign{missed}{latency}{interrupted}",
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

/// The same for programs; what is measured has the names of `gen --json`.
fn object(event: &Event) -> Value {
    match event {
        Event::Refused(peer, why) => json!({ "event": "refused", "peer": peer, "why": why }),
        Event::Begins(peer, streams) => json!({ "event": "begun", "peer": peer, "streams": streams }),
        Event::Ended { tally, foreign, missed, interrupted } => {
            let latency = tally.latency.distribution();
            json!({
                "event": "ended",
                "received": tally.received,
                "seconds": tally.last.saturating_sub(tally.first) as f64 / 1e9,
                "duplicates": tally.order.duplicates,
                "corrupt": tally.corrupt,
                "reordering": tally.reordering(),
                "jitter": latency.as_ref().map(|_| tally.jitter),
                "latency": latency,
                "delay_variation": tally.variation.distribution(),
                "foreign": foreign,
                "missed": missed,
                "interrupted": interrupted,
            })
        }
        Event::Lost(why) => json!({ "event": "lost", "why": why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use traffic::{Count, Tally};

    #[test]
    fn programs_are_told_what_people_are() {
        let mut tally = Tally {
            received: Count { packets: 3, bytes: 192 },
            first: 1_000,
            last: 2_001_000,
            ..Tally::default()
        };
        tally.order.duplicates = 1;
        [5_000, 7_000].into_iter().for_each(|nanoseconds| tally.latency.record(nanoseconds));
        let why = "the port eth2 broke meanwhile: its link is down";
        let foreign = Count { packets: 9, bytes: 900 };
        let interrupted = Some(why.to_owned());
        let ended = Event::Ended { tally: Box::new(tally), foreign, missed: 2, interrupted };
        let told = words(&ended);
        assert!(told.contains(", 9 foreign, 2 lost at the port, latency "), "{told}");
        assert!(told.starts_with("received 3 packets, 1 duplicates, ") && told.ends_with(why), "{told}");
        let ended = object(&ended);
        assert_eq!(ended["event"], "ended");
        assert_eq!(ended["received"], json!({ "packets": 3, "bytes": 192 }));
        assert_eq!((&ended["seconds"], &ended["duplicates"]), (&json!(0.002), &json!(1)));
        assert_eq!((&ended["latency"]["count"], &ended["latency"]["min"]), (&json!(2), &json!(5_000)));
        assert_eq!((&ended["foreign"]["packets"], &ended["missed"]), (&json!(9), &json!(2)));
        assert_eq!(ended["interrupted"], why);
        let nothing =
            Event::Ended { tally: Box::default(), foreign: Count::default(), missed: 0, interrupted: None };
        assert!(!words(&nothing).contains("lost"), "{}", words(&nothing));
        let nothing = object(&nothing);
        assert_eq!((&nothing["latency"], &nothing["jitter"]), (&Value::Null, &Value::Null));
        assert_eq!(nothing["interrupted"], Value::Null);
        let refused = object(&Event::Refused("10.0.0.1:5".to_owned(), "a wrong token".to_owned()));
        assert_eq!(refused, json!({ "event": "refused", "peer": "10.0.0.1:5", "why": "a wrong token" }));
        let begun = object(&Event::Begins("10.0.0.1:5".to_owned(), vec!["one".to_owned()]));
        assert_eq!(begun, json!({ "event": "begun", "peer": "10.0.0.1:5", "streams": ["one"] }));
        let lost = object(&Event::Lost("no word for too long".to_owned()));
        assert_eq!(lost, json!({ "event": "lost", "why": "no word for too long" }));
    }

    #[test]
    fn names_of_a_generator_do_not_act_on_the_terminal() {
        let names = vec!["\u{1b}[2Jgone\n".to_owned(), "Größe 64".to_owned()];
        let line = words(&Event::Begins("10.0.0.1:5".to_owned(), names));
        assert_eq!(line, "10.0.0.1:5 sends \\u{1b}[2Jgone\\n, Größe 64");
    }
}
