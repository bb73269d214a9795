//! The search: decision trees over the bits of the key, with leaves of a few rules each.
//!
//! Every node cuts a run of bits out of one word of the key, and has a child for each of their
//! values (HiCuts' idea, Gupta and McKeown 1999, with cuts by bits as in ByteCuts, Daly and Torng
//! 2018). A child knows which rules can still match and cuts what tells these apart. Real lists
//! become 1 to 4 nodes deep, the leaf compares up to eight rules at once ([`super::leaf`]), and
//! what is not reached costs nothing: cost follows the depth, which grows with the logarithm of the
//! list.
//!
//! Rules that leave a cut bit open belong into all its children; that is what makes such trees
//! explode. So, as in EffiCuts (Vamanan, Voskuilen, Vijaykumar 2010), rules are first parted by
//! which addresses they care for: one tree for those that know the destination, one for those that
//! know the source only (rules with both are in the first or the second, whichever is larger), one
//! for those that know neither, unless so few of these can ever match that a tree is not worth its
//! walk ([`super::few`]); and the best of the answers counts. A cut that would copy too many rules
//! is not made; and the whole has a budget, beyond which leaves stay long. A list made to be
//! hostile then costs time, linear in the leaf, but never memory.
//!
//! Most packets match no rule but the one for everything at the end of the list. That one is not in
//! any tree; it is what is found at first. The roots are wide and cut where addresses are that no
//! rule knows, so that such a packet meets empty children and nothing else. A batch goes through
//! all trees together: the roots of all its packets, then the next level of those (few) that did
//! not arrive at nothing, and so on; then the leaves. Lists of who goes on are written without
//! branches, so nothing is mispredicted whatever the packets are, and misses of 64 packets overlap.

use wire::which::{bits, lowest};

use super::BATCH;
use super::few::Few;
use super::leaf::{Leaf, Leaves};
use super::region::{Key, Keys, Region};

/// The most trees.
pub(super) const TREES: usize = 3;
/// Room for each packet in each tree, and for one that is written before it is known to count; as
/// many as a byte counts.
const PLACES: usize = 256;
const _: () = assert!(TREES * BATCH < PLACES);

/// A child without rules.
pub(super) const NOTHING: u32 = 0;
/// A word with this bit names a node; without it, a leaf.
pub(super) const INNER: u32 = 1 << 31;

/// One region of a step, for building.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<const W: usize> {
    pub(super) value: [u32; W],
    pub(super) mask: [u32; W],
    /// First ports, and how many follow.
    pub(super) first: [u16; 2],
    pub(super) more: [u16; 2],
    pub step: u32,
    /// Bits of [`kind`].
    pub kind: u32,
}

/// What else an entry needs, beside that its region holds the packet.
pub(crate) mod kind {
    /// The region is larger than the constant part: look exactly.
    pub const LARGER: u32 = 1;
    /// Look at the momentary part.
    pub const MOMENT: u32 = 2;
    /// The rule, or what it does, may differ within a flow.
    pub const VARIES: u32 = 4;
    /// There is more to do than to compare the region.
    pub const MORE: u32 = LARGER | MOMENT | VARIES;
    /// It always decides, when it is reached: nothing behind it counts where it covers everything.
    pub const FINAL: u32 = 8;
}

impl<const W: usize> Entry<W> {
    pub fn new(region: &Region<W>, step: u32, kind: u32) -> Entry<W> {
        let region = region.with_port_bits();
        let [source, destination] = region.ports;
        Entry {
            value: region.value,
            mask: region.mask,
            first: [source.first, destination.first],
            more: [source.last - source.first, destination.last - destination.first],
            step,
            kind,
        }
    }

    /// Whether the region holds a packet.
    pub(super) fn holds(&self, key: &Key<W>) -> bool {
        let bits = (0..W).all(|n| (key.0[n] ^ self.value[n]) & self.mask[n] == 0);
        let ports = key.0[Key::<W>::PORTS];
        let within = |n: usize, port: u32| (port as u16).wrapping_sub(self.first[n]) <= self.more[n];
        bits && within(0, ports) && within(1, ports >> 16)
    }
}

/// The first step that matches, and the first whose outcome may vary within the flow; `u32::MAX`
/// where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub step: u32,
    pub varies: u32,
}

