// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables from reports: objects become rows, and JSON names become columns.

use crate::table::Table;
use ::session::SessionReport;
use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, StringBuilder, UInt64Builder};
use arrow_schema::DataType;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::sync::Arc;

type Row = Map<String, Value>;

/// A column: its name, and the type of its values. All values may be missing.
type Column = (&'static str, DataType);

const TEXT: DataType = DataType::Utf8;
const COUNT: DataType = DataType::UInt64;
const REAL: DataType = DataType::Float64;

/// The directions of each link.
const LINKS: &[Column] = &[
    ("slot", TEXT),
    ("gen", COUNT),
    ("lanes", COUNT),
    ("mps_bytes", COUNT),
    ("direction", TEXT),
    ("tlps", COUNT),
    ("dllps", COUNT),
    ("acks", COUNT),
    ("naks", COUNT),
    ("update_fcs", COUNT),
    ("payload_bytes", COUNT),
    ("wire_bytes", COUNT),
    ("header_bytes", COUNT),
    ("digest_bytes", COUNT),
    ("framing_bytes", COUNT),
    ("replay_bytes", COUNT),
    ("dllp_bytes", COUNT),
    ("skp_bytes", COUNT),
    ("utilization", REAL),
    ("payload_gbps", REAL),
    ("active_ns", REAL),
    ("active_gbps", REAL),
    ("replays", COUNT),
    ("credit_stalls", COUNT),
    ("credit_stall_ns", REAL),
    ("replay_buffer_stalls", COUNT),
    ("damaged_frames", COUNT),
    ("replay_timeouts", COUNT),
    ("retrains", COUNT),
    ("link_changes", COUNT),
    ("unmapped_tcs", COUNT),
    ("full_buffer_drops", COUNT),
    ("receiver_overflows", COUNT),
    ("data_link_protocol_errors", COUNT),
    ("undetected_errors", COUNT),
    ("malformed_tlps", COUNT),
    ("flow_control_protocol_errors", COUNT),
];

/// The kinds of transactions of each link, with the means of their parts.
const LATENCIES: &[Column] = &[
    ("slot", TEXT),
    ("kind", TEXT),
    ("requests", COUNT),
    ("basis", TEXT),
    ("latency_ns_min", REAL),
    ("latency_ns_median", REAL),
    ("latency_ns_mean", REAL),
    ("latency_ns_p99", REAL),
    ("latency_ns_max", REAL),
    ("queue_ns", REAL),
    ("credit_wait_ns", REAL),
    ("serialization_ns", REAL),
    ("wire_ns", REAL),
    ("replay_ns", REAL),
    ("root_complex_ns", REAL),
    ("memory_ns", REAL),
    ("switch_ns", REAL),
    ("completer_ns", REAL),
];

/// Every transaction, as in `riser run --transactions-json`.
const TRANSACTIONS: &[Column] = &[
    ("slot", TEXT),
    ("kind", TEXT),
    ("requester", TEXT),
    ("tag", COUNT),
    ("bytes", COUNT),
    ("status", TEXT),
    ("start_ps", COUNT),
    ("end_ps", COUNT),
    ("latency_ps", COUNT),
    ("queue_ps", COUNT),
    ("credit_wait_ps", COUNT),
    ("serialization_ps", COUNT),
    ("wire_ps", COUNT),
    ("replay_ps", COUNT),
    ("root_complex_ps", COUNT),
    ("memory_ps", COUNT),
    ("switch_ps", COUNT),
    ("completer_ps", COUNT),
];

/// Returns the directions of each link of a run.
pub(crate) fn links(report: &SessionReport) -> PyResult<Table> {
    let of_link = |link: &::session::report::LinkReport| {
        let head = [
            ("slot", Value::from(link.slot.as_str())),
            ("gen", link.generation.into()),
            ("lanes", link.lanes.into()),
            ("mps_bytes", link.mps_bytes.into()),
        ];
        let rows: Vec<Row> = link.directions.iter().map(|direction| with(&head, row(direction))).collect();
        rows
    };
    table(LINKS, &report.links.iter().flat_map(of_link).collect::<Vec<_>>())
}

/// Returns latencies and their parts for each kind of transaction.
pub(crate) fn latencies(report: &SessionReport) -> PyResult<Table> {
    let rows = report.links.iter().flat_map(|link| {
        link.transactions.iter().map(|kind| with(&[("slot", link.slot.as_str().into())], row(kind)))
    });
    table(LATENCIES, &rows.collect::<Vec<_>>())
}

/// Returns every transaction, from lines of JSON.
pub(crate) fn transactions(lines: &[u8]) -> PyResult<Table> {
    let lines = serde_json::Deserializer::from_slice(lines).into_iter::<Row>();
    let rows: Vec<Row> = lines.collect::<Result<_, _>>().map_err(crate::error::internal)?;
    table(TRANSACTIONS, &rows)
}

/// Returns a row from a value that serializes as an object.
fn row(value: &impl serde::Serialize) -> Row {
    match serde_json::to_value(value) {
        Ok(Value::Object(row)) => row,
        _ => Row::new(),
    }
}

fn with(head: &[(&str, Value)], mut row: Row) -> Row {
    row.extend(head.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    row
}

/// Returns a table with these columns. A value that a row lacks is missing.
fn table(columns: &[Column], rows: &[Row]) -> PyResult<Table> {
    let of = |(name, kind): &Column| ((*name).to_owned(), column(name, kind, rows));
    Table::of_columns(columns.iter().map(of).collect())
}

fn column(name: &str, kind: &DataType, rows: &[Row]) -> ArrayRef {
    let values = rows.iter().map(|row| row.get(name));
    match kind {
        DataType::UInt64 => {
            let mut builder = UInt64Builder::with_capacity(rows.len());
            values.for_each(|value| builder.append_option(value.and_then(Value::as_u64)));
            Arc::new(builder.finish())
        }
        DataType::Float64 => {
            let mut builder = Float64Builder::with_capacity(rows.len());
            values.for_each(|value| builder.append_option(value.and_then(Value::as_f64)));
            Arc::new(builder.finish())
        }
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(rows.len());
            values.for_each(|value| builder.append_option(value.and_then(Value::as_bool)));
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::new();
            values.for_each(|value| builder.append_option(value.and_then(Value::as_str)));
            Arc::new(builder.finish())
        }
    }
}
