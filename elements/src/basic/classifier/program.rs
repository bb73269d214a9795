//! A program of tests.
//!
//! A test compares four bytes of the packet, at an offset divisible by four, under a mask, and leads to a later test or to
//! an output. A packet that ends before the last byte that the mask has bits of fails the test, unless the
//! test says that it passes ([`Test::short`]).

use std::fmt;

use super::pattern::Clause;

/// Where a test leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To a later test.
    Test(usize),
    Output(usize),
    /// The packet matches nothing.
    Nowhere,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub offset: usize,
    /// Of four bytes, the first the most significant.
    pub mask: u32,
    pub value: u32,
    /// Where it leads when the bytes differ, and when they are equal.
    pub next: [Next; 2],
    /// Whether a packet that is too short passes.
    pub short: bool,
}

impl Test {
    /// How long a packet must be to be compared.
    pub fn required(&self) -> usize {
        if self.mask == 0 { 0 } else { self.offset + 4 - self.mask.trailing_zeros() as usize / 8 }
    }
}

/// Tests, of which the first begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tests {
    pub tests: Vec<Test>,
    /// Where all packets go when there is no test.
    pub otherwise: Next,
}

impl Tests {
    /// Whether packets may leave by an output.
    pub fn leads_to(&self, output: usize) -> bool {
        let output = Next::Output(output);
        if self.tests.is_empty() {
            return self.otherwise == output;
        }
        self.tests.iter().any(|test| test.next.contains(&output))
    }

    /// How long a packet must be for every comparison.
    fn safe_length(&self) -> usize {
        self.tests.iter().map(Test::required).max().unwrap_or(0)
    }
}

/// The tests of patterns as they stand there; each is a list of clauses.
pub(super) fn tests(patterns: &[Vec<Clause>]) -> Tests {
    let mut tests = Vec::new();
    for (output, clauses) in patterns.iter().enumerate() {
        let pattern = words(clauses);
        let behind = tests.len() + pattern.iter().map(Vec::len).sum::<usize>();
        let failure = if output + 1 < patterns.len() { Next::Test(behind) } else { Next::Nowhere };
        for (number, (clause, words)) in pattern_clauses(clauses).zip(&pattern).enumerate() {
            let end = tests.len() + words.len();
            let success = if number + 1 < pattern.len() { Next::Test(end) } else { Next::Output(output) };
            // What it means when all words are equal, and when one is not.
            let (equal, different) = if clause { (failure, success) } else { (success, failure) };
            for &(offset, value, mask) in words {
                let last = tests.len() + 1 == end;
                let next = [different, if last { equal } else { Next::Test(tests.len() + 1) }];
                tests.push(Test { offset, mask, value, next, short: false });
            }
        }
    }
    Tests { tests, otherwise: Next::Nowhere }
}

/// Which clauses are negated. A pattern without any has one that always holds.
fn pattern_clauses(clauses: &[Clause]) -> impl Iterator<Item = bool> {
    let any = clauses.iter().any(|clause| !clause.bytes.is_empty());
    let negated: Vec<bool> = if any {
        clauses.iter().filter(|clause| !clause.bytes.is_empty()).map(|clause| clause.negated).collect()
    } else {
        vec![false]
    };
    negated.into_iter()
}

/// The clauses as offset, value and mask of each word.
fn words(clauses: &[Clause]) -> Vec<Vec<(usize, u32, u32)>> {
    let mut all = Vec::new();
    for clause in clauses.iter().filter(|clause| !clause.bytes.is_empty()) {
        let mut words: Vec<(usize, u32, u32)> = Vec::new();
        for (index, &(value, mask)) in clause.bytes.iter().enumerate() {
            let place = clause.offset + index;
            let shift = 24 - place % 4 * 8;
            let (value, mask) = (u32::from(value) << shift, u32::from(mask) << shift);
            match words.last_mut().filter(|word| word.0 == place / 4 * 4) {
                Some(word) => *word = (word.0, word.1 | value, word.2 | mask),
                None => words.push((place / 4 * 4, value, mask)),
            }
        }
        all.push(words);
    }
    if all.is_empty() {
        all.push(vec![(0, 0, 0)]);
    }
    all
}

