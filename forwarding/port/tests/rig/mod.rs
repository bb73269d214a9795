//! Network namespaces with veth pairs, for tests with real packets.
//!
//! ```text
//!   host0 h0 ---- r0 \
//!                     router
//!   host1 h1 ---- r1 /
//! ```
#![allow(dead_code, missing_docs)] // each test binary uses its part of this

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Runs a command, which must succeed.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A namespace, deleted when dropped.
pub struct Namespace(pub String);

impl Namespace {
    pub fn new(role: &str) -> Namespace {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("port-{}-{number}-{role}", std::process::id());
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        Namespace(name)
    }

    /// Moves this thread into it, for good.
    pub fn enter(&self) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        // SAFETY: a valid descriptor of a namespace.
        assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    }

    /// Does something inside, on a thread of its own.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter();
                    work()
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn ip(&self, command: &str) -> String {
        run(&format!("ip -n {} {command}", self.0))
    }

    pub fn exec(&self, command: &str) -> String {
        run(&format!("ip netns exec {} {command}", self.0))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Two hosts and a router between them.
pub struct Rig {
    pub router: Namespace,
    pub hosts: [Namespace; 2],
}

impl Rig {
    pub fn new(queues: u32) -> Rig {
        let rig =
            Rig { router: Namespace::new("router"), hosts: [Namespace::new("h0"), Namespace::new("h1")] };
        (0..2).for_each(|i| rig.connect(i, queues));
        rig
    }

    /// Connects host `i`: r{i} = 02:00:00:00:01:0{i}, h{i} = 02:00:00:00:02:0{i}.
    pub fn connect(&self, i: usize, queues: u32) {
        let (router, host) = (&self.router, &self.hosts[i]);
        router.ip(&format!(
            "link add r{i} numtxqueues {queues} numrxqueues {queues} address 02:00:00:00:01:0{i} type veth \
             peer name h{i} numtxqueues {queues} numrxqueues {queues} address 02:00:00:00:02:0{i} netns {}",
            host.0
        ));
        for (namespace, name) in [(router, format!("r{i}")), (host, format!("h{i}"))] {
            // No router solicitations and duplicate address detection between the packets of a
            // test.
            namespace.exec(&format!("sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1"));
            namespace.ip(&format!("link set {name} up"));
        }
        for (namespace, name) in [(router, format!("r{i}")), (host, format!("h{i}"))] {
            // Once both are up: what GRO means for the peer is only looked at then.
            namespace.exec(&format!("ethtool -K {name} gro on tx off"));
        }
        wait("the link to come up", || router.ip(&format!("link show r{i}")).contains("LOWER_UP"));
    }

    pub fn ifindex(&self, i: usize) -> u32 {
        let name = CString::new(format!("r{i}")).unwrap();
        // SAFETY: a valid C string.
        self.router.inside(|| unsafe { libc::if_nametoindex(name.as_ptr()) })
    }

    /// A raw socket on host `i`.
    pub fn wire(&self, i: usize) -> Wire {
        self.hosts[i].inside(|| Wire::open(&format!("h{i}")))
    }
}

pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited 20 s for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A raw packet socket on an interface; frames that it sends itself are not received.
pub struct Wire(OwnedFd);

impl Wire {
    fn open(interface: &str) -> Wire {
        let name = CString::new(interface).unwrap();
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain calls with valid arguments; the descriptor is ours.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(all));
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let fd = OwnedFd::from_raw_fd(fd);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let size = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size), 0);
            let on = 1i32;
            let at = std::ptr::from_ref(&on).cast();
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, at, 4);
            let bytes = 8 << 20;
            let at = std::ptr::from_ref(&bytes).cast();
            libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, at, 4);
            Wire(fd)
        }
    }

    pub fn send(&self, frame: &[u8]) {
        loop {
            // SAFETY: a valid buffer.
            let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
            if sent == frame.len() as isize {
                return;
            }
            let error = io::Error::last_os_error();
            assert!(matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)), "{error}");
            std::thread::yield_now();
        }
    }

    /// A frame that has arrived.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 70_000];
        // SAFETY: a valid buffer.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        (got >= 0).then(|| {
            buffer.truncate(got as usize);
            buffer
        })
    }

    /// The next frame for which `wanted` holds, within two seconds.
    pub fn expect(&self, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut found = None;
        let end = Instant::now() + Duration::from_secs(2);
        while found.is_none() && Instant::now() < end {
            match self.receive() {
                Some(frame) if wanted(&frame) => found = Some(frame),
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        found.unwrap_or_else(|| panic!("no {what} arrived within 2 s"))
    }
}

pub const ROUTER_MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 1, 1]];
pub const HOST_MAC: [[u8; 6]; 2] = [[2, 0, 0, 0, 2, 0], [2, 0, 0, 0, 2, 1]];

pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |&b| u32::from(b))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An Ethernet frame from host 0 to the router.
pub fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ROUTER_MAC[0][..], &HOST_MAC[0], &ether_type.to_be_bytes(), payload].concat()
}

/// A UDP packet over IPv4, with right checksum.
pub fn ipv4(source: [u8; 4], destination: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((28 + payload.len() as u16).to_be_bytes());
    packet.extend([0x12, 0x34, 0, 0, ttl, 17, 0, 0]);
    packet.extend(source);
    packet.extend(destination);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x30, 0x39, 0x30, 0x3a]);
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// A UDP packet over IPv6 (without UDP checksum).
pub fn ipv6(source: &str, destination: &str, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([17, hop_limit]);
    packet.extend(source.parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend(destination.parse::<std::net::Ipv6Addr>().unwrap().octets());
    packet.extend([0x30, 0x39, 0x30, 0x3a]);
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}
