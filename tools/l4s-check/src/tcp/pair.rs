//! Two captures of the same connections, at the sender and at the receiver of the data.

use std::collections::{BTreeMap, HashMap};

use forebay_units::Nanos;

use super::Analysis;
use super::ace::Feedback;
use super::connection::Connection;
use super::delay;
use super::half::{Codepoints, Data, Half};
use super::judge::{self, LEAST, LEAST_SAMPLE, part};
use super::report::{self, Direction, OneWay, Place, Quantiles, TcpReport};
use super::waits::{Wait, Waits};
use crate::report::evidence::{BLOCKED, REWRITTEN};
use crate::report::{Finding, Kind, Verdict};

/// The most segments before a byte that are looked at for the one with the byte.
const NEAR: usize = 64;
/// Twice the largest payload of a packet.
const MAX_DISTANCE: i64 = 1 << 20;
/// Sequence numbers wrap at this one.
const WRAP: i64 = 1 << 32;

/// Judges the captures at the sender and at the receiver of the data.
pub(super) fn report(sender: &Analysis, receiver: &Analysis) -> TcpReport {
    let mut at_sender: HashMap<_, Vec<&Connection>> = HashMap::new();
    for connection in &sender.connections {
        at_sender.entry(key(connection)).or_default().push(connection);
    }
    let connections = receiver.connections.iter().filter_map(|there| {
        let same = at_sender.get(&key(there))?;
        let here = same.iter().find(|here| is_same(here, there))?;
        // The same order of ends, also if one capture begins later.
        let swapped = usize::from(here.ends != there.ends);
        let main = report::main_direction(here);
        let direction = |end: usize| match end == main {
            true => both(here, there, end, end ^ swapped),
            false => judge::direction(here, end, Place::Receiver, None),
        };
        Some(report::connection_report(here, direction))
    });
    report::total(connections.collect(), &[sender, receiver])
}

fn key(connection: &Connection) -> [std::net::SocketAddr; 2] {
    let [a, b] = connection.ends;
    [a.min(b), a.max(b)]
}

/// Whether both are the same connection between the same ports.
fn is_same(here: &Connection, there: &Connection) -> bool {
    let numbers = |c: &Connection| [c.syn.map(|s| s.seq), c.syn_ack.map(|s| s.seq)];
    let pairs = numbers(here).into_iter().zip(numbers(there));
    pairs.into_iter().all(|(a, b)| a.is_none() || b.is_none() || a == b)
}

/// Judges the direction from end `end` of `here`, which has the number `end_there` in `there`.
fn both(here: &Connection, there: &Connection, end: usize, end_there: usize) -> Direction {
    let (sent, arrived) = (&here.halves[end], &there.halves[end_there]);
    let way = Way::of(sent, arrived);
    let waits = way.as_ref().map(|way| way.waits(there, arrived));
    let left = judge::direction(here, end, Place::Sender, None);
    let came = judge::direction(there, end_there, Place::Receiver, waits);
    let mut findings = handshake(here, there);
    if let Some(way) = &way {
        way.codepoints(&mut findings);
    }
    echoes(here.feedback(), sent, arrived, &mut findings);
    let has = |found: &[Finding], kind| found.iter().any(|f| f.kind == kind);
    if has(&came.findings, Kind::FellBack) && !has(&left.findings, Kind::FellBack) {
        findings.push(Finding {
            kind: Kind::Ect1Rewritten,
            text: "from some time on no ECT(1) packet arrives although the sender sends them: \
                   something on the path began to rewrite the ECN field"
                .to_owned(),
        });
    }
    // What the sender does shows at the sender, and what the queue and the receiver do at the
    // receiver.
    let of_sender = [
        Kind::NoEcn,
        Kind::ClassicFeedback,
        Kind::NoEct1,
        Kind::FellBack,
        Kind::Ect1Rewritten,
        Kind::ClassicPromoted,
    ];
    let is_changed = has(&findings, Kind::NegotiationChanged);
    let is_known = |kind| is_changed && matches!(kind, Kind::NoEcn | Kind::ClassicFeedback);
    let is_rewritten = has(&findings, Kind::Ect1Rewritten);
    let from_left = left.findings.into_iter().filter(|f| of_sender.contains(&f.kind));
    let from_came = came
        .findings
        .into_iter()
        .filter(|f| !(of_sender.contains(&f.kind) || is_rewritten && f.kind == Kind::Unmarked));
    for finding in from_left.chain(from_came) {
        if !has(&findings, finding.kind) && !is_known(finding.kind) {
            findings.push(finding);
        }
    }
    let is_tried = left.verdict.is_some() || came.verdict.is_some() || is_changed;
    let is_judged = is_tried && sent.segments.all() >= LEAST;
    Direction {
        place: Place::Both,
        from: left.from,
        to: left.to,
        retransmitted: left.retransmitted,
        to_receiver: left.to_receiver,
        response: left.response,
        one_way: way.as_ref().and_then(Way::one_way),
        verdict: is_judged.then(|| Verdict::of(&findings)),
        findings,
        ..came
    }
}

