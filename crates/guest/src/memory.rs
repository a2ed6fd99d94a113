// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a virtual machine, reached through a descriptor that its owner has handed over. The only place of the crate with `unsafe`.
//!
//! The owner goes on using the memory meanwhile, and may truncate the file behind it. A file that can no longer shrink
//! (`F_SEAL_SHRINK`, as QEMU's `memory-backend-memfd` seals it) is mapped. Any other is read and written by system calls, which fail
//! where the bytes are gone, while an access to a mapping would end the process (`SIGBUS`).
#![allow(unsafe_code, reason = "a mapping that its owner goes on using is reached by pointers alone")]

use crate::vfio_user::DmaAccess;
use rustix::fs::{FileType, OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use thiserror::Error;
use tlp::AtomicOp;

/// Why memory cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MemoryError {
    /// The descriptor is not a file's.
    #[error("the descriptor of the memory is not a file's")]
    NotAFile,
    /// Huge pages can run out when they are touched, which would end the process, and are not written by system calls.
    #[error("the memory is of huge pages (`hugetlb=on`), which cannot be reached safely: leave that out")]
    HugePages,
    /// What is written goes to the end of the file, wherever it is to go.
    #[error(
        "the file of the memory was opened to append (`O_APPEND`), so that nothing can be written within it"
    )]
    Appends,
    /// The file is shorter than it was said to be.
    #[error("the file of the memory has {has:#x} bytes, and is to have {needs:#x}")]
    Short {
        /// Its size in bytes.
        has: u64,
        /// The end of the range that was handed over.
        needs: u64,
    },
    /// The system refuses.
    #[error("{what}: {errno}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it says.
        errno: Errno,
    },
}

impl MemoryError {
    /// What the owner is told.
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
pub struct Memory {
    held: Held,
    bytes: u64,
    access: DmaAccess,
}

#[derive(Debug)]
enum Held {
    Mapped(Mapping),
    File { fd: OwnedFd, offset: u64 },
}

/// Magic number of `hugetlbfs` (`statfs(2)`).
const HUGETLBFS: i64 = 0x9584_58f6;

impl Memory {
    /// The `bytes` from `offset` on of the file `fd`.
    ///
    /// # Errors
    /// Where that is no file, is shorter, or cannot be mapped though it cannot shrink.
    pub fn new(fd: OwnedFd, offset: u64, bytes: u64, access: DmaAccess) -> Result<Memory, MemoryError> {
        let stat = fstat(&fd).map_err(MemoryError::system("asking what the memory's descriptor is"))?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(MemoryError::NotAFile);
        }
        let system = fstatfs(&fd).map_err(MemoryError::system("asking for the memory's file system"))?;
        if system.f_type == HUGETLBFS {
            return Err(MemoryError::HugePages);
        }
        let flags = fcntl_getfl(&fd)
            .map_err(MemoryError::system("asking for the flags of the memory's descriptor"))?;
        if flags.contains(OFlags::APPEND) {
            return Err(MemoryError::Appends);
        }
        // Files without seals say so by an error. What is sealed stays so, so the size holds that is asked for afterwards.
        let cannot_shrink = fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let stat = fstat(&fd).map_err(MemoryError::system("asking for the memory's size"))?;
        let has = u64::try_from(stat.st_size).unwrap_or_default();
        let needs = offset.saturating_add(bytes);
        if has < needs {
            return Err(MemoryError::Short { has, needs });
        }
        let held = if cannot_shrink {
            Held::Mapped(Mapping::new(&fd, offset, bytes, access)?)
        } else {
            Held::File { fd, offset }
        };
        Ok(Memory { held, bytes, access })
    }

