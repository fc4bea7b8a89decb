//! Draws the traffic over time.

use std::collections::BTreeMap;

use forebay_picture::number::figure;
use forebay_picture::plot::{Plot, class};
use forebay_picture::svg::{Anchor, Svg, sheet};

use super::record::{Record, Sample};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 80.0;

impl Record {
    /// Returns an SVG file with the traffic to users from each provider, the traffic of each entry,
    /// and the events.
    pub fn picture(&self) -> String {
        let providers: Vec<&str> = self.before.providers.keys().map(String::as_str).collect();
        let entries: Vec<&str> = self.entries.iter().map(String::as_str).collect();
        let panels = vec![
            self.panel("providers", "What reached users from each provider", &providers, |s| {
                &s.providers
            }),
            self.panel("entries", "What each entry carried into the network", &entries, |s| {
                &s.entries
            }),
        ];
        sheet("Hints at work", panels, 1)
    }

    fn panel(
        &self,
        id: &str,
        title: &str,
        names: &[&str],
        of: impl Fn(&Sample) -> &BTreeMap<String, f64>,
    ) -> (String, Svg) {
        let value = |s: &Sample, name: &str| of(s).get(name).copied().unwrap_or(0.0);
        let all = self.series.iter().flat_map(|s| names.iter().map(move |n| (s, *n)));
        let highest = all.map(|(s, n)| value(s, n)).fold(1.0, f64::max);
        let reach = self.series.last().map_or(1.0, |s| s.at);
        let last = |name: &str| self.series.last().map_or(0.0, |s| value(s, name));
        let desc: Vec<_> = names
            .iter()
            .map(|name| {
                let rate = |t: &super::Throughput| {
                    t.providers.get(*name).or(t.entries.get(*name)).copied().unwrap_or(0.0)
                };
                format!(
                    "{name}: {} before, {} with hints",
                    figure(rate(&self.before)),
                    figure(rate(&self.after))
                )
            })
            .collect();
        let desc = format!("Mbit/s over time. {}", desc.join("; "));
        let mut svg = Svg::new(id, title, &desc, WIDTH, HEIGHT);
        let size = (WIDTH - LEFT - RIGHT, HEIGHT - 74.0);
        let plot = Plot::new((LEFT, 30.0), size, reach, highest);
        plot.rule(&mut svg, "Mbit/s");
        plot.scale(&mut svg, " s");
        for (number, (at, what)) in self.events.iter().enumerate() {
            let x = plot.x(*at);
            svg.titled_line("event fault", (x, 30.0), (x, plot.bottom()), what);
            svg.text("tick", (x, 24.0), Anchor::Middle, &(number + 1).to_string());
        }
        for (number, name) in names.iter().enumerate() {
            let points: Vec<_> = self.series.iter().map(|s| Some((s.at, value(s, name)))).collect();
            plot.curve(&mut svg, class(number), &points);
        }
        let ends: Vec<_> =
            names.iter().enumerate().map(|(n, name)| (class(n), *name, last(name))).collect();
        plot.names(&mut svg, &ends);
        let axis = (LEFT + size.0 / 2.0, plot.bottom() + 36.0);
        svg.text(
            "tick",
            axis,
            Anchor::Middle,
            "seconds of traffic; numbers above: what happened, in order",
        );
        (title.to_owned(), svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_curves_and_events_are_drawn() {
        let rates = |value: f64| [("x".to_owned(), value)].into();
        let sample = |at: f64| Sample { at, providers: rates(10.0 * at), entries: rates(3.0) };
        let record = Record {
            entries: vec!["x".to_owned()],
            before: super::super::Throughput { providers: rates(1.0), ..Default::default() },
            series: vec![sample(1.0), sample(2.0)],
            events: vec![(1.5, "round <1>".to_owned())],
            ..Record::default()
        };
        let picture = record.picture();
        assert_eq!(picture.matches("class=\"curve c0\"").count(), 2);
        assert_eq!(picture.matches("round &lt;1&gt;").count(), 2);
    }
}
