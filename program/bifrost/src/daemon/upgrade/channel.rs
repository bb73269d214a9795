//! What the process that runs and the one that takes over say to each other: a JSON text a message,
//! over a pair of sockets. Releases differ, so nothing else is shared: no memory, no map, no
//! layout.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use plane::Handed;
use port::device::Offloads;
use port::{Attachment, HandedLink, descriptors};
use serde::{Deserialize, Serialize};

/// Bytes of a message at most: an RSS table is the longest part.
const LONGEST: usize = 128 * 1024;

/// A message. A release that says less or more says it with other words: one that is not known ends
/// the conversation, and the process that runs stays.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// Who takes over knows all that Linux knows.
    Ready {
        /// Its release.
        release: String,
    },
    /// A port, with the link of its program.
    Port {
        name: String,
        ifindex: u32,
        native: bool,
        /// Why it does not run in the driver.
        why: Option<String>,
        /// GRO, LRO and VLAN stripping as they were.
        offloads: Option<[bool; 3]>,
        rss: Option<Vec<u32>>,
    },
    /// These were all. What is for workers is Linux's from here on.
    Go {
        /// The virtual routers that it was active for, and that no other router took over.
        active: Vec<String>,
    },
    /// Who takes over forwards.
    Done,
    /// It does not, and why.
    Failed(String),
}

impl Word {
    /// A port as it is said, and the descriptor that goes with it.
    pub(super) fn of(handed: Handed) -> (Word, OwnedFd) {
        let Handed { name, link: HandedLink { ifindex, attachment, link }, offloads, rss } = handed;
        let Attachment { native, why } = attachment;
        let offloads = offloads.map(|Offloads { gro, lro, rx_vlan }| [gro, lro, rx_vlan]);
        (Word::Port { name, ifindex, native, why, offloads, rss }, link)
    }
}

/// One end.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    /// Says something. Waits for nobody: both read what they are told.
    pub(super) fn say(&self, word: &Word, link: Option<&OwnedFd>) -> io::Result<()> {
        let text = serde_json::to_vec(word)?;
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            match descriptors::send(self.0.as_fd(), &text, link.map(AsFd::as_fd)) {
                Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return Ok(done?),
            }
        }
    }

    /// What the other says within a time, with the link that came beside it; `None`: nothing yet.
    ///
    /// # Errors
    /// It is gone, or says what is not understood.
    pub(super) fn hear(&self, within: Duration) -> io::Result<Option<(Word, Option<OwnedFd>)>> {
        let deadline = Instant::now() + within;
        let mut bytes = vec![0; LONGEST];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // A signal may have ended the wait.
            if port::wait(&[self.0.as_raw_fd()], Some(left)).is_empty() && left.is_zero() {
                return Ok(None);
            }
            match descriptors::receive(self.0.as_fd(), &mut bytes) {
                Ok((0, _)) | Err(Errno::ECONNRESET) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((length, link)) => return Ok(Some((serde_json::from_slice(&bytes[..length])?, link))),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A port, as it was said, with its link; `None`: it was something else.
pub(super) fn handed(word: Word, link: OwnedFd) -> Option<Handed> {
    let Word::Port { name, ifindex, native, why, offloads, rss } = word else { return None };
    let offloads = offloads.map(|[gro, lro, rx_vlan]| Offloads { gro, lro, rx_vlan });
    let link = HandedLink { ifindex, attachment: Attachment { native, why }, link };
    Some(Handed { name, link, offloads, rss })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_comes_as_it_was_said_and_an_end_is_one() {
        let (one, other) = descriptors::pair().unwrap();
        let (one, other) = (Channel::new(one), Channel::new(other));
        assert!(other.hear(Duration::ZERO).unwrap().is_none());
        let link = std::fs::File::open("/dev/null").unwrap().into();
        let attachment = Attachment { native: false, why: Some("configured".to_owned()) };
        let said = Handed {
            name: "eth0".to_owned(),
            link: HandedLink { ifindex: 3, attachment: attachment.clone(), link },
            offloads: Some(Offloads { gro: true, lro: false, rx_vlan: true }),
            rss: Some((0..4096).collect()),
        };
        let (word, link) = Word::of(said);
        one.say(&word, Some(&link)).unwrap();
        let heard = other.hear(Duration::from_secs(5)).unwrap();
        let Some((word, Some(link))) = heard else { panic!("{heard:?}") };
        let heard = handed(word, link).unwrap();
        assert_eq!((heard.name.as_str(), heard.link.ifindex), ("eth0", 3));
        assert_eq!(heard.link.attachment, attachment);
        assert_eq!(heard.offloads, Some(Offloads { gro: true, lro: false, rx_vlan: true }));
        assert_eq!(heard.rss.map(|table| table.len()), Some(4096));

        let strange = Channel::new(one.0.try_clone().unwrap());
        descriptors::send(strange.0.as_fd(), b"{\"else\":1}", None).unwrap();
        assert_eq!(other.hear(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop((one, strange));
        assert_eq!(other.hear(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
