//! The control loops of all bundles and the socket for their receiveboxes, for both dataplanes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use forebay_records::{Event, SendStatus, Tick};
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::{BundleId, is_for_receivebox};

use super::bundle::{ControlledBundle, QueueTotals};
use super::logs::Logs;
use crate::Error;
use crate::channel::{Channel, Datagram, Incoming, Undelivered};
use crate::config::BundleConfig;
use crate::diagnosis::Hint;
use crate::receivebox::Receivebox;

/// All bundles of a sendbox.
pub(super) struct Bundles {
    list: Vec<ControlledBundle>,
    /// The bundles of each id. Ids that are derived from keys may be equal.
    by_id: HashMap<BundleId, Vec<usize>>,
    /// The bundles of each receivebox.
    by_address: HashMap<SocketAddr, Vec<usize>>,
    /// The channel to the receiveboxes; `None` without bundles.
    channel: Option<Channel>,
}

impl Bundles {
    /// Makes the bundles of `configs`, whose shapers count `header` bytes of each packet beside its
    /// IP packet.
    pub(super) fn new(
        configs: Vec<BundleConfig>,
        listen: Option<SocketAddr>,
        header: Bytes,
        now: Nanos,
    ) -> Result<Self, Error> {
        let channel = listen.map(Channel::bind).transpose()?;
        let list = configs.into_iter().map(|b| ControlledBundle::new(b, header, now));
        let list = list.collect::<Result<Vec<_>, _>>()?;
        let mut by_id: HashMap<_, Vec<_>> = HashMap::new();
        let mut by_address: HashMap<_, Vec<_>> = HashMap::new();
        for (index, bundle) in list.iter().enumerate() {
            by_id.entry(bundle.id()).or_default().push(index);
            by_address.entry(bundle.receivebox()).or_default().push(index);
        }
        Ok(Self { list, by_id, by_address, channel })
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
        self.list.iter().enumerate().map(|(i, bundle)| bundle.status(now, queue(i))).collect()
    }

    pub(super) fn all(&self) -> &[ControlledBundle] {
        &self.list
    }

    pub(super) fn get(&self, index: usize) -> &ControlledBundle {
        &self.list[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut ControlledBundle {
        &mut self.list[index]
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
                    receivebox.on_datagram(&datagram, channel)?;
                }
                (Incoming::Datagram(datagram), ..) => self.take(&datagram),
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

    fn take(&mut self, datagram: &Datagram) {
        let Some(channel) = &self.channel else { return };
        let from = datagram.from;
        match channel.bundle_of(datagram) {
            Ok(id) => match self.by_id.get(&id) {
                Some(bundles) => {
                    // A key that is another bundle's does not fit.
                    let _ = bundles.iter().any(|i| self.list[*i].on_message(datagram, channel));
                }
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
