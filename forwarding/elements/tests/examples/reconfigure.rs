//! Elements that take another configuration while they run: those that Click's take it, and no
//! others.

use std::collections::{BTreeMap, BTreeSet};

use graph::{Description, Graph, HandlerError, Sinks};

use crate::run::Bench;
use crate::text;

/// The classes for which Click allows it: an element that has its least inputs and `outputs`,
/// arguments that are right, others that are right as well, and wrong ones.
const CLASSES: &[(&str, usize, &str, &str, &str)] = &[
    ("ARPQuerier", 1, "1.0.0.1, 1:1:1:1:1:1", "1.0.0.2, 1:1:1:1:1:2", "1.0.0.1"),
    ("ARPResponder", 1, "1.0.0.1 1:1:1:1:1:1", "1.0.0.0/8 1:1:1:1:1:2", "1.0.0.1"),
    ("ARPTable", 0, "CAPACITY 3", "TIMEOUT 1s", "CAPACITY many"),
    ("BandwidthRatedSplitter", 2, "1kBps", "2kBps", ""),
    ("BandwidthRatedUnqueue", 1, "1kBps", "2kBps", ""),
    ("BandwidthShaper", 1, "1kBps", "2kBps", ""),
    ("Classifier", 2, "12/0800, -", "12/0806, -", "12/0800"),
    ("EtherEncap", 1, "0x800, 1:1:1:1:1:1, 2:2:2:2:2:2", "0x806, 1:1:1:1:1:1, 2:2:2:2:2:2", "0x800"),
    ("EtherRewrite", 1, "1:1:1:1:1:1, 2:2:2:2:2:2", "2:2:2:2:2:2, 1:1:1:1:1:1", "1:1:1:1:1:1"),
    ("EtherVLANEncap", 1, "0x800, 1:1:1:1:1:1, 2:2:2:2:2:2, 7", "0x800, 1:1:1:1:1:1, 2:2:2:2:2:2, 8", "7"),
    ("FrontDropQueue", 1, "5", "6", "many"),
    ("FullNoteQueue", 1, "5", "6", "many"),
    ("HostEtherFilter", 1, "1:1:1:1:1:1", "1:1:1:1:1:2", ""),
    ("ICMPError", 1, "1.0.0.1, 11", "1.0.0.2, unreachable, host", "1.0.0.1"),
    ("IPClassifier", 2, "tcp, -", "udp, -", "tcp"),
    ("IPEncap", 1, "4, 1.0.0.1, 2.0.0.2", "udp, 1.0.0.1, DST_ANNO, TTL 3", "4, 1.0.0.1"),
    ("IPFilter", 1, "allow tcp", "deny tcp, allow all", "perhaps tcp"),
    ("InfiniteSource", 1, "LIMIT 0", "abc, 0, 2", "BURST 0"),
    ("MixedQueue", 1, "5", "6", "many"),
    ("NotifierQueue", 1, "5", "6", "many"),
    ("Pad", 1, "60", "64, ZERO false", "many"),
    ("Paint", 1, "1", "2", "red"),
    ("Print", 1, "a", "b, CONTENTS ASCII", "a, CONTENTS MAYBE"),
    ("PullSwitch", 1, "0", "-1", "up"),
    ("Queue", 1, "5", "6", "many"),
    ("QuickNoteQueue", 1, "5", "6", "many"),
    ("RED", 1, "2, 5, 0.5, QUEUES q", "3, 5, 0.25, STABILITY 2", "5, 2, 0.5"),
    ("RandomSample", 2, "0.5", "DROP 0.25", "2"),
    ("RandomSource", 1, "64, 0", "65, 0", ""),
    ("RatedSplitter", 2, "10", "20, BURST_SIZE 3", ""),
    ("RatedUnqueue", 1, "10", "20, BURST_SIZE 3", ""),
    ("Resize", 1, "1, 2", "-1, -2", "one"),
    ("SetAnnoByte", 1, "3, 4", "PAINT, 5", "100, 4"),
    ("SetIP6DSCP", 1, "3", "4", "64"),
    ("SetIPAddress", 1, "1.0.0.1", "1.0.0.2", ""),
    ("SetIPDSCP", 1, "3", "4", "64"),
    ("SetIPECN", 1, "ce", "no", "4"),
    ("SetPacketType", 1, "HOST", "OUTGOING", "GUEST"),
    ("SetVLANAnno", 1, "7", "VLAN_ID 8, VLAN_PCP 2", "seven"),
    ("Shaper", 1, "10", "20", ""),
    ("SimplePullSwitch", 1, "0", "-1", "up"),
    ("SimpleQueue", 1, "5", "6", "many"),
    ("StrideSched", 1, "5", "6", "5, 6"),
    ("StrideSwitch", 2, "5, 6", "6, 5", "5"),
    ("StripEtherVLANHeader", 1, "7", "-1", "seven"),
    ("Switch", 2, "0", "1", "up"),
    ("ThreadSafeQueue", 1, "5", "6", "many"),
    ("Truncate", 1, "10", "20", "many"),
    ("UDPIPEncap", 1, "1.0.0.1, 1, 2.0.0.2, 2", "1.0.0.1, 1, DST_ANNO, 2, false", "1.0.0.1, 1"),
];

/// What the handlers of an element say that need no argument.
fn handlers(graph: &mut Graph, sinks: &mut Sinks, name: &str) -> Result<BTreeMap<String, String>, String> {
    let all = graph.handlers(name, sinks).map_err(|error| error.to_string())?;
    let read = all.iter().filter(|handler| handler.reads && !handler.takes_argument && handler.name != "*");
    let mut values = BTreeMap::new();
    for handler in read {
        if let Ok(value) = graph.read_handler(&format!("{name}.{}", handler.name), "", sinks) {
            values.insert(handler.name.to_string(), value);
        }
    }
    Ok(values)
}

