//! What is looked at, area by area.

pub(crate) mod cpu;
pub(crate) mod kernel;
pub(crate) mod memory;
pub(crate) mod port;
pub(crate) mod sysctl;

/// Bytes as people say them.
fn bytes(count: u64) -> String {
    match count {
        0x4000_0000.. => format!("{:.0} GiB", count as f64 / f64::from(1u32 << 30)),
        0x10_0000.. => format!("{:.0} MiB", count as f64 / f64::from(1u32 << 20)),
        _ => format!("{:.0} KiB", count as f64 / 1024.0),
    }
}
