//! Making a list of tests shorter.
//!
//! First tests that all must pass are put in order of their offsets. Then each branch is led past
//! the tests whose result is known on every way to it: what a packet has shown so far, its *facts*,
//! often decides the next test. A test that two ways lead to has the facts of both, kept apart
//! while they are few. Last, tests of the same word are made one, and those that nothing leads to
//! any more are removed. The steps are those of Click, so that the program reads the same.

use super::tests::{Next, Test, Tests};

/// So many ways to a test are told apart; of more only what they have in common is known.
const WAYS: usize = 4;

/// So many facts are kept of a way, the last; thousands of patterns would otherwise take memory by
/// their square.
const FACTS: usize = 512;

/// The same with fewer tests. `rank` says which offsets are to be compared first.
pub fn optimize(mut list: Tests, rank: fn(usize) -> usize) -> Tests {
    sort(&mut list.tests, rank);
    Facts::new(&list.tests).shorten(&mut list.tests);
    combine(&mut list.tests);
    remove_unused(&mut list);
    list
}

/// Exchanges neighbouring tests of which both must pass, or both fail, if the second ranks before
/// the first.
pub fn sort(tests: &mut [Test], rank: fn(usize) -> usize) {
    // The only test that leads to each; none when there are several, or it is the first.
    let mut before: Vec<Option<usize>> = vec![None; tests.len()];
    let mut leading = vec![0; tests.len()];
    for (number, test) in tests.iter().enumerate() {
        for next in test.next {
            if let Next::Test(next) = next {
                leading[next] += 1;
                before[next] = Some(number).filter(|before| *before > 0 && leading[next] == 1);
            }
        }
    }
    let key = |test: &Test| (rank(test.offset), test.mask, test.value);
    let mut at = 0;
    while at < tests.len() {
        let exchange = (0..2).find_map(|branch| {
            let Next::Test(next) = tests[at].next[branch] else { return None };
            let (one, two) = (&tests[at], &tests[next]);
            let same_way = one.next[1 - branch] == two.next[1 - branch];
            (same_way && key(one) > key(two) && before[next].is_some()).then_some((branch, next))
        });
        let Some((branch, next)) = exchange else {
            at += 1;
            continue;
        };
        tests.swap(at, next);
        tests[next].next[branch] = tests[at].next[branch];
        tests[at].next[branch] = Next::Test(next);
        at = before[at].unwrap_or(at);
    }
}

/// A test that a packet has passed, or has not.
type Fact = (u32, bool);

/// What is known on the ways to each test.
struct Facts {
    /// How long a packet is known to be.
    length: Vec<usize>,
    /// The first test that asks the same.
    same: Vec<usize>,
    /// Per test, the facts of each way to it.
    ways: Vec<Vec<Vec<Fact>>>,
    /// Per test, the earlier tests that lead to it, or did once.
    leading: Vec<Vec<usize>>,
}

impl Facts {
    fn new(tests: &[Test]) -> Facts {
        let mut length = vec![usize::MAX; tests.len()];
        if let Some(first) = length.first_mut() {
            *first = 0;
        }
        let mut leading = vec![Vec::new(); tests.len()];
        for (number, test) in tests.iter().enumerate() {
            for (branch, next) in test.next.into_iter().enumerate() {
                let Next::Test(next) = next else { continue };
                // What is too short takes one of the branches only, or has at least a byte that is
                // different.
                let least = match (branch == 1, test.short) {
                    (true, false) => test.required(),
                    (false, true) => test.first_byte(),
                    (true, true) | (false, false) => 0,
                };
                length[next] = length[next].min(length[number].max(least));
                leading[next].push(number);
            }
        }
        let mut first = std::collections::HashMap::new();
        let mut same = Vec::with_capacity(tests.len());
        for (number, test) in tests.iter().enumerate() {
            let asks = (test.offset, test.mask, test.value, test.short);
            same.push(*first.entry(asks).or_insert(number));
        }
        Facts { length, same, ways: Vec::new(), leading }
    }

