// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of a sweep as columns, sorted by point, and as one Parquet or CSV file. Equal records give equal bytes.

use crate::record::Record;
use crate::run::RunningSweep;
use crate::value::Value;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows in a row group.
const GROUP: usize = 1 << 16;

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Name of the column: a key, a metric, or one of `point`, `round`, `feasible`, `basis`, `outcome` and `error`.
    pub name: String,
    /// One value per row.
    pub values: Values,
}

/// The values of a column, all of one type.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// `true` and `false`.
    Boolean(Vec<Option<bool>>),
    /// Integers.
    Integer(Vec<Option<i64>>),
    /// Numbers, some of which are not integers; also the type of a column without values.
    Float(Vec<Option<f64>>),
    /// Text.
    Text(Vec<Option<String>>),
}

impl Values {
    /// Returns the values with the narrowest type that fits all.
    pub(crate) fn of(all: Vec<Option<Value>>) -> Values {
        let each = |is: fn(&Value) -> bool| all.iter().flatten().all(is);
        if all.iter().all(Option::is_none) {
            return Values::Float(vec![None; all.len()]);
        }
        if each(|v| matches!(v, Value::Boolean(_))) {
            let one = |v: Option<Value>| if let Some(Value::Boolean(is)) = v { Some(is) } else { None };
            return Values::Boolean(all.into_iter().map(one).collect());
        }
        if each(|v| matches!(v, Value::Integer(_))) {
            let one = |v: Option<Value>| if let Some(Value::Integer(n)) = v { Some(n) } else { None };
            return Values::Integer(all.into_iter().map(one).collect());
        }
        if each(|v| matches!(v, Value::Integer(_) | Value::Float(_))) {
            return Values::Float(all.into_iter().map(|v| v?.number()).collect());
        }
        Values::Text(all.into_iter().map(|v| v.map(|v| v.to_string())).collect())
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Boolean(all) => all.len(),
            Values::Integer(all) => all.len(),
            Values::Float(all) => all.len(),
            Values::Text(all) => all.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a row as text, without loss of precision. A missing value gives an empty text.
    fn text(&self, row: usize) -> String {
        fn cell<T>(all: &[Option<T>], row: usize, text: impl FnOnce(&T) -> String) -> String {
            all.get(row).and_then(Option::as_ref).map_or_else(String::new, text)
        }
        match self {
            Values::Boolean(all) => cell(all, row, bool::to_string),
            Values::Integer(all) => cell(all, row, i64::to_string),
            // With a point or an exponent, so that the column stays one of numbers that are not integers.
            Values::Float(all) => cell(all, row, |x| format!("{x:?}")),
            Values::Text(all) => cell(all, row, String::clone),
        }
    }

    fn physical(&self) -> Physical {
        match self {
            Values::Boolean(_) => Physical::BOOLEAN,
            Values::Integer(_) => Physical::INT64,
            Values::Float(_) => Physical::DOUBLE,
            Values::Text(_) => Physical::BYTE_ARRAY,
        }
    }
}

/// Returns the records of a run as columns, one row per record, sorted by point: `point`, `round` and the budget's key if there are
/// rounds, the keys, the metrics, `feasible` if a metric has bounds, `basis`, `outcome`, `error`.
pub fn columns(run: &RunningSweep<'_>) -> Vec<Column> {
    let sweep = run.sweep();
    let rows: Vec<&Record> = run.records().iter().flatten().collect();
    // Each record belongs to a point that was handed out.
    let config = |record: &Record| run.point(record.point).map_or(0, |point| point.config);
    let column =
        |name: &str, values: Vec<Option<Value>>| Column { name: name.to_owned(), values: Values::of(values) };
    let integers = |of: &dyn Fn(&Record) -> Option<u64>| -> Vec<Option<Value>> {
        rows.iter().map(|record| of(record).map(|n| Value::Integer(n as i64))).collect()
    };
    let mut columns = vec![column("point", integers(&|record| Some(record.point)))];
    if let Some(budget) = sweep.budget() {
        let round = |record: &Record| sweep.round_of(record.point);
        columns.push(column("round", integers(&|record| Some(u64::from(round(record))))));
        columns.push(column("config", integers(&|record| Some(config(record)))));
        columns.push(column(budget, integers(&|record| sweep.rounds()[round(record) as usize].budget)));
    }
    let settings: Vec<Vec<Value>> = rows.iter().map(|record| sweep.settings(config(record))).collect();
    for (n, key) in sweep.keys().into_iter().enumerate() {
        columns.push(column(key, settings.iter().map(|row| row.get(n).cloned()).collect()));
    }
    for (n, metric) in sweep.metrics().iter().enumerate() {
        let of = |record: &&Record| record.metrics.get(n).cloned().flatten();
        columns.push(column(&metric.name, rows.iter().map(of).collect()));
    }
    if sweep.metrics().iter().any(|metric| metric.at_least.is_some() || metric.at_most.is_some()) {
        let is = |record: &&Record| Some(Value::Boolean(sweep.is_feasible(record)));
        columns.push(column("feasible", rows.iter().map(is).collect()));
    }
    let basis = |record: &&Record| Some(Value::Text(record.basis?.name().to_owned()));
    columns.push(column("basis", rows.iter().map(basis).collect()));
    let outcome = |record: &&Record| Some(Value::Text(record.outcome.name().to_owned()));
    columns.push(column("outcome", rows.iter().map(outcome).collect()));
    let errors = rows.iter().map(|record| record.error.clone()).collect();
    columns.push(Column { name: "error".into(), values: Values::Text(errors) });
    columns
}

/// Writes columns as a Parquet file.
///
/// # Errors
/// Errors of `out`.
pub fn write_parquet(columns: &[Column], out: impl Write + Send) -> io::Result<()> {
    write(columns, out).map_err(io::Error::other)
}

/// Writes columns as a CSV file (RFC 4180), with their names in the first line. A value that does not exist is empty.
///
/// # Errors
/// Errors of `out`.
pub fn write_csv(columns: &[Column], out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.iter().map(|column| &column.name))?;
    for row in 0..columns.first().map_or(0, |column| column.values.len()) {
        writer.write_record(columns.iter().map(|column| column.values.text(row)))?;
    }
    writer.flush()
}

