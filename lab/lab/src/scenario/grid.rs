//! The cells of an experiment: the cross product of its grid, or cells drawn from it.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_config::{ConfigError, DurationValue, Spanned};
use forebay_sim::{DelayTrace, Trace};
use forebay_units::Nanos;

use super::conditions::{self, above_zero};
use super::draw::DrawTable;
use super::file::{Axis, File, GridTable, KindName};
use super::queue::QueueTable;
use super::rules::{Check, MAX_RTT, MAX_RUNS};
use super::{CongestionName, Path};

/// One cell of the grid.
#[derive(Clone)]
pub(super) struct Cell<'a> {
    pub(super) path: Path,
    /// The position of the cell's rate in the file, for errors that follow from it.
    pub(super) rate_span: Range<usize>,
    /// The path's rate over time, if it is a trace.
    pub(super) trace: Option<Trace>,
    /// The path's one-way delay over time, if it is a trace.
    pub(super) delay_trace: Option<DelayTrace>,
    pub(super) queue: &'a Spanned<QueueTable>,
    pub(super) flows: Option<&'a Spanned<u32>>,
    pub(super) congestion: Option<CongestionName>,
    pub(super) load: Option<&'a Spanned<String>>,
    pub(super) mix: Option<&'a Spanned<Vec<u32>>>,
    pub(super) rtts: Option<&'a Spanned<Vec<DurationValue>>>,
    /// The number of equal ways, from the grid or the path.
    pub(super) ways: Option<&'a Spanned<u32>>,
    /// The labels of the cell, see [`super::Scenario::labels`].
    pub(super) labels: BTreeMap<String, String>,
}

