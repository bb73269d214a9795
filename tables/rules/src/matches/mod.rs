//! What rules ask of packets: one match a file.
//!
//! A match is all there is to say about a word behind which a rule asks for something (`ttl`, say):
//! its value, how it is read, printed and checked, what it means, what the classifier's key says of
//! it, the same in nftables' words, and its row in the manual. That is a [`Condition`], and
//! `conditions!` below makes [`Match`] of all of them. So a new match is a file here and a line
//! there; [`length`] is a short one to begin with.
//!
//! What a match asks for decides what may be remembered of its answer: see [`Test`].

mod address;
mod dnat;
mod dscp;
mod family;
mod flags;
pub mod fragment;
mod icmp;
mod interface;
mod length;
mod list;
mod mark;
mod port;
mod protocol;
mod rate;
mod state;
mod time;
mod ttl;

use std::fmt;

use wire::Headers;

use crate::classifier::region::Narrowing;
use crate::language::{Line, Word};
use crate::matching::{Context, Sets};
use crate::mistake::Hint;
use crate::model::Hook;
use crate::moment::Now;
use crate::nftables::Sentence;

pub use address::Address;
pub use dnat::Translated;
pub use dscp::code_point;
pub(crate) use dscp::dscp;
pub(crate) use dscp::name_of as name_of_dscp;
pub use family::Family;
pub use flags::Flags;
pub use icmp::Icmp;
pub use interface::Interface;
pub use list::{List, Span};
pub(crate) use list::{ranges_of, set_of};
pub use mark::Mark;
pub(crate) use port::port_named;
pub(crate) use protocol::is as is_about;
pub use rate::RateMatch;
pub use state::FlowState;
pub(crate) use state::{asks_for_states, lines as lines_of_states};
pub use time::{Window, Zone};

/// Which end of a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Whether a match of a value holds for a packet.
pub(crate) enum Test<V> {
    /// It is the same for all packets of one direction of a flow while its state is the same.
    Constant(fn(&V, &Headers, &Context, &Sets) -> bool),
    /// It follows from the packet, and may differ from one to the next.
    Moment(fn(&V, &Headers) -> bool),
    /// It does not follow from the packet.
    Circumstance(fn(&V, &Circumstances) -> bool),
}

/// What does not follow from a packet.
pub(crate) struct Circumstances<'a> {
    /// Its mark by now.
    pub mark: u32,
    /// Its code point by now.
    pub dscp: u8,
    /// When it comes.
    pub now: &'a Now,
}

/// What the manual says about a match.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// How it is written, in Markdown.
    pub syntax: &'static str,
    /// What it asks for.
    pub meaning: &'static str,
    /// What random rules may say of it.
    pub examples: Examples,
    /// The hooks at which nobody can ask for it.
    pub unknown: &'static [Hook],
}

/// What random rules of tests may say of a match.
#[derive(Clone, Copy, Debug)]
pub enum Examples {
    /// Its word, and items of the list behind it.
    Items(&'static str, &'static [&'static str]),
    /// All of it.
    Whole(&'static [&'static str]),
    /// It fits only beside certain others.
    BesideOthers,
}

/// Where a match cannot be asked for, and why.
pub(crate) struct Unknown {
    /// There.
    pub hooks: &'static [Hook],
    /// Why, as the message of a mistake.
    pub why: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

/// A row of the manual: how a match is written, in Markdown, and what it asks for. `None` where
/// another one's row says it.
pub(crate) type Row = Option<(&'static str, &'static str)>;

/// Notes that what a rule says does not go together: the message, and what would.
pub(crate) type Complain<'c> = dyn FnMut(&str, &str) + 'c;

/// One kind of match. The value itself is in a field of [`Match`].
pub(crate) trait Condition {
    /// What is asked for.
    type Value: PartialEq;

    /// The words by which it begins.
    const WORDS: &'static [&'static str];
    /// Whether it holds. [`Filter::evaluate`](crate::Filter::evaluate) asks this of every rule, and
    /// the classifier where regions do not say it exactly.
    const TEST: Test<Self::Value>;
    /// What the manual says.
    const MANUAL: Row;
    /// For random rules of tests.
    const EXAMPLES: Examples = Examples::BesideOthers;
    /// Where it cannot be asked for.
    const UNKNOWN: Option<Unknown> = None;

    /// Whether this word of a line begins it.
    fn takes(_line: &Line, text: &str) -> bool {
        Self::WORDS.contains(&text)
    }

