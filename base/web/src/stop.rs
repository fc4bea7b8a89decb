//! Stopping a service.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Stops a service in an orderly way.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    state: Arc<Mutex<StopState>>,
}

#[derive(Debug, Default)]
struct StopState {
    requested: bool,
    sender: Option<oneshot::Sender<()>>,
}

impl Stop {
    /// Stops the service, now or as soon as it has started.
    pub fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requested = true;
        // Dropping the sender stops the service.
        state.sender = None;
    }

    /// Returns a value that stops the service when it is dropped. A thread that the service cannot
    /// do without holds one, so that the service ends with it however it ends.
    pub fn at_end(&self) -> StopAtEnd {
        StopAtEnd(self.clone())
    }

    /// Returns what [`serve`](crate::serve) waits for.
    pub fn receiver(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.requested {
            state.sender = Some(sender);
        }
        receiver
    }
}

/// Stops a service when it is dropped.
#[derive(Debug)]
pub struct StopAtEnd(Stop);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}
