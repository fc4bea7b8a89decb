//! The record of a run from the events of the simulation.

use std::collections::{BTreeMap, BTreeSet};

use forebay_control::Snapshot;
use forebay_records::packet_log::{Fate, Record, flow_of};
use forebay_sim::{
    At, BoxCounters, BundleId, FlowState, Headers, LinkId, Observer, Passage, RequestTiming,
    RouteId, ScheduledRequest,
};
use forebay_units::{Bytes, Nanos};

use super::capture::Capture;
use super::network::{LEFT, Network, Site};
use super::{INTERVAL, Simulated};
use crate::analysis::{Course, Spans};
use crate::engine::Job;
use crate::results::{
    Event, HopCounters, MAX_EVENTS, Progress, Request, RoundTrip, Run, SenderState, Tally, Tick,
};
use crate::scenario::{Origin, Records, Traffic, TrafficKind};
use crate::workload::{self, Arrivals, Requests};

/// The records of a run in progress.
pub(super) struct Collector {
    run: Run,
    traffics: Vec<Kept>,
    length: Nanos,
    /// The traffic that goes forward on each route.
    pub(super) whose: BTreeMap<RouteId, u8>,
    /// Whether each traffic is L4S traffic.
    l4s: Vec<bool>,
    /// The links in the place of sendboxes.
    pub(super) boxes: BTreeSet<LinkId>,
    /// The bottleneck of the way back, whose packets are not recorded.
    pub(super) back: Option<LinkId>,
    /// The outer bundle. Its packets are those of the inner ones and are not recorded twice.
    pub(super) outer: Option<BundleId>,
    /// The capture of all packets, if one is wanted.
    pub(super) capture: Option<Capture>,
}

/// The records of a traffic.
struct Kept {
    name: String,
    begin: Nanos,
    /// The payload read in the current interval, by flow.
    bytes: Vec<u64>,
    /// The end of the current interval.
    next: Nanos,
    /// The requests by number; `None` if they are not recorded.
    requests: Option<Vec<Request>>,
    /// The number of its first connection.
    first_connection: u32,
    /// Whether its bytes are recorded.
    metered: bool,
    /// The index of its last progress record, and the number of that record's span. Used if the run
    /// keeps no records.
    last: Option<(usize, u64)>,
}

impl Collector {
    /// Creates the records for `job`, and the requests of each traffic, `None` for traffic without
    /// requests.
    pub(super) fn new(job: &Job<'_>) -> Result<(Self, Vec<Option<RequestTiming>>), String> {
        let scenario = job.scenario;
        let run = Run {
            bundle_source: scenario.traffic.iter().any(|t| t.from == Origin::Cross).then_some(LEFT),
            link_header: Bytes::ZERO,
            tally: (scenario.records == Records::Figures).then(|| Box::new(tally(job))),
            ..job.record(Nanos::ZERO)
        };
        let (mut traffics, mut schedules) = (Vec::new(), Vec::new());
        // Connections are numbered over all request traffics of the bundle.
        let mut before = 0;
        for (stream, traffic) in (0..).zip(&scenario.traffic) {
            let mut kept = Kept {
                name: traffic.name.clone(),
                begin: traffic.start,
                bytes: Vec::new(),
                next: traffic.start,
                requests: None,
                first_connection: before,
                metered: true,
                last: None,
            };
            let mut timing = None;
            let flows = match &traffic.kind {
                TrafficKind::Requests { requests, .. } => {
                    timing = Some(request_timing(job, traffic, requests, stream)?);
                    // Requests of cross traffic are load and not part of an arm's result.
                    kept.metered = traffic.from != Origin::Cross;
                    if kept.metered {
                        kept.requests = Some(Vec::new());
                        before += requests.connections;
                    }
                    1
                }
                TrafficKind::Bulk { flows, .. } => *flows,
                TrafficKind::Datagrams(_) => 1,
                TrafficKind::UdpRr { .. } => 0,
            };
            kept.metered &= flows > 0;
            kept.bytes.resize(flows as usize, 0);
            traffics.push(kept);
            schedules.push(timing);
        }
        let collector = Self {
            run,
            traffics,
            length: scenario.length(),
            whose: BTreeMap::new(),
            l4s: scenario.traffic.iter().map(Traffic::is_l4s).collect(),
            boxes: BTreeSet::new(),
            back: None,
            outer: None,
            capture: None,
        };
        Ok((collector, schedules))
    }

    /// The end of the next interval, at most that of the run; `None` after the run.
    pub(super) fn next_interval(&self) -> Option<Nanos> {
        let end = |k: &Kept| k.next.saturating_add(INTERVAL).min(self.length);
        self.traffics.iter().filter(|k| k.next < self.length).map(end).min()
    }

