//! What stands at the bottleneck, whoever's queue it is.

use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Packet, Pool};
use forebay_queue::{DropReason, Packet as _, Qdisc};
use forebay_units::Nanos;
use forebay_wire::Frame as Parsed;

use super::LinkError;
use super::bottleneck::Bottleneck;
use super::journal::{Arrival, Journal};

/// A queue with a wire of the path's rate behind it. Frames enter at their time and leave at theirs;
/// what became of each packet goes into the journal.
pub(super) trait Neck {
    /// A frame comes from the port `source`. All that leaves by `now` must have been taken before.
    fn enter(
        &mut self,
        now: Nanos,
        frame: Frame,
        source: u8,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<(), LinkError>;

    /// The next frame that has gone on the wire by `now`, and when its last bit goes.
    fn leave(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<(Frame, Nanos)>, LinkError>;

    /// When a frame goes on the wire next, if that is known.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// What becomes readable when a frame goes on the wire whose time is not known before.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// The traffic is over: settles what became of the packets that are inside.
    fn settle(&mut self, _pool: &mut Pool, _journal: &mut Journal) -> Result<(), LinkError> {
        Ok(())
    }

    /// Frames that were still waiting at the end.
    fn queued(&self) -> u64;

    /// Frames that were lost and not dropped by the queue.
    fn lost(&self) -> u64 {
        0
    }
}

impl Neck for Bottleneck<Box<dyn Qdisc<Packet>>> {
    fn enter(
        &mut self,
        now: Nanos,
        frame: Frame,
        source: u8,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<(), LinkError> {
        let headers = match Parsed::parse(pool.bytes(&frame)) {
            Ok(Parsed::Ip(headers)) => Some(headers),
            _ => None,
        };
        let mut packet = Packet::new(frame, headers.as_ref(), now);
        packet.source = source;
        let mut drops = Drops::default();
        self.arrive(now, packet, &mut |p, r| drops.take(p, r));
        drops.settle(now, pool, journal)
    }

    fn leave(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<(Frame, Nanos)>, LinkError> {
        let mut drops = Drops::default();
        let departure = self.depart(now, &mut |p, r| drops.take(p, r));
        drops.settle(now, pool, journal)?;
        let Some(gone) = departure else { return Ok(None) };
        journal.sent(gone.start, arrival(&gone.packet), gone.packet.is_marked())?;
        Ok(Some((gone.packet.into_frame(pool), gone.end)))
    }

    fn next_event(&self) -> Option<Nanos> {
        Self::next_event::<Packet>(self)
    }

    fn queued(&self) -> u64 {
        self.backlog::<Packet>().packets
    }
}

fn arrival(packet: &Packet) -> Arrival {
    let (len, source, l4s) = (packet.len(), packet.source, packet.is_l4s());
    Arrival { time: packet.arrived, len, source, l4s }
}

/// Packets that the queue dropped, mostly none: an empty vector takes no memory.
#[derive(Default)]
struct Drops(Vec<Packet>);

impl Drops {
    fn take(&mut self, packet: Packet, _reason: DropReason) {
        self.0.push(packet);
    }

    fn settle(self, now: Nanos, pool: &mut Pool, journal: &mut Journal) -> Result<(), LinkError> {
        for packet in self.0 {
            journal.dropped(now, arrival(&packet))?;
            let frame = packet.into_frame(pool);
            pool.release(frame);
        }
        Ok(())
    }
}
