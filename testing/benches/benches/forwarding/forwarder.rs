//! A bare forwarder between two AF_XDP ports: this program, started again in the middle namespace.

use std::collections::VecDeque;
use std::io::Write;

use forebay_dataplane::{Method, Netdev, Pool, open_ports};
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;

/// The environment variable that makes this program the forwarder.
pub(crate) const ROLE: &str = "FB_BENCH_FORWARDER";
/// Frames in the pool, as many as in the sendbox's.
const CHUNKS: u32 = 16_384;
const BATCH: usize = 256;

pub(crate) fn is_asked_for() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Forwards until standard input ends.
pub(crate) fn run() {
    let devices = ["in", "out"].map(|n| Netdev::find(n).unwrap());
    let mut pool = Pool::new(CHUNKS, 1_500).unwrap();
    let mut ports = open_ports(&devices, Method::Xdp, &mut pool).unwrap();
    println!("ready {}", ports[0].describe());
    std::io::stdout().flush().unwrap();
    precise_timers();
    let mut descriptors = vec![0];
    let mut port_of = Vec::new();
    for (i, port) in ports.iter().enumerate() {
        descriptors.extend(port.descriptors());
        port_of.resize(descriptors.len() - 1, i);
    }
    let mut waiter = Waiter::new(descriptors);
    let mut batch = Vec::with_capacity(BATCH);
    let mut out = [VecDeque::new(), VecDeque::new()];
    while !waiter.is_ready(0) {
        for i in 0..2 {
            // Frames that find no room stay in the ring, and the kernel counts what it drops there.
            if out[1 - i].len() < BATCH {
                ports[i].receive(&mut pool, &mut batch, BATCH);
                out[1 - i].extend(batch.drain(..));
            }
            ports[1 - i].send(&mut pool, &mut out[1 - i]);
        }
        for (k, &port) in port_of.iter().enumerate() {
            waiter.set(1 + k, out[1 - port].len() < BATCH, !out[port].is_empty());
        }
        waiter.wait_until(clock::now() + Nanos::from_millis(100));
    }
}
