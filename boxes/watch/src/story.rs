//! The story of a peer's last hour, in sentences: `forebay explain`.

use std::fmt::Write as _;

use forebay_picture::date::time_of_day;
use forebay_picture::number::{count, duration, figure};
use forebay_status::{BURSTY_MS, IDLE_BPS, QUEUE_MS, sentence};

use crate::bands::{Band, Condition, bands, of_series};
use crate::event::{LogEvent, kind};
use crate::series::{Direction, Mode, Range, Row, Sample, Series};
use crate::store::{Store, StoreError};

/// The most bands that are told one by one.
const MAX_BANDS: usize = 12;
/// The history has ended if the last row is older than this, in seconds: it is written every ten.
const ENDED_S: u64 = 30;

/// Tells the last hour of the peer or bundle `name` before `now`, in seconds since 1970. `None` if
/// there is no such peer.
///
/// # Errors
/// If the history cannot be read.
pub fn explain(store: &Store, name: &str, now: u64) -> Result<Option<Vec<String>>, StoreError> {
    let since = now.saturating_sub(Range::Hour.seconds());
    // The reason of a mode may be older than the hour.
    let events = store.events(0, false, u64::MAX)?;
    let mut out = Vec::new();
    for (series, _) in store.series()? {
        if series.name != name {
            continue;
        }
        let rows = store.rows(&series, Range::Hour, now)?;
        out.push(title(&series));
        match rows.last() {
            None => out.push("Nothing is known of the last hour.".to_owned()),
            Some(last) => {
                if last.at + ENDED_S < now {
                    out.push(format!(
                        "The history ends at {} UTC: does `forebay watch` run, and the box?",
                        time_of_day(last.at * 1000)
                    ));
                }
                let own = of_series(&events, &series);
                match series.direction {
                    Direction::To => send(&mut out, &rows, &own, since),
                    Direction::From => receive(&mut out, &rows),
                }
                refused(&mut out, &rows);
                missed(&mut out, &own, since * 1000);
            }
        }
    }
    if out.is_empty() {
        return Ok(None);
    }
    let lost = events.iter().filter(|e| e.kind == kind::HISTORY_LOST && e.at_ms >= since * 1000);
    out.extend(lost.map(|event| sentence(&event.text)));
    Ok(Some(out))
}

fn title(series: &Series) -> String {
    let Series { name, direction, place } = series;
    let way = match direction {
        Direction::To => "To",
        Direction::From => "From",
    };
    format!("# {way} {name}, the {place}")
}

fn send(out: &mut Vec<String>, rows: &[Row], events: &[LogEvent], since: u64) {
    let bands = bands(rows, Range::Hour, events);
    out.push(shares(&bands));
    if bands.len() > MAX_BANDS {
        let left_out = bands.len() - MAX_BANDS;
        out.push(format!(
            "It changed {} times; these are the last {MAX_BANDS} of {} stretches, and \
             {left_out} earlier ones are in `forebay events`.",
            bands.len() - 1,
            bands.len()
        ));
    }
    let skipped = bands.len().saturating_sub(MAX_BANDS);
    for (index, band) in bands.iter().enumerate().skip(skipped) {
        let before = index.checked_sub(1).map(|before| &bands[before]);
        out.push(stretch(rows, band, before, since));
    }
    let own = |mode: Mode| {
        let in_it = rows.iter().filter(move |row| row.sample.mode == Some(mode));
        in_it.map(|row| row.sample)
    };
    let controlled: Vec<Sample> = own(Mode::DelayControl).collect();
    if let (Some(here), Some(there)) =
        (mean(&controlled, |s| s.here_ms), mean(&controlled, |s| s.there_ms))
    {
        let (here_most, there_most) =
            (most(&controlled, |s| s.here_high_ms), most(&controlled, |s| s.there_high_ms));
        out.push(format!(
            "Under delay control packets waited {} ms here (at most {}) and {} ms at the bottleneck \
             (at most {}) on average.",
            figure(here),
            figure(here_most),
            figure(there),
            figure(there_most)
        ));
    }
    path(out, &controlled);
    let all: Vec<Sample> = rows.iter().map(|row| row.sample).collect();
    if let Some(rate) = mean(&all, |s| s.rate_bps).filter(|rate| *rate < IDLE_BPS) {
        let rate = figure(rate / 1e3);
        out.push(format!("Hardly any traffic flowed: {rate} kbit/s on average."));
    } else if let Some(rate) = mean(&all, |s| s.rate_bps) {
        let busiest = most(&all, |s| s.rate_bps);
        out.push(format!(
            "It sent {} Mbit/s on average, and {} Mbit/s in its busiest second.",
            figure(rate / 1e6),
            figure(busiest / 1e6)
        ));
    }
    drops(out, &all);
}

