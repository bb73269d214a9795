//! Where packets go and come from.
//!
//! A port is named by a text:
//!
//! | text | port |
//! |---|---|
//! | `eth1` | an interface: zero-copy AF_XDP where its driver has it, else as `live:` |
//! | `eth1@NAME` | an interface in a network namespace (`ip netns`) |
//! | `live:eth1` | an interface: XDP live frames out, and in a program in the driver that judges and drops |
//! | `xsk:eth1` | an interface by AF_XDP, copying if need be |
//! | `memif:SOCKET[,id=N][,role=client][,queues=N][,ring=N][,buffer=N][,secret=S][,trusted=on]` | shared memory with another program; a server unless it says otherwise |
//! | `pcap:FILE` | a file that what is sent is written to: pcap, or pcapng if its name ends so |
//! | `memory` | a pipe in this process: what is sent there is received there |
//!
//! While a port receives, it has all frames of its interface, and Linux none. So an interface that
//! the machine itself is reached by is refused, unless forced.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::port::device::{self, Device, XdpFeatures};
use ::port::memif;
use ::port::pcap::{Format, PcapQueue, Record};
use ::port::traffic::{Judge, Streams};
use ::port::{HugePages, Memory, Pool, Queue, XdpDevices};
use fib::PortId;
use nix::sched::{CloneFlags, setns};
use wire::Mac;

use crate::TrafficError;
use crate::pipe::Pipe;
use crate::program_cache::ProgramCache;
use crate::size::FCS;

/// Threads that may have packet memory of a port at a time, and the frames of each.
const POOLS: usize = 6;
const FRAMES: usize = 8192;
/// Chunks of ordinary memory for a thread whose port takes packets of any.
const HEAP: usize = 4096;

/// Bytes of a packet that are written to a file.
const SNAP: u32 = 65_535;
/// How long a carrier, or a memif's peer, is waited for.
pub(crate) const PEER: Duration = Duration::from_secs(10);

/// An open port: a handle that may be cloned.
#[derive(Clone)]
pub struct Port(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    name: String,
    kind: Kind,
    mac: Option<Mac>,
    line: Option<f64>,
    /// Largest IP packet, of an interface.
    mtu: Option<u32>,
    /// The interface that it is, and its namespace.
    link: Option<(String, Option<String>)>,
    /// Kept open while the port is.
    memif: Option<memif::Interface>,
    /// A file that is to be written, until the first packets are about to leave: what is refused
    /// before must not have emptied it.
    file: Mutex<Option<PathBuf>>,
}

pub(crate) enum Kind {
    Queues(Vec<Mutex<Box<dyn Queue>>>, Option<Arc<Memory>>),
    Live(Interface),
}

/// Why nothing can pass a port.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("no peer{}", if .0.is_empty() { String::new() } else { format!(": {_0}") })]
    NoPeer(String),
    #[error("no carrier")]
    NoCarrier,
    #[error("the interface is down: ip link set dev {0} up")]
    Down(String),
    #[error("{0}")]
    Gone(String),
    #[error("its link was lost, and came back")]
    LinkLost,
    #[error("its peer left, and one came back")]
    PeerLeft,
}

/// A port that is whole, and how often that began. Where it is another one than before, the port
/// was broken in between, be it for so short that nobody saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// Of a link.
    Link { ifindex: u32, losses: u32 },
    /// Of a memif: peers so far.
    Peers(u64),
    /// Of what cannot break.
    Always,
}

impl Epoch {
    /// What has happened to a port since an epoch that is over.
    pub(crate) fn ended(self) -> Fault {
        match self {
            Epoch::Peers(_) => Fault::PeerLeft,
            Epoch::Link { .. } | Epoch::Always => Fault::LinkLost,
        }
    }
}

/// An interface that packets are sent and received by in the kernel.
#[derive(Clone)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) ifindex: u32,
    pub(crate) queues: u32,
    /// Programs that send, and that judge what arrives.
    pub(crate) senders: Arc<ProgramCache<Streams>>,
    pub(crate) judges: Arc<ProgramCache<Judge>>,
}

