// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that host programs and devices share: [`MemoryContents`] stores the contents; [`HostMemory`] is the handle that
//! programs, drivers and root complexes have.

mod allocator;
mod pages;

use pages::{PAGE_BYTES, Pages};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use thiserror::Error;
use tlp::{AtomicOp, Bdf, Payload, PayloadPool, Time};

/// The highest end of low memory for [`HostMemory::new`]. Above it are the fixed addresses of x86 boards.
/// [`HostMap`](crate::firmware::HostMap) places the device windows above low memory; its default assumes 2 GiB of low
/// memory.
pub const LOW_END: u64 = 0xfec0_0000;
/// Start of high memory, 4 GiB.
pub const HIGH_START: u64 = 4 << 30;
/// Largest size of high memory, 1 TiB.
pub const MAX_HIGH_BYTES: u64 = 1 << 40;

/// Error: an access to addresses that are not all memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub len: u64,
    /// The addresses that are memory.
    pub ranges: Vec<Range<u64>>,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} are not memory: memory is ", self.len, self.address)?;
        for (n, range) in self.ranges.iter().enumerate() {
            let between = if n == 0 { "" } else { " and " };
            write!(f, "{between}{:#x} to {:#x}", range.start, range.end)?;
        }
        if self.ranges.is_empty() { f.write_str("nowhere") } else { Ok(()) }
    }
}

impl std::error::Error for OutOfRange {}

/// Reason why memory cannot be created, allocated or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The size of low memory is illegal, in bytes.
    #[error("{0} bytes of low memory, expected 0 to {LOW_END}, in multiples of {PAGE_BYTES}")]
    LowSize(u64),
    /// The size of high memory is illegal, in bytes.
    #[error("{0} bytes of high memory, expected 0 to {MAX_HIGH_BYTES}, in multiples of {PAGE_BYTES}")]
    HighSize(u64),
    /// The alignment is not a power of two, or is more than 2^40.
    #[error("alignment {0}, expected powers of two from 1 to 2^40")]
    Alignment(u64),
    /// Not enough memory is left: bytes requested, and bytes left in that part of memory.
    #[error("{0} bytes requested, but {1} are left")]
    Exhausted(u64, u64),
    /// The address to free is not allocated.
    #[error("{0:#x} is not an allocated address and cannot be freed")]
    NotAllocated(u64),
    /// The owner of this memory does not allow allocations.
    #[error("memory requested: only the owner of this host's memory can allocate it")]
    NotHandedOut,
}

/// The part of memory for an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryArea {
    /// Below 4 GiB.
    Low,
    /// From 4 GiB.
    High,
}

/// A DMA of a device, for a permission check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DmaAccess {
    /// The requesting function.
    pub requester: Bdf,
    /// Address of the first byte.
    pub address: u64,
    /// Bytes, 1 to 4096, within 4 KiB.
    pub len: u32,
    /// True if the access changes memory: a write, a deferrable write or an AtomicOp.
    pub writes: bool,
}

impl DmaAccess {
    /// Returns a DMA of `requester` to the `len` bytes from `address`.
    pub const fn new(requester: Bdf, address: u64, len: u32, writes: bool) -> DmaAccess {
        DmaAccess { requester, address, len, writes }
    }
}

/// The memory of a host. [`HostMemory::new`] creates its own pages; memory mapped from elsewhere, such as a guest's, is
/// another implementation. The memory has contents only; the host model decides how long an access takes.
///
/// Only one thread calls it, but contents and ranges may also change at any time for other reasons.
pub trait MemoryContents {
    /// Returns the address ranges that are memory, for error messages and sizes.
    fn ranges(&self) -> Vec<Range<u64>>;

    /// True if all `len` bytes from `address` are memory.
    fn contains(&self, address: u64, len: usize) -> bool;

    /// True if a DMA is allowed. A rejected DMA is treated like a DMA to addresses that are not memory. A non-posted
    /// request is answered with Unsupported Request; a posted request is dropped and logged as an Unsupported Request
    /// (`PCIe 5.0 §2.3.1`).
    fn lets_dma(&self, dma: &DmaAccess) -> bool {
        self.contains(dma.address, dma.len as usize)
    }

    /// Reads bytes. Returns false if some of the bytes are not readable memory.
    fn read(&self, address: u64, to: &mut [u8]) -> bool;

    /// Writes bytes. Returns false, and writes nothing, if some of the bytes are not writable memory.
    fn write(&self, address: u64, from: &[u8]) -> bool;

