//! The kernel support that hosts need to send L4S traffic.

use std::io;

use forebay_dataplane::senders::{CongestionControl, send_ect1};
use forebay_dataplane::{Error, Netdev};

use crate::engine::{EngineError, Job};
use crate::scenario::{Congestion, Traffic, TrafficKind, Transport};
use crate::traffic::Tcp;

/// Congestion controls that are registered while this value lives.
pub(super) struct Senders {
    dctcp: Option<CongestionControl>,
    prague: Option<CongestionControl>,
    paced: bool,
}

impl Senders {
    /// Registers the congestion controls that `job` needs and the kernel lacks, under names that
    /// contain `id`.
    pub(super) fn register(job: &Job<'_>, id: &str) -> Result<Self, EngineError> {
        let needs = |control: Congestion| {
            job.scenario.traffic.iter().filter_map(congestion).any(|c| c == control)
        };
        let dctcp = needs(Congestion::Dctcp).then(|| CongestionControl::dctcp(id)).transpose();
        let prague = needs(Congestion::Prague).then(|| CongestionControl::prague(id)).transpose();
        Ok(Self {
            dctcp: dctcp.map_err(refused("DCTCP"))?,
            prague: prague.map_err(refused("TCP Prague"))?,
            paced: job.scenario.paced,
        })
    }

    /// The socket options for `traffic` with this congestion control.
    pub(super) fn tcp(&self, traffic: &Traffic, congestion: Congestion) -> Tcp {
        let registered = match congestion {
            Congestion::Dctcp => &self.dctcp,
            Congestion::Prague => &self.prague,
            _ => &None,
        };
        let name = registered.as_ref().map_or(congestion.name(), CongestionControl::name);
        Tcp { congestion: name.to_owned(), l4s: traffic.is_l4s(), paced: self.paced }
    }
}

/// Marks packets of `job`'s L4S traffic over TCP with ECT(1) when they leave through `device` of
/// this namespace.
pub(super) fn prepare(job: &Job<'_>, device: &str) -> io::Result<()> {
    let tcp = |traffic: &Traffic| congestion(traffic).is_some();
    if !job.scenario.traffic.iter().any(|t| t.is_l4s() && tcp(t)) {
        return Ok(());
    }
    Netdev::find(device).and_then(|netdev| send_ect1(&netdev)).map_err(io::Error::other)
}

/// The congestion control of a TCP traffic.
fn congestion(traffic: &Traffic) -> Option<Congestion> {
    match &traffic.kind {
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => Some(*congestion),
        _ => None,
    }
}

fn refused(what: &str) -> impl FnOnce(Error) -> EngineError + '_ {
    move |e| EngineError::Unfit(format!("no {what} here: {e}"))
}
