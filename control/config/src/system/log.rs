//! `[system.syslog]`: where the machine's log goes besides.

use crate::mistake::Page;
use crate::section::Section;
use crate::service::{HOST, host, some};

/// Servers that get the machine's log, by rsyslog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// By name or address.
    pub servers: Vec<String>,
    /// Their port.
    pub port: u16,
    /// `udp` or `tcp`.
    pub protocol: &'static str,
    /// The least urgent that is sent, in syslog's words.
    pub level: &'static str,
}

impl Syslog {
    /// How lines are sent.
    pub const PROTOCOLS: [(&str, &str); 2] = [("udp", "udp"), ("tcp", "tcp")];
    /// Syslog's words, the most urgent first (RFC 5424, 6.2.1).
    pub const LEVELS: [(&str, &str); 8] = [
        ("emerg", "emerg"),
        ("alert", "alert"),
        ("crit", "crit"),
        ("err", "err"),
        ("warning", "warning"),
        ("notice", "notice"),
        ("info", "info"),
        ("debug", "debug"),
    ];
}

pub(super) fn syslog(page: &mut Page, mut keys: Section) -> Syslog {
    let servers = keys.texts(page, "servers", HOST, host);
    let found = Syslog {
        servers: some(page, &mut keys, "servers", servers, HOST),
        port: keys.number(page, "port", 1..=65_535).map_or(514, |port| port as u16),
        protocol: keys.choice(page, "protocol", &Syslog::PROTOCOLS).unwrap_or("udp"),
        level: keys.choice(page, "level", &Syslog::LEVELS).unwrap_or("info"),
    };
    keys.finish(page);
    found
}
