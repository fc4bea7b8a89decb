//! The map's page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::map::{HarmMap, Judged};
use crate::verdict::{
    Criterion, GOODPUT, MEDIAN, SHARE, TAIL, TAIL_SAMPLES, UNFINISHED, UNFINISHED_SHARE, WAIT,
    WAIT_MS,
};

/// The directory of a map's cells beside its page.
const CELLS: &str = "cells";

/// Number of cells whose events the page lists.
const WORST: usize = 12;

/// Number of events listed for a cell.
const EVENTS: usize = 5;

/// Returns the page of `map`, which `command` makes.
pub(crate) fn write(map: &HarmMap, command: &str) -> String {
    let mut page = String::new();
    let total = map.cells.len();
    let looks = looks(map);
    let share = |n: usize| 100.0 * n as f64 / total.max(1) as f64;
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "# The harm map\n\n\
         A cell is one path with its traffic.\n\
         **{} of {total} cells ({:.1} %) are worse with Forebay than without a box.**\n\
         {} more are worse than one of two runs without a box, and not than the other: that is \
         chance.\n\
         {} more are worse, and are so with the same policy at the bottleneck itself too.\n\
         Between the two runs without a box, {} cells are worse.\n\
         {looks}\n\n\
         The map was made by `{command}`.\n\
         Run a cell again with `forebay lab run {CELLS}/NAME.toml --engine {}`.\n\n\
         A cell is worse if one of these holds, compared with two runs of the same path without a \
         box. The second has room for one packet more at the bottleneck.\n\n\
         - The bundle's goodput is below {GOODPUT} times ({SHARE} beside traffic of others).\n\
         - The median slowdown of requests, or round trip of loops, is above {MEDIAN} times.\n\
         - The 99th percentile of either is above {TAIL} times, with {TAIL_SAMPLES} requests at \
         least.\n\
         - More requests are unfinished, by more than {UNFINISHED} and {UNFINISHED_SHARE} of all.\n\
         - The 99th percentile of waits at the bottleneck is above {WAIT} times plus {WAIT_MS} \
         ms.\n\n\
         ![Each cell by its rate and round trip](harm.svg)\n\n## By family\n\n\
         | family | cells | worse | by policy | goodput, least | median, most | 99th, most |\n\
         |---|---|---|---|---|---|---|\n",
        map.worse(),
        share(map.worse()),
        map.worse_by_chance(),
        map.worse_by_policy(),
        map.control_worse(),
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
    page.push_str("\n## The worst cells and what their control loops did\n\n");
    for cell in worst.iter().take(WORST) {
        let _ = writeln!(page, "- `{}` ({}):", cell.cell.file_name(), cell.cell);
        for decision in cell.decisions.iter().take(EVENTS) {
            let _ = writeln!(page, "  - {decision}");
        }
        if cell.decisions.is_empty() {
            page.push_str("  - no change of mode\n");
        }
    }
    page
}

/// How many seeds decide on a cell.
fn looks(map: &HarmMap) -> String {
    let (first, again) = (map.seeds, map.confirm);
    if again == 0 {
        return format!("Each cell ran with {first} seeds.");
    }
    let repeated = map.cells.iter().filter(|c| *c.seeds.start() > 1).count();
    format!(
        "Each cell ran with {first} seeds. In {repeated} cells Forebay or the second run without a \
         box looked worse. These ran with {again} further seeds, which decide."
    )
}

fn row(page: &mut String, judged: &Judged) {
    let ratio = |criterion, value: Option<f64>| {
        // A verdict's ratio may be that of round trips, which the value is not.
        match (judged.verdict.ratio(criterion), value) {
            (Some(worse), _) => format!("**{worse:.2}**"),
            (None, Some(value)) => format!("{value:.2}"),
            (None, None) => "-".to_owned(),
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
