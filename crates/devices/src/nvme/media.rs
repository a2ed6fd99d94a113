// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Storage of the namespaces, its timing, and the effects of a loss of power. Independent of commands.

use super::settings::{DEFAULT_BYTES, NamespaceSettings, Settings, Timing};
use plug::Fault;
use plug::file::{Folder, Image};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use thiserror::Error;
use tlp::{Duration, Time};

/// Storage unit in bytes. A unit that was never written is not stored, and reads as zero.
const CHUNK_BYTES: u64 = 4096;

/// Cuts a range of bytes at chunks: number, offset in the chunk, and bytes.
fn cut(at: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (chunk, offset) = ((at + done) / CHUNK_BYTES, (at + done) % CHUNK_BYTES);
        let bytes = (CHUNK_BYTES - offset).min(len - done);
        done += bytes;
        (bytes > 0).then_some((chunk, offset as usize, bytes as usize))
    })
}

/// Storage of a namespace.
pub(super) enum Store {
    /// In memory: chunks by number.
    Memory(BTreeMap<u64, Box<[u8]>>),
    File(File),
}

/// Returns a range to the file system, so that it reads as zero. Returns whether that is supported.
#[cfg(target_os = "linux")]
fn punched(file: &std::fs::File, at: u64, len: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, flags, at, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn punched(_: &std::fs::File, _: u64, _: u64) -> io::Result<bool> {
    Ok(false)
}

impl Store {
    /// Storage in memory, which starts with these bytes.
    pub(super) fn holding(bytes: &[u8]) -> Store {
        let chunks = (0..).zip(bytes.chunks(CHUNK_BYTES as usize));
        let chunks = chunks.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
        let whole = |bytes: &[u8]| {
            let mut chunk = vec![0; CHUNK_BYTES as usize];
            chunk[..bytes.len()].copy_from_slice(bytes);
            chunk.into()
        };
        Store::Memory(chunks.map(|(n, bytes)| (n, whole(bytes))).collect())
    }

    /// Returns the file of this name, or its recorded image, with the size.
    pub(super) fn open(folder: &Folder, name: &str) -> io::Result<(Store, u64)> {
        Ok(match folder.open_image(name)? {
            Image::Kept(bytes) => (Store::holding(&bytes), bytes.len() as u64),
            Image::File(file) => {
                let bytes = file.metadata()?.len();
                (Store::File(file), bytes)
            }
        })
    }

    fn read(&self, at: u64, mut to: &mut [u8]) -> io::Result<()> {
        let chunks = match self {
            Store::Memory(chunks) => chunks,
            Store::File(file) => return file.read_exact_at(to, at),
        };
        for (chunk, offset, bytes) in cut(at, to.len() as u64) {
            let (part, rest) = to.split_at_mut(bytes);
            match chunks.get(&chunk) {
                Some(from) => part.copy_from_slice(&from[offset..offset + bytes]),
                None => part.fill(0),
            }
            to = rest;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, mut from: &[u8]) -> io::Result<()> {
        let chunks = match self {
            Store::Memory(chunks) => chunks,
            Store::File(file) => return file.write_all_at(from, at),
        };
        for (chunk, offset, bytes) in cut(at, from.len() as u64) {
            let (part, rest) = from.split_at(bytes);
            let to = chunks.entry(chunk).or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
            to[offset..offset + bytes].copy_from_slice(part);
            from = rest;
        }
        Ok(())
    }

    fn zero(&mut self, at: u64, len: u64) -> io::Result<()> {
        if let Store::File(file) = self
            && punched(file, at, len)?
        {
            return Ok(());
        }
        for (chunk, offset, bytes) in cut(at, len) {
            match self {
                Store::Memory(chunks) if bytes as u64 == CHUNK_BYTES => _ = chunks.remove(&chunk),
                Store::Memory(chunks) => {
                    if let Some(to) = chunks.get_mut(&chunk) {
                        to[offset..offset + bytes].fill(0);
                    }
                }
                Store::File(file) => {
                    file.write_all_at(
                        &[0; CHUNK_BYTES as usize][..bytes],
                        chunk * CHUNK_BYTES + offset as u64,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Sets everything to zero.
    fn clear(&mut self, size_bytes: u64) -> io::Result<()> {
        match self {
            Store::Memory(chunks) => {
                chunks.clear();
                Ok(())
            }
            Store::File(file) if file.metadata()?.len() == size_bytes => {
                file.set_len(0)?;
                file.set_len(size_bytes)
            }
            // The rest of the file does not belong to the namespace.
            Store::File(_) => self.zero(0, size_bytes),
        }
    }

    /// Occupied bytes.
    fn used_bytes(&self) -> u64 {
        match self {
            Store::Memory(chunks) => chunks.len() as u64 * CHUNK_BYTES,
            Store::File(file) => file.metadata().map_or(0, |about| about.blocks() * 512),
        }
    }

    /// Makes written data survive a crash of this machine.
    fn sync(&self) -> io::Result<()> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(file) => file.sync_data(),
        }
    }
}

/// A namespace: blocks that keep written data, or with a volatile write cache, flushed data.
pub(super) struct Namespace {
    pub(super) size_bytes: u64,
    /// Block size of the last format.
    block_bytes: Cell<u32>,
    kept: RefCell<Store>,
    /// Written chunks that are not on the media yet; `None` without a cache.
    cache: Option<RefCell<BTreeMap<u64, Box<[u8]>>>>,
    /// Blocks that read as an error.
    uncorrectable: RefCell<BTreeSet<u64>>,
}

impl Namespace {
    pub(super) fn new(store: Store, size_bytes: u64, block_bytes: u32, has_cache: bool) -> Namespace {
        Namespace {
            size_bytes,
            block_bytes: Cell::new(block_bytes),
            kept: RefCell::new(store),
            cache: has_cache.then(RefCell::default),
            uncorrectable: RefCell::default(),
        }
    }

    pub(super) fn block_bytes(&self) -> u32 {
        self.block_bytes.get()
    }

    pub(super) fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(self.block_bytes())
    }

    /// Stored bytes, for Namespace Utilization.
    pub(super) fn used_bytes(&self) -> u64 {
        self.kept.borrow().used_bytes().min(self.size_bytes)
    }

    pub(super) fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        self.kept.borrow().read(at, to)?;
        let Some(cache) = &self.cache else { return Ok(()) };
        let (cache, mut to) = (cache.borrow(), to);
        for (chunk, offset, bytes) in cut(at, to.len() as u64) {
            let (part, rest) = to.split_at_mut(bytes);
            if let Some(from) = cache.get(&chunk) {
                part.copy_from_slice(&from[offset..offset + bytes]);
            }
            to = rest;
        }
        Ok(())
    }

    /// Writes. `through` writes to the media immediately (Force Unit Access).
    pub(super) fn write(&self, at: u64, from: &[u8], through: bool) -> io::Result<()> {
        self.heal(at, from.len() as u64);
        match &self.cache {
            Some(cache) => self.write_cached(&mut cache.borrow_mut(), at, from, through),
            None => self.kept.borrow_mut().write(at, from),
        }
    }

    fn write_cached(
        &self,
        cache: &mut BTreeMap<u64, Box<[u8]>>,
        at: u64,
        mut from: &[u8],
        through: bool,
    ) -> io::Result<()> {
        for (chunk, offset, bytes) in cut(at, from.len() as u64) {
            let (part, rest) = from.split_at(bytes);
            if through {
                self.kept.borrow_mut().write(chunk * CHUNK_BYTES + offset as u64, part)?;
            }
            match cache.get_mut(&chunk) {
                Some(to) => to[offset..offset + bytes].copy_from_slice(part),
                None if through => {}
                None => {
                    let mut to = vec![0; CHUNK_BYTES as usize];
                    self.kept.borrow().read(chunk * CHUNK_BYTES, &mut to)?;
                    to[offset..offset + bytes].copy_from_slice(part);
                    cache.insert(chunk, to.into());
                }
            }
            from = rest;
        }
        Ok(())
    }

    /// Sets blocks to zero, in the cache and on the media. Zeros need no storage.
    pub(super) fn zero(&self, at: u64, len: u64) -> io::Result<()> {
        self.heal(at, len);
        if let Some(cache) = &self.cache {
            let mut cache = cache.borrow_mut();
            for (chunk, offset, bytes) in cut(at, len) {
                if let Some(cached) = cache.get_mut(&chunk) {
                    cached[offset..offset + bytes].fill(0);
                }
            }
        }
        self.kept.borrow_mut().zero(at, len)
    }

    /// Makes written blocks readable again.
    fn heal(&self, at: u64, len: u64) {
        let block = u64::from(self.block_bytes());
        self.uncorrectable.borrow_mut().retain(|lba| !(at / block..(at + len).div_ceil(block)).contains(lba));
    }

    /// Marks blocks that read as an error until they are written.
    pub(super) fn spoil(&self, lba: u64, count: u64) {
        self.uncorrectable.borrow_mut().extend(lba..lba + count);
    }

    pub(super) fn is_spoiled(&self, lba: u64, count: u64) -> bool {
        self.uncorrectable.borrow().range(lba..lba + count).next().is_some()
    }

    /// Writes the cache to the media.
    pub(super) fn flush(&self) -> io::Result<()> {
        let mut kept = self.kept.borrow_mut();
        if let Some(cache) = &self.cache {
            for (chunk, bytes) in &*cache.borrow() {
                kept.write(chunk * CHUNK_BYTES, bytes)?;
            }
            cache.borrow_mut().clear();
        }
        kept.sync()
    }

    /// Handles a loss of power.
    pub(super) fn lose_power(&self) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().clear();
        }
    }

    /// Erases everything.
    pub(super) fn format(&self, block_bytes: u32) -> io::Result<()> {
        self.lose_power();
        self.kept.borrow_mut().clear(self.size_bytes)?;
        self.uncorrectable.borrow_mut().clear();
        self.block_bytes.set(block_bytes);
        Ok(())
    }
}

/// The access to the media, which all commands share: a latency per command, and a total bandwidth.
pub(super) struct MediaPath {
    timing: Timing,
    /// Time at which the channel is free again.
    free: Cell<Time>,
}

impl MediaPath {
    pub(super) fn new(timing: Timing) -> MediaPath {
        MediaPath { timing, free: Cell::new(Time::ZERO) }
    }

    /// Time at which an access that starts now completes.
    fn pass(&self, now: Time, bytes: u64, latency: Duration, bytes_per_second: u64) -> Time {
        let begin = self.free.get().max(now);
        let taken = match bytes_per_second {
            0 => Duration::ZERO,
            rate => Duration::from_ps((u128::from(bytes) * 1_000_000_000_000 / u128::from(rate)) as u64),
        };
        self.free.set(begin + taken);
        (begin + taken).max(now + latency)
    }

    pub(super) fn read(&self, now: Time, bytes: u64) -> Time {
        self.pass(now, bytes, self.timing.read_latency, self.timing.read_bytes_per_second)
    }

    pub(super) fn write(&self, now: Time, bytes: u64) -> Time {
        self.pass(now, bytes, self.timing.write_latency, self.timing.write_bytes_per_second)
    }
}

/// Reason why the file of a namespace cannot be used.
#[derive(Debug, Error)]
enum NamespaceError {
    /// The file cannot be opened.
    #[error("{name}: {error}")]
    File { name: String, error: io::Error },
    /// The file is too short.
    #[error("file of {bytes} bytes in blocks of 4096, expected at least {least}")]
    TooShort { bytes: u64, least: u64 },
}

impl NamespaceSettings {
    /// The namespace, with its file in `folder`.
    fn open(&self, folder: &Folder, has_cache: bool) -> Result<Namespace, NamespaceError> {
        let (store, there) = match &self.file {
            None => (Store::holding(&[]), None),
            Some(name) => {
                let (store, bytes) = Store::open(folder, name)
                    .map_err(|error| NamespaceError::File { name: name.clone(), error })?;
                (store, Some(bytes / 4096 * 4096))
            }
        };
        let bytes = self.size_bytes.or(there).unwrap_or(DEFAULT_BYTES);
        match there {
            Some(there) if there < bytes || bytes == 0 => {
                Err(NamespaceError::TooShort { bytes: there, least: bytes.max(4096) })
            }
            _ => Ok(Namespace::new(store, bytes, self.block.bytes(), has_cache)),
        }
    }
}

impl Settings {
    /// The namespaces, with their files in `folder`.
    pub(super) fn open(&self, folder: &Folder) -> Result<Vec<Namespace>, Fault> {
        let open = |(n, namespace): (usize, &NamespaceSettings)| {
            let opened = namespace.open(folder, self.volatile_write_cache);
            opened.map_err(|why| Fault::at("namespaces", format!("namespace {}: {why}", n + 1)))
        };
        self.namespaces.iter().enumerate().map(open).collect()
    }
}
