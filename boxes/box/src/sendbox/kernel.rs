//! A sendbox over the kernel's own queues: no packet enters this process. Each bundle waits in a
//! class of the tree on the outer interface, whose rate is set by netlink. BPF programs send
//! packets into the classes and see them leave.
//!
//! If this process dies or hangs, the program that sends packets into the classes no longer does so
//! after half a second, and new packets flow without a limit. The next process adopts the tree with
//! the packets that wait in it.

mod missed;
mod reload;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use forebay_control::FlowPosition;
use forebay_dataplane::kernel::{ClassRule, EgressObserver, LoadedEgress};
use forebay_dataplane::{Counts, Error as PortError};
use forebay_records::HopCounters;
use forebay_system::wait::Waiter;
use forebay_system::{clock, notify};
use forebay_tc::{
    BundleQueues, Device, Error as TreeError, Event, Features, Foreign, Plan, Programs,
    QueueCounts, Statistics, Tree, Watch,
};
use forebay_units::Nanos;
use forebay_wire::FingerprintKey;

use self::missed::Missed;
use super::bundle::QueueTotals;
use super::bundles::Bundles;
use super::logs::Logs;
use super::{Start, TICK, tree};
use crate::Error;
use crate::channel::Channel;
use crate::commands::Commands;
use crate::config::Policy;
use crate::handover::{GRACE, Handed};
use crate::logs::{Account, Packets};
use crate::memory::PathMemory;
use crate::not_understood::{Direction, NotUnderstoodLog};
use crate::privileges::{self, Capability, Extra};
use crate::receivebox::Receivebox;
use crate::reload::Reloader;
use crate::resolver::Resolver;
use crate::signals::Signals;
use crate::status::State;
use crate::{say_ready, ticks};

/// The time between two checks for frames that are not understood.
const CHECK: Nanos = Nanos::from_secs(1);
/// The longest time between two reads of the counters of a bundle's class. The first packet of an
/// idle bundle leaves at once, and its bundle is busy from then on.
const COUNT: Nanos = Nanos::from_millis(100);
/// The time between two attempts to repair the tree.
const RETRY: Nanos = Nanos::from_secs(1);

/// Runs until a signal arrives, and removes the tree.
pub(super) fn run(
    start: Start<'_>,
    foreign: Foreign,
    receivebox: Option<Receivebox>,
    loaded: LoadedEgress,
) -> Result<(), Error> {
    let (paths, signals) = (start.paths, start.signals);
    if paths.packets.is_some() {
        tracing::warn!(
            "the log of packets stays empty: with the kernel's queues no packet enters the sendbox"
        );
    }
    Packets::create(paths.packets.as_deref())?.finish()?;
    let counters = Account::create(paths.counters.as_deref())?;
    let (mut sendbox, handed) = Sendbox::new(start, foreign, receivebox, loaded)?;
    // Rates are set by netlink. At the end, queues that the tree replaced are restored, and the
    // file that describes them is removed.
    privileges::reduce(&[Capability::NetAdmin], &[Extra::RemoveFiles]);
    say_ready(&serde_json::json!({
        "event": "ready",
        "outside": format!("{}: the kernel's queues", sendbox.tree.device().name),
    }));
    handed.report();
    let ended = sendbox.control(signals);
    let finished = sendbox.finish(counters);
    ended.and(finished)
}

struct Sendbox {
    tree: Tree,
    watch: Watch,
    observer: EgressObserver,
    /// The program of the tree's filter.
    classifier: OwnedFd,
    bundles: Bundles,
    /// The receivebox of a site, for the other direction.
    receivebox: Option<Receivebox>,
    commands: Commands,
    /// The counters of each bundle at the last tick.
    counts: Vec<Statistics>,
    /// What the observer missed of each bundle.
    missed: Vec<Missed>,
    /// The bundles of which packets waited or left since the last tick.
    busy: Vec<usize>,
    /// The time when the counters of all bundles are read again.
    due_count: Nanos,
    /// The epoch size of each bundle in the kernel, and the key of its fingerprints.
    sampled: HashMap<usize, (u32, FingerprintKey)>,
    /// Bundles that were removed, and whose queues are kept until they are empty.
    leaving: Vec<BundleQueues>,
    /// What the queues of removed bundles had counted.
    departed: HopCounters,
    reloader: Reloader,
    memory: PathMemory,
    resolver: Resolver,
    damage: Option<Damage>,
    not_understood: NotUnderstoodLog,
    due_check: Nanos,
    logs: Logs,
}

