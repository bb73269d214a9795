//! Programs that copy packets, put in place and taken away ([`crate::copies`]).

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use fib::PortId;

use super::{Driver, failed};
use crate::DriverError;
use crate::bpf::sys::{self, Shape};
use crate::copies::{Place, Want, program};

/// `BPF_MAP_TYPE_PROG_ARRAY`.
const PROG_ARRAY: u32 = 3;

/// Who watches, and what stands where for them.
pub(super) struct Copies {
    rings: OwnedFd,
    /// The port's own programs, native and generic, to go on to. They go with this process, and
    /// then the packets are Linux's.
    onward: OwnedFd,
    wants: Vec<Want>,
    /// Ports with a program in front of their own.
    fronts: HashSet<PortId>,
    /// Programs behind Linux's stack.
    stacks: HashMap<PortId, OwnedFd>,
}

impl Driver {
    /// From now on these get copies, by these [rings](crate::copies::Rings), and nobody else.
    /// Nobody at all: everything is as if there never had been one. On an error too.
    pub fn copy_packets(&mut self, rings: BorrowedFd<'_>, wants: Vec<Want>) -> Result<(), DriverError> {
        if wants.is_empty() {
            self.copy_nothing();
            return Ok(());
        }
        if self.copies.is_none() {
            self.copies = Some(self.begin_copying()?);
        }
        if let Some(copies) = &mut self.copies {
            copies.rings = rings.try_clone_to_owned().map_err(DriverError::io("cannot keep a map"))?;
            copies.wants = wants;
        }
        let ports: HashSet<PortId> = self.ports.keys().chain(self.targets.keys()).copied().collect();
        for port in ports {
            self.copy_of(port).inspect_err(|_| self.copy_nothing())?;
        }
        Ok(())
    }

    fn begin_copying(&mut self) -> Result<Copies, DriverError> {
        let shape = Shape { kind: PROG_ARRAY, key: 4, value: 4, entries: 2, flags: 0 };
        let onward = sys::map_create("onward", shape).map_err(failed("onward", "create"))?;
        for native in [true, false] {
            let entry = self.entry(native)?.as_raw_fd();
            sys::map_update(onward.as_fd(), &u32::from(native).to_ne_bytes(), &entry.to_ne_bytes())
                .map_err(failed("onward", "write"))?;
        }
        let rings = onward.try_clone().map_err(DriverError::io("cannot keep a map"))?;
        Ok(Copies { rings, onward, wants: Vec::new(), fronts: HashSet::new(), stacks: HashMap::new() })
    }

    /// Takes all programs away that copy.
    fn copy_nothing(&mut self) {
        let Some(copies) = self.copies.take() else { return };
        for port in copies.fronts {
            let Some(Some(link)) = self.ports.get(&port).map(|entry| entry.link.as_ref()) else { continue };
            let own = if self.is_native(port) { &self.programs.native } else { &self.programs.generic };
            if let Some(own) = own {
                // It was there before: the kernel has no reason to refuse it.
                let _ = sys::link_update(link.as_fd(), own.as_fd());
            }
        }
        for (&port, &ifindex) in &self.targets {
            let _ = self.write_target(port, ifindex, None);
        }
    }

    /// Puts in place for one port what is wanted of it.
    pub(super) fn copy_of(&mut self, port: PortId) -> Result<(), DriverError> {
        let Some(mut copies) = self.copies.take() else { return Ok(()) };
        let done = self.copy_of_with(port, &mut copies);
        self.copies = Some(copies);
        done
    }

    fn copy_of_with(&self, port: PortId, copies: &mut Copies) -> Result<(), DriverError> {
        let wanted = |outgoing| -> Vec<&Want> {
            copies.wants.iter().filter(|want| want.includes(port, outgoing)).collect()
        };
        let (incoming, outgoing) = (wanted(false), wanted(true));
        let (rings, onward) = (copies.rings.as_fd(), copies.onward.as_fd());
        let load = |place: Place<'_>, wants: &[&Want]| {
            let code = program(place, rings, wants).ok_or(DriverError::FilterTooLong)?;
            let (kind, flags, attach) = match place {
                Place::Front { .. } => (sys::PROG_XDP, sys::XDP_HAS_FRAGS, sys::ATTACH_XDP),
                Place::Redirected => (sys::PROG_XDP, sys::XDP_HAS_FRAGS, sys::ATTACH_XDP_DEVMAP),
                Place::Stack => (sys::PROG_SCHED_CLS, 0, 0),
            };
            sys::prog_load(crate::tcx::COPY, kind, flags, attach, c"Dual MIT/GPL", &code)
                .map_err(|source| DriverError::Load { name: crate::tcx::COPY.into(), source })
        };
        if let Some(entry) = self.ports.get(&port)
            && let Some(link) = &entry.link
        {
            let mark = if entry.native { 0 } else { self.mark };
            let attach = |source| DriverError::Attach { ifindex: entry.ifindex, source };
            if !incoming.is_empty() {
                let front = load(Place::Front { onward, at: entry.native.into(), mark }, &incoming)?;
                sys::link_update(link.as_fd(), front.as_fd()).map_err(attach)?;
                copies.fronts.insert(port);
            } else if copies.fronts.remove(&port) {
                let own = if entry.native { &self.programs.native } else { &self.programs.generic };
                own.iter().try_for_each(|own| sys::link_update(link.as_fd(), own.as_fd())).map_err(attach)?;
            }
            // The old one first, or packets would be copied twice for a moment.
            copies.stacks.remove(&port);
            if !outgoing.is_empty() {
                let stack = load(Place::Stack, &outgoing)?;
                let link = sys::link_create(stack.as_fd(), entry.ifindex, sys::ATTACH_TCX_EGRESS, 0);
                copies.stacks.insert(port, link.map_err(attach)?);
            }
        }
        if let Some(&ifindex) = self.targets.get(&port) {
            let redirected = match outgoing.as_slice() {
                [] => None,
                outgoing => Some(load(Place::Redirected, outgoing)?),
            };
            self.write_target(port, ifindex, redirected.as_ref())?;
        }
        Ok(())
    }

    /// Whether one of ours stands where packets of Linux's leave by a port (tcx).
    pub fn copies_stack(&self, port: PortId) -> bool {
        self.copies.as_ref().is_some_and(|copies| copies.stacks.contains_key(&port))
    }

    /// Forgets what stood at a port that is given back; its link is gone.
    pub(super) fn uncopy(&mut self, port: PortId) {
        if let Some(copies) = &mut self.copies {
            copies.fronts.remove(&port);
            copies.stacks.remove(&port);
        }
    }
}
