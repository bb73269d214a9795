//! `tcp`, `udp`, `icmp`, ... and `proto LIST`: the protocol above IP.

use wire::protocol;

use super::{Condition, List, Match, Row, Test, set_of};
use crate::classifier::region::{Key, Narrowing, Region};
use crate::language::{Line, Word};
use crate::mistake::Hint;
use crate::names;
use crate::nftables::Sentence;

pub(crate) struct ByProtocol;

impl Condition for ByProtocol {
    type Value = List<u8>;

    const WORDS: &'static [&'static str] = &["proto"];
    const TEST: Test<List<u8>> =
        Test::Constant(|list, headers, _, _| list.holds(|number| *number == headers.protocol));
    const MANUAL: Row = Some((
        "`tcp`, `udp`, `icmp`, ... `proto LIST`",
        "protocols, by names or numbers; what an authentication header (`ah`) protects is `ah` in both families, as in nftables",
    ));

    fn takes(_: &Line, text: &str) -> bool {
        text == "proto" || protocol::number(text).is_some()
    }

    fn read(line: &mut Line, word: &Word) -> Option<List<u8>> {
        let (list, hint) = match protocol::number(word.text) {
            Some(number) => {
                (Some(List { not: false, items: vec![number] }), Hint::expected("proto tcp,udp for several"))
            }
            None => (protocols(line), Hint::none()),
        };
        if line.rule.matches.protocols.is_some() {
            line.wrong(word, "the protocol stands there already", hint);
        }
        list
    }

    fn print(list: &List<u8>, _: &Match) -> String {
        let named = (!list.not && list.items.len() == 1).then(|| names::protocol(list.items[0]));
        match named.flatten() {
            Some(name) => name.to_owned(),
            None => {
                let word = |n: &u8| names::protocol(*n).map_or_else(|| n.to_string(), str::to_owned);
                format!("proto {}", list.print(word))
            }
        }
    }

    fn nftables(list: &List<u8>, sentence: &mut Sentence) -> Option<()> {
        // nft would find other protocols beside TCP's own words a contradiction.
        if !sentence.says_tcp() {
            sentence.say(format!("meta l4proto {}", set_of(list, u8::to_string)));
        }
        Some(())
    }

    fn narrow<const W: usize>(list: &List<u8>, narrowing: &mut Narrowing<W>) {
        narrowing.list_of(list, |number| Region::ALL.with(Key::<W>::SMALL, u32::from(*number), 0xff));
    }
}

fn protocols(line: &mut Line) -> Option<List<u8>> {
    line.list("the protocols", "names or numbers: tcp, gre, 47", |text| {
        protocol::number(text).or_else(|| text.parse().ok()).ok_or_else(|| {
            let known = protocol::NAMES.iter().map(|(name, _)| *name);
            (format!("there is no protocol {text:?}"), Hint::near(text, known))
        })
    })
}

/// Whether a match says nothing about the protocol, or names only such.
pub(super) fn only(matches: &Match, fits: impl Fn(u8) -> bool) -> bool {
    matches.protocols.as_ref().is_none_or(|list| !list.not && list.items.iter().all(|&number| fits(number)))
}

/// Whether a match is about this protocol alone.
pub(crate) fn is(matches: &Match, number: u8) -> bool {
    matches.protocols.as_ref().is_some_and(|list| !list.not && list.items == [number])
}
