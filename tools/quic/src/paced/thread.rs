//! The thread that gives connections their turns and sends.

use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use forebay_units::Nanos;
use quinn::AsyncUdpSocket;

use super::Shared;
use super::state::Work;
use crate::outlet::Outlet;

/// How long the thread still sends after the socket was dropped.
const LINGER: Nanos = Nanos::from_secs(1);
/// The longest sleep in nanoseconds; a longer time may exceed the range of the system's clocks.
const MAX_SLEEP: u64 = 3_600_000_000_000;

/// Starts the thread, which sends through `socket`.
pub(super) fn start(shared: Arc<Shared>, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<()> {
    let run = move || run(&shared, Outlet::new(socket));
    thread::Builder::new().name("quic-egress".to_owned()).spawn(run).map(drop)
}

fn run(shared: &Shared, mut outlet: Outlet) {
    let (mut work, mut refused) = (Work::default(), Vec::new());
    let mut ends = None;
    while next(shared, &mut work, &refused, &mut ends) {
        work.wake.drain(..).for_each(Waker::wake);
        refused.clear();
        for leaving in &work.messages {
            let sent = outlet.send(&leaving.message.transmit(), || {
                let now = shared.now();
                shared.lock().closed && now >= *ends.get_or_insert(now.saturating_add(LINGER))
            });
            refused.push(!sent);
        }
    }
}

/// Reports what has left, and waits for more. Returns `false` when there will be no more.
fn next(shared: &Shared, work: &mut Work, refused: &[bool], ends: &mut Option<Nanos>) -> bool {
    let mut state = shared.lock();
    state.departed(shared.now(), work, refused);
    loop {
        let now = shared.now();
        let mut until = state.poll(now, work).unwrap_or(Nanos::MAX);
        if !work.is_empty() {
            return true;
        }
        if state.closed {
            let end = *ends.get_or_insert(now.saturating_add(LINGER));
            if now >= end || state.backlog() == 0 {
                return false;
            }
            until = until.min(end);
        }
        if until <= now {
            continue;
        }
        state.sleep();
        let time = Duration::from_nanos(until.saturating_sub(now).0.min(MAX_SLEEP));
        let waited = shared.sooner.wait_timeout(state, time);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.sleeps = false;
    }
}
