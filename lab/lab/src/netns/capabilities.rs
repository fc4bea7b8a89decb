//! The jobs that the engine can run.

use forebay_sim::Capacity;
use forebay_units::Nanos;

use super::dataplane::Dataplane;
use crate::engine::{EngineError, Job};
use crate::scenario::{
    Congestion, EcnField, Fault, FaultKind, MAX_SOCKETS, Maker, Process, Records, Spread, Traffic,
    TrafficKind, Transport,
};

/// The largest number of sites. Each takes two namespaces and a sendbox process.
const MAX_SITES: u8 = 16;

/// The number of sending sites of a checked job, each with a place and a sendbox: one where all
/// traffic passes one sendbox.
pub(super) fn sites(job: &Job<'_>) -> u8 {
    if has_branches(job) { 1 } else { bundles(job) }
}

/// The number of bundles of a checked job inside the outer one, whether its arm controls them or
/// not.
pub(super) fn bundles(job: &Job<'_>) -> u8 {
    job.scenario.sites.min(u32::from(MAX_SITES)) as u8
}

/// Whether each site of the scenario has a way of its own, and all pass one sendbox.
pub(super) fn has_branches(job: &Job<'_>) -> bool {
    job.scenario.conditions.spread == Spread::Site
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
    let routed = dataplane == Dataplane::Kernel || !job.arm.program.is_empty();
    let key = if job.arm.outer.is_some() {
        Some("`outer` of [[arm]]")
    } else {
        has_branches(job).then_some("spread = \"site\"")
    };
    if let (true, Some(key)) = (routed, key) {
        return Err(EngineError::Unfit(format!(
            "{key} needs sendboxes in user space: run it without `--dataplane kernel`, and without \
             a `program` in the arm"
        )));
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

/// The number of ports through which the sites' traffic reaches the link.
pub(super) fn entries(job: &Job<'_>) -> u8 {
    if job.arm.outer.is_some() { 1 } else { sites(job) }
}

/// Says in one line why parts of `job` do not fit together here.
fn misfit(job: &Job<'_>) -> Option<String> {
    let conditions = &job.scenario.conditions;
    if job.scenario.records == Records::Figures {
        return Some(
            "records = \"figures\" is of the engine sim, and engines on real Linux write records: \
             remove it, or run it with `--engine sim`"
                .to_owned(),
        );
    }
    let crowded = job.scenario.traffic.iter().find(|t| t.kind.flows() > MAX_SOCKETS);
    if let Some(traffic) = crowded {
        return Some(format!(
            "traffic {} has {} flows, and an engine on real Linux has at most {MAX_SOCKETS} in \
             each traffic, with a socket each: lower `flows`, or run it with `--engine sim`",
            traffic.name,
            traffic.kind.flows()
        ));
    }
    if job.arm.outer.is_some() && !conditions.site_rtts.is_empty() {
        return Some(
            "here the link cannot tell the sites behind an outer sendbox apart, so that \
             [[site]] does not go with `outer` of [[arm]]: run it with `--engine sim`"
                .to_owned(),
        );
    }
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
    if scenario.sites > u32::from(MAX_SITES) {
        return Some(format!("network of more than {MAX_SITES} sites"));
    }
    if queue.by == Maker::Forebay && queue.spec(&scenario.path).is_none() {
        return Some(format!("queue \"{queue}\""));
    }
    scenario.traffic.iter().find_map(|traffic| match &traffic.kind {
        _ if !may_say(traffic) => Some(
            "traffic with an ECN field of its own but ECT(1) of dctcp, of prague and over UDP"
                .to_owned(),
        ),
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => unknown(*congestion),
        _ => None,
    })
}

/// Whether hosts can send the ECN field of `traffic`: its default, and ECT(1) with DCTCP and
/// Prague, where a BPF program rewrites the packets, and over UDP, where the traffic programs set
/// it.
fn may_say(traffic: &Traffic) -> bool {
    let tcp = match &traffic.kind {
        TrafficKind::Requests { congestion, .. }
        | TrafficKind::Bulk { transport: Transport::Tcp(congestion), .. } => Some(*congestion),
        _ => None,
    };
    let over_udp = matches!(
        traffic.kind,
        TrafficKind::Bulk { transport: Transport::UdpPrague, .. } | TrafficKind::Datagrams(_)
    );
    let l4s = matches!(tcp, Some(Congestion::Dctcp | Congestion::Prague)) || over_udp;
    traffic.ecn.is_none() || traffic.ecn == Some(EcnField::Ect1) && l4s
}

fn unknown(congestion: Congestion) -> Option<String> {
    (!congestion.is_on_linux()).then(|| format!("congestion control \"{}\"", congestion.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    #[test]
    fn what_only_the_simulator_carries_is_refused() {
        let text = "name = \"x\"\nduration = \"1 s\"\n\
                    [path]\nrate = \"9 Mbit/s\"\nrtt = \"9 ms\"\n\
                    queue = { kind = \"fifo\", limit = \"1 bdp\" }\n\
                    [[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\nflows = 1000\n\
                    [[arm]]\nname = \"a\"\nsendbox = \"forward\"\n";
        let said = |text: &str| {
            let experiment = parse("x.toml".as_ref(), text).unwrap();
            let scenario = &experiment.cells[0];
            let job = Job { scenario, arm: &scenario.arms[0], seed: 1 };
            check(&job, Dataplane::User).map_err(|e| e.to_string())
        };
        assert_eq!(said(text), Ok(()));
        let many = said(&text.replace("1000", "1001")).unwrap_err();
        assert!(many.contains("bulk has 1001 flows") && many.contains("at most 1000"), "{many}");
        let figures = said(&format!("records = \"figures\"\n{text}")).unwrap_err();
        assert!(figures.contains("--engine sim"), "{figures}");
    }
}
