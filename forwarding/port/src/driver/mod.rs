//! The programs in the driver: load, attach, feed and read them.
//!
//! One [`Driver`] serves all ports, and so do its programs: which port a packet came in by they
//! find by the interface's index (`places.rs`). To verify a program takes the kernel some hundred
//! milliseconds, so each is loaded once, and to take a port is to attach it. The tables' maps are
//! handed to `fib` as plain memory. Attachments are bpf links: they end when they are dropped *or
//! when this process dies*, whatever the reason, and Linux then forwards every packet itself. That
//! is the safety net.

mod copies;
mod counters;
mod divert;
mod extra;
mod flows;
mod groups;
mod handed;
mod loader;
mod local;
mod peers;
mod places;
pub mod pulse;
mod virtual_routers;

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

use abi::driver::{BLOCK, Divert, Limit, Place, Settings};
pub use abi::driver::{DIVERTS as MAX_DIVERTS, MAX_GROUPS, MAX_PORTS, MAX_QUEUES};
use fib::{InterfaceId, Locality, PortId, Sizes};
use wire::Class;

use crate::DriverError;
use crate::bpf::map::Mapping;
use crate::bpf::{object, sys};

pub use abi::{Count, DriverCounters, Lane, Traffic};
use abi::{Gate, Step};
pub(crate) use counters::sum_per_cpu;
pub use divert::FlowMatch;
pub use extra::Extra;
pub use flows::{Counted, Half, OffloadedVerdict, VERDICTS, Verdicts};
pub use groups::Group;
pub use handed::HandedLink;
use loader::{Loader, copies_of};
use local::LocalAddresses;
pub use local::{TunnelEnd, TunnelEnds};
pub use peers::Peer as RoutingPeer;
use places::Places;
use pulse::Pulse;
pub use virtual_routers::VirtualRouters;

/// Descriptors that a router with all its ports and queues stays below.
const HIGH: u64 = 65_536;
/// The programs for frames with tags. The second leads to the first, so it comes when that is
/// there.
const OF_TAGS: [Step; 2] = [Step::Untagged, Step::Tagged];
/// The packet tracer has its own of these, so that it neither counts nor uses up anything.
const OF_PACKET_TRACER: [&str; 10] =
    ["places", "sockets", "counters", "gate", "steps", "entered", "routes", "sent", "logical", "arrivals"];
/// The interface that a program runs for when it is tried without one.
const LOOPBACK: u32 = 1;

/// How a program may be attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Native, and if the driver cannot, generic.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the stack, before everything else: works with every interface, at a fraction of the
    /// speed.
    Generic,
}

/// How a program is attached, and why not better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Whether it runs in the driver.
    pub native: bool,
    /// The reason when it does not.
    pub why: Option<String>,
}

/// What a program did with a frame in [`Driver::test_run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// `enum xdp_action`: 1 drop, 2 pass, 4 redirect.
    pub action: u32,
    /// The frame as the program left it.
    pub bytes: Vec<u8>,
    /// What it added to the port's counters; true only while the port receives nothing else.
    pub counted: DriverCounters,
}

/// The programs and their maps.
pub struct Driver {
    loader: Loader,
    shared: HashMap<String, OwnedFd>,
    programs: Programs,
    /// The entry once more, and the maps of its own.
    packet_tracer: Option<(OwnedFd, HashMap<String, OwnedFd>)>,
    ports: HashMap<PortId, Port>,
    /// The interfaces in the map `targets`.
    targets: HashMap<PortId, u32>,
    /// Absent while nobody watches.
    copies: Option<copies::Copies>,
    places: Places,
    locals: LocalAddresses,
    /// Those that frames have by now, or soon.
    extras: Vec<Extra>,
    peers: HashSet<RoutingPeer>,
    groups: HashSet<Group>,
    settings: Mapping,
    pulse: Pulse,
    sizes: Sizes,
    /// What frames end with that are moved to the ingress of an interface whose program is generic.
    mark: u32,
    marks: Marks,
}

/// The entry, by how it is attached: in the driver it need not look for frames that were injected.
#[derive(Default)]
struct Programs {
    native: Option<OwnedFd>,
    generic: Option<OwnedFd>,
}

