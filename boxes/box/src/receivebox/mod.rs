//! The receivebox: counts the packets of each bundle, and sends feedback for epoch boundary
//! packets.
//!
//! A BPF program counts packets without changing them. This process only turns its samples into
//! feedback.

mod budget;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::Path;

use forebay_config::RemoteAddress;
use forebay_control::{self as control, Shares};
use forebay_dataplane::{BundleRule, Counts, Netdev, Presence, Sample, Sampler};
use forebay_records::{NotUnderstood, ReceiveHandover, ReceiveStatus};
use forebay_system::wait::Waiter;
use forebay_system::{clock, notify};
use forebay_units::Nanos;
use forebay_wire::feedback::{
    Arrival, BundleId, FEEDBACK_BESIDE_LEN, FEEDBACK_LEN, Others, ReceiveboxChannel, Session,
};
use forebay_wire::{EpochSize, FingerprintKey};

use crate::Error;
use crate::channel::{
    BOTH_KEYS, ByAddress, Channel, Datagram, Endpoint, Incoming, Move, Undelivered, packet_length,
};
use crate::commands::Commands;
use crate::config::{PeerConfig, ReceiveboxConfig};
use crate::diagnosis::{Diagnosis, End, Hint};
use crate::handover::{self, Handed, HandedReceive};
use crate::not_understood::{Direction, NotUnderstoodLog};
use crate::privileges::{self, Capability};
use crate::random;
use crate::reload::{Contents, Difference, Refused, Reloader, Step, Words, difference};
use crate::resolver::{CONTACT_TIMEOUT, Resolver};
use crate::signals::Signals;
use crate::slots::Slots;
use crate::status::{State, seconds};
use budget::Budget;

/// The epoch size before a sendbox has requested one: practically no samples.
const NO_EPOCH: u32 = 1 << 24;
/// The shortest time between two readings of what all bundles have received.
const COUNT_EVERY: Nanos = Nanos::from_millis(1);
/// The time between two checks that the interface exists.
const CHECK: Nanos = Nanos::from_millis(200);

/// Runs a receivebox until SIGTERM or SIGINT. SIGHUP reads `file`, which `config` is from, again.
///
/// When it counts, it prints a line of JSON on standard output.
///
/// # Errors
/// If the set-up fails, which leaves everything as it was; if the interface is removed; or if the
/// kernel refuses a request.
pub fn run(config: ReceiveboxConfig, file: &Path) -> Result<(), Error> {
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let reloader = Reloader::new(file, &config);
    let handed = Handed::take("receivebox", &config.interface.name);
    run_alone("receivebox", config, reloader, handed)
}

