//! What can go wrong with the plane.

use nix::errno::Errno;

/// Why the plane, or a port of it, could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneError {
    /// What the operator put into the graph does not fit.
    #[error("the graph is wrong:\n{0}")]
    Graph(#[from] graph::Refusal),
    /// An element of a graph that is to be run cannot begin.
    #[error("the graph stays as it is: {0}")]
    Refused(String),
    /// A handler of the graph.
    #[error(transparent)]
    Handler(#[from] graph::HandlerError),
    /// The programs in the driver.
    #[error(transparent)]
    Driver(#[from] port::DriverError),
    /// No way to hand packets to Linux.
    #[error("{0}: without it what only Linux can complete would be lost{help}", help = needs_tun(.0))]
    Injector(#[source] port::DriverError),
    /// Packet memory.
    #[error(transparent)]
    Memory(#[from] port::MemoryError),
    /// A socket on a queue.
    #[error(transparent)]
    Socket(#[from] port::XskError),
    /// A second descriptor of a socket.
    #[error("cannot duplicate a socket's descriptor: {0}")]
    Handle(std::io::Error),
    /// Facts about an interface.
    #[error(transparent)]
    Device(#[from] port::device::DeviceError),
    /// A worker that failed, or that something holds up.
    #[error("worker {0} does not answer")]
    Silent(usize),
    /// A worker's bell.
    #[error("cannot make an eventfd for a worker: {0}")]
    HandoffQueue(nix::Error),
    /// A worker's thread.
    #[error("cannot start a worker's thread: {0}")]
    Thread(std::io::Error),
    /// More ports than there is room for.
    #[error("{name}: no room for another port; {most} are the most")]
    TooManyPorts {
        /// The interface.
        name: String,
        /// The limit.
        most: u16,
    },
    /// More interfaces than there is room for.
    #[error("{name}: no room for another interface on a port; {most} are the most")]
    TooManyInterfaces {
        /// The interface.
        name: String,
        /// The limit.
        most: usize,
    },
    /// A port without an interface.
    #[error("there is no such interface")]
    Absent,
    /// An interface that is part of another.
    #[error("it belongs to {master}")]
    Enslaved {
        /// The bond, bridge or VRF, and what that means.
        master: String,
    },
    /// Queues that nobody serves, where that breaks flows.
    #[error(
        "{}; what arrives by those Linux would forward, which knows nothing of the flows that the filter or address \
         translation depends on", without_worker(name, *.unserved, *.available, source)
    )]
    Unserved {
        /// The interface.
        name: String,
        /// Queues without a worker.
        unserved: u32,
        /// Receive queues of the device.
        available: u32,
        /// Why packets cannot be kept off them.
        source: port::device::DeviceError,
    },
    /// The interface that stands before a port in shared memory.
    #[error("cannot make the TAP {name}: {source}")]
    Tap {
        /// Its name.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A port in shared memory.
    #[error(transparent)]
    Memif(#[from] port::memif::MemifError),
    /// The flow table.
    #[error(transparent)]
    Flows(#[from] flow::Error),
    /// A filter that cannot be compiled.
    #[error(transparent)]
    Filter(#[from] rules::TooLong),
    /// The tables have no such port.
    #[error(transparent)]
    Tables(#[from] fib::FibError),
}

/// That packets arrive by queues without a worker, why, and what to do.
pub(crate) fn without_worker(
    name: &str,
    unserved: u32,
    available: u32,
    why: &port::device::DeviceError,
) -> String {
    let served = (available - unserved).max(1);
    format!(
        "{unserved} of {available} receive queues have no worker, and packets cannot be kept off them ({why}); \
         `ethtool -L {name} combined {served}` leaves no others"
    )
}

/// What to do where there is no TAP device.
fn needs_tun(error: &port::DriverError) -> &'static str {
    let port::DriverError::Io { source, .. } = error else { return "" };
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => {
            "; load the kernel's module for it (modprobe tun), or let the container have /dev/net/tun"
        }
        Some(Errno::EBUSY) => "; does another Bifrost run in this network namespace?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_tun_is_told_what_to_do() {
        let error = |code: Errno| {
            let source = std::io::Error::from(code);
            PlaneError::Injector(port::DriverError::Io { what: "cannot make TAP device".into(), source })
                .to_string()
        };
        assert!(error(Errno::ENOENT).contains("modprobe tun"), "{}", error(Errno::ENOENT));
        assert!(error(Errno::EBUSY).contains("another Bifrost"));
        assert!(!error(Errno::EACCES).contains("modprobe"));
    }
}
