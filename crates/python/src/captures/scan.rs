// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A first pass over the frames of a capture. Never decodes a frame.

use super::SLICE;
use crate::error;
use crate::progress::ProgressWatch;
use capture::{Item, ReadOptions};
use pyo3::PyResult;
use std::path::Path;

/// Facts about a file before its TLPs are read.
pub(super) struct Scan {
    pub(super) frames: u64,
    /// 0 if times are virtual; else the time of the first frame.
    pub(super) epoch_ps: u128,
    /// Format of the file, in words.
    pub(super) taken_for: String,
}

impl Scan {
    /// # Errors
    /// If the file is not a capture; with `strict`, also if a part of it cannot be read.
    pub(super) fn of(path: &Path, options: &ReadOptions, strict: bool) -> PyResult<Scan> {
        let mut reader = capture::open_with(path, options).map_err(error::of_opening)?;
        let mut scan = Scan { frames: 0, epoch_ps: 0, taken_for: String::new() };
        let mut watch = ProgressWatch::new(None);
        while let Some(item) = reader.next_item().map_err(|e| error::in_file(path, &e))? {
            match item {
                Item::Frame(frame) => {
                    if scan.frames == 0 && !frame.timestamp.is_virtual() {
                        scan.epoch_ps = frame.timestamp.as_ps();
                    }
                    scan.frames += 1;
                }
                Item::Fault(fault) if strict => return Err(error::of_fault(path, &fault)),
                Item::Fault(_) => {}
            }
            if scan.frames.is_multiple_of(SLICE) {
                watch.look(|| (format!("{} frames", scan.frames), None))?;
            }
        }
        scan.taken_for = reader.taken_for();
        Ok(scan)
    }
}
