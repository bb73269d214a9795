//! All frames of an interface to AF_XDP sockets (`forwarding/bpf/redirect.c`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::bpf::{object, sys};
use crate::driver::{MAX_QUEUES, XDP_GENERIC, XDP_NATIVE, why_not_native};
use crate::{Attachment, DriverError};

const SOCKETS: &str = "sockets";

/// The program on an interface, while this lives: it goes when the process dies, however it does.
pub(crate) struct Redirect {
    sockets: OwnedFd,
    attachment: Attachment,
    _link: OwnedFd,
}

impl Redirect {
    /// Attaches it: in the driver, and if that cannot, in the stack. No queue has a socket yet, so
    /// Linux gets every frame.
    pub(crate) fn attach(ifindex: u32) -> Result<Redirect, DriverError> {
        let object = object::redirect()?;
        let none = || DriverError::NoMap { name: SOCKETS.to_owned() };
        let shape = object.maps.get(SOCKETS).ok_or_else(none)?;
        let mut maps = HashMap::from([(SOCKETS.to_owned(), object::create(SOCKETS, shape, None)?)]);
        let program = object::load(object, "redirect", HashMap::new(), &maps)?;
        let failed = |source| DriverError::Attach { ifindex, source };
        let link = |flags| sys::link_create(program.as_fd(), ifindex, sys::ATTACH_XDP, flags);
        let (link, attachment) = match link(XDP_NATIVE) {
            Ok(link) => (link, Attachment { native: true, why: None }),
            Err(error) => {
                let why = Some(why_not_native(error).map_err(failed)?);
                (link(XDP_GENERIC).map_err(failed)?, Attachment { native: false, why })
            }
        };
        let sockets = maps.remove(SOCKETS).ok_or_else(none)?;
        Ok(Redirect { sockets, attachment, _link: link })
    }

    /// How it is attached.
    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Gives the frames of a queue to a socket.
    pub(crate) fn set_socket(&self, queue: u32, socket: &impl AsFd) -> Result<(), DriverError> {
        if queue >= MAX_QUEUES {
            return Err(DriverError::QueueRange { queue });
        }
        let socket = socket.as_fd().as_raw_fd().to_ne_bytes();
        sys::map_update(self.sockets.as_fd(), &queue.to_ne_bytes(), &socket).map_err(failed)
    }

    /// Gives the frames of a queue to Linux again.
    pub(crate) fn clear_socket(&self, queue: u32) -> Result<(), DriverError> {
        sys::map_delete(self.sockets.as_fd(), &queue.to_ne_bytes()).map_err(failed)
    }
}

fn failed(source: io::Error) -> DriverError {
    DriverError::Map { name: SOCKETS.to_owned(), action: "write", bytes: 0, source }
}
