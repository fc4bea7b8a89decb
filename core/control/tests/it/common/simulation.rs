//! The network around the sendboxes: senders, one FIFO bottleneck, propagation delay, receiveboxes.

use std::collections::VecDeque;

use forebay_control::{Feedback, Others, Shares};
use forebay_units::{Bytes, Nanos, Rate};

use super::path::{Change, Known, Lies, Outcome, World};
use super::random::Random;
use super::schedule::Schedule;
use super::sendbox::{Packet, Sendbox};
use super::tcp::{Flow, HEADERS};

struct Receivebox {
    alive: bool,
    epoch: u32,
    bytes: Bytes,
    packets: u32,
    sequence: u64,
    clock_offset: Nanos,
    /// The delay of each feedback message, and the largest random one.
    delays: (Nanos, Nanos),
    lies: Lies,
    /// The last feedback that was true.
    truth: Option<Feedback>,
}

impl Receivebox {
    /// Replaces what `feedback` says, if this receivebox lies.
    fn lie(&mut self, feedback: &mut Feedback, random: &mut Random) {
        let truth = *self.truth.get_or_insert(*feedback);
        let odd = self.sequence % 2 == 1;
        match self.lies {
            Lies::None => self.truth = Some(*feedback),
            Lies::Random => {
                feedback.bytes = Bytes(random.next());
                feedback.packets = random.next() as u32;
                feedback.received_at = Nanos(random.next());
            }
            Lies::FrozenCounts => {
                (feedback.bytes, feedback.packets) = (truth.bytes, truth.packets);
            }
            Lies::FrozenTime => feedback.received_at = truth.received_at,
            Lies::Jumps if odd => feedback.bytes += Bytes(1 << 50),
            Lies::SmallJumps if odd => feedback.bytes += Bytes(100_000_000),
            Lies::TimeJumps if odd => feedback.received_at += Nanos::from_secs(3600),
            Lies::Jumps | Lies::SmallJumps | Lies::TimeJumps => {}
        }
    }
}

enum Happening {
    Wake(usize),
    Arrive(Packet),
    Served,
    Received(Packet),
    Acked(Packet),
    Lost(Packet),
    Feedback(usize, Feedback),
    Announce(usize, u32),
    AnnounceAck(usize, u32),
    Tick(usize),
    Request(usize),
    Garbage(usize),
    Stranger(usize),
    Change(usize),
}

pub(crate) struct Simulation {
    out: Outcome,
    random: Random,
    now: Nanos,
    schedule: Schedule<Happening>,
    rate: Rate,
    rtt: Nanos,
    fifo: VecDeque<(Nanos, Packet)>,
    fifo_bytes: Bytes,
    receiveboxes: Vec<Receivebox>,
    /// What they know of each other.
    shares: Shares,
    fingerprint: u32,
    scratch: Vec<(Nanos, Packet)>,
    last_out: Nanos,
    /// The rate at which a stranger sends to each bundle's prefixes.
    strangers: Vec<Rate>,
}

/// The flow of packets that a stranger sends to a bundle's prefixes.
const STRANGER: usize = usize::MAX;

const RECEIVEBOX_EPOCH: u32 = 64;

