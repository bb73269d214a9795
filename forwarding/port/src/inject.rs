//! How a worker hands a packet to Linux, whole and as it came.
//!
//! A TAP device gives Linux packets, but as if they came in by the TAP: the wrong interface for
//! neighbours, reverse-path checks and firewalls. So each frame carries the index of its true
//! interface in four bytes behind it, and a program at the TAP's ingress
//! (`forwarding/bpf/inject.c`) cuts them off and moves the frame to that interface's ingress. That
//! is behind a native XDP program, but before a generic one, which would hand the frame to the
//! worker again: so frames for such an interface end with a number that only its program knows.
//!
//! Where the kernel cannot attach that program (tcx: Linux 6.6), frames enter by the TAP itself.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::PoisonError;

use abi::driver::JUDGED;
pub use abi::driver::JUDGED_MARK;

use crate::bpf::{object, sys};
use crate::device::Device;
use crate::driver::Marks;
use crate::{Driver, DriverError, MAX_SEGMENTS, Packet, Tap, TapKind};

/// A TAP device by which packets enter Linux. Gone when dropped, or when the process dies.
pub struct Injector {
    tap: OwnedFd,
    device: Device,
    program: Result<OwnedFd, String>,
    marks: Marks,
    /// Raw sockets by which Linux sends packets as they are, of IPv4 and of IPv6; absent where the
    /// machine has no such family.
    senders: [Option<OwnedFd>; 2],
}

impl Injector {
    /// Makes the TAP device in this network namespace, to give Linux packets of the driver's ports.
    pub fn open(name: &str, driver: &Driver) -> Result<Injector, DriverError> {
        let tap = Tap::open(name, TapKind::Ethernet)
            .map(OwnedFd::from)
            .map_err(DriverError::io(format!("cannot make TAP device {name}")))?;
        quiet(name).map_err(DriverError::io(format!("cannot turn IPv6 off on {name}")))?;
        up(name).map_err(DriverError::io(format!("cannot set {name} up")))?;
        let device = Device::named(name)
            .map_err(|error| DriverError::Io { what: error.to_string(), source: error.source })?;
        let program = object::load(object::inject()?, "inject", HashMap::new(), &HashMap::new())?;
        let link = sys::link_create(program.as_fd(), device.ifindex, sys::ATTACH_TCX_INGRESS, 0);
        let program = link.map_err(|error| format!("the kernel cannot attach its program: {error}"));
        let senders = [raw(libc::AF_INET, DEAF4).ok(), raw(libc::AF_INET6, DEAF6).ok()];
        Ok(Injector { tap, device, program, marks: driver.marks().clone(), senders })
    }

    /// Whether packets enter by their true interface, and if not, why.
    pub fn by_true_interface(&self) -> Result<(), &str> {
        self.program.as_ref().map(drop).map_err(String::as_str)
    }

    /// The TAP device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Gives Linux a packet, from its Ethernet header on, as if interface `ifindex` had received
    /// it; `judged`: with [`JUDGED_MARK`]. Fails rather than wait.
    pub fn inject(&self, ifindex: u32, packet: &Packet, judged: bool) -> io::Result<()> {
        let mut parts = [&[][..]; MAX_SEGMENTS];
        let mut count = 0;
        for segment in packet.segments() {
            parts[count] = segment;
            count += 1;
        }
        self.write(ifindex, judged, &parts[..count])
    }

    /// As [`Injector::inject`], for bytes in any number of pieces, of which the first holds the
    /// Ethernet header. At most [`MAX_SEGMENTS`].
    pub fn inject_parts(&self, ifindex: u32, parts: &[&[u8]]) -> io::Result<()> {
        self.write(ifindex, false, parts)
    }

