//! # Script: runs instructions that control the configuration.
//!
//! Group: control
//! Usage: `Script(INSTRUCTION, ... [, TYPE])`
//! Ports: none; a packet script has inputs, and outputs that are agnostic, the others push
//!
//! Each argument is an instruction; they are done one after the other. In their texts `$name` and
//! `${name}` stand for the script's variables and `$(HANDLER ARGUMENT)` for the value of a read
//! handler; one without an element's name is the script's own, such as `$(add $x 1)`. Instructions
//! that end in `q` take a layer of quotes off.
//!
//! To talk to other elements there are `read HANDLER [ARGUMENT]`, which says the value on standard
//! error, `write HANDLER [VALUE]`, after which `$?` is 0 if it went well, `print [>FILE|>>FILE]
//! TEXT|HANDLER` (`printn`: without the newline) on standard output, where what begins with a
//! letter, `@` or `_` is a handler, and `save HANDLER FILE` and `append HANDLER FILE`.
//!
//! `set NAME TEXT` gives a variable a value, `init NAME TEXT` does so once before the script
//! begins, and `export NAME [TEXT]` also makes it a read handler. Given are `$args`, `$1` and so
//! on, `$#`, the handler's name `$0`, `$write`, the process id `$$`, and in a packet script
//! `$input`.
//!
//! `pause [COUNT]` waits for the handler `step`, `wait TIME` for a time or a step. `label NAME`,
//! `goto NAME [CONDITION]` and `loop` go elsewhere; `goto` also knows `begin`, `end`, `exit`,
//! `stop` and `error`. A script that goes elsewhere a thousand times without waiting is given up.
//! `end` ends it, `exit` too, but does not catch a signal again and drops a packet; `stop` also
//! stops the program, `return [VALUE]` gives the handler `run` a value or a packet its output, and
//! `error [MESSAGE]` ends in failure.
//!
//! - `TYPE` (keyword): when it runs. `ACTIVE`, the default without inputs: at once. `PASSIVE`: when
//!   its handler `run` is read or written. `PACKET`: for each packet, which leaves by the output
//!   that it returns. `PROXY`: when any handler that a script does not have is called. `DRIVER`: at
//!   once, and it directs the run: when somebody stops the program, it makes a step, and the
//!   program goes on until the script has ended. `SIGNAL NAME...`: when the process is sent one of
//!   these signals.
//!
//! Handlers:
//! - `step` (write): makes a step past what it waits for, or so many.
//! - `goto` (write): goes to a label.
//! - `run` (read, write): runs it from the beginning; the argument is `$args`.
//! - `add`, `sub`, `min`, `max`, `mul`, `div`, `idiv` (read): of a list of numbers; `idiv` gives a
//!   whole number.
//! - `mod`, `rem`, `neg`, `abs` (read): of two numbers, of one.
//! - `eq`, `ne`, `gt`, `ge`, `lt`, `le` (read): compare two numbers or texts.
//! - `not`, `and`, `or`, `nand`, `nor`, `if` (read): of truth values; `if` chooses between two
//!   words.
//! - `in` (read): whether the first word is among the others.
//! - `first`, `length`, `unquote`, `sprintf` (read): of texts.
//! - `random` (read): a number, below N, or from N1 to N2.
//! - `now` (read): the time.
//! - `readable`, `writable` (read): whether all these handlers are.
//! - `htons`, `htonl`, `ntohs`, `ntohl` (read): change the order of bytes.
//! - `cat`, `catq` (read): a file's text, or that in quotes. Only for scripts.
//! - `kill` (read): sends a signal to processes. Only for scripts.
//! - `get`, `set`, `shift` (read, write): a variable; `shift` takes its first word away.
//!
//! See also: [DriverManager]
//!
//! # DriverManager: a script that directs the run.
//!
//! Group: control
//! Usage: `DriverManager(INSTRUCTION, ...)`
//! Ports: none
//!
//! A [Script] whose type is `DRIVER` unless another is given: it decides when the program stops.
//! When an element asks to stop, by `STOP true` or otherwise, the script makes a step; the program
//! ends when the script does. So `DriverManager(pause, wait 0.1s)` gives packets on their way
//! another tenth of a second.
//!
//! See also: [Script]