impl Simulation {
    pub(crate) fn new(world: World) -> Self {
        let n = world.backlogged.len();
        let mut this = Self {
            random: Random::new(world.seed),
            now: Nanos::ZERO,
            schedule: Schedule::new(),
            rate: world.rate,
            rtt: world.rtt,
            fifo: VecDeque::new(),
            fifo_bytes: Bytes::ZERO,
            receiveboxes: (0..n)
                .map(|i| Receivebox {
                    alive: true,
                    epoch: RECEIVEBOX_EPOCH,
                    bytes: Bytes(77_000 * i as u64),
                    packets: u32::MAX - 500,
                    sequence: 0,
                    clock_offset: Nanos::from_secs(1000 + i as u64),
                    delays: (Nanos::ZERO, Nanos::ZERO),
                    lies: Lies::None,
                    truth: None,
                })
                .collect(),
            shares: Shares::new(n.min(world.cross_from)),
            fingerprint: 0,
            scratch: vec![],
            last_out: Nanos::ZERO,
            strangers: vec![Rate::ZERO; n],
            out: Outcome {
                sojourns: vec![],
                departures: vec![],
                drops: 0,
                events: vec![],
                ticks: vec![vec![]; n],
                known: vec![vec![]; n],
                sendboxes: (0..n)
                    .map(|i| {
                        Sendbox::new(
                            world.config,
                            world.sendbox_limit,
                            world.shaper_grain,
                            i < world.cross_from,
                        )
                    })
                    .collect(),
                feedback_sent: vec![0; n],
                sent: vec![Bytes::ZERO; n],
                flows: vec![],
                world,
            },
        };
        for bundle in 0..n {
            let phase = Nanos(this.random.next() % 10_000_000);
            this.at(phase, Happening::Tick(bundle));
            for _ in 0..this.out.world.backlogged[bundle] {
                this.start_flow(bundle, None);
            }
            if this.out.world.requests[bundle] > Rate::ZERO {
                this.at(Nanos::ZERO, Happening::Request(bundle));
            }
            if this.out.world.garbage > 0.0 {
                this.at(Nanos::ZERO, Happening::Garbage(bundle));
            }
        }
        for (i, (at, _)) in this.out.world.changes.clone().into_iter().enumerate() {
            this.at(at, Happening::Change(i));
        }
        this
    }

    fn at(&mut self, time: Nanos, what: Happening) {
        self.schedule.at(time, what);
    }

    pub(crate) fn run(mut self) -> Outcome {
        while let Some((time, what)) = self.schedule.next() {
            if time > self.out.world.duration {
                break;
            }
            self.now = time;
            self.happen(what);
        }
        self.out
    }

    fn happen(&mut self, what: Happening) {
        let now = self.now;
        match what {
            Happening::Wake(b) => {
                if self.out.sendboxes[b].wake_at == Some(now) {
                    self.shape(b);
                }
            }
            Happening::Arrive(packet) => self.arrive(packet),
            Happening::Served => self.served(),
            Happening::Received(packet) => self.received(packet),
            Happening::Acked(p) => {
                self.out.flows[p.flow].on_ack(now, p.sent_at, p.payload);
                self.send(p.flow);
            }
            Happening::Lost(p) => {
                self.out.flows[p.flow].on_loss(now, p.payload);
                self.send(p.flow);
            }
            Happening::Feedback(b, feedback) => {
                self.out.sendboxes[b].on_feedback(now, &feedback);
            }
            Happening::Announce(b, epoch) => {
                if self.receiveboxes[b].alive {
                    self.receiveboxes[b].epoch = epoch;
                    self.at(now + self.rtt / 2, Happening::AnnounceAck(b, epoch));
                }
            }
            Happening::AnnounceAck(b, epoch) => {
                self.out.sendboxes[b].on_epoch_ack(now, epoch);
            }
            Happening::Tick(b) => self.tick(b),
            Happening::Request(b) => {
                let size = self.random.request_size();
                self.start_flow(b, Some(size));
                let mean = 21_025.0 * 8.0 / self.out.world.requests[b].as_bps() as f64;
                let gap = Nanos::from_secs_f64(self.random.exponential(mean));
                self.at(now + gap, Happening::Request(b));
            }
            Happening::Garbage(b) => {
                let r = &mut self.random;
                let feedback = Feedback {
                    fingerprint: (r.next() as u32) & !63,
                    epoch: 64,
                    bytes: Bytes(r.next()),
                    packets: r.next() as u32,
                    received_at: Nanos(r.next()),
                    others: Others { bytes: Bytes(r.next()), fair: Rate::from_bps(r.next()) },
                    sequence: r.next(),
                };
                self.out.sendboxes[b].on_feedback(now, &feedback);
                let gap =
                    Nanos::from_secs_f64(self.random.exponential(1.0 / self.out.world.garbage));
                self.at(now + gap, Happening::Garbage(b));
            }
            Happening::Stranger(b) => self.stranger(b),
            Happening::Change(i) => self.change(self.out.world.changes[i].1),
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::LinkRate(rate) => self.rate = rate,
            Change::Rtt(rtt) => self.rtt = rtt,
            Change::Kill(b) => self.receiveboxes[b].alive = false,
            Change::Revive(b) => {
                let r = &mut self.receiveboxes[b];
                r.alive = true;
                r.bytes = Bytes::ZERO;
                r.packets = 0;
                r.sequence = 0;
                r.epoch = RECEIVEBOX_EPOCH;
            }
            Change::Down(b) => self.out.sendboxes[b].stop(self.now),
            Change::Up(b, remembers) => {
                let config = self.out.world.config;
                self.out.sendboxes[b].start(self.now, config, remembers);
            }
            Change::SendboxClock(b, ahead) => self.out.sendboxes[b].ahead += ahead,
            Change::ReceiveboxClock(b, offset) => self.receiveboxes[b].clock_offset = offset,
            Change::FeedbackDelay(b, delay, jitter) => {
                self.receiveboxes[b].delays = (delay, jitter);
            }
            Change::Lies(b, lies) => self.receiveboxes[b].lies = lies,
            Change::Stranger(b, rate) => {
                let silent = self.strangers[b] == Rate::ZERO;
                self.strangers[b] = rate;
                if silent {
                    self.stranger(b);
                }
            }
            Change::Start(b, flows) => {
                for _ in 0..flows {
                    self.start_flow(b, None);
                }
            }
            Change::Stop(b) => {
                for flow in self.out.flows.iter_mut().filter(|f| f.bundle == b) {
                    flow.stop();
                }
            }
        }
    }

