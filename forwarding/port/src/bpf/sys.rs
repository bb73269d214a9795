//! bpf(2), the few commands we use. Each attribute block is the front part of the kernel's `union
//! bpf_attr` that its command reads.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use aya_obj::generated::bpf_insn;

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_MAP_FREEZE: libc::c_int = 22;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;

/// `BPF_PROG_TYPE_SCHED_CLS`.
pub(crate) const PROG_SCHED_CLS: u32 = 3;
/// `BPF_PROG_TYPE_XDP`.
pub(crate) const PROG_XDP: u32 = 6;
/// `BPF_XDP_DEVMAP`, an attach type.
pub(crate) const ATTACH_XDP_DEVMAP: u32 = 33;
/// `BPF_XDP`, an attach type.
pub(crate) const ATTACH_XDP: u32 = 37;
/// `BPF_TCX_INGRESS`, an attach type.
pub(crate) const ATTACH_TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`, an attach type.
pub(crate) const ATTACH_TCX_EGRESS: u32 = 47;
/// `BPF_F_XDP_HAS_FRAGS`.
pub(crate) const XDP_HAS_FRAGS: u32 = 1 << 5;
/// `BPF_F_RDONLY_PROG`.
pub(crate) const RDONLY_PROG: u32 = 1 << 7;

fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    let size = std::mem::size_of::<T>() as libc::c_uint;
    // SAFETY: `attributes` is a live, initialised block of `size` bytes; the pointers inside it
    // were made from references that outlive this call (see the callers), with the lengths that the
    // command reads or writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    let fd = bpf(command, attributes)?;
    // SAFETY: these commands return a new file descriptor, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn name16(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    for (to, from) in field.iter_mut().take(15).zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'_' { from } else { b'_' };
    }
    field
}

/// The shape of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub kind: u32,
    pub key: u32,
    pub value: u32,
    pub entries: u32,
    pub flags: u32,
}

pub(crate) fn map_create(name: &str, shape: Shape) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        shape: [u32; 5],
        inner_map: u32,
        numa_node: u32,
        name: [u8; 16],
    }
    let shape = [shape.kind, shape.key, shape.value, shape.entries, shape.flags];
    bpf_fd(BPF_MAP_CREATE, &mut Attributes { shape, inner_map: 0, numa_node: 0, name: name16(name) })
}

#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: BorrowedFd, key: &[u8], value: u64) -> Element {
    Element { map: map.as_raw_fd() as u32, pad: 0, key: key.as_ptr() as u64, value, flags: 0 }
}

/// `key` and `value` have the sizes that the map was made with.
pub(crate) fn map_update(map: BorrowedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    bpf(BPF_MAP_UPDATE_ELEM, &mut element(map, key, value.as_ptr() as u64)).map(drop)
}

/// As [`map_update`]; no error when there is no such key.
pub(crate) fn map_delete(map: BorrowedFd, key: &[u8]) -> io::Result<()> {
    match bpf(BPF_MAP_DELETE_ELEM, &mut element(map, key, 0)) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// `value` has the size of a value, and for a per-CPU map that times the number of possible CPUs.
pub(crate) fn map_lookup(map: BorrowedFd, key: &[u8], value: &mut [u8]) -> io::Result<()> {
    bpf(BPF_MAP_LOOKUP_ELEM, &mut element(map, key, value.as_mut_ptr() as u64)).map(drop)
}

/// From now on user space cannot write the map, and the verifier may take its contents for
/// constants.
pub(crate) fn map_freeze(map: BorrowedFd) -> io::Result<()> {
    bpf(BPF_MAP_FREEZE, &mut (map.as_raw_fd() as u32)).map(drop)
}

/// How often a program is tried to be loaded in spite of signals.
const LOADS: usize = 10;

/// The verifier gives up when a signal comes, and it may take a second.
fn uninterrupted<T>(mut load: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let was =
        |result: &io::Result<T>| matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    let mut result = load();
    for _ in 1..LOADS {
        if !was(&result) {
            break;
        }
        result = load();
    }
    result
}

/// Loads a program. On refusal the error text is the end of the verifier's log.
pub(crate) fn prog_load(
    name: &str,
    kind: u32,
    flags: u32,
    attach: u32,
    license: &CStr,
    code: &[bpf_insn],
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        code: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        ifindex: u32,
        attach: u32,
    }
    let mut attributes = Attributes {
        kind,
        count: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: name16(name),
        ifindex: 0,
        attach,
    };
    uninterrupted(|| bpf_fd(BPF_PROG_LOAD, &mut attributes)).or_else(|first| {
        // Once more with a log, which costs time and may itself fail (ENOSPC) where the program
        // would not.
        let mut log = vec![0u8; 16 << 20];
        attributes.log_level = 1;
        attributes.log_size = log.len() as u32;
        attributes.log = log.as_mut_ptr() as u64;
        uninterrupted(|| bpf_fd(BPF_PROG_LOAD, &mut attributes)).map_err(|_| {
            let text =
                String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or(&[])).into_owned();
            let lines: Vec<_> = text.trim_end().lines().collect();
            let end = lines[lines.len().saturating_sub(12)..].join("\n");
            io::Error::new(first.kind(), format!("{first}; the kernel's verifier says:\n{end}"))
        })
    })
}

/// Attaches a program to an interface for as long as the returned link is open: when we die, it
/// detaches.
pub(crate) fn link_create(program: BorrowedFd, ifindex: u32, attach: u32, flags: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        ifindex: u32,
        attach: u32,
        flags: u32,
        relative: u32,
        pad: u32,
        revision: u64,
    }
    let program = program.as_raw_fd() as u32;
    bpf_fd(
        BPF_LINK_CREATE,
        &mut Attributes { program, ifindex, attach, flags, relative: 0, pad: 0, revision: 0 },
    )
}

/// Puts another program in the place of the one that a link has.
pub(crate) fn link_update(link: BorrowedFd, program: BorrowedFd) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        link: u32,
        program: u32,
        flags: u32,
        old: u32,
    }
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    bpf(BPF_LINK_UPDATE, &mut Attributes { link, program, flags: 0, old: 0 }).map(drop)
}

/// The numbers of the programs attached to an interface, the first 64 of them.
pub(crate) fn programs_at(ifindex: u32, attach: u32) -> io::Result<Vec<u32>> {
    #[repr(C)]
    struct Attributes {
        ifindex: u32,
        attach: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        count: u32,
        pad: u32,
        program_flags: u64,
        link_ids: u64,
        link_flags: u64,
        revision: u64,
    }
    let mut ids = vec![0u32; 64];
    let mut attributes = Attributes {
        ifindex,
        attach,
        query_flags: 0,
        attach_flags: 0,
        ids: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        pad: 0,
        program_flags: 0,
        link_ids: 0,
        link_flags: 0,
        revision: 0,
    };
    match bpf(BPF_PROG_QUERY, &mut attributes) {
        Ok(_) => ids.truncate(attributes.count as usize),
        // There are more than fit: those are there.
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {}
        Err(error) => return Err(error),
    }
    Ok(ids)
}

/// The name that a program was loaded by. Only who has `CAP_SYS_ADMIN` may ask.
pub(crate) fn program_name(id: u32) -> io::Result<String> {
    #[repr(C)]
    struct Which {
        id: u32,
        next: u32,
        flags: u32,
    }
    #[repr(C)]
    struct Attributes {
        program: u32,
        length: u32,
        info: u64,
    }
    let program = bpf_fd(BPF_PROG_GET_FD_BY_ID, &mut Which { id, next: 0, flags: 0 })?;
    // The front of `struct bpf_prog_info`, whose last 16 bytes are the name.
    let mut info = [0u8; 80];
    let (program, length) = (program.as_raw_fd() as u32, info.len() as u32);
    bpf(BPF_OBJ_GET_INFO_BY_FD, &mut Attributes { program, length, info: info.as_mut_ptr() as u64 })?;
    let name = info[64..].split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// What to run a program on.
pub(crate) struct Run<'a> {
    pub data: &'a [u8],
    /// Where the program runs: interface and receive queue, as `struct xdp_md` says it.
    pub ifindex: u32,
    pub queue: u32,
    pub repeat: u32,
    /// `BPF_F_TEST_XDP_LIVE_FRAMES`: the frames really go where the program sends them.
    pub live: bool,
    pub batch: u32,
}

/// Bytes that our programs make a frame longer by, at most: two tags.
const GROWS: usize = 8;

/// Runs an XDP program; its return code, and in `out` the frame that it left (not for live runs).
pub(crate) fn prog_run(program: BorrowedFd, run: &Run, out: &mut Vec<u8>) -> io::Result<u32> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        returned: u32,
        in_size: u32,
        out_size: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        context_in_size: u32,
        context_out_size: u32,
        context_in: u64,
        context_out: u64,
        flags: u32,
        cpu: u32,
        batch: u32,
        pad: u32,
    }
    // data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
    let context = [0u32, run.data.len() as u32, 0, run.ifindex, run.queue, 0];
    let with_context = run.ifindex != 0;
    if !run.live {
        out.resize(run.data.len().max(64) + GROWS, 0);
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        returned: 0,
        in_size: run.data.len() as u32,
        out_size: if run.live { 0 } else { out.len() as u32 },
        data_in: run.data.as_ptr() as u64,
        data_out: if run.live { 0 } else { out.as_mut_ptr() as u64 },
        repeat: run.repeat,
        duration: 0,
        context_in_size: if with_context { std::mem::size_of_val(&context) as u32 } else { 0 },
        context_out_size: 0,
        context_in: if with_context { context.as_ptr() as u64 } else { 0 },
        context_out: 0,
        flags: if run.live { 2 } else { 0 },
        cpu: 0,
        batch: run.batch,
        pad: 0,
    };
    bpf(BPF_PROG_TEST_RUN, &mut attributes)?;
    if !run.live {
        out.truncate(attributes.out_size as usize);
    }
    Ok(attributes.returned)
}
