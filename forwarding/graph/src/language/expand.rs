//! From [`Tree`] to [`Flat`]: compounds become what is in them.
//!
//! An element `f` of a compound class becomes tunnels `f`, `f/input`, `f/output` and the compound's
//! elements as `f/x`. Each name, number and order is Click's: an element may be looked up by the
//! name it gets here. Expansion ends, for a compound only uses classes that were there before it;
//! how much it may produce is limited.

use std::collections::HashMap;

use super::body::*;
use super::flat::{Flat, FlatConnection, FlatElement};
use super::quoting::split_arguments;
use super::report::{Report, Span};
use super::scope::{Meaning, Scope};
use super::tree::{MAX_NESTING, Tree};
use super::tunnels;
use super::variables::{Budget, Environment};

/// The most elements a configuration may expand to.
pub const MAX_ELEMENTS: usize = 200_000;

/// The most bytes that the configurations of a whole text may grow to when variables are replaced,
/// roughly.
pub const MAX_SUBSTITUTED: usize = 64 << 20;

/// Expands a tree's compounds. `defines` are the command line's variables, which take the place of
/// the text's own; `is_element_class` tells the names of element classes from those of elements.
///
/// What is wrong goes to the report; what is returned then is as much as could be made of it.
pub fn expand(
    tree: &Tree,
    defines: &[(String, String)],
    is_element_class: &dyn Fn(&str) -> bool,
    report: &mut Report,
) -> Flat {
    let mut scope = Scope::new(is_element_class, report);
    scope.statements(&tree.statements);
    let Scope { bodies, classes, body, groups, requirements, .. } = scope;

    let mut values: HashMap<String, String> = body.defined.iter().cloned().collect();
    values.extend(defines.iter().cloned());
    let root = Environment { values, depth: 0, around: None };
    let mut expansion = Expansion {
        bodies: &bodies,
        classes: &classes,
        body,
        pairs: tunnels::Pairs::new(),
        budget: Budget::new(MAX_SUBSTITUTED),
        full: false,
        report,
    };
    for group in groups {
        expansion.pair(group);
    }
    for index in 0..expansion.body.elements.len() {
        expansion.expand(index, &root, 0);
    }
    if expansion.budget.is_spent() {
        expansion.report.error(None, "the variables' values make the configuration too large");
    }
    let mut flat = expansion.flat();
    flat.requirements = requirements;
    flat
}

struct Expansion<'a> {
    bodies: &'a [Body],
    classes: &'a [Meaning],
    /// The text's body, to which everything is added.
    body: Body,
    pairs: tunnels::Pairs,
    budget: Budget,
    /// Whether there are too many elements, which was reported.
    full: bool,
    report: &'a mut Report,
}

