//! The language of rules: one rule a line, in the words that operators know.
//!
//! ```text
//! set bogons 10.0.0.0/8, 192.168.0.0/16          # members here
//! set scanners file /etc/bifrost/scanners.txt    # or in a file, one a line
//!
//! chain forward policy drop
//!   accept state established,related
//!   drop from @bogons
//!   accept tcp from any to 198.51.100.0/24 port 80,443 state new   name web
//!   reject with tcp-reset tcp to any port 25    # no mail from here
//!   jump guests in wlan*
//!   log at most 10pps drop
//!
//! chain guests
//!   police 20Mbit
//!   accept
//! ```
//!
//! A line says first what is done, then with what: `ACTION... [MATCH...]`. Matches stand in any
//! order, and all must hold.
//!
//! | action | |
//! |---|---|
//! | `accept`, `drop` | the packet passes this hook, or vanishes |
//! | `reject [with KIND]` | it vanishes and its sender is told: `tcp-reset`, `port-unreachable`, `host-unreachable`, `no-route`, `prohibited`; without a kind a RST to TCP and port unreachable to the rest |
//! | `jump CHAIN`, `return` | as in iptables and nftables |
//! | `log [every N] [at most RATE]` | a line in the log: of one packet in N, at most so many (10pps) |
//! | `count`, `mark N`, `set-dscp X` | and on to the next rule, unless a verdict stands there as well |
//! | `police RATE [burst SIZE]` | what exceeds the rate is dropped, the rest goes on |
//!
//! What matches there are, and what they mean, each says itself ([`crate::matches`]);
//! `docs/filter.md` has their table.
//!
//! A `!` before a list turns it round (`from !10.0.0.0/8`, `in !eth0`). Three more words name a
//! rule (`name web`), say what the kernel's filter shall do where it cannot express it (`kernel
//! open`, `kernel closed`), and comment it (`# ...`).
//!
//! Rules that stand before any `chain` line belong to the chain that the file was named for.
//! Nothing depends on how lines are indented. A list goes on behind a comma even with a space.
//! Printing a rule ([`crate::Rule`] displays as its line) and reading it again gives the same rule.

pub(crate) mod address;
mod item;
mod line;
mod list;
mod print;
mod rule;
mod words;

pub(crate) use address::nets;
pub(crate) use item::{Item, bits_by_name, bits_of, named, named_or, number32, span};
pub(crate) use line::{Line, Used, Uses};
pub(crate) use list::{Draft, Reading};
pub(crate) use rule::name_of_reject;
pub(crate) use words::{Word, Words};
