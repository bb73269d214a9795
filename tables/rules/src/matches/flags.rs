//! `flags LIST`: of TCP segments.

use wire::tcp::flag;
use wire::{Fragment, protocol};

use super::{Complain, Condition, List, Match, Row, Test};
use crate::language::{Item, Line, Word, bits_by_name, named};
use crate::mistake::Hint;
use crate::names::Names;
use crate::nftables::Sentence;

/// Of the flags in `mask`, exactly those in `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flags {
    /// These are set; within `mask`.
    pub set: u8,
    /// These are looked at.
    pub mask: u8,
}

/// TCP flags (RFC 9293; RFC 3168).
const FLAGS: &Names<u8> = &[
    ("fin", flag::FIN),
    ("syn", flag::SYN),
    ("rst", flag::RST),
    ("psh", flag::PSH),
    ("ack", flag::ACK),
    ("urg", 32),
    ("ece", 64),
    ("cwr", 128),
];

pub(crate) struct ByFlags;

impl Condition for ByFlags {
    type Value = List<Flags>;

    const WORDS: &'static [&'static str] = &["flags"];
    const TEST: Test<List<Flags>> = Test::Moment(|list, headers| {
        headers.fragment != Fragment::Later && list.holds(|flags| headers.tcp_flags & flags.mask == flags.set)
    });
    const MANUAL: Row = Some((
        "`flags LIST`",
        "of TCP: `syn`, `syn+ack`, `syn/syn+ack+fin+rst` (of those behind the stroke, exactly these)",
    ));

    fn read(line: &mut Line, _: &Word) -> Option<List<Flags>> {
        line.list("the flags", "syn, syn+ack, syn/syn+ack+fin+rst", flags)
    }

    fn print(list: &List<Flags>, _: &Match) -> String {
        format!("flags {}", list.print(print))
    }

    fn nftables(list: &List<Flags>, sentence: &mut Sentence) -> Option<()> {
        sentence.say_shown();
        // All values of the byte that match; a set compares exactly, where a single value would ask
        // for its bits.
        let matches = |value: &u8| list.items.iter().any(|flags| value & flags.mask == flags.set);
        let values: Vec<String> = (0..=255).filter(matches).map(|value| value.to_string()).collect();
        let not = if list.not { "!= " } else { "" };
        sentence.say(format!("tcp flags {not}{{ {} }}", values.join(", ")));
        Some(())
    }

    fn agree(matches: &mut Match, complain: &mut Complain) {
        if !super::protocol::only(matches, |number| number == protocol::TCP) {
            complain("only TCP has flags", "tcp");
        }
        matches.protocols = Some(List { not: false, items: vec![protocol::TCP] });
    }
}

fn flags(text: &str) -> Item<Flags> {
    let bits = |text: &str| -> Item<u8> {
        let mut bits = 0;
        for name in text.split('+').filter(|_| text != "none") {
            bits |= named(FLAGS, name, "flag")?;
        }
        Ok(bits)
    };
    let (set, mask) = match text.split_once('/') {
        Some((set, mask)) => (bits(set)?, bits(mask)?),
        None => (bits(text)?, bits(text)?),
    };
    if set & !mask != 0 || mask == 0 {
        return Err((
            format!("{text} can never hold"),
            Hint::expected("flags before the stroke are also behind it"),
        ));
    }
    Ok(Flags { set, mask })
}

fn print(flags: &Flags) -> String {
    let bits = |bits| if bits == 0 { "none".to_owned() } else { bits_by_name(bits, FLAGS, "+") };
    if flags.set == flags.mask {
        bits(flags.set)
    } else {
        format!("{}/{}", bits(flags.set), bits(flags.mask))
    }
}
