//! `[api]`: the interface for programs.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use crate::mistake::{Hint, Page};
use crate::secrets::Secret;
use crate::section::{Section, kind};

/// Most addresses that it listens on.
const ADDRESSES: usize = 16;
/// Most tokens.
const TOKENS: usize = 1000;
const LISTEN: &str = "an address and a port, such as \"192.0.2.1:8443\", or a list of them";
const LINE: &str = "lines of a name, a role and a hash, as `bifrost token NAME ROLE` writes";

/// `[api]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// What it shows to its clients; none: what the router makes for itself.
    pub identity: Option<Identity>,
    /// Who may use it.
    pub tokens: Vec<Token>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those that lead from it to one that clients know.
    pub certificate: String,
    /// Its private key.
    pub key: Secret,
}

/// A client of the interface, who knows a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What the history calls it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
}

/// What a client may do; each may what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read.
    Viewer,
    /// Do what leaves the configuration as it is.
    Operator,
    /// Change the configuration.
    Admin,
}

impl Role {
    /// All, from the least.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Role, String> {
        let known = Role::ALL.into_iter().find(|role| role.word() == word);
        known.ok_or_else(|| format!("{word:?} is no role: viewer, operator or admin"))
    }
}

impl Token {
    /// The tokens of a file: a line each, of its name, role and hash. Empty lines and those that
    /// begin with `#` say nothing.
    ///
    /// # Errors
    /// The first wrong line, from 1, and what is wrong with it.
    pub fn read_all(text: &str) -> Result<Vec<Token>, (usize, String)> {
        let mut tokens: Vec<Token> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let token = Token::read(line).map_err(|wrong| (number, wrong))?;
            if let Some(other) = tokens.iter().find(|o| o.name == token.name || o.hash == token.hash) {
                return Err((
                    number,
                    format!("{} and {} have the same name or hash", other.name, token.name),
                ));
            }
            tokens.push(token);
            if tokens.len() > TOKENS {
                return Err((number, format!("there may be {TOKENS} tokens")));
            }
        }
        Ok(tokens)
    }

    fn read(line: &str) -> Result<Token, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, role, hash] = words[..] else {
            return Err(format!("it has {} words, not a name, a role and a hash", words.len()));
        };
        if !Token::can_be_called(name) {
            return Err(format!("{name:?} is no name of letters, digits, `-`, `_`, `.` and `@`"));
        }
        // What is wrong with a hash may be a token that somebody wrote there: it is not shown.
        let digits = hash.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(format!("what follows {name} is no hash of 64 hexadecimal digits"));
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            *byte = u8::from_str_radix(pair, 16).map_err(|_| "that is no hash".to_owned())?;
        }
        Ok(Token { name: name.to_owned(), role: role.parse()?, hash: bytes })
    }

    /// Whether a token can have this name.
    pub fn can_be_called(name: &str) -> bool {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        (1..=64).contains(&name.len()) && name.chars().all(fits)
    }
}

/// Any bytes as a file of tokens: what is read can be written and read again.
pub fn fuzz_tokens(bytes: &[u8]) {
    if let Ok(tokens) = Token::read_all(&String::from_utf8_lossy(bytes)) {
        let line = |token: &Token| {
            let hash: String = token.hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{} {} {hash}\n", token.name, token.role.word())
        };
        assert_eq!(Token::read_all(&tokens.iter().map(line).collect::<String>()), Ok(tokens));
    }
}

