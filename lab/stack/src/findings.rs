//! What the measured points say: each finding is computed, with the figures that it rests on.
//!
//! A finding that does not show is said to be not seen, with the figure that says so.

use serde::{Deserialize, Serialize};

use forebay_picture::number::{count, figure, percent};

use crate::measure::{Measured, Outcome};
use crate::point::Point;
use crate::probe::functions;

/// The share of processor time from which on the processors count as saturated.
const SATURATED: f64 = 0.95;
/// The share of the rate down to which throughput counts as held. Headers take 4 to 6 %.
const HELD: f64 = 0.9;
/// The factor from which on something counts as grown, or below whose inverse as shrunk.
const GROWN: f64 = 2.0;
/// The factor from which on two settings differ in their costs.
const DIFFERENT: f64 = 1.2;

/// A statement about the measured points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A short name, the same in each report.
    pub id: String,
    /// The figure or section of the thesis that has the like.
    pub of: String,
    /// Whether it shows in this study.
    pub seen: bool,
    /// The statement with its figures.
    pub text: String,
}

impl Finding {
    /// The statement as a sentence.
    pub fn sentence(&self) -> String {
        let mut text = self.text.clone();
        if let Some(start) = text.get_mut(..1) {
            start.make_ascii_uppercase();
        }
        text + "."
    }
}

/// All findings for which `outcomes` has the points.
pub fn findings(outcomes: &[Outcome]) -> Vec<Finding> {
    let mut found = Vec::new();
    let main = main_series(outcomes);
    if main.len() >= 2 {
        found.push(throughput(&main));
        found.push(saturation(&main));
        found.push(round_trips(&main));
        found.push(segments(&main));
        found.extend(fairness(&main));
        found.push(retransmissions(&main));
        found.push(acks(&main));
        found.extend(locks(&main));
        found.extend(cost_of(&main, "lookup", "figure 5.12", "finding the connection", |name| {
            functions::is_lookup(name)
        }));
        found.extend(cost_of(&main, "enqueue", "figure 5.7", "enqueueing", |name| {
            functions::is_enqueue(name)
        }));
    }
    found.extend(ended(outcomes));
    found.extend(pacing(outcomes, &main));
    found.extend(queue_length(outcomes));
    found.extend(congestion(outcomes, true));
    found.extend(congestion(outcomes, false));
    found.extend(autosizing(outcomes, &main));
    found.extend(offloads(outcomes, &main));
    found
}

/// The points of the series with the most numbers of flows among those without loss, the first of
/// these, in ascending order.
pub fn main_series(outcomes: &[Outcome]) -> Vec<&Outcome> {
    let mut best: Vec<&Outcome> = Vec::new();
    for (i, first) in outcomes.iter().enumerate() {
        if first.point.loss > 0.0 || first.point.paced.is_some() || !first.point.offload {
            continue;
        }
        let mut series: Vec<&Outcome> = Vec::new();
        for other in &outcomes[i..] {
            let known = series.iter().any(|o| o.point.flows == other.point.flows);
            if first.point.same_but_flows(&other.point) && !known {
                series.push(other);
            }
        }
        if series.len() > best.len() {
            best = series;
        }
    }
    best.sort_by_key(|outcome| outcome.point.flows);
    best
}

fn finding(id: &str, of: &str, seen: bool, text: String) -> Finding {
    let text = if seen { text } else { format!("not seen here: {text}") };
    Finding { id: id.to_owned(), of: of.to_owned(), seen, text }
}

/// The number of flows in words.
fn flows(outcome: &Outcome) -> String {
    format!("{} flows", count(u64::from(outcome.point.flows)))
}

fn ends<'a>(series: &[&'a Outcome]) -> (&'a Outcome, &'a Outcome) {
    (series[0], series[series.len() - 1])
}

fn mbps(outcome: &Outcome) -> String {
    format!("{} Mbit/s", figure(outcome.measured.goodput_mbps))
}

