//! The page in Markdown, from the catalogue and the stored outcomes.

use std::fmt::Write;

use forebay_outcome::Store;
use forebay_picture::number::setting;

use super::catalogue::{COLUMNS, Catalogue, ENGINES};
use super::claim::{Claim, Figure};
use super::outcome::{Outcome, picture_file};
use crate::age::Ages;
use crate::changed::changed_section;
use crate::figure::{Value, row_head, told};
use crate::judge::{CELLS, Judgement, Tally, how_judged};
use crate::text::wrapped;

/// A claim and its stored outcomes, in the order of [`COLUMNS`].
pub type Row<'a> = (&'a Claim, Vec<Outcome>);

/// The page of `catalogue`. Pictures are in the directory of `store`, beside the page.
pub fn page(catalogue: &Catalogue, rows: &[Row<'_>], store: &Store, ages: &Ages) -> String {
    let mut out = format!("# {}\n\n{}\n\n", catalogue.title, catalogue.about.trim());
    let _ = write!(
        out,
        "    forebay lab reproduce {}\n\n{}\n\n{}\n\n",
        catalogue.name,
        wrapped(HOW_TO_READ, ""),
        wrapped(&how_judged(), "")
    );
    summary(&mut out, rows);
    let ages_of_all = ages.paragraph();
    if !ages_of_all.is_empty() {
        let _ = write!(out, "\n{}\n", wrapped(&ages_of_all, ""));
    }
    let changes = rows
        .iter()
        .flat_map(|(claim, _)| claim.changed.iter().map(|change| (claim.id.as_str(), change)));
    out += &changed_section(changes, &catalogue.bands_with_results);
    for row in rows {
        section(&mut out, row, store, ages);
    }
    out
}

const HOW_TO_READ: &str = "This command makes the page. A figure is over all seeds together; \
    brackets hold the lowest and the highest figure of a single seed. Where a run has one value, \
    such as a rate or a percentile of a queue, the figure is the median of the seeds. A slowdown \
    is the completion time over that on the empty path.";

fn summary(out: &mut String, rows: &[Row<'_>]) {
    // A column of the kernel's queues is there once something was tried on them.
    let tried =
        |column: &&str| rows.iter().any(|(_, all)| all.iter().any(|o| o.engine == **column));
    let columns: Vec<&str> =
        COLUMNS.into_iter().filter(|c| ENGINES.contains(c) || tried(c)).collect();
    out.push_str("| claim | |");
    columns.iter().for_each(|c| *out += &format!(" `{c}` |"));
    out.push_str("\n|---|---|");
    columns.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    let mut totals = vec![Tally::default(); columns.len()];
    for (claim, outcomes) in rows {
        let _ = write!(out, "| {} | {} |", claim.id, claim.title);
        for (&column, total) in columns.iter().zip(&mut totals) {
            let cell = match outcomes.iter().find(|o| o.engine == column) {
                None if claim.engines.contains_key(column) => "not run".to_owned(),
                None => String::new(),
                Some(outcome) => {
                    let tally = outcome.tally(claim);
                    *total += tally;
                    let quick = if outcome.quick { ", a quick run" } else { "" };
                    tally.cell() + quick
                }
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    let _ = write!(out, "\n{}\n\n", wrapped(CELLS, ""));
    for (column, total) in columns.iter().zip(&totals).filter(|(_, total)| total.rows > 0) {
        let line = format!("- `{column}`: {}.", total.sentence());
        let _ = writeln!(out, "{}", wrapped(&line, "  "));
    }
    let all: Tally = totals.into_iter().sum();
    let _ = writeln!(out, "{}", wrapped(&format!("- In all: {}.", all.sentence()), "  "));
}

fn section(out: &mut String, (claim, outcomes): &Row<'_>, store: &Store, ages: &Ages) {
    let _ = write!(
        out,
        "\n## {}\n\n`{}`: {}.\n\n{}\n",
        claim.title,
        claim.id,
        claim.source,
        claim.about.trim()
    );
    if !claim.figures.is_empty() {
        table(out, claim, outcomes);
    }
    let notes = notes(claim, outcomes);
    if !notes.is_empty() {
        out.push('\n');
        notes.iter().for_each(|n| *out += &(wrapped(&format!("- {n}"), "  ") + "\n"));
    }
    for outcome in outcomes {
        let _ = write!(out, "\n{}\n", wrapped(&ran(claim, outcome, ages), ""));
    }
    for outcome in outcomes {
        if let Some(picture) = &outcome.picture {
            let file = picture_file(&claim.id, &outcome.engine);
            let (title, engine) = (&claim.title, &outcome.engine);
            let caption = wrapped(&format!("`{engine}`. {}", picture.caption()), "");
            let _ = write!(out, "\n![{title}, {engine}]({}/{file})\n\n{caption}\n", store.name());
        }
    }
}

fn table(out: &mut String, claim: &Claim, outcomes: &[Outcome]) {
    out.push_str("\n| | source | reproduced | our own bar |");
    outcomes.iter().for_each(|o| *out += &format!(" `{}` |", o.engine));
    out.push_str("\n|---|---|---|---|");
    outcomes.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for f in &claim.figures {
        let _ = write!(out, "{}", row_head(&f.what, f.unit(), &f.criteria));
        for outcome in outcomes {
            let cell = match judged(f, outcome) {
                Some((value, judgement)) => judgement.told(&told(value, f.unit())),
                None => "not run".to_owned(),
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
}

/// What `outcome` has of the figure, and how that is judged.
fn judged(figure: &Figure, outcome: &Outcome) -> Option<(Option<Value>, Judgement)> {
    outcome.tried(figure).map(|tried| (tried.value, tried.judge(&figure.criteria)))
}

/// The reasons for the differences of those figures that are outside a band somewhere.
fn notes(claim: &Claim, outcomes: &[Outcome]) -> Vec<String> {
    let outside = |f: &Figure| {
        outcomes.iter().filter_map(|o| judged(f, o)).any(|(_, judgement)| judgement.is_outside())
    };
    let reasons = claim
        .figures
        .iter()
        .filter(|f| outside(f))
        .filter_map(|f| f.why.as_ref().map(|why| format!("{}: {}", f.what, why.trim())));
    reasons.collect()
}

/// When and how an outcome came to be, and what was committed since.
fn ran(claim: &Claim, outcome: &Outcome, ages: &Ages) -> String {
    let Outcome { engine, date, machine, seeds, runs, measured_s, .. } = outcome;
    let commit = outcome.commit.as_ref().map(|c| format!(", {}", c.told())).unwrap_or_default();
    let seeds = if *seeds == 1 { "seed 1".to_owned() } else { format!("seeds 1 to {seeds}") };
    let quick = if outcome.quick { " A quick run, to see that it works." } else { "" };
    let stale = if outcome.scenario == claim.scenario_hash {
        ""
    } else {
        " The scenario has changed since: run it again."
    };
    let age = ages.told(&format!("{}-{engine}", claim.id));
    format!(
        "`{engine}`: {date}{commit}, {machine}; {runs} runs, {seeds}, {} s measured.{quick}{stale}\
         {age}",
        setting(*measured_s)
    )
}
