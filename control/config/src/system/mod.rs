//! `[system]`: the machine itself.
//!
//! Who may commit need not be root, and is not to become so by what he writes: accounts have no
//! rights but those of the control socket, and of the kernel's settings only those of the network
//! and of memory can be said, none of which names a program.

mod log;
mod ssh;
mod user;

use std::collections::BTreeMap;
use std::net::IpAddr;

use toml::de::DeValue;

pub use log::Syslog;
pub use ssh::{RootLogin, Ssh};
pub use user::{Shell, User};

use crate::mistake::{Hint, Page};
use crate::routing::Files;
use crate::section::{Section, kind, named};
use crate::service::domain;

/// What the file says of the machine; what is absent is left to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Its name, with or without its domain.
    pub hostname: Option<String>,
    /// Its time zone, such as `Europe/Stockholm`.
    pub time_zone: Option<String>,
    /// Whom it asks for names.
    pub name_servers: Vec<IpAddr>,
    /// Domains in which it looks for names without one.
    pub search: Vec<String>,
    /// What is shown before somebody logs in.
    pub banner: Option<String>,
    /// Settings of the kernel, by their names with dots.
    pub sysctls: BTreeMap<String, String>,
    /// Accounts.
    pub users: Vec<User>,
    /// `[system.ssh]`, by OpenSSH.
    pub ssh: Option<Ssh>,
    /// Where the machine's log goes besides; absent: that is left to others.
    pub syslog: Option<Syslog>,
}

const NAME: &str = "the machine's name, such as \"r1.example.net\"";
const ZONE: &str = "a time zone, such as \"Europe/Stockholm\" or \"UTC\"";
const SERVERS: &str = "addresses of name servers, such as \"192.0.2.53\"";
const DOMAINS: &str = "domains, such as \"example.net\"";
const BANNER: &str = "a text of at most 4,096 letters";
/// Longest banner, bytes.
const LONGEST_BANNER: usize = 4096;
/// The resolver of libc reads no more.
const MOST_SERVERS: usize = 3;
/// Longest name of a machine that Linux takes, bytes.
const LONGEST_NAME: usize = 64;
/// What of the kernel can be set.
const SYSCTLS: [&str; 2] = ["net.", "vm."];

/// Reads the section.
pub(crate) fn system(page: &mut Page, mut section: Section, files: &mut Files) -> System {
    let mut text = |key, expected, read: fn(&str) -> Result<String, String>| {
        section.text(page, key, expected, read).map(|found| found.value)
    };
    let hostname = text("hostname", NAME, name);
    let time_zone = text("time_zone", ZONE, zone);
    let banner = text("banner", BANNER, banner);
    let users = named(page, &mut section, "user", "system.user");
    let found = System {
        hostname,
        time_zone,
        banner,
        name_servers: servers(page, &mut section),
        search: section.texts(page, "search", DOMAINS, domain).unwrap_or_default(),
        sysctls: section
            .section(page, "sysctl", "[system.sysctl]")
            .map_or_else(BTreeMap::new, |keys| sysctls(page, keys)),
        users: users.into_iter().filter_map(|(name, keys)| user::user(page, name, keys, files)).collect(),
        ssh: section.section(page, "ssh", "[system.ssh]").map(|keys| ssh::ssh(page, keys)),
        syslog: section.section(page, "syslog", "[system.syslog]").map(|keys| log::syslog(page, keys)),
    };
    if let (true, false, Some(value)) =
        (found.name_servers.is_empty(), found.search.is_empty(), section.value("search"))
    {
        // The file that has both is the machine's only one.
        let message = "there are domains to look in, and nobody to ask";
        page.wrong(value.span(), message, Hint::expected("name_servers as well"));
    }
    section.finish(page);
    found
}

fn name(text: &str) -> Result<String, String> {
    match domain(text)? {
        name if name.len() > LONGEST_NAME => Err(format!("Linux takes at most {LONGEST_NAME} letters")),
        name if name.contains('_') => Err(format!("{text:?} has letters that names of machines do not have")),
        name => Ok(name),
    }
}

fn zone(text: &str) -> Result<String, String> {
    let sound = |part: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || "_+-".contains(c);
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(letter)
    };
    match text.len() < 64 && text.split('/').all(sound) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no time zone")),
    }
}

fn banner(text: &str) -> Result<String, String> {
    if text.len() > LONGEST_BANNER {
        return Err(format!("it has {} letters", text.len()));
    }
    match text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t') {
        Some(odd) => Err(format!("it has {odd:?}, which terminals do not show")),
        None => Ok(text.to_owned()),
    }
}

fn servers(page: &mut Page, section: &mut Section) -> Vec<IpAddr> {
    let read = |text: &str| match text.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => Ok(address),
        _ => Err(format!("{text:?} is no address of a server")),
    };
    let found = section.texts(page, "name_servers", SERVERS, read).unwrap_or_default();
    if found.len() > MOST_SERVERS
        && let Some(value) = section.value("name_servers")
    {
        let message = format!("programs ask the first {MOST_SERVERS} only");
        page.wrong(value.span(), message, Hint::expected("one to three of them"));
    }
    found
}

fn sysctls(page: &mut Page, keys: Section) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, value) in keys.all() {
        let (key, letter) =
            (name.get_ref().as_ref(), |c: char| c.is_ascii_alphanumeric() || "_-/".contains(c));
        let part = |part: &str| !part.is_empty() && part.chars().all(letter) && !part.contains("//");
        if !SYSCTLS.iter().any(|start| key.starts_with(start)) || !key.split('.').all(part) {
            let message = format!("{key:?} cannot be set here");
            page.wrong(
                name.span(),
                message,
                Hint::expected("names such as \"net.core.rmem_max\", or \"vm.swappiness\""),
            );
            continue;
        }
        let text = match value.get_ref() {
            DeValue::String(text)
                if text.len() <= 256 && !text.is_empty() && !text.contains(char::is_control) =>
            {
                text.to_string()
            }
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
            other => {
                let message = format!("{key} cannot be {}", kind(other));
                page.wrong(value.span(), message, Hint::expected("a whole number, or a text"));
                continue;
            }
        };
        found.insert(key.to_owned(), text);
    }
    found
}
