//! The search: decision trees over the bits of the key, with leaves of a few rules each.
//!
//! Every node cuts a run of bits out of one word of the key, and has a child for each of their values (HiCuts' idea, Gupta and
//! McKeown 1999, with cuts by bits as in ByteCuts, Daly and Torng 2018). A child knows which rules can still match and
//! cuts what tells these apart. Real lists become 1 to 4 nodes deep, the leaf compares some rules, and what is
//! not reached costs nothing: cost follows the depth, which grows with the logarithm of the list.
//!
//! Rules that leave a cut bit open belong into all its children; that is what makes such trees explode. So, as in EffiCuts
//! (Vamanan, Voskuilen, Vijaykumar 2010), rules are first parted by which addresses they care for: one tree for those that know
//! the destination, one for those that know the source only, one for those that know neither (rules with both are in the first or
//! the second, whichever is larger), and the best of three answers counts. A cut that would copy too many rules is not made; and the
//! whole has a budget, beyond which leaves stay long. A list made to be hostile then costs time, linear in the leaf, but
//! never memory.
//!
//! Most packets match no rule but the one for everything at the end of the list. That one is not in any tree; it is what is found
//! at first. The roots are wide, so that such a packet meets three empty children and nothing else. A batch goes through a tree
//! together: the roots of all its packets, then the next level of those (few) that did not arrive at nothing, and so on; then
//! the leaves. Lists of who goes on are written without branches, so nothing is mispredicted for a packet that
//! matches no rule, and misses of 64 packets overlap.

use super::region::{Key, Region};

/// The most packets that are searched for together.
const TOGETHER: usize = 64;

/// A child without rules.
pub(super) const NOTHING: u32 = 0;
/// A word with this bit names a node; without it, the place of a leaf in `items`: its length, and then its entries.
pub(super) const INNER: u32 = 1 << 31;

/// One region of a step, laid out for comparing: one cache line in IPv4, two in IPv6.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
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
    #[inline(always)]
    fn holds(&self, key: &Key<W>) -> bool {
        let mut differs = 0;
        for n in 0..W {
            differs |= (key.0[n] ^ self.value[n]) & self.mask[n];
        }
        let ports = key.0[Key::<W>::PORTS];
        let source = (ports as u16).wrapping_sub(self.first[0]) <= self.more[0];
        let destination = ((ports >> 16) as u16).wrapping_sub(self.first[1]) <= self.more[1];
        (differs == 0) & source & destination
    }
}

/// The first step that matches, and the first whose outcome may vary within the flow; `u32::MAX` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub step: u32,
    pub varies: u32,
}

impl Found {
    pub const NONE: Found = Found { step: u32::MAX, varies: u32::MAX };
}

/// The trees of one family.
#[derive(Clone, Debug)]
pub(crate) struct Forest<const W: usize> {
    /// What is found when no tree finds anything better: the step for everything, if there is one.
    pub(super) otherwise: u32,
    pub(super) entries: Vec<Entry<W>>,
    pub(super) items: Vec<u32>,
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
    #[inline(always)]
    fn child<const W: usize>(&self, key: &Key<W>) -> usize {
        // Words are numbered below W by what builds the trees; so written, nothing needs to be checked.
        let word = key.0[usize::from(self.word).min(W - 1)];
        self.base as usize + (word >> (self.shift & 31) & self.mask) as usize
    }
}

