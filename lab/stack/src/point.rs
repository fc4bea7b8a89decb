//! One measured setting: the number of flows and everything that is varied.

use std::fmt;

use forebay_picture::number::setting;
use serde::{Deserialize, Serialize};

/// The most flows of a run: those of the thesis (section 5.1).
pub const MAX_FLOWS: u32 = 300_000;

/// The memory in bytes that data which is not yet sent may take over all flows.
const UNSENT_IN_ALL: u64 = 1 << 30;

/// The queueing disciplines that this program can set, by tc's names.
pub const QDISCS: [&str; 4] = ["pfifo", "fq", "fq_codel", "pfifo_fast"];

/// Everything that one measurement sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The series that the point belongs to. Within it only one setting varies.
    pub series: String,
    /// The number of connections.
    pub flows: u32,
    /// The rate of the sending interface in Mbit/s; 0 is without a limit.
    pub rate_mbps: f64,
    /// The queueing discipline of the sending interface.
    pub qdisc: String,
    /// The length of its queue in packets.
    pub limit: u32,
    /// The congestion control of all connections.
    pub congestion: String,
    /// The share of packets that is lost on arrival at the receiver.
    pub loss: f64,
    /// The delay of the path in one direction, in milliseconds.
    pub delay_ms: f64,
    /// The share of the rate that all flows together are paced to; each gets an equal part.
    pub paced: Option<f64>,
    /// Whether segmentation offloads (TSO and GSO) are on.
    pub offload: bool,
    /// The value of `net.ipv4.tcp_tso_rtt_log`, if it is set: with 0, the size of segments does
    /// not depend on the round trip, as before Linux 5.18.
    pub tso_rtt_log: Option<u8>,
    /// The time in microseconds for which the device collects packets before an interrupt, if it
    /// is set.
    pub coalesce_us: Option<u32>,
}

impl Point {
    /// The pacing rate of one flow in bytes per second, if flows are paced.
    pub fn pacing_rate(&self) -> Option<u64> {
        let share = self.paced.filter(|_| self.rate_mbps > 0.0)?;
        let each = share * self.rate_mbps * 1e6 / 8.0 / f64::from(self.flows.max(1));
        Some((each as u64).max(1))
    }

    /// The data in bytes that a flow may hold that is not yet sent: see [`unsent`].
    pub fn unsent(&self) -> u32 {
        unsent(self.flows)
    }

    /// Whether the points differ in nothing that is set but the number of flows.
    pub fn same_but_flows(&self, other: &Self) -> bool {
        let same = Self { flows: other.flows, series: other.series.clone(), ..self.clone() };
        same == *other
    }
}

/// The data in bytes that each of so many flows may hold that is not yet sent
/// (`TCP_NOTSENT_LOWAT`).
///
/// It is two of the largest segments (64 KiB), and less where that would take more than 1 GiB over
/// all flows; at least one page.
pub fn unsent(flows: u32) -> u32 {
    let share = UNSENT_IN_ALL / u64::from(flows.max(1));
    share.clamp(4096, 128 << 10) as u32
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} flows, {}, {} {}", self.flows, self.congestion, self.qdisc, self.limit)?;
        if let Some(share) = self.paced {
            write!(f, ", paced at {:.0} %", share * 100.0)?;
        }
        if self.loss > 0.0 {
            write!(f, ", {} % loss", setting(self.loss * 100.0))?;
        }
        if self.delay_ms > 0.0 {
            write!(f, ", {} ms", self.delay_ms)?;
        }
        if !self.offload {
            f.write_str(", no offloads")?;
        }
        if let Some(log) = self.tso_rtt_log {
            write!(f, ", tso_rtt_log {log}")?;
        }
        if let Some(us) = self.coalesce_us {
            write!(f, ", coalescing {us} us")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn point(flows: u32) -> Point {
        Point {
            series: "flows".to_owned(),
            flows,
            rate_mbps: 800.0,
            qdisc: "pfifo".to_owned(),
            limit: 1000,
            congestion: "cubic".to_owned(),
            loss: 0.0,
            delay_ms: 0.0,
            paced: None,
            offload: true,
            tso_rtt_log: None,
            coalesce_us: None,
        }
    }

    #[test]
    fn flows_share_the_paced_rate() {
        // 90 % of 800 Mbit/s are 90 MB/s; a thousandth is 90 kB/s.
        let paced = Point { paced: Some(0.9), ..point(1000) };
        assert_eq!(paced.pacing_rate(), Some(90_000));
        assert_eq!(point(1000).pacing_rate(), None);
        assert_eq!(Point { rate_mbps: 0.0, ..paced }.pacing_rate(), None);
    }

    #[test]
    fn unsent_data_is_bounded() {
        assert_eq!(point(1).unsent(), 131_072);
        assert_eq!(point(100_000).unsent(), 10_737);
        assert_eq!(point(MAX_FLOWS).unsent(), 4096);
    }

    #[test]
    fn points_are_described() {
        let loss = Point { loss: 0.05, paced: Some(0.9), offload: false, ..point(9) };
        let text = "9 flows, cubic, pfifo 1000, paced at 90 %, 5 % loss, no offloads";
        assert_eq!(loss.to_string(), text);
    }
}
