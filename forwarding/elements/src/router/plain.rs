//! Plain packets: which of a batch are, as far as their headers show.
//!
//! Most packets need nothing but to be forwarded. The elements that do all of it at once
//! ([`FastPath`](super::FastPath), [`FlowPath`](super::FlowPath), [`RulesPath`](super::RulesPath))
//! begin here and end with [`leave`](super::leave), and differ in what they ask in between. What is
//! not plain in any way stays as it came.
//!
//! A batch is handled in loops, for memory's sake: the first reads headers, which were asked for
//! some packets before; others find out which are plain and where those go, ask the tables for all
//! of them, so that their waits overlap; the last writes. What is noted of a packet stands under
//! its number, and which packets are still in the run is a word of bits.

use std::ops::Range;

use fib::{AdjacencyId, AdjacencyWord, Hops, InterfaceId, NextHopId, TableId};
use graph::BATCH;
use port::Packet;
use wire::which::numbers;

use super::columns::Columns;
use super::family::{Family, V4, V6};

/// How many packets ahead the headers are fetched.
pub(super) const AHEAD: usize = 6;

/// A family whose packets can be plain.
pub(super) trait Plain: Family {
    /// Where headers are copied to be looked at together.
    type Columns: Default + Send;
}

impl Plain for V4 {
    type Columns = Columns;
}

impl Plain for V6 {
    type Columns = ();
}

/// The packets of a batch that are plain, by numbers from 0 on in the order of the batch: their
/// places in it, where they go, and by which path; and what of their headers is wanted by those who
/// ask for more.
pub(super) struct Chosen<F: Plain> {
    /// How many there are.
    pub(super) count: usize,
    /// The places of the packets that they were chosen among.
    pub(super) group: Range<usize>,
    pub(super) places: [u8; BATCH],
    pub(super) destinations: [F::Address; BATCH],
    pub(super) ids: [NextHopId; BATCH],
    pub(super) upper: Upper<F>,
    pub(super) ways: Ways,
    /// Those are chosen as well whose table routing rules choose.
    pub(super) by_rules: bool,
    /// Some came in by an interface that asks sources where they are.
    pub(super) sources_are_asked: bool,
}

/// What rules and flows ask packets for, in columns.
pub(super) struct Upper<F: Plain> {
    /// The plain packets that are whole ones of TCP and UDP, whose header is in order as
    /// [`Headers::read`](wire::Headers::read) asks it to be: bits. Of others nothing that stands
    /// here counts.
    pub(super) whole: u64,
    pub(super) sources: [F::Address; BATCH],
    pub(super) protocols: [u32; BATCH],
    /// The source's in the upper half.
    pub(super) ports: [u32; BATCH],
    /// Bytes from the IP header on.
    pub(super) lengths: [u32; BATCH],
    /// The ports of the router that packets came by.
    pub(super) inputs: [u16; BATCH],
    pub(super) columns: F::Columns,
}

/// By which paths packets go, in columns.
pub(super) struct Ways {
    pub(super) paths: [AdjacencyId; BATCH],
    /// The neighbours at their ends.
    pub(super) neighbours: [AdjacencyWord; BATCH],
    /// The ports that they leave by.
    pub(super) outputs: [u16; BATCH],
}

impl<F: Plain> Chosen<F> {
    pub(super) fn new() -> Chosen<F> {
        Chosen {
            count: 0,
            group: 0..0,
            places: [0; BATCH],
            destinations: [F::Address::default(); BATCH],
            ids: [NextHopId::NONE; BATCH],
            upper: Upper {
                whole: 0,
                sources: [F::Address::default(); BATCH],
                protocols: [0; BATCH],
                ports: [0; BATCH],
                lengths: [0; BATCH],
                inputs: [InterfaceId::NONE.0; BATCH],
                columns: F::Columns::default(),
            },
            ways: Ways {
                paths: [AdjacencyId::default(); BATCH],
                neighbours: [AdjacencyWord([0; 2]); BATCH],
                outputs: [InterfaceId::NONE.0; BATCH],
            },
            by_rules: false,
            sources_are_asked: false,
        }
    }

    /// The place in the batch of the packet of this number.
    #[inline(always)]
    pub(super) fn place(&self, number: usize) -> usize {
        usize::from(self.places[number % BATCH])
    }

    /// The places of these (bits), as bits.
    #[inline(always)]
    pub(super) fn in_batch(&self, these: u64) -> u64 {
        // The last one tells: places rise, as numbers do.
        if self.count == 0 || self.place(self.count - 1) == self.count - 1 {
            return these;
        }
        numbers(these).fold(0, |places, n| places | 1 << self.place(n))
    }

    /// Notes a packet as number `count`. If it is not plain, that number will be given again: so
    /// there is no branch.
    #[inline(always)]
    pub(super) fn note(&mut self, count: usize, place: usize, destination: F::Address) {
        self.places[count % BATCH] = place as u8;
        self.destinations[count % BATCH] = destination;
    }
}

/// What is to be known of the port that packets come in by.
#[derive(Clone, Copy)]
pub(super) struct Input {
    id: InterfaceId,
    /// Its address, as the first bytes of a frame.
    mac: u64,
    /// 0 if it forwards by a table that may be, and asks nothing of sources that is not answered.
    closed: u64,
    /// It may be one for whose packets routing rules choose the table.
    by_rules: bool,
    /// It may be one that asks sources where they are: [`Chosen::vouch`] is called for its packets.
    vouched: bool,
    /// Some of those so far do.
    pub(super) sources_are_asked: bool,
}

impl Input {
    pub(super) const NONE: Input = Input {
        id: InterfaceId::NONE,
        mac: 0,
        closed: 1,
        by_rules: false,
        vouched: false,
        sources_are_asked: false,
    };

    /// None yet, and of which kinds it may be.
    pub(super) fn none(by_rules: bool, vouched: bool) -> Input {
        Input { by_rules, vouched, ..Input::NONE }
    }

    #[inline(always)]
    pub(super) fn turn_to<F: Family>(&mut self, hops: &Hops<'_>, id: InterfaceId) {
        if self.id != id {
            self.turn::<F>(hops, id);
        }
    }

    #[cold]
    #[inline(never)]
    fn turn<F: Family>(&mut self, hops: &Hops<'_>, id: InterfaceId) {
        let word = hops.interface(id);
        let flags = word.flags();
        let table = hops.link(id).table();
        let asks = flags.intersects(F::STRICT | F::LOOSE);
        let main = table == TableId::MAIN;
        let open = flags.contains(F::FORWARD)
            && (!asks || self.vouched && main)
            && (main || self.by_rules && table == TableId::BY_RULES);
        let [a, b, c, d, e, f] = word.mac();
        let first = [a, b, c, d, e, f, 0, 0];
        (self.id, self.mac, self.closed) = (id, u64::from_le_bytes(first), u64::from(!open));
        self.sources_are_asked |= asks;
    }

    /// Whether a packet of one piece came by it, addressed to it, and may leave.
    #[inline(always)]
    pub(super) fn takes<const N: usize>(&self, packet: &Packet, frame: &[u8; N]) -> bool {
        let first = frame.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        // The last two bytes are not the address's.
        let differs = (first ^ self.mac) << 16;
        differs | self.closed | (packet.segment_count() - 1) as u64 == 0
    }
}
