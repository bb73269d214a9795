//! Calling handlers by name: from outside the graph, and from elements (Script).
//!
//! `element.handler` names a handler of an element, as seen from where it is called; a name without
//! an element is one of the graph's own. Every element has `name`, `class`, `config`, `ports`,
//! `handlers`, and while it has a task `scheduled`, `tickets` and `home_thread`; the element's own
//! come first when they have the same name. `icounts` and `ocounts`, which Click has when it is
//! built with statistics, can be read and are not listed.

use crate::arguments::{Argument, Names, Scope, unparse};
use crate::language::Flat;
use crate::schedule::MOST_TICKETS;
use crate::{Context, Description, Flow, Graph, Handler, HandlerError, Node, NodeId, Sinks};

/// The handlers of every element.
const EVERY: [&str; 5] = ["name", "class", "config", "ports", "handlers"];
/// The handlers of an element that has a task; all but the last can be written.
const OF_TASKS: [&str; 3] = ["scheduled", "tickets", "home_thread"];
/// The handlers of the graph itself, and whether they are read and written.
const GLOBAL: [(&str, bool, bool); 12] = [
    ("version", true, false),
    ("list", true, false),
    ("classes", true, false),
    ("config", true, false),
    ("flatconfig", true, false),
    ("requirements", true, false),
    ("handlers", true, false),
    ("driver", true, false),
    ("packages", true, false),
    ("stop", false, true),
    ("hotconfig", false, true),
    ("timewarp", true, true),
];

/// Texts of a program that its handlers show.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The configuration as it was given.
    pub configuration: String,
    /// The same without compounds; as a text Click's `flatconfig`.
    pub flat: Flat,
    /// What it requires, one a line.
    pub requirements: String,
    /// The classes known, one a line.
    pub classes: String,
    /// What its addresses and ports are called.
    pub names: Names,
}

impl Graph {
    /// Reads a handler: `element.handler` or one of the graph's own.
    pub fn read_handler(
        &mut self,
        path: &str,
        argument: &str,
        sinks: &mut Sinks,
    ) -> Result<String, HandlerError> {
        self.machine.clock.forget();
        let result = self.top(sinks).read_handler(path, argument);
        self.settle(sinks);
        result
    }

    /// Writes a handler: `element.handler` or one of the graph's own.
    pub fn write_handler(&mut self, path: &str, value: &str, sinks: &mut Sinks) -> Result<(), HandlerError> {
        self.machine.clock.forget();
        let result = self.top(sinks).write_handler(path, value);
        self.settle(sinks);
        result
    }

    /// The handlers of an element, or with an empty name of the graph itself.
    pub fn handlers(&mut self, element: &str, sinks: &mut Sinks) -> Result<Vec<Handler>, HandlerError> {
        self.top(sinks).handlers(element)
    }

    pub(crate) fn top<'a>(&'a mut self, sinks: &'a mut Sinks) -> Context<'a> {
        // No element is at the root: names are those of the whole graph.
        let Graph { wiring, counters, machine, .. } = self;
        let own = &wiring.nobody;
        Context {
            node: NodeId(usize::MAX),
            outputs: &[],
            counters: own,
            all: counters,
            wiring,
            machine,
            sinks,
        }
    }
}

