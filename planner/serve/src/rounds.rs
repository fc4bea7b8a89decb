//! The thread that runs rounds: at every interval, and when the operator asks for one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use forebay_plan::paths::PathCache;

use crate::clock;
use crate::collect::Collecting;
use crate::learn::Learning;
use crate::service::{Done, Service};
use crate::speaker::Speaker;

/// The most requested rounds that wait.
const MAX_WAITING: usize = 4;

/// A request to the thread.
#[derive(Debug)]
enum Request {
    /// Run a round now and send its outcome to the sender.
    Round(SyncSender<Result<Done, String>>),
    /// Stop the thread.
    Stop,
}

/// The handle that requests rounds.
#[derive(Clone, Debug)]
pub struct Rounds {
    sender: SyncSender<Request>,
}

/// The receiver of requests, for the thread.
#[derive(Debug)]
pub struct Requests {
    receiver: Receiver<Request>,
}

/// Returns a connected pair of handle and receiver.
pub fn rounds() -> (Rounds, Requests) {
    let (sender, receiver) = sync_channel(MAX_WAITING);
    (Rounds { sender }, Requests { receiver })
}

impl Rounds {
    /// Requests a round and waits for it.
    ///
    /// # Errors
    /// If the round failed, or too many requests are waiting.
    pub fn run(&self) -> Result<Done, String> {
        let (sender, outcome) = sync_channel(1);
        self.sender.try_send(Request::Round(sender)).map_err(|e| match e {
            TrySendError::Full(_) => "too many rounds are waiting: try again later".to_owned(),
            TrySendError::Disconnected(_) => "the service is stopping".to_owned(),
        })?;
        outcome.recv().unwrap_or_else(|_| Err("the service is stopping".to_owned()))
    }

    /// Stops the thread after the round that it may be running.
    pub fn stop(&self) {
        // An error means that the thread has stopped already.
        let _ = self.sender.send(Request::Stop);
    }
}

/// Runs rounds until it is stopped; `before` is called before each.
pub fn serve(
    service: &Arc<Service>,
    requests: &Requests,
    speaker: Option<&Speaker>,
    before: &mut dyn FnMut(),
) {
    let mut paths = PathCache::new(service.config().hints.plan.paths);
    let interval = service.config().interval;
    // Flow records give no demands before the first window is over, and routers need a while to
    // send their routes.
    let flows = service.collecting().map_or(Duration::ZERO, Collecting::first);
    let first = flows.max(service.learning().map_or(Duration::ZERO, Learning::first));
    let mut next = Instant::now() + first;
    loop {
        let answer =
            match requests.receiver.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Request::Round(answer)) => Some(answer),
                Err(RecvTimeoutError::Timeout) => None,
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            };
        before();
        let outcome = service.round(&mut paths, speaker, clock::now());
        match &outcome {
            Ok(done) => tracing::info!("{}", summary(done)),
            Err(why) => tracing::warn!("the round failed, and everything in force stays: {why}"),
        }
        if let Some(answer) = answer {
            // The client may have disconnected.
            let _ = answer.try_send(outcome.map_err(|e| e.to_string()));
        }
        next = Instant::now() + interval;
    }
}

fn summary(done: &Done) -> String {
    let rate = forebay_units::Rate::from_bps_f64;
    let announced = match done.announced {
        Some(outcome) if outcome.failed > 0 => format!("; {} announcements failed", outcome.failed),
        _ => String::new(),
    };
    format!(
        "round {}: {} hints{}; {} carried, {} if the hints are followed{announced}",
        done.round,
        done.hints,
        if done.changed { "" } else { " (unchanged)" },
        rate(done.before),
        rate(done.after),
    )
}
