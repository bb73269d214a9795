//! The machine itself.

use super::*;
use crate::{RootLogin, Shell, Syslog};

static PROTOCOLS: [&str; 2] = words(&Syslog::PROTOCOLS);
static LEVELS: [&str; 8] = words(&Syslog::LEVELS);
static SHELLS: [&str; 2] = words(&Shell::WORDS);
static ROOT: [&str; 3] = words(&RootLogin::WORDS);
static ROLES: [&str; 3] = ["viewer", "operator", "admin"];

pub(super) static SYSTEM: &[Key] = &[
    text("hostname", What::Words, "the machine's name"),
    text("time_zone", What::Words, "its time zone, such as Europe/Stockholm"),
    list("name_servers", What::Address, "whom it asks for names, at most three"),
    list("search", What::Words, "domains in which it looks for names without one"),
    key("banner", Shape::Lines(What::Words), "what is shown before somebody logs in"),
    key(
        "sysctl",
        Shape::Map { names: What::Name, value: &Shape::NumberOrText(What::Words) },
        "settings of the kernel that begin with net. or vm., by their names with dots",
    ),
    key("user", Shape::Named { names: What::Name, keys: USER }, "accounts"),
    key("ssh", Shape::Table(SSH), "how administrators log in from elsewhere, by OpenSSH"),
    key("syslog", Shape::Table(SYSLOG), "where the machine's log goes besides, by rsyslog"),
];

static USER: &[Key] = &[
    word("role", &ROLES, "what may be done at the control socket").needed(),
    text("password", What::Hidden, "the hash of the password; without it there is none"),
    list("keys", What::Words, "public keys of OpenSSH's"),
    word("shell", &SHELLS, "the router's command line, or bash").or("\"cli\""),
];

static SSH: &[Key] = &[
    list("listen", What::Address, "where it listens; else everywhere"),
    number("port", 1, 65_535, "its port").or("22"),
    flag("passwords", "whether passwords are asked for").or("true"),
    word("root", &ROOT, "how root may log in").or("\"keys\""),
];

static SYSLOG: &[Key] = &[
    list("servers", What::Words, "who gets it, by name or address").needed(),
    number("port", 1, 65_535, "their port").or("514"),
    word("protocol", &PROTOCOLS, "how lines are sent").or("\"udp\""),
    word("level", &LEVELS, "the least urgent that is sent").or("\"info\""),
];
