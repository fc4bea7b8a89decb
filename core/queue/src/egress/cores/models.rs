//! Loom checks all interleavings of small cases:
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p forebay-queue --lib models`

use alloc::vec::Vec;

use loom::thread;

use super::*;

const MS: Nanos = Nanos::from_millis(1);

/// No slack, so that a core waits as soon as it is ahead by a byte, and reads at each step.
fn seats(cores: u32) -> Vec<Seat> {
    let config = Config { cores, slack: 1, period: Nanos(1), timeout: MS, catch_up: 0 };
    Board::seats(config).unwrap()
}

/// A core with its virtual time and the turns that it has left.
struct Core {
    seat: Seat,
    clock: u64,
    left: u32,
    /// The virtual time of a turn.
    turn: u64,
}

impl Core {
    /// Asks once, and serves a turn if it may. Returns whether it did.
    fn step(&mut self, now: Nanos) -> bool {
        if self.left == 0 {
            self.seat.leave();
            return false;
        }
        loop {
            match self.seat.step(now, self.clock) {
                Step::Go => break,
                Step::Join(clock) => {
                    assert!(clock >= self.clock, "virtual time went back");
                    self.clock = clock;
                }
                Step::Wait(_) => return false,
            }
        }
        self.clock += self.turn;
        self.left -= 1;
        true
    }
}

/// Two cores run at once, and then in turns: at each time one of them proceeds.
#[test]
fn cores_never_all_wait() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let mut threads = Vec::new();
        for (seat, turn) in seats(2).into_iter().zip([3 * UNIT, 2 * UNIT]) {
            threads.push(thread::spawn(move || {
                let mut core = Core { seat, clock: 0, left: 3, turn };
                for now in 1..3 {
                    core.step(Nanos(10 * now));
                }
                core
            }));
        }
        let mut cores: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let mut now = Nanos(100);
        while cores.iter().any(|core| core.left > 0) {
            let mut proceeded = false;
            // Twice: what one publishes the other reads in the next round.
            for _ in 0..2 {
                now += Nanos(10);
                for core in &mut cores {
                    proceeded |= core.step(now);
                }
            }
            assert!(proceeded, "both wait");
        }
    });
}

/// A core that begins while another works is never seen at its virtual time of before.
#[test]
fn a_core_that_begins_holds_nobody_up() {
    loom::model(|| {
        let mut seats = seats(2).into_iter();
        let (mut works, mut begins) = (seats.next().unwrap(), seats.next().unwrap());
        // The first has worked alone for long.
        let clock = 1000 * UNIT;
        assert_eq!(works.step(Nanos(1), clock), Step::Join(clock));
        let beginning = thread::spawn(move || {
            let Step::Join(joined) = begins.step(Nanos(10), 0) else { panic!("it began") };
            assert!(joined >= clock, "its flows would catch up with a time without any");
            begins
        });
        let step = works.step(Nanos(10), clock + UNIT);
        assert_eq!(step, Step::Go, "held up by the past of the other");
        drop(beginning.join().unwrap());
        // It has ended, and the first runs alone again.
        assert_eq!(works.step(Nanos(20), clock + 1000 * UNIT), Step::Go);
    });
}
