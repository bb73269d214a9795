//! # Message: says something when the configuration begins.
//!
//! Group: control
//! Usage: `Message(MESSAGE [, TYPE])`
//! Ports: none
//!
//! For notes to whoever runs a configuration: that it is deprecated, or what must be set before.
//!
//! - `MESSAGE` (string): what it says, on standard error.
//! - `TYPE` (keyword): `MESSAGE`, the default; `WARNING`, which is said as a warning of the
//!   configuration; or `ERROR`, with which the configuration does not run.
//!
//! See also: [Error]
//!
//! # Error: keeps a configuration from running.
//!
//! Group: control
//! Usage: `Error(...)`
//! Ports: any number
//!
//! Stands for something that must not be used. Its arguments mean nothing.
//!
//! See also: [Message]

use graph::arguments::{Arguments, Blame, Keyword, Refused};
use graph::{Class, Context, Element, Setup};

/// The class.
pub const MESSAGE: Class = Class {
    name: "Message",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("message.rs"),
    make: make_message,
};

/// The class.
pub const ERROR: Class = Class { name: "Error", ports: "-/-", make: make_error, ..MESSAGE };

struct Message;

fn make_message(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let message = args.mandatory::<String>("MESSAGE");
    let kind = args.optional::<Keyword>("TYPE");
    if let Some(message) = message {
        match kind.as_ref().map_or("MESSAGE", |Keyword(kind)| kind) {
            "MESSAGE" => args.say(MESSAGE.name, &message),
            "WARNING" => args.strange(Blame::Element, message),
            "ERROR" => args.wrong(Blame::Element, message),
            _ => args.wrong(Blame::Element, "unrecognized message type"),
        }
    }
    args.finish()?;
    Ok(Box::new(Message))
}

impl Element for Message {
    fn class(&self) -> &'static str {
        "Message"
    }
}

struct Error;

fn make_error(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    args.rest();
    args.finish()?;
    Ok(Box::new(Error))
}

impl Element for Error {
    fn class(&self) -> &'static str {
        "Error"
    }

    fn initialize(&mut self, _: &mut Context<'_>) -> Result<(), String> {
        Err("this element keeps the configuration from running".to_owned())
    }
}
