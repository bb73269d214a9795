//! The compiled programs, and how they get into the kernel.
//!
//! The same maps are shared by several programs, some of which are loaded long after the others.
//! aya's loader makes new maps for each object that it loads (or needs a mounted bpffs to share
//! them by name), so only its ELF part is used here: parse, relocate against maps that we made,
//! load.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use aya_obj::{Map, Object, Program};

use super::sys::{self, Shape};
use crate::DriverError;

/// An object file, aligned as ELF wants it.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

static BIFROST: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/bifrost.o")));
static INJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/inject.o")));
static REDIRECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/redirect.o")));
static GENERATE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/generate.o")));
static TALLY: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tally.o")));
static TRAFFIC: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/traffic.o")));

/// Parses the classifier and express lane.
pub(crate) fn bifrost() -> Result<Object, DriverError> {
    Ok(Object::parse(&BIFROST.0)?)
}

/// Parses the TAP's program.
pub(crate) fn inject() -> Result<Object, DriverError> {
    Ok(Object::parse(&INJECT.0)?)
}

/// Parses what gives all frames to sockets.
pub(crate) fn redirect() -> Result<Object, DriverError> {
    Ok(Object::parse(&REDIRECT.0)?)
}

/// Parses what sends streams.
pub(crate) fn generate() -> Result<Object, DriverError> {
    Ok(Object::parse(&GENERATE.0)?)
}

/// Parses what judges streams that arrive.
pub(crate) fn tally() -> Result<Object, DriverError> {
    Ok(Object::parse(&TALLY.0)?)
}

/// Parses the source and the sink of packets.
pub(crate) fn traffic() -> Result<Object, DriverError> {
    Ok(Object::parse(&TRAFFIC.0)?)
}

/// The shape that the object gives a map, with `entries` instead of its own when given.
pub(crate) fn shape_of(map: &Map, entries: Option<u32>) -> Shape {
    Shape {
        kind: map.map_type(),
        key: map.key_size(),
        value: map.value_size(),
        entries: entries.unwrap_or(map.max_entries()),
        flags: map.map_flags(),
    }
}

pub(crate) fn create(name: &str, map: &Map, entries: Option<u32>) -> Result<OwnedFd, DriverError> {
    let shape = shape_of(map, entries);
    sys::map_create(name, shape).map_err(|source| DriverError::Map {
        name: name.into(),
        action: "create",
        bytes: u64::from(shape.entries) * u64::from(shape.value),
        source,
    })
}

/// Loads program `name` of an object, with constants set and its maps replaced by these.
pub(crate) fn load(
    mut object: Object,
    name: &str,
    constants: HashMap<&str, (&[u8], bool)>,
    maps: &HashMap<String, OwnedFd>,
) -> Result<OwnedFd, DriverError> {
    object.patch_map_data(constants)?;
    let mut data_maps = HashMap::new();
    for (name, map) in object.maps.iter().filter(|(_, map)| !map.data().is_empty()) {
        data_maps.insert(name.clone(), constant_map(name, map).map_err(DriverError::Constants)?);
    }
    let described = object.maps.clone();
    let fds = described.iter().filter_map(|(name, map)| {
        let fd = maps.get(name).or_else(|| data_maps.get(name))?;
        Some((name.as_str(), fd.as_raw_fd(), map))
    });
    let text: HashSet<_> = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(fds, &text)?;
    object.relocate_calls(&text)?;
    let program: &Program =
        object.programs.get(name).ok_or_else(|| DriverError::NoProgram { name: name.into() })?;
    let code = &object.functions[&program.function_key()].instructions;
    let (kind, flags, attach) = match program.section {
        aya_obj::ProgramSection::Xdp { frags, .. } => {
            (sys::PROG_XDP, if frags { sys::XDP_HAS_FRAGS } else { 0 }, sys::ATTACH_XDP)
        }
        _ => (sys::PROG_SCHED_CLS, 0, 0),
    };
    sys::prog_load(name, kind, flags, attach, &program.license, code)
        .map_err(|source| DriverError::Load { name: name.into(), source })
}

/// A map with the constants of a program (.rodata), frozen so that the verifier knows them.
fn constant_map(name: &str, map: &Map) -> io::Result<OwnedFd> {
    let mut shape = shape_of(map, Some(1));
    shape.value = map.data().len() as u32;
    shape.flags |= sys::RDONLY_PROG;
    let fd = sys::map_create(name, shape)?;
    sys::map_update(fd.as_fd(), &0u32.to_ne_bytes(), map.data())?;
    sys::map_freeze(fd.as_fd())?;
    Ok(fd)
}