mod functions;
mod instruction;
mod run;
mod sprintf;

use graph::arguments::{Arguments, Raw, Refused};
use graph::language::{split_words, unquote};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use std::collections::HashMap;
use wire::Reason;

use instruction::{Instruction, script};
use run::{Operation, Step};

/// The class.
pub const SCRIPT: Class = Class {
    name: "Script",
    ports: "-/-",
    processing: "ah/ah",
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mod.rs"),
    make: |args, setup| make(args, setup, Kind::Active, "Script"),
};

/// The class.
pub const DRIVER_MANAGER: Class = Class {
    name: "DriverManager",
    make: |args, setup| make(args, setup, Kind::Driver, "DriverManager"),
    ..SCRIPT
};

/// Signals by the names that scripts know.
const SIGNALS: [(&str, nix::sys::signal::Signal); 11] = {
    use nix::sys::signal::Signal::*;
    [
        ("ABRT", SIGABRT),
        ("ALRM", SIGALRM),
        ("HUP", SIGHUP),
        ("INT", SIGINT),
        ("IO", SIGIO),
        ("PIPE", SIGPIPE),
        ("QUIT", SIGQUIT),
        ("TERM", SIGTERM),
        ("TSTP", SIGTSTP),
        ("USR1", SIGUSR1),
        ("USR2", SIGUSR2),
    ]
};

/// When a script runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Active,
    Passive,
    Packet,
    Proxy,
    Driver,
    Signal(Vec<i32>),
}

struct Script {
    class: &'static str,
    kind: Kind,
    instructions: Vec<Instruction>,
    /// Per instruction: steps that a pause has seen, and whether a beginning is still to be made.
    seen: Vec<u32>,
    variables: HashMap<String, String>,
    /// Which instruction is next.
    at: usize,
    /// Steps made so far.
    steps: i64,
    /// While it runs: further steps that were asked for meanwhile.
    asked: Option<i64>,
    /// While it makes a step because the program was asked to stop: whether it wants to go on.
    goes_on: bool,
    /// What `error` said, until somebody is told.
    failure: String,
    /// What `$?` is.
    status: i32,
    /// The handler that runs it, its argument, and whether it was written.
    operation: Operation,
}

fn make(
    args: &mut Arguments<'_>,
    setup: &mut Setup<'_>,
    default: Kind,
    class: &'static str,
) -> Result<Box<dyn Element>, Refused> {
    let given = args.keyword::<Raw>("TYPE");
    let kind = match &given {
        // With ports it can be nothing else.
        None if default == Kind::Active && setup.inputs > 0 => Ok(Kind::Packet),
        None => Ok(default),
        Some(Raw(text)) => kind(text),
    };
    if let Err(message) = &kind {
        args.wrong(graph::arguments::Blame::Element, message);
    }
    let ports = setup.inputs + setup.outputs;
    match &kind {
        Ok(Kind::Packet) if setup.inputs == 0 => {
            args.wrong(graph::arguments::Blame::Element, "PACKET script must have inputs");
        }
        Ok(kind) if *kind != Kind::Packet && ports > 0 => {
            args.wrong(graph::arguments::Blame::Element, "ports allowed only on PACKET scripts");
        }
        _ => {}
    }
    let pieces = args.rest();
    let texts: Vec<String> = pieces.iter().map(|piece| piece.text.clone()).collect();
    let instructions = script(&texts, kind == Ok(Kind::Driver)).unwrap_or_else(|mistakes| {
        for (piece, message) in mistakes {
            match piece.and_then(|piece| pieces.get(piece)) {
                Some(piece) => args.wrong(piece, message),
                None => args.wrong(graph::arguments::Blame::Element, message),
            }
        }
        Vec::new()
    });
    args.finish()?;
    let seen = vec![0; instructions.len()];
    let script = Script {
        class,
        kind: kind.map_err(|_| Refused)?,
        instructions,
        seen,
        variables: HashMap::new(),
        at: 0,
        steps: 0,
        asked: None,
        goes_on: false,
        failure: String::new(),
        status: 0,
        operation: Operation::default(),
    };
    Ok(Box::new(script))
}

