//! Collects flow records: finds the exporter of a message, and the entry and the prefix of each
//! flow.

mod relayed;
mod sflow;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::flows::count::{Counted, Counts, Reason};
use crate::flows::decoder::{Decoded, Decoder, Undecoded, netflow5};
use crate::flows::drops::Drops;
use crate::flows::losses::Losses;
use crate::flows::message::{self, Header, Message, NoMessage, Version};
use crate::flows::record::Fields;
use crate::flows::sampling::Samplers;
use crate::flows::tally::{Sum, Tally};
use crate::flows::time::Window;
use crate::flows::users::{Destinations, RouteUsers};
use crate::input::{Exporter, Exporters, Place, Users};
use crate::network::Provider;
use crate::topology::{RouterId, Topology};

/// The most observation domains of all exporters.
pub const MAX_DOMAINS: usize = 4096;
/// The most observation domains of one exporter.
pub const MAX_DOMAINS_OF_ONE: usize = 64;
/// The version of sFlow v5, in four octets.
const SFLOW: [u8; 4] = [0, 0, 0, 5];
/// The most unknown interfaces, and the most unknown senders, that are counted separately.
const MAX_NAMED: usize = 256;

/// The resolution of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// A sum for each prefix, so that shares of prefixes can be measured.
    Prefix,
    /// A sum for each router of users, which is what demands need.
    Router,
}

/// The statistics of one exporter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// The messages received.
    pub(crate) messages: u64,
    /// The flows in them, used or not.
    pub(crate) flows: u64,
    /// The time of the last message, in milliseconds since 1970.
    pub(crate) last: Option<i64>,
    /// The lowest and the highest sampling factor.
    pub(crate) factors: Option<(f64, f64)>,
    /// The flows without a known sampling factor.
    pub(crate) unsaid: u64,
    /// The octets that were counted for the exporter.
    pub(crate) octets: f64,
}

#[derive(Debug, Default)]
struct Domain {
    decoder: Decoder,
    losses: Losses,
    /// The samples that the exporter dropped itself; only for sFlow.
    drops: Drops,
}

/// The key of a domain: exporter, protocol, and observation domain.
type DomainKey = (u32, Version, u32);

/// Something that could not be read, and its place in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The offset of the first octet that is affected.
    pub at: usize,
    /// What is wrong with it.
    pub what: String,
}

/// A measured demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The entry where the traffic comes in.
    pub place: Place,
    /// The router of the users.
    pub router: RouterId,
    /// The rate in bits per second.
    pub rate: f64,
    /// The relative error, which the true rate is within with a probability of 95 %, if sampling is
    /// the only source of error.
    pub error: f64,
}

/// Collects flow records of several exporters into sums by entry and prefix or router.
#[derive(Debug)]
pub struct Collector {
    pub(crate) table: Exporters,
    destinations: Destinations,
    /// The router of each sum.
    routers: Vec<RouterId>,
    /// The place of each provider's entry at a router, by the AS of a flow's source.
    by_source: BTreeMap<(RouterId, u32), u32>,
    tally: Option<Tally>,
    domains: BTreeMap<DomainKey, Domain>,
    samplers: BTreeMap<DomainKey, Samplers>,
    pub(crate) heard: Vec<Heard>,
    pub(crate) counts: Counts,
    pub(crate) strangers: BTreeMap<IpAddr, Counted>,
    pub(crate) interfaces: BTreeMap<(u32, u32), Counted>,
    exported: Option<Window>,
}

impl Collector {
    /// Creates a collector for the exporters of `table`, without sums.
    pub fn new(table: Exporters, prefixes: &BTreeMap<IpNet, Users>, grain: Grain) -> Self {
        let (destinations, routers) = Destinations::of_prefixes(prefixes, grain);
        Self::with(table, destinations, routers)
    }

