//! Doing a script's instructions.
//!
//! A script makes *steps*: each takes it past what it waits for, and on to the next instruction
//! that waits. While it runs it may call handlers of its own, which ask for further steps or set
//! the place to go on at; both are done when the call has returned.

use std::fs::OpenOptions;
use std::io::Write;

use graph::arguments::{Seconds, unparse};
use graph::language::{first_word, quote, replace_variables, split_words, uncomment};
use graph::{Context, Handler, HandlerError};

use super::instruction::{Ending, Instruction, Place, place};
use super::{Kind, Script, functions, signal, text};

/// A script that goes elsewhere so often without waiting is given up.
const MAX_JUMPS: usize = 1000;
/// What `$?` is after a handler refused: as Click has it, EINVAL.
const REFUSED: i32 = -22;

/// Why a script makes a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody asked for it.
    Asked,
    /// The program was asked to stop.
    Stop,
    /// Time has passed.
    Timer,
}

/// The call of a handler that runs the script.
#[derive(Default)]
pub(super) struct Operation {
    handler: String,
    argument: String,
    writes: bool,
}

/// How a run ended: nothing in particular where the script waits.
pub(super) enum End {
    Waits,
    Of(Ending),
    Returned,
}

impl Script {
    /// Sets the variables that have a first value, and begins to run if it does so by itself.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>) {
        for at in 0..self.instructions.len() {
            if let Instruction::Init { variable, text: value, unquote, .. } = self.instructions[at].clone() {
                let value = self.expand(&value, unquote, cx);
                self.variables.insert(variable, value);
            }
        }
        if let Kind::Signal(numbers) = &self.kind {
            numbers.iter().for_each(|number| cx.catch_signal(*number));
        }
        if !matches!(self.kind, Kind::Active | Kind::Driver) {
            return;
        }
        match self.instructions.first().cloned() {
            Some(Instruction::Wait(time)) => self.wait(&time, cx),
            Some(Instruction::Begin) => {
                self.seen[0] = 1;
                if self.kind == Kind::Driver {
                    // The driver, which would stop, gives it its first step instead.
                    cx.stop();
                } else {
                    let now = cx.now();
                    cx.set_timer(0, now);
                }
            }
            _ => {}
        }
    }

    /// Whether it could wait for a time.
    fn wait(&mut self, time: &str, cx: &mut Context<'_>) {
        let time = self.expand(time, false, cx);
        match cx.argument::<Seconds>(&time) {
            Ok(Seconds(nanoseconds)) => {
                let now = cx.now();
                cx.set_timer(0, now.saturating_add_signed(nanoseconds.max(0)));
            }
            Err(_) => self.complain(None, "syntax error at 'wait'", cx),
        }
    }

    /// A signal has come.
    pub(super) fn on_signal(&mut self, cx: &mut Context<'_>) {
        self.at = 0;
        self.operation = Operation { handler: "run".to_owned(), argument: String::new(), writes: true };
        let ended = self.advance(0, Step::Asked, cx);
        self.complain_of_failure(cx);
        if let Kind::Signal(numbers) = &self.kind
            && !matches!(ended, End::Of(Ending::End))
        {
            numbers.iter().for_each(|number| cx.release_signal(*number));
        }
    }

    /// The program was asked to stop; whether the script wants to go on.
    pub(super) fn step_on_stop(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..MAX_JUMPS {
            self.goes_on = false;
            let ended = self.advance(1, Step::Stop, cx);
            if self.goes_on {
                return true;
            }
            if matches!(ended, End::Of(Ending::Stop | Ending::Error)) {
                break;
            }
        }
        false
    }

    /// Which output a packet leaves by; `None`: none.
    pub(super) fn output_of(&mut self, input: usize, cx: &mut Context<'_>) -> Option<usize> {
        self.variables.insert("input".to_owned(), input.to_string());
        self.at = 0;
        match self.advance(0, Step::Asked, cx) {
            End::Of(Ending::End) => Some(0),
            End::Returned => {
                functions::whole(self.returned().trim()).and_then(|output| output.try_into().ok())
            }
            _ => {
                self.complain_of_failure(cx);
                None
            }
        }
    }

    fn returned(&self) -> String {
        self.variables.get("_").cloned().unwrap_or_default()
    }

    /// Makes steps, and those that are asked for meanwhile; how the run ended, or that it waits.
    pub(super) fn advance(&mut self, steps: i64, why: Step, cx: &mut Context<'_>) -> End {
        if let Some(asked) = &mut self.asked {
            // It is running: whoever does goes on.
            *asked += steps;
            return End::Waits;
        }
        let (mut steps, mut why, mut jumps) = (steps, why, 0);
        while steps >= 0 {
            self.asked = Some(-1);
            jumps = self.run(steps, why, jumps, cx);
            steps = self.asked.take().unwrap_or(-1);
            why = Step::Asked;
        }
        let ended = self.ended();
        if let (Kind::Signal(numbers), End::Of(Ending::End)) = (&self.kind, &ended) {
            numbers.iter().for_each(|number| cx.catch_signal(*number));
        }
        ended
    }

    fn ended(&self) -> End {
        match self.instructions.get(self.at) {
            Some(Instruction::End(ending) | Instruction::Goto { to: Place::Out(ending), .. }) => {
                End::Of(*ending)
            }
            Some(Instruction::Error { .. }) => End::Of(Ending::Error),
            Some(Instruction::Return { .. }) => End::Returned,
            _ => End::Waits,
        }
    }

    /// Makes steps, until it waits or ends: then `at` is the instruction that it does so at.
    /// Returns how often it went elsewhere, counted on from `jumps`.
    fn run(&mut self, steps: i64, why: Step, mut jumps: usize, cx: &mut Context<'_>) -> usize {
        let last = self.steps.saturating_add(steps);
        while last >= self.steps && jumps < MAX_JUMPS {
            let at = self.at;
            let Some(instruction) = self.instructions.get(at).cloned() else { break };
            // Before it is done: it may call handlers that change it.
            self.at += 1;
            match instruction {
                Instruction::Begin => self.steps += i64::from(std::mem::take(&mut self.seen[at])),
                Instruction::Pause(count) => {
                    while self.steps < last && self.seen[at] < count {
                        self.seen[at] += 1;
                        self.steps += 1;
                    }
                    if self.seen[at] < count {
                        self.at = at;
                        break;
                    }
                }
                Instruction::Wait(time) => {
                    if self.steps == last {
                        self.at = at;
                        self.wait(&time, cx);
                        break;
                    }
                    self.steps += 1;
                    cx.clear_timer(0);
                }
                Instruction::Goto { to, condition } => {
                    if self.is_true(&condition, cx) {
                        match to {
                            Place::At(to) => {
                                self.seen[to.min(at)..at].fill(0);
                                self.at = to;
                            }
                            _ => {
                                self.at = at;
                                return jumps + 1;
                            }
                        }
                    }
                }
                Instruction::Return { text, unquote } => {
                    let value = self.expand(&text, unquote, cx);
                    self.variables.insert("_".to_owned(), value);
                    if self.at == at + 1 {
                        self.at = at;
                        break;
                    }
                }
                Instruction::End(ending) => {
                    self.at = at;
                    if ending == Ending::Stop {
                        self.steps += 1;
                        if why != Step::Stop {
                            cx.stop();
                        }
                    }
                    return jumps + 1;
                }
                Instruction::Error { text, unquote } => {
                    self.failure = self.expand(&text, unquote, cx);
                    if why != Step::Asked {
                        self.complain_of_failure(cx);
                    }
                    self.at = at;
                    return jumps + 1;
                }
                instruction => self.talk(instruction, cx),
            }
            jumps += usize::from(self.at != at + 1);
        }
        if jumps >= MAX_JUMPS {
            cx.say(&format!("{} :: {}: too many jumps, giving up", cx.name(), self.class));
            self.at = self.instructions.len();
            cx.clear_timer(0);
        }
        self.goes_on |= why == Step::Stop;
        jumps + 1
    }

    fn is_true(&mut self, condition: &str, cx: &mut Context<'_>) -> bool {
        let condition = self.expand(condition, false, cx);
        if condition.is_empty() {
            return true;
        }
        cx.argument(&condition).unwrap_or_else(|_: HandlerError| {
            self.complain(None, &format!("bad condition '{condition}'"), cx);
            false
        })
    }

    /// The instructions that talk to others and change no place.
    fn talk(&mut self, instruction: Instruction, cx: &mut Context<'_>) {
        match instruction {
            Instruction::Print { text, newline, unquote } => {
                if let Err(message) = self.print(&text, newline, unquote, cx) {
                    self.complain(None, &message, cx);
                }
            }
            Instruction::Read { call, unquote } => {
                let call = Call::new(&self.expand(&call, false, cx), unquote);
                match self.read_handler(&call, cx) {
                    Ok(value) => {
                        cx.say(&format!("{}:\n{value}", self.full_name(&call, cx)));
                    }
                    Err(wrong) => self.complain_of(wrong, &call, cx),
                }
            }
            Instruction::Write { call, unquote } => {
                let call = Call::new(&self.expand(&call, false, cx), unquote);
                match self.write_handler(&call, cx) {
                    Ok(()) => self.status = 0,
                    Err(wrong) => {
                        if matches!(wrong, Wrong::Refused(_)) {
                            self.status = REFUSED;
                        }
                        self.complain_of(wrong, &call, cx);
                    }
                }
            }
            Instruction::Set { variable, text, unquote } => {
                let value = self.expand(&text, unquote, cx);
                self.variables.insert(variable, value);
            }
            _ => {}
        }
    }

    fn print(
        &mut self,
        text: &str,
        newline: bool,
        unquote: bool,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        let (mut text, mut file) = (text, None);
        if let Some(behind) = text.strip_prefix('>') {
            let (append, behind) = behind.strip_prefix('>').map_or((false, behind), |behind| (true, behind));
            let (name, rest) = first_word(behind).unwrap_or_default();
            text = rest;
            if !name.is_empty() && name != "-" {
                let opened =
                    OpenOptions::new().create(true).append(append).write(true).truncate(!append).open(name);
                file = Some(opened.map_err(|error| format!("{name}: {}", reason(&error)))?);
            }
        }
        let calls = text.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '@' || sign == '_');
        let mut failed = false;
        let mut result = if calls {
            let call = Call::new(&self.expand(text, false, cx), unquote);
            self.read_handler(&call, cx).unwrap_or_else(|wrong| {
                failed = true;
                self.complain_of(wrong, &call, cx);
                String::new()
            })
        } else {
            let quoted = self.replace(text, true, cx);
            super::text(&quoted)
        };
        if newline && !failed && !result.ends_with('\n') {
            result.push('\n');
        }
        let written = match &mut file {
            Some(file) => file.write_all(result.as_bytes()),
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(result.as_bytes()).and_then(|()| out.flush())
            }
        };
        written.map_err(|error| reason(&error))
    }

    /// A text with its variables and handlers replaced.
    fn expand(&mut self, text: &str, unquote: bool, cx: &mut Context<'_>) -> String {
        let expanded = self.replace(text, false, cx);
        if unquote { super::text(&expanded) } else { expanded }
    }

    fn replace(&mut self, text: &str, quoting: bool, cx: &mut Context<'_>) -> String {
        replace_variables(text, quoting, &mut |name, calls| self.value(name, calls, cx))
    }

    fn value(&mut self, name: &str, calls: bool, cx: &mut Context<'_>) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let Operation { handler, argument, writes } = &self.operation;
        match name {
            "?" => return Some(self.status.to_string()),
            "args" => return Some(argument.clone()),
            "$" => return Some(std::process::id().to_string()),
            "0" => return Some(handler.clone()),
            "#" => return Some(split_words(argument).len().to_string()),
            "write" => return Some(functions::truth(*writes)),
            _ => {}
        }
        if let Ok(number @ 1..) = name.parse::<usize>() {
            return Some(split_words(argument).get(number - 1).copied().unwrap_or("").to_owned());
        }
        if !calls {
            return None;
        }
        let call = Call::new(name, false);
        match self.read_handler(&call, cx) {
            Ok(value) => Some(value),
            Err(wrong) => {
                let found = matches!(wrong, Wrong::Refused(_));
                self.complain_of(wrong, &call, cx);
                found.then(String::new)
            }
        }
    }

    /// Which of this script's own handlers a call means, if it means one.
    fn own<'c>(&self, call: &'c Call, cx: &Context<'_>) -> Option<&'c str> {
        match call.path.split_once('.') {
            None => {
                use graph::Element;
                self.handlers().iter().any(|own| own.name == *call.path).then_some(&call.path)
            }
            Some((element, handler)) => (cx.find(element) == Some(cx.id())).then_some(handler),
        }
    }

    fn read_handler(&mut self, call: &Call, cx: &mut Context<'_>) -> Result<String, Wrong> {
        if let Some(own) = self.own(call, cx)
            && self.offers(own, false)
        {
            return self.read_own(own, &call.argument, cx).map_err(Wrong::Refused);
        }
        cx.read_handler(&call.path, &call.argument).map_err(|error| Wrong::of(error, call, false))
    }

    fn write_handler(&mut self, call: &Call, cx: &mut Context<'_>) -> Result<(), Wrong> {
        if let Some(own) = self.own(call, cx)
            && self.offers(own, true)
        {
            return self.write_own(own, &call.argument, cx).map_err(Wrong::Refused);
        }
        cx.write_handler(&call.path, &call.argument).map_err(|error| Wrong::of(error, call, true))
    }

    fn offers(&self, own: &str, write: bool) -> bool {
        use graph::Element;
        let offers = |handler: &Handler| {
            (handler.name == own || handler.name == "*") && if write { handler.writes } else { handler.reads }
        };
        self.handlers().iter().any(offers)
    }

    fn full_name(&self, call: &Call, cx: &Context<'_>) -> String {
        let own = self.own(call, cx).filter(|own| self.offers(own, false));
        let handler = call.path.strip_prefix('.').unwrap_or(&call.path);
        own.map_or_else(|| handler.to_owned(), |own| format!("{}.{own}", cx.name()))
    }

    /// Reads a handler of this script.
    pub(super) fn read_own(
        &mut self,
        handler: &str,
        argument: &str,
        cx: &mut Context<'_>,
    ) -> Result<String, String> {
        if let Some(result) = functions::call(handler, argument) {
            return result;
        }
        match handler {
            "run" => self.run_anew(handler, argument, false, cx),
            "now" => Ok(unparse::timestamp(cx.wall())),
            "readable" | "writable" => Ok(functions::truth(
                split_words(argument).into_iter().all(|path| self.has(path, handler == "writable", cx)),
            )),
            "cat" | "catq" => {
                let path = text(argument);
                let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {}", reason(&error)))?;
                Ok(if handler == "catq" {
                    quote(bytes)
                } else {
                    String::from_utf8_lossy(&bytes).into_owned()
                })
            }
            "kill" => kill(argument),
            "get" | "shift" => {
                let words = split_words(argument);
                let name = match words.as_slice() {
                    [] if handler == "shift" => "args",
                    [] => return Err("no variable".to_owned()),
                    [name] => name,
                    _ => return Err("too many arguments".to_owned()),
                };
                let variable = match name {
                    "args" => &mut self.operation.argument,
                    name => {
                        let undefined = || format!("undefined variable '{name}'");
                        self.variables.get_mut(name).ok_or_else(undefined)?
                    }
                };
                if handler == "get" {
                    return Ok(variable.clone());
                }
                let (word, rest) = first_word(variable).unwrap_or_default();
                let (word, rest) = (word.to_owned(), rest.to_owned());
                *variable = rest;
                Ok(word)
            }
            exported if self.exports(exported) => {
                Ok(self.variables.get(exported).cloned().unwrap_or_default())
            }
            other => self.run_anew(other, argument, false, cx),
        }
    }

    fn exports(&self, name: &str) -> bool {
        let exports = |instruction: &Instruction| matches!(instruction, Instruction::Init { variable, export: true, .. } if variable == name);
        self.instructions.iter().any(exports)
    }

    /// Writes a handler of this script.
    pub(super) fn write_own(
        &mut self,
        handler: &str,
        value: &str,
        cx: &mut Context<'_>,
    ) -> Result<(), String> {
        match handler {
            "step" => {
                let (steps, why) = match uncomment(value).as_str() {
                    "" => (1, Step::Asked),
                    "router" => (1, Step::Stop),
                    number => {
                        (functions::whole(number).ok_or_else(|| "syntax error".to_owned())?, Step::Asked)
                    }
                };
                {
                    let ended = self.advance(steps, why, cx);
                    self.failed(&ended)
                }
            }
            "goto" => {
                let Some(Place::At(to)) = place(&self.instructions, &uncomment(value)) else {
                    return Err("jump to nonexistent label".to_owned());
                };
                self.seen[to..].fill(0);
                self.at = to;
                if self.asked.is_some() {
                    return Ok(());
                }
                let ended = self.advance(0, Step::Asked, cx);
                self.failed(&ended)
            }
            "set" => {
                let (name, value) = first_word(value).ok_or_else(|| "no variable".to_owned())?;
                match name {
                    "args" => self.operation.argument = value.to_owned(),
                    name => {
                        self.variables.insert(name.to_owned(), value.to_owned());
                    }
                }
                Ok(())
            }
            handler => self.run_anew(handler, value, true, cx).map(drop),
        }
    }

    /// Runs from the beginning, and gives the value that is returned.
    fn run_anew(
        &mut self,
        handler: &str,
        argument: &str,
        writes: bool,
        cx: &mut Context<'_>,
    ) -> Result<String, String> {
        self.at = 0;
        self.operation = Operation { handler: handler.to_owned(), argument: argument.to_owned(), writes };
        if self.asked.is_some() {
            return Ok(String::new());
        }
        match self.advance(0, Step::Asked, cx) {
            End::Returned => Ok(self.returned()),
            ended => self.failed(&ended).map(|()| String::new()),
        }
    }

    /// Whether the run ended in failure, and what `error` said of it.
    fn failed(&mut self, ended: &End) -> Result<(), String> {
        let failure = std::mem::take(&mut self.failure);
        if matches!(ended, End::Of(Ending::Error)) { Err(failure) } else { Ok(()) }
    }

    fn has(&self, path: &str, write: bool, cx: &mut Context<'_>) -> bool {
        let call = Call { path: path.to_owned(), argument: String::new() };
        if let Some(own) = self.own(&call, cx) {
            return self.offers(own, write);
        }
        let (element, handler) = path.split_once('.').unwrap_or(("", path));
        let fits = |found: &Handler| found.name == handler && if write { found.writes } else { found.reads };
        cx.handlers(element).is_ok_and(|handlers| handlers.iter().any(fits))
    }

    fn complain_of(&self, wrong: Wrong, call: &Call, cx: &mut Context<'_>) {
        match wrong {
            Wrong::Missing(message) => self.complain(None, &message, cx),
            Wrong::Refused(message) => self.complain(Some(call), &message, cx),
        }
    }

    /// Says what `error` said, if nobody who called the script is told.
    fn complain_of_failure(&mut self, cx: &mut Context<'_>) {
        let failure = std::mem::take(&mut self.failure);
        if !failure.is_empty() {
            self.complain(None, &failure, cx);
        }
    }

    /// Says what went wrong, and where.
    fn complain(&self, call: Option<&Call>, message: &str, cx: &mut Context<'_>) {
        cx.say(&format!("While executing '{} :: {}':", cx.name(), self.class));
        let mut indent = "  ";
        if let Some(call) = call {
            let space = if call.argument.is_empty() { "" } else { " " };
            cx.say(&format!("  While calling '{}{space}{}':", self.full_name(call, cx), call.argument));
            indent = "    ";
        }
        for line in message.lines() {
            cx.say(&format!("{indent}{line}"));
        }
    }
}

