//! The server's side of an agreement: it takes the memory and the rings that a client offers.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Settings;
use super::bell::SharedBell;
use super::incoming::Incoming;
use super::message::AddRing;
use super::outgoing::Outgoing;
use super::queue::{Ends, Rings};
use super::region::Region;
use super::ring::Ring;

/// Highest number of a region: as many as DPDK knows.
pub(super) const LAST_REGION: u16 = 255;
/// Bytes that a client may have mapped for each queue, unless it is trusted: whatever of it is
/// touched here is memory of ours. The longest rings of both directions, with the buffers that all
/// programs make, take half of it.
const MOST_BYTES: u64 = 128 << 20;

/// What a client has offered so far.
#[derive(Default)]
pub(super) struct Taken {
    regions: Vec<Region>,
    to_server: Vec<(AddRing, SharedBell)>,
    to_client: Vec<(AddRing, SharedBell)>,
}

impl Taken {
    pub(super) fn region(
        &mut self,
        index: u16,
        bytes: u64,
        file: Option<OwnedFd>,
        settings: &Settings,
    ) -> Result<(), String> {
        let file = file.ok_or("a region without its memory")?;
        if usize::from(index) != self.regions.len() || index > LAST_REGION {
            return Err(format!("region {index} where {} was to come", self.regions.len()));
        }
        let (trusted, queues) = (settings.trusted, settings.queues);
        if !trusted {
            // Said before its size is: such memory is refused however little it is.
            Region::seal(&file).map_err(|error| error.to_string())?;
        }
        let most = MOST_BYTES * u64::from(queues);
        let taken = self.regions.iter().map(|region| region.bytes() as u64).sum::<u64>();
        if !trusted && taken.saturating_add(bytes) > most {
            return Err(format!(
                "{} MiB of memory, and {} are enough for {queues} queues: take more with trusted=on",
                taken.saturating_add(bytes) >> 20,
                most >> 20
            ));
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
        rings.push((ring, SharedBell::of(bell).map_err(|error| error.to_string())?));
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
