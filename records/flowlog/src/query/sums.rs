//! Adding up, in bounded memory.
//!
//! When there are more groups than may be kept, the smaller half goes (by the measure that is asked
//! for). A group that comes back later begins anew, so its sum may lack what it had; by how much at
//! most is known, and told. The largest groups, which are what one asks for, are exact long before
//! the small ones are: it is the idea of "lossy counting" (Manku and Motwani, 2002).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::filter::Protocol;
use super::shown::local_time;
use crate::record::{Name, Reason, Record};
use crate::store::columns::Wanted;

/// What records are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Address of the side that began.
    Source,
    /// Address of the other side.
    Destination,
    /// Port of the side that began.
    SourcePort,
    /// Port of the other side.
    DestinationPort,
    /// Protocol.
    Protocol,
    /// Interface in.
    Input,
    /// Interface out.
    Output,
    /// AS from.
    SourceAs,
    /// AS to.
    DestinationAs,
    /// VRF or routing table.
    Table,
    /// Gateway.
    NextHop,
    /// Why it ended.
    Reason,
    /// The flow, all its slices together.
    Flow,
    /// The minute of its start.
    Minute,
    /// The hour of its start.
    Hour,
    /// The day (UTC) of its start.
    Day,
}

type Names = &'static [(&'static str, Dimension, &'static [&'static str])];

/// Word, meaning and columns of each.
const DIMENSIONS: Names = &[
    ("src", Dimension::Source, &["src_addr"]),
    ("dst", Dimension::Destination, &["dst_addr"]),
    ("sport", Dimension::SourcePort, &["src_port"]),
    ("dport", Dimension::DestinationPort, &["dst_port"]),
    ("proto", Dimension::Protocol, &["protocol"]),
    ("iif", Dimension::Input, &["in_if", "in_if_name"]),
    ("oif", Dimension::Output, &["out_if", "out_if_name"]),
    ("sas", Dimension::SourceAs, &["src_as"]),
    ("das", Dimension::DestinationAs, &["dst_as"]),
    ("table", Dimension::Table, &["table_id"]),
    ("nexthop", Dimension::NextHop, &["next_hop"]),
    ("reason", Dimension::Reason, &["end_reason"]),
    ("flow", Dimension::Flow, &["flow_id"]),
    ("minute", Dimension::Minute, &[]),
    ("hour", Dimension::Hour, &[]),
    ("day", Dimension::Day, &[]),
];

/// What the groups are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Bytes of both directions.
    #[default]
    Bytes,
    /// Packets of both directions.
    Packets,
    /// Flows.
    Flows,
}

impl Measure {
    pub(super) fn of_record(self, record: &Record) -> u64 {
        match self {
            Measure::Bytes => record.bytes(),
            Measure::Packets => record.packets(),
            Measure::Flows => 1,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Bytes => "bytes",
            Measure::Packets => "packets",
            Measure::Flows => "flows",
        }
    }
}

/// What follows `--by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// What makes a group, in the order of columns; empty: every record is its own.
    pub dimensions: Vec<Dimension>,
    /// What they are sorted by.
    pub measure: Measure,
}

/// What cannot follow `--by`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByError {
    /// A word that is not known.
    #[error("{word:?} is nothing to add up by: there are {known}; and bytes, packets, flows to sort by")]
    Unknown {
        /// The word.
        word: String,
        /// Those that are known.
        known: String,
    },
    /// A word that is there twice, or a second measure.
    #[error("{0:?} is too much: name each once, and one of bytes, packets, flows")]
    Twice(String),
}

impl FromStr for By {
    type Err = ByError;

    fn from_str(text: &str) -> Result<By, ByError> {
        let (mut dimensions, mut measure) = (Vec::new(), None);
        for word in text.split(',').map(str::trim) {
            let as_measure = [Measure::Bytes, Measure::Packets, Measure::Flows]
                .into_iter()
                .find(|known| known.name() == word);
            let dimension =
                DIMENSIONS.iter().find(|(name, ..)| *name == word).map(|(_, dimension, _)| *dimension);
            match (as_measure, dimension) {
                (Some(found), _) if measure.is_none() => measure = Some(found),
                (_, Some(found)) if !dimensions.contains(&found) => dimensions.push(found),
                (None, None) => {
                    let known = DIMENSIONS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
                    return Err(ByError::Unknown { word: word.to_owned(), known });
                }
                _ => return Err(ByError::Twice(word.to_owned())),
            }
        }
        Ok(By { dimensions, measure: measure.unwrap_or_default() })
    }
}