    /// Leads every branch as far as it is known.
    fn shorten(mut self, tests: &mut [Test]) {
        for number in 0..tests.len() {
            self.leading[number].sort_unstable();
            self.leading[number].dedup();
            let ways = if number == 0 { vec![Vec::new()] } else { self.ways_to(tests, number) };
            let agreed = self.agreed(&ways, number);
            if let Some(passes) = agreed {
                // Whoever leads here knows the result.
                let past = tests[number].next[usize::from(passes)];
                for before in std::mem::take(&mut self.leading[number]) {
                    for branch in 0..2 {
                        if tests[before].next[branch] == Next::Test(number) {
                            self.lead(tests, before, branch, past);
                        }
                    }
                }
            }
            if ways.is_empty() || agreed.is_some() {
                tests[number].next = [Next::Nowhere; 2];
                self.ways.push(Vec::new());
                continue;
            }
            for passes in [true, false] {
                let past = self.past(tests, &ways, number, passes);
                self.lead(tests, number, usize::from(passes), past);
            }
            self.ways.push(ways);
        }
    }

    fn lead(&mut self, tests: &mut [Test], from: usize, branch: usize, to: Next) {
        tests[from].next[branch] = to;
        if let Next::Test(to) = to {
            self.leading[to].push(from);
        }
    }

    /// What all ways tell about a test that they have met before.
    fn agreed(&self, ways: &[Vec<Fact>], number: usize) -> Option<bool> {
        let (first, others) = ways.split_first()?;
        let known = self.known(first, number)?;
        others.iter().all(|way| self.known(way, number) == Some(known)).then_some(known)
    }

    /// What a way tells about a test that it has met before.
    fn known(&self, way: &[Fact], number: usize) -> Option<bool> {
        way.iter().find(|(test, _)| self.same[*test as usize] == self.same[number]).map(|(_, passes)| *passes)
    }

    /// Whether two facts are the same result of the same test.
    fn tells(&self, one: Fact, other: Fact) -> bool {
        self.same[one.0 as usize] == self.same[other.0 as usize] && one.1 == other.1
    }

    /// The facts of each way to a test.
    fn ways_to(&self, tests: &[Test], number: usize) -> Vec<Vec<Fact>> {
        let mut ways: Vec<Vec<Fact>> = Vec::new();
        for &before in &self.leading[number] {
            let leads = tests[before].next.map(|next| next == Next::Test(number));
            if leads == [true; 2] {
                ways.extend(self.ways[before].iter().cloned());
                continue;
            }
            for passes in [false, true].into_iter().filter(|passes| leads[usize::from(*passes)]) {
                for way in &self.ways[before] {
                    match self.known(way, before) {
                        Some(known) if known != passes => {}
                        Some(_) => ways.push(way.clone()),
                        None => ways.push(longer(way, (before as u32, passes))),
                    }
                }
            }
        }
        if ways.len() > WAYS {
            // The same test may have been met at several places. What it tells holds for the
            // shortest packet of any of them.
            let weakest = |fact: &Fact| {
                let known = |way: &Vec<Fact>| way.iter().copied().find(|met| self.tells(*met, *fact));
                let met: Option<Vec<Fact>> = ways.iter().map(known).collect();
                met?.into_iter().min_by_key(|(test, _)| self.length[*test as usize])
            };
            ways = vec![ways[0].iter().filter_map(weakest).collect()];
        }
        ways
    }

    /// Where a branch of a test leads on all ways to it.
    fn past(&self, tests: &[Test], ways: &[Vec<Fact>], number: usize, passes: bool) -> Next {
        let next = tests[number].next[usize::from(passes)];
        let visited = |way: &Vec<Fact>| {
            let mut visited = vec![next];
            let mut at = next;
            while let Next::Test(test) = at {
                let facts = [(number as u32, passes)].into_iter().chain(way.iter().rev().copied());
                let known = facts.filter_map(|fact| self.decides(tests, fact, &tests[test])).next();
                let Some(known) = known else { break };
                at = tests[test].next[usize::from(known)];
                visited.push(at);
            }
            visited
        };
        let visited: Vec<Vec<Next>> = ways.iter().map(visited).collect();
        let Some((first, others)) = visited.split_first() else { return next };
        let common = |next: &&Next| others.iter().all(|other| other.contains(next));
        first.iter().rev().find(common).copied().unwrap_or(next)
    }

    /// What a fact tells about a test.
    fn decides(&self, tests: &[Test], (fact, passed): Fact, test: &Test) -> Option<bool> {
        let fact = fact as usize;
        let known = &tests[fact];
        if test.mask == 0 {
            return Some(true);
        }
        if known.mask == 0 && !passed {
            return Some(false);
        }
        if known.offset != test.offset {
            return None;
        }
        let both = known.mask & test.mask;
        let result = if passed && both == test.mask {
            known.value & both == test.value
        } else if !passed && both == known.mask && known.value == test.value & both {
            false
        } else if !passed && known.mask.is_power_of_two() && known.mask == test.mask {
            true
        } else {
            return None;
        };
        // A packet that was too short for the fact must be so for the test, and with the same
        // result.
        let required = known.required();
        let long_enough = known.short != passed || required <= self.length[fact];
        let short_as_well = required <= test.required() && result == test.short;
        (long_enough || short_as_well).then_some(result)
    }
}

