//! `bifrost trace`.

use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

use crate::control::status::TraceStep;
use crate::control::{Request, TraceRequest};
use serde_json::value::RawValue;

use super::args::{Trace, filter};
use super::{Failure, connect};

pub fn trace(args: &Trace, socket: &Path) -> Result<(), Failure> {
    let filter = filter(&args.filter)?;
    let mut client = connect(socket)?;
    let request = Request::Trace(TraceRequest { filter, count: args.count, seconds: args.seconds });
    // The server ends it in time; if even that does not come, the daemon is stuck.
    let patience = Some(Duration::from_secs(args.seconds + 10));
    let mut out = stdout().lock();
    if args.output.json {
        for step in client.live::<Box<RawValue>>(&request, patience)? {
            writeln!(out, "{}", step?).map_err(Failure::output)?;
        }
        return Ok(());
    }
    let mut steps = client.live::<TraceStep>(&request, patience)?;
    let mut packets = 0;
    for step in steps.by_ref() {
        let step = step?;
        packets = packets.max(step.packet);
        write!(out, "{}", line(&step)).map_err(Failure::output)?;
    }
    let missed = steps.end().unwrap_or_default().missed;
    if packets == 0 {
        eprintln!("no such packet came by in {} s", args.seconds);
    }
    if missed > 0 {
        eprintln!("{missed} steps were lost: packets came faster than they could be shown");
    }
    Ok(())
}

/// `#1 12:00:00.000001 eth0 worker 0  Lookup4  10.0.0.1 > ...`; the last step of a packet ends with
/// its fate.
fn line(step: &TraceStep) -> String {
    let at = clock(step.time_ns);
    let place = format!("#{} {at} {} worker {}", step.packet, step.input, step.worker);
    match &step.fate {
        Some(fate) => format!("{place}  {:<18} {}  => {fate}\n", step.element, step.packet_summary),
        None => format!("{place}  {:<18} {}\n", step.element, step.packet_summary),
    }
}

/// Time of day (UTC) to the microsecond.
fn clock(time_ns: u64) -> String {
    let seconds = time_ns / 1_000_000_000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:06}", time_ns / 1_000 % 1_000_000)
}
