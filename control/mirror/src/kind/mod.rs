//! Kinds of interfaces: how one is recognised, where its frames enter and leave, and why it may
//! stay Linux's.
//!
//! The plane knows ports, which have queues, and the bytes that stand in front of a packet on one:
//! Linux's interfaces become those. A kind says how, in one file here, and has a line in `kinds!`
//! below. Nothing above asks of which kind an interface is; it asks for the place, and adopts the
//! interface there:
//!
//! ```text
//! link message --read--> Is --place--> ports, and the header there --adopted--> tables of both lanes
//!                              `-----> why it is Linux's, for show
//! ```
//!
//! An interface may lie on others (a VLAN on a bond of two ports): its kind asks theirs.

use crate::model::{Link, Links};
use crate::netlink::attributes;
use fib::{Priorities, Tags};

/// Why an interface stays with Linux: a sentence for an operator, typed by each kind.
pub type NotOurs = Box<dyn std::error::Error + Send + Sync>;

/// One kind of interface.
pub trait Kind {
    /// Where frames of an interface of this kind enter and leave, or why Linux has it to itself.
    ///
    /// # Errors
    /// What the plane cannot do as Linux does it.
    fn place<'a>(&self, link: &'a Link, around: &Around<'a, '_>) -> Result<Place<'a>, NotOurs>;

    /// Linux's index of the interface that one of this kind lies on: when that changes, this one is
    /// looked at again.
    fn lies_on(&self) -> Option<u32> {
        None
    }

    /// Whether what enters and leaves by the members of one of this kind does so as its own.
    fn stands_for_members(&self) -> bool {
        false
    }

    /// Whether what leaves by one of this kind goes to a neighbour on its link, whose address is to
    /// be known. Else all goes to the other end.
    fn has_neighbours(&self) -> bool {
        true
    }

    /// Whether headers stand in front of its packets that lead to another end.
    fn is_tunnel(&self) -> bool {
        false
    }

    /// Whether an interface that has one of this kind for its master goes on as if it had none:
    /// frames enter and leave by it as its own.
    fn leaves_members_alone(&self) -> bool {
        false
    }
}

/// A kind that link messages tell.
trait Told: Sized {
    /// What Linux calls it (`IFLA_INFO_KIND`).
    const NAMES: &'static [&'static str];

    /// What a message says of one; `None` where it says too little: it is as any other interface
    /// then.
    fn read(said: &Said<'_>) -> Option<Self>;
}

/// What a link message says of an interface besides its name and state.
pub(crate) struct Said<'a> {
    /// `IFLA_INFO_KIND`.
    pub name: Option<&'a str>,
    /// `IFLA_INFO_DATA`, if there is some.
    pub data: Option<&'a [u8]>,
    /// `IFLA_LINK`, the interface below; `None` also where that is in another network namespace.
    pub below: Option<u32>,
}

macro_rules! kinds {
    ($($module:ident::$Kind:ident),*) => {
        $(mod $module;)*
        $(pub use $module::$Kind;)*

        /// What an interface is.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Is {
            $(#[doc = concat!("See [`", stringify!($Kind), "`].")] $Kind($Kind),)*
            /// See [`Port`]: whatever is none of the others.
            Port(Port),
        }

        impl Is {
            /// What a link message says of an interface.
            pub(crate) fn read(said: &Said<'_>) -> Is {
                let known = match said.name {
                    $(Some(name) if $Kind::NAMES.contains(&name) => $Kind::read(said).map(Is::$Kind),)*
                    _ => None,
                };
                known.unwrap_or_default()
            }

            /// Its kind.
            pub fn kind(&self) -> &dyn Kind {
                match self {
                    $(Is::$Kind(kind) => kind,)*
                    Is::Port(kind) => kind,
                }
            }
        }

        $(impl From<$Kind> for Is {
            fn from(kind: $Kind) -> Is {
                Is::$Kind(kind)
            }
        })*
    };
}

kinds!(vlan::Vlan, bond::Bond, bridge::Bridge, vrf::Vrf, tunnel::Tunnel, vxlan::Vxlan);
mod port;
mod priority;

pub use bond::Member;
pub use bridge::Bridged;
pub use port::{Port, port_names};
pub use priority::PriorityMaps;
pub use vxlan::Unsourced;

impl Default for Is {
    fn default() -> Is {
        Is::Port(Port)
    }
}

/// What a kind may ask of: the other interfaces, and what the configuration says.
pub struct Around<'a, 'p> {
    /// Linux's interfaces.
    pub links: &'a Links,
    /// What the configuration says of ports.
    pub ports: &'p dyn Ports,
}

/// What the configuration says of ports.
pub trait Ports {
    /// What the port of this name is; `None`: there is none.
    fn named(&self, name: &str) -> Option<Queues>;
}

/// What a port's queues are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Those of a network card or the like, with the program in its driver.
    Driver,
    /// Shared memory (memif), behind a TAP.
    Shared,
}

