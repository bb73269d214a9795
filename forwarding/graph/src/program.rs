//! From a text to graphs that run.
//!
//! A [`Program`] is a configuration read, expanded and checked as a whole: the language, the
//! classes, the connections and every element's arguments. Everything that is wrong is reported at
//! once. From a program any number of graphs are made, one for each worker, each with elements of
//! its own.

use std::fmt;

use crate::arguments::{Arguments, Names, Scope};
use crate::language::{self, Flat, FlatElement, Report, Span, Texts};
use crate::processing::{Ports, resolve};
use crate::reconfigure::Origin;
use crate::{About, Class, Element, Environment, Flow, Graph, GraphBuilder, Manner, Registry, Setup, Sinks};

/// A checked configuration.
pub struct Program {
    texts: Texts,
    flat: Flat,
    classes: Vec<&'static Class>,
    ports: Vec<Ports>,
    names: Names,
    about: About,
    warnings: Report,
}

/// Why a text is not a program, or a program does not run: everything that is wrong with it, each
/// with file, line, column and a caret.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// How many mistakes there are.
    pub errors: usize,
    /// All of it, ready to be shown.
    pub text: String,
    /// The same as Click says it, a line for each.
    pub lines: String,
    /// Whether the text was understood, so that it is the elements that object.
    pub understood: bool,
}

impl Refusal {
    /// One mistake that is in no text.
    pub fn new(message: &str) -> Refusal {
        let text = format!("{message}\n");
        Refusal { errors: 1, lines: text.clone(), text, understood: true }
    }

    fn of(report: &Report, texts: &Texts) -> Refusal {
        let (text, lines) = (report.render(texts), report.render_lines(texts));
        Refusal { errors: report.errors(), text, lines, understood: true }
    }
}

/// What a text is read with, beside itself.
#[derive(Default)]
pub struct Sources<'a> {
    /// Values of `$variables` given from outside.
    pub defines: &'a [(String, String)],
    /// Finds the libraries that it requires; without it they are not looked for.
    pub libraries: Option<&'a mut language::FindLibrary<'a>>,
    /// Elements that are not in the text: name, class, configuration.
    pub additions: &'a [(String, String, String)],
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

impl std::error::Error for Refusal {}

impl Program {
    /// Reads and checks the text number `text` of `texts`. `defines` are the values of `$variables`
    /// given from outside.
    pub fn compile(
        texts: Texts,
        text: u32,
        defines: &[(String, String)],
        registry: &Registry,
        environment: &Environment,
    ) -> Result<Program, Refusal> {
        Program::compile_with(texts, text, Sources { defines, ..Sources::default() }, registry, environment)
    }

    /// As [`Program::compile`], with libraries and additional elements.
    pub fn compile_with(
        mut texts: Texts,
        text: u32,
        sources: Sources<'_>,
        registry: &Registry,
        environment: &Environment,
    ) -> Result<Program, Refusal> {
        let mut report = Report::new();
        let tree = match sources.libraries {
            Some(find) => language::parse_with_libraries(&mut texts, text, find, &mut report),
            None => language::parse(&texts, text, &mut report),
        };
        let known = |name: &str| registry.find(name).is_some();
        let mut flat = language::expand(&tree, sources.defines, &known, &mut report);
        let at = Span { text, start: 0, end: 0 };
        flat.elements.extend(sources.additions.iter().map(|(name, class, configuration)| FlatElement {
            name: name.clone(),
            class: class.clone(),
            configuration: configuration.clone(),
            at,
            class_at: at,
            configuration_at: None,
        }));
        let found: Vec<Option<&'static Class>> =
            flat.elements.iter().map(|element| registry.find(&element.class)).collect();
        unknown_classes(&flat, &found, registry, &mut report);
        let understood = !report.has_errors();
        let mut ports = count_ports(&flat, &found, &mut report);
        resolve(&flat, &mut ports, &mut report);
        let names = Names::of(&flat, &mut report);
        // Made once only to see whether their arguments are right.
        for (index, class) in found.iter().enumerate() {
            if let Some(class) = class {
                make(class, &flat, index, &ports, &names, environment, &mut report);
            }
        }
        if report.has_errors() {
            return Err(Refusal { understood, ..Refusal::of(&report, &texts) });
        }
        let about = About {
            configuration: texts.text(text).to_owned(),
            flat: flat.clone(),
            requirements: flat.requirements.iter().map(|(kind, what)| format!("{kind} {what}\n")).collect(),
            classes: registry.classes().map(|class| format!("{}\n", class.name)).collect(),
            names: names.clone(),
        };
        let classes = found.into_iter().flatten().collect();
        Ok(Program { texts, flat, classes, ports, names, about, warnings: report })
    }

