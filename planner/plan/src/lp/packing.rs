//! The packing program (3.1): the highest sum of rates, with bounds for each flow that change from
//! step to step.
//!
//! The solver gets a smaller program with the same optimum.
//!
//! - A resource has no row until a solution overloads it.
//! - A flow is left out while its best choice uses no resource with a row: it then has all that it
//!   may have on that choice.
//! - A choice has no column until the prices of the rows, their dual values, make it attractive.
//! - A flow in the program has a *base*: a choice that carries what no other choice of the flow
//!   carries and what is not refused to the flow. So the base needs no column. That the base
//!   carries no less than nothing needs a row only where a solution violates it.
//!
//! What a solution overloads or violates is added, and the solver continues from its basis, which
//! is still dual feasible. A solution that overloads and violates nothing is optimal for the whole
//! program, because what was left out could only have restricted it, or not improved it.

mod part;

use crate::lp::SolveError;
use crate::lp::highs::{BasisStatus, TOLERANCE};
use crate::lp::shape::{limiting, worth};
use crate::problem::Problem;

use part::{Column, Part};

/// The least and the most that a flow may get, in units.
pub type Bound = (f64, f64);

/// What a resource may carry above its capacity, in units: HiGHS's feasibility tolerance of a row.
const OVERLOAD: f64 = 1e-7;

/// The rows that each choice uses, one after the other.
#[derive(Debug)]
struct Uses {
    rows: Vec<u32>,
    first: Vec<u32>,
}

impl Uses {
    fn of(&self, choice: usize) -> &[u32] {
        &self.rows[self.first[choice] as usize..self.first[choice + 1] as usize]
    }
}

/// How a flow takes part in the program.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The choice that is the base, if the flow is in the program.
    base: Option<u32>,
    /// The status of the column for what is refused to the flow.
    refused: BasisStatus,
    /// The status of the row that keeps the base at zero or above, if there is one.
    row: Option<BasisStatus>,
}

/// The choices besides the base that a flow gets columns for at first.
const FIRST_COLUMNS: usize = 2;
/// How far below zero a base counts as violated, in units.
const BELOW: f64 = 1e-8;

/// The packing program of one problem, which may be solved for many bounds.
#[derive(Debug)]
pub struct Packing<'a> {
    problem: &'a Problem,
    worth: Vec<f64>,
    /// The choices of each flow, the best first; those of flow f are in the range of its choices.
    ranked: Vec<u32>,
    /// The flow of each choice.
    flow_of: Vec<u32>,
    /// The capacities of the resources that may be overloaded.
    capacity: Vec<f64>,
    uses: Uses,
    /// The status of the row of each resource that has one.
    limits: Vec<Option<BasisStatus>>,
    members: Vec<Member>,
    /// The status of the column of each choice that has one.
    choices: Vec<Option<BasisStatus>>,
}

/// The prices of a solution: the dual values of the rows.
struct Prices {
    resources: Vec<f64>,
    /// The price of the row of each flow; zero for flows without one.
    flows: Vec<f64>,
}

impl<'a> Packing<'a> {
    /// Prepares the program.
    ///
    /// # Errors
    /// If the problem is too large for the solver.
    pub fn new(problem: &'a Problem) -> Result<Self, SolveError> {
        let worth = worth(problem);
        let (rows, capacity) = limiting(problem);
        let mut uses = Uses { rows: Vec::new(), first: vec![0] };
        for choice in &problem.choices {
            let begin = uses.rows.len();
            let used = problem.uses(choice).iter().filter_map(|r| rows[*r as usize]);
            uses.rows.extend(used.map(|row| row as u32));
            uses.rows[begin..].sort_unstable();
            let end = u32::try_from(uses.rows.len()).map_err(|_| SolveError::TooLarge)?;
            uses.first.push(end);
        }
        let mut ranked: Vec<u32> = (0..problem.choices.len() as u32).collect();
        let mut flow_of = vec![0; problem.choices.len()];
        for (flow, at) in problem.flows.iter().zip(0..) {
            // The sort is stable: of equally good choices the first comes first.
            ranked[flow.choices()]
                .sort_by(|a, b| worth[*b as usize].total_cmp(&worth[*a as usize]));
            flow_of[flow.choices()].fill(at);
        }
        let outside = Member { base: None, refused: BasisStatus::Lower, row: None };
        Ok(Self {
            problem,
            ranked,
            flow_of,
            limits: vec![None; capacity.len()],
            members: vec![outside; problem.flows.len()],
            choices: vec![None; problem.choices.len()],
            worth,
            capacity,
            uses,
        })
    }

