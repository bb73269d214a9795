//! A rule as the line that it is read from.

use std::fmt::{self, Display, Write};

pub(crate) use super::rule::name_of_reject;
use crate::model::*;
use crate::names;

/// Items between commas, with `!` before them when the list is turned round.
pub(crate) fn list_of<T>(list: &List<T>, print: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = list.items.iter().map(print).collect();
    format!("{}{}", if list.not { "!" } else { "" }, items.join(","))
}

impl Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, number) = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")]
            .into_iter()
            .find(|(times, prefix)| {
                self.per_second.is_multiple_of(*times) && (self.unit == Unit::Bits || *prefix != "G")
            })
            .map_or(("", self.per_second), |(times, prefix)| (prefix, self.per_second / times));
        let unit = if self.unit == Unit::Bits { "bit" } else { "pps" };
        write!(f, "{number}{prefix}{unit}")?;
        if self.burst != Rate::new(self.per_second, self.unit).burst {
            write!(f, " burst {}{}", self.burst, if self.unit == Unit::Bits { "B" } else { "" })?;
        }
        Ok(())
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Net(net) if net.prefix_len() == net.max_prefix_len() => write!(f, "{}", net.addr()),
            Address::Net(net) => write!(f, "{net}"),
            Address::Set { name, .. } => write!(f, "@{name}"),
        }
    }
}

/// The bits of a byte by their names.
fn bits_of(bits: u8, names: &names::Names<u8>, between: &str) -> String {
    let set: Vec<&str> = names.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    set.join(between)
}

/// A name, or the number where there is none.
fn name_or_number(names: &names::Names<u8>, number: u8) -> String {
    names::name(names, &number).map_or_else(|| number.to_string(), str::to_owned)
}

fn flags_of(flags: &Flags) -> String {
    let bits = |bits| if bits == 0 { "none".to_owned() } else { bits_of(bits, names::FLAGS, "+") };
    if flags.set == flags.mask {
        bits(flags.set)
    } else {
        format!("{}/{}", bits(flags.set), bits(flags.mask))
    }
}

