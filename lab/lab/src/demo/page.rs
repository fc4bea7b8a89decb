//! The demonstration as one HTML page.

use maud::{Markup, html};

use super::{Arm, Demo};
use crate::analysis::{Delay, Summary, WhoWaits};
use crate::report::boxes::{self, Arm as BoxArm};
use crate::report::markup::{details, page, paragraph, section};
use crate::report::number::{count, figure, percent, setting};
use crate::report::table::{Column, Row, Table};
use crate::report::{accounts, decisions_section, estimates_section, queues, tables};

impl Demo {
    /// Formats the results as one self-contained HTML page of less than 500 kB.
    pub fn html(&self) -> String {
        let verdict = &self.document().verdict;
        let named = self.named();
        let figures =
            tables::figures(&named).html("Over the measured interval; drops over the whole run");
        let by_class = self.slowdown_table().html("Slowdown of requests by size");
        let body = html! {
            (self.tiles())
            (section("How long requests take", self.boxes()))
            (section("Where the queue is, and who waits", self.queues()))
            (section("What it means", self.meaning()))
            (section("All figures", html! { (figures) (by_class) }))
            (estimates_section(tables::estimates(&named, None)))
            (decisions_section(&named))
            (section("How it was measured", self.method()))
            (section("Where every packet went", accounts(&named)))
        };
        page("Forebay, a demonstration", &typeset(&verdict.sentence), body)
    }

    fn summary(&self, arm: Arm) -> &Summary {
        &self.runs.get(arm).summary
    }

    /// The main figures before and after.
    fn tiles(&self) -> Markup {
        let (before, after) = (self.summary(Arm::StatusQuo), self.summary(Arm::ForebaySfq));
        let queue = |s: &Summary| s.bottleneck_queue_ms.map(|d| d.p50);
        let tiles: [(&str, Option<f64>, Option<f64>, &str); 4] = [
            ("median request", before.slowdown.all.p50, after.slowdown.all.p50, "× ideal"),
            ("99th percentile request", before.slowdown.all.p99, after.slowdown.all.p99, "× ideal"),
            ("wait at the bottleneck", queue(before), queue(after), "ms, median packet"),
            ("goodput", Some(before.goodput_mbps), Some(after.goodput_mbps), "Mbit/s"),
        ];
        let written = |value: Option<f64>| value.map_or("–".to_owned(), figure);
        html! {
            p class="soft" { "Status quo → Forebay SFQ" }
            ul class="tiles" {
                @for (what, before, after, unit) in tiles {
                    li {
                        span { (what) }
                        b { (written(before)) " → " (written(after)) }
                        span { (unit) }
                    }
                }
            }
        }
    }

    fn queues(&self) -> Markup {
        // Before and after are adjacent, followed by the arms to compare them with.
        let order = [Arm::StatusQuo, Arm::ForebaySfq, Arm::InNetworkSfq, Arm::ForebayFifo];
        let runs = order.map(|arm| (arm.name().to_owned(), self.runs.get(arm)));
        queues::figures("queue", &runs)
    }

    fn boxes(&self) -> Markup {
        let arms = Arm::ALL.map(|arm| BoxArm {
            name: arm.name().to_owned(),
            slowdowns: self.runs.get(arm).slowdowns.map(|s| s.into()),
            strong: arm == Arm::ForebaySfq,
        });
        boxes::figures("slowdown", &arms, boxes::CAPTION)
    }

    /// Sentences that compare the arms, each true for these figures.
    fn meaning(&self) -> Markup {
        let document = self.document();
        let (quo, sfq) = (&document.arms.status_quo, &document.arms.forebay_sfq);
        let ms = |p50: f64| format!("{} ms", figure(p50));
        let wait = ms(quo.bottleneck_queue_ms.p50);
        let left = ms(sfq.bottleneck_queue_ms.p50);
        let held = ms(sfq.sendbox_queue_ms.p50);
        let moved = if document.verdict.queue_moved {
            format!(
                "In the status quo the median packet waits {wait} at the bottleneck, in order of \
                 arrival: short requests behind long ones, in a queue that its owner schedules, not \
                 you. With Forebay it waits {left} there; the queue stands at the sendbox instead \
                 (median {held}), where you decide who goes first."
            )
        } else {
            format!(
                "In the status quo the median packet waits {wait} at the bottleneck; with Forebay it \
                 waits {left} there and {held} at the sendbox. In this run the queue did not move."
            )
        };
        let p50 = |arm: Arm| document.arms.get(arm).slowdown.all.p50;
        let who = |arm| self.summary(arm).who_waits;
        html! {
            (paragraph(&moved))
            @if let (Some(quo), Some(sfq)) = (who(Arm::StatusQuo), who(Arm::ForebaySfq)) {
                (paragraph(&who_waits(&quo, &sfq)))
            }
            @if let [Some(quo), Some(network), Some(sfq), Some(fifo)] = Arm::ALL.map(p50) {
                (paragraph(&requests(quo, network, sfq)))
                (paragraph(&fifo_arm(quo, sfq, fifo)))
            }
            (paragraph(
                "Read the arms against each other rather than each figure by itself: all ran the \
                 same requests over the same path, one after the other. This is one seed; another \
                 draws other large requests, and the tail with them.",
            ))
        }
    }

