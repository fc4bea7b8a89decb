//! The control loops of all bundles and the socket for their receiveboxes, for both dataplanes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use forebay_records::{Event, Tick};
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::BundleId;

use super::bundle::ControlledBundle;
use super::logs::Logs;
use crate::Error;
use crate::channel::Channel;
use crate::config::BundleConfig;

/// All bundles of a sendbox.
pub(super) struct Bundles {
    list: Vec<ControlledBundle>,
    by_id: HashMap<BundleId, usize>,
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
        Ok(Self { list, by_id, channel })
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
        let Some(channel) = &self.channel else { return };
        while let Some(datagram) = channel.receive() {
            let index = channel.bundle_of(&datagram).and_then(|id| self.by_id.get(&id));
            match index {
                Some(&index) => {
                    self.list[index].on_message(datagram.came, datagram.bytes(), channel);
                }
                None => {
                    tracing::debug!("a message from {} is for an unknown bundle", datagram.from);
                }
            }
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
