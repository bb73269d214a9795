//! The picture: lanes on top, then notes, ports, and below them workers, routes and drops side by
//! side.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::columns::{Column, figures, table, words};
use super::{View, totals, units};
use crate::control::status::{Lane, PortState, PortStatus, Shares, Snapshot, WorkerState};

const EXPRESS: Color = Color::Green;
const WORKER: Color = Color::Cyan;
const LINUX: Color = Color::Yellow;
const QUIET: Style = Style::new().fg(Color::DarkGray);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);

/// Columns that workers take at most, and with which drops beside them are still read with ease.
const WORKERS: u16 = 42;
/// Wide enough for workers, routes and drops side by side.
const WIDE: u16 = 110;
/// Wide enough for two of them.
const MIDDLING: u16 = 72;

const KEYS: [(&str, &str); 3] = [
    ("space", "hold the picture, and let it go on"),
    ("?  h", "this help, and away with it"),
    ("q  Esc  Ctrl-C", "end"),
];

/// Draws a view over the whole terminal.
pub fn draw(frame: &mut Frame, view: &View) {
    let snapshot = view.snapshot;
    let ports = snapshot.ports.len() as u16 + 3;
    let [top, lanes, notes, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(view.notes.len() as u16),
        Constraint::Length(ports),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    let [workers, routes, drops] = below(bottom, snapshot);
    draw_top(frame, top, view);
    draw_lanes(frame, lanes, &snapshot.shares);
    draw_notes(frame, notes, view);
    draw_ports(frame, middle, &snapshot.ports);
    draw_workers(frame, workers, snapshot);
    draw_routes(frame, routes, snapshot);
    draw_drops(frame, drops, snapshot);
    if view.help {
        draw_help(frame);
    }
}

/// Places of workers, routes and drops: side by side, or where that is too narrow below one
/// another.
fn below(area: Rect, snapshot: &Snapshot) -> [Rect; 3] {
    let workers = snapshot.workers.len() as u16 + 2;
    if area.width >= WIDE {
        let columns = [Constraint::Length(WORKERS), Constraint::Fill(4), Constraint::Fill(5)];
        return Layout::horizontal(columns).spacing(2).areas(area);
    }
    if area.width >= MIDDLING {
        let [left, drops] =
            Layout::horizontal([Constraint::Length(WORKERS), Constraint::Fill(1)]).spacing(2).areas(area);
        let [workers, routes] =
            Layout::vertical([Constraint::Length(workers), Constraint::Fill(1)]).areas(left);
        return [workers, routes, drops];
    }
    let routes = snapshot.summary.routes.len() as u16 + 2;
    Layout::vertical([Constraint::Length(workers), Constraint::Length(routes), Constraint::Fill(1)])
        .areas(area)
}

fn draw_help(frame: &mut Frame) {
    let lines: Vec<Line> = KEYS
        .iter()
        .map(|(key, does)| Line::from(vec![Span::styled(format!("{key:<16}"), HEADING), Span::raw(*does)]))
        .collect();
    let area = frame.area();
    let [_, row, _] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(KEYS.len() as u16 + 2),
        Constraint::Fill(1),
    ])
    .areas(area);
    let [_, place, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(56), Constraint::Fill(1)]).areas(row);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), place);
}

fn draw_top(frame: &mut Frame, area: Rect, view: &View) {
    let total = totals(view.snapshot).sent;
    let (rate, bits) = (units::packets(total.packets_per_second), units::bits(total.bits_per_second));
    let held = if view.held { "held  " } else { "" };
    let up = format!("{held}up {}", units::time(view.snapshot.at_ms / 1000));
    // The first that fits.
    let ends = [format!("{up}  ?: help"), up, String::new()];
    let begins =
        [format!("  forwarding {rate} packets/s, {bits}"), format!("  {rate} pps, {bits}"), String::new()];
    let room = usize::from(area.width).saturating_sub(view.title.chars().count() + 2);
    let (begin, end) = (begins.iter())
        .flat_map(|begin| ends.iter().map(move |end| (begin, end)))
        .find(|(begin, end)| begin.chars().count() + end.chars().count() <= room)
        .unwrap_or((&begins[2], &ends[2]));
    let left = Line::from(vec![Span::styled(view.title.to_owned(), HEADING), Span::raw(begin.clone())]);
    frame.render_widget(Paragraph::new(left), area);
    // Only its own columns: the rest of the line is the left's.
    let [_, place] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(end.len() as u16)]).areas(area);
    frame.render_widget(Paragraph::new(end.as_str()).alignment(Alignment::Right), place);
}

