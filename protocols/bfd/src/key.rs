//! Keys that both ends of a session have, and what a packet shows of one: the authentication
//! section behind its 24 bytes (RFC 5880, sections 4.2 to 4.4).

use std::fmt;

use arrayvec::ArrayVec;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use crate::packet::{self, LENGTH};

/// Bytes of a section with an MD5 digest, and of one with a SHA1 hash.
const MD5_SECTION: usize = 24;
const SHA1_SECTION: usize = 28;
/// Bytes of a section in front of a password, and in front of a digest.
const PASSWORD_AT: usize = 3;
const DIGEST_AT: usize = 8;
/// The longest key, in bytes.
const LONGEST: usize = 20;

/// A packet as it is sent.
pub type Bytes = ArrayVec<u8, { LENGTH + SHA1_SECTION }>;

/// What a packet shows of a key; the numbers are those of RFC 5880, section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The key itself, for all to read who listen on the way.
    Password = 1,
    /// An MD5 digest. A packet may be sent again as it was.
    Md5 = 2,
    /// The same, with another sequence number in each packet.
    MeticulousMd5 = 3,
    /// A SHA1 hash. A packet may be sent again as it was.
    Sha1 = 4,
    /// The same, with another sequence number in each packet.
    MeticulousSha1 = 5,
}

impl Kind {
    /// All of them, by the words that operators write.
    pub const NAMED: [(&'static str, Kind); 5] = [
        ("password", Kind::Password),
        ("md5", Kind::Md5),
        ("meticulous-md5", Kind::MeticulousMd5),
        ("sha1", Kind::Sha1),
        ("meticulous-sha1", Kind::MeticulousSha1),
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        Kind::NAMED[self as usize - 1].0
    }

    /// The most bytes of a key (RFC 5880, sections 6.7.2 to 6.7.4).
    pub const fn longest(self) -> usize {
        match self {
            Kind::Password | Kind::Md5 | Kind::MeticulousMd5 => 16,
            Kind::Sha1 | Kind::MeticulousSha1 => LONGEST,
        }
    }

    /// Whether packets have a sequence number.
    pub(crate) const fn has_sequence(self) -> bool {
        !matches!(self, Kind::Password)
    }

    /// Whether each packet has another one.
    pub(crate) const fn is_meticulous(self) -> bool {
        matches!(self, Kind::MeticulousMd5 | Kind::MeticulousSha1)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key has no bytes, or more than its kind takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of the type {kind} has 1 to {} bytes, and this one has {bytes}", kind.longest())]
pub struct WrongLength {
    /// What it is used for.
    pub kind: Kind,
    /// How many it has.
    pub bytes: usize,
}

/// A key. No message has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Key {
    id: u8,
    kind: Kind,
    secret: String,
}

/// A key as one process tells it to another.
#[derive(Deserialize)]
struct Written {
    id: u8,
    kind: Kind,
    secret: String,
}

impl TryFrom<Written> for Key {
    type Error = WrongLength;

    fn try_from(Written { id, kind, secret }: Written) -> Result<Key, WrongLength> {
        Key::new(id, kind, &secret)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ***", self.kind, self.id)
    }
}

impl Key {
    /// A key that packets name by `id`.
    ///
    /// # Errors
    /// It is too long for its kind, or empty.
    pub fn new(id: u8, kind: Kind, secret: &str) -> Result<Key, WrongLength> {
        match (1..=kind.longest()).contains(&secret.len()) {
            true => Ok(Key { id, kind, secret: secret.to_owned() }),
            false => Err(WrongLength { kind, bytes: secret.len() }),
        }
    }

    /// By what packets name it.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// What packets show of it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A packet with a section that shows the key. A password goes without `sequence`.
    pub(crate) fn sign(&self, plain: &[u8; LENGTH], sequence: u32) -> Bytes {
        let mut bytes = Bytes::from_iter(*plain);
        let section = self.section();
        packet::mark_authenticated(&mut bytes, LENGTH + section);
        bytes.extend([self.kind as u8, section as u8, self.id]);
        match self.kind {
            Kind::Password => bytes.extend(self.secret.bytes()),
            _ => {
                bytes.push(0);
                bytes.extend(sequence.to_be_bytes());
                // Invariant: a section is no longer than that of SHA1.
                bytes.extend(std::iter::repeat_n(0, section - DIGEST_AT));
                let digest = self.digest(&bytes);
                bytes[LENGTH + DIGEST_AT..].copy_from_slice(&digest);
            }
        }
        bytes
    }

    /// Whether who made this packet has the key. `packet` has the section of this key's kind.
    pub(crate) fn made(&self, packet: &[u8], section: &Section) -> bool {
        match self.kind {
            Kind::Password => section.shown.ct_eq(self.secret.as_bytes()).into(),
            _ => section.shown.ct_eq(&self.digest(packet)).into(),
        }
    }

    /// Bytes of the section.
    fn section(&self) -> usize {
        match self.kind {
            Kind::Password => PASSWORD_AT + self.secret.len(),
            Kind::Md5 | Kind::MeticulousMd5 => MD5_SECTION,
            Kind::Sha1 | Kind::MeticulousSha1 => SHA1_SECTION,
        }
    }

    /// The digest of a packet that has the key in its place, filled up with zeros (RFC 5880,
    /// sections 4.3 and 4.4).
    fn digest(&self, packet: &[u8]) -> ArrayVec<u8, LONGEST> {
        let before = packet.get(..LENGTH + DIGEST_AT).unwrap_or(packet);
        let mut key = [0; LONGEST];
        key[..self.secret.len()].copy_from_slice(self.secret.as_bytes());
        let key = &key[..self.kind.longest()];
        match self.kind.longest() {
            LONGEST => Sha1::new().chain_update(before).chain_update(key).finalize().into_iter().collect(),
            _ => Md5::new().chain_update(before).chain_update(key).finalize().into_iter().collect(),
        }
    }
}

/// An authentication section, as a packet has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    /// The number of a [`Kind`], or of none.
    pub kind: u8,
    pub id: u8,
    /// 0 with a password.
    pub sequence: u32,
    /// The password or the digest.
    shown: &'a [u8],
}

impl<'a> Section<'a> {
    /// Reads what stands behind the first 24 bytes of a packet. None: it has another length than it
    /// says, or than its type has. Of a type that nobody knows, any length is right.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Section<'a>> {
        let [kind, length, ..] = *bytes else { return None };
        let kind_of = Kind::NAMED.iter().map(|(_, known)| *known).find(|known| *known as u8 == kind);
        let lengths = match kind_of {
            Some(Kind::Password) => PASSWORD_AT + 1..=PASSWORD_AT + Kind::Password.longest(),
            Some(Kind::Md5 | Kind::MeticulousMd5) => MD5_SECTION..=MD5_SECTION,
            Some(Kind::Sha1 | Kind::MeticulousSha1) => SHA1_SECTION..=SHA1_SECTION,
            None => PASSWORD_AT..=usize::from(u8::MAX),
        };
        if usize::from(length) != bytes.len() || !lengths.contains(&bytes.len()) {
            return None;
        }
        let (id, rest) = bytes[2..].split_first()?;
        Some(match (kind_of, rest) {
            (None | Some(Kind::Password), shown) => Section { kind, id: *id, sequence: 0, shown },
            (Some(_), [_, a, b, c, d, shown @ ..]) => {
                Section { kind, id: *id, sequence: u32::from_be_bytes([*a, *b, *c, *d]), shown }
            }
            (Some(_), _) => return None,
        })
    }
}