/// What the frames that a worker hands to Linux must end with, by interface: those with a generic
/// program. Shared with the [`Injector`](crate::Injector).
pub(crate) type Marks = Arc<RwLock<HashMap<u32, u32>>>;

struct Port {
    ifindex: u32,
    native: bool,
    link: Option<OwnedFd>,
    /// The program is still that of the process that handed it over.
    is_anothers: bool,
    /// Those that were given a socket.
    queues: HashSet<u32>,
}

impl Driver {
    /// Makes the shared maps, with tables of these sizes ([`fib::Capacity::sizes`]). Nothing is
    /// attached yet.
    pub fn new(sizes: &Sizes) -> Result<Driver, DriverError> {
        let object = object::bifrost()?;
        let blocks = |bytes: usize| Some((bytes / BLOCK).max(1) as u32);
        let mut shared = HashMap::new();
        for (name, map) in &object.maps {
            if !map.data().is_empty() {
                continue;
            }
            let entries = match name.as_str() {
                "fib4" => blocks(sizes.fib4),
                "fib6" => blocks(sizes.fib6),
                "nexthops" => blocks(sizes.nexthops),
                "buckets" => blocks(sizes.buckets),
                "adjacencies" => blocks(sizes.adjacencies),
                "used" => blocks(sizes.used),
                "interfaces" => blocks(sizes.interfaces),
                "tags" => blocks(sizes.tags),
                _ => None,
            };
            let fd = object::create(name, map, entries)?;
            let fd = if ["gate", "steps"].contains(&name.as_str()) { above_all_others(fd)? } else { fd };
            shared.insert(name.clone(), fd);
        }
        let settings = map_array(&shared, "settings", size_of::<Settings>().next_multiple_of(BLOCK))?;
        let filter = map_array(&shared, "local_filter", BLOCK)?;
        let pulse = Pulse::new(map_array(&shared, "pulse", BLOCK)?);
        Ok(Driver {
            loader: Loader { object, rest4: sizes.rest4 },
            shared,
            programs: Programs::default(),
            packet_tracer: None,
            ports: HashMap::new(),
            targets: HashMap::new(),
            copies: None,
            places: Places::new(),
            locals: LocalAddresses::new(filter),
            extras: Vec::new(),
            peers: HashSet::new(),
            groups: HashSet::new(),
            settings,
            pulse,
            sizes: *sizes,
            mark: secret().map_err(DriverError::io("cannot draw a random number"))?,
            marks: Marks::default(),
        })
    }

    /// The tables' maps as memory, for [`fib::Tables::new`].
    pub fn table_memory(&self) -> Result<fib::DriverMemory, DriverError> {
        let mut mappings = Vec::new();
        let mut region = |name: &str, bytes: usize| {
            let mapping = map_array(&self.shared, name, bytes)?;
            // SAFETY: a shared mapping of a zeroed bpf array that nothing else writes (the programs
            // write only to `used`, single words); it lives as long as the owner below.
            let region = unsafe { fib::Region::new(mapping.base(), mapping.bytes()) };
            mappings.push(mapping);
            Ok::<_, DriverError>(region)
        };
        let sizes = &self.sizes;
        Ok(fib::DriverMemory {
            fib4: region("fib4", sizes.fib4)?,
            fib6: region("fib6", sizes.fib6)?,
            nexthops: region("nexthops", sizes.nexthops)?,
            buckets: region("buckets", sizes.buckets)?,
            adjacencies: region("adjacencies", sizes.adjacencies)?,
            used: region("used", sizes.used)?,
            interfaces: region("interfaces", sizes.interfaces)?,
            tags: region("tags", sizes.tags)?,
            owner: Box::new(mappings),
        })
    }

    /// Loads what every router needs, so that no port waits for it. All at once, as each takes the
    /// kernel a while. What runs where a driver has no XDP, and what answers questions, are loaded
    /// when they are first needed: few routers need either, and all wait for a start.
    pub fn prepare(&mut self) -> Result<(), DriverError> {
        let this = &*self;
        let (native, behind) = std::thread::scope(|scope| {
            let native = scope.spawn(|| this.loader.loaded("bifrost", 0, &this.shared));
            let behind = this.open_ways();
            (joined(native), behind)
        });
        behind?;
        self.programs.native = Some(native?);
        Ok(())
    }

