//! The packets of a run that passed the bottleneck, with their waits, marks and drops.

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};

use super::quantity::{Measure, Quantity, Statistic};
use super::traffic_kind::KindFilter;
use super::window::{Window, statistic};
use forebay_lab::analysis::Sorted;
use forebay_lab::results::Run;
use forebay_lab::scenario::{Scenario, TrafficKind};

/// The length of a full frame, the unit of windows.
const FRAME: Bytes = Bytes(1_514);

/// The packets of some traffics at the bottleneck, in a part of a run.
pub(super) struct Passed {
    /// The waits of the packets that were sent, in milliseconds.
    waits: Sorted,
    bytes: u64,
    marked: u64,
    dropped: u64,
    /// The bottleneck's rate.
    capacity: Rate,
    during: Nanos,
}

impl Passed {
    /// Collects the packets of `quantity`'s traffics that left or were dropped in `window`. Where
    /// the engine did not record the traffic of each packet, L4S traffic is told from classic by
    /// the ECN field; `None` if that is not enough.
    pub(super) fn of(
        quantity: &Quantity,
        scenario: &Scenario,
        run: &Run,
        window: Window,
    ) -> Option<Self> {
        let known = run.whose.len() == run.bottleneck.len();
        let kind = if known { None } else { Some(KindFilter::of(quantity, scenario)?) };
        let own: Vec<bool> = scenario.traffic.iter().map(|t| quantity.is_of(&t.name)).collect();
        let is_own = |n: usize, record: &Record| match kind {
            Some(kind) => kind.holds(record),
            None if quantity.traffic.is_empty() => true,
            None => run.whose[n].is_some_and(|t| own.get(usize::from(t)) == Some(&true)),
        };
        let (mut waits, mut bytes, mut marked, mut dropped) = (Vec::new(), 0, 0, 0);
        let records = run.bottleneck.iter().enumerate();
        for (_, record) in records.filter(|(n, r)| window.holds(r.time.0) && is_own(*n, r)) {
            match record.fate {
                Fate::Dropped => dropped += 1,
                Fate::Sent => {
                    waits.push(record.sojourn.as_millis_f64());
                    bytes += record.len.0;
                    marked += u64::from(record.marked);
                }
            }
        }
        let waits = waits.into_iter().collect();
        Some(Self { waits, bytes, marked, dropped, capacity: run.rate, during: window.length() })
    }

