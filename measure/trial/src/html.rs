//! Reports as a page: the graphs that an engineer expects, and all figures in tables; one run
//! alone, or several beside each other.

use crate::page::{Axis, Chart, Format, Page, Section, Series, Table};
use crate::report::{LatencyAt, Report};
use crate::{Direction, Family, Frames, Method};

/// The page of one run, or of several that are compared.
pub fn page(reports: &[Report]) -> Page {
    let runs = Runs::new(reports);
    let title = match reports {
        [only] => format!("RFC 2544: {}", only.name),
        _ => "RFC 2544: runs compared".to_owned(),
    };
    let mut page = Page::new(title).lead(
        "Rates are frames a second into each sending port. Frame sizes count the FCS. Loss and throughput are those of \
         RFC 1242; nothing was left out that the notes at the end do not name.",
    );
    match reports {
        [only] => {
            for (name, value) in facts(only) {
                page = page.fact(name, value);
            }
        }
        _ => page = page.section(compared(&runs)),
    }
    let sections = [
        (throughput(&runs), reports.iter().any(|report| !report.throughput.is_empty())),
        (latency(&runs), reports.iter().any(|report| !report.latency.is_empty())),
        (loss(&runs), reports.iter().any(|report| !report.loss.is_empty())),
        (back_to_back(&runs), reports.iter().any(|report| !report.back_to_back.is_empty())),
        (recovery(&runs), reports.iter().any(|report| !report.recovery.is_empty())),
        (reset(&runs), reports.iter().any(|report| !report.reset.is_empty())),
        (notes(&runs), true),
    ];
    for (section, has_any) in sections {
        if has_any {
            page = page.section(section);
        }
    }
    page
}

/// Runs with names that tell them apart.
struct Runs<'a> {
    reports: &'a [Report],
    names: Vec<String>,
    sizes: Vec<Frames>,
}

