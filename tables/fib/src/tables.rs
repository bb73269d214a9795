use crate::beside::{Beside, TableId};
use crate::grace::{Epochs, Grace, Retired};
use crate::memory::{Arrays, Capacity, DriverMemory, Memory, Pair, WorkerMemory};
use crate::view::{Shared, View};
use crate::{Adjacency, AdjacencyId, FibError, InterfaceEntry, InterfaceId, NextHop, NextHopId};
use crate::{forward, interface, ipv4, ipv6};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::sync::Arc;
use std::time::Duration;

/// How long an update may wait for readers when a table has run out of room but some of it is
/// waiting for them.
const PATIENCE: Duration = Duration::from_millis(80);
/// Retired pieces that are worth a look at the readers.
const COLLECT_EVERY: usize = 256;

/// The writer of all tables. One thread owns it; readers get a [`View`].
///
/// No call blocks for long: an insertion writes at most the words that its prefix decides (a
/// default route into an IPv4 table: up to 2^24), and waits for readers (at most 80 ms) only if a
/// table is full of what they may still see.
pub struct Tables {
    shared: Arc<Shared>,
    driver: Option<DriverMemory>,
    ipv4: ipv4::Table,
    ipv6: ipv6::Table,
    beside: Beside,
    forward: forward::table::Table,
    interfaces: interface::Table,
    grace: Grace,
}

impl Tables {
    /// Empty tables. With `driver`, every word is written to the driver's copy too.
    pub fn new(capacity: Capacity, driver: Option<DriverMemory>) -> Result<Tables, FibError> {
        let memory = WorkerMemory::new(&capacity)?;
        let sizes = capacity.sizes();
        let worker = memory.arrays;
        let copy = driver.as_ref().map(|driver| Arrays::of_driver(driver, &sizes)).transpose()?;
        let epochs = Arc::new(Epochs::new());
        let fib4 = Pair { worker: worker.fib4, driver: copy.map(|copy| copy.fib4) };
        let fib6 = Pair { worker: worker.fib6, driver: copy.map(|copy| copy.fib6) };
        Ok(Tables {
            ipv4: ipv4::Table::new(fib4, &capacity),
            ipv6: ipv6::Table::new(fib6, &capacity),
            beside: Beside::default(),
            forward: forward::table::Table::new(&worker, copy.as_ref(), &capacity),
            interfaces: interface::Table::new(&memory, copy.as_ref()),
            grace: Grace::new(epochs.clone(), driver.is_some()),
            shared: Arc::new(Shared { memory, epochs }),
            driver,
        })
    }

    /// A reader's view of the tables; clone it for as many threads as need one.
    pub fn view(&self) -> View {
        View::new(self.shared.clone())
    }

    /// Inserts a route, or replaces its next hop; says what it had before. Host bits of the prefix
    /// are ignored.
    pub fn insert4(&mut self, prefix: Ipv4Net, id: NextHopId) -> Result<Option<NextHopId>, FibError> {
        self.forward.check(id)?;
        let (bits, length) = (prefix.network().to_bits(), prefix.prefix_len());
        let old = self.with_room(|tables| tables.ipv4.insert(bits, length, id))?;
        self.forward.count_route(old, Some(id), &mut self.grace);
        self.collect_some();
        Ok(old)
    }

    /// Removes a route; says what it had, `None` when there was none.
    pub fn remove4(&mut self, prefix: Ipv4Net) -> Option<NextHopId> {
        let old = self.ipv4.remove(prefix.network().to_bits(), prefix.prefix_len(), &mut self.grace)?;
        self.forward.count_route(Some(old), None, &mut self.grace);
        self.collect_some();
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get4(&self, prefix: Ipv4Net) -> Option<NextHopId> {
        self.ipv4.routes.get(prefix.network().to_bits(), prefix.prefix_len())
    }

    /// IPv4 routes.
    pub fn len4(&self) -> usize {
        self.ipv4.routes.len()
    }

    /// All IPv4 routes, in no particular order.
    pub fn iter4(&self) -> impl Iterator<Item = (Ipv4Net, NextHopId)> + '_ {
        // Lengths in the table are those of an `Ipv4Net`: none is dropped.
        self.ipv4
            .routes
            .iter()
            .filter_map(|(prefix, length, id)| Some((Ipv4Net::new(prefix.into(), length).ok()?, id)))
    }

    /// Inserts a route, or replaces its next hop; says what it had before. Host bits of the prefix
    /// are ignored.
    pub fn insert6(&mut self, prefix: Ipv6Net, id: NextHopId) -> Result<Option<NextHopId>, FibError> {
        self.forward.check(id)?;
        let (bits, length) = (prefix.network().to_bits(), prefix.prefix_len());
        let old = self.with_room(|tables| tables.ipv6.insert(bits, length, id, &mut tables.grace))?;
        self.forward.count_route(old, Some(id), &mut self.grace);
        self.collect_some();
        Ok(old)
    }

