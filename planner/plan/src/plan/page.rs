//! A plan as one HTML page: figures, flow diagrams and what changes. It loads nothing and has no
//! scripts.

use std::collections::BTreeMap;

use forebay_picture::number::rate;
use forebay_picture::plot::class;
use forebay_picture::svg::{Anchor, Path, Svg};
use forebay_picture::{PAGE_STYLE, STYLE, escape};

use super::report::{FlowChange, Report};

/// The largest number of rows in the table of changes.
const ROWS: usize = 40;
/// The largest number of providers, and of entries, in a diagram; the others are one.
const NODES: usize = 12;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 320.0;
/// The places of the two columns of nodes.
const COLUMNS: (f64, f64) = (150.0, 370.0);
const TOP: f64 = 24.0;
/// The space between two nodes.
const GAP: f64 = 8.0;
const NODE: f64 = 8.0;

const OWN_STYLE: &str = "
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 16px; }
h3 { font-size: 15px; margin: 12px 0 4px; }
svg { display: block; width: 100%; height: auto; max-width: 46rem; }
svg .flow { fill-opacity: .45; stroke: none; }
svg .flow.c0 { fill: var(--sendbox); } svg .flow.c1 { fill: var(--bottleneck); }
svg .flow.c2 { fill: var(--strong); } svg .flow.c3 { fill: var(--fifth); }
svg .flow.c4 { fill: var(--sixth); } svg .flow.c5 { fill: var(--plain); }
svg .node { fill: var(--ink); }
td.number, th.number { text-align: right; white-space: nowrap; }
";

impl Report {
    /// Formats the plan as one self-contained HTML page.
    pub fn html(&self) -> String {
        let percent = |part: f64| format!("{:.1} %", part * 100.0 + 0.0);
        let network = if self.network.is_empty() { "The network" } else { &self.network };
        let tiles = [
            ("carried", rate(self.before.total), rate(self.after.total)),
            (
                "of the demand",
                percent(served(self.before.total, self.demand)),
                percent(served(self.after.total, self.demand)),
            ),
            ("fullest link", percent(self.before.most_used), percent(self.after.most_used)),
            (
                "unfairness (WFI)",
                format!("{:.4}", self.before.wfi),
                format!("{:.4}", self.after.wfi),
            ),
        ];
        let tiles: String = tiles
            .iter()
            .map(|(name, before, after)| {
                format!(
                    "<div class=\"tile\"><span>{name}</span><strong>{} → {}</strong></div>\n",
                    escape(before),
                    escape(after)
                )
            })
            .collect();
        let notes: String = self
            .notes
            .iter()
            .map(|note| format!("<p class=\"say\">Topology: {}.</p>\n", escape(note)))
            .collect();
        let before = diagram("before", "Now", &self.flows, |f| f.before);
        let after = diagram("after", "If the plan is followed", &self.flows, |f| f.after);
        let title = escape(network);
        let lead = format!("{} more is carried. {}", percent(self.gain()), self.moves());
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>Forebay plan: {title}</title>\n<style>{STYLE}{PAGE_STYLE}{OWN_STYLE}</style>\n\
             </head>\n<body>\n<main>\n<header><h1>{title}</h1><p>{}</p></header>\n\
             <section class=\"tiles\">\n{tiles}</section>\n\
             <section><h2>Where traffic comes in</h2><div class=\"pair\">\n\
             <div><h3>Now</h3>{before}</div>\n\
             <div><h3>If the plan is followed</h3>{after}</div></div></section>\n\
             <section><h2>What changes</h2>\n{}</section>\n\
             <section><h2>Providers</h2>\n{}</section>\n\
             <section><h2>Fullest links</h2>\n{}</section>\n{notes}</main>\n</body>\n</html>\n",
            escape(&lead),
            changes(&self.flows),
            providers(self),
            links(self),
        )
    }
}

fn served(total: f64, demand: f64) -> f64 {
    if demand > 0.0 { total / demand } else { 1.0 }
}

