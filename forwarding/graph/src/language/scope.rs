//! From [`Tree`] to bodies: what each name means where it stands.
//!
//! Classes are looked up in the scopes around, innermost first, as they were defined before: a
//! compound may use the class whose name it takes, and can't use itself, so that every expansion
//! ends. A name that is a class makes a new element; any other has to be an element of this scope
//! already.

use std::collections::HashMap;

use super::body::*;
use super::report::{Report, Span};
use super::tree::{self, Class, Compound, Group, Item, Link, MAX_NESTING, Part, Saying, Statement, Subject};
use super::wiring::{End, Ports, pairs};

/// What a class's number stands for.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A class of elements, by its name.
    Elements(String),
    /// A part of a compound, by its index into [`Scope::bodies`].
    Compound(usize),
    /// Nothing; the report says why.
    Broken,
}

/// The reading of a tree: everything that was found out, and the scope that the reader is in.
pub(super) struct Scope<'a> {
    pub bodies: Vec<Body>,
    pub classes: Vec<Meaning>,
    /// The body that is being made.
    pub body: Body,
    /// The tunnels of the text's own groups: each group and its input and output.
    pub groups: Vec<[usize; 3]>,
    pub requirements: Vec<(String, String)>,
    pub report: &'a mut Report,
    is_element_class: &'a dyn Fn(&str) -> bool,
    /// The classes of elements that were named.
    elements: HashMap<String, ClassId>,
    /// The classes that were defined, scope by scope, innermost last.
    defined: Vec<HashMap<String, ClassId>>,
    /// How many groups and libraries are around.
    nesting: usize,
}

/// An item whose classes are known and whose parts are read, before its element is added.
struct Prepared {
    name: String,
    at: Span,
    class_at: Span,
    /// The class that the name itself is.
    own: Option<ClassId>,
    /// The class behind `::`.
    declared: Option<ClassId>,
    /// The element, if it is there already: a group, an implied input or output.
    element: Option<usize>,
    bare: bool,
    configuration: String,
    configuration_at: Option<Span>,
    inputs: Ports,
    outputs: Ports,
}