fn throughput(series: &[&Outcome]) -> Finding {
    let rate = series[0].point.rate_mbps;
    let most = series.iter().map(|o| o.measured.goodput_mbps).fold(0.0, f64::max);
    let full = if rate > 0.0 { rate } else { most };
    let held = series.iter().take_while(|o| o.measured.goodput_mbps >= HELD * full).last();
    let (first, last) = ends(series);
    let goodput = |o: &Outcome| o.measured.goodput_mbps;
    let least = series.iter().min_by(|a, b| goodput(a).total_cmp(&goodput(b))).unwrap_or(&last);
    let text = match held {
        Some(held) if held.point.flows == last.point.flows => format!(
            "throughput holds up to {}, the most here: {} of {} Mbit/s",
            flows(last),
            figure(last.measured.goodput_mbps),
            figure(full)
        ),
        Some(_) if goodput(last) >= HELD * full => format!(
            "throughput is {} of {} Mbit/s with {}, and least with {}: {}",
            figure(goodput(last)),
            figure(full),
            flows(last),
            flows(least),
            mbps(least)
        ),
        Some(held) => format!(
            "throughput holds up to {} and falls to {} with {} ({} of {} Mbit/s)",
            flows(held),
            mbps(last),
            flows(last),
            percent(last.measured.goodput_mbps / full),
            figure(full)
        ),
        None => format!(
            "throughput is never at {} of {} Mbit/s: {} has {}",
            percent(HELD),
            figure(full),
            flows(first),
            mbps(first)
        ),
    };
    finding("throughput", "figure 5.2a", held.is_some(), text)
}

fn saturation(series: &[&Outcome]) -> Finding {
    let of = "figure 5.2b";
    let busy = |o: &Outcome| o.measured.busy();
    let total = |o: &&&Outcome| o.measured.cpu.all.busy() >= SATURATED && is_alone(&o.measured);
    if let Some(first) = series.iter().find(total) {
        let text = format!(
            "the processors saturate at {}: {} busy at {}",
            flows(first),
            percent(first.measured.cpu.all.busy()),
            mbps(first)
        );
        return finding("saturation", of, true, text);
    }
    let (first, last) = ends(series);
    let most = series.iter().max_by(|a, b| busy(a).total_cmp(&busy(b))).unwrap_or(&last);
    let text = format!(
        "saturated processors. The load takes {} of them with {}, and {} at the most, with {}{}",
        percent(busy(first)),
        flows(first),
        percent(busy(most)),
        flows(most),
        beside(&most.measured)
    );
    finding("saturation", of, false, text)
}

/// What other programs took, if it matters.
fn beside(measured: &Measured) -> String {
    if is_alone(measured) {
        return String::new();
    }
    format!(", beside {} for other programs", percent(measured.other_programs))
}

/// Whether other programs took too little processor time to matter.
fn is_alone(measured: &Measured) -> bool {
    measured.other_programs < 1.0 - SATURATED
}

fn round_trips(series: &[&Outcome]) -> Finding {
    let (first, last) = ends(series);
    let rtt = |o: &Outcome| o.measured.rtt_ms.p50;
    let most = series.iter().max_by(|a, b| rtt(a).total_cmp(&rtt(b))).unwrap_or(&last);
    let seen = rtt(most) >= GROWN * rtt(first) && most.point.flows > first.point.flows;
    let text = format!(
        "the median round trip grows from {} ms with {} to {} ms with {}",
        figure(rtt(first)),
        flows(first),
        figure(rtt(most)),
        flows(most)
    );
    let none = format!(
        "a round trip that doubles: its median is {} ms with {} and {} ms with {}",
        figure(rtt(first)),
        flows(first),
        figure(rtt(last)),
        flows(last)
    );
    finding("round_trips", "figure 5.2c", seen, if seen { text } else { none })
}

