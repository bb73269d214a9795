//! Who passes packets on at each port, and whether the connections fit.
//!
//! A class says of each port push, pull or agnostic. What is agnostic takes the kind of what it is
//! connected to, and hands it on to the other agnostic ports of its element that packets pass to;
//! this goes on until nothing changes, and what is still open then is push. Click's two rules are
//! checked on the way: a push output and a pull input take exactly one connection, and a push never
//! meets a pull without a queue in between.

use crate::language::{Flat, Report};
use crate::{Class, Flow};

/// The ports of one element of a flat configuration.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Option<Flow>>,
    pub(crate) outputs: Vec<Option<Flow>>,
    /// Inputs, then outputs, as the class has them.
    pub(crate) agnostic: Vec<bool>,
    /// Pairs of agnostic ports of one kind, by their place in `agnostic`.
    linked: Vec<(usize, usize)>,
}

impl Ports {
    /// The ports of an element of `class` with so many inputs and outputs.
    pub(crate) fn new(class: &Class, inputs: usize, outputs: usize) -> Ports {
        let (ins, outs) = class.processing.split_once('/').unwrap_or((class.processing, class.processing));
        let (ins, outs) = (expand(ins, inputs), expand(outs, outputs));
        let agnostic: Vec<bool> = ins.iter().chain(&outs).map(Option::is_none).collect();
        let mut linked = Vec::new();
        for input in 0..inputs {
            for output in 0..outputs {
                if agnostic[input] && agnostic[inputs + output] && passes(class.flow, input, output) {
                    linked.push((input, inputs + output));
                }
            }
        }
        Ports { inputs: ins, outputs: outs, agnostic, linked }
    }

    fn port(&mut self, place: usize) -> Option<&mut Option<Flow>> {
        let inputs = self.inputs.len();
        if place < inputs { self.inputs.get_mut(place) } else { self.outputs.get_mut(place - inputs) }
    }

    /// Hands kinds on between linked ports; whether anything changed.
    fn spread(&mut self) -> bool {
        let mut changed = false;
        for (one, other) in self.linked.clone() {
            let (a, b) = (self.port(one).copied().flatten(), self.port(other).copied().flatten());
            let open = match (a, b) {
                (Some(kind), None) => Some((other, kind)),
                (None, Some(kind)) => Some((one, kind)),
                _ => None,
            };
            if let Some((place, kind)) = open
                && let Some(port) = self.port(place)
            {
                *port = Some(kind);
                changed = true;
            }
        }
        changed
    }
}

/// The kinds of `count` ports; the last letter goes on.
fn expand(letters: &str, count: usize) -> Vec<Option<Flow>> {
    let kinds: Vec<Option<Flow>> = letters
        .chars()
        .map(|letter| match letter {
            'h' => Some(Flow::Push),
            'l' => Some(Flow::Pull),
            _ => None,
        })
        .collect();
    (0..count).map(|port| kinds.get(port).or(kinds.last()).copied().flatten()).collect()
}

/// Whether packets of an input may leave by an output, by Click's flow code.
fn passes(flow: &str, input: usize, output: usize) -> bool {
    let (ins, outs) = flow.split_once('/').unwrap_or((flow, flow));
    let letter =
        |letters: &str, port: usize| letters.chars().nth(port).or(letters.chars().last()).unwrap_or('x');
    match (letter(ins, input), letter(outs, output)) {
        ('#', '#') => input == output,
        ('#', _) | (_, '#') => false,
        (one, other) => one == other,
    }
}

/// Settles the kind of every port, and notes what does not fit.
pub(crate) fn resolve(flat: &Flat, ports: &mut [Ports], report: &mut Report) {
    let name = |element: usize| flat.elements.get(element).map_or("", |element| element.name.as_str());
    let mut changed = true;
    while changed {
        changed = false;
        for joint in &flat.connections {
            let from = ports.get(joint.from).and_then(|p| p.outputs.get(joint.output)).copied();
            let to = ports.get(joint.to).and_then(|p| p.inputs.get(joint.input)).copied();
            match (from, to) {
                (Some(Some(kind)), Some(None)) => {
                    ports[joint.to].inputs[joint.input] = Some(kind);
                    changed = true;
                }
                (Some(None), Some(Some(kind))) => {
                    ports[joint.from].outputs[joint.output] = Some(kind);
                    changed = true;
                }
                _ => {}
            }
        }
        for ports in ports.iter_mut() {
            changed |= ports.spread();
        }
    }
    for ports in ports.iter_mut() {
        for port in ports.inputs.iter_mut().chain(&mut ports.outputs) {
            port.get_or_insert(Flow::Push);
        }
    }
    for joint in &flat.connections {
        let (Some(from), Some(to)) = (ports.get(joint.from), ports.get(joint.to)) else { continue };
        let (Some(Some(out)), Some(Some(into))) =
            (from.outputs.get(joint.output), to.inputs.get(joint.input))
        else {
            continue;
        };
        if out != into {
            let word = |flow: &Flow| if *flow == Flow::Push { "push" } else { "pull" };
            let advice = match out {
                Flow::Push => "put a Queue between them",
                Flow::Pull => "put an Unqueue between them",
            };
            let mixed = |ports: &Ports, place: usize| ports.agnostic.get(place).copied().unwrap_or_default();
            let agnostic = if mixed(from, from.inputs.len() + joint.output) || mixed(to, joint.input) {
                " (through agnostic ports, which are what they are connected to)"
            } else {
                ""
            };
            report.error(
                Some(joint.at),
                format!(
                    "'{}' {} output {} connected to '{}' {} input {}{agnostic}; {advice}",
                    name(joint.from),
                    word(out),
                    joint.output,
                    name(joint.to),
                    word(into),
                    joint.input,
                ),
            );
        }
    }
    reused(flat, ports, report);
}

/// Notes push outputs and pull inputs with more than one connection.
fn reused(flat: &Flat, ports: &[Ports], report: &mut Report) {
    let mut outputs = std::collections::HashMap::new();
    let mut inputs = std::collections::HashMap::new();
    for joint in &flat.connections {
        let name = |element: usize| flat.elements.get(element).map_or("", |element| element.name.as_str());
        let push = ports.get(joint.from).and_then(|p| p.outputs.get(joint.output)) == Some(&Some(Flow::Push));
        if push && let Some(first) = outputs.insert((joint.from, joint.output), joint.at) {
            let name = name(joint.from);
            report.error(
                Some(joint.at),
                format!("illegal reuse of '{name}' push output {}; put a Tee behind it", joint.output),
            );
            report.note(Some(first), "first connected here");
        }
        let pull = ports.get(joint.to).and_then(|p| p.inputs.get(joint.input)) == Some(&Some(Flow::Pull));
        if pull && let Some(first) = inputs.insert((joint.to, joint.input), joint.at) {
            let name = name(joint.to);
            report.error(
                Some(joint.at),
                format!(
                    "illegal reuse of '{name}' pull input {}; put a scheduler such as RoundRobinSched before it",
                    joint.input
                ),
            );
            report.note(Some(first), "first connected here");
        }
    }
}
