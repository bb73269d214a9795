//! Pad: makes packets longer.
//!
//! Group: basic
//! Usage: `Pad([LENGTH, ZERO])`
//! Ports: 1 input, 1 output; agnostic
//!
//! With LENGTH, every packet gets at least that long. Without, as long as its annotation
//! `EXTRA_LENGTH` says that it was before it was cut off ([Truncate]). The annotation is 0
//! afterwards. What is added is zeros. A packet for which there is no memory is dropped.
//!
//! - `LENGTH` (integer): the length in bytes; 0 or not given: as the annotation says
//! - `ZERO` (boolean): whether what is added has to be zeros; it is, whatever is said here, so that
//!   nothing of another packet gets out
//!
//! Handlers:
//! - `config` (read, write): its arguments
//!
//! See also: [Truncate], [Resize]

use graph::arguments::{Arguments, Refused};
use graph::{Batch, Class, Context, Element, Setup};
use port::Packet;
use wire::Reason;

use super::truncate::{extra_length, set_extra_length};

pub const CLASS: Class = Class {
    name: "Pad",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("pad.rs"),
    make,
};

struct Pad {
    length: u32,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let length = args.optional("LENGTH").unwrap_or(0);
    let _: Option<bool> = args.keyword("ZERO");
    args.finish()?;
    Ok(Box::new(Pad { length }))
}

/// Puts zeros behind a packet. False when there is no memory for them; then it may have got some.
pub(super) fn append_zeros(packet: &mut Packet, count: usize) -> bool {
    const ZEROS: [u8; port::CHUNK] = [0; port::CHUNK];
    let here = count.min(packet.tailroom());
    if let Some(bytes) = packet.extend(here) {
        bytes.fill(0);
    } else if here > 0 {
        return false;
    }
    let mut left = count - here;
    while left > 0 {
        let part = left.min(port::CHUNK - port::HEADROOM);
        let Some(segment) = ZEROS.get(..part).and_then(Packet::new) else { return false };
        if packet.append(segment).is_err() {
            return false;
        }
        left -= part;
    }
    true
}

impl Pad {
    fn pad(&self, packet: &mut Packet) -> bool {
        let missing = match self.length {
            0 => extra_length(packet) as usize,
            length => (length as usize).saturating_sub(packet.total_len()),
        };
        if extra_length(packet) != 0 {
            set_extra_length(packet, 0);
        }
        missing == 0 || append_zeros(packet, missing)
    }
}

impl Element for Pad {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn act(&mut self, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut failed = 0u64;
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            failed |= u64::from(!self.pad(packet)) << index;
        }
        batch.take(failed, |_, packet| cx.drop(packet, Reason::NoBuffer));
    }
}
