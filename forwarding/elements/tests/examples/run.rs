//! Running one example.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use graph::language::Texts;
use graph::{BATCH, Clock, Environment, Graph, Manner, Program, Registry, Sinks};
use port::Pool;

use crate::packet::Sample;
use crate::stand::{self, Sink};
use crate::text::{Action, Example, Step, Subject, matches};

/// When examples begin: nanoseconds since 1970.
const BEGINNING: i64 = 1_000_000_000_000_000_000;
/// Rounds of tasks without time passing, after which an example is held to go on forever.
const ROUNDS: usize = 100_000;
/// What a program may take of its own time, in nanoseconds.
const LONGEST: u64 = 24 * 3600 * 1_000_000_000;

/// How an example is run.
pub fn manner(batches: bool) -> &'static str {
    if batches { "in batches" } else { "packet at a time" }
}

/// Runs an example; the error says what was not as it says.
pub fn run(example: &Example, batches: bool) -> Result<(), String> {
    let source = source(example)?;
    let refused: Vec<&str> = example
        .steps
        .iter()
        .filter_map(|step| match &step.action {
            Action::Refused(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut bench = match (Bench::start(&source, batches), refused.is_empty()) {
        (Ok(bench), true) => bench,
        (Ok(_), false) => return Err("the configuration was not refused".to_owned()),
        (Err(reasons), true) => return Err(format!("the configuration was refused:\n{reasons}")),
        (Err(reasons), false) => {
            let missing = refused.into_iter().find(|text| !matches(&format!("...{text}..."), &reasons));
            return missing.map_or(Ok(()), |text| Err(format!("refused, but not for '{text}':\n{reasons}")));
        }
    };

    let element = matches!(example.subject, Subject::Element(_));
    if element {
        bench.rest()?;
    } else if !matches!(example.steps.first().map(|step| &step.action), Some(Action::Wait(_))) {
        bench.pass(LONGEST)?;
    }
    let mut steps = example.steps.as_slice();
    while let Some((step, after)) = steps.split_first() {
        let together = if batches { packets_for_same_input(steps) } else { 1 };
        let done = match &step.action {
            Action::In(input, _) => bench.send(*input, &steps[..together]),
            action => bench.check(action, element),
        };
        done.map_err(|error| format!("line {}: {error}", step.line))?;
        steps = if matches!(step.action, Action::In(..)) { &steps[together..] } else { after };
    }
    bench.nothing_left()
}

/// How many packets in a row go to the same input, as many as fit into a batch.
fn packets_for_same_input(steps: &[Step]) -> usize {
    let input = |step: &Step| if let Action::In(input, _) = step.action { Some(input) } else { None };
    let Some(first) = steps.first().and_then(input) else { return 1 };
    steps.iter().take(BATCH).take_while(|step| input(step) == Some(first)).count()
}

/// The program of an example.
fn source(example: &Example) -> Result<String, String> {
    match &example.subject {
        Subject::Program(text) => Ok(text.clone()),
        Subject::Element(element) => surround(element, &example.steps),
    }
}

/// A configuration around an element: a source at each input, a sink at each output that it must
/// have or the steps name.
fn surround(element: &str, steps: &[Step]) -> Result<String, String> {
    let class = element.split('(').next().unwrap_or_default().trim();
    let ports = registry().find(class).map_or("-/-", |class| class.ports);
    let (inputs, outputs) = ports.split_once('/').unwrap_or(("-", "-"));
    let least = |range: &str| range.split('-').next().and_then(|least| least.parse().ok()).unwrap_or(0);
    let (mut ins, mut outs): (usize, usize) = (least(inputs), least(outputs));
    for step in steps {
        match step.action {
            Action::In(input, _) => ins = ins.max(input + 1),
            Action::Out(output, _) => outs = outs.max(output + 1),
            _ => {}
        }
    }
    if let Some(more) = outputs.strip_prefix('=') {
        ins = ins.max(outs.saturating_sub(more.len()));
        outs = ins + more.len();
    }
    let mut text = format!("element :: {element};\n");
    for input in 0..ins {
        text += &format!("in{input} :: ExampleSource -> [{input}] element;\n");
    }
    for output in 0..outs {
        text += &format!("element [{output}] -> out{output} :: ExampleSink;\n");
    }
    Ok(text)
}

/// The classes that examples use.
pub fn registry() -> Registry {
    let mut registry = elements::registry();
    registry.add(stand::CLASSES);
    registry
}

/// A running configuration.
pub struct Bench {
    graph: Graph,
    sinks: Sinks,
    printed: Arc<Mutex<VecDeque<String>>>,
}

impl Bench {
    /// Begins the program of an example.
    pub fn of(example: &Example, batches: bool) -> Result<Bench, String> {
        Bench::start(&source(example)?, batches)
    }

    /// Begins a program.
    pub fn start(source: &str, batches: bool) -> Result<Bench, String> {
        Pool::heap(4096).install();
        let mut texts = Texts::new();
        let text = texts.add("example", source);
        let environment = Environment::new();
        let refusal = |refusal: graph::Refusal| refusal.to_string();
        let program = Program::compile(texts, text, &[], &registry(), &environment).map_err(refusal)?;
        let manner = Manner { batches, clock: Clock::simulated(BEGINNING) };
        let mut graph = program.instantiate(&environment, manner).map_err(refusal)?;
        let printed = Arc::new(Mutex::new(VecDeque::new()));
        let heard = printed.clone();
        graph.listen(Box::new(move |text| {
            let lines = text.lines().map(str::to_owned);
            heard.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
        }));
        let mut sinks = Sinks::new();
        program.begin(&mut graph, &mut sinks).map_err(refusal)?;
        Ok(Bench { graph, sinks, printed })
    }

    /// The graph, and the sinks that it runs with.
    pub fn parts(&mut self) -> (&mut Graph, &mut Sinks) {
        (&mut self.graph, &mut self.sinks)
    }

    /// The graph alone.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// Lets tasks run until there is nothing left to do now; whether the program stopped.
    fn rest(&mut self) -> Result<bool, String> {
        for _ in 0..ROUNDS {
            let worked = self.graph.work(&mut self.sinks);
            if self.graph.stopping(&mut self.sinks) {
                return Ok(true);
            }
            if !worked {
                return Ok(false);
            }
        }
        Err("it goes on forever without time passing; set a limit".to_owned())
    }

    /// Lets this much time pass, or less when the program stops or has nothing left to do.
    fn pass(&mut self, time: u64) -> Result<(), String> {
        let end = self.graph.now().saturating_add(time);
        while !self.rest()? {
            match self.graph.next_event().filter(|event| *event <= end) {
                Some(event) => self.graph.jump(event),
                None if time < LONGEST => {
                    self.graph.jump(end);
                    self.rest()?;
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn send(&mut self, input: usize, steps: &[Step]) -> Result<(), String> {
        let mut lines = String::new();
        for step in steps {
            if let Action::In(_, sample) = &step.action {
                lines += &format!("{sample}\n");
            }
        }
        self.write(&format!("in{input}.send"), &lines)?;
        self.rest().map(drop)
    }

    fn check(&mut self, action: &Action, element: bool) -> Result<(), String> {
        let path = |handler: &str| {
            if element && !handler.contains('.') { format!("element.{handler}") } else { handler.to_owned() }
        };
        match action {
            Action::In(..) | Action::Refused(_) => Ok(()),
            Action::Out(output, expected) => self.out(*output, expected.as_ref()),
            Action::Read(handler, argument, expected) => {
                let value = self.graph.read_handler(&path(handler), argument, &mut self.sinks);
                let value = value.map_err(|error| format!("reading {handler}: {error}"))?;
                if matches(expected, &value) {
                    return Ok(());
                }
                Err(format!("expected {handler} to be\n{expected}\nbut it is\n{value}"))
            }
            Action::Write(handler, value) => {
                self.write(&path(handler), value)?;
                self.rest().map(drop)
            }
            Action::Refuse(handler, value) => match self.write(&path(handler), value) {
                Ok(()) => Err(format!("{handler} took '{value}'")),
                Err(_) => Ok(()),
            },
            Action::Prints(expected) => expected.lines().try_for_each(|expected| {
                let line = self.printed.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                match line {
                    Some(line) if matches(expected, &line) => Ok(()),
                    Some(line) => Err(format!("expected the line\n{expected}\nbut printed was\n{line}")),
                    None => Err(format!("expected the line\n{expected}\nbut nothing more was printed")),
                }
            }),
            Action::Wait(time) => self.pass(*time),
        }
    }

    fn write(&mut self, path: &str, value: &str) -> Result<(), String> {
        self.graph
            .write_handler(path, value, &mut self.sinks)
            .map_err(|error| format!("writing {path}: {error}"))
    }

    fn out(&mut self, output: usize, expected: Option<&Sample>) -> Result<(), String> {
        let name = format!("out{output}");
        let take = |graph: &Graph| graph.element::<Sink>(&name).and_then(Sink::take);
        let mut seen = take(&self.graph);
        if seen.is_none() {
            self.write(&format!("{name}.pull"), "")?;
            self.rest()?;
            seen = take(&self.graph);
        }
        match (expected, seen) {
            (Some(expected), Some(seen)) => expected.difference(&seen).map_or(Ok(()), Err),
            (Some(expected), None) => Err(format!("nothing came out where this was expected:\n  {expected}")),
            (None, Some(seen)) => {
                Err(format!("nothing should have left by output {output}, but\n  {}", seen.sample(&[])))
            }
            (None, None) => Ok(()),
        }
    }

    fn nothing_left(&mut self) -> Result<(), String> {
        let mut output = 0;
        while let Some(sink) = self.graph.element::<Sink>(&format!("out{output}")) {
            if let Some(seen) = sink.take() {
                return Err(format!("this also left by output {output}:\n  {}", seen.sample(&[])));
            }
            output += 1;
        }
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = printed.iter().map(String::as_str).collect();
        if lines.is_empty() { Ok(()) } else { Err(format!("this was also printed:\n{}", lines.join("\n"))) }
    }
}