/// The tree differs from the plan.
struct Damage {
    /// The time of the next attempt to repair it.
    mend: Nanos,
    /// The error of the last attempt.
    trouble: Option<String>,
}

impl Sendbox {
    fn new(
        start: Start<'_>,
        foreign: Foreign,
        mut receivebox: Option<Receivebox>,
        loaded: LoadedEgress,
    ) -> Result<(Self, Handed), Error> {
        let Start {
            role,
            outside,
            channel,
            bundles: configs,
            limit,
            reloader,
            resolver,
            paths,
            mut handed,
            memory,
            ..
        } = start;
        let device = Device::find(&outside.name)?;
        let room = Plan::room_for(configs.len());
        let configs = handed.number(configs, room);
        let plan = tree::plan_numbered(&configs, limit, &Features::probe()?)?;
        let mut observer = EgressObserver::attach_loaded(loaded)?;
        let count = configs.last().map_or(0, |(number, _)| number + 1);
        let mut prefixes = vec![Vec::new(); count];
        for (number, bundle) in &configs {
            prefixes[*number].clone_from(&bundle.prefixes);
        }
        observer.set_bundles(&prefixes)?;
        for (number, bundle) in &configs {
            observer.set_key(*number, bundle.key.fingerprint_key())?;
            observer.set_classes(*number, &rules(&bundle.policy))?;
        }
        let classifier = observer.classifier()?;
        let (header, now) = (outside.framing()?.header(), clock::now());
        let bundles = Bundles::new(configs, channel, header, now, &mut handed, &memory)?;
        if let Some(receivebox) = &mut receivebox {
            for (_, bundle) in bundles.all().iter() {
                receivebox.refuse(bundle.name(), bundle.sessions());
            }
        }
        let logs = Logs::create(paths)?;
        // A tree that is adopted has packets from its first moment on.
        observer.report_alive(clock::now())?;
        let programs = Programs { bundles: classifier.as_fd() };
        let (tree, steps) = Tree::install(device, plan, &programs, foreign)?;
        for step in steps {
            tracing::debug!("{step}");
        }
        let watch = match Watch::new(&tree) {
            Ok(watch) => watch,
            Err(e) => {
                // The first error says more than one that follows from it.
                let _ = tree.remove();
                return Err(Error::Queues(e));
            }
        };
        let sendbox = Self {
            tree,
            watch,
            observer,
            classifier,
            bundles,
            commands: Commands::open(role, vec![outside.name]),
            receivebox,
            counts: vec![Statistics::default(); count],
            missed: vec![Missed::default(); count],
            busy: Vec::new(),
            due_count: Nanos::ZERO,
            sampled: HashMap::new(),
            leaving: Vec::new(),
            departed: HopCounters::default(),
            reloader,
            memory,
            resolver,
            damage: None,
            not_understood: NotUnderstoodLog::new(Direction::Leaving),
            due_check: Nanos::ZERO,
            logs,
        };
        Ok((sendbox, handed))
    }

    fn control(&mut self, signals: &Signals) -> Result<(), Error> {
        // Samples carry their own time, so the loop does not wait for them: it reads them before
        // they are needed.
        let fixed = [signals.descriptor(), self.watch.descriptor()];
        let receivebox = self.receivebox.as_ref().map(Receivebox::descriptor);
        let others = self.bundles.descriptor().into_iter().chain(receivebox);
        let mut waiter = Waiter::new(fixed.into_iter().chain(others));
        let mut due_tick = clock::now() + TICK;
        while !signals.came() {
            let now = clock::now();
            self.hear_news(now)?;
            self.take_samples()?;
            if let (Some(receivebox), Some(channel)) =
                (&mut self.receivebox, self.bundles.channel())
            {
                receivebox.serve(now, channel)?;
            }
            // Its descriptor is the first after the fixed ones.
            if self.bundles.descriptor().is_some() && waiter.is_ready(fixed.len()) {
                self.bundles.take_messages(self.receivebox.as_mut())?;
            }
            if now >= due_tick {
                self.tick(now)?;
                if let Some(contents) = self.reloader.poll(signals, &mut self.commands) {
                    let outcome = contents.and_then(|contents| self.reload(now, contents));
                    if outcome.is_ok() {
                        self.resolver.ask_again();
                    }
                    self.reloader.answer(&outcome, &self.commands);
                }
                due_tick = ticks::next(due_tick, TICK, now);
            }
            waiter.wait_until(due_tick);
        }
        Ok(())
    }

