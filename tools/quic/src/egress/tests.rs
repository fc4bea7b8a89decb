use std::collections::{BTreeMap, VecDeque};

use forebay_queue::backpressure::Hysteresis;
use forebay_queue::token_bucket::Burst;
use forebay_units::Rate;
use proptest::prelude::*;

use super::*;
use crate::config::{Mode, Schedule};

/// The contents of a segment that is 1000 bytes long as a frame over IPv4.
const SEGMENT: usize = 958;

fn transmit(contents: &[u8]) -> Transmit<'_> {
    Transmit {
        destination: "192.0.2.1:443".parse().unwrap(),
        ecn: None,
        contents,
        segment_size: (contents.len() > SEGMENT).then_some(SEGMENT),
        src_ip: None,
    }
}

/// Returns a configuration at a rate at which 1000 B take a millisecond.
fn config(mode: Mode, packets: u32) -> Config {
    Config {
        rate: Some(Rate::from_mbps(8)),
        burst: Burst::Bytes(forebay_units::Bytes(0)),
        hysteresis: Hysteresis::Packets(1),
        mode,
        packets,
        ..Config::default()
    }
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

#[test]
fn packets_leave_at_the_rate() {
    let mut egress = Egress::new(&config(Mode::Zd, 4)).unwrap();
    let (a, b) = (egress.open(), egress.open());
    let packet = [7; SEGMENT];
    for flow in [a, b] {
        assert_eq!(egress.send(ms(10), flow, &transmit(&packet)), Offer::Taken);
    }
    assert_eq!(egress.next_event(ms(10)), Some(ms(10)));
    assert_eq!(egress.dequeue(ms(10)).unwrap().len().0, 1000);
    assert_eq!(egress.dequeue(ms(10)), None);
    assert_eq!(egress.next_event(ms(10)), Some(ms(11)));
    assert_eq!(egress.dequeue(ms(11)).unwrap().transmit().contents, packet);
    assert_eq!(egress.next_event(ms(11)), None);
}

#[test]
fn a_full_buffer_drops_without_notice() {
    let mut egress = Egress::new(&config(Mode::Drop, 4)).unwrap();
    let flow = egress.open();
    for _ in 0..3 {
        assert_eq!(egress.send(ms(10), flow, &transmit(&[0; 2 * SEGMENT])), Offer::Taken);
    }
    let seen = egress.statistics();
    assert_eq!((seen.taken, seen.dropped, seen.backlog, seen.pauses), (6, 2, 4, 0));
}

/// Of five segments two are taken in each turn, and the sender passes the same transmit each time.
#[test]
fn a_transmit_of_segments_continues_where_it_stopped() {
    let mut egress = Egress::new(&config(Mode::Zd, 4)).unwrap();
    let flow = egress.open().unwrap();
    let contents: Vec<u8> = (0..4 * SEGMENT + 100).map(|i| (i / SEGMENT) as u8).collect();
    let (mut now, mut seen) = (ms(10), Vec::new());
    let mut turns = 1;
    while egress.send(now, Some(flow), &transmit(&contents)) == Offer::Paused {
        assert_eq!(egress.in_buffer(flow), 2);
        assert!(egress.is_paused(flow));
        while egress.is_paused(flow) {
            now += ms(1);
            seen.extend(egress.dequeue(now).map(|p| p.transmit().contents.to_vec()));
            assert!(egress.resume(now).is_none_or(|f| f == flow));
        }
        turns += 1;
    }
    while egress.statistics().backlog > 0 {
        now += ms(1);
        seen.extend(egress.dequeue(now).map(|p| p.transmit().contents.to_vec()));
    }
    assert_eq!(seen.concat(), contents);
    assert_eq!(
        seen.iter().map(Vec::len).collect::<Vec<_>>(),
        [SEGMENT, SEGMENT, SEGMENT, SEGMENT, 100]
    );
    assert_eq!(turns, 4, "two at first, then one for each that left");
    // The next transmit starts with its first segment, although only its end differs.
    assert_eq!(egress.send(now, Some(flow), &transmit(&contents[1..])), Offer::Paused);
    assert_eq!(egress.dequeue(now + ms(1)).unwrap().transmit().contents, &contents[1..=SEGMENT]);
}

/// A transmit that differs from the refused one is not taken for the rest of that one.
#[test]
fn another_transmit_is_taken_whole() {
    let mut egress = Egress::new(&config(Mode::Zd, 4)).unwrap();
    let flow = egress.open();
    let (first, other) = (vec![1; 3 * SEGMENT], vec![2; 3 * SEGMENT]);
    assert_eq!(egress.send(ms(10), flow, &transmit(&first)), Offer::Paused);
    let mut seen = Vec::new();
    for step in 11..20 {
        seen.extend(egress.dequeue(ms(step)).map(|p| p.transmit().contents[0]));
        while egress.resume(ms(step)).is_some() {}
        if egress.statistics().taken < 5 {
            let _ = egress.send(ms(step), flow, &transmit(&other));
        }
    }
    assert_eq!(seen, [1, 1, 2, 2, 2]);
}

#[test]
fn one_connection_too_many_is_not_paused() {
    let mut egress = Egress::new(&Config { flows: 1, ..config(Mode::Zd, 4) }).unwrap();
    let first = egress.open().unwrap();
    assert_eq!(egress.open(), None);
    for _ in 0..5 {
        assert_eq!(egress.send(ms(10), None, &transmit(&[0; SEGMENT])), Offer::Taken);
    }
    let seen = egress.statistics();
    assert_eq!((seen.taken, seen.dropped, seen.unregulated, seen.flows), (5, 3, 1, 1));
    // It took no more than the share of one connection.
    assert_eq!(egress.send(ms(10), Some(first), &transmit(&[0; SEGMENT])), Offer::Taken);
    egress.close(first);
    assert_eq!(egress.open(), Some(first));
}

/// A connection that is resumed and does not send keeps its room for half a second.
#[test]
fn a_connection_that_does_not_answer_loses_its_room() {
    let mut egress = Egress::new(&config(Mode::Zd, 1)).unwrap();
    let [a, b, c] = [(); 3].map(|()| egress.open().unwrap());
    let packet = [0; SEGMENT];
    assert_eq!(egress.send(ms(10), Some(a), &transmit(&packet)), Offer::Taken);
    assert_eq!(egress.send(ms(10), Some(b), &transmit(&packet)), Offer::Paused);
    assert_eq!(egress.send(ms(10), Some(c), &transmit(&packet)), Offer::Paused);
    assert!(egress.dequeue(ms(10)).is_some());
    assert_eq!(egress.resume(ms(10)), Some(b));
    assert_eq!(egress.resume(ms(10)), None);
    assert_eq!(egress.next_event(ms(11)), Some(ms(510)));
    assert_eq!(egress.resume(ms(509)), None);
    assert_eq!(egress.resume(ms(510)), Some(c));
    assert_eq!(egress.statistics().unanswered, 1);
    // It wakes up later and waits again.
    assert_eq!(egress.send(ms(511), Some(b), &transmit(&packet)), Offer::Paused);
    assert_eq!(egress.send(ms(511), Some(c), &transmit(&packet)), Offer::Taken);
    assert!(egress.dequeue(ms(512)).is_some());
    assert_eq!(egress.resume(ms(512)), Some(b));
}

#[test]
fn settings_out_of_range_are_rejected() {
    let zd = config(Mode::Zd, 4);
    for bad in [
        Config { packets: 0, ..zd },
        Config { in_buffer: 0, ..zd },
        Config { turn: 0, ..zd },
        Config { flows: u32::MAX, ..zd },
        Config { packets: 0, schedule: Schedule::Fair, ..zd },
    ] {
        assert!(Egress::new(&bad).is_err(), "{bad:?}");
    }
}

/// A connection as quinn drives it: it keeps the refused transmit and sends nothing until resumed.
struct Source {
    flow: FlowId,
    name: u32,
    transmits: VecDeque<Vec<u8>>,
    made: u32,
    asleep: bool,
    deaf: bool,
}

impl Source {
    fn make(&mut self, segments: u32) {
        let mut contents = Vec::new();
        for _ in 0..segments {
            contents.extend(self.name.to_be_bytes());
            contents.extend(self.made.to_be_bytes());
            contents.resize(contents.len() + SEGMENT - 8, 0);
            self.made += 1;
        }
        self.transmits.push_back(contents);
    }

    fn run(&mut self, egress: &mut Egress, now: Nanos) {
        while let Some(contents) = self.transmits.front() {
            if egress.send(now, Some(self.flow), &transmit(contents)) == Offer::Paused {
                self.asleep = true;
                return;
            }
            self.transmits.pop_front();
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Open,
    Close(prop::sample::Index),
    Send(prop::sample::Index, u32),
    /// Controls whether the connection hears that it is resumed.
    Deaf(prop::sample::Index),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Open),
        1 => any::<prop::sample::Index>().prop_map(Op::Close),
        8 => (any::<prop::sample::Index>(), 1..=10u32).prop_map(|(i, n)| Op::Send(i, n)),
        1 => any::<prop::sample::Index>().prop_map(Op::Deaf),
        6 => (0..4_000_000u64).prop_map(Op::Pass),
    ]
}

struct World {
    egress: Egress,
    now: Nanos,
    sources: Vec<Source>,
    names: u32,
    /// How many packets of each source have left, which is the number of the next one.
    left: BTreeMap<u32, u32>,
}

impl World {
    fn step(&mut self) {
        while let Some(packet) = self.egress.dequeue(self.now) {
            let contents = packet.transmit().contents.to_vec();
            let number = |at: usize| u32::from_be_bytes(*contents[at..].first_chunk().unwrap());
            let next = self.left.entry(number(0)).or_default();
            assert_eq!(number(4), *next, "lost or out of order, from {}", number(0));
            *next += 1;
        }
        while let Some(flow) = self.egress.resume(self.now) {
            let source = self.sources.iter_mut().find(|s| s.flow == flow);
            let source = source.expect("a connection that has ended is not resumed");
            assert!(source.asleep, "resumed but not paused");
            source.asleep = false;
            if !source.deaf {
                source.run(&mut self.egress, self.now);
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Open => {
                if let Some(flow) = self.egress.open() {
                    let (name, transmits) = (self.names, VecDeque::new());
                    self.names += 1;
                    let source =
                        Source { flow, name, transmits, made: 0, asleep: false, deaf: false };
                    self.sources.push(source);
                }
            }
            Op::Close(index) if !self.sources.is_empty() => {
                let source = self.sources.swap_remove(index.index(self.sources.len()));
                self.egress.close(source.flow);
            }
            Op::Send(index, segments) if !self.sources.is_empty() => {
                let source = index.get(&self.sources).name as usize;
                let source = self.sources.iter_mut().find(|s| s.name as usize == source).unwrap();
                source.make(*segments);
                if !source.asleep && !source.deaf {
                    source.run(&mut self.egress, self.now);
                }
            }
            Op::Deaf(index) if !self.sources.is_empty() => {
                let index = index.index(self.sources.len());
                let source = &mut self.sources[index];
                source.deaf ^= true;
                if !source.deaf && !source.asleep {
                    source.run(&mut self.egress, self.now);
                }
            }
            Op::Pass(time) => self.now += Nanos(*time),
            _ => {}
        }
        self.step();
    }

    /// Lets time pass until no packet waits.
    fn finish(&mut self) {
        self.sources.retain(|source| {
            if source.deaf {
                self.egress.close(source.flow);
            }
            !source.deaf
        });
        let all: u32 = self.sources.iter().map(|s| s.made).sum();
        // With each step a packet leaves, or room goes to another connection.
        for _ in 0..2 * all + 1000 {
            self.step();
            let Some(next) = self.egress.next_event(self.now) else { break };
            self.now = self.now.max(next);
        }
    }
}

proptest! {
    /// Connections come, go, send transmits of any length and stop answering. No packet is lost,
    /// the packets of each leave in order, bounds hold, and all that can be sent is sent.
    #[test]
    fn no_packet_is_lost_and_no_connection_is_forgotten(
        ops in prop::collection::vec(op(), 1..200),
        packets in 1..12u32,
        in_buffer in 1..4u16,
        fair: bool,
        hysteresis in 1..9u32,
    ) {
        let config = Config {
            in_buffer,
            schedule: if fair { Schedule::Fair } else { Schedule::Fifo },
            hysteresis: Hysteresis::OneIn(hysteresis),
            flows: 12,
            ..config(Mode::Zd, packets)
        };
        let egress = Egress::new(&config).unwrap();
        let (sources, left) = (Vec::new(), BTreeMap::new());
        let mut world = World { egress, now: ms(10), sources, names: 0, left };
        for op in &ops {
            world.apply(op);
            prop_assert!(world.egress.statistics().backlog <= packets);
            for source in &world.sources {
                prop_assert!(world.egress.in_buffer(source.flow) <= u32::from(in_buffer));
            }
        }
        world.finish();
        for source in &world.sources {
            prop_assert!(source.transmits.is_empty(), "{} was not resumed", source.name);
            prop_assert_eq!(world.left.get(&source.name).copied().unwrap_or(0), source.made);
        }
        let seen = world.egress.statistics();
        prop_assert_eq!((seen.dropped, seen.backlog), (0, 0));
        prop_assert_eq!(seen.taken, seen.sent);
        prop_assert_eq!(seen.flows as usize, world.sources.len());
    }

    /// Without backpressure each packet leaves or counts as dropped, and no connection's order
    /// changes.
    #[test]
    fn in_mode_drop_every_packet_is_accounted_for(
        ops in prop::collection::vec((0..5usize, 1..4u32, 0..2_000_000u64), 1..200),
        packets in 1..12u32,
        fair: bool,
    ) {
        let schedule = if fair { Schedule::Fair } else { Schedule::Fifo };
        let mut egress = Egress::new(&Config { schedule, ..config(Mode::Drop, packets) }).unwrap();
        let flows = [(); 5].map(|()| egress.open());
        let (mut now, mut made) = (ms(10), 0u64);
        let mut last = BTreeMap::new();
        for (flow, segments, pass) in ops {
            let mut contents = Vec::new();
            for _ in 0..segments {
                contents.extend((flow as u64).to_be_bytes());
                contents.extend(made.to_be_bytes());
                contents.resize(contents.len() + SEGMENT - 16, 0);
                made += 1;
            }
            prop_assert_eq!(egress.send(now, flows[flow], &transmit(&contents)), Offer::Taken);
            prop_assert!(egress.statistics().backlog <= packets);
            now += Nanos(pass);
            while let Some(packet) = egress.dequeue(now) {
                let contents = packet.transmit().contents.to_vec();
                let number = |at: usize| u64::from_be_bytes(*contents[at..].first_chunk().unwrap());
                let before = last.insert(number(0), number(8));
                prop_assert!(before.is_none_or(|before| before < number(8)));
            }
        }
        let seen = egress.statistics();
        prop_assert_eq!(seen.sent + seen.dropped + u64::from(seen.backlog), made);
        prop_assert_eq!(seen.pauses, 0);
    }
}