    /// What is odd but not wrong, ready to be shown; empty when nothing is.
    pub fn warnings(&self) -> String {
        self.warnings.render(&self.texts)
    }

    /// The same in Click's form, `file:line: message`.
    pub fn warning_lines(&self) -> String {
        self.warnings.render_lines(&self.texts)
    }

    /// The configuration without compounds.
    pub fn flat(&self) -> &Flat {
        &self.flat
    }

    /// Makes a graph whose elements have not begun to work: [`Graph::start`] lets them.
    pub fn instantiate(&self, environment: &Environment, manner: Manner) -> Result<Graph, Refusal> {
        let mut report = Report::new();
        let mut builder = GraphBuilder::with_manner(manner);
        builder.about = self.about.clone();
        builder.origin = Origin::new(self.classes.clone(), environment.clone());
        for (index, class) in self.classes.iter().enumerate() {
            let made = make(class, &self.flat, index, &self.ports, &self.names, environment, &mut report);
            let (Some(element), Some(ports), Some(flat)) =
                (made, self.ports.get(index), self.flat.elements.get(index))
            else {
                continue;
            };
            let flows =
                |flows: &[Option<Flow>]| flows.iter().map(|flow| flow.unwrap_or(Flow::Push)).collect();
            let (inputs, outputs) = (flows(&ports.inputs), flows(&ports.outputs));
            builder.place(&flat.name, element, &flat.configuration, inputs, outputs, ports.agnostic.clone());
        }
        if report.has_errors() {
            return Err(Refusal::of(&report, &self.texts));
        }
        for joint in &self.flat.connections {
            builder.connect(crate::NodeId(joint.from), joint.output, crate::NodeId(joint.to), joint.input);
        }
        builder.build().map_err(|error| Refusal { errors: error.0.len(), ..Refusal::new(&error.to_string()) })
    }

    /// Makes a graph and lets its elements begin to work.
    pub fn start(
        &self,
        environment: &Environment,
        manner: Manner,
        sinks: &mut Sinks,
    ) -> Result<Graph, Refusal> {
        let mut graph = self.instantiate(environment, manner)?;
        self.begin(&mut graph, sinks)?;
        Ok(graph)
    }

    /// Lets the elements of a graph of this program begin to work.
    pub fn begin(&self, graph: &mut Graph, sinks: &mut Sinks) -> Result<(), Refusal> {
        let mut report = Report::new();
        for (node, message) in graph.start(sinks) {
            let element = self.flat.elements.get(node.0);
            let name = element.map_or("", |element| element.name.as_str());
            report
                .error(element.map(|element| element.at), format!("while initializing '{name}': {message}"));
        }
        if report.has_errors() { Err(Refusal::of(&report, &self.texts)) } else { Ok(()) }
    }
}

fn make(
    class: &Class,
    flat: &Flat,
    index: usize,
    ports: &[Ports],
    names: &Names,
    environment: &Environment,
    report: &mut Report,
) -> Option<Box<dyn Element>> {
    let (element, ports) = (flat.elements.get(index)?, ports.get(index)?);
    let (inputs, outputs) = (ports.inputs.len(), ports.outputs.len());
    let mut setup = Setup { name: &element.name, inputs, outputs, environment };
    let scope = Scope::new(names, &element.name);
    let mut arguments = Arguments::of(element, scope, report);
    (class.make)(&mut arguments, &mut setup).ok()
}

