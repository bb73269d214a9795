//! A packet socket: frames of an interface as Linux sees them, and frames sent by it, without
//! taking anything from Linux.

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::PacketType;

/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Where in a frame it stands.
const TAG_AT: usize = 12;
/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h.
const IGNORE_OUTGOING: libc::c_int = 23;
/// `PACKET_MR_UNICAST` of linux/if_packet.h.
const UNICAST: u16 = 3;

/// What is to be received.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketOptions {
    /// Also what is addressed to others.
    pub promiscuous: bool,
    /// Also what this machine sends.
    pub outgoing: bool,
    /// Nothing: the socket is for sending.
    pub send_only: bool,
    /// Of what is received, only what a program says (classic BPF, 0: not this one), if there is
    /// one.
    pub filter: &'static [Instruction],
}

/// An instruction of classic BPF: [code](crate::classic), jumps if true and if false, operand.
pub type Instruction = (u16, u8, u8, u32);

/// A socket bound to an interface. Never blocks.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    /// Frames that did not fit into the socket's buffer, as far as they were asked for.
    drops: u64,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the frame in the buffer.
    pub captured: usize,
    /// Bytes that it had.
    pub length: usize,
    /// To whom it was addressed.
    pub kind: PacketType,
    /// Its Ethernet type as Linux has it: that of what is in the frame, without tags that the
    /// interface took off.
    pub protocol: u16,
    /// When it arrived, nanoseconds since 1970; 0: not known.
    pub time: i64,
}

impl PacketSocket {
    /// Opens one on the interface of a number.
    pub fn open(ifindex: u32, options: SocketOptions) -> io::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Without a protocol it receives nothing until it is bound.
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let socket = PacketSocket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, drops: 0 };
        if !options.send_only {
            socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
            socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
            if !options.filter.is_empty() {
                let program =
                    options.filter.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
                let mut program: Vec<_> = program.collect();
                let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
                socket.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
            }
            if !options.outgoing {
                // Kernels before 4.20 don't know it; then `receive` says of what it is.
                let _ = socket.set(libc::SOL_PACKET, IGNORE_OUTGOING, &1i32);
            }
        }
        // SAFETY: plain numbers, valid when zero.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = ifindex as i32;
        address.sll_protocol = if options.send_only { 0 } else { (libc::ETH_P_ALL as u16).to_be() };
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads the address, which lives through the call.
        if unsafe { libc::bind(socket.fd.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if options.promiscuous {
            // SAFETY: plain numbers, valid when zero.
            let mut membership: libc::packet_mreq = unsafe { zeroed() };
            membership.mr_ifindex = ifindex as i32;
            membership.mr_type = libc::PACKET_MR_PROMISC as u16;
            socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        }
        Ok(socket)
    }

    /// Has the interface receive what is sent to a link address besides its own, by its filter or,
    /// where it has none, by receiving everything; or not any more. It ends with the socket as
    /// well.
    pub fn take_address(&self, ifindex: u32, mac: [u8; 6], take: bool) -> io::Result<()> {
        // SAFETY: plain numbers, valid when zero.
        let mut membership: libc::packet_mreq = unsafe { zeroed() };
        membership.mr_ifindex = ifindex as i32;
        membership.mr_type = UNICAST;
        membership.mr_alen = 6;
        membership.mr_address[..6].copy_from_slice(&mac);
        let option = if take { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.set(libc::SOL_PACKET, option, &membership)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel reads the value, which lives through the call.
        let result = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives a frame, from its Ethernet header on, VLAN tag included. `WouldBlock` when there is
    /// none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        #[repr(align(8))]
        struct Control([u8; 128]);
        let mut control = Control([0; 128]);
        // SAFETY: plain numbers and pointers, valid when zero.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
        let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of_val(&from) as libc::socklen_t;
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: all that the message points to lives through the call and has the lengths it
        // says.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        let kind = match from.sll_pkttype {
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            4 => PacketType::Outgoing,
            5 => PacketType::Loopback,
            6 => PacketType::FastRoute,
            _ => PacketType::Host,
        };
        let protocol = u16::from_be(from.sll_protocol);
        let mut received = Received { captured: length.min(buffer.len()), length, kind, protocol, time: 0 };
        // SAFETY: the kernel filled the message's control part, in which the macros go from one
        // header to the next.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(control) = header.as_ref() {
                let data = libc::CMSG_DATA(header);
                match (control.cmsg_level, control.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        received.time = time.tv_sec * 1_000_000_000 + time.tv_nsec;
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        put_tag_back(
                            &data.cast::<libc::tpacket_auxdata>().read_unaligned(),
                            buffer,
                            &mut received,
                        );
                    }
                    _ => {}
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok(received)
    }

    /// Sends a frame, from its Ethernet header on. `WouldBlock`, or ENOBUFS, when the interface
    /// cannot take it now.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the frame, which lives through the call.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames that were lost because nobody received them in time.
    pub fn drops(&mut self) -> u64 {
        // SAFETY: plain numbers, valid when zero.
        let mut counts: libc::tpacket_stats = unsafe { zeroed() };
        let mut length = size_of_val(&counts) as libc::socklen_t;
        let (fd, option) = (self.fd.as_raw_fd(), libc::PACKET_STATISTICS);
        // SAFETY: the kernel writes at most `length` bytes to the counts.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, option, (&raw mut counts).cast(), &raw mut length)
        };
        // Asking sets the kernel's count to zero.
        self.drops += if result < 0 { 0 } else { u64::from(counts.tp_drops) };
        self.drops
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Linux keeps a frame's outermost VLAN tag beside it.
fn put_tag_back(notes: &libc::tpacket_auxdata, buffer: &mut [u8], received: &mut Received) {
    if notes.tp_status & libc::TP_STATUS_VLAN_VALID == 0 || received.captured < TAG_AT {
        return;
    }
    let protocol = match notes.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => notes.tp_vlan_tpid,
    };
    let captured = (received.captured + TAG).min(buffer.len());
    if captured >= TAG_AT + TAG {
        buffer.copy_within(TAG_AT..captured - TAG, TAG_AT + TAG);
        buffer[TAG_AT..TAG_AT + 2].copy_from_slice(&protocol.to_be_bytes());
        buffer[TAG_AT + 2..TAG_AT + TAG].copy_from_slice(&notes.tp_vlan_tci.to_be_bytes());
    }
    received.captured = captured;
    received.length += TAG;
}
