//! Resize: adds bytes to packets, or removes them, at both ends.
//!
//! Group: basic
//! Usage: `Resize([HEAD, TAIL])`
//! Ports: 1 input, 1 output; agnostic
//!
//! Bytes added in front are what stands in memory there; bytes added behind are zeros. A packet
//! with no room for them is dropped. Of a packet that has fewer bytes than are to be removed
//! nothing is left.
//!
//! - `HEAD` (integer): bytes to add in front, or with a negative number to remove; 0 if not given
//! - `TAIL` (integer): the same behind
//!
//! Handlers:
//! - `head` (read, write): bytes in front
//! - `tail` (read, write): bytes behind
//! - `config` (read, write): its arguments
//!
//! See also: [Strip], [Unstrip], [Truncate], [Pad]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};
use port::Packet;
use wire::Reason;

use super::pad::append_zeros;
use super::strip::strip;
use super::written;

pub const CLASS: Class = Class {
    name: "Resize",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("resize.rs"),
    make,
};

struct Resize {
    head: i32,
    tail: i32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (head, tail) = (args.optional("HEAD").unwrap_or(0), args.optional("TAIL").unwrap_or(0));
    args.finish()?;
    Ok(Box::new(Resize { head, tail }))
}

impl Resize {
    fn resize(&self, packet: &mut Packet) -> bool {
        let (head, tail) = (self.head.unsigned_abs() as usize, self.tail.unsigned_abs() as usize);
        if self.head < 0 {
            strip(packet, head);
        } else if packet.push(head).is_none() {
            return false;
        }
        if self.tail < 0 {
            packet.truncate(packet.total_len().saturating_sub(tail));
            return true;
        }
        append_zeros(packet, tail)
    }
}

impl Element for Resize {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.resize(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read_write("head"), Handler::read_write("tail")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "head" => Ok(self.head.to_string()),
            "tail" => Ok(self.tail.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }

    fn write(&mut self, handler: &str, value: &str, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match handler {
            "head" => self.head = written(value, "syntax error", cx)?,
            "tail" => self.tail = written(value, "syntax error", cx)?,
            _ => return Err(HandlerError::unknown(handler)),
        }
        Ok(())
    }
}
