//! A TCP transfer over a path with one bottleneck, in driven time, and captures of it.
//!
//! It is a second TCP beside the one of `forebay-sim`, since here every fault of a path, a sender
//! or a receiver can be had. The sender learns of losses after a round trip without looking at
//! acknowledgements: captures show the same retransmissions.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use forebay_capture::Capture;
use forebay_l4s_check::tcp::{Analysis, Place};
use forebay_queue::{Ecn, Packet, Qdisc};
use forebay_units::{Bytes, Nanos, Rate};

use crate::capture::frame::{self, ACK, MSS, SYN, Tcp};

const PAYLOAD: u32 = MSS - 12;
const ISN: u32 = 4_294_000_000;
const SERVER_ISN: u32 = 4_294_967_290;
const START: u64 = 1_700_000_000_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pkt {
    /// The number of the segment; `None` for traffic of others.
    segment: Option<u32>,
    pub(crate) ecn: Ecn,
    id: u16,
    clock: u32,
    echo: u32,
    flow: u32,
}

impl Packet for Pkt {
    fn len(&self) -> Bytes {
        Bytes(1_514)
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

pub(crate) type Rewrite = fn(Ecn) -> Option<Ecn>;

/// What the receiver echoes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Echoes {
    /// AccECN, with its option or without.
    Accurate { option: bool },
    /// AccECN whose counters never move.
    Nothing,
    /// Classic ECN with ECE.
    Classic,
    /// ECN is not used.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    Prague,
    Reno,
}

#[derive(Clone, Copy, Debug)]
struct AckInfo {
    /// The next segment that the receiver waits for.
    next: u32,
    flags: u16,
    marks: u64,
    delivered: u64,
    clock: u32,
    echo: u32,
    counters: Option<[u32; 3]>,
}

enum Event {
    Send,
    AtBox(Pkt),
    AtQueue(Pkt),
    Serve,
    AtReceiver(Pkt),
    DelayedAck,
    AtSender(AckInfo),
    Lost(u32),
    Other,
}

pub(crate) struct World {
    pub(crate) rate: Rate,
    pub(crate) rtt: Nanos,
    pub(crate) queue: Box<dyn Qdisc<Pkt>>,
    pub(crate) before: Rewrite,
    pub(crate) after: Rewrite,
    pub(crate) sent_as: Ecn,
    pub(crate) law: Law,
    pub(crate) echoes: Echoes,
    /// The sender sends ECT(0) and halves its window from then on.
    pub(crate) falls_back: Option<Nanos>,
    /// The flags AE, CWR and ECE of the SYN at the client and at the server, and of the SYN/ACK.
    pub(crate) handshake: [u16; 3],
    /// The ECN field of the SYN.
    pub(crate) syn_ecn: Ecn,
    /// Whether the way back clears the ACE field.
    pub(crate) clears_ace: bool,
    pub(crate) timestamps: bool,
    pub(crate) jitter: Nanos,
    pub(crate) loss: f64,
    pub(crate) others: f64,
    pub(crate) bursts: Option<Nanos>,
    pub(crate) largest_window: f64,
    pub(crate) lasts: Nanos,
    pub(crate) seed: u64,
}

/// The packets of a transfer at three places.
#[derive(Default)]
pub(crate) struct Captures {
    pub(crate) sender: Vec<(u64, Tcp)>,
    pub(crate) middle: Vec<(u64, Tcp)>,
    pub(crate) receiver: Vec<(u64, Tcp)>,
}

/// Reads packets of raw IP as a capture.
pub(crate) fn analysis(packets: &[(u64, Tcp)], at: Option<Place>) -> Analysis {
    let packets: Vec<_> = packets.iter().map(|(at, tcp)| (*at, frame::ipv4(tcp))).collect();
    analysis_of(&frame::pcap(101, &[], &packets), at)
}

pub(crate) fn analysis_of(file: &[u8], at: Option<Place>) -> Analysis {
    let mut capture = Capture::new(file).unwrap();
    let mut analysis = Analysis::new(at);
    while let Some(packet) = capture.next_ip().unwrap() {
        analysis.push(&packet);
    }
    analysis
}

impl World {
    pub(crate) fn new(mbps: u64, rtt_ms: u64, queue: Box<dyn Qdisc<Pkt>>) -> Self {
        Self {
            rate: Rate::from_mbps(mbps),
            rtt: Nanos::from_millis(rtt_ms),
            queue,
            before: Some,
            after: Some,
            sent_as: Ecn::Ect1,
            law: Law::Prague,
            echoes: Echoes::Accurate { option: true },
            falls_back: None,
            handshake: [0b111, 0b111, 0b010],
            syn_ecn: Ecn::NotEct,
            clears_ace: false,
            timestamps: true,
            jitter: Nanos::ZERO,
            loss: 0.0,
            others: 0.0,
            bursts: None,
            largest_window: 1e4,
            lasts: Nanos::from_secs(5),
            seed: 1,
        }
    }

