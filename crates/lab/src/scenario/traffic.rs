use forebay_sim::Pattern;
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::workload::Requests;

/// Traffic towards site B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Its name in results: letters, digits, `-` and `_`.
    pub name: String,
    /// Where it comes from.
    pub from: Origin,
    /// When it begins, from the start of the run (warm-up included).
    pub start: Nanos,
    /// When it ends, from the start of the run.
    pub stop: Nanos,
    /// How urgent it is where a sendbox's policy is strict priority, 0 being the most urgent.
    #[serde(default)]
    pub class: u8,
    /// What its data says of ECN; if nothing, as its congestion control and the scenario have it.
    #[serde(default)]
    pub ecn: Option<EcnField>,
    /// The round-trip time of its own empty path; the scenario's if there is none.
    #[serde(default)]
    pub rtt: Option<Nanos>,
    /// What it is.
    pub kind: TrafficKind,
}

impl Traffic {
    /// Whether its data is L4S traffic: it says ECT(1).
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

/// What packets say of ECN before anything marks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnField {
    /// Not capable of ECN.
    NotEct,
    /// Classic ECN (RFC 3168).
    Ect0,
    /// L4S (RFC 9331).
    Ect1,
}

/// Where traffic comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A site, counted from zero: it passes that site's sendbox and is part of its bundle. The
    /// first is site A.
    Site(u32),
    /// Somebody else: it enters behind the sendbox and meets the bundle at the bottleneck.
    Cross,
}

/// What traffic is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficKind {
    /// Requests over TCP connections, answered at the origin.
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
    /// UDP datagrams in a pattern, whatever the network does.
    Datagrams(Pattern),
}

/// How bulk traffic is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP.
    Tcp(Congestion),
    /// UDP with a window of its own, headers as QUIC's: IP ID 0, payload as if encrypted.
    Udp,
    /// The same under Prague, saying ECT(1).
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
    /// DCTCP (RFC 8257), which asks for ECN.
    Dctcp,
    /// The same with an exact average of marks, where Linux's of ten bits gets stuck.
    DctcpExact,
    /// TCP Prague (RFC 9331), which sends ECT(1) and which Linux does not have.
    Prague,
    /// So many packets in flight whatever happens, which Linux does not have.
    Fixed {
        /// How many.
        window: u32,
    },
}

impl Congestion {
    /// Its name, as the kernel has it where it does.
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

    /// Whether data that says `ecn` may be sent under it: ECT(1) by scalable controls only, and those
    /// not without ECN (RFC 9331 section 4.3); Prague with nothing else.
    pub const fn may_say(self, ecn: EcnField) -> bool {
        let scalable = matches!(self, Self::Dctcp | Self::DctcpExact | Self::Prague);
        match ecn {
            EcnField::NotEct => !scalable,
            EcnField::Ect0 => !matches!(self, Self::Prague),
            EcnField::Ect1 => scalable,
        }
    }

    /// Whether Linux has it.
    pub const fn is_of_linux(self) -> bool {
        !matches!(self, Self::DctcpExact | Self::Prague | Self::Fixed { .. })
    }
}

/// A congestion control as files name it.
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
    /// The congestion control of this name, with this window if it has one.
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
