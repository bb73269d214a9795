//! Where a fuzzer comes in: a client's messages to a server, and then what it writes into the
//! memory that both have.
//!
//! ```text
//! messages u8 | so many times: descriptor u8, 128 bytes | the rest goes into each region that was taken
//! ```

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use fib::PortId;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use nix::sys::uio::pwrite;
use nix::unistd::ftruncate;

use super::bell::SharedBell;
use super::control::{Connection, Stage};
use super::message::BYTES;
use super::queue::{MemifQueue, Slot};
use super::{Role, Settings, Shared, State};
use crate::{Packet, Pool, Queue, pool};

/// Packets that there are: whatever a peer does, all of them are there afterwards.
const CHUNKS: usize = 300;

/// What comes with a message. `number` chooses; regions are kept, for more is written to them
/// later.
fn descriptor(number: u8, regions: &mut Vec<OwnedFd>) -> Option<OwnedFd> {
    let memory = |flags, bytes| -> Option<OwnedFd> {
        let file = memfd_create("fuzz", flags).ok()?;
        ftruncate(&file, bytes).ok()?;
        Some(file)
    };
    match number % 8 {
        0 => None,
        1 | 2 => Some(SharedBell::pair().ok()?.1),
        3 => Some(std::fs::File::open("/dev/null").ok()?.into()),
        4 => memory(MFdFlags::empty(), 4096),
        _ => {
            let file = memory(MFdFlags::MFD_ALLOW_SEALING, 4096 << (number >> 4))?;
            regions.push(file.try_clone().ok()?);
            Some(file)
        }
    }
}

/// A hostile client, from its first message to the frames.
pub fn client(bytes: &[u8]) {
    if pool::available() != CHUNKS {
        Pool::heap(CHUNKS).install();
    }
    let _ = serve(bytes);
    assert_eq!(pool::available(), CHUNKS);
}

fn serve(bytes: &[u8]) -> Option<()> {
    let (count, mut rest) = bytes.split_first()?;
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, kind).ok()?;
    let slot = Arc::new(Slot::new().ok()?);
    let state = Mutex::new(State::Down { why: String::new() });
    let settings = Settings::new("@fuzz", Role::Server);
    let shared = Arc::new(Shared { settings, slots: vec![slot.clone()], state, peers: AtomicU64::new(0) });
    let mut connection = Connection::new(ours, None, Stage::Asked);
    let mut queue = MemifQueue::new(PortId(1), slot)?;
    let mut regions = Vec::new();
    for _ in 0..*count {
        let Some((number, more)) = rest.split_first() else { break };
        let Some((message, more)) = more.split_first_chunk::<BYTES>() else { break };
        rest = more;
        let descriptor = descriptor(*number, &mut regions);
        let fds: Vec<_> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &[][..] } else { &rights };
        sendmsg::<()>(theirs.as_raw_fd(), &[IoSlice::new(message)], control, MsgFlags::MSG_DONTWAIT, None)
            .ok()?;
        if connection.read(|_| Ok(shared.clone())).is_err() {
            break;
        }
    }
    let mut packets = Vec::new();
    for piece in rest.chunks(1024) {
        for region in &regions {
            // It may be shorter.
            let _ = pwrite(region, piece, 0);
        }
        queue.receive(&mut packets, 64);
        for packet in packets.drain(..) {
            assert!(packet.total_len() >= 14 && packet.segment_count() <= crate::MAX_SEGMENTS);
            assert_eq!(packet.segments().map(<[u8]>::len).sum::<usize>(), packet.total_len());
        }
        packets.extend(Packet::new(&[3; 60]));
        packets.extend(Packet::new(&[3; 9000]));
        queue.transmit(&mut packets);
        queue.kick();
        packets.clear();
    }
    Some(())
}