impl Port {
    /// Opens the port that a text names. An interface that the machine itself is reached by is
    /// refused unless `force`.
    pub fn open(text: &str, force: bool) -> Result<Port, TrafficError> {
        let wrong =
            |reason: &str| TrafficError::PortName { text: text.to_owned(), reason: reason.to_owned() };
        let (kind, name) = match text.split_once(':') {
            Some((kind @ ("live" | "xsk"), name)) => (Some(kind), name),
            Some(("memif", settings)) => return open_memif(text, settings),
            Some(("pcap", file)) => return open_pcap(text, Path::new(file)),
            Some(_) => {
                return Err(wrong(
                    "known are IFACE, IFACE@NAMESPACE, live:IFACE, xsk:IFACE, memif:SOCKET, pcap:FILE and memory",
                ));
            }
            None if text == "memory" => {
                return Ok(Port::of_queues(text, vec![Box::new(Pipe::default())]));
            }
            None => (None, text),
        };
        let (interface, namespace) = match name.split_once('@') {
            Some((_, "")) => return Err(wrong("the namespace's name is missing behind @")),
            Some((interface, namespace)) => (interface, Some(namespace.to_owned())),
            None => (name, None),
        };
        if interface.is_empty() {
            return Err(wrong("the interface's name is missing"));
        }
        let work = || open_interface(text, interface, kind, namespace.clone(), force);
        inside(namespace.as_deref(), work)?
    }

    /// Refuses a text that names a port by which nothing can arrive: a file. Nothing is opened.
    pub fn may_receive(text: &str) -> Result<(), TrafficError> {
        if text.starts_with("pcap:") {
            let reason = "packets are only written to files, nothing arrives from them".to_owned();
            return Err(TrafficError::PortName { text: text.to_owned(), reason });
        }
        Ok(())
    }

    /// As [`open`](Port::open), of a port that packets are to arrive by.
    pub fn open_to_receive(text: &str, force: bool) -> Result<Port, TrafficError> {
        Port::may_receive(text)?;
        Port::open(text, force)
    }

    /// A port of queues that are open already, which take packets of any pool, as memif, memory and
    /// files do. Each sending core uses a queue of its own as far as there are enough.
    pub fn of_queues(name: &str, queues: Vec<Box<dyn Queue>>) -> Port {
        let kind = Kind::Queues(queues.into_iter().map(Mutex::new).collect(), None);
        Port(Arc::new(Inner {
            name: name.to_owned(),
            kind,
            mac: None,
            line: None,
            mtu: None,
            link: None,
            memif: None,
            file: Mutex::default(),
        }))
    }

    /// What it was called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its Ethernet address, where it has one.
    pub fn mac(&self) -> Option<Mac> {
        self.0.mac
    }

    /// What its line carries, in bits a second, where that is known.
    pub fn line(&self) -> Option<f64> {
        self.0.line
    }

    /// Refuses a frame (without its check sequence) that is more than the interface's MTU lets
    /// through, or a memif's ring: it would be lost right here. To be asked when the port is
    /// [`connected`](Port::connected).
    pub(crate) fn takes(&self, frame: &[u8]) -> Result<(), String> {
        if let Some(most) = self.longest()
            && frame.len() as u64 > most
        {
            return Err(format!(
                "{} bytes are more than all buffers of a ring of {} hold together ({}): make frames smaller, or these larger or more \
                 (ring=N, buffer=N, at the end that is the client)",
                frame.len() as u64 + u64::from(FCS),
                self.name(),
                most + u64::from(FCS)
            ));
        }
        let Some(mtu) = self.0.mtu else { return Ok(()) };
        let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
        let header = (0..).map(|tags| 12 + 4 * tags).find(|&at| !is_tag(at)).unwrap_or(12) + 2;
        let packet = frame.len().saturating_sub(header);
        if packet <= mtu as usize {
            return Ok(());
        }
        let interface = self.0.link.as_ref().map_or(self.name(), |(interface, _)| interface);
        let (size, most) = (frame.len() + FCS as usize, mtu as usize + header + FCS as usize);
        Err(format!(
            "{size} bytes are more than {} lets through by its MTU ({most}): make frames smaller, or that larger (ip link set dev \
             {interface} mtu {packet})",
            self.name()
        ))
    }

