//! What is wrong with a direction of a connection: each fault is a rule over its packets.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::ace::Feedback;
use super::connection::Connection;
use super::delay::{self, Reading};
use super::half::{Ack, Codepoints, Half, SEGMENT};
use super::losses::losses;
use super::report::{ConnectionReport, Direction, Echo, Place, Quantiles, Response, name};
use super::waits::{Wait, Waits};
use crate::report::evidence::{EARLY_PACKETS, NO_QUEUE, POLICED, REWRITTEN, UNMARKED};
use crate::report::{Finding, Kind, Verdict};
use crate::samples::share;

/// The least number of data segments of a direction that is judged.
pub(super) const LEAST: u64 = 60;
/// The least number of segments with a codepoint from which its fate is concluded.
pub(super) const LEAST_SAMPLE: u64 = 20;
/// The least number of marks from which something is concluded.
const LEAST_MARKS: u64 = 10;
/// The least number of segments that show that there are no marks.
const LEAST_UNMARKED: u64 = 200;
/// New segments without ECT(1) that show that a sender stopped using it.
const LEAST_STOPPED: u64 = 50;
/// Marks of more than this share are marks of all packets.
const ALL: f64 = 0.95;
/// A connection has settled after this time: slow start overshoots.
const SETTLED: Nanos = Nanos::from_secs(1);
/// A queue that is longer than this for nine of ten packets stands, if it is hardly ever shorter
/// than a half of it: jitter without a queue lets some packets pass soon.
const STANDING: Nanos = Nanos::from_millis(10);
/// Classic queues mark from longer delays on: the target of CoDel (RFC 8289), the least one.
const LATE: Nanos = Nanos::from_millis(5);
/// The part of marked packets that may have waited for less.
const LATE_PART: f64 = 0.05;
/// Losses that follow the longest delays are those of a full queue where this would be less likely
/// for losses at random.
const CHANCE: f64 = 0.002;
/// A connection has settled after this number of round trips, too.
const SETTLED_ROUNDS: u64 = 10;
/// The least pause between two bursts.
const PAUSE: Nanos = Nanos::from_millis(4);
/// The least number of bursts from which something is concluded, and of packets in one.
const LEAST_BURSTS: usize = 30;
const LEAST_IN_BURST: usize = 4;
/// Pauses of more than this share of the time leave the bottleneck idle.
const IDLE: f64 = 0.4;
/// First packets of bursts that are marked less often find an empty queue.
const FIRST_MARKED: f64 = 0.05;
/// Later packets that are marked more often are marked for the burst.
const LATER_MARKED: f64 = 0.2;

/// A direction while it is judged.
struct Judge<'a> {
    connection: &'a Connection,
    half: &'a Half,
    end: usize,
    place: Place,
    feedback: Feedback,
    /// The delays from the sender to the receiver, of two captures.
    way: Option<Waits>,
    found: Vec<Finding>,
}

/// Judges the data of the end with number `end` of `connection`, captured at `place`. `way` has the
/// delays from end to end if there are two captures.
pub(super) fn direction(
    connection: &Connection,
    end: usize,
    place: Place,
    way: Option<Waits>,
) -> Direction {
    let half = &connection.halves[end];
    let feedback = connection.feedback();
    let mut judge = Judge { connection, half, end, place, feedback, way, found: Vec::new() };
    let is_tried = judge.run();
    let findings = judge.found;
    let is_judged = half.segments.all() >= LEAST;
    let verdict = (is_tried && is_judged).then(|| Verdict::of(&findings));
    let is_acked = half.acked_bytes > 0;
    let is_ece = matches!(feedback, Feedback::Classic | Feedback::Exact);
    let round_trips = half.acks.iter().filter_map(|a| a.rtt).collect();
    Direction {
        from: connection.ends[end],
        to: connection.ends[1 - end],
        place,
        segments: half.segments,
        ce_share: part(half.segments.ce, half.segments.all()),
        retransmitted: half.retransmitted,
        twice: half.twice,
        forgotten: half.forgotten,
        acked_bytes: half.acked_bytes,
        echo: Echo {
            marks: (is_acked && feedback == Feedback::Accurate).then_some(half.ace.marks),
            ece: (is_acked && is_ece).then_some(half.ece.acks),
            bytes: half.reported,
        },
        to_receiver: Quantiles::of(round_trips),
        to_sender: Quantiles::of(connection.loops[end].samples.clone()),
        one_way: None,
        response: response(connection, end, place),
        verdict,
        findings,
    }
}

