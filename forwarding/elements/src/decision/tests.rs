//! Lists of tests.

/// Where a test leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To a later test.
    Test(usize),
    /// The packet leaves by this output.
    Output(usize),
    /// The packet matches nothing.
    Nowhere,
    /// The condition holds; what that means is not said yet.
    Pass,
    /// The condition does not hold; what that means is not said yet.
    Fail,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// Where the word of four bytes begins.
    pub offset: usize,
    /// The bits that count; the first byte is the most significant.
    pub mask: u32,
    /// What they must be; zero outside the mask.
    pub value: u32,
    /// Where it leads when the word is different, and when it is equal.
    pub next: [Next; 2],
    /// Whether a word of which bytes are missing is equal, when those that are there are.
    pub short: bool,
}

impl Test {
    /// How long a packet must be to have all bytes that count.
    pub fn required(&self) -> usize {
        if self.mask == 0 { 0 } else { self.offset + 4 - self.mask.trailing_zeros() as usize / 8 }
    }

    /// How long a packet must be to have a byte that counts.
    pub(super) fn first_byte(&self) -> usize {
        if self.mask == 0 { 0 } else { self.offset + 1 + self.mask.leading_zeros() as usize / 8 }
    }
}

/// Tests, of which the first begins. A test leads to later ones only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tests {
    /// In order.
    pub tests: Vec<Test>,
    /// Where all packets go when there is no test.
    pub otherwise: Next,
}

impl Tests {
    /// Says what it means that the condition holds.
    pub fn on_pass(self, next: Next) -> Tests {
        self.replace(Next::Pass, next)
    }

    /// Says what it means that the condition does not hold.
    pub fn on_fail(self, next: Next) -> Tests {
        self.replace(Next::Fail, next)
    }

    /// Tries `other` on packets of which the condition does not hold.
    pub fn or_else(self, other: Tests) -> Tests {
        if self.tests.is_empty() {
            return if self.otherwise == Next::Fail { other } else { self };
        }
        let behind = self.tests.len();
        let next = if other.tests.is_empty() { other.otherwise } else { Next::Test(behind) };
        let mut joined = self.on_fail(next);
        joined.tests.extend(other.tests.into_iter().map(|mut test| {
            test.next = test.next.map(|next| match next {
                Next::Test(later) => Next::Test(later + behind),
                other => other,
            });
            test
        }));
        joined
    }

    /// Whether packets may leave by an output.
    pub fn leads_to(&self, output: usize) -> bool {
        let output = Next::Output(output);
        if self.tests.is_empty() {
            return self.otherwise == output;
        }
        self.tests.iter().any(|test| test.next.contains(&output))
    }

    fn replace(mut self, from: Next, to: Next) -> Tests {
        let next = self.tests.iter_mut().flat_map(|test| &mut test.next).chain([&mut self.otherwise]);
        next.filter(|next| **next == from).for_each(|next| *next = to);
        self
    }
}
