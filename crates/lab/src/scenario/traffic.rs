use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::workload::Requests;

/// Traffic towards site B.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Its name in results: letters, digits, `-` and `_`.
    pub name: String,
    /// Where it comes from.
    pub from: Origin,
    /// When it begins, from the start of the run (warm-up included).
    pub start: Nanos,
    /// When it ends, from the start of the run.
    pub stop: Nanos,
    /// What it is.
    pub kind: TrafficKind,
}

/// Where traffic comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Site A: it passes the sendbox and is part of the bundle.
    SiteA,
    /// Somebody else: it enters behind the sendbox and meets the bundle at the bottleneck.
    Cross,
}

/// What traffic is.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Requests over persistent TCP connections, answered at the origin, open loop.
    Requests {
        /// When they come and how large they are.
        requests: Requests,
        /// The answering side's congestion control.
        congestion: Congestion,
    },
    /// Backlogged flows.
    Bulk {
        /// How many.
        flows: u32,
        /// Over TCP or QUIC-like UDP.
        transport: Transport,
    },
    /// Closed loops of one 40 B UDP request and its response each.
    UdpRr {
        /// How many loops.
        flows: u32,
    },
    /// UDP datagrams at a constant rate.
    Cbr {
        /// UDP payload per second.
        rate: Rate,
        /// UDP payload of each datagram.
        size: Bytes,
    },
}

/// How bulk traffic is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The kernel's TCP.
    Tcp(Congestion),
    /// UDP with a window of its own, headers as QUIC's: IP ID 0, payload as if encrypted.
    Udp,
}

/// A TCP congestion control of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// Cubic (RFC 9438), the default of Linux.
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR.
    Bbr,
}

impl Congestion {
    /// Its name, as the kernel has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}
