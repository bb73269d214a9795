//! TimeFilter: lets packets of a stretch of time pass, by their timestamps.
//!
//! Group: basic
//! Usage: `TimeFilter([START, END, START_AFTER, END_AFTER, START_DELAY, END_DELAY, INTERVAL, STOP, END_CALL])`
//! Ports: 1 input, 1 or 2 outputs; first output agnostic, second push
//!
//! A packet passes whose timestamp is START or later, and earlier than END. Others leave by output
//! 1 if that is connected. The stretch is said absolutely, from the first packet on, or from the
//! start of the program on. Without a start it begins with the first packet; without an end it does
//! not end.
//!
//! - `START`, `END` (time): since 1970
//! - `START_AFTER`, `END_AFTER` (time): after the timestamp of the first packet
//! - `START_DELAY`, `END_DELAY` (time): after the program has begun
//! - `INTERVAL` (time): how long after the start it ends
//! - `STOP` (boolean): whether to stop the program when a packet shows that the end is over; false
//!   if not given
//! - `END_CALL` (handler [value]): a handler to write then, once for each end. It may move the end:
//!   the packet is then looked at once more
//!
//! Handlers:
//! - `start`, `end` (read, write): when it begins, and when it ends
//! - `interval` (read, write): how long it is; writing moves the end
//! - `extend_interval` (write): adds to its end
//!
//! See also: [FromDump], [SetTimestamp], [AdjustTimestamp]

use graph::arguments::{Arguments, Blame, Refused, Timestamp, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use wire::Reason;

use super::call::Call;
use super::written;

pub const CLASS: Class = Class {
    name: "TimeFilter",
    ports: "1/1-2",
    processing: "a/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("time_filter.rs"),
    make,
};

/// A moment, in nanoseconds since 1970 or after what it is told by.
#[derive(Clone, Copy)]
enum Moment {
    At(i64),
    AfterFirst(i64),
    AfterBegin(i64),
    AfterStart(i64),
}

struct TimeFilter {
    start: Moment,
    end: Moment,
    call: Option<Call>,
    /// The end has not been told yet.
    due: bool,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    // Where several are told, none counts.
    let mut several = [false; 2];
    let mut of = |which: usize, all: &[Option<Moment>]| {
        let told: Vec<Moment> = all.iter().copied().flatten().collect();
        several[which] = told.len() > 1;
        told.first().copied()
    };
    let mut time = |name: &str, moment: fn(i64) -> Moment, first: bool| {
        let time = if first { args.optional::<Timestamp>(name) } else { args.keyword::<Timestamp>(name) };
        time.map(|time| moment(time.0))
    };
    let (start, end) = (time("START", Moment::At, true), time("END", Moment::At, true));
    let starts = [
        start,
        time("START_AFTER", Moment::AfterFirst, false),
        time("START_DELAY", Moment::AfterBegin, false),
    ];
    let ends = [
        end,
        time("END_AFTER", Moment::AfterFirst, false),
        time("END_DELAY", Moment::AfterBegin, false),
        time("INTERVAL", Moment::AfterStart, false),
    ];
    let start = of(0, &starts).unwrap_or(Moment::AfterFirst(0));
    let end = of(1, &ends).unwrap_or(Moment::At(i64::MAX));
    let (stop, call) = (args.keyword("STOP").unwrap_or(false), args.keyword::<Call>("END_CALL"));
    if several[0] {
        args.wrong(Blame::Element, "START, START_AFTER, and START_DELAY are mutually exclusive");
    }
    if several[1] {
        args.wrong(Blame::Element, "END, END_AFTER, END_DELAY, and INTERVAL are mutually exclusive");
    }
    if stop && call.is_some() {
        args.wrong(Blame::Element, "END_CALL and STOP are mutually exclusive");
    }
    args.finish()?;
    let call = call.or_else(|| stop.then(Call::stop));
    Ok(Box::new(TimeFilter { start, end, call, due: true }))
}

impl TimeFilter {
    /// When it begins and ends; 0 before the first packet for what depends on that.
    fn stretch(&self) -> (i64, i64) {
        let start = match self.start {
            Moment::At(at) => at,
            Moment::AfterFirst(_) | Moment::AfterBegin(_) | Moment::AfterStart(_) => 0,
        };
        match self.end {
            Moment::At(at) => (start, at),
            Moment::AfterStart(after) => (start, start.saturating_add(after)),
            Moment::AfterFirst(_) | Moment::AfterBegin(_) => (start, 0),
        }
    }

    /// The first packet tells what depends on it.
    fn begin(&mut self, first: i64) {
        if let Moment::AfterFirst(after) = self.start {
            self.start = Moment::At(first.saturating_add(after));
        }
        if let Moment::AfterFirst(after) = self.end {
            self.end = Moment::At(first.saturating_add(after));
        }
        self.end = Moment::At(self.stretch().1);
    }

    fn end_at(&mut self, end: i64) {
        (self.end, self.due) = (Moment::At(end), true);
    }

    /// Whether a packet of this time passes; tells that the end is over.
    fn passes(&mut self, time: i64, cx: &mut Context<'_>) -> bool {
        let (start, mut end) = self.stretch();
        if time < start {
            return false;
        }
        while time >= end && self.due {
            let Some(call) = self.call.clone() else { break };
            self.due = false;
            call.write(self, cx);
            let before = std::mem::replace(&mut end, self.stretch().1);
            if end <= before {
                break;
            }
        }
        time < end
    }
}

impl Element for TimeFilter {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(call) = &self.call {
            call.check(self, cx).map_err(|error| format!("END_CALL: {error}"))?;
        }
        let now = cx.wall();
        for moment in [&mut self.start, &mut self.end] {
            if let Moment::AfterBegin(after) = *moment {
                *moment = Moment::At(now.saturating_add(after));
            }
        }
        Ok(())
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut outside = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            let time = packet.annotations().timestamp;
            self.begin(time);
            outside |= u64::from(!self.passes(time, cx)) << index;
        }
        if outside == 0 {
            return;
        }
        if cx.has_output(1) {
            cx.emit_some(1, batch, outside);
        } else {
            batch.take(outside, |_, packet| cx.drop(packet, Reason::Filtered));
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let both = ["start", "end", "interval"].into_iter().map(Handler::read_write);
        both.chain([Handler::write("extend_interval")]).collect()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        let (start, end) = self.stretch();
        match handler {
            "start" => Ok(unparse::timestamp(start)),
            "end" => Ok(unparse::timestamp(end)),
            "interval" => Ok(unparse::timestamp(end.saturating_sub(start))),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let time = || written::<Timestamp>(value, "expected time", cx).map(|time| time.0);
        let (start, end) = self.stretch();
        match handler {
            "start" => {
                let time = time()?;
                self.begin(time);
                self.start = Moment::At(time);
            }
            "end" => self.end_at(time()?),
            "interval" => self.end_at(start.saturating_add(time()?)),
            "extend_interval" => self.end_at(end.saturating_add(time()?)),
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
