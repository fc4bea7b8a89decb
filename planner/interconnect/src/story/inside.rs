//! The plan's paths inside the network: they are carried out, measured, disturbed and withdrawn.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_plan::topology::LinkId;
use serde_json::Value;

use super::{SETTLE, SETTLE_TIMEOUT, Stage};
use crate::ingress::{self, client_name};
use crate::meter::Rates;
use crate::queues::{self, Queue};
use crate::record::{Inside, InsideLink, LinkUse, Throughput};
use crate::service::Who;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;

/// The interval at which queues are read.
const LOOK: Duration = Duration::from_millis(100);
/// The interval at which a kernel is read while a withdrawal is timed.
const POLL: Duration = Duration::from_millis(10);
/// The longest time to the withdrawal of paths after the loss that causes it.
const WITHDRAWN: f64 = 1.0;
/// The lowest rate of a link that the table shows, in Mbit/s: answers of TCP stay below it.
const SHOWN: f64 = 3.0;

/// The throughput, and the use of each link.
pub(super) struct Measured {
    pub(super) throughput: Throughput,
    links: BTreeMap<LinkId, LinkUse>,
}

impl Stage<'_> {
    /// Measures the throughput and the use of links.
    pub(super) fn measure_links(&mut self, time: Duration) -> Result<Measured, EngineError> {
        let (blueprint, built) = (self.reader.blueprint, self.reader.built);
        let end = Instant::now() + time;
        let (first, queues) = (self.meter.read()?, queues::read(blueprint, built)?);
        let mut waiting: BTreeMap<LinkId, u64> = BTreeMap::new();
        let mut count = 0;
        let last = loop {
            self.pause(LOOK.min(end.saturating_duration_since(Instant::now())))?;
            let now = queues::read(blueprint, built)?;
            for (link, queue) in &now {
                *waiting.entry(*link).or_default() += queue.backlog;
            }
            count += 1;
            if Instant::now() >= end {
                break now;
            }
        };
        let rates = Rates::between(&first, &self.meter.read()?);
        let used = |(link, rate): (&LinkId, &forebay_units::Rate)| {
            let capacity = self.network.topology.link(*link).capacity?;
            let mean = waiting.get(link).copied().unwrap_or(0) as f64 / f64::from(count);
            let since = difference(queues.get(link)?, last.get(link)?);
            let used = LinkUse {
                mbps: rate.as_mbps_f64(),
                wait_ms: mean * 8e3 / capacity.as_bps() as f64,
                loss: since.dropped as f64 / (since.dropped + since.sent).max(1) as f64,
            };
            Some((*link, used))
        };
        let links = rates.links.iter().filter_map(used).collect();
        Ok(Measured { throughput: self.throughput(&rates), links })
    }

    /// Starts the clients at the ingress routers, and measures the paths that they carry out.
    pub(super) fn steer(
        &mut self,
        measured: Duration,
        before: &Measured,
        hinted: &Measured,
    ) -> Result<(), EngineError> {
        if !self.can_steer {
            return Ok(());
        }
        let plan = self.plan_inside()?;
        let wanted = self.planned_entries(&plan);
        let idle = self.steering()?.is_empty();
        self.event("the ingress routers carry out the paths of the plan");
        let begin = Instant::now();
        for entry in self.record.entries.clone() {
            self.start_client(&entry)?;
        }
        let came = self.wait_until_steered(&wanted)?;
        let took = begin.elapsed().as_secs_f64();
        self.pause(SETTLE)?;
        (self.say)("measuring, with hints and paths");
        let steered = self.measure_links(measured)?;
        let hot = self.hottest(hinted);
        let links = self.inside_links([before, hinted, &steered]);
        let (old, new) = (hinted.throughput.total(), steered.throughput.total());
        self.record.inside = Some(Inside {
            throughput: steered.throughput,
            links,
            hot: hot.map_or(String::new(), |link| self.link_name(link)),
            paths: in_words(&plan),
            times: vec![("the clients start, and paths are carried out".to_owned(), took)],
        });
        let entries: Vec<_> = wanted.iter().cloned().collect();
        self.check(
            "the plan moves traffic inside too, and ingress routers carry that out",
            !wanted.is_empty() && came && idle,
            entries.join(", "),
        );
        let uses = hot.map(|link| (hinted.links.get(&link), steered.links.get(&link)));
        let (Some((Some(old_use), Some(new_use))), Some(hot)) = (uses, hot) else {
            self.check("the hottest link inside is relieved", false, "no link is loaded".into());
            return Ok(());
        };
        self.check(
            "the wait before the hottest link inside falls by half at least",
            new_use.wait_ms <= old_use.wait_ms / 2.0,
            format!(
                "{}: {:.0} to {:.0} ms, loss {:.1} to {:.1} %",
                self.link_name(hot),
                old_use.wait_ms,
                new_use.wait_ms,
                old_use.loss * 100.0,
                new_use.loss * 100.0
            ),
        );
        let seen = format!("{old:.1} to {new:.1} Mbit/s");
        self.check("throughput rises further, by a twentieth at least", new >= 1.05 * old, seen);
        Ok(())
    }

    /// Cuts off a core router that paths go through: they are withdrawn as soon as the IGP has lost
    /// it, and come back with it.
    pub(super) fn lose_a_core_router(&mut self) -> Result<(), EngineError> {
        if !self.can_steer {
            return Ok(());
        }
        let (blueprint, built) = (self.reader.blueprint, self.reader.built);
        let plan = self.plan_inside()?;
        let wanted = self.planned_entries(&plan);
        let what = "a lost core router ends the paths through it within a second of the IGP's loss";
        let victim = waypoints(&plan).into_iter().next();
        let lost = victim.and_then(|v| self.segments.iter().find(|s| s.router == v).cloned());
        let Some(lost) = lost else {
            self.check(what, false, "no path has a waypoint".to_owned());
            return Ok(());
        };
        let through = |steering: &BTreeMap<String, ingress::Steered>| -> Vec<String> {
            let has = |s: &ingress::Steered| s.segments.contains(&lost.end);
            steering.iter().filter(|(_, s)| has(s)).map(|(name, _)| name.clone()).collect()
        };
        let users = through(&self.steering()?);
        self.event(&format!("{} loses all its links", lost.router));
        let begin = Instant::now();
        built.switch(blueprint, &lost.router, false)?;
        let (mut igp, mut gone) = (None, None);
        while gone.is_none() && begin.elapsed() < SETTLE_TIMEOUT {
            let reached = users.iter().map(|entry| self.reaches(entry, lost.end));
            if igp.is_none() && !reached.collect::<Result<Vec<_>, _>>()?.contains(&true) {
                igp = Some(begin.elapsed());
            }
            if through(&self.steering()?).is_empty() {
                gone = Some(begin.elapsed());
            }
            self.processes.borrow_mut().wait(POLL)?;
        }
        let (igp, gone) = (igp.or(gone).unwrap_or(SETTLE_TIMEOUT), gone.unwrap_or(SETTLE_TIMEOUT));
        let after = gone.saturating_sub(igp).as_secs_f64();
        self.time(&format!("{} is lost, and the IGP has seen it", lost.router), igp);
        self.time("its paths are withdrawn", gone);
        self.check(
            what,
            !users.is_empty() && gone < SETTLE_TIMEOUT && after <= WITHDRAWN,
            format!("{}: IGP {:.2} s, paths {after:.2} s later", lost.router, igp.as_secs_f64()),
        );
        self.pause(SETTLE)?;
        let without = self.measure(SETTLE)?.total();
        let before = self.record.before.total();
        self.check(
            "meanwhile traffic goes on, by the IGP's paths",
            without > before,
            format!("{without:.1} Mbit/s"),
        );
        self.event(&format!("{} is back", lost.router));
        let begin = Instant::now();
        built.switch(blueprint, &lost.router, true)?;
        // The kernel removed its segments with the links; a router that starts has them again.
        let again = built.add_segments(blueprint, std::slice::from_ref(&lost))?;
        let back = self.wait_until_steered(&wanted)? && again.is_ok();
        self.time("it is back, and its paths are", begin.elapsed());
        let seen = format!("after {:.1} s", begin.elapsed().as_secs_f64());
        self.check("and its paths come back with it", back, seen);
        Ok(())
    }

    /// Kills a client: its supervisor withdraws its paths, and the next client carries them out.
    pub(super) fn kill_a_client(&mut self) -> Result<(), EngineError> {
        if !self.can_steer {
            return Ok(());
        }
        let wanted = self.planned_entries(&self.plan_inside()?);
        let Some(entry) = wanted.iter().next().cloned() else { return Ok(()) };
        self.event(&format!("the client at {entry} is killed"));
        let begin = Instant::now();
        self.processes.borrow_mut().kill(&client_name(&entry))?;
        let mut gone = SETTLE_TIMEOUT;
        while begin.elapsed() < SETTLE_TIMEOUT {
            if ingress::steered(self.reader.built, &entry)?.is_empty() {
                gone = begin.elapsed();
                break;
            }
            self.processes.borrow_mut().wait(POLL)?;
        }
        self.time(&format!("the client at {entry} is killed, and its paths are gone"), gone);
        let seconds = gone.as_secs_f64();
        self.check(
            "kill -9 of a client withdraws its paths within a second",
            seconds <= WITHDRAWN,
            format!("{seconds:.2} s"),
        );
        self.start_client(&entry)?;
        let back = self.wait_until_steered(&wanted)?;
        self.check("and the next client carries them out again", back, entry);
        Ok(())
    }

    /// Checks, right after the service was killed at `killed`, how long its paths stay.
    pub(super) fn paths_end_with_the_service(
        &mut self,
        killed: Instant,
    ) -> Result<(), EngineError> {
        if !self.can_steer {
            return Ok(());
        }
        let mut gone = SETTLE_TIMEOUT;
        while killed.elapsed() < SETTLE_TIMEOUT {
            if self.steering()?.is_empty() {
                gone = killed.elapsed();
                break;
            }
            self.processes.borrow_mut().wait(POLL)?;
        }
        self.time("the service is killed, and all paths are gone", gone);
        let seconds = gone.as_secs_f64();
        self.check(
            "paths inside are withdrawn within a second of the service's death",
            seconds <= WITHDRAWN,
            format!("{seconds:.2} s"),
        );
        Ok(())
    }

    /// Checks that no ingress router has anything left of the paths, and stops the clients.
    pub(super) fn all_paths_are_gone(&mut self) -> Result<(), EngineError> {
        if !self.can_steer {
            return Ok(());
        }
        let gone = self.wait_for("the paths' end", |stage| Ok(stage.steering()?.is_empty()));
        let mut ended = true;
        for entry in self.record.entries.clone() {
            let name = client_name(&entry);
            ended &= self.end_process(&name)?.success();
        }
        let left = self.steering()?;
        let seen = match left.is_empty() {
            true => "no route and no nexthop object".to_owned(),
            false => left.into_keys().collect::<Vec<_>>().join(", "),
        };
        let well = gone.is_ok() && ended && seen.starts_with("no ");
        self.check("and nothing is left of the paths inside", well, seen);
        Ok(())
    }

    fn time(&mut self, what: &str, time: Duration) {
        if let Some(inside) = &mut self.record.inside {
            inside.times.push((what.to_owned(), time.as_secs_f64()));
        }
    }

    fn start_client(&mut self, entry: &str) -> Result<(), EngineError> {
        let service = self.reader.blueprint.service_for(entry)?;
        let access = (self.service.router_token(), &self.segments[..]);
        let (dir, built) = (self.reader.dir, self.reader.built);
        ingress::start(dir, built, entry, service, access, &mut self.processes.borrow_mut())
    }

    /// Returns the service's answer to routers.
    fn plan_inside(&self) -> Result<Value, EngineError> {
        let reply = self.service.ask(Who::Router, "GET", "/v1/paths", "")?;
        match reply.status {
            200 => Ok(reply.body),
            status => Err(EngineError::Unfit(format!("/v1/paths is answered with {status}"))),
        }
    }

    /// Returns the entries whose traffic the plan moves inside.
    fn planned_entries(&self, plan: &Value) -> BTreeSet<String> {
        let flows = plan["flows"].as_array().into_iter().flatten();
        flows.filter_map(|flow| Some(flow["entry"].as_str()?.to_owned())).collect()
    }

    /// Returns what the clients have in the kernels, without entries where that is nothing.
    fn steering(&self) -> Result<BTreeMap<String, ingress::Steered>, EngineError> {
        let mut all = BTreeMap::new();
        for entry in &self.record.entries {
            let steered = ingress::steered(self.reader.built, entry)?;
            if !steered.is_empty() {
                all.insert(entry.clone(), steered);
            }
        }
        Ok(all)
    }

    /// Waits until all prefixes of users are steered at these entries, and none at others.
    fn wait_until_steered(&mut self, wanted: &BTreeSet<String>) -> Result<bool, EngineError> {
        let prefixes = self.network.prefixes.len();
        let came = self.wait_for("paths", |stage| {
            let steering = stage.steering()?;
            let all = steering.values().all(|s| s.routes == prefixes);
            Ok(all && steering.keys().eq(wanted.iter()))
        });
        match came {
            Ok(()) => Ok(true),
            Err(EngineError::Unfit(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the IGP has a route to a segment.
    fn reaches(&self, router: &str, segment: Ipv6Addr) -> Result<bool, EngineError> {
        let mut command = Command::new("ip");
        command.args(["-6", "-n", &self.reader.built.name(router), "route", "show"]);
        let text = exec::output(command.args(["match", &segment.to_string()]), "")?;
        Ok(!text.trim().is_empty())
    }

    fn link_name(&self, link: LinkId) -> String {
        let link = self.network.topology.link(link);
        format!("{} - {}", self.network.router(link.from), self.network.router(link.to))
    }

    /// Returns the link with the highest load relative to its capacity.
    fn hottest(&self, measured: &Measured) -> Option<LinkId> {
        let load = |(link, used): (&LinkId, &LinkUse)| {
            let capacity = self.network.topology.link(*link).capacity?;
            Some((*link, used.mbps / capacity.as_mbps_f64()))
        };
        let loads = measured.links.iter().filter_map(load);
        loads.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(link, _)| link)
    }

    fn inside_links(&self, times: [&Measured; 3]) -> Vec<InsideLink> {
        let links = (0..self.network.topology.links().len() as u32).map(LinkId);
        let link = |id: LinkId| {
            let used = times.map(|t| t.links.get(&id).copied().unwrap_or_default());
            let capacity = self.network.topology.link(id).capacity?.as_mbps_f64();
            let shown = used.iter().any(|used| used.mbps >= SHOWN);
            let [before, hinted, steered] = used;
            shown.then(|| InsideLink {
                link: self.link_name(id),
                capacity,
                before,
                hinted,
                steered,
            })
        };
        links.filter_map(link).collect()
    }
}

/// Returns what a queue did between two readings.
fn difference(first: &Queue, last: &Queue) -> Queue {
    Queue {
        backlog: last.backlog,
        sent: last.sent.saturating_sub(first.sent),
        dropped: last.dropped.saturating_sub(first.dropped),
    }
}

/// Returns the routers that fix the plan's paths.
fn waypoints(plan: &Value) -> BTreeSet<String> {
    let ways = plan["flows"].as_array().into_iter().flatten();
    let ways = ways.flat_map(|flow| flow["ways"].as_array().into_iter().flatten());
    let via = ways.flat_map(|way| way["via"].as_array().into_iter().flatten());
    via.filter_map(|router| router.as_str().map(str::to_owned)).collect()
}

/// Returns the paths of the plan with their rates.
fn in_words(plan: &Value) -> Vec<String> {
    let ways = plan["flows"].as_array().into_iter().flatten();
    let ways = ways.flat_map(|flow| flow["ways"].as_array().into_iter().flatten());
    let words = |way: &Value| {
        let path: Vec<_> =
            way["path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("{}, {:.1} Mbit/s", path.join(" - "), way["rate"].as_f64().unwrap_or(0.0) / 1e6)
    };
    ways.map(words).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waypoints_and_words_are_read_from_the_plan() {
        let plan = json!({"flows": [{"entry": "west", "router": "metro", "ways": [
            {"path": ["west", "metro"], "via": [], "rate": 2e6},
            {"path": ["west", "core4", "metro"], "via": ["core4"], "rate": 1.25e6},
            {"path": ["west", "x"], "via": null, "rate": 0.0}]}]});
        assert_eq!(waypoints(&plan), ["core4".to_owned()].into());
        assert_eq!(in_words(&plan)[1], "west - core4 - metro, 1.2 Mbit/s");
        assert!(waypoints(&Value::Null).is_empty());
    }

    #[test]
    fn a_queue_is_counted_from_its_first_reading() {
        let queue = |backlog, sent, dropped| Queue { backlog, sent, dropped };
        assert_eq!(difference(&queue(5, 10, 1), &queue(7, 30, 4)), queue(7, 20, 3));
    }
}
