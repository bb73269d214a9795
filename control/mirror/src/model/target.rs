//! Where routes point, each different target stored once.
//!
//! A BGP peer's 500,000 routes point at one target. Interning makes a route 24 bytes, makes
//! comparing two routes one integer comparison, and lets the plane give all of them one next hop
//! that one store can change.
//!
//! Linux deletes next-hop objects, and routes by an interface that is switched off, without a
//! message, and may make the same again before anybody has looked. So such a target is *retired*:
//! what points at it leads nowhere any more, and what is told from then on with the same content is
//! another target.

use crate::netlink::nexthop::{Object, ObjectContent};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

/// One way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The interface; 0 when the route names none.
    pub ifindex: u32,
    /// The next router, of either family (RFC 8950); `None` = the destination itself is on the
    /// link.
    pub gateway: Option<IpAddr>,
    /// Share of the traffic, relative to the others', 1 to 65,536.
    pub weight: u32,
    /// Packets are wrapped on the way out (MPLS, SRv6...), which Linux does.
    pub encap: bool,
}

/// Where a route points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A next-hop object, by number.
    Object(SourceId, u32),
    /// Ways out, sorted; empty for routes that lead nowhere (blackhole...).
    Paths(SmallVec<[Path; 2]>),
}

/// Who told it. Each numbers its next-hop objects for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceId {
    /// Linux.
    Netlink,
    /// FRR's zebra.
    Fpm,
}

/// Index of a [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(u32);

/// All targets in use, counted.
#[derive(Default)]
pub struct Targets {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_content: HashMap<Target, TargetId>,
}

struct Slot {
    target: Target,
    references: u32,
    retired: bool,
}

impl Targets {
    /// The target's number; the caller holds one reference more.
    pub(crate) fn intern(&mut self, target: Target) -> TargetId {
        if let Some(&id) = self.by_content.get(&target) {
            self.retain(id);
            return id;
        }
        let slot = Slot { target: target.clone(), references: 1, retired: false };
        let id = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                TargetId(index)
            }
            None => {
                self.slots.push(slot);
                TargetId(self.slots.len() as u32 - 1)
            }
        };
        self.by_content.insert(target, id);
        id
    }

    /// One reference more.
    pub(crate) fn retain(&mut self, id: TargetId) {
        self.slots[id.0 as usize].references += 1;
    }

    /// One reference less; the last one frees the number.
    pub(crate) fn release(&mut self, id: TargetId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.references -= 1;
        if slot.references == 0 {
            if self.by_content.get(&slot.target) == Some(&id) {
                self.by_content.remove(&slot.target);
            }
            self.free.push(id.0);
        }
    }

    /// Retires a target; its number, if it is in use.
    pub(crate) fn retire(&mut self, target: &Target) -> Option<TargetId> {
        let id = self.by_content.remove(target)?;
        self.slots[id.0 as usize].retired = true;
        Some(id)
    }

    /// Retires all whose every way leads through an interface.
    pub(crate) fn retire_by(&mut self, ifindex: u32) -> Vec<TargetId> {
        let through = |target: &Target| match target {
            Target::Paths(paths) => !paths.is_empty() && paths.iter().all(|path| path.ifindex == ifindex),
            Target::Object(..) => false,
        };
        let found: Vec<Target> = self.by_content.keys().filter(|target| through(target)).cloned().collect();
        found.iter().filter_map(|target| self.retire(target)).collect()
    }

    /// Whether routes that point at it are no more.
    pub(crate) fn is_retired(&self, id: TargetId) -> bool {
        self.slots[id.0 as usize].retired
    }

    /// The target with this number, to which the caller's route holds a reference.
    pub fn at(&self, id: TargetId) -> &Target {
        &self.slots[id.0 as usize].target
    }

    /// The number of a target in use.
    pub(crate) fn find(&self, target: &Target) -> Option<TargetId> {
        self.by_content.get(target).copied()
    }

    /// How many different targets are in use.
    pub fn len(&self) -> usize {
        self.by_content.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_content.is_empty()
    }
}

/// Next-hop objects, by source and number.
#[derive(Default)]
pub struct Objects {
    objects: BTreeMap<(SourceId, u32), Object>,
    /// Those of a source not told again since [`Objects::begin_read`].
    unseen: BTreeSet<(SourceId, u32)>,
}