    /// Has Linux send an IP packet, from its network header on, where its destination is: it looks
    /// up the route, by the interface with the index `device` if there is one (of a VRF: in it),
    /// resolves the neighbour and holds the packet until then. It bears [`JUDGED_MARK`]. Fails
    /// rather than wait, and where the packet is larger than the interface's MTU.
    pub fn send(&self, packet: &Packet, device: Option<u32>) -> io::Result<()> {
        let ip = packet.network();
        let (mut address, length) = destination(ip).ok_or(io::ErrorKind::InvalidInput)?;
        let sender = &self.senders[usize::from(ip[0] >> 4 == 6)];
        let sender = sender.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let mut parts = [vector(&[]); MAX_SEGMENTS];
        let mut count = 0;
        for (part, bytes) in parts.iter_mut().zip(std::iter::once(ip).chain(packet.segments().skip(1))) {
            *part = vector(bytes);
            count += 1;
        }
        // SAFETY: plain numbers and pointers, valid when zero.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_name, message.msg_namelen) = ((&raw mut address).cast(), length);
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), count);
        let mut control = Control([0; CONTROL]);
        if let Some(device) = device {
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = control.name(ip[0] >> 4 == 6, device);
        }
        // SAFETY: the kernel reads the packet and the address, which live until the call is over.
        let sent = unsafe { libc::sendmsg(sender.as_raw_fd(), &message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn write(&self, ifindex: u32, judged: bool, parts: &[&[u8]]) -> io::Result<()> {
        let first = parts.first().copied().unwrap_or(&[]);
        if first.len() < 14 || parts.len() > MAX_SEGMENTS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let trailer = (ifindex | if judged { JUDGED } else { 0 }).to_ne_bytes();
        let mark = self.marks.read().unwrap_or_else(PoisonError::into_inner).get(&ifindex).copied();
        let mark = mark.map(u32::to_ne_bytes);
        let mut vectors = [vector(&[]); MAX_SEGMENTS + 3];
        let mut count = 0;
        let mut add = |bytes: &[u8]| {
            vectors[count] = vector(bytes);
            count += 1;
        };
        if self.program.is_ok() {
            parts.iter().for_each(|part| add(part));
            mark.iter().for_each(|mark| add(mark));
            add(&trailer);
        } else {
            // Linux takes only what is addressed to the interface it comes in by.
            add(&self.device.mac);
            add(&first[6..]);
            parts[1..].iter().for_each(|part| add(part));
        }
        // SAFETY: the kernel reads the vectors, which point into slices that live until the call is
        // over.
        let written = unsafe { libc::writev(self.tap.as_raw_fd(), vectors.as_ptr(), count as libc::c_int) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() }
}

/// Protocols of the raw sockets by which Linux sends. A raw socket hears what comes for this
/// machine with its protocol, and while there is one, Linux does not answer that it knows no such
/// protocol. So none with `IPPROTO_RAW`, which is 255: of IPv4, one that no packet can have
/// (MPTCP's, above 255); of IPv6, which takes no such, the routing header, which Linux knows
/// itself.
const DEAF4: libc::c_int = libc::IPPROTO_MPTCP;
const DEAF6: libc::c_int = libc::IPPROTO_ROUTING;

/// A raw socket whose packets have their headers, whatever source they say, and which hears
/// nothing.
fn raw(family: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a new descriptor, ours alone.
    let fd = unsafe { libc::socket(family, kind, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let set = |level, name, value: u32| {
        let (pointer, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: the kernel reads the four bytes of `value`.
        let set = unsafe { libc::setsockopt(fd, level, name, pointer, length) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    match family {
        libc::AF_INET => set(libc::IPPROTO_IP, libc::IP_HDRINCL, 1)?,
        _ => set(libc::IPPROTO_IPV6, IPV6_HDRINCL, 1)?,
    }
    set(libc::SOL_SOCKET, libc::SO_MARK, JUDGED_MARK)?;
    hear_nothing(fd)?;
    Ok(socket)
}

/// `linux/in6.h`; libc does not have it.
const IPV6_HDRINCL: libc::c_int = 36;

/// Drops whatever comes to a socket.
pub(crate) fn hear_nothing(fd: libc::c_int) -> io::Result<()> {
    let mut nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    // SAFETY: the kernel copies the program, whose one instruction lives until the call is over.
    let set = unsafe {
        let (value, length) = ((&raw const program).cast(), size_of_val(&program) as libc::socklen_t);
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, length)
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Where an IP packet goes, as a socket's address.
fn destination(ip: &[u8]) -> Option<(libc::sockaddr_in6, libc::socklen_t)> {
    // SAFETY: plain numbers, valid when zero.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    match ip.first()? >> 4 {
        4 => {
            let to = ip.get(16..20)?.first_chunk::<4>()?;
            // SAFETY: as above.
            let mut four: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            four.sin_family = libc::AF_INET as libc::sa_family_t;
            four.sin_addr.s_addr = u32::from_ne_bytes(*to);
            // SAFETY: a sockaddr_in is shorter than a sockaddr_in6, needs no more alignment, and
            // any bytes are one.
            unsafe { (&raw mut address).cast::<libc::sockaddr_in>().write(four) };
            Some((address, size_of_val(&four) as libc::socklen_t))
        }
        6 => {
            address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            address.sin6_addr.s6_addr = *ip.get(24..40)?.first_chunk()?;
            Some((address, size_of_val(&address) as libc::socklen_t))
        }
        _ => None,
    }
}

/// Bytes of a control message that names an interface, of either family.
const CONTROL: usize = size_of::<libc::cmsghdr>() + size_of::<libc::in6_pktinfo>() + 4;

/// A control message.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Control {
    /// Names the interface that a packet is to leave by; returns the message's length.
    fn name(&mut self, ipv6: bool, ifindex: u32) -> usize {
        // The address that it would be sent from comes first in IPv6, behind the index in IPv4; it
        // stays none.
        let (level, kind, length, at) = match ipv6 {
            false => (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>(), 0),
            true => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>(), 16),
        };
        let head = size_of::<libc::cmsghdr>();
        let word = size_of::<usize>();
        self.0[..word].copy_from_slice(&(head + length).to_ne_bytes());
        self.0[word..word + 4].copy_from_slice(&level.to_ne_bytes());
        self.0[word + 4..head].copy_from_slice(&kind.to_ne_bytes());
        self.0[head + at..head + at + 4].copy_from_slice(&ifindex.to_ne_bytes());
        // Padded as the next one would begin.
        head + length.next_multiple_of(word)
    }
}

/// No addresses of its own and no solicitations: nothing but what we write comes from it.
fn quiet(name: &str) -> io::Result<()> {
    match std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn up(name: &str) -> io::Result<()> {
    // SAFETY: a new descriptor, ours alone.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_NOARP) as libc::c_short;
    // SAFETY: the kernel reads the request.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: plain numbers, valid when zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