impl By {
    /// The columns that it needs.
    pub fn columns(&self) -> Wanted {
        let sums = ["packets", "bytes", "reply_packets", "reply_bytes", "slice", "start_time", "start_nanos"];
        if self.dimensions.is_empty() {
            // Whole flows are shown.
            return Wanted::ALL;
        }
        let asked = DIMENSIONS.iter().filter(|(_, dimension, _)| self.dimensions.contains(dimension));
        asked.fold(Wanted::these(&sums), |wanted, (.., columns)| wanted.and(Wanted::these(columns)))
    }

    /// The words of its dimensions.
    pub fn names(&self) -> Vec<&'static str> {
        let name = |wanted: &Dimension| {
            DIMENSIONS.iter().find(|(_, dimension, _)| dimension == wanted).map_or("", |(name, ..)| *name)
        };
        self.dimensions.iter().map(name).collect()
    }
}

/// One value of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Nothing is known.
    None,
    /// A number.
    Number(u64),
    /// A protocol.
    Protocol(u8),
    /// A time, ns since 1970.
    Time(u64),
    /// An address.
    Address(IpAddr),
    /// An interface by its name.
    Name(Name),
    /// Why flows ended.
    Reason(Reason),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::None => f.pad("-"),
            Part::Number(number) => f.pad(&number.to_string()),
            Part::Protocol(protocol) => Protocol(*protocol).fmt(f),
            Part::Time(time) => f.pad(&local_time(*time)),
            Part::Address(address) => f.pad(&address.to_string()),
            Part::Name(name) => name.fmt(f),
            Part::Reason(reason) => f.pad(reason.name()),
        }
    }
}

impl Dimension {
    fn of(self, record: &Record) -> Part {
        let interface = |of: &crate::record::Interface| match (of.name.is_empty(), of.index) {
            (false, _) => Part::Name(of.name),
            (true, 0) => Part::None,
            (true, index) => Part::Number(u64::from(index)),
        };
        let known = |number: u32| if number == 0 { Part::None } else { Part::Number(u64::from(number)) };
        let floor = |unit: u64| Part::Time(record.start / unit * unit);
        let key = &record.key;
        match self {
            Dimension::Source => Part::Address(key.source),
            Dimension::Destination => Part::Address(key.destination),
            Dimension::SourcePort => Part::Number(u64::from(key.source_port)),
            Dimension::DestinationPort => Part::Number(u64::from(key.destination_port)),
            Dimension::Protocol => Part::Protocol(key.protocol),
            Dimension::Input => interface(&record.input),
            Dimension::Output => interface(&record.output),
            Dimension::SourceAs => known(record.source_as),
            Dimension::DestinationAs => known(record.destination_as),
            Dimension::Table => Part::Number(u64::from(key.table)),
            Dimension::NextHop => record.next_hop.map_or(Part::None, Part::Address),
            Dimension::Reason => record.reason.map_or(Part::None, Part::Reason),
            Dimension::Flow => Part::Number(record.flow),
            Dimension::Minute => floor(60_000_000_000),
            Dimension::Hour => floor(3_600_000_000_000),
            Dimension::Day => floor(86_400_000_000_000),
        }
    }
}

/// Sums of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Flows. One that has several slices is counted by its first in the span.
    pub flows: u64,
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
}

