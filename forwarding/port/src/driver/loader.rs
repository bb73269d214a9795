//! The programs on their way into the kernel. It can be copied, so that another thread than the
//! owner's waits while the kernel checks them.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use abi::{Gate, Step};
use aya_obj::Object;

use super::failed;
use crate::DriverError;
use crate::bpf::{object, sys};

/// The programs as they were compiled, and what they are told.
#[derive(Clone)]
pub(super) struct Loader {
    pub object: Object,
    /// `FIB4_REST` in `forwarding/bpf/maps.h`.
    pub rest4: u32,
}

impl Loader {
    /// A program with these maps. `mark` is not 0 where it runs in generic mode.
    pub fn loaded(
        &self,
        name: &str,
        mark: u32,
        maps: &HashMap<String, OwnedFd>,
    ) -> Result<OwnedFd, DriverError> {
        let (mark, rest, key) =
            (mark.to_ne_bytes(), self.rest4.to_ne_bytes(), wire::flow_key().to_ne_bytes());
        let constants = HashMap::from([
            ("MARK", (&mark[..], true)),
            ("FIB4_REST", (&rest[..], true)),
            ("FLOW_KEY", (&key[..], true)),
        ]);
        object::load(self.object.clone(), name, constants, maps)
    }

    /// Loads a step, and puts it where the others go on to it.
    pub fn add_step(&self, step: Step, maps: &HashMap<String, OwnedFd>) -> Result<(), DriverError> {
        self.put_behind("steps", step as u32, step.name(), maps)
    }

    /// Loads the last step to workers.
    pub fn open_gate(&self, gate: Gate, maps: &HashMap<String, OwnedFd>) -> Result<(), DriverError> {
        self.put_behind("gate", gate as u32, gate.name(), maps)
    }

    fn put_behind(
        &self,
        map: &'static str,
        at: u32,
        name: &str,
        maps: &HashMap<String, OwnedFd>,
    ) -> Result<(), DriverError> {
        let program = self.loaded(name, 0, maps)?;
        let ways = maps.get(map).ok_or_else(|| DriverError::NoMap { name: map.into() })?;
        sys::map_update(ways.as_fd(), &at.to_ne_bytes(), &program.as_raw_fd().to_ne_bytes())
            .map_err(failed(map, "write"))
    }
}

/// Descriptors of the same maps.
pub(super) fn copies_of(maps: &HashMap<String, OwnedFd>) -> Result<HashMap<String, OwnedFd>, DriverError> {
    let copy = |(name, fd): (&String, &OwnedFd)| {
        let copy = fd.try_clone().map_err(DriverError::io("cannot duplicate a map's descriptor"))?;
        Ok((name.clone(), copy))
    };
    maps.iter().map(copy).collect()
}
