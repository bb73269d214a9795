//! What the driver's programs are told, and what they count.

use crate::{Class, Reason};

numbered! {
    lanes, "LANE_", "LANES";
    /// What became of a packet in the driver.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Lane as "lane" {
        Express "express" "Forwarded right there.",
        Worker "worker" "Handed to the worker.",
        Pass "pass" "Left to Linux.",
        Drop "drop" "Dropped.",
    }
}

constants! {
    numbers, "";
    /// Ports at most.
    MAX_PORTS: u16 = 256;
    /// Receive queues of a port at most.
    MAX_QUEUES: u32 = 128;
    /// The number of no port.
    NO_PORT: u16 = u16::MAX;
    /// Bytes of a table's block, which is an element of its map.
    BLOCK: usize = 4096;
    /// Words of a block.
    BLOCK32: usize = BLOCK / 4;
    /// The same of 64 bits.
    BLOCK64: usize = BLOCK / 8;
    /// Elements of the map that says which port an interface is.
    PLACES: u32 = 1024;
    /// Ports that an element has room for.
    PORTS_A_PLACE: usize = 4;
    /// Diversions at most.
    DIVERTS: usize = 8;
    /// The bucket of sessions of routing protocols; those before it are the classes'.
    BUCKET_SESSION: usize = Class::COUNT;
    /// The bucket of other packets of who speaks a routing protocol.
    BUCKET_PEER: usize = Class::COUNT + 1;
    /// Buckets of a port.
    BUCKETS: usize = Class::COUNT + 2;
    /// Routing protocols' peers that are told apart, at most; of more it does not matter which.
    MAX_PEERS: usize = 16_384;
    /// Groups of which workers forward packets, at most, by the interface that they come in by.
    MAX_GROUPS: usize = 65_536;
    /// Link addresses of virtual routers that are taken, and addresses that Linux does not answer
    /// for, at most.
    MAX_VIRTUAL: u32 = 65_536;
    /// Hosts on bridges that the driver knows at most. Others are to it as if Linux did not know
    /// them.
    MAX_SENDERS: u32 = 65_536;
    /// Of a frame from a host that Linux does not know behind a bridge's member, on its way to a
    /// worker, the destination's first byte differs from the bridge's own address in these bits,
    /// and its last four bytes are the member's index.
    STRANGER: u8 = 0xfe;
    /// What a key of virtual routers is: the last four bytes of a link address,
    VIRTUAL_KIND_MAC: u16 = 0;
    /// or an IPv4 address, in the host's order.
    VIRTUAL_KIND_ADDRESS: u16 = 1;
    /// Verdicts about flows. Half of them are of the rules in force.
    VERDICTS: usize = 4096;
    /// In the word of the rules in force: theirs is the second half.
    SECOND_HALF: u64 = 1 << 32;
    /// A local address is one of an interface that the main table routes ...
    LOCAL_MAIN: u8 = 1;
    /// ... of one in a VRF ...
    LOCAL_BESIDE: u8 = 2;
    /// ... of either or both.
    LOCAL_ANY: u8 = LOCAL_MAIN | LOCAL_BESIDE;
    /// Besides: tunnels end there that workers open.
    LOCAL_TUNNEL: u8 = 4;
    /// Besides: VXLANs do.
    LOCAL_VXLAN: u8 = 8;
    /// An address's key times this, shifted, is its bit in the filter of local ones.
    LOCAL_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    /// So far: 15 bits are left.
    LOCAL_SHIFT: u32 = 49;
    /// In the number of the true interface of a frame that a worker hands to Linux: it has been
    /// judged.
    JUDGED: u32 = 1 << 31;
    /// The mark (`skb->mark`) of packets that a worker has judged by the router's filter: Linux's
    /// copy of the filter lets them pass.
    JUDGED_MARK: u32 = 0xb1f0_5701;
}