/// A way with one more fact.
fn longer(way: &[Fact], fact: Fact) -> Vec<Fact> {
    let kept = &way[way.len().saturating_sub(FACTS - 1)..];
    kept.iter().copied().chain([fact]).collect()
}

/// Makes one of two tests of the same word where that does the same.
fn combine(tests: &mut [Test]) {
    let agree = |one: &Test, two: &Test| {
        let both = one.mask & two.mask;
        one.mask == 0 || two.mask == 0 || one.offset == two.offset && one.value & both == two.value & both
    };
    for number in (0..tests.len()).rev() {
        loop {
            let mut test = tests[number].clone();
            if let Next::Test(no) = test.next[0] {
                if agree(&tests[no], &test) && test.mask.is_power_of_two() {
                    flip(&mut test);
                } else if let Some(bit) = differing_bit(&test, &tests[no]) {
                    test.value &= !bit;
                    test.mask &= !bit;
                    test.next[0] = tests[no].next[0];
                    tests[number] = test;
                    continue;
                }
            }
            tests[number] = test.clone();
            let Next::Test(yes) = test.next[1] else { break };
            if test.next[0] == tests[yes].next[1] && tests[yes].mask.is_power_of_two() {
                flip(&mut tests[yes]);
            }
            let other = &tests[yes];
            // What a packet that is too short for one of them does must stay.
            let short = match (test.short, other.short) {
                (false, false) | (true, true) => true,
                (false, true) => other.required() <= test.required(),
                (true, false) => false,
            };
            if test.next[0] != other.next[0] || !agree(other, &test) || !short {
                break;
            }
            tests[number] = Test {
                offset: if test.mask == 0 { other.offset } else { test.offset },
                mask: test.mask | other.mask,
                value: test.value | other.value,
                next: [test.next[0], other.next[1]],
                short: test.short,
            };
        }
    }
}

/// Asks a test of a single bit the other way round.
fn flip(test: &mut Test) {
    test.value ^= test.mask;
    test.next.swap(0, 1);
    test.short = !test.short;
}

/// The only bit in which two alternatives differ, if one test without it asks for both.
fn differing_bit(test: &Test, alternative: &Test) -> Option<u32> {
    let bit = test.value ^ alternative.value;
    let without = Test { mask: test.mask & !bit, ..test.clone() };
    (test.offset == alternative.offset
        && test.offset > 0
        && test.mask != 0
        && test.mask == alternative.mask
        && test.short == alternative.short
        && test.next[1] == alternative.next[1]
        && (bit == 0 || bit.is_power_of_two())
        && without.required() == test.required())
    .then_some(bit)
}

/// Removes tests that decide nothing, and those that nothing leads to.
fn remove_unused(list: &mut Tests) {
    let tests = &mut list.tests;
    // What each test comes down to.
    let mut comes_to: Vec<Next> = (0..tests.len()).map(Next::Test).collect();
    for number in (0..tests.len()).rev() {
        let next = tests[number].next.map(|next| match next {
            Next::Test(test) => comes_to[test],
            other => other,
        });
        tests[number].next = next;
        if next[0] == next[1] || tests[number].mask == 0 {
            comes_to[number] = next[1];
        }
    }
    match comes_to.first() {
        Some(Next::Test(first)) => tests[0] = tests[*first].clone(),
        Some(other) => {
            list.otherwise = *other;
            tests.clear();
        }
        None => {}
    }
    let mut used = vec![false; tests.len()];
    if let Some(first) = used.first_mut() {
        *first = true;
    }
    let mut places = vec![0; tests.len()];
    let mut kept: Vec<Test> = Vec::new();
    for (number, test) in tests.iter().enumerate() {
        if used[number] {
            places[number] = kept.len();
            kept.push(test.clone());
            for next in test.next {
                if let Next::Test(next) = next {
                    used[next] = true;
                }
            }
        }
    }
    for next in kept.iter_mut().flat_map(|test| &mut test.next) {
        if let Next::Test(test) = next {
            *test = places[*test];
        }
    }
    *tests = kept;
}
