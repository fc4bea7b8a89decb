//! The service in the story: it is started, gets measurements, and runs rounds until nothing
//! changes.

use std::process::ExitStatus;
use std::time::Duration;

use forebay_plan::estimate;
use forebay_plan::hints::{self, Hints, State};
use serde_json::Value;

use super::{SETTLE, SETTLE_TIMEOUT, Stage, difference};
use crate::files::put;
use crate::meter::{Rates, Reading};
use crate::record::Round;
use crate::service::{OnDeath, Who};
use crate::tables::Reader;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::process::Kind;

/// The time over which demands are measured for a round.
pub(super) const WINDOW: Duration = Duration::from_secs(3);
/// The most rounds until nothing changes.
pub(super) const MAX_ROUNDS: usize = 8;
/// The path of the operator's state.
const STATE: &str = "/operator/state";

impl Stage<'_> {
    /// Starts the service, which runs its first round at once, with the last measurement. It
    /// announces hints by BGP if `on_death` says what becomes of them.
    pub(super) fn start_service(&mut self, on_death: Option<OnDeath>) -> Result<(), EngineError> {
        self.service.configure(&self.files, &self.reader.programs.gobgp, on_death)?;
        let config = self.files.config().to_string_lossy().into_owned();
        let Reader { dir, blueprint, built, .. } = self.reader;
        let namespace = built.open(&blueprint.ops)?;
        let args = ["serve", "--config", &config];
        let name = self.service_name();
        self.processes.borrow_mut().start(dir, &name, Kind::Daemon, namespace, args)
    }

    /// Returns the name of the service's process.
    pub(super) fn service_name(&self) -> String {
        format!("service{}", self.reader.blueprint.tag)
    }

    /// Starts the service, and waits for the first round with its announcements.
    pub(super) fn first_round(&mut self, on_death: OnDeath) -> Result<Round, EngineError> {
        self.start_service(Some(on_death))?;
        let mut state = Value::Null;
        self.wait_for("the service's first round", |stage| {
            state = stage.state()?;
            Ok(!state["announced"].is_null() || state["failures"] != 0)
        })?;
        Round::of(&state)
    }

    /// Requests a round and waits for it.
    pub(super) fn next_round(&mut self) -> Result<Round, EngineError> {
        // A service that has ended is a clearer error than one that does not answer.
        self.processes.borrow_mut().wait(Duration::ZERO)?;
        let reply = self.service.ask(Who::Operator, "POST", "/operator/round", "")?;
        match reply.status {
            200 => Round::of(&self.state()?),
            status => {
                let error = format!("{status}: {}", reply.body["error"]["message"]);
                Ok(Round { error: Some(error), ..Round::default() })
            }
        }
    }

    /// Measures and requests rounds until nothing changes.
    pub(super) fn plan_until_rest(&mut self) -> Result<(), EngineError> {
        for number in 1..=MAX_ROUNDS {
            self.measure_demands()?;
            let round = match number {
                1 => self.first_round(OnDeath::Keep)?,
                _ => self.next_round()?,
            };
            self.record.rounds.push(round.clone());
            let Round { demand_mbps, after_mbps, changes, steps, error, .. } = round;
            if let Some(error) = error {
                self.check("every round succeeds", false, error);
                return Ok(());
            }
            self.event(&format!(
                "round {number}: {demand_mbps:.0} Mbit/s wanted, {after_mbps:.0} expected; {changes} hints change, \
                 {steps} routes"
            ));
            if changes == 0 && steps == 0 {
                self.check("the loop comes to rest", true, format!("after {number} rounds"));
                return Ok(());
            }
            self.settled()?;
            self.pause(SETTLE)?;
        }
        self.check("the loop comes to rest", false, format!("not in {MAX_ROUNDS} rounds"));
        Ok(())
    }

    /// Measures, and writes demands and link loads in the form that the service reads.
    fn measure_demands(&mut self) -> Result<(), EngineError> {
        let first = self.meter.read()?;
        self.pause(WINDOW)?;
        self.write_demands(&first)
    }

    /// Writes what was measured since a first reading.
    pub(super) fn write_demands(&mut self, first: &Reading) -> Result<(), EngineError> {
        let rates = Rates::between(first, &self.meter.read()?);
        let carried = rates.carried(self.network);
        put(&self.files.links(), &estimate::carried_text(&self.network.topology, &carried))?;
        let measured = rates.measured(self.network, self.reader.blueprint);
        put(&self.files.demands(), &estimate::csv(&measured))
    }

    /// Returns the operator's state.
    pub(super) fn state(&self) -> Result<Value, EngineError> {
        let reply = self.service.ask(Who::Operator, "GET", STATE, "")?;
        match reply.status {
            200 => Ok(reply.body),
            status => Err(EngineError::Unfit(format!("{STATE} is answered with {status}"))),
        }
    }

    /// Returns the hints in force.
    pub(super) fn hints(&self) -> Result<Hints, EngineError> {
        let hints = self.state()?["hints"].to_string();
        hints::read(STATE.as_ref(), &hints).map_err(|e| EngineError::Unfit(e.to_string()))
    }

    /// Stops the service in an orderly way, so that it withdraws everything.
    pub(super) fn stop_service(&mut self) -> Result<(), EngineError> {
        self.event("the service is stopped, and takes all back");
        let ended = self.end_process(&self.service_name())?;
        self.record.withdrawn = self.wait_for_tables(&self.record.first.clone())?;
        let differs = difference(&self.record.first, &self.record.withdrawn);
        let (well, seen) = match ended.success() {
            false => (false, format!("{differs}; {ended}")),
            true => (true, differs),
        };
        self.check(
            "stopping the service gives the first tables back",
            well && self.record.withdrawn == self.record.first,
            seen,
        );
        Ok(())
    }

    /// Asks a process to end, and waits for that.
    pub(super) fn end_process(&mut self, name: &str) -> Result<ExitStatus, EngineError> {
        self.processes.borrow_mut().ask_to_end(name);
        let mut ended = None;
        self.wait_for(&format!("the end of {name}"), |stage| {
            ended = stage.processes.borrow_mut().status(name);
            Ok(ended.is_some())
        })?;
        ended.ok_or_else(|| EngineError::Unfit(format!("{name} did not end")))
    }

    /// Returns the journal of the service's announcements.
    pub(super) fn journal(&self) -> Result<hints::announce::Journal, EngineError> {
        let path = self.files.journal();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        hints::announce::Journal::read(&path, &text).map_err(|e| EngineError::Unfit(e.to_string()))
    }

    /// Waits until this many routes are announced or begun. It checks more often than a route takes
    /// to announce.
    pub(super) fn wait_for_routes(&mut self, count: usize) -> Result<(), EngineError> {
        let end = std::time::Instant::now() + SETTLE_TIMEOUT;
        while self.journal()?.len() < count {
            if std::time::Instant::now() > end {
                let message =
                    format!("waited {} s for announcements, in vain", SETTLE_TIMEOUT.as_secs());
                return Err(EngineError::Unfit(message));
            }
            self.processes.borrow_mut().wait(Duration::from_millis(2))?;
        }
        Ok(())
    }
}

