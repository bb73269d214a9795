//! Connections that a control connection has announced, until they come.

use std::collections::HashMap;

use flow::Tuple;
use wire::protocol;

use crate::mapping::{Endpoint, Mapping};

/// Announced connections at most; a control connection has one at a time.
const MOST: usize = 16_384;
/// How long one is waited for, in ns: as long as Linux waits for FTP's.
const PATIENCE: u64 = 300_000_000_000;

/// A TCP connection that one end has told the other to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Who will open it, from any port.
    pub peer: [u8; 16],
    /// Who has announced it.
    pub inside: [u8; 16],
    /// The port that was announced.
    pub inside_port: u16,
    /// What stands for `inside` where the peer is; the same if it is not translated.
    pub outside: [u8; 16],
    /// The port of the control connection at `outside`.
    pub control_port: u16,
    /// The routing table.
    pub table: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    peer: [u8; 16],
    outside: Endpoint,
    table: u16,
}

/// What a connection that was expected leads to.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub inside: Endpoint,
    pub mapping: Option<Mapping>,
    until: u64,
}

/// All that are waited for.
#[derive(Default)]
pub(crate) struct Expectations(HashMap<Key, Expected>);

/// What became of an insertion.
pub(crate) struct Inserted {
    /// There was no room.
    pub full: bool,
    /// Mappings that nobody waits for any more.
    pub mappings: Vec<Mapping>,
}

fn key(original: &Tuple) -> Key {
    let outside = Endpoint { address: original.destination, port: original.destination_port };
    Key { peer: original.source, outside, table: original.table }
}

impl Expectations {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What a new flow leads to, if it was announced.
    pub fn find(&self, original: &Tuple) -> Option<Expected> {
        (original.protocol == protocol::TCP).then(|| self.0.get(&key(original)).copied())?
    }

    /// Takes it off the list: the mapping made for it, if one was.
    pub fn remove(&mut self, original: &Tuple) -> Option<Option<Mapping>> {
        self.0.remove(&key(original)).map(|expected| expected.mapping)
    }

    /// Waits for one more, at `port`. An announcement said again begins anew.
    pub fn insert(
        &mut self,
        announced: &Expectation,
        port: u16,
        mapping: Option<Mapping>,
        now: u64,
    ) -> Inserted {
        let mut mappings = if self.0.len() >= MOST { self.expire(now) } else { Vec::new() };
        if self.0.len() >= MOST {
            mappings.extend(mapping);
            return Inserted { full: true, mappings };
        }
        let outside = Endpoint { address: announced.outside, port };
        let key = Key { peer: announced.peer, outside, table: announced.table };
        let inside = Endpoint { address: announced.inside, port: announced.inside_port };
        let before = self.0.insert(key, Expected { inside, mapping, until: now.saturating_add(PATIENCE) });
        mappings.extend(before.and_then(|before| before.mapping));
        Inserted { full: false, mappings }
    }

    /// Gives up those that have not come in time: their mappings.
    pub fn expire(&mut self, now: u64) -> Vec<Mapping> {
        let late = self.0.extract_if(|_, expected| expected.until <= now);
        late.filter_map(|(_, expected)| expected.mapping).collect()
    }
}