    /// Creates a collector that finds the router of a flow in `routes` as they are when the flow
    /// comes, and at interfaces of several providers the provider by the AS of the flow's source.
    /// `asns` has the index of the provider in `providers` that each AS belongs to.
    pub fn with_routes(
        mut table: Exporters,
        routes: RouteUsers,
        providers: &[Provider],
        asns: &BTreeMap<u32, u32>,
        topology: &Topology,
    ) -> Self {
        let shared = table.exporters.iter().flat_map(|e| e.shared.values().copied());
        let shared: BTreeSet<RouterId> = shared.collect();
        let mut known: BTreeMap<Place, u32> = table.places.iter().copied().zip(0..).collect();
        let mut by_source = BTreeMap::new();
        for (asn, provider) in asns {
            let Some(entries) = providers.get(*provider as usize).map(|p| &p.entries) else {
                continue;
            };
            for (entry, at) in entries.iter().zip(0..).filter(|(e, _)| shared.contains(&e.router)) {
                let place = Place { provider: *provider, entry: at };
                let number = *known.entry(place).or_insert_with(|| {
                    table.places.push(place);
                    table.places.len() as u32 - 1
                });
                by_source.insert((entry.router, *asn), number);
            }
        }
        let routers = (0..topology.routers().len() as u32).map(RouterId).collect();
        let mut collector = Self::with(table, Destinations::Routes(routes), routers);
        collector.by_source = by_source;
        collector
    }

    fn with(table: Exporters, destinations: Destinations, routers: Vec<RouterId>) -> Self {
        let heard = vec![Heard::default(); table.exporters.len()];
        Self {
            table,
            destinations,
            routers,
            by_source: BTreeMap::new(),
            tally: None,
            domains: BTreeMap::new(),
            samplers: BTreeMap::new(),
            heard,
            counts: Counts::default(),
            strangers: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            exported: None,
        }
    }

    /// Starts new sums in `bins` bins of `width` milliseconds from `begin` on.
    ///
    /// Sampling factors are kept, since exporters report them only every few minutes.
    pub fn begin(&mut self, begin: i64, width: i64, bins: usize) {
        self.tally = Some(Tally::new(begin, width, bins));
        self.domains.clear();
        self.heard.fill(Heard::default());
        self.counts = Counts::default();
        self.strangers.clear();
        self.interfaces.clear();
        self.exported = None;
    }

    /// Extends the bins up to `end` and drops as many of the oldest.
    pub fn advance(&mut self, end: i64) {
        if let Some(tally) = &mut self.tally {
            tally.advance(end);
        }
    }

    /// Returns the window of the last whole bins up to `end` that cover `length` milliseconds, or
    /// of all bins if they are fewer.
    pub fn last(&self, end: i64, length: i64) -> Window {
        self.tally.as_ref().map_or(Window { begin: end, end }, |tally| tally.last(end, length))
    }

    /// Returns the exporters.
    pub fn exporters(&self) -> &[Exporter] {
        &self.table.exporters
    }

