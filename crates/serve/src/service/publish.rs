//! A round of the service: demands in, hints out, kept, said, and announced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use forebay_config::{ConfigError, read_text};
use forebay_plan::estimate;
use forebay_plan::input::LARGEST;
use forebay_plan::lp::SolveError;
use forebay_plan::paths::PathCache;
use forebay_plan::vswitch::Program;

use super::Service;
use crate::collect::NotMeasured;
use crate::inputs::{Core, DemandText};
use crate::round;
use crate::speaker::{self, Speaker};
use crate::store::{Given, StoreError};

/// Why a round came to nothing: what was in force stays.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// The demands are none, or what links carry.
    #[error(transparent)]
    Demands(#[from] ConfigError),
    /// Flow records do not tell them.
    #[error(transparent)]
    NotMeasured(#[from] NotMeasured),
    /// There are none yet.
    #[error("there are no demands yet: put them (PUT /operator/demands)")]
    NoDemands,
    /// The solver failed.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Done {
    /// Its number.
    pub round: u64,
    /// What is carried if the hints in force before are followed, in bits per second.
    pub before: f64,
    /// What would be if those of now are.
    pub after: f64,
    /// How many hints there are.
    pub hints: usize,
    /// Whether any is new, moved or withdrawn.
    pub changed: bool,
    /// What was announced and withdrawn; `None` if nothing is.
    pub announced: Option<speaker::Told>,
}

impl Service {
    /// Runs a round at `now`, with `speaker` if hints are announced. One runs at a time.
    ///
    /// # Errors
    /// If it comes to nothing. That is remembered, and shown to the operator.
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
        result
    }

    fn run_round(
        &self,
        paths: &mut PathCache,
        speaker: Option<&Speaker>,
        now: u64,
    ) -> Result<Done, RoundError> {
        let begun = Instant::now();
        let (text, fresh) = self.demand_text(now)?;
        let name = self.config.files.demands.as_deref().unwrap_or("demands".as_ref());
        let (demands, estimated) = self.estimated(self.fixed.demands(name, &text)?)?;
        let core = Arc::new(Core::new(&self.fixed, demands, self.config.aggregates));
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
        // No lock is held while this takes its time: neighbours are answered.
        let planned = round::plan(&self.fixed, &core, &programs, &last, paths, &self.config.hints)?;
        let told = self.config.neighbours.iter().map(|neighbour| {
            let own = planned.hints.of(&neighbour.name).map_or(&[][..], |n| n.hints.as_slice());
            let given = own.iter().map(|h| Given { prefix: h.prefix, entry: h.entry.clone() });
            (neighbour.name.clone(), given.collect())
        });
        let told: Vec<(String, Vec<Given>)> = told.collect();

        let mut inner = self.inner();
        let before: Vec<String> =
            (0..inner.neighbours.len()).map(|at| self.standing(&inner, at)).collect();
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
        let last = &mut inner.last;
        (last.round, last.at, last.error) = (round, now, None);
        last.took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        last.hints = planned.hints;
        last.report = Some(Arc::new(planned.report));
        last.flows = planned.flows;
        last.lapsed = planned.lapsed;
        last.estimated = estimated;
        last.core = Some(core);
        let after: Vec<String> =
            (0..inner.neighbours.len()).map(|at| self.standing(&inner, at)).collect();
        drop(inner);
        for (at, event) in after.iter().enumerate().filter(|(at, event)| before[*at] != **event) {
            self.hub.say(at, event);
        }
        if let Some(speaker) = speaker {
            let told = speaker.speak(&planned.announcements, &mut say);
            done.announced = told.as_ref().ok().copied();
            if let Err(e) = &told {
                tracing::error!("nothing more is announced: {e}");
            }
            self.inner().last.announced = Some(told.map_err(|e| e.to_string()));
        }
        Ok(done)
    }

    /// The demands of this round, and whether they are others than were kept.
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
                let json = file.extension().is_some_and(|e| e == "json");
                let text = DemandText { json, text: read_text(file, LARGEST)? };
                let fresh = kept.as_ref() != Some(&text);
                Ok((text, fresh))
            }
            None => kept.map(|text| (text, false)).ok_or(RoundError::NoDemands),
        }
    }
}

/// Says a step, and why it failed if it did.
pub(crate) fn say(step: &forebay_plan::hints::speak::Step, why: Option<&str>) {
    match why {
        None => tracing::info!("{}", speaker::words(step)),
        Some(why) => tracing::warn!("cannot {}: {why}", speaker::words(step)),
    }
}
