//! A verdict about a bundle: one word for its state, and a sentence that says why.
//!
//! A single state does not show whether traffic flows or whether a path is bursty. [`Recent`] keeps
//! what the last half minute of states showed, and judges from that.

use std::collections::VecDeque;
use std::fmt;

use forebay_records::{ReceiveStatus, SendStatus};

/// The time that is judged, in seconds.
const SPAN_S: f64 = 30.0;
/// The most states that are kept.
const MAX_STATES: usize = 64;
/// A bundle that sends less than this is idle, in bits per second: a few packets in half a minute.
pub const IDLE_BPS: f64 = 2_000.0;
/// The fewest seconds with samples that show whether a path is bursty.
const MIN_SECONDS: usize = 5;
/// The round-trip times of one second of a bursty path are this far apart, in milliseconds, or by
/// [`BURSTY_SHARE`] of the minimum if that is more. The controllers' own probing and the scheduling
/// of a busy machine stay below it.
pub const BURSTY_MS: f64 = 30.0;
/// The share of the minimum round-trip time for [`BURSTY_MS`].
const BURSTY_SHARE: f64 = 0.25;
/// A bundle whose shortest wait of a second at the bottleneck is longer than this has a queue there
/// that never empties, in milliseconds, or by [`QUEUE_SHARE`] of the minimum if that is more.
pub const QUEUE_MS: f64 = 10.0;
/// The share of the minimum round-trip time for [`QUEUE_MS`].
const QUEUE_SHARE: f64 = 0.25;

/// The state of a bundle in one direction, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The boxes do not understand each other.
    Trouble,
    /// No box has the bundle now: it ended, or does not answer.
    Gone,
    /// Traffic flows without a limit, as without the boxes.
    Open,
    /// Elastic traffic of others shares the bottleneck.
    BesideOthers,
    /// Under control, but a queue of others stands at the bottleneck.
    QueueThere,
    /// The path serves packets in bursts.
    Bursty,
    /// Under control, with the queue here if there is one.
    Controlled,
    /// Traffic arrives from the peer.
    Receiving,
    /// Hardly any traffic flows.
    Idle,
}

impl State {
    /// Returns the word for screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Gone => "no box",
            Self::Open => "open",
            Self::BesideOthers => "beside others",
            Self::Bursty => "bursty path",
            Self::QueueThere => "queue there",
            Self::Controlled => "controlled",
            Self::Receiving => "receiving",
            Self::Idle => "idle",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A state with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The state of the bundle.
    pub state: State,
    /// The reason, as a sentence.
    pub why: String,
}

impl Verdict {
    fn new(state: State, why: impl Into<String>) -> Self {
        Self { state, why: why.into() }
    }
}

/// What one state showed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: f64,
    bytes: u64,
    /// The difference between the round-trip times of a second, in milliseconds.
    spread_ms: Option<f64>,
    /// The wait at the bottleneck, in milliseconds, if there was a sample.
    there_ms: Option<f64>,
    /// The shortest wait at the bottleneck within a second, in milliseconds.
    standing_ms: Option<f64>,
    /// Whether the bundle was in pass-through.
    passes: bool,
}

/// The last half minute of a bundle.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    seen: VecDeque<Seen>,
}

impl Recent {
    /// Takes in the state of a bundle that is sent, read at `at`, in seconds of any clock that does
    /// not go back.
    pub fn note_send(&mut self, at: f64, bundle: &SendStatus) {
        let spread_ms = bundle.rtt_range_ms.map(|(low, high)| high - low);
        let there_ms = bundle.wait_network_ms.filter(|_| spread_ms.is_some());
        let standing_ms = bundle
            .rtt_range_ms
            .zip(bundle.min_rtt_ms)
            .map(|((low, _), least)| (low - least).max(0.0));
        let passes = bundle.mode == "pass-through";
        self.note(Seen { at, bytes: bundle.bytes, spread_ms, there_ms, standing_ms, passes });
    }