/// Runs a receivebox without a sendbox beside it.
pub(crate) fn run_alone(
    role: &'static str,
    config: ReceiveboxConfig,
    reloader: Reloader,
    mut handed: Handed,
) -> Result<(), Error> {
    let ReceiveboxConfig { interface, listen, peers } = config;
    let addresses = peers.iter().map(|peer| &peer.sendbox);
    let mut resolver = Resolver::start(clock::now(), Some(listen), addresses);
    let signals = Signals::block_with_reload().map_err(Error::Signals)?;
    let channel = Channel::bind_or_take(listen, handed.socket(listen))?;
    let mut commands = Commands::open(role, vec![interface.name.clone()]);
    let mut receivebox = Receivebox::attach(interface, peers, &mut handed)?;
    let kept: &[_] = if receivebox.keeps_rights() { &[Capability::NetAdmin] } else { &[] };
    privileges::reduce(kept, &[]);
    crate::say_ready(&serde_json::json!({ "event": "ready" }));
    handed.report();

    let fixed = [signals.descriptor(), receivebox.descriptor(), channel.descriptor()];
    let mut waiter = Waiter::new(fixed.into_iter().chain(commands.descriptor()));
    // These descriptors are read only when they are ready: most wakes are for boundary packets.
    const SIGNALS: usize = 0;
    const CHANNEL: usize = 2;
    const COMMANDS: usize = 3;
    let has_commands = commands.descriptor().is_some();
    while !(waiter.is_ready(SIGNALS) && signals.came()) {
        waiter.wait_until(receivebox.due());
        let now = clock::now();
        let due = receivebox.due();
        receivebox.serve(now, &channel)?;
        if now >= due {
            receivebox.resolve(now, &mut resolver);
        }
        let asked = has_commands && waiter.is_ready(COMMANDS);
        if asked {
            commands.serve(now, || receivebox.status(now));
        }
        if (asked || waiter.is_ready(SIGNALS))
            && let Some(contents) = reloader.poll(&signals, &mut commands)
        {
            let outcome = contents.and_then(|contents| receivebox.reload(now, contents));
            if outcome.is_ok() {
                resolver.ask_again();
            }
            reloader.answer(&outcome, &commands);
        }
        notify::alive(now);
        if !waiter.is_ready(CHANNEL) {
            continue;
        }
        while let Some(incoming) = channel.receive() {
            match incoming {
                Incoming::Datagram(datagram) => {
                    receivebox.on_datagram(&datagram, &channel)?;
                }
                Incoming::Undelivered(undelivered) => receivebox.on_undelivered(undelivered),
            }
        }
    }
    commands.close();
    receivebox.log_summaries()?;
    // The interface is free for another program before the state is.
    let receives = receivebox.end();
    commands.hand_over(Vec::new(), receives, Some(channel.socket()));
    Ok(())
}

/// A receivebox at its interface, without the socket that it shares with a sendbox.
pub(crate) struct Receivebox {
    interface: Presence,
    sampler: Sampler,
    peers: Peers,
    not_understood: NotUnderstoodLog,
    due_check: Nanos,
}

impl Receivebox {
    /// Attaches the program that counts.
    ///
    /// Bundles go on with what was `handed` over. Their counts start anew.
    pub(crate) fn attach(
        interface: Netdev,
        configs: Vec<PeerConfig>,
        handed: &mut Handed,
    ) -> Result<Self, Error> {
        let rules = configs.iter().map(rule).collect::<Vec<_>>();
        let sampler = Sampler::attach(&interface, &rules)?;
        let now = clock::now();
        let interface = Presence::new(interface)?;
        let mut peers = Peers::new(configs, now);
        for (number, peer) in peers.all.iter_mut() {
            let PeerConfig { name, key, .. } = &peer.config;
            let Some(taken) = handed.take_receive(name, peer.id, key) else { continue };
            let HandedReceive { channel, configured, address } = taken;
            let given = &peer.config.sendbox;
            if configured == given.to_string() {
                peer.endpoint = Endpoint::resumed(given.found(), address);
                let place = peer.endpoint.current();
                peer.diagnosis = Diagnosis::new(End::Receivebox, place, now);
            }
            if let Some(epoch) = channel.epoch() {
                sampler.set_epoch(number, epoch.packets())?;
            }
            peer.feedback = channel;
        }
        peers.index();
        Ok(Self {
            interface,
            sampler,
            peers,
            not_understood: NotUnderstoodLog::new(Direction::Arriving),
            due_check: now + CHECK,
        })
    }

    /// Returns what another process goes on with, which has new keys alone.
    pub(crate) fn handover(&self) -> Vec<ReceiveHandover> {
        let peers = self.peers.all.iter().map(|(_, peer)| {
            let (id, channel) = match &peer.next {
                Some(next) => (next.id, &next.feedback),
                None => (peer.id, &peer.feedback),
            };
            let configured = peer.config.sendbox.to_string();
            let address = peer.endpoint.current();
            let bundle = handover::of_receive(&peer.config.name, id, channel);
            ReceiveHandover { configured, address, ..bundle }
        });
        peers.collect()
    }