fn write(columns: &[Column], out: impl Write + Send) -> ParquetResult<()> {
    let field = |column: &Column| {
        let of = Type::primitive_type_builder(&column.name, column.values.physical());
        let of = of.with_repetition(Repetition::OPTIONAL);
        let text = matches!(column.values, Values::Text(_)).then_some(LogicalType::String);
        of.with_logical_type(text).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<ParquetResult<Vec<_>>>()?;
    let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("riser {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let rows = columns.first().map_or(0, |column| column.values.len());
    for first in (0..rows).step_by(GROUP) {
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut to) = group.next_column()? else { break };
            let rows = first..(first + GROUP).min(rows);
            match &column.values {
                Values::Boolean(all) => put::<BoolType, _>(&mut to, &all[rows], |is| *is)?,
                Values::Integer(all) => put::<Int64Type, _>(&mut to, &all[rows], |n| *n)?,
                Values::Float(all) => put::<DoubleType, _>(&mut to, &all[rows], |x| *x)?,
                Values::Text(all) => {
                    put::<ByteArrayType, _>(&mut to, &all[rows], |text| ByteArray::from(text.as_str()))?
                }
            }
            to.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

/// Writes the rows of a column: each value, and whether it exists.
fn put<T: DataType, V>(
    to: &mut SerializedColumnWriter<'_>,
    rows: &[Option<V>],
    of: impl Fn(&V) -> T::T,
) -> ParquetResult<()> {
    let values: Vec<T::T> = rows.iter().flatten().map(of).collect();
    let is_there: Vec<i16> = rows.iter().map(|row| i16::from(row.is_some())).collect();
    to.typed::<T>().write_batch(&values, Some(&is_there), None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_the_rows_and_columns_of_the_parquet_file() {
        let column = |name: &str, values| Column { name: name.into(), values };
        let columns = [
            column("point", Values::Integer(vec![Some(0), Some(-1)])),
            column("feasible", Values::Boolean(vec![Some(true), None])),
            column("gbps", Values::Float(vec![Some(3.0), Some(1e300)])),
            column("error", Values::Text(vec![None, Some("a \"b\",\nc".into())])),
        ];
        let mut bytes = Vec::new();
        write_csv(&columns, &mut bytes).unwrap();
        let text = "point,feasible,gbps,error\n0,true,3.0,\n-1,,1e300,\"a \"\"b\"\",\nc\"\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }
}
