//! The data thread, which alone accesses rings and never waits for a guest.
//!
//! Its loop reads what guests send, as far as the scheduled buffer has room (`transmit.rs`). It
//! sends what the scheduler allows, resumes virtual machines that waited for room, delivers
//! arriving frames to guests (`receive.rs`), and sleeps until the next event.

mod control;
mod receive;
mod transmit;
mod vm;

use std::os::fd::RawFd;
use std::sync::Arc;

use forebay_queue::{DropReason, Packet as _};
use forebay_system::clock;
use forebay_system::signals::Signals;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;
use serde_json::json;

use self::transmit::RingReader;
use self::vm::{RunningRing, Vm};
use crate::Error;
use crate::config::VmConfig;
use crate::egress::{Egress, Sent};
use crate::features::AcceptedOffloads;
use crate::packet::{Buffers, Packet};
use crate::ring::{Ring, RingError};
use crate::scheduler::Scheduler;
use crate::session::{Command, CommandReceiver, RingId};
use crate::statistics::{Status, VmStatus, emit};
use crate::switch::{Switch, Target};

/// Maximum number of packets sent, and of frames received, in one turn of the loop.
const BATCH: usize = 256;
/// Interval of status reports.
const STATUS_INTERVAL: Nanos = Nanos::from_secs(1);

/// State of the data thread.
pub(crate) struct Engine {
    vms: Vec<Vm>,
    scheduler: Scheduler,
    switch: Switch,
    egress: Box<dyn Egress>,
    commands: CommandReceiver,
    buffers: Buffers,
    /// Packet that has left the scheduler and waits for room at the port.
    held: Option<Packet>,
    /// Number of arriving frames with an unknown destination.
    unknown: u64,
    /// Index at which the next turn begins, so that no virtual machine is always first.
    first: usize,
    /// Descriptors to sleep on, rebuilt when rings start or stop.
    waiter: Option<(Waiter, Vec<Source>)>,
}

/// Owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Commands,
    Egress,
    Ring(usize, RingId),
}

impl Engine {
    pub(crate) fn new(
        vms: Vec<VmConfig>,
        scheduler: Scheduler,
        egress: Box<dyn Egress>,
        commands: CommandReceiver,
    ) -> Self {
        let switch = Switch::new(vms.iter().map(|vm| vm.mac).collect());
        let vms = vms.into_iter().enumerate().map(|(i, vm)| Vm::new(i as u8, vm)).collect();
        Self {
            vms,
            scheduler,
            switch,
            egress,
            commands,
            buffers: Buffers::default(),
            held: None,
            unknown: 0,
            first: 0,
            waiter: None,
        }
    }

    /// Runs until a signal arrives; reports status every second if `reports_status`.
    pub(crate) fn run(&mut self, signals: &Signals, reports_status: bool) -> Result<(), Error> {
        precise_timers();
        let mut due = clock::now() + STATUS_INTERVAL;
        loop {
            let now = clock::now();
            while let Some(command) = self.commands.next() {
                self.handle_command(now, command);
            }
            self.answer_requests();
            self.read_rings(now);
            let more = self.send_due(now);
            self.receive();
            self.call();
            if now >= due {
                due = now.max(due + STATUS_INTERVAL);
                if reports_status {
                    emit(&self.status(now, "status"));
                }
            }
            let busy = more || self.vms.iter().any(|vm| vm.ready || vm.control_ready);
            // A held packet waits for room at the port, which has a descriptor.
            let next = self.scheduler.next_event(now).filter(|_| self.held.is_none());
            let until = next.unwrap_or(Nanos::MAX).min(due);
            if self.wait(signals, if busy { Nanos::ZERO } else { until }) {
                return Ok(());
            }
        }
    }

    /// Reports the total counts.
    pub(crate) fn emit_total(&mut self) {
        emit(&self.status(clock::now(), "total"));
    }