    /// Computes the figure of `quantity`; `None` if there were no packets.
    pub(super) fn measure(&self, quantity: &Quantity, scenario: &Scenario) -> Option<f64> {
        let sent = self.waits.len() as u64;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64 * 100.0);
        match quantity.measure {
            Measure::BottleneckQueue => statistic(&self.waits, quantity.at),
            Measure::Marked => share(self.marked, sent),
            Measure::Dropped => share(self.dropped, sent + self.dropped),
            Measure::Share => share(self.bytes, self.capacity.bytes_in(self.during).0),
            Measure::Window => self.window(quantity, scenario),
            _ => None,
        }
    }

    /// The window of one flow of the first traffic of `quantity`, in full frames.
    fn window(&self, quantity: &Quantity, scenario: &Scenario) -> Option<f64> {
        let traffic = scenario.traffic.iter().find(|t| quantity.is_of(&t.name))?;
        let TrafficKind::Bulk { flows, .. } = traffic.kind else { return None };
        let wait = statistic(&self.waits, Statistic::Mean)? / 1e3;
        let round_trip = traffic.rtt.unwrap_or(scenario.path.rtt).as_secs_f64() + wait;
        let frames = self.bytes as f64 / FRAME.as_f64() / f64::from(flows.max(1));
        let seconds = self.during.as_secs_f64();
        (seconds > 0.0).then(|| frames / seconds * round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::sizes::Sizes;
    use forebay_lab::scenario::parse;

    const SCENARIO: &str = r#"name = "x"
duration = "1 s"
[path]
rate = "1 Mbit/s"
rtt = "10 ms"
queue = { kind = "dualpi2", limit = "100 packets" }
[[traffic]]
name = "l4s"
kind = "bulk"
congestion = "prague"
flows = 2
[[traffic]]
name = "classic"
kind = "bulk"
rtt = "40 ms"
[[arm]]
name = "a"
sendbox = "forward"
"#;

    /// Ten packets of each traffic in a second, and one of neither. L4S waits 1 ms and has every
    /// second packet marked; classic waits 10 ms and has one packet dropped.
    fn run() -> Run {
        let mut run = Run { rate: Rate::from_mbps(1), end: Nanos::from_secs(1), ..Run::default() };
        let mut add = |traffic, wait, fate, marked| {
            let time = Nanos::from_millis(500);
            let sojourn = Nanos::from_millis(wait);
            let (len, l4s) = (FRAME, traffic == Some(0));
            run.bottleneck.push(Record {
                time,
                sojourn,
                len,
                fate,
                l4s,
                marked,
                ..Record::of_flags(0)
            });
            run.whose.push(traffic);
        };
        for n in 0..10 {
            add(Some(0), 1, Fate::Sent, n % 2 == 0);
            add(Some(1), 10, if n == 0 { Fate::Dropped } else { Fate::Sent }, false);
        }
        add(None, 90, Fate::Sent, true);
        run
    }

    fn figure(run: &Run, measure: Measure, traffic: &[&str]) -> Option<f64> {
        let scenario = parse("x.toml".as_ref(), SCENARIO).unwrap().cells.remove(0);
        let quantity = Quantity {
            measure,
            at: Statistic::Mean,
            traffic: traffic.iter().map(|t| (*t).to_owned()).collect(),
            phase: None,
            size: Sizes::default(),
            mode: String::new(),
            bundle: None,
        };
        Passed::of(&quantity, &scenario, run, Window::of(run, None))?.measure(&quantity, &scenario)
    }

    #[test]
    fn figures_agree_with_a_calculation_by_hand() {
        let run = run();
        let of = |measure, traffic: &[&str]| figure(&run, measure, traffic).unwrap();
        let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-9, "{got}");
        close(of(Measure::BottleneckQueue, &["l4s"]), 1.0);
        close(of(Measure::BottleneckQueue, &["classic"]), 10.0);
        close(of(Measure::BottleneckQueue, &["l4s", "classic"]), 100.0 / 19.0);
        close(of(Measure::BottleneckQueue, &[]), 190.0 / 20.0);
        close(of(Measure::Marked, &["l4s"]), 50.0);
        close(of(Measure::Marked, &["classic"]), 0.0);
        close(of(Measure::Dropped, &["classic"]), 10.0);
        // 9 x 1514 B of 125 000 B.
        close(of(Measure::Share, &["classic"]), 9.0 * 1514.0 / 1250.0);
        // Five packets a second for each of two flows over 11 ms; nine over the flow's own 50 ms.
        close(of(Measure::Window, &["l4s"]), 0.055);
        close(of(Measure::Window, &["classic"]), 0.45);
    }

    #[test]
    fn without_recorded_traffics_packets_are_told_by_their_kind() {
        let run = Run { whose: Vec::new(), ..run() };
        assert_eq!(figure(&run, Measure::BottleneckQueue, &["l4s"]), Some(1.0));
        assert_eq!(figure(&run, Measure::Marked, &["l4s"]), Some(50.0));
        // The packet of neither traffic counts as classic.
        assert_eq!(figure(&run, Measure::BottleneckQueue, &["classic"]), Some(18.0));
        assert_eq!(figure(&run, Measure::BottleneckQueue, &["l4s", "classic"]), Some(9.5));
        assert_eq!(figure(&run, Measure::Marked, &[]), Some(30.0));
        assert_eq!(figure(&run, Measure::Dropped, &[]), Some(100.0 / 21.0));
    }

    #[test]
    fn one_of_two_classic_traffics_cannot_be_told_from_the_other() {
        let text = format!("{SCENARIO}[[traffic]]\nname = \"other\"\nkind = \"bulk\"\n");
        let scenario = parse("x.toml".as_ref(), &text).unwrap().cells.remove(0);
        let of = |traffic: &[&str]| {
            let traffic = traffic.iter().map(|t| (*t).to_owned()).collect();
            let (at, size, mode) = (Statistic::Mean, Sizes::default(), String::new());
            let measure = Measure::SendboxQueue;
            let quantity = Quantity { measure, at, traffic, phase: None, size, mode, bundle: None };
            KindFilter::of(&quantity, &scenario)
        };
        assert_eq!(of(&["classic"]), None);
        assert_eq!(of(&["l4s", "classic"]), None);
        let record = |l4s| Record { l4s, ..Record::of_flags(0) };
        let both = of(&["classic", "other"]).unwrap();
        assert!(both.holds(&record(false)) && !both.holds(&record(true)));
        let l4s = of(&["l4s"]).unwrap();
        assert!(l4s.holds(&record(true)) && !l4s.holds(&record(false)));
        assert_eq!(of(&["l4s", "classic", "other"]), Some(KindFilter::default()));
    }
}
