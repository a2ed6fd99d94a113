// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's image. An uncompressed ELF `vmlinux` boots in a third of the time of its `bzImage` under emulation.
//!
//! A bzImage is unpacked according to its setup header (Documentation/arch/x86/boot.rst of the kernel). An ELF file must have the
//! note with the entry point that QEMU uses (PVH).

use crate::error::{Context, Result, bad_file, read};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// An image, and the release of its kernel (`uname -r`) if found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The image.
    pub image: Image,
    /// The kernel's release, in the form of the `vermagic` of modules.
    pub release: Option<String>,
}

/// Offsets of fields of the setup header, from the start of the file.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// First boot protocol with the payload in the header.
const PROTOCOL_WITH_PAYLOAD: u16 = 0x0208;
/// Size of a boot sector. A header with 0 sectors means four.
const SECTOR: usize = 512;
/// Upper limit on the size of an unpacked kernel.
const LONGEST: usize = 1 << 30;

/// Text before the release in the kernel's banner (`init/version.c` of the kernel).
const BANNER: &[u8] = b"Linux version ";

/// `XEN_ELFNOTE_PHYS32_ENTRY`, the 32-bit entry point (`include/xen/interface/elfnote.h` of the kernel).
const PHYS32_ENTRY: u32 = 18;

/// The argument of QEMU's `-kernel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// This file, unchanged.
    File(PathBuf),
    /// An unpacked `vmlinux`.
    Unpacked(Vec<u8>),
}

/// Opens a bzImage or vmlinux of the user. A bzImage whose kernel QEMU cannot enter directly (without CONFIG_PVH) is booted as it
/// is.
///
/// # Errors
/// If the file cannot be read, has neither of the two formats, or has a damaged payload. The message has the offset and
/// the content that was expected there.
pub fn open(path: &Path) -> Result<Opened> {
    let bytes = read(path)?;
    if bytes.starts_with(b"\x7fELF") {
        return match has_entry(&bytes).map_err(|error| bad_file(path, error.to_string()))? {
            true => Ok(Opened { image: Image::File(path.to_owned()), release: banner(&bytes) }),
            false => Err(bad_file(
                path,
                "an ELF file without the note XEN_ELFNOTE_PHYS32_ENTRY, which QEMU needs to enter a vmlinux: build the kernel \
                 with CONFIG_PVH, or give its bzImage",
            )),
        };
    }
    let unpacked = unpack(&bytes).map_err(|error| bad_file(path, error.to_string()))?;
    let release = banner(&unpacked);
    match has_entry(&unpacked).map_err(|what| bad_file(path, format!("in the payload: {what}")))? {
        true => Ok(Opened { image: Image::Unpacked(unpacked), release }),
        false => Ok(Opened { image: Image::File(path.to_owned()), release }),
    }
}

/// Rejects a vmlinux that ends before its section table (`e_shoff` of its header) does.
pub(crate) fn check_length(path: &Path) -> Result<()> {
    let what = || path.display().to_string();
    let file = File::open(path).context(what)?;
    let length = file.metadata().context(what)?.len();
    let mut header = Vec::new();
    let header_size = size_of::<elf::FileHeader64<Endianness>>() as u64;
    file.take(header_size).read_to_end(&mut header).context(what)?;
    let expected = match elf::FileHeader64::<Endianness>::parse(&*header) {
        Ok(header) => {
            let endian = header.endian().unwrap_or_default();
            let sections = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
            header.e_shoff(endian).saturating_add(sections)
        }
        Err(_) => PAYLOAD_LENGTH as u64,
    };
    match length >= expected {
        true => Ok(()),
        false => Err(bad_file(path, format!("{length} bytes, expected at least {expected}"))),
    }
}

/// Returns the release from the kernel's banner.
fn banner(vmlinux: &[u8]) -> Option<String> {
    let start = memmem(vmlinux, BANNER)? + BANNER.len();
    let word = vmlinux[start..].split(|byte| *byte == b' ').next()?;
    String::from_utf8(word.to_vec()).ok().filter(|word| word.len() < 100)
}

/// Returns the first offset of `what`.
fn memmem(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let first = what[0];
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == first)?;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
}

