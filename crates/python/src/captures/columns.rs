// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Columns that grow row by row, and batches of them, for any content.
//!
//! Each value is added with its row; skipped rows have no value. So sparse columns cost nothing in most rows.

use arrow_array::builder::{ArrayBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, StringArray, new_null_array};
use arrow_schema::{DataType, SchemaRef};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::mem;
use std::sync::Arc;

/// Maximum number of rows of a batch. Twice as many names still have a key of 16 bits.
pub(crate) const BATCH_ROWS: usize = 32_768;

/// A column that is being filled; any of its values may be missing.
pub(crate) trait Column: Default {
    /// Its type.
    fn data_type() -> DataType;
    /// Its first `rows` rows; the column is empty then.
    fn take(&mut self, rows: usize) -> ArrayRef;
}

/// Columns of one length.
pub(crate) trait Batch: Default {
    /// Names and types.
    fn schema() -> SchemaRef;
    /// Returns the number of rows.
    fn rows(&self) -> usize;
    /// Takes the values so far.
    fn take(&mut self) -> Vec<ArrayRef>;
}

/// Declares a [`Batch`]: the names of its columns, and what each holds.
macro_rules! batch {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub(super) struct $name { rows: usize, $($column: $kind,)* }

        impl $crate::captures::columns::Batch for $name {
            fn schema() -> arrow_schema::SchemaRef {
                use $crate::captures::columns::Column;
                let fields = [$((stringify!($column), <$kind>::data_type())),*];
                let field = |(name, kind): (&str, _)| {
                    arrow_schema::Field::new(name.trim_start_matches("r#"), kind, true)
                };
                std::sync::Arc::new(arrow_schema::Schema::new(fields.into_iter().map(field).collect::<Vec<_>>()))
            }

            fn rows(&self) -> usize {
                self.rows
            }

            fn take(&mut self) -> Vec<arrow_array::ArrayRef> {
                use $crate::captures::columns::Column;
                let rows = std::mem::take(&mut self.rows);
                vec![$(self.$column.take(rows)),*]
            }
        }
    };
}
pub(crate) use batch;

/// Fills up to `rows` rows of a builder with missing values.
macro_rules! pad {
    ($builder:expr, $rows:expr) => {
        if $builder.len() < $rows {
            $builder.append_nulls($rows - $builder.len());
        }
    };
}

/// A column of missing values alone, which all batches share.
#[derive(Default)]
struct Missing(Option<ArrayRef>);

impl Missing {
    fn rows(&mut self, rows: usize, kind: &DataType) -> ArrayRef {
        let all = self.0.take().filter(|all| all.len() >= rows);
        let all = all.unwrap_or_else(|| new_null_array(kind, rows.max(BATCH_ROWS)));
        self.0.insert(all).slice(0, rows)
    }
}

/// Numbers.
pub(crate) struct Numbers<T: ArrowPrimitiveType>(PrimitiveBuilder<T>, Missing);

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers(PrimitiveBuilder::with_capacity(BATCH_ROWS), Missing::default())
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: impl Into<Option<T::Native>>) {
        if let Some(value) = value.into() {
            pad!(self.0, row);
            self.0.append_value(value);
        }
    }
}

impl<T: ArrowPrimitiveType> Column for Numbers<T> {
    fn data_type() -> DataType {
        T::DATA_TYPE
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        if self.0.is_empty() {
            return self.1.rows(rows, &T::DATA_TYPE);
        }
        pad!(self.0, rows);
        Arc::new(mem::replace(&mut self.0, PrimitiveBuilder::with_capacity(BATCH_ROWS)).finish())
    }
}

/// True or false.
#[derive(Default)]
pub(crate) struct Flags(BooleanBuilder);

impl Flags {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: impl Into<Option<bool>>) {
        if let Some(value) = value.into() {
            pad!(self.0, row);
            self.0.append_value(value);
        }
    }
}

impl Column for Flags {
    fn data_type() -> DataType {
        DataType::Boolean
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        pad!(self.0, rows);
        Arc::new(self.0.finish())
    }
}

/// Texts of which each is there once or a few times.
#[derive(Default)]
pub(crate) struct Texts(StringBuilder);

impl Texts {
    pub(crate) fn put(&mut self, row: usize, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            pad!(self.0, row);
            self.0.append_value(value);
        }
    }
}

impl Column for Texts {
    fn data_type() -> DataType {
        DataType::Utf8
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        pad!(self.0, rows);
        Arc::new(self.0.finish())
    }
}

/// Repeated names with one key each: an Arrow dictionary. A batch also has the names of earlier batches.
pub(crate) struct Names<K> {
    keys: PrimitiveBuilder<UInt16Type>,
    known: BTreeMap<K, u16>,
    /// The latest, which mostly is the next as well.
    latest: Option<(K, u16)>,
    names: Vec<String>,
    /// `names` as an array, until a name is added.
    shared: Option<Arc<StringArray>>,
    missing: Missing,
}

impl<K> Default for Names<K> {
    fn default() -> Names<K> {
        Names {
            keys: PrimitiveBuilder::with_capacity(BATCH_ROWS),
            known: BTreeMap::new(),
            latest: None,
            names: Vec::new(),
            shared: None,
            missing: Missing::default(),
        }
    }
}

impl<K: Ord + Clone + Display> Names<K> {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: Option<K>) {
        let Some(value) = value else { return };
        pad!(self.keys, row);
        let key = match &self.latest {
            Some((latest, key)) if *latest == value => *key,
            _ => self.key(value),
        };
        self.keys.append_value(key);
    }

    fn key(&mut self, value: K) -> u16 {
        let names = &mut self.names;
        let key = *self.known.entry(value.clone()).or_insert_with(|| {
            names.push(value.to_string());
            (names.len() - 1) as u16
        });
        self.latest = Some((value, key));
        key
    }
}

impl<K: Ord + Clone + Display> Column for Names<K> {
    fn data_type() -> DataType {
        DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
    }

    fn take(&mut self, rows: usize) -> ArrayRef {
        if self.keys.is_empty() {
            return self.missing.rows(rows, &Self::data_type());
        }
        pad!(self.keys, rows);
        let shared = self.shared.take().filter(|shared| shared.len() == self.names.len());
        let names = shared.unwrap_or_else(|| Arc::new(StringArray::from_iter_values(&self.names)));
        let keys = mem::replace(&mut self.keys, PrimitiveBuilder::with_capacity(BATCH_ROWS)).finish();
        // A key for every row of the next batch has to be left.
        if self.names.len() > BATCH_ROWS {
            *self = Names::default();
        } else {
            self.shared = Some(names.clone());
        }
        // Each key is that of a name.
        Arc::new(DictionaryArray::new(keys, names))
    }
}

impl Names<String> {
    /// As [`put`](Self::put): copies only what is new.
    #[inline]
    pub(crate) fn put_str(&mut self, row: usize, value: Option<&str>) {
        let Some(value) = value else { return };
        match self.known.get(value) {
            Some(key) => {
                pad!(self.keys, row);
                self.keys.append_value(*key);
            }
            None => self.put(row, Some(value.to_owned())),
        }
    }
}