    /// Prepares a port without attaching its program to an interface: [`Driver::test_run`] runs it
    /// all the same. Its counters start empty.
    pub fn load(&mut self, port: PortId) -> Result<(), DriverError> {
        self.entry(true)?;
        self.begin(port, LOOPBACK)?;
        self.admit(port)
    }

    /// The program to attach; loaded at its first use.
    fn entry(&mut self, native: bool) -> Result<BorrowedFd<'_>, DriverError> {
        if self.programs.native.is_none() && self.programs.generic.is_none() {
            self.open_ways()?;
        }
        let known = if native { &self.programs.native } else { &self.programs.generic };
        if known.is_none() {
            let loaded =
                Some(self.loader.loaded("bifrost", if native { 0 } else { self.mark }, &self.shared)?);
            *(if native { &mut self.programs.native } else { &mut self.programs.generic }) = loaded;
        }
        let entry = if native { &self.programs.native } else { &self.programs.generic };
        let entry = entry.as_ref().ok_or_else(|| DriverError::NoProgram { name: "bifrost".into() })?;
        Ok(entry.as_fd())
    }

    /// Opens the ways that lead from the entry to other programs, whatever the configuration.
    fn open_ways(&self) -> Result<(), DriverError> {
        Gate::ALL.into_iter().try_for_each(|gate| self.loader.open_gate(gate, &self.shared))?;
        OF_TAGS.into_iter().try_for_each(|step| self.loader.add_step(step, &self.shared))
    }

    /// From now on frames have these programs. The kernel takes its time to check them, so it is
    /// not waited for: until then workers forward. The first time, who does it is told.
    pub fn open(&mut self, extra: Extra) -> Result<Option<JoinHandle<Result<(), DriverError>>>, DriverError> {
        if self.extras.contains(&extra) {
            return Ok(None);
        }
        self.extras.push(extra);
        self.packet_tracer = None;
        let (programs, maps) = (self.loader.clone(), copies_of(&self.shared)?);
        let open = move || extra.steps().iter().try_for_each(|step| programs.add_step(*step, &maps));
        let thread = std::thread::Builder::new().name("programs".into()).spawn(open);
        thread.map(Some).map_err(DriverError::io("cannot start a thread"))
    }

    /// A port's counters are empty, and it has no sockets.
    fn begin(&mut self, port: PortId, ifindex: u32) -> Result<(), DriverError> {
        if port.0 >= MAX_PORTS {
            return Err(DriverError::PortRange(port));
        }
        counters::clear(self.shared("counters")?, port).map_err(failed("counters", "write"))?;
        self.ports.insert(
            port,
            Port { ifindex, native: false, link: None, is_anothers: false, queues: HashSet::new() },
        );
        Ok(())
    }

    /// From now on what comes in by the interface of an attached port is the port's.
    pub fn admit(&mut self, port: PortId) -> Result<(), DriverError> {
        let ifindex = self.ports.get(&port).ok_or(DriverError::NotAttached(port))?.ifindex;
        let (at, place) = self.places.put(ifindex, port).ok_or(DriverError::NoPlace { ifindex })?;
        self.write_place(at, place)?;
        self.replace_anothers(port)
    }

    fn write_place(&self, at: u32, place: Place) -> Result<(), DriverError> {
        sys::map_update(self.shared("places")?, &at.to_ne_bytes(), &place.bytes())
            .map_err(failed("places", "write"))
    }

    /// Attaches the program to an interface, for a port. The port's sockets and counters start
    /// empty.
    pub fn attach(&mut self, port: PortId, ifindex: u32, mode: Mode) -> Result<Attachment, DriverError> {
        let attached = self.stand_by(port, ifindex, mode)?;
        self.admit(port).inspect_err(|_| self.detach(port))?;
        Ok(attached)
    }

    /// As [`Driver::attach`], but the program leaves every packet to Linux before
    /// [`Driver::admit`].
    pub fn stand_by(&mut self, port: PortId, ifindex: u32, mode: Mode) -> Result<Attachment, DriverError> {
        self.detach(port);
        self.begin(port, ifindex)?;
        let attached = self.attach_begun(port, ifindex, mode).inspect_err(|_| self.detach(port))?;
        // A port that cannot be watched is a port all the same.
        let _ = self.copy_of(port);
        Ok(attached)
    }

    fn attach_begun(&mut self, port: PortId, ifindex: u32, mode: Mode) -> Result<Attachment, DriverError> {
        let failed = |source| DriverError::Attach { ifindex, source };
        let why = if mode == Mode::Generic {
            "configured".to_string()
        } else {
            match self.link(port, ifindex, true)? {
                Ok(()) => return Ok(Attachment { native: true, why: None }),
                Err(error) if mode == Mode::Native => return Err(failed(error)),
                Err(error) => why_not_native(error).map_err(failed)?,
            }
        };
        self.link(port, ifindex, false)?.map_err(failed)?;
        self.marks.write().unwrap_or_else(PoisonError::into_inner).insert(ifindex, self.mark);
        Ok(Attachment { native: false, why: Some(why) })
    }

    fn link(&mut self, port: PortId, ifindex: u32, native: bool) -> Result<io::Result<()>, DriverError> {
        let flags = if native { XDP_NATIVE } else { XDP_GENERIC };
        let link = sys::link_create(self.entry(native)?, ifindex, sys::ATTACH_XDP, flags);
        let entry = self.ports.get_mut(&port).ok_or(DriverError::NotAttached(port))?;
        Ok(link.map(|link| (entry.link, entry.native) = (Some(link), native)))
    }

    /// Where it is promised that somebody is there.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Whether the port's program runs in the driver. Only behind such a one does a zero-copy
    /// socket work.
    pub fn is_native(&self, port: PortId) -> bool {
        self.ports.get(&port).is_some_and(|entry| entry.native)
    }

    /// Detaches the program from the port's interface and forgets its sockets: Linux has the
    /// interface to itself.
    pub fn detach(&mut self, port: PortId) {
        let Some(Port { ifindex, link, queues, .. }) = self.ports.remove(&port) else { return };
        // First of all: from then on no packet is this port's.
        drop(link);
        self.uncopy(port);
        self.marks.write().unwrap_or_else(PoisonError::into_inner).remove(&ifindex);
        if let Some((at, place)) = self.places.remove(ifindex) {
            let _ = self.write_place(at, place);
        }
        // These only fail when the slots are empty already.
        let _ = self.clear_target(port);
        queues.iter().for_each(|queue| drop(self.clear_socket(port, *queue)));
    }

    /// Lets packets of this receive queue that are for the worker go to an AF_XDP socket.
    pub fn set_socket(&mut self, port: PortId, queue: u32, socket: &impl AsFd) -> Result<(), DriverError> {
        if queue >= MAX_QUEUES {
            return Err(DriverError::QueueRange { queue });
        }
        let key = socket_key(port, queue);
        let socket = socket.as_fd().as_raw_fd().to_ne_bytes();
        sys::map_update(self.attached(port, "sockets")?, &key, &socket)
            .map_err(failed("sockets", "write"))?;
        if let Some(entry) = self.ports.get_mut(&port) {
            entry.queues.insert(queue);
        }
        Ok(())
    }

    /// No socket for this queue any more: its packets go to Linux.
    pub fn clear_socket(&mut self, port: PortId, queue: u32) -> Result<(), DriverError> {
        sys::map_delete(self.shared("sockets")?, &socket_key(port, queue)).map_err(failed("sockets", "write"))
    }

    /// Lets the express lane send by this interface when a route leads to `port`. Whether the
    /// interface can is another question: `device::xdp_features`.
    pub fn set_target(&mut self, port: PortId, ifindex: u32) -> Result<(), DriverError> {
        self.write_target(port, ifindex, None)?;
        self.targets.insert(port, ifindex);
        let _ = self.copy_of(port);
        Ok(())
    }

    /// An entry of `targets` (`struct bpf_devmap_val`): the interface, and what frames pass before
    /// they leave.
    fn write_target(&self, port: PortId, ifindex: u32, program: Option<&OwnedFd>) -> Result<(), DriverError> {
        let program = program.map_or(0, |program| program.as_raw_fd());
        let value = [ifindex.to_ne_bytes(), program.to_ne_bytes()].concat();
        sys::map_update(self.shared("targets")?, &u32::from(port.0).to_ne_bytes(), &value)
            .map_err(failed("targets", "write"))
    }

    /// The express lane no longer sends by this port.
    pub fn clear_target(&mut self, port: PortId) -> Result<(), DriverError> {
        self.targets.remove(&port);
        let map = self.shared("targets")?;
        sys::map_delete(map, &u32::from(port.0).to_ne_bytes()).map_err(failed("targets", "write"))
    }

    /// Packets to this address go to Linux, where they come in by an interface that the main table
    /// routes, that one of a VRF does, or both.
    pub fn add_local(&mut self, address: IpAddr, of: Locality) -> Result<(), DriverError> {
        let (name, key) = local::key(address);
        let map = self.shared(name)?;
        sys::map_update(map, &key, &[self.locals.kinds(address, of)]).map_err(failed(name, "write"))?;
        self.locals.add(address, of);
        Ok(())
    }

    /// Tunnels end at these addresses of this machine that workers open: they get what comes there
    /// in tunnels. Replaces those before.
    pub fn set_tunnel_ends(&mut self, ends: TunnelEnds) -> Result<(), DriverError> {
        let changed = self.locals.set_ends(ends);
        changed.into_iter().try_for_each(|(address, of)| self.add_local(address, of))
    }

    /// Packets to this address are transit again.
    pub fn remove_local(&mut self, address: IpAddr) -> Result<(), DriverError> {
        self.locals.remove(address);
        let (name, key) = local::key(address);
        let map = self.shared(name)?;
        sys::map_delete(map, &key).map_err(failed(name, "write"))
    }

    /// What these say by routing protocols is policed apart from what others do. Replaces those
    /// before.
    pub fn set_peers(&mut self, peers: HashSet<RoutingPeer>) -> Result<(), DriverError> {
        let map = self.shared.get("peers").ok_or_else(|| DriverError::NoMap { name: "peers".into() })?;
        peers::change(map.as_fd(), &mut self.peers, peers).map_err(failed("peers", "write"))
    }

    /// Packets to these groups that come in by these interfaces are workers'. Replaces those
    /// before.
    pub fn set_groups(&mut self, groups: HashSet<Group>) -> Result<(), DriverError> {
        let map = self.shared.get("groups").ok_or_else(|| DriverError::NoMap { name: "groups".into() })?;
        groups::change(map.as_fd(), &mut self.groups, groups).map_err(failed("groups", "write"))
    }

    /// Frames of a host that come by this member of a bridge may be forwarded, or are Linux's.
    pub fn know_sender(&mut self, member: InterfaceId, mac: [u8; 6], known: bool) -> Result<(), DriverError> {
        let [a, b, c, d, e, f] = mac;
        let key = u64::from_be_bytes([a, b, c, d, e, f, 0, 0]) | u64::from(member.0);
        let map = self.shared("senders")?;
        let done = match known {
            true => sys::map_update(map, &key.to_ne_bytes(), &[1]),
            false => sys::map_delete(map, &key.to_ne_bytes()),
        };
        done.map_err(failed("senders", "write"))
    }

    /// Where a thread of its own says which link addresses of virtual routers are taken.
    pub fn virtual_routers(&self) -> Result<VirtualRouters, DriverError> {
        let map = self.shared("virtual_routers")?.try_clone_to_owned();
        map.map(VirtualRouters::new).map_err(failed("virtual_routers", "hand out"))
    }

    /// Limits what goes to Linux in this class: `rate` packets a second with bursts of `burst`.
    /// Rate 0 = no limit, which is how every class starts.
    pub fn police(&mut self, class: Class, rate: u32, burst: u32) {
        let interval = if rate == 0 { 0 } else { (1_000_000_000 / u64::from(rate)).max(1) };
        let at = offset_of!(Settings, limit) + class as usize * size_of::<Limit>();
        self.setting64(at + offset_of!(Limit, tolerance))
            .store(interval * u64::from(burst.max(1)), Ordering::Relaxed);
        self.setting64(at + offset_of!(Limit, interval)).store(interval, Ordering::Release);
    }

    /// Packets that match any of these leave the express lane for the worker, so that the graph's
    /// observers see them. Replaces the rules before; a few packets may miss them during the
    /// change.
    pub fn divert(&mut self, rules: &[FlowMatch]) -> Result<(), DriverError> {
        if rules.len() > MAX_DIVERTS {
            return Err(DriverError::TooManyDiverts(rules.len()));
        }
        let encoded: Vec<_> = rules.iter().map(FlowMatch::encode).collect::<Result<_, _>>()?;
        self.setting64(offset_of!(Settings, diverts)).store(0, Ordering::Release);
        for (rule, bytes) in encoded.iter().enumerate() {
            for (word, value) in bytes.chunks_exact(8).enumerate() {
                let value = u64::from_ne_bytes(value.try_into().expect("chunks of 8"));
                let at = offset_of!(Settings, divert) + rule * size_of::<Divert>() + word * 8;
                self.setting64(at).store(value, Ordering::Relaxed);
            }
        }
        self.setting64(offset_of!(Settings, diverts)).store(rules.len() as u64, Ordering::Release);
        Ok(())
    }

    /// What the port's program did so far.
    pub fn counters(&self, port: PortId) -> Result<DriverCounters, DriverError> {
        counters::read(self.attached(port, "counters")?, port).map_err(failed("counters", "read"))
    }

    /// Runs the program on a frame, as if it had come in by queue 0 of the port's interface (or of
    /// loopback, when it is not attached), without sending it anywhere.
    pub fn test_run(&self, port: PortId, frame: &[u8]) -> Result<TestRun, DriverError> {
        let ifindex = self.ports.get(&port).ok_or(DriverError::NotAttached(port))?.ifindex;
        let program = self.programs.native.as_ref().or(self.programs.generic.as_ref());
        let program = program.ok_or_else(|| DriverError::NoProgram { name: "bifrost".into() })?;
        run(program.as_fd(), self.shared("counters")?, port, ifindex, frame)
    }

    /// As [`Driver::test_run`], by a copy of the program: nothing is counted, and there is no
    /// socket, so that what is for the worker passes (and belongs to no class). The copy is kept,
    /// as the kernel takes its time to verify one.
    pub fn trace_packet(&mut self, port: PortId, frame: &[u8]) -> Result<TestRun, DriverError> {
        let ifindex = self.ports.get(&port).ok_or(DriverError::NotAttached(port))?.ifindex;
        let (program, maps) = match self.packet_tracer.take() {
            Some(copy) => self.packet_tracer.insert(copy),
            None => self.packet_tracer.insert(self.copy()?),
        };
        let own = |name: &str| {
            let map = maps.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
            Ok::<_, DriverError>(map.as_fd())
        };
        // The copy knows no other port.
        let (at, place) = Places::new().put(ifindex, port).ok_or(DriverError::NoPlace { ifindex })?;
        let write = |place: Place| {
            sys::map_update(own("places")?, &at.to_ne_bytes(), &place.bytes())
                .map_err(failed("places", "write"))
        };
        write(place)?;
        let ran = run(program.as_fd(), own("counters")?, port, ifindex, frame);
        write(Place::default())?;
        ran
    }

    /// The entry with maps of its own.
    fn copy(&self) -> Result<(OwnedFd, HashMap<String, OwnedFd>), DriverError> {
        let mut maps = copies_of(&self.shared)?;
        for name in OF_PACKET_TRACER {
            let map =
                self.loader.object.maps.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
            maps.insert(name.to_owned(), object::create(name, map, None)?);
        }
        let program = self.loader.loaded("bifrost", 0, &maps)?;
        let extras = self.extras.iter().flat_map(|extra| extra.steps());
        let mut behind = OF_TAGS.iter().chain(extras);
        behind.try_for_each(|step| self.loader.add_step(*step, &maps))?;
        maps.retain(|name, _| OF_PACKET_TRACER.contains(&name.as_str()));
        Ok((program, maps))
    }

    /// What the express lane sent by a port, since the driver's maps were made.
    pub fn sent(&self, port: PortId) -> Result<Count, DriverError> {
        counters::read_sent(self.shared("sent")?, port).map_err(failed("sent", "read"))
    }

    /// What came in by an interface that is no port's own, and what the express lane sent by it,
    /// since the driver's maps were made.
    pub fn traffic(&self, interface: InterfaceId) -> Result<Traffic, DriverError> {
        let at = interface.0.wrapping_sub(InterfaceId::FIRST_LOGICAL.0);
        counters::read_traffic(self.shared("logical")?, at).map_err(failed("logical", "read"))
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    fn setting64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.settings.bytes());
        // SAFETY: inside the mapping and aligned, as just checked; the programs only read it.
        unsafe { &*self.settings.base().as_ptr().add(offset).cast::<AtomicU64>() }
    }

    fn shared(&self, name: &str) -> Result<BorrowedFd<'_>, DriverError> {
        let fd = self.shared.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
        Ok(fd.as_fd())
    }

    /// A map with an entry of a port that has a program.
    fn attached(&self, port: PortId, map: &str) -> Result<BorrowedFd<'_>, DriverError> {
        self.ports.get(&port).ok_or(DriverError::NotAttached(port))?;
        self.shared(map)
    }
}

