//! The page in Markdown, and the pictures beside it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use forebay_outcome::{Rows, Store, StoreError};

use super::catalogue::{Catalogue, Claim, Drawing, Figure, How, measure};
use super::quantity::{Cell, cells, is_of};
use crate::age::{Ages, NoAges};
use crate::changed::changed_section;
use crate::figure::{Value, row_head, told};
use crate::judge::{CELLS, Judgement, Tally, how_judged};
use crate::scenarios::{Picture, Sweep, SweepLine};
use crate::text::wrapped;

/// The page of `catalogue` and of the rows in `store`; its pictures are drawn.
///
/// # Errors
/// If stored rows cannot be read, or a picture cannot be written.
pub fn page(catalogue: &Catalogue, store: &Store, ages: &Ages) -> Result<String, StoreError> {
    let mut sections = String::new();
    let mut summary = String::from(
        "| claim | | engine | reproduced · bars met · not judged |\n|---|---|---|---|\n",
    );
    let mut total = Tally::default();
    for claim in &catalogue.claims {
        let stored = store.read::<Rows>(&claim.id)?;
        let cell = match &stored {
            None => "not run".to_owned(),
            Some(stored) => {
                let tally = tally(claim, stored);
                total += tally;
                tally.cell()
            }
        };
        let (id, title, engine) = (&claim.id, &claim.title, claim.how.engine());
        let _ = writeln!(summary, "| {id} | {title} | `{engine}` | {cell} |");
        section(&mut sections, claim, stored.as_ref(), store, ages)?;
    }
    let changes = catalogue
        .claims
        .iter()
        .flat_map(|claim| claim.changed.iter().map(|change| (claim.id.as_str(), change)));
    let changes = changed_section(changes, &catalogue.bands_with_results);
    let mut ages_of_all = wrapped(&ages.paragraph(), "");
    if !ages_of_all.is_empty() {
        ages_of_all = format!("\n{ages_of_all}\n");
    }
    Ok(format!(
        "# {}\n\n{}\n\n    {}\n\n{}\n\n{}\n\n\
         {summary}\n{}\n\n{}\n{ages_of_all}{changes}{sections}",
        catalogue.title,
        catalogue.about.trim(),
        command(catalogue),
        wrapped(HOW_TO_READ, ""),
        wrapped(&how_judged(), ""),
        wrapped(CELLS, ""),
        wrapped(&format!("In all: {}.", total.sentence()), "")
    ))
}

/// The command that makes the page.
fn command(catalogue: &Catalogue) -> String {
    let mut command = format!("forebay lab reproduce {}", catalogue.name);
    let engines = catalogue.engines();
    if engines != catalogue.usual_engines() {
        engines.iter().for_each(|engine| command += &format!(" --engine {engine}"));
    }
    command
}

const HOW_TO_READ: &str = "This command makes the page. The figure of a cell is the median of its \
    seeds; brackets hold the lowest and the highest figure of a single seed. Rows are stored whole \
    and judged anew with each page, so their bands can be newer than the runs.";

fn tally(claim: &Claim, stored: &Rows) -> Tally {
    Tally::of(claim.figures.iter().map(|figure| judge(figure, stored).1))
}

/// The value of a figure, and how it is judged.
fn judge(figure: &Figure, stored: &Rows) -> (Option<Value>, Judgement) {
    let value = figure.quantity.of(&stored.rows);
    let known = stored.bands.get(&figure.what).map(Vec::as_slice).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    (value, figure.criteria.judge(value.map(|v| v.value), &known))
}

