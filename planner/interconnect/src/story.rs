//! The story: congest one entry, measure, hint, measure again, withdraw the hints; optionally with
//! faults.

mod faults;
mod inside;
mod isps;
mod neighbours;
mod rounds;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use forebay_config::ConfigError;
use forebay_plan::hints::{self, Hints};
use forebay_system::clock;
use forebay_units::Nanos;

pub use isps::tell_of_two;

use super::blueprint::Blueprint;
use super::build::Built;
use super::daemons::{self, Programs};
use super::files::{ALONE, Files, Network};
use super::igp;
use super::meter::{Meter, Rates, Reading};
use super::record::{Check, HintSeen, Record, SCHEMA, Sample, Tables, Throughput};
use super::segments::{self, Segments};
use super::service::Service;
use super::tables::{self, Reader};
use super::traffic;
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_lab::netns;
use forebay_lab::netns::process::Processes;
use forebay_lab::netns::run_dir::RunDir;

/// The time limit for sessions to come up and tables to settle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The interval of checks while waiting.
const TICK: Duration = Duration::from_millis(100);
/// The interval of throughput samples.
const SAMPLE: Duration = Duration::from_millis(500);
/// The time that TCP has to adapt its rate after a change.
const SETTLE: Duration = Duration::from_secs(2);
/// The factor by which throughput must rise.
const GAIN: f64 = 1.5;
/// The time limits of the whole story in seconds: without and with faults.
const MAX_SECONDS: [f64; 2] = [120.0, 180.0];

/// The options of the demonstration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether to inject faults: flapping sessions, a provider whose requests are refused, a
    /// service that is killed.
    pub faults: bool,
    /// Whether to measure for a shorter time.
    pub quick: bool,
}

/// Runs the story on this machine, which takes about a minute, and removes everything again. `say`
/// gets the progress.
///
/// # Errors
/// Without root or the daemons, on an interrupt, or if anything cannot be set up. A wrong outcome
/// is not an error but a [`Check`] that does not hold.
pub fn tell(
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> Result<Record, EngineError> {
    netns::usable()?;
    let programs = Programs::find()?;
    let network = Network::of(&ALONE).map_err(unread)?;
    let blueprint = Blueprint::of(&network)?;
    let begin = Instant::now();
    let say = RefCell::new(say);
    let say = |what: &str| (say.borrow_mut())(what);
    // Values are dropped in the opposite order, also on an error, an interrupt or a panic:
    // counters, processes, namespaces, directory.
    let dir = RunDir::create()?;
    let files = Files(dir.file("."));
    files.write(&ALONE)?;
    say("making namespaces");
    let built = Built::of(&dir, &blueprint)?;
    let mut processes = Processes::new();
    say("starting BGP daemons");
    daemons::start(&dir, &programs, &network, &blueprint, &built, &mut processes)?;
    for sender in &blueprint.senders {
        daemons::start_bird(&dir, &programs, &blueprint, &built, sender, &mut processes)?;
    }
    let segments = segments::all(&network, &blueprint);
    let can_steer = built.add_segments(&blueprint, &segments)?;
    igp::start(&dir, &programs, &network, &blueprint, &built, &segments, &mut processes)?;
    let processes = RefCell::new(processes);
    let reader = Reader { dir: &dir, programs: &programs, blueprint: &blueprint, built: &built };
    let world = World { processes: &processes, interrupt, say: &say };
    let mut stage = Stage::new(world, reader, &network, files)?;
    (stage.segments, stage.can_steer) = (segments, can_steer.is_ok());
    if let Err(why) = can_steer {
        stage.event(&format!("paths inside are not carried out: {why}"));
    }
    stage.tell(options)?;
    stage.record.seconds = begin.elapsed().as_secs_f64();
    stage.record.load = load();
    let seconds = stage.record.seconds;
    let (most, what) = match options.faults {
        false => (MAX_SECONDS[0], "it takes less than two minutes"),
        true => (MAX_SECONDS[1], "it takes less than three minutes, with faults"),
    };
    stage.check(what, seconds < most, format!("{seconds:.0} s"));
    Ok(stage.record)
}

fn unread(error: ConfigError) -> EngineError {
    EngineError::Unfit(error.to_string())
}

/// What the stories of several ISPs share.
#[derive(Clone, Copy)]
struct World<'a> {
    processes: &'a RefCell<Processes>,
    interrupt: &'a Interrupt,
    say: &'a dyn Fn(&str),
}

