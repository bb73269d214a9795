//! What made packets contain.

/// The bytes that Click's sources send when nobody says what: known to its users by their length,
/// 69, and by heart.
pub(super) const DEFAULT: &str = "Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// Longer than any packet.
pub(super) const TOO_LONG: i32 = port::MAX_BYTES as i32 + 1;

/// `data`, or when `length` isn't negative so many bytes of it, repeated if need be.
pub(super) fn contents(data: &[u8], length: i32) -> Vec<u8> {
    match usize::try_from(length) {
        Ok(length) => data.iter().copied().cycle().take(length).collect(),
        Err(_) => data.to_vec(),
    }
}
