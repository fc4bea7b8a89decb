//! Frames for guests: from outside, and from each other.

use super::vm::{Running, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::Buffers;
use crate::ring::{Put, RingError};
use crate::session::Which;

/// Frames that wait for a guest's buffers, at most; further ones are lost.
const WAITING: usize = 256;

impl Vm {
    /// Hands it a frame; one that it could not read as it is it gets in pieces.
    pub(super) fn deliver(&mut self, offload: &Offload, frame: &[u8], buffers: &mut Buffers) {
        if self.receive.is_none() {
            self.counts.receive_dropped += 1;
            return;
        }
        if self.receives.takes(offload) {
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

    /// Hands it what waited, as far as it has buffers now.
    pub(super) fn deliver_waiting(&mut self, buffers: &mut Buffers) {
        while let Some((offload, frame)) = self.waiting.pop_front() {
            if !self.try_put(&offload, &frame) {
                self.waiting.push_front((offload, frame));
                return;
            }
            buffers.give(frame);
        }
    }

    /// Forgets what waits: the guest has gone.
    pub(super) fn forget_waiting(&mut self, buffers: &mut Buffers) {
        self.counts.receive_dropped += self.waiting.len() as u64;
        self.waiting.drain(..).for_each(|(_, frame)| buffers.give(frame));
    }

    /// Whether the frame needs no more looking after: the guest has it, or it is lost.
    fn try_put(&mut self, offload: &Offload, frame: &[u8]) -> bool {
        let Some(Running { ring, .. }) = &mut self.receive else {
            self.counts.receive_dropped += 1;
            return true;
        };
        let put = ring.receive(offload, frame).and_then(|put| {
            // Buffers that came between the look and the asking would not be kicked for.
            if put == Put::NoRoom && ring.enable_kicks()? {
                ring.receive(offload, frame)
            } else {
                Ok::<_, RingError>(put)
            }
        });
        match put {
            Ok(Put::Done) => {
                self.counts.received += 1;
                self.counts.received_bytes += frame.len() as u64;
                true
            }
            Ok(Put::NoRoom) => false,
            Ok(Put::Unusable) => {
                self.counts.receive_dropped += 1;
                true
            }
            Err(error) => {
                self.give_up(Which::Receive, error);
                self.counts.receive_dropped += 1;
                true
            }
        }
    }
}
