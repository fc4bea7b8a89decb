//! The faults of the story: a provider whose sessions flap, and a service that is killed.

use std::time::Duration;

use super::{SETTLE, Stage, difference};
use crate::daemons::{self, bird_name};
use crate::service::{OnDeath, Who};
use crate::tables::{self, Reader};
use forebay_lab::engine::EngineError;

/// The number of flaps.
const FLAPS: usize = 3;
/// The time after the start of a round at which the service is killed.
const UNDER_WAY: Duration = Duration::from_millis(20);
/// The number of routes after which the service is killed once more; the last may be unconfirmed.
const HALF: usize = 3;

impl Stage<'_> {
    /// Kills the daemon of the last provider and starts it again, several times. Other providers
    /// must not be affected.
    pub(super) fn flap(&mut self) -> Result<(), EngineError> {
        let Reader { dir, programs, blueprint, built, .. } = self.reader;
        let Some((flapping, others)) = blueprint.senders.split_last() else { return Ok(()) };
        let names: Vec<_> = others.iter().map(|s| s.name.clone()).collect();
        let see = |stage: &Self| -> Result<Vec<_>, EngineError> {
            names.iter().map(|p| Ok((stage.reader.best(p)?, stage.reader.sessions(p)?))).collect()
        };
        let before = see(self)?;
        let wanted = self.record.hinted.clone();
        let (mut disturbed, mut returned) = (Vec::new(), true);
        self.event(&format!("the sessions of {} flap", flapping.name));
        for number in 1..=FLAPS {
            self.processes.borrow_mut().kill(&bird_name(&flapping.name))?;
            self.pause(Duration::from_millis(500))?;
            let down = see(self)?;
            daemons::start_bird(
                dir,
                programs,
                blueprint,
                built,
                flapping,
                &mut self.processes.borrow_mut(),
            )?;
            returned &= self.wait_for_tables(&wanted)? == wanted;
            let up = see(self)?;
            for (when, now) in [("while down", down), ("when up again", up)] {
                for ((name, (table, sessions)), (was, before)) in names.iter().zip(now).zip(&before)
                {
                    if table != *was {
                        disturbed.push(format!("{name}'s table, {when} after flap {number}"));
                    }
                    if !tables::uninterrupted(before, &sessions) {
                        disturbed.push(format!("{name}'s sessions, {when} after flap {number}"));
                    }
                }
            }
        }
        // TCP retries less often the longer the path was gone.
        self.pause(SETTLE * 2)?;
        let undisturbed = disturbed.is_empty();
        let seen = match undisturbed {
            true => format!("{FLAPS} times; {}", names.join(", ")),
            false => format!("others: {}", disturbed.join(", ")),
        };
        self.check(
            "a provider that flaps leaves the others' tables and sessions alone",
            undisturbed,
            seen,
        );
        self.check("and has its hints again when it is back", returned, flapping.name.clone());
        Ok(())
    }

    /// Kills the service several times: its announcements stay or are withdrawn, as configured.
    pub(super) fn kill_service(&mut self) -> Result<(), EngineError> {
        let hinted = self.record.hinted.clone();
        let all = self.journal()?.len();
        self.event("the service is killed, told to keep what it announced");
        self.kill_in_a_round()?;
        self.paths_end_with_the_service(std::time::Instant::now())?;
        self.pause(SETTLE)?;
        let stay = self.settled()?;
        self.check(
            "kill -9 of the service, told to keep, leaves the last good announcements",
            stay == hinted,
            difference(&hinted, &stay),
        );

        let round = self.first_round(OnDeath::Withdraw)?;
        self.event("the service is killed, told to withdraw");
        self.kill_in_a_round()?;
        let (well, seen) = self.all_is_taken_back()?;
        self.check(
            "kill -9 of the service, told to withdraw, gives the first tables back",
            well && round.error.is_none(),
            seen,
        );

        // It has no announcements in force, so its first round announces all of them again.
        self.start_service(Some(OnDeath::Withdraw))?;
        self.wait_for_routes(HALF)?;
        self.processes.borrow_mut().kill(&self.service_name())?;
        let begun = self.journal()?.len();
        self.event(&format!(
            "the service is killed while it announces, after {begun} of {all} routes"
        ));
        let (well, seen) = self.all_is_taken_back()?;
        self.check(
            "and so does kill -9 while it announces",
            well,
            format!("{seen}, after {begun} of {all} routes"),
        );

        self.first_round(OnDeath::Keep)?;
        let asked = tables::asked(&self.hints()?, &self.record.first);
        let again = self.wait_for_tables(&asked)?;
        self.check(
            "and the next announces what is in force again",
            again == asked && again != self.record.first,
            difference(&asked, &again),
        );
        Ok(())
    }

    /// Kills the service soon after a round was requested.
    fn kill_in_a_round(&mut self) -> Result<(), EngineError> {
        let asked = self.service.begin(Who::Operator, "POST", "/operator/round")?;
        self.pause(UNDER_WAY)?;
        self.processes.borrow_mut().kill(&self.service_name())?;
        drop(asked);
        Ok(())
    }

    /// Checks by the tables and by the journal whether the supervisor of a dead service withdraws
    /// everything.
    fn all_is_taken_back(&mut self) -> Result<(bool, String), EngineError> {
        match self.wait_for("the supervisor", |stage| Ok(stage.journal()?.is_empty())) {
            Err(EngineError::Unfit(why)) => return Ok((false, why)),
            other => other?,
        }
        let first = self.record.first.clone();
        let back = self.wait_for_tables(&first)?;
        Ok((back == first, difference(&first, &back)))
    }
}
