//! What a scope consists of, before compounds are expanded: its elements, connections, parameters
//! and variables.
//!
//! The text itself is a [`Body`], and so is each part of a compound. A group `(...)` adds to the
//! body around it: it becomes three tunnels, `@3`, `@3/input` and `@3/output`. A connection to `@3`
//! goes on where those from `@3/input` go, and one to `@3/output` goes on where those from `@3` go.
//! A compound becomes the same three when it is expanded. Tunnels count when anonymous elements are
//! numbered, and vanish at the end.

use std::collections::{BTreeSet, HashMap};

use super::report::{Report, Span};
use super::tree::Configuration;

/// A class's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(pub usize);

/// What an element of a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tunnel,
    Of(ClassId),
}

#[derive(Clone, Debug)]
pub(super) struct Element {
    pub name: String,
    pub kind: Kind,
    pub configuration: String,
    /// Where the configuration stands, as long as it is what stands there.
    pub configuration_at: Option<Span>,
    pub at: Span,
    pub class_at: Span,
    /// One more than the highest port connected: of the inputs, of the outputs.
    pub ports: [usize; 2],
    /// Whether its name is still to be made unique; it is without its prefix until then.
    pub anonymous: bool,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Port {
    pub element: usize,
    pub port: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub from: Port,
    pub to: Port,
    pub at: Span,
}

/// A parameter of a compound.
#[derive(Clone, Debug)]
pub(super) struct Formal {
    pub variable: String,
    /// The keyword it is given by; empty for one given by its place.
    pub keyword: String,
}

/// A scope's contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    /// The class's name; empty for the text and for a compound without a name.
    pub name: String,
    pub at: Span,
    /// How many scopes are around it.
    pub depth: usize,
    pub formals: Vec<Formal>,
    /// The variables that `define` names, in order.
    pub defined: Vec<(String, String)>,
    pub elements: Vec<Element>,
    /// Elements by name. Anonymous ones are in it once their names are unique.
    pub by_name: HashMap<String, usize>,
    pub connections: Vec<Connection>,
    /// What is matched when this part of a compound is not meant: the next part, or the class it
    /// extends.
    pub otherwise: Option<ClassId>,
    /// How many inputs and outputs the compound has.
    pub ports: [usize; 2],
    /// How many elements don't count when anonymous elements are numbered.
    pub uncounted: usize,
}

/// How many missing ports of one compound are named.
const MAX_MISSING: usize = 10;

const SIDES: [&str; 2] = ["input", "output"];

impl Body {
    /// The next anonymous element's name for a class: `Class@4`.
    pub fn anonymous_name(&self, class: &str) -> String {
        format!("{class}@{}", self.elements.len() - self.uncounted + 1)
    }

    /// Adds an element and says its number. A name that is taken already gives the element that has
    /// it.
    pub fn add(&mut self, element: Element, report: &mut Report) -> usize {
        if !element.anonymous {
            if let Some(&taken) = self.by_name.get(&element.name) {
                return taken;
            }
            self.by_name.insert(element.name.clone(), self.elements.len());
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            if element.name.split('/').any(digits) {
                report.error(
                    Some(element.at),
                    format!("element name '{}' has all-digit component", element.name),
                );
            }
        }
        self.elements.push(element);
        self.elements.len() - 1
    }

    /// Adds a tunnel's three elements.
    pub fn add_tunnels(&mut self, name: &str, at: Span, anonymous: bool, report: &mut Report) -> [usize; 3] {
        [name.to_owned(), format!("{name}/input"), format!("{name}/output")].map(|name| {
            let tunnel = Element {
                name,
                kind: Kind::Tunnel,
                configuration: String::new(),
                configuration_at: None,
                at,
                class_at: at,
                ports: [0, 0],
                anonymous,
            };
            self.add(tunnel, report)
        })
    }

    /// Makes an anonymous element's name unique in this body.
    pub fn settle_name(&mut self, index: usize) {
        let element = &mut self.elements[index];
        if !element.anonymous {
            return;
        }
        element.anonymous = false;
        if self.by_name.contains_key(&element.name) {
            let (prefix, number) = element.name.rsplit_once('@').unwrap_or((&element.name, ""));
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            let rest = number[digits.len()..].to_owned();
            let first = digits.parse::<usize>().unwrap_or(0) + 1;
            let free =
                (first..).find(|number| !self.by_name.contains_key(&format!("{prefix}@{number}{rest}")));
            element.name = format!("{prefix}@{}{rest}", free.unwrap_or(0));
        }
        self.by_name.insert(element.name.clone(), index);
    }

    /// Connects two ports.
    pub fn connect(&mut self, from: Port, to: Port, at: Span) {
        self.connections.push(Connection { from, to, at });
        let inputs = &mut self.elements[to.element].ports[0];
        *inputs = (*inputs).max(to.port + 1);
        let outputs = &mut self.elements[from.element].ports[1];
        *outputs = (*outputs).max(from.port + 1);
    }

