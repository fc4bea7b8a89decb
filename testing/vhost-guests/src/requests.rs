//! A closed loop of requests: each waits for the previous answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backend::SINK;
use crate::{percentiles, sink};

/// Length in bytes of a request and of its answer.
pub(crate) const SIZE: usize = 100;

pub(crate) fn run(warm_up: Duration, length: Duration) -> Value {
    let mut stream = TcpStream::connect((SINK, sink::ECHO)).unwrap();
    stream.set_nodelay(true).unwrap();
    let begun = Instant::now();
    let mut samples = Vec::new();
    let mut buffer = [7; SIZE];
    while begun.elapsed() < warm_up + length {
        let sent = Instant::now();
        stream.write_all(&buffer).unwrap();
        stream.read_exact(&mut buffer).unwrap();
        if begun.elapsed() >= warm_up {
            samples.push(sent.elapsed().as_nanos() as u64);
        }
    }
    json!({ "latency_ms": percentiles::of(samples) })
}