impl<'a> Scope<'a> {
    pub fn new(is_element_class: &'a dyn Fn(&str) -> bool, report: &'a mut Report) -> Scope<'a> {
        Scope {
            bodies: Vec::new(),
            classes: Vec::new(),
            body: Body::default(),
            groups: Vec::new(),
            requirements: Vec::new(),
            report,
            is_element_class,
            elements: HashMap::new(),
            defined: vec![HashMap::new()],
            nesting: 0,
        }
    }

    fn error(&mut self, at: Span, message: impl Into<String>) {
        self.report.error(Some(at), message);
    }

    fn add_class(&mut self, meaning: Meaning) -> ClassId {
        self.classes.push(meaning);
        ClassId(self.classes.len() - 1)
    }

    /// The class of a name, if it is one.
    fn class(&mut self, name: &str) -> Option<ClassId> {
        if let Some(&class) = self.defined.iter().rev().find_map(|scope| scope.get(name)) {
            return Some(class);
        }
        if name.is_empty() || !(self.is_element_class)(name) {
            return None;
        }
        Some(self.elements_of(name))
    }

    /// The class of elements of a name, which need not exist.
    fn elements_of(&mut self, name: &str) -> ClassId {
        if let Some(&class) = self.elements.get(name) {
            return class;
        }
        let class = self.add_class(Meaning::Elements(name.to_owned()));
        self.elements.insert(name.to_owned(), class);
        class
    }

    /// The class of a name that has to be one. Whether a class of elements exists is the builder's
    /// to say, with the names of all at hand; from here on it is taken for one.
    fn class_by_name(&mut self, name: &str) -> ClassId {
        self.class(name).unwrap_or_else(|| {
            let class = self.elements_of(name);
            self.define_class(name, class);
            class
        })
    }

    fn define_class(&mut self, name: &str, class: ClassId) {
        if !name.is_empty()
            && let Some(scope) = self.defined.last_mut()
        {
            scope.insert(name.to_owned(), class);
        }
    }

    pub fn statements(&mut self, statements: &[Statement]) {
        // Click warns of `-> x` after a chain that did not end at the output: it looks like a
        // continuation.
        let mut ended_at_output = true;
        for statement in statements {
            match &statement.what {
                Saying::Chain(links) => ended_at_output = self.chain(links, ended_at_output),
                Saying::ElementClass(name, class) => self.element_class(name, class),
                Saying::Require(_, requirements) => self.require(requirements),
                Saying::Define(_, definitions) => {
                    for definition in definitions {
                        self.define(&definition.name, &definition.value, definition.at);
                    }
                }
            }
        }
    }

    fn require(&mut self, requirements: &[tree::Requirement]) {
        for requirement in requirements {
            match &requirement.library {
                Some(library) if self.nesting < MAX_NESTING => {
                    self.nesting += 1;
                    self.statements(&library.statements);
                    self.nesting -= 1;
                }
                Some(_) => self.error(requirement.at, "libraries require each other too deep"),
                None if requirement.kind == "library" => {}
                None => self.requirements.push((requirement.kind.clone(), requirement.value.clone())),
            }
        }
    }

    fn define(&mut self, name: &str, value: &str, at: Span) {
        let body = &mut self.body;
        let formal = body.formals.iter().any(|formal| formal.variable == name);
        if formal || body.defined.iter().any(|(defined, _)| defined == name) {
            self.error(at, format!("parameter '${name}' multiply defined"));
        } else {
            body.defined.push((name.to_owned(), value.to_owned()));
        }
    }

    fn element_class(&mut self, name: &tree::Word, class: &Class) {
        let class = match class {
            Class::Named(other) => self.class_by_name(&other.text),
            Class::Compound(compound) => self.compound(compound, &name.text),
            Class::Missing(_) => self.add_class(Meaning::Broken),
        };
        self.define_class(&name.text, class);
    }

    /// Reads a compound and gives the class of its first part.
    fn compound(&mut self, compound: &Compound, name: &str) -> ClassId {
        let mut otherwise = compound.extends.map(|at| match self.class(name) {
            Some(class) => class,
            None => {
                let name = if name.is_empty() { "<anonymous>" } else { name };
                self.error(at, format!("cannot extend unknown element class '{name}'"));
                self.add_class(Meaning::Broken)
            }
        });
        let bodies: Vec<Body> = compound.parts.iter().map(|part| self.part(part, name)).collect();
        for mut body in bodies.into_iter().rev() {
            body.otherwise = otherwise;
            self.bodies.push(body);
            otherwise = Some(self.add_class(Meaning::Compound(self.bodies.len() - 1)));
        }
        match otherwise {
            Some(class) => class,
            None => self.add_class(Meaning::Broken),
        }
    }

    fn part(&mut self, part: &Part, name: &str) -> Body {
        let body = Body { name: name.to_owned(), at: part.at, depth: self.body.depth + 1, ..Body::default() };
        let outer = std::mem::replace(&mut self.body, body);
        self.defined.push(HashMap::new());
        for side in ["input", "output"] {
            let tunnel = Element {
                name: side.to_owned(),
                kind: Kind::Tunnel,
                configuration: String::new(),
                configuration_at: None,
                at: part.at,
                class_at: part.at,
                ports: [0, 0],
                anonymous: false,
            };
            self.body.add(tunnel, self.report);
        }
        self.body.uncounted = 2;
        self.formals(&part.parameters);
        self.statements(&part.statements);
        self.body.finish(self.report);
        self.defined.pop();
        std::mem::replace(&mut self.body, outer)
    }

    fn formals(&mut self, parameters: &[tree::Parameter]) {
        let mut in_order = true;
        for parameter in parameters {
            let variable = &parameter.variable;
            let keyword = parameter.keyword.as_ref().map_or("", |word| &word.text);
            let formals = &self.body.formals;
            if formals.iter().any(|formal| formal.variable == variable.text) {
                self.error(variable.at, format!("parameter '${}' multiply defined", variable.text));
                continue;
            }
            let repeated = !keyword.is_empty() && formals.iter().any(|formal| formal.keyword == keyword);
            let misplaced = formals.last().is_some_and(|before| {
                before.keyword == "__REST__" || (keyword.is_empty() && !before.keyword.is_empty())
            });
            if repeated {
                self.error(
                    variable.at,
                    format!("repeated keyword parameter '{keyword}' in compound element"),
                );
            }
            if misplaced && in_order {
                in_order = false;
                self.error(variable.at, "compound element parameters out of order");
                self.report
                    .note(Some(variable.at), "the correct order is '[positional], [keywords], [__REST__]'");
            }
            self.body.formals.push(Formal { variable: variable.text.clone(), keyword: keyword.to_owned() });
        }
    }

    /// Declares and connects. Says whether the chain ends at the scope's output.
    fn chain(&mut self, links: &[Link], ended_at_output: bool) -> bool {
        self.warn_of_continuation(links, ended_at_output);
        let mut before: Option<Vec<End>> = None;
        for link in links {
            let mut prepared: Vec<Prepared> = link.items.iter().map(|item| self.prepare(item)).collect();
            if links.len() == 1 {
                share_declaration(&mut prepared, &link.items);
            }
            let ends: Vec<End> = prepared.into_iter().map(|prepared| self.settle(prepared)).collect();
            match (&before, link.arrow) {
                (Some(from), Some(arrow)) => {
                    for (from, to) in pairs(from, &ends, arrow.many, arrow.at, self.report) {
                        self.body.connect(from, to, arrow.at);
                    }
                }
                _ => self.check_unused(&ends, 0, "input ports ignored at start of chain"),
            }
            before = Some(ends);
        }
        let last = before.unwrap_or_default();
        self.check_unused(&last, 1, "output ports ignored at end of chain");
        matches!(last[..], [End { element, .. }] if self.body.by_name.get("output") == Some(&element))
    }

    fn warn_of_continuation(&mut self, links: &[Link], ended_at_output: bool) {
        let [first, second, ..] = links else { return };
        if let [Item { subject: Subject::ImpliedInput(at), outputs: None, .. }] = first.items[..]
            && !ended_at_output
        {
            let arrow = if second.arrow.is_some_and(|arrow| arrow.many) { "=>" } else { "->" };
            let message = format!("suggest 'input {arrow}' or '[0] {arrow}' to start connection");
            self.report.warning(Some(at), message);
        }
    }

    fn check_unused(&mut self, ends: &[End], side: usize, message: &str) {
        let ports = |end: &End| if side == 0 { end.inputs.numbers.len() } else { end.outputs.numbers.len() };
        if let Some(end) = ends.iter().find(|end| ports(end) > 0) {
            self.error(end.at, message);
        }
    }

    /// Reads an item's classes, compounds and groups. Its element is added later, with those of the
    /// whole set: that is the order in which anonymous elements are numbered.
    fn prepare(&mut self, item: &Item) -> Prepared {
        let (mut inputs, mut outputs) = (ports(&item.inputs), ports(&item.outputs));
        let (mut own, mut element) = (None, None);
        let (name, at) = match &item.subject {
            Subject::Name(word) => {
                own = self.class(&word.text);
                (word.text.clone(), word.at)
            }
            Subject::Compound(compound) => {
                own = Some(self.compound(compound, ""));
                (String::new(), compound.at)
            }
            Subject::ImpliedInput(at) | Subject::ImpliedOutput(at) => {
                let name = if matches!(item.subject, Subject::ImpliedInput(_)) { "input" } else { "output" };
                element = self.body.by_name.get(name).copied();
                (name.to_owned(), *at)
            }
            Subject::Group(group) => {
                let (tunnel, counts) = self.group(group);
                element = Some(tunnel);
                for (written, side, count) in
                    [(&item.inputs, &mut inputs, counts[0]), (&item.outputs, &mut outputs, counts[1])]
                {
                    if written.is_none() {
                        side.numbers = (0..count).collect();
                    }
                }
                ("<anonymous group>".to_owned(), group.at)
            }
        };
        let declared = item.class.as_ref().map(|class| match class {
            Class::Named(word) => self.class_by_name(&word.text),
            Class::Compound(compound) => self.compound(compound, ""),
            Class::Missing(_) => self.add_class(Meaning::Broken),
        });
        let class_at = match &item.class {
            Some(Class::Named(word)) => word.at,
            Some(Class::Compound(compound)) => compound.at,
            Some(Class::Missing(at)) => *at,
            None => at,
        };
        let known = element.is_some() || own.is_none() && self.body.by_name.contains_key(&name);
        let known = known && item.class.is_none();
        if let Some(configuration) = item.configuration.as_ref().filter(|_| known) {
            self.error(configuration.at, "configuration string ignored on element reference");
        }
        let (configuration, configuration_at) = text_of(item.configuration.as_ref());
        let bare =
            matches!(item.subject, Subject::Name(_)) && item.class.is_none() && item.configuration.is_none();
        Prepared {
            name,
            at,
            class_at,
            own,
            declared,
            element,
            bare,
            configuration,
            configuration_at,
            inputs,
            outputs,
        }
    }

    /// Adds a group's elements, and counts its inputs and outputs.
    fn group(&mut self, group: &Group) -> (usize, [usize; 2]) {
        let name = self.body.anonymous_name("");
        let tunnels = self.body.add_tunnels(&name, group.at, true, self.report);
        if self.body.depth == 0 {
            self.groups.push(tunnels);
        }
        let sides = ["input", "output"];
        let since = self.body.connections.len();
        let outer = [0, 1].map(|side| self.body.by_name.insert(sides[side].to_owned(), tunnels[side + 1]));
        self.statements(&group.statements);
        let counts = [0, 1].map(|side| {
            self.body.count_ports(
                (tunnels[side + 1], side),
                since,
                ("<anonymous group>", group.at),
                self.report,
            )
        });
        for (side, outer) in sides.into_iter().zip(outer) {
            match outer {
                Some(element) => self.body.by_name.insert(side.to_owned(), element),
                None => self.body.by_name.remove(side),
            };
        }
        (tunnels[0], counts)
    }

    /// Finds or adds the item's element.
    fn settle(&mut self, prepared: Prepared) -> End {
        let Prepared { name, at, class_at, own, declared, inputs, outputs, .. } = prepared;
        let found = prepared.element.or_else(|| self.body.by_name.get(&name).copied());
        let element = match (own, found) {
            (None, Some(element)) => {
                if declared.is_some() {
                    self.error(at, format!("redeclaration of element '{name}'"));
                    let first = &self.body.elements[element];
                    if first.kind != Kind::Tunnel {
                        let first = first.at;
                        self.report.note(Some(first), format!("element '{name}' previously declared here"));
                    }
                }
                element
            }
            _ => {
                if own.is_some() && declared.is_some() {
                    self.error(at, format!("class '{name}' used as element name"));
                }
                let anonymous = own.is_some() || declared.is_none();
                let class = match own.or(declared) {
                    Some(class) => class,
                    None => {
                        self.error(at, format!("undeclared element '{name}'"));
                        let class = self.elements_of(&name);
                        self.define_class(&name, class);
                        class
                    }
                };
                let name = if anonymous { self.body.anonymous_name(&name) } else { name };
                let class_at = if own.is_some() { at } else { class_at };
                let (configuration, configuration_at) = (prepared.configuration, prepared.configuration_at);
                let kind = Kind::Of(class);
                let ports = [0, 0];
                let element =
                    Element { name, kind, configuration, configuration_at, at, class_at, ports, anonymous };
                self.body.add(element, self.report)
            }
        };
        End { element, inputs, outputs, at }
    }
}

fn ports(written: &Option<tree::Ports>) -> Ports {
    written.as_ref().map_or(Ports::default(), |ports| Ports {
        numbers: ports.numbers.iter().map(|&number| number as usize).collect(),
        open: ports.open,
    })
}

/// `a, b, c :: Class(x)` declares all three.
fn share_declaration(prepared: &mut [Prepared], items: &[Item]) {
    let plain = |item: &Item| item.inputs.is_none() && item.outputs.is_none() && item.implied().is_none();
    let Some((last, others)) = prepared.split_last_mut() else { return };
    if !items.iter().all(plain) || !others.iter().all(|other| other.bare) || last.element.is_some() {
        return;
    }
    for other in others {
        other.declared = last.declared;
        other.class_at = last.class_at;
        other.configuration.clone_from(&last.configuration);
        other.configuration_at = last.configuration_at;
    }
}
