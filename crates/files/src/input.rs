// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands read; `-` is standard input. This module does not check contents.

use crate::{Error, Result, failed};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// True for standard input.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Name of a file in messages.
pub fn name(path: &Path) -> &Path {
    if is_standard(path) { Path::new("<stdin>") } else { path }
}

/// Fails if more than one of the files of a command is standard input.
pub fn check<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    if paths.into_iter().filter(|path| is_standard(path)).count() > 1 { Err(twice()) } else { Ok(()) }
}

fn twice() -> Error {
    Error::Usage("-: standard input can be read only once".to_owned())
}

/// Opens a file.
///
/// # Errors
/// I/O errors, and standard input that has been opened before.
pub fn open(path: &Path) -> Result<Box<dyn Read>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if is_standard(path) {
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(twice());
        }
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path).map_err(|e| failed(path, &e))?))
}

/// Reads a complete file if its first `head` bytes satisfy `is_it`. Otherwise returns only these bytes, because a file
/// of another kind may never end.
pub fn bytes_of(path: &Path, head: usize, is_it: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>> {
    let (mut bytes, mut file) = (Vec::new(), open(path)?);
    let failed = |e: io::Error| failed(name(path), &e);
    file.by_ref().take(head as u64).read_to_end(&mut bytes).map_err(failed)?;
    if is_it(&bytes) {
        file.read_to_end(&mut bytes).map_err(failed)?;
    }
    Ok(bytes)
}

/// Reads a whole file.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    bytes_of(path, 0, |_| true)
}
