// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Location of a command's data in host memory: PRPs and SGLs (NVMe 1.4 §4.3, §4.4). Lists are read from host memory.

use super::spec::{Command, Status};
use device::Io;

/// Maximum number of SGL entries per command.
const MAX_SGL_ENTRIES: u32 = 1024;
/// Size of an SGL descriptor.
const SGL_BYTES: u32 = 16;

/// Contiguous bytes of host memory; `None` for discarded bytes (a bit bucket).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) address: Option<u64>,
    pub(super) bytes: u32,
}

/// Pieces with exactly `left` bytes in total.
struct Pieces {
    all: Vec<Piece>,
    left: u32,
}

impl Pieces {
    fn new(bytes: u32) -> Pieces {
        Pieces { all: Vec::with_capacity(1), left: bytes }
    }

    /// Adds as many of these bytes as are still needed.
    fn add(&mut self, address: Option<u64>, bytes: u32) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        match (self.all.last_mut(), address) {
            _ if bytes == 0 => {}
            (Some(Piece { address: Some(before), bytes: long }), Some(at))
                if before.checked_add(u64::from(*long)) == Some(at) =>
            {
                *long += bytes;
            }
            _ => self.all.push(Piece { address, bytes }),
        }
    }
}

/// Finds `bytes` of a command's data, with pages of `page` bytes. With `is_read`, the device writes the data, and may discard
/// some.
pub(super) async fn pieces(
    io: &Io,
    command: &Command,
    page: u32,
    bytes: u32,
    is_read: bool,
) -> Result<Vec<Piece>, Status> {
    match command.psdt() {
        0 => prps(io, command.pointer(), page, bytes).await,
        1 | 2 => sgl(io, command.pointer(), bytes, is_read).await,
        _ => Err(Status::INVALID_FIELD),
    }
}

/// PRP Entry 1 may start within a page. All others are complete pages, and come from a list if there are more than two.
pub(super) async fn prps(
    io: &Io,
    [first, second]: [u64; 2],
    page: u32,
    bytes: u32,
) -> Result<Vec<Piece>, Status> {
    let offset = |address: u64| (address % u64::from(page)) as u32;
    let mut pieces = Pieces::new(bytes);
    if !first.is_multiple_of(4) {
        return Err(Status::PRP_OFFSET);
    }
    pieces.add(Some(first), page - offset(first));
    if pieces.left == 0 {
        return Ok(pieces.all);
    }
    if pieces.left <= page {
        if offset(second) != 0 {
            return Err(Status::PRP_OFFSET);
        }
        pieces.add(Some(second), page);
        return Ok(pieces.all);
    }
    let mut list = second;
    while pieces.left > 0 {
        if !list.is_multiple_of(8) {
            return Err(Status::PRP_OFFSET);
        }
        let places = (page - offset(list)) / 8;
        let wanted = pieces.left.div_ceil(page);
        let entries = io.dma_read(list, wanted.min(places) * 8).await.map_err(|_| Status::DATA_TRANSFER)?;
        let mut entries = entries.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry));
        for _ in 0..if wanted > places { places - 1 } else { wanted } {
            let entry = entries.next().ok_or(Status::DATA_TRANSFER)?;
            if offset(entry) != 0 {
                return Err(Status::PRP_OFFSET);
            }
            pieces.add(Some(entry), page);
        }
        if wanted > places {
            // The last entry of a page points to the next list, which must be page-aligned.
            list = entries.next().ok_or(Status::DATA_TRANSFER)?;
            if offset(list) != 0 {
                return Err(Status::PRP_OFFSET);
            }
        }
    }
    Ok(pieces.all)
}

/// An SGL descriptor (NVMe 1.4 §4.4).
#[derive(Clone, Copy)]
struct Descriptor {
    address: u64,
    bytes: u32,
    kind: u8,
}

impl Descriptor {
    fn of([address, rest]: [u64; 2]) -> Descriptor {
        Descriptor { address, bytes: rest as u32, kind: (rest >> 56) as u8 }
    }
}

const DATA_BLOCK: u8 = 0x00;
const BIT_BUCKET: u8 = 0x10;
const SEGMENT: u8 = 0x20;
const LAST_SEGMENT: u8 = 0x30;

async fn sgl(io: &Io, pointer: [u64; 2], bytes: u32, is_read: bool) -> Result<Vec<Piece>, Status> {
    let mut pieces = Pieces::new(bytes);
    let mut segment = Descriptor::of(pointer);
    if !matches!(segment.kind, SEGMENT | LAST_SEGMENT) {
        add(&mut pieces, segment, is_read)?;
        return if pieces.left == 0 { Ok(pieces.all) } else { Err(Status::SGL_LENGTH) };
    }
    let mut seen = 0;
    while pieces.left > 0 {
        if segment.bytes == 0 || !segment.bytes.is_multiple_of(SGL_BYTES) {
            return Err(Status::SGL_SEGMENT);
        }
        let count = segment.bytes / SGL_BYTES;
        seen += count.min(MAX_SGL_ENTRIES + 1);
        if seen > MAX_SGL_ENTRIES {
            return Err(Status::SGL_COUNT);
        }
        let entries = io.dma_read(segment.address, segment.bytes).await.map_err(|_| Status::DATA_TRANSFER)?;
        let mut next = None;
        let entries = entries.as_chunks::<8>().0.as_chunks::<2>().0.iter();
        for (n, entry) in (1..).zip(entries) {
            let descriptor = Descriptor::of(entry.map(u64::from_le_bytes));
            match descriptor.kind {
                // A segment ends with a pointer to the next; the last segment has none.
                SEGMENT | LAST_SEGMENT if n == count && segment.kind == SEGMENT => next = Some(descriptor),
                SEGMENT | LAST_SEGMENT => return Err(Status::SGL_SEGMENT),
                _ => add(&mut pieces, descriptor, is_read)?,
            }
        }
        match next {
            _ if pieces.left == 0 => {}
            Some(descriptor) => segment = descriptor,
            None => return Err(Status::SGL_LENGTH),
        }
    }
    Ok(pieces.all)
}

fn add(pieces: &mut Pieces, descriptor: Descriptor, is_read: bool) -> Result<(), Status> {
    match descriptor.kind {
        DATA_BLOCK => pieces.add(Some(descriptor.address), descriptor.bytes),
        BIT_BUCKET if is_read => pieces.add(None, descriptor.bytes),
        // Bit buckets are ignored if the host's data are read.
        BIT_BUCKET => {}
        _ => return Err(Status::SGL_TYPE),
    }
    Ok(())
}
