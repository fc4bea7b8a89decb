//! A study as one HTML page: pictures before tables, and each figure from the measured points.

use std::collections::BTreeMap;

use forebay_lab::report::markup::{details, page, section};
use forebay_picture::number::{count, figure, percent, setting};
use maud::{Markup, PreEscaped, html};

use super::Report;
use super::chart::{Chart, Curve};
use crate::findings::{Finding, main_series};
use crate::measure::{Measured, Outcome};
use crate::point::Point;
use crate::probe::functions;

/// The most functions of a table.
const FUNCTIONS: usize = 15;
/// The most curves of a chart: there are six colours.
const CURVES: usize = 6;

pub(super) fn html(report: &Report<'_>) -> String {
    let seen: Vec<_> = report.findings.iter().filter(|f| f.seen).collect();
    let unseen: Vec<_> = report.findings.iter().filter(|f| !f.seen).collect();
    let lead =
        report.findings.first().map_or("No point was measured.".to_owned(), Finding::sentence);
    let body = html! {
        (tiles(report))
        (section("Findings", html! {
            ul { @for f in seen { li { (f.sentence()) " " span class="soft" { "(" (f.of) ")" } } } }
            @if !unseen.is_empty() {
                (details("What the study of 2021 saw and this one did not", html! {
                    ul { @for f in unseen {
                        li { (f.sentence()) " " span class="soft" { "(" (f.of) ")" } }
                    } }
                }))
            }
        }))
        (section("Against the number of flows", against_flows(report)))
        (section("Congestion control and loss", congestion(report)))
        (section("Fairness", fairness(report)))
        (section("The length of the queue", queue_length(report)))
        (section("Time in the kernel", kernel_time(report)))
        (section("All figures", tables(report)))
        (section("How it was measured", method(report)))
    };
    page("Forebay, the cost of many connections", &lead, body)
}

fn tiles(report: &Report<'_>) -> Markup {
    let main = main_series(&report.results.outcomes);
    let Some(last) = main.last() else { return html! {} };
    let m = &last.measured;
    let tiles = [
        (
            count(u64::from(last.point.flows)),
            "connections at the most in the main series".to_owned(),
        ),
        (format!("{} Mbit/s", figure(m.goodput_mbps)), limit_of(&last.point)),
        (percent(m.busy()), format!("of {} processors, with both ends on them", m.cpu.cores.len())),
        (format!("{} ms", figure(m.rtt_ms.p50)), "median round trip".to_owned()),
        (format!("{} B", figure(m.segment_bytes)), "in a segment of the interface".to_owned()),
        (format!("{} kB", figure(m.memory_per_flow / 1000.0)), "memory per flow".to_owned()),
    ];
    html! {
        ul class="tiles" {
            @for (value, what) in tiles { li { b { (value) } span { (what) } } }
        }
    }
}

fn limit_of(point: &Point) -> String {
    if point.rate_mbps > 0.0 {
        format!("received, of a link of {} Mbit/s", setting(point.rate_mbps))
    } else {
        "received, without a limit".to_owned()
    }
}