    /// How many ports a compound or group called `name` has on one side (0: inputs, 1: outputs), by
    /// the connections of its `input` or `output`, which is the element `index`; `since` is the
    /// first connection that can be one of them. They have to be without gaps and the right way
    /// round.
    pub fn count_ports(
        &self,
        (index, side): (usize, usize),
        since: usize,
        (name, at): (&str, Span),
        report: &mut Report,
    ) -> usize {
        let element = &self.elements[index];
        let count = element.ports[1 - side];
        let ends = self.connections[since..].iter().map(|made| if side == 0 { made.from } else { made.to });
        let used: BTreeSet<usize> = ends.filter(|end| end.element == index).map(|end| end.port).collect();
        let [this, other] = [SIDES[side], SIDES[1 - side]];
        if element.ports[side] > 0 {
            report.error(Some(at), format!("'{name}' pseudoelement '{this}' may only be used as {other}"));
        }
        for port in (0..count).filter(|port| !used.contains(port)).take(MAX_MISSING) {
            report.error(Some(at), format!("'{name}' {this} {port} missing"));
        }
        count
    }

    /// Counts the ports of a compound and settles its anonymous names, once it is complete.
    pub fn finish(&mut self, report: &mut Report) {
        let whose = (self.printable_name(), self.at);
        self.ports = [0, 1].map(|side| self.count_ports((side, side), 0, whose, report));
        for index in 0..self.elements.len() {
            self.settle_name(index);
        }
    }

    /// Gives arguments to the formals: positional ones first, then those by keyword, then what is
    /// left. `None` if they don't fit.
    pub fn assign(&self, arguments: &[String]) -> Option<Vec<String>> {
        let rest = self.formals.last().is_some_and(|formal| formal.keyword == "__REST__");
        let named = &self.formals[..self.formals.len() - usize::from(rest)];
        let positional = named.iter().take_while(|formal| formal.keyword.is_empty()).count();
        if positional == self.formals.len() {
            return (arguments.len() == positional).then(|| arguments.to_vec());
        }
        let mut values: Vec<Option<String>> = vec![None; named.len()];
        let mut left = Vec::new();
        let mut surplus = false;
        for (index, argument) in arguments.iter().enumerate() {
            if index < positional {
                values[index] = Some(argument.clone());
                continue;
            }
            let given = split_keyword(argument).and_then(|(keyword, value)| {
                let found =
                    named.iter().position(|formal| !keyword.is_empty() && formal.keyword == keyword)?;
                Some((found, value))
            });
            match given {
                Some((found, value)) => values[found] = Some(value.to_owned()),
                None => {
                    surplus = true;
                    left.push(argument.as_str());
                }
            }
        }
        if surplus && !rest {
            return None;
        }
        let mut values: Vec<String> = values.into_iter().collect::<Option<_>>()?;
        if rest {
            values.push(left.join(", "));
        }
        Some(values)
    }

    /// How the compound is called among the candidates of a failed match.
    pub fn signature(&self) -> String {
        let kind = |formal: &Formal| match formal.keyword.as_str() {
            "" => "<arg>".to_owned(),
            "__REST__" => "...".to_owned(),
            keyword => keyword.to_owned(),
        };
        let formals: Vec<String> = self.formals.iter().map(kind).collect();
        let formals = if formals.is_empty() { String::new() } else { format!("({})", formals.join(", ")) };
        format!("{}{formals}[{}]", self.printable_name(), ports(self.ports))
    }

    /// Its name, or a stand-in.
    pub fn printable_name(&self) -> &str {
        if self.name.is_empty() { "<anonymous>" } else { &self.name }
    }
}

/// `2 inputs, 1 output`
pub(super) fn ports([inputs, outputs]: [usize; 2]) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!("{inputs} input{}, {outputs} output{}", plural(inputs), plural(outputs))
}

/// `KEYWORD value`; keywords are letters, digits and `_.:?!`.
fn split_keyword(argument: &str) -> Option<(&str, &str)> {
    let end =
        argument.find(|sign: char| sign.is_ascii_whitespace() || sign == '\x0b').unwrap_or(argument.len());
    let (keyword, value) = argument.split_at(end);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:?!".contains(&byte);
    (!keyword.is_empty() && keyword.bytes().all(legal)).then(|| (keyword, value.trim_start()))
}

/// A configuration's text and where it stands byte for byte.
pub(super) fn text_of(configuration: Option<&Configuration>) -> (String, Option<Span>) {
    match configuration {
        None => (String::new(), None),
        Some(configuration) => {
            (configuration.text.clone(), configuration.verbatim.then_some(configuration.at))
        }
    }
}