    pub(crate) fn run(self) -> Captures {
        Run::new(self).run()
    }
}

struct Run {
    world: World,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64)>>,
    contents: BTreeMap<u64, Event>,
    count: u64,
    captures: Captures,
    random: Random,
    // The sender.
    next: u32,
    again: Vec<u32>,
    sent: u64,
    lost: u64,
    delivered: u64,
    window: f64,
    slow_start: bool,
    alpha: f64,
    marks_seen: u64,
    round: (Nanos, u64, u64),
    reduced: Nanos,
    next_send: Nanos,
    sending: bool,
    cwr: bool,
    peer_clock: u32,
    ids: u16,
    // The bottleneck.
    free: Nanos,
    serving: bool,
    last_arrival: Nanos,
    // The receiver.
    wanted: u32,
    early: Vec<u32>,
    marks: u64,
    bytes: [u32; 3],
    received: u64,
    unacked: u32,
    new_marks: u32,
    ece: bool,
    own_clock: u32,
}

impl Run {
    fn new(world: World) -> Self {
        let random = Random(Cell::new(world.seed));
        Self {
            world,
            now: Nanos::ZERO,
            events: BinaryHeap::new(),
            contents: BTreeMap::new(),
            count: 0,
            captures: Captures::default(),
            random,
            next: 0,
            again: Vec::new(),
            sent: 0,
            lost: 0,
            delivered: 0,
            window: 10.0,
            slow_start: true,
            alpha: 1.0,
            marks_seen: 0,
            round: (Nanos::ZERO, 0, 0),
            reduced: Nanos::ZERO,
            next_send: Nanos::ZERO,
            sending: false,
            cwr: false,
            peer_clock: 0,
            ids: 0,
            free: Nanos::ZERO,
            serving: false,
            last_arrival: Nanos::ZERO,
            wanted: 0,
            early: Vec::new(),
            marks: 0,
            bytes: [1, 0, 1],
            received: 0,
            unacked: 0,
            new_marks: 0,
            ece: false,
            own_clock: 0,
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at, self.count)));
        self.contents.insert(self.count, event);
    }

    fn clock(&self, base: u32) -> u32 {
        base.wrapping_add((self.now.0 / 1_000_000) as u32)
    }

    /// Captures a segment at a place that it passes at `at`.
    fn take(&mut self, place: Place, at: Nanos, mut tcp: Tcp) {
        if !self.world.timestamps {
            tcp.timestamps = None;
        }
        let packet = (START + at.0, tcp);
        match place {
            Place::Sender => self.captures.sender.push(packet),
            Place::Receiver => self.captures.receiver.push(packet),
            _ => self.captures.middle.push(packet),
        }
    }

    /// The handshake: SYN, SYN/ACK, and the answer with the field that was received.
    fn handshake(&mut self) {
        let [syn, arrived, syn_ack] = self.world.handshake.map(|f| f << 6);
        let (half, quarter) = (self.world.rtt / 2, self.world.rtt / 4);
        let clocks = (self.clock(7), 0);
        let to = Tcp {
            to_server: true,
            ecn: self.world.syn_ecn,
            seq: ISN,
            timestamps: Some(clocks),
            ..Tcp::default()
        };
        self.take(Place::Sender, self.now, Tcp { flags: SYN | syn, ..to });
        let flags = SYN | arrived;
        let ecn = (self.world.before)(to.ecn).unwrap_or(to.ecn);
        self.take(Place::Middle, self.now + quarter, Tcp { flags, ecn, ..to });
        let ecn = (self.world.after)(ecn).unwrap_or(ecn);
        self.take(Place::Receiver, self.now + half, Tcp { flags, ecn, ..to });
        self.now += half;
        self.own_clock = clocks.0;
        let back = Tcp {
            seq: SERVER_ISN,
            ack: ISN.wrapping_add(1),
            flags: SYN | ACK | syn_ack,
            timestamps: Some((self.clock(u32::MAX - 900), clocks.0)),
            ..Tcp::default()
        };
        self.peer_clock = self.clock(u32::MAX - 900);
        self.take(Place::Receiver, self.now, back);
        self.take(Place::Middle, self.now + quarter, back);
        self.take(Place::Sender, self.now + half, back);
        self.now += half;
        // The SYN/ACK was Not-ECT.
        let third =
            if matches!(syn_ack >> 6, 0b010 | 0b011 | 0b100 | 0b110) { 0b010 << 6 } else { 0 };
        let third = Tcp {
            to_server: true,
            seq: ISN.wrapping_add(1),
            ack: SERVER_ISN.wrapping_add(1),
            flags: ACK | third,
            timestamps: Some((self.clock(7), self.peer_clock)),
            ..Tcp::default()
        };
        self.take(Place::Sender, self.now, third);
        self.take(Place::Middle, self.now + quarter, third);
        self.take(Place::Receiver, self.now + half, third);
    }

    fn run(mut self) -> Captures {
        self.handshake();
        self.at(self.now, Event::Send);
        self.sending = true;
        if self.world.others > 0.0 {
            self.at(self.now, Event::Other);
        }
        let end = self.world.lasts;
        while let Some(Reverse((at, number))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            let Some(event) = self.contents.remove(&number) else { continue };
            match event {
                Event::Send => self.on_send(),
                Event::AtBox(packet) => {
                    let every = self.world.bursts.unwrap_or(Nanos(1));
                    let at = Nanos(self.now.0.div_ceil(every.0) * every.0);
                    self.at(at, Event::AtQueue(packet));
                }
                Event::AtQueue(packet) => {
                    let mut lost = Vec::new();
                    self.world.queue.enqueue(self.now, packet, &mut |p: Pkt, _| lost.push(p));
                    self.drops(lost);
                    self.serve();
                }
                Event::Serve => self.on_serve(),
                Event::AtReceiver(packet) => self.on_data(packet),
                Event::DelayedAck => {
                    if self.unacked > 0 {
                        self.acknowledge();
                    }
                }
                Event::AtSender(ack) => self.on_ack(ack),
                Event::Lost(segment) => self.on_lost(segment),
                Event::Other => {
                    let packet =
                        Pkt { segment: None, ecn: Ecn::NotEct, id: 0, clock: 0, echo: 0, flow: 9 };
                    self.at(self.now, Event::AtQueue(packet));
                    let mean = self.world.rate.scaled(self.world.others).time_for(Bytes(1_514));
                    let wait = mean.0 as f64 * -self.random.share().max(1e-9).ln();
                    self.at(self.now + Nanos(wait as u64), Event::Other);
                }
            }
        }
        for packets in
            [&mut self.captures.sender, &mut self.captures.middle, &mut self.captures.receiver]
        {
            packets.sort_by_key(|p| p.0);
        }
        self.captures
    }

    fn drops(&mut self, lost: Vec<Pkt>) {
        for segment in lost.into_iter().filter_map(|p| p.segment) {
            let known = self.now + self.world.rtt + Nanos::from_millis(2);
            self.at(known, Event::Lost(segment));
        }
    }

    // The sender.

    fn on_send(&mut self) {
        self.sending = false;
        let flight = self.sent - self.delivered - self.lost;
        let window = self.window.min(self.world.largest_window);
        if flight as f64 >= window {
            return;
        }
        if self.now < self.next_send {
            return self.wake(self.next_send);
        }
        let again = self.again.pop();
        let segment = again.unwrap_or(self.next);
        self.next = self.next.max(segment + 1);
        self.sent += 1;
        self.ids = self.ids.wrapping_add(1);
        let fallen = self.world.falls_back.is_some_and(|at| self.now >= at);
        let ecn = match (again, fallen) {
            (Some(_), _) => Ecn::NotEct,
            (None, true) => Ecn::Ect0,
            (None, false) => self.world.sent_as,
        };
        let (clock, echo) = (self.clock(7), self.peer_clock);
        let packet = Pkt { segment: Some(segment), ecn, id: self.ids, clock, echo, flow: 1 };
        let cwr = std::mem::take(&mut self.cwr);
        self.capture_data(Place::Sender, self.now, &packet, cwr);
        match (self.world.before)(ecn) {
            Some(ecn) if self.random.share() >= self.world.loss => {
                let at = self.now + self.world.rtt / 4;
                self.at(at, Event::AtBox(Pkt { ecn, ..packet }));
            }
            _ => self.drops(vec![packet]),
        }
        let gain = if self.slow_start { 2.0 } else { 1.2 };
        let gap = self.world.rtt.0 as f64 / self.window.max(2.0) / gain;
        self.next_send = self.now + Nanos(gap as u64);
        self.wake(self.next_send);
    }

    fn wake(&mut self, at: Nanos) {
        if !self.sending {
            self.sending = true;
            self.at(at, Event::Send);
        }
    }

    fn capture_data(&mut self, place: Place, at: Nanos, packet: &Pkt, cwr: bool) {
        let Some(segment) = packet.segment else { return };
        // The data's own ACE field stays at its first value, since nothing comes back marked.
        let ace = match self.world.echoes {
            Echoes::Accurate { .. } | Echoes::Nothing => 5,
            Echoes::Classic if cwr => 0b010,
            Echoes::Classic | Echoes::Off => 0,
        };
        let tcp = Tcp {
            to_server: true,
            id: packet.id,
            ecn: packet.ecn,
            seq: ISN.wrapping_add(1).wrapping_add(segment.wrapping_mul(PAYLOAD)),
            ack: SERVER_ISN.wrapping_add(1),
            flags: ACK | ace << 6,
            payload: PAYLOAD,
            timestamps: Some((packet.clock, packet.echo)),
            counters: None,
        };
        self.take(place, at, tcp);
    }

    fn on_ack(&mut self, ack: AckInfo) {
        self.capture_ack(Place::Sender, self.now, &ack);
        self.peer_clock = ack.clock;
        let new = (ack.delivered - self.delivered) as f64;
        self.delivered = ack.delivered;
        let classic =
            self.world.law == Law::Reno || self.world.falls_back.is_some_and(|at| self.now >= at);
        let marks = ack.marks - self.marks_seen;
        self.marks_seen = ack.marks;
        let is_classic = self.world.echoes == Echoes::Classic;
        let is_marked = marks > 0 || is_classic && ack.flags & 1 << 6 != 0;
        let (began, marks_then, delivered_then) = self.round;
        if self.now.saturating_sub(began) > self.world.rtt {
            let share = (self.marks_seen - marks_then) as f64
                / ((self.delivered - delivered_then) as f64).max(1.0);
            self.alpha += (share.min(1.0) - self.alpha) / 16.0;
            self.round = (self.now, self.marks_seen, self.delivered);
        }
        if is_marked && self.now.saturating_sub(self.reduced) > self.world.rtt {
            let part = match (classic, self.slow_start) {
                (true, _) | (false, true) => 0.5,
                (false, false) => 1.0 - self.alpha / 2.0,
            };
            self.slow_start = false;
            self.window = (self.window * part).max(2.0);
            self.reduced = self.now;
            self.cwr = true;
        } else if self.slow_start {
            self.window += new;
        } else {
            self.window += new / self.window;
        }
        self.wake(self.now.max(self.next_send));
    }

    fn on_lost(&mut self, segment: u32) {
        self.lost += 1;
        self.again.push(segment);
        if self.now.saturating_sub(self.reduced) > self.world.rtt {
            self.slow_start = false;
            self.window = (self.window / 2.0).max(2.0);
            self.reduced = self.now;
        }
        self.wake(self.now.max(self.next_send));
    }

    // The bottleneck.

    fn serve(&mut self) {
        if self.serving {
            return;
        }
        if let Some(at) = self.world.queue.next_event(self.now) {
            self.serving = true;
            self.at(at.max(self.free), Event::Serve);
        }
    }

    fn on_serve(&mut self) {
        self.serving = false;
        let mut lost = Vec::new();
        let packet = self.world.queue.dequeue(self.now, &mut |p: Pkt, _| lost.push(p));
        self.drops(lost);
        if let Some(packet) = packet {
            self.free = self.now + self.world.rate.time_for(Bytes(1_514));
            self.capture_data(Place::Middle, self.free, &packet, false);
            if packet.segment.is_some() {
                match (self.world.after)(packet.ecn) {
                    Some(ecn) => {
                        let jitter = self.world.jitter.0 as f64 * self.random.share();
                        let at = self.free + self.world.rtt / 4 + Nanos(jitter as u64);
                        self.last_arrival = self.last_arrival.max(at);
                        self.at(self.last_arrival, Event::AtReceiver(Pkt { ecn, ..packet }));
                    }
                    None => self.drops(vec![packet]),
                }
            }
        }
        self.serve();
    }

    // The receiver.

    fn on_data(&mut self, packet: Pkt) {
        let Some(segment) = packet.segment else { return };
        self.capture_data(Place::Receiver, self.now, &packet, false);
        self.received += 1;
        self.unacked += 1;
        let in_order = segment == self.wanted;
        if in_order {
            self.wanted += 1;
            self.own_clock = packet.clock;
        } else if segment > self.wanted {
            self.early.push(segment);
        }
        let before = self.early.len();
        while let Some(n) = self.early.iter().position(|&s| s == self.wanted) {
            self.early.swap_remove(n);
            self.wanted += 1;
        }
        match packet.ecn {
            Ecn::NotEct => {}
            Ecn::Ect1 => self.bytes[0] += PAYLOAD,
            Ecn::Ect0 => self.bytes[2] += PAYLOAD,
            Ecn::Ce => {
                self.bytes[1] += PAYLOAD;
                self.marks += 1;
                self.new_marks += 1;
                self.ece = true;
            }
        }
        let at_once = !in_order || before > 0 || self.unacked >= 2 || self.new_marks >= 2;
        if at_once || self.world.echoes == Echoes::Classic && packet.ecn == Ecn::Ce {
            self.acknowledge();
        } else {
            self.at(self.now + Nanos::from_millis(20), Event::DelayedAck);
        }
    }

    fn acknowledge(&mut self) {
        (self.unacked, self.new_marks) = (0, 0);
        let (flags, marks) = match self.world.echoes {
            Echoes::Accurate { .. } => ((5 + self.marks % 8) as u16 & 7, self.marks),
            Echoes::Nothing => (5, 0),
            Echoes::Classic => (u16::from(std::mem::take(&mut self.ece)), 0),
            Echoes::Off => (0, 0),
        };
        let has_option = self.world.echoes == Echoes::Accurate { option: true };
        let ack = AckInfo {
            next: self.wanted,
            flags: flags << 6,
            marks,
            delivered: self.received,
            clock: self.clock(u32::MAX - 900),
            echo: self.own_clock,
            counters: has_option.then(|| self.bytes.map(|b| b & 0xff_ffff)),
        };
        self.capture_ack(Place::Receiver, self.now, &ack);
        let ack = if self.world.clears_ace { AckInfo { flags: 0, ..ack } } else { ack };
        self.capture_ack(Place::Middle, self.now + self.world.rtt / 4, &ack);
        self.at(self.now + self.world.rtt / 2, Event::AtSender(ack));
    }

    fn capture_ack(&mut self, place: Place, at: Nanos, ack: &AckInfo) {
        let tcp = Tcp {
            to_server: false,
            id: 0,
            ecn: Ecn::NotEct,
            seq: SERVER_ISN.wrapping_add(1),
            ack: ISN.wrapping_add(1).wrapping_add(ack.next.wrapping_mul(PAYLOAD)),
            flags: ACK | ack.flags,
            payload: 0,
            timestamps: Some((ack.clock, ack.echo)),
            counters: ack.counters,
        };
        self.take(place, at, tcp);
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
