//! TUN and TAP devices: interfaces of Linux whose other end is this program.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use ipnet::Ipv4Net;
use wire::Mac;

/// What passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapKind {
    /// Ethernet frames.
    Ethernet,
    /// IP packets.
    Ip,
}

/// How Linux's end is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct TapSetup {
    /// Its address.
    pub address: Option<Ipv4Net>,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// The longest packet behind the Ethernet header, bytes.
    pub mtu: Option<u32>,
}

/// A device. It lives as long as this, unless it was there before. Never blocks.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Opens the device of a name, which is made if it is not there; without a name Linux chooses
    /// one.
    pub fn open(name: &str, kind: TapKind) -> io::Result<Tap> {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a valid path; the descriptor is ours.
        let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut request = request(name)?;
        let kind = if kind == TapKind::Ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the kernel reads and writes the request.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let name = request.ifr_name.iter().map(|&byte| byte as u8).take_while(|byte| *byte != 0).collect();
        Ok(Tap { file: File::from(fd), name: String::from_utf8(name).unwrap_or_default() })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets the device stay when this is gone, with its addresses and without carrier, until
    /// somebody opens it again or removes it (`ip link del`).
    pub fn persist(&self) -> io::Result<()> {
        // SAFETY: a plain number; the descriptor is ours.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETPERSIST, 1 as libc::c_ulong) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Tells Linux whether there is carrier.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let on = libc::c_int::from(on);
        // SAFETY: the kernel reads a number; the descriptor is ours.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETCARRIER, &raw const on) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sets up Linux's end, and takes it up.
    pub fn set_up(&self, setup: &TapSetup) -> io::Result<()> {
        // SAFETY: no pointers; the descriptor is ours.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let control = |what, request: &mut libc::ifreq| {
            // SAFETY: the kernel reads and writes the request.
            let result = unsafe { libc::ioctl(socket.as_raw_fd(), what, std::ptr::from_mut(request)) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        let mut request = request(&self.name)?;
        if let Some(Mac(mac)) = setup.mac {
            let mut data = [0; 14];
            data.iter_mut().zip(mac).for_each(|(to, from)| *to = from as libc::c_char);
            request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
            control(libc::SIOCSIFHWADDR, &mut request)?;
        }
        if let Some(mtu) = setup.mtu {
            request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
            control(libc::SIOCSIFMTU, &mut request)?;
        }
        if let Some(address) = setup.address {
            request.ifr_ifru.ifru_addr = socket_address(address.addr());
            control(libc::SIOCSIFADDR, &mut request)?;
            request.ifr_ifru.ifru_netmask = socket_address(address.netmask());
            control(libc::SIOCSIFNETMASK, &mut request)?;
        }
        control(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the kernel has just written this part.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        control(libc::SIOCSIFFLAGS, &mut request)
    }

    /// Reads a frame or packet that Linux sent. `WouldBlock` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Lets Linux receive a frame or packet, given in pieces.
    pub fn send<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); crate::MAX_SEGMENTS];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(pieces) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        (&self.file).write_vectored(&slices[..count]).map(|_| ())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<Tap> for OwnedFd {
    fn from(tap: Tap) -> OwnedFd {
        tap.file.into()
    }
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: plain numbers, valid when zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // The port, then the address.
    let mut data = [0; 14];
    data[2..6].iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from as libc::c_char);
    libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: data }
}