fn segments(series: &[&Outcome]) -> Finding {
    let (first, last) = ends(series);
    let size = |o: &Outcome| o.measured.segment_bytes;
    let halved = series.iter().find(|o| size(o) * GROWN <= size(first));
    let text = match halved {
        Some(half) => format!(
            "segments have halved at {}: {} bytes instead of {}; with {} they have {}",
            flows(half),
            figure(size(half)),
            figure(size(first)),
            flows(last),
            figure(size(last))
        ),
        None => format!(
            "segments that halve: they have {} bytes with {} and {} with {}",
            figure(size(first)),
            flows(first),
            figure(size(last)),
            flows(last)
        ),
    };
    finding("segments", "section 5.3.1", halved.is_some(), text)
}

fn fairness(series: &[&Outcome]) -> Option<Finding> {
    let (first, last) = ends(series);
    let jain = |o: &Outcome| o.measured.rates.jain;
    let before = first.measured.rates.spread()?;
    let part = |o: &Outcome| match o.measured.rates.spread() {
        Some(spread) => format!(
            "with {} the 90th percentile of rates is {} times the 10th",
            flows(o),
            figure(spread)
        ),
        None => format!("with {} at least a tenth of the flows gets nothing", flows(o)),
    };
    let seen = last.measured.rates.spread().is_none_or(|after| after >= GROWN * before);
    let what = format!(
        "{}, and {} (Jain's index {} and {})",
        part(first),
        part(last),
        figure(jain(first)),
        figure(jain(last))
    );
    let text = if seen {
        format!("rates of flows spread: {what}")
    } else {
        format!("rates of flows that spread: {what}")
    };
    Some(finding("fairness", "figure 5.5", seen, text))
}

fn retransmissions(series: &[&Outcome]) -> Finding {
    let (first, last) = ends(series);
    let share = |o: &Outcome| o.measured.retransmitted;
    let seen = share(last) >= (GROWN * share(first)).max(0.001);
    let what = format!(
        "{} % of packets are sent again with {} and {} % with {}",
        figure(share(first) * 100.0),
        flows(first),
        figure(share(last) * 100.0),
        flows(last)
    );
    let text = if seen { what } else { format!("more retransmissions: {what}") };
    finding("retransmissions", "figure 5.2d", seen, text)
}

fn acks(series: &[&Outcome]) -> Finding {
    let (first, last) = ends(series);
    let rate = |o: &Outcome| o.measured.acks_per_packet();
    let seen = rate(last) >= GROWN * rate(first).max(1e-9);
    let what = format!(
        "ACKs are {} per sent packet with {} and {} with {} ({} and {} in a second)",
        figure(rate(first)),
        flows(first),
        figure(rate(last)),
        flows(last),
        count(first.measured.acks_per_s as u64),
        count(last.measured.acks_per_s as u64)
    );
    let text = if seen {
        format!("arriving packets are merged less: {what}")
    } else {
        format!("less merging of arriving packets: {what}")
    };
    finding("acks", "figure 5.9", seen, text)
}

/// The processor time of functions per segment, if they were sampled.
fn cost_of(
    series: &[&Outcome],
    id: &str,
    of: &str,
    what: &str,
    wanted: impl Fn(&str) -> bool + Copy,
) -> Option<Finding> {
    let cost = |o: &Outcome| o.measured.ns_per_segment(wanted);
    let (first, last) = ends(series);
    let (before, after) = (cost(first)?, cost(last)?);
    // Functions that are too fast to be sampled say nothing.
    if before <= 0.0 && after <= 0.0 {
        return None;
    }
    let seen = after >= GROWN * before;
    let figures = format!(
        "{} ns per segment with {} and {} ns with {}",
        figure(before),
        flows(first),
        figure(after),
        flows(last)
    );
    let text = if seen {
        format!("{what} takes more time with more flows: {figures}")
    } else {
        format!("{what} that takes twice the time: {figures}")
    };
    Some(finding(id, of, seen, text))
}

/// The time for spin locks, of which other programs have some too.
fn locks(series: &[&Outcome]) -> Option<Finding> {
    let (first, last) = ends(series);
    let found = cost_of(series, "locks", "figure 5.11", "taking spin locks", functions::is_lock)?;
    if is_alone(&first.measured) && is_alone(&last.measured) {
        return Some(found);
    }
    let text = format!(
        "the time for spin locks cannot be told from that of other programs, which took {} of the \
         processors with {} and {} with {}",
        percent(first.measured.other_programs),
        flows(first),
        percent(last.measured.other_programs),
        flows(last)
    );
    Some(finding(&found.id, &found.of, false, text))
}

