//! What came out: how the arms differ from the first one, in a sentence and as a table.

use super::number::figure;
use super::runs::{Group, cells_of};
use super::table::{Column, Row, Table};
use crate::analysis::{Analysis, Sorted, Summary};

/// A figure by which arms are compared.
pub(super) struct Figure {
    /// The name in tables and above plots.
    pub(super) name: &'static str,
    /// The unit; empty for ratios.
    pub(super) unit: &'static str,
    /// The value of a run; `None` if there was nothing to measure.
    pub(super) of: fn(&Summary) -> Option<f64>,
}

/// The figures, the most important first.
pub(super) const FIGURES: [Figure; 5] = [
    Figure { name: "median request", unit: "× ideal", of: |s| s.slowdown.all.p50 },
    Figure { name: "99th percentile request", unit: "× ideal", of: |s| s.slowdown.all.p99 },
    Figure {
        name: "median wait at the bottleneck",
        unit: "ms",
        of: |s| Some(s.bottleneck_queue_ms?.p50),
    },
    Figure {
        name: "99th percentile wait at the bottleneck",
        unit: "ms",
        of: |s| Some(s.bottleneck_queue_ms?.p99),
    },
    Figure { name: "goodput", unit: "Mbit/s", of: |s| Some(s.goodput_mbps) },
];

/// The caption of the table of differences.
pub(super) const CAPTION: &str = "Each arm's median over its seeds, and the change from the first arm of \
    the same path. “(within the seeds' range)” marks a change whose ranges over the seeds overlap: \
    it may be chance.";

/// A figure over the seeds of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    /// The median by nearest rank; of two values the lower.
    pub(super) median: f64,
    pub(super) high: f64,
    seeds: usize,
}

impl Spread {
    pub(super) fn of(figure: &Figure, runs: &[&Analysis]) -> Option<Self> {
        let values: Sorted = runs.iter().filter_map(|run| (figure.of)(&run.summary)).collect();
        let at = |percent| values.percentile(percent);
        Some(Self { low: at(0)?, median: at(50)?, high: at(100)?, seeds: values.len() })
    }

    /// Whether the ranges over the seeds overlap; those of single seeds say nothing.
    fn overlaps(&self, other: &Self) -> bool {
        self.seeds > 1 && other.seeds > 1 && self.low <= other.high && other.low <= self.high
    }
}

/// A change below this share is called none: two runs of one arm differ by as much.
const SAME: f64 = 0.03;

