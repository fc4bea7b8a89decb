//! What the samples of a check show: each fault is a rule over them.

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos, Rate};

use super::{Finding, Kind, Side};
use crate::prober::{HEADERS, LOAD};
use crate::samples::{Counts, Phase, Sample, Samples, share};

/// Fewer deliveries than this share are a fault if other packets arrive.
pub(crate) const BLOCKED: f64 = 0.1;
/// Where this share of packets arrives with another codepoint, it is rewritten.
pub(crate) const REWRITTEN: f64 = 0.5;
/// Marks of more than this share without a load are a fault.
const MARKED: f64 = 0.05;
/// A packet of others that takes this long at the bottleneck makes up for all of the share: each
/// L4S packet may have to wait for one.
const WHOLE_PACKET: Nanos = Nanos::from_millis(5);
/// The largest share that is allowed for that.
const MAX_MARKED: f64 = 0.5;
/// Fewer marks than this share under overload are none.
pub(crate) const UNMARKED: f64 = 0.002;
/// ECT(1) packets that wait for this part of what classic packets wait are in the same queue.
const SHARED: f64 = 0.5;
/// A delay below this is no queue.
pub(crate) const NO_QUEUE: Nanos = Nanos::from_millis(4);
/// Where one of twenty classic packets waits for less than this, no queue stands: the target of a
/// classic AQM is 5 ms (RFC 8289) or 15 ms (RFC 9332), and bursts come in between.
const STANDING: Nanos = Nanos::from_millis(8);
/// Marks that begin at a longer delay come too late. RFC 9332 appendix A.1 has a step at 1 ms, and
/// delays are measured with the noise of two hosts.
pub(crate) const EARLY: Nanos = Nanos::from_millis(6);
/// At low rates marks may begin at this many packets.
pub(crate) const EARLY_PACKETS: u64 = 4;
/// Where the few packets beside the other load wait for less than this part of it, each flow has a
/// queue of its own.
const ISOLATED: f64 = 0.3;
/// Where fewer of them arrive, the load starves them.
const STARVED: f64 = 0.5;
/// Where they wait for longer than this, too.
const STARVED_DELAY: Nanos = Nanos::from_millis(200);
/// Loss that shows a bottleneck without a queue.
pub(crate) const POLICED: f64 = 0.03;

/// The samples of a check, and what was found in them so far.
struct Evidence<'a> {
    samples: &'a Samples,
    found: Vec<Finding>,
}

/// What happened to both kinds of packets in the phases with a load.
struct Loads {
    rate: Rate,
    light: Side,
    /// The packets of the classic load, and the ECT(1) packets beside it.
    classic: Side,
    beside_classic: Side,
    /// The packets of the L4S load, and the Not-ECT packets beside it.
    l4s: Side,
    beside_l4s: Side,
}

impl Side {
    fn delay(&self) -> f64 {
        self.delay_ms.unwrap_or(0.0)
    }

    fn waits(&self) -> bool {
        self.delay() >= NO_QUEUE.as_millis_f64()
    }

    /// Returns whether packets wait for more than `part` of what those of `other` do.
    fn waits_as(&self, part: f64, other: &Self) -> bool {
        self.delay() > part * other.delay()
    }

    fn is_dropped(&self) -> bool {
        self.delivered < 1.0 - POLICED
    }
}

/// Returns what is wrong on a path of this rate; `None` is a path without a bottleneck up to
/// `max_rate`.
pub(super) fn findings(samples: &Samples, rate: Option<Rate>, max_rate: Rate) -> Vec<Finding> {
    let mut evidence = Evidence { samples, found: Vec::new() };
    evidence.judge(rate, max_rate);
    evidence.found
}

/// Returns what happened to the packets of `phase` that were sent with `ecn`.
pub(super) fn side(samples: &Samples, phase: Phase, ecn: Ecn) -> Side {
    let of = || samples.of(phase).filter(|s| s.ecn == ecn);
    let counts = Counts::of(of());
    let settled = of().skip(counts.sent / 3);
    Side {
        delivered: counts.delivered(),
        marked: counts.marks(),
        delay_ms: samples.delay(settled, 0.5).map(Nanos::as_millis_f64),
    }
}

