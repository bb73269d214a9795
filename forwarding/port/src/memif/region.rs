//! Memory that two programs share: a file without a name, mapped by both.
//!
//! Whoever may shrink the file takes pages away under the other one's feet, which the kernel
//! answers with SIGBUS. So the memory of a peer is taken only when it is sealed against that; where
//! the peer left it unsealed, it is sealed here.
//!
//! A hole that is punched into the file is filled again when it is touched: by any page, or by a
//! huge one if one is left, and else with SIGBUS as well. Against holes the kernel has only the
//! seal against further writing, which leaves alone what is mapped. So huge pages get it once both
//! sides have them mapped; after that all of them are asked for, by a call that can fail.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::ftruncate;

use crate::HugePages;

const HUGE: usize = 2 << 20;
/// `HUGETLBFS_MAGIC` of `linux/magic.h`.
const HUGETLBFS: FsType = FsType(0x9584_58f6);

/// Shared memory, mapped. What is in it the peer may change at any moment.
pub(super) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address range. Its bytes are reached by atomics, and by copies of which nothing is
// believed.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Why a peer's memory is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegionError {
    #[error("a region of {said} bytes has {has}")]
    Short { said: u64, has: u64 },
    #[error("a region of no bytes")]
    Empty,
    #[error(
        "its memory is not sealed against shrinking, as that of DPDK with zero-copy: take it with trusted=on"
    )]
    NotSealed,
    #[error("its huge pages cannot be sealed against holes: take it without huge pages, or with trusted=on")]
    Holes,
    #[error("its huge pages are not all there: {0}")]
    Missing(io::Error),
    #[error("cannot use its memory: {0}")]
    System(#[from] io::Error),
}

impl Region {
    /// New memory of at least `bytes` bytes, all zero, and the file that it is in.
    pub(super) fn create(bytes: usize, huge: HugePages) -> io::Result<(Region, OwnedFd)> {
        let reserved = match huge {
            HugePages::Off => None,
            HugePages::Auto => Region::create_of(bytes, MFdFlags::MFD_HUGETLB).ok(),
            HugePages::On => Some(Region::create_of(bytes, MFdFlags::MFD_HUGETLB)?),
        };
        match reserved {
            Some(region) => Ok(region),
            None => Region::create_of(bytes, MFdFlags::empty()),
        }
    }

