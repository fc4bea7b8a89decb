//! A transport with the packets of each flow, and the host's queue behind the engine.

use std::collections::VecDeque;

use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Polled, Settings, Sizing,
    Transport,
};
use forebay_units::{Bytes, Nanos};

/// The packets that a flow has to send, by their lengths.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) waiting: VecDeque<u64>,
    /// The bytes of the waiting packets.
    pub(crate) left: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) deadline: Nanos,
}

/// The transport of all flows.
pub(crate) struct Sources {
    pub(crate) sources: Vec<Source>,
    /// The flow of each turn.
    pub(crate) order: Vec<u32>,
    pub(crate) host: VecDeque<(FlowId, Departure)>,
    /// The pacing times and the times of turns.
    pub(crate) times: Vec<(Nanos, Nanos)>,
}

impl Sources {
    pub(crate) fn hint(&self, index: u32) -> Hint {
        let source = &self.sources[index as usize];
        Hint { remaining: Bytes(source.left), deadline: source.deadline }
    }
}

impl Transport for Sources {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        assert!(ask.due <= ask.now, "a flow is early");
        let index = ask.flow.index();
        let source = &mut self.sources[index as usize];
        let (mut packets, mut bytes) = (0, 0);
        while let Some(&len) = source.waiting.front() {
            if packets > 0 && bytes + len > ask.bytes.0 || packets == 8 {
                break;
            }
            source.waiting.pop_front();
            packets += 1;
            bytes += len;
        }
        source.sent += u64::from(packets);
        source.sent_bytes += bytes;
        source.left -= bytes;
        let more = !source.waiting.is_empty();
        if packets > 0 {
            self.order.push(index);
            self.times.push((ask.due, ask.now));
            let departure = Departure { packets, bytes: Bytes(bytes), asked: ask.now };
            self.host.push_back((ask.flow, departure));
        }
        let next = if more { Next::Ready(self.hint(index)) } else { Next::Idle };
        Answer { bytes: Bytes(bytes), packets, next }
    }
}

/// An engine with its transport and clock.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) sources: Sources,
    pub(crate) now: Nanos,
}

/// One packet of 1500 bytes for each turn.
pub(crate) fn small(flows: u32) -> Config {
    let sizing = Sizing { initial: Bytes(1500), ..Sizing::default() };
    Config { flows, sizing, wheel_bits: 10, turns: 16, ..Config::default() }
}

impl World {
    pub(crate) fn new(config: Config, policy: Policy) -> Self {
        let sources = (0..config.flows).map(|_| Source::default()).collect();
        Self {
            engine: Engine::new(config, policy).unwrap(),
            sources: Sources {
                sources,
                order: Vec::new(),
                host: VecDeque::new(),
                times: Vec::new(),
            },
            now: Nanos::from_secs(1),
        }
    }

    pub(crate) fn open(&mut self, settings: Settings) -> Option<FlowId> {
        let flow = self.engine.open(settings).unwrap()?;
        self.sources.sources[flow.index() as usize] =
            Source { deadline: Nanos::MAX, ..Source::default() };
        Some(flow)
    }

    /// Gives the flow packets of these lengths, and wakes it.
    pub(crate) fn data(&mut self, flow: FlowId, lengths: impl IntoIterator<Item = u64>) {
        let source = &mut self.sources.sources[flow.index() as usize];
        for length in lengths {
            source.waiting.push_back(length);
            source.left += length;
        }
        let hint = self.sources.hint(flow.index());
        assert!(self.engine.wake(self.now, flow, hint));
    }

    pub(crate) fn poll(&mut self) -> Polled {
        self.engine.poll(self.now, &mut self.sources)
    }

    /// Lets up to `count` turns' packets leave the host's queue.
    pub(crate) fn depart(&mut self, count: usize) {
        for _ in 0..count {
            let Some((flow, departure)) = self.sources.host.pop_front() else { return };
            let delay = self.engine.departed(self.now, flow, departure);
            assert_eq!(delay, self.now.saturating_sub(departure.asked));
        }
    }

    /// Runs until nothing is left to send. Fails if the engine stalls.
    pub(crate) fn drain(&mut self) {
        loop {
            let polled = self.poll();
            if let Some(next) = polled.next
                && next > self.now
            {
                assert!(polled.turns == 0 || self.engine.load().free_packets > 0);
                self.now = next;
            } else if polled.next.is_none() && self.sources.host.is_empty() {
                break;
            }
            self.depart(usize::MAX);
        }
        assert_eq!(self.engine.waiting(), 0, "a flow waits for ever");
    }
}
