//! StoreData: writes bytes into packets.
//!
//! Group: basic
//! Usage: `StoreData(OFFSET, DATA)`
//! Ports: 1 input, 1 output; agnostic
//!
//! Packets do not get longer: what would lie behind their end is left out. Checksums are not
//! corrected.
//!
//! - `OFFSET` (integer): where the first byte goes, from the front of the packet
//! - `DATA` (bytes): the bytes: `"text"`, `\<0800>`
//!
//! See also: [Resize], [Classifier]

use graph::arguments::{Arguments, Bytes, Refused};
use graph::{Batch, Class, Context, Element, Setup};

pub const CLASS: Class = Class {
    name: "StoreData",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("store_data.rs"),
    make,
};

struct StoreData {
    offset: usize,
    data: Vec<u8>,
}

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (offset, data) = (args.mandatory::<u32>("OFFSET"), args.mandatory::<Bytes>("DATA"));
    args.finish()?;
    Ok(Box::new(StoreData { offset: offset.ok_or(Refused)? as usize, data: data.ok_or(Refused)?.0 }))
}

impl Element for StoreData {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn act(&mut self, batch: &mut Batch, _: &mut Context<'_>) {
        for packet in batch.packets_mut() {
            let place = packet.data_mut().get_mut(self.offset..).unwrap_or_default();
            place.iter_mut().zip(&self.data).for_each(|(byte, data)| *byte = *data);
        }
    }
}
