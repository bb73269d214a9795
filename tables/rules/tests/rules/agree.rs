//! The compiled classifier says what the plain evaluator says, over random filters and packets.
//!
//! `BIFROST_RULES_PACKETS=20000000 cargo test --release -p rules --test rules agree` runs long.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pools::{self, Random};
use rules::{BATCH, Compiled, Context, Decision, Filter, Hook, Ledger, Now, RuleId, Step};
use wire::Headers;

fn read(text: &str) -> Filter {
    let mut filter = Filter::read("random", text, &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    filter.resolve(pools::ports);
    // Every second chain that is jumped to is one that what is accepted goes on behind.
    filter.chains.iter_mut().skip(Hook::ALL.len()).step_by(2).for_each(|chain| chain.base = true);
    filter
}

/// Sends packets through both, and compares decisions and counters. Says how many packets there
/// were.
fn compare(text: &str, random: &mut Random, batches: usize) -> usize {
    let filter = Arc::new(read(text));
    // Each has a memory of its own, for both use up what rates allow.
    let plain = Ledger::new(1).open(&filter);
    let compiled = Compiled::new(filter.clone(), Ledger::new(1).open(&filter)).expect("not too long");
    let mut counts: HashMap<RuleId, (u64, u64)> = HashMap::new();
    let mut now = Now { monotonic: 1_000_000_000, utc: 1_795_303_800, local_offset: 3600 };
    for _ in 0..batches {
        let version = random.pick(&[None, Some(4), Some(4), Some(6)]);
        let count = if random.chance(20) { 1 + random.below(BATCH) } else { BATCH };
        let (headers, contexts): (Vec<Headers>, Vec<Context>) =
            (0..count).map(|_| pools::packet(random, version)).unzip();
        for hook in Hook::ALL {
            now.monotonic += random.next() % 400_000_000;
            now.utc += random.below(20_000) as i64;
            let mut decisions = vec![Decision::default(); count];
            compiled.classify(0, hook, &now, &headers, &contexts, &mut decisions);
            for ((headers, context), decision) in headers.iter().zip(&contexts).zip(&decisions) {
                let mut steps = Vec::new();
                let expected =
                    filter.walk(hook, headers, context, &now, Some(&plain), &mut |step| steps.push(step));
                assert_eq!(*decision, expected, "{hook:?} {headers:?} {context:?}\n{steps:?}\n{text}");
                for step in steps {
                    if let Step::Matched(rule) | Step::Policed(rule) = step {
                        let counts = counts.entry(rule).or_default();
                        *counts = (counts.0 + 1, counts.1 + u64::from(headers.length));
                    }
                }
            }
        }
    }
    for rule in (0..filter.rules().count()).map(|number| RuleId(number as u32)) {
        let counter = compiled.accounts().counter(rule);
        let expected = counts.get(&rule).copied().unwrap_or_default();
        assert_eq!((counter.packets, counter.bytes), expected, "{rule:?}\n{text}");
    }
    batches * BATCH * Hook::ALL.len()
}

/// How many packets to try.
fn wanted(default: usize) -> usize {
    std::env::var("BIFROST_RULES_PACKETS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn on_small_filters_with_everything_in_them() {
    let mut random = Random(20_261_121);
    let mut packets = 0;
    while packets < wanted(300_000) {
        let text = pools::filter(&mut random, 14);
        packets += compare(&text, &mut random, 8);
    }
}

#[test]
fn on_long_filters() {
    let mut random = Random(7);
    let mut packets = 0;
    while packets < wanted(60_000) {
        let text = pools::filter(&mut random, 300);
        packets += compare(&text, &mut random, 12);
    }
}

#[test]
fn on_lists_of_a_kind() {
    // Long lists of hosts and networks scattered over the address space, where trees are deep.
    let mut random = Random(99);
    let mut packets = 0;
    while packets < wanted(60_000) {
        let mut text = String::from("chain forward policy drop\n");
        for _ in 0..500 {
            let address = |random: &mut Random| {
                let length = random.pick(&[8, 16, 20, 24, 24, 28, 32, 32, 32]);
                let value = (random.below(64) as u32).wrapping_mul(0x0521_1005) & (u32::MAX << (32 - length));
                format!("{}/{length}", std::net::Ipv4Addr::from(value))
            };
            let (from, to) = (address(&mut random), address(&mut random));
            let (from, to) =
                (if random.chance(30) { "any" } else { &from }, if random.chance(30) { "any" } else { &to });
            let port = random.pick(&["", "port 80", "port 1000-2000", "port 443"]);
            let action = random.pick(&["accept", "drop", "count"]);
            text += &format!("{action} tcp from {from} to {to} {port}\n");
        }
        packets += compare(&text, &mut random, 4);
    }
}

#[test]
fn compiled_for_what_is_only_thought_of() {
    let mut random = Random(26);
    for _ in 0..150 {
        let filter = read(&pools::filter(&mut random, 14));
        let kept = Arc::new(filter.with_rates_kept());
        let compiled = Compiled::new(kept.clone(), Ledger::new(1).open(&kept)).expect("not too long");
        let now = Now { monotonic: 0, utc: 1_795_303_800, local_offset: 3600 };
        let (headers, contexts): (Vec<Headers>, Vec<Context>) =
            (0..BATCH).map(|_| pools::packet(&mut random, None)).unzip();
        for hook in Hook::ALL {
            let mut decisions = vec![Decision::default(); BATCH];
            compiled.classify(0, hook, &now, &headers, &contexts, &mut decisions);
            for ((headers, context), said) in headers.iter().zip(&contexts).zip(&decisions) {
                let meant = filter.evaluate(hook, headers, context, &now, None);
                let what =
                    |decision: &Decision| (decision.outcome, decision.rule, decision.mark, decision.dscp);
                assert_eq!(what(said), what(&meant), "{hook:?} {headers:?} {context:?}\n{filter:?}");
            }
        }
    }
}
