//! Align: promises that packets begin at certain addresses.
//!
//! Group: basic
//! Usage: `Align(MODULUS, OFFSET)`
//! Ports: 1 input, 1 output; agnostic
//!
//! For machines that cannot read a word from any address. Bifrost's elements read packets wherever they lie, so packets
//! pass unchanged; the element is there for configurations that have it.
//!
//! - `MODULUS` (integer): 2, 4 or 8
//! - `OFFSET` (integer): what is left of the address when divided by MODULUS; less than MODULUS
//!
//! See also: [Null]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Element, Setup};

pub const CLASS: Class = Class {
    name: "Align",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("align.rs"),
    make,
};

struct Align;

fn make(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let (modulus, offset) = (args.mandatory::<u32>("MODULUS"), args.mandatory::<u32>("OFFSET"));
    if modulus.is_some_and(|modulus| ![2, 4, 8].contains(&modulus)) {
        args.wrong("MODULUS", "must be 2, 4, or 8");
    } else if offset >= modulus && offset.is_some() {
        args.wrong("OFFSET", "must be smaller than MODULUS");
    }
    args.finish()?;
    Ok(Box::new(Align))
}

impl Element for Align {
    fn class(&self) -> &'static str {
        CLASS.name
    }
}