    /// Sends a stranger's packet to a bundle's prefixes, and plans the next one.
    fn stranger(&mut self, bundle: usize) {
        let rate = self.strangers[bundle];
        if rate == Rate::ZERO {
            return;
        }
        let len = Bytes(1514);
        let fingerprint = Some(self.random.next() as u32);
        let (payload, sent_at) = (0, self.now);
        self.arrive(Packet { bundle, flow: STRANGER, len, payload, sent_at, fingerprint });
        self.at(self.now + rate.time_for(len), Happening::Stranger(bundle));
    }

    fn start_flow(&mut self, bundle: usize, size: Option<u64>) {
        self.out.flows.push(Flow::new(bundle, size, self.now));
        self.send(self.out.flows.len() - 1);
    }

    fn send(&mut self, flow: usize) {
        let bundle = self.out.flows[flow].bundle;
        while let Some(payload) = self.out.flows[flow].next_packet() {
            let repeat = self.random.chance(self.out.world.duplicate_fingerprints);
            if !repeat {
                self.fingerprint = self.random.next() as u32;
            }
            let packet = Packet {
                bundle,
                flow,
                len: Bytes(payload + HEADERS),
                payload,
                sent_at: self.now,
                fingerprint: Some(self.fingerprint),
            };
            if let Some(dropped) = self.out.sendboxes[bundle].enqueue(packet) {
                let notice = self.now + self.out.flows[dropped.flow].srtt();
                self.at(notice, Happening::Lost(dropped));
            }
        }
        if self.out.sendboxes[bundle].wake_at.is_none() {
            self.shape(bundle);
        }
    }