impl Context<'_> {
    /// Reads a handler: `element.handler`, of an element seen from this one, or one of the graph's
    /// own.
    pub fn read_handler(&mut self, path: &str, argument: &str) -> Result<String, HandlerError> {
        let Some((node, handler)) = self.resolve(path)? else { return self.read_global(path) };
        let (there, given) = (handler.clone(), argument.to_owned());
        if let Some(answer) = self.call_elsewhere(node, move |cx| cx.read_handler_of(node, there, &given)) {
            return answer;
        }
        self.read_handler_of(node, handler, argument)
    }

    fn read_handler_of(
        &mut self,
        node: NodeId,
        handler: String,
        argument: &str,
    ) -> Result<String, HandlerError> {
        let own = match self.own_handlers(node) {
            // What every element has can be read while it is at work.
            Err(HandlerError::Busy(_)) if handler != "handlers" && EVERY.contains(&&*handler) => Vec::new(),
            own => own?,
        };
        match find(&own, &handler) {
            Some(found) if !found.reads => Err(HandlerError::WriteOnly(handler)),
            Some(found) if !argument.is_empty() && !found.takes_argument => {
                Err(HandlerError::NoArgument(handler))
            }
            Some(_) => self
                .with_element(node, |element, cx| element.read(&handler, argument, cx))
                .unwrap_or_else(|| Err(self.busy(node))),
            None => self.read_every(node, &handler),
        }
    }

    /// Writes a handler: `element.handler`, of an element seen from this one, or one of the graph's
    /// own.
    pub fn write_handler(&mut self, path: &str, value: &str) -> Result<(), HandlerError> {
        let Some((node, handler)) = self.resolve(path)? else { return self.write_global(path, value) };
        let (there, given) = (handler.clone(), value.to_owned());
        if let Some(answer) = self.call_elsewhere(node, move |cx| cx.write_handler_of(node, there, &given)) {
            return answer;
        }
        self.write_handler_of(node, handler, value)
    }

    fn write_handler_of(&mut self, node: NodeId, handler: String, value: &str) -> Result<(), HandlerError> {
        if handler == "config" {
            return self.reconfigure(node, value);
        }
        let own = self.own_handlers(node)?;
        match find(&own, &handler) {
            Some(found) if !found.writes => Err(HandlerError::ReadOnly(handler)),
            Some(Handler { replaces: Some(argument), .. }) => self.replace(node, *argument, value),
            Some(_) => self
                .with_element(node, |element, cx| element.write(&handler, value, cx))
                .unwrap_or_else(|| Err(self.busy(node))),
            None => self.write_every(node, &handler, value),
        }
    }

    /// Reads a text that was written to a handler of this element as an argument in its
    /// configuration is read, with the names that it sees.
    ///
    /// # Errors
    /// What is wrong with the text, in Click's words.
    pub fn argument<T: Argument>(&self, text: &str) -> Result<T, HandlerError> {
        T::parse(text, &self.scope()).map_err(HandlerError::refused)
    }

    /// The names that this element sees.
    pub fn scope(&self) -> Scope<'_> {
        Scope::new(&self.wiring.about.names, self.name())
    }

    /// The handlers of an element seen from this one, or with an empty name of the graph itself.
    pub fn handlers(&mut self, element: &str) -> Result<Vec<Handler>, HandlerError> {
        if element.is_empty() {
            return Ok(GLOBAL.into_iter().filter(|global| self.offers(global.0)).map(global).collect());
        }
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let there = self.call_elsewhere(node, move |cx| cx.all_handlers(node));
        there.unwrap_or_else(|| self.all_handlers(node))
    }

    fn all_handlers(&mut self, node: NodeId) -> Result<Vec<Handler>, HandlerError> {
        let mut all = self.own_handlers(node)?;
        self.add_common(node, &mut all);
        let reconfigures = self.with_element(node, |element, _| element.reconfigures());
        for config in all.iter_mut().filter(|handler| handler.name == "config") {
            config.writes = reconfigures == Some(true);
        }
        Ok(all)
    }

    /// Puts the handlers of every element, and those of tasks, behind an element's own; the last
    /// added first.
    fn add_common(&self, node: NodeId, all: &mut Vec<Handler>) {
        all.reverse();
        let tasks = OF_TASKS.into_iter().filter(|_| self.machine.schedule.has_task(node));
        let tasks = tasks.map(|name| match name {
            "home_thread" => Handler::read(name),
            name => Handler::read_write(name),
        });
        let every = EVERY.into_iter().map(|name| Handler { calm: true, ..Handler::read(name) });
        let common: Vec<Handler> = every.chain(tasks).collect();
        for handler in common.into_iter().rev() {
            if all.iter().all(|own| own.name != handler.name) {
                all.push(handler);
            }
        }
    }

    /// The element and the handler that a path means; `None` for a handler of the graph.
    fn resolve(&self, path: &str) -> Result<Option<(NodeId, String)>, HandlerError> {
        // Names of elements have no dots, those of handlers may.
        let Some((element, handler)) = path.split_once('.') else { return Ok(None) };
        if element.is_empty() {
            return Ok(None);
        }
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        Ok(Some((node, handler.to_owned())))
    }

    fn own_handlers(&mut self, node: NodeId) -> Result<Vec<Handler>, HandlerError> {
        self.with_element(node, |element, _| element.handlers()).ok_or_else(|| self.busy(node))
    }

    pub(crate) fn busy(&self, node: NodeId) -> HandlerError {
        HandlerError::Busy(self.described(node).map_or(String::new(), |node| node.name.clone()))
    }

    fn described(&self, node: NodeId) -> Option<&Node> {
        self.wiring.description.nodes.get(node.0)
    }

    fn read_every(&mut self, node: NodeId, handler: &str) -> Result<String, HandlerError> {
        let unknown = || HandlerError::unknown(handler);
        let described = self.described(node).ok_or_else(unknown)?;
        Ok(match handler {
            "name" => described.name.clone(),
            "class" => described.class.to_owned(),
            "config" => self.configuration(node),
            "ports" => ports(&self.wiring.description, described),
            "handlers" => listing(&self.all_handlers(node)?),
            "icounts" => lines((0..described.inputs.len()).map(|input| self.entered(node, input))),
            "ocounts" => lines((0..described.outputs.len()).map(|output| self.left(node, output))),
            _ if !self.machine.schedule.has_task(node) => return Err(unknown()),
            "scheduled" => self.machine.schedule.is_awake(node).to_string(),
            "tickets" => self.machine.schedule.tickets(node).to_string(),
            "home_thread" => self.machine.homes.get(&node).copied().unwrap_or_default().to_string(),
            _ => return Err(unknown()),
        })
    }

    /// Packets that left by an output.
    fn left(&self, node: NodeId, output: usize) -> u64 {
        self.all.node(node).map_or(0, |counters| counters.output(output))
    }

    /// Packets that came by an input.
    fn entered(&self, node: NodeId, input: usize) -> u64 {
        let edges = self.wiring.description.edges.iter();
        let ends_there = edges.filter(|edge| edge.to == node && edge.input == input);
        ends_there.map(|edge| self.left(edge.from, edge.output)).sum()
    }

    fn write_every(&mut self, node: NodeId, handler: &str, value: &str) -> Result<(), HandlerError> {
        match handler {
            handler if EVERY.contains(&handler) => return Err(HandlerError::ReadOnly(handler.to_owned())),
            _ if !self.machine.schedule.has_task(node) => return Err(HandlerError::unknown(handler)),
            "scheduled" => match value.trim() {
                "true" | "1" | "yes" => self.machine.schedule.schedule(node),
                "false" | "0" | "no" => self.machine.schedule.unschedule(node),
                _ => return Err(HandlerError::refused("expected a boolean")),
            },
            "tickets" => {
                let message = format!("'tickets' takes an integer between 1 and {MOST_TICKETS}");
                let asked: i64 = value.trim().parse().map_err(|_| HandlerError::Refused(message))?;
                let tickets = u32::try_from(asked.max(1)).map_or(MOST_TICKETS, |it| it.min(MOST_TICKETS));
                if i64::from(tickets) != asked {
                    self.say(&format!("warning: tickets pinned at {tickets}"));
                }
                self.machine.schedule.set_tickets(node, tickets);
            }
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }

    fn offers(&self, global: &str) -> bool {
        global != "hotconfig" || self.machine.compile.is_some()
    }

    fn read_global(&mut self, path: &str) -> Result<String, HandlerError> {
        let handler = path.trim_start_matches('.');
        let about = &self.wiring.about;
        Ok(match handler {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "list" => {
                let nodes = &self.wiring.description.nodes;
                let names = nodes.iter().map(|node| format!("{}\n", node.name)).collect::<String>();
                format!("{}\n{names}", nodes.len())
            }
            "classes" => about.classes.clone(),
            // As the configuration asks to have it told.
            "config" if about.requirements.lines().any(|line| line.ends_with("compact_config")) => {
                self.flat_configuration()
            }
            "config" => about.configuration.clone(),
            "flatconfig" => self.flat_configuration(),
            "requirements" => about.requirements.clone(),
            "driver" => "userlevel".to_owned(),
            "timewarp" => unparse::real(self.machine.clock.speed()),
            "packages" => String::new(),
            "handlers" => listing(&self.handlers("")?),
            "stop" => return Err(HandlerError::WriteOnly(handler.to_owned())),
            "hotconfig" if self.offers("hotconfig") => {
                return Err(HandlerError::WriteOnly(handler.to_owned()));
            }
            _ => return Err(HandlerError::unknown(handler)),
        })
    }

    fn write_global(&mut self, path: &str, value: &str) -> Result<(), HandlerError> {
        match path.trim_start_matches('.') {
            // As often as is written; Click's too takes what is no number for once.
            "stop" => self.machine.stops += value.trim().parse().unwrap_or(1),
            "hotconfig" if self.machine.compile.is_some() => self.change_graph(value)?,
            "timewarp" => match value.trim().parse::<f64>() {
                Ok(speed) if speed > 0.0 && speed.is_finite() => self.machine.clock.warp(speed),
                _ => return Err(HandlerError::refused("timewarp must be a number above 0")),
            },
            handler if GLOBAL.iter().any(|global| global.0 == handler) => {
                return Err(HandlerError::ReadOnly(handler.to_owned()));
            }
            handler => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}

impl Context<'_> {
    fn change_graph(&mut self, text: &str) -> Result<(), HandlerError> {
        if let Some(compile) = &mut self.machine.compile {
            self.machine.next = Some(Box::new(compile(text).map_err(HandlerError::Refused)?));
        }
        Ok(())
    }
}

fn global((name, reads, writes): (&'static str, bool, bool)) -> Handler {
    Handler { reads, writes, ..Handler::read(name) }
}

/// The handler of a name; `*` is one of any name.
fn find<'h>(handlers: &'h [Handler], name: &str) -> Option<&'h Handler> {
    let named = handlers.iter().find(|handler| handler.name == name);
    named.or_else(|| handlers.iter().find(|handler| handler.name == "*" && !EVERY.contains(&name)))
}