/// The state of a running story of one ISP.
struct Stage<'a> {
    /// The meter is dropped first, so that nothing is counted during the cleanup.
    meter: Meter,
    processes: &'a RefCell<Processes>,
    reader: Reader<'a>,
    network: &'a Network,
    files: Files,
    service: Service,
    segments: Vec<Segments>,
    /// Whether this kernel can carry out paths.
    can_steer: bool,
    start: Nanos,
    last: Reading,
    interrupt: &'a Interrupt,
    say: &'a dyn Fn(&str),
    record: Record,
    /// The last reading of the meter.
    tables: Tables,
}

impl<'a> Stage<'a> {
    /// Creates the story of an ISP whose namespaces and daemons are there, without paths inside.
    fn new(
        world: World<'a>,
        reader: Reader<'a>,
        network: &'a Network,
        files: Files,
    ) -> Result<Self, EngineError> {
        let World { processes, interrupt, say } = world;
        let service = Service::new(network, reader.blueprint, reader.built)?;
        let meter = Meter::attach(network, reader.blueprint, reader.built)?;
        let last = meter.read()?;
        let mut stage = Self {
            reader,
            network,
            files,
            service,
            segments: Vec::new(),
            can_steer: false,
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
        Ok(stage)
    }

    fn tell(&mut self, options: &Options) -> Result<(), EngineError> {
        let measured = Duration::from_secs(if options.quick { 3 } else { 8 });
        (self.say)("waiting for sessions");
        self.wait_for_sessions()?;
        self.wait_for("the IGP", |stage| {
            igp::is_complete(stage.reader.blueprint, stage.reader.built, &stage.segments)
        })?;
        self.record.first = self.settled()?;
        let (one, seen) = self.in_one_place();
        self.check("at first all traffic comes in at one entry", one, seen);

        (self.say)("starting traffic");
        self.start_traffic()?;
        self.pause(SETTLE * 2)?;
        (self.say)("measuring, without hints");
        let before = self.measure_links(measured)?;
        self.record.before = before.throughput.clone();

        self.plan_until_rest()?;
        self.record.hinted = self.settled()?;
        let hints = self.hints()?;
        self.record.hints = in_words(&hints);
        let asked = tables::asked(&hints, &self.record.first);
        let differs = difference(&asked, &self.record.hinted);
        self.check("the tables are what the hints ask for", asked == self.record.hinted, differs);
        self.ask_as_neighbours(&hints)?;
        self.pause(SETTLE)?;
        (self.say)("measuring, with hints");
        let after = self.measure_links(measured)?;
        self.record.after = after.throughput.clone();
        let moved = self.record.first.iter().all(|(p, t)| self.record.hinted.get(p) != Some(t));
        self.check(
            "both providers' tables move",
            moved,
            format!("{} hints", self.record.hints.len()),
        );
        let rates = (self.record.before.total(), self.record.after.total());
        let seen = format!("{:.1} to {:.1} Mbit/s", rates.0, rates.1);
        self.check("throughput rises by half at least", rates.1 >= GAIN * rates.0, seen);
        self.steer(measured, &before, &after)?;

        if options.faults {
            self.lose_a_core_router()?;
            self.kill_a_client()?;
            self.flap()?;
            self.misbehave()?;
            self.kill_service()?;
        }
        self.avoid()?;
        self.stop_service()?;
        self.all_paths_are_gone()?;
        self.pause(SETTLE * 2)
    }

    /// Waits for all sessions of the providers, and for their routes to the users.
    fn wait_for_sessions(&mut self) -> Result<(), EngineError> {
        let all = self.network.prefixes.len();
        self.wait_for("the providers' tables to fill", |stage| {
            let full = |p: &String| {
                let sessions = stage.reader.sessions(p)?;
                let up = sessions.iter().all(|s| s.established);
                Ok(up && stage.reader.kernel(p)?.len() == all)
            };
            stage.names().iter().try_fold(true, |so_far, p| Ok(so_far && full(p)?))
        })
    }

    /// Returns the names of the providers.
    fn names(&self) -> Vec<String> {
        self.reader.blueprint.senders.iter().map(|s| s.name.clone()).collect()
    }

    /// Returns the routers with sessions, in the order of the topology.
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
        self.note(what);
    }

