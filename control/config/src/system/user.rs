//! `[system.user.NAME]`: an account of the machine.

use crate::api::Role;
use crate::mistake::{Hint, Page};
use crate::routing::{Files, secret};
use crate::secrets::Secret;
use crate::section::Section;

/// Somebody who may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As he logs in.
    pub name: String,
    /// What he may do at the control socket.
    pub role: Role,
    /// The hash of his password (`crypt(5)`); `None`: he has none.
    pub password: Option<Secret>,
    /// Public keys of OpenSSH's by which he logs in.
    pub keys: Vec<String>,
    /// What he works with.
    pub shell: Shell,
}

/// What somebody works with who has logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The router's command line (`bifrost cli`).
    Cli,
    /// `/bin/bash`.
    Bash,
}

impl Shell {
    /// As they are written.
    pub const WORDS: [(&str, Shell); 2] = [("cli", Shell::Cli), ("bash", Shell::Bash)];
}

/// Hashes that Debian's libcrypt takes and that are no easy prey: yescrypt, gost-yescrypt, scrypt,
/// SHA-512, SHA-256, bcrypt.
const HASHES: [&str; 6] = ["$y$", "$gy$", "$7$", "$6$", "$5$", "$2b$"];
/// Longest hash, letters.
const LONGEST_HASH: usize = 384;
/// Kinds of keys.
const KINDS: [&str; 3] = ["ssh-", "ecdsa-sha2-", "sk-"];
const KEY: &str = "public keys of OpenSSH's, such as \"ssh-ed25519 AAAA... ann@laptop\"";
const NAME: &str = "1 to 32 small letters, digits, - and _";

pub(super) fn user(page: &mut Page, name: &str, mut keys: Section, files: &mut Files) -> Option<User> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let sound = name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(letter);
    if !sound || name == "root" {
        page.wrong(keys.at.clone(), format!("no user can be called {name:?} here"), Hint::expected(NAME));
    }
    let words = Role::ALL.map(|role| (role.word(), role));
    let role = keys.choice(page, "role", &words);
    let role = keys.require(page, "role", role, "\"viewer\", \"operator\" or \"admin\"");
    let password = secret(page, &mut keys, "password", LONGEST_HASH, files);
    if let (Some(password), Some(value)) = (&password, keys.value("password")) {
        let hash = password.reveal();
        if !HASHES.iter().any(|start| hash.starts_with(start))
            || hash.contains([':', '\\'])
            || !hash.is_ascii()
        {
            let message = "this is no hash of a password";
            page.wrong(
                value.span(),
                message,
                Hint::expected("what `openssl passwd -6` or `mkpasswd` prints"),
            );
        }
    }
    let user = User {
        name: name.to_owned(),
        role: role.unwrap_or(Role::Viewer),
        password,
        keys: keys.texts(page, "keys", KEY, key).unwrap_or_default(),
        shell: keys.choice(page, "shell", &Shell::WORDS).unwrap_or(Shell::Cli),
    };
    keys.finish(page);
    (sound && role.is_some()).then_some(user)
}

/// A line of `authorized_keys` that begins with its kind: what could stand before that runs
/// commands.
fn key(text: &str) -> Result<String, String> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let base64 = |c: char| c.is_ascii_alphanumeric() || "+/=".contains(c);
    match (words.next(), words.next()) {
        (Some(kind), Some(key))
            if KINDS.iter().any(|known| kind.starts_with(known))
                && key.starts_with("AAAA")
                && key.chars().all(base64)
                && text.len() <= 16_384
                && !text.contains(char::is_control) =>
        {
            Ok(text.trim().to_owned())
        }
        _ => Err("this is no public key".to_owned()),
    }
}
