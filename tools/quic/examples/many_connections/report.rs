//! The results as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use forebay_quic::{Config, Mode, Schedule};
use serde::Serialize;

use crate::Options;
use crate::load::Seen;
use crate::measure::{fairness, load_average, percentile, receive_buffer_errors};

/// A run of an arm. Counts cover the time of measurement unless noted otherwise.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    run: u32,
    schedule: &'static str,
    buffer_packets: u32,
    mode: &'static str,
    /// Packets that the buffer dropped.
    buffer_drops: u64,
    /// Share of the packets that connections passed to the buffer.
    buffer_drops_share: f64,
    /// The same share, counted from the first handshake on.
    buffer_drops_since_start: u64,
    /// Packets that the server's connections declared lost.
    quic_lost: u64,
    /// Share of the packets that the connections sent.
    quic_lost_share: f64,
    /// Rate at which clients read data.
    goodput_mbps: f64,
    /// Rate at which packets left the buffer, as Ethernet frames.
    wire_mbps: f64,
    /// Time from a request for 100 bytes to their arrival, on a connection without other traffic.
    request_p50_ms: Option<f64>,
    request_p99_ms: Option<f64>,
    request_p999_ms: Option<f64>,
    requests: usize,
    /// Requests not answered within ten seconds after the measurement.
    requests_unanswered: usize,
    /// Processor time per second of the whole process.
    cpu_cores: f64,
    /// Processor time per second of the server's threads, including the one that sends.
    cpu_server_cores: f64,
    /// Processor time per second of the thread that sends.
    cpu_egress_cores: f64,
    /// Jain's index over the downloads.
    fairness: f64,
    /// Downloads that read nothing.
    starved: usize,
    /// Connections that were not opened, and connections that ended early.
    failed: u32,
    /// Time until all connections were open.
    connecting_s: f64,
    pauses: u64,
    unanswered_resumes: u64,
    /// Datagrams that loopback dropped at full sockets, independent of the buffer.
    receive_buffer_errors: u64,
    load_average: f64,
}

impl Row {
    pub(crate) fn new(run: u32, config: &Config, seen: &Seen) -> Self {
        let (before, after) = (&seen.before, &seen.after);
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let buffer_drops = after.egress.dropped - before.egress.dropped;
        let taken = after.egress.taken - before.egress.taken;
        let (lost, sent) = (after.lost - before.lost, after.sent - before.sent);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e6;
        let cores = |wanted: &[&str]| {
            let sum = |cpu: &BTreeMap<String, f64>| -> f64 {
                let is = |name: &str| wanted.is_empty() || wanted.contains(&name);
                cpu.iter().filter(|(name, _)| is(name)).map(|(_, seconds)| seconds).sum()
            };
            (sum(&after.cpu) - sum(&before.cpu)) / seconds
        };
        let shares: Vec<f64> =
            before.read.iter().zip(&after.read).map(|(b, a)| (a - b) as f64).collect();
        let mut took = seen.requests.clone();
        took.sort_by(f64::total_cmp);
        Self {
            run,
            schedule: match config.schedule {
                Schedule::Fifo => "fifo",
                Schedule::Fair => "fair",
            },
            buffer_packets: config.packets,
            mode: match config.mode {
                Mode::Drop => "drop",
                Mode::Zd => "zd",
            },
            buffer_drops,
            buffer_drops_share: buffer_drops as f64 / taken.max(1) as f64,
            buffer_drops_since_start: after.egress.dropped,
            quic_lost: lost,
            quic_lost_share: lost as f64 / sent.max(1) as f64,
            goodput_mbps: shares.iter().sum::<f64>() * 8.0 / seconds / 1e6,
            wire_mbps: mbps(after.egress.sent_bytes - before.egress.sent_bytes),
            request_p50_ms: percentile(&took, 0.5),
            request_p99_ms: percentile(&took, 0.99),
            request_p999_ms: percentile(&took, 0.999),
            requests: took.len(),
            requests_unanswered: seen.unanswered,
            cpu_cores: cores(&[]),
            cpu_server_cores: cores(&["fb-server", "quic-egress"]),
            cpu_egress_cores: cores(&["quic-egress"]),
            fairness: fairness(&shares),
            starved: shares.iter().filter(|bytes| **bytes == 0.0).count(),
            failed: seen.failed,
            connecting_s: seen.connecting.as_secs_f64(),
            pauses: after.egress.pauses - before.egress.pauses,
            unanswered_resumes: after.egress.unanswered - before.egress.unanswered,
            receive_buffer_errors: after.receive_buffer_errors - before.receive_buffer_errors,
            load_average: load_average(),
        }
    }

