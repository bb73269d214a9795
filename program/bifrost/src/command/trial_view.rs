//! How a trial is shown: a live screen with a plot, lines where there is no terminal, and the
//! result.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table as Rows};
use traffic::{Distribution, Report, Running, StreamReport};

use super::Failure;
use super::table::Table;
use crate::screen::units::{bits, count, packets, share};
use crate::screen::{Key, Terminal};
use crate::service::Signals;

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(250);
/// From one line to the next.
const LINE: Duration = Duration::from_secs(1);
/// Looks that the plot goes back.
const PAST: usize = 480;

/// What is shown meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Only the result.
    Nothing,
    /// A screen, or lines where there is no terminal.
    Progress,
}

/// Totals of one look, and rates since the one before.
#[derive(Clone, Copy, Default)]
struct Look {
    seconds: f64,
    sent: u64,
    received: u64,
    sent_rate: f64,
    sent_bits: f64,
    received_rate: f64,
    bits: u64,
}

impl Look {
    fn of(report: &Report, before: &Look) -> Look {
        let (sent, received) = (report.sent(), report.received().unwrap_or_default());
        let received = received.plus(report.foreign);
        let passed = (report.seconds - before.seconds).max(1e-3);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / passed;
        Look {
            seconds: report.seconds,
            sent: sent.packets,
            received: received.packets,
            bits: sent.layer1_bits(),
            sent_rate: rate(sent.packets, before.sent),
            sent_bits: rate(sent.layer1_bits(), before.bits),
            received_rate: rate(received.packets, before.received),
        }
    }
}

/// Shows a trial until it is over. Ctrl-C, `q` or a signal ends it early.
pub fn watch(running: &Running, title: &str, show: Show) -> Result<(), Failure> {
    let fail = |error| Failure::Io { what: "the terminal".to_owned(), error };
    let mut signals = Signals::install().map_err(fail)?;
    let screen = show == Show::Progress && stdout().is_terminal();
    let mut terminal = if screen { Some(Terminal::open().map_err(fail)?) } else { None };
    let mut looks: VecDeque<Look> = VecDeque::from([Look::default()]);
    let mut line_at = Instant::now() + LINE;
    while !running.is_over() {
        if signals.take().is_some() {
            running.stop();
        }
        if let Some(terminal) = &mut terminal {
            let report = running.report();
            looks.push_back(Look::of(&report, looks.back().unwrap_or(&Look::default())));
            if looks.len() > PAST {
                looks.pop_front();
            }
            terminal.draw(|frame| draw(frame, title, &report, &looks)).map_err(fail)?;
            if terminal.key(LOOK).map_err(fail)? == Some(Key::Quit) {
                running.stop();
            }
            continue;
        }
        std::thread::sleep(LOOK / 10);
        if show == Show::Progress && Instant::now() >= line_at {
            line_at += LINE;
            let report = running.report();
            let look = Look::of(&report, looks.back().unwrap_or(&Look::default()));
            // Progress is no result: it goes where it does not mix with that. Nobody need read it.
            let _ = writeln!(stderr(), "{}", line(&report, &look));
            looks = VecDeque::from([look]);
        }
    }
    Ok(())
}

/// A look in one line.
fn line(report: &Report, look: &Look) -> String {
    let mut text =
        format!("{:>6.1}s  sent {} pps {}", look.seconds, packets(look.sent_rate), bits(look.sent_bits));
    if report.receiver.is_some() {
        text += &format!("  received {} pps", packets(look.received_rate));
        let sum = |field: fn(&StreamReport) -> Option<u64>| -> u64 {
            report.streams.iter().filter_map(field).sum()
        };
        text += &format!("  duplicates {}  corrupt {}", sum(|s| s.duplicates), sum(|s| s.corrupt));
        if let Some(latency) = report.streams.iter().find_map(|stream| stream.latency.as_ref()) {
            text +=
                &format!("  latency {} / {} (50 / 99 %)", nanoseconds(latency.p50), nanoseconds(latency.p99));
        }
    }
    text
}