    /// Reads what stands behind its word; `None` when it asks for nothing, or when the line was
    /// told what is wrong.
    fn read(line: &mut Line, word: &Word) -> Option<Self::Value>;

    /// The words that it is read from, in a match.
    fn print(value: &Self::Value, of: &Match) -> String;

    /// Says the same in nftables' words; `None` when no packet can match.
    fn nftables(value: &Self::Value, sentence: &mut Sentence) -> Option<()>;

    /// Leaves those regions in which it holds. Only a [`Test::Constant`] is asked; what says
    /// nothing here is confirmed by its test, packet by packet.
    fn narrow<const W: usize>(_value: &Self::Value, narrowing: &mut Narrowing<W>) {
        narrowing.inexact();
    }

    /// Whether it goes together with the rest of a match; fills in what follows from it.
    fn agree(_matches: &mut Match, _complain: &mut Complain) {}

    /// Whether packets of a family can match.
    fn possible_in(_value: &Self::Value, _family: Family) -> bool {
        true
    }

    /// Whether nftables has other words for it in each family.
    fn by_family(_value: &Self::Value) -> bool {
        false
    }

    /// What of it nftables cannot express.
    fn inexpressible(_value: &Self::Value) -> Option<&'static str> {
        None
    }

    /// What an explanation adds, which keeps to rates and counts nothing.
    fn remark(_value: &Self::Value) -> &'static str {
        ""
    }
}