    /// Returns the rates with the highest sum, each flow within its bound: a rate for each choice.
    ///
    /// Of several such allocations it is the one nearest to the present routing, and of those the
    /// shortest. The solver continues from the basis of the last answer.
    ///
    /// # Errors
    /// If no allocation is within all bounds, or the solver fails.
    pub fn most(&mut self, bounds: &[Bound]) -> Result<Vec<f64>, SolveError> {
        assert_eq!(bounds.len(), self.problem.flows.len());
        let mut part = self.build(bounds)?;
        loop {
            let (shares, prices) = match self.solve(&mut part, bounds) {
                // Choices without a column may be what the floors need.
                Err(SolveError::Infeasible) if self.add_all() => {
                    part = self.build(bounds)?;
                    continue;
                }
                solved => solved?,
            };
            let rows = self.violated(&shares);
            let columns = self.attractive(&prices);
            if self.extend(&shares, &prices) {
                self.rebase(&prices);
                part = self.build(bounds)?;
            } else if rows.is_empty() && columns.is_empty() {
                self.rebase(&prices);
                return Ok(shares);
            } else {
                self.add_columns(&mut part, bounds, columns)?;
                self.add_rows(&mut part, bounds, rows)?;
            }
        }
    }

    /// Solves the part. Returns the rate of each choice, and the price of each resource.
    fn solve(
        &mut self,
        part: &mut Part,
        bounds: &[Bound],
    ) -> Result<(Vec<f64>, Prices), SolveError> {
        let mut shares = vec![0.0; self.problem.choices.len()];
        for (at, flow) in self.problem.flows.iter().enumerate() {
            let base = self.members[at].base.or(self.ranked[flow.choices()].first().copied());
            if let Some(base) = base {
                shares[base as usize] = bounds[at].1;
            }
        }
        let mut prices = Prices {
            resources: vec![0.0; self.capacity.len()],
            flows: vec![0.0; self.problem.flows.len()],
        };
        if part.limits.is_empty() {
            return Ok((shares, prices));
        }
        let values = part.highs.run()?;
        for (column, value) in part.columns.iter().zip(values.columns) {
            let flow = match column {
                Column::Choice(choice) => {
                    shares[*choice as usize] = value;
                    self.flow_of[*choice as usize]
                }
                Column::Refused(flow) => *flow,
            };
            if let Some(base) = self.members[flow as usize].base {
                shares[base as usize] -= value;
            }
        }
        let (limits, flows) = values.row_duals.split_at(part.limits.len());
        for (limit, dual) in part.limits.iter().zip(limits) {
            prices.resources[*limit as usize] = dual.abs();
        }
        for (flow, dual) in part.flows.iter().zip(flows) {
            prices.flows[*flow as usize] = dual.abs();
        }
        let (columns, rows) = part.highs.basis()?;
        for (column, status) in part.columns.iter().zip(columns) {
            match column {
                Column::Choice(choice) => self.choices[*choice as usize] = Some(status),
                Column::Refused(flow) => self.members[*flow as usize].refused = status,
            }
        }
        let (limits, flows) = rows.split_at(part.limits.len());
        for (limit, status) in part.limits.iter().zip(limits) {
            self.limits[*limit as usize] = Some(*status);
        }
        for (flow, status) in part.flows.iter().zip(flows) {
            self.members[*flow as usize].row = Some(*status);
        }
        Ok((shares, prices))
    }

