//! The table of results.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::Run;
use crate::arms::Arm;
use crate::network::Load;

/// All runs by load and arm.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<(Load, Arm), Vec<Run>>);

/// Medians over the runs of an arm.
#[derive(Clone, Copy)]
struct Median {
    rate: f64,
    all: f64,
    machine: f64,
    daemon: f64,
}

impl Table {
    pub(crate) fn add(&mut self, load: Load, arm: Arm, run: Run) {
        self.0.entry((load, arm)).or_default().push(run);
    }

    fn median(&self, load: Load, arm: Arm) -> Option<Median> {
        let runs = self.0.get(&(load, arm))?;
        let of = |f: fn(&Run) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(f).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Some(Median {
            rate: of(|r| r.rate),
            all: of(|r| r.all),
            machine: of(|r| r.machine),
            daemon: of(|r| r.daemon),
        })
    }

    /// The median over all rounds of the ratio of `of` between this arm and another.
    fn ratio(&self, load: Load, arm: Arm, other: Arm, less: Option<Arm>) -> Option<f64> {
        let runs = |arm| self.0.get(&(load, arm));
        let (ours, theirs) = (runs(arm)?, runs(other)?);
        let less = less.map(runs);
        let mut ratios = Vec::new();
        for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
            let base = match less {
                None => 0.0,
                Some(ends) => ends?.get(i)?.all,
            };
            ratios.push((a.all - base) / (b.all - base));
        }
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// All figures of an arm, one row for each.
    fn figures(&self, load: Load, arm: Arm) -> Option<Vec<(&'static str, Option<f64>)>> {
        let median = self.median(load, arm)?;
        Some(vec![
            ("gbit_per_s", Some(median.rate)),
            ("cpu_s_per_gbit", Some(median.all)),
            ("machine_s_per_gbit", Some(median.machine)),
            ("box_cpu", Some(median.daemon)),
            ("to_routing", self.ratio(load, arm, Arm::Plain, None)),
            ("to_htb", self.ratio(load, arm, Arm::Htb, None)),
            ("forwarding_to_routing", self.ratio(load, arm, Arm::Plain, Some(Arm::Ends))),
            ("forwarding_to_htb", self.ratio(load, arm, Arm::Htb, Some(Arm::Ends))),
        ])
    }

    pub(crate) fn json(&self) -> Value {
        let arm = |(load, arm): &(Load, Arm)| {
            let figures = self.figures(*load, *arm).unwrap_or_default();
            let figures: BTreeMap<&str, Option<f64>> = figures.into_iter().collect();
            json!({ "load": load.name(), "arm": arm.name(), "runs": self.0[&(*load, *arm)].len(),
                    "median": figures })
        };
        self.0.keys().map(arm).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Medians. CPU is milliseconds for each gigabit; ratios are within a round.")?;
        for load in [Load::Packets, Load::SuperPackets] {
            let arms: Vec<Arm> =
                Arm::ALL.into_iter().filter(|a| self.0.contains_key(&(load, *a))).collect();
            if arms.is_empty() {
                continue;
            }
            writeln!(
                f,
                "\n{:13}                         all:                forwarding:",
                load.name()
            )?;
            writeln!(
                f,
                "{:13} Gbit/s  CPU   machine  box    to routing  to htb  to routing  to htb",
                "",
            )?;
            for arm in arms {
                let Some(median) = self.median(load, arm) else { continue };
                let ratio = |ratio: Option<f64>| {
                    ratio.filter(|r| r.is_finite()).map_or("-".to_owned(), |r| format!("{r:.2}"))
                };
                let of = |other, less| ratio(self.ratio(load, arm, other, less));
                writeln!(
                    f,
                    "{:13} {:6.2}  {:5.0}  {:7.0}  {:3.0} %  {:>10}  {:>6}  {:>10}  {:>6}",
                    arm.name(),
                    median.rate,
                    median.all * 1e3,
                    median.machine * 1e3,
                    median.daemon * 1e2,
                    of(Arm::Plain, None),
                    of(Arm::Htb, None),
                    of(Arm::Plain, Some(Arm::Ends)),
                    of(Arm::Htb, Some(Arm::Ends)),
                )?;
            }
        }
        Ok(())
    }
}
