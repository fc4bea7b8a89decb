//! Tests that need root. Each runs as a process of its own.

mod disciplines;
mod multiqueue;
mod privileges;
mod tree;

use std::time::{Duration, Instant};

/// Bounds a wait for a packet; only a fault takes as long.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for what happens soon.
fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < RECEIVE_TIMEOUT, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}
