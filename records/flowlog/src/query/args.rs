//! The command line of `bifrost flows`.

use std::path::PathBuf;

use clap::Args;

use super::filter::{Filter, Network, Ports, Protocol};
use super::read::Source;
use super::shown::Form;
use super::sums::{By, Dimension, Measure};
use super::when::When;
use super::{QueryError, filter};
use crate::record::{Name, Reason};
use crate::settings::DIRECTORY;
use crate::store::read::Span;

/// What was asked for. Filters of different kinds must all match; of several values of one kind,
/// one must.
#[derive(Clone, Debug, Default, Args)]
pub struct Flows {
    /// Flows that were there after this: `1h` (ago), `2026-11-21`, `17:30`, `2026-11-21T17:30:00Z`,
    /// `@1795280400`
    #[arg(long, value_name = "TIME")]
    pub since: Option<When>,
    /// Flows that were there before this
    #[arg(long, value_name = "TIME")]
    pub until: Option<When>,
    /// With this address or prefix on either side, before or behind translation
    #[arg(long, value_name = "ADDRESS|PREFIX", value_delimiter = ',')]
    pub host: Vec<Network>,
    /// With this address or prefix as the side that began
    #[arg(long, value_name = "ADDRESS|PREFIX", value_delimiter = ',')]
    pub src: Vec<Network>,
    /// With this address or prefix as the other side
    #[arg(long, value_name = "ADDRESS|PREFIX", value_delimiter = ',')]
    pub dst: Vec<Network>,
    /// With this port, or one of a range `A-B`, on either side
    #[arg(long, value_name = "PORT|RANGE", value_delimiter = ',')]
    pub port: Vec<Ports>,
    /// With this port on the side that began
    #[arg(long, value_name = "PORT|RANGE", value_delimiter = ',')]
    pub sport: Vec<Ports>,
    /// With this port on the other side
    #[arg(long, value_name = "PORT|RANGE", value_delimiter = ',')]
    pub dport: Vec<Ports>,
    /// Of this protocol, by name or number
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',')]
    pub proto: Vec<Protocol>,
    /// That came in or left by this interface
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name)]
    pub ifname: Vec<Name>,
    /// From or to this AS
    #[arg(long = "as", value_name = "NUMBER", value_delimiter = ',')]
    pub asn: Vec<u32>,
    /// Of this VRF or routing table
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub table: Vec<u32>,
    /// That ended so: idle, active (a slice of a long flow), end, forced, resources
    #[arg(long, value_name = "REASON", value_delimiter = ',', value_parser = reason)]
    pub reason: Vec<Reason>,
    /// Only the N largest, by bytes unless --by says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub top: Option<u64>,
    /// Add up by these, and sort by one of bytes, packets, flows: `dst,bytes`
    ///
    /// By src, dst, sport, dport, proto, iif, oif, sas, das, table, nexthop, reason, flow, minute,
    /// hour, day.
    #[arg(long, value_name = "LIST")]
    pub by: Option<By>,
    /// As CSV, a line for each
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// As JSON, an object a line
    #[arg(long)]
    pub json: bool,
    /// Leave out flows that still live
    #[arg(long)]
    pub no_live: bool,
    /// Groups that are kept in memory (about 200 bytes each); small ones beyond are dropped, and it
    /// is said
    #[arg(long, value_name = "N", default_value_t = GROUPS, value_parser = groups)]
    pub groups: usize,
    /// Where the router's files are [default: where the running one keeps them, else
    /// /var/lib/bifrost/flows]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Files to read instead: Parquet or journals
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Groups that are kept unless somebody says otherwise.
pub const GROUPS: usize = 1_000_000;

fn groups(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(groups) if (2..=100_000_000).contains(&groups) => Ok(groups),
        _ => Err("a whole number from 2 to 100000000".to_owned()),
    }
}

fn name(text: &str) -> Result<Name, String> {
    match text.len() {
        1..=15 => Ok(Name::new(text)),
        _ => Err("the name of an interface has 1 to 15 characters".to_owned()),
    }
}

fn reason(text: &str) -> Result<Reason, String> {
    let known = || Reason::ALL.map(Reason::name).join(", ");
    Reason::ALL.into_iter().find(|reason| reason.name() == text).ok_or_else(|| format!("one of {}", known()))
}

impl Flows {
    /// Which records are meant, when it is `now` (ns since 1970).
    pub fn filter(&self, now: u64) -> Result<Filter, QueryError> {
        let span = Span {
            since: self.since.map_or(0, |when| when.at(now)),
            until: self.until.map_or(u64::MAX, |when| when.at(now)),
        };
        if span.since > span.until {
            return Err(QueryError::Backwards);
        }
        let ranges = |ports: &[Ports]| ports.iter().map(|ports| ports.0.clone()).collect::<Vec<_>>();
        Ok(filter::Filter {
            span,
            hosts: self.host.iter().map(|network| network.0).collect(),
            sources: self.src.iter().map(|network| network.0).collect(),
            destinations: self.dst.iter().map(|network| network.0).collect(),
            ports: ranges(&self.port),
            source_ports: ranges(&self.sport),
            destination_ports: ranges(&self.dport),
            protocols: self.proto.iter().map(|protocol| protocol.0).collect(),
            interfaces: self.ifname.clone(),
            systems: self.asn.clone(),
            tables: self.table.clone(),
            reasons: self.reason.clone(),
        })
    }

    pub(super) fn form(&self) -> Form {
        match (self.csv, self.json) {
            (true, _) => Form::Csv,
            (_, true) => Form::Json,
            _ => Form::Table,
        }
    }

    /// What to add up by; absent: every flow is shown.
    pub(super) fn by(&self) -> Option<By> {
        let largest = || By { dimensions: Vec::<Dimension>::new(), measure: Measure::Bytes };
        self.by.clone().or_else(|| self.top.map(|_| largest()))
    }

    /// How many of the largest.
    pub(super) fn top(&self) -> usize {
        self.top.map_or(1_000_000, |top| top as usize)
    }

    pub(super) fn source(&self) -> Source {
        match self.files.is_empty() {
            true => Source::Directory(self.dir.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY))),
            false => Source::Files(self.files.clone()),
        }
    }
}
