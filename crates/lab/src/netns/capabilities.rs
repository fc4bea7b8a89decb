//! The jobs that the engine can run.

use forebay_sim::Capacity;
use forebay_units::Nanos;

use super::dataplane::Dataplane;
use crate::engine::{EngineError, Job};
use crate::scenario::{
    Congestion, EcnField, Fault, FaultKind, Maker, Process, Traffic, TrafficKind, Transport,
};

/// The largest number of sites. Each takes two namespaces and a sendbox process.
const MAX_SITES: u8 = 16;

/// The number of sending sites of a checked job.
pub(super) fn sites(job: &Job<'_>) -> u8 {
    job.scenario.sites.min(u32::from(MAX_SITES)) as u8
}

/// Refuses a job that needs something this engine does not have.
pub(crate) fn check(job: &Job<'_>, dataplane: Dataplane) -> Result<(), EngineError> {
    if let (Dataplane::User, Some(policy)) = (dataplane, job.arm.kernel_policy()) {
        return Err(EngineError::Unfit(format!(
            "the sendbox has no policy \"{}\" of its own, which arm {} asks for: run it with \
             `--dataplane kernel`",
            policy.name(),
            job.arm.name
        )));
    }
    if !job.arm.program.is_empty() && !job.scenario.faults.is_empty() {
        return Err(EngineError::Unfit(format!(
            "arm {} has a `program` in the sendbox's place, and [[fault]] knows only sendboxes: \
             remove one",
            job.arm.name
        )));
    }
    let dies =
        |fault: &Fault| matches!(fault.kind, FaultKind::Killed { process: Process::Sendbox, .. });
    if dataplane == Dataplane::Kernel && job.scenario.faults.iter().any(dies) {
        return Err(EngineError::Unfit(
            "over the kernel's queues traffic passes a dead sendbox, so that \
             `process = \"sendbox\"` of [[fault]] has no meaning: run it without \
             `--dataplane kernel`"
                .to_owned(),
        ));
    }
    if let Some(what) = misfit(job) {
        return Err(EngineError::Unfit(what));
    }
    match missing(job) {
        None => Ok(()),
        Some(what) => Err(EngineError::Unfit(format!(
            "this engine has no {what}, which this scenario asks for: run it with `--engine sim`"
        ))),
    }
}

/// Says in one line why parts of `job` do not fit together here.
fn misfit(job: &Job<'_>) -> Option<String> {
    let conditions = &job.scenario.conditions;
    let queue = job.arm.queue;
    if queue.by == Maker::Kernel {
        let what = if !conditions.ways.is_empty() {
            "several ways"
        } else if !matches!(conditions.capacity, Capacity::Constant(_)) {
            "a varying rate (`trace`, `steps`)"
        } else if conditions.policer.is_some() || conditions.back.is_some() {
            "a `policer` or [path.back]"
        } else {
            return None;
        };
        return Some(format!(
            "a queue by = \"kernel\" is shaped by the kernel at one constant rate and its drops \
             are all of the path, so that it cannot be had with {what}: remove by = \"kernel\""
        ));
    }
    None
}

fn missing(job: &Job<'_>) -> Option<String> {
    let scenario = job.scenario;
    let queue = job.arm.queue;
    let jumps = |fault: &Fault| matches!(fault.kind, FaultKind::Clock { .. });
    if scenario.faults.iter().any(jumps) {
        return Some("clock of its own in each box (`clock` of [[fault]])".to_owned());
    }
    if job.arm.start > Nanos::ZERO {
        return Some("sendbox that starts later (`start` of [[arm]])".to_owned());
    }
    if job.arm.outer.is_some() {
        return Some("bundle around other bundles (`outer` of [[arm]])".to_owned());
    }
    if scenario.sites > u32::from(MAX_SITES) {
        return Some(format!("network of more than {MAX_SITES} sites"));
    }
    if queue.by == Maker::Forebay && queue.spec(&scenario.path).is_none() {
        return Some(format!("queue \"{queue}\""));
    }
    scenario.traffic.iter().find_map(|traffic| match &traffic.kind {
        _ if !may_say(traffic) => Some(
            "traffic with an ECN field of its own but dctcp's and prague's over UDP".to_owned(),
        ),
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => unknown(*congestion),
        _ => None,
    })
}

/// Whether hosts can send the ECN field of `traffic`: its default, and ECT(1) with DCTCP, where a
/// BPF program rewrites the packets, and over UDP, where the traffic programs set it.
fn may_say(traffic: &Traffic) -> bool {
    let tcp = match &traffic.kind {
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => Some(*congestion),
        _ => None,
    };
    let over_udp =
        matches!(traffic.kind, TrafficKind::Bulk { transport: Transport::UdpPrague, .. });
    let l4s = tcp == Some(Congestion::Dctcp) || over_udp;
    traffic.ecn.is_none() || traffic.ecn == Some(EcnField::Ect1) && l4s
}

fn unknown(congestion: Congestion) -> Option<String> {
    (!congestion.is_of_linux()).then(|| format!("congestion control \"{}\"", congestion.name()))
}
