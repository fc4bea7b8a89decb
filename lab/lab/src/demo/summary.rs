use forebay_units::Rate;

use super::document::ArmFigures;
use super::{Arm, Arms, Document, SCHEMA, Verdict};
use crate::analysis::Analysis;
use crate::report::tables::Named;

/// The information that runs do not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name of the engine: `netns`, `uml` or `sim`.
    pub engine: String,
    /// The configured load of the request workload.
    pub offered: Rate,
    /// Sentences about the measurement for the page: the path, the traffic, the machine.
    pub notes: Vec<String>,
    /// The command that repeats the measurement.
    pub command: String,
}

/// Why runs cannot form a demonstration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemoError {
    /// An arm is missing.
    #[error("there is no run of the arm `{0}`; run all four arms")]
    Missing(&'static str),
    /// An arm has two runs.
    #[error("there are several runs of the arm `{0}`; give one of each")]
    Several(&'static str),
    /// The arms are not comparable.
    #[error("the arm `{arm}` has another {what} than the status quo; run all arms alike")]
    Unlike {
        /// The name of the arm.
        arm: &'static str,
        /// The property that differs.
        what: &'static str,
    },
    /// An arm has no traffic.
    #[error("in the arm `{0}` no packet left the bottleneck while measuring; check its traffic")]
    Silent(&'static str),
}

/// The results of the demonstration.
#[derive(Clone, Debug, PartialEq)]
pub struct Demo {
    pub(super) setting: Setting,
    pub(super) runs: Arms<Analysis>,
    document: Document,
}

impl Demo {
    /// Collects one run of each arm (see [`Arm::key`]), in any order.
    ///
    /// # Errors
    ///
    /// If an arm is missing, given twice or without traffic, or if seed, rate or round-trip time
    /// differ between arms.
    pub fn new(setting: Setting, runs: &[Analysis]) -> Result<Self, DemoError> {
        let runs = Arms::try_from_fn(|arm| {
            let mut of_arm = runs.iter().filter(|r| r.summary.arm == arm.key());
            let run = of_arm.next().ok_or(DemoError::Missing(arm.key()))?;
            if of_arm.next().is_some() {
                return Err(DemoError::Several(arm.key()));
            }
            Ok(run.clone())
        })?;
        let base = runs.status_quo.summary.clone();
        let figures = Arms::try_from_fn(|arm| {
            let s = &runs.get(arm).summary;
            let unlike = |what| DemoError::Unlike { arm: arm.key(), what };
            if s.seed != base.seed {
                return Err(unlike("seed"));
            }
            if s.rate_mbps != base.rate_mbps {
                return Err(unlike("bottleneck rate"));
            }
            if s.base_rtt_ms != base.base_rtt_ms {
                return Err(unlike("round-trip time"));
            }
            let bottleneck = s.bottleneck_queue_ms.ok_or(DemoError::Silent(arm.key()))?;
            Ok(ArmFigures::of(s, bottleneck))
        })?;
        let document = Document {
            schema: SCHEMA.to_owned(),
            engine: setting.engine.clone(),
            seed: base.seed,
            duration_s: base.duration_s,
            rate_mbps: base.rate_mbps,
            rtt_ms: base.base_rtt_ms,
            offered_mbps: setting.offered.as_mbps_f64(),
            realised_mbps: base.requested_mbps,
            verdict: Verdict::of(&figures),
            arms: figures,
        };
        Ok(Self { setting, runs, document })
    }

    /// The results as a document for machine use.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Formats [`Demo::document`] as indented JSON with a line feed at the end.
    ///
    /// # Errors
    ///
    /// None in practice: numbers and strings always have a JSON form, but the serializer's
    /// signature allows an error.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(&self.document)? + "\n")
    }

    pub(super) fn named(&self) -> Vec<Named<'_>> {
        let named = |arm: &Arm| Named {
            name: arm.name().to_owned(),
            run: self.runs.get(*arm),
            strong: *arm == Arm::ForebaySfq,
        };
        Arm::ALL.iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Run;
    use forebay_records::packet_log::{Fate, Record};
    use forebay_units::{Bytes, Nanos};

    fn run(arm: Arm) -> Run {
        let packet = Record {
            time: Nanos::from_millis(500),
            sojourn: Nanos::from_millis(3),
            len: Bytes(1514),
            source: 0,
            flow: 0,
            fate: Fate::Sent,
            l4s: false,
            marked: false,
        };
        Run {
            arm: arm.key().to_owned(),
            seed: 7,
            end: Nanos::from_secs(1),
            rate: Rate::from_mbps(96),
            base_rtt: Nanos::from_millis(50),
            bottleneck: vec![packet],
            ..Run::default()
        }
    }

    fn demo(runs: &[Run]) -> Result<Demo, DemoError> {
        let setting = Setting {
            engine: "sim".to_owned(),
            offered: Rate::from_mbps(84),
            notes: vec![],
            command: "forebay demo".to_owned(),
        };
        Demo::new(setting, &runs.iter().map(Analysis::of).collect::<Vec<_>>())
    }

    #[test]
    fn arms_in_any_order() {
        let demo =
            demo(&[Arm::ForebayFifo, Arm::ForebaySfq, Arm::StatusQuo, Arm::InNetworkSfq].map(run));
        let demo = demo.unwrap();
        let json = demo.json().unwrap();
        assert_eq!(&serde_json::from_str::<Document>(&json).unwrap(), demo.document());
        assert_eq!(demo.document().arms.forebay_fifo.bottleneck_queue_ms.p50, 3.0);
        assert_eq!(demo.document().arms.forebay_fifo.sendbox_queue_ms.p50, 0.0);
        assert!(demo.html().contains("no requests"), "a page even so");
    }

    #[test]
    fn runs_that_cannot_be_compared_are_refused() {
        let runs = Arm::ALL.map(run);
        let with = |change: fn(&mut Run)| {
            let mut runs = runs.clone();
            change(&mut runs[2]);
            demo(&runs).unwrap_err()
        };
        let arm = "forebay_sfq";
        assert_eq!(demo(&runs[..3]).unwrap_err(), DemoError::Missing("forebay_fifo"));
        assert_eq!(with(|r| r.arm = "status_quo".into()), DemoError::Several("status_quo"));
        assert_eq!(with(|r| r.seed = 8), DemoError::Unlike { arm, what: "seed" });
        let rate = with(|r| r.rate = Rate::from_mbps(95));
        assert_eq!(rate, DemoError::Unlike { arm, what: "bottleneck rate" });
        let rtt = with(|r| r.base_rtt = Nanos::from_millis(51));
        assert_eq!(rtt, DemoError::Unlike { arm, what: "round-trip time" });
        assert_eq!(with(|r| r.bottleneck.clear()), DemoError::Silent(arm));
    }
}