impl<'a> Evidence<'a> {
    fn judge(&mut self, rate: Option<Rate>, max_rate: Rate) {
        let all = Counts::of(self.samples.of(Phase::Codepoints));
        if all.arrived == 0 {
            self.say(
                Kind::Unreachable,
                format!(
                    "none of {} packets was answered: does `forebay l4s reflect` run there, and \
                     does UDP pass?",
                    all.sent
                ),
            );
            return;
        }
        self.drops();
        self.rewrites();
        match rate {
            None => self.say(
                Kind::NoBottleneck,
                format!(
                    "no queue up to {:.0} Mbit/s, so that nothing shows how the bottleneck treats \
                     L4S packets",
                    max_rate.as_mbps_f64()
                ),
            ),
            Some(rate) => self.loads(rate),
        }
    }

    fn say(&mut self, kind: Kind, text: impl Into<String>) {
        self.found.push(Finding { kind, text: text.into() });
    }

    /// Looks for codepoints that are lost without a load although Not-ECT packets arrive.
    fn drops(&mut self) {
        let of = |ecn| Counts::of(self.of(Phase::Codepoints, ecn));
        let (plain, ect1, ce) = (of(Ecn::NotEct), of(Ecn::Ect1), of(Ecn::Ce));
        let lost = |counts: &Counts| counts.delivered() < BLOCKED && plain.delivered() > 0.5;
        if lost(&ect1) {
            self.say(
                Kind::Ect1Dropped,
                format!(
                    "{} of {} ECT(1) packets arrived and {} of {} Not-ECT packets: something on \
                     the path drops them",
                    ect1.arrived, ect1.sent, plain.arrived, plain.sent
                ),
            );
        }
        if lost(&ce) {
            self.say(
                Kind::CeDropped,
                format!(
                    "{} of {} CE packets arrived: marks of an earlier queue would be losses",
                    ce.arrived, ce.sent
                ),
            );
        }
    }

    /// Looks for codepoints that arrive as others without a load.
    fn rewrites(&mut self) {
        // The share of arrivals of `sent` packets with a codepoint of `others`, in per cent, if
        // that is a rewrite.
        let rewritten = |sent, others: &[Ecn]| {
            let arrivals = || self.of(Phase::Codepoints, sent).filter_map(|s| Some(s.arrived?.1));
            let part = arrivals().filter(|e| others.contains(e)).count();
            let share = share(part, arrivals().count(), 0.0);
            (share >= REWRITTEN).then_some(share * 100.0)
        };
        let changed = rewritten(Ecn::Ect1, &[Ecn::NotEct, Ecn::Ect0]);
        let to = rewritten(Ecn::Ect1, &[Ecn::Ect0]).map_or("Not-ECT", |_| "ECT(0)");
        let erased = rewritten(Ecn::Ce, &[Ecn::NotEct, Ecn::Ect0, Ecn::Ect1]);
        let promoted = [(Ecn::NotEct, "Not-ECT"), (Ecn::Ect0, "ECT(0)")]
            .map(|(ecn, name)| (rewritten(ecn, &[Ecn::Ect1]), name));
        let marked = rewritten(Ecn::Ect1, &[Ecn::Ce]);
        if let Some(share) = changed {
            self.say(
                Kind::Ect1Rewritten,
                format!(
                    "{share:.0} % of the ECT(1) packets arrived as {to}: something on the path \
                     rewrites the ECN field"
                ),
            );
        }
        if let Some(share) = erased {
            self.say(
                Kind::CeErased,
                format!(
                    "{share:.0} % of the CE packets arrived unmarked: marks of an earlier queue \
                     are lost"
                ),
            );
        }
        for (share, name) in promoted {
            let Some(share) = share else { continue };
            self.say(
                Kind::ClassicPromoted,
                format!(
                    "{share:.0} % of the {name} packets arrived as ECT(1), so that they would get \
                     into L4S queues"
                ),
            );
        }
        if let Some(share) = marked {
            self.say(
                Kind::AlwaysMarked,
                format!("{share:.0} % of the ECT(1) packets were marked on the empty path"),
            );
        }
    }

    /// Compares what the loads did.
    fn loads(&mut self, rate: Rate) {
        let of = |phase, ecn| side(self.samples, phase, ecn);
        let loads = Loads {
            rate,
            light: of(Phase::Light, Ecn::Ect1),
            classic: of(Phase::Classic, Ecn::NotEct),
            beside_classic: of(Phase::Classic, Ecn::Ect1),
            l4s: of(Phase::L4s, Ecn::Ect1),
            beside_l4s: of(Phase::L4s, Ecn::NotEct),
        };
        let is_bursty = self.bursts(&loads);
        let Loads { classic, beside_classic, l4s, .. } = &loads;
        if !classic.waits() && !l4s.waits() && l4s.marked < UNMARKED {
            return self.no_queue(&loads);
        }
        let is_shared = classic.waits() && beside_classic.waits_as(SHARED, classic);
        if is_shared {
            self.say(
                Kind::SharedQueue,
                format!(
                    "beside a classic load ECT(1) packets wait for {:.1} ms, classic ones for \
                     {:.1} ms: both are in one queue",
                    beside_classic.delay(),
                    classic.delay()
                ),
            );
        }
        if l4s.marked < UNMARKED {
            self.say(
                Kind::Unmarked,
                format!(
                    "{:.1} % of the ECT(1) packets were marked at 1.2 times the rate, where they \
                     wait for {:.1} ms: the bottleneck is no L4S queue, or another one than the \
                     L4S queue of the path",
                    l4s.marked * 100.0,
                    l4s.delay()
                ),
            );
            return;
        }
        if !is_bursty {
            self.late_marks(rate);
        }
        if !is_shared {
            self.classic_beside_l4s(&loads);
        }
    }

