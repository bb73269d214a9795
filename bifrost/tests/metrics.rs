//! The Prometheus endpoint says valid OpenMetrics, and a stuck scraper hurts nobody.

mod rig;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bifrost::metrics::{Metrics, render};
use rig::Fake;

fn start(fake: Arc<Fake>) -> Metrics {
    Metrics::start("127.0.0.1:0".parse().unwrap(), fake).unwrap()
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
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
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert_eq!(body, render(&*fake).unwrap());
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
    let samples = parse(&render(&Fake::default()).unwrap());
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

#[test]
fn every_family_is_documented() {
    let document = include_str!("../../docs/metrics.md");
    for line in render(&Fake::default()).unwrap().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
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
