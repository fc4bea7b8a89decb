//! The story of two ISPs with five providers, of which three are connected to both. Each ISP has a
//! service, and each provider follows the hints of its ISPs through its own GoBGP.

mod faults;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::rounds::{MAX_ROUNDS, WINDOW};
use super::{
    GAIN, MAX_SECONDS, Options, SETTLE, SETTLE_TIMEOUT, Stage, World, difference, in_words, load,
    unread,
};
use crate::blueprint::{Blueprint, Reflector};
use crate::build::Built;
use crate::client::{self, Client, client_name};
use crate::daemons::{self, Programs, STATISTICS};
use crate::files::{Files, Network, TWO, put};
use crate::meter::{Rates, Reading};
use crate::record::{Check, HintSeen, Record, Round, Several, Tables, Throughput};
use crate::service::{Learns, Who};
use crate::tables::Reader;
use crate::traffic;
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_lab::netns;
use forebay_lab::netns::process::Processes;
use forebay_lab::netns::run_dir::RunDir;

/// The interval at which all tables and counters are read.
const LOOK: Duration = Duration::from_millis(400);
/// The ISP that learns its prefixes by BMP, by its place in [`TWO`].
const LEARNS: usize = 1;
/// The longest time without a message by BMP, above that between two statistics.
const BMP_TIMEOUT: Duration = STATISTICS.saturating_add(Duration::from_secs(5));
/// The time that learned routes stay after their session was cut.
const BMP_HOLD: Duration = Duration::from_secs(5);
/// A provider with the entry that it cannot use, at the ISP that learns.
const UNUSABLE: (&str, &str) = ("games", "south");
/// The least share of its throughput that a provider keeps.
const KEPT: f64 = 0.9;

/// A route of a provider through an ISP: the ISP, the provider, the prefix and the entry.
type Seen = (usize, String, String, String);

/// Runs the story of two ISPs on this machine, which takes about two minutes, and removes
/// everything again. `say` gets the progress.
///
/// # Errors
/// As [`tell`](super::tell).
pub fn tell_of_two(
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> Result<Several, EngineError> {
    netns::usable()?;
    let programs = Programs::find()?;
    let networks = TWO.iter().map(|(_, texts)| Network::of(texts)).collect::<Result<Vec<_>, _>>();
    let networks = networks.map_err(unread)?;
    let mut names: Vec<&str> = Vec::new();
    for provider in networks.iter().flat_map(|network| &network.providers) {
        if !names.contains(&provider.name.as_str()) {
            names.push(&provider.name);
        }
    }
    let numbered = (0..).zip(&networks);
    let blueprints = numbered.map(|(at, network)| Blueprint::numbered(network, at, &names));
    let mut blueprints = blueprints.collect::<Result<Vec<_>, _>>()?;
    blueprints.iter_mut().for_each(Blueprint::connect_clients);
    let users = networks[LEARNS].prefixes.values().map(|users| users.router).next();
    let users = users.ok_or_else(|| EngineError::Unfit("an ISP has no users".to_owned()))?;
    let reflector = blueprints[LEARNS].connect_reflector(networks[LEARNS].router(users));
    let begin = Instant::now();
    let say = RefCell::new(say);
    let say = |what: &str| (say.borrow_mut())(what);
    // Values are dropped in the opposite order, as in the story of one ISP.
    let dir = RunDir::create()?;
    say("making namespaces");
    let all = Blueprint::union(&blueprints);
    let built = Built::of(&dir, &all)?;
    let mut processes = Processes::new();
    say("starting BGP daemons");
    for (network, blueprint) in networks.iter().zip(&blueprints) {
        daemons::start(&dir, &programs, network, blueprint, &built, &mut processes)?;
    }
    for sender in &all.senders {
        daemons::start_bird_with_own(&dir, &programs, &blueprints, &built, sender, &mut processes)?;
        daemons::start_own(&dir, &programs, &built, sender, &mut processes)?;
    }
    let processes = RefCell::new(processes);
    let world = World { processes: &processes, interrupt, say: &say };
    let mut stages = Vec::new();
    for ((name, texts), (network, blueprint)) in TWO.iter().zip(networks.iter().zip(&blueprints)) {
        let reader = Reader { dir: &dir, programs: &programs, blueprint, built: &built };
        let files = Files(dir.file(name));
        files.write(texts)?;
        stages.push(Stage::new(world, reader, network, files)?);
    }
    let mut world = TwoIsps {
        stages,
        reflector,
        seen: BTreeSet::new(),
        planned: BTreeSet::new(),
        checks: Vec::new(),
    };
    world.tell(options)?;
    let seconds = begin.elapsed().as_secs_f64();
    let (most, what) = match options.faults {
        false => (MAX_SECONDS[0], "it takes less than two minutes"),
        true => (MAX_SECONDS[1], "it takes less than three minutes, with faults"),
    };
    world.check(what, seconds < most, format!("{seconds:.0} s"));
    let records = world.stages.into_iter().map(|stage| stage.record);
    let isps = TWO.iter().map(|(name, _)| (*name).to_owned()).zip(records).collect();
    Ok(Several { seconds, load: load(), isps, checks: world.checks, ..Several::default() })
}

/// The state of a running story of two ISPs.
struct TwoIsps<'a> {
    /// The stories of the ISPs, in the order of [`TWO`].
    stages: Vec<Stage<'a>>,
    reflector: Reflector,
    /// All routes that providers had.
    seen: BTreeSet<Seen>,
    /// The routes that hints asked for.
    planned: BTreeSet<Seen>,
    checks: Vec<Check>,
}