impl Found {
    pub const NONE: Found = Found { step: u32::MAX, varies: u32::MAX };

    /// Whether a step on the way, or the one that matches, varies.
    #[inline(always)]
    pub fn varies(&self) -> bool {
        self.varies != u32::MAX && self.varies <= self.step
    }

    /// Whether a step whose region holds the packet matches: then it is what is found.
    pub(super) fn settle(&mut self, step: u32, what: u32, look: &impl Fn(u32, u32) -> bool) -> bool {
        if what & kind::LARGER != 0 && !look(step, kind::LARGER) {
            return false;
        }
        if what & kind::VARIES != 0 {
            self.varies = self.varies.min(step);
        }
        if what & kind::MOMENT != 0 && !look(step, kind::MOMENT) {
            return false;
        }
        self.step = step;
        true
    }
}

/// What is found for a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundAll {
    pub(super) steps: [u32; BATCH],
    varies: [u32; BATCH],
}

impl FoundAll {
    pub const NONE: FoundAll = FoundAll { steps: [u32::MAX; BATCH], varies: [u32::MAX; BATCH] };

    /// For one packet.
    #[inline(always)]
    pub fn of(&self, who: usize) -> Found {
        Found { step: self.steps[who], varies: self.varies[who] }
    }

    pub fn set(&mut self, who: usize, found: Found) {
        (self.steps[who], self.varies[who]) = (found.step, found.varies);
    }
}

/// The trees of one family.
#[derive(Clone, Debug)]
pub(crate) struct Forest<const W: usize> {
    /// What is found when no tree finds anything better: the step for everything, if there is one.
    pub(super) otherwise: u32,
    pub(super) few: Few<W>,
    pub(super) leaves: Leaves<W>,
    pub(super) words: Vec<u32>,
    pub(super) nodes: Vec<Node>,
    pub(super) roots: Vec<Node>,
}

/// Which bits of which word lead to which child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) base: u32,
    pub(super) mask: u32,
    pub(super) word: u16,
    pub(super) shift: u16,
}

impl Node {
    /// Which child, by the node's word of a key.
    #[inline(always)]
    fn child(&self, word: u32) -> u32 {
        word >> (self.shift & 31) & self.mask
    }
}

/// Who is to go on, and from which word.
#[derive(Clone, Copy)]
struct Way(u64);

impl Way {
    #[inline(always)]
    fn new(who: usize, word: u32) -> Way {
        Way(who as u64 | u64::from(word) << 32)
    }

    #[inline(always)]
    fn who(self) -> usize {
        self.0 as u32 as usize % BATCH
    }