    /// Handles the boundary packets that have left the queues.
    fn take_samples(&mut self) -> Result<(), Error> {
        let (bundles, missed) = (&mut self.bundles, &self.missed);
        self.observer.poll(|s| {
            if let Some(bundle) = bundles.get_mut(s.bundle) {
                let flow = s.flow.map(|f| FlowPosition::new(f.hash, f.pause_us));
                let missed = missed.get(s.bundle).copied().unwrap_or_default();
                let Counts { bytes, packets } = missed.add_to(s.counts);
                bundle.on_boundary(s.time, s.fingerprint, bytes, packets, flow);
            }
        })?;
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> Result<(), Error> {
        self.observer.report_alive(now)?;
        notify::alive(now);
        self.mend(now)?;
        self.busy.clear();
        for number in 0..self.bundles.all().end() {
            let Some(bundle) = self.bundles.get_mut(number) else { continue };
            if self.missed.len() <= number {
                self.missed.resize(number + 1, Missed::default());
            }
            let left = self.missed[number].on_seen(self.observer.counts(number)?);
            let waits = self.counts.get(number).is_some_and(|counts| counts.queued > 0);
            if bundle.on_total(left.bytes, left.packets) || waits {
                self.busy.push(number);
            }
        }
        if self.damage.is_none() {
            match self.count(now) {
                Ok(()) => self.note_missed()?,
                Err(e) => self.damaged(now, &e.to_string()),
            }
        }
        for number in 0..self.bundles.all().end() {
            let backlog = self.counts.get(number).map(|counts| counts.backlog).unwrap_or_default();
            let rate = self.bundles.tick(number, now, backlog, &mut self.logs);
            let Some(bundle) = self.bundles.get(number) else { continue };
            let (epoch, key) = (bundle.epoch(), *bundle.fingerprint_key());
            let known = self.sampled.insert(number, (epoch, key));
            if known.is_none_or(|(_, known)| known != key) {
                self.observer.set_key(number, key)?;
            }
            if known != Some((epoch, key)) {
                self.observer.set_epoch(number, epoch)?;
            }
            if self.damage.is_none() {
                self.tree.set_rate(number, rate);
            }
        }
        let tree = &mut self.tree;
        self.commands.serve(now, || {
            // Without an answer of the kernel these counters are not known. If there is no answer
            // at all, the loop ends soon and says why.
            let left = self.observer.not_understood().unwrap_or_default();
            let queues = tree.queue_counts().unwrap_or_default();
            let totals = |index: usize| match queues.get(index) {
                Some(counts) => {
                    QueueTotals { dropped: Some(counts.drops), marked: counts.marks, waits: None }
                }
                None => QueueTotals::default(),
            };
            let others = self.receivebox.as_ref().map(|receivebox| receivebox.status(now));
            let mut state = others.unwrap_or_default();
            state.not_understood.left = left;
            State { sends: self.bundles.status(now, totals), ..state }
        });
        if now >= self.due_check {
            let frames = self.observer.not_understood()?;
            self.not_understood.note(&self.tree.device().name, frames);
            self.due_check = now + CHECK;
        }
        self.resolve(now);
        if self.damage.is_none()
            && let Err(e) = self.tree.flush()
        {
            self.damaged(now, &e.to_string());
        }
        self.let_go(now);
        self.memory.write_if_due(now, || self.bundles.known_paths());
        Ok(())
    }

    /// Reads the counters of the classes: those of idle bundles less often, since the kernel's
    /// answer costs as much for these.
    fn count(&mut self, now: Nanos) -> Result<(), TreeError> {
        if now >= self.due_count {
            self.due_count = now + COUNT;
            self.busy.clear();
            self.busy.extend(0..self.bundles.all().end());
            self.tree.statistics(&mut self.counts)
        } else {
            self.tree.statistics_of(&self.busy, &mut self.counts)
        }
    }

    /// Notes what the observer missed of the bundles whose counters were just read.
    fn note_missed(&mut self) -> Result<(), Error> {
        for &number in &self.busy {
            if let Some((class, missed)) = self.counts.get(number).zip(self.missed.get_mut(number))
            {
                missed.on_class(class, self.observer.counts(number)?);
            }
        }
        Ok(())
    }

    /// Asks for the names of silent boxes.
    fn resolve(&mut self, now: Nanos) {
        let receivebox = self.receivebox.iter().flat_map(|receivebox| receivebox.names(now));
        let names = self.bundles.names(now).chain(receivebox);
        let Some((name, to)) = self.resolver.poll(now, names) else { return };
        self.bundles.on_resolved(now, &name, to);
        if let Some(receivebox) = &mut self.receivebox {
            receivebox.on_resolved(now, &name, to);
        }
    }

    /// Handles changes that other programs made to the interface.
    fn hear_news(&mut self, now: Nanos) -> Result<(), Error> {
        for event in self.watch.events()? {
            let device = &self.tree.device().name;
            match event {
                Event::Damaged => self.damaged(now, "another program changed them"),
                Event::Missed => self.damaged(now, "notifications of changes were lost"),
                Event::Down => tracing::warn!("{device} is down: the waiting packets are lost"),
                Event::Up => tracing::info!("{device} is up again"),
                Event::Gone => return Err(PortError::Removed(device.clone()).into()),
            }
        }
        Ok(())
    }

    fn damaged(&mut self, now: Nanos, why: &str) {
        if self.damage.is_none() {
            tracing::warn!("the queues of {}: {why}", self.tree.device().name);
            self.damage = Some(Damage { mend: now, trouble: None });
        }
    }

    /// Repairs the tree. The tick that calls it then sets the rates that differ.
    fn mend(&mut self, now: Nanos) -> Result<(), Error> {
        let Some(damage) = &mut self.damage else { return Ok(()) };
        if now < damage.mend {
            return Ok(());
        }
        match self.tree.rebuild(&Programs { bundles: self.classifier.as_fd() }) {
            Ok(steps) => {
                let device = &self.tree.device().name;
                tracing::info!("the queues of {device} are repaired ({} changes)", steps.len());
                self.damage = None;
            }
            Err(e @ TreeError::NoDevice(_)) => return Err(e.into()),
            Err(e) => {
                let trouble = e.to_string();
                if damage.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("{trouble}; nothing is shaped until the queues are repaired");
                    damage.trouble = Some(trouble);
                }
                damage.mend = now + RETRY;
            }
        }
        Ok(())
    }

