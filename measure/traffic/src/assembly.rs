//! A report put together from what was sent and what arrived.

use crate::lane::Sent;
use crate::report::{Count, Report, StreamReport};
use crate::sink::{Arrived, by_stream};
use crate::stream::Stream;
use crate::tally::Tally;

/// What is known of a trial before it runs.
pub(crate) struct Facts {
    /// With names.
    pub(crate) streams: Vec<Stream>,
    /// The stream of each lane.
    pub(crate) owners: Vec<usize>,
    pub(crate) sender: String,
    pub(crate) receiver: Option<String>,
}

/// From lateness like this on (the 99th percentile, nanoseconds) it is worth a note.
const LATE: u64 = 1_000_000;

/// The report; `time` is when sending began and ended, in nanoseconds, `outage` what broke
/// meanwhile.
pub(crate) fn report(
    facts: &Facts,
    time: (u64, u64),
    sent: &[Sent],
    arrived: Option<&Arrived>,
    outage: Option<String>,
) -> Report {
    let seconds = time.1.saturating_sub(time.0) as f64 / 1e9;
    let tallies = arrived.map(|arrived| by_stream(arrived, &facts.owners, facts.streams.len()));
    let mut notes = Vec::new();
    let blameless = "what was lost with that is neither the rate's fault nor the device's";
    notes.extend(outage.as_ref().map(|why| format!("{why}; {blameless}")));
    let streams: Vec<StreamReport> = facts
        .streams
        .iter()
        .enumerate()
        .map(|(number, stream)| {
            let lanes = || sent.iter().enumerate().filter(|(lane, _)| facts.owners.get(*lane) == Some(&number));
            let stamped = stream.stamp && stream.replay.is_none();
            let both: Option<Vec<_>> = arrived.filter(|_| stamped).map(|arrived| {
                lanes().filter_map(|(lane, sent)| Some((sent, arrived.lanes.get(lane)?))).collect()
            });
            let lost_until = both.as_deref().and_then(lost_until);
            let arrived_until = both.as_deref().and_then(arrived_until);
            let sent = lanes().fold(Sent::default(), |sum, (_, lane)| merged(sum, lane));
            let tally = tallies.as_ref().and_then(|tallies| tallies.get(number)).filter(|_| stamped);
            // A sender that was behind at the end may have caught up after it.
            let seconds = seconds.max(sent.last.saturating_sub(time.0) as f64 / 1e9);
            let ended = time.1 <= sent.last;
            let report = StreamReport { lost_until, arrived_until, ..of_stream(&stream.name, seconds, ended, &sent, tally) };
            // What a port that broke did to the rest is none of the rate's doing.
            if outage.is_some() {
                return report;
            }
            if report.lateness.as_ref().is_some_and(|lateness| lateness.p99 > LATE) {
                let late = report.lateness.as_ref().map_or(0, |lateness| lateness.p99) / 1_000_000;
                notes.push(format!(
                    "{}: 1 % of its packets left more than {late} ms after they were due: the sender or its port could not keep up, \
                     and the latencies contain that",
                    stream.name
                ));
            }
            if report.offered > report.sent.packets + report.offered / 1000 {
                notes.push(format!(
                    "{}: {} of {} packets that were due could not be sent: the rate is beyond what this sender and port carry",
                    stream.name,
                    report.offered - report.sent.packets,
                    report.offered
                ));
            }
            if report.sent.packets != 0 && report.received.is_some_and(|received| received.packets == 0) {
                let to = match stream.destination_mac {
                    Some(mac) => format!("to {mac}"),
                    None => "to the sink's own MAC address: where a router is between, say the router's (--destination-mac)".to_owned(),
                };
                notes.push(format!("{}: nothing of it arrived; its frames went {to}", stream.name));
            }
            if !stamped && tallies.is_some() {
                notes.push(format!("{}: carries no stamps, so the sink counts its packets as foreign", stream.name));
            }
            report
        })
        .collect();
    let missed = arrived.map_or(0, |arrived| arrived.missed);
    if missed != 0 {
        notes.push(format!(
            "{missed} frames were lost at the sink's own port, which had no room for them or could make no sense of them: those of these \
             streams count as lost, though the device carried them"
        ));
    }
    Report {
        seconds,
        streams,
        missed,
        foreign: arrived.map_or(Count::default(), |arrived| arrived.foreign),
        sender: facts.sender.clone(),
        receiver: facts.receiver.clone(),
        interrupted: outage,
        clock_uncertainty: 0,
        notes,
    }
}