/// Puts the verdicts of all directions together. Those that do not try to use L4S count only if
/// none does. `nothing` says what a capture has that has no TCP segments.
pub(super) fn total(
    connections: &[ConnectionReport],
    nothing: Option<String>,
) -> (Verdict, Vec<Finding>) {
    let directions = || connections.iter().flat_map(|c| &c.directions);
    let has = |verdict| directions().any(|d| d.verdict == Some(verdict));
    let is_tried = directions().any(|d| d.verdict.is_some());
    let mut findings: Vec<Finding> = Vec::new();
    for direction in directions() {
        let counts = match is_tried {
            true => direction.verdict.is_some_and(|v| v != Verdict::Works),
            false => direction.segments.all() >= LEAST,
        };
        if !counts {
            continue;
        }
        for Finding { kind, text } in &direction.findings {
            if !findings.iter().any(|f| f.kind == *kind) {
                let text = format!("{} to {}: {text}", direction.from, direction.to);
                findings.push(Finding { kind: *kind, text });
            }
        }
    }
    if has(Verdict::DoesNotWork) || !is_tried && findings.iter().any(|f| !f.kind.is_inconclusive())
    {
        findings.retain(|f| !f.kind.is_inconclusive());
        return (Verdict::DoesNotWork, findings);
    }
    if has(Verdict::Works) {
        return (Verdict::Works, Vec::new());
    }
    if findings.is_empty() {
        let text = nothing.unwrap_or_else(|| {
            format!(
                "no connection has {LEAST} data segments and a handshake or ECT(1) packets in the \
                 capture: capture a longer transfer from its beginning on"
            )
        });
        findings.push(Finding { kind: Kind::TooFewPackets, text });
    }
    (Verdict::Unknown, findings)
}