fn draw(frame: &mut Frame, title: &str, report: &Report, looks: &VecDeque<Look>) {
    let rows = report.streams.len() as u16;
    let [head, plot, table, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(rows + 2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let look = looks.back().copied().unwrap_or_default();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = format!(
        "{title}   {:.0} s   sent {} pps, {}   received {} pps",
        look.seconds,
        packets(look.sent_rate),
        bits(look.sent_bits),
        packets(look.received_rate)
    );
    frame.render_widget(Paragraph::new(first).style(bold), head);
    // The first two looks have nothing before them that a rate could be told from.
    let points = |field: fn(&Look) -> f64| -> Vec<(f64, f64)> {
        looks.iter().skip(2).map(|look| (look.seconds, field(look))).collect()
    };
    let (sent, received) = (points(|look| look.sent_rate), points(|look| look.received_rate));
    let most = sent.iter().chain(&received).map(|point| point.1).fold(1.0, f64::max) * 1.1;
    let begin = sent.first().map_or(0.0, |point| point.0);
    let end = look.seconds.max(begin + 1.0);
    let set = |color, points| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(color))
            .data(points)
    };
    // What the lines are stands in the title: a legend would hide the newest of them.
    let title = vec![
        "packets/s: ".into(),
        Span::styled("sent", Style::new().fg(Color::Cyan)),
        ", ".into(),
        Span::styled("received", Style::new().fg(Color::Green)),
    ];
    let chart = Chart::new(vec![set(Color::Cyan, &sent), set(Color::Green, &received)])
        .block(Block::bordered().title(Line::from(title)))
        .x_axis(Axis::default().bounds([begin, end]).labels([format!("{begin:.0} s"), format!("{end:.0} s")]))
        .y_axis(Axis::default().bounds([0.0, most]).labels(["0".to_owned(), packets(most)]));
    frame.render_widget(chart, plot);
    let cells = report.streams.iter().map(|stream| row(cells(stream)));
    let widths = [Constraint::Fill(1)].into_iter().chain(WIDTHS.map(Constraint::Length));
    frame.render_widget(Rows::new(cells, widths).header(row(HEADINGS.map(str::to_owned)).style(bold)), table);
    frame.render_widget(Paragraph::new("q: end now, with the result so far"), foot);
}

/// Short enough for 80 columns, with a name of eight letters and billions of packets.
const HEADINGS: [&str; 9] =
    ["stream", "sent", "pps", "received", "reord.", "dupl.", "corrupt", "50 % in", "99 % in"];
/// Columns of all but the first.
const WIDTHS: [u16; HEADINGS.len() - 1] = [13, 6, 13, 6, 5, 7, 7, 7];

/// A name, and figures that end at the same column.
fn row(cells: [String; HEADINGS.len()]) -> Row<'static> {
    let aligned = |(column, text): (usize, String)| {
        let text = Text::from(text);
        if column == 0 { text } else { text.right_aligned() }
    };
    Row::new(cells.into_iter().enumerate().map(aligned))
}

fn cells(stream: &StreamReport) -> [String; HEADINGS.len()] {
    let number = |number: Option<u64>| number.map_or("-".to_owned(), count);
    let time = |field: fn(&Distribution) -> u64| {
        stream.latency.as_ref().map_or("-".to_owned(), |latency| nanoseconds(field(latency)))
    };
    [
        stream.name.clone(),
        count(stream.sent.packets),
        packets(stream.sent_rate),
        number(stream.received.map(|count| count.packets)),
        number(stream.reordering.map(|order| order.packets)),
        number(stream.duplicates),
        number(stream.corrupt),
        time(|latency| latency.p50),
        time(|latency| latency.p99),
    ]
}

