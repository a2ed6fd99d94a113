// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of the reader, as in `riser trace`; `riser-capture` defines the formats.

use crate::error;
use capture::{ByteOrder, ColumnsError, FileFormat, ReadOptions};
use pyo3::prelude::*;

/// The options of `read_capture` about the format of the file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Reading {
    read_as: Option<String>,
    byte_order: Option<String>,
    flit: bool,
    columns: Option<String>,
    dlt: Vec<u32>,
}

impl Reading {
    pub(super) fn options(&self) -> PyResult<ReadOptions> {
        let wrong = |name: &str, found: &str, why: &str| error::argument(format!("{name} {found}: {why}"));
        let format = |name: &String| {
            let names: Vec<&str> = FileFormat::all().map(FileFormat::name).collect();
            FileFormat::named(name)
                .ok_or_else(|| wrong("read_as", name, &format!("expected {}", names.join(", "))))
        };
        let byte_order = |order: &String| match order.as_str() {
            "big" => Ok(ByteOrder::Big),
            "little" => Ok(ByteOrder::Little),
            other => Err(wrong("byte_order", other, "expected big or little")),
        };
        let wrong_columns = |why: ColumnsError| error::argument(format!("columns: {why}"));
        let columns = |text: &String| text.parse().map_err(wrong_columns);
        let user_bit = |number: &u32| match number {
            0..16 => Ok(1 << number),
            other => Err(wrong("dlt", &other.to_string(), "expected numbers of user link types, 0 to 15")),
        };
        Ok(ReadOptions {
            format: self.read_as.as_ref().map(format).transpose()?,
            byte_order: self.byte_order.as_ref().map(byte_order).transpose()?,
            flit: self.flit,
            columns: self.columns.as_ref().map(columns).transpose()?,
            user_tlps: self.dlt.iter().map(user_bit).try_fold(0, |all, bit| Ok::<u16, PyErr>(all | bit?))?,
        })
    }
}