impl Judge<'_> {
    /// Applies all rules. Returns whether the direction tries to use L4S.
    fn run(&mut self) -> bool {
        let asked = |flags: Option<u8>| flags == Some(0b111);
        let is_asked = asked(self.connection.syn.map(|s| s.flags))
            || asked(self.connection.first_syn)
            || self.feedback == Feedback::Accurate;
        let is_ect1 = self.half.new.ect1 >= LEAST_SAMPLE;
        self.openings();
        match self.feedback {
            Feedback::None => self.without_ecn(),
            Feedback::Classic => self.classic(),
            Feedback::Exact if !is_ect1 => self.classic(),
            Feedback::Unknown if !is_ect1 => return false,
            Feedback::Accurate | Feedback::Exact | Feedback::Unknown => self.data(),
        }
        is_asked || is_ect1
    }

    fn say(&mut self, kind: Kind, text: impl Into<String>) {
        self.found.push(Finding { kind, text: text.into() });
    }

    fn has(&self, kind: Kind) -> bool {
        self.found.iter().any(|f| f.kind == kind)
    }

    /// Compares the ECN fields of SYN and SYN/ACK here with those that arrived.
    fn openings(&mut self) {
        let connection = self.connection;
        // Each direction has one of the two.
        let (what, sent, arrived) = match self.end {
            0 => ("SYN", connection.syn, connection.syn_arrived()),
            _ => ("SYN/ACK", connection.syn_ack, connection.syn_ack_arrived()),
        };
        // The receiver means the latest one, so that a retransmission leaves it open.
        let (Some(sent), Some(arrived)) = (sent, arrived) else { return };
        let text = format!(
            "the {what} is {} here and arrived as {}, says the handshake: something on the path \
             rewrites the ECN field",
            name(sent.ecn),
            name(arrived)
        );
        match (sent.ecn, arrived) {
            (Ecn::Ect1 | Ecn::Ect0, Ecn::NotEct) | (Ecn::Ect1, Ecn::Ect0) => {
                self.say(Kind::Ect1Rewritten, text);
            }
            (Ecn::Ce, Ecn::NotEct | Ecn::Ect0 | Ecn::Ect1) => self.say(Kind::CeErased, text),
            (Ecn::NotEct | Ecn::Ect0, Ecn::Ect1) => self.say(Kind::ClassicPromoted, text),
            _ => {}
        }
    }

    /// Whether the capture was taken at the client.
    fn is_at_client(&self) -> bool {
        match self.place {
            Place::Sender => self.end == 0,
            Place::Receiver => self.end == 1,
            Place::Middle | Place::Both | Place::Unknown => false,
        }
    }

    fn without_ecn(&mut self) {
        let syn = self.connection.syn.map(|s| s.flags);
        let syn_ack = self.connection.syn_ack.map_or(0, |s| s.flags);
        let text = match (self.connection.first_syn, syn) {
            (Some(0b111), Some(0)) => {
                "no ECN: SYNs that asked for AccECN were not answered, one without ECN was"
            }
            (_, Some(0b111 | 0b011)) if Some(syn_ack) == syn => {
                "no ECN: the SYN/ACK has the flags of the SYN, as of a server that reflects them"
            }
            (_, Some(0b111 | 0b011)) => {
                "no ECN: the client asked for it, and the SYN/ACK here does not accept; the server \
                 does not use it, or something on the path cleared the flags"
            }
            (_, Some(_)) if self.is_at_client() => "no ECN: the client did not ask for it",
            (_, Some(_)) => {
                "no ECN: the SYN here does not ask for it; the client did not, or something before \
                 this place cleared the flags"
            }
            (_, None) => "no ECN: the SYN/ACK does not accept it",
        };
        self.say(Kind::NoEcn, text);
    }

    fn classic(&mut self) {
        let text = match self.connection.syn.map(|s| s.flags) {
            _ if self.feedback == Feedback::Exact => {
                "exact ECE, as of DCTCP, with ECT(0) packets, which L4S queues take for classic ones"
            }
            Some(0b111) => "the client asked for AccECN, and the server answered with classic ECN",
            Some(0b011) => "the SYN asks for classic ECN only",
            _ => "the connection has classic ECN only",
        };
        self.say(Kind::ClassicFeedback, text);
        self.echo();
    }

    /// Looks at the data of a direction with the feedback that L4S needs.
    fn data(&mut self) {
        if self.half.segments.all() < LEAST {
            return self.say(Kind::TooFewPackets, format!("fewer than {LEAST} data segments"));
        }
        self.reported();
        self.codepoints();
        self.echo();
        let is_bursty = self.bursts();
        if self.found.is_empty() || is_bursty {
            self.queue(is_bursty);
        }
    }

    /// Compares the bytes of the AccECN option with those here.
    fn reported(&mut self) {
        let half = self.half;
        let Some(there) = half.reported else { return };
        let (from, to) = (half.reported_from, half.bytes);
        let here = Codepoints {
            not_ect: to.not_ect - from.not_ect,
            ect0: to.ect0 - from.ect0,
            ect1: to.ect1 - from.ect1,
            ce: to.ce - from.ce,
        };
        let sample = LEAST_SAMPLE * u64::from(half.segment.unwrap_or(SEGMENT));
        // Counters that count more than was sent are none, such as those that a box cleared.
        if there.all() > here.all() + here.all() / 4 + sample {
            return;
        }
        let percent = |part: u64, of: u64| 100.0 * share(part as usize, of as usize, 0.0);
        // Queues behind this place turn ECT(1) into CE.
        let kept = there.ect1 + there.ce.saturating_sub(here.ce);
        if here.ect1 >= sample && part(kept, here.ect1) < 1.0 - REWRITTEN {
            let to = if there.ect0 > here.ect1 / 2 { "ECT(0)" } else { "Not-ECT" };
            let text = format!(
                "{:.0} % of the bytes that pass here as ECT(1) arrived as ECT(1) or CE, says the \
                 AccECN option, and the rest as {to}: something on the path rewrites the ECN field",
                percent(kept, here.ect1)
            );
            self.say(Kind::Ect1Rewritten, text);
        } else if half.marks_acked >= LEAST_MARKS && part(there.ce, here.ce) < REWRITTEN {
            let text = format!(
                "{} bytes pass here marked, and {} arrived so, says the AccECN option: something \
                 on the path clears marks",
                here.ce, there.ce
            );
            self.say(Kind::CeErased, text);
        }
        let classic = here.not_ect + here.ect0;
        if classic >= sample && here.ect1 < sample && there.ect1 > classic / 2 {
            let text = format!(
                "{:.0} % of the Not-ECT and ECT(0) bytes arrived as ECT(1), says the AccECN option",
                percent(there.ect1, classic)
            );
            self.say(Kind::ClassicPromoted, text);
        }
    }

    /// Looks for data without ECT(1), and for senders that stop using it.
    fn codepoints(&mut self) {
        let Codepoints { not_ect, ect0, ect1, ce } = self.half.new;
        let since = self.half.since_ect1;
        let at_sender = self.place == Place::Sender;
        if ect1 < LEAST_SAMPLE && not_ect + ect0 >= LEAST {
            let cause = if at_sender {
                "the sender does not use L4S"
            } else {
                "the sender does not use L4S, or something before this place rewrites the ECN field"
            };
            self.say(
                Kind::NoEct1,
                format!(
                    "{not_ect} Not-ECT and {ect0} ECT(0) data segments, {ect1} ECT(1): {cause}"
                ),
            );
        } else if ect1 >= LEAST_SAMPLE && since.not_ect + since.ect0 >= LEAST_STOPPED {
            let cause =
                if at_sender { "" } else { ", or something on the path began to rewrite it" };
            self.say(
                Kind::FellBack,
                format!(
                    "the last {} data segments have no ECT(1) although {ect1} before have: the \
                     sender fell back{cause}",
                    since.not_ect + since.ect0
                ),
            );
        }
        let marked = part(ce, self.half.new.all());
        let lasts = self.half.data.first().zip(self.half.data.last());
        let is_long = lasts.is_some_and(|(a, b)| b.at.saturating_sub(a.at) > SETTLED);
        if marked > ALL && is_long && !at_sender {
            let delays = self.before_here().and_then(|waits| waits.quantile(0.5));
            if delays.is_some_and(|delay| delay < NO_QUEUE) {
                let text = format!("{:.0} % of the data is marked without a queue", marked * 100.0);
                self.say(Kind::AlwaysMarked, text);
            }
        }
    }

    /// Compares the marks here with what the receiver says of them.
    fn echo(&mut self) {
        let half = self.half;
        if half.acked_bytes == 0 && half.segments.all() >= LEAST {
            return self.say(
                Kind::OneDirection,
                "the capture has no acknowledgements of this data, so it does not show whether the \
                 receiver echoes marks: capture both directions",
            );
        }
        if half.marks_acked < LEAST_MARKS || self.has(Kind::CeErased) {
            return;
        }
        let (echoed, what) = match self.feedback {
            Feedback::Accurate => (half.ace.marks.most, "marks in the ACE field"),
            _ => (half.ece.acks, "acknowledgements with ECE"),
        };
        let is_missing = match self.feedback {
            Feedback::Accurate => 2 * echoed < half.marks_acked,
            Feedback::Unknown | Feedback::None => false,
            Feedback::Classic | Feedback::Exact => echoed == 0,
        };
        if is_missing {
            let cause = match self.place {
                Place::Receiver => "the receiver does not echo marks",
                _ => "the receiver does not echo marks, or something behind this place clears them",
            };
            let text = format!(
                "{} marked segments passed here, and {echoed} {what}: {cause}",
                half.marks_acked
            );
            self.say(Kind::NotEchoed, text);
        }
    }

    /// Returns the delays from the sender to here; `None` without usable timestamps.
    fn before_here(&self) -> Option<Waits> {
        let data = || self.half.data.iter().filter(|d| d.is_new && d.clock.is_some());
        let readings: Vec<_> = data()
            .filter_map(|d| Some(Reading { at: d.at, clock: d.clock?, is_after: false }))
            .collect();
        let marked = data().map(|d| (d.at, d.ecn == Ecn::Ce));
        Some(self.waits(&delay::excess(&readings)?, marked))
    }

    /// Returns the delays from here to the receiver; `None` without usable timestamps.
    fn behind_here(&self) -> Option<Waits> {
        let acks = || {
            let timed = self.half.acks.iter().filter(|a| a.clock.is_some());
            timed.filter_map(|a| Some((a, a.at.saturating_sub(a.rtt?))))
        };
        let reading =
            |(a, at): (&Ack, Nanos)| Some(Reading { at, clock: a.clock?, is_after: true });
        let readings: Vec<_> = acks().filter_map(reading).collect();
        let is_exact = self.feedback != Feedback::Accurate;
        let marked = acks().map(|(a, at)| (at, if is_exact { a.ece } else { a.marks > 0 }));
        Some(self.waits(&delay::excess(&readings)?, marked))
    }

    fn waits(&self, excess: &[Nanos], packets: impl Iterator<Item = (Nanos, bool)>) -> Waits {
        let wait = |(&excess, (passed, is_marked))| Wait { passed, excess, is_marked };
        Waits::of(settled(self.connection, self.half), excess.iter().zip(packets).map(wait))
    }

    /// Looks for bursts of the link that are marked although their first packets find no queue.
    fn bursts(&mut self) -> bool {
        if self.place == Place::Sender || self.half.segments.ce < LEAST_MARKS {
            return false;
        }
        let data: Vec<_> = self.half.data.iter().filter(|d| d.is_new).collect();
        let Some((first, last)) = data.first().zip(data.last()) else { return false };
        let lasted = last.at.saturating_sub(first.at).0 as f64;
        let (mut bursts, mut gathered, mut idle) = (0, 0, 0.0);
        let (mut firsts, mut laters, mut later_count) = (0, 0, 0);
        let mut before = first.at;
        for burst in data.chunk_by(|a, b| b.at.saturating_sub(a.at) < PAUSE) {
            let next = burst[burst.len() - 1];
            let pause = burst[0].at.saturating_sub(before);
            before = next.at;
            if burst.len() >= LEAST_IN_BURST && pause > Nanos::ZERO {
                let is_marked = |d: &&&super::half::Data| d.ecn == Ecn::Ce;
                bursts += 1;
                firsts += usize::from(burst[0].ecn == Ecn::Ce);
                laters += burst[1..].iter().filter(is_marked).count();
                later_count += burst.len() - 1;
                // A link that gathers packets does so with those of different times.
                let clocks = burst[0].clock.zip(next.clock);
                let sent = clocks.map_or(0, |(a, b)| b.wrapping_sub(a) as i32);
                gathered += usize::from(f64::from(sent) * 1e6 > pause.0 as f64 / 2.0);
                idle += pause.0 as f64;
            }
        }
        let is_bursty = bursts >= LEAST_BURSTS
            && gathered * 2 > bursts
            && idle > IDLE * lasted
            && share(firsts, bursts, 1.0) < FIRST_MARKED
            && share(laters, later_count, 0.0) > LATER_MARKED;
        if is_bursty {
            let text = format!(
                "{bursts} bursts arrived with pauses of {:.0} ms: the first packet of a burst \
                 finds no queue, and {:.0} % of the others are marked: bursts of the link itself \
                 are marked",
                idle / bursts as f64 / 1e6,
                100.0 * share(laters, later_count, 0.0)
            );
            self.say(Kind::MarkedWithoutLoad, text);
        }
        is_bursty
    }

    /// The marks that are known: those here, or those that the receiver echoes.
    fn marks(&self) -> u64 {
        let echoed = match self.feedback {
            Feedback::Accurate => self.half.ace.marks.least,
            _ => self.half.ece.acks,
        };
        echoed.max(self.half.segments.ce)
    }

    /// Looks at when the queue marks.
    fn queue(&mut self, is_bursty: bool) {
        let half = self.half;
        let all = half.segments.all();
        let marks = self.marks();
        let is_here = half.segments.ce >= LEAST_MARKS;
        let (before, behind) = match self.way.take() {
            Some(way) => (Some(way), None),
            None => (self.before_here(), self.behind_here()),
        };
        if marks >= LEAST_MARKS {
            let at_marks = if is_here { &before } else { &behind };
            let is_shown = at_marks.as_ref().is_some_and(|waits| is_bursty || self.begin(waits));
            if part(marks, all) >= UNMARKED {
                if !is_shown {
                    self.say(
                        Kind::NoTimestamps,
                        "packets are marked and marks are echoed, but without timestamps of a \
                         millisecond, or with few marks after the start, the capture does not \
                         show from which delay on",
                    );
                }
                return;
            }
            // A sender that halves its window needs few marks.
            if self.has(Kind::MarkedLate) {
                return;
            }
        }
        if all < LEAST_UNMARKED {
            return self.say(Kind::TooFewPackets, format!("{marks} marks in {all} data segments"));
        }
        let longest = |q| {
            let both = [&before, &behind].into_iter().flatten();
            both.filter_map(|waits| waits.quantile(q)).max()
        };
        let lost = part(half.retransmitted, all);
        match longest(0.1) {
            None => self.say(
                Kind::NoTimestamps,
                "no packet is marked, and without timestamps of a millisecond the capture does \
                 not show whether a queue stands",
            ),
            Some(delay) if delay > STANDING && longest(0.01) > Some(STANDING / 2) => self.say(
                Kind::Unmarked,
                format!(
                    "{marks} of {all} data segments are marked although nine of ten wait for more \
                     than {:.1} ms: the bottleneck is no L4S queue, or another one than the L4S \
                     queue of the path",
                    delay.as_millis_f64()
                ),
            ),
            Some(_) if lost > POLICED && longest(0.9).is_some_and(|d| d < NO_QUEUE) => self.say(
                Kind::Policer,
                format!(
                    "{:.1} % of the data was retransmitted, without marks and without a queue: a \
                     policer, or loss on the way",
                    lost * 100.0
                ),
            ),
            Some(_) => self.losses([before, behind]),
        }
    }

    /// Looks for a queue that drops packets when it is full, and does not mark them.
    fn losses(&mut self, waits: [Option<Waits>; 2]) {
        let round_trip = least_round_trip(self.connection);
        let losses = losses(&self.half.data, round_trip);
        let at_losses = |waits: &Waits| waits.at_losses(&losses, round_trip);
        let full = waits.iter().flatten().filter_map(at_losses).max_by_key(|at| at.median);
        let least = LATE.max(packet_time(self.half).unwrap_or(Nanos::ZERO) * EARLY_PACKETS);
        match full {
            Some(full) if full.count > 1 && full.chance() < CHANCE && full.median > least => {
                self.say(
                    Kind::Unmarked,
                    format!(
                        "packets that wait for {:.1} ms are dropped, {} times in this capture, \
                         and {} of {} data segments are marked: the bottleneck is no L4S queue, \
                         or something behind it clears marks",
                        full.median.as_millis_f64(),
                        full.count,
                        self.marks(),
                        self.half.segments.all()
                    ),
                );
            }
            _ => self.say(
                Kind::NoBottleneck,
                "no marks and no standing queue: the transfer did not fill its bottleneck",
            ),
        }
    }

    /// Looks for marks that begin at the delay of a classic queue. Returns whether the delays show
    /// from which one on.
    fn begin(&mut self, waits: &Waits) -> bool {
        let mut marked = waits.marked.clone();
        if marked.len() as u64 >= LEAST_MARKS {
            if let Some(first) = late(self.half, &mut marked) {
                self.say(Kind::MarkedLate, late_text(first));
            }
            return true;
        }
        // Slow start may fill a queue before it marks, so that only early marks show something.
        marked.extend(&waits.early_marked);
        marked.len() as u64 >= LEAST_MARKS && late(self.half, &mut marked).is_none()
    }
}

