use forebay_sim::Pattern;
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::workload::Requests;

/// A traffic towards site B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The name in results: letters, digits, `-` and `_`.
    pub name: String,
    /// The origin of the traffic.
    pub from: Origin,
    /// The start, from the start of the run (warm-up included).
    pub start: Nanos,
    /// The end, from the start of the run.
    pub stop: Nanos,
    /// The class at a sendbox with strict priority, 0 being the most urgent, or with weighted
    /// classes.
    #[serde(default)]
    pub class: u8,
    /// The ECN field of its data; `None` for the default of its congestion control and the
    /// scenario.
    #[serde(default)]
    pub ecn: Option<EcnField>,
    /// The round-trip time of its own empty path; `None` for the scenario's.
    #[serde(default)]
    pub rtt: Option<Nanos>,
    /// The kind of traffic.
    pub kind: TrafficKind,
}

impl Traffic {
    /// Whether its data is L4S traffic, that is, carries ECT(1).
    pub fn is_l4s(&self) -> bool {
        let prague = || match &self.kind {
            TrafficKind::Requests { congestion, .. }
            | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => {
                *congestion == Congestion::Prague
            }
            TrafficKind::Bulk { transport: Transport::UdpPrague, .. } => true,
            _ => false,
        };
        self.ecn.map_or_else(prague, |ecn| ecn == EcnField::Ect1)
    }
}

/// The ECN field of a packet before any mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnField {
    /// The packet is not ECN-capable.
    NotEct,
    /// ECT(0): classic ECN (RFC 3168).
    Ect0,
    /// ECT(1): L4S (RFC 9331).
    Ect1,
}

/// The origin of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A site, counted from zero. The traffic passes the site's sendbox and belongs to its bundle.
    /// The first site is site A.
    Site(u32),
    /// Cross traffic: it enters behind the sendbox and shares the bottleneck with the bundle.
    Cross,
}

/// A kind of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficKind {
    /// Requests over TCP connections; the origin sends the answers.
    Requests {
        /// The arrivals and sizes of the requests.
        requests: Requests,
        /// The congestion control of the answering side.
        congestion: Congestion,
    },
    /// Flows that always have data.
    Bulk {
        /// The number of flows.
        flows: u32,
        /// The transport protocol.
        transport: Transport,
    },
    /// Closed loops of one UDP request of 40 B and its response.
    UdpRr {
        /// The number of loops.
        flows: u32,
    },
    /// UDP datagrams in a fixed pattern that does not react to the network.
    Datagrams(Pattern),
}

impl TrafficKind {
    /// The number of bulk flows or closed loops; zero for other traffic.
    pub const fn flows(&self) -> u32 {
        match self {
            Self::Bulk { flows, .. } | Self::UdpRr { flows } => *flows,
            Self::Requests { .. } | Self::Datagrams(_) => 0,
        }
    }
}

/// The transport of bulk traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP with a congestion control.
    Tcp(Congestion),
    /// UDP with its own window, and headers like QUIC's: IP ID 0 and an opaque payload.
    Udp,
    /// The same with Prague congestion control and ECT(1).
    UdpPrague,
}

/// A TCP congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// Cubic (RFC 9438), the default of Linux.
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR, version 1.
    Bbr,
    /// DCTCP (RFC 8257), which requests ECN.
    Dctcp,
    /// DCTCP with an exact average of marks; Linux's average of ten bits gets stuck at small
    /// values.
    DctcpExact,
    /// TCP Prague (RFC 9331), which sends ECT(1); on Linux as a BPF program, where the kernel has
    /// accurate ECN.
    Prague,
    /// A fixed number of packets in flight; Linux does not have it.
    Fixed {
        /// The window in packets.
        window: u32,
    },
}

impl Congestion {
    /// The name, as in Linux where Linux has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
            Self::Dctcp => "dctcp",
            Self::DctcpExact => "dctcp_exact",
            Self::Prague => "prague",
            Self::Fixed { .. } => "fixed",
        }
    }

    /// Whether data may carry `ecn` under it. Only scalable controls may send ECT(1), and they may
    /// not send without ECN (RFC 9331 section 4.3); Prague sends nothing else.
    pub const fn may_say(self, ecn: EcnField) -> bool {
        let scalable = matches!(self, Self::Dctcp | Self::DctcpExact | Self::Prague);
        match ecn {
            EcnField::NotEct => !scalable,
            EcnField::Ect0 => !matches!(self, Self::Prague),
            EcnField::Ect1 => scalable,
        }
    }

    /// Whether hosts with real Linux can have it, from the kernel or as a BPF program.
    pub const fn is_on_linux(self) -> bool {
        !matches!(self, Self::DctcpExact | Self::Fixed { .. })
    }
}

/// A congestion control as experiment files name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CongestionName {
    #[default]
    Cubic,
    Reno,
    Bbr,
    Dctcp,
    DctcpExact,
    Prague,
    Fixed,
}

impl CongestionName {
    /// Returns the congestion control of this name, with `window` if it has one.
    pub(super) const fn with(self, window: u32) -> Congestion {
        match self {
            Self::Cubic => Congestion::Cubic,
            Self::Reno => Congestion::Reno,
            Self::Bbr => Congestion::Bbr,
            Self::Dctcp => Congestion::Dctcp,
            Self::DctcpExact => Congestion::DctcpExact,
            Self::Prague => Congestion::Prague,
            Self::Fixed => Congestion::Fixed { window },
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.with(0).name()
    }
}