    /// Whether an exporter has this address.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.table.number(address).is_some()
    }

    /// Returns the senders that are not in the table, up to a limit.
    pub fn strangers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.strangers.keys().copied()
    }

    /// Returns the export times of the first and the last message.
    pub fn exported(&self) -> Option<Window> {
        self.exported
    }

    /// Returns the exporters without a message since `then`, except optional ones.
    pub fn silent(&self, then: i64) -> Vec<IpAddr> {
        let all = self.table.exporters.iter().zip(&self.heard);
        let silent = all.filter(|(e, heard)| !e.optional && heard.last.is_none_or(|l| l < then));
        silent.map(|(exporter, _)| exporter.address).collect()
    }

    /// Returns how much is not in the sums for a reason. Sets that still wait for their template
    /// are included.
    pub fn counted(&self, reason: Reason) -> Counted {
        let mut counted = self.counts.of(reason);
        if reason == Reason::Template {
            counted.times += self.domains.values().map(|d| d.decoder.waiting() as u64).sum::<u64>();
        }
        counted
    }

    /// Returns the part of an exporter's messages, or of its records, that was lost. Samples that
    /// it dropped itself count as lost too.
    pub fn lost(&self, exporter: u32) -> f64 {
        let (mut all, mut drops) = (Losses::default(), Drops::default());
        for (_, domain) in self.domains.range(own(exporter)) {
            all.came += domain.losses.came;
            all.lost += domain.losses.lost;
            drops.came += domain.drops.came;
            drops.dropped += domain.drops.dropped;
        }
        // A sample arrives if it was not dropped before its message, and its message was not lost.
        let (lost, dropped) = (all.share(), drops.share());
        lost + dropped - lost * dropped
    }

    /// Takes a datagram that arrived from `from` at `now`, in milliseconds since 1970.
    pub fn datagram(
        &mut self,
        from: IpAddr,
        octets: &[u8],
        now: i64,
        trouble: &mut dyn FnMut(Trouble),
    ) {
        if self.table.number(from).is_none() {
            return self.unknown_sender(from);
        }
        if octets.starts_with(&SFLOW) {
            return self.sflow(from, octets, now, trouble);
        }
        let mut at = 0;
        while at < octets.len() {
            match message::first(&octets[at..]) {
                Ok(found) => {
                    let end = at + found.length;
                    self.message(from, &octets[at..end], &found, now, &mut |t| {
                        trouble(Trouble { at: at + t.at, what: t.what });
                    });
                    at = end;
                }
                Err(why) => {
                    self.no_message(&why);
                    trouble(Trouble { at, what: why.to_string() });
                    return;
                }
            }
        }
    }

    /// Takes a file of messages, one after the other, of an exporter.
    ///
    /// What cannot be read costs no message after it.
    pub fn file(&mut self, from: IpAddr, file: &[u8], trouble: &mut dyn FnMut(Trouble)) {
        let mut at = 0;
        while at < file.len() {
            let (start, rest) = (at, &file[at..]);
            match message::first(rest) {
                Ok(mut found) => {
                    // A message of NetFlow v9 does not say where it ends: what cannot be read may
                    // be of the next.
                    let broken = found.broken.filter(|_| found.header.version == Version::Netflow9);
                    if let Some((place, _)) = broken {
                        found.length = place;
                    }
                    let (octets, exported) = (&rest[..found.length], found.header.exported);
                    self.message(from, octets, &found, exported, &mut |t| {
                        trouble(Trouble { at: start + t.at, what: t.what });
                    });
                    at += found.length;
                    if broken.is_some() {
                        at = message::next(file, at);
                    }
                }
                Err(why) => {
                    self.no_message(&why);
                    at = message::next(file, start + 1);
                    let what = format!("the message {why}; {} octets are left out", at - start);
                    trouble(Trouble { at: start, what });
                }
            }
        }
    }

    fn no_message(&mut self, why: &NoMessage) {
        self.counts.add(
            match why {
                NoMessage::Version(_) | NoMessage::Sflow(_) | NoMessage::Timeless => {
                    Reason::Version
                }
                NoMessage::Short(_) | NoMessage::Length(_) | NoMessage::Agent(_) => {
                    Reason::Malformed
                }
            },
            0.0,
        );
    }

    /// Takes a message with these octets.
    pub fn message(
        &mut self,
        from: IpAddr,
        octets: &[u8],
        message: &Message,
        now: i64,
        trouble: &mut dyn FnMut(Trouble),
    ) {
        let header = message.header;
        let Some(key) = self.hear(from, &header, now) else { return };
        let mut flows: Vec<(Header, Fields)> = Vec::new();
        let domain = self.domains.entry(key).or_default();
        let samplers = self.samplers.entry(key).or_default();
        let counts = &mut self.counts;
        let mut malformed = |at: usize, what: String| {
            counts.add(Reason::Malformed, 0.0);
            trouble(Trouble { at, what });
        };
        let mut take = |header: Header, decoded: Decoded| {
            decoded.options.iter().for_each(|options| samplers.options(options));
            flows.extend(decoded.flows.into_iter().map(|flow| (header, flow)));
        };
        // The number of records is known only if every set could be read.
        let mut records = message.broken.is_none().then_some(0_u32);
        let mut no_room = 0_u32;
        if header.version == Version::Netflow5 {
            let decoded = Decoded { flows: netflow5(octets), ..Decoded::default() };
            records = Some(decoded.flows.len() as u32);
            take(header, decoded);
        }
        for set in &message.sets {
            let place = &octets[set.place.clone()];
            let what = |why: &dyn std::fmt::Display| match set.number {
                256.. => format!("the set of template {} {why}", set.number),
                _ => format!("the set of templates {why}"),
            };
            match domain.decoder.set(header.version, place) {
                Ok(decoded) => {
                    let count = (decoded.flows.len() + decoded.options.len()) as u32;
                    let whole = decoded.unread.is_none();
                    records = records.map(|r| r.saturating_add(count)).filter(|_| whole);
                    if let Some(why) = decoded.unread {
                        let why = match set.number {
                            256.. => {
                                format!("cannot be read after its first {count} records: {why}")
                            }
                            _ => format!("cannot be read to its end: {why}"),
                        };
                        malformed(set.place.start, what(&why));
                    }
                    let waited = domain.decoder.waited(&decoded.learned);
                    take(header, decoded);
                    for (header, result) in waited {
                        match result {
                            Ok(decoded) => {
                                if let Some(why) = decoded.unread {
                                    let why = format!("that waited cannot be read: {why}");
                                    malformed(set.place.start, what(&why));
                                }
                                take(header, decoded);
                            }
                            Err(why) => {
                                malformed(set.place.start, what(&format!("that waited {why}")));
                            }
                        }
                    }
                }
                Err(Undecoded::NoTemplate) => {
                    records = None;
                    if !domain.decoder.wait(header, set.number, place) {
                        no_room += 1;
                    }
                }
                Err(why) => {
                    records = records.filter(|_| set.number < 256);
                    malformed(set.place.start, what(&why));
                }
            }
        }
        if let Some((at, what)) = message.broken {
            malformed(at, what.to_owned());
        }
        domain.losses.message(&header, records);
        (0..no_room).for_each(|_| self.counts.add(Reason::Template, 0.0));
        for (header, flow) in flows {
            self.flow(key, &header, &flow);
        }
    }

    /// Counts a message with this header; `None` if its sender is unknown, or its domain is beyond
    /// the limit.
    fn hear(&mut self, from: IpAddr, header: &Header, now: i64) -> Option<DomainKey> {
        let Some(exporter) = self.table.number(from) else {
            self.unknown_sender(from);
            return None;
        };
        let key = (exporter, header.version, header.domain);
        if !self.domains.contains_key(&key) && !self.has_room(exporter) {
            self.counts.add(Reason::Domain, 0.0);
            return None;
        }
        let heard = &mut self.heard[exporter as usize];
        heard.messages += 1;
        heard.last = Some(now);
        let at = header.exported;
        let exported = self.exported.get_or_insert(Window { begin: at, end: at });
        *exported = Window { begin: exported.begin.min(at), end: exported.end.max(at) };
        Some(key)
    }

    fn unknown_sender(&mut self, from: IpAddr) {
        self.counts.add(Reason::Exporter, 0.0);
        named(&mut self.strangers, from.to_canonical(), 0.0);
    }

    fn has_room(&self, exporter: u32) -> bool {
        self.domains.len() < MAX_DOMAINS
            && self.domains.range(own(exporter)).count() < MAX_DOMAINS_OF_ONE
    }

    /// Returns the sampling factor of a flow and the start time of its exporter, as far as they are
    /// known. They come from the flow's domain, or from domain 0 for all domains (RFC 7011, section
    /// 3.4.2.1).
    fn sampling_and_start(&self, key: DomainKey, flow: &Fields) -> (Option<f64>, Option<i64>) {
        let own = self.samplers.get(&key);
        let all = self.samplers.get(&(key.0, key.1, 0));
        let factor = |samplers: Option<&Samplers>| samplers?.factor(flow);
        let initialised = |samplers: Option<&Samplers>| samplers?.initialised;
        // Samples of sFlow have their own factor, and their domains no samplers.
        let reported = flow.sampling.factor().or_else(|| factor(own)).or_else(|| factor(all));
        (reported, initialised(own).or_else(|| initialised(all)))
    }

    fn flow(&mut self, key: DomainKey, header: &Header, flow: &Fields) {
        let (reported, initialised) = self.sampling_and_start(key, flow);
        let exporter = &self.table.exporters[key.0 as usize];
        let heard = &mut self.heard[key.0 as usize];
        heard.flows += 1;
        let counts = &mut self.counts;
        let (Some(octets), Some(destination)) = (flow.octets, flow.destination()) else {
            return counts.add(Reason::Incomplete, 0.0);
        };
        let factor = exporter.sampling.map(f64::from).or(reported);
        heard.unsaid += u64::from(factor.is_none());
        let factor = factor.unwrap_or(1.0);
        let (least, most) = heard.factors.unwrap_or((factor, factor));
        heard.factors = Some((least.min(factor), most.max(factor)));
        let sum = Sum::sampled(octets, flow.packets, factor);
        if flow.is_leaving() {
            return counts.add(Reason::Leaving, sum.octets);
        }
        // A flow without an interface counts as interface 0, which no interface has.
        let index = flow.interface().unwrap_or(0);
        let place = match (exporter.interfaces.get(&index), exporter.shared.get(&index)) {
            (Some(place), _) => *place,
            (None, Some(router)) => {
                let origin = flow.source().and_then(|s| self.destinations.origin(s.to_canonical()));
                let place = origin.and_then(|asn| self.by_source.get(&(*router, asn)));
                match place {
                    Some(place) => *place,
                    None => return counts.add(Reason::Source, sum.octets),
                }
            }
            (None, None) => {
                named(&mut self.interfaces, (key.0, index), sum.octets);
                return counts.add(Reason::Interface, sum.octets);
            }
        };
        let Some(to) = self.destinations.sum_of(destination.to_canonical()) else {
            return counts.add(Reason::Prefix, sum.octets);
        };
        let Some(span) = flow.span(header, initialised) else {
            return counts.add(Reason::Times, sum.octets);
        };
        let Some(tally) = &mut self.tally else { return };
        let added = tally.add((place, to), sum, span);
        heard.octets += added.within;
        if added.full > 0.0 {
            counts.add(Reason::Full, added.full);
        }
        let outside = sum.octets - added.within - added.full;
        // Less than a thousandth of an octet is a rounding residue.
        if outside > 1e-3 {
            counts.add(Reason::Window, outside);
        }
    }

    /// Returns the demands of the bins within `window`.
    pub fn demands(&self, window: Window) -> Vec<Measured> {
        let mut sums: BTreeMap<(Place, RouterId), Sum> = BTreeMap::new();
        for ((place, to), sum) in self.sums(window) {
            let key = (self.table.places[place as usize], self.routers[to as usize]);
            sums.entry(key).or_default().add(sum);
        }
        let rate = rate(window);
        let measured = |((place, router), sum): ((Place, RouterId), Sum)| Measured {
            place,
            router,
            rate: rate(sum.octets),
            error: sum.error(),
        };
        sums.into_iter().map(measured).collect()
    }

    /// Returns the rate to each prefix in `window`, in bits per second, in the order of the
    /// prefixes; with [`Grain::Prefix`] only.
    pub fn shares(&self, window: Window) -> Vec<f64> {
        let mut shares = vec![0.0; self.routers.len()];
        for ((_, to), sum) in self.sums(window) {
            shares[to as usize] += sum.octets;
        }
        shares.into_iter().map(rate(window)).collect()
    }

    fn sums(&self, window: Window) -> BTreeMap<(u32, u32), Sum> {
        self.tally.as_ref().map(|tally| tally.sums(window)).unwrap_or_default()
    }
}

/// Returns the range of an exporter's domain keys.
fn own(exporter: u32) -> std::ops::RangeInclusive<DomainKey> {
    (exporter, Version::Netflow5, 0)..=(exporter, Version::Sflow5, u32::MAX)
}

/// Returns a function from octets in a window to bits per second.
pub(crate) fn rate(window: Window) -> impl Fn(f64) -> f64 {
    let seconds = window.length() as f64 / 1000.0;
    move |octets| if seconds > 0.0 { octets * 8.0 / seconds } else { 0.0 }
}

/// Counts under a name, as long as the number of names is limited.
fn named<K: Ord>(names: &mut BTreeMap<K, Counted>, name: K, octets: f64) {
    if names.len() >= MAX_NAMED && !names.contains_key(&name) {
        return;
    }
    let counted = names.entry(name).or_default();
    counted.times += 1;
    counted.octets += octets;
}

#[cfg(test)]
mod tests;