    /// Detaches the program, and returns what another process goes on with.
    pub(crate) fn end(self) -> Vec<ReceiveHandover> {
        self.handover()
    }

    /// Whether the program is detached by this process, which needs `CAP_NET_ADMIN` then.
    fn keeps_rights(&self) -> bool {
        self.sampler.is_detached_by_process()
    }

    /// Returns the descriptor that becomes readable when boundary packets have arrived.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.sampler.descriptor()
    }

    /// Returns the time of the next call of [`Receivebox::serve`] if the descriptor is not ready
    /// before.
    fn due(&self) -> Nanos {
        self.due_check
    }

    /// Sends the feedback for boundary packets that have arrived, and checks what has to be checked
    /// from time to time.
    pub(crate) fn serve(&mut self, now: Nanos, channel: &Channel) -> Result<(), Error> {
        if now >= self.due_check {
            let name = self.interface.check()?;
            self.peers.diagnose(now);
            self.peers.take_next_keys(now, &mut self.sampler)?;
            self.not_understood.note(&name, self.sampler.not_understood()?);
            self.due_check = now + CHECK;
        }
        let Self { peers, sampler, .. } = self;
        peers.count(now, sampler)?;
        Ok(sampler.poll(|sample| peers.answer(&sample, channel))?)
    }

    /// Sends feedback until `end`, while other parts of the box are set up. Messages wait.
    pub(crate) fn serve_until(&mut self, end: Nanos, channel: &Channel) -> Result<(), Error> {
        let mut waiter = Waiter::new([self.descriptor()]);
        loop {
            let now = clock::now();
            self.serve(now, channel)?;
            if now >= end {
                return Ok(());
            }
            waiter.wait_until(end);
        }
    }

    /// Handles a datagram. Returns the name of its bundle if the sendbox has moved to its source.
    pub(crate) fn on_datagram(
        &mut self,
        datagram: &Datagram,
        channel: &Channel,
    ) -> Result<Option<String>, Error> {
        let updated = self.peers.on_update(datagram, channel, &self.sampler)?;
        let Some(Updated { bundle, epoch, key, moved }) = updated else { return Ok(None) };
        match key {
            Some(key) => self.sampler.set_key(bundle, key, epoch)?,
            None => self.sampler.set_epoch(bundle, epoch)?,
        }
        if let Some(moved) = moved {
            self.peers.on_moved(bundle, moved, "");
            return Ok(self.peers.all.get(bundle).map(|peer| peer.config.name.clone()));
        }
        Ok(None)
    }

    /// Follows the other site of the bundle `name`, whose receivebox is at this address by the
    /// messages to the sendbox beside this receivebox, which logs it.
    pub(crate) fn follow(&mut self, now: Nanos, name: &str, to: SocketAddr) {
        let mut found = self.peers.all.iter_mut().filter(|(_, peer)| peer.config.name == name);
        let moved = found.find_map(|(number, peer)| Some((number, peer.endpoint.follow(now, to)?)));
        drop(found);
        if let Some((number, moved)) = moved {
            self.peers.on_moved(number, Move { is_said: false, ..moved }, "");
        }
    }

    /// Returns the names of the sendboxes, each with whether it is silent.
    pub(crate) fn names(&self, now: Nanos) -> impl Iterator<Item = (&RemoteAddress, bool)> {
        self.peers
            .all
            .iter()
            .filter_map(move |(_, peer)| Some((peer.config.sendbox.name()?, peer.is_silent(now))))
    }

    /// Notes that a name has this address.
    pub(crate) fn on_resolved(&mut self, now: Nanos, name: &RemoteAddress, to: SocketAddr) {
        for number in 0..self.peers.all.end() {
            let Some(peer) = self.peers.all.get_mut(number) else { continue };
            let is_silent = peer.is_silent(now);
            if peer.config.sendbox.name() == Some(name)
                && let Some(moved) = peer.endpoint.on_resolved(to, is_silent)
            {
                self.peers.on_moved(number, moved, &format!(", as its name {name} says"));
            }
        }
    }

    /// Asks for the names of silent sendboxes.
    fn resolve(&mut self, now: Nanos, resolver: &mut Resolver) {
        if let Some((name, to)) = resolver.poll(now, self.names(now)) {
            self.on_resolved(now, &name, to);
        }
    }

    /// Notes that a datagram was not delivered.
    pub(crate) fn on_undelivered(&mut self, Undelivered { to, error }: Undelivered) {
        self.peers.hint(clock::now(), to, Hint::Undelivered(error));
    }

    /// Applies a file to a receivebox without a sendbox beside it.
    fn reload(&mut self, now: Nanos, contents: Contents) -> Result<Words, Refused> {
        if !contents.bundles.is_empty() {
            return Err(Refused::restart("a site that only receives cannot begin to send"));
        }
        let Difference { steps, words } = self.difference(contents.peers)?;
        self.apply(now, steps).map_err(Refused::partly)?;
        Ok(Words::new(Vec::new(), words))
    }

    /// Computes the difference to `wanted`. It changes nothing.
    pub(crate) fn difference(
        &self,
        wanted: Vec<PeerConfig>,
    ) -> Result<Difference<PeerConfig>, Refused> {
        let all = &self.peers.all;
        let present = all.iter().map(|(number, peer)| (number, &peer.config));
        difference(present, wanted, all.free(), self.sampler.room())
    }

    /// Applies `steps`. Bundles that they do not name keep their counters and sessions.
    pub(crate) fn apply(&mut self, now: Nanos, steps: Vec<Step<PeerConfig>>) -> Result<(), Error> {
        if steps.is_empty() {
            return Ok(());
        }
        let Self { peers, sampler, .. } = self;
        let mut begun = Vec::new();
        for step in steps {
            match step {
                Step::Add { number, config } => {
                    begun.push((number, rule(&config)));
                    peers.all.put(number, Peer::new(config, now));
                    peers.shares.begin(number);
                }
                Step::Change { number, config, parts } => {
                    let Some(peer) = peers.all.get_mut(number) else { continue };
                    if parts.key {
                        peer.next = Some(Next {
                            id: BundleId(config.id),
                            feedback: channel(&config),
                            fingerprint_key: config.key.fingerprint_key(),
                            until: now + BOTH_KEYS,
                        });
                    }
                    if parts.address {
                        peer.endpoint = peer.endpoint.changed(now, config.sendbox.found());
                        let place = peer.endpoint.current();
                        peer.diagnosis = Diagnosis::new(End::Receivebox, place, now);
                    }
                    peer.config = config;
                }
                Step::Remove { number } => {
                    peers.all.remove(number);
                    peers.shares.end(number);
                }
            }
        }
        for (number, rule) in begun {
            sampler.begin(number, &rule)?;
        }
        peers.index();
        let rules: Vec<_> =
            peers.all.iter().map(|(number, peer)| (number, rule(&peer.config))).collect();
        Ok(sampler.set_rules(&rules.iter().map(|(n, rule)| (*n, rule)).collect::<Vec<_>>())?)
    }

    /// Refuses messages of the sendbox beside it for the bundle `name`, which have these sessions
    /// under the present and the next key.
    pub(crate) fn refuse(&mut self, name: &str, [own, next]: [Option<Session>; 2]) {
        for (_, peer) in self.peers.all.iter_mut().filter(|(_, peer)| peer.config.name == name) {
            if let Some(own) = own {
                peer.feedback.refuse(own);
            }
            if let (Some(own), Some(peer)) = (next, &mut peer.next) {
                peer.feedback.refuse(own);
            }
        }
    }

    /// Returns the state of all bundles.
    pub(crate) fn status(&self, now: Nanos) -> State {
        // If the kernel does not answer, the loop ends soon and says why.
        let arrived = self.sampler.not_understood().unwrap_or_default();
        let receives = self.peers.all.iter().map(|(number, peer)| {
            let counts = self.sampler.counts(number).unwrap_or_default();
            ReceiveStatus {
                name: peer.config.name.clone(),
                key_fingerprint: Some(peer.config.key.fingerprint().to_string()),
                sendbox: peer.endpoint.current(),
                moves: peer.endpoint.moves(),
                trouble: peer.diagnosis.current(now),
                heard_s: peer.diagnosis.heard_at().map(|at| seconds(now, at)),
                packets: counts.packets,
                bytes: counts.bytes.0,
                refused: peer.refused,
                unanswered: peer.unanswered,
            }
        });
        State {
            not_understood: NotUnderstood { left: 0, arrived },
            receives: receives.collect(),
            ..State::default()
        }
    }

    /// Logs the counts of each bundle, at the end.
    pub(crate) fn log_summaries(&self) -> Result<(), Error> {
        for (number, peer) in self.peers.all.iter() {
            let Counts { bytes, packets } = self.sampler.counts(number)?;
            let Peer { config: PeerConfig { name, .. }, refused, unanswered, .. } = peer;
            tracing::info!(
                "bundle {name}: {packets} packets of {} bytes counted, {refused} messages refused, \
                 {unanswered} boundary packets not answered",
                bytes.0
            );
        }
        tracing::info!("samples lost in a full ring: {}", self.sampler.samples_lost()?);
        Ok(())
    }
}

