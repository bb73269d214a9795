//! Lists, which most matches ask for, and ranges of numbers in them.

use std::fmt;

/// One of these, or none of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List<T> {
    /// None of these.
    pub not: bool,
    /// These: at least one.
    pub items: Vec<T>,
}

impl<T> List<T> {
    /// Whether the list holds for what `is` finds.
    #[inline]
    pub(crate) fn holds(&self, is: impl FnMut(&T) -> bool) -> bool {
        self.items.iter().any(is) != self.not
    }

    /// Its items between commas, with `!` before them when the list is turned round.
    pub(crate) fn print(&self, print: impl Fn(&T) -> String) -> String {
        let items: Vec<String> = self.items.iter().map(print).collect();
        format!("{}{}", if self.not { "!" } else { "" }, items.join(","))
    }
}

/// From the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first.
    pub first: u16,
    /// The last; not before the first.
    pub last: u16,
}

impl Span {
    /// Whether it holds the number.
    pub const fn contains(self, number: u16) -> bool {
        self.first <= number && number <= self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl List<Span> {
    /// The numbers that the list holds, as few ranges in order with gaps between them, also when it
    /// is turned round.
    pub fn spans(&self) -> Vec<Span> {
        let mut sorted = self.items.clone();
        sorted.sort_unstable_by_key(|span| span.first);
        let mut merged: Vec<Span> = Vec::new();
        for span in sorted {
            match merged.last_mut() {
                Some(before) if u32::from(span.first) <= u32::from(before.last) + 1 => {
                    before.last = before.last.max(span.last);
                }
                _ => merged.push(span),
            }
        }
        if !self.not {
            return merged;
        }
        let mut gaps = Vec::new();
        let mut next = 0u32;
        for span in &merged {
            if next < u32::from(span.first) {
                gaps.push(Span { first: next as u16, last: span.first - 1 });
            }
            next = u32::from(span.last) + 1;
        }
        if next <= u32::from(u16::MAX) {
            gaps.push(Span { first: next as u16, last: u16::MAX });
        }
        gaps
    }
}

/// For nftables: a set of the items, without those that stand twice.
pub(crate) fn set_of<T: PartialEq>(list: &List<T>, print: impl Fn(&T) -> String) -> String {
    let mut items: Vec<&T> = Vec::new();
    for item in &list.items {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    let items: Vec<String> = items.into_iter().map(print).collect();
    format!("{}{{ {} }}", if list.not { "!= " } else { "" }, items.join(", "))
}

/// For nftables: a set of the numbers that a list holds; `None` when it holds none. Intervals must
/// not overlap.
pub(crate) fn ranges_of(list: &List<Span>) -> Option<String> {
    let spans: Vec<String> = list.spans().iter().map(Span::to_string).collect();
    (!spans.is_empty()).then(|| format!("{{ {} }}", spans.join(", ")))
}
