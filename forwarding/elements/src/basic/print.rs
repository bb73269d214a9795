//! Print: prints packets as they pass.
//!
//! Group: basic
//! Usage: `Print([LABEL, MAXLENGTH, CONTENTS, TIMESTAMP, PRINTANNO, HEADROOM, ACTIVE])`
//! Ports: 1 input, 1 output; agnostic
//!
//! A line for each packet, on standard error: the label, how many bytes the packet has, and the
//! first of them.
//!
//! ```text
//! arp:   42 | ffffffff ffff0001 02030405 08060001 08000604 0001...
//! ```
//!
//! - `LABEL` (text): what the line begins with
//! - `MAXLENGTH` (integer): so many bytes are printed, all with -1; 24 if not given
//! - `CONTENTS` (word): `HEX`, the bytes in hexadecimal; `ASCII`, as text with a dot for what is
//!   none; `NONE`. HEX if not given. `true` and `false` mean HEX and NONE
//! - `TIMESTAMP` (boolean): whether to print the packet's timestamp; false if not given
//! - `PRINTANNO` (boolean): whether to print all annotations, in hexadecimal; false if not given
//! - `HEADROOM` (boolean): whether to print how much room there is in front of and behind the
//!   packet; false if not given
//! - `ACTIVE` (boolean): whether to print at all; true if not given
//! - `NBYTES`, `LENGTH` (integer): older names of MAXLENGTH
//!
//! Handlers:
//! - `active` (read, write): whether it prints
//! - `config` (read, write): its arguments
//!
//! See also: [IPPrint], [ARPPrint], [Message]

use std::fmt::Write;

use graph::arguments::{Argument, Arguments, Refused, Scope, Word, unparse};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::{ANNOTATION_BYTES, Packet};

use super::written;

pub const CLASS: Class = Class {
    name: "Print",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("print.rs"),
    make,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    None,
    Hex,
    Ascii,
}

impl Argument for Contents {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Contents, String> {
        let word = Word::parse(text, scope)?.0;
        match (bool::parse(&word, scope), word.to_uppercase().as_str()) {
            (Ok(false), _) | (_, "NONE") => Ok(Contents::None),
            (Ok(true), _) | (_, "HEX") => Ok(Contents::Hex),
            (_, "ASCII") => Ok(Contents::Ascii),
            _ => Err(format!("bad contents value '{word}'; should be 'NONE', 'HEX', or 'ASCII'")),
        }
    }
}

struct Print {
    label: String,
    /// So many bytes; `None`: all.
    bytes: Option<usize>,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    headroom: bool,
    active: bool,
    /// The line being made.
    line: String,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let label = args.optional("LABEL").unwrap_or_default();
    let mut bytes = args.optional::<i32>("MAXLENGTH");
    for older in ["LENGTH", "NBYTES"] {
        bytes = args.keyword(older).or(bytes);
    }
    let print = Print {
        label,
        bytes: usize::try_from(bytes.unwrap_or(24)).ok(),
        contents: args.keyword("CONTENTS").unwrap_or(Contents::Hex),
        timestamp: args.keyword("TIMESTAMP").unwrap_or(false),
        annotations: args.keyword("PRINTANNO").unwrap_or(false),
        active: args.keyword("ACTIVE").unwrap_or(true),
        headroom: args.keyword("HEADROOM").unwrap_or(false),
        line: String::new(),
    };
    args.finish()?;
    Ok(Box::new(print))
}

impl Print {
    /// The line for a packet.
    fn describe(&mut self, packet: &Packet) -> std::fmt::Result {
        let line = &mut self.line;
        line.clear();
        line.push_str(&self.label);
        if self.timestamp {
            let separator = if line.is_empty() { "" } else { ": " };
            write!(line, "{separator}{}", unparse::timestamp(packet.annotations().timestamp))?;
        }
        let separator = if line.is_empty() { "" } else { ": " };
        let length = packet.total_len();
        write!(line, "{separator}{length:4}")?;
        if self.headroom {
            write!(line, " (h{} t{})", packet.headroom(), packet.tailroom())?;
        }
        if self.annotations {
            line.push_str(" | ");
            for offset in 0..ANNOTATION_BYTES {
                write!(line, "{:02x}", packet.annotation_byte(offset))?;
            }
        }
        let bytes = self.bytes.map_or(length, |bytes| bytes.min(length));
        if self.contents == Contents::None || bytes == 0 {
            return Ok(());
        }
        line.push_str(" | ");
        for (index, byte) in packet.segments().flatten().take(bytes).enumerate() {
            match self.contents {
                Contents::Hex => {
                    line.push_str(if index > 0 && index % 4 == 0 { " " } else { "" });
                    write!(line, "{byte:02x}")?;
                }
                _ => {
                    line.push_str(if index % 8 == 0 { " " } else { "" });
                    line.push(if (32..127).contains(byte) { char::from(*byte) } else { '.' });
                }
            }
        }
        Ok(())
    }
}

impl Element for Print {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        for packet in batch.packets() {
            // Writing to a text does not fail.
            let _ = self.describe(packet);
            cx.say(&self.line);
        }
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("active")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "active" => self.active = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
