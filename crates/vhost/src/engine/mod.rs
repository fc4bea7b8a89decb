//! The data thread: it alone touches rings, and it never waits for a guest.
//!
//! One loop: take in what guests send, as far as the scheduled buffer has room (`transmit.rs`); let out
//! what the scheduler allows (`leave`); wake those who waited for the room; hand guests what has come
//! (`receive.rs`); sleep until something is due.

mod receive;
mod transmit;
mod vm;

use std::os::fd::RawFd;

use forebay_dataplane::clock;
use forebay_dataplane::signals::Signals;
use forebay_dataplane::wait::{Waiter, precise_timers};
use forebay_queue::Packet as _;
use forebay_units::Nanos;
use serde_json::json;

use self::transmit::Pull;
use self::vm::{Running, Vm};
use crate::Error;
use crate::config::VmConfig;
use crate::egress::{Egress, Sent};
use crate::features::Receives;
use crate::packet::{Buffers, Packet};
use crate::ring::Ring;
use crate::scheduler::Scheduler;
use crate::session::{Command, Commands, Which};
use crate::statistics::{Status, VmStatus, say};
use crate::switch::{Switch, Target};

/// Packets let out, and frames taken in, in one turn of the loop, at most.
const BATCH: usize = 256;
/// How often statistics are said.
const TICK: Nanos = Nanos::from_secs(1);

/// What the data thread works on.
pub(crate) struct Engine {
    vms: Vec<Vm>,
    scheduler: Scheduler,
    switch: Switch,
    egress: Box<dyn Egress>,
    commands: Commands,
    buffers: Buffers,
    /// A packet that has left the scheduler and waits for the port.
    held: Option<Packet>,
    /// Frames from outside for nobody here.
    unknown: u64,
    /// Where the next turn begins, so that no virtual machine is always first.
    first: usize,
    /// What to sleep on, made anew when rings come and go.
    waiter: Option<(Waiter, Vec<Source>)>,
}

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Commands,
    Egress,
    Ring(usize, Which),
}