layouts! {
    layouts;

    /// The ports whose interfaces' indexes are the same modulo `PLACES`.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Place as "place" {
        /// The interface's index in the high half, the port's number + 1 in the low; 0 = free.
        word: [u64; PORTS_A_PLACE],
    }

    /// Packets that are a worker's, so that somebody can watch them. IPv4 addresses in the first 4
    /// bytes.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Divert as "divert" {
        /// Where it is from.
        source: [u8; 16],
        /// The bits of that which count.
        source_mask: [u8; 16],
        /// Where it goes.
        destination: [u8; 16],
        /// The bits of that which count.
        destination_mask: [u8; 16],
        /// Host order; 0 = any.
        source_port: u16,
        /// Host order; 0 = any.
        destination_port: u16,
        /// The interface that they come in by; NO_PORT = any.
        interface: u16,
        /// 0 = any.
        protocol: u8,
        /// 4, 6; 0 = either, then without addresses.
        version: u8,
    }

    /// Until when (bpf_ktime_get_coarse_ns) it has been promised that somebody is there.
    pub struct Pulse as "pulse" {
        /// The control thread keeps the tables.
        tables: u64,
        /// Workers empty the rings.
        workers: u64,
    }

    /// A token bucket of `burst` packets filled at `rate` packets a second, as GCRA sees it.
    pub struct Limit as "limit" {
        /// ns a packet: 1e9 / rate; 0 = no limit.
        interval: u64,
        /// ns: interval * burst.
        tolerance: u64,
    }

    /// What the operator has set.
    pub struct Settings as "settings" {
        /// Rules in use.
        diverts: u32,
        /// Nothing: user space writes it with the one before.
        pad: u32,
        /// The rules.
        divert: [Divert; DIVERTS],
        /// The limits of what goes to Linux.
        limit: [Limit; Class::COUNT],
    }

    /// A bucket, in a cache line of its own.
    pub struct Arrival as "arrival" {
        /// When it would be empty again (GCRA's theoretical arrival time).
        time: u64,
        /// Nothing.
        pad: [u64; 7],
    }

    /// The buckets of a port.
    pub struct Arrivals as "arrivals" {
        /// One a class, and two more of routing protocols'.
        bucket: [Arrival; BUCKETS],
    }

    /// Who speaks a routing protocol with this machine.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Peer as "peer" {
        /// Network order; IPv4 addresses mapped into IPv6.
        address: [u32; 4],
        /// The other side's port, host order; 0 with the next one: the address alone.
        theirs: u16,
        /// The port on this machine.
        ours: u16,
    }

    /// A group of which workers forward packets that come in by an interface.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct GroupKey as "group_key" {
        /// Network order; IPv4 addresses mapped into IPv6.
        address: [u32; 4],
        /// The interface.
        interface: u32,
    }

    /// Something of a virtual router's on an interface.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct VirtualKey as "virtual_key" {
        /// The interface.
        interface: u16,
        /// VIRTUAL_KIND_.
        kind: u16,
        /// See there.
        what: u32,
    }

    /// What the rules came to for flows.
    pub struct Verdicts as "verdicts" {
        /// The generation of the rules in force (18 bits; 0: nothing is offloaded), and which half
        /// is theirs.
        force: u64,
        /// Whether flows are to be translated.
        translates: u64,
        /// The verdicts.
        word: [u64; VERDICTS],
    }

    /// What was forwarded by a verdict.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VerdictCount as "verdict_count" {
        /// Packets.
        packets: u64,
        /// Bytes of IP packets.
        bytes: u64,
        /// When the last one came, on the flow table's clock, in ns; 0: none did.
        last: u64,
    }

    /// Packets and their bytes, from the Ethernet header on.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Count as "count" {
        /// Packets.
        packets: u64,
        /// Bytes; of a frame in several buffers, those of the first.
        bytes: u64,
    }

    /// What passed an interface that is no port's own.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Traffic as "traffic" {
        /// What came in by it, tags included.
        received: Count,
        /// What left by it, tags included.
        sent: Count,
    }

    /// Totals of one port since it was taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DriverCounters as "counters" {
        /// By lane.
        lanes: [Count; Lane::COUNT],
        /// Dropped, by reason.
        reasons: [u64; Reason::COUNT],
        /// Handed to Linux, by class.
        passed: [u64; Class::COUNT],
        /// Dropped because over the limit, by class; also among the reasons.
        policed: [u64; Class::COUNT],
    }
}

impl Default for DriverCounters {
    fn default() -> Self {
        DriverCounters::from_words([0; DriverCounters::WORDS])
    }
}

impl DriverCounters {
    /// Words that they are.
    pub const WORDS: usize = size_of::<DriverCounters>() / 8;

    /// Packets and bytes of a lane.
    pub fn lane(&self, lane: Lane) -> Count {
        self.lanes[lane as usize]
    }

    /// Packets dropped for a reason.
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// What was counted after `before`.
    pub fn since(&self, before: &DriverCounters) -> DriverCounters {
        let (now, then) = (self.words(), before.words());
        DriverCounters::from_words(std::array::from_fn(|i| now[i].wrapping_sub(then[i])))
    }

    fn words(&self) -> [u64; DriverCounters::WORDS] {
        let mut words = [0; DriverCounters::WORDS];
        let lanes = self.lanes.iter().flat_map(|count| [count.packets, count.bytes]);
        let rest = self.reasons.iter().chain(&self.passed).chain(&self.policed).copied();
        words.iter_mut().zip(lanes.chain(rest)).for_each(|(word, value)| *word = value);
        words
    }

    /// The counters that these words are.
    pub fn from_words(words: [u64; DriverCounters::WORDS]) -> DriverCounters {
        let mut next = words.into_iter();
        let mut word = || next.next().unwrap_or(0);
        DriverCounters {
            lanes: std::array::from_fn(|_| Count { packets: word(), bytes: word() }),
            reasons: std::array::from_fn(|_| word()),
            passed: std::array::from_fn(|_| word()),
            policed: std::array::from_fn(|_| word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_counters_are_one() {
        let words = std::array::from_fn(|i| i as u64);
        let counters = DriverCounters::from_words(words);
        assert_eq!(counters.words(), words);
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(&counters.bytes()[..], bytes);
    }
}