    /// Removes a route; says what it had, `None` when there was none.
    pub fn remove6(&mut self, prefix: Ipv6Net) -> Option<NextHopId> {
        self.make_room_to_remove();
        let old = self.ipv6.remove(prefix.network().to_bits(), prefix.prefix_len(), &mut self.grace)?;
        self.forward.count_route(Some(old), None, &mut self.grace);
        self.collect_some();
        Some(old)
    }

    /// The next hop of exactly this prefix.
    pub fn get6(&self, prefix: Ipv6Net) -> Option<NextHopId> {
        self.ipv6.routes.get(prefix.network().to_bits(), prefix.prefix_len())
    }

    /// IPv6 routes.
    pub fn len6(&self) -> usize {
        self.ipv6.routes.len()
    }

    /// All IPv6 routes, in no particular order.
    pub fn iter6(&self) -> impl Iterator<Item = (Ipv6Net, NextHopId)> + '_ {
        // Lengths in the table are those of an `Ipv6Net`: none is dropped.
        self.ipv6
            .routes
            .iter()
            .filter_map(|(prefix, length, id)| Some((Ipv6Net::new(prefix.into(), length).ok()?, id)))
    }

    /// Inserts a route into any table, as [`insert4`](Self::insert4) does into the main one.
    pub fn insert(
        &mut self,
        table: TableId,
        prefix: IpNet,
        id: NextHopId,
    ) -> Result<Option<NextHopId>, FibError> {
        if table == TableId::MAIN {
            return match prefix {
                IpNet::V4(prefix) => self.insert4(prefix, id),
                IpNet::V6(prefix) => self.insert6(prefix, id),
            };
        }
        self.forward.check(id)?;
        let old = self.with_room(|tables| {
            tables.beside.insert(table, prefix, id, &mut tables.ipv6, &mut tables.grace)
        })?;
        self.forward.count_route(old, Some(id), &mut self.grace);
        self.collect_some();
        Ok(old)
    }

    /// Removes a route of any table; says what it had, `None` when there was none.
    pub fn remove(&mut self, table: TableId, prefix: IpNet) -> Option<NextHopId> {
        if table == TableId::MAIN {
            return match prefix {
                IpNet::V4(prefix) => self.remove4(prefix),
                IpNet::V6(prefix) => self.remove6(prefix),
            };
        }
        self.make_room_to_remove();
        let old = self.beside.remove(table, prefix, &mut self.ipv6, &mut self.grace)?;
        self.forward.count_route(Some(old), None, &mut self.grace);
        self.collect_some();
        Some(old)
    }

    /// The next hop of exactly this prefix in any table.
    pub fn get(&self, table: TableId, prefix: IpNet) -> Option<NextHopId> {
        match prefix {
            _ if table != TableId::MAIN => self.beside.get(table, prefix),
            IpNet::V4(prefix) => self.get4(prefix),
            IpNet::V6(prefix) => self.get6(prefix),
        }
    }

    /// IPv4 and IPv6 routes of all tables.
    pub fn len(&self) -> [usize; 2] {
        let [four, six] = self.beside.len();
        [self.len4() + four, self.len6() + six]
    }

    /// Whether no table has a route.
    pub fn is_empty(&self) -> bool {
        self.len() == [0; 2]
    }

    /// All routes of all tables, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, IpNet, NextHopId)> + '_ {
        let four = self.iter4().map(|(prefix, id)| (TableId::MAIN, IpNet::V4(prefix), id));
        let six = self.iter6().map(|(prefix, id)| (TableId::MAIN, IpNet::V6(prefix), id));
        four.chain(six).chain(self.beside.iter())
    }

    /// A new next hop, for routes to name.
    pub fn add_next_hop(&mut self, next_hop: &NextHop) -> Result<NextHopId, FibError> {
        self.with_room(|tables| tables.forward.add_next_hop(next_hop, &mut tables.grace))
    }

    /// Redirects all routes that name it, by one store. Paths keep the flows they had as far as the
    /// weights allow.
    pub fn set_next_hop(&mut self, id: NextHopId, next_hop: &NextHop) -> Result<(), FibError> {
        self.with_room(|tables| tables.forward.set_next_hop(id, next_hop, &mut tables.grace))
    }

    /// Withdraws a next hop: routes that still name it match as before, but lead nowhere. Its id is
    /// given out again when no route names it and no reader can hold it any more.
    pub fn remove_next_hop(&mut self, id: NextHopId) {
        self.forward.remove_next_hop(id, &mut self.grace);
    }

    /// What a next hop does; `None` too when there is no such next hop. A single path has weight 1.
    pub fn next_hop(&self, id: NextHopId) -> NextHop {
        self.forward.next_hop(id)
    }

    /// A new adjacency, for next hops to name.
    pub fn add_adjacency(&mut self, adjacency: &Adjacency) -> Result<AdjacencyId, FibError> {
        self.with_room(|tables| tables.forward.add_adjacency(adjacency))
    }

    /// Changes its MAC or MTU; its port is fixed.
    pub fn set_adjacency(&mut self, id: AdjacencyId, adjacency: &Adjacency) -> Result<(), FibError> {
        self.forward.set_adjacency(id, adjacency)
    }

    /// Removes an adjacency that no next hop names any more. It is unresolved at once, and its id
    /// is given out again when no reader can hold it.
    pub fn remove_adjacency(&mut self, id: AdjacencyId) {
        self.forward.remove_adjacency(id, &mut self.grace);
    }

    /// An adjacency; `None` when there is no such one.
    pub fn adjacency(&self, id: AdjacencyId) -> Option<Adjacency> {
        self.forward.adjacency(id)
    }

    /// Writes an interface, or that there is none of this number: what its packets may do, and by
    /// which port and tags they come and go. Interfaces below [`InterfaceId::FIRST_LOGICAL`] are
    /// the ports' own.
    ///
    /// # Errors
    /// Where the number is out of range, the tags are another interface's on that port, or there is
    /// no room for them. Nothing has changed then.
    pub fn set_interface(&mut self, id: InterfaceId, entry: Option<InterfaceEntry>) -> Result<(), FibError> {
        self.interfaces.set(id, entry, &mut self.grace)
    }

    /// Says how large packets may be, with their header, that pass to the other end of an
    /// interface that is a tunnel: the path's MTU, as far as it is known. A new header knows none.
    pub fn set_path_mtu(&mut self, id: InterfaceId, mtu: u32) {
        self.interfaces.tunnels().set_path_mtu(id, mtu);
    }

    /// Says whether Linux knows a host with this Ethernet address behind the end that an interface
    /// is ([`Hops::knows_host`]). False where there is no room for it: Linux has what it sends.
    ///
    /// [`Hops::knows_host`]: crate::Hops::knows_host
    pub fn know_host(&mut self, id: InterfaceId, mac: [u8; 6], known: bool) -> bool {
        self.interfaces.tunnels().hosts.set(id, mac, known)
    }

    /// What was written for an interface.
    pub fn interface(&self, id: InterfaceId) -> Option<InterfaceEntry> {
        self.interfaces.get(id)
    }

    /// The adjacencies that either lane has used since the last call.
    pub fn take_used(&mut self) -> Vec<AdjacencyId> {
        self.forward.take_used()
    }

    /// Makes what no reader can see any more available again. Call it now and then (say each round
    /// of the control loop); it never waits.
    pub fn reclaim(&mut self) {
        let items = self.grace.collect();
        self.free(items);
    }

    /// Bytes the tables take now.
    pub fn memory(&self) -> Memory {
        Memory {
            worker_bytes: self.shared.memory.resident_bytes(),
            driver_bytes: self.driver.as_ref().map_or(0, DriverMemory::bytes),
            writer_bytes: self.ipv4.bytes()
                + self.ipv6.bytes()
                + self.beside.bytes()
                + self.forward.bytes()
                + self.grace.bytes(),
        }
    }

    fn collect_some(&mut self) {
        if self.grace.waiting() >= COLLECT_EVERY {
            self.reclaim();
        }
    }

    /// A removal must find the lines that it needs before it gives back others.
    fn make_room_to_remove(&mut self) {
        if !self.ipv6.can_remove() {
            self.wait_for_readers();
            if !self.ipv6.can_remove() {
                let items = self.grace.collect_anyway();
                self.free(items);
            }
        }
    }

    /// Makes a change; when there is no room, gets back what waits for readers, and tries once
    /// more.
    fn with_room<T>(&mut self, change: impl Fn(&mut Tables) -> Result<T, FibError>) -> Result<T, FibError> {
        match change(self) {
            Err(FibError::Full { .. }) if !self.grace.is_empty() => {
                self.wait_for_readers();
                change(self)
            }
            done => done,
        }
    }

    /// Gets back what waits for readers, as far as they pass soon.
    fn wait_for_readers(&mut self) {
        let items = self.grace.collect_within(PATIENCE);
        self.free(items);
    }

    fn free(&mut self, items: Vec<Retired>) {
        for item in items {
            match item {
                Retired::Block4(block) => self.ipv4.free_block(block),
                Retired::Line6(line) => self.ipv6.free_line(line),
                Retired::Direct6(direct) => self.ipv6.free_direct(direct),
                Retired::Buckets { base, log2 } => self.forward.free_buckets(base, log2),
                Retired::NextHop(id) => self.forward.free_next_hop(id),
                Retired::Adjacency(id) => self.forward.free_adjacency(id),
                Retired::Tags(block) => self.interfaces.free_block(block),
                Retired::Tunnel(slot) => self.interfaces.tunnels().free_slot(slot),
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn words6(&self) -> crate::memory::Array<std::sync::atomic::AtomicU32> {
        self.shared.memory.arrays.fib6
    }
}
