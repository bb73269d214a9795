//! The few: rules that every packet is compared with, each rule with eight packets at once.
//!
//! Rules that know no address (established flows, a protocol, a service wherever it is) concern
//! packets from anywhere, so a tree over them stops nobody and costs every packet a walk and a
//! leaf. There are few of them that can ever match: each takes so much that it soon leaves nothing
//! to those behind it. So they are in no tree. A rule's words stay in registers while the packets'
//! pass by in columns: one or two instructions for each rule and packet, and nothing to guess or to
//! wait for.

use super::BATCH;
use super::region::{Key, Keys};
use super::tree::{Entry, Found, FoundAll, kind};

/// The most rules for which this is better than a tree.
const MOST: usize = 16;

/// Rules in the order of their steps.
#[derive(Clone, Debug)]
pub(super) struct Few<const W: usize>(Vec<Entry<W>>);

impl<const W: usize> Few<W> {
    pub const NONE: Few<W> = Few(Vec::new());

    /// Of rules in the order of their steps, less those whose packets an earlier one takes; `None`
    /// when too many are left.
    pub fn of<'a>(rules: impl Iterator<Item = &'a Entry<W>>) -> Option<Few<W>> {
        let mut few: Vec<Entry<W>> = Vec::new();
        for rule in rules {
            if few.iter().any(|earlier| earlier.kind & kind::FINAL != 0 && earlier.holds_all_of(rule)) {
                continue;
            }
            if few.len() == MOST {
                return None;
            }
            few.push(*rule);
        }
        few.shrink_to_fit();
        Some(Few(few))
    }

    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Entry<W>>()
    }

    /// Finds the first that matches, if it is before what is found.
    pub fn find(&self, key: &Key<W>, start: u32, found: &mut Found, look: impl Fn(u32, u32) -> bool) {
        for rule in self.0.iter().filter(|rule| rule.step >= start) {
            if rule.step >= found.step || rule.holds(key) && found.settle(rule.step, rule.kind, &look) {
                return;
            }
        }
    }

    /// As [`Few::find`], for all packets.
    #[inline(always)]
    pub fn find_all(&self, keys: &Keys<W>, found: &mut FoundAll, look: impl Fn(usize, u32, u32) -> bool) {
        let many = keys.count().next_multiple_of(8);
        for rule in &self.0 {
            let mut differs = [0; BATCH];
            for word in (0..W).filter(|word| *word != Key::<W>::PORTS && rule.mask[*word] != 0) {
                let (value, mask) = (rule.value[word], rule.mask[word]);
                for (differs, word) in differs[..many].iter_mut().zip(keys.column(word)) {
                    *differs |= (word ^ value) & mask;
                }
            }
            for (n, shift) in [0, 16].into_iter().enumerate().filter(|(n, _)| rule.more[*n] != u16::MAX) {
                let (first, more) = (u32::from(rule.first[n]), u32::from(rule.more[n]));
                for (differs, ports) in differs[..many].iter_mut().zip(keys.column(Key::<W>::PORTS)) {
                    let port = ports >> shift & 0xffff;
                    *differs |= u32::from(port.wrapping_sub(first) > more);
                }
            }
            if rule.kind & kind::MORE == 0 {
                let number = rule.step;
                for (step, differs) in found.steps[..many].iter_mut().zip(&differs) {
                    *step = (*step).min(if *differs == 0 { number } else { u32::MAX });
                }
            } else {
                for who in (0..keys.count()).filter(|who| differs[*who] == 0) {
                    if rule.step < found.steps[who] {
                        let mut one = found.of(who);
                        one.settle(rule.step, rule.kind, &|step, kind| look(who, step, kind));
                        found.set(who, one);
                    }
                }
            }
        }
    }
}
