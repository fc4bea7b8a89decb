//! The story: congest one entry, measure, hint, measure again, take the hints back; and what may go wrong on the way.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use forebay_config::ConfigError;
use forebay_plan::estimate;
use forebay_plan::hints::{self, Hints};
use forebay_units::Nanos;

use super::blueprint::{Blueprint, OPS};
use super::build::Built;
use super::controller::{self, OnDeath};
use super::daemons::{self, Programs, bird_name};
use super::files::{Files, Network};
use super::meter::{Meter, Rates, Reading};
use super::record::{Check, HintSeen, Record, Round, SCHEMA, Sample, Tables, Throughput};
use super::tables::{self, Reader};
use super::traffic;
use crate::engine::{EngineError, Interrupt};
use crate::netns::process::{Kind, Processes};
use crate::netns::rundir::RunDir;
use crate::netns::{self, exec};

/// How long sessions may take to come up, and tables to settle.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often is looked.
const TICK: Duration = Duration::from_millis(100);
/// How often throughput is noted.
const SAMPLE: Duration = Duration::from_millis(500);
/// How long TCP has to find its rate after a change.
const SETTLE: Duration = Duration::from_secs(2);
/// What a round of the controller is given.
const WINDOW: Duration = Duration::from_secs(3);
/// A loop that has not come to rest by then does not.
const MOST_ROUNDS: usize = 8;
/// How much more must be carried for the demonstration to hold.
const GAIN: f64 = 1.5;
/// How often the session of a provider flaps.
const FLAPS: usize = 3;
/// All of it must fit.
const MOST_SECONDS: f64 = 120.0;
/// The controller's process.
const CONTROLLER: &str = "controller";

/// What to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Have things go wrong as well: sessions that flap, a controller that is killed.
    pub faults: bool,
    /// Measure shorter.
    pub quick: bool,
}

/// Tells the story on this machine, which takes about a minute, and leaves nothing behind. `say` hears what happens.
///
/// # Errors
/// Without root or the daemons, on an interrupt, or if anything that was set up fails. What does not come out as it should
/// is no error but a [`Check`] that does not hold.
pub fn tell(
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> Result<Record, EngineError> {
    netns::usable()?;
    let programs = Programs::find()?;
    let unread = |e: ConfigError| EngineError::Unfit(e.to_string());
    let network = Network::carried().map_err(unread)?;
    let blueprint = Blueprint::of(&network)?;
    let begin = Instant::now();
    // Dropped in the opposite order, also on an error, an interrupt or a panic: counters, processes, namespaces, directory.
    let dir = RunDir::create()?;
    let files = Files(dir.file("."));
    files.write()?;
    say("making namespaces");
    let built = Built::of(&dir, &blueprint)?;
    let mut processes = Processes::new();
    say("starting BGP daemons");
    daemons::start(&dir, &programs, &network, &blueprint, &built, &mut processes)?;
    let meter = Meter::attach(&network, &blueprint, &built)?;
    let last = meter.read()?;
    let mut stage = Stage {
        reader: Reader { dir: &dir, programs: &programs, blueprint: &blueprint, built: &built },
        network: &network,
        files,
        processes,
        start: last.at,
        last,
        meter,
        interrupt,
        say,
        record: Record { schema: SCHEMA.to_owned(), ..Record::default() },
        tables: Tables::new(),
    };
    stage.record.entries = stage.entries();
    stage.tell(options)?;
    stage.record.seconds = begin.elapsed().as_secs_f64();
    stage.record.load = load();
    let seconds = stage.record.seconds;
    stage.check(
        "it takes less than two minutes",
        seconds < MOST_SECONDS,
        format!("{seconds:.0} s"),
    );
    Ok(stage.record)
}

/// Where it is told.
struct Stage<'a> {
    /// Dropped first: nothing is counted while things go.
    meter: Meter,
    processes: Processes,
    reader: Reader<'a>,
    network: &'a Network,
    files: Files,
    start: Nanos,
    last: Reading,
    interrupt: &'a Interrupt,
    say: &'a mut dyn FnMut(&str),
    record: Record,
    /// The last that were read.
    tables: Tables,
}