/// Reason why a file is not a kernel that a guest can run. Each message has the offset and the expected value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The file is neither ELF nor a bzImage.
    #[error(
        "not a kernel: expected an ELF file, or a bzImage with 55 aa at offset {:#x} and \"HdrS\" at {MAGIC:#x}",
        SECTOR - 2
    )]
    NoKernel,
    /// The boot protocol is too old.
    #[error(
        "boot protocol {}.{:02} at offset {PROTOCOL:#x}, expected 2.08 or later, whose header has the payload's offset",
        .0 >> 8,
        .0 & 0xff
    )]
    Protocol(u16),
    /// The payload is not within the file.
    #[error(
        "the payload is {length} bytes at {start:#x} (by the header at {PAYLOAD_OFFSET:#x}), but the file has {file} bytes"
    )]
    Payload {
        /// Offset of the payload.
        start: usize,
        /// Length of the payload in bytes.
        length: usize,
        /// Length of the file in bytes.
        file: usize,
    },
    /// The file ends within its header.
    #[error("{length} bytes, too short for a kernel: offset {missing:#x} is missing")]
    TooShort {
        /// Length of the file in bytes.
        length: usize,
        /// The offset that is missing.
        missing: usize,
    },
    /// The payload at this offset has no length.
    #[error("the payload at {0:#x} is shorter than 4 bytes")]
    ShortPayload(usize),
    /// The payload states a size that is too large.
    #[error("the payload at {at:#x} states an unpacked size of {length} bytes, expected at most {LONGEST}")]
    UnpackedSize {
        /// Offset of the payload.
        at: usize,
        /// The stated size.
        length: usize,
    },
    /// The payload cannot be unpacked.
    #[error("the {kind} payload at {at:#x} is damaged: {error}")]
    Damaged {
        /// The compression.
        kind: &'static str,
        /// Offset of the payload.
        at: usize,
        /// The error of the decompressor.
        error: io::Error,
    },
    /// The payload has an unknown compression.
    #[error(
        "the payload at {at:#x} begins with {start:02x?}, expected xz (fd 37 7a 58), zstd (28 b5 2f fd) or ELF (7f 45 4c 46): \
         use the kernel's vmlinux instead"
    )]
    Compression {
        /// Offset of the payload.
        at: usize,
        /// Its first bytes.
        start: Vec<u8>,
    },
    /// The payload has another size than it states.
    #[error("the payload at {at:#x} unpacks to {length} bytes, expected {expected} by its last four bytes")]
    Unpacked {
        /// Offset of the payload.
        at: usize,
        /// Its size.
        length: usize,
        /// The stated size.
        expected: usize,
    },
    /// The ELF file is damaged.
    #[error("a damaged ELF file: {0}")]
    Elf(object::read::Error),
    /// The kernel is for another processor.
    #[error("a kernel for machine {0} (e_machine at offset 0x12), expected x86-64 ({x86_64})", x86_64 = elf::EM_X86_64)]
    Machine(u16),
}

/// Unpacks the `vmlinux` in a bzImage.
///
/// # Errors
/// The error, with the offset and the expected value.
pub fn unpack(image: &[u8]) -> std::result::Result<Vec<u8>, KernelError> {
    if word(image, SECTOR - 2, 2)? != 0xaa55 || image.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        return Err(KernelError::NoKernel);
    }
    let protocol = word(image, PROTOCOL, 2)? as u16;
    if protocol < PROTOCOL_WITH_PAYLOAD {
        return Err(KernelError::Protocol(protocol));
    }
    let sectors = match word(image, SETUP_SECTORS, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let start = (sectors + 1) * SECTOR + word(image, PAYLOAD_OFFSET, 4)?;
    let length = word(image, PAYLOAD_LENGTH, 4)?;
    let payload = start.checked_add(length).and_then(|end| image.get(start..end));
    let payload = payload.ok_or(KernelError::Payload { start, length, file: image.len() })?;
    decompress(payload, start)
}

/// Returns the little-endian number of `bytes` bytes at an offset.
fn word(image: &[u8], offset: usize, bytes: usize) -> std::result::Result<usize, KernelError> {
    let found = image.get(offset..offset + bytes);
    let found = found.ok_or(KernelError::TooShort { length: image.len(), missing: offset })?;
    Ok(found.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

/// Unpacks the payload. Its last four bytes are the unpacked length.
fn decompress(payload: &[u8], at: usize) -> std::result::Result<Vec<u8>, KernelError> {
    let (packed, length) = payload.split_last_chunk::<4>().ok_or(KernelError::ShortPayload(at))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST {
        return Err(KernelError::UnpackedSize { at, length });
    }
    let failed = |kind, error| KernelError::Damaged { kind, at, error };
    let unpacked = match packed {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => xz(packed, length).map_err(|e| failed("xz", e))?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd(packed, length).map_err(|e| failed("zstd", e))?,
        [0x7f, b'E', b'L', b'F', ..] => packed.to_vec(),
        _ => {
            let start = &packed[..packed.len().min(4)];
            return Err(KernelError::Compression { at, start: start.to_vec() });
        }
    };
    if unpacked.len() != length {
        return Err(KernelError::Unpacked { at, length: unpacked.len(), expected: length });
    }
    Ok(unpacked)
}

/// Reads up to `length` bytes, and one more to detect excess.
fn take(reader: impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(length + 1);
    reader.take(length as u64 + 1).read_to_end(&mut out)?;
    Ok(out)
}

/// Unpacks xz data of at most `length` bytes. If the data are longer, one byte more is returned.
pub(crate) fn xz(packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
    take(lzma_rust2::XzReader::new(packed, true), length)
}

/// Unpacks zstd data, with the limit of [`xz`].
pub(crate) fn zstd(packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(io::Error::other)?;
    take(decoder, length)
}

/// Returns whether an ELF file has the entry point at which QEMU starts a `vmlinux`.
fn has_entry(bytes: &[u8]) -> std::result::Result<bool, KernelError> {
    let bad = KernelError::Elf;
    let header = elf::FileHeader64::<Endianness>::parse(bytes).map_err(bad)?;
    let endian = header.endian().map_err(bad)?;
    if header.e_machine(endian) != elf::EM_X86_64 {
        return Err(KernelError::Machine(header.e_machine(endian)));
    }
    for segment in header.program_headers(endian, bytes).map_err(bad)? {
        let Some(mut notes) = segment.notes(endian, bytes).map_err(bad)? else { continue };
        while let Some(note) = notes.next().map_err(bad)? {
            if note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
