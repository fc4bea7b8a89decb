use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use forebay_sim::{Pattern, Stagger};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::workload::Requests;

/// What a traffic program does. Times are nanoseconds from the run's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The traffic's name in the scenario.
    pub traffic: String,
    /// The run's seed.
    pub seed: u64,
    /// The traffic's place in the scenario, which sets its random numbers apart.
    pub stream: u32,
    /// When the traffic begins.
    pub begin: u64,
    /// Within so long its flows begin.
    pub stagger: u64,
    /// When the traffic's source stops.
    pub stop: u64,
    /// When the run ends; what was asked for may still be answered until then.
    pub end: u64,
    /// Where the results go, as JSON lines; roles that measure nothing write nothing.
    pub output: PathBuf,
    /// Which end of which traffic it is.
    pub role: Role,
}

/// What the TCP sockets of a traffic have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Their congestion control, as the kernel calls it.
    pub congestion: String,
    /// Whether their packets are to say ECT(1), see [`forebay_dataplane::senders`].
    pub l4s: bool,
    /// Whether they pace whatever their congestion control, at the rate that the kernel thinks best.
    #[serde(default)]
    pub paced: bool,
}

/// One end of a traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Role {
    /// Answers requests, one after the other on each connection.
    RequestServer {
        /// Where clients connect to.
        listen: SocketAddr,
        /// How many connections there will be; with new ones for each request, at a time.
        connections: u32,
        /// Whether each request has a connection of its own.
        new_connections: bool,
        /// What the answers' sockets have.
        tcp: Tcp,
    },
    /// Asks; writes [`crate::results::Request`].
    RequestClient {
        /// The server.
        server: SocketAddr,
        /// The workload.
        requests: Requests,
        /// What its sockets have.
        tcp: Tcp,
        /// The measured interval (for a balanced schedule).
        measured: (u64, u64),
    },
    /// Sends all that the connections take.
    TcpSource {
        /// Where the sinks connect to.
        listen: SocketAddr,
        /// How many connections there will be.
        flows: u32,
        /// What they have.
        tcp: Tcp,
    },
    /// Reads all that comes; writes [`crate::results::Progress`].
    TcpSink {
        /// The source.
        source: SocketAddr,
        /// The addresses of this host that the connections are from, in turn; any if there are none.
        #[serde(default)]
        from: Vec<IpAddr>,
        /// How many connections.
        flows: u32,
        /// What they have.
        tcp: Tcp,
    },
    /// Sends datagrams as a QUIC sender with a full buffer would.
    UdpSource {
        /// The sinks, one for each flow.
        sinks: Vec<SocketAddr>,
    },
    /// Sends datagrams that say ECT(1) as a backlogged sender under Prague would.
    PragueSource {
        /// The sinks, one for each flow.
        sinks: Vec<SocketAddr>,
    },
    /// Counts datagrams and their marks and reports both to [`Role::PragueSource`]; writes
    /// [`crate::results::Progress`].
    PragueSink {
        /// Where they are sent to, an address for each flow.
        listen: Vec<SocketAddr>,
    },
    /// Sends datagrams in a pattern.
    DatagramSource {
        /// The sink.
        sink: SocketAddr,
        /// When, and how large.
        pattern: Pattern,
    },
    /// Counts datagrams and reports to their sender where it wants that; writes
    /// [`crate::results::Progress`].
    UdpSink {
        /// Where they are sent to, an address for each flow.
        listen: Vec<SocketAddr>,
        /// Whether the sender is a [`Role::UdpSource`], which wants reports.
        reports: bool,
    },
    /// Sends each datagram back.
    UdpEcho {
        /// Where they are sent to.
        listen: SocketAddr,
    },
    /// Closed loops of one datagram each; writes [`crate::results::RoundTrip`].
    UdpLoops {
        /// The echo.
        echo: SocketAddr,
        /// How many loops.
        flows: u32,
    },
}

impl Role {
    /// Whether it measures, so that a run waits for it and reads its file.
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

/// What a program tells its engine, as a line of JSON on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It is set up.
    Ready,
    /// Its results are written.
    Done {
        /// By how much it was behind its own schedule at worst, in nanoseconds.
        #[serde(default)]
        late: u64,
    },
}

/// The instant that the run starts, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The instant.
    pub start: u64,
}

/// The times of a spec on the machine's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Nanos,
    stagger: Stagger,
    pub(super) stop: Nanos,
    pub(super) end: Nanos,
}

impl Spec {
    /// Where a request client writes what came when, beside its requests.
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
    /// When `flow` begins.
    pub(super) fn begin_of(&self, flow: u32) -> Nanos {
        self.begin.saturating_add(self.stagger.of(flow)).min(self.stop)
    }
}
