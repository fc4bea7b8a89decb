//! The kernel's own queueing disciplines at the bottleneck: commands for `tc`, and its statistics.
//!
//! HTB paces, and the discipline is its only leaf, except for Cake, which paces itself. TBF is not
//! used: it asks its child for the next packet one packet time before the packet can leave
//! (`peek`), so that CoDel would judge a wait that is not over. HTB takes a packet when the wire is
//! free for it, like this project's link.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use forebay_units::{Bytes, Nanos, Rate};
use serde::Deserialize;

use super::exec;
use crate::engine::{EngineError, Job};
use crate::results::HopCounters;
use crate::scenario::{Maker, Path, Queue};

/// The lateness of the kernel's timers. HTB sends at once what it would have sent in the meantime,
/// up to its burst. But it lets the same amount through after every idle time, and the packets
/// behind it wait less than on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timers {
    /// In virtual time: late by less than a microsecond, since reading the clock takes time there.
    Exact,
    /// In real time: the burst is 100 microseconds or a full frame, since with less the rate falls
    /// short.
    Late,
}

impl Timers {
    /// HTB's burst at `rate`; HTB does not accept zero.
    fn burst(self, rate: Rate) -> Bytes {
        match self {
            Self::Exact => Bytes(1).max(rate.bytes_in(Nanos::from_micros(5))),
            Self::Late => Bytes(1_514).max(rate.bytes_in(Nanos::from_micros(100))),
        }
    }
}

/// The commands for `tc -batch` that put `queue` on `device`, paced to `path`'s rate; `None` if the
/// kernel does not have the discipline.
fn commands(queue: &Queue, path: &Path, timers: Timers, device: &str) -> Option<String> {
    let discipline = queue.tc_arguments(path)?;
    if queue.kind.paces_itself() {
        return Some(format!("qdisc add dev {device} root handle 2: {discipline}\n"));
    }
    let (rate, burst) = (path.rate.as_bps(), timers.burst(path.rate).0);
    Some(format!(
        "qdisc add dev {device} root handle 1: htb default 1\n\
         class add dev {device} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit \
         burst {burst} cburst {burst} quantum 1514\n\
         qdisc add dev {device} parent 1:1 handle 2: {discipline}\n"
    ))
}

/// Puts the queue of `job` on `device` in the namespace `namespace`.
pub(super) fn attach(
    job: &Job<'_>,
    timers: Timers,
    namespace: &str,
    device: &str,
) -> Result<(), EngineError> {
    let queue = &job.arm.queue;
    let batch = commands(queue, &job.scenario.path, timers, device).ok_or_else(|| {
        EngineError::Unfit(format!("the laboratory has no queue \"{queue}\" of the kernel's"))
    })?;
    exec::batch("tc", Some(namespace), &batch)
}

/// The packets that a discipline counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// The number of packets that it dropped.
    pub(super) drops: u64,
    /// The number of packets that it marked, or that it would have marked but were marked already.
    pub(super) marks: u64,
}

/// The output of `tc -s -j qdisc` for one discipline.
#[derive(Deserialize)]
struct Statistics {
    handle: String,
    drops: u64,
    #[serde(default)]
    ecn_mark: u64,
    /// The statistics of Cake's tins.
    #[serde(default)]
    tins: Vec<Tin>,
}

#[derive(Deserialize)]
struct Tin {
    ecn_mark: u64,
}

impl Counted {
    /// Reads the counts of the discipline on `device` in `namespace`.
    pub(super) fn of(namespace: &str, device: &str) -> Result<Self, EngineError> {
        let mut tc = Command::new("tc");
        tc.args(["-n", namespace, "-s", "-j", "qdisc", "show", "dev", device]);
        let json = exec::output(&mut tc, "")?;
        Self::parse(&json).ok_or_else(|| {
            EngineError::Unfit(format!(
                "`tc -s -j qdisc` says nothing of the queue that it set up: {json}"
            ))
        })
    }

    fn parse(json: &str) -> Option<Self> {
        let all: Vec<Statistics> = serde_json::from_str(json).ok()?;
        // Its parent counts its drops as well.
        let own = all.into_iter().find(|s| s.handle == "2:")?;
        let tins: u64 = own.tins.iter().map(|tin| tin.ecn_mark).sum();
        Some(Self { drops: own.drops, marks: own.ecn_mark + tins })
    }

    /// Puts the kernel's count of drops into the counts of `link`, which are of packets that
    /// entered and never came out. If the two differ, the counts do not balance.
    ///
    /// # Errors
    ///
    /// If more packets came out marked than the kernel marked.
    pub(super) fn settle(self, link: &mut HopCounters) -> Result<(), EngineError> {
        link.policy_drops = self.drops;
        match link.marked {
            Some(seen) if seen > self.marks => Err(EngineError::Unfit(format!(
                "{seen} packets were marked in the kernel's queue, which counts {}",
                self.marks
            ))),
            _ => Ok(()),
        }
    }
}

/// Checks that this kernel has the discipline that the bottleneck of `job` needs. The kernel is
/// asked once.
///
/// # Errors
///
/// [`EngineError::Unfit`] that names the missing discipline.
pub(super) fn check(job: &Job<'_>) -> Result<(), EngineError> {
    let queue = &job.arm.queue;
    if queue.by != Maker::Kernel {
        return Ok(());
    }
    let own = queue.kind.kernel_name();
    let pacer = (!queue.kind.paces_itself()).then_some("htb");
    static TRIED: Mutex<BTreeMap<&str, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in std::iter::once(own).chain(pacer) {
        if let Some(why) = tried.entry(kind).or_insert_with(|| try_out(kind)) {
            return Err(EngineError::Unfit(format!(
                "this machine's kernel has no queueing discipline {kind} ({why}), which the queue \
                 \"{queue}\" needs: run it with `--engine uml`, whose kernel has it"
            )));
        }
    }
    Ok(())
}

