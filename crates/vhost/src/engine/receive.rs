//! Delivery of frames to guests, from outside and from other guests.

use super::vm::{RunningRing, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::Buffers;
use crate::ring::{Delivery, RingError};
use crate::session::RingKind;

/// Maximum number of frames that wait for a guest's buffers; further ones are lost.
const WAITING: usize = 256;

impl Vm {
    /// Delivers a frame to the guest, split into segments if the guest does not accept its offload.
    pub(super) fn deliver(&mut self, offload: &Offload, frame: &[u8], buffers: &mut Buffers) {
        if self.receive.is_none() {
            self.counts.receive_dropped += 1;
            return;
        }
        if self.accepted.accepts(offload) {
            self.put(offload, frame, buffers);
            return;
        }
        let mut segments = Segmenter::new(frame, *offload);
        let mut segment = buffers.take(0);
        while segments.next_into(&mut segment) {
            self.put(&Offload::default(), &segment, buffers);
        }
        buffers.give(segment);
    }

    fn put(&mut self, offload: &Offload, frame: &[u8], buffers: &mut Buffers) {
        if self.waiting.is_empty() && self.try_put(offload, frame) {
            return;
        }
        if self.waiting.len() < WAITING {
            let mut kept = buffers.take(frame.len());
            kept.extend_from_slice(frame);
            self.waiting.push_back((*offload, kept));
        } else {
            self.counts.receive_dropped += 1;
        }
    }

    /// Delivers waiting frames, as far as the guest has buffers.
    pub(super) fn deliver_waiting(&mut self, buffers: &mut Buffers) {
        while let Some((offload, frame)) = self.waiting.pop_front() {
            if !self.try_put(&offload, &frame) {
                self.waiting.push_front((offload, frame));
                return;
            }
            buffers.give(frame);
        }
    }

    /// Drops waiting frames of a guest that has disconnected.
    pub(super) fn forget_waiting(&mut self, buffers: &mut Buffers) {
        self.counts.receive_dropped += self.waiting.len() as u64;
        self.waiting.drain(..).for_each(|(_, frame)| buffers.give(frame));
    }

    /// Tries to deliver a frame; returns `false` only if it must wait for buffers.
    fn try_put(&mut self, offload: &Offload, frame: &[u8]) -> bool {
        let Some(RunningRing { ring, .. }) = &mut self.receive else {
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
                self.give_up(RingKind::Receive, error);
                self.counts.receive_dropped += 1;
                true
            }
        }
    }
}
