//! Opening an AF_XDP socket: memory, rings, the best mode that the device has.

use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::packet::CHUNK;
use crate::pool::Span;

/// Bytes on their way in copy mode, as the kernel counts them: some 1,000 beyond those of each
/// frame.
const SEND_BUFFER: c_int = 16 << 20;

/// Whether descriptors go straight to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// If the device can.
    #[default]
    Auto,
    /// Or fail.
    On,
    /// The kernel copies each frame.
    Off,
}

/// Whether the worker drives the device's polling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// With zero-copy: there the device's interrupts are what is saved. A copying queue is filled
    /// by whoever sends.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// How to open a queue.
#[derive(Clone, Copy, Debug)]
pub struct XskOptions {
    /// Whether descriptors go straight to the device.
    pub zero_copy: ZeroCopy,
    /// Whether the worker drives the device's polling (SO_PREFER_BUSY_POLL), where the kernel can.
    pub busy_poll: BusyPoll,
    /// Descriptors in each ring, a power of two.
    pub ring: u32,
    /// Frames may arrive as the machine's stacks hand them to each other: with checksums that their
    /// sender left to a NIC ([`wire::partial`]), and with IP packets longer than this, the MTU in
    /// bytes, that were left to it to be cut ([`wire::joined`]). Both is done here.
    pub partial: Option<u32>,
    /// Frames that it is given to receive into, at most: many queues live on one worker's memory.
    pub frames: u32,
    /// Whether it is given frames to receive into; else it sends only, until
    /// [`Xsk::receive_too`](crate::Xsk::receive_too).
    pub receive: bool,
}

impl Default for XskOptions {
    fn default() -> Self {
        XskOptions {
            zero_copy: ZeroCopy::Auto,
            busy_poll: BusyPoll::Auto,
            ring: 2048,
            partial: None,
            frames: u32::MAX,
            receive: true,
        }
    }
}

/// What a queue got, and why not better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XskMode {
    /// Descriptors go straight to the device.
    pub zero_copy: bool,
    /// Frames above a chunk come and go as chains.
    pub segments: bool,
    /// The worker drives the device's polling.
    pub busy_poll: bool,
    /// Why not all of these that were asked for; empty when they are.
    pub why: Vec<String>,
}

/// Why a queue cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("AF_XDP on interface {ifindex} queue {queue}: {step}: {source}{}", hint(.source, .step))]
pub struct XskError {
    /// The interface.
    pub ifindex: u32,
    /// Its queue.
    pub queue: u32,
    /// What was tried.
    pub step: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

fn hint(error: &io::Error, step: &str) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => "; another program has a socket on this queue",
        Some(libc::ENOBUFS | libc::ENOMEM) if step == "register memory" => {
            "; raise the locked-memory limit (LimitMEMLOCK=infinity), or grant CAP_IPC_LOCK"
        }
        Some(libc::EPERM) => "; needs CAP_NET_RAW",
        Some(libc::EINVAL) if step == "bind" => "; the interface may have fewer queues",
        _ => "",
    }
}

pub(super) fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (at, size) = (std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `size` bytes of `value`.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn get<T: Copy>(socket: &OwnedFd, option: c_int, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `size` bytes of `value`, which is made of plain numbers.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, &mut size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

const EMPTY: libc::xdp_ring_offset = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };

/// A socket with its memory registered and its rings made, not bound yet; and where the rings are.
///
/// The memory is registered for each socket anew. The kernel can share one registration
/// (XDP_SHARED_UMEM), but then all sockets take the mode of the first (one port without zero-copy
/// would slow down all), and the first one's device must never go. Registering the same pages again
/// costs a page table and a DMA mapping, and has neither fault.
pub(super) fn open(
    span: &Span,
    ring: u32,
) -> Result<(OwnedFd, libc::xdp_mmap_offsets), (&'static str, io::Error)> {
    // SAFETY: a new descriptor, ours alone.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(("open a socket", io::Error::last_os_error()));
    }
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // The front part, which every kernel with AF_XDP knows.
    #[repr(C)]
    struct Registration {
        address: u64,
        bytes: u64,
        chunk: u32,
        headroom: u32,
        flags: u32,
        pad: u32,
    }
    let registration = Registration {
        address: span.base().as_ptr() as u64,
        bytes: span.bytes() as u64,
        chunk: CHUNK as u32,
        headroom: 0,
        flags: 0,
        pad: 0,
    };
    let xdp = libc::SOL_XDP;
    set(&socket, xdp, libc::XDP_UMEM_REG, &registration).map_err(|e| ("register memory", e))?;
    for option in
        [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
    {
        set(&socket, xdp, option, &ring).map_err(|e| ("make a ring", e))?;
    }
    let offsets = libc::xdp_mmap_offsets { rx: EMPTY, tx: EMPTY, fr: EMPTY, cr: EMPTY };
    let offsets = get(&socket, libc::XDP_MMAP_OFFSETS, offsets).map_err(|e| ("locate the rings", e))?;
    Ok((socket, offsets))
}

/// Binds to a queue in the best mode it has.
pub(super) fn bind(socket: &OwnedFd, ifindex: u32, queue: u32, options: &XskOptions) -> io::Result<XskMode> {
    let mut mode = XskMode { zero_copy: false, segments: false, busy_poll: false, why: Vec::new() };
    if options.zero_copy == ZeroCopy::Off {
        mode.why.push("zero-copy: not asked for".into());
    } else {
        match bind_with_segments(socket, ifindex, queue, libc::XDP_ZEROCOPY, &mut mode) {
            Ok(()) => mode.zero_copy = true,
            Err(error) if options.zero_copy == ZeroCopy::On || error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(error);
            }
            Err(error) => {
                mode.why.clear();
                mode.why.push(match error.raw_os_error() {
                    Some(libc::EOPNOTSUPP) => "zero-copy: the driver has none".into(),
                    _ => format!("zero-copy: the driver refuses: {error}"),
                });
            }
        }
    }
    if !mode.zero_copy {
        bind_with_segments(socket, ifindex, queue, libc::XDP_COPY, &mut mode)?;
    }
    let busy_poll = match options.busy_poll {
        BusyPoll::Auto => mode.zero_copy,
        BusyPoll::On => true,
        BusyPoll::Off => false,
    };
    if busy_poll {
        match prefer_busy_poll(socket) {
            Ok(()) => mode.busy_poll = true,
            Err(error) => mode.why.push(format!("busy polling: {error}")),
        }
    }
    // Copy mode sends at most 32 packets a system call, unless told otherwise (Linux 6.17); older
    // kernels refuse.
    const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
    let _ = set(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &256u32);
    // Copy mode also counts what is on its way against the socket's buffer; a full ring must fit.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER);
    Ok(mode)
}

fn bind_with_segments(
    socket: &OwnedFd,
    ifindex: u32,
    queue: u32,
    flags: u16,
    mode: &mut XskMode,
) -> io::Result<()> {
    let flags = flags | libc::XDP_USE_NEED_WAKEUP;
    let with = bind_as(socket, ifindex, queue, flags | libc::XDP_USE_SG);
    mode.segments = with.is_ok();
    match with {
        Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
            bind_as(socket, ifindex, queue, flags)?;
            mode.why.push(format!(
                "frames above {} bytes: the driver cannot chain buffers: {error}",
                CHUNK - 256
            ));
            Ok(())
        }
        other => other,
    }
}

fn bind_as(socket: &OwnedFd, ifindex: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let size = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of the address.
    let result = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn prefer_busy_poll(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32)?;
    set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &20i32)?;
    set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &64i32)
}
