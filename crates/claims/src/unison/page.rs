//! The page: `docs/results/unison.md`.

use std::fmt::Write;

use forebay_picture::number::figure;

use super::claims::{Claim, claims, mean_of_one};
use super::pictures::most_of_providers;
use super::stats::{highest, lowest, median};
use super::{Fair, Results, Setup, TITLE};

/// The page in Markdown; `run` says when and where it was run, and `notes` what was found out about rows that are
/// outside their bands.
pub fn page(results: &Results, run: &str, notes: &str, pictures: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, results, run, notes, pictures);
    out
}

fn percent(share: f64) -> String {
    // What rounds to nothing has no sign.
    let value = share * 100.0;
    format!("{} %", figure(if value.abs() < 0.005 { 0.0 } else { value }))
}

fn band(claim: &Claim) -> String {
    let value = |v: f64| if claim.share { percent(v) } else { figure(v) };
    match (claim.low.is_finite(), claim.high.is_finite()) {
        (true, true) if claim.high - claim.low < 1e-9 => value(claim.low),
        (true, true) => format!("{} to {}", value(claim.low), value(claim.high)),
        (true, false) => format!("at least {}", value(claim.low)),
        _ => format!("at most {}", value(claim.high)),
    }
}

fn write(
    out: &mut String,
    results: &Results,
    run: &str,
    notes: &str,
    pictures: &str,
) -> std::fmt::Result {
    let claims = claims(results);
    let within = claims.iter().filter(|c| c.within()).count();
    writeln!(out, "# {TITLE}\n")?;
    writeln!(
        out,
        "The figures of Yimeng Zhao's thesis, chapter 3, section 3.5, by this project's optimiser and on the text's set-up: one ISP, twenty\n\
         content providers of one to five interconnections each, whose own networks are drawn from the same topologies; demands by a gravity model\n\
         with populations of a heavy tail; early exit and shortest paths as what is there without Unison. Flows may be split unless a row says\n\
         otherwise. What the text leaves open is ours: the congestion parameter, {} here; sizes; which routers are connected; how much\n\
         of what is asked of them interconnections carry, of which it gives the source only; and the traffic of figure 3.11.\n",
        results.congestion
    )?;
    let topologies = if results.synthetic {
        "Topologies are made up (`--topologies` was not given)."
    } else {
        "Topologies are files of the [Internet Topology Zoo](https://topology-zoo.org) (S. Knight et al., IEEE JSAC 29(9), 2011; CC BY 4.0)."
    };
    let mut options = if results.synthetic { "" } else { " --topologies DIR" }.to_owned();
    if let Some(most) = results.routers {
        options += &format!(" --routers {most}");
    }
    let parameter = match results.congestion == Setup::CONGESTION {
        true => String::new(),
        false => format!(" --congestion {}", results.congestion),
    };
    writeln!(
        out,
        "    forebay plan reproduce --seeds {} --fair-seeds {}{options}{parameter}\n\nmakes this page. {topologies} Bands were written before the first \
         run, and none was changed after one; rows of a second reading came later, with the bands of the rows that they repeat. {run}\n",
        results.seeds, results.fair_seeds
    )?;
    writeln!(out, "{within} of {} within their bands.\n", claims.len())?;
    writeln!(out, "| | the text | band | ours |\n|---|---|---|---|")?;
    for claim in &claims {
        let ours = if claim.share { percent(claim.ours) } else { figure(claim.ours) };
        let verdict =
            if claim.within() { format!("{ours}, within") } else { format!("**{ours}, outside**") };
        let Claim { source, what, says, .. } = claim;
        writeln!(out, "| {source}: {what} | {says} | {} | {verdict} |", band(claim))?;
    }
    if !notes.trim().is_empty() {
        writeln!(out, "\n{}", notes.trim())?;
    }
    gains(out, results, pictures)?;
    participants(out, results, pictures)?;
    environment(out, results, pictures)
}

fn gains(out: &mut String, results: &Results, pictures: &str) -> std::fmt::Result {
    writeln!(out, "\n## Gains (figures 3.7 and 3.8)\n")?;
    writeln!(
        out,
        "Over early exit; the median of all seeds, in brackets the lowest and the highest. *Whole* keeps aggregates whole, and is not asked of\n\
         networks of more than 60 routers. A single provider gained up to {} %.\n",
        most_of_providers(results)
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
        "With other congestion parameters, of networks of up to 80 routers and seed 1:\n"
    )?;
    writeln!(out, "| parameter | highest gain of a topology | median gain |\n|---|---|---|")?;
    for (parameter, most, middle) in &results.congestions {
        writeln!(out, "| {parameter} | {} | {} |", percent(*most), percent(*middle))?;
    }
    Ok(())
}

fn participants(out: &mut String, results: &Results, pictures: &str) -> std::fmt::Result {
    writeln!(out, "\n## Who participates (figures 3.9 and 3.10)\n")?;
    writeln!(
        out,
        "Medians over {} seeds. Who does not participate keeps at least what early exit gives it.\n",
        results.fair_seeds
    )?;
    fair(out, &results.fair)?;
    writeln!(out, "\n![WBA and MCF]({pictures}/fairness.svg)\n")?;
    writeln!(
        out,
        "The set-up to the letter: an interconnection carries what is asked of it times the figure that was published for one that would be\n\
         overloaded (1 to 2.5, the median 1.19), where the rows above divide by it; and nobody is promised what early exit gives it, neither\n\
         by WBA nor by MCF.\n"
    )?;
    fair(out, &results.literal)?;
    writeln!(out)?;
    writeln!(
        out,
        "One neighbour alone, over nobody's participating while paths inside are optimised all the same: twenty providers with each seed.\n"
    )?;
    writeln!(out, "| topology | mean | highest |\n|---|---|---|")?;
    for one in &results.one {
        writeln!(
            out,
            "| {} | {} | {} |",
            one.name,
            percent(mean_of_one(one)),
            percent(highest(&one.gains))
        )?;
    }
    writeln!(
        out,
        "\nTen of twenty participate, in four ways, with seed 1; gains over early exit, of the network and the mean of providers:\n"
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
    writeln!(
        out,
        "A plan is made of the mean demands of a window, and holds for a window. *Reserved* lets no flow send more than the plan gave it; *shared*\n\
         lets it send what the plan's ways have room for. Means of all steps, over early exit with the same demands.\n"
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
    writeln!(
        out,
        "Each aggregate cut into parts that take one way each; the gap to what flows carry that may be split at will, and the processor time of a\n\
         plan. Times are of a machine with other work on it: read them against each other.\n"
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
