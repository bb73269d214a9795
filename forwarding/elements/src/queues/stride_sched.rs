//! Stride scheduling: each port has its share by tickets.
//!
//! # StrideSched: pulls from its inputs in proportion to their tickets.
//!
//! Group: queues
//! Usage: `StrideSched(TICKETS0, ..., TICKETSN)`
//! Ports: any number of inputs, 1 output; pull
//!
//! An input with twice as many tickets is asked for twice as many packets. An input that has no
//! packet when it is asked loses that turn. One without tickets is never asked.
//!
//! - `TICKETS0`, ..., `TICKETSN` (integer): the tickets of each input, 0 to 32768.
//!
//! Handlers:
//! - `tickets0`, ..., `ticketsN` (read, write): the tickets of an input.
//! - `config` (read, write): all tickets.
//!
//! See also: [RoundRobinSched], [PrioSched], [DRRSched], [StrideSwitch]
//!
//! # StrideSwitch: pushes to its outputs in proportion to their tickets.
//!
//! Group: queues
//! Usage: `StrideSwitch(TICKETS0, ..., TICKETSN)`
//! Ports: 1 input, any number of outputs; push
//!
//! An output with twice as many tickets gets twice as many packets.
//!
//! - `TICKETS0`, ..., `TICKETSN` (integer): the tickets of each output, 0 to 32768.
//!
//! Handlers:
//! - `tickets0`, ..., `ticketsN` (read, write): the tickets of an output.
//! - `config` (read, write): all tickets.
//!
//! See also: [StrideSched], [RoundRobinSwitch]

use graph::arguments::{Argument, Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError};
use wire::Reason;

use crate::basic::{of_type, written};

/// Most tickets of a port.
const MOST: u32 = 1 << 15;
/// The stride of one ticket.
const STRIDE: u32 = 1 << 16;

/// The class `StrideSched`.
pub const SCHED: Class = Class {
    name: "StrideSched",
    ports: "1-/1",
    processing: Class::PULL,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("stride_sched.rs"),
    make: |arguments, setup| {
        Ok(Box::new(StrideSched(Strides::new(&tickets(arguments, setup.inputs, "input")?))))
    },
};

/// The class `StrideSwitch`.
pub const SWITCH: Class = Class {
    name: "StrideSwitch",
    ports: "1/1-",
    processing: Class::PUSH,
    make: |arguments, setup| {
        Ok(Box::new(StrideSwitch(Strides::new(&tickets(arguments, setup.outputs, "output")?))))
    },
    ..SCHED
};

fn tickets(arguments: &mut Arguments<'_>, ports: usize, what: &str) -> Result<Vec<u32>, Refused> {
    let scope = arguments.scope();
    let pieces = arguments.rest();
    if pieces.len() != ports {
        arguments.wrong(Blame::Element, format!("need {ports} arguments, one per {what} port"));
    }
    let mut all = Vec::new();
    for (port, piece) in pieces.iter().enumerate() {
        match i32::parse(&piece.text, &scope) {
            Err(_) => {
                arguments.wrong(piece, format!("argument {port} should be number of tickets (integer)"));
            }
            Ok(..0) => arguments.wrong(piece, format!("argument {port} (number of tickets) must be >= 0")),
            Ok(tickets) => {
                if tickets.unsigned_abs() > MOST {
                    arguments.strange(piece, format!("{what} {port}'s tickets reduced to {MOST}"));
                }
                all.push(tickets.unsigned_abs().min(MOST));
            }
        }
    }
    arguments.finish()?;
    Ok(all)
}

#[derive(Clone, Copy)]
struct Client {
    tickets: u32,
    pass: u32,
}

impl Client {
    fn stride(&mut self) {
        self.pass = self.pass.wrapping_add(STRIDE.checked_div(self.tickets).unwrap_or(0));
    }
}

/// Whose turn it is.
struct Strides {
    clients: Vec<Client>,
    /// Those with tickets, the next one first.
    order: Vec<usize>,
}

impl Strides {
    fn new(tickets: &[u32]) -> Strides {
        let clients = tickets.iter().map(|tickets| Client { tickets: *tickets, pass: 0 }).collect();
        let mut strides = Strides { clients, order: Vec::new() };
        strides.clients.iter_mut().for_each(Client::stride);
        strides.arrange();
        strides
    }