    /// Records the bytes read in the intervals that end at `time`.
    pub(super) fn end_intervals(&mut self, time: Nanos) {
        for kept in &mut self.traffics {
            if kept.next >= self.length
                || kept.next.saturating_add(INTERVAL).min(self.length) > time
            {
                continue;
            }
            kept.next = time;
            if !kept.metered || time <= kept.begin {
                continue;
            }
            let name = &kept.name;
            if self.run.tally.is_some() {
                let bytes = kept.bytes.iter_mut().map(std::mem::take).sum();
                add_up(&mut self.run, name, &mut kept.last, time, bytes);
                continue;
            }
            self.run.progress.extend((0..).zip(&mut kept.bytes).map(|(flow, bytes)| Progress {
                traffic: name.clone(),
                flow,
                time: time.0,
                bytes: std::mem::take(bytes),
            }));
        }
    }
}

/// The empty statistics of `job`.
fn tally(job: &Job<'_>) -> Tally {
    let measured = job.scenario.measured();
    let width = Spans::width(measured.end - measured.start);
    Tally::new(measured.start, measured.end, width)
}

/// Adds the bytes that all flows of a traffic read in the interval that ends at `time` to the
/// record of its span, so that their number does not grow with time. Bytes outside the measured
/// interval do not count in any figure.
fn add_up(run: &mut Run, name: &str, last: &mut Option<(usize, u64)>, time: Nanos, bytes: u64) {
    if time <= run.start || time > run.end {
        return;
    }
    // A report that ends at a border belongs before it, as in `Course`.
    let span = (time.0 - run.start.0 - 1) / Course::width(run.duration()).0;
    match last {
        Some((index, of)) if *of == span => {
            let record = &mut run.progress[*index];
            record.time = time.0;
            record.bytes = record.bytes.saturating_add(bytes);
        }
        _ => {
            *last = Some((run.progress.len(), span));
            let (traffic, time) = (name.to_owned(), time.0);
            run.progress.push(Progress { traffic, flow: 0, time, bytes });
        }
    }
}

/// The sizes and times of the requests of `traffic`, the `stream`-th of the scenario.
fn request_timing(
    job: &Job<'_>,
    traffic: &Traffic,
    requests: &Requests,
    stream: u32,
) -> Result<RequestTiming, String> {
    if requests.arrivals == Arrivals::Closed {
        return Ok(RequestTiming::Closed { sizes: requests.closed(job.seed, stream) });
    }
    // The schedule counts from the traffic's own start.
    let own = |t: Nanos| t.clamp(traffic.start, traffic.stop) - traffic.start;
    let measured = job.scenario.measured();
    let measured = own(measured.start)..own(measured.end);
    let schedule = requests.schedule(job.seed, stream, own(traffic.stop), measured);
    let at = |a: workload::Asked| ScheduledRequest {
        at: traffic.start.saturating_add(a.at),
        connection: a.connection,
        size: a.size,
    };
    Ok(RequestTiming::Scheduled(schedule.map_err(|e| e.to_string())?.into_iter().map(at).collect()))
}

impl Observer for Collector {
    fn passed(&mut self, at: At, passage: &Passage) {
        let traffic = self.whose.get(&passage.route).copied();
        let record = Record {
            time: passage.time,
            sojourn: passage.sojourn,
            len: passage.len,
            source: passage.source,
            flow: flow_of(passage.flow_hash),
            fate: if passage.dropped { Fate::Dropped } else { Fate::Sent },
            l4s: traffic.is_some_and(|traffic| self.l4s[usize::from(traffic)]),
            marked: passage.marked,
        };
        let at_sendbox = match at {
            At::Link(link) if self.boxes.contains(&link) => true,
            At::Link(link) if Some(link) == self.back => return,
            At::Link(_) => false,
            At::Sendbox(bundle) if Some(bundle) == self.outer => return,
            At::Sendbox(_) => true,
        };
        if let Some(tally) = &mut self.run.tally {
            tally.packet(at_sendbox, &record);
        } else if at_sendbox {
            self.run.sendbox.push(record);
        } else {
            self.run.whose.push(traffic);
            self.run.bottleneck.push(record);
        }
    }

    fn captures(&self) -> bool {
        self.capture.is_some()
    }

    fn captured(&mut self, at: At, passage: &Passage, headers: &Headers) {
        if let Some(capture) = &mut self.capture {
            capture.packet(at, passage, headers);
        }
    }

    fn ticked(&mut self, bundle: BundleId, now: Nanos, state: &Snapshot, backlog: Bytes) {
        if self.run.tally.is_some() {
            return;
        }
        let name = Network::name(bundle, self.outer);
        self.run.ticks.push(Tick::new(now, &name, state, backlog));
    }

