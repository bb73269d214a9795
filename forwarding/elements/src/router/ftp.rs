//! Ftp: lets the data connections of FTP through that its control connections announce
//!
//! Group: router
//! Usage: `Ftp`
//! Ports: 1 input, 1 output; push
//!
//! FTP says in its text which address and port to call for the data. A connection so announced is
//! let in as `related` to the control connection (TCP to port 21), whichever side announces it;
//! where addresses are translated the text is changed to what the other side can call, and the
//! sequence numbers behind the change with it. An announcement of another host than the one that
//! speaks is left alone (RFC 2577, section 3).
//!
//! What is inside TLS cannot be read. `[flow] ftp = "off"` leaves this element out.
//!
//! See also: [Track], [Translate]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fib::View;
use flow::{Account, Direction, Phase, Tuple};
use graph::{BATCH, Batch, Class, Context, Element};
use nat::ftp::{GROWTH, PORT};
use port::Packet;
use wire::{Headers, Reason, protocol, tcp};

use super::context::{SharedContext, WorkerContext};
use super::router_context::on_flows;
use super::translate::rewriting;

/// The class `Ftp`.
pub const CLASS: Class = Class {
    name: "Ftp",
    ports: "1/1",
    processing: Class::PUSH,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("ftp.rs"),
    make: |arguments, setup| on_flows(arguments, setup, |view, context| Ftp { view, context }),
};

/// Control connections that are remembered at most.
const MOST: usize = 65_536;

/// What is remembered of control connections. Their two directions may come by two workers;
/// segments of them are few, so one lock is enough for all.
#[derive(Default)]
pub struct ControlConnections(Mutex<HashMap<Tuple, Remembered>>);

/// What is remembered of one, and of which flow it is: by the same ports another may begin before
/// the end of one is told.
#[derive(Default)]
struct Remembered {
    flow: u32,
    connection: nat::Ftp,
}

impl ControlConnections {
    /// None yet.
    pub fn new() -> Arc<ControlConnections> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tuple, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a segment is tracked: corrects what it acknowledges.
    pub(super) fn acknowledge(
        &self,
        original: &Tuple,
        ip: &mut [u8],
        headers: &Headers,
        direction: Direction,
    ) {
        if let Some(known) = self.lock().get(original) {
            known.connection.acknowledge(ip, headers, direction);
        }
    }

    /// A connection has ended.
    pub(super) fn forget(&self, account: &Account) {
        if nat::Ftp::is_control(&account.original) {
            let mut known = self.lock();
            if known.get(&account.original).is_some_and(|known| known.flow == account.id) {
                known.remove(&account.original);
            }
        }
    }
}

/// Whether a packet may be of a control connection.
#[inline]
pub(super) fn may_be_control(headers: &Headers) -> bool {
    headers.protocol == protocol::TCP && (headers.destination_port == PORT || headers.source_port == PORT)
}

/// Reads and changes announcements. Drops (`ports_exhausted`, `untranslatable`) a segment whose
/// announcement cannot be translated.
pub struct Ftp {
    view: View,
    context: SharedContext,
}

/// Passes on a segment, if it is of a control connection.
#[cold]
fn pass(view: &View, context: &mut WorkerContext, packet: &mut Packet, now: u64) -> Result<(), Reason> {
    let (Some(connections), Some(nat)) = (context.ftp.clone(), context.nat.clone()) else { return Ok(()) };
    let translated =
        rewriting(view, context, packet).filter(|found| !found.error).map(|found| (found.seen, found.to));
    let (Some(metadata), Some(flows)) = context.open(packet) else { return Ok(()) };
    let Some(hit) = metadata.hit else { return Ok(()) };
    let original = flows.original(&hit);
    if !nat::Ftp::is_control(&original) || packet.segment_count() != 1 {
        return Ok(());
    }
    let plain = if hit.direction == Direction::Original { original } else { original.reversed() };
    let (seen, to) = translated.unwrap_or((plain, plain));
    let mut known = connections.lock();
    if known.len() >= MOST && !known.contains_key(&original) {
        return Ok(());
    }
    let Remembered { flow, connection } = known.entry(original).or_default();
    *flow = hit.id();
    let begins = matches!(flows.phase(&hit), Some(Phase::Opening | Phase::Answered));
    if begins && metadata.headers.tcp_flags & tcp::flag::SYN != 0 {
        // By the same ports as one before it, of which there may be something left.
        *connection = nat::Ftp::default();
    }
    let (l3, headers) = (packet.l3(), metadata.headers);
    let room = packet.tailroom().min(GROWTH);
    if packet.extend(room).is_none() {
        return Err(Reason::Untranslatable);
    }
    let expect = |wanted: &nat::Expectation| nat.expect(wanted, now);
    let passed = connection.pass(packet.network_mut(), &headers, hit.direction, [&seen, &to], expect);
    let length = *passed.as_ref().unwrap_or(&usize::from(headers.length));
    packet.truncate(l3 + length);
    metadata.headers.length = u16::try_from(length).unwrap_or(u16::MAX);
    passed.map(drop).map_err(super::refused)
}

impl Element for Ftp {
    fn class(&self) -> &'static str {
        CLASS.name
    }

    fn push(&mut self, _input: usize, batch: &mut Batch, cx: &mut Context<'_>) {
        let mut context = self.context.lock();
        if context.controls > 0 {
            let (mut wrong, mut reasons) = (0u64, [Reason::None; BATCH]);
            for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
                if context.metadata(packet).is_some_and(|metadata| may_be_control(&metadata.headers))
                    && let Err(reason) = pass(&self.view, &mut context, packet, cx.now())
                {
                    (wrong, reasons[index]) = (wrong | 1 << index, reason);
                }
            }
            batch.take(wrong, |index, packet| cx.drop(packet, reasons[index]));
        }
        cx.emit_batch(0, batch);
    }
}