/// A panic goes on in the thread that waits.
fn joined<T>(thread: std::thread::ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A port's queue in map `sockets`.
fn socket_key(port: PortId, queue: u32) -> [u8; 4] {
    (u32::from(port.0) * MAX_QUEUES + queue).to_ne_bytes()
}

fn run(
    program: BorrowedFd,
    counters: BorrowedFd,
    port: PortId,
    ifindex: u32,
    frame: &[u8],
) -> Result<TestRun, DriverError> {
    let read = || counters::read(counters, port).map_err(failed("counters", "read"));
    let before = read()?;
    let mut bytes = Vec::new();
    let run = sys::Run { data: frame, ifindex, queue: 0, repeat: 1, live: false, batch: 0 };
    let action = sys::prog_run(program, &run, &mut bytes).map_err(DriverError::Run)?;
    Ok(TestRun { action, bytes, counted: read()?.since(&before) })
}

/// The kernel lets go of a dead process's descriptors highest first, and of each device's sockets
/// and programs only after waiting for packets under way, tens of milliseconds in all. The gate
/// must not wait for that.
fn above_all_others(fd: OwnedFd) -> Result<OwnedFd, DriverError> {
    let failed = || DriverError::io("cannot move a descriptor")(io::Error::last_os_error());
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the limits in.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } < 0 {
        return Err(failed());
    }
    let high = (limit.rlim_cur.min(HIGH) / 8 * 7) as libc::c_int;
    // SAFETY: the descriptor is ours; the new one belongs to nobody yet.
    let moved = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, high) };
    if moved < 0 {
        return Err(failed());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(moved) })
}

