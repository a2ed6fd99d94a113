// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that peers read and write: zeroes, or the image in a file. Threads share it without locks. It never reads or writes
//! beyond its size, and never writes to a file unless it was opened for writing.
//!
//! Memory is divided into chunks of [`CHUNK`] bytes. A chunk is allocated when it is first written or, for a file, first
//! accessed. So a large image uses only the memory that is needed. Eight aligned bytes are read and written atomically; larger
//! accesses are not atomic.

use super::{CompleterMemory, Fault};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Size of a chunk in bytes.
pub const CHUNK: usize = 256 << 10;
/// Size of the largest image in bytes: 1 TiB.
pub const IMAGE_MAX: u64 = 1 << 40;

const WORD: usize = 8;

#[derive(Debug)]
struct Chunk {
    words: Box<[AtomicU64]>,
    is_dirty: AtomicBool,
}

/// Backing store of the chunks.
#[derive(Debug)]
enum Source {
    Zeroes,
    ReadOnly(File),
    WriteBack(File),
}

/// Memory of a fixed size, starting at address 0.
#[derive(Debug)]
pub struct Image {
    bytes: u64,
    chunks: Box<[OnceLock<Chunk>]>,
    source: Source,
}

impl Image {
    /// Creates a writable image of `bytes` zeroes. Only written chunks use memory.
    ///
    /// # Errors
    /// `InvalidInput` if `bytes` is 0 or above [`IMAGE_MAX`].
    pub fn zeroes(bytes: u64) -> io::Result<Image> {
        Image::new(bytes, Source::Zeroes)
    }

    /// Opens the image in a file, which is read on demand. With `write_back` it is writable, and [`write_back`](Self::write_back)
    /// writes the changes to the file; otherwise it is read-only.
    ///
    /// # Errors
    /// Errors of opening the file; `InvalidInput` if it is not a regular file, empty, or larger than [`IMAGE_MAX`].
    pub fn file(path: &Path, write_back: bool) -> io::Result<Image> {
        let file = OpenOptions::new().read(true).write(write_back).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let source = if write_back { Source::WriteBack(file) } else { Source::ReadOnly(file) };
        Image::new(metadata.len(), source)
    }