/// A call of a handler: its path, and what follows it.
struct Call {
    path: String,
    argument: String,
}

impl Call {
    fn new(words: &str, unquote: bool) -> Call {
        let (path, argument) = first_word(words).unwrap_or_default();
        Call { path: text(path), argument: if unquote { text(argument) } else { argument.to_owned() } }
    }
}

/// Why a call failed.
enum Wrong {
    /// There is no such handler.
    Missing(String),
    /// It was called and refused.
    Refused(String),
}

impl Wrong {
    fn of(error: HandlerError, call: &Call, write: bool) -> Wrong {
        let what = if write { "write" } else { "read" };
        match error {
            HandlerError::NoHandler(_) | HandlerError::ReadOnly(_) | HandlerError::WriteOnly(_) => {
                Wrong::Missing(format!("no '{}' {what} handler", call.path.trim_start_matches('.')))
            }
            HandlerError::NoElement(name) => Wrong::Missing(format!("no element named '{name}'")),
            error => Wrong::Refused(error.to_string()),
        }
    }
}

/// `SIGNAL PROCESS...`
fn kill(argument: &str) -> Result<String, String> {
    let words = split_words(argument);
    let (name, processes) = words.split_first().ok_or_else(|| "bad SIGNO".to_owned())?;
    let signal = signal(name).and_then(|number| nix::sys::signal::Signal::try_from(number).ok());
    let signal = signal.ok_or_else(|| "bad SIGNO".to_owned())?;
    for process in processes {
        let process: i32 = process.parse().map_err(|_| "bad PID".to_owned())?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal)
            .map_err(|error| format!("kill({process}, {}): {}", signal as i32, error.desc()))?;
    }
    Ok(String::new())
}

/// What the system says of an error, without its number.
fn reason(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |number| nix::errno::Errno::from_raw(number).desc().to_owned())
}
