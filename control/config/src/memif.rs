//! How a port in shared memory is read: the table `memif` of a `[[port]]`.

use std::path::PathBuf;

use crate::mistake::{Hint, Page};
use crate::section::Section;

/// The most bytes of a secret.
const SECRET: usize = 24;

/// Shared memory with another program on this machine, by the protocol memif 2.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memif {
    /// The socket at which the two meet: a path, or `@` and an abstract name.
    pub socket: String,
    /// Connects, and decides on rings; else listens, and takes what a client offers.
    pub client: bool,
    /// The interface's number, the same on both sides.
    pub id: u32,
    /// What a client must know, at most 24 bytes.
    pub secret: Option<String>,
    /// Descriptors in each ring, a power of two.
    pub ring: u32,
    /// Bytes of each buffer.
    pub buffer: u32,
    /// Whether memory is taken that the peer could shrink.
    pub trusted: bool,
}

pub(crate) fn memif(page: &mut Page, mut section: Section) -> Option<Memif> {
    const SOCKET: &str = "the path of a socket, or an abstract name such as \"@memif\"";
    let socket = section.text(page, "socket", SOCKET, |text| match text.trim_start_matches('@') {
        "" => Err("it is empty".to_owned()),
        name if !text.starts_with('@') && !PathBuf::from(name).is_absolute() => {
            Err(format!("{text:?} is neither a path from / on nor an abstract name"))
        }
        // sun_path has 108 bytes.
        _ if text.len() > 107 => Err(format!("{} bytes are too long for a socket", text.len())),
        _ => Ok(text.to_owned()),
    });
    let socket = section.require(page, "socket", socket, SOCKET);
    let client = section.choice(page, "role", &[("server", false), ("client", true)]).unwrap_or_default();
    let id = section.number(page, "id", 0..=u64::from(u32::MAX)).unwrap_or_default() as u32;
    let secret = section.text(page, "secret", "at most 24 bytes", |text| {
        if text.len() > SECRET { Err(format!("it has {} bytes", text.len())) } else { Ok(text.to_owned()) }
    });
    let ring = section.number(page, "ring", 2..=16_384).unwrap_or(1024) as u32;
    if let (false, Some(value)) = (ring.is_power_of_two(), section.value("ring")) {
        page.wrong(
            value.span(),
            format!("a ring cannot have {ring} descriptors"),
            Hint::expected("a power of two"),
        );
    }
    let buffer = section.number(page, "buffer", 64..=65_536).unwrap_or(2048) as u32;
    let trusted = section.choice(page, "trusted", &[("on", true), ("off", false)]).unwrap_or_default();
    section.finish(page);
    let socket = socket?.value;
    Some(Memif {
        socket,
        client,
        id,
        secret: secret.map(|found| found.value).filter(|text| !text.is_empty()),
        ring,
        buffer,
        trusted,
    })
}