fn icmp_of(icmp: &Icmp, six: bool) -> String {
    let names = if six { names::ICMP6 } else { names::ICMP };
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    let Icmp { kinds, codes } = *icmp;
    let code = (codes != Icmp::ANY).then_some(codes.0);
    let single = kinds.0 == kinds.1 && (codes == Icmp::ANY || codes.0 == codes.1);
    match names::name(names, &(kinds.0, code)).filter(|_| single) {
        Some(name) => name.to_owned(),
        None if codes == Icmp::ANY => range(kinds),
        None => format!("{}/{}", range(kinds), range(codes)),
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time")?;
        if let Some((first, end)) = self.minutes {
            write!(f, " {:02}:{:02}-{:02}:{:02}", first / 60, first % 60, end / 60, end % 60)?;
        }
        if self.days != Window::EVERY_DAY {
            let days = names::DAYS.iter().enumerate().filter(|(n, _)| self.days & 1 << n != 0);
            let days: Vec<&str> = days.map(|(_, name)| *name).collect();
            write!(f, " {}", days.join(","))?;
        } else if self.minutes.is_none() {
            f.write_str(" mon-sun")?;
        }
        f.write_str(if self.zone == Zone::Utc { " utc" } else { " local" })
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        if let Some(family) = self.family {
            words.push(if family == Family::Ipv4 { "ip" } else { "ip6" }.to_owned());
        }
        if let Some(list) = &self.protocols {
            let named = (!list.not && list.items.len() == 1).then(|| names::protocol(list.items[0]));
            words.push(match named.flatten() {
                Some(name) => name.to_owned(),
                None => format!(
                    "proto {}",
                    list_of(list, |n| names::protocol(*n).map_or_else(|| n.to_string(), str::to_owned))
                ),
            });
        }
        let sides =
            [("from", &self.source, &self.source_ports), ("to", &self.destination, &self.destination_ports)];
        for (word, addresses, ports) in sides {
            if addresses.is_some() || ports.is_some() {
                let addresses = addresses
                    .as_ref()
                    .map_or_else(|| "any".to_owned(), |list| list_of(list, Address::to_string));
                words.push(format!("{word} {addresses}"));
            }
            words.extend(ports.as_ref().map(|list| format!("port {}", list_of(list, Span::to_string))));
        }
        if let Some(list) = &self.icmp {
            let six = self.family == Some(Family::Ipv6);
            words.push(format!("type {}", list_of(list, |icmp| icmp_of(icmp, six))));
        }
        words.extend(self.flags.as_ref().map(|list| format!("flags {}", list_of(list, flags_of))));
        words.extend(
            self.dscp
                .as_ref()
                .map(|list| format!("dscp {}", list_of(list, |n| name_or_number(names::DSCP, *n)))),
        );
        words.extend(self.length.as_ref().map(|list| format!("length {}", list_of(list, Span::to_string))));
        words.extend(self.fragment.map(|bits| match bits {
            0 => "fragment !whole,first,later".to_owned(),
            bits => format!("fragment {}", bits_of(bits, names::FRAGMENTS, ",")),
        }));
        let name = |interface: &Interface| interface.name.clone();
        words.extend(self.in_ports.as_ref().map(|list| format!("in {}", list_of(list, name))));
        words.extend(self.out_ports.as_ref().map(|list| format!("out {}", list_of(list, name))));
        words.extend(self.states.map(|bits| match bits {
            0 => "state !new,established,related,invalid,untracked".to_owned(),
            bits => format!("state {}", bits_of(bits, names::STATES, ",")),
        }));
        if let Some(mark) = &self.mark {
            let not = if mark.not { "!" } else { "" };
            words.push(match mark.mask {
                u32::MAX => format!("marked {not}{:#x}", mark.value),
                mask => format!("marked {not}{:#x}/{mask:#x}", mark.value),
            });
        }
        words.extend(self.time.as_ref().map(Window::to_string));
        if let Some(RateMatch { over, rate, sources }) = &self.rate {
            let mut text = format!("rate {} {rate}", if *over { "over" } else { "below" });
            if let Some(table) = sources {
                text.push_str(" per source");
                if *table != 65_536 {
                    let _ = write!(text, " table {table}");
                }
            }
            words.push(text);
        }
        f.write_str(&words.join(" "))
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Accept => f.write_str("accept"),
            Verdict::Drop => f.write_str("drop"),
            Verdict::Return => f.write_str("return"),
            Verdict::Jump { chain, .. } => write!(f, "jump {chain}"),
            Verdict::Reject(kind) => match name_of_reject(*kind) {
                Some(kind) => write!(f, "reject with {kind}"),
                None => f.write_str("reject"),
            },
        }
    }
}

impl Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.count.then(|| "count".to_owned()));
        words.extend(self.police.map(|rate| format!("police {rate}")));
        if let Some(log) = &self.log {
            words.push("log".to_owned());
            words.extend((log.every > 1).then(|| format!("every {}", log.every)));
            words.extend(
                (log.limit != Rate::new(100, Unit::Packets)).then(|| format!("at most {}", log.limit)),
            );
        }
        words.extend(self.mark.map(|mark| format!("mark {mark:#x}")));
        words.extend(self.dscp.map(|dscp| format!("set-dscp {}", name_or_number(names::DSCP, dscp))));
        f.write_str(&words.join(" "))
    }
}

/// As its line, without its name and comment.
impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict.as_ref().map(Verdict::to_string).unwrap_or_default();
        let parts = [self.effects.to_string(), verdict, self.matches.to_string()];
        let mut parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.extend(self.fallback.map(|fallback| {
            if fallback == Fallback::Open { "kernel open" } else { "kernel closed" }.to_owned()
        }));
        f.write_str(&parts.join(" "))
    }
}