/// The reason for which a discipline cannot be used, if there is one.
fn try_out(kind: &'static str) -> Option<String> {
    let mut tc = Command::new("tc");
    tc.args(["qdisc", "add", "dev", "lo", "root", kind]);
    let tried = exec::in_new_namespace(|| exec::run(&mut tc, ""));
    match tried {
        Ok(Ok(())) => None,
        Ok(Err(EngineError::Command { message, .. })) => {
            Some(message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned())
        }
        Ok(Err(e)) => Some(e.to_string()),
        Err(e) => Some(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::QueueKind;

    const PATH: Path = Path { rate: Rate::from_mbps(96), rtt: Nanos::from_millis(50) };

    fn told(kind: QueueKind, limit: &str, ecn: bool) -> String {
        let limit = limit.parse().unwrap();
        let by = Maker::Kernel;
        let queue = Queue { by, ecn, ..Queue::plain(kind, limit) };
        commands(&queue, &PATH, Timers::Late, "dev0").unwrap()
    }

    #[test]
    fn every_discipline_has_the_parameters_of_ours() {
        let fifo = told(QueueKind::Fifo, "1 bdp", false);
        assert_eq!(
            fifo,
            "qdisc add dev dev0 root handle 1: htb default 1\n\
             class add dev dev0 parent 1: classid 1:1 htb rate 96000000bit ceil 96000000bit \
             burst 1514 cburst 1514 quantum 1514\n\
             qdisc add dev dev0 parent 1:1 handle 2: bfifo limit 600000\n"
        );
        let leaf = |kind, limit, ecn| {
            let told = told(kind, limit, ecn);
            told.lines().last().unwrap().rsplit_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(
            leaf(QueueKind::Sfq, "2000 packets", false),
            "sfq limit 2000 depth 127 flows 1024 divisor 1024 quantum 1514 perturb 10"
        );
        assert!(leaf(QueueKind::Sfq, "100 packets", false).starts_with("sfq limit 100 depth 100"));
        assert_eq!(
            leaf(QueueKind::Codel, "1000 packets", true),
            "codel limit 1000 target 5000us interval 100000us ecn"
        );
        assert_eq!(
            leaf(QueueKind::FqCodel, "1000 packets", false),
            "fq_codel limit 1000 flows 1024 quantum 1514 target 5000us interval 100000us noecn"
        );
        assert_eq!(
            leaf(QueueKind::Pie, "1000 packets", true),
            "pie limit 1000 target 15000us tupdate 15000us ecn"
        );
        assert_eq!(
            told(QueueKind::Cake, "1000 packets", true),
            "qdisc add dev dev0 root handle 2: cake bandwidth 96000000bit besteffort raw \
             memlimit 2304000\n"
        );
    }

    #[test]
    fn late_timers_have_a_burst() {
        let burst = |timers: Timers, mbps| timers.burst(Rate::from_mbps(mbps)).0;
        assert_eq!((burst(Timers::Late, 24), burst(Timers::Late, 10_000)), (1_514, 125_000));
        assert_eq!((burst(Timers::Exact, 24), burst(Timers::Exact, 10_000)), (15, 6_250));
    }

    /// The format of `tc` of iproute2 6.1.
    const FQ_CODEL: &str = r#"[{"kind":"htb","handle":"1:","root":true,"refcnt":2,"options":{"r2q":10,
        "default":"0x1"},"bytes":9084,"packets":6,"drops":4,"overlimits":5,"requeues":0,"backlog":0,
        "qlen":0},{"kind":"fq_codel","handle":"2:","parent":"1:1","options":{"limit":1000,"ecn":true},
        "bytes":9084,"packets":6,"drops":3,"overlimits":0,"requeues":0,"backlog":0,"qlen":0,
        "maxpacket":1514,"drop_overlimit":0,"new_flow_count":1,"ecn_mark":7,"new_flows_len":0}]"#;
    const CAKE: &str = r#"[{"kind":"cake","handle":"2:","root":true,"drops":2,"memory_used":0,
        "tins":[{"drops":1,"ecn_mark":5},{"drops":1,"ecn_mark":6}]}]"#;

    #[test]
    fn the_counts_are_those_of_the_discipline_itself() {
        assert_eq!(Counted::parse(FQ_CODEL), Some(Counted { drops: 3, marks: 7 }));
        assert_eq!(Counted::parse(CAKE), Some(Counted { drops: 2, marks: 11 }));
        let fifo = r#"[{"kind":"bfifo","handle":"2:","parent":"1:1","drops":9}]"#;
        assert_eq!(Counted::parse(fifo), Some(Counted { drops: 9, marks: 0 }));
        assert_eq!(Counted::parse(r#"[{"kind":"noqueue","handle":"0:","drops":0}]"#), None);
        assert_eq!(Counted::parse("no JSON"), None);
    }

    #[test]
    fn the_kernels_counts_are_compared_with_what_came_out() {
        let link = HopCounters { policy_drops: 5, marked: Some(7), ..HopCounters::default() };
        let mut settled = link.clone();
        Counted { drops: 6, marks: 7 }.settle(&mut settled).unwrap();
        assert_eq!((settled.policy_drops, settled.marked), (6, Some(7)));
        let error = Counted { drops: 5, marks: 6 }.settle(&mut link.clone()).unwrap_err();
        assert!(error.to_string().contains("7 packets were marked"), "{error}");
    }
}
