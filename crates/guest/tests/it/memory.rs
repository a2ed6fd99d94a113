// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a virtual machine, owned by this test: mapped, and accessed by system calls.

use riser_guest::memory::{GuestMemory, MemoryError};
use riser_guest::vfio_user::{DmaAccess, Errno};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{dup, pread, pwrite};
use std::os::fd::OwnedFd;
use tlp::AtomicOp;

const BOTH: DmaAccess = DmaAccess { read: true, write: true };
const BYTES: u64 = 0x3000;

/// A memory file like those of QEMU, or a file that may shrink.
fn file(sealed: bool) -> OwnedFd {
    let fd = memfd_create("guest", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, BYTES).unwrap();
    if sealed {
        fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL).unwrap();
    }
    fd
}

/// The page in the middle of such a file, and the file.
fn memory(sealed: bool) -> (GuestMemory, OwnedFd) {
    let fd = file(sealed);
    let memory = GuestMemory::new(dup(&fd).unwrap(), 0x1000, 0x1000, BOTH).unwrap();
    assert_eq!(memory.is_mapped(), sealed);
    (memory, fd)
}

#[test]
fn accesses_work_at_every_offset_and_length() {
    for sealed in [true, false] {
        let (memory, fd) = memory(sealed);
        for offset in (0..20).chain(0x1000 - 40..0x1000) {
            for len in 0..40usize.min((0x1000 - offset) as usize + 1) {
                pwrite(&fd, &[0xee; BYTES as usize], 0).unwrap();
                let data: Vec<u8> = (0..len).map(|n| (n as u8).wrapping_mul(7).wrapping_add(1)).collect();
                assert!(memory.write(offset, &data));
                let mut all = [0; BYTES as usize];
                pread(&fd, &mut all, 0).unwrap();
                let mut expected = [0xee; BYTES as usize];
                let at = 0x1000 + offset as usize;
                expected[at..at + len].copy_from_slice(&data);
                assert!(all == expected, "{len} bytes at {offset}");
                let mut back = vec![0; len];
                assert!(memory.read(offset, &mut back) && back == data);
            }
        }
    }
}

#[test]
fn rejects_accesses_outside_the_range() {
    for sealed in [true, false] {
        let (memory, _fd) = memory(sealed);
        for (offset, len) in [(0x1000, 1), (0xfff, 2), (0, 0x1001), (u64::MAX, 1), (u64::MAX, 2), (0x2000, 0)]
        {
            let mut bytes = vec![0; len];
            assert!(!memory.read(offset, &mut bytes), "{len} bytes at {offset:#x}");
            assert!(!memory.write(offset, &bytes), "{len} bytes at {offset:#x}");
        }
        let old = &mut [0; 8];
        assert!(!memory.operate(0xffc, AtomicOp::Swap, &[1; 8], old));
        assert!(memory.read(0x1000, &mut []) && memory.write(0xfff, &[1]));
    }
}

#[test]
fn rejects_accesses_without_permission() {
    for (read, write) in [(true, false), (false, true)] {
        for sealed in [true, false] {
            let memory = GuestMemory::new(file(sealed), 0, 0x1000, DmaAccess { read, write }).unwrap();
            assert_eq!(memory.read(0, &mut [0]), read);
            assert_eq!(memory.write(0, &[0]), write);
            assert!(!memory.operate(0, AtomicOp::Swap, &[0; 4], &mut [0; 4]));
        }
    }
}

