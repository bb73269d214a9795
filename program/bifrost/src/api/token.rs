//! Tokens: what a client shows. Only their hashes are kept.

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// What every token begins with, so that it is found where it should not be.
const HEAD: &str = "bifrost_";

/// The hash of a token. A token is as long as the hash, so that no slow one is needed.
pub(crate) fn hash_of(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// A new token.
///
/// # Errors
/// That the machine has no random numbers.
pub(crate) fn new() -> Result<String, String> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the machine has no random numbers".to_owned())?;
    Ok(format!("{HEAD}{}", hex(&bytes)))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_prints() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&hash_of("abc")), known);
        let (one, other) = (new().unwrap(), new().unwrap());
        assert!(one != other && one.len() == HEAD.len() + 64);
    }
}
