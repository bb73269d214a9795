//! The Prometheus endpoint says what Prometheus reads without complaint, and a stuck scraper hurts
//! nobody.

mod rig;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bifrost::metrics::{Format, Metrics, render};
use rig::Fake;

fn start(fake: Arc<Fake>) -> Metrics {
    Metrics::start("127.0.0.1:0".parse().unwrap(), fake).unwrap()
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    get_as(address, path, "*/*")
}

fn get_as(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn a_scrape_is_answered() {
    let fake = Arc::new(Fake::default());
    let metrics = start(fake.clone());
    let (head, body) = get(metrics.address(), "/metrics");
    assert!(head.starts_with("http/1.1 200"));
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(body, render(&*fake, Format::Plain).unwrap());
    let (head, body) = get_as(metrics.address(), "/metrics", "application/openmetrics-text;version=1.0.0");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert_eq!(body, render(&*fake, Format::OpenMetrics).unwrap());
    assert!(get(metrics.address(), "/other").0.starts_with("http/1.1 404"));
    fake.broken.store(true, Relaxed);
    assert!(get(metrics.address(), "/metrics").0.starts_with("http/1.1 503"));
}

#[test]
fn scrapers_that_say_nothing_do_not_keep_others_out() {
    let metrics = start(Arc::new(Fake::default()));
    let _silent: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(metrics.address()).unwrap()).collect();
    assert!(get(metrics.address(), "/metrics").0.starts_with("http/1.1 200"));
    drop(metrics); // ends at once, with them in it
}

/// A reader of OpenMetrics 1.0 text, strict about what Bifrost uses of it.
fn parse(text: &str) -> HashMap<String, f64> {
    let name_is_sound = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut samples = HashMap::new();
    let mut families = HashSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').unwrap();
            assert!(name_is_sound(name) && families.insert(name.to_owned()), "{line}");
            assert!(["counter", "gauge", "info"].contains(&of) && !name.ends_with("_total"), "{line}");
            (family, kind) = (name.to_owned(), of.to_owned());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{family} ")), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let suffix = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert_eq!(name, format!("{family}{suffix}"), "a sample stands under its family");
        if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let labels = labels.strip_prefix('{').and_then(|l| l.strip_suffix('}')).expect(line);
            for label in split_labels(labels) {
                let (label, value) = label.split_once('=').expect(line);
                assert!(name_is_sound(label) && value.len() >= 2, "{line}");
                assert!(value.starts_with('"') && value.ends_with('"'), "{line}");
            }
        }
        let value: f64 = value.parse().expect(line);
        assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
        assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

