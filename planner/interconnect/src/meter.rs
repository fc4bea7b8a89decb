//! Counts traffic at the ISP's own routers: what comes in by neighbour and prefix, what each link
//! carries, and what reaches the users by neighbour.
//!
//! The planner gets no other information on traffic. Arrivals are counted by the BPF program of the
//! receivebox ([`Sampler`]), with a count for each prefix, and links by the counters of their
//! interfaces.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use forebay_dataplane::{BundleRule, FingerprintKey, Netdev, Sampler};
use forebay_plan::network::{self, Demand};
use forebay_plan::topology::{LinkId, RouterId};
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};

use super::blueprint::{Blueprint, Role, towards};
use super::build::Built;
use super::files::Network;
use forebay_lab::engine::EngineError;

/// The epoch size, as large as possible: boundary packets are not used here.
const EPOCH: u32 = 1 << 30;
/// No fingerprint is used here.
const NO_KEY: FingerprintKey = FingerprintKey([0; 2]);

/// What a sampler counts: arrivals at a session's interface by prefix, or traffic to users by
/// provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// Arrivals at the interface of a session.
    Session(usize),
    Users,
}

/// The counts of one place so far.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// The bytes that each sampler counted, in the order of its rules.
    arrived: Vec<(usize, Vec<u64>)>,
    delivered: Vec<u64>,
    /// The bytes sent by each interface.
    sent: BTreeMap<String, u64>,
}

/// The counters of a place, on a thread in its namespace, which ends with this value.
struct Place {
    name: String,
    ask: SyncSender<()>,
    answers: Receiver<io::Result<Counted>>,
}

/// All counts at one time, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) at: Nanos,
    /// The bytes by session and prefix.
    arrived: Vec<Vec<u64>>,
    /// The bytes to users, by provider.
    delivered: Vec<u64>,
    /// The bytes on each link.
    links: BTreeMap<LinkId, u64>,
}

/// The counters of the whole network.
pub(super) struct Meter {
    places: Vec<Place>,
    links: BTreeMap<LinkId, (String, String)>,
    sessions: usize,
}

impl Meter {
    /// Attaches counters to the places of `blueprint`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn attach(
        network: &Network,
        blueprint: &Blueprint,
        built: &Built,
    ) -> Result<Self, EngineError> {
        let prefixes: Vec<_> = network.prefixes.keys().copied().collect();
        let rule =
            |sources, destinations| BundleRule { sources, destinations, key: NO_KEY, epoch: EPOCH };
        let mut places = Vec::new();
        for (place, role) in &blueprint.places {
            let mut hooks: Vec<(Counts, String, Vec<BundleRule>)> = Vec::new();
            for (number, session) in blueprint.sessions.iter().enumerate() {
                if session.router == *place {
                    let device = towards(&blueprint.senders[session.provider].name);
                    let rules = prefixes.iter().map(|p| rule(Vec::new(), vec![*p])).collect();
                    hooks.push((Counts::Session(number), device, rules));
                }
            }
            if *place == blueprint.users_at {
                let own = blueprint.wires.iter().flatten().filter(|e| e.place == *place);
                for end in own {
                    let rules = blueprint.senders.iter();
                    let rules = rules
                        .map(|s| rule(s.own.map(|o| o.0).to_vec(), prefixes.clone()))
                        .collect();
                    hooks.push((Counts::Users, end.device.clone(), rules));
                }
            }
            if !hooks.is_empty() || *role == Role::Router {
                places.push(Place::start(place, built, hooks)?);
            }
        }
        Ok(Self { places, links: blueprint.links.clone(), sessions: blueprint.sessions.len() })
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub(super) fn read(&self) -> Result<Reading, EngineError> {
        let mut reading = Reading {
            at: clock::now(),
            arrived: vec![Vec::new(); self.sessions],
            delivered: Vec::new(),
            links: BTreeMap::new(),
        };
        for place in &self.places {
            let counted = place.read()?;
            for (session, bytes) in counted.arrived {
                reading.arrived[session] = bytes;
            }
            // The users may be behind several routers.
            let all = reading.delivered.len().max(counted.delivered.len());
            reading.delivered.resize(all, 0);
            for (sum, bytes) in reading.delivered.iter_mut().zip(counted.delivered) {
                *sum += bytes;
            }
            for (link, (from, device)) in &self.links {
                if let Some(bytes) = counted.sent.get(device).filter(|_| *from == place.name) {
                    reading.links.insert(*link, *bytes);
                }
            }
        }
        Ok(reading)
    }
}

