//! The control loops of all bundles and the socket for their receiveboxes, for both dataplanes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use forebay_config::RemoteAddress;
use forebay_control::Shares;
use forebay_records::{KnownPath, SendHandover, SendStatus, Tick};
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::{BundleId, is_for_receivebox};

use super::bundle::{ControlledBundle, Heard, QueueTotals};
use super::logs::Logs;
use crate::Error;
use crate::channel::{ByAddress, Channel, Datagram, Incoming, Undelivered};
use crate::config::BundleConfig;
use crate::diagnosis::Hint;
use crate::handover::Handed;
use crate::memory::PathMemory;
use crate::receivebox::Receivebox;
use crate::reload::{self, Difference, Refused, Step};
use crate::slots::Slots;

/// All bundles of a sendbox.
pub(super) struct Bundles {
    list: Slots<ControlledBundle>,
    /// The bytes of each packet that shapers count beside its IP packet.
    header: Bytes,
    /// The bundles of each id. Ids that are derived from keys may be equal.
    by_id: HashMap<BundleId, Vec<usize>>,
    /// The bundles of each receivebox.
    by_address: ByAddress,
    /// What has arrived of each bundle.
    shares: Shares,
    /// The channel to the receiveboxes; `None` without bundles.
    channel: Option<Channel>,
}

impl Bundles {
    /// Makes the bundles of `configs`, whose shapers count `header` bytes of each packet beside its
    /// IP packet, over `channel`. They go on with what was `handed` over, or start with what is in
    /// `memory`.
    pub(super) fn new(
        configs: Vec<(usize, BundleConfig)>,
        channel: Option<Channel>,
        header: Bytes,
        now: Nanos,
        handed: &mut Handed,
        memory: &PathMemory,
    ) -> Result<Self, Error> {
        let list = configs.into_iter().map(|(number, config)| {
            Ok((number, ControlledBundle::resumed(config, header, now, handed, memory)?))
        });
        let list = list.collect::<Result<Slots<_>, Error>>()?;
        let mut shares = Shares::new(0);
        list.iter().for_each(|(number, _)| shares.begin(number));
        let mut bundles = Self {
            shares,
            list,
            header,
            by_id: HashMap::new(),
            by_address: ByAddress::default(),
            channel,
        };
        bundles.index();
        Ok(bundles)
    }

    /// Computes the difference to `wanted`, whose new bundles may have numbers below `room` that
    /// `is_free` accepts. It changes nothing.
    pub(super) fn difference(
        &self,
        wanted: Vec<BundleConfig>,
        room: usize,
        is_free: impl Fn(usize) -> bool,
    ) -> Result<Difference<BundleConfig>, Refused> {
        wanted.iter().try_for_each(ControlledBundle::check)?;
        let present = self.list.iter().map(|(number, bundle)| (number, bundle.config()));
        let free = self.list.free().filter(|number| is_free(*number)).take_while(|n| *n < room);
        reload::difference(present, wanted, free, room)
    }

