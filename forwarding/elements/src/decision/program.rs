//! Tests made ready to run.
//!
//! Tests one after the other that ask for different values of the same bits, and lead to the same
//! when they find them (port 80 or 81 or 443), become one *step*; many values are found by halving.

use std::fmt;

use super::tests::{Next, Test, Tests};

/// No output.
pub const NOWHERE: usize = i32::MAX as usize;

/// From so many values of a step on, they are sorted and found by halving.
const MANY: usize = 7;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    /// Where all packets go when there is no step.
    otherwise: usize,
    /// A packet of this length is not too short for any step.
    safe: usize,
}

#[derive(Clone, Debug)]
struct Step {
    offset: usize,
    /// Four bytes, as they stand in a packet, read as a number of this machine.
    mask: u32,
    /// The first of the values, likewise.
    value: u32,
    /// The others. When there are many, all of them, in order.
    values: Vec<u32>,
    /// A step, or the complement of an output.
    next: [i32; 2],
    short: bool,
}

impl Program {
    /// Each test a step.
    pub fn plain(list: &Tests) -> Program {
        Program::new(list, |_, _| false)
    }

    /// Tests that ask for different values of the same bits are joined.
    pub fn grouped(list: &Tests) -> Program {
        Program::new(list, |test, other| {
            let asks = |test: &Test| (test.offset, test.mask, test.next[1], test.short);
            asks(test) == asks(other)
        })
    }

    fn new(list: &Tests, together: fn(&Test, &Test) -> bool) -> Program {
        let tests = &list.tests;
        // How many tests lead to each that are not part of another's step.
        let mut wanted = vec![0; tests.len()];
        if let Some(first) = wanted.first_mut() {
            *first = 1;
        }
        for (number, test) in tests.iter().enumerate() {
            if wanted[number] > 0 {
                for next in test.next {
                    if let Next::Test(next) = next {
                        wanted[next] += 1;
                    }
                }
            }
        }
        let mut places = vec![0; tests.len()];
        let mut steps = Vec::new();
        for (number, test) in tests.iter().enumerate() {
            if wanted[number] == 0 {
                continue;
            }
            places[number] = steps.len() as i32;
            let (mut values, mut no) = (vec![native(test.value)], test.next[0]);
            while let Next::Test(other) = no
                && wanted[other] == 1
                && together(test, &tests[other])
            {
                wanted[other] = 0;
                values.push(native(tests[other].value));
                no = tests[other].next[0];
            }
            if values.len() >= MANY {
                values.sort_unstable();
            }
            let value = values[0];
            if values.len() < MANY {
                values.remove(0);
            }
            let (offset, mask, short) = (test.offset, native(test.mask), test.short);
            steps.push((Step { offset, mask, value, values, next: [0; 2], short }, [no, test.next[1]]));
        }
        let next = |next: Next| match next {
            Next::Test(test) => places[test],
            other => !(output(other) as i32),
        };
        let steps = steps.into_iter().map(|(step, to)| Step { next: to.map(next), ..step });
        Program {
            steps: steps.collect(),
            otherwise: output(list.otherwise),
            safe: tests.iter().map(Test::required).max().unwrap_or(0),
        }
    }

    /// Of this length a packet is not too short for any comparison.
    pub fn safe_length(&self) -> usize {
        self.safe
    }

    /// The output of a packet of some length; [`NOWHERE`] when it matches nothing. `word` reads the
    /// four bytes at an offset as they stand there ([`u32::from_ne_bytes`]); those that the packet
    /// doesn't have are zero.
    #[inline]
    pub fn output(&self, length: usize, word: impl Fn(usize) -> u32) -> usize {
        if length < self.safe {
            return self.run(|step| step.matches_short(word(step.offset), length));
        }
        self.run(|step| step.matches(word(step.offset)))
    }

    #[inline(always)]
    fn run(&self, matches: impl Fn(&Step) -> bool) -> usize {
        let mut at = 0;
        while let Some(step) = self.steps.get(at as usize) {
            at = step.next[usize::from(matches(step))];
            if at < 0 {
                return !at as usize;
            }
        }
        self.otherwise
    }
}

impl Step {
    #[inline(always)]
    fn matches(&self, word: u32) -> bool {
        let word = word & self.mask;
        word == self.value || (!self.values.is_empty() && self.has(word))
    }

    fn has(&self, word: u32) -> bool {
        if self.values.len() < MANY {
            self.values.contains(&word)
        } else {
            self.values.binary_search(&word).is_ok()
        }
    }

    #[cold]
    fn matches_short(&self, word: u32, length: usize) -> bool {
        let there = length.saturating_sub(self.offset).min(4);
        let mut bytes = [0; 4];
        bytes[..there].fill(0xff);
        let there = u32::from_ne_bytes(bytes);
        if self.mask & !there == 0 {
            return self.matches(word);
        }
        let equal = |value: &u32| (word ^ value) & self.mask & there == 0;
        self.short && (equal(&self.value) || self.values.iter().any(equal))
    }

    /// All values, in order.
    fn all_values(&self) -> Vec<u32> {
        let first = (self.values.len() < MANY).then_some(self.value);
        first.into_iter().chain(self.values.iter().copied()).collect()
    }
}

/// Four bytes, the first the most significant, as this machine reads them.
fn native(word: u32) -> u32 {
    u32::from_ne_bytes(word.to_be_bytes())
}

fn output(next: Next) -> usize {
    match next {
        Next::Output(output) => output,
        _ => NOWHERE,
    }
}

/// In Click's form: a line a comparison, then the safe length.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number of the line that each step begins with.
        let lines: Vec<usize> = (self.steps.iter())
            .scan(0, |line, step| Some(std::mem::replace(line, *line + step.all_values().len())))
            .collect();
        let next = |next: i32| match next {
            0.. => format!("step {}", lines.get(next as usize).copied().unwrap_or_default()),
            next if !next as usize == NOWHERE => "[X]".to_owned(),
            next => format!("[{}]", !next),
        };
        for (step, &first) in self.steps.iter().zip(&lines) {
            let values = step.all_values();
            for (number, &value) in values.iter().enumerate() {
                let line = first + number;
                let last = number + 1 == values.len();
                let no = if last { next(step.next[0]) } else { format!("step {}", line + 1) };
                let (value, mask, yes) = (native(value), native(step.mask), next(step.next[1]));
                write!(f, "{line:2} {:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}", step.offset)?;
                writeln!(f, "{}", if step.short { "  short->yes" } else { "" })?;
            }
        }
        if self.steps.is_empty() {
            writeln!(f, "all->[{}]", self.otherwise)?;
        }
        write!(f, "safe length {}\nalignment offset 0\n", self.safe)
    }
}
