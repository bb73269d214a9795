//! Which port goes to which, where sets of elements are connected.
//!
//! `a [0,1] => b, c` connects ports one by one. `a -> b, c` and `a, b -> c` connect one port to
//! each of many. `=>` may stretch one side to the length of the other: a list of ports that goes
//! on, as in `[2,]` or `[]`, or an element without written ports.

use super::body::Port;
use super::report::{Report, Span};

/// An element of a set, with its ports on both sides.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub element: usize,
    pub inputs: Ports,
    pub outputs: Ports,
    pub at: Span,
}

/// The ports written on one side of an element.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    /// The numbers; none means port 0.
    pub numbers: Vec<usize>,
    /// Whether the numbers go on as far as needed.
    pub open: bool,
}

impl End {
    fn ports(&self, side: usize) -> &Ports {
        if side == 0 { &self.inputs } else { &self.outputs }
    }
}

/// The pairs that connecting the outputs of one set to the inputs of the next makes.
pub(super) fn pairs(
    from: &[End],
    to: &[End],
    many: bool,
    at: Span,
    report: &mut Report,
) -> Vec<(Port, Port)> {
    // Side 0 is the inputs, side 1 the outputs.
    let sets = [to, from];
    let least =
        [0, 1].map(|side| sets[side].iter().map(|end| end.ports(side).numbers.len().max(1)).sum::<usize>());
    let mut open = [0, 1].map(|side| sets[side].iter().filter(|end| end.ports(side).open).count());
    if open[0] + open[1] > 1 {
        report.error(Some(at), "at most one expandable port allowed per connection");
        open[usize::from(least[0] < least[1])] = 0;
    }
    let mut stretch = open.map(|count| count > 0);
    if many {
        for side in [0, 1] {
            let unwritten = matches!(sets[side], [only] if only.ports(side).numbers.is_empty());
            stretch[side] |= unwritten && least[1 - side] > 1;
        }
    }
    let plural = [0, 1].map(|side| least[side] > 1 || stretch[side]);
    if plural == [true, true] {
        check_counts(least, stretch, many, at, report);
    }

    let lists = [0, 1].map(|side| {
        let more = if stretch[side] { least[1 - side].saturating_sub(least[side]) } else { 0 };
        list(sets[side], side, more)
    });
    let [inputs, outputs] = lists;
    match plural {
        [true, true] => outputs.into_iter().zip(inputs).collect(),
        [_, false] => {
            outputs.first().map_or(Vec::new(), |&out| inputs.into_iter().map(|into| (out, into)).collect())
        }
        [false, true] => {
            inputs.first().map_or(Vec::new(), |&into| outputs.into_iter().map(|out| (out, into)).collect())
        }
    }
}

fn check_counts(least: [usize; 2], stretch: [bool; 2], many: bool, at: Span, report: &mut Report) {
    let [inputs, outputs] = least;
    if !many {
        report.error(Some(at), "syntax error: many-to-many connections require '=>'");
    }
    let mismatch = match stretch {
        [false, false] if inputs != outputs => {
            format!("connection mismatch: {outputs} outputs connected to {inputs} inputs")
        }
        [false, _] if inputs < outputs => {
            format!("connection mismatch: {outputs} or more outputs connected to {inputs} inputs")
        }
        [_, false] if outputs < inputs => {
            format!("connection mismatch: {outputs} outputs connected to {inputs} or more inputs")
        }
        _ => return,
    };
    report.error(Some(at), mismatch);
}

/// One side's ports in order; `more` of them are added where the numbers go on.
fn list(set: &[End], side: usize, mut more: usize) -> Vec<Port> {
    let alone = set.len() == 1;
    let mut list = Vec::new();
    for end in set {
        let ports = end.ports(side);
        let element = end.element;
        list.extend(ports.numbers.iter().map(|&port| Port { element, port }));
        if ports.numbers.is_empty() {
            list.push(Port { element, port: 0 });
        }
        if ports.open || (ports.numbers.is_empty() && alone) {
            let last = ports.numbers.last().copied().unwrap_or(0);
            list.extend((0..more).map(|further| Port { element, port: last + 1 + further }));
            more = 0;
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements by number with the ports of one side: `1`, `2[0,1]`, `3[2+]`.
    fn set(written: &str, side: usize) -> Vec<End> {
        let end = |word: &str| {
            let (element, ports) = word.split_once('[').unwrap_or((word, "]"));
            let ports = ports.trim_end_matches(']');
            let numbers =
                ports.trim_end_matches('+').split(',').filter_map(|port| port.parse().ok()).collect();
            let ports = Ports { numbers, open: ports.ends_with('+') };
            let (inputs, outputs) =
                if side == 0 { (ports, Ports::default()) } else { (Ports::default(), ports) };
            End { element: element.parse().unwrap(), inputs, outputs, at: Span::default() }
        };
        written.split(' ').map(end).collect()
    }

    fn connected(from: &str, arrow: &str, to: &str) -> (String, usize) {
        let mut report = Report::new();
        let pairs = pairs(&set(from, 1), &set(to, 0), arrow == "=>", Span::default(), &mut report);
        let port = |port: Port| format!("{}.{}", port.element, port.port);
        let pairs: Vec<String> =
            pairs.into_iter().map(|(from, to)| format!("{}-{}", port(from), port(to))).collect();
        (pairs.join(" "), report.errors())
    }

    #[test]
    fn one_port_goes_to_each_of_many() {
        assert_eq!(connected("1", "->", "2"), ("1.0-2.0".to_owned(), 0));
        assert_eq!(connected("1[3]", "->", "2 3[1,4]"), ("1.3-2.0 1.3-3.1 1.3-3.4".to_owned(), 0));
        assert_eq!(connected("1 2[5]", "->", "3"), ("1.0-3.0 2.5-3.0".to_owned(), 0));
    }

    #[test]
    fn many_ports_go_to_many_one_by_one() {
        assert_eq!(connected("1[0,2] 2", "=>", "3 4[1,2]"), ("1.0-3.0 1.2-4.1 2.0-4.2".to_owned(), 0));
        assert_eq!(connected("1[0,1]", "->", "2[0,1]"), ("1.0-2.0 1.1-2.1".to_owned(), 1));
        assert_eq!(connected("1[0,1]", "=>", "2[0,1,2]"), ("1.0-2.0 1.1-2.1".to_owned(), 1));
    }

    #[test]
    fn one_side_stretches() {
        assert_eq!(connected("1", "=>", "2 3 4"), ("1.0-2.0 1.1-3.0 1.2-4.0".to_owned(), 0));
        assert_eq!(connected("1[0,1,2]", "=>", "2"), ("1.0-2.0 1.1-2.1 1.2-2.2".to_owned(), 0));
        assert_eq!(connected("1[4+]", "=>", "2 3[1,2]"), ("1.4-2.0 1.5-3.1 1.6-3.2".to_owned(), 0));
        assert_eq!(connected("1[0+] 2[3]", "=>", "3[0,1,2]"), ("1.0-3.0 1.1-3.1 2.3-3.2".to_owned(), 0));
        assert_eq!(connected("1[0+]", "->", "2[1]"), ("1.0-2.1".to_owned(), 0));
        assert_eq!(connected("1[0+]", "=>", "2[0+]").1, 1);
        assert_eq!(connected("1[0,1,2+]", "=>", "2 3"), ("1.0-2.0 1.1-3.0".to_owned(), 1));
    }
}
