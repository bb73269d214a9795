//! Two of ethtool's questions (`linux/ethtool.h`) that only the doctor asks: rings, and flow
//! control.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Pause, Rings};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;

/// `struct ifreq` with a pointer as its union, and room for the rest of that.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    rest: [u8; 16],
}

/// Asks an interface; `command` is an ethtool structure of 32-bit words, its number first.
fn ask<const N: usize>(interface: &str, mut command: [u32; N]) -> io::Result<[u32; N]> {
    let mut name = [0; libc::IFNAMSIZ];
    if interface.is_empty() || interface.len() >= name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: a new descriptor, ours alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut request = Request { name, data: command.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: the kernel reads `struct ifreq`, and writes the ethtool structure behind its pointer,
    // which is as long as the command's number says.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) } {
        result if result < 0 => Err(io::Error::last_os_error()),
        _ => Ok(command),
    }
}

pub(crate) fn rings(interface: &str) -> io::Result<Rings> {
    // struct ethtool_ringparam: cmd, rx max, rx mini max, rx jumbo max, tx max, then the same in
    // use
    let mut command = [0; 9];
    command[0] = ETHTOOL_GRINGPARAM;
    let [_, rx_max, _, _, tx_max, rx, _, _, tx] = ask(interface, command)?;
    Ok(Rings { rx, rx_max, tx, tx_max })
}

pub(crate) fn pause(interface: &str) -> io::Result<Pause> {
    // struct ethtool_pauseparam: cmd, autoneg, rx, tx
    let [_, _, rx, tx] = ask(interface, [ETHTOOL_GPAUSEPARAM, 0, 0, 0])?;
    Ok(Pause { rx: rx != 0, tx: tx != 0 })
}

pub(crate) fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOTTY) => "the driver does not tell".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_have_none_say_so() {
        assert!(rings("lo").is_err() && pause("lo").is_err());
        assert!(rings("no-such-port").is_err() && rings("a-name-longer-than-linux-allows").is_err());
        assert_eq!(why(&io::Error::from_raw_os_error(libc::EOPNOTSUPP)), "the driver does not tell");
    }
}