/// In Click's form.
impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = |next: Next| match next {
            Next::Test(test) => format!("step {test}"),
            Next::Output(output) => format!("[{output}]"),
            Next::Nowhere => "[X]".to_owned(),
        };
        for (number, test) in self.tests.iter().enumerate() {
            let Test { offset, mask, value, next: [no, yes], short } = test;
            write!(
                f,
                "{number:2} {offset:3}/{value:08x}%{mask:08x}  yes->{}  no->{}",
                next(*yes),
                next(*no)
            )?;
            writeln!(f, "{}", if *short { "  short->yes" } else { "" })?;
        }
        if self.tests.is_empty() {
            match self.otherwise {
                Next::Output(output) => writeln!(f, "all->[{output}]")?,
                _ => writeln!(f, "all->[{}]", i32::MAX)?,
            }
        }
        write!(f, "safe length {}\nalignment offset 0\n", self.safe_length())
    }
}

/// No output.
pub(super) const NOWHERE: usize = i32::MAX as usize;

/// Tests made ready to run.
pub(super) struct Program {
    steps: Vec<Step>,
    /// Where all packets go when there is no step.
    otherwise: usize,
    /// Of this length a packet has all four bytes of every comparison.
    whole: usize,
}

struct Step {
    offset: u32,
    /// In the order in which the processor reads words.
    mask: u32,
    value: u32,
    /// A step, or the complement of an output.
    next: [i32; 2],
    required: u32,
    short: bool,
}

impl Program {
    pub fn new(tests: &Tests) -> Program {
        let output = |next: Next| match next {
            Next::Output(output) => output,
            _ => NOWHERE,
        };
        let next = |next: Next| match next {
            Next::Test(step) => step as i32,
            other => !(output(other) as i32),
        };
        let step = |test: &Test| Step {
            offset: test.offset as u32,
            mask: u32::from_ne_bytes(test.mask.to_be_bytes()),
            value: u32::from_ne_bytes(test.value.to_be_bytes()),
            next: test.next.map(next),
            required: test.required() as u32,
            short: test.short,
        };
        Program {
            steps: tests.tests.iter().map(step).collect(),
            otherwise: output(tests.otherwise),
            whole: tests.tests.iter().map(|test| test.offset + 4).max().unwrap_or(0),
        }
    }

    /// The output for a packet; [`NOWHERE`] when it matches nothing.
    #[inline]
    pub fn output(&self, packet: &[u8]) -> usize {
        if packet.len() < self.whole {
            return self.run(|step| step.passes_if_long_enough(packet));
        }
        self.run(|step| {
            let bytes = packet.get(step.offset as usize..).and_then(<[u8]>::first_chunk);
            u32::from_ne_bytes(bytes.copied().unwrap_or_default()) & step.mask == step.value
        })
    }

    #[inline(always)]
    fn run(&self, passes: impl Fn(&Step) -> bool) -> usize {
        let mut at = 0;
        while let Some(step) = self.steps.get(at as usize) {
            at = step.next[usize::from(passes(step))];
            if at < 0 {
                return !at as usize;
            }
        }
        self.otherwise
    }
}

impl Step {
    #[cold]
    fn passes_if_long_enough(&self, packet: &[u8]) -> bool {
        if packet.len() < self.required as usize {
            return self.short;
        }
        let mut word = [0; 4];
        let bytes = packet.get(self.offset as usize..).unwrap_or_default();
        word.iter_mut().zip(bytes).for_each(|(word, byte)| *word = *byte);
        u32::from_ne_bytes(word) & self.mask == self.value
    }
}

#[cfg(test)]
mod proofs {
    use super::super::{optimize::optimized, pattern};
    use super::*;
    use proptest::prelude::*;

    fn text(patterns: &[&str]) -> String {
        let patterns: Vec<_> = patterns.iter().map(|text| pattern::parse(text).0).collect();
        optimized(tests(&patterns)).to_string()
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
    fn matches(pattern: &[Clause], packet: &[u8]) -> bool {
        pattern.iter().all(|clause| {
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
            patterns in prop::collection::vec(prop::collection::vec(clause(), 0..4), 1..6),
            packets in prop::collection::vec(
                prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 3, 255]), 0..18), 1..40),
        ) {
            let plain = tests(&patterns);
            let better = optimized(plain.clone());
            let (plain, program) = (Program::new(&plain), Program::new(&better));
            for packet in packets {
                let first = patterns.iter().position(|pattern| matches(pattern, &packet)).unwrap_or(NOWHERE);
                prop_assert_eq!(plain.output(&packet), first);
                prop_assert_eq!(program.output(&packet), first, "{:?} {}", packet, better);
            }
        }
    }
}
