//! The tables that every report has.

use super::number::{count, figure, percent};
use super::table::{Column, Row, Table};
use crate::analysis::{Analysis, Differences, Estimates, Sorted, Summary};

/// A column of the table of figures: its heads, its value (`None` if there is nothing to measure),
/// and its format.
type Figure = (&'static str, &'static str, fn(&Summary) -> Option<f64>, fn(f64) -> String);

const FIGURES: [Figure; 9] = [
    ("slowdown", "p50", |s| s.slowdown.all.p50, figure),
    ("slowdown", "p99", |s| s.slowdown.all.p99, figure),
    ("requests", "open", unfinished, whole),
    ("goodput", "Mbit/s", |s| Some(s.goodput_mbps), figure),
    ("bottleneck ms", "p50", |s| Some(s.bottleneck_queue_ms?.p50), figure),
    ("bottleneck ms", "p99", |s| Some(s.bottleneck_queue_ms?.p99), figure),
    ("sendbox ms", "p50", |s| Some(s.sendbox_queue_ms?.p50), figure),
    ("sendbox ms", "p99", |s| Some(s.sendbox_queue_ms?.p99), figure),
    ("drops", "packets", |s| Some(drops(s) as f64), whole),
];

/// The number of requests that were unfinished at the end; `None` without requests.
fn unfinished(s: &Summary) -> Option<f64> {
    (s.requests.offered > 0).then_some(s.requests.unfinished as f64)
}

fn whole(value: f64) -> String {
    count(value as u64)
}

/// The number of packets dropped or lost at any hop, over the whole run.
fn drops(s: &Summary) -> u64 {
    s.hops.iter().map(|h| h.policy_drops.saturating_add(h.lost)).fold(0, u64::saturating_add)
}

/// A run with its name in the report.
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) run: &'a Analysis,
    /// Whether the run is emphasised.
    pub(crate) strong: bool,
}

/// The table of figures, with one row per run.
pub(crate) fn figures(runs: &[Named<'_>]) -> Table {
    let row = |n: &Named<'_>| {
        let cell = |(_, _, value, show): &Figure| value(&n.run.summary).map_or(String::new(), show);
        let cells = FIGURES.iter().map(cell).collect();
        Row { label: n.name.clone(), cells, strong: n.strong }
    };
    Table {
        corner: "arm".to_owned(),
        columns: FIGURES.iter().map(|(group, name, ..)| Column::new(group, name)).collect(),
        rows: runs.iter().map(row).collect(),
    }
}

/// The median of each figure over several seeds, as a row of [`figures`]. By nearest rank, so of
/// two seeds it is the lower.
pub(crate) fn median_row(label: String, runs: &[&Analysis]) -> Row {
    let cell = |(_, _, value, show): &Figure| {
        let values: Sorted = runs.iter().filter_map(|run| value(&run.summary)).collect();
        values.percentile(50).map_or(String::new(), show)
    };
    Row { label, cells: FIGURES.iter().map(cell).collect(), strong: true }
}

/// A quantity that the sendbox estimates: its name, its limit in words, its differences.
type Estimate = (&'static str, String, fn(&Estimates) -> Option<Differences>);

/// The sendbox's estimates compared with the truth: a table for each estimated quantity, with one
/// row per run and one for `pooled` if there are several.
pub(crate) fn estimates(runs: &[Named<'_>], pooled: Option<Estimates>) -> Vec<Table> {
    let rtt = format!("within {} ms", Estimates::RTT_LIMIT);
    let rate = format!("within {} Mbit/s", Estimates::RATE_LIMIT);
    let quantities: [Estimate; 2] = [
        ("RTT less truth, ms", rtt, |e| e.rtt_ms),
        ("R less truth, Mbit/s", rate, |e| e.receive_rate_mbps),
    ];
    quantities.into_iter().filter_map(|estimate| estimated(runs, pooled, estimate)).collect()
}

fn estimated(
    runs: &[Named<'_>],
    pooled: Option<Estimates>,
    (what, within, of): Estimate,
) -> Option<Table> {
    let row = |label: String, estimates: Option<Estimates>, strong| {
        let d = of(&estimates?)?;
        let mut cells = vec![count(d.samples)];
        cells.extend([d.p50, d.absolute_p50, d.absolute_p80, d.absolute_p95].map(figure));
        cells.extend([d.within, d.within_all_ticks].map(percent));
        Some(Row { label, cells, strong })
    };
    let of_run = |n: &Named<'_>| row(n.name.clone(), n.run.summary.estimates, n.strong);
    let mut rows: Vec<Row> = runs.iter().filter_map(of_run).collect();
    if rows.len() > 1 {
        rows.extend(row("all together".to_owned(), pooled, true));
    }
    let columns = [
        ("new", "samples"),
        ("difference", "median"),
        ("absolute difference", "p50"),
        ("absolute difference", "p80"),
        ("absolute difference", "p95"),
        (within.as_str(), "new samples"),
        (within.as_str(), "all ticks"),
    ];
    (!rows.is_empty()).then(|| Table {
        corner: what.to_owned(),
        columns: columns.map(|(group, name)| Column::new(group, name)).to_vec(),
        rows,
    })
}

/// The closed-loop round trips, with one row per run and traffic; `None` if there were none.
pub(crate) fn round_trips(runs: &[Named<'_>]) -> Option<Table> {
    let mut rows = Vec::new();
    for n in runs {
        for (traffic, trips) in &n.run.summary.round_trips_ms {
            let percentiles = [trips.p50, trips.p90, trips.p99];
            let mut cells = percentiles.map(|p| p.map_or(String::new(), figure)).to_vec();
            cells.extend([trips.count, trips.lost].map(count));
            rows.push(Row { label: format!("{}: {traffic}", n.name), cells, strong: n.strong });
        }
    }
    let columns = [
        ("round trip", "p50 ms"),
        ("round trip", "p90 ms"),
        ("round trip", "p99 ms"),
        ("number", "came back"),
        ("number", "lost"),
    ];
    (!rows.is_empty()).then(|| Table {
        corner: "traffic".to_owned(),
        columns: columns.map(|(group, name)| Column::new(group, name)).to_vec(),
        rows,
    })
}

/// The packet counts, with one row per run and hop.
pub(crate) fn accounts(runs: &[Named<'_>]) -> Table {
    let mut rows = Vec::new();
    for n in runs {
        for hop in &n.run.summary.hops {
            let figures =
                [hop.received, hop.sent, hop.policy_drops, hop.local, hop.queued, hop.lost];
            rows.push(Row {
                label: format!("{}: {}", n.name, hop.hop),
                cells: figures.map(count).to_vec(),
                strong: false,
            });
        }
    }
    let columns = ["received", "sent", "dropped", "local", "queued", "lost"];
    Table {
        corner: "hop".to_owned(),
        columns: columns.map(|name| Column::new("frames", name)).to_vec(),
        rows,
    }
}
