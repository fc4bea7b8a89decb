//! The path from a transmit ring into the scheduled buffer.

use forebay_queue::DropReason;
use forebay_units::Nanos;

use super::vm::{RunningRing, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::{Buffers, Packet};
use crate::ring::{RingError, Unusable};
use crate::scheduler::{Offered, Scheduler};
use crate::session::RingKind;
use crate::switch::Switch;

/// Maximum number of chains taken from a ring at once, so that no guest occupies the thread.
const BUDGET: usize = 64;

/// Takes packets out of a virtual machine's ring until the ring is empty, the buffer is full, or
/// the budget is used up. In mode `drop` there is always room.
pub(super) struct RingReader<'a> {
    pub(super) now: Nanos,
    pub(super) scheduler: &'a mut Scheduler,
    pub(super) switch: &'a mut Switch,
    pub(super) buffers: &'a mut Buffers,
    /// Whether frames may leave with open checksums and unsegmented.
    pub(super) carries_offloads: bool,
}

/// Reason for the end of reading a ring.
enum ReadEnd {
    /// The ring has no more packets.
    Empty,
    /// The buffer has no room.
    Paused,
    /// The budget is used up.
    Budget,
}

impl RingReader<'_> {
    /// Reads the ring of `vm`, which is `ready`.
    pub(super) fn run(&mut self, vm: &mut Vm) {
        let end = self.read(vm).unwrap_or_else(|error| {
            vm.give_up(RingKind::Transmit, error);
            ReadEnd::Empty
        });
        match end {
            ReadEnd::Budget => {}
            ReadEnd::Paused => vm.pause(self.now),
            ReadEnd::Empty => {
                vm.ready = false;
                vm.resumed(self.now);
                self.scheduler.idle(vm.index);
            }
        }
    }

    fn read(&mut self, vm: &mut Vm) -> Result<ReadEnd, RingError> {
        for _ in 0..BUDGET {
            if !self.admit_staged(vm)? {
                return Ok(ReadEnd::Paused);
            }
            let Some(RunningRing { ring, .. }) = &mut vm.transmit else {
                return Ok(ReadEnd::Empty);
            };
            if ring.waiting()? == 0 {
                // The driver does not kick for chains that arrived before kicks were enabled.
                if ring.enable_kicks()? {
                    continue;
                }
                return Ok(ReadEnd::Empty);
            }
            // The buffer is asked before the chain is touched, so that without room it stays.
            if !self.scheduler.admits(self.now, vm.index) {
                ring.disable_kicks()?;
                return Ok(ReadEnd::Paused);
            }
            ring.disable_kicks()?;
            vm.resumed(self.now);
            self.take(vm)?;
        }
        Ok(ReadEnd::Budget)
    }

    /// Copies the next chain's frame, and splits it if the way out needs that.
    fn take(&mut self, vm: &mut Vm) -> Result<(), RingError> {
        let Some(RunningRing { ring, .. }) = &mut vm.transmit else { return Ok(()) };
        let mut bytes = self.buffers.take(0);
        let Some(taken) = ring.transmit(&mut bytes)? else {
            self.buffers.give(bytes);
            return Ok(());
        };
        vm.counts.taken += 1;
        let offload = match taken.frame {
            Ok(offload) => offload,
            Err(why) => {
                self.buffers.give(bytes);
                *match why {
                    Unusable::Chain => &mut vm.counts.dropped.chain,
                    Unusable::Header => &mut vm.counts.dropped.header,
                } += 1;
                return ring.finish(taken.head);
            }
        };
        self.switch.learn(vm.index, &bytes);
        vm.staged.head = Some(taken.head);
        vm.staged.begun = false;
        if self.carries_offloads
            || offload == (Offload { valid: offload.valid, ..Offload::default() })
        {
            vm.staged.packets.push_back(Packet::new(bytes, offload, vm.index));
            return Ok(());
        }
        let mut segments = Segmenter::new(&bytes, offload);
        loop {
            let mut segment = self.buffers.take(0);
            if !segments.next_into(&mut segment) {
                self.buffers.give(segment);
                break;
            }
            let packet = Packet::new(segment, Offload::default(), vm.index);
            vm.staged.packets.push_back(packet);
        }
        self.buffers.give(bytes);
        Ok(())
    }

    /// Moves the staged packet into the buffer; returns whether all of it is in.
    fn admit_staged(&mut self, vm: &mut Vm) -> Result<bool, RingError> {
        while let Some(packet) = vm.staged.packets.pop_front() {
            let (dropped, buffers) = (&mut vm.counts.dropped.queue, &mut *self.buffers);
            let mut drops = |packet: Packet, _: DropReason| {
                *dropped += 1;
                buffers.give(packet.bytes);
            };
            match self.scheduler.offer(self.now, packet, &mut drops) {
                Offered::Accepted => vm.staged.begun = true,
                Offered::Paused(packet) => {
                    vm.staged.packets.push_front(packet);
                    return Ok(false);
                }
                Offered::TooLong(packet) => {
                    vm.counts.dropped.too_long += 1;
                    self.buffers.give(packet.bytes);
                }
            }
        }
        if let (Some(head), Some(running)) = (vm.staged.head.take(), &mut vm.transmit) {
            running.ring.finish(head)?;
        }
        Ok(true)
    }
}

/// Stops the transmit ring of `vm`; returns the index of the next chain to take.
pub(super) fn stop(vm: &mut Vm, buffers: &mut Buffers) -> Option<u16> {
    let mut running = vm.transmit.take()?;
    if let Some(head) = vm.staged.head.take() {
        if vm.staged.begun {
            // A part is in the buffer already and the rest follows: the driver must not resend it.
            let _ = running.ring.finish(head);
        } else {
            running.ring.return_chain();
            vm.staged.packets.drain(..).for_each(|packet| buffers.give(packet.bytes));
            vm.counts.taken = vm.counts.taken.saturating_sub(1);
        }
    }
    let _ = running.ring.call();
    Some(running.ring.next())
}
