// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Host memory of another owner. It serves or refuses DMA, and may be removed. It lies above 2 GiB, where the windows
//! of a simulated host lie.

use crate::common::link;
use crate::common::system::{Raw, System};
use host::memory::{DmaAccess, HostMemory, MemoryContents, MemoryError};
use riser_fabric::{Fabric, Limits};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tlp::*;

const BASE: u64 = 0xb000_0000;
const PAGE: u64 = 4096;
/// May be read alone.
const READ_ONLY: u64 = BASE + PAGE;
const FRIEND: Bdf = Bdf::from_bits(0x100);
const STRANGER: Bdf = Bdf::from_bits(0x101);

/// Two pages, as another owner maps them.
#[derive(Clone)]
struct Mapped {
    bytes: Rc<RefCell<Vec<u8>>>,
    gone: Rc<Cell<bool>>,
    /// Number of polls for which the bytes are not available yet.
    away: Rc<Cell<u32>>,
    awaits: Rc<Cell<bool>>,
    refused: Rc<RefCell<Vec<DmaAccess>>>,
}

impl Mapped {
    fn new() -> Mapped {
        let bytes = (0..2 * PAGE).map(|n| (n % 251) as u8).collect();
        Mapped {
            bytes: Rc::new(RefCell::new(bytes)),
            gone: Rc::default(),
            away: Rc::default(),
            awaits: Rc::default(),
            refused: Rc::default(),
        }
    }

    fn place(&self, address: u64, len: usize) -> Option<Range<usize>> {
        let first = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let all = self.bytes.borrow().len();
        (!self.gone.get() && first <= all && len <= all - first).then_some(first..first + len)
    }
}

impl MemoryContents for Mapped {
    fn ranges(&self) -> Vec<Range<u64>> {
        std::iter::once(BASE..BASE + 2 * PAGE).collect()
    }

    fn contains(&self, address: u64, len: usize) -> bool {
        self.place(address, len).is_some()
    }

    fn lets_dma(&self, dma: &DmaAccess) -> bool {
        let lets = self.contains(dma.address, dma.len as usize)
            && dma.requester == FRIEND
            && !(dma.writes && dma.address >= READ_ONLY);
        if !lets {
            self.refused.borrow_mut().push(*dma);
        }
        lets
    }

    fn awaits(&self) -> bool {
        self.awaits.get()
    }

    fn read(&self, address: u64, to: &mut [u8]) -> bool {
        let left = self.away.get();
        self.away.set(left.saturating_sub(1));
        self.awaits.set(left > 0);
        if left > 0 {
            return false;
        }
        let place = self.place(address, to.len());
        place.inspect(|place| to.copy_from_slice(&self.bytes.borrow()[place.clone()])).is_some()
    }

    fn write(&self, address: u64, from: &[u8]) -> bool {
        let place = self.place(address, from.len());
        place.inspect(|place| self.bytes.borrow_mut()[place.clone()].copy_from_slice(from)).is_some()
    }
}

fn memory(op: MemoryOp, requester: Bdf, address: u64, data: Data) -> Tlp {
    let span = Span::covering(address, 8).unwrap();
    let body = Body::Memory(MemoryRequest { op, requester, tag: Tag::default(), span });
    Tlp::new(Repr::new(body), data).with_carry(true)
}

fn mwr(address: u64) -> Tlp {
    memory(MemoryOp::Write, FRIEND, address, Data::Carried(PayloadPool::new().copy(&[0xaa; 8])))
}

fn mrd(requester: Bdf, address: u64) -> Tlp {
    memory(MemoryOp::Read, requester, address, Data::NONE)
}

fn fetch_add(address: u64) -> Tlp {
    let (op, operand) = (AtomicOp::FetchAdd, OperandSize::Bits64);
    let body = AtomicRequest { op, operand, requester: FRIEND, tag: Tag::default(), address };
    let one = Data::Carried(PayloadPool::new().copy(&1u64.to_le_bytes()));
    Tlp::new(Repr::new(Body::Atomic(body)), one).with_carry(true)
}

/// Returns the result of each answered request: the bytes, or the status.
fn answers(device: &Raw) -> Vec<Result<Vec<u8>, Status>> {
    let answer = |tlp: &Tlp| match tlp.repr.body {
        Body::Completion(c) if c.status == Status::Success => Ok(tlp.data.bytes().unwrap().to_vec()),
        Body::Completion(c) => Err(c.status),
        _ => panic!("{tlp:?}"),
    };
    device.received().iter().map(answer).collect()
}

fn fabric(mapped: &Mapped, requests: Vec<Tlp>) -> (Fabric, Raw) {
    let device = Raw::new();
    for (n, tlp) in requests.into_iter().enumerate() {
        device.send(10_000 + 1_000 * n as u64, tlp);
    }
    let mut system = System::new();
    system.memory = HostMemory::of(mapped.clone());
    system.host.memory_read_latency = Duration::from_ns(500);
    (system.raw(link(Rate::Gt8, 8, 256), &device).without_program(), device)
}

