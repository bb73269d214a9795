//! Facts that the driver's programs in C (`forwarding/bpf/`) and the Rust around them share, each
//! written once.
//!
//! Numbers, flags and layouts are declared here by the macros of `macros.rs`. Rust uses them as
//! they are; C includes headers that are made from them ([`facts`], [`traffic::facts`]), which
//! `forwarding/port/build.rs` writes before it compiles the programs. The crate depends on next to
//! nothing, so that a build script can use it.
//!
//! What is not here: constants that one side alone knows, and the code on either side.

mod c;
#[macro_use]
mod macros;
mod class;
pub mod driver;
pub mod ethernet;
pub mod fib;
pub mod flow;
mod interface;
pub mod protocol;
mod reason;
mod step;
pub mod traffic;

pub use class::{Class, is_management, is_routing};
pub use driver::{Count, DriverCounters, Lane, Traffic};
pub use fib::HopKind;
pub use interface::InterfaceFlags;
pub use reason::Reason;
pub use step::{Gate, Step};

/// The header `facts.h`, which `forwarding/bpf/abi.h` includes.
pub fn facts() -> String {
    let parts = [
        reason::c(),
        class::c(),
        class::ports(),
        protocol::c(),
        ethernet::types(),
        driver::lanes(),
        driver::numbers(),
        interface::c(),
        fib::kinds(),
        fib::words(),
        driver::layouts(),
        step::steps(),
        step::gates(),
        flow::words(),
        flow::phases(),
        flow::verdicts(),
        flow::decisions(),
        flow::layouts(),
    ];
    c::header(&parts)
}

#[cfg(test)]
mod tests {
    #[test]
    fn facts_are_written_as_c_reads_them() {
        let text = [super::facts(), super::traffic::facts()].concat();
        for line in [
            "    REASON_TTL_EXPIRED = 6, /* TTL or hop limit used up; answered with time exceeded. */",
            "    LANES = 4,",
            "#define NO_PORT 65535",
            "#define FLOW_V6 256u",
            "#define VERDICT_KNOWN 9223372036854775808ull",
            "    IF_FORWARD6 = 8,",
            "    struct limit limit[7];",
            "_Static_assert(__builtin_offsetof(struct flow_cold, volume) == 16, \"flow_cold.volume\");",
            "    volatile __u64 paced;",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}");
        }
    }

    /// What the documents promise.
    #[test]
    fn a_router_has_256_ports_with_128_queues_each() {
        assert_eq!((super::driver::MAX_PORTS, super::driver::MAX_QUEUES), (256, 128));
    }
}
