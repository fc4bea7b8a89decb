//! The pictures of the page.

use forebay_picture::number::{figure, setting};
use forebay_picture::plot::{Plot, class};
use forebay_picture::svg::{Anchor, Svg, sheet};

use crate::stats::{highest, median, sorted};
use crate::{Gain, Results};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 280.0;
const RIGHT: f64 = 100.0;

/// A line of a panel: its name and its points.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// The title and the axes of a panel.
struct Panel<'a> {
    id: &'a str,
    title: &'a str,
    unit: &'a str,
    axis: &'a str,
    /// Whether points are drawn without lines between them.
    scattered: bool,
}

impl Panel<'_> {
    fn draw(&self, lines: &[Line<'_>]) -> (String, Svg) {
        let all = || lines.iter().flat_map(|l| l.1.iter().copied());
        let (right, top) =
            (all().map(|p| p.0).fold(0.0, f64::max), all().map(|p| p.1).fold(0.0, f64::max));
        let describe = |(name, points): &Line<'_>| {
            let last = points.last().map_or(String::new(), |p| figure(p.1));
            format!("{name}: {last} {}", self.unit)
        };
        let desc = format!(
            "Along {}. {}",
            self.axis,
            lines.iter().map(describe).collect::<Vec<_>>().join("; ")
        );
        let mut svg = Svg::new(self.id, self.title, &desc, WIDTH, HEIGHT);
        let size = (WIDTH - 56.0 - RIGHT, HEIGHT - 74.0);
        let plot = Plot::new((56.0, 24.0), size, right * 1.02, top);
        plot.rule(&mut svg, self.unit);
        plot.scale(&mut svg, "");
        svg.text("tick", (56.0 + size.0 / 2.0, plot.bottom() + 36.0), Anchor::Middle, self.axis);
        let mut names = Vec::new();
        for (n, (name, points)) in lines.iter().enumerate() {
            if !self.scattered {
                let points: Vec<_> = points.iter().map(|p| Some(*p)).collect();
                plot.curve(&mut svg, class(n), &points);
            }
            if points.len() < 200 {
                for (x, y) in points {
                    svg.circle(&format!("dot {}", class(n)), (plot.x(*x), plot.y(*y)), 3.0);
                }
            }
            if let Some((_, end)) = points.last().filter(|_| lines.len() > 1) {
                names.push((class(n), *name, *end));
            }
        }
        plot.names(&mut svg, &names);
        (self.title.to_owned(), svg)
    }
}

