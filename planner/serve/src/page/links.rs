//! The utilisation of links as a picture: for each link a line from the present to the planned
//! value.

use forebay_picture::svg::{Anchor, Svg};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::{note, rate, share};

/// The most links in the picture.
const MAX_LINKS: usize = 16;
const WIDTH: f64 = 1060.0;
const ROW: f64 = 24.0;
const TOP: f64 = 26.0;
const LEFT: f64 = 260.0;
const RIGHT: f64 = 830.0;

/// Draws the links with the highest utilisation, now or if the hints are followed.
pub(super) fn picture(links: &[Value]) -> Markup {
    let figure = |link: &Value, key: &str| link[key].as_f64().unwrap_or(0.0);
    let used = |link: &Value| {
        let capacity = figure(link, "capacity");
        let of = |key: &str| if capacity > 0.0 { figure(link, key) / capacity } else { 0.0 };
        (of("before"), of("after"))
    };
    let mut rows: Vec<(&Value, f64, f64)> = links
        .iter()
        .map(|link| {
            let (now, then) = used(link);
            (link, now, then)
        })
        .collect();
    rows.sort_by(|a, b| b.1.max(b.2).total_cmp(&a.1.max(a.2)).then(b.1.total_cmp(&a.1)));
    let more = rows.len().saturating_sub(MAX_LINKS);
    rows.truncate(MAX_LINKS);
    if rows.is_empty() {
        return note("No link with a known capacity is used.");
    }
    // The demand on a link may exceed its capacity; the scale ends at what it can carry.
    let x = |part: f64| LEFT + (RIGHT - LEFT) * part.clamp(0.0, 1.0);
    let height = TOP + ROW * rows.len() as f64 + 8.0;
    let desc = "The utilisation of each link now, and if the hints are followed.";
    let mut svg = Svg::new("links", "Links and interconnections", desc, WIDTH, height);
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line("grid", (x(tick), TOP - 6.0), (x(tick), height - 8.0));
        svg.text("tick", (x(tick), TOP - 12.0), Anchor::Middle, &share(tick));
    }
    for (at, (link, now, then)) in rows.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 0.5);
        let name = |key: &str| link[key].as_str().unwrap_or_default().to_owned();
        let title = format!("{} → {}", name("from"), name("to"));
        svg.text("", (LEFT - 14.0, y + 4.0), Anchor::End, &title);
        svg.line("track", (x(0.0), y), (x(1.0), y));
        let direction = if then > now { "more" } else { "less" };
        svg.titled_line(&format!("move {direction}"), (x(*now), y), (x(*then), y), &title);
        svg.circle("dot now", (x(*now), y), 5.0);
        svg.circle("dot then", (x(*then), y), 5.0);
        let text = format!(
            "{} → {}  of {}",
            share(*now),
            share(*then),
            rate(link["capacity"].as_f64().unwrap_or(0.0))
        );
        svg.text("value", (RIGHT + 16.0, y + 4.0), Anchor::Start, &text);
    }
    html! {
        div class="wide" { (PreEscaped(svg.finish())) }
        @if more > 0 { (note(&format!("{more} more links are not shown."))) }
    }
}
