//! The picture: lanes on top, then notes, ports, and below them workers, routes and drops side by side.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::{View, totals, units};
use crate::control::status::{Lane, PortState, PortStatus, Shares, Snapshot, WorkerState};

const EXPRESS: Color = Color::Green;
const WORKER: Color = Color::Cyan;
const LINUX: Color = Color::Yellow;
const QUIET: Style = Style::new().fg(Color::DarkGray);
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);

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
    let [workers, routes, drops] =
        Layout::horizontal([Constraint::Length(42), Constraint::Fill(4), Constraint::Fill(5)])
            .spacing(2)
            .areas(bottom);
    draw_top(frame, top, view);
    draw_lanes(frame, lanes, &snapshot.shares);
    draw_notes(frame, notes, view);
    draw_ports(frame, middle, &snapshot.ports);
    draw_workers(frame, workers, snapshot);
    draw_routes(frame, routes, snapshot);
    draw_drops(frame, drops, snapshot);
}

fn draw_top(frame: &mut Frame, area: Rect, view: &View) {
    let total = totals(view.snapshot);
    let left = Line::from(vec![
        Span::styled(view.title.to_owned(), HEADING),
        Span::raw(format!(
            "  forwarding {} packets/s, {}",
            units::packets(total.sent.packets_per_second),
            units::bits(total.sent.bits_per_second)
        )),
    ]);
    let held = if view.held { "held  " } else { "" };
    let right = format!("{held}up {}", units::time(view.snapshot.at_ms / 1000));
    frame.render_widget(Paragraph::new(left), area);
    frame.render_widget(Paragraph::new(right).alignment(Alignment::Right), area);
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

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

fn headings(names: &[&'static str], left: usize) -> Row<'static> {
    let cells = names.iter().enumerate().map(|(n, name)| match n < left {
        true => Cell::from(*name),
        false => right((*name).to_owned()),
    });
    Row::new(cells.collect::<Vec<_>>()).style(QUIET)
}

fn draw_ports(frame: &mut Frame, area: Rect, ports: &[PortStatus]) {
    let rows = ports.iter().map(|port| {
        let state = match port.state {
            PortState::Up => ("up", Style::new().fg(Color::Green)),
            PortState::Down => ("down", Style::new().fg(Color::Red)),
            PortState::Absent => ("absent", QUIET),
        };
        let lane = port.lane.map_or("-", Lane::name);
        let drops = units::packets(port.rates.drops_per_second);
        let alarm = if port.rates.drops_per_second > 0.0 { Style::new().fg(Color::Red) } else { QUIET };
        Row::new(vec![
            Cell::from(port.name.clone()),
            Cell::from(state.0).style(state.1),
            Cell::from(lane),
            right(units::packets(port.rates.received.packets_per_second)),
            right(units::bits(port.rates.received.bits_per_second)),
            right(units::packets(port.rates.sent.packets_per_second)),
            right(units::bits(port.rates.sent.bits_per_second)),
            right(drops).style(alarm),
        ])
    });
    let widths = [
        Constraint::Length(16),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(10),
    ];
    let names = ["port", "state", "lane", "in pps", "in", "out pps", "out", "drops/s"];
    frame.render_widget(Table::new(rows, widths).header(headings(&names, 3)).block(titled("Ports")), area);
}

fn draw_workers(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.workers.iter().map(|worker| {
        let state = match worker.state {
            WorkerState::Polling => ("polling", Style::new().fg(WORKER)),
            WorkerState::Asleep => ("asleep", QUIET),
            WorkerState::Restarting => ("restart", Style::new().fg(Color::Red)),
        };
        let filled = ((worker.load * 8.0).round() as usize).min(8);
        Row::new(vec![
            Cell::from(format!("{} core {}", worker.index, worker.core)),
            Cell::from(state.0).style(state.1),
            Cell::from(format!("{}{}", "▮".repeat(filled), "▯".repeat(8 - filled))),
            right(units::share(worker.load)),
            right(units::packets(worker.packets_per_second)),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Min(7),
    ];
    let names = ["worker", "state", "load", "", "pps"];
    frame.render_widget(Table::new(rows, widths).header(headings(&names, 3)).block(titled("Workers")), area);
}

fn draw_routes(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = (snapshot.summary.routes.iter()).map(|origin| {
        Row::new(vec![
            Cell::from(origin.origin.clone()),
            right(units::count(origin.ipv4)),
            right(units::count(origin.ipv6)),
        ])
    });
    let widths = [Constraint::Min(8), Constraint::Length(10), Constraint::Length(10)];
    let title = if snapshot.summary.synced { "Routes" } else { "Routes (catching up)" };
    frame.render_widget(
        Table::new(rows, widths).header(headings(&["by", "IPv4", "IPv6"], 1)).block(titled(title)),
        area,
    );
}

fn draw_drops(frame: &mut Frame, area: Rect, snapshot: &Snapshot) {
    let rows = snapshot.drops.iter().map(|drop| {
        let place = drop.port.clone().or(drop.element.clone()).unwrap_or_default();
        let row = Row::new(vec![
            Cell::from(drop.reason.clone()),
            Cell::from(place),
            right(units::packets(drop.per_second)),
            right(units::count(drop.packets)),
        ]);
        if drop.per_second > 0.0 { row } else { row.style(QUIET) }
    });
    let widths = [Constraint::Min(14), Constraint::Length(9), Constraint::Length(8), Constraint::Length(11)];
    let names = ["reason", "where", "now/s", "all"];
    frame.render_widget(Table::new(rows, widths).header(headings(&names, 2)).block(titled("Drops")), area);
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
        let text =
            picture(110, 20, &View { title: "Bifrost", snapshot: &snapshot, notes: &notes, held: false });
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
    fn no_size_of_terminal_makes_it_panic() {
        let snapshot = snapshot();
        for (width, height) in [(1, 1), (3, 40), (200, 2), (80, 24), (20, 5)] {
            picture(width, height, &View { title: "Bifrost", snapshot: &snapshot, notes: &[], held: true });
        }
    }

    #[test]
    fn the_line_says_the_same() {
        let snapshot = snapshot();
        let line =
            crate::screen::line(&View { title: "Bifrost", snapshot: &snapshot, notes: &[], held: false });
        assert_eq!(
            line,
            "3m 07s  in 2.57 M pps 1.32 Gb/s  out 2.50 M pps 1.28 Gb/s  drops 12/s  express 75 %  worker 25 %  \
             linux 0 %  load 50 %  routes 250,000  top drop no_route"
        );
    }
}
