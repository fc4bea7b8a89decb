//! The adaptive water-filler (P. Namyar et al., "Solving Max-Min Fair Resource Allocations Quickly
//! on Large Graphs", NSDI 2024, section 3): water-filling for flows with several paths.
//!
//! Each choice is filled like a flow of its own, with a part of its flow's weight. A flow's demand
//! is a resource that its choices share. The parts then become those of the rates that the choices
//! got, and all is filled again, so that flows move to the choices on which they get more.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::problem::Problem;

/// The number of times that all choices are filled.
pub const ITERATIONS: u32 = 10;
/// The least part of a flow's weight on a choice, below which it is not filled.
const LEAST: f64 = 1e-9;

#[derive(Clone, Copy, PartialEq)]
struct Level(f64);

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Returns a rate for each choice, in units.
pub fn adaptive(problem: &Problem) -> Vec<f64> {
    let mut weights = vec![0.0; problem.choices.len()];
    for flow in &problem.flows {
        let choices = flow.choices();
        let part = flow.weight / choices.len().max(1) as f64;
        weights[choices].fill(part);
    }
    let filling = Filling::new(problem);
    let mut shares = filling.fill(problem, &weights);
    for _ in 1..ITERATIONS {
        for flow in &problem.flows {
            let rate: f64 = shares[flow.choices()].iter().sum();
            if rate > 0.0 {
                for choice in flow.choices() {
                    let part = shares[choice] / rate;
                    weights[choice] = if part < LEAST { 0.0 } else { flow.weight * part };
                }
            }
        }
        shares = filling.fill(problem, &weights);
    }
    shares
}

/// The choices that use each resource; the flows' demands come after the resources.
struct Filling {
    flow_of: Vec<u32>,
    users: Vec<u32>,
    first: Vec<u32>,
}

impl Filling {
    fn new(problem: &Problem) -> Self {
        let count = problem.resources.len() + problem.flows.len();
        let mut flow_of = vec![0; problem.choices.len()];
        let mut first = vec![0u32; count + 1];
        for (flow, at) in problem.flows.iter().zip(0u32..) {
            flow_of[flow.choices()].fill(at);
        }
        let each = |of: &mut dyn FnMut(usize, u32)| {
            for (choice, at) in problem.choices.iter().zip(0u32..) {
                problem.uses(choice).iter().for_each(|r| of(*r as usize, at));
                of(problem.resources.len() + flow_of[at as usize] as usize, at);
            }
        };
        each(&mut |resource, _| first[resource + 1] += 1);
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut next = first.clone();
        let mut users = vec![0; first[count] as usize];
        each(&mut |resource, choice| {
            users[next[resource] as usize] = choice;
            next[resource] += 1;
        });
        Self { flow_of, users, first }
    }

    /// Raises all choices in proportion to their weights until a resource stops them.
    fn fill(&self, problem: &Problem, weights: &[f64]) -> Vec<f64> {
        let mut left: Vec<f64> = problem.resources.iter().map(|r| r.capacity).collect();
        left.extend(problem.flows.iter().map(|f| f.demand));
        let mut open = vec![0.0; left.len()];
        let users = |resource: usize| {
            &self.users[self.first[resource] as usize..self.first[resource + 1] as usize]
        };
        for (resource, open) in open.iter_mut().enumerate() {
            *open = users(resource).iter().map(|c| weights[*c as usize]).sum();
        }
        let mut shares = vec![0.0; weights.len()];
        let mut done: Vec<bool> = weights.iter().map(|w| *w <= 0.0).collect();
        let level = |left: f64, open: f64| Level((left / open).max(0.0));
        let mut heap: BinaryHeap<Reverse<(Level, u32)>> = (0..left.len())
            .filter(|at| open[*at] > 0.0 && left[*at].is_finite())
            .map(|at| Reverse((level(left[at], open[at]), at as u32)))
            .collect();
        while let Some(Reverse((known, at))) = heap.pop() {
            let resource = at as usize;
            if users(resource).iter().all(|c| done[*c as usize]) {
                continue;
            }
            // Levels only rise while choices stop elsewhere.
            let now = level(left[resource], open[resource]);
            if now.0 > known.0 * (1.0 + 1e-12) + 1e-15 {
                heap.push(Reverse((now, at)));
                continue;
            }
            for &choice in users(resource) {
                let choice = choice as usize;
                if std::mem::replace(&mut done[choice], true) {
                    continue;
                }
                shares[choice] = weights[choice] * now.0;
                let demand = problem.resources.len() + self.flow_of[choice] as usize;
                let uses = problem.uses(&problem.choices[choice]).iter().map(|r| *r as usize);
                for used in uses.chain([demand]) {
                    left[used] -= shares[choice];
                    open[used] -= weights[choice];
                }
            }
        }
        shares
    }
}
