// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a virtual machine, accessed through a descriptor from its owner. The only module of the crate with `unsafe`.
//!
//! The owner uses the memory at the same time, and may truncate its file. A file that cannot shrink (`F_SEAL_SHRINK`,
//! which QEMU's `memory-backend-memfd` sets) is mapped. Any other file is accessed by system calls. If the file has
//! become shorter, system calls fail, while an access to a mapping would kill the process (`SIGBUS`).
#![allow(unsafe_code, reason = "a mapping shared with its owner is accessed by pointers only")]

use crate::vfio_user::DmaAccess;
use rustix::fs::{FileType, OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use thiserror::Error;
use tlp::AtomicOp;

/// Why memory cannot be accessed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MemoryError {
    /// The descriptor is not a file.
    #[error("the descriptor of the memory is not a file")]
    NotAFile,
    /// The memory has huge pages. The first access to such a file could fail because no page is free, which would kill
    /// the process. System calls cannot write such files.
    #[error("the memory has huge pages (`hugetlb=on`), which cannot be accessed safely: remove that option")]
    HugePages,
    /// The file is open in append mode: every write would go to its end.
    #[error("the file of the memory was opened with `O_APPEND`, so riser cannot write within it")]
    Appends,
    /// The file is shorter than stated.
    #[error("the file of the memory has {has:#x} bytes, expected {needs:#x}")]
    Short {
        /// Its size in bytes.
        has: u64,
        /// End of the range to access, in bytes.
        needs: u64,
    },
    /// A system call failed.
    #[error("{what}: {errno}")]
    System {
        /// The operation that has failed.
        what: &'static str,
        /// Error of the system.
        errno: Errno,
    },
}

impl MemoryError {
    /// Returns the error number for the owner.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            MemoryError::System { errno, .. } => *errno,
            _ => Errno::INVAL,
        }
    }

    fn system(what: &'static str) -> impl Fn(Errno) -> MemoryError {
        move |errno| MemoryError::System { what, errno }
    }
}

/// A range of a virtual machine's memory. Offsets count from its first byte.
#[derive(Debug)]
pub struct GuestMemory {
    held: MemoryAccess,
    bytes: u64,
    access: DmaAccess,
}

#[derive(Debug)]
enum MemoryAccess {
    Mapped(Mapping),
    File { fd: OwnedFd, offset: u64 },
}

/// Magic number of `hugetlbfs` (`statfs(2)`).
const HUGETLBFS: i64 = 0x9584_58f6;

