// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts dicts to a table. The columns are their keys, in order of appearance.

use crate::error;
use crate::table::Table;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use std::sync::Arc;

/// A value of a row.
enum Cell {
    Flag(bool),
    Signed(i64),
    Count(u64),
    Real(f64),
    Text(String),
}

/// Converts rows to a table. Values are bools, 64-bit ints, floats, strings and None. The value of a missing key is
/// None.
#[pyfunction]
#[pyo3(signature = (rows, /))]
pub(crate) fn table(rows: Vec<Bound<'_, PyDict>>) -> PyResult<Table> {
    let mut names: Vec<String> = Vec::new();
    for row in &rows {
        for name in row.keys() {
            let name: String = name.extract()?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let of = |name: String| column(&name, &rows).map(|column| (name, column));
    Table::of_columns(names.into_iter().map(of).collect::<PyResult<_>>()?)
}

fn column(name: &str, rows: &[Bound<'_, PyDict>]) -> PyResult<ArrayRef> {
    let cells = rows.iter().map(|row| {
        let value = row.get_item(name)?.filter(|value| !value.is_none());
        value.map(|value| cell(name, &value)).transpose()
    });
    let cells: Vec<Option<Cell>> = cells.collect::<PyResult<_>>()?;
    let is = |kind: fn(&Cell) -> bool| cells.iter().flatten().all(kind);
    // The narrowest type that fits all values; UInt64 if there are no values.
    Ok(if is(|cell| matches!(cell, Cell::Count(_))) {
        Arc::new(UInt64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Count(count)) => Some(*count),
            _ => None,
        })))
    } else if is(|cell| matches!(cell, Cell::Flag(_))) {
        Arc::new(BooleanArray::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Flag(flag)) => Some(*flag),
            _ => None,
        })))
    } else if is(|cell| matches!(cell, Cell::Signed(_) | Cell::Count(0..=0x7fff_ffff_ffff_ffff))) {
        Arc::new(Int64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Signed(number)) => Some(*number),
            Some(Cell::Count(count)) => Some(*count as i64),
            _ => None,
        })))
    } else if is(|cell| matches!(cell, Cell::Real(_) | Cell::Signed(_) | Cell::Count(_))) {
        Arc::new(Float64Array::from_iter(cells.iter().map(|cell| match cell {
            Some(Cell::Real(real)) => Some(*real),
            Some(Cell::Signed(number)) => Some(*number as f64),
            Some(Cell::Count(count)) => Some(*count as f64),
            _ => None,
        })))
    } else {
        Arc::new(StringArray::from_iter(cells.iter().map(|cell| cell.as_ref().map(text))))
    })
}

fn cell(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Cell> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Cell::Flag(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let count = value.extract::<u64>().map(Cell::Count);
        let number = count.or_else(|_| value.extract::<i64>().map(Cell::Signed));
        return number.map_err(|_| error::argument(format!("{name} {value}: expected integers of 64 bits")));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Cell::Real(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Cell::Text(value.extract()?));
    }
    Err(error::argument(format!("{name} {value}: expected bool, int, float, str or None")))
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Flag(flag) => flag.to_string(),
        Cell::Signed(number) => number.to_string(),
        Cell::Count(count) => count.to_string(),
        Cell::Real(real) => real.to_string(),
        Cell::Text(text) => text.clone(),
    }
}