    /// Bytes of a frame at most, as far as the other end has said it.
    fn longest(&self) -> Option<u64> {
        let longest = |mut queue: MutexGuard<'_, Box<dyn Queue>>| {
            // It may not have seen its peer yet.
            queue.kick();
            queue.longest()
        };
        self.queues().filter_map(longest).min()
    }

    /// Packets that its queues took and could not send since they were opened: longer than all
    /// buffers of a ring, or than a frame of packet memory.
    pub(crate) fn unfit(&self) -> u64 {
        self.queues().map(|queue| queue.counters().tx_invalid).sum()
    }

    /// Buffers with what was sent that the other end has not emptied.
    pub(crate) fn untaken(&self) -> u64 {
        self.queues().map(|queue| queue.untaken()).sum()
    }

    fn queues(&self) -> impl Iterator<Item = MutexGuard<'_, Box<dyn Queue>>> {
        let queues = match &self.0.kind {
            Kind::Queues(queues, _) => queues.as_slice(),
            Kind::Live(_) => &[],
        };
        queues.iter().map(|queue| queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until packets can pass: for the carrier of an interface, which takes a moment after a
    /// reset of what is at its other end, or for a memif's peer. An interface that is down will not
    /// come up by itself.
    pub(crate) fn connected(&self) -> Result<(), TrafficError> {
        let began = Instant::now();
        while let Err(fault) = self.epoch() {
            if began.elapsed() > PEER || matches!(fault, Fault::Down(_) | Fault::Gone(_)) {
                let reason = match fault {
                    Fault::NoCarrier => {
                        let why = "look at its cable, or at the interface at its other end";
                        format!("{fault} for {} s: {why}", PEER.as_secs())
                    }
                    Fault::NoPeer(_) => format!("{fault} (waited for {} s)", PEER.as_secs()),
                    _ => fault.to_string(),
                };
                return Err(TrafficError::Port { port: self.0.name.clone(), reason });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until packets can leave. A file is begun.
    pub(crate) fn ready(&self) -> Result<(), TrafficError> {
        self.begin()?;
        self.connected()
    }

    /// Its epoch, or why nothing can pass it just now.
    pub(crate) fn epoch(&self) -> Result<Epoch, Fault> {
        if let Some(interface) = &self.0.memif {
            return match interface.state() {
                memif::State::Up { .. } => Ok(Epoch::Peers(interface.peers())),
                memif::State::Connecting { why } | memif::State::Down { why } => Err(Fault::NoPeer(why)),
            };
        }
        let Some((interface, namespace)) = &self.0.link else { return Ok(Epoch::Always) };
        match inside(namespace.as_deref(), || device::link(interface)) {
            Err(error) => Err(Fault::Gone(error.to_string())),
            Ok(Err(error)) if error.is_unsupported() => {
                Err(Fault::Gone("there is no such interface any more".to_owned()))
            }
            Ok(Err(error)) => Err(Fault::Gone(error.to_string())),
            Ok(Ok(link)) if !link.up => Err(Fault::Down(interface.clone())),
            Ok(Ok(link)) if !link.running => Err(Fault::NoCarrier),
            Ok(Ok(link)) => Ok(Epoch::Link { ifindex: link.ifindex, losses: link.losses }),
        }
    }

    /// Begins the file that is to be written, and has not been.
    fn begin(&self) -> Result<(), TrafficError> {
        let mut waits = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(file), Kind::Queues(queues, _)) = (waits.as_deref(), &self.0.kind) else { return Ok(()) };
        let text = || self.0.name.clone();
        let record = Record::create(file, Format::of(file), SNAP)
            .map_err(|error| TrafficError::PortName { text: text(), reason: error.to_string() })?;
        if let Some(queue) = queues.first() {
            *queue.lock().unwrap_or_else(PoisonError::into_inner) = writing(Some(record));
        }
        *waits = None;
        Ok(())
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.0.kind
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({})", self.0.name)
    }
}

/// Gives this thread packet memory that the port's queues take.
pub(crate) fn install_pool(memory: Option<&Arc<Memory>>) -> Result<(), TrafficError> {
    let Some(memory) = memory else {
        Pool::heap(HEAP).install();
        return Ok(());
    };
    let mut pools = (0..POOLS).map(|worker| memory.pool(worker));
    let mut last = pools.next().unwrap_or_else(|| memory.pool(0));
    while last.is_err()
        && let Some(next) = pools.next()
    {
        last = next;
    }
    last?.install();
    Ok(())
}

/// Runs something in a network namespace, on a thread of its own; right here when there is none.
pub(crate) fn inside<T: Send>(
    namespace: Option<&str>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, TrafficError> {
    let Some(name) = namespace else { return Ok(work()) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter(Some(name)).map(|()| work()));
        thread.join().unwrap_or(Err(TrafficError::Panicked("opening a port")))
    })
}

/// Moves this thread into a network namespace.
pub(crate) fn enter(namespace: Option<&str>) -> Result<(), TrafficError> {
    let Some(name) = namespace else { return Ok(()) };
    let path = Path::new("/run/netns").join(name);
    let what = || format!("the network namespace {name}");
    let file = File::open(&path).map_err(TrafficError::io(what()))?;
    setns(&file, CloneFlags::CLONE_NEWNET).map_err(|error| TrafficError::io(what())(error.into()))
}

fn open_interface(
    text: &str,
    interface: &str,
    kind: Option<&str>,
    namespace: Option<String>,
    force: bool,
) -> Result<Port, TrafficError> {
    let device = Device::named(interface)?;
    if !force && let Some(why) = in_use(interface) {
        return Err(TrafficError::InUse { interface: interface.to_owned(), why });
    }
    let zero_copy =
        || device::xdp_features(device.ifindex).is_ok_and(|has| has.contains(XdpFeatures::ZERO_COPY));
    let link = Some((device.name.clone(), namespace.clone()));
    let live = match kind {
        Some(kind) => kind == "live",
        None => !zero_copy(),
    };
    let speed = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok();
    let megabits = speed.filter(|_| namespace.is_none()).and_then(|text| text.trim().parse::<f64>().ok());
    let kind = if live {
        let name = device.name.clone();
        let (ifindex, queues) = (device.ifindex, device.queues);
        let (senders, judges) = (Arc::default(), Arc::default());
        Kind::Live(Interface { name, namespace, ifindex, queues, senders, judges })
    } else {
        let memory = Arc::new(Memory::new(POOLS, FRAMES, HugePages::Auto)?);
        // The rings are filled while the sockets are opened, from the pool of the thread that does
        // it.
        let open = || -> Result<_, TrafficError> {
            enter(namespace.as_deref())?;
            install_pool(Some(&memory))?;
            Ok(XdpDevices::of_one(memory.clone()).receive(interface, None)?)
        };
        let queues = std::thread::scope(|scope| {
            scope.spawn(open).join().unwrap_or(Err(TrafficError::Panicked("opening a port")))
        })?;
        let queues = queues.into_iter().map(|queue| Mutex::new(Box::new(queue) as Box<dyn Queue>));
        Kind::Queues(queues.collect(), Some(memory))
    };
    let line = megabits.filter(|&speed| speed > 0.0).map(|speed| speed * 1e6);
    Ok(Port(Arc::new(Inner {
        name: text.to_owned(),
        kind,
        mac: Some(Mac(device.mac)),
        line,
        mtu: Some(device.mtu),
        link,
        memif: None,
        file: Mutex::default(),
    })))
}

fn open_pcap(text: &str, file: &Path) -> Result<Port, TrafficError> {
    if file.as_os_str().is_empty() {
        let reason = "the file's name is missing".to_owned();
        return Err(TrafficError::PortName { text: text.to_owned(), reason });
    }
    Ok(Port(Arc::new(Inner {
        name: text.to_owned(),
        kind: Kind::Queues(vec![Mutex::new(writing(None))], None),
        mac: None,
        line: None,
        mtu: None,
        link: None,
        memif: None,
        file: Mutex::new(Some(file.to_owned())),
    })))
}

/// What writes packets to a file.
fn writing(record: Option<Record>) -> Box<dyn Queue> {
    Box::new(PcapQueue::new(PortId::NONE, None, record))
}

fn open_memif(text: &str, settings: &str) -> Result<Port, TrafficError> {
    let wrong = |reason: String| TrafficError::PortName { text: text.to_owned(), reason };
    let mut parts = settings.split(',');
    let socket = parts.next().filter(|socket| !socket.is_empty());
    let socket = socket.ok_or_else(|| wrong("the socket's path is missing".to_owned()))?;
    let mut settings = memif::Settings::new(socket, memif::Role::Server);
    for part in parts {
        let unknown = || {
            wrong(format!(
                "`{part}` is none of id=N, role=server, role=client, queues=N, ring=N, buffer=N, secret=S, trusted=on"
            ))
        };
        let (name, value) = part.split_once('=').ok_or_else(unknown)?;
        let number = || value.parse().map_err(|_| unknown());
        match (name, value) {
            ("role", "server") => settings.role = memif::Role::Server,
            ("role", "client") => settings.role = memif::Role::Client,
            ("id", _) => settings.id = number()?,
            ("queues", _) => settings.queues = value.parse().map_err(|_| unknown())?,
            ("ring", _) => settings.ring = number()?,
            ("buffer", _) => settings.buffer = number()?,
            ("secret", _) => settings.secret = Some(value.to_owned()),
            ("trusted", "on") => settings.trusted = true,
            ("trusted", "off") => settings.trusted = false,
            _ => return Err(unknown()),
        }
    }
    let queues = settings.queues;
    let failed = |error: memif::MemifError| wrong(error.to_string());
    let interface = memif::Interface::open(settings).map_err(failed)?;
    let queue = |number| Ok(Mutex::new(Box::new(interface.queue(number, PortId::NONE)?) as Box<dyn Queue>));
    let queues = (0..queues).map(queue).collect::<Result<_, _>>().map_err(failed)?;
    let kind = Kind::Queues(queues, None);
    Ok(Port(Arc::new(Inner {
        name: text.to_owned(),
        kind,
        mac: None,
        line: None,
        mtu: None,
        link: None,
        memif: Some(interface),
        file: Mutex::default(),
    })))
}

/// Why an interface is not one to take: what the machine would lose.
fn in_use(interface: &str) -> Option<String> {
    let master = std::fs::read_link(format!("/sys/class/net/{interface}/master")).ok();
    let master = master.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let names: Vec<&str> = [Some(interface), master.as_deref()].into_iter().flatten().collect();
    let routes =
        |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    for name in &names {
        let through = if *name == interface { String::new() } else { format!(" (through {name})") };
        if default_route4(&routes("route"), name) || default_route6(&routes("ipv6_route"), name) {
            return Some(format!("carries a default route{through}"));
        }
    }
    let session = std::env::var("SSH_CONNECTION").ok()?;
    let own: std::net::IpAddr = session.split_whitespace().nth(2)?.parse().ok()?;
    let holders = addresses()?;
    holders
        .get(&own)
        .filter(|holder| names.contains(&holder.as_str()))
        .map(|_| format!("has the address {own}, by which you are logged in"))
}

/// Which interface has which address.
fn addresses() -> Option<HashMap<std::net::IpAddr, String>> {
    let all = nix::ifaddrs::getifaddrs().ok()?;
    let address = |entry: nix::ifaddrs::InterfaceAddress| {
        let storage = entry.address?;
        let v4 = storage.as_sockaddr_in().map(|address| std::net::IpAddr::V4(address.ip()));
        let v6 = storage.as_sockaddr_in6().map(|address| std::net::IpAddr::V6(address.ip()));
        Some((v4.or(v6)?, entry.interface_name))
    };
    Some(all.filter_map(address).collect())
}

/// Whether a line of route(5)'s table is a default route by this interface.
fn default_route4(table: &str, interface: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.len() > 7 && fields[0] == interface && fields[1] == "00000000" && fields[7] == "00000000"
    })
}

