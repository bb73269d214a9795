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

use std::collections::HashMap;

use super::region::{Key, Region};

/// Rules that are compared rather than cut further.
const LEAF: usize = 8;
/// The most bits of a cut.
const MOST_BITS: u32 = 12;
/// Bits that a root has whatever the number of rules, so that it tells what matches nothing.
const ROOT_BITS: u32 = 8;
/// Rules looked at to choose a cut; at most as many as are counted in [`BitCounts`].
const SAMPLE: usize = 192;
/// Items and words that a tree may take for each region.
const BUDGET: usize = 24;
/// The most packets that are searched for together.
const TOGETHER: usize = 64;

/// A child without rules.
const NOTHING: u32 = 0;
/// A word with this bit names a node; without it, the place of a leaf in `items`: its length, and then its entries.
const INNER: u32 = 1 << 31;

/// One region of a step, laid out for comparing: one cache line in IPv4, two in IPv6.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry<const W: usize> {
    value: [u32; W],
    mask: [u32; W],
    /// First ports, and how many follow.
    first: [u16; 2],
    more: [u16; 2],
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
    otherwise: u32,
    entries: Vec<Entry<W>>,
    items: Vec<u32>,
    words: Vec<u32>,
    nodes: Vec<Node>,
    roots: Vec<Node>,
}

/// Which bits of which word lead to which child.
#[derive(Clone, Copy, Debug)]
struct Node {
    base: u32,
    mask: u32,
    word: u16,
    shift: u16,
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
    /// Of regions in the order of their steps.
    pub fn new(mut entries: Vec<Entry<W>>) -> Forest<W> {
        let all = entries.iter().position(|entry| entry.kind & kind::FINAL != 0 && entry.is_everything());
        let otherwise = all.map_or(u32::MAX, |all| entries[all].step);
        entries.truncate(all.unwrap_or(entries.len()));
        let mut parts: [Vec<u32>; 4] = Default::default();
        for (number, entry) in entries.iter().enumerate() {
            parts[entry.part()].push(number as u32);
        }
        let [neither, mut source, mut destination, both] = parts;
        let host = if source.len() > destination.len() { &mut source } else { &mut destination };
        host.extend(both);
        host.sort_unstable();
        let forest = Forest {
            otherwise,
            entries,
            items: vec![0],
            words: Vec::new(),
            nodes: Vec::new(),
            roots: Vec::new(),
        };
        let mut builder =
            Builder { forest, leaves: HashMap::new(), budget: 0, counts: Vec::new(), spare: Vec::new() };
        for part in [destination, source, neither].into_iter().filter(|part| !part.is_empty()) {
            builder.budget = part.len() * BUDGET + 8192;
            let root = builder.root(&part);
            builder.forest.roots.push(root);
        }
        let mut forest = builder.forest;
        forest.items.shrink_to_fit();
        forest.words.shrink_to_fit();
        forest
    }

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

impl<const W: usize> Entry<W> {
    /// Which addresses it cares for: bit 0 the source, bit 1 the destination.
    fn part(&self) -> usize {
        let address = Key::<W>::PORTS / 2;
        // An eighth of an IPv4 address, a quarter of what is handed out in IPv6.
        let cares = |words: &[u32]| {
            let known: u32 = words.iter().map(|word| word.count_ones()).sum();
            known >= if W == super::region::W4 { 8 } else { 24 }
        };
        usize::from(cares(&self.mask[..address])) | usize::from(cares(&self.mask[address..2 * address])) << 1
    }

    /// Whether it holds every packet.
    fn is_everything(&self) -> bool {
        self.covers(&[0; W])
    }

    /// Whether it holds every packet whose known bits are those of the node.
    fn covers(&self, known: &[u32; W]) -> bool {
        let bits = (0..W).all(|n| self.mask[n] & !known[n] == 0);
        // Ports: all of them, or what the known bits say.
        let ports = (0..2).all(|n| {
            let open = !(known[Key::<W>::PORTS] >> (16 * n)) as u16;
            let first = (self.value[Key::<W>::PORTS] >> (16 * n)) as u16 & !open;
            self.more[n] == u16::MAX
                || (self.first[n] == first && self.more[n] == open && open & open.wrapping_add(1) == 0)
        });
        bits && ports
    }
}

/// A cut: which bits of which word.
#[derive(Clone, Copy, Debug)]
struct Cut {
    word: usize,
    shift: u32,
    bits: u32,
}

struct Builder<const W: usize> {
    forest: Forest<W>,
    leaves: HashMap<Box<[u32]>, u32>,
    /// Items and words that may still be made.
    budget: usize,
    /// For counting the children of a cut.
    counts: Vec<u32>,
    /// Lists that are no longer used.
    spare: Vec<Vec<u32>>,
}

impl<const W: usize> Builder<W> {
    /// A tree.
    fn root(&mut self, rules: &[u32]) -> Node {
        let mut known = [0; W];
        let nowhere = Cut { word: 0, shift: 0, bits: 0 };
        let cut = self.choose(rules, &known, ROOT_BITS).unwrap_or(nowhere);
        self.cut(rules, cut, &mut known, 0)
    }

