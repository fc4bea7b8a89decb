//! The queue at the bottleneck, of this project or of the kernel.

use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Packet, Pool};
use forebay_queue::{DropReason, Packet as _, Qdisc};
use forebay_units::Nanos;
use forebay_wire::Frame as Parsed;

use super::LinkError;
use super::bottleneck::Bottleneck;
use super::journal::{Arrival, Journal};

/// A frame that left the queue for the wire.
pub(super) struct Sent {
    pub(super) frame: Frame,
    /// The time of its last bit on the wire.
    pub(super) end: Nanos,
    /// The number of the port on which it arrived.
    pub(super) source: u8,
}

/// Makes a packet of a frame that arrived at `now` at the port `source`.
pub(super) fn packet(now: Nanos, frame: Frame, source: u8, pool: &Pool) -> Packet {
    let headers = match Parsed::parse(pool.bytes(&frame)) {
        Ok(Parsed::Ip(headers)) => Some(headers),
        _ => None,
    };
    let mut packet = Packet::new(frame, headers.as_ref(), now);
    packet.source = source;
    packet
}

/// Drops a frame that does not get to the queue.
pub(super) fn refuse(
    now: Nanos,
    frame: Frame,
    source: u8,
    pool: &mut Pool,
    journal: &mut Journal,
) -> Result<(), LinkError> {
    let packet = packet(now, frame, source, pool);
    journal.dropped(now, arrival(&packet))?;
    let frame = packet.into_frame(pool);
    pool.release(frame);
    Ok(())
}

/// A queue in front of a wire of the path's capacity. Frames arrive and depart at the times given;
/// the journal records the fate of each packet.
pub(super) trait BottleneckQueue {
    /// Takes a frame from the port `source`. The caller must have taken out all frames that depart
    /// until `now`.
    fn enter(
        &mut self,
        now: Nanos,
        frame: Frame,
        source: u8,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<(), LinkError>;

    /// Returns the next frame that left for the wire by `now`.
    fn leave(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<Sent>, LinkError>;

    /// Sets the start of the run, from which the time of a varying rate counts.
    fn start_at(&mut self, _start: Nanos) {}

    /// Returns the time at which the next frame leaves for the wire, if it is known.
    fn next_event(&mut self) -> Option<Nanos> {
        None
    }

    /// File descriptors that become readable when a frame leaves whose time is not known in
    /// advance.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Settles the fate of the packets that are still inside when the traffic is over.
    fn settle(&mut self, _pool: &mut Pool, _journal: &mut Journal) -> Result<(), LinkError> {
        Ok(())
    }

    /// The number of frames still queued at the end.
    fn queued(&self) -> u64;

    /// The number of frames that were lost, other than by a drop of the queue.
    fn lost(&self) -> u64 {
        0
    }
}

impl BottleneckQueue for Bottleneck<Box<dyn Qdisc<Packet>>> {
    fn enter(
        &mut self,
        now: Nanos,
        frame: Frame,
        source: u8,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<(), LinkError> {
        let packet = packet(now, frame, source, pool);
        let mut drops = Drops::default();
        self.arrive(now, packet, &mut |p, r| drops.take(p, r));
        drops.settle(now, pool, journal)
    }

    fn leave(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        journal: &mut Journal,
    ) -> Result<Option<Sent>, LinkError> {
        let mut drops = Drops::default();
        let departure = self.depart(now, &mut |p, r| drops.take(p, r));
        drops.settle(now, pool, journal)?;
        let Some(gone) = departure else { return Ok(None) };
        journal.sent(gone.start, arrival(&gone.packet), gone.packet.is_marked())?;
        let source = gone.packet.source;
        Ok(Some(Sent { frame: gone.packet.into_frame(pool), end: gone.end, source }))
    }

    fn start_at(&mut self, start: Nanos) {
        Self::start_at(self, start);
    }

    fn next_event(&mut self) -> Option<Nanos> {
        Self::next_event::<Packet>(self)
    }

    fn queued(&self) -> u64 {
        self.backlog::<Packet>().packets
    }
}

fn arrival(packet: &Packet) -> Arrival {
    let (len, source, l4s) = (packet.len(), packet.source, packet.is_l4s());
    Arrival { time: packet.arrived, len, source, flow_hash: packet.flow_hash(), l4s }
}

/// Packets that the queue dropped. Mostly there are none, and an empty vector takes no memory.
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