    pub(crate) fn heading() -> String {
        format!(
            "{:>3} {:5} {:>6} {:4} {:>8} {:>6} {:>8} {:>6} {:>7} {:>7} {:>8} {:>8} {:>8} {:>5} {:>5} {:>6} {:>5} {:>7} {:>6} {:>6}",
            "run",
            "queue",
            "buffer",
            "mode",
            "drops",
            "%",
            "lost",
            "%",
            "goodput",
            "wire",
            "p50",
            "p99",
            "p99.9",
            "late",
            "cpu",
            "server",
            "fair",
            "starved",
            "failed",
            "rcvbuf"
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        write!(
            f,
            "{:>3} {:5} {:>6} {:4} {:>8} {:>6.2} {:>8} {:>6.2} {:>7.1} {:>7.1} {:>8} {:>8} {:>8} {:>5} {:>5.2} {:>6.2} {:>5.2} {:>7} {:>6} {:>6}",
            self.run,
            self.schedule,
            self.buffer_packets,
            self.mode,
            self.buffer_drops,
            100.0 * self.buffer_drops_share,
            self.quic_lost,
            100.0 * self.quic_lost_share,
            self.goodput_mbps,
            self.wire_mbps,
            ms(self.request_p50_ms),
            ms(self.request_p99_ms),
            ms(self.request_p999_ms),
            self.requests_unanswered,
            self.cpu_cores,
            self.cpu_server_cores,
            self.fairness,
            self.starved,
            self.failed,
            self.receive_buffer_errors,
        )
    }
}

/// All runs and their conditions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    version: u32,
    connections: u32,
    probes: u32,
    rate_mbps: u64,
    segments: u8,
    seconds: u64,
    warmup: u64,
    ip: String,
    cores: usize,
    load_average_before: f64,
    load_average_after: f64,
    /// Counters since the start, including the handshakes of all arms.
    receive_buffer_errors: u64,
    pub(crate) rows: Vec<Row>,
}

impl Document {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            version: 1,
            connections: options.connections,
            probes: options.probes,
            rate_mbps: options.rate,
            segments: options.segments,
            seconds: options.seconds,
            warmup: options.warmup,
            ip: options.ip().to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load_average_before: load_average(),
            load_average_after: f64::NAN,
            receive_buffer_errors: receive_buffer_errors(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn ended(&mut self) {
        self.load_average_after = load_average();
        self.receive_buffer_errors =
            receive_buffer_errors().saturating_sub(self.receive_buffer_errors);
    }

    pub(crate) fn heading(&self) -> String {
        format!(
            "{} downloads and {} connections with small requests over {}, {} Mbit/s; {} s after {} s; {} cores, load {:.2}\n\
             drops: of the buffer; lost: as QUIC counts; goodput, wire: Mbit/s; p50, p99, p99.9: of small requests, ms;\n\
             late: requests not answered in 10 s; cpu: cores of the process, of its server; fair: Jain's index; rcvbuf: drops of loopback",
            self.connections,
            self.probes,
            self.ip,
            self.rate_mbps,
            self.seconds,
            self.warmup,
            self.cores,
            self.load_average_before
        )
    }

    pub(crate) fn footing(&self) -> String {
        format!(
            "load at the end {:.2}; datagrams that loopback dropped, all in all: {}",
            self.load_average_after, self.receive_buffer_errors
        )
    }
}