/// Compares the flags of the handshake in both captures.
fn handshake(here: &Connection, there: &Connection) -> Vec<Finding> {
    let openings = [("SYN", here.syn, there.syn), ("SYN/ACK", there.syn_ack, here.syn_ack)];
    let changed = openings.into_iter().filter_map(|(what, sent, arrived)| {
        let (sent, arrived) = (sent?.flags, arrived?.flags);
        (sent != arrived).then(|| Finding {
            kind: Kind::NegotiationChanged,
            text: format!(
                "the flags AE, CWR and ECE of the {what} leave as {sent:03b} and arrive as \
                 {arrived:03b}: something on the path changes them"
            ),
        })
    });
    changed.collect()
}

/// Compares the marks that the receiver echoes with those that the sender hears of.
fn echoes(feedback: Feedback, sent: &Half, arrived: &Half, findings: &mut Vec<Finding>) {
    let (said, heard) = match feedback {
        Feedback::Accurate => (arrived.ace.marks.least, sent.ace.marks.most),
        Feedback::Classic | Feedback::Exact => (arrived.ece.acks, sent.ece.acks),
        Feedback::Unknown | Feedback::None => return,
    };
    if said >= LEAST_SAMPLE && heard < said / 2 {
        findings.push(Finding {
            kind: Kind::NotEchoed,
            text: format!(
                "the receiver echoes {said} marks, and {heard} arrive at the sender: something on \
                 the way back changes the TCP flags"
            ),
        });
    }
}

/// A segment that was found in both captures.
struct Found {
    at: Nanos,
    /// The time at the receiver less that at the sender, whose clocks may differ.
    took: i64,
    is_marked: bool,
    is_new: bool,
}

/// What happened to segments on their way.
struct Way {
    found: Vec<Found>,
    sent: Codepoints,
    arrived: Codepoints,
    ect1_as: Codepoints,
    classic_as_ect1: u64,
}

impl Way {
    /// Finds the segments of `arrived` in `sent`; `None` if there are none.
    fn of(sent: &Half, arrived: &Half) -> Option<Self> {
        let least = |half: &Half| half.data.iter().map(|d| d.seq).min();
        let shift = (least(sent)? - least(arrived)? + WRAP / 2).div_euclid(WRAP) * WRAP;
        let mut starts: BTreeMap<i64, Vec<(&Data, u32)>> = BTreeMap::new();
        for data in &sent.data {
            starts.entry(data.seq).or_default().push((data, data.len));
        }
        let mut way = Self {
            found: Vec::new(),
            sent: Codepoints::default(),
            arrived: Codepoints::default(),
            ect1_as: Codepoints::default(),
            classic_as_ect1: 0,
        };
        let numbers = || arrived.data.iter().map(|d| d.seq + shift);
        let range = numbers().min()?..=numbers().max()?;
        for data in sent.data.iter().filter(|d| range.contains(&d.seq)) {
            *way.sent.of(data.ecn) += sent.count(data.len.into());
        }
        for data in &arrived.data {
            let seq = data.seq + shift;
            let near = starts.range_mut(seq - MAX_DISTANCE..=seq).rev().take(NEAR);
            let fits = |left: &&mut (&Data, u32)| {
                let (sent, left) = **left;
                seq < sent.seq + i64::from(sent.len)
                    && left > 0
                    && (sent.clock == data.clock || sent.clock.is_none() || data.clock.is_none())
            };
            let Some(found) = near.flat_map(|(_, same)| same).find(fits) else { continue };
            found.1 = found.1.saturating_sub(data.len);
            way.add(found.0, data, arrived.count(data.len.into()));
        }
        (!way.found.is_empty()).then_some(way)
    }

