//! Delivery of frames to guests, from outside and from other guests.

use forebay_wire::Frame;

use super::vm::{RunningRing, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::Buffers;
use crate::ring::{Delivery, RingError};
use crate::session::RingId;

/// Maximum number of frames that wait for a guest's buffers; further ones are lost. Each of its
/// rings has the same part of it.
const WAITING: usize = 256;

impl Vm {
    /// Whether a ring runs that may get frames.
    pub(super) fn receives(&self) -> bool {
        self.rings_to_receive().next().is_some()
    }

    fn rings_to_receive(&self) -> impl Iterator<Item = usize> {
        (0..self.pairs_to_receive()).filter(|ring| self.receive[*ring].running.is_some())
    }

    /// The ring of the frame's flow, among the rings that may get frames. A frame that is not IP
    /// goes to the first one.
    fn ring_for(&self, frame: &[u8]) -> Option<usize> {
        let count = self.rings_to_receive().count();
        let hash = match Frame::parse(frame) {
            Ok(Frame::Ip(headers)) if count > 1 => headers.flow_hash() as usize,
            _ => 0,
        };
        self.rings_to_receive().nth(hash % count.max(1))
    }

    /// Delivers a frame to the guest, split into segments if the guest does not accept its offload.
    pub(super) fn deliver(&mut self, offload: &Offload, frame: &[u8], buffers: &mut Buffers) {
        let Some(ring) = self.ring_for(frame) else {
            self.counts.receive_dropped += 1;
            return;
        };
        if self.accepted.accepts(offload) {
            self.put(ring, offload, frame, buffers);
            return;
        }
        let mut segments = Segmenter::new(frame, *offload);
        let mut segment = buffers.take(0);
        while segments.next_into(&mut segment) {
            self.put(ring, &Offload::default(), &segment, buffers);
        }
        buffers.give(segment);
    }

    fn put(&mut self, ring: usize, offload: &Offload, frame: &[u8], buffers: &mut Buffers) {
        if self.receive[ring].waiting.is_empty() && self.try_put(ring, offload, frame) {
            return;
        }
        let share = WAITING / self.receive.len();
        let waiting = &mut self.receive[ring].waiting;
        if waiting.len() < share {
            let mut kept = buffers.take(frame.len());
            kept.extend_from_slice(frame);
            waiting.push_back((*offload, kept));
        } else {
            self.counts.receive_dropped += 1;
        }
    }

    /// Delivers the frames that wait for a ring, as far as the guest has buffers.
    pub(super) fn deliver_waiting(&mut self, ring: usize, buffers: &mut Buffers) {
        while let Some((offload, frame)) = self.receive[ring].waiting.pop_front() {
            if !self.try_put(ring, &offload, &frame) {
                self.receive[ring].waiting.push_front((offload, frame));
                return;
            }
            buffers.give(frame);
        }
    }

    /// Drops the frames that wait for rings from `first` on, which the guest does not use any more.
    pub(super) fn forget_waiting(&mut self, first: usize, buffers: &mut Buffers) {
        for (_, frame) in self.receive[first..].iter_mut().flat_map(|ring| ring.waiting.drain(..)) {
            self.counts.receive_dropped += 1;
            buffers.give(frame);
        }
    }

    /// Tries to deliver a frame; returns `false` only if it must wait for buffers.
    fn try_put(&mut self, pair: usize, offload: &Offload, frame: &[u8]) -> bool {
        let Some(RunningRing { ring, .. }) = &mut self.receive[pair].running else {
            self.counts.receive_dropped += 1;
            return true;
        };
        let put = ring.receive(offload, frame).and_then(|put| {
            // The driver does not kick for buffers that arrived before kicks were enabled.
            if put == Delivery::NoRoom && ring.enable_kicks()? {
                ring.receive(offload, frame)
            } else {
                Ok::<_, RingError>(put)
            }
        });
        match put {
            Ok(Delivery::Done) => {
                self.counts.received += 1;
                self.counts.received_bytes += frame.len() as u64;
                true
            }
            Ok(Delivery::NoRoom) => false,
            Ok(Delivery::Unusable) => {
                self.counts.receive_dropped += 1;
                true
            }
            Err(error) => {
                self.give_up(RingId::Receive(pair as u8), error);
                self.counts.receive_dropped += 1;
                true
            }
        }
    }
}
