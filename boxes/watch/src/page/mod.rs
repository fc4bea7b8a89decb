//! The page of a history: one HTML document with its pictures. It loads its style sheet and a small
//! script from the same service, and nothing else.
//!
//! The script replaces *parts*, each an element with an id. [`View::parts`] renders the same parts
//! as [`View::page`], so that an update shows what a new load would.

mod buckets;
mod charts;

use std::collections::BTreeMap;

use forebay_picture::date::{second, time_of_day};
use forebay_picture::number::{count, duration, figure};
use forebay_status::{State, sentence};
use maud::{DOCTYPE, Markup, html};

use crate::bands::{Band, bands, of_series};
use crate::event::LogEvent;
use crate::query;
use crate::recorder::{Live, Recorder};
use crate::series::{Direction, Range, Row, Sample, Series};
use crate::store::StoreError;
use buckets::{Buckets, dropped, marked};

/// The style sheet: that of pictures, that of all pages, and that of this page.
pub(crate) fn style() -> String {
    [forebay_picture::STYLE, forebay_picture::PAGE_STYLE, include_str!("page.css")].concat()
}

/// The script that updates the page.
pub(crate) const SCRIPT: &str = include_str!("page.js");

/// The most peers whose charts are on one page; further ones have a page each.
pub(crate) const MAX_PEERS: usize = 8;
/// The most bands and events that are listed of a bundle.
const MAX_LISTED: usize = 12;
/// The events of all peers that are listed.
const MAX_EVENTS: usize = 40;
/// The rows of the tables of figures.
const FIGURES: u64 = 12;

/// What is to be shown.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) recorder: &'a Recorder,
    pub(crate) range: Range,
    /// The only peer that is shown; `None` shows all.
    pub(crate) peer: Option<&'a str>,
    /// The present time in seconds since 1970.
    pub(crate) now: u64,
    pub(crate) host: &'a str,
}

/// The history of one bundle.
struct Chapter<'a> {
    live: &'a Live,
    id: String,
    rows: Vec<Row>,
    bands: Vec<Band>,
    events: Vec<LogEvent>,
}

impl<'a> View<'a> {
    /// Returns the bundles with charts, by peer.
    fn shown(&self) -> Vec<&'a Live> {
        let live = self.recorder.live();
        let mut names: Vec<&str> = live.iter().map(|live| &live.series.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(MAX_PEERS);
        let mut shown: Vec<&Live> = live
            .iter()
            .filter(|live| match self.peer {
                Some(peer) => live.series.name == peer,
                None => names.contains(&&live.series.name[..]),
            })
            .collect();
        shown.sort_by(|a, b| a.series.cmp(&b.series));
        shown
    }