/// The point that lost the largest share of its connections.
fn ended(outcomes: &[Outcome]) -> Option<Finding> {
    let share = |o: &Outcome| f64::from(o.measured.lost) / f64::from(o.measured.connected.max(1));
    let worst = outcomes.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let seen = worst.measured.lost > 0;
    let text = if seen {
        format!(
            "connections end early: {} of {} with {} ({}; the queue dropped {} packets a second)",
            count(u64::from(worst.measured.lost)),
            count(u64::from(worst.measured.connected)),
            worst.point,
            worst.measured.lost_by,
            count(worst.measured.drops_per_s as u64)
        )
    } else {
        let all: u64 = outcomes.iter().map(|o| u64::from(o.measured.connected)).sum();
        format!("connections that end early: none of {} in {} points", count(all), outcomes.len())
    };
    Some(finding("ended", "section 5.3.2", seen, text))
}

/// The outcome that differs from `wanted` in nothing that is measured.
fn find<'a>(outcomes: &'a [Outcome], wanted: &Point) -> Option<&'a Outcome> {
    outcomes.iter().find(|o| {
        let same = Point { series: wanted.series.clone(), ..o.point.clone() };
        same == *wanted
    })
}

/// Pairs of a point of the main series and the same with a changed setting, by flows.
fn pairs<'a>(
    outcomes: &'a [Outcome],
    main: &[&'a Outcome],
    change: impl Fn(&Point) -> Point,
) -> Vec<(&'a Outcome, &'a Outcome)> {
    let other = |o: &&'a Outcome| Some((*o, find(outcomes, &change(&o.point))?));
    main.iter().filter_map(other).collect()
}

fn pacing(outcomes: &[Outcome], main: &[&Outcome]) -> Vec<Finding> {
    let paced = outcomes.iter().find_map(|o| o.point.paced);
    let pairs = pairs(outcomes, main, |point| Point { paced, ..point.clone() });
    let mut found = Vec::new();
    if paced.is_none() || pairs.is_empty() {
        return found;
    }
    let ratio = |(free, paced): &(&Outcome, &Outcome)| {
        free.measured.rtt_ms.p50 / paced.measured.rtt_ms.p50.max(1e-3)
    };
    let best = pairs.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    if let Some(pair @ (free, paced)) = best {
        let what = format!(
            "with {} the median round trip is {} ms paced and {} ms not",
            flows(free),
            figure(paced.measured.rtt_ms.p50),
            figure(free.measured.rtt_ms.p50)
        );
        let seen = ratio(pair) >= GROWN;
        let text = if seen {
            format!("pacing each flow below the rate shortens the queue: {what}")
        } else {
            format!("a shorter queue by pacing: {what}")
        };
        found.push(finding("pacing", "figure 5.2c", seen, text));
    }
    let (free, paced) = pairs[pairs.len() - 1];
    if let (Some(a), Some(b)) = (free.measured.cpu_per_gbit(), paced.measured.cpu_per_gbit()) {
        let what = format!(
            "with {} a gigabit takes {} s of processor time paced and {} s not, at {} and {}",
            flows(free),
            figure(b),
            figure(a),
            mbps(paced),
            mbps(free)
        );
        let seen = b >= DIFFERENT * a;
        let text = if seen {
            format!("pacing costs processor time: {what}")
        } else {
            format!("pacing that costs a fifth more processor time: {what}")
        };
        found.push(finding("pacing_cost", "figure 5.2b", seen, text));
    }
    found
}