/// Says what came of a trial: tables, or JSON.
pub fn result(report: &Report, json: bool) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if json {
        let text = serde_json::to_string_pretty(report).map_err(|error| Failure::Said(error.to_string()))?;
        return writeln!(out, "{text}").map_err(Failure::output);
    }
    write!(out, "{}", text(report)).and_then(|()| out.flush()).map_err(Failure::output)
}

fn text(report: &Report) -> String {
    let means = match &report.receiver {
        Some(receiver) => format!("sent by {}, received by {receiver}", report.sender),
        None => format!("sent by {}", report.sender),
    };
    let mut text = format!("{:.3} s, {means}\n\n", report.seconds);
    let mut counts = Table::new(&["stream", ">offered", ">sent", ">received", ">lost", ">dupl.", ">corrupt"]);
    for stream in &report.streams {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), count);
        let lost = match (stream.lost, stream.loss_ratio) {
            (Some(lost), Some(ratio)) if lost > 0 => format!("{} ({})", count(lost), share(ratio)),
            (lost, _) => number(lost),
        };
        counts.row(vec![
            stream.name.clone(),
            count(stream.offered),
            count(stream.sent.packets),
            number(stream.received.map(|count| count.packets)),
            lost,
            number(stream.duplicates),
            number(stream.corrupt),
        ]);
    }
    text += &counts.render();
    for stream in &report.streams {
        text += &times(stream);
    }
    if report.foreign.packets != 0 {
        text += &format!("\n{} frames that are none of these streams'\n", count(report.foreign.packets));
    }
    if report.clock_uncertainty != 0 {
        text += &format!(
            "\nlatencies are known to {}: so well do the clocks agree\n",
            nanoseconds(report.clock_uncertainty)
        );
    }
    for note in &report.notes {
        text += &format!("\nnote: {note}\n");
    }
    text
}

/// A row of times.
type Figure = (&'static str, fn(&Distribution) -> u64);

/// The rate of a stream, its order, and its times, a column each kind.
fn times(stream: &StreamReport) -> String {
    let seconds = stream.sent.packets as f64 / stream.sent_rate.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "\n{}: sent {} pps, {} (layer 1)\n",
        stream.name,
        packets(stream.sent_rate),
        bits(stream.sent.layer1_bits() as f64 / seconds.max(1e-9))
    );
    let kinds = [
        (">latency from due", &stream.latency),
        (">delay variation", &stream.delay_variation),
        (">off the schedule", &stream.spacing),
        (">late in sending", &stream.lateness),
    ];
    let known = || kinds.iter().filter_map(|(name, kind)| Some((*name, kind.as_ref()?)));
    let headings: Vec<_> = ["time"].into_iter().chain(known().map(|(name, _)| name)).collect();
    let mut table = Table::new(&headings);
    let rows: [Figure; 8] = [
        ("min", |of| of.min),
        ("mean", |of| of.mean.round() as u64),
        ("50 %", |of| of.p50),
        ("90 %", |of| of.p90),
        ("99 %", |of| of.p99),
        ("99.9 %", |of| of.p999),
        ("99.99 %", |of| of.p9999),
        ("max", |of| of.max),
    ];
    for (name, value) in rows {
        let values = known().map(|(_, kind)| nanoseconds(value(kind)));
        table.row([name.to_owned()].into_iter().chain(values).collect());
    }
    if headings.len() > 1 {
        text += &table.render();
    }
    if let (Some(order), Some(jitter)) = (&stream.reordering, stream.jitter) {
        text += &format!(
            "jitter (RFC 3550) {}\nreordered (RFC 4737) {} ({}), extent {:.1} on average, {} at most\n",
            nanoseconds(jitter.round() as u64),
            count(order.packets),
            share(order.ratio),
            order.mean_extent,
            count(order.extent)
        );
        if order.queues > 1 {
            text += &format!("arrived by {} receive queues; order is judged within each\n", order.queues);
        }
    }
    text
}