/// The pictures of the page, each with the name of its file without the extension.
pub fn pictures(results: &Results) -> Vec<(&'static str, String)> {
    let percent = |share: f64| share * 100.0;
    let points = |gain: fn(&Gain) -> &[f64]| -> Vec<(f64, f64)> {
        results.gains.iter().map(|g| (g.degree, percent(median(gain(g))))).collect()
    };
    let by_degree = Panel {
        id: "f7",
        title: "Gain over early exit",
        unit: "%",
        axis: "mean node degree, a dot for each topology",
        scattered: true,
    };
    let by_degree =
        by_degree.draw(&[("Unison", points(|g| &g.unison)), ("inside only", points(|g| &g.intra))]);
    let shares = |of: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
        let all: Vec<f64> = results.gains.iter().flat_map(|g| g.providers.iter().map(of)).collect();
        let all = sorted(&all);
        let at = |q: usize| all.get(q * all.len().saturating_sub(1) / 100).copied().unwrap_or(0.0);
        // The last few per cent gain many times what they had and would dominate the axis.
        (0..=95).map(|q| (q as f64, percent(at(q)).max(0.0))).collect()
    };
    let providers = Panel {
        id: "f8",
        title: "Gain of a provider over early exit",
        unit: "%",
        axis: "share of providers that gain no more, %",
        scattered: false,
    };
    let providers =
        providers.draw(&[("Unison", shares(|p| p.0)), ("inside only", shares(|p| p.1))]);
    let mut out = vec![("gain", sheet("What is gained", vec![by_degree, providers], 2))];

    let mut panels = Vec::new();
    for name in crate::claims::names(results.fair.iter().map(|f| f.name.as_str())) {
        let own = |value: fn(&crate::Fair) -> f64| -> Vec<(f64, f64)> {
            let own = results.fair.iter().filter(|f| f.name == name);
            own.map(|f| (f.participants as f64, value(f))).collect()
        };
        let (total, index) = (format!("{name}: carried"), format!("{name}: WFI"));
        let axis = "providers that participate";
        let panel = |id, title, unit| Panel { id, title, unit, axis, scattered: false };
        let (a, b) = (format!("t{name}"), format!("w{name}"));
        panels.push(
            panel(&a, &total, "%")
                .draw(&[("WBA", own(|f| f.wba * 100.0)), ("MCF", own(|f| f.most * 100.0))]),
        );
        panels.push(
            panel(&b, &index, "")
                .draw(&[("WBA", own(|f| f.wba_wfi)), ("MCF", own(|f| f.most_wfi))]),
        );
    }
    out.push(("fairness", sheet("WBA and the multi-commodity flow", panels, 2)));

    let partial: Vec<_> = results
        .partial
        .iter()
        .filter(|p| p.set == 1)
        .flat_map(|p| {
            [("participate", &p.joining), ("do not", &p.staying)].map(|(who, gains)| {
                let line = |of: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
                    let values = sorted(&gains.iter().map(of).collect::<Vec<_>>());
                    values
                        .iter()
                        .zip(1..)
                        .map(|(v, n)| (f64::from(n), percent(*v).max(0.0)))
                        .collect()
                };
                let title = format!("{}: gain of those that {who}", p.name);
                let id = format!("p{}{}", p.name, &who[..2]);
                let axis = "providers by gain";
                let panel = Panel { id: &id, title: &title, unit: "%", axis, scattered: false };
                panel.draw(&[("OptAll", line(|g| g.0)), ("OptPartial", line(|g| g.1))])
            })
        })
        .collect();
    out.push(("participation", sheet("OptAll and OptPartial", partial, 2)));

    let windows = results.dynamic.iter().map(|d| {
        let title = format!("{}: carried, of what early exit carries", d.name);
        let id = format!("d{}", d.name);
        let axis = "window, steps";
        let line = |of: fn(&crate::Window) -> f64| -> Vec<(f64, f64)> {
            d.windows.iter().map(|w| (w.steps as f64, percent(1.0 + of(w)))).collect()
        };
        let early = d.windows.iter().map(|w| (w.steps as f64, 100.0)).collect();
        let panel = Panel { id: &id, title: &title, unit: "%", axis, scattered: false };
        panel.draw(&[
            ("reserved", line(|w| w.reserved)),
            ("early exit", early),
            ("shared", line(|w| w.shared)),
        ])
    });
    out.push(("dynamic", sheet("Traffic that changes", windows.collect(), 2)));

    let grain = results.grain.iter().flat_map(|g| {
        let axis = "sub-flows of an aggregate";
        let line = |of: fn(&crate::Cut) -> f64| -> Vec<(f64, f64)> {
            g.cuts.iter().map(|c| (f64::from(c.sub_flows), of(c))).collect()
        };
        let (gap, time) = (format!("{}: gap to the optimum", g.name), format!("{}: time", g.name));
        let (a, b) = (format!("g{}", g.name), format!("s{}", g.name));
        let panel = |id, title, unit| Panel { id, title, unit, axis, scattered: false };
        [
            panel(&a, &gap, "%").draw(&[("gap", line(|c| c.gap.max(0.0) * 100.0))]),
            panel(&b, &time, "s").draw(&[("time", line(|c| c.seconds))]),
        ]
    });
    out.push(("sub-flows", sheet("Sub-flows", grain.collect(), 2)));
    out
}

/// The highest gain of a provider in per cent, for the page.
pub(super) fn most_of_providers(results: &Results) -> String {
    let all: Vec<f64> =
        results.gains.iter().flat_map(|g| g.providers.iter().map(|p| p.0)).collect();
    setting((highest(&all) * 100.0).round())
}