    /// Adds an event to the record without telling it.
    fn note(&mut self, what: &str) {
        let at = clock::now().saturating_sub(self.start).as_secs_f64();
        self.record.events.push((at, what.to_owned()));
    }

    /// Waits for some time, and samples the throughput meanwhile.
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
            self.processes.borrow_mut().wait(TICK.min(end - now))?;
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

    /// Waits for `what`, at most for [`SETTLE_TIMEOUT`].
    fn wait_for(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, EngineError>,
    ) -> Result<(), EngineError> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
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
                    SETTLE_TIMEOUT.as_secs()
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

    /// Returns the providers' tables when their kernels have the same.
    fn settled(&mut self) -> Result<Tables, EngineError> {
        let mut last = Tables::new();
        self.wait_for("the kernels' tables to follow BIRD's", |stage| {
            let (tables, same) = stage.read_tables()?;
            // The tables must be equal twice: an update may come in several messages.
            let rest = same && tables == last;
            last = tables;
            Ok(rest)
        })?;
        self.tables = last.clone();
        Ok(last)
    }

    /// Waits until the tables are as `wanted`, and returns them; returns the present tables if they
    /// do not become so.
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
        for end in 0..2 {
            self.start_programs(end)?;
            self.wait_for("the traffic programs", |stage| {
                Ok(stage.processes.borrow_mut().are_ready())
            })?;
        }
        traffic::begin(&mut self.processes.borrow_mut())?;
        self.traffic_begins()
    }

    /// Starts the traffic programs of one end.
    fn start_programs(&mut self, end: usize) -> Result<(), EngineError> {
        let Reader { dir, blueprint, built, .. } = self.reader;
        traffic::start(end, dir, blueprint, built, &mut self.processes.borrow_mut())
    }

    /// Starts the record of traffic.
    fn traffic_begins(&mut self) -> Result<(), EngineError> {
        self.last = self.meter.read()?;
        self.start = self.last.at;
        self.record.series.clear();
        Ok(())
    }

    fn measure(&mut self, time: Duration) -> Result<Throughput, EngineError> {
        let first = self.meter.read()?;
        self.pause(time)?;
        let rates = Rates::between(&first, &self.meter.read()?);
        Ok(self.throughput(&rates))
    }

    fn throughput(&self, rates: &Rates) -> Throughput {
        let mut arrived: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (session, rates) in self.reader.blueprint.sessions.iter().zip(&rates.arrived) {
            let sum: f64 = rates.iter().map(|r| r.as_mbps_f64()).sum();
            let provider = self.reader.blueprint.senders[session.provider].name.clone();
            arrived.entry(provider).or_default().insert(session.router.clone(), sum);
        }
        Throughput {
            seconds: rates.seconds,
            providers: self.delivered(rates),
            entries: self.uplinks(rates),
            arrived,
        }
    }

    fn delivered(&self, rates: &Rates) -> BTreeMap<String, f64> {
        let rates = rates.delivered.iter().map(|r| r.as_mbps_f64());
        self.names().into_iter().zip(rates).collect()
    }

    /// Returns the rate on each entry's links into the network.
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
}

/// Returns the hints in the form of the record.
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

/// Returns the number of prefixes with other entries, in words.
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

/// Returns the load average of this machine over the last minute.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}
