//! `[[port]]`.

use super::*;

pub(super) static PORT: &[Key] = &[
    text("name", What::Port, "the name of an interface, or a pattern").needed(),
    word("lane", &["auto", "express", "worker"], "the lane of plain transit that arrives here")
        .or("\"auto\""),
    number("queues", 0, 1024, "receive queues to use; 0: all").or("0"),
    word("mode", &["auto", "native", "generic"], "how the XDP program is attached").or("\"auto\""),
    word("zero_copy", SWITCH, "AF_XDP without copies").or("\"auto\""),
    word(
        "reverse_path",
        &["linux", "off", "strict", "loose"],
        "whether the source could be reached (RFC 3704)",
    )
    .or("\"linux\""),
    key("memif", Shape::Table(MEMIF), "memory shared with another program, and no device"),
];

static MEMIF: &[Key] = &[
    text("socket", What::Path, "where the two meet: a path, or an abstract name such as @memif").needed(),
    word("role", &["server", "client"], "a server listens, a client connects and decides on rings")
        .or("\"server\""),
    number("id", 0, U32, "the interface's number, the same on both sides").or("0"),
    text("secret", What::Hidden, "what a client must know, at most 24 bytes"),
    number("ring", 2, 16_384, "descriptors in each ring, a power of two").or("1024"),
    number("buffer", 64, 65_536, "bytes of each descriptor").or("2048"),
    word("trusted", ON_OFF, "take memory that the peer could shrink").or("\"off\""),
];
