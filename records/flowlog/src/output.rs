//! A way out of the log: what a plan wants, and what has come of it.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use crate::clock::now;
use crate::export::{Datagrams, Dialect, Encoder, STALLED, Stream, Style, payload};
use crate::settings::{Collector, Files, Protocol, Transport};
use crate::sink::Line;
use crate::store::{OpenError, Store};
use crate::tally::Tally;

/// Largest message over TCP.
const TCP_MESSAGE: usize = 16_384;
/// After how many messages templates are sent again over UDP, if not by time.
const TEMPLATE_MESSAGES: u32 = 200;

/// Why there is no flow log.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The files.
    #[error("flow log: {0}")]
    Files(#[from] OpenError),
    /// A thread.
    #[error("flow log: cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A way out as a plan has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Collector(Collector, u32),
    Files(Files),
}

/// A way out at work.
#[derive(Debug)]
pub(crate) struct Output {
    wanted: Wanted,
    pub line: Line,
    pub files: Option<OpenFiles>,
}

/// What can be had of files while they are written.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    plan: Arc<RwLock<Files>>,
    pub sealed: Arc<Tally>,
}

impl Wanted {
    /// What its counters are called.
    pub fn name(&self) -> String {
        match self {
            Wanted::Collector(to, _) => to.to_string(),
            Wanted::Files(files) => format!("files {}", files.directory.display()),
        }
    }
}

impl Output {
    /// Begins; counts on where one of the same name has counted.
    pub fn start(wanted: Wanted, tally: Option<Arc<Tally>>) -> Result<Output, StartError> {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = tally.unwrap_or_else(|| Arc::new(Tally::new(wanted.name())));
        let (line, files) = match &wanted {
            Wanted::Collector(to, sampling) => {
                let encoder = Encoder::new(style(to, *sampling), now());
                let line = match to.transport {
                    Transport::Udp => {
                        let sink = Datagrams::new(to.address, to.source, encoder, Arc::clone(&tally));
                        Line::start(sink, "flowlog-udp", to.queue, tally, stop)
                    }
                    Transport::Tcp => {
                        let (to_tally, to_stop) = (Arc::clone(&tally), Arc::clone(&stop));
                        let sink = Stream::new(to.address, encoder, to_tally, to_stop, STALLED);
                        Line::start(sink, "flowlog-tcp", to.queue, tally, stop)
                    }
                };
                (line?, None)
            }
            Wanted::Files(files) => {
                let sealed = Arc::new(Tally::new(format!("parquet {}", files.directory.display())));
                let store = Store::open(files.clone(), Arc::clone(&tally), Arc::clone(&sealed))?;
                let plan = store.plan();
                let line = Line::start(store, "flowlog-files", files.queue, tally, stop)?;
                (line, Some(OpenFiles { plan, sealed }))
            }
        };
        Ok(Output { wanted, line, files })
    }

    /// Whether this is wanted and can go on as it is, or by [following](Output::follow).
    pub fn goes_on_as(&self, wanted: &Wanted) -> bool {
        match (&self.wanted, wanted) {
            (Wanted::Files(here), Wanted::Files(there)) => here.directory == there.directory,
            (here, there) => here == there,
        }
    }

    /// Follows other settings of files in the same directory.
    pub fn follow(&mut self, wanted: &Wanted) {
        if let (Some(open), Wanted::Files(files)) = (&self.files, wanted) {
            // Nobody panics with it.
            open.plan.write().unwrap_or_else(|poisoned| poisoned.into_inner()).clone_from(files);
            self.line.limit(files.queue);
            self.wanted = wanted.clone();
        }
    }
}

fn style(to: &Collector, sampling: u32) -> Style {
    let udp = to.transport == Transport::Udp;
    Style {
        dialect: match to.protocol {
            Protocol::Ipfix { biflow, times } => Dialect::Ipfix { biflow, times },
            Protocol::NetFlow9 => Dialect::NetFlow9,
        },
        limit: if udp { payload(to.mtu, to.address) } else { TCP_MESSAGE },
        domain: to.domain,
        sampling,
        refresh: udp.then_some(to.templates),
        refresh_messages: TEMPLATE_MESSAGES,
    }
}
