//! Trials over a veth pair between two hosts in namespaces: the kernel's live frames out, its judging program in.

use std::time::Duration;

use lab::{Host, Lab};
use traffic::{Port, Report, Stream, Trial};

struct Pair {
    _lab: Lab,
    hosts: [Host; 2],
}

impl Pair {
    fn new(name: &str) -> Pair {
        let lab = Lab::new(name).unwrap();
        let hosts = [lab.host("a").unwrap(), lab.host("b").unwrap()];
        lab.link(hosts[0].end("veth0"), hosts[1].end("veth1")).unwrap();
        Pair { _lab: lab, hosts }
    }

    fn port(&self, kind: &str, end: usize) -> Port {
        Port::open(&format!("{kind}veth{end}@{}", self.hosts[end].namespace()), false).unwrap()
    }

    fn trial(&self, kinds: [&str; 2], streams: &str, duration: f64) -> Report {
        let trial = Trial {
            streams: Stream::parse_all(streams).unwrap(),
            to: Some(self.port(kinds[1], 1)),
            duration: Some(Duration::from_secs_f64(duration)),
            ..Trial::new(self.port(kinds[0], 0))
        };
        trial.run().unwrap()
    }
}

/// A schedule's own rate is exact; what is measured is whether all that was due has left when the second is over.
fn within(got: f64, wanted: f64, part: f64) -> bool {
    (got - wanted).abs() <= wanted * part
}

#[test]
fn live_frames_arrive_whole_in_order_and_at_their_rate() {
    let pair = Pair::new("trl");
    let streams = "
        [[stream]]
        name = 'small'
        rate = '100kpps'
        flows = 1000
        destination = 'random 10.0.0.0/8'
        fill = 'count'
        [[stream]]
        name = 'mix'
        size = 'imix'
        rate = '50Mbps'
        pattern = 'poisson'
        flows = 64
        flow_length = 10
        fill = 'count'
        [[stream]]
        name = 'six'
        size = '88-1518'
        rate = '10kpps'
        pattern = 'burst 10 gap 1ms'
        source = '2001:db8::1'
        destination = '2001:db8:1::/64'
        protocol = 'icmp'
        vlan = [7]
        fill = 'count'
    ";
    let report = pair.trial(["", ""], streams, 1.0);
    assert_eq!(report.sender, "live frames");
    assert_eq!(report.receiver.as_deref(), Some("program in the driver"));
    for stream in &report.streams {
        assert_eq!(stream.lost, Some(0), "{}", stream.name);
        assert_eq!((stream.duplicates, stream.corrupt), (Some(0), Some(0)), "{}", stream.name);
        assert_eq!(stream.reordering.unwrap().packets, 0, "{}", stream.name);
        assert_eq!(stream.received.unwrap(), stream.sent, "{}", stream.name);
        assert_eq!(stream.latency.as_ref().unwrap().count, stream.sent.packets);
    }
    let small = &report.streams[0];
    assert!(within(small.sent_rate, 100e3, 1e-3), "{}", small.sent_rate);
    assert!(within(report.streams[1].sent.layer1_bits() as f64, 50e6, 0.1));
}