impl Round {
    /// Returns the last round from the operator's state.
    fn of(state: &Value) -> Result<Self, EngineError> {
        let hints = hints::read(STATE.as_ref(), &state["hints"].to_string())
            .map_err(|e| EngineError::Unfit(e.to_string()))?;
        let new = |n: &hints::Neighbour| {
            n.hints.iter().filter(|h| h.state != State::Kept).count() + n.withdrawn.len()
        };
        let announced = &state["announced"];
        let count = |key: &str| announced[key].as_u64().unwrap_or(0);
        let error = [&state["error"], &announced["error"]].into_iter().find_map(Value::as_str);
        let error = match (error, count("failed")) {
            (Some(error), _) => Some(error.to_owned()),
            (None, 0) => None,
            (None, failed) => Some(format!("{failed} announcements failed")),
        };
        Ok(Self {
            demand_mbps: hints.demand / 1e6,
            before_mbps: hints.before / 1e6,
            after_mbps: hints.after / 1e6,
            changes: hints.neighbours.iter().map(new).sum(),
            steps: (count("done") + count("failed")) as usize,
            seconds: state["took"].as_f64().unwrap_or(0.0) / 1000.0,
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_round_is_read_from_the_state() {
        let hint = |state: &str| {
            json!({"prefix": "10.0.0.0/8", "of": "10.0.0.0/8", "entry": "a", "router": "b", "before": [],
                "demand": 1.0, "method": null, "state": state})
        };
        let mut state = json!({
            "took": 250, "error": null, "announced": {"done": 3, "failed": 0},
            "hints": {"version": 1, "network": "", "demand": 60e6, "before": 30e6, "after": 59e6, "neighbours": [
                {"name": "x", "gain": 1.0, "hints": [hint("new"), hint("kept")], "withdrawn": [hint("kept")]},
                {"name": "y", "gain": 1.0, "hints": [hint("moved")]}]},
        });
        let round = Round::of(&state).unwrap();
        assert_eq!((round.demand_mbps, round.before_mbps, round.after_mbps), (60.0, 30.0, 59.0));
        assert_eq!((round.changes, round.steps, round.seconds), (3, 3, 0.25));
        assert_eq!(round.error, None);
        state["announced"] = json!({"done": 1, "failed": 2});
        let round = Round::of(&state).unwrap();
        assert_eq!((round.steps, round.error.as_deref()), (3, Some("2 announcements failed")));
        state["announced"] = json!({"error": "no journal"});
        assert_eq!(Round::of(&state).unwrap().error.as_deref(), Some("no journal"));
        state["error"] = "no demands".into();
        assert_eq!(Round::of(&state).unwrap().error.as_deref(), Some("no demands"));
        assert!(Round::of(&json!({})).is_err());
    }
}