/// Says for how long the bundle was in each mode.
fn shares(bands: &[Band]) -> String {
    let whole: u64 = bands.iter().map(Band::seconds).sum();
    let kinds = [
        Condition::Trouble,
        Condition::In(Mode::DelayControl),
        Condition::In(Mode::PassThrough),
        Condition::In(Mode::Open),
        Condition::In(Mode::Other),
    ];
    let parts: Vec<String> = kinds
        .into_iter()
        .filter_map(|kind| {
            let seconds: u64 =
                bands.iter().filter(|band| band.condition == kind).map(Band::seconds).sum();
            (seconds > 0).then(|| format!("{} for {}", kind.word(), duration(seconds as f64)))
        })
        .collect();
    format!("Of the last {}: {}.", duration(whole as f64), parts.join(", "))
}

/// Tells one stretch: since when, for how long, why, and what it cost.
fn stretch(rows: &[Row], band: &Band, before: Option<&Band>, since: u64) -> String {
    let samples = |band: &Band| -> Vec<Sample> {
        rows[band.rows.0..band.rows.1].iter().map(|row| row.sample).collect()
    };
    let start = match band.from <= since + 2 {
        true => "From before".to_owned(),
        false => time_of_day(band.from * 1000),
    };
    let word = band.condition.word();
    let mut text = format!("{start}: {word} for {}", duration(band.seconds() as f64));
    let why = band.why.as_deref().map(sentence);
    // Writing to a string cannot fail.
    let _ = match why {
        Some(why) => write!(text, ". {why}"),
        None => write!(text, "."),
    };
    let costs = matches!(
        band.condition,
        Condition::Trouble | Condition::In(Mode::PassThrough | Mode::Open)
    );
    let now = samples(band);
    let Some(there) = mean(&now, |s| s.there_ms).filter(|_| costs) else { return text };
    let _ = write!(text, " Packets waited {} ms at the bottleneck", figure(there));
    let then = before.map(samples).unwrap_or_default();
    if let Some(earlier) = mean(&then, |s| s.there_ms) {
        let _ = write!(text, " ({} before)", figure(earlier));
    }
    if let Some(rate) = mean(&now, |s| s.rate_bps) {
        let _ = write!(text, ", and {} Mbit/s left", figure(rate / 1e6));
        if let Some(earlier) = mean(&then, |s| s.rate_bps) {
            let _ = write!(text, " ({} before)", figure(earlier / 1e6));
        }
    }
    text.push('.');
    text
}

/// Says what kind of path it was under control, if that was so for a fifth of the time.
fn path(out: &mut Vec<String>, controlled: &[Sample]) {
    let range = |s: &Sample| s.there_low_ms.zip(s.there_high_ms);
    let measured = controlled.iter().filter_map(range).count();
    let seconds = |fits: &dyn Fn(f64, f64) -> bool| {
        controlled.iter().filter_map(range).filter(|(low, high)| fits(*low, *high)).count()
    };
    let stood = seconds(&|low, _| low > QUEUE_MS);
    if stood * 5 > measured {
        out.push(format!(
            "For {} of it a queue stood at the bottleneck, never below {QUEUE_MS:.0} ms in a second, \
             although the rate was limited here: traffic of others fills it.",
            duration(stood as f64)
        ));
    }
    let bursts = seconds(&|low, high| low <= QUEUE_MS && high - low > BURSTY_MS);
    if bursts * 5 > measured {
        out.push(format!(
            "For {} of it the round trips of one second were more than {BURSTY_MS:.0} ms apart, and \
             the queue emptied in between: the path serves packets in bursts.",
            duration(bursts as f64)
        ));
    }
}

fn drops(out: &mut Vec<String>, all: &[Sample]) {
    let packets = sum(all, |s| s.packets);
    let (dropped, marked) = (sum(all, |s| s.dropped), sum(all, |s| s.marked));
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
    let mut text = format!(
        "The queue here dropped {} packets ({:.2} %)",
        count(dropped as u64),
        share(dropped, packets + dropped)
    );
    if all.iter().any(|s| s.marked.is_some()) {
        let marked_share = share(marked, packets);
        let _ = write!(text, " and marked {} ({marked_share:.2} %)", count(marked as u64));
    }
    if let Some(lost) = mean(all, |s| s.lost) {
        let _ = write!(text, "; {:.2} % were lost on the path", lost * 100.0);
    }
    text.push('.');
    out.push(text);
}