fn write(graph: &mut Graph, sinks: &mut Sinks, name: &str, value: &str) -> Result<(), HandlerError> {
    graph.write_handler(&format!("{name}.config"), value, sinks)
}

/// An element of every class takes what it has and something else, and refuses what is wrong.
pub fn takes_what_is_right() -> Result<(), String> {
    for &(class, outputs, given, other, wrong) in CLASSES {
        let failed = |what: &str, error: String| format!("{class}({what}): {error}");
        let mut bench = Bench::start(&around(class, outputs, given), false)?;
        let (graph, sinks) = bench.parts();
        let before = handlers(graph, sinks, "e")?;
        if !before["handlers"].lines().any(|line| line.starts_with("config\trw")) {
            return Err(failed(given, "its config handler is not writable".to_owned()));
        }
        let error = match write(graph, sinks, "e", wrong) {
            Ok(()) => return Err(failed(wrong, "was not refused".to_owned())),
            Err(error) => error,
        };
        if !matches!(error, HandlerError::Refused(ref reason) if !reason.is_empty()) {
            return Err(failed(wrong, format!("refused, but for: {error}")));
        }
        same(&before, &handlers(graph, sinks, "e")?).map_err(|error| failed(wrong, error))?;
        let present = before["config"].clone();
        write(graph, sinks, "e", &present).map_err(|error| failed(&present, error.to_string()))?;
        same(&before, &handlers(graph, sinks, "e")?).map_err(|error| failed(&present, error))?;
        write(graph, sinks, "e", other).map_err(|error| failed(other, error.to_string()))?;
        // It is what it would be if it had been made so.
        let mut made = Bench::start(&around(class, outputs, other), false)?;
        let (other_graph, other_sinks) = made.parts();
        let mut expected = handlers(other_graph, other_sinks, "e")?;
        if class == "RED" {
            // Which has other queues at hand than the one it was made with.
            expected.insert("queues".to_owned(), before["queues"].clone());
        }
        same(&expected, &handlers(graph, sinks, "e")?).map_err(|error| failed(other, error))?;
    }
    Ok(())
}

/// A program around an element: something that pushes or is pulled from at every port.
fn around(class: &str, outputs: usize, arguments: &str) -> String {
    if class == "RED" {
        return format!("ExampleSource -> e :: RED({arguments}) -> q :: Queue -> Discard;");
    }
    let ports = crate::run::registry().find(class).map_or("1/1", |class| class.ports);
    let inputs = match ports.split('/').next() {
        Some("0") => 0,
        Some("2") => 2,
        _ => 1,
    };
    let mut text = format!("e :: {class}({arguments});\n");
    for input in 0..inputs {
        text += &format!("ExampleSource -> [{input}] e;\n");
    }
    for output in 0..outputs {
        text += &format!("e [{output}] -> ExampleSink;\n");
    }
    text
}

fn same(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Result<(), String> {
    let changed = one.iter().find(|(name, value)| other.get(*name) != Some(value));
    match changed {
        Some((name, value)) => Err(format!("{name} was\n{value}\nand is\n{:?}", other.get(name))),
        None if one.len() != other.len() => Err("it has other handlers".to_owned()),
        None => Ok(()),
    }
}

/// Every element of every example takes its own configuration and stays as it is, or, where Click's
/// does not, refuses it.
pub fn nothing_else_does() -> Result<(), String> {
    let classes: BTreeSet<&str> = CLASSES.iter().map(|class| class.0).collect();
    for (_, file) in elements::examples::FILES {
        for example in text::parse(file)? {
            // Some are to be refused.
            let Ok(mut bench) = Bench::of(&example, false) else { continue };
            let (graph, sinks) = bench.parts();
            let description: std::sync::Arc<Description> = graph.description();
            for node in &description.nodes {
                let failed = |error: String| {
                    format!("{} :: {} of '{}': {error}", node.name, node.class, example.title)
                };
                let before = handlers(graph, sinks, &node.name)?;
                let written = write(graph, sinks, &node.name, &before["config"]);
                match (written, classes.contains(node.class)) {
                    (Ok(()), true) | (Err(HandlerError::ReadOnly(_)), false) => {}
                    (Ok(()), false) => return Err(failed("took a configuration".to_owned())),
                    (Err(error), _) => return Err(failed(error.to_string())),
                }
                let after = handlers(graph, sinks, &node.name)?;
                same(&before, &after).map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// What was written counts until another program takes the place of this one, which says it anew.
pub fn forgets() -> Result<(), String> {
    let start = || Bench::start("ExampleSource -> e :: Paint(1) -> ExampleSink", false);
    let (mut bench, next) = (start()?, start()?.into_graph());
    let (graph, sinks) = bench.parts();
    let read = |graph: &mut Graph, sinks: &mut Sinks, handler: &str| {
        graph.read_handler(&format!("e.{handler}"), "", sinks).map_err(|error| error.to_string())
    };
    write(graph, sinks, "e", "2").map_err(|error| error.to_string())?;
    assert_eq!((read(graph, sinks, "config")?, read(graph, sinks, "color")?), ("2".into(), "2".into()));
    let flat = graph.read_handler("flatconfig", "", sinks).map_err(|error| error.to_string())?;
    assert!(flat.contains("e :: Paint(2);"), "{flat}");
    graph.change_to(next, sinks).map_err(|refused| format!("{refused:?}"))?;
    assert_eq!((read(graph, sinks, "config")?, read(graph, sinks, "color")?), ("1".into(), "1".into()));
    Ok(())
}
