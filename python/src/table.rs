//! A table that other libraries read in place, through Arrow's PyCapsule interface.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule};

/// Record batches of one schema.
pub(crate) struct Batches {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// An Arrow table. `pyarrow.table(t)`, `polars.from_arrow(t)` and the like use its memory without a
/// copy.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Table(Batches);

impl Table {
    pub(crate) fn new(batches: Batches) -> Self {
        Self(batches)
    }
}

#[pymethods]
impl Table {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// Exports the table as an Arrow stream. The requested schema is a wish, and is not followed.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.0.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.0.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
