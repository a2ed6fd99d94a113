// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that host programs and devices share.
//!
//! Contents only: how long an access takes is the host model's matter.

mod allocator;

use allocator::Allocator;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use tlp::{Payload, PayloadPool};

/// Where low memory may at most end, 2 GiB: device windows lie from there to 4 GiB.
pub const LOW_END: u64 = 2 << 30;
/// Where high memory begins, 4 GiB.
pub const HIGH_START: u64 = 4 << 30;
/// How much high memory there may be, 1 TiB.
pub const MAX_HIGH_BYTES: u64 = 1 << 40;

const PAGE_BYTES: usize = 4096;
/// Pages of a directory entry: 2 MiB.
const TABLE_PAGES: usize = 512;

type Page = Box<[u8; PAGE_BYTES]>;
type Table = Box<[Option<Page>; TABLE_PAGES]>;

/// An access that is not all memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfRange {
    /// Address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
    /// Low memory ends here.
    pub low_end: u64,
    /// High memory ends here.
    pub high_end: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {:#x} are not memory: memory is 0 to {:#x} and {HIGH_START:#x} to {:#x}",
            self.len, self.address, self.low_end, self.high_end
        )
    }
}

impl std::error::Error for OutOfRange {}

/// Why there is no such memory, or none left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryError {
    /// Low memory, bytes.
    LowSize(u64),
    /// High memory, bytes.
    HighSize(u64),
    /// The alignment asked for.
    Alignment(u64),
    /// Bytes asked for, and bytes left where they were asked for.
    Exhausted(u64, u64),
    /// What was to be given back.
    NotAllocated(u64),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryError::LowSize(n) => {
                write!(f, "{n} bytes of low memory: legal are 0 to {LOW_END}, in multiples of {PAGE_BYTES}")
            }
            MemoryError::HighSize(n) => {
                write!(
                    f,
                    "{n} bytes of high memory: legal are 0 to {MAX_HIGH_BYTES}, in multiples of {PAGE_BYTES}"
                )
            }
            MemoryError::Alignment(n) => write!(f, "alignment {n}: legal are powers of two from 1 to 2^40"),
            MemoryError::Exhausted(len, left) => write!(f, "{len} bytes asked for, and {left} are left"),
            MemoryError::NotAllocated(at) => {
                write!(f, "{at:#x} given back: it is not the address of memory that is handed out")
            }
        }
    }
}

impl std::error::Error for MemoryError {}

/// A range of addresses that is memory, with pages made when they are first written.
#[derive(Default)]
struct Region {
    start: u64,
    end: u64,
    allocator: Allocator,
    tables: Vec<Option<Table>>,
}

impl Region {
    fn new(start: u64, len: u64, next: u64) -> Region {
        let end = start + len;
        Region { start, end, allocator: Allocator::new(next, end), tables: Vec::new() }
    }

    fn holds(&self, address: u64, len: u64) -> bool {
        address >= self.start && address <= self.end && len <= self.end - address
    }

    fn page(&self, address: u64) -> Option<&[u8; PAGE_BYTES]> {
        let page = ((address - self.start) as usize) / PAGE_BYTES;
        self.tables.get(page / TABLE_PAGES)?.as_ref()?[page % TABLE_PAGES].as_deref()
    }

    fn page_mut(&mut self, address: u64) -> &mut [u8; PAGE_BYTES] {
        let page = ((address - self.start) as usize) / PAGE_BYTES;
        let table = page / TABLE_PAGES;
        if table >= self.tables.len() {
            self.tables.resize_with(table + 1, || None);
        }
        let table = self.tables[table].get_or_insert_with(|| Box::new([const { None }; TABLE_PAGES]));
        table[page % TABLE_PAGES].get_or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }

    fn read(&self, address: u64, to: &mut [u8]) {
        for (at, range) in pieces(address, to.len()) {
            let to = &mut to[range];
            match self.page(at) {
                Some(page) => to.copy_from_slice(&page[in_page(at)..][..to.len()]),
                None => to.fill(0),
            }
        }
    }

