//! Sequence numbers as they arrive: what was lost, what came twice, what came late (RFC 4737).
//!
//! A number below one that was seen before is *reordered* (section 3) or a *duplicate*. To tell
//! them apart, and to say how far a reordered packet came out of order (*extent*, section 4.2.1:
//! arrivals back to the earliest one with a higher number), each of the last [`WINDOW`] numbers
//! below the highest has a word: "arrived", or which arrival went past it. That earliest higher
//! arrival is always the one which went past, so the word is all that is needed, and a packet in
//! order costs one store. A number that comes later than that is counted as reordered and *late*:
//! it may be a duplicate. A number that has not come when its word is needed for another is gone;
//! the last of them says until when packets were lost.

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
    /// The number after the last one below `next` that has not come (a late one counts as such); 0
    /// when all have. Nothing where a lane arrived in several parts, none of which knows what came
    /// with the others.
    #[serde(default)]
    pub lost_until: Option<u64>,
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
        self.lost_until = None;
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
        let counts = Counts { lost_until: Some(0), ..Counts::default() };
        Sequence { counts, arrivals: 0, window: Box::new([0; WINDOW]) }
    }
}

impl Sequence {
    /// A number arrived. False when it is a duplicate.
    #[inline]
    pub fn arrived(&mut self, number: u64) -> bool {
        // Wraps to 0 before ARRIVED, which an extent would only notice across four billion
        // arrivals.
        self.arrivals = (self.arrivals + 1) % ARRIVED;
        let next = self.counts.next;
        if number == next {
            self.put(number, ARRIVED);
            self.counts.next = number + 1;
            self.counts.unique += 1;
            return true;
        }
        self.out_of_order(number)
    }

    /// Gives a number above all before it its word, which was that of a number a window below.
    #[inline]
    fn put(&mut self, number: u64, word: u32) {
        let before = std::mem::replace(&mut self.window[number as usize % WINDOW], word);
        if before != ARRIVED
            && let Some(below) = number.checked_sub(WINDOW as u64)
        {
            self.counts.lost_until = Some(below + 1);
        }
    }

    #[cold]
    fn out_of_order(&mut self, number: u64) -> bool {
        let next = self.counts.next;
        if number > next {
            let from = next.max(number.saturating_sub(WINDOW as u64 - 1));
            for missing in from..number {
                self.put(missing, self.arrivals);
            }
            self.put(number, ARRIVED);
            if from > next {
                self.counts.lost_until = Some(from);
            }
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
    pub fn counts(&self) -> Counts {
        let next = self.counts.next;
        let known = next.saturating_sub(WINDOW as u64)..next;
        let missing = known.rev().find(|number| self.window[*number as usize % WINDOW] != ARRIVED);
        Counts { lost_until: missing.map(|number| number + 1).or(self.counts.lost_until), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 4737 as its text reads, with all arrivals in a list.
    fn naive(arrivals: &[u64]) -> Counts {
        let mut counts = Counts::default();
        let highest = arrivals.iter().max().copied().unwrap_or(0);
        let missing = (0..highest).rev().find(|number| !arrivals.contains(number));
        counts.lost_until = Some(missing.map_or(0, |number| number + 1));
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
            prop_assert_eq!(sequence.counts(), naive(&arrivals));
        }

        /// Mostly in order, as real traffic is: each packet may be lost, doubled or delayed by some
        /// places.
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
            prop_assert_eq!(sequence.counts(), naive(&arrivals));
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

    #[test]
    fn the_last_loss_is_known_however_long_ago_it_was() {
        let window = WINDOW as u64;
        let last = |lost: &[u64], until: u64| {
            let mut sequence = Sequence::default();
            (0..until).filter(|number| !lost.contains(number)).for_each(|number| {
                sequence.arrived(number);
            });
            sequence.counts().lost_until
        };
        assert_eq!(last(&[], 3 * window), Some(0));
        for until in [10, window, window + 3, window + 4, window + 5, 5 * window] {
            assert_eq!(last(&[2, 3], until), Some(4), "{until}");
            assert_eq!(last(&[0], until), Some(1), "{until}");
        }
        let burst: Vec<u64> = (100..100 + window + 7).collect();
        assert_eq!(last(&burst, 4 * window), Some(100 + window + 7));
        let mut sequence = Sequence::default();
        [0, 2, 1, 3 * window].into_iter().for_each(|number| {
            sequence.arrived(number);
        });
        assert_eq!(sequence.counts().lost_until, Some(3 * window));
    }
}
