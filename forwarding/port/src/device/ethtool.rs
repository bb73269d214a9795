//! ethtool's ioctls (`linux/ethtool.h`), which drivers have had for longer than its netlink family.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_SRXFHINDIR: u32 = 0x39;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const FLAG_RX_VLAN: u32 = 1 << 8;
const FLAG_LRO: u32 = 1 << 15;
/// More slots than any device has.
const MAX_RSS: usize = 1 << 16;

/// How many queues an interface has, and could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Receive-only queues.
    pub rx: u32,
    /// Transmit-only queues.
    pub tx: u32,
    /// Queues for both.
    pub combined: u32,
    /// Receive queues at most.
    pub max: u32,
}

impl Channels {
    /// Receive queues in use.
    pub fn receive(&self) -> u32 {
        self.rx + self.combined
    }
}

/// Offloads that matter to forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Generic receive offload: the stack merges packets (after native XDP).
    pub gro: bool,
    /// Large receive offload: the device merges packets. XDP needs it off.
    pub lro: bool,
    /// The device strips VLAN tags, which XDP then does not see.
    pub rx_vlan: bool,
}

/// Asks one interface.
pub(super) struct Handle {
    socket: OwnedFd,
    name: [u8; libc::IFNAMSIZ],
}

/// `struct ifreq`, with its union as plain bytes.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: Data,
}

#[repr(C)]
union Data {
    pointer: *mut libc::c_void,
    bytes: [u8; 24],
}

impl Handle {
    pub(super) fn new(interface: &str) -> io::Result<Handle> {
        let mut name = [0; libc::IFNAMSIZ];
        if interface.is_empty() || interface.len() >= name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        name[..interface.len()].copy_from_slice(interface.as_bytes());
        // SAFETY: a new descriptor, ours alone.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Handle { socket: unsafe { OwnedFd::from_raw_fd(fd) }, name })
    }

    fn ioctl(&self, number: libc::c_ulong, data: Data) -> io::Result<[u8; 24]> {
        let mut request = Request { name: self.name, data };
        // SAFETY: the kernel reads and writes `struct ifreq`; a pointer in it comes from `ethtool`,
        // which says why it is sound.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), number, &mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: any bytes are valid, and all of them were initialised.
        Ok(unsafe { request.data.bytes })
    }

    /// `command` is an ethtool structure: its number first, and as long as the kernel takes it to
    /// be.
    fn ethtool(&self, command: &mut [u32]) -> io::Result<()> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        let mut data = Data { bytes: [0; 24] };
        data.pointer = command.as_mut_ptr().cast();
        self.ioctl(SIOCETHTOOL, data).map(drop)
    }

    pub(super) fn mac(&self) -> io::Result<[u8; 6]> {
        let bytes = self.ioctl(libc::SIOCGIFHWADDR, Data { bytes: [0; 24] })?;
        Ok([bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    pub(super) fn mtu(&self) -> io::Result<u32> {
        let bytes = self.ioctl(libc::SIOCGIFMTU, Data { bytes: [0; 24] })?;
        Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    pub(super) fn driver(&self) -> io::Result<String> {
        // struct ethtool_drvinfo: cmd, driver[32], version[32], fw[32], bus[32], erom[32],
        // reserved[12], 5 numbers
        let mut info = [0u32; 49];
        info[0] = ETHTOOL_GDRVINFO;
        self.ethtool(&mut info)?;
        let bytes: Vec<u8> = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    pub(super) fn channels(&self) -> io::Result<Channels> {
        // struct ethtool_channels: cmd, max rx, tx, other, combined, then the same in use
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        self.ethtool(&mut channels)?;
        let [_, max_rx, _, _, max_combined, rx, tx, _, combined] = channels;
        Ok(Channels { rx, tx, combined, max: max_rx.max(max_combined) })
    }

    pub(super) fn rss(&self) -> io::Result<Vec<u32>> {
        // struct ethtool_rxfh_indir: cmd, size, ring_index[size]; size 0 asks for the size
        let mut ask = [ETHTOOL_GRXFHINDIR, 0];
        self.ethtool(&mut ask)?;
        let size = (ask[1] as usize).min(MAX_RSS);
        if size == 0 {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let mut table = vec![0; 2 + size];
        table[..2].copy_from_slice(&[ETHTOOL_GRXFHINDIR, size as u32]);
        self.ethtool(&mut table)?;
        Ok(table.split_off(2))
    }

    pub(super) fn set_rss(&self, table: &[u32]) -> io::Result<()> {
        if table.is_empty() || table.len() > MAX_RSS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut command = vec![ETHTOOL_SRXFHINDIR, table.len() as u32];
        command.extend_from_slice(table);
        self.ethtool(&mut command)
    }

    fn value(&self, command: u32) -> io::Result<u32> {
        let mut value = [command, 0];
        self.ethtool(&mut value)?;
        Ok(value[1])
    }

    pub(super) fn offloads(&self) -> io::Result<Offloads> {
        let flags = self.value(ETHTOOL_GFLAGS)?;
        Ok(Offloads {
            gro: self.value(ETHTOOL_GGRO)? != 0,
            lro: flags & FLAG_LRO != 0,
            rx_vlan: flags & FLAG_RX_VLAN != 0,
        })
    }

    /// Turns LRO and the stripping of VLAN tags on or off.
    pub(super) fn set_receive_offloads(&self, lro: bool, rx_vlan: bool) -> io::Result<()> {
        let before = self.value(ETHTOOL_GFLAGS)?;
        let with = |flags: u32, flag: u32, on: bool| if on { flags | flag } else { flags & !flag };
        let flags = with(with(before, FLAG_LRO, lro), FLAG_RX_VLAN, rx_vlan);
        if flags == before { Ok(()) } else { self.ethtool(&mut [ETHTOOL_SFLAGS, flags]) }
    }

    pub(super) fn set_gro(&self, on: bool) -> io::Result<()> {
        self.ethtool(&mut [ETHTOOL_SGRO, on.into()])
    }
}
