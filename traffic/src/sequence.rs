//! Sequence numbers as they arrive: what was lost, what came twice, what came late (RFC 4737).
//!
//! A number below one that was seen before is *reordered* (section 3) or a *duplicate*. To tell them apart, and to say how far a
//! reordered packet came out of order (*extent*, section 4.2.1: arrivals back to the earliest one with a higher number), each of the
//! last [`WINDOW`] numbers below the highest has a word: "arrived", or which arrival went past it. That earliest higher arrival is
//! always the one which went past, so the word is all that is needed, and a packet in order costs one store. A number that comes
//! later than that is counted as reordered and *late*: it may be a duplicate.

/// How far behind the highest number so far it is known which numbers have come.
pub const WINDOW: usize = 4096;
/// The word of a number that has come.
const ARRIVED: u32 = u32::MAX;

/// What the sequence numbers of a lane say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Packets that came, each counted once.
    pub unique: u64,
    /// Copies of packets that had come.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Among them those too late to know their extent, or whether they are duplicates.
    pub late: u64,
    /// Largest extent.
    pub extent: u64,
    /// Sum of the extents.
    pub extents: u64,
    /// The number after the highest that came.
    pub next: u64,
}

impl Counts {
    /// Those of another lane as well.
    pub fn add(&mut self, other: &Counts) {
        self.unique += other.unique;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.late += other.late;
        self.extent = self.extent.max(other.extent);
        self.extents += other.extents;
        self.next += other.next;
    }
}

/// The sequence numbers of a lane, as they come.
#[derive(Clone)]
pub struct Sequence {
    counts: Counts,
    /// Arrivals so far.
    arrivals: u32,
    window: Box<[u32; WINDOW]>,
}

impl Default for Sequence {
    fn default() -> Sequence {
        Sequence { counts: Counts::default(), arrivals: 0, window: Box::new([0; WINDOW]) }
    }
}

impl Sequence {
    /// A number arrived. False when it is a duplicate.
    #[inline]
    pub fn arrived(&mut self, number: u64) -> bool {
        // Wraps to 0 before ARRIVED, which an extent would only notice across four billion arrivals.
        self.arrivals = (self.arrivals + 1) % ARRIVED;
        let next = self.counts.next;
        if number == next {
            self.window[number as usize % WINDOW] = ARRIVED;
            self.counts.next = number + 1;
            self.counts.unique += 1;
            return true;
        }
        self.out_of_order(number)
    }

    #[cold]
    fn out_of_order(&mut self, number: u64) -> bool {
        let next = self.counts.next;
        if number > next {
            let from = next.max(number.saturating_sub(WINDOW as u64 - 1));
            for missing in from..number {
                self.window[missing as usize % WINDOW] = self.arrivals;
            }
            self.window[number as usize % WINDOW] = ARRIVED;
            self.counts.next = number + 1;
            self.counts.unique += 1;
            return true;
        }
        if next - number > WINDOW as u64 {
            self.counts.late += 1;
            self.counts.reordered += 1;
            self.counts.unique += 1;
            return true;
        }
        let word = &mut self.window[number as usize % WINDOW];
        if *word == ARRIVED {
            self.counts.duplicates += 1;
            return false;
        }
        let extent = u64::from(self.arrivals.wrapping_sub(*word));
        *word = ARRIVED;
        self.counts.unique += 1;
        self.counts.reordered += 1;
        self.counts.extents += extent;
        self.counts.extent = self.counts.extent.max(extent);
        true
    }

    /// What they said so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4737 as its text reads, with all arrivals in a list.
    fn naive(arrivals: &[u64]) -> Counts {
        let mut counts = Counts::default();
        for (i, &number) in arrivals.iter().enumerate() {
            let before = &arrivals[..i];
            if before.contains(&number) {
                counts.duplicates += 1;
                continue;
            }
            counts.unique += 1;
            counts.next = counts.next.max(number + 1);
            if let Some(j) = before.iter().position(|&other| other > number) {
                counts.reordered += 1;
                counts.extents += (i - j) as u64;
                counts.extent = counts.extent.max((i - j) as u64);
            }
        }
        counts
    }

    proptest! {
        #[test]
        fn it_says_what_the_definition_says(arrivals in proptest::collection::vec(0u64..300, 0..400)) {
            let mut sequence = Sequence::default();
            arrivals.iter().for_each(|&number| { sequence.arrived(number); });
            prop_assert_eq!(*sequence.counts(), naive(&arrivals));
        }

        /// Mostly in order, as real traffic is: each packet may be lost, doubled or delayed by some places.
        #[test]
        fn it_does_so_over_real_traffic(fates in proptest::collection::vec((0u8..100, 0usize..60), 1..3000)) {
            let mut due: Vec<(usize, u64)> = Vec::new();
            for (i, &(fate, delay)) in fates.iter().enumerate() {
                match fate {
                    0..4 => {}
                    4..8 => due.extend([(i, i as u64), (i + delay, i as u64)]),
                    8..16 => due.push((i + delay, i as u64)),
                    _ => due.push((i, i as u64)),
                }
            }
            due.sort_by_key(|&(at, _)| at);
            let arrivals: Vec<u64> = due.into_iter().map(|(_, number)| number).collect();
            let mut sequence = Sequence::default();
            arrivals.iter().for_each(|&number| { sequence.arrived(number); });
            prop_assert_eq!(*sequence.counts(), naive(&arrivals));
        }
    }

    #[test]
    fn beyond_the_window_a_packet_is_late() {
        let mut sequence = Sequence::default();
        sequence.arrived(0);
        sequence.arrived(1_000_000);
        assert!(sequence.arrived(1));
        assert!(sequence.arrived(1_000_000 - WINDOW as u64 + 1));
        assert!(!sequence.arrived(1_000_000));
        let counts = sequence.counts();
        assert_eq!((counts.reordered, counts.late, counts.duplicates, counts.unique), (2, 1, 1, 4));
    }
}