impl Place {
    fn start(
        name: &str,
        built: &Built,
        hooks: Vec<(Counts, String, Vec<BundleRule>)>,
    ) -> Result<Self, EngineError> {
        let namespace = built.open(name)?;
        let (ask, asked) = sync_channel(0);
        let (answer, answers) = sync_channel(0);
        let work = move || {
            let mut samplers = Vec::new();
            let ready = forebay_lab::netns::exec::enter(&namespace).and_then(|()| {
                for (counts, device, rules) in hooks {
                    let netdev = Netdev::find(&device).map_err(io::Error::other)?;
                    let sampler = Sampler::attach(&netdev, &rules).map_err(io::Error::other)?;
                    samplers.push((counts, rules.len(), sampler));
                }
                Ok(Counted::default())
            });
            let failed = ready.is_err();
            // An error means that the reader has gone.
            if answer.send(ready).is_err() || failed {
                return;
            }
            while asked.recv().is_ok() {
                if answer.send(count(&samplers)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name(format!("count-{name}"))
            .spawn(work)
            .map_err(EngineError::io("starting a thread"))?;
        let place = Self { name: name.to_owned(), ask, answers };
        place.answer()?;
        Ok(place)
    }

    fn answer(&self) -> Result<Counted, EngineError> {
        let gone = |_| io::Error::other("its thread has ended");
        let answer = self.answers.recv().map_err(gone).and_then(|counted| counted);
        answer.map_err(EngineError::io(format!("counting at {}", self.name)))
    }

    fn read(&self) -> Result<Counted, EngineError> {
        // If the thread has ended, the receiver reports it.
        let _ = self.ask.send(());
        self.answer()
    }
}

fn count(samplers: &[(Counts, usize, Sampler)]) -> io::Result<Counted> {
    let mut counted = Counted::default();
    for (counts, rules, sampler) in samplers {
        let bytes = (0..*rules).map(|rule| sampler.counts(rule).map(|c| c.bytes.0));
        let bytes: Vec<u64> = bytes.collect::<Result<_, _>>().map_err(io::Error::other)?;
        match counts {
            Counts::Session(session) => counted.arrived.push((*session, bytes)),
            Counts::Users => {
                counted.delivered.resize(bytes.len(), 0);
                counted.delivered.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
            }
        }
    }
    // /proc/net/dev shows the namespace of this thread.
    counted.sent = sent(&fs::read_to_string("/proc/thread-self/net/dev")?);
    Ok(counted)
}

/// Returns the bytes sent by each interface: the ninth number after its name (proc_net_dev, the
/// kernel's `net/core/net-procfs.c`).
fn sent(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        Some((name.trim().to_owned(), numbers.split_whitespace().nth(8)?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The rates between two readings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rates {
    /// The time between the readings, in seconds.
    pub(super) seconds: f64,
    /// The rate at each session, by prefix.
    pub(super) arrived: Vec<Vec<Rate>>,
    /// The rate to users, by provider.
    pub(super) delivered: Vec<Rate>,
    /// The rate on each link.
    pub(super) links: BTreeMap<LinkId, Rate>,
}

impl Rates {
    pub(super) fn between(first: &Reading, last: &Reading) -> Self {
        let time = last.at.saturating_sub(first.at);
        let rate = |a: u64, b: u64| Rate::from_bytes_over(Bytes(b.saturating_sub(a)), time);
        let all = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| rate(*a, *b)).collect();
        Self {
            seconds: time.as_secs_f64(),
            arrived: first.arrived.iter().zip(&last.arrived).map(|(a, b)| all(a, b)).collect(),
            delivered: all(&first.delivered, &last.delivered),
            links: first
                .links
                .iter()
                .filter_map(|(link, a)| Some((*link, rate(*a, *last.links.get(link)?))))
                .collect(),
        }
    }

    /// Returns the rates as demands for the planner.
    pub(super) fn measured(&self, network: &Network, blueprint: &Blueprint) -> network::Network {
        let mut sums: BTreeMap<(usize, usize, RouterId), u64> = BTreeMap::new();
        for (session, rates) in blueprint.sessions.iter().zip(&self.arrived) {
            for (users, rate) in network.prefixes.values().zip(rates) {
                *sums.entry((session.provider, session.entry, users.router)).or_default() +=
                    rate.as_bps();
            }
        }
        let demands = sums.into_iter().filter(|(_, rate)| *rate > 0).map(|(key, rate)| Demand {
            provider: key.0 as u32,
            entry: key.1 as u32,
            egress: key.2,
            rate: Rate::from_bps(rate),
        });
        network::Network { demands: demands.collect(), ..network.plain() }
    }

    /// Returns the rate on each link of the topology.
    pub(super) fn carried(&self, network: &Network) -> Vec<Option<Rate>> {
        let links = 0..network.topology.links().len() as u32;
        links.map(|link| self.links.get(&LinkId(link)).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_counters_are_parsed() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
            lo:       1       2    0    0    0     0          0         0       3       4    0\n\
            fb-core: 100 2 0 0 0 0 0 0 4242 9 0 0 0 0 0 0\n";
        let sent = sent(text);
        assert_eq!((sent["lo"], sent["fb-core"], sent.len()), (3, 4242, 2));
    }

    #[test]
    fn rates_become_demands() {
        let network = Network::carried().unwrap();
        let blueprint = Blueprint::of(&network).unwrap();
        let reading = |at, byte: u64| Reading {
            at: Nanos::from_secs(at),
            arrived: vec![
                vec![byte, 0, byte, 0],
                vec![0; 4],
                vec![0; 4],
                vec![0; 4],
                vec![0; 4],
                vec![0, 0, 0, byte],
            ],
            delivered: vec![byte, 2 * byte],
            links: BTreeMap::from([(LinkId(0), byte)]),
        };
        let rates = Rates::between(&reading(1, 0), &reading(3, 1_000_000));
        let mega = |n| Rate::from_mbps(n);
        assert_eq!((rates.seconds, &rates.delivered[..]), (2.0, &[mega(4), mega(8)][..]));
        let measured = rates.measured(&network, &blueprint).demands;
        let keys: Vec<_> = measured.iter().map(|d| (d.provider, d.entry, d.rate)).collect();
        assert_eq!(keys, [(0, 0, mega(8)), (1, 2, mega(4))]);
        assert_eq!(rates.carried(&network)[..2], [Some(mega(4)), None]);
    }
}
