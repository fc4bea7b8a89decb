//! A study: the points that are measured, in series of which each varies one setting.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::check::{self, Check, Machine, Needs, Verdict};
use crate::journal::Journal;
use crate::measure::{Ends, Measured, Method, Outcome, Stage, measure};
use crate::point::Point;
use crate::topology::{self, Topology};
use crate::{Error, Interrupt};

pub use crate::topology::{Families, can_lose, has_discipline};

/// The most points of a study.
pub const MAX_POINTS: usize = 300;

/// The lists of settings that are combined, each with each.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// Numbers of flows.
    pub flows: Vec<u32>,
    /// Names of queueing disciplines.
    pub qdiscs: Vec<String>,
    /// Lengths of the queue in packets.
    pub limits: Vec<u32>,
    /// Names of congestion controls.
    pub congestion: Vec<String>,
    /// Shares of packets that are lost.
    pub loss: Vec<f64>,
    /// Shares of the rate to pace to; `None` is without pacing.
    pub paced: Vec<Option<f64>>,
    /// Whether segmentation offloads are on.
    pub offload: Vec<bool>,
    /// Values of `tcp_tso_rtt_log`; `None` leaves the kernel's.
    pub tso_rtt_log: Vec<Option<u8>>,
    /// Times of interrupt coalescing in microseconds; `None` leaves the device's.
    pub coalesce_us: Vec<Option<u32>>,
}

impl Axes {
    /// Whether no axis has a list.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
            && self.qdiscs.is_empty()
            && self.limits.is_empty()
            && self.congestion.is_empty()
            && self.loss.is_empty()
            && self.paced.is_empty()
            && self.offload.is_empty()
            && self.tso_rtt_log.is_empty()
            && self.coalesce_us.is_empty()
    }

    /// All combinations, from `base` for axes without a list. Points that differ in their flows
    /// only make one series.
    pub fn points(&self, base: &Point) -> Vec<Point> {
        let mut points = vec![base.clone()];
        vary(&mut points, &self.qdiscs, |p, v| p.qdisc.clone_from(v));
        vary(&mut points, &self.limits, |p, v| p.limit = *v);
        vary(&mut points, &self.congestion, |p, v| p.congestion.clone_from(v));
        vary(&mut points, &self.loss, |p, v| p.loss = *v);
        vary(&mut points, &self.paced, |p, v| p.paced = *v);
        vary(&mut points, &self.offload, |p, v| p.offload = *v);
        vary(&mut points, &self.tso_rtt_log, |p, v| p.tso_rtt_log = *v);
        vary(&mut points, &self.coalesce_us, |p, v| p.coalesce_us = *v);
        for point in &mut points {
            point.series = series_name(point, base);
        }
        vary(&mut points, &self.flows, |p, v| p.flows = *v);
        points
    }
}

fn vary<T>(points: &mut Vec<Point>, values: &[T], set: impl Fn(&mut Point, &T)) {
    if values.is_empty() {
        return;
    }
    let each =
        |point: Point| values.iter().map(move |value| (point.clone(), value)).collect::<Vec<_>>();
    let all = std::mem::take(points).into_iter().flat_map(each);
    *points = all
        .map(|(mut point, value)| {
            set(&mut point, value);
            point
        })
        .collect();
}

/// The settings in which `point` differs from `base`, flows aside.
fn series_name(point: &Point, base: &Point) -> String {
    let bare = |p: &Point| {
        let text = p.to_string();
        let parts = text.split(", ").skip(1).map(str::to_owned);
        parts.collect::<Vec<_>>()
    };
    let usual = bare(base);
    let own: Vec<_> = bare(point).into_iter().filter(|part| !usual.contains(part)).collect();
    if own.is_empty() { bare(point).join(", ") } else { own.join(", ") }
}

