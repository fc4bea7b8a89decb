//! The page: Markdown, and pictures beside it.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::catalogue::{Catalogue, Claim, Drawing, measure};
use super::rows::{Cell, cells, is_of};
use crate::figure::{Tried, Verdict, row_head, tally as tally_of, told, within};
use crate::scenarios::{Picture, Sweep, SweepLine};
use forebay_outcome::{Row, Rows, Store, StoreError};

/// The page of `catalogue` and of what is in `store`, whose pictures are drawn.
///
/// # Errors
/// If something stored cannot be read, or a picture not written.
pub fn page(catalogue: &Catalogue, store: &Store) -> Result<String, StoreError> {
    let mut sections = String::new();
    let mut tally = String::from("| claim | | runs | |\n|---|---|---|---|\n");
    for claim in &catalogue.claims {
        let stored = store.read::<Rows>(&claim.id)?;
        let _ = writeln!(
            tally,
            "| {} | {} | `{}` | {} |",
            claim.id,
            claim.title,
            claim.how.engine(),
            stored
                .as_ref()
                .map_or("not run".to_owned(), |s| within(tally_of(&tried(claim, &s.rows))))
        );
        section(&mut sections, claim, stored.as_ref(), store)?;
    }
    Ok(format!(
        "# {}\n\n{}\n\n    forebay lab reproduce zd --engine sim --engine uml\n\n\
         makes this page. Bands were written before the runs that they judge, and none was changed after one. A cell's figure is the median of \
         its seeds; in brackets are the lowest and the highest that a seed alone gives.\n\n{tally}\n\
         Figures within their bands, of those that are judged.\n{sections}",
        catalogue.title,
        catalogue.about.trim()
    ))
}

fn tried(claim: &Claim, rows: &[Row]) -> Vec<Tried> {
    let figures = claim.figures.iter().map(|figure| {
        let value = figure.quantity.of(rows);
        let (_, _, unit, _) = measure(&figure.quantity.measure).unwrap_or_default();
        Tried {
            what: figure.what.clone(),
            unit: if figure.quantity.to.is_some() { "" } else { unit }.to_owned(),
            source: figure.source,
            band: figure.band.to_string(),
            value,
            verdict: Verdict::of(figure.band, figure.source, value),
        }
    });
    figures.collect()
}

fn section(
    out: &mut String,
    claim: &Claim,
    stored: Option<&Rows>,
    store: &Store,
) -> Result<(), StoreError> {
    let (title, id, about) = (&claim.title, &claim.id, claim.about.trim());
    let _ = write!(out, "\n## {title}\n\n`{id}`: {}.\n\n{about}\n", claim.source);
    let Some(stored) = stored else {
        let _ = write!(out, "\nNot run.\n");
        return Ok(());
    };
    if !claim.figures.is_empty() {
        judged(out, claim, &stored.rows);
    }
    let all = cells(&stored.rows);
    table(out, claim, &all);
    let seeds: BTreeSet<_> = stored.rows.iter().map(|row| row.labels.get("seed")).collect();
    let s = if seeds.len() == 1 { "" } else { "s" };
    let stale = if stored.hash == claim.hash {
        ""
    } else {
        " What is run has changed since: run it again."
    };
    let _ = write!(
        out,
        "\n{}, {}, load {} at the end; {} runs, {} seed{s}.{stale}\n",
        stored.date,
        stored.machine,
        stored.load,
        stored.rows.len(),
        seeds.len()
    );
    for (n, drawing) in claim.drawings.iter().enumerate() {
        let picture = picture(drawing, &all);
        let file = format!("{id}-{}.svg", n + 1);
        store.write_text(&file, &picture.svg(title))?;
        let _ = write!(out, "\n![{title}]({}/{file})\n", store.name());
    }
    Ok(())
}

fn judged(out: &mut String, claim: &Claim, rows: &[Row]) {
    out.push_str("\n| | the text | band | ours |\n|---|---|---|---|\n");
    let tried = tried(claim, rows);
    for one in &tried {
        let head = row_head(&one.what, &one.unit, one.source, &one.band);
        let _ = writeln!(out, "{head} {} |", told(one));
    }
    let outside = claim.figures.iter().zip(&tried).filter(|(_, t)| t.verdict == Verdict::Outside);
    let notes: Vec<_> = outside
        .filter_map(|(f, _)| f.why.as_ref().map(|why| format!("- {}: {}\n", f.what, why.trim())))
        .collect();
    if !notes.is_empty() {
        let _ = write!(out, "\n{}", notes.concat());
    }
}

/// All cells, a line each: their labels as far as they differ, and the measures.
fn table(out: &mut String, claim: &Claim, cells: &[Cell<'_>]) {
    let keys: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.labels.keys()).collect();
    let mut keys: Vec<_> = keys
        .into_iter()
        .filter(|key| cells.iter().any(|cell| cell.labels.get(*key) != cells[0].labels.get(*key)))
        .collect();
    // Who is compared stands last, beside what is.
    keys.sort_by_key(|key| (*key == "mode", *key == "flows", *key));
    out.push_str("\n|");
    keys.iter().for_each(|key| *out += &format!(" {key} |"));
    let columns = || claim.table.iter().filter_map(|name| measure(name));
    for (_, name, unit, _) in columns() {
        let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
        let _ = write!(out, " {name}{unit} |");
    }
    out.push_str("\n|");
    (0..keys.len() + columns().count()).for_each(|_| out.push_str("---|"));
    out.push('\n');
    for cell in cells {
        out.push('|');
        for key in &keys {
            let _ = write!(out, " {} |", cell.labels.get(*key).map_or("", String::as_str));
        }
        for (name, _, _, digits) in columns() {
            match cell.median(name) {
                Some(value) => {
                    let _ = write!(out, " {value:.digits$} |");
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
    let (_, name, unit, _) = measure(&drawing.measure).unwrap_or_default();
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

    #[test]
    fn a_table_names_what_differs_and_pictures_have_a_line_for_each() {
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
            how: super::super::catalogue::How::BackEnd,
            table: vec!["drops".to_owned(), "mbps".to_owned()],
            figures: Vec::new(),
            drawings: Vec::new(),
            hash: String::new(),
        };
        let mut out = String::new();
        table(&mut out, &claim, &all);
        assert_eq!(
            out,
            "\n| flows | mode | drops | goodput, Mbit/s |\n|---|---|---|---|\n| 10 | linux | 5 | |\n| 10 | zd | 0 | \
             |\n| 20 | linux | 7 | |\n"
        );
    }
}
