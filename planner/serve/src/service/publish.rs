//! Runs a round of the service: computes the hints, stores them, and tells and announces them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay_config::ConfigError;
use forebay_plan::estimate;
use forebay_plan::input::MAX_FILE;
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::vswitch::Program;

use super::Service;
use crate::collect::NotMeasured;
use crate::ingress::answer::Paths;
use crate::inputs::{Core, DemandText};
use crate::learn::{Known, Learning, NotLearned};
use crate::round;
use crate::speaker::{self, Speaker};
use crate::store::{Given, StoreError};

/// Why a round failed. Everything in force stays in force.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// The file of demands or of link loads is invalid.
    #[error(transparent)]
    Demands(#[from] ConfigError),
    /// Flow records do not give demands yet.
    #[error(transparent)]
    NotMeasured(#[from] NotMeasured),
    /// Routes do not give the prefixes of users yet.
    #[error(transparent)]
    NotLearned(#[from] NotLearned),
    /// There are no demands yet.
    #[error("there are no demands yet: send them with PUT /operator/demands")]
    NoDemands,
    /// The solver failed.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// The result cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// The number of the round.
    pub round: u64,
    /// The traffic carried if the hints in force before are followed, in bits per second.
    pub before: f64,
    /// The traffic carried if the new hints are followed, in bits per second.
    pub after: f64,
    /// The number of hints.
    pub hints: usize,
    /// Whether any hint is new, moved or withdrawn.
    pub changed: bool,
    /// The outcome of announcing; `None` if hints are not announced.
    pub announced: Option<speaker::AnnounceOutcome>,
}

impl Service {
    /// Runs a round at `now`, with `speaker` if hints are announced. Rounds do not overlap.
    ///
    /// # Errors
    /// If the round fails. The operator's state shows the cause.
    pub fn round(
        &self,
        paths: &mut PathCache,
        speaker: Option<&Speaker>,
        now: u64,
    ) -> Result<Done, RoundError> {
        let result = self.run_round(paths, speaker, now);
        if let Err(why) = &result {
            let mut inner = self.inner();
            inner.last.error = Some(why.to_string());
            inner.last.failures += 1;
        }
        self.remember(&result, now);
        result
    }

    /// Adds a round to the history, if there is one.
    fn remember(&self, result: &Result<Done, RoundError>, now: u64) {
        let Some(history) = self.history() else { return };
        let inner = self.inner();
        let last = &inner.last;
        let demand = last.report.as_ref().map_or(0.0, |report| report.demand);
        let outcome = result.as_ref().map(|done| *done).map_err(ToString::to_string);
        history.round(now, last.took, demand, &outcome);
        if outcome.is_ok() {
            history.plan(now, last.round, &last.flows, &last.hints);
        }
    }

    fn run_round(
        &self,
        paths: &mut PathCache,
        speaker: Option<&Speaker>,
        now: u64,
    ) -> Result<Done, RoundError> {
        let begun = Instant::now();
        let learned = self.learning().map(Learning::prefixes).transpose()?;
        let known = learned.as_ref().map(|learned| {
            let topology = self.learning().map(|l| l.check(&self.fixed.topology, learned));
            Known { topology: topology.unwrap_or_default(), ..Known::of(learned) }
        });
        let prefixes = match learned {
            Some(learned) => Arc::new(learned.prefixes),
            None => Arc::clone(&self.fixed.prefixes),
        };
        let (text, fresh) = self.demand_text(now)?;
        let name = self.config.files.demands.as_deref().unwrap_or("demands".as_ref());
        let (demands, estimated) = self.estimated(self.fixed.demands(name, &text)?)?;
        let core = Arc::new(Core::new(&self.fixed, prefixes, demands, self.config.aggregates));
        let (programs, versions, last) = {
            let inner = self.inner();
            let mut programs: BTreeMap<u32, Program> = BTreeMap::new();
            let mut versions = Vec::new();
            for (known, number) in inner.neighbours.iter().zip(&self.numbers) {
                versions.push(known.program.as_ref().map_or(0, |p| p.version));
                let program = known.program.as_ref().and_then(|p| p.value.clone());
                programs.extend(program.map(|p| (*number, p)));
            }
            (programs, versions, inner.last.hints.clone())
        };
        // No lock is held while the plan is computed, so that neighbours get answers.
        let planned = round::plan(&self.fixed, &core, &programs, &last, paths, &self.config.hints)?;
        let prefixes = core.prefixes.iter().map(|(prefix, users)| (*prefix, users.router));
        let mut inside = Paths::of(&planned.report, &self.fixed.topology, &core.map, prefixes);
        let told = self.config.neighbours.iter().map(|neighbour| {
            let own = planned.hints.of(&neighbour.name).map_or(&[][..], |n| n.hints.as_slice());
            let given = own.iter().map(|h| Given { prefix: h.prefix, entry: h.entry.clone() });
            (neighbour.name.clone(), given.collect())
        });
        let told: Vec<(String, Vec<Given>)> = told.collect();

        let mut inner = self.inner();
        let before: Vec<String> =
            (0..inner.neighbours.len()).map(|at| self.event_of(&inner, at)).collect();
        if fresh {
            inner.store.put_demands(&text, now)?;
            inner.demands = Some((text, now));
        }
        let (round, told) = inner.store.put_round(&planned.hints, &told, now)?;
        for ((known, told), version) in inner.neighbours.iter_mut().zip(told).zip(versions) {
            known.told = Some(told);
            known.used = version;
        }
        let mut done = Done {
            round,
            before: planned.hints.before,
            after: planned.hints.after,
            hints: planned.hints.neighbours.iter().map(|n| n.hints.len()).sum(),
            changed: planned.hints.changes(),
            announced: None,
        };
        inside.round = round;
        let last = &mut inner.last;
        last.paths = Some(Arc::new(inside));
        (last.round, last.at, last.error) = (round, now, None);
        last.took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        last.hints = planned.hints;
        last.report = Some(Arc::new(planned.report));
        last.flows = planned.flows;
        last.lapsed = planned.lapsed;
        last.estimated = estimated;
        last.learned = known;
        last.core = Some(core);
        let after: Vec<String> =
            (0..inner.neighbours.len()).map(|at| self.event_of(&inner, at)).collect();
        drop(inner);
        for (at, event) in after.iter().enumerate().filter(|(at, event)| before[*at] != **event) {
            self.hub.send(at, event);
        }
        if let Some(speaker) = speaker {
            let outcome = speaker.announce(&planned.announcements, &mut log_step);
            done.announced = outcome.as_ref().ok().copied();
            if let Err(e) = &outcome {
                tracing::error!("announcements have stopped: {e}");
            }
            self.inner().last.announced = Some(outcome.map_err(|e| e.to_string()));
        }
        Ok(done)
    }

    /// Returns the demands of this round, and whether they differ from the stored ones.
    fn demand_text(&self, now: u64) -> Result<(DemandText, bool), RoundError> {
        let kept = self.inner().demands.as_ref().map(|d| d.0.clone());
        if let Some(collecting) = &self.collecting {
            let demands = collecting.demands(i64::try_from(now).unwrap_or(i64::MAX))?;
            let (providers, topology) = (&self.fixed.file.providers, &self.fixed.topology);
            let text = estimate::csv_of(&demands, providers, topology);
            let text = DemandText { json: false, text };
            let fresh = kept.as_ref() != Some(&text);
            return Ok((text, fresh));
        }
        match &self.config.files.demands {
            Some(file) => {
                let json = forebay_input::extension(file) == Some("json");
                let text = DemandText { json, text: forebay_input::text(file, MAX_FILE)? };
                let fresh = kept.as_ref() != Some(&text);
                Ok((text, fresh))
            }
            None => kept.map(|text| (text, false)).ok_or(RoundError::NoDemands),
        }
    }
}

/// Logs a step, with the cause if it failed.
pub(crate) fn log_step(step: &forebay_plan::hints::announce::Step, why: Option<&str>) {
    match why {
        None => tracing::info!("{}", speaker::describe(step)),
        Some(why) => tracing::warn!("cannot {}: {why}", speaker::describe(step)),
    }
}