    fn finish(mut self, counters: Account) -> Result<(), Error> {
        self.memory.write(self.bundles.known_paths());
        self.bundles.log_summaries();
        // The record of the queues that were there before is read from a file, so a descriptor is
        // freed for a process that has no more of them.
        self.commands.close();
        // If the kernel no longer answers, the counters of the last tick stay.
        let _ = self.tree.statistics(&mut self.counts);
        let queues = self.tree.queue_counts().unwrap_or_default();
        // The tree is removed before logs are written, so that no limit stays if writing fails.
        let stays = self.commands.has_successor();
        if stays {
            self.observer.report_alive(clock::now() + GRACE)?;
        } else {
            self.tree.remove()?;
        }
        let lost = self.observer.samples_lost()?;
        if lost > 0 {
            tracing::warn!("{lost} reports of boundary packets were lost: the ring was full");
        }
        let missed: u64 = self.missed.iter().map(Missed::packets).sum();
        if missed > 0 {
            tracing::info!(
                "the kernel did not run the program below the queues for {missed} packets, which \
                 the counters of the queues have"
            );
        }
        if let Some(receivebox) = &self.receivebox {
            receivebox.log_summaries()?;
        }
        let logged = self.logs.finish();
        counters.write(&account(&self.departed, &self.counts, &queues))?;
        if stays {
            // The receivebox's interface is free for another program before the state is there.
            let receives = self.receivebox.take().map(Receivebox::end).unwrap_or_default();
            let socket = self.bundles.channel().map(Channel::socket);
            self.commands.hand_over(self.bundles.handover(), receives, socket);
        }
        logged
    }
}

/// Returns the rules of a bundle's classes without the last, which takes the rest.
fn rules(policy: &Policy) -> Vec<ClassRule> {
    let matches = policy.matches().cloned();
    matches.map(|m| ClassRule { dscp: m.dscp, ports: m.ports, prefixes: m.prefixes }).collect()
}

/// Computes the account of the bundles' packets from the counters of their classes and queues, and
/// those of bundles that have `departed`.
fn account(departed: &HopCounters, counts: &[Statistics], queues: &[QueueCounts]) -> HopCounters {
    let sum = |of: fn(&Statistics) -> u64| counts.iter().map(of).sum::<u64>();
    let drops: u64 = queues.iter().map(|queue| queue.drops).sum();
    let sent = departed.sent + sum(|c| c.packets);
    let (policy_drops, queued) = (departed.policy_drops + drops, sum(|c| c.queued));
    HopCounters {
        hop: "sendbox".to_owned(),
        received: sent + policy_drops + queued,
        sent,
        policy_drops,
        queued,
        ..HopCounters::default()
    }
}
