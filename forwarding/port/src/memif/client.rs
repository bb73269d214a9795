//! The client's side of an agreement: it makes the memory and the rings, and offers them.
//!
//! ```text
//! region 0: rings to the server | rings to the client | buffers of the first | of the second | ...
//! ```
//!
//! Buffers lie a cache line further apart than they are long: at a power of two they would all fall
//! into a few sets of the processor's first cache, which a batch of frames overfills.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::bell::SharedBell;
use super::incoming::Incoming;
use super::message::{AddRing, Hello, Init, Message, VERSION};
use super::outgoing::Outgoing;
use super::queue::{Ends, Rings};
use super::region::Region;
use super::ring::{Own, Ring, bytes_of};
use super::{PROGRAM, Settings, message};

const LINE: u32 = 64;

/// What is offered to a server.
pub(super) struct Offer {
    /// To be sent one at a time, the next one when the last one is acknowledged.
    pub(super) messages: VecDeque<(Message, Option<OwnedFd>)>,
    memory: Arc<[Region]>,
    file: OwnedFd,
    log2: u8,
    buffer: u32,
    to_server: Vec<SharedBell>,
    to_client: Vec<SharedBell>,
}

/// Where things are in region 0.
struct Layout {
    log2: u8,
    rings: u32,
    stride: u32,
}

impl Layout {
    fn ring(&self, number: u32) -> u32 {
        number * bytes_of(self.log2) as u32
    }

    fn buffers(&self, number: u32) -> u32 {
        self.ring(self.rings).next_multiple_of(LINE) + (number << self.log2) * self.stride
    }

    fn new(log2: u8, rings: u32, buffer: u32) -> Layout {
        Layout { log2, rings, stride: buffer.next_multiple_of(LINE) + LINE }
    }
}

/// Bytes of the memory that these settings take.
pub(super) fn bytes(log2: u8, rings: u64, buffer: u32) -> u64 {
    let stride = u64::from(buffer).next_multiple_of(LINE.into()) + u64::from(LINE);
    rings * (bytes_of(log2) as u64 + (stride << log2)) + u64::from(LINE)
}

impl Offer {
    /// What fits these settings and what the server can take.
    pub(super) fn make(settings: &Settings, hello: &Hello) -> Result<Offer, String> {
        if !(hello.versions.0..=hello.versions.1).contains(&VERSION) {
            return Err("this is memif 2.0, and the server is not".to_owned());
        }
        let log2 = settings.log2().min(hello.most_log2);
        let to_server = settings.queues.min(hello.last_to_server.saturating_add(1));
        let to_client = settings.queues.min(hello.last_to_client.saturating_add(1));
        Offer::of(settings, log2, to_server, to_client).map_err(|error| error.to_string())
    }

    fn of(settings: &Settings, log2: u8, to_server: u16, to_client: u16) -> io::Result<Offer> {
        let rings = u32::from(to_server) + u32::from(to_client);
        let size = bytes(log2, rings.into(), settings.buffer);
        let (region, file) = Region::create(size as usize, settings.huge_pages)?;
        let bytes = region.bytes() as u64;
        let memory: Arc<[Region]> = Arc::new([region]);
        let init = Init {
            version: VERSION,
            id: settings.id,
            mode: message::ETHERNET,
            secret: settings.secret_field(),
            name: PROGRAM.to_owned(),
        };
        let layout = Layout::new(log2, rings, settings.buffer);
        let mut offer = Offer {
            messages: VecDeque::new(),
            memory,
            file: file.try_clone()?,
            log2,
            buffer: settings.buffer,
            to_server: Vec::new(),
            to_client: Vec::new(),
        };
        offer.messages.push_back((Message::Init(init), None));
        offer.messages.push_back((Message::AddRegion { index: 0, bytes }, Some(file)));
        for number in 0..rings {
            let in_order = number as u16;
            let is_to_server = in_order < to_server;
            let (index, bells) = match is_to_server {
                true => (in_order, &mut offer.to_server),
                false => (in_order - to_server, &mut offer.to_client),
            };
            let (wake, theirs) = SharedBell::pair()?;
            let ring = AddRing {
                to_server: is_to_server,
                index,
                region: 0,
                offset: layout.ring(number),
                log2,
                private_header: 0,
            };
            offer.messages.push_back((Message::AddRing(ring), Some(theirs)));
            bells.push(wake);
            if let Some(ring) = Ring::at(&offer.memory, 0, layout.ring(number), log2) {
                ring.begin();
            }
        }
        offer.messages.push_back((Message::Connect { interface: settings.name.clone() }, None));
        Ok(offer)
    }

    /// The server has taken all: the rings, by queue.
    pub(super) fn connect(self, settings: &Settings) -> Result<Vec<Rings>, String> {
        // It has mapped the memory, as its answer says.
        for region in &*self.memory {
            region.keep(&self.file).map_err(|error| error.to_string())?;
        }
        let (to_server, to_client) = (self.to_server.len() as u32, self.to_client.len() as u32);
        let layout = Layout::new(self.log2, to_server + to_client, self.buffer);
        let place = |number| {
            let (ring, offset) = (layout.ring(number), layout.buffers(number));
            let ring = Ring::at(&self.memory, 0, ring, self.log2)?;
            let base = self.memory.first()?.at(offset, layout.stride << self.log2)?;
            let mask = ring.size() - 1;
            Some((ring, Own { base, stride: layout.stride, bytes: self.buffer, offset, mask }))
        };
        let outside = || "the rings are not inside the memory made for them".to_owned();
        let mut queues: Vec<_> =
            (0..settings.queues).map(|_| Ends { incoming: None, outgoing: None }).collect();
        for (number, (queue, bell)) in (0..).zip(queues.iter_mut().zip(self.to_server)) {
            let (ring, buffers) = place(number).ok_or_else(outside)?;
            queue.outgoing = Some(Outgoing::new(ring, buffers, bell));
        }
        for (number, (queue, bell)) in (to_server..).zip(queues.iter_mut().zip(self.to_client)) {
            let (ring, buffers) = place(number).ok_or_else(outside)?;
            queue.incoming = Some((Incoming::new(ring, buffers), bell));
        }
        Ok(queues.into_iter().map(Rings::Client).collect())
    }
}