impl Totals {
    fn measure(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Bytes => self.bytes,
            Measure::Packets => self.packets,
            Measure::Flows => self.flows,
        }
    }

    fn add(&mut self, other: Totals) {
        self.flows = self.flows.saturating_add(other.flows);
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Groups and their sums.
#[derive(Debug)]
pub struct Sums {
    by: By,
    limit: usize,
    since: u64,
    groups: HashMap<Box<[Part]>, Totals>,
    scratch: Vec<Part>,
    all: Totals,
    short_by: u64,
}

impl Sums {
    /// At most `limit` groups (at least 2) are kept. Of flows that began before `since`, the slice
    /// that reaches it counts as the first.
    pub fn new(by: By, limit: usize, since: u64) -> Sums {
        let (groups, scratch, all) = (HashMap::new(), Vec::new(), Totals::default());
        Sums { by, limit: limit.max(2), since, groups, scratch, all, short_by: 0 }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let first = record.slice == 0 || record.start < self.since;
        let more = Totals { flows: u64::from(first), packets: record.packets(), bytes: record.bytes() };
        self.all.add(more);
        self.scratch.clear();
        self.scratch.extend(self.by.dimensions.iter().map(|dimension| dimension.of(record)));
        if let Some(totals) = self.groups.get_mut(self.scratch.as_slice()) {
            totals.add(more);
            return;
        }
        if self.groups.len() >= self.limit {
            self.drop_half();
        }
        self.groups.insert(self.scratch.as_slice().into(), more);
    }

    fn drop_half(&mut self) {
        let measure = self.by.measure;
        let mut sizes = self.groups.values().map(|totals| totals.measure(measure)).collect::<Vec<_>>();
        let middle = sizes.len() / 2;
        let (_, median, _) = sizes.select_nth_unstable(middle);
        let median = *median;
        // All that are smaller, and of those that are just as large as many as make half.
        let smaller = self.groups.values().filter(|totals| totals.measure(measure) < median).count();
        let mut equal = (middle + 1).saturating_sub(smaller);
        self.groups.retain(|_, totals| match totals.measure(measure).cmp(&median) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => {
                let stays = equal == 0;
                equal = equal.saturating_sub(1);
                stays
            }
        });
        self.short_by = self.short_by.saturating_add(median);
    }

    /// By how much of its measure a group's sum may be too small.
    pub fn short_by(&self) -> u64 {
        self.short_by
    }

    /// Sums of everything, exact however many groups there were.
    pub fn all(&self) -> Totals {
        self.all
    }

    /// What it is added up by.
    pub fn by(&self) -> &By {
        &self.by
    }

    /// The groups, the largest first; time goes forward where groups are of times.
    pub fn sorted(self) -> Vec<(Box<[Part]>, Totals)> {
        let measure = self.by.measure;
        let mut groups = self.groups.into_iter().collect::<Vec<_>>();
        groups.sort_by(|(a, x), (b, y)| y.measure(measure).cmp(&x.measure(measure)).then_with(|| a.cmp(b)));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::records;

    #[test]
    fn words_after_by() {
        let by = "dst,bytes".parse::<By>().unwrap();
        assert_eq!(by, By { dimensions: vec![Dimension::Destination], measure: Measure::Bytes });
        assert_eq!("src , dport,flows".parse::<By>().unwrap().names(), ["src", "dport"]);
        assert!(matches!("dst,color".parse::<By>(), Err(ByError::Unknown { word, .. }) if word == "color"));
        assert!(matches!("dst,dst".parse::<By>(), Err(ByError::Twice(_))));
        assert!(matches!("bytes,packets".parse::<By>(), Err(ByError::Twice(_))));
        assert!("".parse::<By>().is_err());
    }

    #[test]
    fn sums_are_those_of_a_plain_count() {
        let records = records(5000);
        let mut sums = Sums::new("dport,proto,bytes".parse().unwrap(), 1000, 0);
        let mut plain: HashMap<(u16, u8), u64> = HashMap::new();
        for record in &records {
            sums.add(record);
            *plain.entry((record.key.destination_port, record.key.protocol)).or_default() += record.bytes();
        }
        assert!(plain.len() > 1000, "the limit matters");
        let total = sums.all();
        assert_eq!(total.bytes, plain.values().sum::<u64>());
        let short_by = sums.short_by();
        assert!(short_by > 0);
        // The three groups that are seen all the time are far larger than all others.
        for (key, totals) in sums.sorted().iter().take(3) {
            let (Part::Number(port), Part::Protocol(protocol)) = (key[0], key[1]) else { panic!("{key:?}") };
            let exact = plain[&(port as u16, protocol)];
            assert!(totals.bytes <= exact && exact - totals.bytes <= short_by, "{key:?}");
        }
    }

    #[test]
    fn memory_is_bounded_and_what_is_lacking_is_bounded_and_told() {
        let mut sums = Sums::new("flow,bytes".parse().unwrap(), 10, 0);
        for record in records(1000) {
            sums.add(&record);
            assert!(sums.groups.len() <= 10);
        }
        assert!(sums.short_by() > 0);
    }
}
