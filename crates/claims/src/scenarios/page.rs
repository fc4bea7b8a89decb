//! The page: Markdown, from the catalogue and what is stored.

use std::fmt::Write;

use super::catalogue::{COLUMNS, Catalogue, ENGINES};
use super::claim::{Claim, Figure};
use super::outcome::{Outcome, picture_file};
use crate::figure::{Tried, Verdict, row_head, told, within};
use forebay_outcome::Store;
use forebay_picture::number::setting;

/// A claim and what is stored of it, in the order of [`COLUMNS`].
pub type Row<'a> = (&'a Claim, Vec<Outcome>);

/// The page of `catalogue`. Pictures are looked for in `store`'s directory beside it.
pub fn page(catalogue: &Catalogue, rows: &[Row<'_>], store: &Store) -> String {
    let mut out = format!("# {}\n\n{}\n\n", catalogue.title, catalogue.about.trim());
    let _ = write!(
        out,
        "    forebay lab reproduce {}\n\n\
         makes this page. Each band is in the claim's file, and none was changed after a run; rows that were added later have theirs from then. A figure is over all seeds together, \
         in brackets are the lowest and the highest that a seed alone gives; what a run has one value of, as a rate or a \
         queue's percentile, is the seeds' median. Slowdowns are completion times over those on the empty path.\n\n",
        catalogue.name
    );
    summary(&mut out, rows);
    for row in rows {
        section(&mut out, row, store);
    }
    out
}

fn summary(out: &mut String, rows: &[Row<'_>]) {
    // The kernel's queues have a column once something was tried on them.
    let tried =
        |column: &&str| rows.iter().any(|(_, all)| all.iter().any(|o| o.engine == **column));
    let columns: Vec<&str> =
        COLUMNS.into_iter().filter(|c| ENGINES.contains(c) || tried(c)).collect();
    out.push_str("| claim | |");
    columns.iter().for_each(|c| *out += &format!(" `{c}` |"));
    out.push_str("\n|---|---|");
    columns.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for (claim, outcomes) in rows {
        let _ = write!(out, "| {} | {} |", claim.id, claim.title);
        for &column in &columns {
            let cell = match outcomes.iter().find(|o| o.engine == column) {
                None if claim.engines.contains_key(column) => "not run".to_owned(),
                None => String::new(),
                Some(outcome) => tally(outcome),
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    out.push_str("\nFigures within their bands, of those that are judged.\n");
}

fn tally(outcome: &Outcome) -> String {
    let quick = if outcome.quick { ", a quick run" } else { "" };
    within(outcome.tally()) + quick
}

fn section(out: &mut String, (claim, outcomes): &Row<'_>, store: &Store) {
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
        let _ = write!(out, "\n- {}\n", notes.join("\n- "));
    }
    for outcome in outcomes {
        let _ = write!(out, "\n{}\n", ran(claim, outcome));
    }
    for outcome in outcomes {
        if let Some(picture) = &outcome.picture {
            let file = picture_file(&claim.id, &outcome.engine);
            let (title, engine) = (&claim.title, &outcome.engine);
            let caption = picture.caption();
            let _ = write!(
                out,
                "\n![{title}, {engine}]({}/{file})\n\n`{engine}`. {caption}\n",
                store.name()
            );
        }
    }
}

fn table(out: &mut String, claim: &Claim, outcomes: &[Outcome]) {
    out.push_str("\n| | source | band |");
    outcomes.iter().for_each(|o| *out += &format!(" `{}` |", o.engine));
    out.push_str("\n|---|---|---|");
    outcomes.iter().for_each(|_| out.push_str("---|"));
    out.push('\n');
    for f in &claim.figures {
        *out += &row_head(&f.what, f.unit(), f.source, &f.band.to_string());
        for outcome in outcomes {
            let _ = write!(out, " {} |", tried(f, outcome).map_or("not run".to_owned(), told));
        }
        out.push('\n');
    }
}

/// What `outcome` has of the figure.
fn tried<'a>(figure: &Figure, outcome: &'a Outcome) -> Option<&'a Tried> {
    outcome.figures.iter().find(|t| t.what == figure.what)
}

/// Why figures differ, for those that do; and what has changed since they were run.
fn notes(claim: &Claim, outcomes: &[Outcome]) -> Vec<String> {
    let mut notes = Vec::new();
    for f in &claim.figures {
        let all = || outcomes.iter().filter_map(|o| tried(f, o));
        if let (true, Some(why)) = (all().any(|t| t.verdict == Verdict::Outside), &f.why) {
            notes.push(format!("{}: {}", f.what, why.trim()));
        }
        let same = |t: &Tried| t.band == f.band.to_string() && t.source == f.source;
        if !all().all(same) {
            notes.push(format!(
                "{}: its band or source has changed since a run: run it again.",
                f.what
            ));
        }
    }
    notes
}

/// When and how an outcome came to be.
fn ran(claim: &Claim, outcome: &Outcome) -> String {
    let Outcome { engine, date, machine, seeds, runs, measured_s, .. } = outcome;
    let seeds = if *seeds == 1 { "seed 1".to_owned() } else { format!("seeds 1 to {seeds}") };
    let quick = if outcome.quick { " A quick run, to see that it works." } else { "" };
    let stale = if outcome.scenario == claim.scenario_hash {
        ""
    } else {
        " The scenario has changed since: run it again."
    };
    format!(
        "`{engine}`: {date}, {machine}; {runs} runs, {seeds}, {} s measured.{quick}{stale}",
        setting(*measured_s)
    )
}