fn map_array(maps: &HashMap<String, OwnedFd>, name: &str, bytes: usize) -> Result<Mapping, DriverError> {
    let fd = maps.get(name).ok_or_else(|| DriverError::NoMap { name: name.into() })?;
    Mapping::new(fd.as_fd(), bytes).map_err(|source| DriverError::Map {
        name: name.into(),
        action: "map",
        bytes: bytes as u64,
        source,
    })
}

fn failed(name: &'static str, action: &'static str) -> impl FnOnce(io::Error) -> DriverError {
    move |source| DriverError::Map { name: name.into(), action, bytes: 0, source }
}

pub(crate) const XDP_GENERIC: u32 = 1 << 1;
pub(crate) const XDP_NATIVE: u32 = 1 << 2;

/// Why a program cannot run in the driver; the error back when it could not in the stack either,
/// because another program has the interface.
pub(crate) fn why_not_native(error: io::Error) -> Result<String, io::Error> {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Err(error),
        // What veth says when its peer sends by more queues than it could receive from.
        Some(libc::ENOSPC) => {
            Ok("the driver refuses native XDP for want of receive queues: `ethtool -L` gives it \
                                  more, or its peer fewer"
                .to_owned())
        }
        _ => Ok(format!("the driver refuses native XDP: {error}")),
    }
}

/// A random number, not 0.
fn secret() -> io::Result<u32> {
    let mut bytes = [0; 4];
    // SAFETY: the kernel writes 4 bytes.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), 4, 0) } {
        4 => Ok(u32::from_ne_bytes(bytes) | 1),
        _ => Err(io::Error::last_os_error()),
    }
}