    fn add(&mut self, sent: &Data, arrived: &Data, segments: u64) {
        use forebay_queue::Ecn;
        *self.arrived.of(sent.ecn) += segments;
        match (sent.ecn, arrived.ecn) {
            (Ecn::Ect1, as_) => *self.ect1_as.of(as_) += segments,
            (Ecn::NotEct | Ecn::Ect0, Ecn::Ect1) => self.classic_as_ect1 += segments,
            _ => {}
        }
        let took = i128::from(arrived.at.0) - i128::from(sent.at.0);
        let took = i64::try_from(took).unwrap_or(if took < 0 { i64::MIN } else { i64::MAX });
        let is_marked = arrived.ecn == Ecn::Ce && sent.ecn != Ecn::Ce;
        self.found.push(Found { at: arrived.at, took, is_marked, is_new: arrived.is_new });
    }

    /// Returns how much longer than the fastest one each segment took.
    fn longer(&self) -> Vec<Nanos> {
        let from = self.found[0].at;
        let values: Vec<_> =
            self.found.iter().map(|f| (f.at.saturating_sub(from).0, f.took)).collect();
        delay::above_least(&values)
    }

    fn waits(&self, connection: &Connection, half: &Half) -> Waits {
        let longer = self.longer();
        let wait =
            |(f, excess): (&Found, Nanos)| Wait { passed: f.at, excess, is_marked: f.is_marked };
        let new = self.found.iter().zip(longer).filter(|(f, _)| f.is_new);
        Waits::of(judge::settled(connection, half), new.map(wait))
    }

    fn one_way(&self) -> Option<OneWay> {
        let longer = self.longer();
        let marked = self.found.iter().zip(&longer).filter(|(f, _)| f.is_marked);
        let marked = Quantiles::of(marked.map(|(_, longer)| *longer).collect());
        let Self { sent, arrived, ect1_as, .. } = *self;
        Some(OneWay { delay: Quantiles::of(longer)?, marked, sent, arrived, ect1_as })
    }

    /// Looks for codepoints that do not arrive, or arrive as others.
    fn codepoints(&self, findings: &mut Vec<Finding>) {
        let mut say = |kind, text| findings.push(Finding { kind, text });
        let others = |of: Codepoints| of.not_ect + of.ect0;
        let (sent, arrived) = (self.sent, self.arrived);
        if sent.ect1 >= LEAST_SAMPLE
            && part(arrived.ect1, sent.ect1) < BLOCKED
            && part(others(arrived), others(sent)) > 0.5
        {
            let text = format!(
                "{} of {} ECT(1) segments arrived, and {} of {} others: something on the path \
                 drops them",
                arrived.ect1,
                sent.ect1,
                others(arrived),
                others(sent)
            );
            say(Kind::Ect1Dropped, text);
        }
        let changed = others(self.ect1_as);
        if arrived.ect1 >= LEAST_SAMPLE && part(changed, arrived.ect1) >= REWRITTEN {
            let to = if self.ect1_as.ect0 * 2 > changed { "ECT(0)" } else { "Not-ECT" };
            let text = format!(
                "{:.0} % of the ECT(1) segments arrived as {to}: something on the path rewrites \
                 the ECN field",
                100.0 * part(changed, arrived.ect1)
            );
            say(Kind::Ect1Rewritten, text);
        }
        let classic = others(arrived);
        if classic >= LEAST_SAMPLE && part(self.classic_as_ect1, classic) >= REWRITTEN {
            let text = format!(
                "{:.0} % of the Not-ECT and ECT(0) segments arrived as ECT(1)",
                100.0 * part(self.classic_as_ect1, classic)
            );
            say(Kind::ClassicPromoted, text);
        }
    }
}