/// The points of the chapter's figures, up to `most` flows, on a kernel with these disciplines.
pub fn chapter(base: &Point, most: u32, has: &dyn Fn(&str) -> bool) -> Vec<Point> {
    let counts = flows_up_to(most);
    let large = counts.last().copied().unwrap_or(most);
    let middle = counts[counts.len().saturating_sub(2).min(2)];
    let few: Vec<u32> = [100, 1000, middle, large].into_iter().filter(|n| *n <= most).collect();
    let few: Vec<u32> = BTreeSet::from_iter(few).into_iter().collect();
    let mut points = Vec::new();
    let mut add = |series: &str, point: Point| {
        points.push(Point { series: series.to_owned(), ..point });
    };
    let at = |flows: u32| Point { flows, ..base.clone() };
    // Figures 5.2, 5.5, 5.9 and 5.11: against flows.
    let main = format!("{}, unpaced", base.congestion);
    counts.iter().for_each(|n| add(&main, at(*n)));
    counts.iter().for_each(|n| add("paced 90 %", Point { paced: Some(0.9), ..at(*n) }));
    for other in ["fq", "fq_codel", "pfifo"].into_iter().filter(|q| *q != base.qdisc && has(q)) {
        few.iter().for_each(|n| add(other, Point { qdisc: other.to_owned(), ..at(*n) }));
    }
    // Figure 5.6: against the length of the queue.
    for limit in [10_u32, 100, 1000, 10_000, 100_000] {
        add("queue length", Point { limit, ..at(middle) });
    }
    // Figures 5.3 and 5.4: congestion controls with and without loss.
    for loss in [0.0, 0.05] {
        for congestion in ["cubic", "bbr"] {
            let series = match loss {
                0.0 => congestion.to_owned(),
                _ => format!("{congestion}, 5 % loss"),
            };
            // What the first series has already is not measured again.
            if loss > 0.0 || congestion != base.congestion {
                let other = |n| Point { congestion: congestion.to_owned(), loss, ..at(n) };
                few.iter().for_each(|n| add(&series, other(*n)));
            }
        }
    }
    // Section 5.3.1: autosizing by the rate alone, as in kernels before 5.18; and no offloads.
    few.iter().for_each(|n| add("autosizing of 2018", Point { tso_rtt_log: Some(0), ..at(*n) }));
    few.iter().for_each(|n| add("no offloads", Point { offload: false, ..at(*n) }));
    points
}

/// The numbers of flows of a study: about three for each factor of ten, up to `most`.
pub fn flows_up_to(most: u32) -> Vec<u32> {
    let usual = [100, 1000, 10_000, 30_000, 100_000, 200_000, 300_000];
    let mut counts: Vec<u32> = usual.into_iter().filter(|n| *n < most).collect();
    counts.push(most);
    counts
}

/// How a study is run in namespaces of this machine.
#[derive(Clone, Debug)]
pub struct Study {
    /// The points in order.
    pub points: Vec<Point>,
    /// The versions of IP.
    pub families: Families,
    /// Source addresses of each version.
    pub sources: u32,
    /// The time before each measurement.
    pub settle: Duration,
    /// The time of each measurement.
    pub measure: Duration,
    /// Sending threads, and as many receiving ones.
    pub threads: u32,
    /// Whether to set the parameters of table 5.1 meanwhile.
    pub tune: bool,
    /// Whether to sample the kernel's functions.
    pub functions: bool,
}

