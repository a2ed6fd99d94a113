// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that read and write namespaces (NVMe 1.4 §6).

use super::media::Namespace;
use super::pointer::{Piece, pieces};
use super::run::ControllerRun;
use super::spec::{ALL_NAMESPACES, Command, Outcome, Status, io};
use super::{MAX_TRANSFER, NvmeReport};
use device::io::join_array;
use tlp::Time;

/// Number of bytes per request to the endpoint.
const PART_BYTES: u32 = 4096;
/// Number of data pieces of a command that are read in parallel.
const READ_AT_ONCE: usize = 8;
/// Size of a range of Dataset Management.
const RANGE_BYTES: usize = 16;

/// The blocks of a command.
struct Blocks {
    lba: u64,
    count: u64,
    /// Address of the first.
    at: u64,
    bytes: u64,
}

impl ControllerRun {
    /// Carries out an I/O command.
    pub(super) async fn transfer(&self, command: &Command) -> Outcome {
        let namespace = match command.nsid() {
            ALL_NAMESPACES if command.opcode() == io::FLUSH => {
                self.stored(self.controller.subsystem.flush(), Status::WRITE_FAULT)?;
                return Ok(0);
            }
            n => n.checked_sub(1).and_then(|n| self.controller.subsystem.namespaces.get(n as usize)),
        };
        let namespace = namespace.ok_or(Status::INVALID_NAMESPACE)?;
        match command.opcode() {
            io::FLUSH => self.stored(namespace.flush(), Status::WRITE_FAULT)?,
            io::READ => self.read(command, namespace).await?,
            io::WRITE => self.write(command, namespace).await?,
            io::COMPARE => self.compare(command, namespace).await?,
            io::WRITE_ZEROES => {
                let blocks = blocks(command, namespace)?;
                self.until(|way, now| way.write(now, 0)).await;
                self.stored(namespace.zero(blocks.at, blocks.bytes), Status::WRITE_FAULT)?;
            }
            io::WRITE_UNCORRECTABLE => {
                let blocks = blocks(command, namespace)?;
                namespace.spoil(blocks.lba, blocks.count);
            }
            io::DATASET_MANAGEMENT => self.manage(command, namespace).await?,
            _ => return Err(Status::INVALID_OPCODE),
        }
        Ok(0)
    }

    /// Waits until the media complete the access.
    async fn until(&self, when: impl FnOnce(&super::media::MediaPath, Time) -> Time) {
        let io = &self.controller.io;
        let then = when(&self.controller.subsystem.way, io.now());
        if then > io.now() {
            let begin = io.now();
            io.sleep_until(then).await;
            self.report(|report| report.stages.media += then.since(begin));
        }
    }

    /// Whether a write is on the media when it completes: requested (FUA), or because the cache is
    /// off.
    fn is_through(&self, command: &Command) -> bool {
        command.dw(12) & 1 << 30 != 0 || !self.features.borrow().caches()
    }

    /// Result of a media access. Failures count as media errors.
    fn stored(&self, done: std::io::Result<()>, failure: Status) -> Result<(), Status> {
        done.map_err(|_| {
            self.controller.counts.borrow_mut().media_errors += 1;
            failure
        })
    }

    /// Whether the blocks are readable.
    fn check_readable(&self, blocks: &Blocks, namespace: &Namespace) -> Result<(), Status> {
        let readable = match namespace.is_spoiled(blocks.lba, blocks.count) {
            true => Err(std::io::ErrorKind::InvalidData.into()),
            false => Ok(()),
        };
        self.stored(readable, Status::UNRECOVERED_READ)
    }

    fn report(&self, change: impl FnOnce(&mut NvmeReport)) {
        self.controller.subsystem.report.change(change);
    }

    async fn read(&self, command: &Command, namespace: &Namespace) -> Result<(), Status> {
        let blocks = limited(blocks(command, namespace)?)?;
        let io = &self.controller.io;
        let bytes = blocks.bytes as u32;
        let pieces = pieces(io, command, self.page, bytes, true).await?;
        self.until(|way, now| way.read(now, blocks.bytes)).await;
        self.check_readable(&blocks, namespace)?;
        let mut at = blocks.at;
        for (address, len) in pieces.iter().flat_map(parts) {
            if let Some(address) = address {
                let mut done = Ok(());
                let data = io.payloads().fill(len as usize, |to| done = namespace.read(at, to));
                self.stored(done, Status::UNRECOVERED_READ)?;
                io.dma_write(address, data).await.map_err(|_| Status::DATA_TRANSFER)?;
            }
            at += u64::from(len);
        }
        self.count_read(&blocks);
        self.report(|report| {
            (report.reads, report.bytes_read) = (report.reads + 1, report.bytes_read + blocks.bytes)
        });
        Ok(())
    }

