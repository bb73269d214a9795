//! Classifier: sorts packets by what their bytes are.
//!
//! Group: basic
//! Usage: `Classifier(PATTERN, ...)`
//! Ports: 1 input, as many outputs as patterns; push
//!
//! A packet leaves by the output of the first pattern that it matches, and is dropped when it matches none. A pattern is a
//! list of clauses, all of which must hold, or `-`, which every packet matches. A clause is `OFFSET/VALUE` or
//! `OFFSET/VALUE%MASK`: from byte OFFSET on (decimal, 0 is the first byte of the packet) there are the bytes VALUE,
//! hexadecimal, an even number of digits, where `?` stands for any digit; of MASK, as long as VALUE, only the bits that are
//! set must be equal. A clause behind `!` must not hold. A packet too short for a clause does not have its bytes.
//!
//! The patterns become one program of 32-bit comparisons in which nothing is asked twice, whose steps do not grow with the
//! number of patterns that cannot match any more.
//!
//! What an Ethernet port of a router sorts out first:
//!
//! ```text
//! Classifier(12/0806 20/0001,    // ARP requests
//!            12/0806 20/0002,    // ARP replies
//!            12/0800,            // IPv4
//!            -)                  // everything else
//! ```
//!
//! Handlers:
//! - `program` (read): the program, a line a comparison: its number, offset, value, mask, and where it leads; then how long
//!   a packet must be for no comparison to reach behind its end
//!
//! See also: [IPClassifier], [IPFilter], [HashSwitch]

mod optimize;
mod pattern;
mod program;

use graph::arguments::{Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::distribute;
use program::Program;

pub const CLASS: Class = Class {
    name: "Classifier",
    ports: "1/-",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("mod.rs"),
    make,
};

struct Classifier {
    program: Program,
    text: String,
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let pieces = args.rest();
    if pieces.len() != setup.outputs {
        args.wrong(Blame::Element, format!("need {} arguments, one per output port", setup.outputs));
    }
    let mut patterns = Vec::new();
    for (slot, piece) in pieces.iter().enumerate() {
        let (clauses, mistakes) = pattern::parse(&piece.text);
        for mistake in mistakes {
            args.wrong(piece, format!("pattern {slot}: {mistake}"));
        }
        patterns.push(clauses);
    }
    args.finish()?;
    let tests = optimize::optimized(program::tests(&patterns));
    for output in (0..setup.outputs).filter(|output| !tests.leads_to(*output)) {
        args.strange(Blame::Element, format!("output {output} matches no packets"));
    }
    Ok(Box::new(Classifier { program: Program::new(&tests), text: tests.to_string() }))
}

impl Element for Classifier {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        distribute(batch, cx, |packet| self.program.output(packet.data()));
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("program")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "program" => Ok(self.text.clone()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}