fn section(
    out: &mut String,
    claim: &Claim,
    stored: Option<&Rows>,
    store: &Store,
    ages: &Ages,
) -> Result<(), StoreError> {
    let (title, id, about) = (&claim.title, &claim.id, claim.about.trim());
    let _ = write!(out, "\n## {title}\n\n`{id}`: {}.\n\n{about}\n", claim.source);
    let Some(stored) = stored else {
        let _ = write!(out, "\nNot run.\n");
        return Ok(());
    };
    if !claim.figures.is_empty() {
        judged(out, claim, stored);
    }
    let all = cells(&stored.rows);
    table(out, claim, &all);
    let _ = write!(out, "\n{}\n", wrapped(&ran(claim, stored, ages), ""));
    for (n, drawing) in claim.drawings.iter().enumerate() {
        let picture = picture(drawing, &all);
        let file = format!("{id}-{}.svg", n + 1);
        store.write_text(&file, &picture.svg(title))?;
        let _ = write!(out, "\n![{title}]({}/{file})\n", store.name());
    }
    Ok(())
}

/// Counts the ages of the rows in `store`, in the checkout that the directory `experiments` is in.
/// `None` outside a checkout.
///
/// # Errors
/// If stored rows cannot be read, or the list of commits that change no figure is wrong.
pub fn ages(
    catalogue: &Catalogue,
    store: &Store,
    experiments: &Path,
) -> Result<Option<Ages>, NoAges> {
    let mut results = Vec::new();
    for claim in &catalogue.claims {
        let stored = store.read::<Rows>(&claim.id).map_err(|e| NoAges(e.to_string()))?;
        let Some(commit) = stored.and_then(|rows| rows.commit) else { continue };
        let (engine, files) = match &claim.how {
            How::Model(_) => ("sim", Vec::new()),
            How::Guests(files) => {
                let file = |(file, _): &(String, _)| format!("{}/{file}", catalogue.name);
                ("uml", files.iter().map(file).collect())
            }
            How::BackEnd => ("vhost", Vec::new()),
            How::Stack(_) => ("stack", Vec::new()),
        };
        results.push((claim.id.clone(), engine, files, commit));
    }
    let results = results
        .iter()
        .map(|(id, engine, files, commit)| (id.clone(), *engine, files.clone(), commit));
    Ages::count(experiments, results)
}

/// When and how rows came to be, and what was committed since.
fn ran(claim: &Claim, stored: &Rows, ages: &Ages) -> String {
    let Rows { date, machine, load, rows, .. } = stored;
    let commit = stored.commit.as_ref().map(|c| format!(", {}", c.told())).unwrap_or_default();
    let seeds: BTreeSet<_> = rows.iter().map(|row| row.labels.get("seed")).collect();
    let s = if seeds.len() == 1 { "" } else { "s" };
    let stale = if stored.hash == claim.hash {
        ""
    } else {
        " What is run has changed since: run it again."
    };
    format!(
        "{date}{commit}, {machine}, load {load} at the end; {} runs, {} seed{s}.{stale}{}",
        rows.len(),
        seeds.len(),
        ages.told(&claim.id)
    )
}

fn judged(out: &mut String, claim: &Claim, stored: &Rows) {
    out.push_str("\n| | the thesis | reproduced | our own bar | ours |\n|---|---|---|---|---|\n");
    let mut notes = String::new();
    for figure in &claim.figures {
        let (value, judgement) = judge(figure, stored);
        let unit = match (&figure.quantity.to, measure(&figure.quantity.measure)) {
            (None, Some(measure)) => measure.unit,
            _ => "",
        };
        let ours = judgement.told(&told(value, unit));
        let _ = writeln!(out, "{} {ours} |", row_head(&figure.what, unit, &figure.criteria));
        if let (true, Some(why)) = (judgement.is_outside(), &figure.why) {
            let note = format!("- {}: {}", figure.what, why.trim());
            let _ = writeln!(notes, "{}", wrapped(&note, "  "));
        }
    }
    if !notes.is_empty() {
        let _ = write!(out, "\n{notes}");
    }
}

