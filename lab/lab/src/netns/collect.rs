use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use forebay_dataplane::Framing;
use forebay_records::packet_log;
use forebay_units::Nanos;
use serde::de::DeserializeOwned;

use super::addresses::numbered;
use super::boxes::{LinkFiles, SendboxFiles, has_cross};
use super::capabilities;
use super::programs::Program;
use super::run_dir::RunDir;
use crate::engine::{EngineError, Job};
use crate::results::{Event, HopCounters, Request, Run, Tick};
use crate::scenario::{Origin, Sendbox};
use crate::traffic::Role;

/// The number of the link's port towards the sendbox in the packet log.
const LEFT_PORT: u8 = 0;

/// Combines the records that the processes of a run wrote. The run began at `start`, and its
/// sendboxes were started again `restarts` times.
pub(super) fn collect(
    job: &Job<'_>,
    start: Nanos,
    dir: &RunDir,
    programs: &[Program],
    restarts: u32,
) -> Result<Run, EngineError> {
    let link = LinkFiles::new(dir);
    let mut run = Run {
        bottleneck: packets(&link.packets)?,
        bundle_source: has_cross(job).then_some(LEFT_PORT),
        link_header: Framing::Ethernet.header(),
        ..job.record(start)
    };
    for site in 0..capabilities::sites(job) {
        let first = run.hops.len();
        // A program of others has no records.
        let starts = if job.arm.program.is_empty() { restarts + 1 } else { 0 };
        for restart in 0..starts {
            let files = SendboxFiles::new(dir, site, restart);
            for hop in lines::<HopCounters>(&files.counters)? {
                // The hop is named by its place, since `forebay link` calls itself a link.
                let hop = HopCounters { hop: numbered("sendbox", site), ..hop };
                match run.hops.get_mut(first) {
                    Some(sum) if restart > 0 => add(sum, &hop),
                    _ => run.hops.push(hop),
                }
            }
            if !matches!(job.arm.sendbox, Sendbox::Forward) {
                run.sendbox.extend(packets(&files.packets)?);
            }
            if let Sendbox::Bundle(_) = job.arm.sendbox {
                run.ticks.extend(lines::<Tick>(&files.ticks)?);
                run.events.extend(lines::<Event>(&files.events)?);
            }
        }
    }
    if job.arm.outer.is_some() {
        // Its packets are those of the inner bundles, and are not recorded twice.
        let files = SendboxFiles::outer(dir);
        run.ticks.extend(lines::<Tick>(&files.ticks)?);
        run.events.extend(lines::<Event>(&files.events)?);
    }
    run.hops.extend(lines::<HopCounters>(&link.counters)?);
    if capabilities::bundles(job) > 1 || job.arm.outer.is_some() {
        // The order in which an engine that sees all sites writes them.
        run.sendbox.sort_by_key(|record| record.time);
        run.ticks.sort_by_key(|tick| tick.time);
        run.events.sort_by_key(|event| event.time);
    }
    // Connections are numbered over all request traffics of the bundle.
    let mut before = 0;
    for program in programs {
        let output = &program.spec.output;
        match &program.spec.role {
            Role::RequestClient { requests, .. } if is_of_bundle(job, program) => {
                let own: Vec<Request> = lines(output)?;
                run.requests.extend(
                    own.into_iter().map(|request| Request {
                        connection: request.connection + before,
                        ..request
                    }),
                );
                before += requests.connections;
                run.progress.extend(lines(&program.spec.progress())?);
            }
            // Requests of cross traffic are load and not part of an arm's result.
            Role::RequestClient { .. } => {}
            Role::TcpSink { .. } | Role::UdpSink { .. } | Role::PragueSink { .. } => {
                run.progress.extend(lines(output)?);
            }
            Role::UdpLoops { .. } => run.round_trips.extend(lines(output)?),
            _ => {}
        }
    }
    Ok(run)
}

/// Adds the counts of a box that was started again. The lateness stays that of its first time.
fn add(sum: &mut HopCounters, hop: &HopCounters) {
    sum.received += hop.received;
    sum.sent += hop.sent;
    sum.policy_drops += hop.policy_drops;
    sum.local += hop.local;
    sum.queued += hop.queued;
    sum.lost += hop.lost;
    sum.marked = sum.marked.map(|marked| marked + hop.marked.unwrap_or(0));
}

fn is_of_bundle(job: &Job<'_>, program: &Program) -> bool {
    let mut traffic = job.scenario.traffic.iter();
    traffic.any(|t| t.name == program.spec.traffic && t.from != Origin::Cross)
}

fn packets(file: &Path) -> Result<Vec<packet_log::Record>, EngineError> {
    packet_log::read(file).map_err(EngineError::io(format!("reading {}", file.display())))
}

/// Reads the records of a file of JSON lines. An incomplete last line is skipped: its writer was
/// ended in the middle of it.
fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, EngineError> {
    let failed = |e| EngineError::io(format!("reading {}", file.display()))(e);
    let mut input = BufReader::new(File::open(file).map_err(failed)?);
    let mut records = Vec::new();
    let mut line = String::new();
    while input.read_line(&mut line).map_err(failed)? > 0 && line.ends_with('\n') {
        records.push(serde_json::from_str(&line).map_err(|e| failed(io::Error::other(e)))?);
        line.clear();
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_up_to_a_cut() {
        let file = std::env::temp_dir().join(format!("fb-lines-{}", std::process::id()));
        let hop = HopCounters { hop: "link".to_owned(), received: 3, ..HopCounters::default() };
        let line = serde_json::to_string(&hop).unwrap();
        std::fs::write(&file, format!("{line}\n{line}\n{}", &line[..9])).unwrap();
        assert_eq!(lines::<HopCounters>(&file).unwrap(), [hop.clone(), hop]);
        std::fs::write(&file, "{}\n").unwrap();
        assert!(lines::<HopCounters>(&file).is_err(), "a whole line that is no record");
        std::fs::remove_file(&file).unwrap();
        let error = lines::<HopCounters>(&file).unwrap_err().to_string();
        assert!(error.contains("fb-lines"), "{error}");
    }
}
