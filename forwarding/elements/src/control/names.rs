//! # AddressInfo: gives names to addresses.
//!
//! Group: control
//! Usage: `AddressInfo(NAME ADDRESS..., ...)`
//! Ports: none
//!
//! Each argument is a name and what it stands for: an IPv4 or IPv6 address, a prefix such as
//! `10.0.0.1/8`, an Ethernet address, or several of them. Wherever an argument of another element
//! asks for an address, the name may stand. Inside a compound element its names are for its own
//! elements; they come before those from outside.
//!
//! See also: [PortInfo]
//!
//! # PortInfo: gives names to ports of TCP and UDP.
//!
//! Group: control
//! Usage: `PortInfo(NAME PORT[/PROTOCOL] [ALIAS...], ...)`
//! Ports: none
//!
//! Each argument is a name and the port that it stands for, of TCP and UDP unless a protocol is
//! given. Lines of `/etc/services` have this form.
//!
//! See also: [AddressInfo]
//!
//! # ClickyInfo: what a drawing program is to know of a configuration.
//!
//! Group: control
//! Usage: `ClickyInfo(...)`
//! Ports: none
//!
//! Configurations say here how Click's graphical interface shall draw them. Nothing of it changes
//! what they do: the arguments are kept for whoever reads the configuration, and have no meaning
//! here.

use graph::arguments::{Arguments, Refused};
use graph::{Class, Element, Setup};

/// The class.
pub const ADDRESS_INFO: Class = Class {
    name: "AddressInfo",
    ports: "0/0",
    processing: Class::AGNOSTIC,
    flow: Class::COMPLETE_FLOW,
    source: include_str!("names.rs"),
    make: |args, setup| make(args, setup, "AddressInfo"),
};

/// The class.
pub const PORT_INFO: Class =
    Class { name: "PortInfo", make: |args, setup| make(args, setup, "PortInfo"), ..ADDRESS_INFO };

/// The class.
pub const CLICKY_INFO: Class =
    Class { name: "ClickyInfo", make: |args, setup| make(args, setup, "ClickyInfo"), ..ADDRESS_INFO };

/// The names are read before any element is made (`graph::arguments::Names`), mistakes and all.
struct Info(&'static str);

fn make(
    args: &mut Arguments<'_>,
    _: &mut Setup<'_>,
    class: &'static str,
) -> Result<Box<dyn Element>, Refused> {
    args.rest();
    args.finish()?;
    Ok(Box::new(Info(class)))
}

impl Element for Info {
    fn class(&self) -> &'static str {
        self.0
    }
}
