//! The page in Markdown: `docs/results/unison.md`.

use std::fmt::Write;
use std::path::Path;

use forebay_claims::age::{Ages, NoAges};
use forebay_claims::catalogue::UNISON as TITLE;
use forebay_claims::changed::{Changed, changed_section};
use forebay_claims::figure::{Value, row_head, told};
use forebay_claims::judge::how_judged;
use forebay_claims::text::wrapped;
use forebay_picture::number::figure;

use crate::claims::{claims, tally};
use crate::participation::Reading;
use crate::pictures::most_of_providers;
use crate::stats::{highest, lowest, mean, median};
use crate::{Fair, Results, Setup};

/// The name of the stored results, which ages refer to.
const RESULTS: &str = "results";

/// The page in Markdown. `notes` explain figures that are outside a band, `changed` are the bands
/// that were changed after a first result, and `pictures` is the directory of the pictures.
pub fn page(
    results: &Results,
    notes: &str,
    changed: &[Changed],
    ages: &Ages,
    pictures: &str,
) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, results, notes, changed, ages, pictures);
    out
}

/// Counts the age of the results, in the checkout that the directory `dir` is in. `None` outside a
/// checkout, or if the commit of the results is not known.
///
/// # Errors
/// If the list of commits that change no figure is wrong.
pub fn ages(results: &Results, dir: &Path) -> Result<Option<Ages>, NoAges> {
    let result = results.commit.iter().map(|commit| (RESULTS.to_owned(), "plan", vec![], commit));
    Ages::count(dir, result)
}

fn percent(share: f64) -> String {
    // A share that rounds to zero has no sign.
    let value = share * 100.0;
    format!("{} %", figure(if value.abs() < 0.005 { 0.0 } else { value }))
}

fn paragraph(out: &mut String, text: &str) -> std::fmt::Result {
    writeln!(out, "{}\n", wrapped(text, ""))
}

fn write(
    out: &mut String,
    results: &Results,
    notes: &str,
    changed: &[Changed],
    ages: &Ages,
    pictures: &str,
) -> std::fmt::Result {
    writeln!(out, "# {TITLE}\n")?;
    paragraph(out, &about(results))?;
    writeln!(out, "    {}\n", command(results))?;
    paragraph(out, &ran(results, ages))?;
    paragraph(out, &how_judged())?;
    paragraph(out, &format!("In all: {}.", tally(results).sentence()))?;
    writeln!(
        out,
        "| | the thesis says | its figure | reproduced | our own bar | ours |\n|---|---|---|---|---|---|"
    )?;
    for claim in claims(results) {
        // A figure that rounds to zero has no sign.
        let ours = if claim.ours.abs() < 0.0005 { 0.0 } else { claim.ours };
        let value = Some(Value { value: ours, min: ours, max: ours });
        let ours = claim.judge(results).told(&told(value, claim.unit));
        let head = row_head(&claim.what, claim.unit, &claim.criteria);
        let head = head.trim_start_matches("| ");
        let (what, rest) = head.split_once(" | ").unwrap_or((head, ""));
        writeln!(out, "| {}: {what} | {} | {rest} {ours} |", claim.source, claim.says)?;
    }
    if !notes.trim().is_empty() {
        writeln!(out, "\n{}", notes.trim())?;
    }
    let changes = changed.iter().map(|change| (change.claim.as_deref().unwrap_or(""), change));
    out.push_str(&changed_section(changes, &[]));
    gains(out, results, pictures)?;
    participants(out, results, pictures)?;
    environment(out, results, pictures)
}

fn about(results: &Results) -> String {
    format!(
        "This page repeats the figures of Yimeng Zhao's thesis, chapter 3, section 3.5, with this \
         project's optimiser on the set-up of the thesis: one ISP and twenty content providers of \
         one to five interconnections each, whose own networks are drawn from the same topologies. \
         Demands follow a gravity model with populations of a heavy tail. Without Unison, traffic \
         takes early exit and shortest paths. Flows may be split unless a row says otherwise. The \
         thesis leaves open what is chosen here: the congestion parameter, {} on this page; the \
         sizes of sources; which routers are connected; the capacity of interconnections over \
         their demand, of which it gives only the source; and the traffic of figure 3.11.",
        results.congestion
    )
}

