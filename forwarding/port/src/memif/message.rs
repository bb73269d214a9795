//! The messages that two sides of a memif exchange over their socket: 128 bytes each, numbers in
//! the machine's byte order.
//!
//! libmemif's `memif.h` defines them. Each begins with its kind in two bytes; what follows is
//! packed without gaps. File descriptors come along with `ADD_REGION` and `ADD_RING`.

/// Bytes of every message.
pub(super) const BYTES: usize = 128;
/// The one version of the protocol in use: 2.0.
pub(super) const VERSION: u16 = 2 << 8;
/// Frames with an Ethernet header, the mode that all programs know.
pub(super) const ETHERNET: u8 = 0;
/// Bytes of a secret.
pub(super) const SECRET: usize = 24;
/// Bytes of a name.
pub(super) const NAME: usize = 32;
/// Bytes of the reason for an end.
const REASON: usize = 96;

/// What the server of a socket is and can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) versions: (u16, u16),
    /// The highest number of a region, not how many; so with the rings.
    pub(super) last_region: u16,
    pub(super) last_to_client: u16,
    pub(super) last_to_server: u16,
    pub(super) most_log2: u8,
}

/// The interface that a client wants.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Init {
    pub(super) version: u16,
    pub(super) id: u32,
    pub(super) mode: u8,
    pub(super) secret: [u8; SECRET],
    pub(super) name: String,
}

/// Where a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddRing {
    /// From the client to the server, and not the other way.
    pub(super) to_server: bool,
    pub(super) index: u16,
    pub(super) region: u16,
    pub(super) offset: u32,
    pub(super) log2: u8,
    /// Bytes of metadata in front of each frame; nobody uses them.
    pub(super) private_header: u16,
}

/// A message.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// The last message was understood; the next one may come.
    Ack,
    Hello(Hello),
    Init(Init),
    /// With the memory's descriptor.
    AddRegion {
        index: u16,
        bytes: u64,
    },
    /// With the descriptor of its interrupts.
    AddRing(AddRing),
    Connect {
        interface: String,
    },
    Connected {
        interface: String,
    },
    Disconnect {
        code: u32,
        reason: String,
    },
}

/// Reads the fields of a message one after the other; there are always enough bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *field
    }

    fn byte(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }

    fn short(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn word(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    /// Up to the first zero; what cannot be shown is replaced, for others' names end up in our
    /// logs.
    fn text<const N: usize>(&mut self) -> String {
        let bytes = self.take::<N>();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        let shown = String::from_utf8_lossy(&bytes[..end]);
        shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    }
}

impl Message {
    /// Reads a message; the kind, if it is unknown.
    pub(super) fn parse(bytes: &[u8; BYTES]) -> Result<Message, u16> {
        let mut fields = Fields(bytes);
        Ok(match fields.short() {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: fields.text::<NAME>(),
                versions: (fields.short(), fields.short()),
                last_region: fields.short(),
                last_to_client: fields.short(),
                last_to_server: fields.short(),
                most_log2: fields.byte(),
            }),
            3 => Message::Init(Init {
                version: fields.short(),
                id: fields.word(),
                mode: fields.byte(),
                secret: fields.take(),
                name: fields.text::<NAME>(),
            }),
            4 => Message::AddRegion { index: fields.short(), bytes: u64::from_ne_bytes(fields.take()) },
            5 => Message::AddRing(AddRing {
                to_server: fields.short() & 1 != 0,
                index: fields.short(),
                region: fields.short(),
                offset: fields.word(),
                log2: fields.byte(),
                private_header: fields.short(),
            }),
            6 => Message::Connect { interface: fields.text::<NAME>() },
            7 => Message::Connected { interface: fields.text::<NAME>() },
            8 => Message::Disconnect { code: fields.word(), reason: fields.text::<REASON>() },
            kind => return Err(kind),
        })
    }

    /// The message as it is sent.
    pub(super) fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = Vec::with_capacity(BYTES);
        let mut put = |field: &[u8]| bytes.extend_from_slice(field);
        match self {
            Message::Ack => put(&1u16.to_ne_bytes()),
            Message::Hello(hello) => {
                put(&2u16.to_ne_bytes());
                put(&text::<NAME>(&hello.name));
                put(&hello.versions.0.to_ne_bytes());
                put(&hello.versions.1.to_ne_bytes());
                put(&hello.last_region.to_ne_bytes());
                put(&hello.last_to_client.to_ne_bytes());
                put(&hello.last_to_server.to_ne_bytes());
                put(&[hello.most_log2]);
            }
            Message::Init(init) => {
                put(&3u16.to_ne_bytes());
                put(&init.version.to_ne_bytes());
                put(&init.id.to_ne_bytes());
                put(&[init.mode]);
                put(&init.secret);
                put(&text::<NAME>(&init.name));
            }
            Message::AddRegion { index, bytes } => {
                put(&4u16.to_ne_bytes());
                put(&index.to_ne_bytes());
                put(&bytes.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                put(&5u16.to_ne_bytes());
                put(&u16::from(ring.to_server).to_ne_bytes());
                put(&ring.index.to_ne_bytes());
                put(&ring.region.to_ne_bytes());
                put(&ring.offset.to_ne_bytes());
                put(&[ring.log2]);
                put(&ring.private_header.to_ne_bytes());
            }
            Message::Connect { interface } => {
                put(&6u16.to_ne_bytes());
                put(&text::<NAME>(interface));
            }
            Message::Connected { interface } => {
                put(&7u16.to_ne_bytes());
                put(&text::<NAME>(interface));
            }
            Message::Disconnect { code, reason } => {
                put(&8u16.to_ne_bytes());
                put(&code.to_ne_bytes());
                put(&text::<REASON>(reason));
            }
        }
        let mut message = [0; BYTES];
        message[..bytes.len()].copy_from_slice(&bytes);
        message
    }
}

