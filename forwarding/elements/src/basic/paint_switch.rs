//! PaintSwitch: sorts packets by their colour.
//!
//! Group: basic
//! Usage: `PaintSwitch([ANNO])`
//! Ports: 1 input, any number of outputs; push
//!
//! A packet of colour N leaves by output N. Of one of colour 255 a copy leaves by every output. A
//! packet is dropped when the output of its colour does not exist.
//!
//! - `ANNO` (annotation of 1 byte): look at this annotation instead of `PAINT`
//!
//! See also: [Paint], [CheckPaint], [Switch]

use graph::arguments::{AnnoByte, Arguments, Refused, offset};
use graph::{Batch, Class, Context, Element, Setup};

use super::{distribute, tee};

pub const CLASS: Class = Class {
    name: "PaintSwitch",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("paint_switch.rs"),
    make,
};

/// The colour of packets for all outputs.
const ALL: u8 = 255;

struct PaintSwitch {
    anno: usize,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let anno = args.optional::<AnnoByte>("ANNO").map_or(offset::PAINT, |anno| anno.offset);
    args.finish()?;
    Ok(Box::new(PaintSwitch { anno }))
}

impl Element for PaintSwitch {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let last = cx.output_count().saturating_sub(1);
        let mut all = 0u64;
        for (index, packet) in batch.packets().iter().enumerate() {
            all |= u64::from(packet.annotation_byte(self.anno) == ALL) << index;
        }
        for output in 0..last {
            tee::copies(output, batch, all, cx);
        }
        distribute(batch, cx, |packet| match packet.annotation_byte(self.anno) {
            ALL => last,
            color => usize::from(color),
        });
    }
}