    /// Executes an AtomicOp as one access. Stores the previous value in `old`, whose length is that of an operand.
    /// Returns false if some bytes are not writable memory.
    fn operate(&self, address: u64, op: AtomicOp, operands: &[u8], old: &mut [u8]) -> bool {
        self.read(address, old) && write_result(op, operands, old, |new| self.write(address, new))
    }

    /// True if a read or an AtomicOp that has just failed was requested elsewhere. The access is then retried until it
    /// succeeds or fails.
    fn awaits(&self) -> bool {
        false
    }

    /// Allocates memory; `align` is a power of two.
    ///
    /// # Errors
    /// If not enough memory is left, or if this memory does not allow allocations.
    fn alloc(&self, place: MemoryArea, len: u64, align: u64) -> Result<u64, MemoryError> {
        let _ = (place, len, align);
        Err(MemoryError::NotHandedOut)
    }

    /// Frees memory. Returns false if `address` is not allocated.
    fn free(&self, address: u64) -> bool {
        let _ = address;
        false
    }
}

/// Executes an AtomicOp on `old` by a write, for memory with only reads and writes.
pub fn write_result(op: AtomicOp, operands: &[u8], old: &[u8], write: impl FnOnce(&[u8]) -> bool) -> bool {
    let mut new = [0; 16];
    let new = &mut new[..old.len().min(16)];
    op.apply(old, operands, new);
    write(new)
}

/// A handle of a host's memory. Clones are handles of the same memory.
#[derive(Clone)]
pub struct HostMemory {
    held: PageSource,
    visible_at: Rc<Cell<Time>>,
}

/// riser's own pages have a separate variant, so that a DMA needs no dynamic call.
#[derive(Clone)]
enum PageSource {
    Pages(Rc<Pages>),
    Elsewhere(Rc<dyn MemoryContents>),
}

impl HostMemory {
    /// Returns memory at `0..low_bytes` and at `4 GiB..4 GiB + high_bytes`. The memory is zero at first; a page is
    /// created at the first write to it.
    ///
    /// # Errors
    /// If a size is not a multiple of 4 KiB, `low_bytes` is more than [`LOW_END`], or `high_bytes` more than 1 TiB.
    pub fn new(low_bytes: u64, high_bytes: u64) -> Result<HostMemory, MemoryError> {
        Ok(HostMemory::holding(PageSource::Pages(Rc::new(Pages::new(low_bytes, high_bytes)?))))
    }

    /// Returns a handle of memory of another kind.
    pub fn of(memory: impl MemoryContents + 'static) -> HostMemory {
        HostMemory::holding(PageSource::Elsewhere(Rc::new(memory)))
    }

    fn holding(held: PageSource) -> HostMemory {
        HostMemory { held, visible_at: Rc::default() }
    }

    /// Returns the time from which the last data that a device wrote by DMA is visible to programs. The bytes
    /// are already in memory when the root complex has them. If it has no timing, returns the start of time.
    pub fn visible_at(&self) -> Time {
        self.visible_at.get()
    }

    /// Sets the time from which the last data written by DMA is visible.
    pub fn set_visible_at(&self, time: Time) {
        self.visible_at.set(time);
    }

    fn memory(&self) -> &dyn MemoryContents {
        match &self.held {
            PageSource::Pages(pages) => &**pages,
            PageSource::Elsewhere(memory) => &**memory,
        }
    }

    /// Returns the size of memory in bytes.
    pub fn size(&self) -> u64 {
        self.memory().ranges().iter().map(|range| range.end - range.start).sum()
    }

    /// True if all `len` bytes from `address` are memory.
    pub fn contains(&self, address: u64, len: usize) -> bool {
        self.memory().contains(address, len)
    }

    /// True if these bytes are in riser's own pages, which any DMA may access.
    #[inline]
    pub fn has_page(&self, address: u64, len: u32) -> bool {
        match &self.held {
            PageSource::Pages(pages) => pages.contains(address, len as usize),
            PageSource::Elsewhere(_) => false,
        }
    }

    /// True if a DMA is allowed: see [`MemoryContents::lets_dma`].
    pub fn lets_dma(&self, dma: &DmaAccess) -> bool {
        match &self.held {
            PageSource::Pages(pages) => pages.lets_dma(dma),
            PageSource::Elsewhere(memory) => memory.lets_dma(dma),
        }
    }

    /// True if the access that has just failed must be retried: see [`MemoryContents::awaits`].
    pub fn awaits(&self) -> bool {
        self.memory().awaits()
    }