fn rule(peer: &PeerConfig) -> BundleRule {
    BundleRule {
        sources: peer.sources.clone(),
        destinations: peer.prefixes.clone(),
        key: peer.key.fingerprint_key(),
        epoch: NO_EPOCH,
    }
}

/// The sendbox of a bundle.
struct Peer {
    config: PeerConfig,
    /// The id of its messages.
    id: BundleId,
    feedback: ReceiveboxChannel,
    /// The place of the sendbox.
    endpoint: Endpoint,
    /// The channel of another key, which the sendbox may not have yet.
    next: Option<Next>,
    /// The number of messages that were not authentic, replayed or malformed.
    refused: u64,
    budget: Budget,
    /// The number of boundary packets that the budget left unanswered.
    unanswered: u64,
    diagnosis: Diagnosis,
}

/// A channel that takes the place of the present one when the sendbox uses it, or in time.
struct Next {
    id: BundleId,
    feedback: ReceiveboxChannel,
    fingerprint_key: FingerprintKey,
    until: Nanos,
}

/// A message that waited this long for the process tells of an earlier count than the present one.
const STALE: Nanos = Nanos::from_millis(50);

/// What an update asks of the sampler.
struct Updated {
    bundle: usize,
    epoch: u32,
    /// The key of fingerprints, if it is another one.
    key: Option<FingerprintKey>,
    /// The move of the sendbox, if it came from elsewhere.
    moved: Option<Move>,
}

