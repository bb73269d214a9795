//! # Align: promises that packets begin at certain addresses.
//!
//! Group: basic
//! Usage: `Align(MODULUS, OFFSET)`
//! Ports: 1 input, 1 output; agnostic
//!
//! For machines that cannot read a word from any address. Bifrost's elements read packets wherever
//! they lie, so packets pass unchanged; the element is there for configurations that have it.
//!
//! - `MODULUS` (integer): 2, 4 or 8
//! - `OFFSET` (integer): what is left of the address when divided by MODULUS; less than MODULUS
//!
//! See also: [AlignmentInfo], [Null]
//!
//! # AlignmentInfo: says at which addresses the packets of elements begin.
//!
//! Group: basic
//! Usage: `AlignmentInfo(ELEMENT MODULUS OFFSET ..., ...)`
//! Ports: no inputs, no outputs
//!
//! For machines that cannot read a word from any address; tools of Click write it. What it says is
//! checked for its form, and makes no difference: Bifrost's elements read packets wherever they
//! lie. Each argument is an element's name, and a modulus and offset as of [Align] for each of its
//! inputs.
//!
//! See also: [Align]

use graph::arguments::{Arguments, Refused};
use graph::{Class, Element, Setup};

pub const ALIGN: Class = Class {
    name: "Align",
    ports: "1/1",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("align.rs"),
    make,
};

pub const ALIGNMENT_INFO: Class = Class {
    name: "AlignmentInfo",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("align.rs"),
    make: make_info,
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
        ALIGN.name
    }
}

struct AlignmentInfo;

fn make_info(args: &mut Arguments<'_>, _: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    for (piece, words) in args.rest_words() {
        let numbers = words.get(1..).unwrap_or_default();
        if words.is_empty() || !numbers.len().is_multiple_of(2) {
            args.wrong(&piece, "expected an element, and a modulus and an offset for each input");
        }
        for number in numbers {
            let _: Option<u32> = args.parse_part(&piece, number);
        }
    }
    args.finish()?;
    Ok(Box::new(AlignmentInfo))
}

impl Element for AlignmentInfo {
    fn class(&self) -> &'static str {
        ALIGNMENT_INFO.name
    }
}
