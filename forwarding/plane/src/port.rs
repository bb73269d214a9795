//! One port: a Linux interface that Bifrost has taken, or would take if it were there.
//!
//! A port keeps its number and its totals while the interface behind it comes and goes, so that a
//! link that flaps or a virtual machine's interface that is made anew is the same port to the
//! operator.

use std::sync::Arc;

use fib::{InterfaceEntry, InterfaceFlags, PortId, Priorities, TableId, Tag, Tags};
use port::device::{Device, Offloads};
use port::{Attachment, DriverCounters, Mode, QueueCounters};

use crate::meter::QueueMeter;
use crate::shared::SharedPort;

/// What Linux says of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number, another each time it is made.
    pub ifindex: u32,
    /// What it belongs to so that its packets are Linux's, as a bridge of Linux's own, and why.
    pub master: Option<String>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Switched on and with carrier.
    pub up: bool,
    /// Linux forwards IPv4 that arrives here.
    pub forwarding4: bool,
    /// Linux forwards IPv6.
    pub forwarding6: bool,
    /// `rp_filter` in force: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// What Linux's own firewall asks of sources besides, of IPv4 and IPv6; whatever else is
    /// configured.
    pub firewall: [Option<ReversePath>; 2],
    /// The table that routes what arrives here: a VRF's, if it belongs to one.
    pub table: TableId,
    /// Transit that arrives here, of IPv4, of IPv6, is Linux's, as Linux does something to it that
    /// the plane does not.
    pub left_to_linux: [bool; 2],
    /// Whether it is a bridge or on one.
    pub bridge: Bridging,
    /// The priorities in its tags, if it has some.
    pub priorities: Priorities,
}

/// Whether an interface is a bridge or lies on one: of what comes by a member, only frames of
/// known hosts are the plane's then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bridging {
    /// It does not.
    #[default]
    No,
    /// On one to which hosts are behind a member, whatever VLAN they are in.
    Plain,
    /// On one that tells VLANs apart, and knows where hosts are in each.
    ByVlan,
    /// It is a member of such a bridge, and what passes it without a tag is Linux's.
    Member,
}

/// What the operator wants of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Which lane plain transit takes.
    pub lane: LaneChoice,
    /// Receive queues; `None`: all.
    pub queues: Option<u16>,
    /// How the program is attached.
    pub mode: Mode,
    /// Whether the driver fills Bifrost's memory directly.
    pub zero_copy: Choice,
    /// Whether sockets poll the driver themselves.
    pub busy_poll: Choice,
    /// The reverse-path check.
    pub reverse_path: ReversePath,
}

impl PortSettings {
    /// Whether a port with the settings `before` must be given back and taken anew for these. Lane
    /// and reverse-path check change in place.
    pub fn taken_otherwise(&self, before: &PortSettings) -> bool {
        (self.queues, self.mode, self.zero_copy, self.busy_poll)
            != (before.queues, before.mode, before.zero_copy, before.busy_poll)
    }
}

/// Which lane plain transit takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneChoice {
    /// The worker lane with zero-copy, else the express lane.
    #[default]
    Auto,
    /// In the driver.
    Express,
    /// Through a worker.
    Worker,
}

/// Where available, required, or never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Where it is available.
    #[default]
    Auto,
    /// Required.
    On,
    /// Never.
    Off,
}

/// The reverse-path check (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReversePath {
    /// What Linux does: `rp_filter` for IPv4, nothing for IPv6.
    #[default]
    Linux,
    /// None.
    Off,
    /// The way back leaves by the port the packet came by.
    Strict,
    /// There is a way back.
    Loose,
}

/// A receive queue with a socket.
pub struct OpenQueue {
    /// Its number in the device.
    pub queue: u32,
    /// The worker that owns it.
    pub worker: usize,
    /// The driver fills Bifrost's memory directly.
    pub zero_copy: bool,
    /// The socket polls the driver itself.
    pub busy_poll: bool,
    /// Its counters.
    pub meter: Arc<QueueMeter>,
}