impl Peer {
    /// Uses the next key alone from now on, and returns the key of fingerprints.
    fn take_next_key(&mut self) -> Option<FingerprintKey> {
        let Next { id, feedback, fingerprint_key, .. } = self.next.take()?;
        (self.id, self.feedback) = (id, feedback);
        tracing::info!("bundle {}: the new key is in use", self.config.name);
        Some(fingerprint_key)
    }

    fn new(config: PeerConfig, now: Nanos) -> Self {
        Self {
            id: BundleId(config.id),
            feedback: channel(&config),
            endpoint: Endpoint::new(config.sendbox.found()),
            next: None,
            refused: 0,
            budget: Budget::new(),
            unanswered: 0,
            diagnosis: Diagnosis::new(End::Receivebox, config.sendbox.found(), now),
            config,
        }
    }

    /// Whether the sendbox has not been heard for some time.
    fn is_silent(&self, now: Nanos) -> bool {
        self.diagnosis.silence(now) >= CONTACT_TIMEOUT
    }
}

/// Makes the channel of a bundle to its sendbox.
fn channel(config: &PeerConfig) -> ReceiveboxChannel {
    ReceiveboxChannel::new(BundleId(config.id), &config.key, random::session())
}

struct Peers {
    all: Slots<Peer>,
    /// The numbers of each id: two sendboxes may use one id, and their keys distinguish them.
    by_id: HashMap<BundleId, Vec<usize>>,
    /// The bundles of each sendbox.
    by_address: ByAddress,
    /// What each of them receives.
    shares: Shares,
    counted_at: Nanos,
}

