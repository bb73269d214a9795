//! The short way where Linux's routing rules choose the table, or sources are asked where they are:
//! what [`FastPath`](super::FastPath) does instead while it is so.
//!
//! The first rule that each plain packet matches is found for a batch at once, and the tables that
//! those lead to are walked together. Whatever is less simple (a table without a route, `goto`, a
//! refusal) is left to the elements behind.

use fib::{NextHopId, TableId, View, Walk};
use graph::BATCH;
use port::Packet;
use rules::{FlowState, Plain4, Plain6, RoutingRules, Seen, Shown};
use wire::which::lowest;

use super::ETHERNET;
use super::Sources;
use super::family::{V4, V6};
use super::leave::Leave;
use super::plain::{Chosen, Upper};
use super::steer::Reader;
use super::wide::wide;

/// Batches for which this goes on after the last one that had a packet whose source was asked for:
/// those of other interfaces come in between.
const PATIENCE: u32 = 1024;

/// Packets of both families on their way.
pub(super) struct Steered {
    rules: Reader,
    /// Batches for which sources may still be asked for.
    patience: u32,
    four: Way<V4>,
    six: Way<V6>,
}

/// Packets of a family.
struct Way<F: Ask> {
    chosen: Chosen<F>,
    keys: Box<F::Keys>,
    walks: Box<Walks>,
}

impl<F: Ask> Way<F> {
    fn new() -> Way<F> {
        Way { chosen: Chosen { by_rules: true, ..Chosen::new() }, keys: Box::default(), walks: Walks::new() }
    }
}

/// A family's packets as routing rules know them.
trait Ask: Leave {
    type Keys: Default + Send;

    fn set(keys: &mut Self::Keys, shown: &Shown<'_, Self::Address>);
    fn firsts(keys: &Self::Keys, rules: &RoutingRules, seen: impl Fn(usize) -> Seen) -> [u32; BATCH];
}

macro_rules! ask {
    ($family:ty, $keys:ty, $firsts:ident) => {
        impl Ask for $family {
            type Keys = $keys;

            #[inline(always)]
            fn set(keys: &mut $keys, shown: &Shown<'_, Self::Address>) {
                keys.set(shown);
            }

            #[inline(always)]
            fn firsts(keys: &$keys, rules: &RoutingRules, seen: impl Fn(usize) -> Seen) -> [u32; BATCH] {
                rules.$firsts(keys, seen)
            }
        }
    };
}
ask!(V4, Plain4, firsts4);
ask!(V6, Plain6, firsts6);

wide! {
    fn set_keys[F: Ask](way: &mut Way<F>) {
        let Way { chosen, keys, .. } = way;
        let Chosen { count, destinations, upper, ways, .. } = chosen;
        let Upper { sources, protocols, ports, inputs, .. } = upper;
        // Where they leave is not asked.
        let (count, outputs, state) = (*count, &ways.outputs, FlowState::default());
        let shown = Shown { count, sources, destinations, protocols, ports, inputs, outputs, state };
        F::set(keys, &shown);
    }
}

impl<F: Ask> Way<F> {
    /// Sends those chosen whose table is simple to tell; their places, as bits.
    #[inline(always)]
    fn send(&mut self, packets: &mut [Packet], view: &View, rules: &RoutingRules) -> u64 {
        let steered = by_rules(view, &self.chosen);
        let mut simple = self.chosen.upper.whole;
        if steered == 0 || rules.is_empty() {
            self.chosen.look_up(view);
        } else {
            set_keys(self);
            let Way { chosen, keys, walks } = self;
            let seen = |n: usize| {
                let ip = packets.get(chosen.place(n)).and_then(|packet| packet.data().get(ETHERNET..));
                // Never refused: the headers are whole.
                ip.and_then(|ip| Seen::read(ip, chosen.upper.inputs[n % BATCH])).unwrap_or_default()
            };
            let firsts = F::firsts(keys, rules, seen);
            let (hard, main) = walks.sort(chosen, rules, &firsts, steered);
            if main != 0 {
                chosen.look_up(view);
            }
            walks.walk(view, chosen);
            simple &= !hard;
        }
        let aimed = self.chosen.aim_found(simple, view, packets);
        self.chosen.depart(aimed, view, packets)
    }
}

/// Which of the packets came in by interfaces that rules concern: bits.
#[inline(always)]
fn by_rules<F: Leave>(view: &View, chosen: &Chosen<F>) -> u64 {
    let (hops, mut by_rules) = (view.hops(), 0);
    let (mut input, mut concerned) = (fib::InterfaceId::NONE.0, 0u64);
    for (n, of) in chosen.upper.inputs[..chosen.count.min(BATCH)].iter().enumerate() {
        if *of != input {
            input = *of;
            let table = hops.link(fib::InterfaceId(input)).table();
            concerned = u64::from(table == TableId::BY_RULES);
        }
        by_rules |= concerned << n;
    }
    by_rules
}

/// Which packets are looked up in tables beside the main one, by their numbers.
struct Walks {
    count: usize,
    of: [u8; BATCH],
    walks: [Walk; BATCH],
    found: [NextHopId; BATCH],
}

impl Walks {
    fn new() -> Box<Walks> {
        let (walks, found) = ([Walk::default(); BATCH], [NextHopId::NONE; BATCH]);
        Box::new(Walks { count: 0, of: [0; BATCH], walks, found })
    }