    fn create_of(bytes: usize, kind: MFdFlags) -> io::Result<(Region, OwnedFd)> {
        let file = memfd_create("memif", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | kind)?;
        // Whole pages: what is mapped of the last one is ours in any case.
        let bytes = bytes.next_multiple_of(if kind.is_empty() { 4096 } else { HUGE });
        ftruncate(&file, bytes as libc::off_t)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))?;
        Ok((Region::of(&file, bytes, libc::MAP_POPULATE)?, file))
    }

    /// A peer's memory, of which it says that it has `bytes` bytes. `trusted`: also if the peer can
    /// take it away.
    pub(super) fn map(file: impl AsFd, bytes: u64, trusted: bool) -> Result<Region, RegionError> {
        if bytes == 0 {
            return Err(RegionError::Empty);
        }
        if !trusted {
            Region::seal(&file)?;
        }
        let has = fstat(&file).map_err(io::Error::from)?.st_size as u64;
        match usize::try_from(bytes) {
            Ok(size) if bytes <= has => {
                let region = Region::of(&file, size, 0)?;
                if !trusted {
                    region.keep(&file)?;
                }
                Ok(region)
            }
            _ => Err(RegionError::Short { said: bytes, has }),
        }
    }

    /// Sees that the file cannot be shortened.
    pub(super) fn seal(file: impl AsFd) -> Result<(), RegionError> {
        // Refused where it has the seal already and no more are allowed.
        let _ = fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK));
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|_| RegionError::NotSealed)?;
        match SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) {
            true => Ok(()),
            false => Err(RegionError::NotSealed),
        }
    }

    /// Sees that no page of it can go again. Nobody can map it for writing after that.
    pub(super) fn keep(&self, file: impl AsFd) -> Result<(), RegionError> {
        if fstatfs(&file).map_err(io::Error::from)?.filesystem_type() != HUGETLBFS {
            return Ok(());
        }
        // Refused where it has the seal already and no more are allowed.
        let _ = fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::from_bits_retain(libc::F_SEAL_FUTURE_WRITE)));
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|_| RegionError::Holes)?;
        if seals & libc::F_SEAL_FUTURE_WRITE == 0 {
            return Err(RegionError::Holes);
        }
        // SAFETY: the mapping; what is in it stays as it is.
        match unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(RegionError::Missing(io::Error::last_os_error())),
        }
    }

    fn of(file: impl AsFd, bytes: usize, flags: libc::c_int) -> io::Result<Region> {
        use std::os::fd::AsRawFd;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED | flags, file.as_fd().as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave address 0"))?;
        Ok(Region { base, bytes })
    }

    /// Where the bytes from `offset` on are, if `len` of them are inside.
    #[inline(always)]
    pub(super) fn at(&self, offset: u32, len: u32) -> Option<NonNull<u8>> {
        if offset as usize + len as usize > self.bytes {
            return None;
        }
        // SAFETY: inside the mapping, or at its end.
        Some(unsafe { self.base.add(offset as usize) })
    }

    /// How many bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`; whoever reaches into it holds it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let (one, file) = Region::create(5000, HugePages::Auto).unwrap();
        let other = Region::map(&file, 5000, false).unwrap();
        // SAFETY: inside both mappings.
        unsafe {
            one.at(4999, 1).unwrap().write_volatile(7);
            assert_eq!(other.at(4999, 1).unwrap().read_volatile(), 7);
        }
        assert!(
            other.at(4999, 2).is_none()
                && other.at(5000, 0).is_some()
                && other.at(u32::MAX, u32::MAX).is_none()
        );
    }

    #[test]
    fn memory_that_can_vanish_is_taken_only_from_who_is_trusted() {
        let sealable = memfd_create("x", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        ftruncate(&sealable, 8192).unwrap();
        assert!(matches!(Region::map(&sealable, 8193, false), Err(RegionError::Short { has: 8192, .. })));
        assert!(matches!(Region::map(&sealable, u64::MAX, true), Err(RegionError::Short { .. })));
        assert!(matches!(Region::map(&sealable, 0, false), Err(RegionError::Empty)));
        Region::map(&sealable, 8192, false).unwrap();
        assert!(ftruncate(&sealable, 4096).is_err(), "sealed when it was mapped");
        let unsealable = memfd_create("x", MFdFlags::empty()).unwrap();
        ftruncate(&unsealable, 8192).unwrap();
        assert!(matches!(Region::map(&unsealable, 8192, false), Err(RegionError::NotSealed)));
        assert!(Region::map(&unsealable, 8192, true).is_ok());
        let no_file = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(matches!(Region::map(&no_file, 8192, false), Err(RegionError::NotSealed)));
        assert!(matches!(Region::map(&no_file, 8192, true), Err(RegionError::Short { .. })));
    }

    /// Huge pages of the machine's, set aside while this is held.
    struct Aside(u64);

    const PAGES: &str = "/proc/sys/vm/nr_hugepages";

    impl Aside {
        fn take(pages: u64) -> Aside {
            let before: u64 = std::fs::read_to_string(PAGES).unwrap().trim().parse().unwrap();
            std::fs::write(PAGES, (before + pages).to_string()).unwrap();
            Aside(before)
        }
    }

    impl Drop for Aside {
        fn drop(&mut self) {
            std::fs::write(PAGES, self.0.to_string()).unwrap();
        }
    }

    #[test]
    fn no_hole_is_punched_into_huge_pages_that_are_in_use() {
        use nix::fcntl::{FallocateFlags, fallocate};
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let _pages = Aside::take(4);
        for taken in [true, false] {
            let (one, file) = Region::create(HUGE, HugePages::On).unwrap();
            // As long as the peer has not mapped them, it may.
            fallocate(&file, hole, 0, HUGE as i64).unwrap();
            let other = match taken {
                true => Region::map(&file, HUGE as u64, false).unwrap(),
                false => Region::of(&file, HUGE, 0).unwrap(),
            };
            one.keep(&file).unwrap();
            assert!(fallocate(&file, hole, 0, HUGE as i64).is_err() && ftruncate(&file, 0).is_err());
            // SAFETY: inside both mappings.
            unsafe {
                other.at(5000, 1).unwrap().write_volatile(7);
                assert_eq!(one.at(5000, 1).unwrap().read_volatile(), 7);
            }
        }
        // Who has it sealed so that nothing more can be is refused.
        let (_one, file) = Region::create(HUGE, HugePages::On).unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SEAL)).unwrap();
        assert!(matches!(Region::map(&file, HUGE as u64, false), Err(RegionError::Holes)));
        assert!(Region::map(&file, HUGE as u64, true).is_ok());
    }
}
