//! Memory that is looked up at random: one anonymous mapping in huge pages.
//!
//! hugetlb pages when the pool has enough, else transparent huge pages by madvise(2), else plain
//! pages. A 64 MiB table in 4 KiB pages misses the TLB at every lookup, in 2 MiB pages hardly ever.

use std::io;
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// A zeroed mapping of our own, unmapped when dropped. Pages come into being when they are touched.
pub struct Mapping {
    /// The whole of it as the kernel gave it.
    mapped: (NonNull<u8>, usize),
    /// The part that is used, aligned to huge pages.
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the addresses are only handed out, used to unmap, and to ask for residency.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes.
    pub fn new(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE);
        if let Ok(base) = map(bytes, libc::MAP_HUGETLB) {
            return Ok(Mapping { mapped: (base, bytes), base, bytes });
        }
        let padded = bytes + HUGE_PAGE;
        let whole = map(padded, libc::MAP_NORESERVE)?;
        // SAFETY: the offset is below the padding.
        let base = unsafe { whole.add(whole.as_ptr().align_offset(HUGE_PAGE)) };
        // SAFETY: advice about our own mapping; failure (no THP in this kernel) costs speed only.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        Ok(Mapping { mapped: (whole, padded), base, bytes })
    }

    /// Where it begins: a multiple of 2 MiB.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length: a multiple of 2 MiB.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that are in memory now.
    pub fn resident_bytes(&self) -> usize {
        let mut pages = vec![0u8; self.bytes / 4096];
        // SAFETY: the range is inside our mapping, and `pages` has a byte for each of its pages.
        let result = unsafe { libc::mincore(self.base.as_ptr().cast(), self.bytes, pages.as_mut_ptr()) };
        if result != 0 {
            return self.bytes;
        }
        pages.iter().filter(|&&page| page & 1 != 0).count() * 4096
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; whoever was given its address keeps this alive.
        unsafe { libc::munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping, wherever the kernel likes.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))
}