    /// The table of slowdowns by arm and class.
    fn slowdown_table(&self) -> Table {
        let classes = ["all", "up to 10 kB", "10 kB to 1 MB", "over 1 MB"];
        let columns = classes
            .iter()
            .flat_map(|name| ["count", "p50", "p99"].map(|c| Column::new(name, c)))
            .collect();
        let row = |arm: &Arm| {
            let s = &self.summary(*arm).slowdown;
            let cells = [s.all, s.small, s.medium, s.large].into_iter().flat_map(|s| {
                let written = |p: Option<f64>| p.map_or(String::new(), figure);
                [count(s.count), written(s.p50), written(s.p99)]
            });
            Row {
                label: arm.name().to_owned(),
                cells: cells.collect(),
                strong: *arm == Arm::ForebaySfq,
            }
        };
        Table { corner: "arm".to_owned(), columns, rows: Arm::ALL.iter().map(row).collect() }
    }

    fn method(&self) -> Markup {
        let d = self.document();
        let rate = format!("{} Mbit/s", setting(d.rate_mbps));
        let rtt = format!("{} ms there and back", setting(d.rtt_ms));
        let hops = [
            ("servers", "site A"),
            ("sendbox", "site A's edge"),
            ("bottleneck", rate.as_str()),
            ("long path", rtt.as_str()),
            ("receivebox", "site B's edge"),
            ("clients", "site B"),
        ];
        html! {
            ol class="path" { @for (name, what) in hops { li { (name) small { (what) } } } }
            (paragraph(&self.load()))
            ul { @for arm in Arm::ALL { li { b { (arm.name()) "." } " " (arm.explained()) } } }
            @for note in &self.setting.notes { (paragraph(note)) }
            p { "To run it again:" }
            pre { code { (self.setting.command) } }
            (details("How figures are computed", paragraph(COMPUTED)))
        }
    }

    /// The load of the run.
    fn load(&self) -> String {
        let d = self.document();
        let (offered, realised) = (setting(d.offered_mbps), figure(d.realised_mbps));
        let share = percent(d.realised_mbps / d.rate_mbps);
        let quo = &d.arms.status_quo.requests;
        let mut text = format!(
            "Engine: {}. Each arm was measured for {} s after its warm-up, with seed {}. The request \
             workload is set to {offered} Mbit/s; what this seed drew asked for {realised} Mbit/s while \
             measuring ({share} of the bottleneck's rate, in {} requests).",
            d.engine,
            setting(d.duration_s),
            d.seed,
            count(quo.offered),
        );
        if (d.realised_mbps / d.offered_mbps - 1.0).abs() > 0.05 {
            text += " Sizes are heavy-tailed, so the load of one run differs from the load that is set.";
        }
        let open: Vec<String> = Arm::ALL
            .iter()
            .map(|arm| (arm, &d.arms.get(*arm).requests))
            .filter(|(_, r)| r.completed < r.offered)
            .map(|(arm, r)| format!("{} in {}", count(r.offered - r.completed), arm.name()))
            .collect();
        if !open.is_empty() {
            text += &format!(
                " Unfinished when the run ended, and counted with the time they had taken by then: {}.",
                open.join(", ")
            );
        }
        text
    }
}