fn split_labels(text: &str) -> Vec<String> {
    let (mut labels, mut label, mut quoted, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        if c == ',' && !quoted {
            labels.push(std::mem::take(&mut label));
            continue;
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        label.push(c);
    }
    assert!(!quoted, "{text}");
    labels.push(label);
    labels
}

#[test]
fn the_text_is_openmetrics() {
    let samples = parse(&render(&Fake::default(), Format::OpenMetrics).unwrap());
    let expected = [
        ("bifrost_port_packets_total{port=\"eth0\",lane=\"express\",direction=\"received\"}", 1_000_000.0),
        ("bifrost_port_up{port=\"eth1\"}", 0.0),
        ("bifrost_drops_total{port=\"eth0\",lane=\"express\",element=\"\",reason=\"no_route\"}", 40.0),
        ("bifrost_worker_busy_seconds_total{worker=\"0\"}", 1.5),
        ("bifrost_class_packets_total{class=\"icmp\",verdict=\"dropped\"}", 1_234.0),
        ("bifrost_routes{origin=\"bgp\",family=\"ipv4\"}", 200_000.0),
        ("bifrost_audit_differences_total", 1.0),
        ("bifrost_fpm_connected", 1.0),
        ("bifrost_flow_log_flows_total{fate=\"missed\"}", 3.0),
        ("bifrost_flow_log_records_total{output=\"files\"}", 4_700.0),
        ("bifrost_flow_log_lost_total{output=\"ipfix udp 192.0.2.9:4739\",reason=\"send\"}", 20.0),
        ("bifrost_build_info{version=\"0.1.0\"}", 1.0),
    ];
    for (series, value) in expected {
        assert_eq!(samples.get(series), Some(&value), "{series}");
    }
    assert!(
        !samples.contains_key("bifrost_port_bytes_total{port=\"eth0\",lane=\"linux\",direction=\"sent\"}")
    );
}

/// What `promtool check metrics` looks for in the plain format: it must parse, and its linter must
/// have nothing to say.
fn complaints(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut helped, mut typed, mut series) = (HashSet::new(), HashMap::new(), HashSet::new());
    let (mut closed, mut current) = (HashSet::new(), String::new());
    for line in text.lines() {
        let name = match line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")) {
            Some(rest) => rest.split(' ').next().unwrap(),
            None => line.split(['{', ' ']).next().unwrap(),
        };
        if name != current && !closed.insert(std::mem::replace(&mut current, name.to_owned())) {
            wrong.push(format!("{name}: its lines do not stand together"));
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let help = rest.split_once(' ').map_or("", |(_, help)| help);
            if help.is_empty() || !helped.insert(name.to_owned()) {
                wrong.push(format!("{name}: no help, or twice"));
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let kind = rest.split_once(' ').map_or("", |(_, kind)| kind);
            if !["counter", "gauge"].contains(&kind)
                || typed.insert(name.to_owned(), kind == "counter").is_some()
            {
                wrong.push(format!("{name}: type {kind:?}, or twice"));
            }
        } else if line.starts_with('#') {
            wrong.push(format!("{line}: a comment that says nothing"));
        } else {
            let place = line.rsplit_once(' ').map(|(place, _)| place.to_owned());
            if !place.is_some_and(|place| series.insert(place)) {
                wrong.push(format!("{line}: twice, or without a value"));
            }
        }
    }
    let sampled = series.iter().map(|line| line.split('{').next().unwrap().to_owned());
    for name in sampled.collect::<HashSet<_>>() {
        if !helped.contains(&name) || !typed.contains_key(&name) {
            wrong.push(format!("{name}: samples without help and type"));
        }
    }
    for (name, is_counter) in &typed {
        if *is_counter != name.ends_with("_total") {
            wrong.push(format!("{name}: counters end with _total, and nothing else does"));
        }
        let words: Vec<&str> = name.split('_').collect();
        let end = *words.last().unwrap();
        if ["count", "sum", "bucket"].contains(&end) || name.contains(':') {
            wrong.push(format!("{name}: an ending of histograms, or a colon"));
        }
        if name.chars().any(char::is_uppercase) {
            wrong.push(format!("{name}: not in snake case"));
        }
        // Base units, in full, and no types in names.
        let refused = [
            "ns",
            "us",
            "ms",
            "s",
            "nanoseconds",
            "microseconds",
            "milliseconds",
            "minutes",
            "hours",
            "days",
            "kb",
            "mb",
            "gb",
            "b",
            "bits",
            "kilobytes",
            "megabytes",
            "gigabytes",
            "percent",
            "pct",
            "counter",
            "gauge",
            "histogram",
            "summary",
        ];
        if words.iter().any(|word| refused.contains(word)) {
            wrong.push(format!("{name}: not a base unit, a unit in short, or a type in its name"));
        }
    }
    wrong
}

#[test]
fn promtool_has_nothing_to_complain_of() {
    let plain = render(&Fake::default(), Format::Plain).unwrap();
    assert!(plain.contains("# TYPE bifrost_port_packets_total counter\n# HELP bifrost_port_packets_total "));
    assert!(plain.contains("# TYPE bifrost_build_info gauge\n# HELP bifrost_build_info "));
    assert_eq!(complaints(&plain), Vec::<String>::new());
    // The tool itself, where it is installed.
    let tool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    if let Ok(mut tool) = tool {
        tool.stdin.take().unwrap().write_all(plain.as_bytes()).unwrap();
        assert!(tool.wait().unwrap().success(), "promtool complains");
    }
    // Both formats have the same samples.
    let samples = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(samples(&plain), samples(&render(&Fake::default(), Format::OpenMetrics).unwrap()));
    // The reader itself: OpenMetrics is not what promtool reads, nor is what else goes wrong.
    assert!(!complaints(&render(&Fake::default(), Format::OpenMetrics).unwrap()).is_empty());
    for bad in [
        "# HELP a_x x\n# TYPE a_x counter\na_x 1\n",
        "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a x\na 1\n",
        "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n",
        "# HELP a x\n# TYPE a gauge\n# HELP b x\n# TYPE b gauge\nb 1\na 1\n",
    ] {
        assert!(!complaints(bad).is_empty(), "{bad}");
    }
}

#[test]
fn every_family_is_documented() {
    let document = include_str!("../../../docs/metrics.md");
    for line in render(&Fake::default(), Format::OpenMetrics)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let (name, kind) = line.split_once(' ').unwrap();
        let suffix = if kind == "counter" {
            "_total"
        } else if kind == "info" {
            "_info"
        } else {
            ""
        };
        assert!(document.contains(&format!("`{name}{suffix}")), "{name} is not in docs/metrics.md");
    }
}
