// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a capture as record batches on demand. Never holds more than one batch.

use super::columns::{BATCH_ROWS, Batch};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use capture::{Bad, Kind, OpenError, ReadOptions, Reader, Record};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Converts the records of a capture to rows.
pub(super) trait Rows: Send {
    type Batch: Batch;

    /// Processes the next record.
    fn see(&mut self, record: &Record<'_>);

    /// The capture has ended.
    fn end(&mut self) {}

    /// Adds finished rows to the columns while there is room. Returns the number of rows.
    fn settle(&mut self) -> usize;

    fn batch(&mut self) -> &mut Self::Batch;
}

/// The batches of a capture.
pub(super) struct Batches<R> {
    path: PathBuf,
    reader: Reader<File>,
    rows: R,
    /// A part of the file that cannot be read is an error.
    strict: bool,
    schema: SchemaRef,
    ended: bool,
}

impl<R: Rows> Batches<R> {
    pub(super) fn open(
        path: &Path,
        options: &ReadOptions,
        rows: R,
        strict: bool,
    ) -> Result<Batches<R>, OpenError> {
        let reader = capture::open_with(path, options)?;
        Ok(Batches { path: path.to_owned(), reader, rows, strict, schema: R::Batch::schema(), ended: false })
    }

    /// Reads on until a batch is full, or the file ends.
    fn fill(&mut self) -> Result<usize, ArrowError> {
        loop {
            let rows = self.rows.settle();
            if rows >= BATCH_ROWS || self.ended {
                return Ok(rows);
            }
            match self.reader.next_record() {
                Ok(Some(Record { kind: Kind::Bad(Bad::File(fault)), .. })) if self.strict => {
                    return Err(self.failed(&fault));
                }
                Ok(Some(record)) => self.rows.see(&record),
                Ok(None) => {
                    self.rows.end();
                    self.ended = true;
                }
                Err(error) => {
                    let text = format!("{}: {error}", self.path.display());
                    return Err(ArrowError::IoError(text, error));
                }
            }
        }
    }

    fn failed(&self, why: &impl std::fmt::Display) -> ArrowError {
        ArrowError::ExternalError(format!("{}: {why}", self.path.display()).into())
    }
}

impl<R: Rows> Iterator for Batches<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.fill() {
            Ok(0) => None,
            Ok(_) => Some(RecordBatch::try_new(self.schema.clone(), self.rows.batch().take())),
            Err(error) => {
                // An error ends the batches.
                self.ended = true;
                self.rows.batch().take();
                Some(Err(error))
            }
        }
    }
}

impl<R: Rows> RecordBatchReader for Batches<R> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