    fn chapters(&self) -> Result<Vec<Chapter<'a>>, StoreError> {
        let store = self.recorder.store();
        // The reason of a mode may be older than the range.
        let all = store.events(0, false, u64::MAX)?;
        let since = self.now.saturating_sub(self.range.seconds()) * 1000;
        let chapter = |live: &'a Live| {
            let rows = store.rows(&live.series, self.range, self.now)?;
            let mut events = of_series(&all, &live.series);
            let bands = bands(&rows, self.range, &events);
            events.retain(|event| event.at_ms >= since);
            Ok(Chapter { live, id: slug(&live.series), rows, bands, events })
        };
        self.shown().into_iter().map(chapter).collect()
    }

    /// Renders the whole page.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub(crate) fn page(&self) -> Result<String, StoreError> {
        let chapters = self.chapters()?;
        let mut peers: Vec<(&str, Vec<&Chapter<'_>>)> = Vec::new();
        for chapter in &chapters {
            let name = &chapter.live.series.name[..];
            match peers.last_mut() {
                Some((last, list)) if *last == name => list.push(chapter),
                _ => peers.push((name, vec![chapter])),
            }
        }
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "Forebay at " (self.host) }
                    link rel="icon" href="data:,";
                    link rel="stylesheet" href="/style.css";
                    script src="/page.js" defer {}
                }
                body {
                    main {
                        header {
                            h1 { "Forebay at " (self.host) }
                            p {
                                "Times are UTC: it is " span id="clock" { (self.clock()) } ". "
                                span id="live" role="status" {
                                    "Shown as it was when the page was loaded."
                                }
                            }
                        }
                        (self.navigation())
                        div id="notices" aria-live="polite" { (self.notices()) }
                        section aria-labelledby="all" {
                            h2 id="all" { "All peers" }
                            div class="scroll" tabindex="0" role="region"
                                aria-label="Table of all peers" {
                                table {
                                    thead { (overview_head()) }
                                    tbody id="overview" { (self.overview()) }
                                }
                            }
                        }
                        @for (name, chapters) in &peers {
                            section class="peer" aria-label={ "Peer " (name) } {
                                h2 { (name) }
                                @for chapter in chapters { (self.chapter(chapter)) }
                            }
                        }
                        section class="peer" aria-labelledby="log" {
                            h2 id="log" { "Events" }
                            p class="say" {
                                "The last ones of all peers, without routine ones; "
                                code { "forebay events" } " has all."
                            }
                            ol class="events" id="events" { (self.events()?) }
                        }
                        footer { (self.footer()) }
                    }
                }
            }
        };
        Ok(page.into_string())
    }

    /// Renders the parts of the page that change: those of each second, and with `all` the charts
    /// and lists too.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub(crate) fn parts(&self, all: bool) -> Result<BTreeMap<String, String>, StoreError> {
        let mut parts = BTreeMap::new();
        let mut put = |id: &str, markup: Markup| {
            parts.insert(id.to_owned(), markup.into_string());
        };
        put("clock", html! { (self.clock()) });
        put("notices", self.notices());
        put("overview", self.overview());
        for live in self.shown() {
            put(&format!("{}-now", slug(&live.series)), self.present(live));
        }
        if all {
            for chapter in self.chapters()? {
                let id = &chapter.id;
                put(&format!("{id}-charts"), self.charts(&chapter));
                put(&format!("{id}-bands"), band_list(&chapter.bands));
                put(&format!("{id}-figures"), self.figures(&chapter));
            }
            put("events", self.events()?);
        }
        Ok(parts)
    }

    fn clock(&self) -> String {
        second(self.now * 1000).replace('T', " ").replace('Z', "")
    }

    fn navigation(&self) -> Markup {
        html! {
            nav aria-label="Range" {
                @for range in Range::ALL {
                    a href=(query(range, self.peer))
                        aria-current=[(self.range == range).then_some("page")] { (range.title()) }
                }
                @if self.peer.is_some() { a href=(query(self.range, None)) { "All peers" } }
            }
        }
    }

    fn notices(&self) -> Markup {
        let beyond = self.recorder.without_history();
        let is_there = |live: &&Live| live.verdict.state != State::Gone;
        let live_boxes = self.recorder.live().iter().filter(is_there).count();
        html! {
            @if let Some(trouble) = self.recorder.trouble() {
                p class="notice warning" {
                    "The history has not been written since " (time_of_day(trouble.since * 1000))
                    " (" (trouble.why) "), and " (count(trouble.lost)) " rows are lost."
                }
            }
            @if beyond > 0 {
                p class="notice" {
                    (beyond) " bundles have no history, since there are more than the "
                    (crate::store::MAX_SERIES) " that are kept."
                }
            }
            @if live_boxes == 0 {
                p class="notice warning" {
                    "No box answers in this network namespace."
                }
            }
            @for (place, why) in self.recorder.silent() {
                p class="notice warning" { (place) ": " (why) }
            }
        }
    }

    fn overview(&self) -> Markup {
        html! {
            @for live in self.recorder.live() {
                @let Series { name, direction, place } = &live.series;
                @let sample = &live.sample;
                tr {
                    th scope="row" {
                        (direction) " "
                        a href=(query(self.range, Some(name))) { (name) }
                    }
                    td { (state(live.verdict.state)) }
                    td class="number" { (ms(sample.here_ms)) }
                    td class="number" { (ms(sample.there_ms)) }
                    td class="number more" { (mbps(sample.limit_bps)) }
                    td class="number more" { (mbps(sample.rate_bps)) }
                    td class="wrap more" { (live.verdict.why) }
                    td class="more" { (place) }
                }
            }
        }
    }

    fn chapter(&self, chapter: &Chapter<'_>) -> Markup {
        let Chapter { live, id, .. } = chapter;
        let Series { name, direction, place } = &live.series;
        let way = if *direction == Direction::To { "To" } else { "From" };
        html! {
            h3 { (way) " " (name) " " span class="place" { (place) } }
            div id={ (id) "-now" } { (self.present(live)) }
            div class="charts" id={ (id) "-charts" } { (self.charts(chapter)) }
            @if *direction == Direction::To {
                p class="say" {
                    "The strip above each chart has the modes: "
                    @for (class, word) in [
                        ("delay", "delay control"),
                        ("pass", "pass-through"),
                        ("open", "open"),
                        ("trouble", "trouble"),
                    ] { span class={ "key " (class) } { (word) } " " }
                    "Dashed lines are events."
                }
                h4 { "Modes, the latest first" }
                ol class="events" id={ (id) "-bands" } { (band_list(&chapter.bands)) }
            } @else {
                ol class="events" id={ (id) "-bands" } { (band_list(&chapter.bands)) }
            }
            details {
                summary { "Figures of the charts, " (way) " " (name) }
                div class="scroll" tabindex="0" role="region"
                    aria-label={ "Figures, " (way) " " (name) } {
                    table {
                        thead { (figures_head(*direction)) }
                        tbody id={ (id) "-figures" } { (self.figures(chapter)) }
                    }
                }
            }
        }
    }

    fn charts(&self, chapter: &Chapter<'_>) -> Markup {
        charts::charts(&charts::Shared {
            id: &chapter.id,
            direction: chapter.live.series.direction,
            classes: &chapter.live.classes,
            rows: &chapter.rows,
            bands: &chapter.bands,
            events: &chapter.events,
            range: self.range,
            now: self.now,
        })
    }

    /// Renders what is true of a bundle now.
    fn present(&self, live: &Live) -> Markup {
        let sample = &live.sample;
        html! {
            p class="say" { (state(live.verdict.state)) ". " (live.verdict.why) }
            @match live.series.direction {
                Direction::To => {
                    div class="tiles" {
                        (tile("mode", sample.mode.map_or("", |mode| mode.word()), &self.since(live)))
                        (tile("waits here", &ms(sample.here_ms), ""))
                        (tile("at the bottleneck", &ms(sample.there_ms), &round_trip(live)))
                        (tile("small transfers wait", &ms(sample.small_ms), &longest(sample.small_high_ms)))
                        (tile("large ones wait", &ms(sample.large_ms), &longest(sample.large_high_ms)))
                        (tile("limit", &mbps(sample.limit_bps), ""))
                        (tile("left here", &mbps(sample.rate_bps), ""))
                        (tile("arrived there", &mbps(sample.arrived_bps), ""))
                        (tile("dropped here", &share(dropped(sample)), &packets(sample.dropped)))
                        (tile("marked here", &share(marked(sample)), &packets(sample.marked)))
                        (tile("lost on the path", &share(sample.lost), ""))
                    }
                    @if let Some(reason) = &live.reason {
                        p class="say" { "In this mode since: " (sentence(reason)) }
                    }
                }
                Direction::From => {
                    div class="tiles" {
                        (tile("arrived here", &mbps(sample.rate_bps), &packets(sample.packets)))
                    }
                }
            }
        }
    }

    fn since(&self, live: &Live) -> String {
        let since = live.since_ms.map(|since| (self.now * 1000).saturating_sub(since));
        since.map_or_else(String::new, |ms| format!("for {}", duration((ms / 1000) as f64)))
    }

    fn figures(&self, chapter: &Chapter<'_>) -> Markup {
        let parts = Buckets::new(&chapter.rows, self.range, self.now, FIGURES);
        // Parts of whole minutes need no seconds.
        let shown = if parts.step.is_multiple_of(60) { 5 } else { 8 };
        let time = |index: usize| {
            time_of_day((parts.start + index as u64 * parts.step) * 1000)[..shown].to_owned()
        };
        let cells = |sample: &Sample| match chapter.live.series.direction {
            Direction::To => vec![
                ms(sample.here_ms),
                ms(sample.there_ms),
                ms(sample.small_ms),
                ms(sample.large_ms),
                mbps(sample.limit_bps),
                mbps(sample.rate_bps),
                mbps(sample.arrived_bps),
                share(dropped(sample)),
                share(marked(sample)),
                share(sample.lost),
            ],
            Direction::From => vec![mbps(sample.rate_bps)],
        };
        html! {
            @for (index, sample) in parts.samples.iter().enumerate().rev() {
                @if let Some(sample) = sample {
                    tr {
                        th scope="row" { (time(index)) }
                        @for cell in cells(sample) { td class="number" { (cell) } }
                    }
                }
            }
        }
    }

    fn events(&self) -> Result<Markup, StoreError> {
        let since = self.now.saturating_sub(self.range.seconds()) * 1000;
        let store = self.recorder.store();
        let mut events = store.events(since, false, u64::MAX)?;
        if let Some(peer) = self.peer {
            events.retain(|event| event.peer == peer || event.peer.is_empty());
        }
        let more = events.len().saturating_sub(MAX_EVENTS);
        Ok(html! {
            @if events.is_empty() { li { "Nothing happened." } }
            @for event in events.iter().rev().take(MAX_EVENTS) { (item(event)) }
            @if more > 0 { li { (more) " earlier ones: " code { "forebay events" } } }
        })
    }

    fn footer(&self) -> Markup {
        let live = self.recorder.live().len();
        html! {
            "The history of " (live) " bundles is in " (self.recorder.store().path().display())
            ". The same figures as JSON: " a href="/status.json" { "the present" } ", "
            a href={ "/history.json" (query(self.range, self.peer)) } { "the history" } "."
        }
    }
}