    /// Looks for marks without a load. Returns whether there are any.
    fn bursts(&mut self, Loads { rate, light, .. }: &Loads) -> bool {
        let classic = self.of(Phase::Light, Ecn::NotEct);
        let is_calm = self.samples.delay(classic, 0.05).is_none_or(|delay| delay < STANDING);
        let packet = rate.time_for(load()).as_secs_f64() / WHOLE_PACKET.as_secs_f64();
        let is_bursty = is_calm && light.marked > (MARKED + packet).min(MAX_MARKED);
        if is_bursty {
            self.say(
                Kind::MarkedWithoutLoad,
                format!(
                    "{:.0} % of the ECT(1) packets were marked at a fifth of the path's {:.1} \
                     Mbit/s, where no queue stands: bursts of the link itself are marked",
                    light.marked * 100.0,
                    rate.as_mbps_f64()
                ),
            );
        }
        is_bursty
    }

    /// Says that neither load makes a queue or marks.
    fn no_queue(&mut self, Loads { rate, classic, l4s, .. }: &Loads) {
        if classic.is_dropped() || l4s.is_dropped() {
            self.say(
                Kind::Policer,
                format!(
                    "{:.1} Mbit/s pass without a queue, and the rest is dropped: a policer, which \
                     does not mark",
                    rate.as_mbps_f64()
                ),
            );
        } else {
            self.say(
                Kind::NoBottleneck,
                "the queue that ended the ramp did not come back: other traffic may have made it",
            );
        }
    }

    /// Looks for marks that begin at the delay of a classic queue.
    fn late_marks(&mut self, rate: Rate) {
        let marked = self.of(Phase::L4s, Ecn::Ect1).filter(|s| s.is_marked()).take(5);
        let Some(first) = self.samples.delay(marked, 0.5) else { return };
        if first > EARLY.max(rate.time_for(load()) * EARLY_PACKETS) {
            self.say(
                Kind::MarkedLate,
                format!(
                    "marks begin at a delay of {:.1} ms: the queue marks by the rules of classic \
                     ECN (RFC 3168), not as an L4S queue",
                    first.as_millis_f64()
                ),
            );
        }
    }

    /// Looks for what an L4S queue of its own does to classic traffic.
    fn classic_beside_l4s(&mut self, loads: &Loads) {
        let Loads { classic, beside_classic, l4s, beside_l4s, .. } = loads;
        let is_isolated = (l4s.waits() && !beside_l4s.waits_as(ISOLATED, l4s))
            || (!beside_l4s.waits() && beside_l4s.delivered > 0.95);
        let is_loaded = classic.waits() || classic.is_dropped();
        if !is_isolated && is_loaded && beside_classic.marked < UNMARKED {
            self.say(
                Kind::Uncoupled,
                "no ECT(1) packet was marked beside a classic load, and flows are not queued \
                 apart: L4S flows would push classic ones aside (RFC 9332 section 2.1)",
            );
        }
        let delay = beside_l4s.delay();
        if beside_l4s.delivered < STARVED || delay > STARVED_DELAY.as_millis_f64() {
            self.say(
                Kind::ClassicStarved,
                format!(
                    "beside an L4S load {:.0} % of the classic packets arrived, after {delay:.0} \
                     ms more than usual: it starves them (RFC 9332 section 4.2)",
                    beside_l4s.delivered * 100.0
                ),
            );
        }
    }

    fn of(&self, phase: Phase, ecn: Ecn) -> impl DoubleEndedIterator<Item = &'a Sample> + use<'a> {
        self.samples.of(phase).filter(move |s| s.ecn == ecn)
    }
}

/// Returns the length of a packet of the load.
fn load() -> Bytes {
    Bytes(LOAD + HEADERS)
}