    /// Reads memory into `to`.
    ///
    /// # Errors
    /// If not all bytes are memory; the contents of `to` are then undefined.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        if self.memory().read(address, to) { Ok(()) } else { Err(self.out_of_range(address, to.len())) }
    }

    /// Writes `from` to memory.
    ///
    /// # Errors
    /// If not all bytes are memory; then no byte is written.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfRange> {
        if self.memory().write(address, from) { Ok(()) } else { Err(self.out_of_range(address, from.len())) }
    }

    /// Returns `len` bytes from `address` as a payload of `pool`.
    ///
    /// # Errors
    /// If not all bytes are memory.
    pub fn payload(&self, pool: &PayloadPool, address: u64, len: usize) -> Result<Payload, OutOfRange> {
        // Checked before space is allocated.
        let mut is_memory = self.contains(address, len);
        if !is_memory {
            return Err(self.out_of_range(address, len));
        }
        let payload = pool.fill(len, |to| is_memory = self.memory().read(address, to));
        if is_memory { Ok(payload) } else { Err(self.out_of_range(address, len)) }
    }

    /// Executes an AtomicOp. Returns the previous value, of `len` bytes, as a payload of `pool`.
    ///
    /// # Errors
    /// If some bytes are not writable memory.
    pub fn operate(
        &self,
        pool: &PayloadPool,
        op: AtomicOp,
        address: u64,
        len: usize,
        operands: &[u8],
    ) -> Result<Payload, OutOfRange> {
        let mut is_done = false;
        let old = pool.fill(len, |old| is_done = self.memory().operate(address, op, operands, old));
        if is_done { Ok(old) } else { Err(self.out_of_range(address, len)) }
    }

    fn out_of_range(&self, address: u64, len: usize) -> OutOfRange {
        OutOfRange { address, len: len as u64, ranges: self.memory().ranges() }
    }

    /// Allocates low memory, or high memory if not enough low memory is left. [`free`](Self::free) gives the memory
    /// back. Freed memory is reused first, with its old contents.
    ///
    /// # Errors
    /// If not enough of either is left, or `align` is not a power of two.
    pub fn alloc(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        self.alloc_low(len, align).or_else(|error| match error {
            MemoryError::Exhausted(..) => self.alloc_high(len, align),
            other => Err(other),
        })
    }

    /// Allocates memory below 4 GiB, for devices with only 32 address bits.
    ///
    /// # Errors
    /// If not enough is left, or `align` is not a power of two.
    pub fn alloc_low(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        check_alignment(align)?;
        self.memory().alloc(MemoryArea::Low, len, align)
    }

    /// Allocates memory above 4 GiB.
    ///
    /// # Errors
    /// If not enough is left, or `align` is not a power of two.
    pub fn alloc_high(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        check_alignment(align)?;
        self.memory().alloc(MemoryArea::High, len, align)
    }

    /// Frees memory at the address of an earlier allocation of at least one byte. The caller must make sure that
    /// devices no longer access it.
    ///
    /// # Errors
    /// If the address is not allocated.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        if self.memory().free(address) { Ok(()) } else { Err(MemoryError::NotAllocated(address)) }
    }
}

fn check_alignment(align: u64) -> Result<(), MemoryError> {
    if align.is_power_of_two() && align <= MAX_HIGH_BYTES {
        Ok(())
    } else {
        Err(MemoryError::Alignment(align))
    }
}

macro_rules! integer_access {
    ($($read:ident $write:ident $int:ty),*) => {
        impl HostMemory {$(
            #[doc = concat!("The little-endian `", stringify!($int), "` at `address`, aligned or not.")]
            ///
            /// # Errors
            /// If not all of it is memory.
            pub fn $read(&self, address: u64) -> Result<$int, OutOfRange> {
                let mut bytes = [0; size_of::<$int>()];
                self.read(address, &mut bytes)?;
                Ok(<$int>::from_le_bytes(bytes))
            }

            #[doc = concat!("Writes a little-endian `", stringify!($int), "` at `address`, aligned or not.")]
            ///
            /// # Errors
            /// If not all of it is memory; then no byte is written.
            pub fn $write(&self, address: u64, value: $int) -> Result<(), OutOfRange> {
                self.write(address, &value.to_le_bytes())
            }
        )*}
    };
}

