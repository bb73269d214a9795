//! Growing the trees of [`super::tree`]: which cut parts a node's rules best, and what its children
//! then hold.

use std::collections::HashMap;

use super::few::Few;
use super::leaf::{Leaves, TOGETHER};
use super::region::{Key, W4};
use super::tree::{Entry, Forest, INNER, NOTHING, Node, TREES, kind};

/// The most bits of a cut.
const MOST_BITS: u32 = 12;
/// Bits that a root has whatever the number of rules, so that it tells what matches nothing.
const ROOT_BITS: u32 = 8;
/// Rules looked at to choose a cut; at most as many as are counted in [`BitCounts`].
const SAMPLE: usize = 192;
/// Rules in leaves, and words, that a tree may take for each region.
const BUDGET: usize = 24;

impl<const W: usize> Entry<W> {
    /// Which addresses it cares for: bit 0 the source, bit 1 the destination.
    fn part(&self) -> usize {
        let address = Key::<W>::PORTS / 2;
        // An eighth of an IPv4 address, a quarter of what is handed out in IPv6.
        let cares = |words: &[u32]| {
            let known: u32 = words.iter().map(|word| word.count_ones()).sum();
            known >= if W == W4 { 8 } else { 24 }
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

    /// Whether it holds every packet that another one holds.
    pub(super) fn holds_all_of(&self, other: &Entry<W>) -> bool {
        let bits = (0..W).filter(|word| *word != Key::<W>::PORTS).all(|n| {
            self.mask[n] & !other.mask[n] == 0 && (self.value[n] ^ other.value[n]) & self.mask[n] == 0
        });
        let ports = (0..2).all(|n| {
            let behind = other.first[n].checked_sub(self.first[n]);
            behind
                .and_then(|behind| behind.checked_add(other.more[n]))
                .is_some_and(|last| last <= self.more[n])
        });
        bits && ports
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
        let few = Few::of(entries.iter()).inspect(|_| parts = Default::default()).or_else(|| {
            let few = Few::of(parts[0].iter().map(|&rule| &entries[rule as usize]));
            few.inspect(|_| parts[0].clear())
        });
        let [neither, mut source, mut destination, both] = parts;
        let host = if source.len() > destination.len() { &mut source } else { &mut destination };
        host.extend(both);
        host.sort_unstable();
        let forest = Forest {
            otherwise,
            few: few.unwrap_or(Few::NONE),
            leaves: Leaves::new(),
            words: Vec::new(),
            nodes: Vec::new(),
            roots: Vec::new(),
        };
        let mut builder = Builder {
            forest,
            entries,
            leaves: HashMap::new(),
            budget: 0,
            counts: Vec::new(),
            spare: Vec::new(),
        };
        let trees: [Vec<u32>; TREES] = [destination, source, neither];
        for part in trees.into_iter().filter(|part| !part.is_empty()) {
            builder.budget = part.len() * BUDGET + 8192;
            let root = builder.root(&part);
            builder.forest.roots.push(root);
        }
        let mut forest = builder.forest;
        forest.leaves.finish();
        forest.words.shrink_to_fit();
        forest
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
    entries: Vec<Entry<W>>,
    /// Leaves by their rules.
    leaves: HashMap<Box<[u32]>, u32>,
    /// Rules in leaves, and words, that may still be made.
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

    /// A node for these rules, in the part of the space in which these bits of the key are known
    /// (and agree with all rules here); its word.
    fn node(&mut self, mut rules: &[u32], known: &mut [u32; W], depth: usize) -> u32 {
        let entries = &self.entries;
        let decided = rules.iter().position(|&rule| {
            let entry = &entries[rule as usize];
            entry.kind & kind::FINAL != 0 && entry.covers(known)
        });
        if let Some(last) = decided {
            rules = &rules[..=last];
        }
        if rules.len() <= TOGETHER || depth >= 12 {
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
        let entries: Vec<&Entry<W>> = rules.iter().map(|&rule| &self.entries[rule as usize]).collect();
        let word = self.forest.leaves.push(&entries);
        self.leaves.insert(rules.into(), word);
        word
    }

    fn cut(&mut self, rules: &[u32], cut: Cut, known: &mut [u32; W], depth: usize) -> Node {
        let children = 1usize << cut.bits;
        let field = (children as u32 - 1) << cut.shift;
        let base = self.forest.words.len();
        self.forest.words.resize(base + children, NOTHING);
        self.budget = self.budget.saturating_sub(children);
        // Rules that leave all of the bits open are in every child; the others are written down for
        // each.
        let mut open = self.list();
        let mut own: Vec<(u32, u32)> = Vec::new();
        for &rule in rules {
            let entry = &self.entries[rule as usize];
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
                let told = |shift: u32| sums[(shift + bits) as usize] - sums[shift as usize];
                // The run of bits that tells most; at a root others as well, for what they tell of
                // packets that match nothing.
                let best_told = (0..=32 - bits).max_by_key(|shift| told(*shift));
                let others = (0..=32 - bits).rev().step_by(4).filter(|_| least > 0);
                for shift in best_told.into_iter().chain(others).filter(|shift| told(*shift) > 0) {
                    let cut = Cut { word, shift, bits };
                    if let Some(worth) = self.worth(&sample, stride, cut, least > 0)
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

    /// What each bit of a word tells: how many rules stand on the smaller side of it, and how many
    /// care for it.
    fn gains(&self, sample: &[u32], word: usize, known: u32) -> [(u32, u32); 32] {
        let (mut ones, mut zeros) = (BitCounts::default(), BitCounts::default());
        for &rule in sample {
            let entry = &self.entries[rule as usize];
            let cared = entry.mask[word] & !known;
            ones.add(entry.value[word] & cared);
            zeros.add(!entry.value[word] & cared);
        }
        std::array::from_fn(|bit| {
            let (ones, zeros) = (ones.of(bit), zeros.of(bit));
            (ones.min(zeros), ones + zeros)
        })
    }

    /// What a cut is worth: by how many bits the rules that a packet must still be compared with
    /// become fewer. `None` when it copies too many rules, or parts nothing.
    fn worth(&mut self, sample: &[u32], stride: usize, cut: Cut, root: bool) -> Option<f64> {
        let children = 1usize << cut.bits;
        let field = (children as u32 - 1) << cut.shift;
        self.counts.clear();
        self.counts.resize(children, 0);
        let mut open = 0u32;
        for &rule in sample {
            let entry = &self.entries[rule as usize];
            if entry.mask[cut.word] & field == 0 {
                open += 1;
            } else {
                let counts = &mut self.counts;
                entry.children(cut, |child| counts[child as usize] += 1);
            }
        }
        let (mut copies, mut squares, mut taken) = (0u64, 0u64, 0u32);
        for count in self.counts.iter().map(|count| u64::from(count + open)) {
            copies += count;
            squares += count * count;
            taken += u32::from(count > 0);
        }
        // What a packet is compared with that matches a rule, and what one is that comes from
        // anywhere. Most of these should not come further than the root.
        let before = sample.len() as f64;
        let hit = (before * copies.max(1) as f64 / squares.max(1) as f64).log2();
        let any = (before * children as f64 / copies.max(1) as f64).log2().min(8.0);
        // Of other words there are few values, and rules ask for these.
        let tells_nothing = root && cut.word < Key::<W>::PORTS;
        let nothing = if tells_nothing { (children as f64 / f64::from(taken.max(1))).log2() } else { 0.0 };
        let parted = 0.5 * hit + 0.5 * any + nothing.min(8.0);
        let made = copies as usize * stride + children;
        let fits = made <= rules_allowed(sample.len() * stride) && made < self.budget;
        (fits && parted > 0.2).then_some(parted - 0.12 * f64::from(cut.bits))
    }
}

/// How often each bit of some words was set, up to 255 times: a digit of all 32 counts in each
/// word.
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
