// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table for Python: Arrow data, passed by the Arrow PyCapsule interface without a copy.

use crate::progress::ProgressWatch;
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::{Arc, OnceLock};

/// Consecutive batches.
pub(crate) type Batches = Box<dyn RecordBatchReader + Send>;

/// A table of Arrow columns.
///
/// `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)` and DuckDB read it through
/// `__arrow_c_stream__`, without a copy by riser. A table of a capture reads the file batch by batch, again for each use.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Table {
    schema: SchemaRef,
    rows: Rows,
}

/// Source of the rows.
enum Rows {
    Held(Vec<RecordBatch>),
    /// Made on request. Their number is known after the first complete read.
    Made {
        make: Box<dyn Fn() -> PyResult<Batches> + Send + Sync>,
        count: OnceLock<usize>,
    },
}

pub(crate) fn arrow_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Table {
    /// Returns a table of these batches, all with this schema.
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, rows: Rows::Held(batches) }
    }

    /// Returns a table of these named columns.
    pub(crate) fn of_columns(columns: Vec<(String, ArrayRef)>) -> PyResult<Table> {
        let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        if columns.is_empty() {
            return Ok(Table::new(schema, Vec::new()));
        }
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(arrow_error)?;
        Ok(Table::new(schema, vec![batch]))
    }

    /// Returns a table whose rows `make` makes for each read.
    pub(crate) fn lazy(
        schema: SchemaRef,
        make: impl Fn() -> PyResult<Batches> + Send + Sync + 'static,
    ) -> Table {
        Table { schema, rows: Rows::Made { make: Box::new(make), count: OnceLock::new() } }
    }

    fn batches(&self) -> PyResult<Batches> {
        match &self.rows {
            Rows::Held(batches) => {
                let batches = batches.clone().into_iter().map(Ok);
                Ok(Box::new(RecordBatchIterator::new(batches, self.schema.clone())))
            }
            Rows::Made { make, .. } => make(),
        }
    }

    /// Counts all rows, without the interpreter, and checks for signals from time to time.
    fn count(&self) -> PyResult<usize> {
        let (mut rows, mut watch) = (0, ProgressWatch::new(None));
        for batch in self.batches()? {
            rows += batch.map_err(arrow_error)?.num_rows();
            watch.look(|| (format!("{rows} rows"), None))?;
        }
        Ok(rows)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns, in order. The names contain the units.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The number of rows. For a table of a capture, all rows are read to count them.
    #[getter]
    fn num_rows(&self, py: Python<'_>) -> PyResult<usize> {
        match &self.rows {
            Rows::Held(batches) => Ok(batches.iter().map(RecordBatch::num_rows).sum()),
            Rows::Made { count, .. } => match count.get() {
                Some(count) => Ok(*count),
                None => {
                    let counted = py.detach(|| self.count())?;
                    Ok(*count.get_or_init(|| counted))
                }
            },
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.num_rows(py)
    }

    /// The Arrow C stream of the table.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore the requested schema.
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(self.batches()?);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow C schema of the table.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Return the rows as a list of dicts: for small tables, without any library.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        let mut batches = self.batches()?;
        while let Some(batch) = py.detach(|| batches.next()) {
            rows_of(py, &batch.map_err(arrow_error)?, &rows)?;
            py.check_signals()?;
        }
        Ok(rows)
    }

    fn __repr__(&self) -> String {
        let rows = match &self.rows {
            Rows::Held(batches) => Some(batches.iter().map(RecordBatch::num_rows).sum()),
            Rows::Made { count, .. } => count.get().copied(),
        };
        let rows = rows.map_or_else(String::new, |rows: usize| format!(" of {rows} rows"));
        format!("<riser.Table{rows}: {}>", self.column_names().join(", "))
    }
}

/// Appends the rows of `batch` to `rows`, each as a dict.
fn rows_of<'py>(py: Python<'py>, batch: &RecordBatch, rows: &Bound<'py, PyList>) -> PyResult<()> {
    let schema = batch.schema();
    for at in 0..batch.num_rows() {
        let row = PyDict::new(py);
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            row.set_item(field.name(), cell(py, array, at)?)?;
        }
        rows.append(row)?;
    }
    Ok(())
}

/// Converts integers of a type to Python's.
macro_rules! cells {
    ($py:expr, $array:expr, $at:expr, $($kind:ident => $type:ty,)*) => {
        match $array.data_type() {
            $(DataType::$kind => $array.as_primitive::<$type>().value($at).into_pyobject($py)?.into_any(),)*
            DataType::Boolean => $array.as_boolean().value($at).into_pyobject($py)?.to_owned().into_any(),
            DataType::Dictionary(..) => {
                let dictionary = $array.as_dictionary::<UInt16Type>();
                let key = usize::from(dictionary.keys().value($at));
                dictionary.values().as_string::<i32>().value(key).into_pyobject($py)?.into_any()
            }
            _ => $array.as_string::<i32>().value($at).into_pyobject($py)?.into_any(),
        }
    };
}

fn cell<'py>(py: Python<'py>, array: &ArrayRef, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    if array.is_null(at) {
        return Ok(None);
    }
    Ok(Some(cells!(py, array, at,
        UInt8 => UInt8Type,
        UInt16 => UInt16Type,
        UInt32 => UInt32Type,
        UInt64 => UInt64Type,
        Int64 => Int64Type,
        Float64 => Float64Type,
    )))
}