/// Returns the cells that `file` describes; the last axis varies fastest.
pub(super) fn cells<'a>(check: &Check<'_>, file: &'a File) -> Result<Vec<Cell<'a>>, ConfigError> {
    let (path, grid) = (file.path.get_ref(), &file.grid);
    let span = file.path.span();
    let trace = path.trace.as_ref().map(|name| conditions::trace(check, name)).transpose()?;
    let drawn = file.draw.as_ref().map(|draw| drawn(check, file, draw)).transpose()?;
    let rates = match (&drawn, &path.trace, &trace) {
        (Some((lowest, span)), ..) => vec![(lowest.rate, span.clone())],
        (None, Some(name), Some(trace)) => {
            let steps = path.steps.as_ref().map(|s| ("path.steps", s.span()));
            let rate = path.rate.as_ref().map(|r| ("path.rate", r.span()));
            let axis = grid.rate.as_ref().map(|r| ("grid.rate", r.span()));
            if let Some((key, span)) = steps.or(rate).or(axis) {
                return Err(check.0.error_at(span, key, "the trace says how fast: remove it"));
            }
            vec![(trace.mean_rate(), name.span())]
        }
        _ => {
            let rates = required(check, "rate", span.clone(), &path.rate, &grid.rate)?;
            rates.into_iter().map(|rate| (rate.get_ref().0, rate.span())).collect()
        }
    };
    let delays = path.delay_trace.as_ref();
    let delays = delays.map(|name| conditions::delay_trace(check, name)).transpose()?;
    let rtts = match &drawn {
        Some((lowest, _)) => vec![lowest.rtt],
        None => rtts(check, file, delays.as_ref())?,
    };
    let queues = required(check, "queue", span, &path.queue, &grid.queue)?;
    let flows = optional(check, "flows", &grid.flows)?;
    let congestions = optional(check, "congestion", &grid.congestion)?;
    let loads = optional(check, "load", &grid.load)?;
    let mixes = optional(check, "mix", &grid.mix)?;
    let own_rtts = optional(check, "rtts", &grid.rtts)?;
    let bulks = file.traffic.iter().filter(|t| t.get_ref().kind == KindName::Bulk).count();
    for (key, lists) in [
        ("grid.mix", mixes.iter().flatten().map(|m| (m.span(), m.get_ref().len())).collect()),
        ("grid.rtts", own_rtts.iter().flatten().map(|r| (r.span(), r.get_ref().len())).collect()),
    ] as [(&str, Vec<_>); 2]
    {
        if let Some((span, _)) = lists.into_iter().find(|(_, len)| *len != bulks) {
            let what =
                format!("must have one for each \"bulk\" traffic, of which there are {bulks}");
            return Err(check.0.error_at(span, key, what));
        }
    }
    let ways = match (&path.ways, &grid.ways) {
        (Some(own), Some(_)) => {
            let what = "stands here and in [grid]: remove one";
            return Err(check.0.error_at(own.span(), "path.ways", what));
        }
        (Some(own), None) => vec![Some(own)],
        (None, _) => optional(check, "ways", &grid.ways)?,
    };
    let sizes = [
        rates.len(),
        rtts.len(),
        queues.len(),
        flows.len(),
        congestions.len(),
        loads.len(),
        mixes.len(),
        own_rtts.len(),
        ways.len(),
    ];
    let cells = sizes.iter().fold(1, |cells: usize, n| cells.saturating_mul(*n));
    if cells > MAX_RUNS {
        let what = format!("the grid has {cells} cells, {MAX_RUNS} are allowed");
        return Err(check.0.error_at(file.name.span(), "grid", what));
    }
    let mut cells = Vec::new();
    for (rate, rate_span) in &rates {
        above_zero(check, *rate, rate_span.clone(), "path.rate")?;
        for rtt in &rtts {
            let path = Path { rate: *rate, rtt: *rtt };
            let mut of_path = vec![Cell {
                path,
                rate_span: rate_span.clone(),
                trace: trace.clone(),
                delay_trace: delays.clone(),
                queue: queues[0],
                flows: None,
                congestion: None,
                load: None,
                mix: None,
                rtts: None,
                ways: None,
                labels: BTreeMap::new(),
            }];
            let all = &mut of_path;
            along(all, &queues, |cell, queue| cell.queue = queue);
            along(all, &flows, |cell, flows| cell.flows = *flows);
            along(all, &congestions, |cell, c| cell.congestion = c.map(|c| *c.get_ref()));
            along(all, &loads, |cell, load| cell.load = *load);
            along(all, &mixes, |cell, mix| cell.mix = *mix);
            along(all, &own_rtts, |cell, rtts| cell.rtts = *rtts);
            along(all, &ways, |cell, ways| cell.ways = *ways);
            of_path.iter_mut().for_each(|cell| cell.labels = labels(grid, cell));
            cells.append(&mut of_path);
        }
    }
    Ok(match &file.draw {
        Some(draw) => draw.cells(&cells),
        None => cells,
    })
}

/// Checks `[draw]`. Returns the lowest values of its ranges, and the position of its rates.
fn drawn(
    check: &Check<'_>,
    file: &File,
    draw: &DrawTable,
) -> Result<(Path, Range<usize>), ConfigError> {
    let (path, grid) = (file.path.get_ref(), &file.grid);
    let given = [
        ("path.rate", path.rate.as_ref().map(Spanned::span)),
        ("path.rtt", path.rtt.as_ref().map(Spanned::span)),
        ("path.trace", path.trace.as_ref().map(Spanned::span)),
        ("path.delay_trace", path.delay_trace.as_ref().map(Spanned::span)),
        ("grid.rate", grid.rate.as_ref().map(Spanned::span)),
        ("grid.rtt", grid.rtt.as_ref().map(Spanned::span)),
    ];
    match given.into_iter().find_map(|(key, span)| Some((key, span?))) {
        Some((key, span)) => Err(check.0.error_at(span, key, "is drawn: remove it, or [draw]")),
        None => Ok((draw.lowest(check)?, draw.rate.span())),
    }
}