/// Where frames of an interface enter and leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Place<'a> {
    /// What has them without the header: the port, the bond or the bridge. It may be the interface
    /// itself.
    pub base: &'a Link,
    /// By which ports: one, or members of a bond or bridge; none: by whatever port leads to a
    /// tunnel's other end.
    pub legs: Vec<Leg<'a>>,
    /// The tags that it has in front of the base's frames.
    pub tags: Tags,
    /// The headers of a tunnel: one, or of a VXLAN one for each other end.
    pub tunnels: Vec<fib::Tunnel>,
    /// The VXLAN whose ends these are, by Linux's index: itself, or a member of the bridge.
    pub vxlan: Option<u32>,
    /// The priorities in its tags.
    pub priorities: Priorities,
}

/// A port that frames of an interface pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg<'a> {
    /// Linux's interface that is the port.
    pub port: &'a Link,
    /// What comes in by it is the interface's; else it is Linux's, which drops it as bonds and
    /// bridges do.
    pub receives: bool,
    /// Frames leave by it now.
    pub sends: bool,
    /// What stands there between the addresses and the type: the tags of the place, but where a
    /// bridge that tells VLANs apart puts its own or takes them off.
    pub tags: Tags,
}

impl<'a> Place<'a> {
    /// That of an interface whose frames enter and leave by ports.
    fn on_ports(base: &'a Link, legs: Vec<Leg<'a>>, tags: Tags) -> Place<'a> {
        Place { base, legs, tags, tunnels: Vec::new(), vxlan: None, priorities: Priorities::default() }
    }

    /// That of a tunnel.
    fn of_tunnels(link: &'a Link, tunnels: Vec<fib::Tunnel>) -> Place<'a> {
        let vxlan = link.is_vxlan().then_some(link.ifindex);
        Place { tunnels, vxlan, ..Place::on_ports(link, Vec::new(), Tags::None) }
    }

    /// The bond or bridge that its ports, or its VXLAN, are members of, if they are of one.
    pub fn whole(&self) -> Option<&'a Link> {
        let members =
            !self.legs.is_empty() && self.legs.iter().all(|leg| leg.port.ifindex != self.base.ifindex);
        let has_vxlan = self.vxlan.is_some_and(|vxlan| vxlan != self.base.ifindex);
        (members || has_vxlan).then_some(self.base)
    }

    /// Whether its frames have something in front of them, on some port or on the base: ports' own
    /// interfaces alone are not enough for it.
    pub fn lies_above(&self) -> bool {
        self.tags != Tags::None
            || !self.tunnels.is_empty()
            || self.legs.iter().any(|leg| leg.tags != Tags::None)
    }
}

impl<'a> Around<'a, '_> {
    /// Where frames of an interface enter and leave.
    ///
    /// # Errors
    /// Why Linux has it to itself.
    pub fn place(&self, link: &'a Link) -> Result<Place<'a>, NotOurs> {
        link.is.kind().place(link, self)
    }

    /// What the configuration says of an interface as a port.
    fn port(&self, link: &Link) -> Option<Queues> {
        port_names(link, self.links).find_map(|name| self.ports.named(name))
    }
}

/// Whether something else has what comes in by an interface: a bridge, or a bond.
fn is_enslaved(link: &Link, links: &Links) -> bool {
    let master = |index| links.by_index(index).is_some_and(|master| master.is.kind().leaves_members_alone());
    link.master.is_some_and(|index| !master(index))
}

/// The first attribute of a type, in what a message says of a kind.
fn attribute(data: Option<&[u8]>, wanted: u16) -> Option<&[u8]> {
    attributes(data?).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ports for &[&str] {
        fn named(&self, name: &str) -> Option<Queues> {
            let shared = name.starts_with("memif");
            self.contains(&name).then_some(if shared { Queues::Shared } else { Queues::Driver })
        }
    }

    /// Where the interface is that was given last, with these names of ports: its base, its ports,
    /// its tags.
    pub(super) fn place(ports: &[&str], links: &[Link]) -> Result<(u32, Vec<u32>, Tags), String> {
        let known: Links = links.iter().cloned().collect();
        let around = Around { links: &known, ports: &ports };
        let place = around.place(known.by_index(links.last().unwrap().ifindex).unwrap());
        let shown = |place: Place<'_>| {
            let tags = place.tunnels.first().map_or(place.tags, |tunnel| Tags::Tunnel(*tunnel));
            (place.base.ifindex, place.legs.iter().map(|leg| leg.port.ifindex).collect(), tags)
        };
        place.map(shown).map_err(|why| why.to_string())
    }

    /// What a message says of an interface of this kind, on interface 3, with these attributes.
    pub(super) fn told(name: &str, data: &[(u16, &[u8])]) -> Is {
        let data: Vec<u8> = data.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect();
        Is::read(&Said { name: Some(name), data: Some(&data), below: Some(3) })
    }

    pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(super) fn link(ifindex: u32) -> Link {
        Link { ifindex, name: format!("e{ifindex}"), ..Link::default() }
    }
}