    /// Applies `steps`. Bundles that they do not name keep their control loops and channels.
    pub(super) fn apply(
        &mut self,
        now: Nanos,
        steps: Vec<Step<BundleConfig>>,
    ) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Add { number, config } => {
                    let bundle = ControlledBundle::new(config, self.header, now)?;
                    self.list.put(number, bundle);
                    self.shares.begin(number);
                }
                Step::Change { number, config, parts } => {
                    if let Some(bundle) = self.list.get_mut(number) {
                        bundle.change(config, parts, now)?;
                    }
                }
                Step::Remove { number } => {
                    if let Some(bundle) = self.list.remove(number) {
                        self.shares.end(number);
                        tracing::info!("{}", bundle.summary());
                    }
                }
            }
        }
        self.index();
        Ok(())
    }

    /// Finds the bundles of each id and address again.
    fn index(&mut self) {
        self.by_id.clear();
        self.by_address.clear();
        for (number, bundle) in self.list.iter() {
            for id in bundle.ids() {
                self.by_id.entry(id).or_default().push(number);
            }
            if let Some(address) = bundle.receivebox() {
                self.by_address.add(number, address);
            }
        }
    }

    /// Follows the other site of the bundle `name`, whose sendbox is at this address.
    fn follow(&mut self, now: Nanos, name: &str, to: SocketAddr) {
        let mut found = self.list.iter_mut().filter(|(_, bundle)| bundle.name() == name);
        let moved = found.find_map(|(number, bundle)| Some((number, bundle.follow(now, to)?)));
        drop(found);
        if let Some((number, moved)) = moved {
            self.by_address.on_moved(number, moved);
        }
    }

    /// Returns the names of the receiveboxes, each with whether it is silent.
    pub(super) fn names(&self, now: Nanos) -> impl Iterator<Item = (&RemoteAddress, bool)> {
        self.list.iter().filter_map(move |(_, bundle)| bundle.name_of_receivebox(now))
    }

    /// Notes that a name has this address.
    pub(super) fn on_resolved(&mut self, now: Nanos, name: &RemoteAddress, to: SocketAddr) {
        for number in 0..self.list.end() {
            if let Some(bundle) = self.list.get_mut(number)
                && bundle.config().receivebox.name() == Some(name)
                && let Some(moved) = bundle.on_resolved(now, name, to)
            {
                self.by_address.on_moved(number, moved);
            }
        }
    }

    /// Returns the descriptor that becomes readable when messages have arrived.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    /// Returns the state of all bundles; `queue` returns the counters of one's queue.
    pub(super) fn status(
        &self,
        now: Nanos,
        queue: impl Fn(usize) -> QueueTotals,
    ) -> Vec<SendStatus> {
        self.list.iter().map(|(number, bundle)| bundle.status(now, queue(number))).collect()
    }

    /// Returns the bundles with their numbers.
    pub(super) fn all(&self) -> &Slots<ControlledBundle> {
        &self.list
    }

    /// Returns the bundle that has this number.
    pub(super) fn get(&self, number: usize) -> Option<&ControlledBundle> {
        self.list.get(number)
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut ControlledBundle> {
        self.list.get_mut(number)
    }

    /// Returns the channel to the receiveboxes.
    pub(super) fn channel(&self) -> Option<&Channel> {
        self.channel.as_ref()
    }

    /// Handles the messages that have arrived; those of other sendboxes go to `receivebox`.
    pub(super) fn take_messages(
        &mut self,
        mut receivebox: Option<&mut Receivebox>,
    ) -> Result<(), Error> {
        while let Some(incoming) = self.channel.as_ref().and_then(Channel::receive) {
            match (incoming, &mut receivebox, &self.channel) {
                (Incoming::Datagram(datagram), Some(receivebox), Some(channel))
                    if is_for_receivebox(datagram.bytes()) =>
                {
                    // Both directions to a site have one address.
                    if let Some(name) = receivebox.on_datagram(&datagram, channel)? {
                        self.follow(datagram.came, &name, datagram.from);
                    }
                }
                (Incoming::Datagram(datagram), receivebox, _) => {
                    if let Some(name) = self.take(&datagram)
                        && let Some(receivebox) = receivebox
                    {
                        receivebox.follow(datagram.came, name, datagram.from);
                    }
                }
                (Incoming::Undelivered(undelivered), receivebox, _) => {
                    let Undelivered { to, error } = undelivered;
                    self.hint(clock::now(), to, Hint::Undelivered(error));
                    if let Some(receivebox) = receivebox {
                        receivebox.on_undelivered(undelivered);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes in a message of a receivebox; returns the name of its bundle if it has moved.
    fn take(&mut self, datagram: &Datagram) -> Option<&str> {
        let Self { list, by_id, by_address, shares, .. } = self;
        let channel = self.channel.as_ref()?;
        let Datagram { from, came, .. } = *datagram;
        match channel.bundle_of(datagram) {
            Ok(id) => match by_id.get(&id) {
                Some(bundles) => {
                    // A key that is another bundle's does not fit.
                    let heard = bundles.iter().find_map(|&number| {
                        let bundle = list.get_mut(number)?;
                        // Those towards the same receivebox are in its feedback.
                        let address = bundle.receivebox();
                        let same = address.map_or(&[][..], |at| by_address.at(at));
                        let heard = bundle.on_message(datagram, channel, |arrived| {
                            shares.on_total(came, number, arrived);
                            shares.beside(same)
                        });
                        match heard {
                            Heard::Refused => None,
                            Heard::Accepted(moved) => Some((number, moved)),
                        }
                    });
                    let (number, moved) = heard?;
                    self.by_address.on_moved(number, moved?);
                    return self.list.get(number).map(ControlledBundle::name);
                }
                None => {
                    tracing::debug!("a message from {from} is for an unknown bundle");
                    self.hint(datagram.came, from, Hint::OtherBundle(id));
                }
            },
            Err(why) => self.hint(datagram.came, from, Hint::Refused { from, why }),
        }
        None
    }

    /// Gives a hint to the bundles whose receivebox is at `address`.
    fn hint(&mut self, now: Nanos, address: SocketAddr, hint: Hint) {
        for &number in self.by_address.at(address) {
            if let Some(bundle) = self.list.get_mut(number) {
                bundle.on_hint(now, hint);
            }
        }
    }

    /// Runs the tick of the bundle of this number, of which `backlog` bytes wait. Returns its rate,
    /// or `None` without a limit. Bundles are ticked in the order of their numbers.
    pub(super) fn tick(
        &mut self,
        number: usize,
        now: Nanos,
        backlog: Bytes,
        logs: &mut Logs,
    ) -> Option<Rate> {
        ControlledBundle::prefetch_after(number, &self.list);
        let bundle = self.list.get_mut(number)?;
        let Some(channel) = &self.channel else { return bundle.rate() };
        let Ok(rate) = bundle.tick(now, backlog, channel, |event| {
            logs.event(event);
            Ok::<_, Infallible>(())
        });
        logs.tick(|| Tick::new(now, bundle.name(), &bundle.snapshot(), backlog));
        rate
    }

    /// Returns what is known of the bundles' paths.
    pub(super) fn known_paths(&self) -> impl Iterator<Item = KnownPath> {
        self.list.iter().filter_map(|(_, bundle)| bundle.known_path())
    }

    /// Returns what another process goes on with.
    pub(super) fn handover(&self) -> Vec<SendHandover> {
        self.list.iter().map(|(number, bundle)| bundle.handover(number)).collect()
    }

    /// Logs a summary of each bundle, at the end.
    pub(super) fn log_summaries(&self) {
        for (_, bundle) in self.list.iter() {
            tracing::info!("{}", bundle.summary());
        }
    }
}
