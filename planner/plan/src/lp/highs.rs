//! A safe wrapper around the C interface of HiGHS. It keeps one model whose bounds and costs
//! change, and its basis. `docs/decisions/0018-highs.md` says why no crate above the C interface is
//! used.

use std::ffi::{CStr, c_void};

use highs_sys as sys;

use crate::lp::SolveError;

/// A solver with its model. It is not `Send`: a model stays with the thread that made it.
#[derive(Debug)]
pub(super) struct Highs {
    raw: *mut c_void,
    columns: usize,
    rows: usize,
}

/// A linear program to be maximised: columns, rows, and the matrix by columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) costs: Vec<f64>,
    pub(super) columns: Vec<(f64, f64)>,
    pub(super) rows: Vec<(f64, f64)>,
    /// The index of each column's first entry in `index`.
    pub(super) start: Vec<i32>,
    /// The row of each entry.
    pub(super) index: Vec<i32>,
    /// The value of each entry.
    pub(super) value: Vec<f64>,
}

/// The status of a column or a row in a basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BasisStatus {
    /// The variable is in the basis.
    Basic,
    /// The variable is at its lower bound.
    Lower,
    /// The variable is at its upper bound.
    Upper,
}

impl BasisStatus {
    fn code(self) -> i32 {
        match self {
            Self::Lower => 0,
            Self::Basic => 1,
            Self::Upper => 2,
        }
    }

    /// Free and other nonbasic variables do not occur in these programs, and count as lower.
    fn of_code(code: i32) -> Self {
        match code {
            1 => Self::Basic,
            2 => Self::Upper,
            _ => Self::Lower,
        }
    }
}

/// The solution of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Values {
    pub(super) columns: Vec<f64>,
    pub(super) column_duals: Vec<f64>,
    pub(super) rows: Vec<f64>,
    pub(super) row_duals: Vec<f64>,
}

/// The tolerance of the solver for reduced costs.
pub(super) const TOLERANCE: f64 = 1e-9;

fn size(n: usize) -> Result<i32, SolveError> {
    i32::try_from(n).map_err(|_| SolveError::TooLarge)
}

fn split(bounds: &[(f64, f64)]) -> (Vec<f64>, Vec<f64>) {
    bounds.iter().copied().unzip()
}

impl Highs {
    /// Returns a solver for `model` that continues from one basis to the next.
    pub(super) fn new(model: &Model) -> Result<Self, SolveError> {
        let highs = Self::load(model)?;
        // Presolve would discard the basis.
        highs.set_text(c"presolve", c"off")?;
        highs.set_text(c"parallel", c"off")?;
        highs.set_text(c"solver", c"simplex")?;
        // The dual method continues from a basis that was optimal before bounds of rows changed.
        // Costs that differ by a millionth need a tolerance below the default of 1e-7, and no
        // perturbation of that size.
        highs.set_int(c"simplex_strategy", 1)?;
        highs.set_real(c"dual_feasibility_tolerance", TOLERANCE)?;
        highs.set_real(c"dual_simplex_cost_perturbation_multiplier", 0.0)?;
        Ok(highs)
    }

    /// Returns a solver for `model` with the solver's own defaults, on one thread, so that answers
    /// are repeatable.
    pub(super) fn load(model: &Model) -> Result<Self, SolveError> {
        let (columns, rows, entries) =
            (size(model.columns.len())?, size(model.rows.len())?, size(model.index.len())?);
        // HiGHS reads arrays of the lengths that it is given, so they must be right.
        assert_eq!(model.costs.len(), model.columns.len());
        assert_eq!(model.start.len(), model.columns.len());
        assert_eq!(model.value.len(), model.index.len());
        // SAFETY: the call takes no arguments and returns a new solver that this value owns.
        let raw = unsafe { sys::Highs_create() };
        if raw.is_null() {
            return Err(SolveError::Memory);
        }
        let highs = Self { raw, columns: model.columns.len(), rows: model.rows.len() };
        highs.set_bool(c"output_flag", false)?;
        highs.set_int(c"threads", 1)?;
        let (lower, upper) = split(&model.columns);
        let (row_lower, row_upper) = split(&model.rows);
        // SAFETY: `raw` is a solver. Every array has the length that the call reads of it:
        // `columns`, `rows` or `entries`, as asserted above. HiGHS copies the arrays and checks the
        // indices.
        let status = unsafe {
            sys::Highs_passLp(
                raw,
                columns,
                rows,
                entries,
                sys::MATRIX_FORMAT_COLUMN_WISE,
                sys::OBJECTIVE_SENSE_MAXIMIZE,
                0.0,
                model.costs.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                row_lower.as_ptr(),
                row_upper.as_ptr(),
                model.start.as_ptr(),
                model.index.as_ptr(),
                model.value.as_ptr(),
            )
        };
        check(status)?;
        Ok(highs)
    }