/// What a target comes to when objects and groups are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ways {
    /// These ways out; none when the object is not known.
    Paths(SmallVec<[Path; 2]>),
    /// An object that drops.
    Blackhole,
}

impl Objects {
    /// The object with this number.
    pub fn find(&self, source: SourceId, id: u32) -> Option<&Object> {
        self.objects.get(&(source, id))
    }

    /// All of a source.
    pub fn iter(&self, source: SourceId) -> impl Iterator<Item = &Object> {
        self.objects.range((source, 0)..=(source, u32::MAX)).map(|(_, object)| object)
    }

    /// The ways out of a target.
    pub fn ways(&self, target: &Target) -> Ways {
        match target {
            Target::Paths(paths) => Ways::Paths(paths.clone()),
            Target::Object(source, id) => self.object_ways(*source, *id),
        }
    }

    fn object_ways(&self, source: SourceId, id: u32) -> Ways {
        let members = match self.find(source, id).map(|object| &object.content) {
            Some(ObjectContent::Path(path)) => return Ways::Paths(SmallVec::from_slice(&[*path])),
            Some(ObjectContent::Blackhole) => return Ways::Blackhole,
            Some(ObjectContent::Group(members)) => members,
            Some(ObjectContent::Bridge) | None => return Ways::Paths(SmallVec::new()),
        };
        let mut paths = SmallVec::new();
        for &(member, weight) in members {
            match self.find(source, member).map(|object| &object.content) {
                Some(ObjectContent::Path(path)) => paths.push(Path { weight, ..*path }),
                // Linux allows a blackhole in a group only as its one member.
                Some(ObjectContent::Blackhole) => return Ways::Blackhole,
                _ => {}
            }
        }
        Ways::Paths(paths)
    }

    /// Takes in an object; whether anything changed.
    pub(crate) fn set(&mut self, source: SourceId, object: &Object) -> bool {
        self.unseen.remove(&(source, object.id));
        self.objects.insert((source, object.id), object.clone()).as_ref() != Some(object)
    }

    /// Forgets an object, and drops it from the groups that name it, as Linux does; whether it was
    /// known.
    pub(crate) fn remove(&mut self, source: SourceId, id: u32) -> bool {
        for (_, object) in self.objects.range_mut((source, 0)..=(source, u32::MAX)) {
            if let ObjectContent::Group(members) = &mut object.content {
                members.retain(|(member, _)| *member != id);
            }
        }
        self.unseen.remove(&(source, id));
        self.objects.remove(&(source, id)).is_some()
    }

    /// Those that lead through an interface themselves, groups excepted.
    pub(crate) fn through(&self, source: SourceId, ifindex: u32) -> Vec<u32> {
        let leads =
            |object: &Object| matches!(&object.content, ObjectContent::Path(path) if path.ifindex == ifindex);
        self.iter(source).filter(|object| leads(object)).map(|object| object.id).collect()
    }

    /// Whether it is a group that has lost its last member.
    pub(crate) fn is_empty_group(&self, source: SourceId, id: u32) -> bool {
        let content = self.find(source, id).map(|object| &object.content);
        matches!(content, Some(ObjectContent::Group(members)) if members.is_empty())
    }

    /// Starts to note which objects of a source are told again.
    pub(crate) fn begin_read(&mut self, source: SourceId) {
        self.unseen = self.iter(source).map(|object| (source, object.id)).collect();
    }

    /// Those that were not.
    pub(crate) fn unseen(&mut self, source: SourceId) -> Vec<u32> {
        let unseen = std::mem::take(&mut self.unseen);
        unseen.into_iter().filter(|(of, _)| *of == source).map(|(_, id)| id).collect()
    }

    /// The groups that have this object as a member.
    pub(crate) fn groups_of(&self, source: SourceId, id: u32) -> Vec<u32> {
        let of = |object: &Object| match &object.content {
            ObjectContent::Group(members) => members.iter().any(|(member, _)| *member == id),
            _ => false,
        };
        self.iter(source).filter(|object| of(object)).map(|object| object.id).collect()
    }
}
