//! Bundles on equal paths, whose control loops get packets, feedback and ticks.

use std::hint::black_box;
use std::time::{Duration, Instant};

use forebay_control::{ControlConfig, ControlLoop, ControllerKind, Feedback, Others};
use forebay_units::{Bytes, Nanos};

/// Packets of a bundle in a tick: 96 Mbit/s in full-size packets, eight each millisecond.
pub const PACKETS: u32 = 80;

const TICK: Nanos = Nanos::from_millis(10);
const RTT_TICKS: u64 = 5;

/// Equal bundles on a path of 50 ms. Packets are numbered, so every 64th is a boundary.
///
/// The parts of a tick run one after another, each for all bundles, as in a sendbox:
/// [`Self::send`], [`Self::answer`], [`Self::control`].
#[derive(Debug)]
pub struct Fleet {
    /// The control loops, one of each bundle.
    pub bundles: Vec<ControlLoop>,
    /// Number of ticks so far.
    pub tick: u64,
}

impl Fleet {
    /// Makes bundles and runs a hundred ticks of each.
    pub fn new(bundles: usize, controller: ControllerKind) -> Self {
        let bundles = (0..bundles).map(|_| new_bundle(controller));
        let mut fleet = Self { bundles: bundles.collect(), tick: 0 };
        for _ in 0..100 {
            fleet.next_tick();
        }
        fleet
    }

    /// Runs all parts of a tick, bundle by bundle.
    pub fn next_tick(&mut self) {
        self.tick += 1;
        for bundle in &mut self.bundles {
            send(bundle, self.tick);
            answer(bundle, self.tick);
            control(bundle, self.tick);
        }
    }

    /// Begins a tick: each bundle sends its packets.
    pub fn send(&mut self) {
        self.tick += 1;
        for bundle in &mut self.bundles {
            send(bundle, self.tick);
        }
    }

    /// Delivers the one or two feedback messages of a tick to each bundle.
    ///
    /// This is a function of the machine code too, whose instructions can be counted.
    #[inline(never)]
    pub fn answer(&mut self) {
        for bundle in &mut self.bundles {
            answer(bundle, self.tick);
        }
    }

    /// Ends a tick: each bundle decides on its rate.
    ///
    /// This is a function of the machine code too, whose instructions can be counted.
    #[inline(never)]
    pub fn control(&mut self) {
        for index in 0..self.bundles.len() {
            ControlLoop::prefetch_after(index, |index| self.bundles.get(index));
            control(&mut self.bundles[index], self.tick);
        }
    }

    /// Returns the time that `part` takes in `rounds` ticks.
    pub fn time(&mut self, part: Part, rounds: u64) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            self.send();
            let sent = Instant::now();
            self.answer();
            let answered = Instant::now();
            self.control();
            spent += match part {
                Part::Feedback => answered - sent,
                Part::Tick => answered.elapsed(),
            };
        }
        spent
    }
}

/// A part of a tick whose cost is measured.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The feedback messages that arrive between two ticks.
    Feedback,
    /// The controller, and the calls that a sendbox makes after it.
    Tick,
}

/// Makes a bundle with the default configuration of a controller.
///
/// # Panics
/// If the defaults are invalid.
pub fn new_bundle(controller: ControllerKind) -> ControlLoop {
    let config = ControlConfig { controller, ..ControlConfig::default() };
    ControlLoop::new(config, Nanos::ZERO).expect("the defaults are valid")
}

fn send(bundle: &mut ControlLoop, tick: u64) {
    let first = tick as u32 * PACKETS;
    for packet in first..first + PACKETS {
        let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
        bundle.on_sent(now, Bytes(1500), Some(packet), None);
    }
}

fn answer(bundle: &mut ControlLoop, tick: u64) {
    if let Some(sent) = tick.checked_sub(RTT_TICKS) {
        let first = sent as u32 * PACKETS;
        let step = 16;
        for packet in (first.next_multiple_of(64)..first + PACKETS).step_by(64) {
            let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
            let feedback = Feedback {
                others: Others::default(),
                fingerprint: packet,
                epoch: 64,
                bytes: Bytes(u64::from(packet) * 1500),
                packets: packet,
                received_at: Nanos(now.0 - TICK.0 * step / 10),
                sequence: u64::from(packet),
            };
            bundle.on_feedback(now, black_box(&feedback));
        }
    }
}

/// Runs a tick and the calls that a sendbox makes after it.
fn control(bundle: &mut ControlLoop, tick: u64) {
    bundle.on_tick(Nanos((tick + 1) * TICK.0), Bytes(30_000));
    black_box(bundle.rate());
    black_box(bundle.poll_epoch_update(Nanos((tick + 1) * TICK.0)));
    while let Some(event) = bundle.poll_event() {
        black_box(event);
    }
}