impl TwoIsps<'_> {
    fn tell(&mut self, options: &Options) -> Result<(), EngineError> {
        let measured = Duration::from_secs(if options.quick { 3 } else { 8 });
        for stage in &mut self.stages {
            (stage.say)("waiting for sessions");
            stage.wait_for_sessions()?;
        }
        for stage in &mut self.stages {
            stage.record.first = stage.settled()?;
            let (one, seen) = stage.in_one_place();
            stage.check("at first all traffic comes in at one entry", one, seen);
        }
        self.start_traffic()?;
        self.pause(SETTLE * 2)?;
        (self.stages[0].say)("measuring, without hints");
        let before = self.measure(measured)?;
        for (stage, before) in self.stages.iter_mut().zip(before) {
            stage.record.before = before;
        }
        self.plan_until_rest()?;
        self.check_hints()?;
        self.pause(SETTLE)?;
        (self.stages[0].say)("measuring, with hints");
        let after = self.measure(measured)?;
        for (stage, after) in self.stages.iter_mut().zip(after) {
            stage.record.after = after;
        }
        self.check_throughput();
        if options.faults {
            self.kill_a_client()?;
            self.kill_a_service()?;
            self.stick_a_session()?;
        }
        for at in 0..self.stages.len() {
            self.leave(at)?;
        }
        self.pause(SETTLE)?;
        self.check_leftovers()
    }

    fn check(&mut self, what: &str, holds: bool, seen: String) {
        self.checks.push(Check { what: what.to_owned(), holds, seen });
    }

    fn event(&mut self, what: &str) {
        // Each ISP's record has all events, for its picture.
        for (number, stage) in self.stages.iter_mut().enumerate() {
            match number {
                0 => stage.event(what),
                _ => stage.note(what),
            }
        }
    }

    /// Waits for some time. All counters and tables are read meanwhile.
    fn pause(&mut self, time: Duration) -> Result<(), EngineError> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.stages[0].pause(left.min(LOOK))?;
            for (at, stage) in self.stages.iter_mut().enumerate() {
                stage.sample()?;
                for provider in stage.names() {
                    let routes = stage.reader.kernel(&provider)?.into_iter();
                    let seen =
                        routes.map(|(p, entry)| (at, provider.clone(), p.to_string(), entry));
                    self.seen.extend(seen);
                }
            }
            if left <= LOOK {
                return Ok(());
            }
        }
    }

    /// Waits until `is_so`, at most for `most`. Returns the time that it took, if it came.
    fn wait_for(
        &mut self,
        most: Duration,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, EngineError>,
    ) -> Result<Option<Duration>, EngineError> {
        let begin = Instant::now();
        loop {
            if is_so(self)? {
                return Ok(Some(begin.elapsed()));
            }
            if begin.elapsed() > most {
                return Ok(None);
            }
            self.pause(LOOK / 2)?;
        }
    }

    /// Waits until the tables of an ISP's providers are these. Returns the time that it took, if
    /// they became so.
    fn wait_for_tables(
        &mut self,
        at: usize,
        wanted: &Tables,
    ) -> Result<Option<Duration>, EngineError> {
        self.wait_for(SETTLE_TIMEOUT, |isps| {
            let (tables, same) = isps.stages[at].read_tables()?;
            Ok(same && tables == *wanted)
        })
    }

    fn start_traffic(&mut self) -> Result<(), EngineError> {
        (self.stages[0].say)("starting traffic");
        for end in 0..2 {
            for stage in &mut self.stages {
                stage.start_programs(end)?;
            }
            self.stages[0].wait_for("the traffic programs", |stage| {
                Ok(stage.processes.borrow_mut().are_ready())
            })?;
        }
        traffic::begin(&mut self.stages[0].processes.borrow_mut())?;
        self.stages.iter_mut().try_for_each(Stage::traffic_begins)
    }

    /// Measures and requests rounds of both services until nothing changes.
    fn plan_until_rest(&mut self) -> Result<(), EngineError> {
        for number in 1..=MAX_ROUNDS {
            let first = self.readings()?;
            self.pause(WINDOW)?;
            for (stage, first) in self.stages.iter_mut().zip(&first) {
                stage.write_demands(first)?;
            }
            if number == 1 {
                self.start_services()?;
            }
            let mut is_rest = number > 1;
            for (at, (name, _)) in TWO.iter().enumerate() {
                let round = self.round(at)?;
                if let Some(error) = &round.error {
                    self.check("every round succeeds", false, format!("{name}: {error}"));
                    return Ok(());
                }
                let hints = self.hints_of(at)?;
                is_rest &= hints == self.stages[at].record.hints;
                self.event(&format!(
                    "{name}: round {number}: {:.0} Mbit/s wanted, {:.0} expected; {} hints",
                    round.demand_mbps,
                    round.after_mbps,
                    hints.len()
                ));
                let record = &mut self.stages[at].record;
                record.rounds.push(round);
                record.hints = hints;
            }
            if number == 1 {
                self.start_clients()?;
            }
            if is_rest {
                self.check("both loops come to rest", true, format!("after {number} rounds"));
                return Ok(());
            }
            for at in 0..self.stages.len() {
                self.wait_for_tables(at, &self.asked(at))?;
            }
            self.pause(SETTLE)?;
        }
        self.check("both loops come to rest", false, format!("not in {MAX_ROUNDS} rounds"));
        Ok(())
    }

    fn readings(&self) -> Result<Vec<Reading>, EngineError> {
        self.stages.iter().map(|stage| stage.meter.read()).collect()
    }

    /// Measures the throughput of both ISPs.
    fn measure(&mut self, time: Duration) -> Result<Vec<Throughput>, EngineError> {
        let first = self.readings()?;
        self.pause(time)?;
        let both = self.stages.iter().zip(&first);
        let rates = |(stage, first): (&Stage<'_>, &Reading)| {
            Ok(stage.throughput(&Rates::between(first, &stage.meter.read()?)))
        };
        both.map(rates).collect()
    }

    /// Starts both services, and what reports routes to the one that learns them.
    fn start_services(&mut self) -> Result<(), EngineError> {
        for (at, stage) in self.stages.iter_mut().enumerate() {
            if at == LEARNS {
                stage.service.learns = Some(Learns { silence: BMP_TIMEOUT, hold: BMP_HOLD });
                let Reflector { router, theirs, theirs_v6, .. } = &self.reflector;
                let hops = format!("address,router\n{theirs},{router}\n{theirs_v6},{router}\n");
                put(&stage.files.next_hops(), &hops)?;
            }
            stage.start_service(None)?;
        }
        let stage = &self.stages[LEARNS];
        let Reader { dir, programs, blueprint, built } = &stage.reader;
        let processes = &mut stage.processes.borrow_mut();
        let from = (*blueprint, &self.reflector);
        daemons::start_reflector(dir, programs, stage.network, from, built, processes)
    }

    /// Requests a round of an ISP's service, again and again until there is one.
    fn round(&mut self, at: usize) -> Result<Round, EngineError> {
        let mut last = Round::default();
        self.wait_for(SETTLE_TIMEOUT, |isps| {
            last = match isps.stages[at].next_round() {
                Ok(round) => round,
                Err(e) => Round { error: Some(e.to_string()), ..Round::default() },
            };
            Ok(last.error.is_none())
        })?;
        Ok(last)
    }

    /// Returns the hints in force of an ISP, and takes note of what they ask for.
    fn hints_of(&mut self, at: usize) -> Result<Vec<HintSeen>, EngineError> {
        let mut hints = in_words(&self.stages[at].hints()?);
        for hint in &mut hints {
            hint.method = "its client".to_owned();
        }
        let asked = hints.iter();
        let asked = asked.map(|h| (at, h.neighbour.clone(), h.prefix.clone(), h.entry.clone()));
        self.planned.extend(asked);
        Ok(hints)
    }

    /// Returns the tables that the last hints of an ISP ask for, without those for an entry that
    /// cannot be used.
    fn asked(&self, at: usize) -> Tables {
        let record = &self.stages[at].record;
        asked(&record.first, &record.hints, |h| (at, h) != (LEARNS, UNUSABLE))
    }

    fn start_clients(&mut self) -> Result<(), EngineError> {
        self.event("the providers' clients start");
        for (at, stage) in self.stages.iter().enumerate() {
            let Reader { dir, programs, blueprint, built } = &stage.reader;
            let accept: Vec<_> = stage.network.prefixes.keys().copied().collect();
            for provider in stage.names() {
                let unusable = (at, provider.as_str()) == (LEARNS, UNUSABLE.0);
                let client = Client {
                    provider: &provider,
                    token: stage.service.token_of(&provider),
                    accept: &accept,
                    unusable: unusable.then_some(UNUSABLE.1),
                };
                client::configure(dir, programs, blueprint, &client)?;
                let processes = &mut stage.processes.borrow_mut();
                client::start(dir, built, blueprint, &provider, processes)?;
            }
        }
        Ok(())
    }

    /// Checks that the providers follow the hints, and nothing else.
    fn check_hints(&mut self) -> Result<(), EngineError> {
        for at in 0..self.stages.len() {
            let wanted = self.asked(at);
            self.wait_for_tables(at, &wanted)?;
            let stage = &mut self.stages[at];
            stage.record.hinted = stage.settled()?;
            let seen = difference(&wanted, &stage.record.hinted);
            let holds = wanted == stage.record.hinted;
            stage.check(
                "the tables are what this ISP's hints ask for, and nothing else",
                holds,
                seen,
            );
            let Record { first, hinted, .. } = &stage.record;
            let stays = |p: &String| first.get(p) == hinted.get(p);
            let still: Vec<_> = first.keys().filter(|p| stays(p)).cloned().collect();
            let can = |p: &String| (at, p.as_str()) != (LEARNS, UNUSABLE.0);
            let holds = !still.iter().any(can);
            let seen = match still.is_empty() {
                true => "all".to_owned(),
                false => format!("all but {}", still.join(", ")),
            };
            stage.check("every provider that can use another entry moves", holds, seen);
        }
        let stage = &mut self.stages[LEARNS];
        let reply = stage.service.ask(Who::Provider(UNUSABLE.0), "GET", "/v1/program", "")?;
        let taken = reply.body["state"] == "taken";
        let told = |h: &HintSeen| (h.neighbour.as_str(), h.entry.as_str()) == UNUSABLE;
        let hinted = stage.record.hints.iter().filter(|h| told(h)).count();
        stage.check(
            "an entry that a provider cannot use is reported, and no hint names it",
            taken && hinted == 0,
            format!("{} at {}: {}, {hinted} hints", UNUSABLE.0, UNUSABLE.1, reply.body["state"]),
        );
        Ok(())
    }

    fn check_throughput(&mut self) {
        for (at, stage) in self.stages.iter_mut().enumerate() {
            let Record { before, after, .. } = &stage.record;
            let (old, new) = (before.total(), after.total());
            let share = |(p, old): (&String, &f64)| {
                (after.providers.get(p).copied().unwrap_or(0.0) / old.max(1e-9), p.clone())
            };
            let least = before.providers.iter().map(share).min_by(|a, b| a.0.total_cmp(&b.0));
            let (least, whose) = least.unwrap_or_default();
            let seen = format!("{old:.1} to {new:.1} Mbit/s");
            stage.check("throughput rises by half at least", new >= GAIN * old, seen);
            let seen = format!("{whose} at {}: {:.0} % of before", TWO[at].0, least * 100.0);
            stage.check("no provider loses more than a tenth", least >= KEPT, seen);
        }
    }

    /// Returns the tables of all providers, by ISP.
    fn all_tables(&self) -> Result<Vec<Tables>, EngineError> {
        self.stages.iter().map(|stage| Ok(stage.read_tables()?.0)).collect()
    }

    /// Has the clients of an ISP take their routes back, and stops its service. The other ISP's
    /// traffic must not move.
    fn leave(&mut self, at: usize) -> Result<(), EngineError> {
        let mut wanted = self.all_tables()?;
        self.event(&format!("{}: the clients take all back, and the service stops", TWO[at].0));
        let stage = &mut self.stages[at];
        for provider in stage.names() {
            let Reader { dir, blueprint, built, .. } = stage.reader;
            stage.end_process(&client_name(&provider, blueprint))?;
            client::withdraw(dir, built, blueprint, &provider)?;
        }
        let ended = stage.end_process(&stage.service_name())?;
        let first = stage.record.first.clone();
        self.wait_for_tables(at, &first)?;
        let stage = &mut self.stages[at];
        stage.record.withdrawn = stage.settled()?;
        let holds = ended.success() && stage.record.withdrawn == first;
        let seen = difference(&first, &stage.record.withdrawn);
        stage.check("taking the hints back gives the first tables back", holds, seen);
        wanted[at] = first;
        let now = self.all_tables()?;
        let seen = TWO.iter().zip(wanted.iter().zip(&now)).filter(|(_, (a, b))| a != b);
        let seen: Vec<_> = seen.map(|((name, _), _)| *name).collect();
        let what = format!("that moves nothing but the traffic to {}", TWO[at].0);
        self.check(&what, seen.is_empty(), format!("others that moved: {}", words(&seen)));
        Ok(())
    }

    /// Checks that nothing was ever announced that no hint asked for, and that nothing is left.
    fn check_leftovers(&mut self) -> Result<(), EngineError> {
        let first = |(at, provider, prefix, entry): &&Seen| {
            let table = self.stages[*at].record.first.get(provider);
            table.and_then(|t| t.get(prefix)) == Some(entry)
        };
        let unplanned: Vec<_> = self
            .seen
            .iter()
            .filter(|route| !first(route) && !self.planned.contains(*route))
            .map(|(_, provider, prefix, entry)| format!("{provider}: {prefix} at {entry}"))
            .collect();
        let count = self.seen.iter().filter(|route| !first(route)).count();
        let holds = unplanned.is_empty() && count > 0;
        let seen = match unplanned.is_empty() {
            true => format!("{count} routes beside the first ones"),
            false => unplanned.join(", "),
        };
        self.check("no provider ever had a route that no hint asked for", holds, seen);
        let mut left = Vec::new();
        let names: BTreeSet<String> = self.stages.iter().flat_map(Stage::names).collect();
        let Reader { programs, built, .. } = self.stages[0].reader;
        for provider in &names {
            let own = client::own_routes(programs, built, provider)?;
            left.extend(own.into_iter().map(|prefix| format!("{provider}: {prefix}")));
        }
        let left: Vec<_> = left.iter().map(String::as_str).collect();
        let holds = left.is_empty();
        self.check("and no route is left in a provider's GoBGP", holds, words(&left));
        Ok(())
    }
}