impl Stage<'_> {
    fn tell(&mut self, options: &Options) -> Result<(), EngineError> {
        let measured = Duration::from_secs(if options.quick { 3 } else { 8 });
        (self.say)("waiting for sessions");
        let all = self.network.prefixes.len();
        self.wait_for("the providers' tables to fill", |stage| {
            let full = |p: &String| {
                let sessions = stage.reader.sessions(p)?;
                let up = sessions.iter().all(|s| s.established);
                Ok(up && stage.reader.kernel(p)?.len() == all)
            };
            stage.names().iter().try_fold(true, |so_far, p| Ok(so_far && full(p)?))
        })?;
        self.record.first = self.settled()?;
        let (one, seen) = self.in_one_place();
        self.check("at first all traffic comes in at one entry", one, seen);

        (self.say)("starting traffic");
        self.start_traffic()?;
        self.pause(SETTLE * 2)?;
        (self.say)("measuring, without hints");
        self.record.before = self.measure(measured)?;

        self.start_controller(OnDeath::Keep)?;
        self.plan_until_rest()?;
        self.record.hinted = self.settled()?;
        let hints = self.hints()?;
        self.record.hints = in_words(&hints);
        let asked = tables::asked(&hints, &self.record.first);
        let differs = difference(&asked, &self.record.hinted);
        self.check("the tables are what the hints ask for", asked == self.record.hinted, differs);
        self.pause(SETTLE)?;
        (self.say)("measuring, with hints");
        self.record.after = self.measure(measured)?;
        let moved = self.record.first.iter().all(|(p, t)| self.record.hinted.get(p) != Some(t));
        self.check(
            "both providers' tables move",
            moved,
            format!("{} hints", self.record.hints.len()),
        );
        let (before, after) = (self.record.before.total(), self.record.after.total());
        let seen = format!("{before:.1} to {after:.1} Mbit/s");
        self.check("throughput rises by half at least", after >= GAIN * before, seen);

        if options.faults {
            self.flap()?;
            self.kill_controller()?;
        } else {
            self.processes.kill(CONTROLLER)?;
        }
        self.event("all is taken back");
        controller_command(&self.reader, controller::withdraw, &self.files)?;
        self.record.withdrawn = self.wait_for_tables(&self.record.first.clone())?;
        let back = self.record.withdrawn == self.record.first;
        self.check(
            "withdrawing gives the first tables back",
            back,
            difference(&self.record.first, &self.record.withdrawn),
        );
        self.pause(SETTLE * 2)
    }

    /// The providers' names.
    fn names(&self) -> Vec<String> {
        self.reader.blueprint.senders.iter().map(|s| s.name.clone()).collect()
    }

    /// The routers with sessions, in the topology's order.
    fn entries(&self) -> Vec<String> {
        let routers = self.network.topology.routers().iter().map(|r| r.name.clone());
        let has = |r: &String| self.reader.blueprint.sessions.iter().any(|s| s.router == *r);
        routers.filter(has).collect()
    }

    fn check(&mut self, what: &str, holds: bool, seen: String) {
        self.record.checks.push(Check { what: what.to_owned(), holds, seen });
    }

    fn event(&mut self, what: &str) {
        (self.say)(what);
        let at = self.last.at.saturating_sub(self.start).as_secs_f64();
        self.record.events.push((at, what.to_owned()));
    }

    /// Lets time pass, and notes what is carried.
    fn pause(&mut self, time: Duration) -> Result<(), EngineError> {
        let end = Instant::now() + time;
        let mut next = Instant::now() + SAMPLE;
        loop {
            if self.interrupt.is_raised() {
                return Err(EngineError::Interrupted);
            }
            let now = Instant::now();
            if now >= next {
                next += SAMPLE;
                self.sample()?;
            }
            if now >= end {
                return Ok(());
            }
            self.processes.wait(TICK.min(end - now))?;
        }
    }

    fn sample(&mut self) -> Result<(), EngineError> {
        let now = self.meter.read()?;
        let rates = Rates::between(&self.last, &now);
        let (providers, entries) = (self.delivered(&rates), self.uplinks(&rates));
        self.last = now;
        let at = self.last.at.saturating_sub(self.start).as_secs_f64();
        self.record.series.push(Sample { at, providers, entries });
        Ok(())
    }

    /// Waits for `what`, at most for [`PATIENCE`].
    fn wait_for(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, EngineError>,
    ) -> Result<(), EngineError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A daemon that does not answer yet may do so later.
            let last = is_so(self);
            if matches!(last, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let why = last.err().map_or(String::new(), |e| format!(": {e}"));
                return Err(EngineError::Unfit(format!(
                    "waited {} s for {what}, in vain{why}",
                    PATIENCE.as_secs()
                )));
            }
            self.pause(TICK)?;
        }
    }

    fn read_tables(&self) -> Result<(Tables, bool), EngineError> {
        let (mut tables, mut same) = (Tables::new(), true);
        for provider in self.names() {
            let best = self.reader.best(&provider)?;
            same &= best == self.reader.kernel(&provider)?;
            let named = best.into_iter().map(|(p, entry)| (p.to_string(), entry));
            tables.insert(provider, named.collect());
        }
        Ok((tables, same))
    }

    /// The providers' tables, once their kernels have them too.
    fn settled(&mut self) -> Result<Tables, EngineError> {
        let mut last = Tables::new();
        self.wait_for("the kernels' tables to follow BIRD's", |stage| {
            let (tables, same) = stage.read_tables()?;
            // Twice the same: an update may come in several messages.
            let rest = same && tables == last;
            last = tables;
            Ok(rest)
        })?;
        self.tables = last.clone();
        Ok(last)
    }

    /// The same, which are waited for until they are `wanted`; what they are if they do not become so.
    fn wait_for_tables(&mut self, wanted: &Tables) -> Result<Tables, EngineError> {
        let came = self.wait_for("tables", |stage| {
            let (tables, same) = stage.read_tables()?;
            Ok(same && tables == *wanted)
        });
        match came {
            Ok(()) => Ok(wanted.clone()),
            Err(EngineError::Unfit(_)) => self.settled(),
            Err(e) => Err(e),
        }
    }

    fn in_one_place(&self) -> (bool, String) {
        let mut all: Vec<&String> = self.record.first.values().flat_map(BTreeMap::values).collect();
        all.sort();
        all.dedup();
        (all.len() == 1, all.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", "))
    }

    fn start_traffic(&mut self) -> Result<(), EngineError> {
        let Reader { dir, blueprint, built, .. } = self.reader;
        for end in 0..2 {
            traffic::start(end, dir, blueprint, built, &mut self.processes)?;
            self.wait_for("the traffic programs", |stage| Ok(stage.processes.are_ready()))?;
        }
        traffic::begin(&mut self.processes)?;
        self.last = self.meter.read()?;
        self.start = self.last.at;
        self.record.series.clear();
        Ok(())
    }

    fn measure(&mut self, time: Duration) -> Result<Throughput, EngineError> {
        let first = self.meter.read()?;
        self.pause(time)?;
        let rates = Rates::between(&first, &self.meter.read()?);
        let mut arrived: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (session, rates) in self.reader.blueprint.sessions.iter().zip(&rates.arrived) {
            let sum: f64 = rates.iter().map(|r| r.as_mbps_f64()).sum();
            let provider = self.reader.blueprint.senders[session.provider].name.clone();
            arrived.entry(provider).or_default().insert(session.router.clone(), sum);
        }
        Ok(Throughput {
            seconds: rates.seconds,
            providers: self.delivered(&rates),
            entries: self.uplinks(&rates),
            arrived,
        })
    }

    fn delivered(&self, rates: &Rates) -> BTreeMap<String, f64> {
        let rates = rates.delivered.iter().map(|r| r.as_mbps_f64());
        self.names().into_iter().zip(rates).collect()
    }

    /// What each entry's links into the network carry.
    fn uplinks(&self, rates: &Rates) -> BTreeMap<String, f64> {
        let mut out = BTreeMap::new();
        for entry in &self.record.entries {
            let from = |link: &forebay_plan::topology::LinkId| {
                self.network.router(self.network.topology.link(*link).from) == entry
            };
            let own = rates.links.iter().filter(|(link, _)| from(link));
            out.insert(entry.clone(), own.map(|(_, rate)| rate.as_mbps_f64()).sum());
        }
        out
    }

    fn start_controller(&mut self, on_death: OnDeath) -> Result<(), EngineError> {
        let dir = self.files.0.to_string_lossy().into_owned();
        let gobgp = self.reader.programs.gobgp.to_string_lossy().into_owned();
        let args =
            ["plan", "controller", "--dir", &dir, "--gobgp", &gobgp, "--on-death", on_death.name()];
        let namespace = self.reader.built.open(OPS)?;
        self.processes.start(self.reader.dir, CONTROLLER, Kind::Daemon, namespace, args)
    }

    /// Measures and has the controller plan, until it changes nothing more.
    fn plan_until_rest(&mut self) -> Result<(), EngineError> {
        for number in 1..=MOST_ROUNDS {
            let round = self.round()?;
            if let Some(error) = &round.error {
                self.check("every round succeeds", false, error.clone());
                return Ok(());
            }
            let Round { demand_mbps, after_mbps, changes, steps, .. } = round;
            self.event(&format!(
                "round {number}: {demand_mbps:.0} Mbit/s wanted, {after_mbps:.0} expected; {changes} hints change, \
                 {steps} routes"
            ));
            if changes == 0 && steps == 0 {
                self.check("the loop comes to rest", true, format!("after {number} rounds"));
                return Ok(());
            }
            self.settled()?;
            self.pause(SETTLE)?;
        }
        self.check("the loop comes to rest", false, format!("not in {MOST_ROUNDS} rounds"));
        Ok(())
    }

    /// One round: measure, tell the controller, and wait until it has planned and announced.
    fn round(&mut self) -> Result<Round, EngineError> {
        let known = self.rounds()?.len();
        self.measure_demands()?;
        self.wait_for("the controller", |stage| Ok(stage.rounds()?.len() > known))?;
        let round = self.rounds()?.pop().unwrap_or_default();
        self.record.rounds.push(round.clone());
        Ok(round)
    }

    fn measure_demands(&mut self) -> Result<(), EngineError> {
        let first = self.meter.read()?;
        self.pause(WINDOW)?;
        let rates = Rates::between(&first, &self.meter.read()?);
        let measured = rates.measured(self.network, self.reader.blueprint);
        let carried = rates.carried(self.network);
        let demands = estimate::demands(&measured, &carried, &estimate::Config::default());
        let estimated = forebay_plan::network::Network { demands, ..measured };
        controller::put(&self.files.demands(), &estimate::csv(&estimated))
    }

    fn rounds(&self) -> Result<Vec<Round>, EngineError> {
        let text = fs::read_to_string(self.files.rounds()).unwrap_or_default();
        // The last line may be under way.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let read = |line| {
            serde_json::from_str(line).map_err(|e| EngineError::Unfit(format!("a round: {e}")))
        };
        whole.map(read).collect()
    }

    /// The hints in force.
    fn hints(&self) -> Result<Hints, EngineError> {
        let path = self.files.hints();
        let text = fs::read_to_string(&path).unwrap_or_default();
        hints::read(&path, &text).map_err(|e| EngineError::Unfit(e.to_string()))
    }

    /// Kills the last provider's daemon and starts it again, several times. The others are not to notice.
    fn flap(&mut self) -> Result<(), EngineError> {
        let Reader { dir, programs, blueprint, built, .. } = self.reader;
        let Some((flapping, others)) = blueprint.senders.split_last() else { return Ok(()) };
        let names: Vec<_> = others.iter().map(|s| s.name.clone()).collect();
        let see = |stage: &Self| -> Result<Vec<_>, EngineError> {
            names.iter().map(|p| Ok((stage.reader.best(p)?, stage.reader.sessions(p)?))).collect()
        };
        let before = see(self)?;
        let wanted = self.record.hinted.clone();
        let (mut disturbed, mut returned) = (Vec::new(), true);
        self.event(&format!("the sessions of {} flap", flapping.name));
        for number in 1..=FLAPS {
            self.processes.kill(&bird_name(&flapping.name))?;
            self.pause(Duration::from_millis(500))?;
            let down = see(self)?;
            daemons::start_bird(dir, programs, blueprint, built, flapping, &mut self.processes)?;
            returned &= self.wait_for_tables(&wanted)? == wanted;
            let up = see(self)?;
            for (when, now) in [("while down", down), ("when up again", up)] {
                for ((name, (table, sessions)), (was, before)) in names.iter().zip(now).zip(&before)
                {
                    if table != *was {
                        disturbed.push(format!("{name}'s table, {when} after flap {number}"));
                    }
                    if !tables::uninterrupted(before, &sessions) {
                        disturbed.push(format!("{name}'s sessions, {when} after flap {number}"));
                    }
                }
            }
        }
        // Its connections have waited for the way to come back, the longer the longer it took.
        self.pause(SETTLE * 2)?;
        let undisturbed = disturbed.is_empty();
        let seen = match undisturbed {
            true => format!("{FLAPS} times; {}", names.join(", ")),
            false => format!("others: {}", disturbed.join(", ")),
        };
        self.check(
            "a provider that flaps leaves the others' tables and sessions alone",
            undisturbed,
            seen,
        );
        self.check("and has its hints again when it is back", returned, flapping.name.clone());
        Ok(())
    }

    /// Kills the controller while it plans, twice: its announcements stay, and are taken back, as configured.
    fn kill_controller(&mut self) -> Result<(), EngineError> {
        let hinted = self.record.hinted.clone();
        self.kill_worker("the controller is killed; announcements stay")?;
        self.pause(SETTLE)?;
        let stay = self.settled()?;
        let seen = difference(&hinted, &stay);
        self.check(
            "kill -9 of the controller, told to keep, leaves the last good announcements",
            stay == hinted,
            seen,
        );

        self.start_controller(OnDeath::Withdraw)?;
        self.wait_for("the controller", |stage| Ok(stage.worker().is_some()))?;
        self.kill_worker("the controller is killed; announcements are taken back")?;
        let first = self.record.first.clone();
        let back = self.wait_for_tables(&first)?;
        let seen = difference(&first, &back);
        self.check(
            "kill -9 of the controller, told to withdraw, gives the first tables back",
            back == first,
            seen,
        );

        // What is in force is announced again by whoever comes next; the worker may have made a plan of its own before.
        controller_command(
            &self.reader,
            |files, gobgp| controller::announce(files, gobgp).map(drop),
            &self.files,
        )?;
        let asked = tables::asked(&self.hints()?, &first);
        let again = self.wait_for_tables(&asked)?;
        let seen = difference(&asked, &again);
        self.check(
            "and the next announces what is in force again",
            again == asked && again != first,
            seen,
        );
        Ok(())
    }

    fn worker(&self) -> Option<libc::pid_t> {
        fs::read_to_string(self.files.pid()).ok()?.trim().parse().ok()
    }

    /// Gives the worker something to do, kills it, and waits until its guard has done what it does then.
    fn kill_worker(&mut self, what: &str) -> Result<(), EngineError> {
        let Some(pid) = self.worker() else {
            return Err(EngineError::Unfit("the controller has no process".to_owned()));
        };
        self.processes.may_end(CONTROLLER);
        self.measure_demands()?;
        // It looks ten times a second, and a round takes longer.
        self.pause(Duration::from_millis(120))?;
        self.event(what);
        // SAFETY: takes two integers; the guard waits for its child as long as it lives, and noted the id of this one.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        let _ = fs::remove_file(self.files.pid());
        self.wait_for("the controller's guard", |stage| Ok(stage.processes.has_ended(CONTROLLER)))
    }
}

