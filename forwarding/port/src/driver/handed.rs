//! A port's program that another process has attached, taken over without a packet between.
//!
//! The program hangs on a link, which lives as long as anybody has a descriptor of it. A process
//! that makes way for another hands that over. Its own program, with its own maps, goes on under it
//! until the new one is ready, and is then replaced in one step of the kernel's: each packet passes
//! the one or the other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use fib::PortId;

use super::{Attachment, Driver};
use crate::DriverError;
use crate::bpf::sys;

/// A program at an interface, and what keeps it there.
#[derive(Debug)]
pub struct HandedLink {
    /// The interface.
    pub ifindex: u32,
    /// How it is attached.
    pub attachment: Attachment,
    /// The link.
    pub link: OwnedFd,
}

impl Driver {
    /// What keeps a port's program at its interface, for another process. It stays this one's as
    /// well.
    ///
    /// # Errors
    /// No descriptor is left. `None`: there is no program.
    pub fn link_of(&self, port: PortId, attachment: &Attachment) -> io::Result<Option<HandedLink>> {
        let Some(entry) = self.ports.get(&port) else { return Ok(None) };
        let Some(link) = &entry.link else { return Ok(None) };
        let (ifindex, attachment) = (entry.ifindex, attachment.clone());
        Ok(Some(HandedLink { ifindex, attachment, link: link.try_clone()? }))
    }

    /// As [`Driver::stand_by`], where another process has handed over its program: that one goes on
    /// until [`Driver::admit`].
    pub fn stand_by_behind(&mut self, port: PortId, handed: HandedLink) -> Result<Attachment, DriverError> {
        let HandedLink { ifindex, attachment, link } = handed;
        let native = attachment.native;
        self.detach(port);
        self.begin(port, ifindex)?;
        self.entry(native)?;
        let entry = self.ports.get_mut(&port).ok_or(DriverError::NotAttached(port))?;
        (entry.link, entry.native, entry.is_anothers) = (Some(link), native, true);
        if !native {
            self.marks.write().unwrap_or_else(PoisonError::into_inner).insert(ifindex, self.mark);
        }
        // A port that cannot be watched is a port all the same.
        let _ = self.copy_of(port);
        Ok(attachment)
    }

    /// Replaces the program that was handed over by this process's own.
    pub(super) fn replace_anothers(&mut self, port: PortId) -> Result<(), DriverError> {
        let entry = self.ports.get_mut(&port).ok_or(DriverError::NotAttached(port))?;
        if !std::mem::take(&mut entry.is_anothers) {
            return Ok(());
        }
        let (native, ifindex) = (entry.native, entry.ifindex);
        let program = if native { &self.programs.native } else { &self.programs.generic };
        let program = program.as_ref().ok_or_else(|| DriverError::NoProgram { name: "bifrost".into() })?;
        let link = self.ports.get(&port).and_then(|entry| entry.link.as_ref());
        let link = link.ok_or(DriverError::NotAttached(port))?;
        sys::link_update(link.as_fd(), program.as_fd())
            .map_err(|source| DriverError::Attach { ifindex, source })
    }
}
