//! The part of a packing program that the solver has: how it is built, and how it grows.

use crate::lp::SolveError;
use crate::lp::highs::{BasisStatus, Highs, Model};

use super::{Bound, Packing, numbers};

/// A column of the part that the solver has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// What a choice carries that is not the base of its flow.
    Choice(u32),
    /// What a flow does not get of its highest rate.
    Refused(u32),
}

/// The part of the program that the solver has.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) highs: Highs,
    pub(super) columns: Vec<Column>,
    /// The resource, and then the flow, of each row.
    pub(super) limits: Vec<u32>,
    pub(super) flows: Vec<u32>,
}

impl Packing<'_> {
    /// Builds the part with all its rows and the last basis.
    pub(super) fn build(&self, bounds: &[Bound]) -> Result<Part, SolveError> {
        let limits: Vec<u32> = numbers(self.limits.iter().map(Option::is_some));
        let mut row_of = vec![None; self.capacity.len()];
        for (limit, row) in limits.iter().zip(0..) {
            row_of[*limit as usize] = Some(row);
        }
        let rows =
            |choice: u32| self.uses.of(choice as usize).iter().filter_map(|r| row_of[*r as usize]);
        let flows: Vec<u32> = numbers(self.members.iter().map(|m| m.row.is_some()));
        let mut left: Vec<f64> = limits.iter().map(|l| self.capacity[*l as usize]).collect();
        let (mut model, mut columns) = (Model::default(), Vec::new());
        let mut status = Vec::new();
        let mut flow_row = limits.len() as i32;
        for ((at, member), flow) in self.members.iter().enumerate().zip(&self.problem.flows) {
            let Some(base) = member.base else { continue };
            let (low, high) = bounds[at];
            let own_row = member.row.map(|_| {
                flow_row += 1;
                flow_row - 1
            });
            let base_rows: Vec<i32> = rows(base).collect();
            for row in &base_rows {
                left[*row as usize] -= high;
            }
            for choice in flow.choices() {
                let Some(last) = self.choices[choice] else { continue };
                let choice = choice as u32;
                self.column(&mut model, &row_of, (choice, base), high, own_row)?;
                columns.push(Column::Choice(choice));
                status.push(last);
            }
            if high > low {
                begin(&mut model)?;
                model.costs.push(-self.worth[base as usize]);
                model.columns.push((0.0, high - low));
                model.index.extend(&base_rows);
                model.value.extend(base_rows.iter().map(|_| -1.0));
                model.index.extend(own_row);
                model.value.extend(own_row.map(|_| 1.0));
                columns.push(Column::Refused(at as u32));
                status.push(member.refused);
            }
        }
        model.rows = left.into_iter().map(|l| (f64::NEG_INFINITY, l)).collect();
        model.rows.extend(flows.iter().map(|f| (f64::NEG_INFINITY, bounds[*f as usize].1)));
        let mut row_status: Vec<BasisStatus> =
            limits.iter().filter_map(|l| self.limits[*l as usize]).collect();
        row_status.extend(flows.iter().filter_map(|f| self.members[*f as usize].row));
        square(&mut status, &mut row_status);
        let mut highs = Highs::new(&model)?;
        highs.begin(&status, &row_status)?;
        Ok(Part { highs, columns, limits, flows })
    }

    /// Gives choices a column in a part that is solved.
    pub(super) fn add_columns(
        &mut self,
        part: &mut Part,
        bounds: &[Bound],
        choices: Vec<u32>,
    ) -> Result<(), SolveError> {
        let mut model = Model::default();
        let mut row_of = vec![None; self.capacity.len()];
        for (limit, row) in part.limits.iter().zip(0..) {
            row_of[*limit as usize] = Some(row);
        }
        for choice in choices {
            let flow = self.flow_of[choice as usize];
            let Some(base) = self.members[flow as usize].base else { continue };
            let own_row = part.flows.iter().position(|f| *f == flow);
            let own_row = own_row.map(|at| (part.limits.len() + at) as i32);
            self.column(&mut model, &row_of, (choice, base), bounds[flow as usize].1, own_row)?;
            part.columns.push(Column::Choice(choice));
            self.choices[choice as usize] = Some(BasisStatus::Lower);
        }
        part.highs.add_columns(&model)
    }

    /// Gives flows a row in a part that is solved.
    pub(super) fn add_rows(
        &mut self,
        part: &mut Part,
        bounds: &[Bound],
        flows: Vec<u32>,
    ) -> Result<(), SolveError> {
        let mut columns_of: Vec<Vec<i32>> = vec![Vec::new(); flows.len()];
        for (column, at) in part.columns.iter().zip(0..) {
            let flow = match column {
                Column::Choice(choice) => self.flow_of[*choice as usize],
                Column::Refused(flow) => *flow,
            };
            if let Ok(row) = flows.binary_search(&flow) {
                columns_of[row].push(at);
            }
        }
        let limits: Vec<Bound> =
            flows.iter().map(|f| (f64::NEG_INFINITY, bounds[*f as usize].1)).collect();
        part.highs.add_rows(&limits, &columns_of)?;
        for flow in flows {
            self.members[flow as usize].row = Some(BasisStatus::Basic);
            part.flows.push(flow);
        }
        Ok(())
    }

    /// Gives all choices of the flows in the program a column. Returns whether one had none.
    pub(super) fn add_all(&mut self) -> bool {
        let mut any = false;
        for (member, flow) in self.members.iter().zip(&self.problem.flows) {
            let Some(base) = member.base else { continue };
            for choice in flow.choices().filter(|c| *c as u32 != base) {
                any |= self.choices[choice].is_none();
                self.choices[choice].get_or_insert(BasisStatus::Lower);
            }
        }
        any
    }

    /// Adds the column of a choice, given as what it carries instead of the base.
    fn column(
        &self,
        model: &mut Model,
        row_of: &[Option<i32>],
        (choice, base): (u32, u32),
        high: f64,
        own_row: Option<i32>,
    ) -> Result<(), SolveError> {
        begin(model)?;
        model.costs.push(self.worth[choice as usize] - self.worth[base as usize]);
        model.columns.push((0.0, high));
        let (own, instead) = (self.uses.of(choice as usize), self.uses.of(base as usize));
        let more = own.iter().filter(|r| !instead.contains(r)).map(|r| (*r, 1.0));
        let fewer = instead.iter().filter(|r| !own.contains(r)).map(|r| (*r, -1.0));
        for (limit, value) in more.chain(fewer) {
            if let Some(row) = row_of[limit as usize] {
                model.index.push(row);
                model.value.push(value);
            }
        }
        model.index.extend(own_row);
        model.value.extend(own_row.map(|_| 1.0));
        Ok(())
    }
}

/// Begins the next column of a model.
fn begin(model: &mut Model) -> Result<(), SolveError> {
    model.start.push(i32::try_from(model.index.len()).map_err(|_| SolveError::TooLarge)?);
    Ok(())
}

/// Makes the number of basic variables that of the rows.
///
/// It differs where a basic column has gone, because its flow can no longer be refused anything.
fn square(columns: &mut [BasisStatus], rows: &mut [BasisStatus]) {
    let basic = |of: &[BasisStatus]| of.iter().filter(|s| **s == BasisStatus::Basic).count();
    let (have, want) = (basic(columns) + basic(rows), rows.len());
    if have > want {
        // Every flow is at its base, and every row is slack.
        columns.fill(BasisStatus::Lower);
        rows.fill(BasisStatus::Basic);
    }
    let free = rows.iter_mut().filter(|s| **s != BasisStatus::Basic);
    free.take(want.saturating_sub(have)).for_each(|s| *s = BasisStatus::Basic);
}
