use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use forebay_sim::{Pattern, Stagger};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::workload::Requests;

/// The specification of a traffic program. Times are nanoseconds from the run's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The name of the traffic in the scenario.
    pub traffic: String,
    /// The seed of the run.
    pub seed: u64,
    /// The index of the traffic in the scenario, which makes its random numbers independent.
    pub stream: u32,
    /// The start of the traffic.
    pub begin: u64,
    /// The interval in which its flows start.
    pub stagger: u64,
    /// The end of the traffic's source.
    pub stop: u64,
    /// The end of the run, until which pending requests may be answered.
    pub end: u64,
    /// The file for the results as JSON lines; roles that measure nothing write nothing.
    pub output: PathBuf,
    /// The end of the traffic that the program plays.
    pub role: Role,
}

/// The settings of a traffic's TCP sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// The congestion control by its kernel name.
    pub congestion: String,
    /// Whether packets carry ECT(1), see [`forebay_dataplane::senders`].
    pub l4s: bool,
    /// Whether they pace with any congestion control, at the rate that the kernel chooses.
    #[serde(default)]
    pub paced: bool,
}

/// One end of a traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Role {
    /// Answers requests, one after the other on each connection.
    RequestServer {
        /// The address to which clients connect.
        listen: SocketAddr,
        /// The number of connections; with a new one per request, the number at the same time.
        connections: u32,
        /// Whether each request has its own connection.
        new_connections: bool,
        /// The settings of the answering sockets.
        tcp: Tcp,
    },
    /// Sends requests; writes [`crate::results::Request`].
    RequestClient {
        /// The address of the server.
        server: SocketAddr,
        /// The workload of requests.
        requests: Requests,
        /// The settings of its sockets.
        tcp: Tcp,
        /// The measured interval, for a balanced schedule.
        measured: (u64, u64),
    },
    /// Sends as much as the connections take.
    TcpSource {
        /// The address to which sinks connect.
        listen: SocketAddr,
        /// The number of connections.
        flows: u32,
        /// The settings of the connections.
        tcp: Tcp,
    },
    /// Reads everything; writes [`crate::results::Progress`].
    TcpSink {
        /// The address of the source.
        source: SocketAddr,
        /// The local addresses of the connections, in turn; any address if empty.
        #[serde(default)]
        from: Vec<IpAddr>,
        /// The number of connections.
        flows: u32,
        /// The settings of the connections.
        tcp: Tcp,
    },
    /// Sends datagrams like a backlogged QUIC sender.
    UdpSource {
        /// The addresses of the sinks, one per flow.
        sinks: Vec<SocketAddr>,
    },
    /// Sends datagrams with ECT(1) like a backlogged sender under Prague.
    PragueSource {
        /// The addresses of the sinks, one per flow.
        sinks: Vec<SocketAddr>,
    },
    /// Counts datagrams and marks and reports both to the [`Role::PragueSource`]; writes
    /// [`crate::results::Progress`].
    PragueSink {
        /// The addresses to which datagrams are sent, one per flow.
        listen: Vec<SocketAddr>,
    },
    /// Sends datagrams in a pattern.
    DatagramSource {
        /// The address of the sink.
        sink: SocketAddr,
        /// The times and sizes of the datagrams.
        pattern: Pattern,
        /// Whether they have ECT(1).
        l4s: bool,
    },
    /// Counts datagrams, and reports to the sender if it expects reports; writes
    /// [`crate::results::Progress`].
    UdpSink {
        /// The addresses to which datagrams are sent, one per flow.
        listen: Vec<SocketAddr>,
        /// Whether the sender is a [`Role::UdpSource`], which expects reports.
        reports: bool,
    },
    /// Returns each datagram to its sender.
    UdpEcho {
        /// The address to which datagrams are sent.
        listen: SocketAddr,
    },
    /// Runs closed loops of one datagram each; writes [`crate::results::RoundTrip`].
    UdpLoops {
        /// The address of the echo.
        echo: SocketAddr,
        /// The number of loops.
        flows: u32,
    },
}

impl Role {
    /// Whether the role measures something, so that a run waits for it and reads its file.
    pub fn measures(&self) -> bool {
        matches!(
            self,
            Self::RequestClient { .. }
                | Self::TcpSink { .. }
                | Self::UdpSink { .. }
                | Self::PragueSink { .. }
                | Self::UdpLoops { .. }
        )
    }
}

/// An event that a program reports to its engine, as a line of JSON on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The program is set up.
    Ready,
    /// The results are written.
    Done {
        /// The largest lateness against its own schedule, in nanoseconds.
        #[serde(default)]
        late: u64,
    },
}

/// The start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The time in nanoseconds of `CLOCK_MONOTONIC`.
    pub start: u64,
}

/// The times of a specification on the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Nanos,
    stagger: Stagger,
    pub(super) stop: Nanos,
    pub(super) end: Nanos,
}

impl Spec {
    /// The file in which a request client writes received bytes, beside its requests.
    pub fn progress(&self) -> PathBuf {
        self.output.with_extension("progress")
    }

    pub(super) fn window(&self, start: Nanos) -> Window {
        let at = |offset| start.saturating_add(Nanos(offset));
        let within = Nanos(self.stagger);
        let stagger = Stagger { seed: self.seed, traffic: self.stream, within };
        Window { begin: at(self.begin), stagger, stop: at(self.stop), end: at(self.end) }
    }
}

impl Window {
    /// The start of `flow`.
    pub(super) fn begin_of(&self, flow: u32) -> Nanos {
        self.begin.saturating_add(self.stagger.of(flow)).min(self.stop)
    }
}