/// The hints as the record has them.
fn in_words(hints: &Hints) -> Vec<HintSeen> {
    let all = hints.neighbours.iter().flat_map(|n| n.hints.iter().map(move |h| (n, h)));
    let seen = |(n, h): (&hints::Neighbour, &hints::Hint)| HintSeen {
        neighbour: n.name.clone(),
        prefix: h.prefix.to_string(),
        entry: h.entry.clone(),
        method: h.method.map_or("none".to_owned(), |m| m.to_string()),
    };
    all.map(seen).collect()
}

/// Runs one of the controller's commands where the controller is.
fn controller_command(
    reader: &Reader<'_>,
    command: impl FnOnce(&Files, &std::path::Path) -> Result<(), EngineError> + Send,
    files: &Files,
) -> Result<(), EngineError> {
    let namespace = reader.built.open(OPS)?;
    let mut result = Ok(());
    exec::in_namespace(&namespace, || {
        result = command(files, &reader.programs.gobgp);
        Ok(())
    })
    .map_err(EngineError::io("entering a namespace"))?;
    result
}

/// How many prefixes go elsewhere.
fn difference(wanted: &Tables, seen: &Tables) -> String {
    let count = wanted
        .iter()
        .map(|(provider, table)| {
            let other = seen.get(provider);
            let differs = |p: &&String| other.and_then(|o| o.get(*p)) != table.get(*p);
            let more = other.map_or(0, |o| o.keys().filter(|p| !table.contains_key(*p)).count());
            table.keys().filter(differs).count() + more
        })
        .sum::<usize>();
    match count {
        0 => "the same".to_owned(),
        n => format!("{n} prefixes differ"),
    }
}

/// The load of this machine over the last minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}