    fn write(&mut self, address: u64, from: &[u8]) {
        for (at, range) in pieces(address, from.len()) {
            let from = &from[range];
            self.page_mut(at)[in_page(at)..][..from.len()].copy_from_slice(from);
        }
    }

    fn alloc(&mut self, len: u64, align: u64) -> Result<u64, MemoryError> {
        self.allocator.take(len, align).ok_or(MemoryError::Exhausted(len, self.allocator.left()))
    }
}

fn in_page(address: u64) -> usize {
    address as usize % PAGE_BYTES
}

/// The parts of `len` bytes from `address` on, page by page: address of each, and which of the bytes it holds.
fn pieces(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address + done as u64;
        let n = (len - done).min(PAGE_BYTES - in_page(at));
        let range = done..done + n;
        done += n;
        (n > 0).then_some((at, range))
    })
}

struct Regions {
    low: Region,
    high: Region,
}

impl Regions {
    fn find(&mut self, address: u64, len: usize) -> Result<&mut Region, OutOfRange> {
        let len = len as u64;
        if self.low.holds(address, len) {
            Ok(&mut self.low)
        } else if self.high.holds(address, len) {
            Ok(&mut self.high)
        } else {
            Err(OutOfRange { address, len, low_end: self.low.end, high_end: self.high.end })
        }
    }
}

/// A host's memory: zero at first, made page by page when written. Clones are handles on the same memory.
#[derive(Clone)]
pub struct HostMemory {
    regions: Rc<RefCell<Regions>>,
}

impl HostMemory {
    /// Memory at `0..low_bytes` and from 4 GiB on at `4 GiB..4 GiB + high_bytes`.
    ///
    /// # Errors
    /// Where a size is not a multiple of 4 KiB, `low_bytes` is more than 2 GiB, or `high_bytes` more than 1 TiB.
    pub fn new(low_bytes: u64, high_bytes: u64) -> Result<HostMemory, MemoryError> {
        let whole_pages = |bytes: u64| bytes.is_multiple_of(PAGE_BYTES as u64);
        if low_bytes > LOW_END || !whole_pages(low_bytes) {
            return Err(MemoryError::LowSize(low_bytes));
        }
        if high_bytes > MAX_HIGH_BYTES || !whole_pages(high_bytes) {
            return Err(MemoryError::HighSize(high_bytes));
        }
        // The first page is never handed out, so that address zero may stand for none.
        let low = Region::new(0, low_bytes, PAGE_BYTES as u64);
        let high = Region::new(HIGH_START, high_bytes, HIGH_START);
        Ok(HostMemory { regions: Rc::new(RefCell::new(Regions { low, high })) })
    }

    /// Bytes of memory.
    #[must_use]
    pub fn size(&self) -> u64 {
        let regions = self.regions.borrow();
        regions.low.end + (regions.high.end - HIGH_START)
    }

    /// True where all of `len` bytes from `address` on are memory.
    #[must_use]
    pub fn contains(&self, address: u64, len: usize) -> bool {
        self.regions.borrow_mut().find(address, len).is_ok()
    }