    /// Returns what a unit on a choice is worth after paying for the resources that it uses.
    fn gain(&self, choice: u32, prices: &Prices) -> f64 {
        let uses = self.uses.of(choice as usize).iter();
        let paid: f64 = uses.map(|r| prices.resources[*r as usize]).sum();
        self.worth[choice as usize] - paid
    }

    /// Makes the best choice of each flow its base, as far as the prices tell.
    ///
    /// The prices stay the same, and at these no other choice is worth more.
    fn rebase(&mut self, prices: &Prices) {
        for (at, flow) in self.problem.flows.iter().enumerate() {
            let member = self.members[at];
            let Some(base) = member.base else { continue };
            if member.row.is_some_and(|row| row != BasisStatus::Basic)
                || self.is_fractional(flow.choices())
            {
                continue;
            }
            // A row that binds nothing can go.
            self.members[at].row = None;
            let choices = self.ranked[flow.choices()].iter().copied();
            let best = choices
                .map(|choice| (self.gain(choice, prices), choice))
                .rev()
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, best)) = best else { continue };
            if best != base {
                self.members[at].base = Some(best);
                self.choices[base as usize] = Some(BasisStatus::Lower);
                self.choices[best as usize] = None;
            }
            for choice in self.choices[flow.choices()].iter_mut().flatten() {
                *choice = BasisStatus::Lower;
            }
        }
    }

    /// Returns the flows without a row whose base is below zero.
    fn violated(&self, shares: &[f64]) -> Vec<u32> {
        numbers(self.members.iter().map(|member| {
            member.row.is_none() && member.base.is_some_and(|b| shares[b as usize] < -BELOW)
        }))
    }

    /// Returns the choices without a column that the prices make attractive.
    fn attractive(&self, prices: &Prices) -> Vec<u32> {
        let mut found = Vec::new();
        for (at, flow) in self.problem.flows.iter().enumerate() {
            let Some(base) = self.members[at].base else { continue };
            let least = self.gain(base, prices) + prices.flows[at] + TOLERANCE;
            let absent = |c: &usize| self.choices[*c].is_none() && *c as u32 != base;
            let choices = flow.choices().filter(absent).map(|c| c as u32);
            found.extend(choices.filter(|c| self.gain(*c, prices) > least));
        }
        found
    }

    fn is_fractional(&self, choices: std::ops::Range<usize>) -> bool {
        self.choices[choices].contains(&Some(BasisStatus::Basic))
    }

    /// Gives each resource that `shares` overload a row, and takes in the flows that it affects.
    /// Returns whether there are any.
    fn extend(&mut self, shares: &[f64], prices: &Prices) -> bool {
        let mut load = vec![0.0; self.capacity.len()];
        for (choice, share) in shares.iter().enumerate().filter(|s| *s.1 != 0.0) {
            for row in self.uses.of(choice) {
                load[*row as usize] += share;
            }
        }
        let mut more = false;
        for (row, load) in load.into_iter().enumerate() {
            if load > self.capacity[row] + OVERLOAD && self.limits[row].is_none() {
                self.limits[row] = Some(BasisStatus::Basic);
                more = true;
            }
        }
        if more {
            for (at, flow) in self.problem.flows.iter().enumerate() {
                let ranked = &self.ranked[flow.choices()];
                let Some(best) = ranked.first() else { continue };
                let uses = self.uses.of(*best as usize);
                if self.members[at].base.is_some()
                    || uses.iter().all(|r| self.limits[*r as usize].is_none())
                {
                    continue;
                }
                self.members[at].base = Some(*best);
                let mut others: Vec<(f64, u32)> =
                    ranked[1..].iter().map(|c| (self.gain(*c, prices), *c)).collect();
                others.sort_by(|a, b| b.0.total_cmp(&a.0));
                for (_, choice) in others.into_iter().take(FIRST_COLUMNS) {
                    self.choices[choice as usize] = Some(BasisStatus::Lower);
                }
            }
        }
        more
    }
}

/// Returns the indices where `of` is true.
fn numbers(of: impl Iterator<Item = bool>) -> Vec<u32> {
    of.zip(0..).filter(|(holds, _)| *holds).map(|(_, at)| at).collect()
}