/// What taking the interface led to.
pub struct Attached {
    /// How the program is attached.
    pub attachment: Attachment,
    /// The queues that have sockets, by number; a worker may have several.
    pub queues: Vec<OpenQueue>,
    /// Queues that should have: 0 to `wanted` - 1.
    pub wanted: u32,
    /// Receive queues of the device.
    pub device_queues: u32,
    /// Name of its driver; empty when it does not say.
    pub driver: String,
    /// The RSS table as it was, if it was changed.
    pub(crate) rss: Option<Vec<u32>>,
    /// What `why` says of queues that nobody serves and that packets arrive by.
    pub(crate) unserved: Option<String>,
    /// What the device did to frames before XDP saw them, which was turned off.
    pub(crate) offloads: Option<Offloads>,
    /// Why it is not the best mode, each a sentence.
    pub why: Vec<String>,
}

/// An interface that has the program, but no socket yet: Linux has every packet.
pub(crate) struct Begun {
    pub attachment: Attachment,
    pub device: Device,
    /// As [`Attached::offloads`], [`Attached::rss`] and [`Attached::why`].
    pub offloads: Option<Offloads>,
    pub rss: Option<Vec<u32>>,
    pub why: Vec<String>,
}

/// A port.
pub struct Port {
    /// Its number, for good.
    pub id: PortId,
    /// The interface's name.
    pub name: String,
    /// What the operator wants.
    pub settings: PortSettings,
    /// The interface, while there is one.
    pub interface: Option<Interface>,
    /// The bond or bridge that it is a member of, or a VLAN on that bridge: packets without tags
    /// enter and leave by it as that one's.
    pub whole: Option<Interface>,
    /// What taking it led to; `None` while it is absent or could not be taken.
    pub taken: Option<Attached>,
    /// The first step towards that.
    pub(crate) begun: Option<Begun>,
    /// Why it could not be taken.
    pub refused: Option<String>,
    /// What is behind the interface, when it is shared memory.
    pub shared: Option<SharedPort>,
    /// The express lane can send by it.
    pub target: bool,
    /// Frames may arrive whose checksums, or whose cutting, their sender left to a NIC.
    pub(crate) partial: bool,
    /// Transit must pass elements of the graph that only workers run.
    pub(crate) hooked: bool,
    /// Transit depends on flows.
    pub(crate) tracked: bool,
    /// But flows that are decided can be offloaded to the driver.
    pub(crate) offloaded: bool,
    /// Totals of earlier attachments.
    pub(crate) before: DriverCounters,
    /// Totals of queues that are closed.
    pub(crate) queues_before: QueueCounters,
}

/// The lane of plain transit, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneDecision {
    /// In the driver.
    pub express: bool,
    /// Else flows that are decided are offloaded to the driver.
    pub flows: bool,
    /// Why, for people.
    pub why: &'static str,
}

impl Port {
    pub(crate) fn new(id: PortId, name: &str, settings: PortSettings) -> Port {
        Port {
            id,
            name: name.to_owned(),
            settings,
            interface: None,
            whole: None,
            taken: None,
            begun: None,
            refused: None,
            shared: None,
            target: false,
            partial: false,
            hooked: false,
            tracked: false,
            offloaded: false,
            before: DriverCounters::default(),
            queues_before: QueueCounters::default(),
        }
    }