/// The command that makes the page.
fn command(results: &Results) -> String {
    let mut command = format!("forebay plan reproduce --seeds {}", results.seeds);
    if !results.synthetic {
        command += " --topologies DIR";
    }
    if let Some(most) = results.routers {
        command += &format!(" --routers {most}");
    }
    if results.congestion != Setup::CONGESTION {
        command += &format!(" --congestion {}", results.congestion);
    }
    command
}

/// When and how the results came to be, and what was committed since.
fn ran(results: &Results, ages: &Ages) -> String {
    let topologies = if results.synthetic {
        "Topologies are synthetic (`--topologies` was not given)."
    } else {
        "Topologies are files of the [Internet Topology Zoo](https://topology-zoo.org) (S. Knight \
         et al., IEEE JSAC 29(9), 2011; CC BY 4.0)."
    };
    let Results { date, machine, load, seeds, .. } = results;
    let commit = results.commit.as_ref().map(|c| format!(", {}", c.told())).unwrap_or_default();
    let s = if *seeds == 1 { "" } else { "s" };
    format!(
        "This command makes the page. {topologies} {date}{commit}, {machine}, load {load} at the \
         end; {seeds} seed{s} for all figures.{}",
        ages.told(RESULTS)
    )
}

fn gains(out: &mut String, results: &Results, pictures: &str) -> std::fmt::Result {
    writeln!(out, "\n## Gains (figures 3.7 and 3.8)\n")?;
    paragraph(
        out,
        &format!(
            "Gains are over early exit. A figure is the median of the seeds; brackets hold the \
             lowest and the highest seed. *Whole* keeps aggregates whole, and is not run on \
             networks of more than 60 routers. A single provider gained up to {} %.",
            most_of_providers(results)
        ),
    )?;
    writeln!(
        out,
        "| topology | routers | degree | early exit carries | Unison | paths inside only | whole |\n|---|---|---|---|---|---|---|"
    )?;
    let mut gains: Vec<_> = results.gains.iter().collect();
    gains.sort_by(|a, b| a.degree.total_cmp(&b.degree));
    for gain in gains {
        let range = |v: &[f64]| match v {
            [] => String::new(),
            v => format!(
                "{} [{} to {}]",
                percent(median(v)),
                figure(lowest(v) * 100.0),
                figure(highest(v) * 100.0)
            ),
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            gain.name,
            gain.routers,
            figure(gain.degree),
            percent(median(&gain.carried)),
            range(&gain.unison),
            range(&gain.intra),
            range(&gain.whole)
        )?;
    }
    writeln!(out, "\n![Gains]({pictures}/gain.svg)\n")?;
    writeln!(
        out,
        "With other congestion parameters, on networks of up to 80 routers with seed 1:\n"
    )?;
    writeln!(out, "| parameter | highest gain of a topology | median gain |\n|---|---|---|")?;
    for (parameter, most, middle) in &results.congestions {
        writeln!(out, "| {parameter} | {} | {} |", percent(*most), percent(*middle))?;
    }
    Ok(())
}

