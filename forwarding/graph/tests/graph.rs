//! Graphs as their users build and run them.

use std::sync::{Arc, Mutex};

use fib::PortId;
use graph::drawing::{self, Picture};
use graph::{Batch, Context, Element, GraphBuilder, Hand, NodeId, Observer, Sinks};
use port::{Packet, Pool};
use wire::{Class, Reason};

/// Does with each packet what its first byte says.
struct ByFirstByte;

impl Element for ByFirstByte {
    fn class(&self) -> &'static str {
        "ByFirstByte"
    }

    fn outputs(&self) -> &'static [&'static str] {
        &["again", "other"]
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for mut packet in batch.drain() {
            match packet.data()[0] {
                b'd' => cx.drop(packet, Reason::NoRoute),
                b'p' => cx.punt(packet, Class::Unresolved, Hand::Receive),
                b't' => {
                    packet.output = fib::InterfaceId(1);
                    cx.transmit(packet);
                }
                b'c' => cx.emit(0, packet),
                b'x' => (0..100).for_each(|_| cx.emit(1, Packet::new(b"t").unwrap())),
                b'o' if input == 0 => cx.emit(1, packet),
                _ => cx.transmit(packet),
            }
        }
    }
}

fn graph() -> (graph::Graph, NodeId, Sinks) {
    let mut builder = GraphBuilder::new();
    let first = builder.element("first", ByFirstByte);
    let second = builder.element("second", ByFirstByte);
    builder.connect(first, 0, first, 0).connect(first, 1, second, 1);
    builder.connect(second, 0, first, 0).connect(second, 1, first, 1);
    let mut sinks = Sinks::new();
    sinks.open(PortId(1));
    (builder.build().unwrap(), first, sinks)
}

fn batch(packets: &[&str]) -> Batch {
    let mut batch = Batch::new();
    for text in packets {
        batch.push(Packet::new(text.as_bytes()).unwrap()).unwrap();
    }
    batch
}

#[test]
fn every_packet_is_counted_where_it_ends() {
    Pool::heap(400).install();
    let (mut graph, first, mut sinks) = graph();
    graph.counters().measure(true);
    graph.run(first, &mut batch(&["d", "p", "t", "c", "o", "x", "d"]), &mut sinks);
    let counters = graph.counters();
    let (one, two) = (counters.node(first).unwrap(), counters.node(NodeId(1)).unwrap());
    assert_eq!((one.dropped(Reason::NoRoute), one.punted(Class::Unresolved), one.transmitted()), (2, 1, 1));
    assert_eq!(one.dropped(Reason::TtlExpired), 1, "what circles is dropped");
    assert_eq!((two.dropped(Reason::PortDown), two.transmitted(), two.packets()), (1, 100, 101));
    assert_eq!(two.batches(), 2, "the join runs once for all that fits a batch");
    assert!(two.cycles() > 0 && two.measured_packets() == 101);
    let mut sent = 0;
    sinks.transmit(|port, packets| {
        assert_eq!(port, PortId(1));
        sent += packets.drain(..).count();
    });
    assert_eq!((sent, sinks.punts().count()), (101, 1));
    assert_eq!(port::pool::available(), 400, "nothing leaks");
}

#[test]
fn order_is_kept() {
    Pool::heap(400).install();
    let (mut graph, first, mut sinks) = graph();
    let names: Vec<String> = (0..64).map(|i| format!("t{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    graph.run(first, &mut batch(&names), &mut sinks);
    sinks.transmit(|_, packets| {
        let sent: Vec<Vec<u8>> = packets.drain(..).map(|packet| packet.to_vec()).collect();
        assert_eq!(sent, names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>());
    });
}

#[test]
fn an_observer_sees_every_step() {
    struct Log(Arc<Mutex<Vec<String>>>);
    impl Observer for Log {
        fn entered(&mut self, node: NodeId, input: usize, batch: &Batch) {
            self.0.lock().unwrap().push(format!("{} packets enter {}[{input}]", batch.len(), node.0));
        }
        fn dropped(&mut self, node: NodeId, packet: &Packet, reason: Reason) {
            self.0.lock().unwrap().push(format!("{} drops {} {reason}", node.0, packet.len()));
        }
        fn transmitted(&mut self, node: NodeId, _packet: &Packet) {
            self.0.lock().unwrap().push(format!("{} transmits", node.0));
        }
        fn punted(&mut self, node: NodeId, _packet: &Packet, class: Class) {
            self.0.lock().unwrap().push(format!("{} punts {class}", node.0));
        }
    }
    Pool::heap(8).install();
    let (mut graph, first, mut sinks) = graph();
    let log = Arc::new(Mutex::new(Vec::new()));
    graph.observe(Some(Box::new(Log(log.clone()))));
    graph.run(first, &mut batch(&["dd", "p", "t", "o"]), &mut sinks);
    assert!(graph.observe(None).is_some());
    graph.run(first, &mut batch(&["d"]), &mut sinks);
    let expected = [
        "4 packets enter 0[0]",
        "0 drops 2 no_route",
        "0 punts unresolved",
        "0 transmits",
        "1 packets enter 1[1]",
    ];
    assert_eq!(log.lock().unwrap()[..5], expected);
    assert_eq!(log.lock().unwrap().len(), 7, "then the transmission that failed and its drop, and no more");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut builder = GraphBuilder::new();
    let one = builder.element("one", ByFirstByte);
    let two = builder.element("one", ByFirstByte);
    builder.link(one, "other", two).link(one, "other", two).link(one, "oter", two).connect(one, 0, two, 2);
    builder.connect(one, 0, NodeId(9), 0);
    let mistakes = builder.build().err().unwrap().0;
    let has =
        |text: &str| assert!(mistakes.iter().any(|m| m.to_string().contains(text)), "{text}: {mistakes:?}");
    has("two elements are named `one`");
    has("`other` of `one` is connected twice");
    has("no output `oter`; it has again, other");
    has("no input 2; it has 2");
    has("node 9");
    has("output `again` of `one` leads nowhere");
    assert_eq!(mistakes.len(), 8);
}

#[test]
fn the_description_reads_as_click_and_draws() {
    let (graph, ..) = graph();
    let description = graph.description();
    let text = description.to_string();
    assert!(
        text.starts_with("first :: ByFirstByte;\nsecond :: ByFirstByte;\nfirst[0] -> first;  // again\n"),
        "{text}"
    );
    assert!(text.contains("first[1] -> [1]second;  // other"));
    let dot = drawing::dot(&Picture::from(&*description));
    assert!(dot.contains("\"first\":o1:s -> \"second\":i1:n [label=\"other\"];"), "{dot}");
}