    fn decided(&mut self, bundle: BundleId, now: Nanos, event: &forebay_control::Event) {
        let name = Network::name(bundle, self.outer);
        let event = Event::new(now, &name, event);
        if let Some(tally) = &mut self.run.tally {
            if event.kind == "rate_set" {
                tally.rates += 1;
                return;
            }
            if self.run.events.len() >= MAX_EVENTS {
                tally.events_left_out += 1;
                return;
            }
        }
        self.run.events.push(event);
    }

    fn read(&mut self, traffic: usize, flow: u32, bytes: u64) {
        if let Some(count) = self.traffics[traffic].bytes.get_mut(flow as usize) {
            *count += bytes;
        }
    }

    fn requested(&mut self, traffic: usize, id: u64, connection: u32, size: u64, now: Nanos) {
        let Kept { requests, first_connection, .. } = &mut self.traffics[traffic];
        if let Some(requests) = requests {
            let connection = connection + *first_connection;
            requests.push(Request { id, connection, size, start: now.0, end: None });
        }
    }

    fn answered(&mut self, traffic: usize, id: u64, now: Nanos) {
        if let Some(requests) = &mut self.traffics[traffic].requests
            && let Some(request) = requests.get_mut(id as usize)
        {
            request.end = Some(now.0);
        }
    }

    fn looped(&mut self, traffic: usize, flow: u32, start: Nanos, end: Option<Nanos>) {
        if let Some(tally) = &mut self.run.tally {
            return tally.round_trip(&self.traffics[traffic].name, start, end);
        }
        self.run.round_trips.push(RoundTrip {
            traffic: self.traffics[traffic].name.clone(),
            flow,
            start: start.0,
            end: end.map(|t| t.0),
        });
    }
}

impl Simulated {
    /// Records the states of all bulk TCP flows, if the run keeps records.
    pub(super) fn sample_senders(&mut self) {
        if self.sim.observer_mut().run.tally.is_some() {
            return;
        }
        let time = self.sim.now().0;
        let state = |flow: FlowState| SenderState {
            time,
            traffic: flow.traffic,
            flow: flow.flow,
            window: flow.window,
            in_flight: flow.in_flight,
            rtt: flow.rtt.map(|rtt| rtt.0),
            retransmissions: flow.retransmissions,
        };
        let states: Vec<_> = self.sim.flows().map(state).collect();
        self.sim.observer_mut().run.senders.extend(states);
    }

    /// The record of the run, which has ended.
    pub(super) fn finish(mut self) -> Run {
        let Network { ways, backward, sites, .. } = &self.network;
        let mut link =
            HopCounters { hop: "link".to_owned(), marked: Some(0), ..HopCounters::default() };
        for &id in ways.iter().chain(backward) {
            let counted = self.sim.link(id);
            link.received += counted.received;
            link.sent += counted.sent;
            link.policy_drops += counted.dropped;
            link.queued += counted.inside;
            link.lost += counted.lost;
            link.marked = link.marked.map(|n| n + counted.marked);
        }
        if let Some(back) = self.network.back {
            // What left it is counted on the next link.
            let counted = self.sim.link(back);
            link.received += counted.received - counted.sent;
            link.policy_drops += counted.dropped;
            link.queued += counted.inside;
            link.lost += counted.lost;
        }
        // A sendbox forwards what comes back, except for the messages to itself.
        let sendbox = |(site, Site { traffics, messages, bundle, link, .. }): (usize, &Site)| {
            let routes = || traffics.iter().map(|routes| routes.map(|r| self.sim.route(r)));
            let sent = routes().map(|[out, _]| out.sent).sum();
            let back: u64 = routes().map(|[_, back]| back.arrived).sum();
            let came = back + self.sim.route(*messages).arrived;
            let forwards = BoxCounters { received: sent, sent, ..BoxCounters::default() };
            let b = match (bundle, link) {
                (Some(bundle), _) => self.sim.sendbox(*bundle),
                (None, Some(link)) => {
                    let l = self.sim.link(*link);
                    BoxCounters {
                        received: l.received,
                        sent: l.sent,
                        dropped: l.dropped,
                        queued: l.inside,
                        marked: l.marked,
                        ..BoxCounters::default()
                    }
                }
                (None, None) => forwards,
            };
            HopCounters {
                hop: if site == 0 { "sendbox".to_owned() } else { format!("sendbox{}", site + 1) },
                received: b.received + came,
                sent: b.sent + came - b.messages,
                policy_drops: b.dropped,
                local: b.messages,
                queued: b.queued,
                lost: 0,
                marked: Some(b.marked),
                late: None,
            }
        };
        let mut hops: Vec<_> = sites.iter().enumerate().map(sendbox).collect();
        hops.push(link);
        let collector = self.sim.observer_mut();
        let mut run = std::mem::take(&mut collector.run);
        let requests = collector.traffics.iter_mut().filter_map(|kept| kept.requests.take());
        run.requests = requests.flatten().collect();
        run.hops = hops;
        run
    }
}