/// Rows of `PCIe 5.0 §6.15`: operation, value before, operands, value after.
#[test]
fn atomic_operations_return_old_and_store_new_value() {
    let long = |value: u64| value.to_le_bytes().to_vec();
    let short = |value: u32| value.to_le_bytes().to_vec();
    let rows = [
        (AtomicOp::FetchAdd, long(u64::MAX), long(3), long(2)),
        (AtomicOp::FetchAdd, short(u32::MAX), short(3), short(2)),
        (AtomicOp::Swap, long(1), long(2), long(2)),
        (AtomicOp::Swap, short(1), short(2), short(2)),
        (AtomicOp::CompareSwap, long(1), [long(1), long(9)].concat(), long(9)),
        (AtomicOp::CompareSwap, long(1), [long(2), long(9)].concat(), long(1)),
        (AtomicOp::CompareSwap, short(1), [short(1), short(9)].concat(), short(9)),
        (AtomicOp::CompareSwap, vec![1; 16], [vec![1; 16], vec![9; 16]].concat(), vec![9; 16]),
        (AtomicOp::CompareSwap, vec![1; 16], [vec![2; 16], vec![9; 16]].concat(), vec![1; 16]),
    ];
    for sealed in [true, false] {
        let (memory, _fd) = memory(sealed);
        // Aligned and unaligned.
        for offset in [0x40, 0x43] {
            for (op, before, operands, after) in &rows {
                assert!(memory.write(offset, before));
                let mut old = vec![0; before.len()];
                assert!(memory.operate(offset, *op, operands, &mut old));
                assert_eq!(&old, before, "{op:?}");
                let mut now = vec![0; before.len()];
                assert!(memory.read(offset, &mut now));
                assert_eq!(&now, after, "{op:?} {before:x?} {operands:x?}");
            }
        }
        assert!(!memory.operate(0, AtomicOp::CompareSwap, &[0; 64], &mut [0; 32]));
    }
}

/// Two mappings of the same counter, each in its own thread: no addition is lost.
#[test]
fn concurrent_additions_lose_no_update() {
    const ADDITIONS: u64 = 200_000;
    let (one, fd) = memory(true);
    let other = std::thread::spawn(move || {
        let memory = GuestMemory::new(fd, 0x1000, 0x1000, BOTH).unwrap();
        (0..ADDITIONS).all(|_| memory.operate(8, AtomicOp::FetchAdd, &1u64.to_le_bytes(), &mut [0; 8]))
    });
    for _ in 0..ADDITIONS {
        assert!(one.operate(8, AtomicOp::FetchAdd, &1u64.to_le_bytes(), &mut [0; 8]));
    }
    assert!(other.join().unwrap());
    let mut sum = [0; 8];
    assert!(one.read(8, &mut sum));
    assert_eq!(u64::from_le_bytes(sum), 2 * ADDITIONS);
}

/// If the peer truncates the file, accesses fail and the process survives.
#[test]
fn accesses_fail_after_truncation() {
    let (memory, fd) = memory(false);
    assert!(memory.write(0xff0, &[1; 16]));
    ftruncate(&fd, 0x1800).unwrap();
    assert!(!memory.read(0xff0, &mut [0; 16]) && !memory.read(0x7ff, &mut [0; 2]));
    assert!(memory.read(0x7fe, &mut [0; 2]));
    // This may make the peer's file grow again, which only affects the peer.
    assert!(!memory.operate(0xff0, AtomicOp::Swap, &[1; 4], &mut [0; 4]));
}

/// The test runs only if the system supports huge pages. It also runs if no huge page is free.
#[test]
fn rejects_huge_pages() {
    let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let Ok(fd) = memfd_create("huge", flags) else { return };
    ftruncate(&fd, 2 << 20).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    assert_eq!(GuestMemory::new(fd, 0, 0x1000, BOTH).unwrap_err(), MemoryError::HugePages);
}

#[test]
fn rejects_invalid_memory() {
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(GuestMemory::new(socket.into(), 0, 0x1000, BOTH).unwrap_err(), MemoryError::NotAFile);
    for sealed in [true, false] {
        for (offset, bytes) in [(0, 0x4000), (0x3000, 0x1000), (u64::MAX - 0xfff, 0x1000), (0, u64::MAX)] {
            let error = GuestMemory::new(file(sealed), offset, bytes, BOTH).unwrap_err();
            let needs = offset.saturating_add(bytes);
            assert_eq!(error, MemoryError::Short { has: BYTES, needs });
            assert_eq!(error.errno(), Errno::INVAL);
        }
    }
    let fd = file(true);
    let misaligned = GuestMemory::new(fd, 0x800, 0x1000, BOTH).unwrap_err();
    assert!(matches!(misaligned, MemoryError::System { .. }), "{misaligned}");
}
