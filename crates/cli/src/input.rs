// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that commands read, of which `-` is standard input. Never looks at what they hold.

use crate::failure::Failure;
use crate::outputs;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// True for standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// What messages call a file.
pub(crate) fn name(path: &Path) -> &Path {
    if is_standard(path) { Path::new("<stdin>") } else { path }
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if is_standard(path) {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path).map_err(|e| outputs::failed(path, &e))?))
}

/// All that a file holds.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|e| outputs::failed(name(path), &e))?;
    Ok(bytes)
}