impl GuestMemory {
    /// Opens `bytes` bytes from `offset` of the file `fd`.
    ///
    /// # Errors
    /// If `fd` is no file or too short, or if mapping fails.
    pub fn new(fd: OwnedFd, offset: u64, bytes: u64, access: DmaAccess) -> Result<GuestMemory, MemoryError> {
        let stat = fstat(&fd).map_err(MemoryError::system("checking the memory's descriptor"))?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(MemoryError::NotAFile);
        }
        let system = fstatfs(&fd).map_err(MemoryError::system("checking the memory's file system"))?;
        if system.f_type == HUGETLBFS {
            return Err(MemoryError::HugePages);
        }
        let flags =
            fcntl_getfl(&fd).map_err(MemoryError::system("reading the flags of the memory's descriptor"))?;
        if flags.contains(OFlags::APPEND) {
            return Err(MemoryError::Appends);
        }
        // A file without seals returns an error here. Seals are permanent, so the size read afterwards stays valid.
        let cannot_shrink = fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let stat = fstat(&fd).map_err(MemoryError::system("reading the memory's size"))?;
        let has = u64::try_from(stat.st_size).unwrap_or_default();
        let needs = offset.saturating_add(bytes);
        if has < needs {
            return Err(MemoryError::Short { has, needs });
        }
        let held = if cannot_shrink {
            MemoryAccess::Mapped(Mapping::new(&fd, offset, bytes, access)?)
        } else {
            MemoryAccess::File { fd, offset }
        };
        Ok(GuestMemory { held, bytes, access })
    }

    /// Returns whether the memory is mapped. Only then are AtomicOps atomic for its owner too.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.held, MemoryAccess::Mapped(_))
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads bytes; returns false on failure. An aligned access of 2, 4 or 8 bytes to a mapping is a single load.
    #[must_use]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        self.access.read
            && self.has(offset, to.len())
            && match &self.held {
                MemoryAccess::Mapped(mapping) => mapping.read(offset as usize, to),
                MemoryAccess::File { fd, offset: base } => read_file(fd, base + offset, to),
            }
    }

    /// Writes bytes; returns false on failure. An aligned access of 2, 4 or 8 bytes to a mapping is a single store.
    #[must_use]
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        self.access.write
            && self.has(offset, from.len())
            && match &self.held {
                MemoryAccess::Mapped(mapping) => mapping.write(offset as usize, from),
                MemoryAccess::File { fd, offset: base } => write_file(fd, base + offset, from),
            }
    }

    /// Executes an AtomicOp (`PCIe 5.0 §6.15`) and stores the previous value in `old`, whose length is the operand's.
    /// Returns false on failure. For 4 and 8 aligned bytes of a mapping, the AtomicOp is one CPU instruction.
    /// Otherwise, and for the 16 bytes of a CAS, it is a read and a write, and the owner may write between them.
    #[must_use]
    pub fn operate(&self, offset: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        if !(self.access.read && self.access.write && self.has(offset, old.len())) {
            return false;
        }
        if let MemoryAccess::Mapped(mapping) = &self.held
            && mapping.operate(offset as usize, op, operands, old)
        {
            return true;
        }
        let mut new = [0; 16];
        let Some(new) = new.get_mut(..old.len()) else { return false };
        self.read(offset, old) && {
            op.apply(old, operands, new);
            self.write(offset, new)
        }
    }

    fn has(&self, offset: u64, len: usize) -> bool {
        offset.checked_add(len as u64).is_some_and(|end| end <= self.bytes)
    }
}