fn receive(out: &mut Vec<String>, rows: &[Row]) {
    let all: Vec<Sample> = rows.iter().map(|row| row.sample).collect();
    let troubled = all.iter().filter(|s| s.trouble).count();
    if troubled > 0 {
        out.push(format!(
            "For {} something was wrong between the boxes: `forebay events` says what.",
            duration(troubled as f64)
        ));
    }
    match mean(&all, |s| s.rate_bps) {
        Some(rate) => out.push(format!(
            "{} Mbit/s arrived on average, and {} Mbit/s in the busiest second.",
            figure(rate / 1e6),
            figure(most(&all, |s| s.rate_bps) / 1e6)
        )),
        None => out.push("It is not known what arrived.".to_owned()),
    }
}

fn refused(out: &mut Vec<String>, rows: &[Row]) {
    let refused: f64 = rows.iter().filter_map(|row| row.sample.refused).sum();
    out.push(match refused as u64 {
        0 => "No message of the peer was refused.".to_owned(),
        1 => "One message of the peer was refused.".to_owned(),
        n => format!("{} messages of the peer were refused.", count(n)),
    });
}

fn missed(out: &mut Vec<String>, events: &[LogEvent], since_ms: u64) {
    let missed = events.iter().filter(|e| e.kind == kind::EVENTS_MISSED && e.at_ms >= since_ms);
    out.extend(missed.map(|event| sentence(&event.text)));
}

fn mean(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = samples.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn most(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> f64 {
    samples.iter().filter_map(of).fold(0.0, f64::max)
}

fn sum(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> f64 {
    samples.iter().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bands::tests::changed;

    #[test]
    fn an_hour_is_told_with_what_it_cost() {
        let row = |at: u64| {
            let pass = (2_000..2_120).contains(&at);
            let sample = Sample {
                mode: Some(if pass { Mode::PassThrough } else { Mode::DelayControl }),
                rate_bps: Some(if pass { 4e6 } else { 10e6 }),
                here_ms: Some(30.0),
                here_high_ms: Some(45.0),
                there_ms: Some(if pass { 60.0 } else { 3.0 }),
                there_high_ms: Some(70.0),
                lost: Some(0.001),
                packets: Some(1_000.0),
                dropped: Some(10.0),
                marked: Some(1.0),
                refused: Some(0.0),
                ..Sample::default()
            };
            Row { at, sample }
        };
        let rows: Vec<Row> = (1_000..3_000).map(row).collect();
        let events = [
            changed(900_000, "delay control", "first measured"),
            changed(2_000_000, "pass-through", "others take what the bundle leaves"),
            changed(2_120_000, "delay control", "the queue is gone"),
        ];
        let mut out = Vec::new();
        send(&mut out, &rows, &events, 1_000);
        let expected = [
            "Of the last 33 min 20 s: delay control for 31 min 20 s, pass-through for 2 min 0 s.",
            "From before: delay control for 16 min 40 s. First measured.",
            "00:33:20: pass-through for 2 min 0 s. Others take what the bundle leaves. Packets waited \
             60.0 ms at the bottleneck (3.00 before), and 4.00 Mbit/s left (10.0 before).",
            "00:35:20: delay control for 14 min 40 s. The queue is gone.",
            "Under delay control packets waited 30.0 ms here (at most 45.0) and 3.00 ms at the \
             bottleneck (at most 70.0) on average.",
            "It sent 9.64 Mbit/s on average, and 10.0 Mbit/s in its busiest second.",
            "The queue here dropped 20 000 packets (0.99 %) and marked 2000 (0.10 %); 0.10 % were \
             lost on the path.",
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn the_kind_of_path_is_told() {
        let told = |low: f64, high: f64, bps: f64| {
            let sample = Sample {
                mode: Some(Mode::DelayControl),
                rate_bps: Some(bps),
                here_ms: Some(1.0),
                there_ms: Some(low),
                there_low_ms: Some(low),
                there_high_ms: Some(high),
                ..Sample::default()
            };
            let rows: Vec<Row> = (1_000..1_060).map(|at| Row { at, sample }).collect();
            let mut out = Vec::new();
            send(&mut out, &rows, &[], 1_000);
            out.join(" ")
        };
        assert!(told(0.0, 90.0, 1e6).contains("For 1 min 0 s of it the round trips"));
        assert!(told(100.0, 190.0, 1e6).contains("For 1 min 0 s of it a queue stood"));
        let calm = told(1.0, 9.0, 1e6);
        assert!(!calm.contains("of it"), "{calm}");
        let idle = told(0.0, 0.0, 500.0);
        assert!(idle.contains("Hardly any traffic flowed: 0.50 kbit/s on average."), "{idle}");
    }
}
