//! Which of the peer's datagrams have come already, so that none counts twice.

/// Numbers that may still come behind the highest.
const WIDTH: u64 = 1024;
const WORDS: usize = (WIDTH / 64) as usize;

/// The highest number that came, and which of those before it did.
#[derive(Default)]
pub(crate) struct Window {
    /// The lowest number above all that came.
    next: u64,
    seen: [u64; WORDS],
}

impl Window {
    /// Whether a number comes for the first time, and not too late to know.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        if number >= self.next {
            for passed in self.next..=number.min(self.next.saturating_add(WIDTH)) {
                *self.word(passed) &= !bit(passed);
            }
            // Far ahead, all of them are passed.
            if number - self.next >= WIDTH {
                self.seen = [0; WORDS];
            }
            self.next = number.saturating_add(1);
        } else if self.next - number > WIDTH || *self.word(number) & bit(number) != 0 {
            return false;
        }
        *self.word(number) |= bit(number);
        true
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number / 64) as usize % WORDS]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn each_number_is_taken_once_and_late_ones_never(numbers in proptest::collection::vec(
            prop_oneof![0u64..2000, 900u64..1100, 0u64..100_000], 1..300,
        )) {
            let (mut window, mut taken, mut highest) = (Window::default(), HashSet::new(), 0);
            for number in numbers {
                let late = number + WIDTH < highest + 1;
                prop_assert_eq!(window.take(number), !late && taken.insert(number), "{}", number);
                highest = highest.max(number);
            }
        }
    }
}
