//! The kernel's `netdev` family of generic netlink: what a device can do with XDP.
//!
//! That is not fixed: a veth can be the target of a redirect only while its peer polls (has an XDP
//! program or GRO), and the kernel tells of changes. A target that is none swallows frames
//! silently, so this must be known.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use super::netlink::{HEADER, Socket, attributes, number};

const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// struct nlmsghdr and struct genlmsghdr
const HEADERS: usize = HEADER + 4;

/// What a device can do with XDP (`enum netdev_xdp_act`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(pub u64);

impl XdpFeatures {
    /// Runs programs in the driver.
    pub const NATIVE: XdpFeatures = XdpFeatures(1);
    /// Its frames can be redirected.
    pub const REDIRECT: XdpFeatures = XdpFeatures(2);
    /// Frames can be redirected to it.
    pub const REDIRECT_TARGET: XdpFeatures = XdpFeatures(4);
    /// AF_XDP without copying.
    pub const ZERO_COPY: XdpFeatures = XdpFeatures(8);
    /// Receives frames in several buffers.
    pub const SEGMENTS: XdpFeatures = XdpFeatures(32);
    /// Takes redirected frames in several buffers.
    pub const TARGET_SEGMENTS: XdpFeatures = XdpFeatures(64);

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: XdpFeatures) -> bool {
        self.0 & other.0 == other.0
    }
}

pub(super) fn features(ifindex: u32) -> io::Result<XdpFeatures> {
    /// The kernel gives a family its number once.
    static FAMILY: OnceLock<u16> = OnceLock::new();
    let socket = Socket::open(libc::NETLINK_GENERIC)?;
    let family = match FAMILY.get() {
        Some(family) => *family,
        None => {
            let id = socket.family()?.id;
            *FAMILY.get_or_init(|| id)
        }
    };
    let reply = socket.request(
        family,
        &[NETDEV_CMD_DEV_GET, 1, 0, 0],
        NETDEV_A_DEV_IFINDEX,
        &ifindex.to_ne_bytes(),
    )?;
    parse_features(&reply)
        .map(|(_, features)| features)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// A subscription to changes of any device's XDP features in this network namespace.
pub struct FeatureWatch {
    socket: Socket,
}

impl FeatureWatch {
    /// Subscribes.
    pub fn new() -> io::Result<FeatureWatch> {
        let socket = Socket::open(libc::NETLINK_GENERIC)?;
        let group = socket.family()?.management_group;
        let group = group.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let at = std::ptr::from_ref(&group).cast();
        // SAFETY: the kernel reads 4 bytes of `group`.
        let result = unsafe {
            libc::setsockopt(socket.0.as_raw_fd(), libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, at, 4)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(FeatureWatch { socket }) }
    }

    /// Readable when there is a change.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }

    /// The next change that has arrived: the interface, and its features now. After an error
    /// (messages were lost), ask for each interface anew.
    pub fn next(&self) -> io::Result<Option<(u32, XdpFeatures)>> {
        loop {
            match self.socket.receive(libc::MSG_DONTWAIT) {
                Ok(message) => {
                    if let Some(change) = parse_features(&message) {
                        return Ok(Some(change));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

struct Family {
    id: u16,
    management_group: Option<u32>,
}

impl Socket {
    fn family(&self) -> io::Result<Family> {
        let reply =
            self.request(GENL_ID_CTRL, &[CTRL_CMD_GETFAMILY, 1, 0, 0], CTRL_ATTR_FAMILY_NAME, b"netdev\0")?;
        let mut family = Family { id: 0, management_group: None };
        for (kind, value) in attributes(reply.get(HEADERS..).unwrap_or(&[])) {
            match kind {
                CTRL_ATTR_FAMILY_ID => family.id = number(value) as u16,
                CTRL_ATTR_MCAST_GROUPS => {
                    for (_, group) in attributes(value) {
                        let find = |wanted| attributes(group).find(|(kind, _)| *kind == wanted);
                        if find(CTRL_ATTR_MCAST_GRP_NAME).is_some_and(|(_, name)| name == b"mgmt\0") {
                            family.management_group =
                                find(CTRL_ATTR_MCAST_GRP_ID).map(|(_, id)| number(id) as u32);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(family)
    }
}

fn parse_features(message: &[u8]) -> Option<(u32, XdpFeatures)> {
    let (mut ifindex, mut features) = (None, None);
    for (kind, value) in attributes(message.get(HEADERS..)?) {
        match kind {
            NETDEV_A_DEV_IFINDEX => ifindex = Some(number(value) as u32),
            NETDEV_A_DEV_XDP_FEATURES => features = Some(XdpFeatures(number(value))),
            _ => {}
        }
    }
    Some((ifindex?, features?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_cut_anywhere_are_no_danger() {
        let whole = [8, 0, 1, 0, 7, 0, 0, 0, 12, 0, 3, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(attributes(&whole).count(), 2);
        let message = [&[0; HEADERS][..], &whole].concat();
        assert_eq!(parse_features(&message), Some((7, XdpFeatures(5))));
        for cut in 0..message.len() {
            assert_eq!(parse_features(&message[..cut]), None);
        }
        let mut random = chance::Random(1);
        for _ in 0..100_000 {
            let noise: [u8; 40] = std::array::from_fn(|_| random.below(8) as u8);
            attributes(&noise).take(100).for_each(drop);
        }
    }
}