    fn shape(&mut self, b: usize) {
        let mut out = std::mem::take(&mut self.scratch);
        self.out.sendboxes[b].run(self.now, &mut self.random, &mut out);
        for (leaves, packet) in out.drain(..) {
            self.out.sent[b] += packet.len;
            // A quarter of the round trip lies before the bottleneck.
            let arrives = (leaves + self.rtt / 4).max(self.last_out);
            self.last_out = arrives;
            self.at(arrives, Happening::Arrive(packet));
        }
        self.scratch = out;
        if let Some(at) = self.out.sendboxes[b].wake_at {
            self.at(at, Happening::Wake(b));
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let lost = self.random.chance(self.out.world.packet_loss);
        if lost || self.fifo_bytes + packet.len > self.out.world.buffer {
            self.out.drops += 1;
            if packet.flow == STRANGER {
                return;
            }
            let notice = self.now + self.out.flows[packet.flow].srtt();
            self.at(notice, Happening::Lost(packet));
            return;
        }
        self.fifo_bytes += packet.len;
        self.fifo.push_back((self.now, packet));
        if self.fifo.len() == 1 {
            self.at(self.now + self.rate.time_for(packet.len), Happening::Served);
        }
    }

    fn served(&mut self) {
        let (arrived, packet) = self.fifo.pop_front().unwrap();
        self.fifo_bytes -= packet.len;
        // The queue that a packet finds, without its own transmission.
        let sojourn = self.now - arrived;
        self.out.sojourns.push((self.now, sojourn.saturating_sub(self.rate.time_for(packet.len))));
        if packet.flow != STRANGER {
            self.out.departures.push((self.now, packet.bundle, packet.len));
        }
        self.at(self.now + self.rtt / 4, Happening::Received(packet));
        if let Some((_, next)) = self.fifo.front() {
            self.at(self.now + self.rate.time_for(next.len), Happening::Served);
        }
    }

    fn received(&mut self, packet: Packet) {
        let b = packet.bundle;
        if packet.flow != STRANGER {
            self.at(self.now + self.rtt / 2, Happening::Acked(packet));
        }
        let r = &mut self.receiveboxes[b];
        if !r.alive {
            return;
        }
        r.bytes += packet.len;
        r.packets = r.packets.wrapping_add(1);
        if b < self.out.world.cross_from {
            self.shares.on_total(self.now, b, r.bytes);
        }
        let Some(fingerprint) = packet.fingerprint.filter(|f| f % r.epoch == 0) else {
            return;
        };
        r.sequence += 1;
        let mut feedback = Feedback {
            fingerprint,
            epoch: r.epoch,
            bytes: r.bytes,
            packets: r.packets,
            received_at: self.now
                + r.clock_offset
                + Nanos(self.random.next() % self.out.world.stamp_jitter.0),
            others: self.shares.others(b),
            sequence: r.sequence,
        };
        r.lie(&mut feedback, &mut self.random);
        let (mut delay, jitter) = r.delays;
        if jitter > Nanos::ZERO {
            delay += Nanos(self.random.next() % jitter.0);
        }
        self.out.feedback_sent[b] += 1;
        if self.random.chance(self.out.world.feedback_loss) {
            return;
        }
        let mut jitter = self.random.between(20e-6, 80e-6);
        let (p, size) = self.out.world.spikes;
        if self.random.chance(p) {
            jitter += self.random.between(0.0, size.as_secs_f64());
        }
        if self.random.chance(self.out.world.feedback_late) {
            jitter += self.random.between(0.0, 0.030);
        }
        let arrives = self.now + self.rtt / 2 + delay + Nanos::from_secs_f64(jitter);
        self.at(arrives, Happening::Feedback(b, feedback));
    }

    fn tick(&mut self, b: usize) {
        let now = self.now;
        let sendbox = &mut self.out.sendboxes[b];
        let backlog = sendbox.backlog();
        sendbox.on_tick(now);
        while let Some(event) = sendbox.bundle.poll_event() {
            self.out.events.push((now, b, event));
        }
        let rate = sendbox.bundle.rate();
        self.out.ticks[b].push((now, rate, backlog));
        let (mode, min_rtt) = (sendbox.bundle.mode(), sendbox.bundle.snapshot().min_rtt);
        self.out.known[b].push(Known { at: now, mode, min_rtt });
        if let Some(epoch) = self.out.sendboxes[b].poll_epoch_update(now) {
            self.at(now + self.rtt / 2, Happening::Announce(b, epoch));
        }
        // A new rate reaches the shaper at once.
        self.shape(b);
        // The timer of a busy machine is a little late, and never early on average.
        let late = Nanos(self.random.next() % 200_000);
        self.at(Nanos((now.0 / 10_000_000 + 1) * 10_000_000) + late, Happening::Tick(b));
    }
}