    /// Copies the first `bytes` bytes of a file, or the whole file. If the file is shorter than `bytes`, zeroes
    /// follow its bytes. Writes do not change the file.
    ///
    /// # Errors
    /// Errors of reading the file, and those of [`zeroes`](Self::zeroes).
    pub fn copy(path: &Path, bytes: Option<u64>) -> io::Result<Image> {
        let file = File::open(path)?;
        let image = Image::zeroes(bytes.unwrap_or(file.metadata()?.len()))?;
        let (mut rest, mut index) = (file.take(image.bytes), 0);
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            if rest.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)? == 0 {
                return Ok(image);
            }
            chunk.resize(CHUNK, 0);
            image.chunks[index].get_or_init(|| Chunk::of(&chunk));
            index += 1;
        }
    }

    fn new(bytes: u64, source: Source) -> io::Result<Image> {
        if bytes == 0 || bytes > IMAGE_MAX {
            let why = format!("an image of {bytes} bytes; expected 1 to {IMAGE_MAX} (1 TiB)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let chunks = (0..bytes.div_ceil(CHUNK as u64)).map(|_| OnceLock::new()).collect();
        Ok(Image { bytes, chunks, source })
    }

    /// Returns the size of the image in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns true if the image can be written.
    pub const fn is_writable(&self) -> bool {
        !matches!(self.source, Source::ReadOnly(_))
    }

    /// Returns true if all of `bytes` bytes from `address` are within the image.
    pub const fn holds(&self, address: u64, bytes: u64) -> bool {
        address < self.bytes && bytes <= self.bytes - address
    }

    /// Writes all changes to the file, waits until they are stored, and returns the number of bytes written, in whole chunks. Has
    /// no effect for zeroes and read-only images. Blocks as long as the file system needs.
    ///
    /// # Errors
    /// Errors of the file system. The next call retries the changes that were not written.
    pub fn write_back(&self) -> io::Result<u64> {
        let Source::WriteBack(file) = &self.source else { return Ok(0) };
        let mut brought = 0;
        for (index, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk.get().filter(|c| c.is_dirty.swap(false, Ordering::Acquire)) else {
                continue;
            };
            let at = index as u64 * CHUNK as u64;
            let len = (self.bytes - at).min(CHUNK as u64) as usize;
            let mut out = vec![0; len];
            chunk.read(0, &mut out);
            if let Err(error) = file.write_all_at(&out, at) {
                chunk.is_dirty.store(true, Ordering::Release);
                return Err(error);
            }
            brought += len as u64;
        }
        if brought > 0 {
            file.sync_data()?;
        }
        Ok(brought)
    }

    fn load(&self, index: usize) -> io::Result<&Chunk> {
        let slot = &self.chunks[index];
        if let Some(chunk) = slot.get() {
            return Ok(chunk);
        }
        let chunk = match &self.source {
            Source::Zeroes => Chunk::zeroes(),
            Source::ReadOnly(file) | Source::WriteBack(file) => self.read_chunk(file, index)?,
        };
        // If another thread was faster, its chunk is used.
        Ok(slot.get_or_init(|| chunk))
    }

    #[cold]
    fn read_chunk(&self, file: &File, index: usize) -> io::Result<Chunk> {
        let at = index as u64 * CHUNK as u64;
        let mut bytes = vec![0; CHUNK];
        let len = (self.bytes - at).min(CHUNK as u64) as usize;
        file.read_exact_at(&mut bytes[..len], at)?;
        Ok(Chunk::of(&bytes))
    }
}

impl Chunk {
    fn zeroes() -> Chunk {
        let words = (0..CHUNK / WORD).map(|_| AtomicU64::new(0)).collect();
        Chunk { words, is_dirty: AtomicBool::new(false) }
    }

    fn of(bytes: &[u8]) -> Chunk {
        let word = |b: &[u8]| AtomicU64::new(u64::from_ne_bytes(b.try_into().unwrap_or_default()));
        Chunk { words: bytes.chunks_exact(WORD).map(word).collect(), is_dirty: AtomicBool::new(false) }
    }

    // `offset` and `out` are within the chunk.
    fn read(&self, offset: usize, out: &mut [u8]) {
        for (at, lead, range) in pieces::<WORD>(offset as u64, out.len()) {
            let word = self.words[at].load(Ordering::Relaxed).to_ne_bytes();
            match range.len() {
                WORD => out[range].copy_from_slice(&word),
                len => out[range].copy_from_slice(&word[lead..lead + len]),
            }
        }
    }

    // `offset` and `data` are within the chunk.
    fn write(&self, offset: usize, data: &[u8]) {
        for (at, lead, range) in pieces::<WORD>(offset as u64, data.len()) {
            match <[u8; WORD]>::try_from(&data[range.clone()]) {
                Ok(whole) => self.words[at].store(u64::from_ne_bytes(whole), Ordering::Relaxed),
                Err(_) => merge(&self.words[at], lead, &data[range]),
            }
        }
    }
}

/// Replaces the bytes of a word from byte `lead` on. The other bytes, which other threads may use, do not change.
fn merge(word: &AtomicU64, lead: usize, data: &[u8]) {
    let (mut value, mut mask) = ([0; WORD], [0; WORD]);
    value[lead..lead + data.len()].copy_from_slice(data);
    mask[lead..lead + data.len()].fill(0xff);
    let (value, mask) = (u64::from_ne_bytes(value), u64::from_ne_bytes(mask));
    let merged = |old: u64| Some(old & !mask | value);
    // `merged` always returns a value, so the update cannot fail.
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
}

/// Splits `bytes` bytes from `address` into blocks of `SIZE` bytes. Gives the index of each block, the offset in
/// the block, and the range of the bytes.
fn pieces<const SIZE: usize>(
    address: u64,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address + done as u64;
        let (index, offset) = ((at / SIZE as u64) as usize, (at % SIZE as u64) as usize);
        let range = done..bytes.min(done + SIZE - offset);
        done = range.end;
        (!range.is_empty()).then_some((index, offset, range))
    })
}

impl CompleterMemory for Arc<Image> {
    fn check(&self, address: u64, bytes: u64, is_write: bool) -> Result<(), Fault> {
        match self.holds(address, bytes) {
            false => Err(Fault::OutOfRange),
            true if is_write && !self.is_writable() => Err(Fault::ReadOnly),
            true => Ok(()),
        }
    }

    fn prepare(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        if matches!(self.source, Source::Zeroes) {
            return Ok(());
        }
        for (index, ..) in pieces::<CHUNK>(address, bytes as usize) {
            self.load(index).map_err(|_| Fault::Failed)?;
        }
        Ok(())
    }