/// Returns the least round trip of the connection.
fn least_round_trip(connection: &Connection) -> Nanos {
    let loops = connection.loops.iter().filter_map(|l| l.least);
    loops.fold(Nanos::ZERO, Nanos::saturating_add)
}

/// Returns the time from which on the connection has settled.
pub(super) fn settled(connection: &Connection, half: &Half) -> Nanos {
    let rounds = least_round_trip(connection) * SETTLED_ROUNDS;
    half.data.first().map_or(Nanos::ZERO, |d| d.at.saturating_add(SETTLED.max(rounds)))
}

/// Returns the delay from which on packets are marked, if it is that of a classic queue.
fn late(half: &Half, marked: &mut [Nanos]) -> Option<Nanos> {
    let packet = packet_time(half).unwrap_or(Nanos::ZERO);
    let latest = LATE.max(packet * EARLY_PACKETS);
    delay::quantile(marked, LATE_PART).filter(|&first| first > latest)
}

/// Says that marks begin at this delay.
fn late_text(first: Nanos) -> String {
    format!(
        "19 of 20 marked packets waited for more than {:.1} ms: the queue marks by the rules of \
         classic ECN (RFC 3168), not as an L4S queue",
        first.as_millis_f64()
    )
}

pub(super) fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the mean time between two segments of the whole transfer, which is at least that of a
/// packet at the bottleneck.
fn packet_time(half: &Half) -> Option<Nanos> {
    let (first, last) = (half.data.first()?, half.data.last()?);
    let segments = half.segments.all().checked_sub(1).filter(|&n| n > 0)?;
    Some(last.at.saturating_sub(first.at) / segments)
}

