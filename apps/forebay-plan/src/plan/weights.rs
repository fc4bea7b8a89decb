//! `forebay plan weights`: metrics of OSPF or IS-IS in place of the plan's paths.

use std::fmt::Write as _;

use forebay_cli::terminal::{note, print_beside};
use forebay_plan::input::{self, MAX_FILE};
use forebay_plan::network::Network;
use forebay_plan::plan::{Config, Scope};
use forebay_plan::topology::{LinkId, RouterId, Topology};
use forebay_plan::weights::{Range, Report, Search, search};
use forebay_serve::igp::{self, How, Made, Session};
use serde_json::json;

use super::{Failure, Inputs, inputs, interrupt, method, write, write_json};
use crate::cli::WeightsArgs;

/// Changes that a dry run prints one by one.
const ROWS: usize = 200;

/// The metrics that links are to have, and why.
struct Wanted {
    metrics: Vec<(LinkId, u32)>,
    reason: String,
}

pub(super) fn run(args: &WeightsArgs) -> Result<(), Failure> {
    let Inputs { network, .. } = inputs(&args.network)?;
    let config = args.routers.as_deref().map(igp::config::Config::load).transpose()?;
    if let (Some(config), true) = (&config, args.withdraw) {
        let interrupt = interrupt()?;
        let session = Session { config, network: &network };
        return igp::withdraw(&session, &|| interrupt.is_raised(), &mut tell).map_err(cause);
    }
    let range = range(args, config.as_ref(), &network)?;
    let (wanted, report) = match &args.metrics {
        Some(file) => {
            let text = forebay_input::text(file, MAX_FILE)?;
            let metrics = input::metrics(file, &text, &network.topology, range)?;
            (Wanted { metrics, reason: format!("as in {}", file.display()) }, None)
        }
        None => {
            let report = find(args, &network, range)?;
            print_beside(args.json.as_deref(), &report.to_string())?;
            if let Some(out) = &args.out {
                write(out, &report.csv())?;
            }
            (wanted(&report, args.gain), Some(report))
        }
    };
    let mut changes = None;
    if let Some(config) = &config {
        let session = Session { config, network: &network };
        let looked = igp::look(&session, &wanted.metrics).map_err(cause)?;
        let now = igp::now();
        let damped = igp::damped_for(&session, now).map_err(cause)?;
        if !args.apply || args.json.is_none() {
            let mut text = text(&session, &looked, args.apply);
            if let (Some(wait), false) = (damped, looked.order.steps.is_empty()) {
                let minutes = wait.as_secs().div_ceil(60);
                let _ = writeln!(text, "Changed too often: changes are refused for {minutes} min.");
            }
            print_beside(args.json.as_deref(), &text)?;
        }
        let steps: Vec<String> = looked.order.steps.iter().map(|s| session.words(s)).collect();
        changes = Some(json!({
            "changes": steps,
            "differing": looked.differing,
            "overloads": looked.order.overloads().len(),
            "reason": wanted.reason,
        }));
        if args.apply {
            let interrupt = interrupt()?;
            let how = How { reason: &wanted.reason, anyway: args.anyway, now };
            igp::apply(&session, &looked, how, &|| interrupt.is_raised(), &mut tell)
                .map_err(cause)?;
        }
    }
    match &args.json {
        None => Ok(()),
        Some(json) => {
            let mut value = report.map_or(Ok(json!({ "version": 1 })), serde_json::to_value)?;
            if let Some(changes) = changes {
                value["routers"] = changes;
            }
            write_json(json, &value)
        }
    }
}

/// Returns the metrics that links may get: those of the routers, or those of OSPF without any, up
/// to the highest that the user wants.
fn range(
    args: &WeightsArgs,
    config: Option<&igp::config::Config>,
    network: &Network,
) -> Result<Range, Failure> {
    let range = match config {
        None => Range { metric: args.most_metric.unwrap_or(Range::OSPF.metric), ..Range::OSPF },
        Some(config) => igp::range(&Session { config, network }).map_err(cause)?,
    };
    match args.most_metric {
        Some(most) if most > range.metric => Err(format!(
            "--most-metric {most} is above {}, the highest metric of the routers",
            range.metric
        )
        .into()),
        Some(metric) => Ok(Range { metric, ..range }),
        None => Ok(range),
    }
}

/// Checks that the present metrics are in the range, since those that do not change stay.
fn check_present(topology: &Topology, range: Range) -> Result<(), Failure> {
    let Some(link) = topology.links().iter().find(|link| link.metric > range.metric) else {
        return Ok(());
    };
    let name = |router: RouterId| &topology.routers()[router.index()].name;
    let message = format!(
        "the link from {} to {} has the metric {} in the topology, and the highest is {}: divide \
         all metrics of the topology by the same number, or raise --most-metric",
        name(link.from),
        name(link.to),
        link.metric,
        range.metric
    );
    Err(message.into())
}