/// What a study tells while it runs.
#[derive(Clone, Debug)]
pub enum Told<'a> {
    /// The machine was checked.
    Checked(&'a [Check]),
    /// The point with this index is at this stage.
    Stage(usize, &'a Point, Stage),
    /// A point was measured.
    Measured(usize, &'a Outcome),
}

/// What a study found out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// The checks of the machine.
    pub checks: Vec<Check>,
    /// The measured points.
    pub outcomes: Vec<Outcome>,
}

impl Study {
    /// What the study needs of the machine.
    pub fn needs(&self) -> Needs {
        let flows = self.points.iter().map(|point| point.flows).max().unwrap_or_default();
        let both = if self.families == Families::Both { 2 } else { 1 };
        Needs { flows, sources: self.sources * both, both_ends: true, own_ports: false }
    }

    /// Checks the machine and measures all points. What was measured before a failure is told, and
    /// everything that was set up is removed in any case.
    ///
    /// # Errors
    /// On an interrupt, without root, if the machine lacks something, or if a measurement fails.
    pub fn run(
        &self,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(Told<'_>) -> Result<(), Error>,
    ) -> Result<Results, Error> {
        forebay_lab::netns::usable().map_err(without_simulator)?;
        let mut journal = Journal::begin()?;
        let machine = Machine::gather(true).map_err(Error::io("checking this machine"))?;
        let mut checks = machine.judge(&self.needs());
        if self.tune {
            check::mark_set(&mut checks);
        }
        tell(Told::Checked(&checks))?;
        refuse(&checks)?;
        if self.points.iter().any(|point| point.loss > 0.0) {
            can_lose()?;
        }
        if self.tune {
            check::tune(&machine, false, &mut journal)?;
        }
        let method = Method {
            settle: self.settle,
            measure: self.measure,
            threads: self.threads,
            samples: self.functions.then(|| journal.file("perf.data")),
        };
        let outcomes =
            run_points(&self.points, &mut journal, tell, &mut |point, journal, progress| {
                let network =
                    Topology::set_up(journal, point, self.families, self.sources, self.tune)?;
                let (name, device) = network.sending_end();
                let ends = Ends {
                    sender: Some((network.sender.clone(), name.to_owned())),
                    receiver: Some((network.receiver.clone(), network.listeners())),
                    servers: network.servers(),
                    sources: network.sources(),
                    device: Some(device.to_owned()),
                    handle: Some(topology::HANDLE),
                    connected: &|| network.lose(point),
                };
                measure(point, &ends, &method, interrupt, progress)
            })?;
        Ok(Results { checks, outcomes })
    }
}

/// Sets up and measures one point, and reports its stages.
type One<'a> =
    &'a mut dyn FnMut(&Point, &mut Journal, &mut dyn FnMut(Stage)) -> Result<Measured, Error>;

/// Measures the points in turn, and undoes after each what was set up for it.
pub(crate) fn run_points(
    points: &[Point],
    journal: &mut Journal,
    tell: &mut dyn FnMut(Told<'_>) -> Result<(), Error>,
    one: One<'_>,
) -> Result<Vec<Outcome>, Error> {
    let kept = journal.len();
    let mut outcomes = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        let mut told = Ok(());
        let mut progress = |stage| {
            if told.is_ok() {
                told = tell(Told::Stage(index, point, stage));
            }
        };
        let result = one(point, journal, &mut progress);
        journal.undo_to(kept);
        told?;
        let outcome = Outcome { point: point.clone(), measured: result? };
        tell(Told::Measured(index, &outcome))?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Refuses to go on if a check says that it is not possible.
pub(crate) fn refuse(checks: &[Check]) -> Result<(), Error> {
    match checks.iter().find(|check| check.verdict == Verdict::Stop) {
        None => Ok(()),
        Some(check) => Err(Error::Unfit(format!(
            "{}: {} wanted, {} there: {}",
            check.what, check.want, check.have, check.fix
        ))),
    }
}

/// The laboratory's error about namespaces, without its advice to use the simulator.
fn without_simulator(error: Error) -> Error {
    match error {
        Error::Unfit(_) => Error::Unfit(
            "network namespaces need root and CAP_SYS_ADMIN: run it with sudo".to_owned(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use forebay_test_support::without_root;

    use super::*;
    use crate::point::tests::point;

    #[test]
    fn a_user_without_rights_is_told_of_sudo() {
        let study = Study {
            points: vec![point(1)],
            families: Families::Both,
            sources: 1,
            settle: Duration::ZERO,
            measure: Duration::ZERO,
            threads: 1,
            tune: false,
            functions: false,
        };
        let run = || study.run(&Interrupt::default(), &mut |_| Ok(())).unwrap_err().to_string();
        let error = without_root(run);
        assert!(error.contains("sudo") && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn axes_are_combined_and_name_their_series() {
        let axes = Axes {
            flows: vec![10, 20],
            qdiscs: vec!["pfifo".to_owned(), "fq".to_owned()],
            loss: vec![0.0, 0.05],
            ..Axes::default()
        };
        let points = axes.points(&point(1));
        assert_eq!(points.len(), 8);
        let names: Vec<_> = points.iter().step_by(2).map(|p| p.series.as_str()).collect();
        let expected = ["cubic, pfifo 1000", "5 % loss", "fq 1000", "fq 1000, 5 % loss"];
        assert_eq!(names, expected);
        assert_eq!(points.iter().map(|p| p.flows).take(3).collect::<Vec<_>>(), [10, 20, 10]);
    }

    #[test]
    fn the_chapter_s_points_are_distinct_and_within_the_bound() {
        for most in [50, 100, 5000, 100_000, 300_000] {
            let points = chapter(&point(1), most, &|_| true);
            assert!(points.len() <= MAX_POINTS);
            assert!(points.iter().all(|p| p.flows <= most));
            for (i, one) in points.iter().enumerate() {
                let same = |other: &&Point| **other == *one;
                assert!(points[..i].iter().all(|p| !same(&p)), "{most}: {one}");
            }
            let lossy = points.iter().filter(|p| p.loss > 0.0).count();
            assert!(lossy >= 2 && points.iter().any(|p| p.paced.is_some()));
        }
        let without = chapter(&point(1), 1000, &|_| false);
        assert!(without.iter().all(|p| p.qdisc == "pfifo"));
    }

    #[test]
    fn flows_end_with_the_most() {
        assert_eq!(flows_up_to(10_000), [100, 1000, 10_000]);
        assert_eq!(flows_up_to(70), [70]);
        assert_eq!(*flows_up_to(300_000).last().unwrap(), 300_000);
    }
}
