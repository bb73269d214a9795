//! The thread that reads what zebra writes.
//!
//! Bytes of another program are cut into frames and parsed here, by a thread that may do nothing
//! but this (`confine`). What comes of them goes to the control thread through a short queue: when
//! that is full, the thread waits, and then zebra does.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{FpmError, Frames, told};
use crate::source::{Change, Counters};

/// Readings that may wait: each is what one `read` of the connection brought.
const WAITING: usize = 16;

/// A frame, and what it adds to the counters.
pub(super) type Frame = (Vec<Change>, Counters);

enum Heard {
    Frames(Vec<Frame>),
    End(FpmError),
}

/// A connection that is read.
pub(super) struct Zebra {
    heard: Receiver<Heard>,
    bell: Arc<EventFd>,
    stream: TcpStream,
    frames: std::vec::IntoIter<Frame>,
}

impl Zebra {
    pub fn read(stream: TcpStream) -> io::Result<Zebra> {
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let (sender, heard) = sync_channel(WAITING);
        let (ringing, reading) = (bell.clone(), stream.try_clone()?);
        let thread = std::thread::Builder::new().name("fpm".to_owned());
        thread.spawn(move || {
            confine::reader();
            read(reading, &sender, &ringing);
        })?;
        Ok(Zebra { heard, bell, stream, frames: Vec::new().into_iter() })
    }

    /// Readable when there is a frame, or the connection is over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The next frame, if one has come; an error is the connection's end.
    pub fn next(&mut self) -> Result<Option<Frame>, FpmError> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Ok(Some(frame));
            }
            // First this, or what comes between the two would not be heard. An error means that
            // nobody rang.
            let _ = self.bell.read();
            match self.heard.try_recv() {
                Ok(Heard::Frames(frames)) => self.frames = frames.into_iter(),
                Ok(Heard::End(error)) => return Err(error),
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => {
                    return Err(FpmError::Io(io::Error::other("its reader ended")));
                }
            }
        }
    }
}

impl Drop for Zebra {
    fn drop(&mut self) {
        // The reader ends with it. An error means that the connection is over already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn read(mut stream: TcpStream, heard: &SyncSender<Heard>, bell: &EventFd) {
    let mut frames = Frames::default();
    loop {
        let next = hear(&mut stream, &mut frames);
        let over = next.is_err();
        let next = next.map_or_else(Heard::End, Heard::Frames);
        // Ringing only fails when it has been rung 2^64 times, and then it is readable anyway.
        if heard.send(next).is_err() || bell.write(1).is_err() || over {
            return;
        }
    }
}

/// Waits for bytes; the frames that are whole with them.
fn hear(stream: &mut TcpStream, frames: &mut Frames) -> Result<Vec<Frame>, FpmError> {
    match frames.read(stream) {
        Ok(0) => return Err(FpmError::Io(io::ErrorKind::UnexpectedEof.into())),
        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(FpmError::Io(error)),
        _ => {}
    }
    let mut all = Vec::new();
    while let Some(frame) = frames.next()? {
        let mut counters = Counters { frames: 1, ..Counters::default() };
        all.push((told(frame, &mut counters), counters));
    }
    Ok(all)
}