fn unknown_classes(flat: &Flat, found: &[Option<&Class>], registry: &Registry, report: &mut Report) {
    for (element, class) in flat.elements.iter().zip(found) {
        // Where there is no class at all, the report has the reason; and a name that is neither an
        // element nor a class was called undeclared.
        if class.is_some() || element.class == "Error" {
            continue;
        }
        let advice = registry.nearest(&element.class).map(|nearest| format!("did you mean '{nearest}'?"));
        if !report.tells_of(element.class_at) {
            report.error(Some(element.class_at), format!("unknown element class '{}'", element.class));
        }
        if let Some(advice) = advice {
            report.explain(element.class_at, advice);
        }
    }
}

/// How many ports each element has: as many as are connected, as far as its class allows.
fn count_ports(flat: &Flat, found: &[Option<&'static Class>], report: &mut Report) -> Vec<Ports> {
    const ANY: Class = Class {
        name: "",
        ports: "-/-",
        processing: Class::AGNOSTIC,
        flow: Class::COMPLETE_FLOW,
        source: "",
        make: |_, _| Err(crate::arguments::Refused),
    };
    let mut used: Vec<[Vec<bool>; 2]> = vec![[Vec::new(), Vec::new()]; flat.elements.len()];
    let mut mark = |element: usize, side: usize, port: usize| {
        if let Some(sides) = used.get_mut(element) {
            let ports = &mut sides[side];
            if ports.len() <= port {
                ports.resize(port + 1, false);
            }
            ports[port] = true;
        }
    };
    for joint in &flat.connections {
        mark(joint.from, 1, joint.output);
        mark(joint.to, 0, joint.input);
    }
    let mut all = Vec::with_capacity(flat.elements.len());
    for ((element, class), [inputs, outputs]) in flat.elements.iter().zip(found).zip(&mut used) {
        let class = class.unwrap_or(&ANY);
        let (ins, outs) = class.ports.split_once('/').unwrap_or(("-", "-"));
        let entered = ins.strip_suffix('!');
        let ins = entered.unwrap_or(ins);
        if entered.is_some() {
            // What nobody inside is connected to, packets from outside enter.
            let least = Range::parse(ins, 0).least.max(inputs.len());
            inputs.clear();
            inputs.resize(least, true);
        }
        let name = &element.name;
        let mut check = |range: Range, used: &[bool], what: &str| {
            let plural = |count: usize| if count == 1 { "" } else { "s" };
            if let Some(most) = range.most.filter(|most| used.len() > *most) {
                report.error(
                    Some(element.at),
                    format!("too many {what}s for '{name}', {most} {what}{} allowed", plural(most)),
                );
            }
            let needed = used.len().max(range.least);
            for port in (0..needed).filter(|port| used.get(*port) != Some(&true)) {
                report.error(Some(element.at), format!("'{name} :: {}' {what} {port} unused", element.class));
            }
        };
        check(Range::parse(ins, 0), inputs, "input");
        check(Range::parse(outs, inputs.len()), outputs, "output");
        all.push(Ports::new(class, inputs.len(), outputs.len()));
    }
    all
}

/// How many ports there may be.
struct Range {
    least: usize,
    most: Option<usize>,
}

impl Range {
    /// Reads a side of a class's port count; `inputs` is what `=` stands for.
    fn parse(text: &str, inputs: usize) -> Range {
        if let Some(more) = text.strip_prefix('=') {
            let count = inputs + more.len();
            return Range { least: count, most: Some(count) };
        }
        match text.split_once('-') {
            Some((least, most)) => Range { least: least.parse().unwrap_or(0), most: most.parse().ok() },
            None => {
                let count = text.parse().unwrap_or(0);
                Range { least: count, most: Some(count) }
            }
        }
    }
}