integer_access!(read_u8 write_u8 u8, read_u16 write_u16 u16, read_u32 write_u32 u32, read_u64 write_u64 u64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LOW: u64 = 64 << 10;
    const HIGH: u64 = 4 << 20;

    fn address() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..LOW + 0x100,
            HIGH_START - 0x100..HIGH_START + 0x3000,
            HIGH_START + HIGH - 0x1800..HIGH_START + HIGH + 0x100
        ]
    }

    fn is_memory(at: u64) -> bool {
        at < LOW || (HIGH_START..HIGH_START + HIGH).contains(&at)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Compares memory with a map from address to byte.
        #[test]
        fn memory_returns_written_bytes(accesses in prop::collection::vec((address(), 0..9000usize, 1..=255u8), 1..8)) {
            let memory = HostMemory::new(LOW, HIGH).unwrap();
            let pool = PayloadPool::new();
            let mut model = BTreeMap::new();
            for (at, len, byte) in accesses {
                let inside = (at..at + len as u64).all(is_memory);
                let bytes: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
                // An empty access at the very end of memory is valid.
                prop_assert!(len == 0 || memory.write(at, &bytes).is_ok() == inside);
                if inside && len > 0 {
                    model.extend((at..).zip(bytes));
                    let read = memory.payload(&pool, at - at % 64, len).unwrap_or_else(|_| pool.copy(&[]));
                    let expected = (at - at % 64..).map(|a| model.get(&a).copied().unwrap_or(0));
                    prop_assert!(read.iter().copied().eq(expected.take(read.len())));
                }
            }
        }
    }

    #[test]
    fn integers_are_little_endian_and_may_cross_pages() {
        let memory = HostMemory::new(8192, 0).unwrap();
        memory.write_u64(4092, 0x8877_6655_4433_2211).unwrap();
        assert_eq!(memory.read_u32(4096), Ok(0x8877_6655));
        assert_eq!((memory.read_u16(4095), memory.read_u8(4099)), (Ok(0x5544), Ok(0x88)));
        let error = memory.read_u32(8190).unwrap_err().to_string();
        assert_eq!(
            error,
            "4 bytes at 0x1ffe are not memory: memory is 0x0 to 0x2000 and 0x100000000 to 0x100000000"
        );
        assert!(memory.read_u32(u64::MAX).is_err());
    }

    #[test]
    fn rejects_accesses_beyond_memory() {
        let rows = [
            (4095, 0, "4095 bytes of low memory, expected 0 to 4273995776, in multiples of 4096"),
            (
                LOW_END + 4096,
                0,
                "4273999872 bytes of low memory, expected 0 to 4273995776, in multiples of 4096",
            ),
            (
                0,
                1 << 41,
                "2199023255552 bytes of high memory, expected 0 to 1099511627776, in multiples of 4096",
            ),
        ];
        for (low, high, text) in rows {
            assert_eq!(HostMemory::new(low, high).err().map(|e| e.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn allocations_are_aligned_disjoint_and_never_at_zero() {
        let memory = HostMemory::new(0x4000, 0x2000).unwrap();
        assert_eq!(memory.alloc(10, 1), Ok(0x1000));
        assert_eq!(memory.alloc(10, 64), Ok(0x1040));
        assert_eq!(memory.alloc_high(0x800, 16), Ok(HIGH_START));
        assert_eq!(memory.alloc(0x3000, 4096), Err(MemoryError::Exhausted(0x3000, 0x1800)));
        assert_eq!(memory.alloc(0x2000, 4096), Ok(0x2000));
        assert_eq!(memory.alloc(0x1000, 4096), Ok(HIGH_START + 0x1000), "low memory is used up");
        assert_eq!(memory.alloc_low(1, 1), Err(MemoryError::Exhausted(1, 0)));
        assert_eq!(memory.alloc(1, 3), Err(MemoryError::Alignment(3)));
        assert!(memory.alloc(u64::MAX, 4096).is_err());
    }

    #[test]
    fn frees_memory_once_and_reuses_it() {
        let memory = HostMemory::new(0x4000, 0x2000).unwrap();
        for _ in 0..1_000 {
            let (low, high) =
                (memory.alloc_low(0x2000, 4096).unwrap(), memory.alloc_high(0x2000, 4096).unwrap());
            assert_eq!((low, high), (0x1000, HIGH_START));
            assert_eq!((memory.free(low), memory.free(high)), (Ok(()), Ok(())));
        }
        assert_eq!(memory.free(0x1000), Err(MemoryError::NotAllocated(0x1000)));
        let kept = memory.alloc(8, 8).unwrap();
        memory.write_u64(kept, 7).unwrap();
        memory.free(kept).unwrap();
        assert_eq!((memory.alloc(8, 8), memory.read_u64(kept)), (Ok(kept), Ok(7)), "with its old contents");
    }
}
