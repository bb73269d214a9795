//! How long memory takes to answer, by the size of what is used: a chase from address to address,
//! each of which stands at the one before (lmbench's `lat_mem_rd`, but in random order, which no
//! prefetcher guesses).
//!
//! A router's tables live at one of these latencies, and a packet that must wait for memory three
//! times at 100 ns cannot be one of 14.88 million a second on a core that waits for each by itself.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Bytes of a line of the cache; each link of the chain has its own.
const LINE: usize = 64;
/// The smallest size.
const SMALLEST: u64 = 8 << 10;
/// The largest size, where the machine has memory enough: beyond any cache.
const LARGEST: u64 = 512 << 20;
/// How long a size is chased at least.
const TIME: Duration = Duration::from_millis(60);
/// Links between two looks at the clock.
const STRETCH: usize = 20_000;

/// A line of the cache, with the number of the next.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Link(u32);

const _: () = assert!(size_of::<Link>() == LINE);

/// Sizes, by doubling, up to a limit in bytes, with the nanoseconds of a step there.
pub fn latencies(limit: u64) -> Vec<(u64, f64)> {
    let sizes = std::iter::successors(Some(SMALLEST), |size| Some(size * 2));
    sizes.take_while(|size| *size <= limit.min(LARGEST)).map(|size| (size, latency(size))).collect()
}

/// Nanoseconds of a step in a chain over so many bytes: of the fastest stretch, as others may take
/// the core away in the rest.
pub fn latency(bytes: u64) -> f64 {
    let chain = chain((bytes as usize / LINE).clamp(2, u32::MAX as usize));
    let mut at = 0u32;
    // The first round fetches.
    let warm = chain.len().min(50 * STRETCH);
    at = walk(&chain, at, warm);
    let (begin, mut fastest) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < TIME {
        let stretch = Instant::now();
        at = walk(&chain, at, STRETCH);
        fastest = fastest.min(stretch.elapsed());
    }
    fastest.as_secs_f64() * 1e9 / STRETCH as f64
}

fn walk(chain: &[Link], mut at: u32, steps: usize) -> u32 {
    for _ in 0..steps {
        at = chain[at as usize].0;
    }
    black_box(at)
}

/// One ring through all links, in random order (Sattolo's shuffle).
fn chain(links: usize) -> Vec<Link> {
    let mut chain: Vec<Link> = (0..links as u32).map(Link).collect();
    let mut dice = chance::Random(1);
    for last in (1..links).rev() {
        chain.swap(last, dice.below(last));
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_one_ring() {
        for links in [2, 3, 1000] {
            let chain = chain(links);
            let mut seen = vec![false; links];
            let mut at = 0;
            for _ in 0..links {
                seen[at as usize] = true;
                at = chain[at as usize].0;
            }
            assert!(at == 0 && seen.into_iter().all(|seen| seen));
        }
    }

    #[test]
    fn a_step_takes_time() {
        let small = latency(16 << 10);
        assert!((0.1..1e4).contains(&small), "{small}");
        assert_eq!(latencies(40 << 10).len(), 3);
    }
}
