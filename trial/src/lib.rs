//! Trials.
pub mod device;
mod frames;
pub mod search;
pub use device::*;
pub use frames::*;
