//! Of a batch of things, those for which something holds, as a word of bits.

/// Most things in a batch: one for each bit.
const MOST: usize = 64;

/// The numbers, from 0 to 63, for which something holds, as bits. Asked of all of them, so that the
/// compiler can ask of eight and more at once where the question has no branches; what is not a
/// number that the caller has is for the caller to leave out.
#[inline(always)]
pub fn which(holds: impl Fn(usize) -> bool) -> u64 {
    let mut flags = [0; MOST];
    for (n, flag) in flags.iter_mut().enumerate() {
        *flag = u8::from(holds(n));
    }
    bits(&flags)
}

/// Flags of 0 and 1, as bits.
#[inline(always)]
pub fn bits(flags: &[u8; MOST]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().zip((0..).step_by(8)).fold(0, |bits, (eight, at)| {
        // A product shifts each of eight bytes' lowest bits to its place in the highest byte.
        bits | (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << at
    })
}

/// The numbers of the bits that are set, lowest first.
#[inline(always)]
pub fn numbers(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (number < MOST).then_some(number)
    })
}

/// The sum of those of these values that have these numbers (bits); together they must be less than
/// 2^32.
#[inline(always)]
pub fn sum(these: u64, values: &[u32; MOST]) -> u32 {
    let one = |(n, value): (usize, &u32)| value & 0u32.wrapping_sub((these >> n) as u32 & 1);
    values.iter().enumerate().map(one).sum()
}

/// So many bits, from the lowest on.
#[inline(always)]
pub fn lowest(count: usize) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (MOST - count.min(MOST)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_those_for_which_it_holds(word: u64, count in 0usize..70) {
            prop_assert_eq!(which(|n| word >> n & 1 != 0), word);
            let listed: Vec<usize> = (0..64).filter(|n| word >> n & 1 != 0).collect();
            prop_assert_eq!(numbers(word).collect::<Vec<_>>(), listed);
            prop_assert_eq!(lowest(count), which(|n| n < count));
            let values = std::array::from_fn(|n| 1 << (n % 20));
            prop_assert_eq!(sum(word, &values), numbers(word).map(|n| values[n]).sum::<u32>());
        }
    }
}