    fn set_bool(&self, name: &CStr, value: bool) -> Result<(), SolveError> {
        // SAFETY: `raw` is a solver, and `name` a C string that the call only reads.
        check(unsafe { sys::Highs_setBoolOptionValue(self.raw, name.as_ptr(), i32::from(value)) })
    }

    fn set_int(&self, name: &CStr, value: i32) -> Result<(), SolveError> {
        // SAFETY: as in `set_bool`.
        check(unsafe { sys::Highs_setIntOptionValue(self.raw, name.as_ptr(), value) })
    }

    fn set_real(&self, name: &CStr, value: f64) -> Result<(), SolveError> {
        // SAFETY: as in `set_bool`.
        check(unsafe { sys::Highs_setDoubleOptionValue(self.raw, name.as_ptr(), value) })
    }

    fn set_text(&self, name: &CStr, value: &CStr) -> Result<(), SolveError> {
        // SAFETY: as in `set_bool`; `value` is a C string too.
        check(unsafe { sys::Highs_setStringOptionValue(self.raw, name.as_ptr(), value.as_ptr()) })
    }

    /// Starts from this basis, which has as many basic columns and rows as there are rows.
    pub(super) fn begin(
        &mut self,
        columns: &[BasisStatus],
        rows: &[BasisStatus],
    ) -> Result<(), SolveError> {
        assert_eq!((columns.len(), rows.len()), (self.columns, self.rows));
        let columns: Vec<i32> = columns.iter().map(|s| s.code()).collect();
        let rows: Vec<i32> = rows.iter().map(|s| s.code()).collect();
        // SAFETY: `raw` is a solver, and there is one value for each of its columns and rows.
        check(unsafe { sys::Highs_setBasis(self.raw, columns.as_ptr(), rows.as_ptr()) })
    }

    /// Returns the status of the columns and of the rows in the present basis.
    pub(super) fn basis(&self) -> Result<(Vec<BasisStatus>, Vec<BasisStatus>), SolveError> {
        let (mut columns, mut rows) = (vec![0; self.columns], vec![0; self.rows]);
        // SAFETY: `raw` is a solver, and there is room for the status of each column and row.
        check(unsafe { sys::Highs_getBasis(self.raw, columns.as_mut_ptr(), rows.as_mut_ptr()) })?;
        let of = |codes: Vec<i32>| codes.into_iter().map(BasisStatus::of_code).collect();
        Ok((of(columns), of(rows)))
    }

    /// Adds the columns of `more`, whose rows exist already. The basis stays, and the new columns
    /// are not in it.
    pub(super) fn add_columns(&mut self, more: &Model) -> Result<(), SolveError> {
        let (count, entries) = (more.columns.len(), more.index.len());
        assert!(more.costs.len() == count && more.start.len() == count);
        assert_eq!(more.value.len(), entries);
        if count == 0 {
            return Ok(());
        }
        let (lower, upper) = split(&more.columns);
        // SAFETY: `raw` is a solver, and the arrays have the lengths that the call reads, as
        // asserted. HiGHS copies them and checks the indices.
        check(unsafe {
            sys::Highs_addCols(
                self.raw,
                size(count)?,
                more.costs.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                size(entries)?,
                more.start.as_ptr(),
                more.index.as_ptr(),
                more.value.as_ptr(),
            )
        })?;
        self.columns += count;
        Ok(())
    }

