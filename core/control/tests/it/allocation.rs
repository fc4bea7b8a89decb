//! A bundle allocates a bounded amount when it is created, and nothing later.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::common::random::Random;
use forebay_control::{ControlConfig, ControlLoop, Detection, Feedback};
use forebay_units::{Bytes, Nanos};

thread_local! {
    static COUNTED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged. Counting touches only a thread-local
// with a constant initializer, which neither allocates nor has a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNTED.set((COUNTED.get().0 + 1, COUNTED.get().1 + layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn allocation_is_bounded_and_only_at_the_start() {
    let with = |cross_traffic, guard| ControlConfig { cross_traffic, guard, ..Default::default() };
    assert_bounded(with(Detection::Ignore, false), 48 * 1024);
    assert_bounded(with(Detection::Detect, false), 56 * 1024);
    assert_bounded(with(Detection::Ignore, true), 36 * 1024);
}

fn assert_bounded(config: ControlConfig, most: usize) {
    let before = COUNTED.get();
    let mut bundle = ControlLoop::new(config, Nanos::ZERO).unwrap();
    let made = COUNTED.get();
    let bytes = made.1 - before.1 + size_of::<ControlLoop>();
    println!("{bytes} bytes in {} pieces and the bundle itself", made.0 - before.0);
    assert!(bytes < most, "{bytes} bytes");

    // A busy path with losses for half a minute; events are not polled.
    let mut random = Random::new(1);
    let mut answers = std::collections::VecDeque::with_capacity(10_000);
    let start = COUNTED.get();
    let mut received = 0;
    for i in 0..200_000_u64 {
        let now = Nanos(i * 150_000);
        let fingerprint = random.next() as u32;
        bundle.on_sent(now, Bytes(1500), Some(fingerprint), None);
        received += 1500;
        if fingerprint.is_multiple_of(16) && answers.len() < 9_000 {
            answers.push_back((
                now + Nanos::from_millis(40 + random.next() % 20),
                fingerprint,
                received,
            ));
        }
        while answers.front().is_some_and(|a| a.0 <= now) {
            let (at, fingerprint, bytes) = answers.pop_front().unwrap();
            let feedback = Feedback {
                others: forebay_control::Others::default(),
                fingerprint,
                epoch: 16,
                bytes: Bytes(bytes),
                packets: (bytes / 1500) as u32,
                received_at: at,
                sequence: bytes,
            };
            if random.chance(0.9) {
                bundle.on_feedback(now, &feedback);
            }
        }
        if i % 66 == 0 {
            bundle.on_tick(now, Bytes(random.next() % 100_000));
            bundle.poll_epoch_update(now);
            bundle.snapshot();
        }
    }
    assert_eq!(COUNTED.get(), start, "the loop allocated after its creation");
    let s = bundle.snapshot();
    assert!(s.counters.accepted > 1000 && s.counters.events_lost > 0, "{s:?}");
}