fn find(args: &WeightsArgs, network: &Network, range: Range) -> Result<Report, Failure> {
    check_present(&network.topology, range)?;
    let limit = args.network.aggregates.get();
    let flows = network.demands.len();
    // Metrics change the paths to all routers, so that the network cannot be reduced.
    if flows > limit {
        let message = format!(
            "there are {flows} demands, more than the {limit} of --aggregates: raise it, and expect \
             a longer search"
        );
        return Err(message.into());
    }
    let config = Config {
        method: method(&args.network),
        scope: Scope::All,
        sub_flows: None,
        paths: args.network.paths,
    };
    let (moves, passes) = (args.moves.get(), args.passes.get());
    let wanted = Search { moves, passes, seed: args.seed, few: args.few, range };
    Ok(search(network, &config, &wanted)?)
}

/// Returns the metrics of a report that are worth a change: those that are found if they carry more
/// by `gain` of the demand, and the present ones otherwise.
fn wanted(report: &Report, gain: f64) -> Wanted {
    let more = report.metrics - report.hints;
    let is_worth = more > 0.0 && more >= gain * report.demand;
    let links = report.links.iter().zip(0..);
    let metrics =
        links.map(|(link, id)| (LinkId(id), if is_worth { link.metric } else { link.present }));
    let rate = |bps: f64| format!("{:.3} Mbit/s", bps / 1e6);
    let reason = match is_worth {
        true => format!(
            "with hints it carries {} instead of {}",
            rate(report.metrics),
            rate(report.hints)
        ),
        false => format!(
            "the metrics found carry {} more than the present ones, which is less than --gain",
            rate(more.max(0.0))
        ),
    };
    Wanted { metrics: metrics.collect(), reason }
}

/// Describes what would change at the routers.
fn text(session: &Session<'_>, looked: &igp::Looked, apply: bool) -> String {
    let order = &looked.order;
    let mut text = String::new();
    for line in looked.differing.iter().take(ROWS) {
        let _ = writeln!(text, "note: {line}");
    }
    let _ = writeln!(text, "now: {}", session.fullest(&order.before));
    let would = if apply { "will set" } else { "would set" };
    for step in order.steps.iter().take(ROWS) {
        let _ = writeln!(text, "{would} {}", session.words(step));
    }
    for hidden in [looked.differing.len(), order.steps.len()] {
        if let Some(more @ 1..) = hidden.checked_sub(ROWS) {
            let _ = writeln!(text, "and {more} more");
        }
    }
    let changes = order.steps.len();
    let overloads = order.overloads().len();
    if overloads > 0 {
        let _ = writeln!(
            text,
            "{overloads} of {changes} changes overload a link until the last is made: --few may \
             avoid that"
        );
    }
    if !apply {
        let _ =
            writeln!(text, "{changes} changes. Nothing was changed; `--apply` carries them out.");
    }
    text
}

fn tell(made: Made) {
    note(&format!("{} of {}: set {}", made.number, made.of, made.text));
}

/// Returns the failure of the command, whose status says whether the user's files are wrong.
fn cause(error: igp::Error) -> Failure {
    match error {
        igp::Error::Config(e) => e.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_plan::weights::Change;

    use super::*;

    #[test]
    fn present_metrics_beyond_the_range_are_refused() {
        let text = r#"{"directed": true,
            "nodes": [{"id": 1, "label": "a"}, {"id": 2, "label": "b"}],
            "links": [{"source": 1, "target": 2, "metric": 64}]}"#;
        let topology = input::topology("t.json".as_ref(), text).unwrap();
        let error = check_present(&topology, Range::NARROW).unwrap_err().to_string();
        assert!(error.contains("from a to b has the metric 64") && error.contains("63"), "{error}");
        assert!(check_present(&topology, Range { metric: 64, ..Range::NARROW }).is_ok());
    }

    #[test]
    fn metrics_that_carry_hardly_more_change_nothing() {
        let link = |metric| Change { from: "a".into(), to: "b".into(), present: 1, metric };
        let report = Report {
            version: 1,
            network: String::new(),
            demand: 100e6,
            present: 50e6,
            hints: 80e6,
            metrics: 81e6,
            joint: 90e6,
            ties: 0,
            links: vec![link(7)],
        };
        assert_eq!(wanted(&report, 0.01).metrics, [(LinkId(0), 7)]);
        let stay = wanted(&report, 0.011);
        assert_eq!(stay.metrics, [(LinkId(0), 1)]);
        assert!(stay.reason.contains("1.000 Mbit/s more"), "{}", stay.reason);
        let same = wanted(&Report { metrics: 80e6, ..report }, 0.0);
        assert_eq!(same.metrics, [(LinkId(0), 1)]);
    }
}