/// Returns the query of a page.
fn query(range: Range, peer: Option<&str>) -> String {
    let range = range.word();
    match peer {
        None => format!("?range={range}"),
        Some(peer) => format!("?range={range}&peer={}", query::encode(peer)),
    }
}

/// Returns an id for elements of a bundle: a hash, since names may have any letters (FNV-1a with 64
/// bits, RFC 9923).
pub(crate) fn slug(series: &Series) -> String {
    let text = format!("{}\0{}\0{}", series.place, series.direction, series.name);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("b{hash:016x}")
}

fn overview_head() -> Markup {
    html! {
        tr {
            th scope="col" { "peer" }
            th scope="col" { "state" }
            th scope="col" class="number" { "waits here" }
            th scope="col" class="number" { "at the bottleneck" }
            th scope="col" class="number more" { "limit" }
            th scope="col" class="number more" { "rate" }
            th scope="col" class="more" { "why" }
            th scope="col" class="more" { "box" }
        }
    }
}

fn figures_head(direction: Direction) -> Markup {
    let columns: &[&str] = match direction {
        Direction::To => &[
            "waits here",
            "at the bottleneck",
            "small transfers wait",
            "large ones wait",
            "limit",
            "left here",
            "arrived there",
            "dropped here",
            "marked here",
            "lost on the path",
        ],
        Direction::From => &["arrived here"],
    };
    html! {
        tr {
            th scope="col" { "from" }
            @for column in columns { th scope="col" class="number" { (column) } }
        }
    }
}

