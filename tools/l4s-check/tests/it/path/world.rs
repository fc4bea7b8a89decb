//! A path with one bottleneck, in driven time.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use forebay_l4s_check::{Datagram, Echo, Options, Probe, Prober, Report};
use forebay_queue::{Ecn, Packet, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};

/// A packet at the bottleneck: a datagram of the check, or one of others.
#[derive(Clone, Debug)]
pub(crate) struct Pkt {
    sequence: Option<u32>,
    pub(crate) ecn: Ecn,
    flow: u32,
    len: u64,
    /// The class that a bottleneck with classes sees: 0 for ECT(1) packets.
    pub(crate) class: u8,
}

impl Packet for Pkt {
    fn len(&self) -> Bytes {
        Bytes(self.len)
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// What a box on the path does to a codepoint; `None` drops the packet.
pub(crate) type Rewrite = fn(Ecn) -> Option<Ecn>;

pub(crate) struct World {
    pub(crate) rate: Rate,
    /// The round trip of the empty path.
    pub(crate) rtt: Nanos,
    pub(crate) queue: Box<dyn Qdisc<Pkt>>,
    /// A box before the bottleneck, and one after it.
    pub(crate) before: Rewrite,
    pub(crate) after: Rewrite,
    /// The longest random delay, in order.
    pub(crate) jitter: Nanos,
    /// The share of packets lost at random.
    pub(crate) loss: f64,
    /// The rate of Not-ECT packets of others, as a share of the bottleneck's.
    pub(crate) others: f64,
    /// A box before the bottleneck lets packets pass once in this time.
    pub(crate) bursts: Option<Nanos>,
    pub(crate) max_rate: Rate,
    pub(crate) seed: u64,
}

impl World {
    pub(crate) fn new(mbps: u64, rtt_ms: u64, queue: Box<dyn Qdisc<Pkt>>) -> Self {
        Self {
            rate: Rate::from_mbps(mbps),
            rtt: Nanos::from_millis(rtt_ms),
            queue,
            before: Some,
            after: Some,
            jitter: Nanos::ZERO,
            loss: 0.0,
            others: 0.0,
            bursts: None,
            max_rate: Rate::from_mbps(300),
            seed: 1,
        }
    }

    /// Runs a check over the path. Returns what it found and how long it took.
    pub(crate) fn check(mut self) -> (Report, Nanos) {
        let random = Random(Cell::new(self.seed));
        // The clocks of both ends differ.
        let skew = Nanos::from_secs(7_000);
        let options = Options { max_rate: self.max_rate, seed: self.seed };
        let mut now = Nanos::from_secs(1);
        let mut prober = Prober::new(options, now);
        // Echoes by arrival; the number keeps them in order.
        let mut echoes: BinaryHeap<Reverse<(Nanos, u64, [u8; Echo::LEN])>> = BinaryHeap::new();
        let mut count = 0;
        // Packets on the way to the bottleneck, in order.
        let mut coming: VecDeque<(Nanos, Pkt)> = VecDeque::new();
        let (mut free, mut last_arrival, mut other) = (now, now, now);
        let began = now;
        while let Some(due) = prober.next() {
            let mut next = due;
            if let Some(Reverse((at, ..))) = echoes.peek() {
                next = next.min(*at);
            }
            if let Some((at, _)) = coming.front() {
                next = next.min(*at);
            }
            let served = self.queue.next_event(now).map(|at| at.max(free));
            if let Some(at) = served {
                next = next.min(at);
            }
            if self.others > 0.0 {
                next = next.min(other);
            }
            now = now.max(next);
            if self.others > 0.0 && other <= now {
                let packet =
                    Pkt { sequence: None, ecn: Ecn::NotEct, flow: 9, len: 1_228, class: 1 };
                self.queue.enqueue(now, packet, &mut |_, _| ());
                let mean = self.rate.scaled(self.others).time_for(Bytes(1_228));
                other = now + Nanos((mean.0 as f64 * -random.share().max(1e-9).ln()) as u64);
            }
            while let Some(Reverse((at, _, bytes))) = echoes.peek().copied() {
                if at > now {
                    break;
                }
                echoes.pop();
                prober.on_echo(now, &Echo::decode(&bytes).unwrap());
            }
            while let Some(Datagram { sequence, flow, ecn, len }) = prober.poll(now) {
                let Some(ecn) = (self.before)(ecn) else { continue };
                if random.share() < self.loss {
                    continue;
                }
                let class = u8::from(ecn != Ecn::Ect1);
                let packet = Pkt {
                    sequence: Some(sequence),
                    ecn,
                    flow: flow as u32,
                    len: len as u64 + 28,
                    class,
                };
                let at = self.bursts.map_or(now, |every| Nanos(now.0.div_ceil(every.0) * every.0));
                coming.push_back((at, packet));
            }
            while coming.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, packet)) = coming.pop_front() else { break };
                self.queue.enqueue(now, packet, &mut |_, _| ());
            }
            if served.is_some_and(|at| at <= now)
                && let Some(packet) = self.queue.dequeue(now, &mut |_, _| ())
            {
                free = now + self.rate.time_for(packet.len());
                let Some(sequence) = packet.sequence else { continue };
                let Some(ecn) = (self.after)(packet.ecn) else { continue };
                let jitter = Nanos((self.jitter.0 as f64 * random.share()) as u64);
                last_arrival = last_arrival.max(free + self.rtt / 2 + jitter);
                let mut probe = [0; 64];
                Probe { session: prober.session(), sequence }.encode(&mut probe);
                let echo = Echo::of(last_arrival + skew, ecn, &probe).unwrap().encode();
                count += 1;
                echoes.push(Reverse((last_arrival + self.rtt / 2, count, echo)));
            }
        }
        (prober.report(), now - began)
    }
}

/// A generator of random numbers (xorshift64*).
struct Random(Cell<u64>);

impl Random {
    fn share(&self) -> f64 {
        let mut x = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0.set(x);
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
