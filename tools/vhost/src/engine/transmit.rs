//! The path from the transmit rings into the scheduled buffer.

use forebay_queue::DropReason;
use forebay_units::Nanos;

use super::vm::{RunningRing, TransmitRing, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::{Buffers, Packet, Source};
use crate::ring::{RingError, Unusable};
use crate::scheduler::{Offered, Scheduler};
use crate::session::RingId;
use crate::switch::Switch;

/// Maximum number of chains taken from a virtual machine at once, so that no guest occupies the
/// thread.
const BUDGET: usize = 64;

/// Takes packets out of a virtual machine's rings until they are empty, the buffer is full, or the
/// budget is used up. In mode `drop` there is always room.
pub(super) struct RingReader<'a> {
    pub(super) now: Nanos,
    pub(super) scheduler: &'a mut Scheduler,
    pub(super) switch: &'a mut Switch,
    pub(super) buffers: &'a mut Buffers,
    /// Whether frames may leave with open checksums and unsegmented.
    pub(super) carries_offloads: bool,
}

/// Result of one step of reading a ring.
enum Step {
    /// A chain was taken.
    Taken,
    /// Another segment of the chain that was taken before is in the buffer.
    Continued,
    /// The ring has no more packets.
    Empty,
    /// The buffer has no room.
    Paused,
}

impl RingReader<'_> {
    /// Reads the rings of `vm`, which is `ready`, packet by packet.
    pub(super) fn run(&mut self, vm: &mut Vm) {
        let mut budget = BUDGET;
        while budget > 0 {
            let Some(ring) = vm.next_ring(self.scheduler) else {
                vm.ready = false;
                vm.resumed(self.now);
                self.scheduler.idle(vm.index);
                return;
            };
            let step = self.step(vm, ring).unwrap_or_else(|error| {
                vm.give_up(RingId::Transmit(ring as u8), error);
                Step::Empty
            });
            match step {
                Step::Taken => budget -= 1,
                Step::Continued => {}
                Step::Empty => vm.transmit[ring].ready = false,
                Step::Paused => return vm.pause(self.now, ring),
            }
        }
    }

    /// Moves the next packet of a ring into the buffer, or its next segment.
    fn step(&mut self, vm: &mut Vm, ring: usize) -> Result<Step, RingError> {
        if vm.transmit[ring].staged.is_some() {
            return Ok(if self.admit_staged(vm, ring)? { Step::Continued } else { Step::Paused });
        }
        let Some(RunningRing { ring: own, .. }) = &mut vm.transmit[ring].running else {
            return Ok(Step::Empty);
        };
        if own.waiting()? == 0 {
            // The driver does not kick for chains that arrived before kicks were enabled.
            return Ok(if own.enable_kicks()? { Step::Taken } else { Step::Empty });
        }
        // The buffer is asked before the chain is touched, so that without room it stays.
        let admits = self.scheduler.admits(self.now, vm.index);
        own.disable_kicks()?;
        if !admits {
            return Ok(Step::Paused);
        }
        vm.resumed(self.now);
        self.take(vm, ring)?;
        Ok(if self.admit_staged(vm, ring)? { Step::Taken } else { Step::Paused })
    }

    /// Copies the next chain's frame, and splits it if the way out needs that.
    fn take(&mut self, vm: &mut Vm, ring: usize) -> Result<(), RingError> {
        let TransmitRing { running, staged, taken: own, .. } = &mut vm.transmit[ring];
        let Some(running) = running else { return Ok(()) };
        let mut bytes = self.buffers.take(0);
        let Some(taken) = running.ring.transmit(&mut bytes)? else {
            self.buffers.give(bytes);
            return Ok(());
        };
        vm.counts.taken += 1;
        *own += 1;
        let offload = match taken.frame {
            Ok(offload) => offload,
            Err(why) => {
                self.buffers.give(bytes);
                *match why {
                    Unusable::Chain => &mut vm.counts.dropped.chain,
                    Unusable::Header => &mut vm.counts.dropped.header,
                } += 1;
                return running.ring.finish(taken.head);
            }
        };
        self.switch.learn(vm.index, &bytes);
        let source = Source { vm: vm.index, ring: ring as u8 };
        staged.head = Some(taken.head);
        staged.begun = false;
        if self.carries_offloads
            || offload == (Offload { valid: offload.valid, ..Offload::default() })
        {
            staged.packets.push_back(Packet::new(bytes, offload, source));
            return Ok(());
        }
        let mut segments = Segmenter::new(&bytes, offload);
        loop {
            let mut segment = self.buffers.take(0);
            if !segments.next_into(&mut segment) {
                self.buffers.give(segment);
                break;
            }
            staged.packets.push_back(Packet::new(segment, Offload::default(), source));
        }
        self.buffers.give(bytes);
        Ok(())
    }

    /// Moves the staged packet or its next segment into the buffer; returns whether there was room.
    fn admit_staged(&mut self, vm: &mut Vm, ring: usize) -> Result<bool, RingError> {
        let TransmitRing { running, staged, .. } = &mut vm.transmit[ring];
        if let Some(packet) = staged.packets.pop_front() {
            let (dropped, buffers) = (&mut vm.counts.dropped.queue, &mut *self.buffers);
            let mut drops = |packet: Packet, _: DropReason| {
                *dropped += 1;
                buffers.give(packet.bytes);
            };
            match self.scheduler.offer(self.now, packet, &mut drops) {
                Offered::Accepted => staged.begun = true,
                Offered::Paused(packet) => {
                    staged.packets.push_front(packet);
                    return Ok(false);
                }
                Offered::TooLong(packet) => {
                    vm.counts.dropped.too_long += 1;
                    self.buffers.give(packet.bytes);
                }
            }
        }
        if staged.packets.is_empty()
            && let (Some(head), Some(running)) = (staged.head.take(), running)
        {
            running.ring.finish(head)?;
        }
        Ok(true)
    }
}

/// Stops a transmit ring of `vm`; returns the index of the next chain to take.
pub(super) fn stop(vm: &mut Vm, ring: usize, buffers: &mut Buffers) -> Option<u16> {
    let TransmitRing { running, staged, taken, .. } = &mut vm.transmit[ring];
    let mut running = running.take()?;
    if let Some(head) = staged.head.take() {
        if staged.begun {
            // A part is in the buffer already and the rest follows: the driver must not resend it.
            let _ = running.ring.finish(head);
        } else {
            running.ring.return_chain();
            staged.packets.drain(..).for_each(|packet| buffers.give(packet.bytes));
            vm.counts.taken = vm.counts.taken.saturating_sub(1);
            *taken = taken.saturating_sub(1);
        }
    }
    let _ = running.ring.call();
    Some(running.ring.next())
}