    #[inline(always)]
    fn word(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Ways, written one after the other.
struct Ways {
    list: [Way; PLACES],
    count: u8,
}

impl Ways {
    fn new() -> Ways {
        Ways { list: [Way(0); PLACES], count: 0 }
    }

    /// Writes one down, and keeps it if it counts.
    #[inline(always)]
    fn push(&mut self, way: Way, counts: bool) {
        self.list[usize::from(self.count)] = way;
        self.count += u8::from(counts);
    }
}

impl<const W: usize> Forest<W> {
    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.few.bytes()
            + self.leaves.bytes()
            + self.words.capacity() * 4
            + self.nodes.capacity() * size_of::<Node>()
    }

    /// The first step from `start` on that matches. `look` confirms what an entry cannot say: step
    /// and kind.
    pub fn find(&self, key: &Key<W>, start: u32, look: impl Fn(u32, u32) -> bool) -> Found {
        // A return may have led behind the step for everything.
        let otherwise = if self.otherwise < start { u32::MAX } else { self.otherwise };
        let mut found = Found { step: otherwise, ..Found::NONE };
        self.few.find(key, start, &mut found, &look);
        for root in &self.roots {
            let child = |node: &Node| {
                self.words[(node.base + node.child(key.0[usize::from(node.word).min(W - 1)])) as usize]
            };
            let mut word = child(root);
            while word & INNER != 0 {
                word = child(&self.nodes[(word & !INNER) as usize]);
            }
            let mut next = (word != NOTHING).then_some(word);
            while let Some(at) = next {
                let leaf = self.leaves.leaf(at);
                if Self::settle(leaf, leaf.holding(key), start, &mut found, &look) {
                    break;
                }
                next = leaf.goes_on().then(|| leaf.behind::<W>(at));
            }
        }
        found
    }

    /// [`Forest::find`] from the first step, for many packets. `look` is told which packet as well.
    pub fn find_all(&self, keys: &Keys<W>, look: impl Fn(usize, u32, u32) -> bool) -> FoundAll {
        let mut found = FoundAll { steps: [self.otherwise; BATCH], ..FoundAll::NONE };
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
        {
            // SAFETY: the features are there.
            unsafe { self.find_all_avx2(keys, &mut found, look) };
            return found;
        }
        self.walk(keys, &mut found, look, |leaf, who| leaf.holding(&keys.key(who)));
        found
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn find_all_avx2(&self, keys: &Keys<W>, found: &mut FoundAll, look: impl Fn(usize, u32, u32) -> bool) {
        self.walk(keys, found, look, |leaf, who| leaf.holding_avx2(keys, who));
    }

    #[inline(always)]
    fn walk(
        &self,
        keys: &Keys<W>,
        found: &mut FoundAll,
        look: impl Fn(usize, u32, u32) -> bool,
        holding: impl Fn(Leaf<'_>, usize) -> u32,
    ) {
        self.few.find_all(keys, found, &look);
        if self.roots.is_empty() || keys.count() == 0 {
            return;
        }
        let (mut inner, mut leaves) = (Ways::new(), Ways::new());
        let arrive = |who: usize, word: u32, inner: &mut Ways, leaves: &mut Ways| {
            inner.push(Way::new(who, word), word & INNER != 0);
            leaves.push(Way::new(who, word), word != NOTHING && word < INNER);
        };
        for root in self.roots.iter().take(TREES) {
            let (mut arrived, children) = self.enter(root, keys);
            while arrived != 0 {
                let who = arrived.trailing_zeros() as usize % BATCH;
                arrived &= arrived - 1;
                arrive(who, children[who], &mut inner, &mut leaves);
            }
        }
        while inner.count > 0 {
            for at in 0..usize::from(std::mem::take(&mut inner.count)) {
                let way = inner.list[at];
                let node = &self.nodes[(way.word() & !INNER) as usize];
                let place = node.child(keys.column(usize::from(node.word))[way.who()]);
                arrive(way.who(), self.words[(node.base + place) as usize], &mut inner, &mut leaves);
            }
        }
        // Eight rules of each; and, of leaves that go on, the next eight, for whom these did not
        // settle it.
        while leaves.count > 0 {
            for at in 0..usize::from(std::mem::take(&mut leaves.count)) {
                let (who, at) = (leaves.list[at].who(), leaves.list[at].word());
                let leaf = self.leaves.leaf(at);
                let holding = holding(leaf, who);
                let plain = leaf.plain(holding);
                let (step, _) = leaf.step::<W>(plain.trailing_zeros() as usize);
                let best = &mut found.steps[who];
                *best = (*best).min(if plain == 0 { u32::MAX } else { step });
                let mut settled = plain != 0;
                // Those that are not plain, before the first plain one.
                let closer = (holding ^ plain) & plain.wrapping_sub(1);
                if closer != 0 {
                    let mut one = found.of(who);
                    settled |= Self::settle(leaf, closer, 0, &mut one, &|step, kind| look(who, step, kind));
                    found.set(who, one);
                }
                leaves.push(Way::new(who, leaf.behind::<W>(at)), leaf.goes_on() & !settled);
            }
        }
    }

    /// To which children of a root packets come, and which of them (as bits) do not come to
    /// nothing.
    #[inline(always)]
    fn enter(&self, root: &Node, keys: &Keys<W>) -> (u64, [u32; BATCH]) {
        let table = &self.words[root.base as usize..][..=root.mask as usize];
        let column = keys.column(usize::from(root.word));
        let (mut children, mut some) = ([NOTHING; BATCH], [0; BATCH]);
        // Eights, and step by step, so that what can be done to eight words at once is.
        let many = keys.count().next_multiple_of(8);
        for (child, word) in children[..many].iter_mut().zip(column) {
            *child = root.child(*word);
        }
        for child in &mut children[..many] {
            *child = table[*child as usize];
        }
        for (some, child) in some[..many].iter_mut().zip(&children) {
            *some = u8::from(*child != NOTHING);
        }
        (bits(&some) & lowest(keys.count()), children)
    }

    /// Takes the first rule of a leaf that matches, of those whose regions hold the packet (bits):
    /// whether what is behind these rules can bring nothing better.
    #[inline(never)]
    fn settle(
        leaf: Leaf<'_>,
        mut holding: u32,
        start: u32,
        found: &mut Found,
        look: &impl Fn(u32, u32) -> bool,
    ) -> bool {
        while holding != 0 {
            let (step, what) = leaf.step::<W>(holding.trailing_zeros() as usize);
            holding &= holding - 1;
            if step >= found.step || step >= start && found.settle(step, what, look) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::region::{W4, W6};
    use super::*;
    use proptest::prelude::*;

    /// Rules out of small pools, so that they overlap, and the keys of packets that some of them
    /// hold.
    fn entry<const W: usize>() -> impl Strategy<Value = Entry<W>> {
        let mask =
            prop_oneof![4 => Just(0), 2 => Just(u32::MAX), 2 => Just(0xffff_0000), 1 => Just(0xf000_000f)];
        let masks = prop::collection::vec(mask, W);
        let ports = prop_oneof![Just((0, u16::MAX)), (0u16..9, 0u16..4), Just((0xfff0, 0xf))];
        (masks, word_list::<W>(), ports.clone(), ports, 0u32..12).prop_map(
            |(masks, words, from, to, what)| {
                let mut entry = Entry {
                    value: [0; W],
                    mask: [0; W],
                    first: [from.0, to.0],
                    more: [from.1, to.1],
                    step: 0,
                    // Mostly plain.
                    kind: if what < kind::FINAL { what } else { 0 },
                };
                for word in (0..W).filter(|word| *word != Key::<W>::PORTS) {
                    entry.mask[word] = masks[word];
                    entry.value[word] = words[word] & masks[word];
                }
                entry
            },
        )
    }

    fn word_list<const W: usize>() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![0u32..4, (0u32..4).prop_map(|n| n << 16 | n << 30)], W)
    }

    /// What a closer look says here.
    fn look(who: usize, step: u32, what: u32) -> bool {
        !(who as u32 + step + what).is_multiple_of(3)
    }

    /// All rules, from the top.
    fn plainly<const W: usize>(entries: &[Entry<W>], key: &Key<W>, who: usize) -> Found {
        let mut found = Found::NONE;
        for entry in entries.iter().filter(|entry| entry.holds(key)) {
            if found.settle(entry.step, entry.kind, &|step, what| look(who, step, what)) {
                break;
            }
        }
        found
    }

    fn agree<const W: usize>(mut entries: Vec<Entry<W>>, keys: &[Vec<u32>]) -> Result<(), TestCaseError> {
        for (step, entry) in entries.iter_mut().enumerate() {
            entry.step = step as u32;
        }
        let forest = Forest::new(entries.clone());
        let mut all = Keys::none(keys.len());
        for (n, words) in keys.iter().enumerate() {
            all.set(n, &Key(std::array::from_fn(|word| words[word])));
        }
        // As this processor does it, and as one without AVX2.
        let fast = forest.find_all(&all, look);
        let mut slow = FoundAll { steps: [forest.otherwise; BATCH], ..FoundAll::NONE };
        forest.walk(&all, &mut slow, look, |leaf, who| leaf.holding(&all.key(who)));
        for who in 0..keys.len() {
            let expected = plainly(&entries, &all.key(who), who);
            let alone = forest.find(&all.key(who), 0, |step, what| look(who, step, what));
            for found in [fast.of(who), slow.of(who), alone] {
                prop_assert_eq!(found.step, expected.step);
                prop_assert_eq!(found.varies.min(found.step), expected.varies.min(found.step));
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn all_ways_find_what_comes_first(
            entries in prop::collection::vec(entry::<W4>(), 0..120),
            keys in prop::collection::vec(word_list::<W4>(), 1..=BATCH),
            entries6 in prop::collection::vec(entry::<W6>(), 0..60),
            keys6 in prop::collection::vec(word_list::<W6>(), 1..=BATCH),
        ) {
            agree(entries, &keys)?;
            agree(entries6, &keys6)?;
        }
    }
}