/// A table whose columns from `numbers` on are numbers.
fn table(heads: &[&str], numbers: usize, rows: &[Vec<String>]) -> String {
    let class = |n: usize| if n >= numbers { " class=\"number\"" } else { "" };
    let line = |tag: &str, cells: &[String]| {
        let cells = cells.iter().enumerate();
        let cells = cells.map(|(n, c)| format!("<{tag}{}>{}</{tag}>", class(n), escape(c)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let heads: Vec<String> = heads.iter().map(|h| (*h).to_owned()).collect();
    let rows: String = rows.iter().map(|row| line("td", row)).collect();
    format!(
        "<div class=\"scroll\"><table><thead>{}</thead><tbody>\n{rows}</tbody></table></div>\n",
        line("th", &heads)
    )
}

/// The flows that change, those that change most first.
fn changes(flows: &[FlowChange]) -> String {
    let mut changed: Vec<&FlowChange> = flows
        .iter()
        .filter(|f| (f.after - f.before).abs() > 1e-3 * f.after.max(f.before))
        .collect();
    if changed.is_empty() {
        return "<p class=\"say\">No traffic comes in elsewhere.</p>\n".into();
    }
    changed.sort_by(|a, b| (b.after - b.before).abs().total_cmp(&(a.after - a.before).abs()));
    let row = |f: &&FlowChange| {
        let sign = if f.after > f.before { "+" } else { "" };
        let change = format!("{sign}{}", rate(f.after - f.before));
        vec![
            f.provider.clone(),
            f.router.clone(),
            f.entry.clone(),
            rate(f.before),
            rate(f.after),
            change,
        ]
    };
    let rows: Vec<_> = changed.iter().take(ROWS).map(row).collect();
    let mut text = table(&["provider", "to", "comes in at", "now", "then", "change"], 3, &rows);
    if changed.len() > ROWS {
        text += &format!("<p class=\"say\">{} more are in the JSON.</p>\n", changed.len() - ROWS);
    }
    text
}

fn providers(report: &Report) -> String {
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    let row = |p: &super::ProviderResult| {
        let hints = if p.participates { "" } else { " (no hints)" };
        vec![
            format!("{}{hints}", p.name),
            rate(p.demand),
            rate(p.before),
            rate(p.after),
            percent(p.satisfaction_before),
            percent(p.satisfaction_after),
        ]
    };
    let heads = ["provider", "demand", "now", "then", "satisfied now", "then"];
    table(&heads, 1, &report.providers.iter().map(row).collect::<Vec<_>>())
}

fn links(report: &Report) -> String {
    let mut links: Vec<_> = report.links.iter().filter(|l| l.capacity > 0.0).collect();
    if links.is_empty() {
        return "<p class=\"say\">No link with a known capacity is used.</p>\n".into();
    }
    links.sort_by(|a, b| (b.before / b.capacity).total_cmp(&(a.before / a.capacity)));
    let row = |l: &&super::LinkUse| {
        let used = |load: f64| format!("{:.1} %", load / l.capacity * 100.0);
        vec![format!("{} > {}", l.from, l.to), rate(l.capacity), used(l.before), used(l.after)]
    };
    let rows: Vec<_> = links.iter().take(ROWS).map(row).collect();
    table(&["link", "capacity", "now", "then"], 1, &rows)
}

/// The names with the highest sums first; those beyond [`NODES`] are "others".
fn ranked(sums: &BTreeMap<&str, f64>) -> Vec<String> {
    let mut names: Vec<_> = sums.iter().filter(|(_, sum)| **sum > 0.0).collect();
    names.sort_by(|a, b| b.1.total_cmp(a.1));
    let mut kept: Vec<String> = names.iter().take(NODES).map(|(n, _)| (**n).to_owned()).collect();
    if names.len() > NODES {
        kept.push(OTHERS.to_owned());
    }
    kept
}

const OTHERS: &str = "others";

/// A flow diagram from providers to the routers where their traffic comes in: the height of a band
/// is its rate. Both diagrams have the same order of names, and the same scale.
fn diagram(id: &str, title: &str, flows: &[FlowChange], of: fn(&FlowChange) -> f64) -> String {
    let mut sums = [BTreeMap::new(), BTreeMap::new()];
    for f in flows {
        let most = f.before.max(f.after);
        *sums[0].entry(f.provider.as_str()).or_insert(0.0) += most;
        *sums[1].entry(f.entry.as_str()).or_insert(0.0) += most;
    }
    let names = [ranked(&sums[0]), ranked(&sums[1])];
    let place = |side: usize, name: &str| {
        names[side].iter().position(|n| n == name).unwrap_or(names[side].len() - 1)
    };
    let mut rates: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for f in flows {
        *rates.entry((place(0, &f.provider), place(1, &f.entry))).or_insert(0.0) += of(f);
    }
    let most = |of: fn(&FlowChange) -> f64| flows.iter().map(of).sum::<f64>();
    let whole = most(|f| f.before).max(most(|f| f.after)).max(1.0);
    let gaps = names.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let scale = (HEIGHT - TOP - GAP * gaps) / whole;
    let desc: Vec<String> = rates
        .iter()
        .filter(|(_, r)| **r > 0.0)
        .map(|((p, e), r)| format!("{} at {}: {}", names[0][*p], names[1][*e], rate(*r)))
        .collect();
    let mut svg = Svg::new(id, title, &desc.join(". "), WIDTH, HEIGHT);
    let sum = |side: usize, n: usize| -> f64 {
        rates.iter().filter(|((p, e), _)| [*p, *e][side] == n).map(|(_, r)| r).sum()
    };
    let mut tops = [Vec::new(), Vec::new()];
    for side in 0..2 {
        let mut y = TOP;
        for (n, name) in names[side].iter().enumerate() {
            let (height, x) = (sum(side, n) * scale, [COLUMNS.0, COLUMNS.1][side]);
            svg.rect("node", (x, y), (NODE, height.max(0.5)));
            let says = format!("{name} {}", rate(sum(side, n)));
            let (at, anchor) =
                if side == 0 { (x - 6.0, Anchor::End) } else { (x + NODE + 6.0, Anchor::Start) };
            svg.text("tick", (at, y + height / 2.0 + 4.0), anchor, &says);
            tops[side].push(y);
            // A node without traffic still needs the height of its name.
            y += height.max(8.0) + GAP;
        }
    }
    for ((provider, entry), rate) in &rates {
        let height = rate * scale;
        if height <= 0.0 {
            continue;
        }
        let (left, right) = (tops[0][*provider], tops[1][*entry]);
        let (x0, x1) = (COLUMNS.0 + NODE, COLUMNS.1);
        let middle = (x0 + x1) / 2.0;
        let path = Path::default()
            .start((x0, left))
            .curve_to((middle, left), (middle, right), (x1, right))
            .line_to((x1, right + height))
            .curve_to((middle, right + height), (middle, left + height), (x0, left + height))
            .close();
        svg.path(&format!("flow {}", class(*provider)), &path);
        tops[0][*provider] += height;
        tops[1][*entry] += height;
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(provider: &str, entry: &str, before: f64, after: f64) -> FlowChange {
        let router = "r".to_owned();
        FlowChange { provider: provider.into(), entry: entry.into(), router, before, after }
    }

    #[test]
    fn changes_are_in_the_order_of_their_size() {
        let flows =
            [flow("a", "x", 1e9, 2e9), flow("<b>", "y", 5e9, 0.0), flow("c", "z", 1e9, 1e9)];
        let html = changes(&flows);
        assert!(html.find("&lt;b&gt;").unwrap() < html.find(">a<").unwrap());
        assert!(html.contains("-5.00 Gbit/s") && html.contains("+1.00 Gbit/s"));
        assert!(!html.contains(">c<"), "what stays is left out");
        assert!(changes(&flows[2..]).contains("No traffic"));
    }

    #[test]
    fn a_band_is_as_high_as_its_share_of_the_larger_total() {
        let flows = [flow("a", "x", 1e9, 0.0), flow("a", "y", 0.0, 2e9)];
        let before = diagram("d", "t", &flows, |f| f.before);
        let after = diagram("d", "t", &flows, |f| f.after);
        // Two gaps of 8 of 296 are left for 2 Gbit/s: 280, and 140 for half of it.
        assert!(before.contains("width=\"8\" height=\"140\""), "{before}");
        assert!(after.contains("width=\"8\" height=\"280\""), "{after}");
        assert_eq!(before.matches("class=\"flow").count(), 1);
    }

    #[test]
    fn many_entries_become_others() {
        let names: Vec<String> = (0..40).map(|n| format!("e{n:02}")).collect();
        let flows: Vec<_> = names.iter().map(|n| flow("p", n, 1e9, 1e9)).collect();
        let svg = diagram("d", "t", &flows, |f| f.before);
        assert!(svg.contains("others 28.0 Gbit/s"), "{svg}");
    }
}
