//! Every target takes every input of its corpus, and what they become by blind changes: the same
//! ones each time. `FUZZ_ROUNDS` asks for another number of them.

use std::path::PathBuf;

use chance::Random;
use fuzz_targets::TARGETS;

/// Changed inputs of each target.
const ROUNDS: u64 = 2000;
/// Inputs grow to this at most.
const LONGEST: usize = 8192;

struct Changes(Random);

impl Changes {
    fn below(&mut self, most: usize) -> usize {
        self.0.below(most)
    }

    /// Some bytes of an input become others: single ones, numbers at their limits, or a piece of
    /// another input.
    fn change(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            let at = self.below(input.len());
            match self.below(6) {
                0 => input.truncate(at),
                1 => input.insert(at, self.0.next() as u8),
                2 | 3 if !input.is_empty() => input[at] ^= 1 << self.below(8),
                4 if !input.is_empty() => input[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                _ => {
                    let (from, to) = (self.below(other.len()), self.below(other.len()));
                    let piece = &other[from.min(to)..from.max(to)];
                    let end = (at + piece.len() * self.below(2)).min(input.len());
                    input.splice(at..end, piece.iter().copied());
                }
            }
        }
        input.truncate(LONGEST);
    }
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn replay(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).unwrap();
    let inputs = corpus(target);
    inputs.iter().for_each(|input| run(input));
    let mut random = Changes(Random(1));
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut input = inputs[random.below(inputs.len())].clone();
        let other = &inputs[random.below(inputs.len())];
        random.change(&mut input, other);
        let caught = std::panic::catch_unwind(|| run(&input));
        if let Err(panic) = caught {
            let kept = std::env::temp_dir().join(format!("fuzz-{target}-{round}"));
            std::fs::write(&kept, &input).unwrap();
            eprintln!("the input is in {}", kept.display());
            std::panic::resume_unwind(panic);
        }
    }
}

/// One test a target.
macro_rules! replays {
    ($($target:ident)*) => {
        $(#[test]
        fn $target() {
            replay(stringify!($target));
        })*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($target)),*]);
        }
    };
}

replays!(
    bfd candidate capture click control discovery expect firewall flow_journal fpm frr import memif
    netlink packets parquet relay router_toml rules saved_flows sharing summary trial_control vrrp
);