fn read_file(fd: &OwnedFd, mut at: u64, mut to: &mut [u8]) -> bool {
    while !to.is_empty() {
        match pread(fd, &mut *to, at) {
            Ok(0) => return false,
            Ok(count) => {
                at += count as u64;
                to = &mut to[count..];
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

fn write_file(fd: &OwnedFd, mut at: u64, mut from: &[u8]) -> bool {
    while !from.is_empty() {
        match pwrite(fd, from, at) {
            Ok(0) => return false,
            Ok(count) => {
                at += count as u64;
                from = &from[count..];
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// A shared mapping of a file that cannot shrink.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, offset: u64, bytes: u64, access: DmaAccess) -> Result<Mapping, MemoryError> {
        let failed = MemoryError::system("mapping the memory");
        let mut rights = ProtFlags::empty();
        rights.set(ProtFlags::READ, access.read);
        rights.set(ProtFlags::WRITE, access.write);
        let bytes = usize::try_from(bytes).map_err(|_| failed(Errno::NOMEM))?;
        // SAFETY: the kernel chooses an unused address.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, fd, offset) };
        let start = start.map_err(&failed)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| failed(Errno::NOMEM))?;
        Ok(Mapping { start, bytes })
    }

    /// Returns the address of a byte.
    fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Reads bytes. `GuestMemory` has checked that the range is in the mapping and readable.
    fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        // SAFETY: see above; no reference into the mapping exists.
        unsafe { load(self.at(offset), to) };
        // Later reads must not see older data than this one.
        fence(Ordering::Acquire);
        true
    }

    /// Writes bytes. `GuestMemory` has checked that the range is in the mapping and writable.
    fn write(&self, offset: usize, from: &[u8]) -> bool {
        // Earlier writes must be visible before this one.
        fence(Ordering::Release);
        // SAFETY: see above; no reference into the mapping exists.
        unsafe { store(self.at(offset), from) };
        true
    }

    /// Executes an AtomicOp as one CPU instruction. Returns false and does nothing if there is no such instruction. `GuestMemory` has
    /// checked that the range is in the mapping, readable and writable.
    fn operate(&self, offset: usize, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        let place = self.at(offset);
        // Operands and memory are little-endian.
        if !(place as usize).is_multiple_of(old.len().max(1)) || cfg!(target_endian = "big") {
            return false;
        }
        macro_rules! operate {
            ($atomic:ty, $operand:ty) => {{
                let mut operands = operands
                    .chunks_exact(size_of::<$operand>())
                    .map(|operand| <$operand>::from_ne_bytes(operand.try_into().unwrap_or_default()));
                let [first, second] = [(); 2].map(|()| operands.next().unwrap_or_default());
                // SAFETY: see above; the address is aligned, and all accesses to it are atomic or volatile.
                let cell = unsafe { <$atomic>::from_ptr(place.cast()) };
                let was = match op {
                    AtomicOp::FetchAdd => cell.fetch_add(first, Ordering::SeqCst),
                    AtomicOp::Swap => cell.swap(first, Ordering::SeqCst),
                    AtomicOp::CompareSwap => cell
                        .compare_exchange(first, second, Ordering::SeqCst, Ordering::SeqCst)
                        .unwrap_or_else(|was| was),
                };
                old.copy_from_slice(&was.to_ne_bytes());
            }};
        }
        match old.len() {
            4 => operate!(AtomicU32, u32),
            8 => operate!(AtomicU64, u64),
            _ => return false,
        }
        true
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and is no longer in use. A failure has no remedy.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Returns the longest access, 8, 4, 2 or 1 bytes, that is aligned at `address` and at most `len`.
fn piece(address: usize, len: usize) -> usize {
    [8, 4, 2].into_iter().find(|size| address.is_multiple_of(*size) && len >= *size).unwrap_or(1)
}

/// Reads bytes that other processes may change at the same time: each aligned piece by one access.
///
/// # Safety
/// `to.len()` bytes at `place` must be readable, and no reference to them may exist.
unsafe fn load(mut place: *const u8, mut to: &mut [u8]) {
    macro_rules! pieces {
        ($word:ty) => {{
            const BYTES: usize = size_of::<$word>();
            let count = if BYTES == 8 { to.len() / 8 } else { 1 };
            let (now, rest) = to.split_at_mut(count * BYTES);
            for piece in now.chunks_exact_mut(BYTES) {
                // SAFETY: the caller guarantees these bytes; `piece` has chosen an aligned size.
                unsafe {
                    piece.copy_from_slice(&place.cast::<$word>().read_volatile().to_ne_bytes());
                    place = place.add(BYTES);
                }
            }
            to = rest;
        }};
    }
    while !to.is_empty() {
        match piece(place as usize, to.len()) {
            8 => pieces!(u64),
            4 => pieces!(u32),
            2 => pieces!(u16),
            _ => pieces!(u8),
        }
    }
}

/// Writes bytes that other processes may read at the same time: each aligned piece by one access.
///
/// # Safety
/// `from.len()` bytes at `place` must be writable, and no reference to them may exist.
unsafe fn store(mut place: *mut u8, mut from: &[u8]) {
    macro_rules! pieces {
        ($word:ty) => {{
            const BYTES: usize = size_of::<$word>();
            let count = if BYTES == 8 { from.len() / 8 } else { 1 };
            let (now, rest) = from.split_at(count * BYTES);
            for piece in now.chunks_exact(BYTES) {
                let word = <$word>::from_ne_bytes(piece.try_into().unwrap_or_default());
                // SAFETY: the caller guarantees these bytes; `piece` has chosen an aligned size.
                unsafe {
                    place.cast::<$word>().write_volatile(word);
                    place = place.add(BYTES);
                }
            }
            from = rest;
        }};
    }
    while !from.is_empty() {
        match piece(place as usize, from.len()) {
            8 => pieces!(u64),
            4 => pieces!(u32),
            2 => pieces!(u16),
            _ => pieces!(u8),
        }
    }
}