    /// Whether it is mapped: then AtomicOps are atomic to its owner too.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.held, Held::Mapped(_))
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads bytes; false if that fails. What is aligned and of 2, 4 or 8 bytes is read whole.
    #[must_use]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        self.access.read
            && self.has(offset, to.len())
            && match &self.held {
                Held::Mapped(mapping) => mapping.read(offset as usize, to),
                Held::File { fd, offset: base } => read_file(fd, base + offset, to),
            }
    }

    /// Writes bytes; false if that fails. What is aligned and of 2, 4 or 8 bytes is written whole.
    #[must_use]
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        self.access.write
            && self.has(offset, from.len())
            && match &self.held {
                Held::Mapped(mapping) => mapping.write(offset as usize, from),
                Held::File { fd, offset: base } => write_file(fd, base + offset, from),
            }
    }

    /// Carries out an AtomicOp (`PCIe 5.0 §6.15`), and puts the value before it into `old`, whose length is the operand's; false if
    /// that fails. Of 4 and 8 aligned bytes in a mapping it is one instruction of the CPU. Else, and for the 16 bytes that a CAS may
    /// have, it is a read and a write, between which the owner may write too.
    #[must_use]
    pub fn operate(&self, offset: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        if !(self.access.read && self.access.write && self.has(offset, old.len())) {
            return false;
        }
        if let Held::Mapped(mapping) = &self.held
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
        // SAFETY: the kernel chooses a place that nothing else has.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, fd, offset) };
        let start = start.map_err(&failed)?;
        let start = NonNull::new(start.cast()).ok_or_else(|| failed(Errno::NOMEM))?;
        Ok(Mapping { start, bytes })
    }

    /// The address of a byte.
    fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// `Memory` has checked that the range lies in the mapping, and that it may be read.
    fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        // SAFETY: see above; and nobody holds a reference into the mapping.
        unsafe { load(self.at(offset), to) };
        // What is read after this was there after that.
        fence(Ordering::Acquire);
        true
    }

    /// `Memory` has checked that the range lies in the mapping, and that it may be written.
    fn write(&self, offset: usize, from: &[u8]) -> bool {
        // What was written before this is seen before this.
        fence(Ordering::Release);
        // SAFETY: see above; and nobody holds a reference into the mapping.
        unsafe { store(self.at(offset), from) };
        true
    }

    /// Does it as one instruction; false, and nothing done, where there is none for it. `Memory` has checked that the range lies in the
    /// mapping, and that it may be read and written.
    fn operate(&self, offset: usize, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        let place = self.at(offset);
        // Operands are little endian, as memory is.
        if !(place as usize).is_multiple_of(old.len().max(1)) || cfg!(target_endian = "big") {
            return false;
        }
        macro_rules! operate {
            ($atomic:ty, $operand:ty) => {{
                let mut operands = operands
                    .chunks_exact(size_of::<$operand>())
                    .map(|operand| <$operand>::from_ne_bytes(operand.try_into().unwrap_or_default()));
                let [first, second] = [(); 2].map(|()| operands.next().unwrap_or_default());
                // SAFETY: see above; it is aligned, and what is done there is atomic or volatile.
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
        // SAFETY: it is ours, and nothing refers to it any longer. Nothing can be done where that fails.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The longest access that is aligned at an address and not longer than `len`: 8, 4, 2 or 1.
fn piece(address: usize, len: usize) -> usize {
    [8, 4, 2].into_iter().find(|size| address.is_multiple_of(*size) && len >= *size).unwrap_or(1)
}

/// Reads bytes that others may change meanwhile, each aligned piece by one access.
///
/// # Safety
/// `place` and what follows may be read, and no reference to it exists.
unsafe fn load(mut place: *const u8, mut to: &mut [u8]) {
    macro_rules! pieces {
        ($word:ty) => {{
            const BYTES: usize = size_of::<$word>();
            let count = if BYTES == 8 { to.len() / 8 } else { 1 };
            let (now, rest) = to.split_at_mut(count * BYTES);
            for piece in now.chunks_exact_mut(BYTES) {
                // SAFETY: the caller's promise, for these bytes of it; `piece` has chosen what is aligned.
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

/// Writes bytes that others may look at meanwhile, each aligned piece by one access.
///
/// # Safety
/// `place` and what follows may be written, and no reference to it exists.
unsafe fn store(mut place: *mut u8, mut from: &[u8]) {
    macro_rules! pieces {
        ($word:ty) => {{
            const BYTES: usize = size_of::<$word>();
            let count = if BYTES == 8 { from.len() / 8 } else { 1 };
            let (now, rest) = from.split_at(count * BYTES);
            for piece in now.chunks_exact(BYTES) {
                let word = <$word>::from_ne_bytes(piece.try_into().unwrap_or_default());
                // SAFETY: the caller's promise, for these bytes of it; `piece` has chosen what is aligned.
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