/// Returns the table of differences, with a row for each arm; `None` if no cell has two arms.
pub(super) fn table(groups: &[Group<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    for cell in cells_of(groups).filter(|cell| cell.len() > 1) {
        let base = &cell[0];
        for (number, group) in cell.iter().enumerate() {
            let cells = FIGURES.iter().map(|f| {
                let (Some(own), base) = (Spread::of(f, &group.runs), Spread::of(f, &base.runs))
                else {
                    return String::new();
                };
                match base {
                    Some(base) if number > 0 => changed(&own, &base),
                    _ => figure(own.median),
                }
            });
            rows.push(Row { label: group.name(), cells: cells.collect(), strong: false });
        }
    }
    let columns = FIGURES.iter().map(|f| Column::new(f.name, f.unit)).collect();
    let table = Table { corner: "arm".to_owned(), columns, rows };
    (!table.rows.is_empty()).then(|| table.without_empty_columns())
}

/// A value with its change from `base`.
fn changed(own: &Spread, base: &Spread) -> String {
    let value = figure(own.median);
    let unsure = if own.overlaps(base) { " (within the seeds' range)" } else { "" };
    if base.median == 0.0 {
        return format!("{value}{unsure}");
    }
    let share = own.median / base.median - 1.0;
    let change = if share < 4.0 {
        format!("{:+.0} %", share * 100.0)
    } else {
        format!("×{:.0}", share + 1.0)
    };
    format!("{value}, {change}{unsure}")
}

/// Says in one or two sentences what came out; empty without runs.
pub(super) fn sentence(groups: &[Group<'_>]) -> String {
    let cells: Vec<&[Group<'_>]> = cells_of(groups).collect();
    let compared: Vec<_> = cells.iter().filter(|cell| cell.len() > 1).collect();
    match (cells.as_slice(), compared.as_slice()) {
        ([], _) => String::new(),
        ([one], []) => alone(&one[0]),
        (_, []) => among_cells(groups),
        (_, [cell]) if cells.len() == 1 => {
            let others = cell[1..].iter().map(|arm| against(arm, &cell[0]));
            // More than three arms are read from the table.
            let said: Vec<String> = others.take(3).collect();
            format!("{}.", said.join("; "))
        }
        (_, compared) => over_cells(compared),
    }
}

/// Says what a single arm measured.
fn alone(group: &Group<'_>) -> String {
    let said = FIGURES.iter().filter_map(|f| {
        let value = figure(Spread::of(f, &group.runs)?.median);
        Some(format!("{} {value} {}", f.name, f.unit))
    });
    let said: Vec<String> = said.collect();
    format!("{}: {}.", group.arm, said.join(", "))
}

/// One arm in several cells: the range of the first figure that there is.
fn among_cells(groups: &[Group<'_>]) -> String {
    let of = |f: &'static Figure| {
        let values = groups.iter().filter_map(|g| Some((Spread::of(f, &g.runs)?.median, g)));
        let values: Vec<_> = values.collect();
        let least = values.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let most = values.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!(
            "The {} is between {} {unit} ({}) and {} {unit} ({}).",
            f.name,
            figure(least.0),
            least.1.name(),
            figure(most.0),
            most.1.name(),
            unit = f.unit,
        ))
    };
    FIGURES.iter().find_map(of).unwrap_or_default()
}

/// How `arm` differs from `base`, in the two figures that say most and in goodput if that changed.
fn against(arm: &Group<'_>, base: &Group<'_>) -> String {
    let pair = |f: &Figure| Some((Spread::of(f, &base.runs)?, Spread::of(f, &arm.runs)?));
    let said = |f: &Figure| {
        let (before, after) = pair(f)?;
        let share = after.median / before.median - 1.0;
        let values = format!("{} → {} {}", figure(before.median), figure(after.median), f.unit);
        let unsure = if after.overlaps(&before) { ", within the seeds' range" } else { "" };
        Some(match share {
            s if s.is_nan() || s.abs() < SAME => {
                format!("{} unchanged ({} {})", f.name, figure(after.median), f.unit)
            }
            _ => format!("{} {values}{unsure}", f.name),
        })
    };
    let [request, _, wait, _, goodput] = &FIGURES;
    let parts: Vec<String> = [request, wait, goodput].into_iter().filter_map(said).collect();
    format!("{} against {}: {}", arm.arm, base.arm, parts.join(", "))
}

/// The number of cells in which the first figure of each arm is better, with its range.
fn over_cells(cells: &[&&[Group<'_>]]) -> String {
    let Some(figure_of) = FIGURES.iter().find(|f| {
        cells.iter().flat_map(|cell| cell.iter()).any(|g| Spread::of(f, &g.runs).is_some())
    }) else {
        return String::new();
    };
    let mut arms: Vec<&str> = Vec::new();
    for arm in cells.iter().flat_map(|cell| &cell[1..]).map(|g| g.arm) {
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    let said = arms.iter().take(3).filter_map(|arm| {
        let ratios = cells.iter().filter_map(|cell| {
            let own = cell.iter().find(|g| g.arm == *arm)?;
            let (own, base) =
                (Spread::of(figure_of, &own.runs)?, Spread::of(figure_of, &cell[0].runs)?);
            (base.median > 0.0).then(|| own.median / base.median)
        });
        let ratios: Sorted = ratios.collect();
        let lower = ratios.values().iter().filter(|r| **r < 1.0 - SAME).count();
        Some(format!(
            "{arm}: {} lower than {}'s on {lower} of {} paths, {} to {} times it",
            figure_of.name,
            cells[0][0].arm,
            ratios.len(),
            figure(ratios.percentile(0)?),
            figure(ratios.percentile(100)?),
        ))
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { String::new() } else { format!("{}.", said.join("; ")) }
}

#[cfg(test)]
mod tests {
    use forebay_units::{Nanos, Rate};

    use super::super::runs::groups;
    use super::*;
    use crate::analysis::Slowdown;
    use crate::results::Run;

    fn run(mbps: u64, arm: &str, seed: u64, request: f64, goodput: f64) -> Analysis {
        let mut analysis = Analysis::of(&Run {
            arm: arm.into(),
            seed,
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(mbps),
            base_rtt: Nanos::from_millis(20),
            ..Run::default()
        });
        let all = Slowdown { p50: Some(request), p99: None, count: 9, unfinished: 0 };
        analysis.summary.slowdown.all = all;
        analysis.summary.goodput_mbps = goodput;
        analysis
    }

    #[test]
    fn two_arms_in_a_sentence_and_a_table() {
        let runs = [run(96, "quo", 1, 2.0, 90.0), run(96, "box", 1, 1.0, 90.5)];
        let groups = groups(&runs);
        assert_eq!(
            sentence(&groups),
            "box against quo: median request 2.00 → 1.00 × ideal, goodput unchanged (90.5 Mbit/s)."
        );
        let table = table(&groups).unwrap();
        assert_eq!(table.columns.len(), 2, "no wait and no tail was measured");
        assert_eq!(table.rows[0].cells, ["2.00", "90.0"]);
        assert_eq!(table.rows[1].cells, ["1.00, -50 %", "90.5, +1 %"]);
    }

    #[test]
    fn a_change_within_the_range_of_seeds_is_said() {
        let runs = [
            run(96, "quo", 1, 2.0, 90.0),
            run(96, "quo", 2, 3.0, 90.0),
            run(96, "box", 1, 1.5, 90.0),
            run(96, "box", 2, 2.5, 90.0),
        ];
        assert!(sentence(&groups(&runs)).contains("2.00 → 1.50 × ideal, within the seeds' range"));
        let rows = table(&groups(&runs)).unwrap().rows;
        assert_eq!(rows[1].cells[0], "1.50, -25 % (within the seeds' range)");
    }

    #[test]
    fn one_arm_and_several_paths_have_sentences_too() {
        let one = [run(96, "box", 1, 1.25, 90.0)];
        assert_eq!(
            sentence(&groups(&one)),
            "box: median request 1.25 × ideal, goodput 90.0 Mbit/s."
        );
        assert!(table(&groups(&one)).is_none());
        let paths = [run(8, "box", 1, 1.25, 7.0), run(96, "box", 1, 3.0, 90.0)];
        let said = sentence(&groups(&paths));
        assert!(
            said.starts_with("The median request is between 1.25 × ideal (8 Mbit/s,"),
            "{said}"
        );
        let both = [
            run(8, "quo", 1, 2.0, 7.0),
            run(8, "box", 1, 1.0, 7.0),
            run(96, "quo", 1, 2.0, 90.0),
            run(96, "box", 1, 3.0, 90.0),
        ];
        assert_eq!(
            sentence(&groups(&both)),
            "box: median request lower than quo's on 1 of 2 paths, 0.50 to 1.50 times it."
        );
        assert_eq!(sentence(&[]), "");
    }
}