fn queue_length(outcomes: &[Outcome]) -> Option<Finding> {
    let mut best: Vec<&Outcome> = Vec::new();
    for first in outcomes {
        let same = |o: &&Outcome| {
            let point = Point {
                limit: first.point.limit,
                series: first.point.series.clone(),
                ..o.point.clone()
            };
            point == first.point
        };
        let mut series: Vec<&Outcome> = outcomes.iter().filter(same).collect();
        series.sort_by_key(|o| o.point.limit);
        series.dedup_by_key(|o| o.point.limit);
        if series.len() > best.len() {
            best = series;
        }
    }
    if best.len() < 2 {
        return None;
    }
    let costs =
        |o: &&Outcome| Some((o.measured.cpu_per_gbit()?, o.point.limit, o.measured.clone()));
    let (short, long) = (costs(best.first()?)?, costs(best.last()?)?);
    let seen = short.0 >= DIFFERENT * long.0;
    let what = format!(
        "with {} a gigabit takes {} s of processor time at a length of {} and {} s at {} ({} \
         and {} drops a second, median round trip {} and {} ms)",
        flows(best[0]),
        figure(short.0),
        count(u64::from(short.1)),
        figure(long.0),
        count(u64::from(long.1)),
        count(short.2.drops_per_s as u64),
        count(long.2.drops_per_s as u64),
        figure(short.2.rtt_ms.p50),
        figure(long.2.rtt_ms.p50)
    );
    let text = if seen {
        format!("a shorter queue costs processor time: {what}")
    } else {
        format!("a shorter queue that costs a fifth more processor time: {what}")
    };
    Some(finding("queue_length", "figure 5.6", seen, text))
}

/// Compares the packet rates of Cubic and BBR, with loss or without, at the most flows.
fn congestion(outcomes: &[Outcome], loss: bool) -> Option<Finding> {
    let (id, of) = if loss { ("cc_loss", "figure 5.3") } else { ("cc", "figure 5.4") };
    let candidates = outcomes.iter().filter(|o| (o.point.loss > 0.0) == loss);
    let cubic = candidates.filter(|o| o.point.congestion == "cubic");
    let both = cubic.filter_map(|cubic| {
        let point = Point { congestion: "bbr".to_owned(), ..cubic.point.clone() };
        Some((cubic, find(outcomes, &point)?))
    });
    let (cubic, bbr) = both.max_by_key(|(cubic, _)| cubic.point.flows)?;
    let cost =
        |o: &Outcome| o.measured.segments_per_s / (o.measured.goodput_mbps / 1000.0).max(1e-9);
    let ratio = cost(cubic) / cost(bbr).max(1e-9);
    let seen = !(1.0 / DIFFERENT..DIFFERENT).contains(&ratio);
    let what = format!(
        "with {}{} Cubic sends {} segments for a gigabit and BBR {} (at {} and {}, {} and {} in a \
         second)",
        flows(cubic),
        if loss {
            format!(" and {} loss", percent(cubic.point.loss))
        } else {
            " and no loss".to_owned()
        },
        count(cost(cubic) as u64),
        count(cost(bbr) as u64),
        mbps(cubic),
        mbps(bbr),
        count(cubic.measured.segments_per_s as u64),
        count(bbr.measured.segments_per_s as u64)
    );
    let text = if seen {
        format!("congestion controls differ in their costs: {what}")
    } else {
        format!("congestion controls that differ by a fifth: {what}")
    };
    Some(finding(id, of, seen, text))
}

fn autosizing(outcomes: &[Outcome], main: &[&Outcome]) -> Option<Finding> {
    let pairs = pairs(outcomes, main, |p| Point { tso_rtt_log: Some(0), ..p.clone() });
    let size = |o: &Outcome| o.measured.segment_bytes;
    let ratio = |(now, old): &(&Outcome, &Outcome)| size(now) / size(old).max(1.0);
    let most = pairs.into_iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let (now, old) = most;
    let seen = ratio(&most) >= DIFFERENT;
    let what = format!(
        "with {} segments have {} bytes, and {} if their size depends on the rate alone, as before \
         Linux 5.18",
        flows(now),
        figure(size(now)),
        figure(size(old))
    );
    let text = if seen {
        format!("today's autosizing makes larger segments on a short path: {what}")
    } else {
        format!("larger segments by today's autosizing: {what}")
    };
    Some(finding("autosizing", "section 5.3.1", seen, text))
}

