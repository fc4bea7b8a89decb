//! The report of a scenario.

use maud::{Markup, html};

use super::boxes::{self, Arm};
use super::course;
use super::decisions;
use super::differences;
use super::l4s;
use super::markup::{details, page, paragraph, section};
use super::number::setting;
use super::queues;
use super::runs::{Group, cells, cells_of, groups, named};
use super::sweep;
use super::table::{Table, WIDTH, wrapped};
use super::tables::{self, Named};
use crate::analysis::{Analysis, EstimateErrors, Slowdowns};

/// The largest number of arms with pictures, over all cells; tables contain all arms. A page with
/// this many pictures is well below 500 kB.
pub const MAX_ARMS: usize = 12;

/// The caption of the table of L4S traffic.
const L4S: &str =
    "Waits, marks and drops in the measured time, by the ECN field that packets came with";

/// Formats the report for a terminal.
pub fn text(runs: &[Analysis], colour: bool) -> String {
    let groups = groups(runs);
    let named = named(&groups);
    let mut out = String::new();
    let sentence = differences::sentence(&groups);
    if !sentence.is_empty() {
        out += &format!("{}\n\n", wrapped(&sentence, WIDTH));
    }
    out += &figures(&groups).text(colour);
    let more = l4s::table(&named).into_iter().chain(tables::round_trips(&named));
    for table in more.chain(estimates(runs, &named)) {
        out += "\n";
        out += &table.text(colour);
    }
    let violations = violations(&named);
    if !violations.is_empty() {
        out += "\nThe packet accounts do not balance, so these figures are not to be trusted:\n";
        out.extend(violations.iter().map(|v| format!("  {v}\n")));
    }
    out
}

/// Formats the report as an HTML page. `title` is plain text.
pub fn html(title: &str, runs: &[Analysis]) -> String {
    let groups = groups(runs);
    let named = named(&groups);
    let requests = runs.iter().any(|r| r.summary.requests.offered > 0);
    let pooled = format!("{} Seeds of one arm are pooled.", boxes::CAPTION);
    let body = html! {
        @if let Some(table) = differences::table(&groups) {
            (section("What the arms differ in", table.html(differences::CAPTION)))
        }
        @if let Some(plots) = sweep::figures(&groups) {
            (section("Over the parameter", plots))
        }
        @if requests {
            (section("How long requests take", pictures(&groups, &pooled, box_picture)))
        }
        @if runs.iter().any(has_queue) {
            (section("Where the queue is, and who waits", pictures(&groups, "", queue_picture)))
        }
        @if let Some(pictures) = course_pictures(&groups) {
            (section("Goodput and round trips over time", pictures))
        }
        (section("All figures", figures(&groups).html("One row a run")))
        @if let Some(table) = l4s::table(&named) {
            (section("L4S traffic and the rest", table.html(L4S)))
        }
        @if let Some(table) = tables::round_trips(&named) {
            (section("Closed-loop round trips", table.html("Round trips by traffic")))
        }
        (estimates_section(estimates(runs, &named)))
        (decisions_section(&named))
        (section("Where every packet went", accounts(&named)))
    };
    page(title, &format!("{} {}", differences::sentence(&groups), lead(runs)), body)
}

fn lead(runs: &[Analysis]) -> String {
    let Some(first) = runs.first().map(|r| &r.summary) else { return "No runs.".to_owned() };
    let path = match cells(runs) {
        1 => format!("{} Mbit/s and {} ms", setting(first.rate_mbps), setting(first.base_rtt_ms)),
        n => format!("{n} paths"),
    };
    let seconds = setting(first.duration_s);
    let runs = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
    format!("{runs} of {seconds} s over {path}.")
}