/// Handlers as the `handlers` handler lists them, the last added first: name, tab, `r`, `w`, `+`
/// when reading takes an argument, `.` when the value does not change.
fn listing(handlers: &[Handler]) -> String {
    let line = |handler: &Handler| {
        let Handler { reads, writes, takes_argument, calm, .. } = *handler;
        let marks = [(reads, "r"), (writes, "w"), (takes_argument, "+"), (calm, ".")];
        let marks: String = marks.into_iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
        format!("{}\t{marks}\n", handler.name)
    };
    handlers.iter().filter(|handler| !handler.private).map(line).collect()
}

fn lines(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

/// The `ports` handler: each port with its kind and what it is connected to.
fn ports(description: &Description, node: &Node) -> String {
    let count = |count: usize, what: &str| format!("{count} {what}{}\n", if count == 1 { "" } else { "s" });
    let name = |id: NodeId| description.nodes.get(id.0).map_or("", |node| node.name.as_str());
    let line = |flow: Flow, agnostic: bool, ends: Vec<String>| {
        let flow = if flow == Flow::Push { "push" } else { "pull" };
        format!("{flow}{}\t-\t{}\n", if agnostic { "~" } else { "" }, ends.join(", "))
    };
    let mut text = count(node.inputs.len(), "input");
    for (input, flow) in node.inputs.iter().enumerate() {
        let ends = description.edges.iter().filter(|edge| edge.to == node.id && edge.input == input);
        let ends = ends.map(|edge| format!("{} [{}]", name(edge.from), edge.output)).collect();
        text += &line(*flow, node.agnostic.get(input).copied().unwrap_or_default(), ends);
    }
    text += &count(node.outputs.len(), "output");
    for (output, flow) in node.outputs.iter().enumerate() {
        let ends = description.edges.iter().filter(|edge| edge.from == node.id && edge.output == output);
        let ends = ends.map(|edge| format!("[{}] {}", edge.input, name(edge.to))).collect();
        let agnostic = node.agnostic.get(node.inputs.len() + output).copied().unwrap_or_default();
        text += &line(*flow, agnostic, ends);
    }
    text
}