    /// Goes on from where others are, which had other tickets.
    fn go_on(&mut self, others: &Strides) {
        for (client, other) in self.clients.iter_mut().zip(&others.clients) {
            client.pass = other.pass;
        }
        self.arrange();
    }

    fn arrange(&mut self) {
        self.order.clear();
        // Each insertion comes before its equals: in reverse, so that the first port is first.
        for port in (0..self.clients.len()).rev() {
            if self.clients[port].tickets > 0 {
                self.insert(port);
            }
        }
    }

    fn insert(&mut self, port: usize) {
        let pass = |port: usize| self.clients.get(port).map_or(0, |client| client.pass);
        let own = pass(port);
        let behind = |other: &usize| (own.wrapping_sub(pass(*other)) as i32) > 0;
        let place = self.order.iter().take_while(|other| behind(other)).count();
        self.order.insert(place, port);
    }

    /// Offers the turn to one port after the other until one takes it; all that were asked have had
    /// theirs.
    fn turn(&mut self, mut takes: impl FnMut(usize) -> bool) -> bool {
        let mut asked = 0;
        let mut taken = false;
        while let Some(port) = self.order.get(asked).copied().filter(|_| !taken) {
            asked += 1;
            taken = takes(port);
            self.clients[port].stride();
        }
        let asked: Vec<usize> = self.order.drain(..asked).collect();
        asked.into_iter().for_each(|port| self.insert(port));
        taken
    }

    fn set(&mut self, port: usize, tickets: u32) {
        let Some(client) = self.clients.get_mut(port) else { return };
        let before = std::mem::replace(&mut client.tickets, tickets);
        if tickets == 0 {
            self.order.retain(|other| *other != port);
        } else if before == 0 {
            let first = self.order.first().map(|first| self.clients[*first].pass);
            self.clients[port].pass = first.map_or(0, |first| first.wrapping_add(STRIDE / tickets));
            self.insert(port);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        let ports = (0..self.clients.len()).map(|port| Handler::read_write(format!("tickets{port}")));
        ports.chain([Handler::read("config")]).collect()
    }

    fn port(&self, handler: &str) -> Option<usize> {
        handler.strip_prefix("tickets")?.parse().ok().filter(|port| *port < self.clients.len())
    }

    fn read(&self, handler: &str) -> Result<String, HandlerError> {
        if handler == "config" {
            let all: Vec<String> = self.clients.iter().map(|client| client.tickets.to_string()).collect();
            return Ok(all.join(", "));
        }
        let port = self.port(handler).ok_or_else(|| HandlerError::unknown(handler))?;
        Ok(self.clients[port].tickets.to_string())
    }

    fn write(&mut self, handler: &str, value: &str, cx: &Context<'_>) -> Result<(), HandlerError> {
        let port = self.port(handler).ok_or_else(|| HandlerError::unknown(handler))?;
        match written::<i32>(value, "tickets value must be integer", cx)? {
            ..0 => return Err(HandlerError::refused("number of tickets must be >= 0")),
            tickets => self.set(port, tickets.unsigned_abs().min(MOST)),
        }
        Ok(())
    }
}

struct StrideSched(Strides);

impl Element for StrideSched {
    fn class(&self) -> &'static str {
        SCHED.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn pull(&mut self, _output: usize, quota: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        while batch.len() < quota && self.0.turn(|input| cx.pull(input, 1, batch) > 0) {}
    }

    fn handlers(&self) -> Vec<Handler> {
        self.0.handlers()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.write(handler, value, cx)
    }

    fn succeed(&mut self, old: Box<dyn Element>, _: &mut Context<'_>) {
        if let Some(old) = of_type::<StrideSched>(old) {
            self.0.go_on(&old.0);
        }
    }
}

struct StrideSwitch(Strides);

impl Element for StrideSwitch {
    fn class(&self) -> &'static str {
        SWITCH.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        for packet in batch.drain() {
            let mut chosen = None;
            self.0.turn(|output| {
                chosen = Some(output);
                true
            });
            match chosen {
                Some(output) => cx.emit(output, packet),
                None => cx.drop(packet, Reason::Discarded),
            }
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        self.0.handlers()
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        self.0.read(handler)
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0.write(handler, value, cx)
    }

    fn succeed(&mut self, old: Box<dyn Element>, _: &mut Context<'_>) {
        if let Some(old) = of_type::<StrideSwitch>(old) {
            self.0.go_on(&old.0);
        }
    }
}
