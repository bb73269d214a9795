//! Classifier: sorts packets by what their bytes are.
//!
//! Group: basic
//! Usage: `Classifier(PATTERN, ...)`
//! Ports: 1 input, as many outputs as patterns; push
//!
//! A packet leaves by the output of the first pattern that it matches, and is dropped when it
//! matches none. A pattern is a list of clauses, all of which must hold, or `-`, which every packet
//! matches. A clause is `OFFSET/VALUE` or `OFFSET/VALUE%MASK`: from byte OFFSET on (decimal, 0 is
//! the first byte of the packet) there are the bytes VALUE, hexadecimal, an even number of digits,
//! where `?` stands for any digit; of MASK, as long as VALUE, only the bits that are set must be
//! equal. A clause behind `!` must not hold. A packet too short for a clause does not have its
//! bytes.
//!
//! The patterns become one program of 32-bit comparisons in which nothing is asked twice, whose
//! steps do not grow with the number of patterns that cannot match any more.
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
//! - `program` (read): the program, a line a comparison: its number, offset, value, mask, and where
//!   it leads; then how long a packet must be for no comparison to reach behind its end
//! - `config` (read, write): its arguments
//!
//! See also: [IPClassifier], [IPFilter], [HashSwitch]

mod pattern;

use graph::arguments::{Arguments, Blame, Refused};
use graph::{Batch, Class, Context, Element, Handler, HandlerError, Setup};

use super::distribute;
use crate::decision::{Next, Program, Tests, optimize};
use pattern::Pattern;

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
}

fn make(args: &mut Arguments<'_>, setup: &mut Setup<'_>) -> Result<Box<dyn Element>, Refused> {
    let pieces = args.rest();
    if pieces.len() != setup.outputs {
        args.wrong(Blame::Element, format!("need {} arguments, one per output port", setup.outputs));
    }
    let mut patterns = Vec::new();
    for (slot, piece) in pieces.iter().enumerate() {
        let (pattern, mistakes) = Pattern::parse(&piece.text);
        for mistake in mistakes {
            args.wrong(piece, format!("pattern {slot}: {mistake}"));
        }
        patterns.push(pattern);
    }
    args.finish()?;
    let tests = tests(&patterns);
    for output in (0..setup.outputs).filter(|output| !tests.leads_to(*output)) {
        args.strange(Blame::Element, format!("output {output} matches no packets"));
    }
    Ok(Box::new(Classifier { program: Program::plain(&tests) }))
}

/// The tests for all patterns; a packet leaves them by the output of the first that it matches.
fn tests(patterns: &[Pattern]) -> Tests {
    let none = Tests { tests: Vec::new(), otherwise: Next::Fail };
    let all = patterns.iter().enumerate().fold(none, |tests, (output, pattern)| {
        tests.or_else(pattern.condition().tests().on_pass(Next::Output(output)))
    });
    optimize::optimize(all.on_fail(Next::Nowhere), |offset| offset)
}

/// The four bytes at an offset; zeros for those that the packet doesn't have.
#[inline(always)]
fn word(packet: &[u8], offset: usize) -> u32 {
    let bytes = packet.get(offset..).unwrap_or_default();
    if let Some(word) = bytes.first_chunk() {
        return u32::from_ne_bytes(*word);
    }
    let mut word = [0; 4];
    word.iter_mut().zip(bytes).for_each(|(word, byte)| *word = *byte);
    u32::from_ne_bytes(word)
}

impl Element for Classifier {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn reconfigures(&self) -> bool {
        true
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        distribute(batch, cx, |packet| {
            let bytes = packet.data();
            self.program.output(bytes.len(), |offset| word(bytes, offset))
        });
    }

    fn handlers(&self) -> Vec<Handler> {
        vec![Handler::read("program")]
    }

    fn read(&mut self, handler: &str, _: &str, _: &mut Context<'_>) -> Result<String, HandlerError> {
        match handler {
            "program" => Ok(self.program.to_string()),
            _ => Err(HandlerError::unknown(handler)),
        }
    }
}

#[cfg(test)]
mod proofs {
    use super::pattern::Clause;
    use super::*;
    use crate::decision::NOWHERE;
    use proptest::prelude::*;

    fn text(patterns: &[&str]) -> String {
        let patterns: Vec<_> = patterns.iter().map(|text| Pattern::parse(text).0).collect();
        Program::plain(&tests(&patterns)).to_string()
    }

    #[test]
    fn programs_read_as_clicks() {
        assert_eq!(text(&["-"]), "all->[0]\nsafe length 0\nalignment offset 0\n");
        assert_eq!(
            text(&["1/01", "-"]),
            " 0   0/00010000%00ff0000  yes->[0]  no->[1]\nsafe length 2\nalignment offset 0\n"
        );
        // The type is compared once only; the operation once more for each value.
        assert_eq!(
            text(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]),
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3\n \
             1  20/00010000%ffff0000  yes->[0]  no->step 2\n \
             2  20/00020000%ffff0000  yes->[1]  no->[3]\n \
             3  12/08000000%ffff0000  yes->[2]  no->[3]\n\
             safe length 22\nalignment offset 0\n"
        );
    }

    /// What the description of the element says.
    fn matches(pattern: &Pattern, packet: &[u8]) -> bool {
        pattern.0.iter().all(|clause| {
            let holds = clause.bytes.iter().enumerate().all(|(index, (value, mask))| {
                *mask == 0 || packet.get(clause.offset + index).is_some_and(|byte| byte & mask == *value)
            });
            holds != clause.negated
        })
    }

    fn clause() -> impl Strategy<Value = Clause> {
        let byte = (prop::sample::select(vec![0u8, 1, 255]), prop::sample::select(vec![0u8, 1, 2, 3, 255]));
        let byte = byte.prop_map(|(value, mask)| (value & mask, mask));
        (0usize..9, prop::collection::vec(byte, 1..6), prop::bool::weighted(0.3))
            .prop_map(|(offset, bytes, negated)| Clause { offset, bytes, negated })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_program_does_what_the_patterns_say(
            patterns in prop::collection::vec(prop::collection::vec(clause(), 0..4).prop_map(Pattern), 1..6),
            packets in prop::collection::vec(
                prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 3, 255]), 0..18), 1..40),
        ) {
            let program = Program::plain(&tests(&patterns));
            for packet in packets {
                let first = patterns.iter().position(|pattern| matches(pattern, &packet)).unwrap_or(NOWHERE);
                let output = program.output(packet.len(), |offset| word(&packet, offset));
                prop_assert_eq!(output, first, "{:?}: {}", packet, program);
            }
        }
    }
}
