//! The thread that runs rounds: at every interval, and when the operator asks for one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use forebay_plan::paths::PathCache;

use crate::clock;
use crate::collect::Collecting;
use crate::service::{Done, Service};
use crate::speaker::Speaker;

/// Rounds that wait to be run because they were asked for.
const WAITING: usize = 4;

/// What is asked of the thread.
#[derive(Debug)]
enum Ask {
    /// A round now, whose outcome goes there.
    Round(SyncSender<Result<Done, String>>),
    /// To stop.
    Stop,
}

/// Asks for rounds.
#[derive(Clone, Debug)]
pub struct Rounds(SyncSender<Ask>);

/// Where the thread is asked.
#[derive(Debug)]
pub struct Asked(Receiver<Ask>);

/// Both ends.
pub fn rounds() -> (Rounds, Asked) {
    let (sender, receiver) = sync_channel(WAITING);
    (Rounds(sender), Asked(receiver))
}

impl Rounds {
    /// Has a round run, and waits for it.
    ///
    /// # Errors
    /// If it came to nothing, or so many are waiting that it would never be run.
    pub fn run(&self) -> Result<Done, String> {
        let (sender, outcome) = sync_channel(1);
        self.0.try_send(Ask::Round(sender)).map_err(|e| match e {
            TrySendError::Full(_) => "rounds are waiting already".to_owned(),
            TrySendError::Disconnected(_) => "the service is stopping".to_owned(),
        })?;
        outcome.recv().unwrap_or_else(|_| Err("the service is stopping".to_owned()))
    }

    /// Has the thread stop, when the round that it may be running is over.
    pub fn stop(&self) {
        // If it is gone it has stopped.
        let _ = self.0.send(Ask::Stop);
    }
}

/// Runs rounds until it is told to stop. `before` is called before each.
pub fn serve(
    service: &Arc<Service>,
    asked: &Asked,
    speaker: Option<&Speaker>,
    before: &mut dyn FnMut(),
) {
    let mut paths = PathCache::new(service.config().hints.plan.paths);
    let interval = service.config().interval;
    // Flow records tell nothing before their window is over.
    let first = service.collecting().map_or(Duration::ZERO, Collecting::first);
    let mut next = Instant::now() + first;
    loop {
        let answer = match asked.0.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Ask::Round(answer)) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Ok(Ask::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        };
        before();
        let outcome = service.round(&mut paths, speaker, clock::now());
        match &outcome {
            Ok(done) => tracing::info!("{}", words(done)),
            Err(why) => tracing::warn!("a round came to nothing: {why}"),
        }
        if let Some(answer) = answer {
            // Who asked may have gone.
            let _ = answer.try_send(outcome.map_err(|e| e.to_string()));
        }
        next = Instant::now() + interval;
    }
}

fn words(done: &Done) -> String {
    let rate = forebay_units::Rate::from_bps_f64;
    let announced = match done.announced {
        Some(told) if told.failed > 0 => format!("; {} of its announcements failed", told.failed),
        _ => String::new(),
    };
    format!(
        "round {}: {} hints{}; {} carried, {} if they are followed{announced}",
        done.round,
        done.hints,
        if done.changed { "" } else { ", as before" },
        rate(done.before),
        rate(done.after),
    )
}