/// The table of all cells: their labels as far as they differ, and the measures of the claim.
fn table(out: &mut String, claim: &Claim, cells: &[Cell<'_>]) {
    let keys: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.labels.keys()).collect();
    let mut keys: Vec<_> = keys
        .into_iter()
        .filter(|key| cells.iter().any(|cell| cell.labels.get(*key) != cells[0].labels.get(*key)))
        .collect();
    // The mode, which rows compare, is the last label.
    keys.sort_by_key(|key| (*key == "mode", *key == "flows", *key));
    out.push_str("\n|");
    keys.iter().for_each(|key| *out += &format!(" {key} |"));
    let columns = || claim.table.iter().filter_map(|name| measure(name));
    for column in columns() {
        let unit =
            if column.unit.is_empty() { String::new() } else { format!(", {}", column.unit) };
        let _ = write!(out, " {}{unit} |", column.name);
    }
    out.push_str("\n|");
    (0..keys.len() + columns().count()).for_each(|_| out.push_str("---|"));
    out.push('\n');
    for cell in cells {
        out.push('|');
        for key in &keys {
            let _ = write!(out, " {} |", cell.labels.get(*key).map_or("", String::as_str));
        }
        for column in columns() {
            match cell.median(column.key) {
                Some(value) => {
                    let _ = write!(out, " {value:.0$} |", column.decimals);
                }
                None => out.push_str(" |"),
            }
        }
        out.push('\n');
    }
}

fn picture(drawing: &Drawing, all: &[Cell<'_>]) -> Picture {
    let shown: Vec<_> = all.iter().filter(|cell| is_of(&cell.labels, &drawing.of)).collect();
    let values = |key: &str| {
        let mut seen: Vec<String> = Vec::new();
        for value in shown.iter().filter_map(|cell| cell.labels.get(key)) {
            if !seen.contains(value) {
                seen.push(value.clone());
            }
        }
        seen
    };
    let along = values(&drawing.along);
    let at = |line: &String, place: &String| {
        let is = |cell: &&&Cell<'_>| {
            cell.labels.get(&drawing.lines) == Some(line)
                && cell.labels.get(&drawing.along) == Some(place)
        };
        shown.iter().find(is).and_then(|cell| cell.median(&drawing.measure))
    };
    let lines = values(&drawing.lines).into_iter().map(|line| {
        let values = along.iter().map(|place| at(&line, place)).collect();
        SweepLine { arm: line, values }
    });
    let lines = lines.collect();
    let (name, unit) = measure(&drawing.measure).map(|m| (m.name, m.unit)).unwrap_or_default();
    let of = drawing.of.iter().map(|(key, values)| format!(", {key} {}", values.join(", ")));
    Picture::Sweep(Sweep {
        what: format!("{name}{}", of.collect::<String>()),
        unit: unit.to_owned(),
        axis: drawing.along.clone(),
        along,
        arms: lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_outcome::Row;

    #[test]
    fn a_table_has_the_labels_that_differ_and_a_picture_a_line_for_each_mode() {
        let row = |mode: &str, flows: u32, drops: f64| {
            Row::new(&[("mode", &mode), ("flows", &flows), ("rate", &"1")], &[("drops", drops)])
        };
        let rows = [row("linux", 10, 5.0), row("zd", 10, 0.0), row("linux", 20, 7.0)];
        let all = cells(&rows);
        let drawing = Drawing {
            measure: "drops".to_owned(),
            along: "flows".to_owned(),
            lines: "mode".to_owned(),
            of: Default::default(),
        };
        let Picture::Sweep(sweep) = picture(&drawing, &all) else { panic!() };
        assert_eq!(sweep.along, ["10", "20"]);
        assert_eq!(sweep.arms[0].values, [Some(5.0), Some(7.0)]);
        assert_eq!(sweep.arms[1].values, [Some(0.0), None]);
        let claim = Claim {
            id: "c".to_owned(),
            title: String::new(),
            source: String::new(),
            about: String::new(),
            how: How::BackEnd,
            table: vec!["drops".to_owned(), "mbps".to_owned()],
            figures: Vec::new(),
            changed: Vec::new(),
            drawings: Vec::new(),
            hash: String::new(),
        };
        let mut out = String::new();
        table(&mut out, &claim, &all);
        assert_eq!(
            out,
            "\n| flows | mode | drops | goodput, Mbit/s |\n|---|---|---|---|\n| 10 | linux | 5 | \
             |\n| 10 | zd | 0 | |\n| 20 | linux | 7 | |\n"
        );
    }
}
