//! What the standard router costs, in cycles per packet: packets from memory through the graph into the sinks and
//! round again, one core, batches of 64, per element and in all. The packets' headers come from beyond the first-level
//! cache, as from a NIC.
//!
//! `cargo run --release -p elements --example cycles`

#[path = "../tests/rig/mod.rs"]
mod rig;

use fib::PortId;
use graph::Batch;
use port::Packet;
use rig::{Rig, frame, to4, to6, udp4, udp6};

const FLOWS: usize = 2048;
const ROUNDS: usize = 1000;

fn main() {
    let v4 = |i: usize| frame(&udp4(to4(&format!("198.18.{}.{}", i >> 8, i & 255)), 18));
    let v6 = |i: usize| frame(&udp6(to6(&format!("2001:db8:f::{i:x}")), 18));
    measure("IPv4", &(0..FLOWS).map(v4).collect::<Vec<_>>());
    measure("IPv6", &(0..FLOWS).map(v6).collect::<Vec<_>>());
}

fn measure(name: &str, frames: &[Vec<u8>]) {
    let mut rig = Rig::new();
    let whole = least(rounds(&mut rig, frames, |_, spent| vec![spent]))[0];
    println!("{name}: {whole:.1} cycles per packet from batch to sink");
    rig.graph.counters().measure(true);
    let nodes =
        rounds(&mut rig, frames, |rig, _| rig.counters().nodes().map(|(_, node)| node.cycles()).collect());
    let description = rig.graph.description();
    for (node, cycles) in description.nodes.iter().zip(least(nodes)).filter(|(_, cycles)| *cycles > 0.0) {
        println!("  {:<12} {cycles:>6.1}", node.name);
    }
}

/// The least growth of each number from one reading to the next, per packet: the round that nothing disturbed.
fn least(readings: Vec<Vec<u64>>) -> Vec<f64> {
    let growth = |i: usize| readings.windows(2).map(move |pair| pair[1][i] - pair[0][i]);
    (0..readings[0].len()).map(|i| growth(i).min().unwrap_or(0) as f64 / FLOWS as f64).collect()
}

/// Sends all frames through the graph so many times, each time with its headers as they were, and takes a reading
/// after each.
fn rounds(rig: &mut Rig, frames: &[Vec<u8>], reading: impl Fn(&Rig, u64) -> Vec<u64>) -> Vec<Vec<u64>> {
    let mut chunks: Vec<(&[Vec<u8>], Vec<Packet>)> = frames
        .chunks(64)
        .map(|frames| (frames, frames.iter().filter_map(|frame| Packet::new(frame)).collect()))
        .collect();
    let mut batch = Batch::new();
    let mut spent = 0;
    let mut readings = vec![reading(rig, spent)];
    for _ in 0..ROUNDS {
        // All of them first, so that no store is still on its way when the graph reads.
        for (frames, packets) in &mut chunks {
            for (packet, frame) in packets.iter_mut().zip(*frames) {
                packet.input = PortId(1);
                packet.data_mut()[..26].copy_from_slice(&frame[..26]);
            }
        }
        let start = cycles();
        for (frames, packets) in &mut chunks {
            batch.fill(packets);
            rig.graph.run(rig.entry, &mut batch, &mut rig.sinks);
            rig.sinks.transmit(|_, sent| packets.append(sent));
            assert_eq!(packets.len(), frames.len(), "{:?}", rig.reasons());
        }
        spent += cycles() - start;
        readings.push(reading(rig, spent));
    }
    readings
}

fn cycles() -> u64 {
    // SAFETY: every x86_64 processor has RDTSC.
    unsafe { std::arch::x86_64::_rdtsc() }
}
