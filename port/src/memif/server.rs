//! The server's side of an agreement: it takes the memory and the rings that a client offers.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::Settings;
use super::incoming::Incoming;
use super::message::AddRing;
use super::outgoing::Outgoing;
use super::queue::{Ends, Rings};
use super::region::Region;
use super::ring::Ring;

/// Highest number of a region: as many as DPDK knows.
pub(super) const LAST_REGION: u16 = 255;

/// What a client has offered so far.
#[derive(Default)]
pub(super) struct Taken {
    regions: Vec<Region>,
    to_server: Vec<(AddRing, OwnedFd)>,
    to_client: Vec<(AddRing, OwnedFd)>,
}

impl Taken {
    pub(super) fn region(
        &mut self,
        index: u16,
        bytes: u64,
        file: Option<OwnedFd>,
        trusted: bool,
    ) -> Result<(), String> {
        let file = file.ok_or("a region without its memory")?;
        if usize::from(index) != self.regions.len() || index > LAST_REGION {
            return Err(format!("region {index} where {} was to come", self.regions.len()));
        }
        let region = Region::map(&file, bytes, trusted).map_err(|error| error.to_string())?;
        self.regions.push(region);
        Ok(())
    }

    pub(super) fn ring(&mut self, ring: AddRing, bell: Option<OwnedFd>, queues: u16) -> Result<(), String> {
        let bell = bell.ok_or("a ring without its interrupts")?;
        let rings = if ring.to_server { &mut self.to_server } else { &mut self.to_client };
        if usize::from(ring.index) != rings.len() {
            return Err(format!("ring {} where {} was to come", ring.index, rings.len()));
        }
        if ring.index >= queues {
            return Err(format!("more rings than the {queues} that there are queues"));
        }
        if ring.private_header != 0 {
            return Err("private headers are not known here".to_owned());
        }
        check_bell(&bell)?;
        rings.push((ring, bell));
        Ok(())
    }

    /// All has been offered: the rings, by queue.
    pub(super) fn connect(self, settings: &Settings) -> Result<Vec<Rings>, String> {
        let memory: Arc<[Region]> = self.regions.into();
        let place = |ring: &AddRing| {
            let AddRing { index, region, offset, log2, .. } = *ring;
            Ring::at(&memory, region, offset, log2)
                .filter(|ring| ring.is_one())
                .ok_or_else(|| format!("ring {index} is not inside its memory, or none"))
        };
        let mut queues: Vec<_> =
            (0..settings.queues).map(|_| Ends { incoming: None, outgoing: None }).collect();
        for (queue, (ring, bell)) in queues.iter_mut().zip(self.to_server) {
            let ring = place(&ring)?;
            let buffers = ring.theirs();
            queue.incoming = Some((Incoming::new(ring, buffers), bell));
        }
        for (queue, (ring, bell)) in queues.iter_mut().zip(self.to_client) {
            let ring = place(&ring)?;
            let buffers = ring.theirs();
            queue.outgoing = Some(Outgoing::new(ring, buffers, bell));
        }
        Ok(queues.into_iter().map(Rings::Server).collect())
    }
}

/// Whether writing to it wakes somebody up and does nothing else, and never blocks.
fn check_bell(bell: &OwnedFd) -> Result<(), String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", bell.as_raw_fd()));
    if !link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]") {
        return Err("a ring's interrupts are no eventfd".to_owned());
    }
    let flags = fcntl(bell.as_fd(), FcntlArg::F_GETFL).map_err(|error| error.to_string())?;
    let flags = OFlag::from_bits_truncate(flags) | OFlag::O_NONBLOCK;
    fcntl(bell.as_fd(), FcntlArg::F_SETFL(flags)).map_err(|error| error.to_string())?;
    Ok(())
}