    /// Sorts those steered (bits) by the tables of their first rules. Those that more is to be done
    /// with, and those that the main table decides: bits.
    #[inline(always)]
    fn sort<F: Leave>(
        &mut self,
        chosen: &Chosen<F>,
        rules: &RoutingRules,
        firsts: &[u32; BATCH],
        steered: u64,
    ) -> (u64, u64) {
        let (mut count, mut hard, mut main) = (0, 0u64, !steered & lowest(chosen.count));
        for (n, first) in firsts.iter().enumerate().take(chosen.count) {
            let table = rules.only_looks_into(*first);
            hard |= u64::from(table.is_none()) << n;
            let table = TableId(table.unwrap_or_default());
            main |= u64::from(table == TableId::MAIN) << n;
            self.walks[count % BATCH] = F::walk(table, chosen.destinations[n]);
            self.of[count % BATCH] = n as u8;
            count += usize::from((table != TableId::MAIN) & (steered >> n & 1 != 0));
        }
        self.count = count;
        (hard & steered, main)
    }

    /// Puts down their next hops. Where a table has none, the next rule decides, elsewhere.
    #[inline(always)]
    fn walk<F: Leave>(&mut self, view: &View, chosen: &mut Chosen<F>) {
        let Walks { count, of, walks, found } = self;
        view.lookup_beside(&walks[..*count], &mut found[..*count]);
        for (n, id) in of[..*count].iter().zip(found) {
            chosen.ids[usize::from(*n) % BATCH] = *id;
        }
    }
}

impl Steered {
    pub fn new(rules: Reader) -> Steered {
        Steered { rules, patience: 0, four: Way::new(), six: Way::new() }
    }

    /// Whether there are such rules or sources; to be asked once a batch.
    #[inline(always)]
    pub fn is_asked(&mut self) -> bool {
        self.rules.refresh();
        self.rules.any() || self.patience > 0
    }

    /// Sources are asked for.
    pub fn ask_sources(&mut self) {
        self.patience = PATIENCE;
    }

    /// Sends plain packets; their places, as bits.
    #[inline(never)]
    pub fn send(&mut self, view: &View, sources: &Sources, packets: &mut [Packet]) -> u64 {
        let Steered { rules, four, six, patience } = self;
        let mut sent = 0;
        *patience = patience.saturating_sub(1);
        let others = four.chosen.choose_upper(view, sources, packets);
        if four.chosen.upper.whole != 0 {
            sent = four.send(packets, view, rules.rules::<V4>());
        }
        if others != 0 {
            six.chosen.choose(view, packets, others, true);
            sent |= six.send(packets, view, rules.rules::<V6>());
        }
        if four.chosen.sources_are_asked || others != 0 && six.chosen.sources_are_asked {
            *patience = PATIENCE;
        }
        sent
    }
}