fn kind(text: &str) -> Result<Kind, String> {
    let words = split_words(text);
    match words.as_slice() {
        ["ACTIVE"] => Ok(Kind::Active),
        ["PASSIVE"] => Ok(Kind::Passive),
        ["PACKET" | "PUSH"] => Ok(Kind::Packet),
        ["PROXY"] => Ok(Kind::Proxy),
        ["DRIVER"] => Ok(Kind::Driver),
        ["SIGNAL", names @ ..] => {
            let numbers: Option<Vec<i32>> = names.iter().map(|name| signal(name)).collect();
            numbers
                .filter(|numbers| !numbers.is_empty())
                .map(Kind::Signal)
                .ok_or_else(|| "bad signal number".to_owned())
        }
        _ => Err("bad TYPE".to_owned()),
    }
}

/// The number of a signal that is named or numbered.
fn signal(name: &str) -> Option<i32> {
    let known = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal as i32);
    known.or_else(|| name.parse().ok().filter(|number| (0..32).contains(number)))
}

/// A text without its quotes.
fn text(quoted: &str) -> String {
    String::from_utf8_lossy(&unquote(quoted)).into_owned()
}

impl Element for Script {
    fn class(&self) -> &'static str {
        self.class
    }

    fn stays(&self) -> bool {
        false
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.kind == Kind::Driver {
            let nodes: Vec<graph::NodeId> = cx.description().nodes.iter().map(|node| node.id).collect();
            for node in nodes {
                if cx.element::<Script>(node).is_some_and(|other| other.kind == Kind::Driver) {
                    return Err("router has more than one driver script".to_owned());
                }
            }
        }
        self.begin(cx);
        Ok(())
    }

    fn timer(&mut self, _: u32, cx: &mut Context<'_>) {
        self.advance(1, Step::Timer, cx);
    }

    fn signal(&mut self, _: i32, cx: &mut Context<'_>) {
        self.on_signal(cx);
    }

    fn stopped(&mut self, cx: &mut Context<'_>) -> bool {
        self.kind == Kind::Driver && self.step_on_stop(cx)
    }

    fn push(&mut self, input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let packets: Vec<Packet> = batch.drain().collect();
        for packet in packets {
            match self.output_of(input, cx) {
                Some(output) => cx.emit(output, packet),
                None => cx.drop(packet, Reason::Discarded),
            }
        }
    }

    fn pull(&mut self, _: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        cx.pull(0, quota, batch);
        let packets: Vec<Packet> = batch.drain().collect();
        for packet in packets {
            match self.output_of(0, cx) {
                Some(0) => {
                    // There is room: the packet was just taken out.
                    let _ = batch.push(packet);
                }
                Some(output) => cx.emit(output, packet),
                None => cx.drop(packet, Reason::Discarded),
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let mut all = vec![Handler::write("step"), Handler::write("goto")];
        all.push(Handler::read_write("run").with_argument());
        all.extend(functions::FUNCTIONS.iter().map(|name| Handler::read(*name).with_argument()));
        all.push(Handler::read("now"));
        all.extend(["readable", "writable"].map(|name| Handler::read(name).with_argument()));
        all.extend(["cat", "catq", "kill"].map(|name| Handler::read(name).with_argument().private()));
        all.extend([Handler::read("get").with_argument(), Handler::write("set")]);
        all.push(Handler::read("shift").with_argument());
        if self.kind == Kind::Proxy {
            all.push(Handler::read_write("*").with_argument());
        }
        for instruction in &self.instructions {
            if let Instruction::Init { variable, export: true, .. } = instruction {
                all.push(Handler::read(variable.clone()));
            }
        }
        all
    }

    fn read(&mut self, handler: &str, argument: &str, cx: &mut Context<'_>) -> Result<String, HandlerError> {
        self.read_own(handler, argument, cx).map_err(HandlerError::Refused)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.write_own(handler, value, cx).map_err(HandlerError::Refused)
    }
}