/// A text in a field, cut so that a zero follows it.
fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let end = (0..N).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    let text = &text.as_bytes()[..end.min(text.len())];
    field[..text.len()].copy_from_slice(text);
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_others_read_them() {
        let hello = Hello {
            name: "abc".to_owned(),
            versions: (VERSION, VERSION),
            last_region: 0x0102,
            last_to_client: 3,
            last_to_server: 4,
            most_log2: 14,
        };
        let bytes = Message::Hello(hello).bytes();
        assert_eq!((bytes[0], &bytes[2..6], &bytes[34..38]), (2, &b"abc\0"[..], &[0, 2, 0, 2][..]));
        assert_eq!(&bytes[38..45], [2, 1, 3, 0, 4, 0, 14]);
        let init =
            Init { version: VERSION, id: 7, mode: ETHERNET, secret: [9; SECRET], name: "x".to_owned() };
        let bytes = Message::Init(init).bytes();
        assert_eq!((&bytes[4..9], bytes[9], bytes[32], bytes[33]), (&[7, 0, 0, 0, 0][..], 9, 9, b'x'));
        assert_eq!(&Message::AddRegion { index: 1, bytes: 5 }.bytes()[2..12], [1, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        let ring = AddRing { to_server: true, index: 2, region: 3, offset: 4, log2: 10, private_header: 5 };
        assert_eq!(
            &Message::AddRing(ring).bytes()[2..15],
            [1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 10, 5, 0].as_slice()
        );
        let end = Message::Disconnect { code: 6, reason: "why".to_owned() };
        assert_eq!(&end.bytes()[2..10], [6, 0, 0, 0, b'w', b'h', b'y', 0]);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(text::<4>("aé€"), [b'a', 0xc3, 0xa9, 0]);
        assert_eq!(text::<4>("abcdef"), *b"abc\0");
        assert_eq!(text::<4>(""), [0; 4]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_that_is_written_as_it_is_read_or_none(bytes: [[u8; 32]; 4], kind in 0u8..10) {
            let mut bytes: [u8; BYTES] = bytes.concat().try_into().unwrap();
            bytes[..2].copy_from_slice(&[kind, 0]);
            if let Ok(message) = Message::parse(&bytes) {
                // Names lose what cannot be shown; what is written then stays.
                let written = message.bytes();
                let again = Message::parse(&written).unwrap_or(Message::Ack);
                prop_assert_eq!(again.bytes(), Message::parse(&again.bytes()).unwrap_or(Message::Ack).bytes());
                prop_assert_eq!(&written[..2], &bytes[..2]);
            } else {
                prop_assert!(kind == 0 || kind == 9);
            }
        }
    }
}
