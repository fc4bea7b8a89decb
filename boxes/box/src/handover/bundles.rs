//! The state of bundles as it is handed over.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use forebay_control::{ControlLoop, Mode, Resumed};
use forebay_records::{ReceiveHandover, SendHandover};
use forebay_units::{Nanos, Rate};
use forebay_wire::EpochSize;
use forebay_wire::feedback::{
    BundleId, Key, ReceiveboxChannel, SavedBinding, SavedReceivebox, SavedSendbox, SendboxChannel,
    Session,
};

use super::Handed;

/// What a bundle at a sendbox goes on with.
pub(crate) struct HandedSend {
    pub(crate) channel: Option<SendboxChannel>,
    /// The packets that its receivebox was told of.
    pub(crate) packets: u64,
    /// The address of the receivebox as the file gave it, and that to which messages went.
    pub(crate) configured: String,
    pub(crate) address: Option<SocketAddr>,
    resumed: Resumed,
}

/// What a bundle at a receivebox goes on with.
pub(crate) struct HandedReceive {
    pub(crate) channel: ReceiveboxChannel,
    /// The address of the sendbox as the file gave it, and that to which messages went.
    pub(crate) configured: String,
    pub(crate) address: Option<SocketAddr>,
}

impl HandedSend {
    /// Lets a new control loop go on.
    pub(crate) fn resume(&self, control: &mut ControlLoop, now: Nanos) {
        control.resume(now, self.resumed);
    }
}

/// Describes a bundle that leaves its sendbox.
pub(crate) fn of_send(
    number: usize,
    name: &str,
    id: BundleId,
    channel: &SendboxChannel,
    control: &ControlLoop,
    packets: u64,
) -> SendHandover {
    let snapshot = control.snapshot();
    let saved = channel.save();
    SendHandover {
        name: name.to_owned(),
        number,
        id: id.0,
        rate_bps: snapshot.rate.filter(|_| snapshot.mode == Mode::DelayControl).map(Rate::as_bps),
        min_rtt_ns: snapshot.min_rtt.map(|rtt| rtt.0),
        epoch: snapshot.epoch,
        packets,
        session: saved.session.0.get(),
        sent: saved.sent,
        acked: saved.acked,
        receivebox: saved.receivebox.map_or(0, |session| session.0.get()),
        highest: saved.highest,
        seen: saved.seen.to_vec(),
        ..SendHandover::default()
    }
}

/// Describes a bundle that arrives at its receivebox.
pub(crate) fn of_receive(name: &str, id: BundleId, channel: &ReceiveboxChannel) -> ReceiveHandover {
    let SavedReceivebox { offered, bound } = channel.save();
    let none = ReceiveHandover {
        name: name.to_owned(),
        id: id.0,
        offered: offered.0.get(),
        ..ReceiveHandover::default()
    };
    let Some(SavedBinding { sendbox, receivebox, applied, epoch, packets, sent }) = bound else {
        return none;
    };
    ReceiveHandover {
        sendbox: sendbox.0.get(),
        receivebox: receivebox.0.get(),
        applied,
        epoch: epoch.packets(),
        packets,
        sent,
        ..none
    }
}

fn session(number: u64) -> Option<Session> {
    NonZeroU64::new(number).map(Session)
}

impl Handed {
    /// Returns what the bundle `name` goes on with, and says it.
    pub(crate) fn take_send(&mut self, name: &str, id: BundleId, key: &Key) -> Option<HandedSend> {
        if !self.is_upgrade() {
            return None;
        }
        let Some(found) = self.send(name).cloned() else {
            self.starts_fresh(format!("bundle {name}: the process before did not hand it over"));
            return None;
        };
        let channel = (found.id == id.0).then(|| sendbox_channel(&found, id, key)).flatten();
        let resumed = Resumed {
            rate: found.rate_bps.map(Rate::from_bps),
            min_rtt: found.min_rtt_ns.map(Nanos),
            epoch: Some(found.epoch),
        };
        match (resumed.rate, resumed.min_rtt) {
            (Some(rate), Some(rtt)) => {
                let ms = rtt.0 as f64 / 1e6;
                self.goes_on(format!("bundle {name}: {rate}, minimum RTT {ms:.1} ms"));
            }
            _ => self.starts_fresh(format!(
                "the rate of bundle {name}: there was no delay control, so it is open until it has \
                 measured"
            )),
        }
        if channel.is_none() {
            self.starts_fresh(format!("the session of bundle {name}: its id or numbers differ"));
        }
        let SendHandover { packets, configured, address, .. } = found;
        Some(HandedSend { packets, channel, resumed, configured, address })
    }

    /// Returns what the bundle `name` goes on with at its receivebox, and says it.
    pub(crate) fn take_receive(
        &mut self,
        name: &str,
        id: BundleId,
        key: &Key,
    ) -> Option<HandedReceive> {
        if !self.is_upgrade() {
            return None;
        }
        let found = self.receive(name).filter(|found| found.id == id.0).cloned();
        let taken = found.and_then(|found| {
            let channel = receivebox_channel(&found, id, key)?;
            let ReceiveHandover { configured, address, .. } = found;
            Some(HandedReceive { channel, configured, address })
        });
        if taken.is_some() {
            self.goes_on(format!("bundle {name}: the session with its sendbox"));
        } else {
            self.starts_fresh(format!("the session of bundle {name} with its sendbox"));
        }
        taken
    }
}

fn sendbox_channel(found: &SendHandover, id: BundleId, key: &Key) -> Option<SendboxChannel> {
    let saved = SavedSendbox {
        session: session(found.session)?,
        receivebox: session(found.receivebox),
        sent: found.sent,
        acked: found.acked,
        highest: found.highest,
        seen: found.seen.as_slice().try_into().ok()?,
    };
    SendboxChannel::resumed(id, key, &saved)
}

fn receivebox_channel(
    found: &ReceiveHandover,
    id: BundleId,
    key: &Key,
) -> Option<ReceiveboxChannel> {
    let bound = match session(found.sendbox) {
        None => None,
        Some(sendbox) => Some(SavedBinding {
            sendbox,
            receivebox: session(found.receivebox)?,
            applied: found.applied,
            epoch: EpochSize::from_packets(found.epoch).ok()?,
            packets: found.packets,
            sent: found.sent,
        }),
    };
    let saved = SavedReceivebox { offered: session(found.offered)?, bound };
    ReceiveboxChannel::resumed(id, key, &saved)
}
