//! A test of the qlog of a run.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use forebay_sim_quic::qlog;
use forebay_sim_quic::quinn_proto::TransportConfig;
use forebay_units::Nanos;

use crate::downloads::path::Net;
use crate::downloads::{bottleneck, fifo_queue};

/// A file in memory.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the log of a server, and its number of lost packets.
fn log() -> (String, u64) {
    let file = Shared::default();
    let mut transport = TransportConfig::default();
    transport.qlog_stream(qlog("a download", file.clone()));
    let mut net = Net::new(bottleneck(1, fifo_queue(20_000)), transport);
    let client = net.client(1_000_000, TransportConfig::default());
    net.sim.run_until(Nanos::from_secs(1));
    let server = net.sim.endpoint(net.server).connections().next().unwrap();
    let lost = server.stats().path.lost_packets;
    net.sim.run_until(Nanos::from_secs(60));
    assert!(net.download(client).finished.is_some());
    let log = file.0.lock().unwrap().clone();
    (String::from_utf8(log).unwrap(), lost)
}

#[test]
fn a_log_has_the_times_of_the_simulation() {
    let (log, lost) = log();
    // A JSON text sequence: each record begins with a record separator (RFC 7464).
    let records = log.split('\x1e').filter(|record| !record.is_empty());
    let records: Vec<serde_json::Value> =
        records.map(|record| serde_json::from_str(record).unwrap()).collect();
    assert_eq!(records[0]["title"], "a download");
    let events = &records[1..];
    let times: Vec<_> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    // The first packet arrives after 20 ms, and the download takes a second.
    assert!(times.is_sorted() && (20.0..20.1).contains(&times[0]), "{:?}", &times[..3]);
    let count = |name: &str, until: f64| {
        let all = events.iter().zip(&times);
        all.filter(|(event, time)| event["name"] == name && **time <= until).count() as u64
    };
    assert!(count("transport:packet_sent", f64::MAX) > 700);
    assert!(count("transport:packet_received", f64::MAX) > 300);
    let early = count("recovery:packet_lost", 1000.0);
    assert!(lost > 0 && early == lost, "{early} of {lost}");
}

#[test]
fn two_logs_of_a_seed_are_equal() {
    assert_eq!(log().0, log().0);
}
