//! Columns of a table of one run.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};

/// The columns of a table, in order. All of them have the same number of rows.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, array: ArrayRef) {
        // Every column may have gaps, so that the schema does not depend on the run.
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }

    /// Adds a column of numbers.
    pub(crate) fn float(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.push(name, Arc::new(values.collect::<Float64Array>()));
    }

    /// Adds a column of counts.
    pub(crate) fn count(&mut self, name: &str, values: impl Iterator<Item = Option<u64>>) {
        self.push(name, Arc::new(values.collect::<UInt64Array>()));
    }

    /// Adds a column of truth values.
    pub(crate) fn truth(&mut self, name: &str, values: impl Iterator<Item = bool>) {
        self.push(name, Arc::new(values.map(Some).collect::<BooleanArray>()));
    }

    /// Adds texts that differ in most rows.
    pub(crate) fn text(&mut self, name: &str, values: impl Iterator<Item = String>) {
        self.push(name, Arc::new(StringArray::from_iter_values(values)));
    }

    /// Adds words, of which there are few: each row has an index of `words`.
    pub(crate) fn word(
        &mut self,
        name: &str,
        words: &[String],
        indices: impl Iterator<Item = Option<usize>>,
    ) -> Result<(), ArrowError> {
        let index = |i: Option<usize>| i.and_then(|i| i32::try_from(i).ok());
        let keys: Int32Array = indices.map(index).collect();
        let values = Arc::new(StringArray::from_iter_values(words));
        let array = DictionaryArray::<Int32Type>::try_new(keys, values)?;
        self.push(name, Arc::new(array));
        Ok(())
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.arrays.first().map_or(0, |array| array.len())
    }

    /// Adds the columns of `other` after these.
    pub(crate) fn followed_by(mut self, other: Self) -> Self {
        self.fields.extend(other.fields);
        self.arrays.extend(other.arrays);
        self
    }

    /// Makes a record batch of the columns.
    pub(crate) fn batch(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}