/// Returns the tables that hints ask of clients, where `first` are the tables without hints.
fn asked(first: &Tables, hints: &[HintSeen], is_usable: impl Fn((&str, &str)) -> bool) -> Tables {
    let mut tables = first.clone();
    for hint in hints {
        if is_usable((&hint.neighbour, &hint.entry))
            && let Some(table) = tables.get_mut(&hint.neighbour)
        {
            table.insert(hint.prefix.clone(), hint.entry.clone());
        }
    }
    tables
}

/// Joins texts, or says that there are none.
fn words(all: &[&str]) -> String {
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_to_clients_change_tables_prefix_by_prefix() {
        let first: Tables =
            [("x".to_owned(), [("10.0.0.0/23".to_owned(), "west".to_owned())].into())].into();
        let hint = |prefix: &str, entry: &str| HintSeen {
            neighbour: "x".to_owned(),
            prefix: prefix.to_owned(),
            entry: entry.to_owned(),
            method: "api".to_owned(),
        };
        let hints = [hint("10.0.0.0/24", "east"), hint("10.0.0.0/23", "north")];
        let table = &asked(&first, &hints, |h| h != ("x", "north"))["x"];
        assert_eq!(
            (table["10.0.0.0/24"].as_str(), table["10.0.0.0/23"].as_str()),
            ("east", "west")
        );
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn the_two_isps_share_providers_and_nothing_else() {
        let networks: Vec<_> = TWO.iter().map(|(_, texts)| Network::of(texts).unwrap()).collect();
        let all = ["video", "cloud", "games", "music", "shop"];
        let blueprints: Vec<_> = (0..)
            .zip(&networks)
            .map(|(at, network)| Blueprint::numbered(network, at, &all).unwrap())
            .collect();
        let places = |b: &Blueprint| b.places.keys().cloned().collect::<BTreeSet<_>>();
        let (one, two) = (places(&blueprints[0]), places(&blueprints[1]));
        let shared: Vec<_> = one.intersection(&two).map(String::as_str).collect();
        assert_eq!(shared, ["cloud", "games", "video"]);
        let union = Blueprint::union(&blueprints);
        assert_eq!(union.senders.len(), 5);
        // At a place that both use, no interface and no address occurs twice.
        let ends: Vec<_> =
            union.wires.iter().flatten().filter(|e| shared.contains(&&*e.place)).collect();
        let devices: BTreeSet<_> = ends.iter().map(|e| (&e.place, &e.device)).collect();
        assert_eq!(devices.len(), ends.len());
        let addresses: Vec<_> = ends.iter().flat_map(|e| &e.addresses).collect();
        assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len());
    }
}