    /// Reads.
    ///
    /// # Errors
    /// Where not all of it is memory; nothing is read then.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), OutOfRange> {
        self.regions.borrow_mut().find(address, to.len())?.read(address, to);
        Ok(())
    }

    /// Writes.
    ///
    /// # Errors
    /// Where not all of it is memory; nothing is written then.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfRange> {
        self.regions.borrow_mut().find(address, from.len())?.write(address, from);
        Ok(())
    }

    /// `len` bytes from `address` on, as a payload of `pool`.
    ///
    /// # Errors
    /// Where not all of it is memory.
    pub fn payload(&self, pool: &PayloadPool, address: u64, len: usize) -> Result<Payload, OutOfRange> {
        let mut regions = self.regions.borrow_mut();
        let region = regions.find(address, len)?;
        Ok(pool.fill(len, |to| region.read(address, to)))
    }

    /// Memory that nobody else has: low, or high where low has not as much left. [`free`](Self::free) gives it back. What
    /// was given back is handed out first, with what its last owner has left in it.
    ///
    /// # Errors
    /// Where neither has, or `align` is not a power of two.
    pub fn alloc(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        self.alloc_low(len, align).or_else(|error| match error {
            MemoryError::Exhausted(..) => self.alloc_high(len, align),
            other => Err(other),
        })
    }

    /// Memory below 4 GiB that nobody else has: for devices that know only 32 address bits.
    ///
    /// # Errors
    /// Where not as much is left, or `align` is not a power of two.
    pub fn alloc_low(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        check_alignment(align)?;
        self.regions.borrow_mut().low.alloc(len, align)
    }

    /// Memory above 4 GiB that nobody else has.
    ///
    /// # Errors
    /// Where not as much is left, or `align` is not a power of two.
    pub fn alloc_high(&self, len: u64, align: u64) -> Result<u64, MemoryError> {
        check_alignment(align)?;
        self.regions.borrow_mut().high.alloc(len, align)
    }

    /// Gives memory back: the address of an earlier allocation, of one byte or more. Devices are to have ended what they do
    /// there: nobody checks.
    ///
    /// # Errors
    /// Where it is no such address, or was given back before.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut regions = self.regions.borrow_mut();
        let is_back = regions.low.allocator.give_back(address) || regions.high.allocator.give_back(address);
        if is_back { Ok(()) } else { Err(MemoryError::NotAllocated(address)) }
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
            /// Where not all of it is memory.
            pub fn $read(&self, address: u64) -> Result<$int, OutOfRange> {
                let mut bytes = [0; size_of::<$int>()];
                self.read(address, &mut bytes)?;
                Ok(<$int>::from_le_bytes(bytes))
            }

            #[doc = concat!("Writes a little-endian `", stringify!($int), "` at `address`, aligned or not.")]
            ///
            /// # Errors
            /// Where not all of it is memory; nothing is written then.
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
        /// Against a map from address to byte.
        #[test]
        fn it_holds_what_was_written(accesses in prop::collection::vec((address(), 0..9000usize, 1..=255u8), 1..8)) {
            let memory = HostMemory::new(LOW, HIGH).unwrap();
            let pool = PayloadPool::new();
            let mut model = BTreeMap::new();
            for (at, len, byte) in accesses {
                let inside = (at..at + len as u64).all(is_memory);
                let bytes: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
                // An empty access at the very end of memory is memory too.
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
            "4 bytes at 0x1ffe are not memory: memory is 0 to 0x2000 and 0x100000000 to 0x100000000"
        );
        assert!(memory.read_u32(u64::MAX).is_err());
    }

    #[test]
    fn only_what_is_written_takes_room() {
        let memory = HostMemory::new(LOW_END, MAX_HIGH_BYTES).unwrap();
        assert_eq!(memory.size(), LOW_END + MAX_HIGH_BYTES);
        let top = HIGH_START + MAX_HIGH_BYTES - 8;
        assert_eq!(memory.read_u64(top), Ok(0));
        assert!(memory.regions.borrow().high.tables.is_empty());
        memory.write_u64(HIGH_START + (1 << 30), 5).unwrap();
        assert_eq!(memory.regions.borrow().high.tables.iter().flatten().count(), 1);
    }

    #[test]
    fn sizes_are_checked() {
        let rows = [
            (4095, 0, "4095 bytes of low memory: legal are 0 to 2147483648, in multiples of 4096"),
            (3 << 30, 0, "3221225472 bytes of low memory: legal are 0 to 2147483648, in multiples of 4096"),
            (
                0,
                1 << 41,
                "2199023255552 bytes of high memory: legal are 0 to 1099511627776, in multiples of 4096",
            ),
        ];
        for (low, high, text) in rows {
            assert_eq!(HostMemory::new(low, high).err().map(|e| e.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn allocations_are_aligned_apart_and_never_at_zero() {
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
    fn memory_is_given_back_once_and_handed_out_again() {
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
        assert_eq!(
            (memory.alloc(8, 8), memory.read_u64(kept)),
            (Ok(kept), Ok(7)),
            "as its last owner left it"
        );
    }
}
