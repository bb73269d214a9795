//! What can go wrong between us and the kernel.

use std::io;

use fib::PortId;

/// Why something about ports failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages say it
pub enum DriverError {
    #[error("the embedded program is not a sound object file: {0}")]
    Parse(#[from] aya_obj::ParseError),
    #[error("the embedded program cannot be linked: {0}")]
    Relocate(#[from] aya_obj::relocation::EbpfRelocationError),
    #[error("the object file has no program {name}")]
    NoProgram { name: String },
    #[error("the object file has no map {name}")]
    NoMap { name: String },
    #[error("cannot {action} bpf map {name} ({bytes} bytes): {source} (needs CAP_BPF and CAP_NET_ADMIN)")]
    Map { name: String, action: &'static str, bytes: u64, source: io::Error },
    #[error("cannot make the program's constants: {0}")]
    Constants(io::Error),
    #[error("the kernel refuses program {name}: {source}")]
    Load { name: String, source: io::Error },
    #[error("cannot attach to interface {ifindex}: {source}{}", hint(.source))]
    Attach { ifindex: u32, source: io::Error },
    #[error("port {} is beyond the {} that the driver's tables have room for", .0.0, crate::driver::MAX_PORTS)]
    PortRange(PortId),
    #[error(
        "the driver's table has no place for interface {ifindex}: too many ports have indexes that are multiples of {} apart; \
         make the interface anew to give it another",
        abi::driver::PLACES
    )]
    NoPlace { ifindex: u32 },
    #[error("port {} has no program; attach it first", .0.0)]
    NotAttached(PortId),
    #[error("queue {queue} is beyond the {} of a port", crate::driver::MAX_QUEUES)]
    QueueRange { queue: u32 },
    #[error("at most 8 rules can divert packets at a time, not {0}")]
    TooManyDiverts(usize),
    #[error("a rule has an IPv4 and an IPv6 prefix, so it matches nothing")]
    MixedFamilies,
    #[error("the filters of all who watch are too long together for one program")]
    FilterTooLong,
    #[error("cannot run the program: {0}")]
    Run(io::Error),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl DriverError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> DriverError {
        let what = what.into();
        move |source| DriverError::Io { what, source }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            "; another XDP program is there: see `ip link show`, and `bpftool net`, for whose it is"
        }
        Some(libc::EPERM) => "; needs CAP_NET_ADMIN and CAP_BPF",
        _ => "",
    }
}