    /// Whether it is being taken, and will be when it is asked for once more.
    pub fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// The lane that plain transit arriving here takes; `None` while Linux has the interface to
    /// itself.
    pub fn lane(&self) -> Option<LaneDecision> {
        let taken = self.taken.as_ref()?;
        let zero_copy = !taken.queues.is_empty() && taken.queues.iter().all(|queue| queue.zero_copy);
        let flows = self.offloaded
            && self.hooked
            && self.settings.lane == LaneChoice::Auto
            && !zero_copy
            && !taken.queues.is_empty();
        let (express, why) = match self.settings.lane {
            _ if self.hooked && taken.queues.is_empty() => (
                false,
                "packets are judged in the graph, which only workers run, but no socket is open: Linux forwards",
            ),
            _ if flows => (
                false,
                "packets are judged in the graph, which only workers run; the driver carries flows that are decided",
            ),
            _ if self.hooked => (false, "packets are judged in the graph, which only workers run"),
            _ if self.own().is_some_and(|own| own.table == TableId::BY_RULES) => {
                (false, "Linux's routing rules choose the table, which only workers ask")
            }
            LaneChoice::Express => (true, "configured"),
            LaneChoice::Worker if taken.queues.is_empty() => {
                (false, "configured, but no socket is open: Linux forwards")
            }
            LaneChoice::Worker => (false, "configured"),
            LaneChoice::Auto if self.shared.is_some() => (false, "memif: there is no driver"),
            LaneChoice::Auto if zero_copy => {
                (false, "zero-copy: a worker forwards batches faster than the driver")
            }
            LaneChoice::Auto => {
                (true, "no zero-copy: forwarding in the driver is faster than copying to a worker")
            }
        };
        Some(LaneDecision { express, flows, why })
    }

    /// What packets without tags enter and leave by: its interface, or the bond or bridge of that.
    pub fn own(&self) -> Option<&Interface> {
        self.whole.as_ref().or(self.interface.as_ref())
    }

    /// The name that rules and flows know it by.
    pub fn own_name(&self) -> &str {
        self.whole.as_ref().map_or(&self.name, |whole| &whole.name)
    }

    /// What both lanes read of this port's own interface.
    pub(crate) fn entry(&self) -> Option<InterfaceEntry> {
        self.entry_of(self.own()?, Tags::None)
    }

    /// Whether the kernel lets the driver send the longest packets of an interface with these tags:
    /// it leaves room for one tag beside the port's MTU (`xdp_ok_fwd_dev`).
    fn has_room_for(&self, interface: &Interface, tags: Tags) -> bool {
        let more = tags.bytes().len().saturating_sub(Tag::BYTES) as u32;
        self.interface.as_ref().is_some_and(|port| interface.mtu + more <= port.mtu)
    }

    /// What they read of an interface on this port, with these tags; `None` while the port is not
    /// taken.
    pub(crate) fn entry_of(&self, interface: &Interface, tags: Tags) -> Option<InterfaceEntry> {
        let taken = self.taken.as_ref()?;
        let mut flags = interface.flags(self.settings.reverse_path);
        flags.set(InterfaceFlags::TARGET, self.target && self.has_room_for(interface, tags));
        let main = interface.table != TableId::BY_RULES;
        flags.set(InterfaceFlags::EXPRESS, main && self.lane().is_some_and(|lane| lane.express));
        flags.set(InterfaceFlags::FLOWS, main && self.lane().is_some_and(|lane| lane.flows));
        flags.set(InterfaceFlags::PARTIAL, self.partial);
        flags.set(InterfaceFlags::TRACKED, self.tracked);
        flags.set(InterfaceFlags::QUEUE, !taken.queues.is_empty());
        let Interface { ifindex, mtu, mac, table, priorities, .. } = *interface;
        Some(InterfaceEntry { ifindex, mtu, mac, flags, port: self.id, tags, table, priorities })
    }
}