/// Renders a state with a colour and a shape.
fn state(state: State) -> Markup {
    let class = match state {
        State::Trouble | State::Gone | State::Open => "bad",
        State::BesideOthers | State::Bursty | State::QueueThere => "note",
        State::Controlled | State::Receiving => "good",
        State::Idle => "calm",
    };
    html! { span class={ "state " (class) } { (state.word()) } }
}

fn band_list(bands: &[Band]) -> Markup {
    let more = bands.len().saturating_sub(MAX_LISTED);
    html! {
        @for band in bands.iter().rev().take(MAX_LISTED) {
            li {
                time { (time_of_day(band.from * 1000)) " to " (time_of_day(band.to * 1000)) }
                span class={ "key " (band.condition.class()) } { (band.condition.word()) }
                " for " (duration(band.seconds() as f64)) ". "
                @if let Some(why) = &band.why { (sentence(why)) }
            }
        }
        @if more > 0 { li { (more) " earlier ones." } }
    }
}

fn item(event: &LogEvent) -> Markup {
    html! {
        li {
            time { (time_of_day(event.at_ms)) }
            @if let Some(direction) = event.direction {
                strong { (direction) " " (event.peer) } " "
            } @else {
                strong { (event.place) } " "
            }
            (sentence(&event.text))
        }
    }
}

fn tile(name: &str, value: &str, detail: &str) -> Markup {
    html! { div class="tile" { span { (name) } strong { (value) } em { (detail) } } }
}

fn round_trip(live: &Live) -> String {
    match live.round_trip_ms {
        Some((_, least)) => format!("above {} ms", figure(least)),
        None => String::new(),
    }
}

fn longest(wait: Option<f64>) -> String {
    wait.map_or_else(String::new, |wait| format!("at most {} ms", figure(wait)))
}

fn packets(count_of: Option<f64>) -> String {
    count_of.map_or_else(String::new, |n| format!("{} packets/s", count(n as u64)))
}

const NOT_KNOWN: &str = "–";

fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| NOT_KNOWN.to_owned(), |ms| format!("{} ms", figure(ms)))
}

fn mbps(value: Option<f64>) -> String {
    value.map_or_else(|| NOT_KNOWN.to_owned(), |bps| format!("{} Mbit/s", figure(bps / 1e6)))
}

fn share(value: Option<f64>) -> String {
    value.map_or_else(|| NOT_KNOWN.to_owned(), |share| format!("{:.2} %", share * 100.0))
}