#[test]
fn dma_reaches_foreign_memory_and_is_refused_by_it() {
    let mapped = Mapped::new();
    let before: Vec<u8> = mapped.bytes.borrow()[..8].to_vec();
    let page = mapped.bytes.borrow()[PAGE as usize..][..8].to_vec();
    let (mut fabric, device) = fabric(
        &mapped,
        vec![
            mrd(FRIEND, BASE),
            mwr(BASE),
            mrd(FRIEND, BASE),
            mwr(READ_ONLY),
            mrd(FRIEND, READ_ONLY),
            fetch_add(READ_ONLY),
            fetch_add(BASE + 8),
            mrd(STRANGER, BASE),
            mrd(FRIEND, 0x1000),
            mwr(BASE + 2 * PAGE),
        ],
    );
    fabric.run(Limits::default());
    let ur = Err(Status::UnsupportedRequest);
    let second = (8..16).collect();
    assert_eq!(
        answers(&device),
        [Ok(before), Ok(vec![0xaa; 8]), Ok(page.clone()), ur.clone(), Ok(second), ur.clone(), ur]
    );
    assert_eq!(mapped.bytes.borrow()[8..16], [9, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(
        mapped.bytes.borrow()[PAGE as usize..][..8],
        page,
        "bytes that may not be written are unchanged"
    );
    let refused: Vec<(u64, bool)> =
        mapped.refused.borrow().iter().map(|dma| (dma.address, dma.writes)).collect();
    let beyond = BASE + 2 * PAGE;
    assert_eq!(
        refused,
        [(READ_ONLY, true), (READ_ONLY, true), (BASE, false), (0x1000, false), (beyond, true)]
    );
    assert_eq!(fabric.root().counters().unsupported_requests, 5);
}

/// A read that memory has permitted is refused too if its memory is gone when its turn comes.
#[test]
fn read_is_refused_if_memory_was_removed_before_its_turn() {
    for gone in [false, true] {
        let mapped = Mapped::new();
        let (mut fabric, device) = fabric(&mapped, vec![mrd(FRIEND, BASE), fetch_add(BASE)]);
        fabric.run(Limits { until: Time::ZERO + Duration::from_ns(10_300), ..Limits::default() });
        assert_eq!(fabric.root().counters().memory_reads, 1, "the request is outstanding");
        mapped.gone.set(gone);
        fabric.run(Limits::default());
        let ur = |answer: &Result<_, Status>| *answer == Err(Status::UnsupportedRequest);
        assert_eq!(answers(&device).iter().map(ur).collect::<Vec<_>>(), [gone; 2]);
        assert_eq!(fabric.root().counters().unsupported_requests, if gone { 2 } else { 0 });
    }
}

/// Memory that is elsewhere is polled each microsecond, in order with the turns of others; it delays only its requester.
#[test]
fn dma_waits_for_remote_memory() {
    for (away, gone) in [(0, false), (7, false), (7, true)] {
        let mapped = Mapped::new();
        let (mut fabric, device) = fabric(&mapped, vec![mrd(FRIEND, BASE), fetch_add(BASE + 8)]);
        mapped.away.set(away);
        fabric.run(Limits { until: Time::ZERO + Duration::from_ns(12_500), ..Limits::default() });
        assert_eq!(answers(&device).len(), if away == 0 { 2 } else { 0 });
        mapped.gone.set(gone);
        fabric.run(Limits::default());
        let (first, second) = if gone {
            (Err(Status::UnsupportedRequest), Err(Status::UnsupportedRequest))
        } else {
            (Ok((0..8).collect()), Ok((8..16).collect()))
        };
        let came = answers(&device);
        // Each is repeated independently, so either may be the first.
        let is_all = came.len() == 2 && came.contains(&first) && came.contains(&second);
        assert!(is_all, "{away} times away, gone: {gone}: {came:?}");
        assert_eq!(fabric.root().counters().unsupported_requests, if gone { 2 } else { 0 });
    }
}

#[test]
fn memory_handle_forwards_to_its_memory() {
    let memory = HostMemory::of(Mapped::new());
    assert_eq!((memory.size(), memory.contains(BASE, 1), memory.contains(0, 1)), (2 * PAGE, true, false));
    assert_eq!(memory.read_u32(BASE), Ok(0x0302_0100));
    let error = memory.read_u32(0).unwrap_err().to_string();
    assert_eq!(error, "4 bytes at 0x0 are not memory: memory is 0xb0000000 to 0xb0002000");
    assert_eq!(memory.alloc(8, 8), Err(MemoryError::NotHandedOut), "it is its owner's");
    assert_eq!(memory.free(BASE), Err(MemoryError::NotAllocated(BASE)));
}
