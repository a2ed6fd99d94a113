// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as bytes, for tools with their own TLP classes. Bytes are as on the link (`PCIe 5.0 §2.2.1`): prefixes, header, data, and the digest
//! if TD is set.

use crate::device::bytes::Bytes;
use crate::error::{self, RiserError};
use ::capture::decode::Ecrc;
use ::capture::render::{self, JsonRecord};
use ::capture::{Kind, Mark, Origin, Record, Timestamp, TlpRecord};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tlp::{Parsed, Repr, crc};

/// Calls `shown` with the record of the TLP `bytes`, as in a capture of only this TLP.
fn with_record<T>(bytes: &[u8], shown: impl FnOnce(&Record<'_>) -> T) -> PyResult<T> {
    let parsed = parse(bytes)?;
    let ecrc = parsed.ecrc_fits(bytes).map(|fits| if fits { Ecrc::Good } else { Ecrc::Bad });
    let data = &bytes[parsed.data];
    let tlp = TlpRecord {
        repr: parsed.repr,
        prefixes: parsed.prefixes,
        ecrc,
        data,
        payload_bytes: data.len(),
        wire_len: bytes.len(),
        origin: Origin::Device,
    };
    Ok(shown(&Record {
        number: 0,
        timestamp: Timestamp::from_ps(0),
        has_time: false,
        interface: None,
        captured_len: bytes.len(),
        original_len: bytes.len(),
        mark: Mark::default(),
        truncated: false,
        path: None,
        direction: None,
        text: None,
        tlp_bytes: bytes,
        kind: Kind::Tlp(tlp),
    }))
}

fn parse(bytes: &[u8]) -> PyResult<Parsed> {
    Repr::parse(bytes)
        .map_err(|error| RiserError::new_err(format!("these {} B are not a TLP: {error}", bytes.len())))
}

/// Return the fields of the TLP in `data`, by the names of `riser trace --json`, with its `data` as bytes.
///
/// Raises `RiserError` if the TLP is truncated, of an unknown type, or malformed; the text names the broken rule.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn parse_tlp<'py>(py: Python<'py>, data: Bytes<'_>) -> PyResult<Bound<'py, PyAny>> {
    with_record(&data.to_vec()?, |record| {
        let fields = pythonize::pythonize(py, &JsonRecord::new(record)).map_err(error::internal)?;
        let dict = fields.cast::<PyDict>()?;
        // A single TLP has no origin, and is complete.
        for name in ["origin", "captured_bytes"] {
            if dict.contains(name)? {
                dict.del_item(name)?;
            }
        }
        dict.set_item("data", PyBytes::new(py, record.tlp().map_or(&[], |tlp| tlp.data)))?;
        Ok(fields)
    })?
}

/// Return the TLP in `data` as a line of `riser trace --verbose`.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn tlp_text(data: Bytes<'_>) -> PyResult<String> {
    with_record(&data.to_vec()?, |record| {
        let mut line = String::new();
        render::line(record, &mut line);
        line
    })
}

/// Return the TLP in `data`, given without a digest, in the form of riser. Reserved bits are zero, an address below 4
/// GiB has a header of three DWs, and the digest follows if TD is set.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub(crate) fn emit_tlp<'py>(py: Python<'py>, data: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
    let mut bytes = data.to_vec()?;
    if bytes.first().is_some_and(|first| first >> 5 == 0b100) {
        return Err(RiserError::new_err("a TLP with prefixes: not supported here"));
    }
    let has_digest = bytes.get(2).is_some_and(|byte| byte >> 7 == 1);
    if has_digest {
        bytes.extend([0; 4]);
    }
    let parsed = parse(&bytes)?;
    let mut emitted = vec![0; 16];
    let length = parsed.repr.emit(&mut emitted);
    emitted.truncate(length);
    emitted.extend(&bytes[parsed.data]);
    if has_digest {
        emitted.extend(crc::ecrc(&emitted).to_be_bytes());
    }
    Ok(PyBytes::new(py, &emitted))
}