impl Expansion<'_> {
    /// Makes tunnels of a group's or compound's element, its input and its output.
    fn pair(&mut self, [outer, input, output]: [usize; 3]) {
        self.pairs.join(outer, input);
        self.pairs.join(output, outer);
    }

    /// Expands an element if it is of a compound class. `environment` is the scope that it stands
    /// in.
    fn expand(&mut self, index: usize, environment: &Environment<'_>, nesting: usize) {
        self.body.settle_name(index);
        let element = &mut self.body.elements[index];
        let Kind::Of(class) = element.kind else { return };
        if element.configuration.contains('$') {
            let configuration = environment.substitute(&element.configuration, &self.budget);
            if configuration != element.configuration {
                element.configuration = configuration;
                element.configuration_at = None;
            }
        }
        if !matches!(self.classes.get(class.0), Some(Meaning::Compound(_))) {
            return;
        }
        let arguments = split_arguments(&element.configuration).into_iter().map(|piece| piece.text).collect();
        let Some((class, arguments)) = self.choose(index, class, arguments) else {
            self.body.elements[index].kind = Kind::Of(BROKEN);
            return;
        };
        self.body.elements[index].kind = Kind::Of(class);
        let Some(&Meaning::Compound(chosen)) = self.classes.get(class.0) else { return };
        let compound = &self.bodies[chosen];
        if nesting >= MAX_NESTING {
            let at = self.body.elements[index].at;
            self.report
                .error(Some(at), format!("compounds expand into compounds more than {MAX_NESTING} deep"));
            return;
        }
        let names = compound.formals.iter().map(|formal| formal.variable.clone());
        let mut inside = Environment {
            values: names.zip(arguments).collect(),
            depth: compound.depth,
            around: environment.outside(compound.depth),
        };
        for (name, value) in &compound.defined {
            let value = inside.substitute(value, &self.budget);
            inside.values.insert(name.clone(), value);
        }
        self.unfold(index, compound, &inside, nesting);
    }

    /// Puts a compound's elements and connections in the place of the element `index`.
    fn unfold(&mut self, index: usize, compound: &Body, inside: &Environment<'_>, nesting: usize) {
        let (name, at) = (self.body.elements[index].name.clone(), self.body.elements[index].at);
        self.body.elements[index].kind = Kind::Tunnel;
        let mut places: Vec<Option<usize>> = Vec::with_capacity(compound.elements.len());
        let tunnels = self.add_tunnels(&name, at);
        places.extend([tunnels[1], tunnels[2]].map(Some));
        while places.len() < compound.elements.len() {
            let element = &compound.elements[places.len()];
            if self.body.elements.len() >= MAX_ELEMENTS {
                if !std::mem::replace(&mut self.full, true) {
                    self.report.error(
                        Some(at),
                        format!("the configuration expands to more than {MAX_ELEMENTS} elements"),
                    );
                }
                return;
            }
            let name = format!("{name}/{}", element.name);
            if let Some(&first) = self.body.by_name.get(&name) {
                self.redeclared("element", &name, at, first);
                places.push(None);
                continue;
            }
            if element.kind == Kind::Tunnel {
                places.extend(self.add_tunnels(&name, element.at).map(Some));
                continue;
            }
            let mut element = Element { name, ports: [0, 0], ..element.clone() };
            if element.configuration.contains('$') {
                element.configuration = inside.substitute(&element.configuration, &self.budget);
                element.configuration_at = None;
            }
            places.push(Some(self.body.add(element, self.report)));
        }
        for connection in &compound.connections {
            let place = |port: Port| {
                let element = places.get(port.element).copied().flatten()?;
                Some(Port { element, port: port.port })
            };
            if let (Some(from), Some(to)) = (place(connection.from), place(connection.to)) {
                self.body.connect(from, to, connection.at);
            }
        }
        for place in places.into_iter().skip(2).flatten() {
            self.expand(place, inside, nesting + 1);
        }
    }

    fn add_tunnels(&mut self, name: &str, at: Span) -> [usize; 3] {
        let tunnels = self.body.add_tunnels(name, at, false, self.report);
        let taken = tunnels
            .into_iter()
            .find(|&tunnel| self.body.elements[tunnel].kind != Kind::Tunnel || self.pairs.is_joined(tunnel));
        match taken {
            None => self.pair(tunnels),
            Some(first) => {
                let name = self.body.elements[first].name.clone();
                self.redeclared("element", &name, at, first);
            }
        }
        tunnels
    }

    fn redeclared(&mut self, what: &str, name: &str, at: Span, first: usize) {
        self.report.error(Some(at), format!("redeclaration of {what} '{name}'"));
        let first = self.body.elements[first].at;
        self.report.note(Some(first), format!("'{name}' previously declared here"));
    }

    /// The part of a compound that fits the arguments and the ports in use, or the class it
    /// extends, with the values of the parameters. Where a single part fits but for the ports it is
    /// taken: that is told better later on.
    fn choose(
        &mut self,
        index: usize,
        class: ClassId,
        arguments: Vec<String>,
    ) -> Option<(ClassId, Vec<String>)> {
        let element = &self.body.elements[index];
        let (used, at) = (element.ports, element.at);
        let mut candidates = Vec::new();
        let mut closest = None;
        let mut next = Some(class);
        while let Some(class) = next {
            let part = match self.classes.get(class.0) {
                Some(&Meaning::Compound(part)) => &self.bodies[part],
                Some(Meaning::Elements(_)) => return Some((class, arguments)),
                _ => break,
            };
            if let Some(values) = part.assign(&arguments) {
                if part.ports == used {
                    return Some((class, values));
                }
                closest = Some((class, values));
            }
            candidates.push(part);
            next = part.otherwise;
        }
        if candidates.len() != 1 || closest.is_none() {
            let name = candidates.first().map_or("<anonymous>", |first| first.printable_name());
            let count = match arguments.len() {
                0 => String::new(),
                1 => "1 argument, ".to_owned(),
                count => format!("{count} arguments, "),
            };
            self.report.error(Some(at), format!("no match for '{name}[{count}{}]'", ports(used)));
            for candidate in &candidates {
                self.report.note(Some(candidate.at), format!("candidate: {}", candidate.signature()));
            }
        }
        closest
    }

    /// Takes the tunnels out.
    fn flat(self) -> Flat {
        let Expansion { classes, body, pairs, report, .. } = self;
        let mut places = Vec::with_capacity(body.elements.len());
        let connections = pairs.through(&body, report);
        let mut flat = Flat::default();
        for element in body.elements {
            let Kind::Of(class) = element.kind else {
                places.push(None);
                continue;
            };
            places.push(Some(flat.elements.len()));
            let class = match classes.get(class.0) {
                Some(Meaning::Elements(name)) => name.clone(),
                _ => "Error".to_owned(),
            };
            flat.elements.push(FlatElement {
                name: element.name,
                class,
                configuration: element.configuration,
                at: element.at,
                class_at: element.class_at,
                configuration_at: element.configuration_at,
            });
        }
        let place = |element: usize| places.get(element).copied().flatten();
        flat.connections = connections
            .into_iter()
            .filter_map(|Connection { from, to, at }| {
                let (output, input) = (from.port, to.port);
                Some(FlatConnection { from: place(from.element)?, output, to: place(to.element)?, input, at })
            })
            .collect();
        flat.connections.sort_by_key(|c| (c.to, c.input, c.from, c.output));
        flat.connections.dedup_by_key(|c| (c.to, c.input, c.from, c.output));
        flat
    }
}

/// The class of an element for which there is none.
const BROKEN: ClassId = ClassId(usize::MAX);
