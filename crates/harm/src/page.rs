//! The map's page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::map::{HarmMap, Judged};
use crate::verdict::Criterion;

/// The directory of a map's cells beside its page.
const CELLS: &str = "cells";

/// The cells that the page tells the story of.
const STORIES: usize = 12;

/// Decisions that a story has.
const DECISIONS: usize = 5;

/// The page of `map`, which `command` makes.
pub(crate) fn write(map: &HarmMap, command: &str) -> String {
    let mut page = String::new();
    let total = map.cells.len();
    let share = |n: usize| 100.0 * n as f64 / total.max(1) as f64;
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "# The harm map\n\n**{} of {total} cells ({:.1} %) are worse with Forebay than without a box.** \
         {} more are worse, and would be so with the same policy at the bottleneck itself.\n\n\
         Made by `{command}`; engine `{}`, {} seeds a cell. A cell is run again by \
         `forebay lab run {CELLS}/NAME.toml --engine {}`.\n\n\
         A cell is worse if the bundle has a goodput below 0.97 of that without a box (0.90 beside \
         traffic of others), a median slowdown above 1.05 times, a 99th percentile above 1.10 times, \
         more unfinished requests, or waits at the bottleneck (99th percentile) of more than 1.1 \
         times and 2 ms.\n\n![Each cell by its rate and round trip](harm.svg)\n\n## By family\n\n\
         | family | cells | worse | by policy | goodput, least | median, most | 99th, most |\n\
         |---|---|---|---|---|---|---|\n",
        map.worse(),
        share(map.worse()),
        map.worse_by_policy(),
        map.engine,
        map.seeds,
        map.engine,
    );
    let mut families: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for cell in &map.cells {
        families.entry(cell.cell.family.name()).or_default().push(cell);
    }
    for (name, cells) in families {
        let worse = cells.iter().filter(|c| c.verdict.is_worse()).count();
        let by_policy = cells.iter().filter(|c| c.verdict.is_worse_by_policy()).count();
        let goodput = cells.iter().map(|c| c.goodput()).fold(f64::INFINITY, f64::min);
        let most =
            |of: fn(&Judged) -> Option<f64>| cells.iter().filter_map(|c| of(c)).fold(0.0, f64::max);
        let _ = writeln!(
            page,
            "| {name} | {} | {worse} | {by_policy} | {goodput:.2} | {:.2} | {:.2} |",
            cells.len(),
            most(Judged::median),
            most(Judged::tail)
        );
    }
    let worst = map.worst_first();
    page.push_str("\n## All cells that are worse\n\nRatios are Forebay's figures over those without a box.\n\n");
    page.push_str("| cell | path | goodput | median | 99th | unfinished | wait |\n|---|---|---|---|---|---|---|\n");
    for cell in &worst {
        row(&mut page, cell);
    }
    page.push_str("\n## The worst cells, as their events tell them\n\n");
    for cell in worst.iter().take(STORIES) {
        let _ = writeln!(page, "- `{}` ({}):", cell.cell.file_name(), cell.cell);
        for decision in cell.decisions.iter().take(DECISIONS) {
            let _ = writeln!(page, "  - {decision}");
        }
        if cell.decisions.is_empty() {
            page.push_str("  - no change of mode\n");
        }
    }
    page
}

fn row(page: &mut String, judged: &Judged) {
    let ratio = |criterion, value: Option<f64>| {
        let bold = judged.verdict.ratio(criterion).is_some();
        match value {
            Some(value) if bold => format!("**{value:.2}**"),
            Some(value) => format!("{value:.2}"),
            None => "-".to_owned(),
        }
    };
    let unfinished = judged.forebay.unfinished as i64 - judged.status_quo.unfinished as i64;
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {} | {} | {unfinished:+} | {} |",
        judged.cell.file_name(),
        judged.cell,
        ratio(Criterion::Goodput, Some(judged.goodput())),
        ratio(Criterion::Median, judged.median()),
        ratio(Criterion::Tail, judged.tail()),
        ratio(Criterion::Wait, Some(judged.wait())),
    );
}