impl Peers {
    fn new(configs: Vec<PeerConfig>, now: Nanos) -> Self {
        let all = Slots::new(configs.into_iter().map(|config| Peer::new(config, now)));
        let (by_id, by_address) = (HashMap::new(), ByAddress::default());
        let shares = Shares::new(all.len());
        let mut peers = Self { shares, all, by_id, by_address, counted_at: Nanos::ZERO };
        peers.index();
        peers
    }

    /// Finds the bundles of each id and address again.
    fn index(&mut self) {
        self.by_id.clear();
        self.by_address.clear();
        for (number, Peer { endpoint, id, next, .. }) in self.all.iter() {
            let other = next.as_ref().map(|next| next.id).filter(|next| next != id);
            for id in [Some(*id), other].into_iter().flatten() {
                self.by_id.entry(id).or_default().push(number);
            }
            if let Some(address) = endpoint.current() {
                self.by_address.add(number, address);
            }
        }
    }

    /// Finds the bundle of this number at another address, and says why that is.
    fn on_moved(&mut self, number: usize, moved: Move, why: &str) {
        let Some(peer) = self.all.get_mut(number) else { return };
        self.by_address.on_moved(number, moved);
        let Move { from, to, is_said } = moved;
        peer.diagnosis.on_moved(to);
        let name = &peer.config.name;
        match from {
            Some(from) if is_said => {
                tracing::info!("bundle {name}: the sendbox moved from {from} to {to}{why}");
            }
            None if is_said => tracing::info!("bundle {name}: the sendbox is at {to}{why}"),
            _ => {}
        }
    }

    /// Reads what each bundle has received by `now`, if that is due.
    fn count(&mut self, now: Nanos, sampler: &Sampler) -> Result<(), Error> {
        if self.all.len() < 2 || now.saturating_sub(self.counted_at) < COUNT_EVERY {
            return Ok(());
        }
        self.counted_at = now;
        for (number, _) in self.all.iter() {
            self.shares.on_total(now, number, sampler.counts(number)?.bytes);
        }
        Ok(())
    }

    /// Sends the feedback for a boundary packet, if its sendbox has announced itself and the budget
    /// allows it.
    fn answer(&mut self, sample: &Sample, channel: &Channel) {
        let beside = self.all.len() > 1;
        let Some(peer) = self.all.get_mut(sample.bundle).filter(|p| p.feedback.epoch().is_some())
        else {
            return;
        };
        let message = if beside { FEEDBACK_BESIDE_LEN } else { FEEDBACK_LEN };
        let Some(place) = peer.endpoint.current() else { return };
        let message = packet_length(message, place);
        if !peer.budget.take(sample.counts.bytes, message) {
            if peer.unanswered == 0 {
                tracing::warn!(
                    "bundle {}: too many boundary packets for the feedback's share of the bytes; \
                     does somebody else send to its prefixes? Some get no answer",
                    peer.config.name
                );
            }
            peer.unanswered += 1;
            return;
        }
        let arrival = Arrival {
            fingerprint: sample.fingerprint,
            time: sample.time,
            bytes: sample.counts.bytes,
            packets: sample.counts.packets as u32,
        };
        let held = clock::now().saturating_sub(sample.time);
        let control::Others { bytes, fair } = self.shares.others(sample.bundle);
        let others = beside.then_some(Others { bytes, fair });
        if let Some(message) = peer.feedback.feedback(arrival, held, others) {
            channel.send(&message, place);
        }
    }