/// The least number of marks, and the least and largest share of marks, by which a sender's law is
/// told.
const LAW_MARKS: u64 = 50;
const LAW_SHARES: std::ops::RangeInclusive<f64> = 0.002..=0.25;
/// The least number of round trips.
const LAW_ROUNDS: f64 = 20.0;
/// The product of window and share of marks of a scalable sender (RFC 9331 section 4.3).
const SCALABLE: f64 = 2.0;
/// The product of the window and the root of the share of a classic sender: Reno's (RFC 5348 has
/// the law as a rate) with the factor 0.7 of ABE (RFC 8511) lies above, with 0.5 below.
const CLASSIC: f64 = 1.3;
/// A window may deviate from a law by this factor.
const LAW_FACTOR: f64 = 2.5;

/// Returns how the sender responds, by its window in segments and the share of marks.
fn response(connection: &Connection, end: usize, place: Place) -> Option<Response> {
    let half = &connection.halves[end];
    let marks = match connection.feedback() {
        Feedback::Accurate => half.ace.marks.least.max(half.segments.ce),
        _ => half.segments.ce,
    };
    let marked = part(marks, half.segments.all());
    let to_receiver = Quantiles::of(half.acks.iter().filter_map(|a| a.rtt).collect())?.median_ms;
    let to_sender = match place {
        Place::Sender => 0.0,
        _ => Quantiles::of(connection.loops[end].samples.clone())?.median_ms,
    };
    let rtt = (to_receiver + to_sender) / 1e3;
    let lasted = half.data.last()?.at.saturating_sub(half.data.first()?.at).as_secs_f64();
    if marks < LAW_MARKS || !LAW_SHARES.contains(&marked) || lasted < LAW_ROUNDS * rtt {
        return None;
    }
    let window = half.segments.all() as f64 / lasted * rtt;
    let off = |product: f64, law: f64| (product / law).ln().abs();
    let scalable = off(window * marked, SCALABLE);
    let classic = off(window * marked.sqrt(), CLASSIC);
    let (law, off) = if scalable < classic {
        (Response::Scalable, scalable)
    } else {
        (Response::Classic, classic)
    };
    (off < LAW_FACTOR.ln()).then_some(law)
}
