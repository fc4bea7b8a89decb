//! The sendbox's data path: a fair queue, and a shaper that wakes on a coarse timer.

use std::collections::{BTreeMap, VecDeque};

use forebay_control::{ControlConfig, ControlLoop, Feedback, Mode, Remembered};
use forebay_units::{Bytes, Nanos, Rate};

use super::random::Random;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) bundle: usize,
    pub(crate) flow: usize,
    pub(crate) len: Bytes,
    pub(crate) payload: u64,
    pub(crate) sent_at: Nanos,
    pub(crate) fingerprint: Option<u32>,
}

/// The rate of the sendbox's own port.
const PORT: Rate = Rate::from_mbps(10_000);

pub(crate) struct Sendbox {
    pub(crate) bundle: ControlLoop,
    queues: BTreeMap<usize, VecDeque<Packet>>,
    turn: usize,
    packets: usize,
    bytes: Bytes,
    limit: usize,
    /// Bytes that may be sent now; below zero while the last packet is being paid for.
    tokens: f64,
    filled_at: Nanos,
    pub(crate) wake_at: Option<Nanos>,
    /// The largest delay of the shaper's timer.
    grain: Nanos,
    controlled: bool,
    /// The offset of the sendbox's clock from the simulation's.
    pub(crate) ahead: Nanos,
    /// What it knew of the path when it stopped, and when that was.
    remembered: Option<(Nanos, Remembered)>,
}

impl Sendbox {
    pub(crate) fn new(config: ControlConfig, limit: usize, grain: Nanos, controlled: bool) -> Self {
        Self {
            bundle: ControlLoop::new(config, Nanos::ZERO).unwrap(),
            queues: BTreeMap::new(),
            turn: 0,
            packets: 0,
            bytes: Bytes::ZERO,
            limit,
            tokens: 0.0,
            filled_at: Nanos::ZERO,
            wake_at: None,
            grain,
            controlled,
            ahead: Nanos::ZERO,
            remembered: None,
        }
    }

    /// Forwards without a queue from now on.
    pub(crate) fn stop(&mut self, now: Nanos) {
        let known = self.bundle.snapshot();
        let rate = known.rate.filter(|_| known.mode == Mode::DelayControl);
        let path = known.min_rtt.zip(known.min_rtt_age);
        self.remembered =
            path.map(|(min_rtt, min_rtt_age)| (now, Remembered { min_rtt, min_rtt_age, rate }));
        self.controlled = false;
    }

    /// Starts a new control loop, which `remembers` or not.
    pub(crate) fn start(&mut self, now: Nanos, config: ControlConfig, remembers: bool) {
        self.bundle = ControlLoop::new(config, now + self.ahead).unwrap();
        if let Some((then, from)) = self.remembered.filter(|_| remembers) {
            let min_rtt_age = from.min_rtt_age + (now - then);
            self.bundle.remember(now + self.ahead, Remembered { min_rtt_age, ..from });
        }
        self.controlled = true;
    }

    pub(crate) fn on_feedback(&mut self, now: Nanos, feedback: &Feedback) {
        self.bundle.on_feedback(now + self.ahead, feedback);
    }

    pub(crate) fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        self.bundle.on_epoch_ack(now + self.ahead, epoch);
    }

    pub(crate) fn on_tick(&mut self, now: Nanos) {
        self.bundle.on_tick(now + self.ahead, self.bytes);
    }

    pub(crate) fn poll_epoch_update(&mut self, now: Nanos) -> Option<u32> {
        self.bundle.poll_epoch_update(now + self.ahead)
    }

    pub(crate) fn backlog(&self) -> Bytes {
        self.bytes
    }

    /// Takes a packet. Above the limit, the longest queue drops its newest packet.
    pub(crate) fn enqueue(&mut self, packet: Packet) -> Option<Packet> {
        self.packets += 1;
        self.bytes += packet.len;
        self.queues.entry(packet.flow).or_default().push_back(packet);
        if self.packets <= self.limit {
            return None;
        }
        let longest = self.queues.values_mut().max_by_key(|q| q.len()).unwrap();
        let dropped = longest.pop_back().unwrap();
        self.packets -= 1;
        self.bytes -= dropped.len;
        Some(dropped)
    }

    fn dequeue(&mut self) -> Option<Packet> {
        let flow =
            *self.queues.range(self.turn + 1..).next().or_else(|| self.queues.iter().next())?.0;
        self.turn = flow;
        let queue = self.queues.get_mut(&flow).unwrap();
        let packet = queue.pop_front().unwrap();
        if queue.is_empty() {
            self.queues.remove(&flow);
        }
        self.packets -= 1;
        self.bytes -= packet.len;
        Some(packet)
    }

    /// Sends the packets that may leave now, and sets the time of the next call.
    pub(crate) fn run(&mut self, now: Nanos, random: &mut Random, out: &mut Vec<(Nanos, Packet)>) {
        let rate = self.bundle.rate().filter(|_| self.controlled).unwrap_or(PORT).min(PORT);
        let bps = rate.as_bytes_per_sec_f64();
        // The bucket holds the bytes for the largest delay of the timer, and a packet.
        let depth = bps * self.grain.as_secs_f64() + 1514.0;
        self.tokens += bps * (now - self.filled_at).as_secs_f64();
        self.tokens = self.tokens.min(depth);
        self.filled_at = now;
        let mut leaves = now;
        while self.tokens > 0.0 {
            let Some(packet) = self.dequeue() else { break };
            self.tokens -= packet.len.as_f64();
            self.bundle.on_sent(leaves + self.ahead, packet.len, packet.fingerprint, None);
            leaves += PORT.time_for(packet.len);
            out.push((leaves, packet));
        }
        self.wake_at = (self.packets > 0).then(|| {
            let wait = -self.tokens / bps;
            let oversleep = random.between(0.0, self.grain.as_secs_f64());
            now + Nanos::from_secs_f64(wait.max(0.0) + oversleep) + Nanos(1)
        });
    }
}