    /// Takes in the state of a bundle that is received, read at `at`, in seconds.
    pub fn note_receive(&mut self, at: f64, bundle: &ReceiveStatus) {
        self.note(Seen {
            at,
            bytes: bundle.bytes,
            spread_ms: None,
            there_ms: None,
            standing_ms: None,
            passes: false,
        });
    }

    fn note(&mut self, seen: Seen) {
        // A box that was started again counts from zero.
        if self.seen.back().is_some_and(|last| last.bytes > seen.bytes || last.at > seen.at) {
            self.seen.clear();
        }
        self.seen.push_back(seen);
        while self.seen.len() > MAX_STATES
            || self.seen.front().is_some_and(|s| s.at < seen.at - SPAN_S)
        {
            self.seen.pop_front();
        }
    }

    /// Returns the rate between the last two states, in bits per second.
    pub fn rate_bps(&self) -> Option<f64> {
        let mut last = self.seen.iter().rev();
        rate(last.nth(1)?, self.seen.back()?)
    }

    /// Returns the rate over all states, in bits per second.
    fn mean_bps(&self) -> Option<f64> {
        rate(self.seen.front()?, self.seen.back()?)
    }

    /// Returns the median of the seconds that have a value.
    fn median(&self, of: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
        let mut all: Vec<f64> = self.seen.iter().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        (all.len() >= MIN_SECONDS).then(|| all[all.len() / 2])
    }

    /// Judges a bundle that is sent, whose state was taken in last.
    pub fn judge_send(&self, bundle: &SendStatus) -> Verdict {
        if let Some(trouble) = &bundle.trouble {
            return Verdict::new(State::Trouble, sentence(trouble));
        }
        let reason = bundle.reason.as_deref().map(sentence);
        let idle = self.mean_bps().is_some_and(|bps| bps < IDLE_BPS);
        if idle && bundle.backlog_bytes == 0 {
            return Verdict::new(
                State::Idle,
                "Hardly any traffic flows, so there is nothing to do.",
            );
        }
        if bundle.mode == "open" {
            let why = reason.unwrap_or_else(|| "Nothing has been measured yet.".to_owned());
            return Verdict::new(State::Open, format!("Traffic flows without a limit. {why}"));
        }
        // Delay control tries again and again whether the others have gone.
        if self.seen.iter().any(|seen| seen.passes) {
            let why = "Elastic traffic of others shares the bottleneck, so the flows compete \
                       themselves and the queue is there.";
            return Verdict::new(State::BesideOthers, why);
        }
        let least = bundle.min_rtt_ms.unwrap_or(0.0);
        let standing = self.median(|seen| seen.standing_ms);
        if let Some(there) = standing.filter(|t| *t > (least * QUEUE_SHARE).max(QUEUE_MS)) {
            let why = format!(
                "A queue of {there:.0} ms stays at the bottleneck although the rate is limited here: \
                 traffic of others fills it."
            );
            return Verdict::new(State::QueueThere, why);
        }
        let spread = self.median(|seen| seen.spread_ms);
        if let Some(spread) = spread.filter(|s| *s > (least * BURSTY_SHARE).max(BURSTY_MS)) {
            let why = format!(
                "The path serves packets in bursts: the round trips of one second are {spread:.0} \
                 ms apart, and its queue is empty in between."
            );
            return Verdict::new(State::Bursty, why);
        }
        let there = self.median(|seen| seen.there_ms);
        let here = bundle.wait_here_ms.unwrap_or(0.0);
        let why = if here >= 1.0 {
            format!("The queue is here: {here:.0} ms, and {:.0} ms there.", there.unwrap_or(0.0))
        } else {
            "The traffic fits, and no queue stands here.".to_owned()
        };
        Verdict::new(State::Controlled, why)
    }

    /// Judges a bundle that is received, whose state was taken in last.
    pub fn judge_receive(&self, bundle: &ReceiveStatus) -> Verdict {
        if let Some(trouble) = &bundle.trouble {
            return Verdict::new(State::Trouble, sentence(trouble));
        }
        if self.mean_bps().is_some_and(|bps| bps < IDLE_BPS) {
            return Verdict::new(State::Idle, "Hardly any traffic arrives.");
        }
        Verdict::new(State::Receiving, "Traffic arrives and is counted; the peer controls it.")
    }
}

