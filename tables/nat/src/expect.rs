//! Connections that a control connection has announced, until they come.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

use flow::Tuple;
use wire::protocol;

use crate::mapping::{Endpoint, Inside, Mapping, Pool, Scope, Wanted};
use crate::nat::{Nat, Refusal};
use crate::space::Class;

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

    /// The mappings made for those that are waited for.
    pub fn mappings(&self) -> Vec<Mapping> {
        self.0.values().filter_map(|expected| expected.mapping).collect()
    }

    /// Gives up those that have not come in time: their mappings.
    pub fn expire(&mut self, now: u64) -> Vec<Mapping> {
        let late = self.0.extract_if(|_, expected| expected.until <= now);
        late.filter_map(|(_, expected)| expected.mapping).collect()
    }
}

impl Nat {
    pub(crate) fn expected(&self) -> MutexGuard<'_, Expectations> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects a connection that a control connection has announced (see [`Ftp`](crate::Ftp)), and
    /// returns the port to announce in its stead: a mapping of the same rule as the control
    /// connection's if its host is translated there, else the port itself. `None` when no port is
    /// free, or too many are expected: then nothing is to be announced.
    pub fn expect(&self, announced: &Expectation, now: u64) -> Option<u16> {
        let mut made = None;
        let mut port = announced.inside_port;
        if announced.inside != announced.outside {
            let outside = announced.outside;
            let set = self.ruleset();
            // The rule that made the control connection's mapping, if one did.
            let control = Endpoint { address: outside, port: announced.control_port };
            let scope = self
                .mappings()
                .behind(&control, Class::Tcp)
                .map_or(Scope::default(), |mapping| mapping.inside.scope);
            let ports = set.by_scope.get(&scope.rule).and_then(|at| set.rules[*at].rule.action.dynamic());
            let ports = set.given_out(ports.map_or(&(1024..=65_535), |dynamic| &dynamic.ports));
            let wanted = Wanted { pool: Pool::One(outside), ports, paired: false, host_limit: None };
            let endpoint = Endpoint { address: announced.inside, port: announced.inside_port };
            let inside = Inside { endpoint, class: Class::Tcp, table: announced.table, scope };
            let (mapping, _) =
                self.mappings().acquire(&inside, &wanted, (now / 1_000_000_000) as u32).ok()?;
            if mapping.outside.address != outside {
                self.mappings().release(&mapping.outside, Class::Tcp, &endpoint);
                return None;
            }
            port = mapping.outside.port;
            made = Some(mapping);
        }
        let mut expected = self.expected();
        let ended = expected.insert(announced, port, made, now);
        self.expecting.store(expected.len(), Relaxed);
        drop(expected);
        let full = ended.full;
        for mapping in ended.mappings {
            self.mappings().release(&mapping.outside, Class::Tcp, &mapping.inside.endpoint);
        }
        (!full).then_some(port)
    }

    /// The expected flow has come: the mapping made for it is its own from now on, and released
    /// with it.
    pub(crate) fn settle(&self, original: &Tuple) -> Result<Option<Mapping>, Refusal> {
        let mut expected = self.expected();
        let found = expected.remove(original).ok_or(Refusal::Gone);
        self.expecting.store(expected.len(), Relaxed);
        found
    }

    /// Whether a new flow was announced by a control connection, so that it is related to one (for
    /// the filter).
    pub fn is_expected(&self, original: &Tuple) -> bool {
        self.expecting.load(Relaxed) > 0 && self.expected().find(original).is_some()
    }

    /// Forgets what was expected and has not come; to be called now and then.
    pub fn expire(&self, now: u64) {
        if self.expecting.load(Relaxed) == 0 {
            return;
        }
        let mut expected = self.expected();
        let mappings = expected.expire(now);
        self.expecting.store(expected.len(), Relaxed);
        drop(expected);
        for mapping in mappings {
            self.mappings().release(&mapping.outside, Class::Tcp, &mapping.inside.endpoint);
        }
    }
}