/// Sentences about the packets of small and of large transfers before and after.
fn who_waits(quo: &WhoWaits, sfq: &WhoWaits) -> String {
    let sum = |parts: [Option<Delay>; 2]| {
        let known: Vec<f64> = parts.iter().flatten().map(|d| d.p50).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>())
    };
    let small = [quo, sfq].map(|w| sum([w.bottleneck_small_ms, w.sendbox_small_ms]));
    let large = [quo, sfq].map(|w| sum([w.bottleneck_large_ms, w.sendbox_large_ms]));
    let said = |what: &str, [before, after]: [Option<f64>; 2]| {
        let (before, after) = (figure(before?), figure(after?));
        Some(format!("{what} {before} ms in the status quo and {after} ms with Forebay"))
    };
    let parts =
        [said("the median packet of a small transfer", small), said("that of a large one", large)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "No transfer was small or large enough to say who waits.".to_owned();
    }
    format!("Who waits, in both queues together: {}.", parts.join("; "))
}

/// A sentence about the median request of three arms.
fn requests(quo: f64, network: f64, sfq: f64) -> String {
    let mut text = format!(
        "The median request takes {} times its ideal time in the status quo and {} times with Forebay.",
        figure(quo),
        figure(sfq)
    );
    // Below a twentieth there is no gain of which to take a share.
    if quo - network > 0.05 {
        let share = ((quo - sfq) / (quo - network)).clamp(-9.0, 9.0);
        text += &format!(
            " Fair queueing at the bottleneck itself, which is not yours to set, gives {}",
            figure(network)
        );
        text += &match share {
            s if s < 0.0 => "; Forebay is worse than no box here.".to_owned(),
            s if s >= 1.0 => "; Forebay does as well.".to_owned(),
            s => format!("; Forebay has {:.0} % of that gain.", s * 100.0),
        };
    }
    text
}

/// A sentence about the FIFO arm.
fn fifo_arm(quo: f64, sfq: f64, fifo: f64) -> String {
    let figures =
        format!("With a FIFO queue at the sendbox the median request takes {}", figure(fifo));
    if fifo > sfq * 1.05 {
        let than = if fifo > quo { ", more than with no box" } else { "" };
        format!(
            "{figures} times its ideal time{than}: moving the queue is what makes scheduling possible, \
             and the scheduling is what helps."
        )
    } else {
        format!(
            "{figures} times its ideal time, no more than with fair queueing: in this run the \
             scheduling made no difference to the median."
        )
    }
}

const COMPUTED: &str = "Delays are those of packets that left the queue while measuring, each counted \
    once. Percentiles are exact (nearest rank). Goodput is payload that reached receivers. The slowdown \
    of a request is the time from asking to its last byte over one round trip plus its bytes at the \
    bottleneck's rate; requests count by when they were asked for. Drops are by queueing policy, over \
    the whole run.";

/// The verdict's sentence with typographic signs that a page can show.
fn typeset(sentence: &str) -> String {
    sentence.replace("x ->", "× →").replace("x its ideal", "× its ideal").replace("->", "→")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_said_for_both_kinds() {
        let delay = |p50| Some(Delay { packets: 9, mean: 0.0, p50, p90: 0.0, p99: 0.0 });
        let quo = WhoWaits {
            bottleneck_small_ms: delay(60.0),
            bottleneck_large_ms: delay(61.0),
            ..WhoWaits::default()
        };
        let sfq = WhoWaits {
            bottleneck_small_ms: delay(1.0),
            sendbox_small_ms: delay(0.5),
            sendbox_large_ms: delay(200.0),
            ..WhoWaits::default()
        };
        assert_eq!(
            who_waits(&quo, &sfq),
            "Who waits, in both queues together: the median packet of a small transfer 60.0 ms in \
             the status quo and 1.50 ms with Forebay; that of a large one 61.0 ms in the status quo \
             and 200 ms with Forebay."
        );
        assert!(who_waits(&WhoWaits::default(), &sfq).starts_with("No transfer"));
    }

    #[test]
    fn words_follow_the_figures() {
        assert!(requests(2.4, 1.05, 1.1).ends_with("Forebay has 96 % of that gain."));
        assert!(requests(2.4, 1.05, 1.04).ends_with("Forebay does as well."));
        assert!(requests(2.4, 1.05, 2.5).ends_with("Forebay is worse than no box here."));
        assert!(requests(1.02, 1.0, 1.0).ends_with("1.00 times with Forebay."));
        assert!(fifo_arm(2.4, 1.1, 2.5).contains("more than with no box"));
        assert!(fifo_arm(2.4, 1.1, 1.1).contains("no difference"));
    }

    #[test]
    fn signs_for_the_page() {
        assert_eq!(
            typeset("moved: 71 ms -> 2 ms; request 2.40x -> 1.10x its ideal time."),
            "moved: 71 ms → 2 ms; request 2.40× → 1.10× its ideal time."
        );
    }
}
