//! What must hold of a packet.

use super::tests::{Next, Test, Tests};

/// A condition on words of four bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The word at an offset, of which the bits of a mask count (the first byte is the most
    /// significant), has a value. A packet without all bytes that count does not have it.
    Word {
        /// Where it begins.
        offset: usize,
        /// The bits that count.
        mask: u32,
        /// What they must be; zero outside the mask.
        value: u32,
    },
    /// The other does not hold; what a packet is too short for doesn't hold of it, so this does.
    Not(Box<Condition>),
    /// The other is the case and does not hold: neither holds when the packet is too short.
    Unlike(Box<Condition>),
    /// All hold.
    All(Vec<Condition>),
    /// One of them holds.
    Any(Vec<Condition>),
    /// If the first holds, the second must, otherwise the third; or, of more, the third says
    /// whether the fourth must, and so on.
    Choice(Vec<Condition>),
}

impl Condition {
    /// What always holds.
    pub const ALWAYS: Condition = Condition::Word { offset: 0, mask: 0, value: 0 };

    /// The other does not hold.
    pub fn negation(self) -> Condition {
        Condition::Not(Box::new(self))
    }

    /// The other is the case and does not hold.
    pub fn unlike(self) -> Condition {
        Condition::Unlike(Box::new(self))
    }

    /// The tests: a packet of which it holds leaves them by [`Next::Pass`], another by
    /// [`Next::Fail`].
    pub fn tests(&self) -> Tests {
        let mut tests = Vec::new();
        self.add_to(&mut tests);
        Tests { tests, otherwise: Next::Pass }
    }

    fn add_to(&self, tests: &mut Vec<Test>) {
        match self {
            Condition::Word { offset, mask, value } => {
                let next = [Next::Fail, Next::Pass];
                tests.push(Test { offset: *offset, mask: *mask, value: value & mask, next, short: false });
            }
            Condition::Not(other) => negate(tests, other, false),
            Condition::Unlike(other) => negate(tests, other, true),
            Condition::All(all) => {
                let starts = add_all(tests, all);
                for part in starts.windows(2).take(all.len().saturating_sub(1)) {
                    redirect(&mut tests[part[0]..part[1]], Next::Test(part[1]), Next::Fail);
                }
            }
            Condition::Any(any) => {
                let starts = add_all(tests, any);
                for part in starts.windows(2).take(any.len().saturating_sub(1)) {
                    redirect(&mut tests[part[0]..part[1]], Next::Pass, Next::Test(part[1]));
                }
            }
            Condition::Choice(parts) => {
                let starts = add_all(tests, parts);
                for part in starts.windows(3).take(parts.len().saturating_sub(2)).step_by(2) {
                    redirect(&mut tests[part[0]..part[1]], Next::Test(part[1]), Next::Test(part[2]));
                }
            }
        }
    }
}

/// Adds the tests of each; returns where each begins, and where the last ends.
fn add_all(tests: &mut Vec<Test>, all: &[Condition]) -> Vec<usize> {
    let mut starts = vec![tests.len()];
    for condition in all {
        condition.add_to(tests);
        starts.push(tests.len());
    }
    starts
}

fn negate(tests: &mut Vec<Test>, other: &Condition, flip_short: bool) {
    let start = tests.len();
    other.add_to(tests);
    redirect(&mut tests[start..], Next::Fail, Next::Pass);
    tests[start..].iter_mut().for_each(|test| test.short ^= flip_short);
}

fn redirect(tests: &mut [Test], pass: Next, fail: Next) {
    for next in tests.iter_mut().flat_map(|test| &mut test.next) {
        match next {
            Next::Pass => *next = pass,
            Next::Fail => *next = fail,
            Next::Test(_) | Next::Output(_) | Next::Nowhere => {}
        }
    }
}
