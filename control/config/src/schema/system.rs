//! The machine itself.

use super::*;
use crate::Syslog;

static PROTOCOLS: [&str; 2] = words(Syslog::PROTOCOLS);
static LEVELS: [&str; 8] = words(Syslog::LEVELS);

pub(super) static SYSTEM: &[Key] =
    &[key("syslog", Shape::Table(SYSLOG), "where the machine's log goes besides, by rsyslog")];

static SYSLOG: &[Key] = &[
    list("servers", What::Words, "who gets it, by name or address").needed(),
    number("port", 1, 65_535, "their port").or("514"),
    word("protocol", &PROTOCOLS, "how lines are sent").or("\"udp\""),
    word("level", &LEVELS, "the least urgent that is sent").or("\"info\""),
];