impl<'a> Runs<'a> {
    fn new(reports: &'a [Report]) -> Runs<'a> {
        let name = |(n, report): (usize, &Report)| {
            let same = |other: &Report| other.name == report.name;
            if reports.iter().filter(|other| same(other)).count() < 2 {
                return report.name.clone();
            }
            format!("{} ({})", report.name, reports[..=n].iter().filter(|other| same(other)).count())
        };
        let names = reports.iter().enumerate().map(name).collect();
        let mut sizes: Vec<Frames> = Vec::new();
        for report in reports {
            let rows = report.throughput.iter().map(|row| &row.frames);
            for frames in rows.chain(report.loss.iter().map(|row| &row.frames)) {
                if !sizes.contains(frames) {
                    sizes.push(frames.clone());
                }
            }
        }
        sizes.sort_by(|one, other| {
            (one.size().is_none(), one.mean())
                .partial_cmp(&(other.size().is_none(), other.mean()))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        Runs { reports, names, sizes }
    }

    fn is_one(&self) -> bool {
        self.reports.len() == 1
    }

    fn each(&self) -> impl Iterator<Item = (&'a Report, &str)> {
        self.reports.iter().zip(self.names.iter().map(String::as_str))
    }

    /// The size's number on an axis of sizes.
    fn place(&self, frames: &Frames) -> f64 {
        self.sizes.iter().position(|size| size == frames).map_or(f64::NAN, |n| n as f64)
    }

    fn axis(&self) -> Axis {
        Axis::categories("frame size (bytes)", self.sizes.iter().map(Frames::to_string))
    }

    /// A table; with several runs their names stand in its first column.
    fn table(&self, headings: &[&str]) -> Table {
        let run: &[&str] = if self.is_one() { &[] } else { &["run"] };
        Table::new(&[run, headings].concat())
    }

    fn row(&self, table: Table, name: &str, cells: Vec<String>) -> Table {
        let run = (!self.is_one()).then(|| name.to_owned());
        table.row(run.into_iter().chain(cells))
    }

    /// The name of a series that is of a run: that of the run, and of what it is where there is
    /// more than one such.
    fn series(&self, run: &str, what: &str) -> String {
        match (self.is_one(), what) {
            (true, _) => what.to_owned(),
            (false, "") => run.to_owned(),
            (false, _) => format!("{run}, {what}"),
        }
    }
}

fn facts(report: &Report) -> Vec<(String, String)> {
    let plan = &report.plan;
    let method = match &plan.method {
        Method::Rfc { seconds, .. } => format!("RFC 2544, trials of {seconds} s"),
        Method::Mlr { goals } => {
            let goal = |goal: &crate::search::Goal| Format::Percent.text(goal.loss);
            let seconds = goals.first().map_or(0.0, |goal| goal.final_seconds);
            format!(
                "MLRsearch (RFC 9971), {} loss, trials of {seconds} s",
                goals.iter().map(goal).collect::<Vec<_>>().join(" and ")
            )
        }
    };
    let direction = match plan.direction {
        Direction::OneWay => "one way",
        Direction::Both => "both ways",
    };
    let family = match plan.family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6 (RFC 5180)",
    };
    let ports = format!("{direction}, {family}, {} sending at once", plural(report.senders as usize, "port"));
    let modifiers = &plan.modifiers;
    let mut beside = Vec::new();
    if modifiers.filters > 0 {
        beside.push(format!("a filter of {}", plural(modifiers.filters as usize, "rule")));
    }
    if modifiers.route_updates > 0 {
        let prefixes = plural(modifiers.route_updates as usize, "prefix");
        beside.push(format!("routing updates of {prefixes} every {} s", modifiers.route_interval));
    }
    if modifiers.broadcast {
        beside.push("1 % broadcasts".to_owned());
    }
    if modifiers.management {
        beside.push("management queries".to_owned());
    }
    let mut facts = vec![
        ("device".to_owned(), report.device.name.clone()),
        ("tester".to_owned(), report.device.tester.clone()),
        ("line".to_owned(), format!("{}b/s a port", Format::Plain.text(report.device.line_bits))),
        ("traffic".to_owned(), ports),
        ("method".to_owned(), method),
        ("trials".to_owned(), format!("{}, of {} of load together", report.trials, duration(report.seconds))),
        ("release".to_owned(), format!("Bifrost {}", report.release)),
    ];
    if !report.device.traffic.is_empty() {
        facts.insert(4, ("between".to_owned(), report.device.traffic.clone()));
    }
    if !beside.is_empty() {
        facts.push(("meanwhile".to_owned(), beside.join(", ")));
    }
    facts.extend(report.machine.iter().cloned());
    facts
}

/// What each run was, side by side.
fn compared(runs: &Runs<'_>) -> Section {
    let facts: Vec<Vec<(String, String)>> = runs.reports.iter().map(facts).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let headings: Vec<&str> = std::iter::once("").chain(runs.names.iter().map(String::as_str)).collect();
    let mut table = Table::new(&headings);
    for name in names {
        let value = |facts: &Vec<(String, String)>| {
            facts.iter().find(|(other, _)| other == name).map_or("–".to_owned(), |(_, value)| value.clone())
        };
        table = table.row(std::iter::once(name.to_owned()).chain(facts.iter().map(value)));
    }
    Section::new("Runs").table(table)
}

fn throughput(runs: &Runs<'_>) -> Section {
    let share = Axis::linear("throughput, part of the line rate").from(0.0).to(1.0).format(Format::Percent);
    let mut shares = Chart::new("Throughput against line rate", runs.axis(), share);
    let mut rates = Chart::new("Throughput", runs.axis(), Axis::log("frames/s"));
    // Runs over different lines have one each.
    let mut lines: Vec<(f64, Vec<(f64, f64)>)> = Vec::new();
    let mut table = runs.table(&[
        "frame size",
        ">loss",
        ">throughput",
        ">not carried",
        ">came back",
        ">of the line",
        ">layer 1",
        ">trials",
        "",
    ]);
    for (report, name) in runs.each() {
        let mut ratios: Vec<f64> =
            report.throughput.iter().flat_map(|row| row.goals.iter().map(|goal| goal.loss)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.dedup();
        for (n, ratio) in ratios.iter().enumerate() {
            let points = report.throughput.iter().filter_map(|row| {
                let lower = row.goals.iter().find(|goal| goal.loss == *ratio)?.lower?;
                Some((runs.place(&row.frames), lower, row.line_rate))
            });
            let points: Vec<_> = points.collect();
            let what = format!("{} loss", Format::Percent.text(*ratio));
            let label = runs.series(name, &what);
            // Several runs are compared by what they carry without loss.
            if runs.is_one() || n == 0 {
                shares = shares
                    .series(Series::bars(&label, points.iter().map(|(x, rate, line)| (*x, rate / line))));
                rates = rates.series(Series::line(&label, points.iter().map(|(x, rate, _)| (*x, *rate))));
            }
        }
        let bits = report.device.line_bits;
        let points = report.throughput.iter().map(|row| (runs.place(&row.frames), row.line_rate));
        match lines.iter_mut().find(|(other, _)| *other == bits) {
            Some((_, line)) => line.extend(points),
            None => lines.push((bits, points.collect())),
        }
        for row in &report.throughput {
            for goal in &row.goals {
                let rate =
                    |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| Format::Plain.figure(rate));
                let cells = vec![
                    row.frames.to_string(),
                    Format::Percent.text(goal.loss),
                    rate(goal.lower),
                    rate(goal.upper),
                    rate(goal.conditional),
                    goal.lower.map_or("–".to_owned(), |lower| percent(lower / row.line_rate)),
                    goal.lower.map_or("–".to_owned(), |lower| {
                        Format::Plain.figure(row.frames.line_bits(lower)) + "b/s"
                    }),
                    row.trials.to_string(),
                    if goal.regular || goal.upper.is_none() { String::new() } else { "irregular".to_owned() },
                ];
                table = runs.row(table, name, cells);
            }
        }
    }
    let several = lines.len() > 1;
    for (bits, mut line) in lines {
        line.sort_by(|one, other| one.0.total_cmp(&other.0));
        line.dedup();
        let which = if several { format!(", {}b/s", Format::Plain.text(bits)) } else { String::new() };
        rates = rates.series(Series::reference(&format!("line rate{which}"), line));
    }
    Section::new("Throughput")
        .text(
            "The highest load of which no more than the named part was lost (RFC 2544 section 26.1, RFC 9971). “Not carried” is \
             the lowest load that failed: the truth lies between. “Came back” is what is typically forwarded there.",
        )
        .chart(shares)
        .chart(rates)
        .table(table)
}

/// Where a percentile stands in the table of latencies.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

fn latency(runs: &Runs<'_>) -> Section {
    let mut means = Chart::new(
        if runs.is_one() { "Mean latency" } else { "Mean latency at the throughput" },
        runs.axis(),
        Axis::log("latency").format(Format::Nanoseconds),
    );
    let mut charts = Vec::new();
    let mut table = runs.table(&[
        "frame size",
        ">load",
        ">rate",
        ">min",
        ">mean",
        ">50 %",
        ">90 %",
        ">99 %",
        ">99.9 %",
        ">99.99 %",
        ">max",
        ">jitter",
    ]);
    for (report, name) in runs.each() {
        let mut loads: Vec<f64> = report.latency.iter().map(|row| row.load).collect();
        loads.sort_by(|one, other| other.total_cmp(one));
        loads.dedup();
        let highest = loads.first().copied().unwrap_or(1.0);
        for load in &loads {
            let rows = report.latency.iter().filter(|row| row.load == *load);
            let points = rows.map(|row| (runs.place(&row.frames), row.latency.mean));
            let label = runs.series(name, &if runs.is_one() { load_name(*load) } else { String::new() });
            if runs.is_one() || *load == highest {
                means = means.series(Series::line(&label, points));
            }
        }
        let title = match runs.is_one() {
            true => format!("Latency by percentile, {}", load_name(highest)),
            false => format!("Latency by percentile, {}: {name}", load_name(highest)),
        };
        let y = Axis::log("latency").format(Format::Nanoseconds);
        let mut chart = Chart::new(&title, Axis::nines("percentile"), y);
        for row in report.latency.iter().filter(|row| row.load == highest) {
            chart =
                chart.series(Series::line(&row.frames.to_string(), row.latency.percentiles.iter().copied()));
        }
        charts.push(chart);
        for row in &report.latency {
            table = runs.row(table, name, latency_cells(row));
        }
    }
    let text = "How long frames were on their way, from the moment when they were due to be sent, so that a stall counts \
                for every frame that it held up (RFC 2544 section 26.2; averages of the repetitions, the shortest and the longest of all).";
    let mut section = Section::new("Latency").text(text).chart(means);
    for chart in charts {
        section = section.chart(chart);
    }
    section.table(table)
}

fn latency_cells(row: &LatencyAt) -> Vec<String> {
    let time = |value: f64| Format::Nanoseconds.figure(value);
    let mut cells = vec![
        row.frames.to_string(),
        Format::Percent.text(row.load),
        Format::Plain.figure(row.rate),
        time(row.latency.min),
        time(row.latency.mean),
    ];
    cells.extend(SHOWN.map(|at| row.latency.at(at).map_or("–".to_owned(), time)));
    cells.push(time(row.latency.max));
    cells.push(row.latency.jitter.map_or("–".to_owned(), time));
    cells
}

fn loss(runs: &Runs<'_>) -> Section {
    let mut charts = Vec::new();
    let mut table = runs.table(&["frame size", ">offered", ">of the line", ">lost", ">came back"]);
    for (report, name) in runs.each() {
        let title = match runs.is_one() {
            true => "Loss against offered load".to_owned(),
            false => format!("Loss against offered load: {name}"),
        };
        let x = Axis::linear("offered load, part of the line rate").from(0.0).to(1.0).format(Format::Percent);
        let y = Axis::linear("frames lost").from(0.0).format(Format::Percent);
        let y = if runs.is_one() { y } else { y.to(1.0) };
        let mut chart = Chart::new(&title, x, y);
        for curve in &report.loss {
            let points = curve.points.iter().map(|point| (point.rate / curve.line_rate, point.loss));
            chart = chart.series(Series::line(&curve.frames.to_string(), points));
            for point in &curve.points {
                let cells = vec![
                    curve.frames.to_string(),
                    Format::Plain.figure(point.rate),
                    percent(point.rate / curve.line_rate),
                    Format::Percent.figure(point.loss),
                    Format::Plain.figure(point.forwarded),
                ];
                table = runs.row(table, name, cells);
            }
        }
        charts.push(chart);
    }
    let text = "From the full load down in tenths, until two trials in a row lost nothing (RFC 2544 section 26.3). “Came back” is of \
                all ports together.";
    let mut section = Section::new("Frame loss").text(text);
    for chart in charts {
        section = section.chart(chart);
    }
    section.table(table)
}

fn back_to_back(runs: &Runs<'_>) -> Section {
    let mut frames = Chart::new("Longest burst without loss", runs.axis(), Axis::log("frames").from(1.0));
    let mut times = Chart::new(
        "Buffer time, corrected",
        runs.axis(),
        Axis::linear("time").from(0.0).format(Format::Nanoseconds),
    );
    let mut table = runs.table(&[
        "frame size",
        ">frames",
        ">min",
        ">max",
        ">deviation",
        ">implied buffer",
        ">corrected buffer",
        ">repetitions",
        "",
    ]);
    for (report, name) in runs.each() {
        let label = runs.series(name, "");
        let rows = || report.back_to_back.iter();
        frames = frames
            .series(Series::bars(&label, rows().map(|row| (runs.place(&row.frames), row.longest.mean))));
        times = times
            .series(Series::bars(&label, rows().map(|row| (runs.place(&row.frames), row.corrected * 1e9))));
        for row in rows() {
            let cells = vec![
                row.frames.to_string(),
                format!("{:.0}", row.longest.mean),
                row.longest.min.to_string(),
                row.longest.max.to_string(),
                format!("{:.1}", row.longest.deviation),
                Format::Nanoseconds.figure(row.implied * 1e9),
                Format::Nanoseconds.figure(row.corrected * 1e9),
                row.longest.repetitions.to_string(),
                if row.longest.all_passed { "the longest sent passed".to_owned() } else { String::new() },
            ];
            table = runs.row(table, name, cells);
        }
    }
    let text = "The longest burst of frames at line rate that passed whole (RFC 9004). The implied buffer is the time of such a \
                burst on the line; corrected, it is less what was forwarded meanwhile.";
    Section::new("Back-to-back frames").text(text).chart(frames).chart(times).table(table)
}

fn recovery(runs: &Runs<'_>) -> Section {
    let mut table = runs.table(&[
        "frame size",
        ">overload",
        ">then",
        ">recovered after",
        ">min",
        ">max",
        ">lost",
        ">repetitions",
    ]);
    for (report, name) in runs.each() {
        for row in &report.recovery {
            let time = |seconds: f64| Format::Nanoseconds.figure(seconds * 1e9);
            let cells = vec![
                row.frames.to_string(),
                Format::Plain.figure(row.overload),
                Format::Plain.figure(row.reduced),
                time(row.mean),
                time(row.min),
                time(row.max),
                Format::Percent.figure(row.loss),
                row.repetitions.to_string(),
            ];
            table = runs.row(table, name, cells);
        }
    }
    let text = "After an overload of 110 % of the throughput the load is halved; from then until the last lost frame was due \
                (RFC 2544 section 26.5).";
    Section::new("System recovery").text(text).table(table)
}

fn reset(runs: &Runs<'_>) -> Section {
    let mut table = runs.table(&["frame size", ">rate", ">lost", ">by lost frames", ">by silence"]);
    for (report, name) in runs.each() {
        for row in &report.reset {
            let cells = vec![
                row.frames.to_string(),
                Format::Plain.figure(row.rate),
                row.lost.to_string(),
                duration(row.by_loss),
                row.by_gap.map_or("–".to_owned(), duration),
            ];
            table = runs.row(table, name, cells);
        }
    }
    let text = "The device is reset under load; how long it did not forward, by the frames that it lost and by the longest \
                silence (RFC 2544 section 26.6, RFC 6201).";
    Section::new("Reset").text(text).table(table)
}

fn notes(runs: &Runs<'_>) -> Section {
    let notes: Vec<String> = (runs.each())
        .flat_map(|(report, name)| {
            report.notes.iter().map(move |note| match runs.is_one() {
                true => note.to_string(),
                false => format!("{name}: {note}"),
            })
        })
        .collect();
    let section = Section::new("Notes");
    if notes.is_empty() { section.text("Nothing was odd about any trial.") } else { section.list(notes) }
}

fn load_name(load: f64) -> String {
    format!("at {} of the throughput", Format::Percent.text(load))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn plural(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('x')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}xes"),
        _ => format!("{count} {what}s"),
    }
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        3600.0.. => {
            format!("{:.0} h {:02.0} min", (seconds / 3600.0).floor(), (seconds % 3600.0 / 60.0).floor())
        }
        60.0.. => format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor()),
        10.0.. => format!("{seconds:.0} s"),
        _ if seconds.is_nan() => "–".to_owned(),
        _ => format!("{seconds:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::simulated::Simulated;
    use crate::{Plan, Test, run};

    fn report(name: &str, capacity: f64) -> Report {
        let plan = Plan { tests: Test::ALL.to_vec(), ..Plan::short(0.01) };
        let mut report =
            run(&mut Simulated::new(capacity), &plan, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
        report.name = name.to_owned();
        report
    }

    /// To look at: `TRIAL_PAGES=/tmp cargo test -p trial pages`.
    fn look(name: &str, html: &str) {
        if let Some(place) = std::env::var_os("TRIAL_PAGES") {
            std::fs::write(std::path::Path::new(&place).join(name), html).unwrap();
        }
    }

    #[test]
    fn pages_of_one_and_of_several_runs() {
        let (one, other) = (report("one core", 2.2e6), report("four cores", 8e6));
        let html = page(std::slice::from_ref(&one)).html();
        look("one.html", &html);
        for text in [
            "Throughput against line rate",
            "imix",
            "Frame loss",
            "Back-to-back",
            "System recovery",
            "Reset",
            "Nothing was odd",
        ] {
            assert!(html.contains(text) || text.starts_with("Nothing"), "{text}");
        }
        assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
        let html = page(&[one.clone(), other, one]).html();
        look("several.html", &html);
        for text in
            ["runs compared", "one core (1)", "one core (2)", "four cores", "<th scope=\"col\">run</th>"]
        {
            assert!(html.contains(text), "{text}");
        }
    }

    #[test]
    fn runs_over_different_lines_have_a_line_rate_each() {
        let one = report("one", 2e6);
        let mut other = one.clone();
        assert!(!page(&[one.clone(), other.clone()]).html().contains("line rate, 10 Gb/s"));
        other.device.line_bits = 1e9;
        let html = page(&[one, other]).html();
        for line in ["line rate, 10 Gb/s", "line rate, 1 Gb/s"] {
            assert!(html.contains(line), "{line}");
        }
    }

    #[test]
    fn an_empty_report_is_a_page_as_well() {
        let plan = Plan { tests: vec![Test::Loss], ..Plan::short(0.01) };
        let mut report =
            run(&mut Simulated::new(1e6), &plan, None, &AtomicBool::new(false), &mut |_| {}).unwrap();
        report.loss.clear();
        assert!(page(&[report]).html().contains("Nothing was odd"));
        assert!(page(&[]).html().contains("Notes"));
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        assert_eq!(duration(0.0123), "0.012 s");
        assert_eq!(duration(75.4), "1 min 15 s");
        assert_eq!(duration(7322.0), "2 h 02 min");
        assert_eq!(
            (plural(1, "prefix"), plural(2, "prefix"), plural(3, "port")),
            ("1 prefix".into(), "2 prefixes".into(), "3 ports".into())
        );
    }
}
