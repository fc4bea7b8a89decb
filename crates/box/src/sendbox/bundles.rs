//! The control loops of all bundles and the socket for their receiveboxes, for both dataplanes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use forebay_records::{Event, Tick};
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::BundleId;

use super::bundle::ControlledBundle;
use super::logs::Logs;
use crate::Error;
use crate::channel::{Channel, Datagram, Incoming, Undelivered};
use crate::config::BundleConfig;
use crate::diagnosis::Hint;

/// All bundles of a sendbox.
pub(super) struct Bundles {
    list: Vec<ControlledBundle>,
    by_id: HashMap<BundleId, usize>,
    /// The bundles of each receivebox.
    by_address: HashMap<SocketAddr, Vec<usize>>,
    /// The channel to the receiveboxes; `None` without bundles.
    channel: Option<Channel>,
}

impl Bundles {
    pub(super) fn new(
        configs: Vec<BundleConfig>,
        listen: Option<SocketAddr>,
        now: Nanos,
    ) -> Result<Self, Error> {
        let channel = listen.map(Channel::bind).transpose()?;
        let list = configs.into_iter().map(|b| ControlledBundle::new(b, now));
        let list = list.collect::<Result<Vec<_>, _>>()?;
        let by_id = list.iter().enumerate().map(|(i, b)| (b.id(), i)).collect();
        let mut by_address: HashMap<_, Vec<_>> = HashMap::new();
        for (index, bundle) in list.iter().enumerate() {
            by_address.entry(bundle.receivebox()).or_default().push(index);
        }
        Ok(Self { list, by_id, by_address, channel })
    }

    /// Returns the descriptor that becomes readable when messages have arrived.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.channel.as_ref().map(Channel::descriptor)
    }

    pub(super) fn get(&self, index: usize) -> &ControlledBundle {
        &self.list[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut ControlledBundle {
        &mut self.list[index]
    }

    /// Handles the messages that have arrived.
    pub(super) fn take_feedback(&mut self) {
        while let Some(incoming) = self.channel.as_ref().and_then(Channel::receive) {
            match incoming {
                Incoming::Datagram(datagram) => self.take(&datagram),
                Incoming::Undelivered(Undelivered { to, error }) => {
                    self.hint(clock::now(), to, Hint::Undelivered(error));
                }
            }
        }
    }

    fn take(&mut self, datagram: &Datagram) {
        let Some(channel) = &self.channel else { return };
        let from = datagram.from;
        match channel.bundle_of(datagram) {
            Ok(id) => match self.by_id.get(&id) {
                Some(&index) => self.list[index].on_message(datagram, channel),
                None => {
                    tracing::debug!("a message from {from} is for an unknown bundle");
                    self.hint(datagram.came, from, Hint::OtherBundle(id));
                }
            },
            Err(why) => self.hint(datagram.came, from, Hint::Refused { from, why }),
        }
    }

    /// Gives a hint to the bundles whose receivebox is at `address`.
    fn hint(&mut self, now: Nanos, address: SocketAddr, hint: Hint) {
        for &index in self.by_address.get(&address).into_iter().flatten() {
            self.list[index].on_hint(now, hint);
        }
    }

    /// Runs the tick of bundle number `index`, with `backlog` bytes waiting; returns its rate,
    /// `None` being no limit. Bundles are ticked in the order of their numbers.
    pub(super) fn tick(
        &mut self,
        index: usize,
        now: Nanos,
        backlog: Bytes,
        logs: &mut Logs,
    ) -> Option<Rate> {
        ControlledBundle::prefetch_after(index, &self.list);
        let bundle = &mut self.list[index];
        let Some(channel) = &self.channel else { return bundle.rate() };
        let Ok(rate) = bundle.tick(now, backlog, channel, |name, event| {
            logs.event(|| Event::new(now, name, event));
            Ok::<_, Infallible>(())
        });
        logs.tick(|| Tick::new(now, bundle.name(), &bundle.snapshot(), backlog));
        rate
    }

    /// Logs a summary of each bundle, at the end.
    pub(super) fn log_summaries(&self) {
        for bundle in &self.list {
            tracing::info!("{}", bundle.summary());
        }
    }
}