pub(crate) fn api(
    page: &mut Page,
    mut section: Section,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<Api> {
    let written = section.value("listen");
    let listen = written.and_then(|value| listen(page, value));
    let listen = section.require(page, "listen", listen, LISTEN);
    let certificate = file(page, &mut section, "certificate", "the path of a certificate in PEM", files);
    let key = file(page, &mut section, "private_key", "the path of its private key in PEM", files);
    let tokens = file(page, &mut section, "tokens", "the path of a file with tokens", files);
    let tokens = section.require(page, "tokens", tokens, "the path of a file that `bifrost token` writes");
    let at = section.at.clone();
    let one = section.value("certificate").is_some() != section.value("private_key").is_some();
    section.finish(page);
    if one {
        let hint = Hint::expected("both certificate and private_key, or neither: then one is made");
        page.missing(at, "[api] has a certificate without its key, or the other way round", hint);
        return None;
    }
    let (listen, (tokens, at)) = (listen?, tokens?);
    let tokens = match Token::read_all(&tokens) {
        Ok(tokens) => tokens,
        Err((line, wrong)) => {
            page.wrong(at, format!("tokens: line {line} of it: {wrong}"), Hint::expected(LINE));
            return None;
        }
    };
    let identity = certificate
        .zip(key)
        .map(|((certificate, _), (key, _))| Identity { certificate, key: Secret::new(key) });
    Some(Api { listen, identity, tokens })
}

fn listen(page: &mut Page, value: &Spanned<DeValue>) -> Option<Vec<SocketAddr>> {
    let one = [value];
    let items: Vec<&Spanned<DeValue>> = match value.get_ref() {
        DeValue::Array(list) => list.iter().collect(),
        _ => one.to_vec(),
    };
    let mut found: Vec<SocketAddr> = Vec::new();
    let mut wrong = items.is_empty() || items.len() > ADDRESSES;
    if wrong {
        page.wrong(value.span(), format!("listen has 1 to {ADDRESSES} addresses"), Hint::expected(LISTEN));
    }
    for item in items.into_iter().take(ADDRESSES) {
        let read = match item.get_ref() {
            DeValue::String(text) => match text.parse::<SocketAddr>() {
                Ok(address) if address.port() == 0 => Err("port 0 cannot be listened on".to_owned()),
                Ok(address) if found.contains(&address) => Err(format!("{address} is there already")),
                Ok(address) => Ok(address),
                Err(_) => Err(format!("{text:?} is not an address and a port")),
            },
            other => Err(format!("it cannot be {}", kind(other))),
        };
        match read {
            Ok(address) => found.push(address),
            Err(message) => {
                wrong = true;
                page.wrong(item.span(), format!("listen: {message}"), Hint::expected(LISTEN));
            }
        }
    }
    (!wrong).then_some(found)
}

/// What a file has, and where it is named.
fn file(
    page: &mut Page,
    section: &mut Section,
    key: &'static str,
    expected: &str,
    files: &mut dyn FnMut(&Path) -> io::Result<String>,
) -> Option<(String, std::ops::Range<usize>)> {
    let found = section.text(page, key, expected, |path| Ok(path.to_owned()))?;
    match files(Path::new(&found.value)) {
        Ok(text) => Some((text, found.at)),
        Err(error) => {
            let message = format!("{key}: cannot read {:?}: {error}", found.value);
            page.wrong(found.at, message, Hint::expected(expected));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Router};

    fn read(section: &str) -> Result<Option<Api>, String> {
        let text = format!("without_ports = \"on\"\n[api]\n{section}\n");
        let hash = "5c".repeat(32);
        let mut files = |name: &Path| match name.to_str() {
            Some("tokens") => Ok(format!("# who may\n\nci  admin {hash}\nlook viewer {}\n", "0a".repeat(32))),
            Some("twice") => Ok(format!("ci admin {hash}\nci2 viewer {hash}\n")),
            Some("role") => Ok(format!("ci root {hash}\n")),
            Some("plain") => Ok("ci admin bifrost_0123\n".to_owned()),
            Some("pem") => Ok("PEM".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let read = Router::read_with("router.toml", &text, &Machine::this(), &mut files);
        read.map(|router| router.api).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn an_address_and_tokens_are_enough() {
        let api = read("listen = \"[::]:8443\"\ntokens = \"tokens\"").unwrap().unwrap();
        assert_eq!((api.listen.len(), api.identity), (1, None));
        let names: Vec<_> = api.tokens.iter().map(|token| (token.name.as_str(), token.role)).collect();
        assert_eq!(names, [("ci", Role::Admin), ("look", Role::Viewer)]);
        assert_eq!(api.tokens[0].hash, [0x5c; 32]);
        let own = "listen = [\"192.0.2.1:443\", \"192.0.2.1:8443\"]\ntokens = \"tokens\"\n\
                   certificate = \"pem\"\nprivate_key = \"pem\"";
        let api = read(own).unwrap().unwrap();
        assert_eq!(api.listen.len(), 2);
        assert!(!format!("{:?}", api.identity).contains("key: \"PEM"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        let listen = "listen = \"192.0.2.1:8443\"\n";
        for (section, message) in [
            (listen.to_owned(), "needs a tokens"),
            ("tokens = \"tokens\"".to_owned(), "needs a listen"),
            ("tokens = \"tokens\"\nlisten = \"192.0.2.1\"".to_owned(), "not an address and a port"),
            ("tokens = \"tokens\"\nlisten = []".to_owned(), "1 to 16"),
            ("tokens = \"tokens\"\nlisten = [\"192.0.2.1:0\"]".to_owned(), "port 0"),
            ("tokens = \"tokens\"\nlisten = [\"[::1]:1\", \"[::1]:1\"]".to_owned(), "already"),
            (format!("{listen}tokens = \"none\""), "cannot read"),
            (format!("{listen}tokens = \"twice\""), "line 2 of it"),
            (format!("{listen}tokens = \"role\""), "viewer, operator or admin"),
            (format!("{listen}tokens = \"plain\""), "no hash"),
            (format!("{listen}tokens = \"tokens\"\ncertificate = \"pem\""), "without its key"),
            (format!("{listen}tokens = \"tokens\"\nport = 1"), "no key"),
        ] {
            let refused = read(&section).unwrap_err();
            assert!(refused.contains(message) && refused.contains("router.toml:"), "{section}: {refused}");
            assert!(!refused.contains("0123"), "{refused}");
        }
    }

    #[test]
    fn any_bytes_are_tokens_or_refused() {
        for text in ["", "a viewer", "\u{0}", "a b c d", &format!("é admin {}", "0".repeat(64))] {
            fuzz_tokens(text.as_bytes());
        }
        assert_eq!(Role::ALL.map(|role| role.word().parse()), Role::ALL.map(Ok));
    }
}
