//! From a ring into the scheduled buffer.

use forebay_queue::DropReason;
use forebay_units::Nanos;

use super::vm::{Running, Vm};
use crate::offload::Offload;
use crate::offload::segment::Segmenter;
use crate::packet::{Buffers, Packet};
use crate::ring::{RingError, Unusable};
use crate::scheduler::{Offered, Scheduler};
use crate::session::Which;
use crate::switch::Switch;

/// Chains taken from a ring in one go, at most, so that no guest keeps the thread to itself.
const BUDGET: usize = 64;

/// Takes packets out of a virtual machine's ring until there are no more, there is no room for them, or
/// others are to have a go. In mode `drop` there is always room.
pub(super) struct Pull<'a> {
    pub(super) now: Nanos,
    pub(super) scheduler: &'a mut Scheduler,
    pub(super) switch: &'a mut Switch,
    pub(super) buffers: &'a mut Buffers,
    /// Whether frames may leave as guests make them.
    pub(super) completes: bool,
}

/// Why it ended.
enum End {
    Empty,
    Paused,
    Budget,
}

impl Pull<'_> {
    /// Looks at the ring of `vm`, which is `ready`.
    pub(super) fn run(&mut self, vm: &mut Vm) {
        let end = self.pull(vm).unwrap_or_else(|error| {
            vm.give_up(Which::Transmit, error);
            End::Empty
        });
        match end {
            End::Budget => {}
            End::Paused => vm.pause(self.now),
            End::Empty => {
                vm.ready = false;
                vm.resumed(self.now);
                self.scheduler.idle(vm.index);
            }
        }
    }

    fn pull(&mut self, vm: &mut Vm) -> Result<End, RingError> {
        for _ in 0..BUDGET {
            if !self.admit_staged(vm)? {
                return Ok(End::Paused);
            }
            let Some(Running { ring, .. }) = &mut vm.transmit else { return Ok(End::Empty) };
            if ring.waiting()? == 0 {
                // What came between the look and the asking would not be kicked for.
                if ring.enable_kicks()? {
                    continue;
                }
                return Ok(End::Empty);
            }
            // Asked before the chain is touched: where there is no room it stays where it is.
            if !self.scheduler.admits(self.now, vm.index) {
                ring.disable_kicks()?;
                return Ok(End::Paused);
            }
            ring.disable_kicks()?;
            vm.resumed(self.now);
            self.take(vm)?;
        }
        Ok(End::Budget)
    }

    /// Copies the next chain's frame, and cuts it up if it must be.
    fn take(&mut self, vm: &mut Vm) -> Result<(), RingError> {
        let Some(Running { ring, .. }) = &mut vm.transmit else { return Ok(()) };
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
        if self.completes || offload == (Offload { valid: offload.valid, ..Offload::default() }) {
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

    /// Moves what is staged into the buffer; whether all of it is in.
    fn admit_staged(&mut self, vm: &mut Vm) -> Result<bool, RingError> {
        while let Some(packet) = vm.staged.packets.pop_front() {
            let (dropped, buffers) = (&mut vm.counts.dropped.queue, &mut *self.buffers);
            let mut drops = |packet: Packet, _: DropReason| {
                *dropped += 1;
                buffers.give(packet.bytes);
            };
            match self.scheduler.offer(self.now, packet, &mut drops) {
                Offered::In => vm.staged.begun = true,
                Offered::Paused(packet) => {
                    vm.staged.packets.push_front(packet);
                    return Ok(false);
                }
                Offered::Never(packet) => {
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

/// The ring of `vm` is not to be touched any more; the place of the next chain to take.
pub(super) fn stop(vm: &mut Vm, buffers: &mut Buffers) -> Option<u16> {
    let mut running = vm.transmit.take()?;
    if let Some(head) = vm.staged.head.take() {
        if vm.staged.begun {
            // A part of it has left: the rest follows, and the driver must not send it again.
            let _ = running.ring.finish(head);
        } else {
            running.ring.leave();
            vm.staged.packets.drain(..).for_each(|packet| buffers.give(packet.bytes));
            vm.counts.taken = vm.counts.taken.saturating_sub(1);
        }
    }
    let _ = running.ring.call();
    Some(running.ring.next())
}