impl Interface {
    /// What is said of it alone, wherever it is.
    fn flags(&self, reverse_path: ReversePath) -> InterfaceFlags {
        let mut flags = InterfaceFlags::empty();
        let strict = InterfaceFlags::RPF4_STRICT;
        let loose = InterfaceFlags::RPF4_LOOSE;
        flags.insert(match (reverse_path, self.rp_filter) {
            (ReversePath::Strict, _) => strict | InterfaceFlags::RPF6_STRICT,
            (ReversePath::Loose, _) => loose | InterfaceFlags::RPF6_LOOSE,
            (ReversePath::Linux, 1) => strict,
            (ReversePath::Linux, 2) => loose,
            (ReversePath::Off | ReversePath::Linux, _) => InterfaceFlags::empty(),
        });
        let checks = [(strict, loose), (InterfaceFlags::RPF6_STRICT, InterfaceFlags::RPF6_LOOSE)];
        for (asked, (strict, loose)) in self.firewall.into_iter().zip(checks) {
            match asked {
                Some(ReversePath::Strict) => {
                    flags.remove(loose);
                    flags.insert(strict);
                }
                Some(ReversePath::Loose) if !flags.contains(strict) => flags.insert(loose),
                _ => {}
            }
        }
        flags.set(InterfaceFlags::UP, self.up);
        let [left4, left6] = self.left_to_linux;
        flags.set(InterfaceFlags::FORWARD4, self.forwarding4 && !left4);
        flags.set(InterfaceFlags::FORWARD6, self.forwarding6 && !left6);
        flags.set(InterfaceFlags::LINUX4, left4);
        flags.set(InterfaceFlags::LINUX6, left6);
        flags.set(InterfaceFlags::BRIDGED, matches!(self.bridge, Bridging::Plain | Bridging::ByVlan));
        flags.set(InterfaceFlags::VLANS, self.bridge == Bridging::ByVlan);
        flags
    }

