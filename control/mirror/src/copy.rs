//! Whether Linux still has the table of nftables that it was given, as it was given.
//!
//! `nft flush ruleset`, the first line of many an `/etc/nftables.conf`, removes it, and anybody may
//! change a rule of it by hand. nftables counts its changes. Where the count has moved, the chains
//! and rules are read again, but for what rules have counted. Asking costs one message while
//! nothing changes. Elements of sets are not read: a million of them take seconds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use crate::netlink::socket::{Dump, Netfilter};
use crate::netlink::{self, netfilter};

/// Reads of a table that keeps changing meanwhile.
const ATTEMPTS: usize = 3;

/// Linux's copy of the filter and translation, as it was when it was last looked at.
#[derive(Default)]
pub struct FilterCopy {
    netfilter: Option<Netfilter>,
    generation: Option<u32>,
    /// What it is to be; `None` while that is not known for certain.
    content: Option<u64>,
}

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// It is as it was loaded.
    Whole,
    /// Somebody has changed or removed it.
    Changed,
    /// Others changed nftables while it was loaded: only another load makes sure.
    Unknown,
}

impl FilterCopy {
    /// Takes for right what `load` puts there, if nobody else has changed nftables meanwhile.
    pub fn load<T, E>(&mut self, load: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let before = self.ask();
        let done = load()?;
        let now = self.read().ok();
        self.content = None;
        self.generation = now.map(|(generation, _)| generation);
        if let (Ok(before), Some((generation, content))) = (before, now)
            && generation == before.wrapping_add(1)
        {
            self.content = Some(content);
        }
        Ok(done)
    }

    /// How it stands. An error where Linux does not say.
    pub fn state(&mut self) -> io::Result<CopyState> {
        let Some(content) = self.content else {
            return Ok(CopyState::Unknown);
        };
        let asked = self.ask()?;
        if self.generation != Some(asked) {
            let (generation, now) = self.read()?;
            self.generation = Some(generation);
            if now != content {
                return Ok(CopyState::Changed);
            }
        }
        Ok(CopyState::Whole)
    }

    fn ask(&mut self) -> io::Result<u32> {
        let mut netfilter = match self.netfilter.take() {
            Some(netfilter) => netfilter,
            None => Netfilter::open()?,
        };
        let generation = netfilter.generation()?;
        self.netfilter = Some(netfilter);
        Ok(generation)
    }

    /// The chains and rules that are there, as one number, and the generation they are of.
    fn read(&mut self) -> io::Result<(u32, u64)> {
        for _ in 0..ATTEMPTS {
            let before = self.ask()?;
            let mut content = DefaultHasher::new();
            each(Dump::chains()?, |kind, body| {
                let chain = (kind == netfilter::CHAIN).then(|| netfilter::parse_chain(body)).flatten();
                if let Some(chain) = chain.filter(netfilter::Chain::is_own) {
                    chain.hash(&mut content);
                }
            })?;
            each(Dump::own_rules()?, |kind, body| {
                if let Some(rule) = netfilter::parse_own_rule(kind, body) {
                    rule.hash(&mut content);
                }
            })?;
            if self.ask()? == before {
                return Ok((before, content.finish()));
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

/// Every message of a dump. A table that is not there has none.
fn each(mut dump: Dump, mut message: impl FnMut(u16, &[u8])) -> io::Result<()> {
    loop {
        for one in netlink::messages(dump.receive()?) {
            match i32::from(one.kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => {
                    let error = netlink::error(&one);
                    return if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) };
                }
                _ => message(one.kind, one.body),
            }
        }
    }
}
