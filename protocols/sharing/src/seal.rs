//! Datagrams, sealed: nobody without the key can read, change or make one.
//!
//! ```text
//! version 1 | epoch 16 | number 8 | sealed: body | tag 16
//! ```
//!
//! XChaCha20-Poly1305. Epoch and number are the nonce, and covered by the tag as the version is. An
//! epoch is drawn anew at each start, by chance out of 2^128, and within it no number is used
//! twice. So no nonce ever is, though both ends have one key and nothing is kept over a restart.

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::{Dropped, Key};

/// The version of all that follows in a datagram.
const VERSION: u8 = 1;
/// Bytes in front of the body.
const HEAD: usize = 1 + 16 + 8;
const TAG: usize = 16;
/// Bytes of a datagram at most: they fit into IPv6's least MTU with the headers of IPv6 and UDP.
pub const LONGEST: usize = 1280 - 40 - 8;
/// Bytes of a body at most.
pub(crate) const BODY: usize = LONGEST - HEAD - TAG;

/// Tells one start of a router from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub [u8; 16]);

impl Epoch {
    /// Nobody's: said to one of whom nothing is known yet.
    pub(crate) const NONE: Epoch = Epoch([0; 16]);
}

/// What a datagram says, once its seal is found whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) epoch: Epoch,
    pub(crate) number: u64,
    pub(crate) body: Vec<u8>,
}

/// See the head of this file.
pub(crate) struct Seal(XChaCha20Poly1305);

impl Seal {
    pub(crate) fn new(key: &Key) -> Seal {
        Seal(XChaCha20Poly1305::new(key.bytes().into()))
    }

    /// A datagram with this body, of [`BODY`] bytes at most.
    pub(crate) fn close(&self, epoch: Epoch, number: u64, body: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(HEAD + body.len() + TAG);
        datagram.push(VERSION);
        datagram.extend_from_slice(&epoch.0);
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(body);
        let (head, sealed) = datagram.split_at_mut(HEAD);
        let tag = self.0.encrypt_inout_detached(&nonce(head), head, sealed.into());
        // It refuses nothing but what is longer than 256 GB.
        tag.iter().for_each(|tag| datagram.extend_from_slice(tag));
        datagram
    }

    pub(crate) fn open(&self, datagram: &[u8]) -> Result<Opened, Dropped> {
        let (head, sealed) = datagram.split_at_checked(HEAD).ok_or(Dropped::Malformed)?;
        let (body, tag) = sealed.split_last_chunk::<TAG>().ok_or(Dropped::Malformed)?;
        if datagram.len() > LONGEST {
            return Err(Dropped::Malformed);
        }
        if head[0] != VERSION {
            return Err(Dropped::Version);
        }
        let mut body = body.to_vec();
        self.0
            .decrypt_inout_detached(&nonce(head), head, body.as_mut_slice().into(), tag.into())
            .map_err(|_| Dropped::Seal)?;
        let (mut epoch, mut number) = ([0; 16], [0; 8]);
        epoch.copy_from_slice(&head[1..17]);
        number.copy_from_slice(&head[17..]);
        Ok(Opened { epoch: Epoch(epoch), number: u64::from_be_bytes(number), body })
    }
}

fn nonce(head: &[u8]) -> XNonce {
    let mut nonce = [0; 24];
    nonce.copy_from_slice(&head[1..HEAD]);
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(last: char) -> Key {
        format!("{}{last}", "0123456789abcdef".repeat(4).split_at(63).0).parse().unwrap()
    }

    #[test]
    fn only_the_key_opens_and_no_bit_may_change() {
        let (seal, other) = (Seal::new(&key('f')), Seal::new(&key('e')));
        let datagram = seal.close(Epoch([7; 16]), 9, b"what is said");
        let opened = seal.open(&datagram).unwrap();
        assert_eq!(
            (opened.epoch, opened.number, &opened.body[..]),
            (Epoch([7; 16]), 9, &b"what is said"[..])
        );
        assert_eq!(other.open(&datagram), Err(Dropped::Seal));
        assert!(!datagram.windows(4).any(|some| some == b"what"));
        for at in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 4;
            assert!(seal.open(&changed).is_err(), "byte {at}");
            assert!(seal.open(&datagram[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(seal.open(&[VERSION; LONGEST + 1]), Err(Dropped::Malformed));
    }
}
