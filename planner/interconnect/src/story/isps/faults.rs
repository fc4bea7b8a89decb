//! The faults of the story of two ISPs: a client and a service that are killed, and a BMP session
//! that is stuck.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{BMP_HOLD, BMP_TIMEOUT, LEARNS, SETTLE, SETTLE_TIMEOUT, TWO, TwoIsps};
use crate::client::{self, HOLD, client_name};
use crate::daemons::reflector_name;
use crate::record::Tables;
use crate::tables::Reader;
use forebay_lab::engine::EngineError;

/// The ISP whose client and service are killed, by its place in [`TWO`].
const KILLED: usize = 0;
/// The longest time from the death of a service to the end of its hints: what the clients wait, and
/// the time to ask once more and to withdraw the routes.
const UNFOLLOWED: Duration = Duration::from_secs(HOLD + 3);
/// The longest time by which the service is late to notice silence or the end of `hold`.
const LATE: Duration = Duration::from_millis(1500);
/// The longest time from the moment at which a router runs again to its session with all routes.
const BACK: Duration = Duration::from_secs(5);

impl TwoIsps<'_> {
    /// Kills a client: its routes stay, and the next client goes on with them.
    pub(super) fn kill_a_client(&mut self) -> Result<(), EngineError> {
        let before = self.all_tables()?;
        let stage = &self.stages[KILLED];
        let Some(provider) = stage.names().pop() else { return Ok(()) };
        let name = client_name(&provider, stage.reader.blueprint);
        self.event(&format!("{}: the client of {provider} is killed", TWO[KILLED].0));
        self.stages[KILLED].processes.borrow_mut().kill(&name)?;
        self.pause(SETTLE)?;
        let without = self.all_tables()?;
        let stage = &self.stages[KILLED];
        let Reader { dir, blueprint, built, .. } = stage.reader;
        client::start(dir, built, blueprint, &provider, &mut stage.processes.borrow_mut())?;
        self.pause(SETTLE)?;
        let holds = before == without && before == self.all_tables()?;
        let what = "kill -9 of a client leaves its routes, and the next one goes on with them";
        self.check(what, holds, provider);
        Ok(())
    }

    /// Kills a service: its hints are no longer followed, and those of the other ISP stay.
    pub(super) fn kill_a_service(&mut self) -> Result<(), EngineError> {
        let before = self.all_tables()?;
        let first = self.stages[KILLED].record.first.clone();
        self.event(&format!("{}: the service is killed", TWO[KILLED].0));
        let stage = &self.stages[KILLED];
        stage.processes.borrow_mut().kill(&stage.service_name())?;
        let gone = self.wait_for_tables(KILLED, &first)?;
        let others = self.others_are(&before)?;
        self.check(
            &format!("hints end within {} s of the death of their service", UNFOLLOWED.as_secs()),
            gone.is_some_and(|gone| gone <= UNFOLLOWED),
            gone.map_or("they stay".to_owned(), |gone| format!("{:.1} s", gone.as_secs_f64())),
        );
        self.check("and the hints of the other ISP stay", others, TWO[1 - KILLED].0.to_owned());
        self.event(&format!("{}: the service starts again", TWO[KILLED].0));
        self.stages[KILLED].start_service(None)?;
        let round = self.round(KILLED)?;
        self.stages[KILLED].record.hints = self.hints_of(KILLED)?;
        let wanted = self.asked(KILLED);
        let back = self.wait_for_tables(KILLED, &wanted)?;
        let holds = round.error.is_none() && back.is_some() && wanted != first;
        let seen = back.map_or("not".to_owned(), |back| format!("{:.1} s", back.as_secs_f64()));
        self.check("and they are followed again when the service is back", holds, seen);
        // What traffic gained has to be there again before it is measured by a later round.
        self.pause(SETTLE)
    }

    /// Stops the speaker that reports routes: its session stays open and says nothing.
    pub(super) fn stick_a_session(&mut self) -> Result<(), EngineError> {
        let name = reflector_name(self.stages[LEARNS].reader.blueprint);
        let before = self.all_tables()?;
        let well = self.session()?;
        let was = is_up(&well) && well["stuck"] == 0;
        self.event(&format!("{}: the BMP session is stuck", TWO[LEARNS].0));
        self.stages[LEARNS].processes.borrow_mut().freeze(&name, true);
        let noticed = self.wait_for(BMP_TIMEOUT + SETTLE_TIMEOUT, |isps| isps.is_in("held"))?;
        let cut = Instant::now();
        let session = self.session()?;
        let seconds = noticed.map_or(f64::INFINITY, |noticed| noticed.as_secs_f64());
        self.check(
            &format!(
                "a BMP session that says nothing is cut within {:.1} s",
                (BMP_TIMEOUT + LATE).as_secs_f64()
            ),
            was && noticed.is_some_and(|n| n <= BMP_TIMEOUT + LATE) && session["stuck"] == 1,
            format!("{seconds:.1} s; {}", session["ended"].as_str().unwrap_or("not said")),
        );
        // Learned routes are held: the rounds go on.
        let round = self.stages[LEARNS].next_round()?;
        let same = self.hints_of(LEARNS)? == self.stages[LEARNS].record.hints;
        let seen = round.error.unwrap_or_else(|| format!("{} routes", session["routes"]));
        let holds = same && seen.ends_with(" routes") && session["routes"] != 0;
        self.check("its routes are held, and a round changes nothing", holds, seen);

        let down = self.wait_for(BMP_HOLD + SETTLE_TIMEOUT, |isps| isps.is_in("down"))?;
        let held = cut.elapsed();
        let in_time = down.is_some() && held <= BMP_HOLD + LATE;
        let routes = self.session()?["routes"].clone();
        let round = self.stages[LEARNS].next_round()?;
        let same = self.hints_of(LEARNS)? == self.stages[LEARNS].record.hints;
        let why = round.error.unwrap_or_else(|| "the round succeeds".to_owned());
        self.check(
            &format!(
                "they go within {:.1} s; a round then fails, and the hints stay",
                (BMP_HOLD + LATE).as_secs_f64()
            ),
            in_time && routes == 0 && same && why.contains("its routes are gone"),
            format!("{:.1} s; {why}", held.as_secs_f64()),
        );
        self.event(&format!("{}: the BMP session runs again", TWO[LEARNS].0));
        self.stages[LEARNS].processes.borrow_mut().freeze(&name, false);
        let back = self.wait_for(SETTLE_TIMEOUT, |isps| Ok(is_up(&isps.session()?)))?;
        let round = self.stages[LEARNS].next_round()?;
        let same = self.hints_of(LEARNS)? == self.stages[LEARNS].record.hints;
        let tables = self.all_tables()? == before;
        let routes = self.session()?["routes"] == well["routes"];
        let seconds = back.map_or(f64::INFINITY, |back| back.as_secs_f64());
        self.check(
            &format!("the session is back within {} s, with all routes", BACK.as_secs()),
            back.is_some_and(|back| back <= BACK) && routes,
            format!("{seconds:.1} s; {} routes", well["routes"]),
        );
        let seen = round.error.clone().unwrap_or_else(|| "the same".to_owned());
        let holds = round.error.is_none() && same && tables;
        self.check("rounds succeed again, and no traffic has moved meanwhile", holds, seen);
        Ok(())
    }

    /// Returns the state of the BMP session.
    fn session(&self) -> Result<Value, EngineError> {
        Ok(self.stages[LEARNS].state()?["learned"]["report"]["sessions"][0].clone())
    }

    fn is_in(&self, state: &str) -> Result<bool, EngineError> {
        Ok(self.session()?["state"] == state)
    }

    /// Whether the tables of the ISP that is not disturbed are as `before`.
    fn others_are(&self, before: &[Tables]) -> Result<bool, EngineError> {
        Ok(self.all_tables()?[1 - KILLED] == before[1 - KILLED])
    }
}

/// Whether a session is up, with all routes.
fn is_up(session: &Value) -> bool {
    session["state"] == "up" && session["complete"] == true
}