/// The table of figures, with a row of medians for each arm that has several seeds.
fn figures(groups: &[Group<'_>]) -> Table {
    let mut table = tables::figures(&[]);
    for group in groups {
        table.rows.extend(tables::figures(&named(std::slice::from_ref(group))).rows);
        if group.runs.len() > 1 {
            let label = format!("{}, median of {}", group.name(), group.runs.len());
            table.rows.push(tables::median_row(label, &group.runs));
        }
    }
    table.without_empty_columns()
}

/// The tables of estimates, with a row for all runs together if there are several.
fn estimates(runs: &[Analysis], named: &[Named<'_>]) -> Vec<Table> {
    let errors = runs.iter().map(|r| &r.estimate_errors);
    tables::estimates(named, EstimateErrors::pooled(errors).figures())
}

/// The pictures of each cell, one figure each, until [`MAX_ARMS`] are drawn.
fn pictures(
    groups: &[Group<'_>],
    caption: &str,
    draw: fn(&str, &[Group<'_>], &str) -> Markup,
) -> Markup {
    let drawn = &groups[..groups.len().min(MAX_ARMS)];
    let by_cell = cells_of(drawn);
    let left_out = groups.len() - drawn.len();
    html! {
        @for (i, cell) in by_cell.enumerate() {
            @if let Some(name) = cell.first().and_then(|g| g.cell.as_deref()) { h3 { (name) } }
            (draw(&i.to_string(), cell, caption))
        }
        @if left_out > 0 {
            (paragraph(&format!("{left_out} more arms are in the tables only.")))
        }
    }
}

/// The queue picture with the first seed of each arm.
fn queue_picture(id: &str, cell: &[Group<'_>], _: &str) -> Markup {
    let first = cell.iter().filter_map(|g| Some((g, *g.runs.first()?)));
    let runs: Vec<(String, &Analysis)> =
        first.map(|(g, run)| (g.run_name(run, false), run)).collect();
    queues::figures(&format!("queue{id}-"), &runs)
}

fn has_queue(run: &Analysis) -> bool {
    !(run.waits.bottleneck.all.is_empty() && run.waits.sendbox.all.is_empty())
}

/// Goodput and round trips over time of the first seed of each arm, until [`MAX_ARMS`] are drawn.
fn course_pictures(groups: &[Group<'_>]) -> Option<Markup> {
    let first = groups.iter().take(MAX_ARMS).filter_map(|g| {
        let run = *g.runs.first()?;
        Some((g.run_name(run, true), run))
    });
    course::figures("course", &first.collect::<Vec<_>>())
}

/// The box plots with all seeds of each arm together.
fn box_picture(id: &str, cell: &[Group<'_>], caption: &str) -> Markup {
    let arm = |group: &Group<'_>| {
        let pooled = Slowdowns::pooled(group.runs.iter().map(|r| &r.slowdowns));
        let slowdowns = pooled.map(|s| s.into());
        Arm { name: group.arm.to_owned(), slowdowns, strong: false }
    };
    let arms: Vec<Arm> = cell.iter().map(arm).collect();
    boxes::figures(&format!("slowdown{id}-"), &arms, caption)
}

/// The caption of the tables of estimates.
const ESTIMATES: &str = "Estimate less truth, where the truth is what the bottleneck's own \
    log says: for the round-trip time, the wait and the transmission of the packet whose feedback came \
    home last, and the empty path; for the receive rate R, the bundle's bytes that left the bottleneck \
    over one round trip. New samples are ticks at which the estimate changed.";

/// The section on the sendbox's estimates; empty without tables.
pub(crate) fn estimates_section(tables: Vec<Table>) -> Markup {
    let html = |t: Table| Table { corner: "arm".to_owned(), ..t.clone() }.html(&t.corner);
    html! {
        @if !tables.is_empty() {
            (section("What the sendbox knew", html! {
                (paragraph(ESTIMATES))
                @for table in tables { (html(table)) }
            }))
        }
    }
}

/// The section on the controllers' decisions; empty without decisions.
pub(crate) fn decisions_section(named: &[Named<'_>]) -> Markup {
    html! {
        @if let Some(tables) = decisions::tables(named) {
            (section("What the sendbox decided", tables))
        }
    }
}

/// Sentences about violations in the runs' packet counts.
fn violations(named: &[Named<'_>]) -> Vec<String> {
    let of = |n: &Named<'_>| {
        let name = n.name.clone();
        let found = n.run.summary.conservation.violations.clone();
        found.into_iter().map(move |v| format!("{name}: {v}"))
    };
    named.iter().flat_map(of).collect()
}

/// The packet counts as HTML: a verdict and the table.
pub(crate) fn accounts(named: &[Named<'_>]) -> Markup {
    let violations = violations(named);
    let table = tables::accounts(named).html("Frames by hop, over the whole run, warm-up included");
    html! {
        @if violations.is_empty() {
            (paragraph(
                "Every frame that a hop received was sent on, dropped by its queueing policy, \
                 addressed to the hop itself, or still inside when the run ended. None was lost in \
                 any other way.",
            ))
        } @else {
            (paragraph(
                "The packet accounts do not balance, so the figures above are not to be trusted:",
            ))
            @for violation in violations { (paragraph(&violation)) }
        }
        (details("The accounts", table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Quantiles;
    use crate::results::{HopCounters, Run};
    use forebay_units::{Nanos, Rate};

    fn run(arm: &str, seed: u64, lost: u64) -> Analysis {
        run_at(8, arm, seed, lost)
    }

    fn run_at(mbps: u64, arm: &str, seed: u64, lost: u64) -> Analysis {
        let hop = HopCounters { hop: "link".into(), lost, ..HopCounters::default() };
        Analysis::of(&Run {
            arm: arm.into(),
            seed,
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(mbps),
            base_rtt: Nanos::from_millis(20),
            hops: vec![hop],
            ..Run::default()
        })
    }

    #[test]
    fn seeds_of_an_arm_stand_together_with_their_median() {
        let runs = [run("a", 1, 0), run("b", 1, 0), run("a", 2, 3), run("a", 3, 1)];
        insta::assert_snapshot!(text(&runs, false));
    }

    #[test]
    fn one_arm_on_two_paths_is_two_arms() {
        let runs = [run_at(8, "a", 1, 0), run_at(9, "a", 1, 0), run_at(8, "a", 2, 0)];
        let text = text(&runs, false);
        assert!(text.contains("\n8 Mbit/s, 20 ms, a, median of 2 "), "{text}");
        assert!(text.contains("\n9 Mbit/s, 20 ms, a  "), "{text}");
        let mut runs = runs;
        for run in &mut runs {
            let wait = Quantiles { packets: 1, p10: 1.0, p50: 1.0, p90: 1.0 };
            run.waits.bottleneck.all.spans = vec![Some(wait)];
        }
        let page = html("T", &runs);
        assert!(page.contains("3 runs of 1 s over 2 paths."));
        assert!(
            page.contains("<h3>8 Mbit/s, 20 ms</h3>") && page.contains("<h3>9 Mbit/s, 20 ms</h3>")
        );
    }

    #[test]
    fn broken_accounts_are_on_the_page() {
        let page = html("T", &[run("<a>", 1, 3)]);
        assert!(page.contains("&lt;a&gt;: link: lost 3 frames") && page.contains("do not balance"));
        assert!(!html("T", &[run("a", 1, 0)]).contains("do not balance"));
        assert!(html("T", &[]).contains("No runs."));
    }

    #[test]
    fn pictures_are_bounded_and_say_so() {
        let with_packet = |i: u32| {
            let mut analysis = run(&format!("arm{i}"), 1, 0);
            let wait = Quantiles { packets: 1, p10: 1.0, p50: 1.0, p90: 1.0 };
            analysis.waits.bottleneck.all.spans = vec![Some(wait)];
            analysis
        };
        let runs: Vec<Analysis> = (0..20).map(with_packet).collect();
        let page = html("T", &runs);
        assert_eq!(page.matches("<svg").count(), MAX_ARMS);
        assert!(page.contains("8 more arms are in the tables only."));
        assert!(page.contains("arm19"));
    }
}