fn rate(from: &Seen, to: &Seen) -> Option<f64> {
    let time = to.at - from.at;
    (time > 0.0).then(|| to.bytes.saturating_sub(from.bytes) as f64 * 8.0 / time)
}

/// Writes a log text as a sentence.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> SendStatus {
        serde_json::from_value(serde_json::json!({
            "name": "branch", "receivebox": "192.0.2.1:28316", "mode": "delay control",
            "mode_s": 9.0, "reason": "first measured", "reason_kind": "measured", "phase": null,
            "trouble": null, "rate_bps": 24_000_000, "send_bps": 23_000_000,
            "receive_bps": 23_000_000, "loss": 0.0, "rtt_ms": 52.0, "min_rtt_ms": 50.0,
            "rtt_range_ms": [50.0, 56.0], "backlog_bytes": 90_000, "wait_here_ms": 30.0,
            "wait_network_ms": 2.0, "packets": 0, "bytes": 0, "dropped": 0, "marked": 0,
            "refused": 0, "measurements": 5, "unmatched": 0, "decided": 1, "decisions": []
        }))
        .unwrap()
    }

    /// Judges after ten seconds of states, each of which `change` makes from the number of bytes.
    fn judged(bps: u64, change: impl Fn(&mut SendStatus)) -> State {
        let mut recent = Recent::default();
        let mut last = bundle();
        for second in 0..10 {
            last = bundle();
            last.bytes = second * bps / 8;
            change(&mut last);
            recent.note_send(second as f64, &last);
        }
        recent.judge_send(&last).state
    }

    #[test]
    fn each_kind_of_path_has_its_word() {
        let busy = 20_000_000;
        assert_eq!(judged(busy, |_| ()), State::Controlled);
        assert_eq!(judged(100, |b| b.backlog_bytes = 0), State::Idle);
        assert_eq!(judged(busy, |b| b.mode = "open".to_owned()), State::Open);
        assert_eq!(judged(busy, |b| b.mode = "pass-through".to_owned()), State::BesideOthers);
        assert_eq!(judged(busy, |b| b.rtt_range_ms = Some((50.0, 110.0))), State::Bursty);
        // A quarter of the minimum is 12.5 ms, so the spread has to exceed 30 ms.
        assert_eq!(judged(busy, |b| b.rtt_range_ms = Some((50.0, 79.9))), State::Controlled);
        assert_eq!(judged(busy, |b| b.rtt_range_ms = Some((63.0, 110.0))), State::QueueThere);
        assert_eq!(judged(busy, |b| b.rtt_range_ms = Some((62.0, 70.0))), State::Controlled);
        let tried = |b: &mut SendStatus| {
            if b.bytes < 5 * busy / 8 {
                b.mode = "pass-through".to_owned();
            }
        };
        assert_eq!(judged(busy, tried), State::BesideOthers, "a while ago");
        // An idle bundle with another key is in trouble.
        let other_key = |b: &mut SendStatus| b.trouble = Some("another key".to_owned());
        assert_eq!(judged(0, other_key), State::Trouble);
        assert!(State::Trouble < State::Idle, "the worst comes first");
    }

    #[test]
    fn a_restart_of_the_box_starts_anew() {
        let mut recent = Recent::default();
        let mut state = bundle();
        state.bytes = 1_000_000;
        recent.note_send(1.0, &state);
        state.bytes = 2_000_000;
        recent.note_send(2.0, &state);
        assert_eq!(recent.rate_bps(), Some(8_000_000.0));
        state.bytes = 10;
        recent.note_send(3.0, &state);
        assert_eq!(recent.rate_bps(), None);
        for at in 4..200 {
            recent.note_send(at.into(), &state);
        }
        assert_eq!(recent.seen.len(), 31, "half a minute");
    }

    #[test]
    fn log_texts_become_sentences() {
        assert_eq!(sentence("no answer"), "No answer.");
        assert_eq!(sentence("does it run?"), "Does it run?");
        assert_eq!(sentence(""), ".");
    }
}
