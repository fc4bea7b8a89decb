//! The controllers' decisions as marks on a time axis and as tables.

use super::markup::{details, escape, paragraph};
use super::number::count;
use super::svg::Svg;
use super::tables::Named;
use crate::analysis::{Analysis, Decisions, Weight};

/// The caption of marks and tables.
pub(crate) const CAPTION: &str = "What each controller decided and noticed, with the reason and the numbers behind it, \
    and what was killed on purpose. Times count from the start of the measured interval; negative ones are in the \
    warm-up. In the pictures of queues a change of mode or a fault is a dashed line and anything else a tick on the \
    axis; moves of the rate, of which there are many, are counted here and not marked.";

/// Marks `run`'s decisions at their times, between `top` and the axis at `bottom`; a tooltip
/// describes each.
pub(super) fn mark(
    svg: &mut Svg,
    run: &Analysis,
    x: impl Fn(f64) -> f64,
    (top, bottom): (f64, f64),
) {
    let measured = 0.0..=run.summary.duration_s;
    for decision in run.decisions.listed.iter().filter(|d| measured.contains(&d.at_s)) {
        let (class, from) = match decision.weight {
            Weight::Mode => ("event mode", top),
            Weight::Fault => ("event fault", top),
            Weight::Minor => ("event", bottom - 4.0),
        };
        let at = x(decision.at_s);
        let says = format!("{:.2} s, {}", decision.at_s, decision.text);
        svg.titled_line(class, (at, from), (at, bottom), &says);
    }
}

/// A folded table for each run with decisions; empty if there are none.
pub(crate) fn tables(runs: &[Named<'_>]) -> String {
    let told = runs.iter().filter(|n| !n.run.decisions.is_empty());
    let all: String = told.map(|n| table(&n.name, &n.run.decisions)).collect();
    if all.is_empty() { all } else { paragraph(CAPTION) + &all }
}

fn table(name: &str, decisions: &Decisions) -> String {
    let Decisions { listed, left_out, rates } = decisions;
    let rows: String = listed
        .iter()
        .map(|d| {
            let class = if d.weight == Weight::Minor { "" } else { " class=\"strong\"" };
            let (at, text) = (d.at_s, escape(&d.text));
            format!("<tr{class}><td>{at:.2}</td><td>{text}</td></tr>\n")
        })
        .collect();
    let number = count(listed.len() as u64 + left_out);
    let summary = format!("{name}: decisions {number}, moves of the rate {}", count(*rates));
    let mut body = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table class=\"words\">\n\
         <thead>\n<tr><th scope=\"col\">s</th><th scope=\"col\">what, and why</th></tr>\n</thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n</div>\n",
        escape(&summary)
    );
    if *left_out > 0 {
        body += &paragraph(&format!("{} later ones are in the records only.", count(*left_out)));
    }
    details(&summary, &body)
}
