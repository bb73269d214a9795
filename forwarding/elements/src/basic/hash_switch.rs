//! HashSwitch: sorts packets by a hash of some of their bytes.
//!
//! Group: basic
//! Usage: `HashSwitch(OFFSET, LENGTH)`
//! Ports: 1 input, 1 or more outputs; push
//!
//! Packets with the same bytes in a certain place leave by the same output: with the addresses
//! there, the packets of a flow stay together. Packets that do not have all these bytes leave by
//! output 0.
//!
//! - `OFFSET` (integer): the first byte, from the front of the packet
//! - `LENGTH` (integer): how many bytes, at least 1
//!
//! See also: [RoundRobinSwitch], [RandomSwitch], [Classifier]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};

use super::distribute;

pub const CLASS: Class = Class {
    name: "HashSwitch",
    ports: "1/1-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("hash_switch.rs"),
    make,
};

struct HashSwitch {
    offset: usize,
    length: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (offset, length) = (args.mandatory::<u32>("OFFSET"), args.mandatory::<u32>("LENGTH"));
    if length == Some(0) {
        args.wrong("LENGTH", "length must be > 0");
    }
    args.finish()?;
    Ok(Box::new(HashSwitch {
        offset: offset.ok_or(Refused)? as usize,
        length: length.ok_or(Refused)? as usize,
    }))
}

impl HashSwitch {
    /// The sum of the bytes, spread over `outputs`.
    #[inline]
    fn output(&self, packet: &[u8], outputs: usize) -> usize {
        let bytes = packet.get(self.offset..).and_then(|bytes| bytes.get(..self.length));
        let sum: usize = bytes.unwrap_or_default().iter().map(|byte| usize::from(*byte)).sum();
        match outputs {
            0 => 0,
            2 | 4 | 8 => (sum ^ sum >> 4) & (outputs - 1),
            _ => sum % outputs,
        }
    }
}

impl Element for HashSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let outputs = cx.output_count();
        distribute(batch, cx, |packet| self.output(packet.data(), outputs));
    }
}