    /// A node for these rules, in the part of the space in which these bits of the key are known (and agree with all
    /// rules here); its word.
    fn node(&mut self, mut rules: &[u32], known: &mut [u32; W], depth: usize) -> u32 {
        let entries = &self.forest.entries;
        let decided = rules.iter().position(|&rule| {
            let entry = &entries[rule as usize];
            entry.kind & kind::FINAL != 0 && entry.covers(known)
        });
        if let Some(last) = decided {
            rules = &rules[..=last];
        }
        if rules.len() <= LEAF || depth >= 12 {
            return self.leaf(rules);
        }
        match self.choose(rules, known, 0) {
            Some(cut) => {
                let node = self.cut(rules, cut, known, depth);
                self.forest.nodes.push(node);
                INNER | (self.forest.nodes.len() - 1) as u32
            }
            None => self.leaf(rules),
        }
    }

    fn leaf(&mut self, rules: &[u32]) -> u32 {
        if rules.is_empty() {
            return NOTHING;
        }
        if let Some(&word) = self.leaves.get(rules) {
            return word;
        }
        self.budget = self.budget.saturating_sub(rules.len() + 1);
        let word = self.forest.items.len() as u32;
        self.forest.items.push(rules.len() as u32);
        self.forest.items.extend_from_slice(rules);
        self.leaves.insert(rules.into(), word);
        word
    }

    fn cut(&mut self, rules: &[u32], cut: Cut, known: &mut [u32; W], depth: usize) -> Node {
        let children = 1usize << cut.bits;
        let field = (children as u32 - 1) << cut.shift;
        let base = self.forest.words.len();
        self.forest.words.resize(base + children, NOTHING);
        self.budget = self.budget.saturating_sub(children);
        // Rules that leave all of the bits open are in every child; the others are written down for each.
        let mut open = self.list();
        let mut own: Vec<(u32, u32)> = Vec::new();
        for &rule in rules {
            let entry = &self.forest.entries[rule as usize];
            if entry.mask[cut.word] & field == 0 {
                open.push(rule);
            } else {
                entry.children(cut, |child| own.push((child, rule)));
            }
        }
        own.sort_unstable();
        let before = known[cut.word];
        known[cut.word] |= field;
        let nothing_own = self.node(&open, known, depth + 1);
        self.forest.words[base..base + children].fill(nothing_own);
        // A prefix that ends within the bits fills many children alike: these share what is below.
        let mut last: Option<(&[(u32, u32)], u32)> = None;
        for own in own.chunk_by(|(a, _), (b, _)| a == b) {
            let alike =
                |last: &[(u32, u32)]| last.iter().map(|(_, rule)| rule).eq(own.iter().map(|(_, rule)| rule));
            let word = match last {
                Some((last, word)) if alike(last) => word,
                _ => {
                    let mut list = self.list();
                    list.extend(own.iter().map(|(_, rule)| *rule));
                    list.extend_from_slice(&open);
                    list.sort_unstable();
                    let word = self.node(&list, known, depth + 1);
                    self.spare.push(list);
                    word
                }
            };
            last = Some((own, word));
            self.forest.words[base + own[0].0 as usize] = word;
        }
        self.spare.push(open);
        known[cut.word] = before;
        Node { base: base as u32, mask: children as u32 - 1, word: cut.word as u16, shift: cut.shift as u16 }
    }

    /// An empty list, one that was used before if there is one.
    fn list(&mut self) -> Vec<u32> {
        let mut list = self.spare.pop().unwrap_or_default();
        list.clear();
        list
    }