impl<const W: usize> Forest<W> {
    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<W>>()
            + self.items.capacity() * 4
            + self.words.capacity() * 4
            + self.nodes.capacity() * size_of::<Node>()
    }

    /// The first step from `start` on that matches. `look` confirms what an entry cannot say: step and kind.
    pub fn find(&self, key: &Key<W>, start: u32, look: impl Fn(u32, u32) -> bool) -> Found {
        // A return may have led behind the step for everything.
        let otherwise = if self.otherwise < start { u32::MAX } else { self.otherwise };
        let mut found = Found { step: otherwise, ..Found::NONE };
        for root in &self.roots {
            let mut word = self.words[root.child(key)];
            while word & INNER != 0 {
                word = self.words[self.nodes[(word & !INNER) as usize].child(key)];
            }
            for &item in self.leaf(word) {
                if self.settles(item, key, start, &mut found, &look) {
                    break;
                }
            }
        }
        found
    }

    /// [`Forest::find`] from the first step, for up to 64 packets. `look` is told which packet as well.
    pub fn find_batch(&self, keys: &[Key<W>], found: &mut [Found], look: impl Fn(usize, u32, u32) -> bool) {
        found.fill(Found { step: self.otherwise, ..Found::NONE });
        let keys = &keys[..keys.len().min(TOGETHER)];
        // Who is where; a place more than packets, for what is written before it is known to count.
        let (mut inner, mut leaves) = ([(0u32, 0u32); TOGETHER + 1], [(0u32, 0u32); TOGETHER + 1]);
        for root in &self.roots {
            let (mut inners, mut arrived) = (0, 0);
            for (who, key) in keys.iter().enumerate() {
                let word = self.words[root.child(key)];
                inner[inners.min(TOGETHER)] = (who as u32, word);
                inners += usize::from(word != NOTHING);
            }
            while inners > 0 {
                let mut deeper = 0;
                for at in 0..inners.min(TOGETHER) {
                    let (who, word) = inner[at];
                    leaves[arrived.min(TOGETHER)] = (who, word);
                    arrived += usize::from(word & INNER == 0);
                    inner[deeper] = (who, word);
                    deeper += usize::from(word & INNER != 0);
                }
                inners = 0;
                for at in 0..deeper {
                    let (who, word) = inner[at];
                    let node = &self.nodes[(word & !INNER) as usize];
                    let word = self.words[node.child(&keys[who as usize])];
                    inner[inners] = (who, word);
                    inners += usize::from(word != NOTHING);
                }
            }
            self.compare(&leaves[..arrived], keys, found, &look);
        }
    }

    /// Compares packets that came to leaves: with the first rule of each leaf all together, so that misses overlap and
    /// nothing is mispredicted, and then with what is left to compare.
    fn compare(
        &self,
        leaves: &[(u32, u32)],
        keys: &[Key<W>],
        found: &mut [Found],
        look: &impl Fn(usize, u32, u32) -> bool,
    ) {
        let (mut left, mut more) = ([(0u32, 0u32); TOGETHER + 1], 0);
        for &(who, leaf) in leaves {
            let entry = &self.entries[self.items[leaf as usize + 1] as usize];
            let (holds, plain) = (entry.holds(&keys[who as usize]), entry.kind & kind::MORE == 0);
            let best = &mut found[who as usize].step;
            *best = (*best).min(if holds & plain { entry.step } else { u32::MAX });
            left[more.min(TOGETHER)] = (who, leaf);
            more += usize::from(if holds { !plain } else { self.items[leaf as usize] > 1 });
        }
        for &(who, leaf) in &left[..more.min(TOGETHER)] {
            let who = who as usize;
            for &item in self.leaf(leaf) {
                if self.settles(item, &keys[who], 0, &mut found[who], &|step, kind| look(who, step, kind)) {
                    break;
                }
            }
        }
    }

    fn leaf(&self, word: u32) -> &[u32] {
        let length = self.items[word as usize] as usize;
        &self.items[word as usize + 1..][..length]
    }

    /// Compares an entry: whether the rest of its leaf can bring nothing better.
    #[inline(always)]
    fn settles(
        &self,
        item: u32,
        key: &Key<W>,
        start: u32,
        found: &mut Found,
        look: &impl Fn(u32, u32) -> bool,
    ) -> bool {
        let entry = &self.entries[item as usize];
        if entry.step >= found.step {
            return true;
        }
        if entry.step < start || !entry.holds(key) {
            return false;
        }
        if entry.kind & kind::MORE != 0 {
            if entry.kind & kind::LARGER != 0 && !look(entry.step, kind::LARGER) {
                return false;
            }
            if entry.kind & kind::VARIES != 0 {
                found.varies = found.varies.min(entry.step);
            }
            if entry.kind & kind::MOMENT != 0 && !look(entry.step, kind::MOMENT) {
                return false;
            }
        }
        found.step = entry.step;
        true
    }
}