/// A bar of the three shares, and the shares in words.
fn draw_lanes(frame: &mut Frame, area: Rect, shares: &Shares) {
    let lanes = [
        ("express lane", shares.express, EXPRESS),
        ("workers", shares.worker, WORKER),
        ("Linux", shares.linux, LINUX),
    ];
    let mut bar = Vec::new();
    let mut words = Vec::new();
    for (name, share, colour) in lanes {
        let cells = (share * f64::from(area.width)).round() as usize;
        bar.push(Span::styled("█".repeat(cells), Style::new().fg(colour)));
        words.push(Span::styled("■ ", Style::new().fg(colour)));
        words.push(Span::raw(format!("{name} {}   ", units::share(share))));
    }
    if shares == &Shares::default() {
        bar = vec![Span::styled("no packets", QUIET)];
    }
    frame.render_widget(Paragraph::new(vec![Line::from(bar), Line::from(words)]), area);
}

fn draw_notes(frame: &mut Frame, area: Rect, view: &View) {
    let width = view.notes.iter().map(|note| note.label.chars().count()).max().unwrap_or(0);
    let lines: Vec<Line> = (view.notes.iter())
        .map(|note| {
            Line::from(vec![
                Span::styled(format!("{:<width$}  ", note.label), HEADING),
                Span::raw(note.text.clone()),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn titled(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).border_style(QUIET).title(Span::styled(format!("{title} "), HEADING))
}

/// Puts a table into its place, as much of it as fits.
fn put(frame: &mut Frame, area: Rect, title: &str, columns: &[Column], rows: Vec<Vec<Span<'static>>>) {
    frame.render_widget(table(columns, rows, area.width, QUIET).block(titled(title)), area);
}

fn draw_ports(frame: &mut Frame, area: Rect, ports: &[PortStatus]) {
    let rows = ports.iter().map(|port| {
        let state = match port.state {
            PortState::Up => Span::styled("up", Style::new().fg(Color::Green)),
            PortState::Down => Span::styled("down", Style::new().fg(Color::Red)),
            PortState::Absent => Span::styled("absent", QUIET),
        };
        let rates = &port.rates;
        let alarm = if rates.drops_per_second > 0.0 { Style::new().fg(Color::Red) } else { QUIET };
        vec![
            Span::raw(port.name.clone()),
            state,
            Span::raw(port.lane.map_or("-", Lane::name)),
            Span::raw(units::packets(rates.received.packets_per_second)),
            Span::raw(units::bits(rates.received.bits_per_second)),
            Span::raw(units::packets(rates.sent.packets_per_second)),
            Span::raw(units::bits(rates.sent.bits_per_second)),
            Span::styled(units::packets(rates.drops_per_second), alarm),
        ]
    });
    const COLUMNS: [Column; 8] = [
        words("port", 0),
        words("state", 1),
        words("lane", 6),
        figures("in pps", 0),
        figures("in", 5),
        figures("out pps", 0),
        figures("out", 4),
        figures("drops/s", 2),
    ];
    put(frame, area, "Ports", &COLUMNS, rows.collect());
}

fn draw_workers(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.workers.iter().map(|worker| {
        let state = match worker.state {
            WorkerState::Polling => Span::styled("polling", Style::new().fg(WORKER)),
            WorkerState::Asleep => Span::styled("asleep", QUIET),
            WorkerState::Restarting => Span::styled("restart", Style::new().fg(Color::Red)),
        };
        let filled = ((worker.load * 8.0).round() as usize).min(8);
        vec![
            Span::raw(format!("{} core {}", worker.index, worker.core)),
            state,
            Span::raw(format!("{}{}", "▮".repeat(filled), "▯".repeat(8 - filled))),
            Span::raw(units::share(worker.load)),
            Span::raw(units::packets(worker.packets_per_second)),
        ]
    });
    const COLUMNS: [Column; 5] =
        [words("worker", 0), words("state", 2), words("load", 3), figures("", 0), figures("pps", 1)];
    put(frame, area, "Workers", &COLUMNS, rows.collect());
}

fn draw_routes(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = (snapshot.summary.routes.iter()).map(|origin| {
        vec![
            Span::raw(origin.origin.clone()),
            Span::raw(units::count(origin.ipv4)),
            Span::raw(units::count(origin.ipv6)),
        ]
    });
    let title = if snapshot.summary.synced { "Routes" } else { "Routes (catching up)" };
    const COLUMNS: [Column; 3] = [words("by", 0), figures("IPv4", 0), figures("IPv6", 0)];
    put(frame, area, title, &COLUMNS, rows.collect());
}

fn draw_drops(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.drops.iter().map(|drop| {
        let place = drop.port.clone().or(drop.element.clone()).unwrap_or_default();
        let style = if drop.per_second > 0.0 { Style::new() } else { QUIET };
        [drop.reason.clone(), place, units::packets(drop.per_second), units::count(drop.packets)]
            .map(|text| Span::styled(text, style))
            .to_vec()
    });
    const COLUMNS: [Column; 4] =
        [words("reason", 0), words("where", 3), figures("now/s", 2), figures("all", 1)];
    put(frame, area, "Drops", &COLUMNS, rows.collect());
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::control::status::*;
    use crate::screen::Note;

    fn snapshot() -> Snapshot {
        Snapshot {
            at_ms: 187_000,
            summary: Summary {
                routes: vec![OriginCount { origin: "bgp".into(), ipv4: 200_000, ipv6: 50_000 }],
                synced: true,
                ..Summary::default()
            },
            ports: vec![PortStatus {
                name: "eth0".into(),
                state: PortState::Up,
                lane: Some(Lane::Express),
                rates: PortRates {
                    received: Rate { packets_per_second: 2.57e6, bits_per_second: 1.32e9 },
                    sent: Rate { packets_per_second: 2.5e6, bits_per_second: 1.28e9 },
                    drops_per_second: 12.0,
                },
                ..PortStatus::default()
            }],
            workers: vec![WorkerStatus {
                core: 1,
                load: 0.5,
                packets_per_second: 1e3,
                ..WorkerStatus::default()
            }],
            drops: vec![DropCount {
                port: Some("eth0".into()),
                lane: Lane::Express,
                element: None,
                reason: "no_route".into(),
                packets: 1234,
                per_second: 12.0,
            }],
            shares: Shares { express: 0.75, worker: 0.25, linux: 0.0 },
        }
    }

    fn picture(width: u16, height: u16, view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_picture_shows_all_that_matters() {
        let snapshot = snapshot();
        let notes = [Note { label: "BGP".into(), text: "198.18.0.1 established".into() }];
        let text = picture(
            110,
            20,
            &View { title: "Bifrost", snapshot: &snapshot, notes: &notes, held: false, help: false },
        );
        for part in [
            "Bifrost  forwarding 2.50 M packets/s, 1.28 Gb/s",
            "up 3m 07s",
            "express lane 75 %",
            "workers 25 %",
            "Linux 0 %",
            "BGP  198.18.0.1 established",
            "2.57 M",
            "1.32 Gb/s",
            "200,000",
            "no_route",
            "▮▮▮▮▯▯▯▯",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn no_figure_loses_digits_however_narrow_it_is() {
        let mut snapshot = snapshot();
        snapshot.drops[0].packets = 1_002_345_678;
        snapshot.ports[0].name = "wlp0s20f3u1u2i3".into();
        // Of each figure, how it ends: where that stands, all of it has to.
        let whole =
            [(",678", "1,002,345,678"), ("57 M", "2.57 M"), ("32 Gb/s", "1.32 Gb/s"), ("00,000", "200,000")];
        for width in 1..=130 {
            let view = View { title: "Bifrost", snapshot: &snapshot, notes: &[], held: false, help: false };
            let text = picture(width, 40, &view);
            for (end, all) in whole {
                assert_eq!(text.matches(end).count(), text.matches(all).count(), "{width} columns\n{text}");
            }
            if width >= 80 {
                for (_, all) in whole {
                    assert!(text.contains(all), "{all} at {width} columns\n{text}");
                }
            }
        }
    }

    #[test]
    fn the_keys_are_told_when_asked_for() {
        let snapshot = snapshot();
        let text = picture(
            80,
            24,
            &View { title: "Bifrost", snapshot: &snapshot, notes: &[], held: false, help: true },
        );
        assert!(text.contains("hold the picture"), "{text}");
    }

    #[test]
    fn no_size_of_terminal_makes_it_panic() {
        let snapshot = snapshot();
        for (width, height) in [(1, 1), (3, 40), (200, 2), (80, 24), (20, 5)] {
            picture(
                width,
                height,
                &View { title: "Bifrost", snapshot: &snapshot, notes: &[], held: true, help: true },
            );
        }
    }

    #[test]
    fn the_line_says_the_same() {
        let snapshot = snapshot();
        let line = crate::screen::line(&View {
            title: "Bifrost",
            snapshot: &snapshot,
            notes: &[],
            held: false,
            help: false,
        });
        assert_eq!(
            line,
            "3m 07s  in 2.57 M pps 1.32 Gb/s  out 2.50 M pps 1.28 Gb/s  drops 12/s  express 75 %  worker 25 %  \
             linux 0 %  load 50 %  routes 250,000  top drop no_route"
        );
    }
}