    /// The cut that parts these rules best, if one does without copying too many.
    fn choose(&mut self, rules: &[u32], known: &[u32; W], least: u32) -> Option<Cut> {
        let stride = rules.len().div_ceil(SAMPLE);
        let sample: Vec<u32> = rules.iter().copied().step_by(stride).collect();
        let most = (usize::BITS - rules.len().leading_zeros() + 1).clamp(least, MOST_BITS);
        let mut best: Option<(f64, Cut)> = None;
        for (word, &known) in known.iter().enumerate() {
            let gains = self.gains(&sample, word, known);
            // A root also tells what matches nothing; the other nodes part what is there.
            if gains.iter().all(|(parted, cared)| *parted == 0 && (least == 0 || *cared == 0)) {
                continue;
            }
            let mut sums = [0; 33];
            (0..32).for_each(|bit| sums[bit + 1] = sums[bit] + 8 * gains[bit].0 + gains[bit].1);
            let mut bits = 2;
            while bits <= most {
                // The run of bits that tells most.
                let windows = (0..=32 - bits)
                    .map(|shift| (sums[(shift + bits) as usize] - sums[shift as usize], shift));
                if let Some((gain, shift)) = windows.max_by_key(|(gain, _)| *gain)
                    && gain > 0
                {
                    let cut = Cut { word, shift, bits };
                    if let Some(worth) = self.worth(&sample, stride, cut)
                        && best.is_none_or(|(most, _)| worth > most)
                    {
                        best = Some((worth, cut));
                    }
                }
                bits += 2;
            }
        }
        best.map(|(_, cut)| cut)
    }

    /// What each bit of a word tells: how many rules stand on the smaller side of it, and how many care for it.
    fn gains(&self, sample: &[u32], word: usize, known: u32) -> [(u32, u32); 32] {
        let (mut ones, mut zeros) = (BitCounts::default(), BitCounts::default());
        for &rule in sample {
            let entry = &self.forest.entries[rule as usize];
            let cared = entry.mask[word] & !known;
            ones.add(entry.value[word] & cared);
            zeros.add(!entry.value[word] & cared);
        }
        std::array::from_fn(|bit| {
            let (ones, zeros) = (ones.of(bit), zeros.of(bit));
            (ones.min(zeros), ones + zeros)
        })
    }

    /// What a cut is worth: by how many bits the rules that a packet must still be compared with become fewer. `None` when it
    /// copies too many rules, or parts nothing.
    fn worth(&mut self, sample: &[u32], stride: usize, cut: Cut) -> Option<f64> {
        let children = 1usize << cut.bits;
        let field = (children as u32 - 1) << cut.shift;
        self.counts.clear();
        self.counts.resize(children, 0);
        let mut open = 0u32;
        for &rule in sample {
            let entry = &self.forest.entries[rule as usize];
            if entry.mask[cut.word] & field == 0 {
                open += 1;
            } else {
                let counts = &mut self.counts;
                entry.children(cut, |child| counts[child as usize] += 1);
            }
        }
        let (mut copies, mut squares) = (0u64, 0u64);
        for count in self.counts.iter().map(|count| u64::from(count + open)) {
            copies += count;
            squares += count * count;
        }
        // What a packet is compared with that matches a rule, and what one is that comes from anywhere.
        let (hit, any) = (squares as f64 / copies.max(1) as f64, copies as f64 / children as f64);
        let before = sample.len() as f64;
        let parted = 0.5 * (before / hit).log2() + 0.5 * (before / any).log2().min(8.0);
        let made = copies as usize * stride + children;
        let fits = made <= rules_allowed(sample.len() * stride) && made < self.budget;
        (fits && parted > 0.2).then_some(parted - 0.12 * f64::from(cut.bits))
    }
}

/// How often each bit of some words was set, up to 255 times: a digit of all 32 counts in each word.
#[derive(Default)]
struct BitCounts([u32; 8]);

impl BitCounts {
    fn add(&mut self, mut bits: u32) {
        for digit in &mut self.0 {
            let carry = *digit & bits;
            *digit ^= bits;
            bits = carry;
            if bits == 0 {
                return;
            }
        }
    }

    fn of(&self, bit: usize) -> u32 {
        self.0.iter().enumerate().map(|(n, digit)| (digit >> bit & 1) << n).sum()
    }
}

/// Copies and words that a node of so many rules may make.
fn rules_allowed(rules: usize) -> usize {
    4 * rules + 512
}

impl<const W: usize> Entry<W> {
    /// The children of a cut that it belongs into.
    fn children(&self, cut: Cut, mut child: impl FnMut(u32)) {
        let all = (1u32 << cut.bits) - 1;
        let value = self.value[cut.word] >> cut.shift & all;
        let free = !(self.mask[cut.word] >> cut.shift) & all;
        let mut part = 0u32;
        loop {
            child(value | part);
            part = part.wrapping_sub(free) & free;
            if part == 0 {
                return;
            }
        }
    }
}