/// Lanes of one stream together.
fn merged(mut sum: Sent, lane: &Sent) -> Sent {
    if lane.sent.packets != 0 {
        sum.first = if sum.sent.packets == 0 { lane.first } else { sum.first.min(lane.first) };
        sum.last = sum.last.max(lane.last);
    }
    sum.offered += lane.offered;
    sum.sent = sum.sent.plus(lane.sent);
    sum.departures.spacing.add(&lane.departures.spacing);
    sum.departures.lateness.add(&lane.departures.lateness);
    sum
}

/// Until when packets of a stream were lost, by its lanes, as a part of what was sent.
fn lost_until(lanes: &[(&Sent, &Tally)]) -> Option<f64> {
    let until = |(sent, tally): &(&Sent, &Tally)| match (sent.sent.packets, tally.received.packets) {
        (0, _) => Some(0.0),
        (_, 0) => Some(1.0),
        (packets, _) => {
            let known = tally.order.lost_until?;
            let until = if tally.order.next < packets { packets } else { known };
            Some((until as f64 / packets as f64).min(1.0))
        }
    };
    lanes.iter().map(until).try_fold(0.0, |latest: f64, until| Some(latest.max(until?)))
}

/// Until when packets of a stream arrived, by its lanes, as a part of what was sent; nothing where
/// nothing was.
fn arrived_until(lanes: &[(&Sent, &Tally)]) -> Option<f64> {
    let sent = lanes.iter().filter(|(sent, _)| sent.sent.packets != 0);
    let until = |(sent, tally): &(&Sent, &Tally)| tally.order.next as f64 / sent.sent.packets as f64;
    sent.map(until).reduce(f64::max).map(|until| until.min(1.0))
}

/// What became of a stream that was sent for so many seconds; `ended` if that ended with its last
/// packet.
fn of_stream(name: &str, seconds: f64, ended: bool, sent: &Sent, tally: Option<&Tally>) -> StreamReport {
    let rate = |packets: u64, seconds: f64| if seconds > 0.0 { packets as f64 / seconds } else { 0.0 };
    let lateness = sent.departures.lateness.distribution();
    // From the first to the last of several there is a gap less; none where all came in the same
    // instant.
    let between = |packets: u64, (first, last): (u64, u64)| match last.saturating_sub(first) {
        0 if packets > 1 => rate(packets, seconds),
        gaps => rate(packets.saturating_sub(1), gaps as f64 / 1e9),
    };
    let sent_rate = match ended && lateness.is_some() {
        true => between(sent.sent.packets, (sent.first, sent.last)),
        false => rate(sent.sent.packets, seconds),
    };
    let mut report = StreamReport {
        name: name.to_owned(),
        offered: sent.offered,
        sent: sent.sent,
        sent_rate,
        spacing: sent.departures.spacing.distribution(),
        lateness,
        ..StreamReport::default()
    };
    let Some(tally) = tally else { return report };
    let order = &tally.order;
    // One corrupt on the way arrived, if not whole: it is not lost.
    let lost = sent.sent.packets.saturating_sub(order.unique + tally.corrupt);
    report.received = Some(tally.received);
    report.received_rate = Some(between(tally.received.packets, (tally.first, tally.last)));
    report.lost = Some(lost);
    report.loss_ratio =
        Some(if sent.sent.packets == 0 { 0.0 } else { lost as f64 / sent.sent.packets as f64 });
    report.duplicates = Some(order.duplicates);
    report.corrupt = Some(tally.corrupt);
    report.reordering = Some(tally.reordering());
    report.latency = tally.latency.distribution();
    report.delay_variation = tally.variation.distribution();
    report.jitter = report.latency.as_ref().map(|_| tally.jitter);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_instant_have_a_rate_as_well() {
        let rate = |packets: u64, last: u64| {
            let mut sent =
                Sent { sent: Count { packets, bytes: 64 * packets }, first: 100, last, ..Sent::default() };
            sent.departures.left(0, last);
            let received = Count { packets, bytes: 64 * packets };
            let tally = Tally { received, first: 100, last, ..Tally::default() };
            let report = of_stream("it", 0.5, true, &sent, Some(&tally));
            assert_eq!(Some(report.sent_rate), report.received_rate);
            report.sent_rate
        };
        assert_eq!(rate(5, 1_000_000_100), 4.0, "four gaps in a second");
        assert_eq!(rate(5, 100), 10.0, "late, and all together");
        assert_eq!(rate(1, 100), 0.0, "one packet has no rate");
    }
}