/// The round-trip times of the empty path: twice the shortest delay of the trace, or those that
/// the file gives.
fn rtts(
    check: &Check<'_>,
    file: &File,
    delays: Option<&DelayTrace>,
) -> Result<Vec<Nanos>, ConfigError> {
    let (path, grid, span) = (file.path.get_ref(), &file.grid, file.path.span());
    if let Some(delays) = delays {
        let rtt = path.rtt.as_ref().map(|r| ("path.rtt", r.span()));
        let axis = grid.rtt.as_ref().map(|r| ("grid.rtt", r.span()));
        if let Some((key, span)) = rtt.or(axis) {
            return Err(check.0.error_at(span, key, "the delay_trace says how long: remove it"));
        }
        return Ok(vec![delays.shortest().saturating_add(delays.shortest())]);
    }
    let rtts = required(check, "rtt", span, &path.rtt, &grid.rtt)?;
    if let Some(rtt) = rtts.iter().find(|rtt| rtt.get_ref().0 > MAX_RTT) {
        return Err(check.0.error_at(rtt.span(), "path.rtt", "must be at most 2 s"));
    }
    Ok(rtts.into_iter().map(|rtt| rtt.get_ref().0).collect())
}

/// Replaces each cell by one cell for each of `values` of an axis.
fn along<'a, T>(cells: &mut Vec<Cell<'a>>, values: &[T], set: impl Fn(&mut Cell<'a>, &T)) {
    let with = |cell: &Cell<'a>| {
        let mut each = vec![cell.clone(); values.len()];
        each.iter_mut().zip(values).for_each(|(cell, value)| set(cell, value));
        each
    };
    *cells = cells.iter().flat_map(with).collect();
}

/// Joins values to a label such as `1-10`.
fn joined(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join("-")
}

/// The labels of `cell`: its values on the grid's axes other than the path's rate and round-trip
/// time.
fn labels(grid: &GridTable, cell: &Cell<'_>) -> BTreeMap<String, String> {
    let queue = grid.queue.is_some().then(|| cell.queue.get_ref().queue().to_string());
    let ways = cell.ways.filter(|_| grid.ways.is_some());
    [
        ("queue", queue),
        ("flows", cell.flows.map(|n| n.get_ref().to_string())),
        ("congestion", cell.congestion.map(|c| c.name().to_owned())),
        ("load", cell.load.map(|l| l.get_ref().clone())),
        ("mix", cell.mix.map(|m| joined(m.get_ref().iter().map(u32::to_string)))),
        ("rtts", cell.rtts.map(|r| joined(r.get_ref().iter().map(ms)) + " ms")),
        ("ways", ways.map(|n| n.get_ref().to_string())),
    ]
    .into_iter()
    .filter_map(|(axis, value)| Some((axis.to_owned(), value?)))
    .collect()
}

fn ms(time: &DurationValue) -> String {
    time.0.as_millis_f64().to_string()
}

/// The values of a parameter of the path, which is either in `[path]` or in `[grid]`.
fn required<'a, T>(
    check: &Check<'_>,
    key: &str,
    path_span: Range<usize>,
    single: &'a Option<Spanned<T>>,
    grid: &'a Axis<T>,
) -> Result<Vec<&'a Spanned<T>>, ConfigError> {
    match (single, grid) {
        (Some(value), None) => Ok(vec![value]),
        (Some(value), Some(_)) => {
            let what = "stands here and in [grid]: remove one";
            Err(check.0.error_at(value.span(), format!("path.{key}"), what))
        }
        (None, None) => {
            let what = format!("missing: give {key} here or in [grid]");
            Err(check.0.error_at(path_span, format!("path.{key}"), what))
        }
        (None, Some(_)) => Ok(optional(check, key, grid)?.into_iter().flatten().collect()),
    }
}

/// The values of an axis; a single `None` if the grid does not have the axis.
fn optional<'a, T>(
    check: &Check<'_>,
    key: &str,
    grid: &'a Axis<T>,
) -> Result<Vec<Option<&'a Spanned<T>>>, ConfigError> {
    match grid {
        None => Ok(vec![None]),
        Some(values) if values.get_ref().is_empty() => {
            Err(check.0.error_at(values.span(), format!("grid.{key}"), "must not be empty"))
        }
        Some(values) => Ok(values.get_ref().iter().map(Some).collect()),
    }
}
