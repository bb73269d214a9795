//! What any program that moves packets through memory pays at least: the ruler's zero.

use crate::ruler::Ruler;
use std::hint::black_box;

const BUFFERS: usize = 64 * 1024;
const BUFFER: usize = 2048;
const PACKET: usize = 64;
const BATCH: usize = 64;

/// `reference/copy`: cycles per packet to copy 64 bytes from one ring of 64 K buffers of 2,048
/// bytes to another.
pub fn run(ruler: &mut Ruler) {
    let from = vec![1u8; BUFFERS * BUFFER];
    let mut to = vec![2u8; BUFFERS * BUFFER];
    ruler.cycles("reference/copy", BUFFERS, 15, || {
        for batch in 0..BUFFERS / BATCH {
            for i in 0..BATCH {
                let at = (batch * BATCH + i) * BUFFER;
                to[at..at + PACKET].copy_from_slice(&from[at..at + PACKET]);
            }
            black_box(&mut to);
        }
    });
}