    fn read(&mut self, address: u64, out: &mut [u8]) {
        for (index, offset, range) in pieces::<CHUNK>(address, out.len()) {
            match self.chunks[index].get() {
                Some(chunk) => chunk.read(offset, &mut out[range]),
                None => out[range].fill(0),
            }
        }
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Fault> {
        for (index, offset, range) in pieces::<CHUNK>(address, data.len()) {
            let chunk = self.load(index).map_err(|_| Fault::Failed)?;
            chunk.write(offset, &data[range]);
            if matches!(self.source, Source::WriteBack(_)) {
                // Set after the data: a thread that sees the mark also sees the data.
                chunk.is_dirty.store(true, Ordering::Release);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn scratch(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("riser-image-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        path
    }

    fn read(image: &mut Arc<Image>, address: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0xee; len];
        image.check(address, len as u64, false).unwrap();
        image.prepare(address, len as u64).unwrap();
        image.read(address, &mut out);
        out
    }

    #[test]
    fn error_names_a_size_outside_the_limits() {
        for bytes in [0, IMAGE_MAX + 1] {
            let error = Image::zeroes(bytes).err().unwrap();
            assert!(error.to_string().contains(&format!("image of {bytes} bytes")), "{error}");
        }
    }

    #[test]
    fn file_without_write_back_is_read_only() {
        let path = scratch("read-only", &[7; 5000]);
        let mut image = Arc::new(Image::file(&path, false).unwrap());
        assert_eq!(read(&mut image, 4990, 10), [7; 10]);
        for (address, bytes, write, fault) in [
            (0, 4, true, Fault::ReadOnly),
            (4997, 4, false, Fault::OutOfRange),
            (5000, 1, false, Fault::OutOfRange),
            (u64::MAX, 4096, false, Fault::OutOfRange),
        ] {
            assert_eq!(image.check(address, bytes, write), Err(fault), "{address:#x}");
        }
        assert_eq!(image.write_back().unwrap(), 0);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_written_bytes_change_the_file() {
        let before: Vec<u8> = (0..CHUNK + 100).map(|n| n as u8).collect();
        let path = scratch("write-back", &before);
        let mut image = Arc::new(Image::file(&path, true).unwrap());
        image.write(CHUNK as u64 - 3, b"across").unwrap();
        assert_eq!(fs::read(&path).unwrap(), before, "not before write_back");
        assert_eq!(image.write_back().unwrap(), CHUNK as u64 + 100);
        let mut after = before;
        after[CHUNK - 3..CHUNK + 3].copy_from_slice(b"across");
        assert_eq!(fs::read(&path).unwrap(), after);
        assert_eq!(image.write_back().unwrap(), 0, "unchanged chunks are not written again");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn copy_has_the_bytes_of_the_file_and_zeroes_after_them() {
        let path = scratch("copy", &[7; CHUNK + 5]);
        for (bytes, size, at, expected) in [
            (None, CHUNK + 5, CHUNK + 3, &[7, 7][..]),
            (Some(CHUNK as u64 + 100), CHUNK + 100, CHUNK + 3, &[7, 7, 0, 0]),
            (Some(3 * CHUNK as u64), 3 * CHUNK, 2 * CHUNK, &[0; 4]),
            (Some(4), 4, 0, &[7; 4]),
        ] {
            let mut image = Arc::new(Image::copy(&path, bytes).unwrap());
            assert_eq!(image.bytes(), size as u64);
            assert_eq!(read(&mut image, at as u64, expected.len()), expected, "{bytes:?}");
            image.write(0, &[1]).unwrap();
            assert_eq!((read(&mut image, 0, 1)[0], image.write_back().unwrap()), (1, 0));
        }
        assert_eq!(fs::read(&path).unwrap(), [7; CHUNK + 5]);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn read_beyond_end_of_shrunk_file_fails() {
        let path = scratch("shrinks", &[1; 2 * CHUNK]);
        let mut image = Arc::new(Image::file(&path, false).unwrap());
        assert_eq!(read(&mut image, 0, 8), [1; 8]);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(CHUNK as u64).unwrap();
        assert_eq!(image.prepare(CHUNK as u64, 8), Err(Fault::Failed));
        assert_eq!(read(&mut image, 8, 8), [1; 8]);
        fs::remove_file(path).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn image_behaves_like_an_array(
            writes in proptest::collection::vec((0..2000_u64, proptest::collection::vec(any::<u8>(), 1..80)), 1..20)
        ) {
            let start = CHUNK as u64 - 1000;
            let mut image = Arc::new(Image::zeroes(2 * CHUNK as u64).unwrap());
            let mut model = vec![0; 2100];
            for (at, data) in &writes {
                image.write(start + at, data).unwrap();
                model[*at as usize..*at as usize + data.len()].copy_from_slice(data);
                let from = at.saturating_sub(9) as usize;
                let len = data.len() + 13;
                prop_assert_eq!(&read(&mut image, start + from as u64, len)[..], &model[from..from + len]);
            }
            prop_assert_eq!(read(&mut image, start, 2100), model);
        }
    }
}