impl Engine {
    pub(crate) fn new(
        vms: Vec<VmConfig>,
        scheduler: Scheduler,
        egress: Box<dyn Egress>,
        commands: Commands,
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

    /// Works until a signal comes; says statistics every second if `tells`.
    pub(crate) fn run(&mut self, signals: &Signals, tells: bool) -> Result<(), Error> {
        precise_timers();
        let mut due = clock::now() + TICK;
        loop {
            let now = clock::now();
            while let Some(command) = self.commands.next() {
                self.obey(now, command);
            }
            self.take_in(now);
            let more = self.leave(now);
            self.receive();
            self.call();
            if now >= due {
                due = now.max(due + TICK);
                if tells {
                    say(&self.status(now, "status"));
                }
            }
            let busy = more || self.vms.iter().any(|vm| vm.ready);
            // What is held waits for room at the port, which has a descriptor.
            let next = self.scheduler.next_event(now).filter(|_| self.held.is_none());
            let until = next.unwrap_or(Nanos::MAX).min(due);
            if self.wait(signals, if busy { Nanos::ZERO } else { until }) {
                return Ok(());
            }
        }
    }

    /// Everything that was counted.
    pub(crate) fn say_total(&mut self) {
        say(&self.status(clock::now(), "total"));
    }

    fn obey(&mut self, now: Nanos, command: Command) {
        match command {
            Command::Connected { vm } => {
                self.vms[vm].connected = true;
                say(&json!({ "event": "connected", "vm": self.vms[vm].config.name }));
            }
            Command::Start { vm, which, setup, memory, features, error } => {
                let vm = &mut self.vms[vm];
                match Ring::new(*setup, memory) {
                    Ok(mut ring) => {
                        // The driver may wait for what it was told through the descriptor before.
                        ring.call_now();
                        vm.receives = Receives::of(features);
                        *vm.ring_mut(which) = Some(Running { ring, error });
                    }
                    Err(why) => {
                        vm.counts.broken += 1;
                        say(&json!({
                            "event": "refused", "vm": vm.config.name, "why": why.to_string(),
                        }));
                    }
                }
                // What was made available before is not kicked for again.
                match which {
                    Which::Transmit => vm.ready = true,
                    Which::Receive => vm.deliver_waiting(&mut self.buffers),
                }
                self.waiter = None;
            }
            Command::Stop { vm, which, answer } => {
                let vm = &mut self.vms[vm];
                let next = match which {
                    Which::Transmit => transmit::stop(vm, &mut self.buffers),
                    Which::Receive => vm.receive.take().map(|mut running| {
                        let _ = running.ring.call();
                        running.ring.next()
                    }),
                };
                self.waiter = None;
                // Who asked may have gone since.
                let _ = answer.send(next);
            }
            Command::Disconnected { vm, why } => {
                let vm = &mut self.vms[vm];
                (vm.connected, vm.transmit, vm.receive) = (false, None, None);
                vm.forget_waiting(&mut self.buffers);
                vm.resumed(now);
                // So that its turn goes to others, once what it began is in the buffer.
                vm.ready = true;
                self.switch.forget(vm.index);
                self.waiter = None;
                say(&json!({ "event": "disconnected", "vm": vm.config.name, "why": why }));
            }
        }
    }

    /// Looks at the rings that may have something.
    fn take_in(&mut self, now: Nanos) {
        let completes = self.egress.completes();
        let (scheduler, switch) = (&mut self.scheduler, &mut self.switch);
        let buffers = &mut self.buffers;
        let mut pull = Pull { now, scheduler, switch, buffers, completes };
        let count = self.vms.len();
        for i in 0..count {
            let vm = &mut self.vms[(self.first + i) % count];
            if vm.ready {
                pull.run(vm);
            }
        }
        self.first = (self.first + 1) % count;
    }

    /// Lets out what may leave, and looks again at the rings that waited for its room; whether there may be
    /// more.
    fn leave(&mut self, now: Nanos) -> bool {
        let mut left = 0;
        while left < BATCH {
            let Some(packet) = self.held.take().or_else(|| self.scheduler.dequeue(now)) else {
                break;
            };
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

    /// Sends a packet where its address says; gives it back if there is no room.
    fn send(&mut self, packet: Packet) -> Result<(), Packet> {
        let target = self.switch.target(&packet.bytes);
        let own = packet.vm;
        let mut refused = false;
        if target == Target::All || target == Target::Unknown {
            match self.egress.send(&packet.offload, &packet.bytes) {
                Sent::Later => return Err(packet),
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
        }
        self.buffers.give(packet.bytes);
        Ok(())
    }

    /// Hands guests what has come in from outside.
    fn receive(&mut self) {
        let Self { egress, vms, switch, buffers, unknown, .. } = self;
        egress.receive(BATCH, &mut |offload, frame| match switch.target(frame) {
            Target::Vm(vm) => vms[usize::from(vm)].deliver(&offload, frame, buffers),
            Target::All => {
                for vm in vms.iter_mut().filter(|vm| vm.receive.is_some()) {
                    vm.deliver(&offload, frame, buffers);
                }
            }
            // Of the network's others, which are nobody's here to see.
            Target::Unknown => *unknown += 1,
        });
    }

    /// Tells drivers of what was done, once for all of it.
    fn call(&mut self) {
        for vm in &mut self.vms {
            for which in [Which::Receive, Which::Transmit] {
                let Some(running) = vm.ring_mut(which) else { continue };
                if let Err(error) = running.ring.call() {
                    vm.give_up(which, error);
                }
            }
        }
    }

    /// Sleeps until `until` or until something comes; whether to end.
    fn wait(&mut self, signals: &Signals, until: Nanos) -> bool {
        let rings_went = |sources: &[Source], vms: &[Vm]| {
            let runs = vms.iter().flat_map(|vm| [&vm.receive, &vm.transmit]).flatten().count();
            runs != sources.iter().filter(|s| matches!(s, Source::Ring(..))).count()
        };
        if self.waiter.as_ref().is_some_and(|(_, sources)| rings_went(sources, &self.vms)) {
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
                Source::Ring(vm, which) => self.kicked(vm, which),
            }
        }
        self.waiter = Some(waiter);
        ends
    }

    fn kicked(&mut self, vm: usize, which: Which) {
        let vm = &mut self.vms[vm];
        let Some(running) = vm.ring_mut(which) else { return };
        running.ring.clear_kick();
        match which {
            Which::Transmit => vm.ready = true,
            Which::Receive => vm.deliver_waiting(&mut self.buffers),
        }
    }

    fn new_waiter(&self, signals: &Signals) -> (Waiter, Vec<Source>) {
        let mut all: Vec<(RawFd, Source)> = vec![
            (signals.descriptor(), Source::Signals),
            (self.commands.descriptor(), Source::Commands),
        ];
        all.extend(self.egress.descriptors().into_iter().map(|fd| (fd, Source::Egress)));
        for (i, vm) in self.vms.iter().enumerate() {
            for (which, running) in [(Which::Receive, &vm.receive), (Which::Transmit, &vm.transmit)]
            {
                let fd = running.as_ref().and_then(|r| r.ring.kick());
                all.extend(fd.map(|fd| (fd, Source::Ring(i, which))));
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