    /// What workers read of it where it is a tunnel, on no port of its own.
    pub(crate) fn tunnel_entry(&self, tags: Tags) -> InterfaceEntry {
        let Interface { ifindex, mtu, mac, table, priorities, .. } = *self;
        let mut flags = self.flags(ReversePath::Linux);
        // What leaves by another end than it came by goes back to the same link all the same.
        flags.set(
            InterfaceFlags::BRIDGED,
            tags.tunnel().is_some_and(|tunnel| tunnel.payload.vxlan().is_some()),
        );
        InterfaceEntry { ifindex, mtu, mac, flags, port: PortId::NONE, tags, table, priorities }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(settings: PortSettings, zero_copy: &[bool]) -> Port {
        let mut port = Port::new(PortId(3), "eth0", settings);
        port.interface = Some(Interface {
            name: "eth0".into(),
            ifindex: 7,
            master: None,
            table: TableId::MAIN,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            forwarding4: true,
            forwarding6: false,
            rp_filter: 2,
            firewall: [None; 2],
            bridge: Bridging::No,
            priorities: Priorities::default(),
            left_to_linux: [false; 2],
        });
        port.taken = Some(Attached {
            attachment: Attachment { native: true, why: None },
            queues: zero_copy
                .iter()
                .enumerate()
                .map(|(queue, &zero_copy)| OpenQueue {
                    queue: queue as u32,
                    worker: queue,
                    zero_copy,
                    busy_poll: false,
                    meter: Arc::default(),
                })
                .collect(),
            wanted: zero_copy.len() as u32,
            device_queues: zero_copy.len() as u32,
            driver: String::new(),
            rss: None,
            unserved: None,
            offloads: None,
            why: Vec::new(),
        });
        port
    }

    fn express(lane: LaneChoice, zero_copy: &[bool]) -> bool {
        port(PortSettings { lane, ..PortSettings::default() }, zero_copy).lane().unwrap().express
    }

    #[test]
    fn a_port_takes_the_worker_lane_only_with_zero_copy_on_every_queue() {
        assert!(!express(LaneChoice::Auto, &[true, true]));
        assert!(express(LaneChoice::Auto, &[true, false]));
        assert!(express(LaneChoice::Auto, &[]));
        assert!(express(LaneChoice::Express, &[true]));
        assert!(!express(LaneChoice::Worker, &[false]));
    }

    #[test]
    fn the_driver_sends_with_tags_where_the_longest_packets_fit() {
        let tag = Tag { service: false, id: 10 };
        let target = |mtu, tags| {
            let mut port = port(PortSettings::default(), &[]);
            port.target = true;
            let vlan = Interface { mtu, ..port.interface.clone().unwrap() };
            port.entry_of(&vlan, tags).unwrap().flags.contains(InterfaceFlags::TARGET)
        };
        assert!(target(1500, Tags::None) && target(1500, Tags::One(tag)));
        assert!(!target(1500, Tags::Two(tag, 7)) && target(1496, Tags::Two(tag, 7)));
    }

    #[test]
    fn packets_enter_and_leave_by_a_member_as_the_bonds() {
        let mut member = port(PortSettings::default(), &[false]);
        let own = member.interface.clone().unwrap();
        assert_eq!(member.own_name(), "eth0");
        let left_to_linux = [true; 2];
        let mac = [2, 0, 0, 0, 0, 9];
        member.whole = Some(Interface { name: "bond0".into(), ifindex: 70, mac, left_to_linux, ..own });
        let entry = member.entry().unwrap();
        assert_eq!((entry.ifindex, entry.mac, entry.port), (70, mac, PortId(3)));
        assert!(entry.flags.contains(InterfaceFlags::UP | InterfaceFlags::LINUX4));
        assert!(!entry.flags.contains(InterfaceFlags::FORWARD4), "in reserve, it is Linux's");
        assert_eq!(member.own_name(), "bond0");
    }

    #[test]
    fn no_transit_passes_hooks_by() {
        for lane in [LaneChoice::Auto, LaneChoice::Express, LaneChoice::Worker] {
            let mut port = port(PortSettings { lane, ..PortSettings::default() }, &[false]);
            port.hooked = true;
            assert!(!port.lane().unwrap().express);
        }
    }

    #[test]
    fn the_reverse_path_check_is_that_of_linux_unless_configured() {
        let flags = |reverse_path| {
            port(PortSettings { reverse_path, ..PortSettings::default() }, &[]).entry().unwrap().flags
        };
        assert!(flags(ReversePath::Linux).contains(InterfaceFlags::RPF4_LOOSE));
        assert!(!flags(ReversePath::Linux).contains(InterfaceFlags::RPF6_LOOSE));
        assert!(
            flags(ReversePath::Strict).contains(InterfaceFlags::RPF4_STRICT | InterfaceFlags::RPF6_STRICT)
        );
        assert!(
            !flags(ReversePath::Off).intersects(InterfaceFlags::RPF4_LOOSE | InterfaceFlags::RPF4_STRICT)
        );
    }

    #[test]
    fn decided_flows_are_offloaded_where_packets_would_be_copied() {
        let offloads = |lane, zero_copy: &[bool], offloaded| {
            let mut port = port(PortSettings { lane, ..PortSettings::default() }, zero_copy);
            (port.hooked, port.offloaded) = (true, offloaded);
            let (lane, flags) = (port.lane().unwrap(), port.entry().unwrap().flags);
            assert!(!lane.express && lane.flows == flags.contains(InterfaceFlags::FLOWS));
            lane.flows
        };
        assert!(offloads(LaneChoice::Auto, &[false], true));
        assert!(!offloads(LaneChoice::Auto, &[false], false));
        assert!(!offloads(LaneChoice::Auto, &[true], true));
        assert!(!offloads(LaneChoice::Auto, &[], true));
        assert!(!offloads(LaneChoice::Worker, &[false], true));
    }

    #[test]
    fn a_port_without_an_interface_is_no_entry() {
        assert_eq!(Port::new(PortId(0), "eth0", PortSettings::default()).entry(), None);
        let entry = port(PortSettings::default(), &[]).entry().unwrap();
        assert_eq!((entry.ifindex, entry.mtu), (7, 1500));
        assert!(
            entry.flags.contains(InterfaceFlags::UP | InterfaceFlags::FORWARD4 | InterfaceFlags::EXPRESS)
        );
        assert!(
            !entry
                .flags
                .intersects(InterfaceFlags::FORWARD6 | InterfaceFlags::QUEUE | InterfaceFlags::TARGET)
        );
    }
}