/// The curves of `of` against flows, for the series that `wanted` accepts.
fn curves(
    report: &Report<'_>,
    wanted: impl Fn(&Point) -> bool,
    of: impl Fn(&Measured) -> Option<f64>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for outcome in report.results.outcomes.iter().filter(|o| wanted(&o.point)) {
        let Some(value) = of(&outcome.measured) else { continue };
        let at = (f64::from(outcome.point.flows), value);
        match curves.iter().position(|curve| curve.name == outcome.point.series) {
            Some(index) => curves[index].points.push(at),
            None => curves.push(Curve { name: outcome.point.series.clone(), points: vec![at] }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    // A series at one number of flows is one that varies something else.
    curves.retain(|curve| curve.points.iter().any(|point| point.0 != curve.points[0].0));
    curves.truncate(CURVES);
    curves
}

/// Charts side by side, with a sentence below.
fn panels(charts: Vec<(&str, Option<String>)>, caption: &str) -> Markup {
    let charts: Vec<_> = charts.into_iter().filter_map(|(name, svg)| Some((name, svg?))).collect();
    if charts.is_empty() {
        return html! { p class="soft" { "This study has no points for it." } };
    }
    html! {
        figure {
            div class="panels" {
                @for (name, svg) in charts { div { h3 { (name) } (PreEscaped(svg)) } }
            }
            figcaption { (caption) }
        }
    }
}

fn without_loss(point: &Point) -> bool {
    point.loss == 0.0
}

fn against_flows(report: &Report<'_>) -> Markup {
    let chart = |id: &str, title: &str, unit: &str, log, of: &dyn Fn(&Measured) -> Option<f64>| {
        let curves = curves(report, without_loss, of);
        Chart { id, title, unit, bottom: "flows", log, curves }.draw()
    };
    panels(
        vec![
            (
                "Throughput (figure 5.2a)",
                chart("goodput", "Throughput", "Mbit/s", false, &|m| Some(m.goodput_mbps)),
            ),
            (
                "Processor time (figure 5.2b)",
                chart("cpu", "Processor time", "%", false, &|m| Some(m.busy() * 100.0)),
            ),
            (
                "Median round trip (figure 5.2c)",
                chart("rtt", "Median round trip", "ms", true, &|m| Some(m.rtt_ms.p50)),
            ),
            (
                "Packets sent again (figure 5.2d)",
                chart("again", "Packets sent again", "%", false, &|m| {
                    Some(m.retransmitted * 100.0)
                }),
            ),
            (
                "Size of segments (section 5.3.1)",
                chart("bytes", "Size of segments", "bytes", true, &|m| Some(m.segment_bytes)),
            ),
            (
                "Cost of a gigabit",
                chart("cost", "Cost of a gigabit", "s", true, &Measured::cpu_per_gbit),
            ),
            (
                "ACKs (figure 5.9)",
                chart("acks", "ACKs", "1000/s", false, &|m| Some(m.acks_per_s / 1000.0)),
            ),
            (
                "Receive softirqs (figure 5.9)",
                chart("softirqs", "Receive softirqs", "1000/s", false, &|m| {
                    Some(m.cpu.net_rx_per_s / 1000.0)
                }),
            ),
        ],
        "Processor time is that of all cores together, without that of other programs. A segment \
         is what the interface gets at once: with offloads up to 64 KiB. The cost of a gigabit is \
         the time of all cores for 1000 megabits of received data. The interface between \
         namespaces has no hardware interrupts; its softirqs take their place.",
    )
}

fn congestion(report: &Report<'_>) -> Markup {
    let outcomes = &report.results.outcomes;
    let plain = |p: &Point| p.paced.is_none() && p.offload && p.tso_rtt_log.is_none();
    let main = main_series(outcomes);
    let queue = main.first().map(|o| (o.point.qdisc.clone(), o.point.limit));
    let chart = |id: &str, lossy: bool| {
        let wanted = |p: &Point| {
            (p.loss > 0.0) == lossy && plain(p) && queue == Some((p.qdisc.clone(), p.limit))
        };
        let mut curves = curves(report, wanted, |m| Some(m.segments_per_s / 1000.0));
        for curve in &mut curves {
            let found = outcomes.iter().find(|o| o.point.series == curve.name);
            if let Some(found) = found {
                curve.name.clone_from(&found.point.congestion);
            }
        }
        let (title, unit) = ("Segments in a second", "1000/s");
        Chart { id, title, unit, bottom: "flows", log: false, curves }.draw()
    };
    panels(
        vec![
            ("Without loss (figure 5.4)", chart("cc0", false)),
            ("With loss (figure 5.3)", chart("cc5", true)),
        ],
        "Segments that the interface got in a second. The receiver's interface loses arriving \
         segments at random.",
    )
}

fn fairness(report: &Report<'_>) -> Markup {
    let outcomes = &report.results.outcomes;
    let main = main_series(outcomes);
    let mut chosen: Vec<&Outcome> = main.iter().step_by((main.len() / 3).max(1)).copied().collect();
    chosen.extend(main.last().filter(|last| chosen.last() != Some(*last)));
    let paced = outcomes.iter().filter(|o| o.point.paced.is_some() && o.point.loss == 0.0);
    chosen.extend(paced.max_by_key(|o| o.point.flows));
    chosen.truncate(CURVES);
    let curves = chosen.iter().map(|o| {
        let mean = o.measured.rates.mean.max(1.0);
        let points = o.measured.rate_curve.iter();
        // A flow without any rate is drawn at a fiftieth of the mean.
        let points = points.map(|(rate, share)| ((rate / mean).max(0.02), share * 100.0));
        let paced = if o.point.paced.is_some() { ", paced" } else { "" };
        Curve {
            name: format!("{} flows{paced}", count(u64::from(o.point.flows))),
            points: points.collect(),
        }
    });
    let cdf = Chart {
        id: "rates",
        title: "Rates of flows",
        unit: "% of flows",
        bottom: "rate over the mean rate",
        log: false,
        curves: curves.collect(),
    };
    let curves = curves_of_jain(report);
    let jain =
        Chart { id: "jain", title: "Jain's index", unit: "", bottom: "flows", log: false, curves };
    panels(
        vec![
            ("Rates of flows (figure 5.5)", cdf.draw()),
            ("Jain's index, 1 is equal", jain.draw()),
        ],
        "Rates are those of a sample of at most 4096 flows over the measured time. A flow that got \
         less than a fiftieth of the mean is drawn there.",
    )
}

fn curves_of_jain(report: &Report<'_>) -> Vec<Curve> {
    curves(report, without_loss, |m| Some(m.rates.jain))
}

fn queue_length(report: &Report<'_>) -> Markup {
    let mut groups: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in &report.results.outcomes {
        groups.entry(&outcome.point.series).or_default().push(outcome);
    }
    groups.retain(|_, points| {
        points.iter().any(|o| o.point.limit != points[0].point.limit)
            && points.iter().all(|o| o.point.flows == points[0].point.flows)
    });
    let chart = |id: &str, title: &str, unit: &str, log, of: &dyn Fn(&Measured) -> f64| {
        let curves = groups.values().take(CURVES).map(|points| {
            let mut values: Vec<_> =
                points.iter().map(|o| (f64::from(o.point.limit), of(&o.measured))).collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = format!("{} flows", count(u64::from(points[0].point.flows)));
            Curve { name, points: values }
        });
        let curves = curves.collect();
        Chart { id, title, unit, bottom: "length in packets", log, curves }.draw()
    };
    panels(
        vec![
            (
                "Processor time (figure 5.6)",
                chart("qcpu", "Processor time", "%", false, &|m| m.busy() * 100.0),
            ),
            (
                "Cost of a gigabit",
                chart("qcost", "Cost of a gigabit", "s", false, &|m| {
                    m.cpu_per_gbit().unwrap_or(f64::NAN)
                }),
            ),
            ("Throughput", chart("qgoodput", "Throughput", "Mbit/s", false, &|m| m.goodput_mbps)),
            (
                "Median round trip",
                chart("qrtt", "Median round trip", "ms", true, &|m| m.rtt_ms.p50),
            ),
        ],
        "The same load at queues of different lengths.",
    )
}

fn kernel_time(report: &Report<'_>) -> Markup {
    let chart = |id: &str, title: &str, wanted: &dyn Fn(&str) -> bool| {
        let curves = curves(report, without_loss, |m| m.ns_per_segment(wanted));
        Chart { id, title, unit: "ns", bottom: "flows", log: false, curves }.draw()
    };
    let main = main_series(&report.results.outcomes);
    let missing = main.last().map(|o| o.measured.functions_missing.as_str()).unwrap_or_default();
    html! {
        @if missing.is_empty() {
            (panels(
                vec![
                    ("Spin locks (figure 5.11)", chart("locks", "Spin locks", &functions::is_lock)),
                    (
                        "Enqueueing (figure 5.7)",
                        chart("enqueue", "Enqueueing", &functions::is_enqueue),
                    ),
                    (
                        "Finding the connection (figure 5.12)",
                        chart("lookup", "Finding the connection", &functions::is_lookup),
                    ),
                ],
                "Time of all cores in these functions per segment of the interface, sampled by \
                 perf's software clock; other programs' locks are counted too. Cache misses (figure 5.10) need the processor's counters, \
                 which many virtual machines lack; they are not measured.",
            ))
            (top_functions(&main))
        } @else {
            p { "The time in the kernel's functions is not available: " (missing) "." }
        }
    }
}

/// The largest functions at the most flows, beside their shares at the fewest.
fn top_functions(main: &[&Outcome]) -> Markup {
    let (Some(first), Some(last)) = (main.first(), main.last()) else { return html! {} };
    let at = |o: &Outcome, name: &str| functions::share(&o.measured.functions, |own| own == name);
    let flows = |o: &Outcome| format!("{} flows", count(u64::from(o.point.flows)));
    details(
        "The largest functions",
        html! {
            div class="scroll" { table {
                caption { "Shares of all processor time, idle time included" }
                thead { tr class="names" {
                    th { "function" } th { (flows(first)) } th { (flows(last)) }
                } }
                tbody { @for f in last.measured.functions.iter().take(FUNCTIONS) {
                    tr {
                        th scope="row" { (f.name) }
                        td { (percent(at(first, &f.name))) }
                        td { (percent(f.share)) }
                    }
                } }
            } }
        },
    )
}

fn tables(report: &Report<'_>) -> Markup {
    let heads = [
        "point",
        "Mbit/s",
        "CPU",
        "user",
        "system",
        "softirq",
        "others",
        "RTT ms",
        "p99",
        "packets/s",
        "segments/s",
        "bytes",
        "again",
        "ACKs/s",
        "drops/s",
        "requeues/s",
        "queued",
        "Jain",
        "lost",
        "TCP MiB",
        "B/flow",
    ];
    html! {
        div class="scroll" { table {
            caption { "Each measured point; lost are connections that ended early" }
            thead { tr class="names" { @for head in heads { th { (head) } } } }
            tbody { @for o in &report.results.outcomes {
                tr {
                    th scope="row" { (o.point.series) ": " (o.point.to_string()) }
                    @for cell in cells(&o.measured) { td { (cell) } }
                }
            } }
        } }
    }
}

fn cells(m: &Measured) -> [String; 20] {
    let n = |value: f64| count(value.max(0.0) as u64);
    [
        figure(m.goodput_mbps),
        percent(m.busy()),
        percent(m.cpu.all.user),
        percent(m.cpu.all.system),
        percent(m.cpu.all.softirq),
        percent(m.other_programs),
        figure(m.rtt_ms.p50),
        figure(m.rtt_ms.p99),
        n(m.packets_per_s),
        n(m.segments_per_s),
        n(m.segment_bytes),
        format!("{:.2} %", m.retransmitted * 100.0),
        n(m.acks_per_s),
        n(m.drops_per_s),
        n(m.requeues_per_s),
        n(m.queued),
        figure(m.rates.jain),
        n(f64::from(m.lost)),
        n((m.tcp_memory >> 20) as f64),
        n(m.memory_per_flow),
    ]
}

fn method(report: &Report<'_>) -> Markup {
    html! {
        p { (report.machine) }
        @for note in &report.notes { p { (note) } }
        p { "To run it again:" }
        pre { code { (report.command) } }
        (details("What was checked", html! {
            div class="scroll" { table class="words" {
                thead { tr class="names" {
                    th { "what" } th { "has" } th { "wanted" } th { "what to do" }
                } }
                tbody { @for check in &report.results.checks {
                    tr class=[check.is_open().then_some("strong")] {
                        th scope="row" { (check.what) }
                        td { (check.have) }
                        td { (check.want) }
                        td { @if check.fix.is_empty() { "fine" } @else { (check.fix) } }
                    }
                } }
            } }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::findings;
    use crate::point::tests::point;
    use crate::study::Results;

    #[test]
    fn a_page_has_its_pictures_before_its_tables_and_fetches_nothing() {
        let outcome = |flows: u32, mbps: f64| Outcome {
            point: Point { series: "<flows>".to_owned(), ..point(flows) },
            measured: Measured { goodput_mbps: mbps, segment_bytes: 9.0, ..Measured::default() },
        };
        let results = Results {
            outcomes: vec![outcome(10, 700.0), outcome(100, 500.0)],
            ..Results::default()
        };
        let report = Report {
            results: &results,
            findings: findings(&results.outcomes),
            machine: "A machine.".to_owned(),
            command: "forebay stack".to_owned(),
            notes: Vec::new(),
        };
        let page = report.html();
        let picture = page.find("<svg").expect("a picture");
        let table = page.find("<table").expect("a table");
        assert!(picture < table);
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="));
        assert!(page.contains("&lt;flows&gt;") && !page.contains("<flows>"));
        let ids = page.matches("-t\">").count();
        let unique: std::collections::BTreeSet<_> =
            page.match_indices("<title id=\"").map(|(at, _)| &page[at..at + 24]).collect();
        assert_eq!(ids, unique.len(), "each picture has an id of its own");
    }

    #[test]
    fn an_empty_study_has_a_page() {
        let results = Results::default();
        let report = Report {
            results: &results,
            findings: Vec::new(),
            machine: String::new(),
            command: String::new(),
            notes: Vec::new(),
        };
        assert!(report.html().contains("No point was measured."));
    }
}
