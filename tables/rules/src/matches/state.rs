//! `state LIST`: the state of a packet's flow.

use wire::protocol::TCP;

use super::{Condition, Examples, Match, Row, Test};
use crate::classifier::region::{Key, Narrowing, Region, STATES as AT};
use crate::language::{Line, Word, bits_by_name, bits_of, named};
use crate::names::Names;
use crate::nftables::{FLAGS, Sentence};

/// The state of a packet's flow, as one bit, so that rules can name several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlowState {
    /// The first packet of a flow, or one before any answer.
    New = 1,
    /// Of a flow that was answered.
    Established = 2,
    /// It belongs to another flow: an ICMP error, FTP's data.
    Related = 4,
    /// It cannot be of any flow.
    Invalid = 8,
    /// Flows are not tracked.
    #[default]
    Untracked = 16,
}

const STATES: &Names<u8> = &[
    ("new", NEW),
    ("established", FlowState::Established as u8),
    ("related", FlowState::Related as u8),
    ("invalid", INVALID),
    ("untracked", FlowState::Untracked as u8),
];
const NEW: u8 = FlowState::New as u8;
const INVALID: u8 = FlowState::Invalid as u8;
/// All of them, which is to ask for none.
const EVERY: u8 = 0x1f;

pub(crate) struct ByState;

impl Condition for ByState {
    type Value = u8;

    const WORDS: &'static [&'static str] = &["state"];
    const TEST: Test<u8> = Test::Constant(|states, _, context, _| states & context.state as u8 != 0);
    const MANUAL: Row = Some(("`state LIST`", "`new`, `established`, `related`, `invalid`, `untracked`"));
    const EXAMPLES: Examples =
        Examples::Items("state", &["new", "established", "related", "invalid", "untracked"]);

    fn read(line: &mut Line, _: &Word) -> Option<u8> {
        let expected = "new, established, related, invalid, untracked";
        let list = line.list("the states", expected, |text| named(STATES, text, "state"));
        list.map(|list| bits_of(&list, EVERY))
    }

    fn print(bits: &u8, _: &Match) -> String {
        match *bits {
            0 => "state !new,established,related,invalid,untracked".to_owned(),
            bits => format!("state {}", bits_by_name(bits, STATES, ",")),
        }
    }

    /// One of [`lines`].
    fn nftables(_: &u8, sentence: &mut Sentence) -> Option<()> {
        sentence.say(sentence.states.to_owned());
        Some(())
    }

    fn narrow<const W: usize>(states: &u8, narrowing: &mut Narrowing<W>) {
        let refused = !states & EVERY;
        let allowed =
            (refused != EVERY).then(|| Region::ALL.with(Key::<W>::SMALL, 0, u32::from(refused) << AT));
        narrowing.one_of(Vec::from_iter(allowed));
    }
}

/// Whether a match asks for a state that not all packets have.
pub(crate) fn asks_for_states(matches: &Match) -> bool {
    !matches!(matches.states, None | Some(EVERY))
}

/// For nftables, what a rule's states come to: one line of the kernel's for each, at least one of
/// which a packet that has the state matches. What is met in mid-stream the kernel calls new, so if
/// it is to be invalid (no `pickup`), a rule that asks for one of the two is several lines.
pub(crate) fn lines(matches: &Match, pickup: bool) -> Vec<String> {
    let bits = match matches.states {
        None | Some(EVERY) => return vec![String::new()],
        Some(bits) => bits,
    };
    let is = |bits: u8| format!("ct state {}", bits_by_name(bits, STATES, ","));
    let protocols = matches.protocols.as_ref();
    let tcp = protocols.is_none_or(|list| list.items.contains(&TCP) != list.not);
    let others = protocols.is_none_or(|list| list.not || list.items.iter().any(|item| *item != TCP));
    let [new, invalid] = [NEW, INVALID].map(|bit| bits & bit != 0);
    if pickup || !tcp || new == invalid {
        return if bits == 0 { Vec::new() } else { vec![is(bits)] };
    }
    let mut lines = Vec::from_iter((bits & !NEW != 0).then(|| is(bits & !NEW)));
    if invalid {
        lines.push(format!("ct state new {FLAGS} != syn"));
    } else {
        lines.extend(others.then(|| format!("ct state new meta l4proto != {TCP}")));
        lines.push(format!("ct state new {FLAGS} == syn"));
    }
    lines
}
