//! The vSwitch as a picture: a band for each flow from its entry to its boundary router.

use std::collections::BTreeMap;

use forebay_picture::svg::{Anchor, Path, Svg};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::{note, rate};

const WIDTH: f64 = 520.0;
/// The height of all bands together.
const BANDS: f64 = 300.0;
/// The gap between two entries, or two routers.
const GAP: f64 = 16.0;
const TOP: f64 = 30.0;
/// Where bands begin and end.
const LEFT: f64 = 150.0;
const RIGHT: f64 = 410.0;
/// The most entries, and the most routers, in the picture; the rest is one entry or router,
/// "others".
const MAX_ENDS: usize = 12;
/// The number of colours for bands in the style sheet.
const COLOURS: usize = 6;

/// One flow of the picture.
struct Flow<'a> {
    /// The index of the provider, for the colour.
    provider: usize,
    /// The provider and its entry.
    input: (&'a str, &'a str),
    /// The boundary router.
    output: &'a str,
    /// The rates now and if the hints are followed, in bits per second.
    rates: [f64; 2],
}

/// Draws both pictures: now, and if the hints are followed.
pub(super) fn pictures(flows: &[Value]) -> Markup {
    let flows = read(flows);
    let inputs = ranked(&flows, |f| f.input);
    let outputs = ranked(&flows, |f| f.output);
    let whole: f64 = flows.iter().map(|f| f.rates[0]).sum::<f64>();
    let whole = whole.max(flows.iter().map(|f| f.rates[1]).sum());
    if whole <= 0.0 {
        return note("There is no demand.");
    }
    let rows = inputs.len().max(outputs.len());
    let height = TOP + BANDS + GAP * rows as f64 + 12.0;
    let draw = |when: usize, id: &str, title: &str| {
        let mut svg = Svg::new(id, title, &description(&flows, when), WIDTH, height);
        svg.text("heading", (LEFT, 16.0), Anchor::Start, title);
        bands(&mut svg, &flows, &inputs, &outputs, when, BANDS / whole);
        html! { div { (PreEscaped(svg.finish())) } }
    };
    html! {
        div class="pair" {
            (draw(0, "switch-now", "now"))
            (draw(1, "switch-then", "if the hints are followed"))
        }
    }
}

fn read(flows: &[Value]) -> Vec<Flow<'_>> {
    let mut providers: Vec<&str> = Vec::new();
    let mut out = Vec::new();
    for flow in flows {
        let Some(provider) = flow["provider"].as_str() else { continue };
        let place = providers.iter().position(|p| *p == provider).unwrap_or_else(|| {
            providers.push(provider);
            providers.len() - 1
        });
        out.push(Flow {
            provider: place,
            input: (provider, flow["entry"].as_str().unwrap_or_default()),
            output: flow["router"].as_str().unwrap_or_default(),
            rates: ["now", "after"].map(|when| flow[when].as_f64().unwrap_or(0.0).max(0.0)),
        });
    }
    out
}

/// Returns the entries or routers with most traffic, by name. If some are left out, the last is
/// `None`.
fn ranked<'a, K: Ord + Copy>(flows: &[Flow<'a>], of: impl Fn(&Flow<'a>) -> K) -> Vec<Option<K>> {
    let mut sums: BTreeMap<K, f64> = BTreeMap::new();
    for flow in flows {
        *sums.entry(of(flow)).or_default() += flow.rates[0].max(flow.rates[1]);
    }
    let mut all: Vec<(K, f64)> = sums.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more = all.len() > MAX_ENDS;
    all.truncate(MAX_ENDS - usize::from(more));
    let mut keys: Vec<K> = all.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    let rest = more.then_some(None);
    keys.into_iter().map(Some).chain(rest).collect()
}

fn index_of<K: PartialEq + Copy>(ends: &[Option<K>], key: K) -> usize {
    let own = ends.iter().position(|end| *end == Some(key));
    own.unwrap_or(ends.len().saturating_sub(1))
}

fn bands(
    svg: &mut Svg,
    flows: &[Flow<'_>],
    inputs: &[Option<(&str, &str)>],
    outputs: &[Option<&str>],
    when: usize,
    scale: f64,
) {
    let mut pairs: BTreeMap<(usize, usize, usize), f64> = BTreeMap::new();
    for flow in flows {
        let key = (index_of(inputs, flow.input), index_of(outputs, flow.output), flow.provider);
        *pairs.entry(key).or_default() += flow.rates[when] * scale;
    }
    let heights = |of: &dyn Fn(&(usize, usize, usize)) -> usize, count: usize| {
        let mut sums = vec![0.0; count];
        pairs.iter().for_each(|(key, height)| sums[of(key)] += height);
        sums
    };
    let left = heights(&|key| key.0, inputs.len());
    let right = heights(&|key| key.1, outputs.len());
    let tops = |heights: &[f64]| {
        let mut at = TOP;
        let top = |height: &f64| {
            let top = at;
            at += height + GAP;
            top
        };
        heights.iter().map(top).collect::<Vec<f64>>()
    };
    let (mut from, mut to) = (tops(&left), tops(&right));
    for (end, (top, height)) in inputs.iter().zip(from.iter().zip(&left)) {
        svg.rect("end", (LEFT - 6.0, *top), (6.0, height.max(1.0)));
        let (name, entry) = end.unwrap_or(("others", ""));
        let middle = top + height / 2.0;
        let label = if entry.is_empty() { name.to_owned() } else { format!("{name} at {entry}") };
        svg.text("", (LEFT - 12.0, middle + 1.0), Anchor::End, &short(&label));
        svg.text("tick", (LEFT - 12.0, middle + 14.0), Anchor::End, &rate(height / scale));
    }
    for (end, (top, height)) in outputs.iter().zip(to.iter().zip(&right)) {
        svg.rect("end", (RIGHT, *top), (6.0, height.max(1.0)));
        svg.text(
            "",
            (RIGHT + 12.0, top + height / 2.0 + 4.0),
            Anchor::Start,
            &short(end.unwrap_or("others")),
        );
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    for ((input, output, provider), height) in &pairs {
        if *height <= 0.0 {
            continue;
        }
        let (a, b) = (from[*input], to[*output]);
        from[*input] += height;
        to[*output] += height;
        let path = Path::default()
            .start((LEFT, a))
            .curve_to((middle, a), (middle, b), (RIGHT, b))
            .line_to((RIGHT, b + height))
            .curve_to((middle, b + height), (middle, a + height), (LEFT, a + height))
            .close();
        svg.path(&format!("flow c{}", provider % COLOURS), &path);
    }
}

fn short(text: &str) -> String {
    const MAX_CHARS: usize = 20;
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_CHARS - 1).chain(['…']).collect()
}

fn description(flows: &[Flow<'_>], when: usize) -> String {
    let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for flow in flows {
        *sums.entry(flow.input).or_default() += flow.rates[when];
    }
    let parts = sums
        .iter()
        .take(MAX_ENDS)
        .map(|((name, entry), sum)| format!("{name} at {entry}: {}", rate(*sum)));
    parts.collect::<Vec<_>>().join("; ")
}