/// Makes [`Match`] of all kinds of matches. Their order is that in which rules are printed.
macro_rules! conditions {
    ($($(#[$about:meta])* $field:ident: $value:ty = $kind:ty,)*) => {
        /// What a rule matches. What is `None` matches everything.
        #[derive(Clone, Debug, Default, PartialEq, Hash)]
        pub struct Match {
            $($(#[$about])* pub $field: Option<$value>,)*
        }

        impl Match {
            /// Words by which matches begin.
            pub(crate) fn words() -> impl Iterator<Item = &'static str> {
                [$(<$kind>::WORDS),*].into_iter().flatten().copied()
            }

            /// What the manual says about matches, in the order in which rules are printed.
            pub fn manual() -> Vec<Manual> {
                let mut rows = Vec::new();
                $(if let Some((syntax, meaning)) = <$kind>::MANUAL {
                    let unknown = <$kind>::UNKNOWN.map_or(&[][..], |unknown| unknown.hooks);
                    rows.push(Manual { syntax, meaning, examples: <$kind>::EXAMPLES, unknown });
                })*
                rows
            }

            /// Reads the match that a word begins into the rule of its line; `false` when it begins
            /// none.
            pub(crate) fn read(line: &mut Line, word: &Word) -> bool {
                $(if <$kind>::takes(line, word.text) {
                    if let Some(unknown) = <$kind>::UNKNOWN {
                        line.uses.unknown.push((word.at.clone(), unknown));
                    }
                    let failed = std::mem::replace(&mut line.failed, false);
                    let value = <$kind>::read(line, word);
                    let before = std::mem::replace(&mut line.rule.matches.$field, value);
                    if !line.failed && before.is_some() && before != line.rule.matches.$field {
                        line.wrong(word, format!("{:?} stands there already", word.text), Hint::none());
                    }
                    line.failed |= failed;
                    return true;
                })*
                false
            }

            /// Whether what it asks for goes together; fills in what follows from it.
            pub(crate) fn agree(&mut self, complain: &mut Complain) {
                $(if self.$field.is_some() {
                    <$kind>::agree(self, complain);
                })*
                if Family::BOTH.iter().all(|&family| !self.possible_in(family)) {
                    let expected = "addresses of one family, or of both on either side";
                    complain("no packet is of both families", expected);
                }
            }

            /// The part that is the same for all packets of a flow's direction.
            pub(crate) fn constant(&self, headers: &Headers, context: &Context, sets: &Sets) -> bool {
                true $(&& match <$kind>::TEST {
                    Test::Constant(holds) => {
                        self.$field.as_ref().is_none_or(|value| holds(value, headers, context, sets))
                    }
                    _ => true,
                })*
            }

            /// The part that follows from the packet and may differ from one to the next.
            pub(crate) fn momentary(&self, headers: &Headers) -> bool {
                true $(&& match <$kind>::TEST {
                    Test::Moment(holds) => self.$field.as_ref().is_none_or(|value| holds(value, headers)),
                    _ => true,
                })*
            }

            /// Mark, code point, time and the like; the rate is its rule's meter's to say.
            pub(crate) fn circumstances(&self, circumstances: &Circumstances) -> bool {
                true $(&& match <$kind>::TEST {
                    Test::Circumstance(holds) => {
                        self.$field.as_ref().is_none_or(|value| holds(value, circumstances))
                    }
                    _ => true,
                })*
            }

            /// Whether it has a momentary part.
            pub(crate) fn asks_for_moment(&self) -> bool {
                false $(|| self.$field.is_some() && matches!(<$kind>::TEST, Test::Moment(_)))*
            }

            /// Whether it asks for circumstances.
            pub(crate) fn asks_for_circumstances(&self) -> bool {
                false $(|| self.$field.is_some() && matches!(<$kind>::TEST, Test::Circumstance(_)))*
            }

            /// Whether packets of a family can match at all.
            pub fn possible_in(&self, family: Family) -> bool {
                true $(&& self.$field.as_ref().is_none_or(|value| <$kind>::possible_in(value, family)))*
            }

            /// What regions can say of it.
            pub(crate) fn narrow<const W: usize>(&self, narrowing: &mut Narrowing<W>) {
                $(if let (Some(value), Test::Constant(_)) = (&self.$field, <$kind>::TEST) {
                    <$kind>::narrow(value, narrowing);
                })*
            }

            /// What nftables says for it; `None` when no packet can match.
            pub(crate) fn nftables(&self, sentence: &mut Sentence) -> Option<()> {
                $(if let Some(value) = &self.$field {
                    <$kind>::nftables(value, sentence)?;
                })*
                Some(())
            }

            /// Whether nftables has other words for it in each family.
            pub(crate) fn by_family(&self) -> bool {
                false $(|| self.$field.as_ref().is_some_and(<$kind>::by_family))*
            }

            /// What of it nftables cannot express: the first such thing.
            pub(crate) fn inexpressible(&self) -> Option<&'static str> {
                None $(.or_else(|| <$kind>::inexpressible(self.$field.as_ref()?)))*
            }

            /// What an explanation adds to it.
            pub(crate) fn remarks(&self) -> String {
                let mut text = String::new();
                $(text.extend(self.$field.as_ref().map(<$kind>::remark));)*
                text
            }
        }

        /// As it is read.
        impl fmt::Display for Match {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut words: Vec<String> = Vec::new();
                $(words.extend(self.$field.as_ref().map(|value| <$kind>::print(value, self)));)*
                f.write_str(&words.join(" "))
            }
        }
    };
}

conditions! {
    /// One family only.
    family: Family = family::ByFamily,
    /// Protocols above IP.
    protocols: List<u8> = protocol::ByProtocol,
    /// Source addresses. A list without sets is about the families of its addresses only, also when
    /// it is negated.
    source: List<Address> = address::BySource,
    /// Source ports: of packets of a protocol that has ports, and that show them.
    source_ports: List<Span> = port::BySourcePort,
    /// Destination addresses.
    destination: List<Address> = address::ByDestination,
    /// Destination ports.
    destination_ports: List<Span> = port::ByDestinationPort,
    /// ICMP or ICMPv6 types and codes, as the one protocol in `protocols` says.
    icmp: List<Icmp> = icmp::ByType,
    /// TCP flags: of TCP segments that show them.
    flags: List<Flags> = flags::ByFlags,
    /// Differentiated services code points.
    dscp: List<u8> = dscp::ByDscp,
    /// Bytes of the IP packet.
    length: List<Span> = length::ByLength,
    /// Time to live, or hop limit: 0 to 255.
    ttl: List<Span> = ttl::ByTtl,
    /// Which fragments, as bits of [`fragment`].
    fragment: u8 = fragment::ByFragment,
    /// Ports that the packet came by.
    in_ports: List<Interface> = interface::ByInput,
    /// Ports that it will leave by.
    out_ports: List<Interface> = interface::ByOutput,
    /// States of its flow, as bits of [`FlowState`].
    states: u8 = state::ByState,
    /// What of its flow is translated.
    translated: Translated = dnat::ByTranslated,
    /// Its mark.
    mark: Mark = mark::ByMark,
    /// When it comes.
    time: Window = time::ByTime,
    /// How many of those that match all the rest come.
    rate: RateMatch = rate::ByRate,
}