    fn handle_command(&mut self, now: Nanos, command: Command) {
        match command {
            Command::Connected { vm } => {
                self.vms[vm].connected = true;
                emit(&json!({ "event": "connected", "vm": self.vms[vm].config.name }));
            }
            Command::Start { vm, ring: id, setup, watch, memory, features, error } => {
                let index = vm;
                let vm = &mut self.vms[index];
                match Ring::new(*setup, Arc::clone(&memory)) {
                    Ok(mut ring) => {
                        // The driver may wait for a call that went to the previous descriptor.
                        ring.call_now();
                        vm.accepted = AcceptedOffloads::of(features);
                        *vm.ring_mut(id) = Some(RunningRing { watch, ring, error });
                    }
                    Err(why) => {
                        // In this order: the watch must not outlive the memory.
                        drop((watch, memory));
                        vm.counts.broken += 1;
                        emit(&json!({
                            "event": "refused", "vm": vm.config.name, "why": why.to_string(),
                        }));
                    }
                }
                // The driver does not kick again for chains that it offered before.
                self.check(index, id);
                self.waiter = None;
            }
            Command::Stop { vm, ring, answer } => {
                let vm = &mut self.vms[vm];
                let next = match ring {
                    RingId::Transmit(pair) => {
                        transmit::stop(vm, usize::from(pair), &mut self.buffers)
                    }
                    RingId::Receive(_) | RingId::Control => {
                        vm.ring_mut(ring).take().map(|mut running| {
                            let _ = running.ring.call();
                            running.ring.next()
                        })
                    }
                };
                self.waiter = None;
                // The session may have ended since.
                let _ = answer.send(next);
            }
            Command::Reset { vm } => self.vms[vm].pairs_in_use = 1,
            Command::Disconnected { vm, why } => {
                let vm = &mut self.vms[vm];
                (vm.connected, vm.pairs_in_use) = (false, 1);
                vm.ring_ids().for_each(|ring| *vm.ring_mut(ring) = None);
                vm.forget_waiting(0, &mut self.buffers);
                vm.resumed(now);
                // Others take its turn once the packets that it began are in the buffer.
                (0..vm.transmit.len()).for_each(|pair| vm.set_ready(pair));
                self.switch.forget(vm.index);
                self.waiter = None;
                emit(&json!({ "event": "disconnected", "vm": vm.config.name, "why": why }));
            }
        }
    }

    /// Does what a ring waits for that has just started, or whose driver has kicked.
    fn check(&mut self, vm: usize, ring: RingId) {
        let vm = &mut self.vms[vm];
        match ring {
            RingId::Transmit(pair) => vm.set_ready(pair.into()),
            RingId::Receive(pair) => vm.deliver_waiting(pair.into(), &mut self.buffers),
            RingId::Control => vm.control_ready = true,
        }
    }

    fn answer_requests(&mut self) {
        for vm in self.vms.iter_mut().filter(|vm| vm.control_ready) {
            vm.answer_requests();
            let in_use = vm.pairs_to_receive();
            vm.forget_waiting(in_use, &mut self.buffers);
        }
    }

    /// Reads the rings that may have packets.
    fn read_rings(&mut self, now: Nanos) {
        let carries_offloads = self.egress.carries_offloads();
        let (scheduler, switch) = (&mut self.scheduler, &mut self.switch);
        let buffers = &mut self.buffers;
        let mut reader = RingReader { now, scheduler, switch, buffers, carries_offloads };
        let count = self.vms.len();
        for i in 0..count {
            let vm = &mut self.vms[(self.first + i) % count];
            if vm.ready {
                reader.run(vm);
            }
        }
        self.first = (self.first + 1) % count;
    }

    /// Sends the packets that may leave, and marks the rings that waited for their room as ready.
    /// Returns whether more packets may be due.
    fn send_due(&mut self, now: Nanos) -> bool {
        let mut left = 0;
        while left < BATCH {
            let Some(packet) = self.held.take().or_else(|| self.dequeue(now)) else { break };
            if let Err(packet) = self.send(packet) {
                self.held = Some(packet);
                break;
            }
            left += 1;
        }
        self.egress.flush();
        while let Some(vm) = self.scheduler.resume(now) {
            let vm = &mut self.vms[usize::from(vm)];
            vm.resumed(now);
            vm.ready = true;
        }
        left == BATCH
    }

    /// Removes the next packet from the scheduled buffer, and counts those that its AQM drops.
    fn dequeue(&mut self, now: Nanos) -> Option<Packet> {
        let Self { scheduler, vms, buffers, .. } = self;
        scheduler.dequeue(now, &mut |packet: Packet, _: DropReason| {
            vms[usize::from(packet.source.vm)].counts.dropped.aqm += 1;
            buffers.give(packet.bytes);
        })
    }

    /// Sends a packet to its destination; returns it if there is no room.
    fn send(&mut self, packet: Packet) -> Result<(), Packet> {
        let target = self.switch.target(&packet.bytes);
        let own = packet.source.vm;
        let mut refused = false;
        if target == Target::All || target == Target::Unknown {
            match self.egress.send(&packet.offload, &packet.bytes) {
                Sent::NoRoom => return Err(packet),
                Sent::Done => {}
                Sent::TooLong => {
                    self.vms[usize::from(own)].counts.dropped.too_long += 1;
                    refused = true;
                }
                Sent::Refused => {
                    self.vms[usize::from(own)].counts.dropped.refused += 1;
                    refused = true;
                }
            }
        }
        for vm in self.vms.iter_mut().filter(|vm| vm.index != own) {
            if target == Target::All || target == Target::Vm(vm.index) {
                vm.deliver(&packet.offload, &packet.bytes, &mut self.buffers);
            }
        }
        if !refused {
            let counts = &mut self.vms[usize::from(own)].counts;
            counts.sent += 1;
            counts.sent_bytes += packet.len().0;
            counts.marked += u64::from(packet.is_marked());
        }
        self.buffers.give(packet.bytes);
        Ok(())
    }