/// A time with three digits: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`.
pub fn nanoseconds(time: u64) -> String {
    let mut value = time as f64;
    for unit in ["ns", "µs", "ms"] {
        if value < 999.5 {
            let digits = if unit == "ns" || value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
            return format!("{value:.digits$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.2} s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    #[test]
    fn times_have_three_digits() {
        let texts = [0, 850, 12_345, 4_560_000, 999_600_000, 12_000_000_000].map(nanoseconds);
        assert_eq!(texts, ["0 ns", "850 ns", "12.3 µs", "4.56 ms", "1.00 s", "12.00 s"]);
    }

    #[test]
    fn eighty_columns_show_every_heading_and_all_figures() {
        let count = traffic::Count { packets: 1_234_567_890, bytes: 79_012_344_960 };
        let latency =
            Some(Distribution { count: 1, p50: 12_300, p99: 456_000_000, ..Distribution::default() });
        let stream = StreamReport {
            name: "stream 1".to_owned(),
            sent: count,
            received: Some(count),
            sent_rate: 1.234e7,
            duplicates: Some(12),
            corrupt: Some(3),
            latency,
            ..StreamReport::default()
        };
        let report = Report { streams: vec![stream], ..Report::default() };
        let look = |seconds, rate| Look { seconds, sent_rate: rate, received_rate: rate, ..Look::default() };
        let looks = VecDeque::from([look(0.0, 0.0), look(0.1, 9e9), look(0.25, 800.0), look(0.5, 1000.0)]);
        let mut terminal = ratatui::Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, "a to b", &report, &looks)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines: Vec<String> =
            (0..24).map(|y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>()).collect();
        for heading in HEADINGS {
            assert!(lines[20].contains(heading), "{heading}: {}", lines[20]);
        }
        for figure in ["stream 1", "1,234,567,890", "12.3 M", "12.3 µs", "456 ms"] {
            assert!(lines[21].contains(figure), "{figure}: {}", lines[21]);
        }
        assert!(lines[1].contains("packets/s: sent, received"), "{}", lines[1]);
        // The axis fits the rates, however low; the first look, whose rate means nothing, is not
        // among them.
        assert!(lines[2].contains("1.10 k"), "{}", lines[2]);
    }

    #[test]
    fn eighty_columns_hold_the_result() {
        let count = traffic::Count { packets: 987_654_321, bytes: 63_209_876_544 };
        let times =
            Some(Distribution { count: 1, p50: 123_000, max: 999_000_000, ..Distribution::default() });
        let stream = StreamReport {
            name: "stream 1".to_owned(),
            offered: count.packets,
            sent: count,
            received: Some(count),
            sent_rate: 9.876e7,
            received_rate: None,
            lost: Some(54_321),
            loss_ratio: Some(0.000_055),
            lost_until: Some(0.5),
            arrived_until: Some(1.0),
            duplicates: Some(123),
            corrupt: Some(0),
            reordering: Some(traffic::Reordering {
                packets: 987_654,
                ratio: 0.01,
                queues: 16,
                ..traffic::Reordering::default()
            }),
            jitter: Some(123_456.0),
            latency: times.clone(),
            delay_variation: times.clone(),
            spacing: times.clone(),
            lateness: times,
        };
        let text = text(&Report { streams: vec![stream], seconds: 10.0, ..Report::default() });
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80) && text.contains("999 ms") && text.contains("98.8 M pps"), "{text}");
    }

    #[test]
    fn a_result_names_what_was_lost() {
        let stream = StreamReport {
            name: "web".to_owned(),
            lost: Some(5),
            loss_ratio: Some(0.05),
            latency: Some(Distribution { count: 1, p50: 850, ..Distribution::default() }),
            ..StreamReport::default()
        };
        let report = Report {
            streams: vec![stream],
            receiver: Some("queue".to_owned()),
            sender: "queue".to_owned(),
            notes: vec!["too fast".to_owned()],
            ..Report::default()
        };
        let text = text(&report);
        assert!(
            text.contains("5 (5.0 %)") && text.contains("850 ns") && text.contains("note: too fast"),
            "{text}"
        );
    }
}