    /// Adds rows with these bounds, each the sum of the given columns. The basis stays, and the new
    /// rows are in it.
    pub(super) fn add_rows(
        &mut self,
        bounds: &[(f64, f64)],
        columns: &[Vec<i32>],
    ) -> Result<(), SolveError> {
        assert_eq!(bounds.len(), columns.len());
        if bounds.is_empty() {
            return Ok(());
        }
        let (mut start, mut index) = (Vec::new(), Vec::new());
        for columns in columns {
            start.push(size(index.len())?);
            index.extend(columns);
        }
        let value = vec![1.0; index.len()];
        let (lower, upper) = split(bounds);
        // SAFETY: `raw` is a solver, and the arrays have the lengths that the call reads. HiGHS
        // copies them and checks the indices.
        check(unsafe {
            sys::Highs_addRows(
                self.raw,
                size(bounds.len())?,
                lower.as_ptr(),
                upper.as_ptr(),
                size(index.len())?,
                start.as_ptr(),
                index.as_ptr(),
                value.as_ptr(),
            )
        })?;
        self.rows += bounds.len();
        Ok(())
    }

    /// Makes the columns integers where `whole` says so. The mixed-integer program is solved to
    /// within `gap` of the optimum, or to the best solution found after `nodes` nodes of the
    /// search.
    pub(super) fn whole(&mut self, whole: &[bool], gap: f64, nodes: u32) -> Result<(), SolveError> {
        assert_eq!(whole.len(), self.columns);
        let Some(last) = self.columns.checked_sub(1) else { return Ok(()) };
        let kinds: Vec<i32> = whole.iter().map(|w| i32::from(*w)).collect();
        self.set_text(c"solver", c"choose")?;
        self.set_text(c"presolve", c"on")?;
        self.set_real(c"mip_rel_gap", gap)?;
        self.set_int(c"mip_max_nodes", nodes.min(i32::MAX as u32) as i32)?;
        // SAFETY: `raw` is a solver, and there is one value for each of its columns.
        check(unsafe {
            sys::Highs_changeColsIntegralityByRange(self.raw, 0, last as i32, kinds.as_ptr())
        })
    }

    /// Solves the model from the present basis.
    pub(super) fn run(&mut self) -> Result<Values, SolveError> {
        let mut values = Values {
            columns: vec![0.0; self.columns],
            column_duals: vec![0.0; self.columns],
            rows: vec![0.0; self.rows],
            row_duals: vec![0.0; self.rows],
        };
        if self.columns == 0 {
            return Ok(values);
        }
        // SAFETY: `raw` is a solver with a model.
        check(unsafe { sys::Highs_run(self.raw) })?;
        // SAFETY: `raw` is a solver with a model.
        let status = unsafe { sys::Highs_getModelStatus(self.raw) };
        match status {
            sys::MODEL_STATUS_OPTIMAL => {}
            // A mixed-integer program returns the best solution found within its nodes.
            sys::MODEL_STATUS_REACHED_SOLUTION_LIMIT if self.has_solution() => {}
            sys::MODEL_STATUS_INFEASIBLE => return Err(SolveError::Infeasible),
            sys::MODEL_STATUS_REACHED_MEMORY_LIMIT => return Err(SolveError::Memory),
            other => return Err(SolveError::Unsolved(other)),
        }
        // SAFETY: `raw` is a solver whose model has been solved; each array has the length that the
        // call writes.
        check(unsafe {
            sys::Highs_getSolution(
                self.raw,
                values.columns.as_mut_ptr(),
                values.column_duals.as_mut_ptr(),
                values.rows.as_mut_ptr(),
                values.row_duals.as_mut_ptr(),
            )
        })?;
        Ok(values)
    }

    fn has_solution(&self) -> bool {
        let mut status = 0;
        // SAFETY: `raw` is a solver, the name a C string, and `status` an integer that the call may
        // write to.
        let known = unsafe {
            sys::Highs_getIntInfoValue(
                self.raw,
                c"primal_solution_status".as_ptr(),
                &raw mut status,
            )
        };
        known == sys::STATUS_OK && status == sys::SOLUTION_STATUS_FEASIBLE
    }
}

impl Drop for Highs {
    fn drop(&mut self) {
        // SAFETY: `raw` was made by `Highs_create` and is destroyed only here, by its only owner.
        unsafe { sys::Highs_destroy(self.raw) };
    }
}

/// Warnings are not errors: an infinite bound causes one.
fn check(status: i32) -> Result<(), SolveError> {
    if status == sys::STATUS_ERROR { Err(SolveError::Refused) } else { Ok(()) }
}