    /// Delivers frames from outside to guests.
    fn receive(&mut self) {
        let Self { egress, vms, switch, buffers, unknown, .. } = self;
        egress.receive(BATCH, &mut |offload, frame| match switch.target(frame) {
            Target::Vm(vm) => vms[usize::from(vm)].deliver(&offload, frame, buffers),
            Target::All => {
                for vm in vms.iter_mut().filter(|vm| vm.receives()) {
                    vm.deliver(&offload, frame, buffers);
                }
            }
            // Frames for other stations of the network.
            Target::Unknown => *unknown += 1,
        });
    }

    /// Notifies drivers of used chains, once for all of them.
    fn call(&mut self) {
        for vm in &mut self.vms {
            for ring in vm.ring_ids() {
                let Some(running) = vm.ring_mut(ring) else { continue };
                let called = running.ring.call();
                // Checked last: the call is the last access of this turn.
                let lost = running.watch.is_lost();
                if let Err(error) = if lost { Err(RingError::Truncated) } else { called } {
                    vm.give_up(ring, error);
                }
            }
        }
    }

    /// Sleeps until `until` or until an event; returns whether to stop.
    fn wait(&mut self, signals: &Signals, until: Nanos) -> bool {
        let rings_changed = |sources: &[Source], vms: &[Vm]| {
            let runs = vms.iter().flat_map(Vm::running).count();
            runs != sources.iter().filter(|s| matches!(s, Source::Ring(..))).count()
        };
        if self.waiter.as_ref().is_some_and(|(_, sources)| rings_changed(sources, &self.vms)) {
            self.waiter = None;
        }
        let held = self.held.is_some();
        let mut waiter = self.waiter.take().unwrap_or_else(|| self.new_waiter(signals));
        let (poll, sources) = (&mut waiter.0, &waiter.1);
        for (i, source) in sources.iter().enumerate() {
            if *source == Source::Egress {
                poll.set(i, true, held);
            }
        }
        poll.wait_until(until);
        let mut ends = false;
        for (i, source) in sources.iter().enumerate().filter(|(i, _)| poll.is_ready(*i)) {
            debug_assert!(i < sources.len());
            match *source {
                Source::Signals => ends |= signals.came(),
                Source::Commands | Source::Egress => {}
                Source::Ring(vm, ring) => self.on_kick(vm, ring),
            }
        }
        self.waiter = Some(waiter);
        ends
    }

    fn on_kick(&mut self, vm: usize, ring: RingId) {
        let Some(running) = self.vms[vm].ring_mut(ring) else { return };
        running.ring.clear_kick();
        self.check(vm, ring);
    }

    fn new_waiter(&self, signals: &Signals) -> (Waiter, Vec<Source>) {
        let mut all: Vec<(RawFd, Source)> = vec![
            (signals.descriptor(), Source::Signals),
            (self.commands.descriptor(), Source::Commands),
        ];
        all.extend(self.egress.descriptors().into_iter().map(|fd| (fd, Source::Egress)));
        for (i, vm) in self.vms.iter().enumerate() {
            for (ring, running) in vm.running() {
                all.extend(running.ring.kick().map(|fd| (fd, Source::Ring(i, ring))));
            }
        }
        let (fds, sources): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        (Waiter::new(fds), sources)
    }

    fn status(&mut self, now: Nanos, event: &'static str) -> Status<'_> {
        let (receive_lost, send_lost) = self.egress.lost();
        let (user, system) = Status::cpu();
        let vms = self.vms.iter().map(|vm| {
            let mut counts = vm.counts;
            counts.paused_ns += vm.paused.map_or(0, |since| now.saturating_sub(since).0);
            VmStatus {
                name: &vm.config.name,
                connected: vm.connected,
                ring: vm.occupancy(),
                is_paused: vm.paused.is_some(),
                counts,
                rings: vm.ring_status(),
            }
        });
        Status {
            event,
            time: now.0,
            cpu_user_ns: user.0,
            cpu_system_ns: system.0,
            queued_packets: 0,
            queued_bytes: 0,
            unknown: self.unknown,
            receive_lost,
            send_lost,
            vms: vms.collect(),
        }
        .queued(self.scheduler.backlog())
    }
}

#[cfg(test)]
mod tests;
