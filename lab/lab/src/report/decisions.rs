//! The controllers' decisions as marks on a time axis and as tables.

use maud::{Markup, html};

use super::markup::{details, paragraph};
use super::number::count;
use super::svg::Svg;
use super::tables::Named;
use crate::analysis::{Analysis, Decision, Decisions, Weight};

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

/// A folded table for each run with decisions; `None` if there are none.
pub(crate) fn tables(runs: &[Named<'_>]) -> Option<Markup> {
    let with: Vec<_> = runs.iter().filter(|n| !n.run.decisions.is_empty()).collect();
    (!with.is_empty()).then(|| {
        html! {
            (paragraph(CAPTION))
            @for n in with { (table(&n.name, &n.run.decisions)) }
        }
    })
}

fn table(name: &str, decisions: &Decisions) -> Markup {
    let Decisions { listed, left_out, rates } = decisions;
    let number = count(listed.len() as u64 + left_out);
    let summary = format!("{name}: decisions {number}, moves of the rate {}", count(*rates));
    let strong = |d: &Decision| (d.weight != Weight::Minor).then_some("strong");
    let body = html! {
        div class="scroll" role="region" aria-label=(summary) tabindex="0" {
            table class="words" {
                thead { tr { th scope="col" { "s" } th scope="col" { "what, and why" } } }
                tbody {
                    @for d in listed {
                        tr class=[strong(d)] {
                            td { (format!("{:.2}", d.at_s)) }
                            td { (d.text) }
                        }
                    }
                }
            }
        }
        @if *left_out > 0 {
            (paragraph(&format!("{} later ones are in the records only.", count(*left_out))))
        }
    };
    details(&summary, body)
}