/// Whether a line of the IPv6 table is a default route by this interface (and none that refuses,
/// RTF_REJECT).
fn default_route6(table: &str, interface: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let flags = fields.get(8).and_then(|flags| u32::from_str_radix(flags, 16).ok()).unwrap_or(0);
        fields.len() > 9
            && fields[9] == interface
            && fields[0].bytes().all(|b| b == b'0')
            && fields[1] == "00"
            && flags & 0x200 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_seen() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert!(default_route4(v4, "eth0") && !default_route4(v4, "eth1") && !default_route4(v4, "eth"));
        let v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n\
                  00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200 lo\n";
        assert!(default_route6(v6, "eth0") && !default_route6(v6, "lo"));
    }

    #[test]
    fn names_that_are_none_are_refused_in_words() {
        for text in
            ["", "xsk:", "@a", "eth0@", "pcap:", "nonsense:eth0", "no-such-port", "eth0@no-such-namespace"]
        {
            let error = Port::open(text, false).unwrap_err().to_string();
            assert!(error.len() > 10, "{text}: {error}");
        }
    }

    #[test]
    fn a_file_to_receive_from_is_refused_and_left_as_it_was() {
        let path = std::env::temp_dir().join(format!("bifrost-no-sink-{}.pcap", std::process::id()));
        std::fs::write(&path, "a capture").unwrap();
        let error = Port::open_to_receive(&format!("pcap:{}", path.display()), false).unwrap_err();
        let left = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("only written"), "{error}");
        assert_eq!(left, "a capture");
    }
}
