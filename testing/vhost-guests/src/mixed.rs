//! A greedy application and a closed loop of requests in one guest.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::{requests, stream};

/// Runs `flows` backlogged flows beside the requests; returns the results of both.
pub(crate) fn run(flows: usize, warm_up: Duration, length: Duration) -> Value {
    let greedy = thread::spawn(move || stream::run(flows, warm_up, length));
    let mut result = requests::run(warm_up, length);
    let greedy = greedy.join().unwrap();
    if let (Some(all), Some(own)) = (result.as_object_mut(), greedy.as_object()) {
        all.extend(own.clone());
    }
    result
}