fn participants(out: &mut String, results: &Results, pictures: &str) -> std::fmt::Result {
    writeln!(out, "\n## Who participates (figures 3.9 and 3.10)\n")?;
    paragraph(
        out,
        "The set-up of figure 3.9 has two readings, and the page has both, with the same seeds as \
         all other figures.",
    )?;
    for reading in Reading::ALL {
        let text = match reading {
            Reading::Divided => {
                "*Reading 1* is that of all other figures here. The capacity of an interconnection \
                 is its demand divided by the published figure, so half of them are overloaded. A \
                 provider that does not participate keeps at least what early exit gives it."
            }
            Reading::Literal => {
                "*Reading 2* is the set-up to the letter. The capacity of an interconnection is \
                 its demand multiplied by the figure that was published for overloaded ones (1 to \
                 2.5, the median 1.19). No provider is promised what early exit gives it, neither \
                 by WBA nor by MCF."
            }
        };
        paragraph(out, text)?;
        fair(out, results.fair_of(reading))?;
        writeln!(out)?;
        if reading == Reading::Divided {
            writeln!(out, "![WBA and MCF]({pictures}/fairness.svg)\n")?;
        }
    }
    paragraph(
        out,
        "One neighbour alone: the gain over no participants, with paths inside the ISP optimised \
         in both cases, for twenty providers with each seed.",
    )?;
    writeln!(out, "| topology | mean | highest |\n|---|---|---|")?;
    for one in &results.one {
        writeln!(
            out,
            "| {} | {} | {} |",
            one.name,
            percent(mean(&one.gains)),
            percent(highest(&one.gains))
        )?;
    }
    writeln!(out)?;
    paragraph(
        out,
        "Ten of twenty providers participate, in four sets, with seed 1. Gains are over early \
         exit, of the network and the mean of providers.",
    )?;
    writeln!(
        out,
        "| topology | set | network: OptAll | OptPartial | participants: OptAll | OptPartial | others: OptAll | OptPartial |\n|---|---|---|---|---|---|---|---|"
    )?;
    for p in &results.partial {
        let [joining, staying] = p.means();
        let cells = [p.total, joining, staying]
            .map(|(all, partial)| format!("{} | {}", percent(all), percent(partial)));
        writeln!(out, "| {} | {} | {} |", p.name, p.set, cells.join(" | "))?;
    }
    writeln!(out, "\n![OptAll and OptPartial]({pictures}/participation.svg)")
}

fn fair(out: &mut String, rows: &[Fair]) -> std::fmt::Result {
    writeln!(
        out,
        "| topology | participants | WBA carries | MCF carries | WFI of WBA | WFI of MCF |\n|---|---|---|---|---|---|"
    )?;
    for f in rows {
        writeln!(
            out,
            "| {} | {} | {} | {} | {:.4} | {:.4} |",
            f.name,
            f.participants,
            percent(f.wba),
            percent(f.most),
            f.wba_wfi,
            f.most_wfi
        )?;
    }
    Ok(())
}

fn environment(out: &mut String, results: &Results, pictures: &str) -> std::fmt::Result {
    writeln!(out, "\n## Traffic that changes (figure 3.11)\n")?;
    paragraph(
        out,
        "A plan is made from the mean demands of one window and holds for the next. *Reserved* \
         lets no flow send more than the plan gave it. *Shared* lets it send what the plan's paths \
         have room for. Gains are means of all steps, over early exit with the same demands.",
    )?;
    writeln!(out, "| topology | window, steps | reserved | shared |\n|---|---|---|---|")?;
    for d in &results.dynamic {
        for w in &d.windows {
            writeln!(
                out,
                "| {} | {} | {} | {} |",
                d.name,
                w.steps,
                percent(w.reserved),
                percent(w.shared)
            )?;
        }
    }
    writeln!(out, "\n![Windows]({pictures}/dynamic.svg)\n\n## Sub-flows (figure 3.12)\n")?;
    paragraph(
        out,
        "Each aggregate is cut into parts that take one path each. The gap is to flows that may be \
         split at will; the time is the processor time of a plan. The machine had other work, so \
         read times against each other.",
    )?;
    writeln!(out, "| topology | sub-flows | gap | time, s |\n|---|---|---|---|")?;
    for g in &results.grain {
        for c in &g.cuts {
            writeln!(
                out,
                "| {} | {} | {} | {} |",
                g.name,
                c.sub_flows,
                percent(c.gap),
                figure(c.seconds)
            )?;
        }
    }
    writeln!(out, "\n![Sub-flows]({pictures}/sub-flows.svg)")
}
