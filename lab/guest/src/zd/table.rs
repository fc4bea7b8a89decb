//! The results of an experiment as Markdown.

use std::fmt::Write;

use super::{Arm, Experiment, Run};
use crate::zd::order::Work;

/// A column after the cell and the arm: its head, its value for a run, and its decimals.
type Column = (&'static str, fn(&Run) -> f64, usize);

const COLUMNS: [Column; 15] = [
    ("Mbit/s", |r| r.findings.arrived as f64 * 8.0 / 1e6 / r.findings.seconds, 1),
    ("CPU s, kernel", |r| r.cost.kernel, 2),
    ("CPU s, all", |r| r.cost.all, 2),
    ("local drops", |r| r.findings.dropped as f64, 0),
    ("resent", |r| r.findings.retransmissions as f64, 0),
    ("timeouts", |r| r.findings.timeouts as f64, 0),
    ("before", |r| r.findings.early_timeouts as f64, 0),
    ("held", |r| r.findings.held as f64, 0),
    ("RTT p50 ms", |r| r.findings.round_trips.p50, 1),
    ("p99", |r| r.findings.round_trips.p99, 1),
    ("p99.9", |r| r.findings.round_trips.p999, 1),
    ("srtt p99 ms", |r| r.findings.smoothed.p99, 1),
    ("wait p50 ms", |r| r.findings.waits.p50, 0),
    ("p99", |r| r.findings.waits.p99, 0),
    ("silence p99 ms", |r| r.findings.gaps.p99, 0),
];

/// A table with a row for each cell and arm: medians over the runs.
#[must_use]
pub fn table(experiment: &Experiment, runs: &[Run]) -> String {
    let mut text = format!("{}: medians of {}\n\n", experiment.title, experiment.runs);
    text += "| queue | flows | kernel |";
    COLUMNS.iter().for_each(|(name, ..)| text += &format!(" {name} |"));
    text += "\n|---|---|---|";
    COLUMNS.iter().for_each(|_| text += "---|");
    text.push('\n');
    for (number, cell) in experiment.cells.iter().enumerate() {
        for arm in Arm::ALL {
            let of: Vec<_> =
                runs.iter().filter(|run| run.cell == number && run.arm == arm).collect();
            if of.is_empty() {
                continue;
            }
            let flows = match cell.work {
                Work::Flows { flows, .. } => flows,
                _ => 0,
            };
            let _ = write!(text, "| {} | {flows} | {} |", cell.queue.limit, arm.name());
            for (_, value, digits) in COLUMNS {
                let _ = write!(text, " {:.digits$} |", median(of.iter().map(|run| value(run))));
            }
            text.push('\n');
        }
    }
    text
}

/// The median of `values`; of an even number, the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-9);
    }
}