    /// Handles a message from a sendbox; returns the bundle and its epoch size if that may have
    /// changed.
    fn on_update(
        &mut self,
        datagram: &Datagram,
        channel: &Channel,
        sampler: &Sampler,
    ) -> Result<Option<Updated>, Error> {
        let (from, now) = (datagram.from, datagram.came);
        let id = match channel.bundle_of(datagram) {
            Ok(id) => id,
            Err(why) => {
                self.hint(now, from, Hint::Refused { from, why });
                return Ok(None);
            }
        };
        let Some(bundles) = self.by_id.get(&id) else {
            tracing::debug!("a message from {from} is for an unknown bundle");
            self.hint(now, from, Hint::OtherBundle(id));
            return Ok(None);
        };
        for &index in bundles {
            let Some(peer) = self.all.get_mut(index) else { continue };
            let mut counts = Ok(Counts::default());
            let mut count = || {
                counts = sampler.counts(index);
                counts.as_ref().map_or(0, |counts| counts.packets)
            };
            let mut key = None;
            let mut answer = peer.feedback.receive(datagram.bytes(), &mut count);
            if answer.is_err()
                && let Some(next) = &mut peer.next
                && let Ok(other) = next.feedback.receive(datagram.bytes(), &mut count)
            {
                answer = Ok(other);
                // The sendbox knows the session by now.
                if next.feedback.epoch().is_some() {
                    key = peer.take_next_key();
                }
            }
            let packets = counts?.packets;
            match answer {
                Ok(answer) => {
                    channel.send(&answer, from);
                    peer.diagnosis.on_heard(now);
                    let moved = answer.is_fresh.then(|| peer.endpoint.follow(now, from)).flatten();
                    let Some(sent) = peer.feedback.sendbox_counts() else { return Ok(None) };
                    // The count is of now, and comparing it with several messages that waited would
                    // show packets that are sent and not counted.
                    if clock::now().saturating_sub(now) < STALE {
                        peer.diagnosis.on_counts(now, sent.packets, packets);
                    }
                    peer.diagnosis.on_unrecognized(now, sent.unrecognized);
                    let updated = |epoch: EpochSize| Updated {
                        bundle: index,
                        epoch: epoch.packets(),
                        key,
                        moved,
                    };
                    return Ok(peer.feedback.epoch().map(updated));
                }
                Err(why) => {
                    peer.refused += 1;
                    tracing::debug!("bundle {}: message refused: {why}", peer.config.name);
                    if let Some(hint) = Hint::refused(from, why) {
                        peer.diagnosis.on_hint(now, hint);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Gives a hint to the bundles whose sendbox is at `address`.
    fn hint(&mut self, now: Nanos, address: SocketAddr, hint: Hint) {
        for &number in self.by_address.at(address) {
            if let Some(peer) = self.all.get_mut(number) {
                peer.diagnosis.on_hint(now, hint);
            }
        }
    }

    /// Gives up old keys whose time is over.
    fn take_next_keys(&mut self, now: Nanos, sampler: &mut Sampler) -> Result<(), Error> {
        for (number, peer) in self.all.iter_mut() {
            if peer.next.as_ref().is_some_and(|next| now >= next.until)
                && let Some(key) = peer.take_next_key()
            {
                let epoch = peer.feedback.epoch().map_or(NO_EPOCH, EpochSize::packets);
                sampler.set_key(number, key, epoch)?;
            }
        }
        Ok(())
    }

    /// Logs what is wrong with the exchange of each bundle.
    fn diagnose(&mut self, now: Nanos) {
        for (_, peer) in self.all.iter_mut() {
            if let Some(line) = peer.diagnosis.poll(now) {
                line.log(&peer.config.name);
            }
        }
    }
}