fn offloads(outcomes: &[Outcome], main: &[&Outcome]) -> Option<Finding> {
    let pairs = pairs(outcomes, main, |p| Point { offload: false, ..p.clone() });
    let (with, without) = pairs.into_iter().next_back()?;
    let (a, b) = (with.measured.cpu_per_gbit()?, without.measured.cpu_per_gbit()?);
    let seen = b >= DIFFERENT * a;
    let what = format!(
        "with {} a gigabit takes {} s of processor time without and {} s with them",
        flows(with),
        figure(b),
        figure(a)
    );
    let text = if seen {
        format!("segmentation offloads save processor time: {what}")
    } else {
        format!("segmentation offloads that save a sixth of the processor time: {what}")
    };
    Some(finding("offloads", "section 5.3.1", seen, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::point::tests::point;
    use crate::probe::cpu::{CpuShare, CpuUse};

    /// A point with this goodput, share of idle time, median round trip and size of segments.
    fn outcome(flows: u32, mbps: f64, idle: f64, rtt: f64, bytes: f64) -> Outcome {
        let all = CpuShare { idle, system: 1.0 - idle, ..CpuShare::default() };
        let measured = Measured {
            connected: flows,
            goodput_mbps: mbps,
            rtt_ms: Distribution { p50: rtt, ..Distribution::default() },
            rates: Distribution { p10: 1.0, p90: 1.5, jain: 0.9, ..Distribution::default() },
            segment_bytes: bytes,
            segments_per_s: mbps * 1e6 / 8.0 / bytes,
            packets_per_s: 1000.0,
            acks_per_s: 100.0,
            cpu: CpuUse { all, cores: vec![all; 2], ..CpuUse::default() },
            ..Measured::default()
        };
        Outcome { point: point(flows), measured }
    }

    fn text(outcomes: &[Outcome], id: &str) -> (bool, String) {
        let all = findings(outcomes);
        let one = all.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("{id}: {all:?}"));
        (one.seen, one.text.clone())
    }

    /// The rate is 800 Mbit/s.
    fn overloaded() -> [Outcome; 3] {
        [
            outcome(100, 790.0, 0.7, 2.0, 60_000.0),
            outcome(1000, 780.0, 0.3, 20.0, 25_000.0),
            outcome(10_000, 400.0, 0.02, 300.0, 4000.0),
        ]
    }

    #[test]
    fn an_overloaded_machine_is_described() {
        let all = overloaded();
        let expect = |id: &str, expected: &str| assert_eq!(text(&all, id), (true, expected.into()));
        expect(
            "throughput",
            "throughput holds up to 1000 flows and falls to 400 Mbit/s with 10 000 flows \
             (50.0 % of 800 Mbit/s)",
        );
        expect("saturation", "the processors saturate at 10 000 flows: 98.0 % busy at 400 Mbit/s");
        expect(
            "round_trips",
            "the median round trip grows from 2.00 ms with 100 flows to 300 ms with 10 000 flows",
        );
        expect(
            "segments",
            "segments have halved at 1000 flows: 25 000 bytes instead of 60 000; with 10 000 flows \
             they have 4000",
        );
    }

    #[test]
    fn what_does_not_show_is_said_with_its_figure() {
        let calm =
            [outcome(100, 790.0, 0.7, 2.0, 60_000.0), outcome(1000, 785.0, 0.5, 3.0, 50_000.0)];
        let expect =
            |id: &str, expected: &str| assert_eq!(text(&calm, id), (false, expected.into()));
        expect(
            "saturation",
            "not seen here: saturated processors. The load takes 30.0 % of them with 100 flows, \
             and 50.0 % at the most, with 1000 flows",
        );
        expect(
            "segments",
            "not seen here: segments that halve: they have 60 000 bytes with 100 flows and 50 000 \
             with 1000 flows",
        );
        expect(
            "round_trips",
            "not seen here: a round trip that doubles: its median is 2.00 ms with 100 flows and \
             3.00 ms with 1000 flows",
        );
        expect("ended", "not seen here: connections that end early: none of 1100 in 2 points");
        let (seen, held) = text(&calm, "throughput");
        assert!(seen && held.contains("the most here: 785 of 800"), "{held}");
        assert!(!text(&calm, "fairness").0 && !text(&calm, "acks").0);
    }

    #[test]
    fn throughput_that_recovers_did_not_fall() {
        let mut all = overloaded();
        all[1].measured.goodput_mbps = 600.0;
        all[2].measured.goodput_mbps = 760.0;
        let (seen, text) = text(&all, "throughput");
        let expected = "throughput is 760 of 800 Mbit/s with 10 000 flows, and least with 1000 flows: 600 Mbit/s";
        assert_eq!((seen, text.as_str()), (true, expected));
    }

    #[test]
    fn other_programs_are_no_saturation() {
        let mut all = overloaded();
        all[2].measured.other_programs = 0.4;
        let (seen, text) = text(&all, "saturation");
        assert!(!seen && text.contains("70.0 % at the most, with 1000 flows"), "{text}");
    }

    #[test]
    fn flows_without_any_rate_are_the_largest_spread() {
        let mut all = overloaded();
        all[2].measured.rates.p10 = 0.0;
        let (seen, text) = text(&all, "fairness");
        assert!(seen && text.contains("at least a tenth of the flows gets nothing"), "{text}");
    }

    #[test]
    fn a_short_queue_s_cost_is_compared_at_equal_settings() {
        let with = |limit, idle, drops_per_s| {
            let mut outcome = outcome(1000, 800.0, idle, 1.0, 60_000.0);
            outcome.point.limit = limit;
            outcome.measured.drops_per_s = drops_per_s;
            outcome
        };
        // Two cores: 1.6 s for 0.8 Gbit/s are 2 s for a gigabit, and 1 s at the long queue.
        let all = [with(10, 0.2, 500.0), with(1000, 0.4, 40.0), with(10_000, 0.6, 0.0)];
        let (seen, said) = text(&all, "queue_length");
        let expected = "takes 2.00 s of processor time at a length of 10 and 1.00 s at 10 000 (500 \
                        and 0 drops";
        assert!(seen && said.contains(expected), "{said}");
        let level = [with(10, 0.4, 0.0), with(100, 0.4, 0.0)];
        assert!(!text(&level, "queue_length").0);
    }

    #[test]
    fn congestion_controls_are_compared_with_and_without_loss() {
        let with = |congestion: &str, loss, bytes| {
            let mut outcome = outcome(1000, 800.0, 0.5, 1.0, bytes);
            outcome.point.congestion = congestion.to_owned();
            outcome.point.loss = loss;
            outcome
        };
        let all = [
            with("cubic", 0.0, 10_000.0),
            with("bbr", 0.0, 10_500.0),
            with("cubic", 0.05, 2000.0),
            with("bbr", 0.05, 4000.0),
        ];
        // 1 Gbit in segments of 2000 bytes are 62 500 segments.
        let (seen, said) = text(&all, "cc_loss");
        assert!(seen && said.contains("Cubic sends 62 500 segments for a gigabit and BBR 31 250"));
        assert!(!text(&all, "cc").0);
        assert!(!findings(&all[..1]).iter().any(|f| f.id.starts_with("cc")));
    }

    #[test]
    fn connections_that_end_are_named_with_their_error() {
        let mut all = overloaded();
        all[1].measured.lost = 300;
        all[1].measured.lost_by = "Connection timed out (os error 110)".to_owned();
        let (seen, said) = text(&all, "ended");
        assert!(seen && said.contains("300 of 1000 with 1000 flows"), "{said}");
        assert!(said.contains("(Connection timed out (os error 110);"), "{said}");
    }

    #[test]
    fn nothing_is_said_without_points() {
        assert_eq!(findings(&[]), []);
    }
}