    /// Counts a read for the health page. Compare counts as a read.
    fn count_read(&self, blocks: &Blocks) {
        let mut counts = self.controller.counts.borrow_mut();
        (counts.reads, counts.blocks_read) = (counts.reads + 1, counts.blocks_read + blocks.bytes / 512);
    }

    async fn write(&self, command: &Command, namespace: &Namespace) -> Result<(), Status> {
        let blocks = limited(blocks(command, namespace)?)?;
        let data = self.fetch(command, blocks.bytes as u32).await?;
        self.until(|way, now| way.write(now, blocks.bytes)).await;
        let (mut at, through) = (blocks.at, self.is_through(command));
        for part in &data {
            self.stored(namespace.write(at, part, through), Status::WRITE_FAULT)?;
            at += part.len() as u64;
        }
        let mut counts = self.controller.counts.borrow_mut();
        (counts.writes, counts.blocks_written) =
            (counts.writes + 1, counts.blocks_written + blocks.bytes / 512);
        self.report(|report| {
            (report.writes, report.bytes_written) = (report.writes + 1, report.bytes_written + blocks.bytes);
        });
        Ok(())
    }

    async fn compare(&self, command: &Command, namespace: &Namespace) -> Result<(), Status> {
        let blocks = limited(blocks(command, namespace)?)?;
        let data = self.fetch(command, blocks.bytes as u32).await?;
        self.until(|way, now| way.read(now, blocks.bytes)).await;
        self.check_readable(&blocks, namespace)?;
        self.count_read(&blocks);
        let mut at = blocks.at;
        for part in &data {
            let mut there = vec![0; part.len()];
            self.stored(namespace.read(at, &mut there), Status::UNRECOVERED_READ)?;
            if there[..] != part[..] {
                return Err(Status::COMPARE_FAILURE);
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Dataset Management: deallocated ranges become zero; other hints have no effect.
    async fn manage(&self, command: &Command, namespace: &Namespace) -> Result<(), Status> {
        const DEALLOCATE: u32 = 1 << 2;
        let count = (command.dw(10) & 0xff) + 1;
        let data = self.fetch(command, count * RANGE_BYTES as u32).await?;
        let data: Vec<u8> = data.iter().flat_map(|part| part.iter().copied()).collect();
        let mut ranges = Vec::with_capacity(count as usize);
        for range in data.as_chunks::<RANGE_BYTES>().0 {
            let [words, lba] = [&range[..8], &range[8..]]
                .map(|bytes| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
            ranges.push(place(lba, words >> 32, namespace)?);
        }
        if command.dw(11) & DEALLOCATE != 0 {
            for range in &ranges {
                self.stored(namespace.zero(range.at, range.bytes), Status::WRITE_FAULT)?;
            }
        }
        Ok(())
    }

    /// Reads the data of a command from host memory, in pieces.
    async fn fetch(&self, command: &Command, bytes: u32) -> Result<Vec<tlp::Payload>, Status> {
        let io = &self.controller.io;
        let all = pieces(io, command, self.page, bytes, false).await?;
        let mut data = Vec::with_capacity(all.len());
        let read = |piece: &Piece| io.dma_read(piece.address.unwrap_or_default(), piece.bytes);
        let (groups, rest) = all.as_chunks::<READ_AT_ONCE>();
        for group in groups {
            for part in join_array(group.each_ref().map(read)).await {
                data.push(part.map_err(|_| Status::DATA_TRANSFER)?);
            }
        }
        for piece in rest {
            data.push(read(piece).await.map_err(|_| Status::DATA_TRANSFER)?);
        }
        Ok(data)
    }
}

/// Parts of a piece for writing, at most a page each.
fn parts(piece: &Piece) -> impl Iterator<Item = (Option<u64>, u32)> + use<> {
    let Piece { address, bytes } = *piece;
    (0..bytes).step_by(PART_BYTES as usize).map(move |from| {
        (address.map(|address| address.wrapping_add(from.into())), PART_BYTES.min(bytes - from))
    })
}

/// The blocks that a command addresses.
fn blocks(command: &Command, namespace: &Namespace) -> Result<Blocks, Status> {
    place(command.lba(), u64::from(command.dw(12) & 0xffff) + 1, namespace)
}

fn place(lba: u64, count: u64, namespace: &Namespace) -> Result<Blocks, Status> {
    let block = u64::from(namespace.block_bytes());
    match lba.checked_add(count).filter(|end| *end <= namespace.blocks()) {
        Some(_) => Ok(Blocks { lba, count, at: lba * block, bytes: count * block }),
        None => Err(Status::LBA_RANGE),
    }
}

/// Limits the size of a command (MDTS).
fn limited(blocks: Blocks) -> Result<Blocks, Status> {
    if blocks.bytes <= u64::from(MAX_TRANSFER) { Ok(blocks) } else { Err(Status::INVALID_FIELD) }
}
