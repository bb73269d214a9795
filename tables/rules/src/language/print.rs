//! A rule as the line that it is read from; its matches print themselves ([`crate::matches`]).

use std::fmt::{self, Display};

pub(crate) use super::rule::name_of_reject;
use crate::matches::name_of_dscp;
use crate::model::*;

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
        words.extend(self.dscp.map(|dscp| format!("set-dscp {}", name_of_dscp(dscp))));
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
