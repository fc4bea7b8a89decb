use std::os::fd::{AsRawFd, FromRawFd};

use proptest::prelude::*;

use super::driver::{Driver, memory};
use super::*;
use crate::offload::{HEADER, Offload};

const SIZE: u16 = 8;

fn pair(event_index: bool, merge: bool) -> (Driver, Ring) {
    let (memory, places) = memory(SIZE, 1);
    let driver = Driver::new(Arc::clone(&memory), places[0], SIZE, event_index);
    let ring = Ring::new(driver.setup(merge), memory).unwrap();
    (driver, ring)
}

fn eventfd() -> File {
    // SAFETY: makes a descriptor, which nothing else owns.
    unsafe { File::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) }
}

/// Number of writes to an eventfd.
fn write_count(file: &mut File) -> u64 {
    let mut count = [0; 8];
    match file.read_exact(&mut count) {
        Ok(()) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

#[test]
fn sent_frames_are_taken_in_order_and_returned() {
    let (mut driver, mut ring) = pair(true, false);
    let mut out = Vec::new();
    assert_eq!(ring.transmit(&mut out), Ok(None));
    for i in 0..3u8 {
        driver.send([0; HEADER], &[i; 60], 30 + usize::from(i)).unwrap();
    }
    assert_eq!(ring.waiting(), Ok(3));
    for i in 0..3u8 {
        let taken = ring.transmit(&mut out).unwrap().unwrap();
        assert_eq!((taken.frame, out.as_slice()), (Ok(Offload::default()), &[i; 60][..]));
        ring.finish(taken.head).unwrap();
    }
    assert_eq!(driver.reap().len(), 3);
}

#[test]
fn requests_are_answered_and_invalid_chains_are_not() {
    let (mut driver, mut ring) = pair(true, false);
    assert_eq!(ring.answer(|_| panic!("no request")), Ok(false));
    let mut seen = Vec::new();
    let mut answer = |ring: &mut Ring| {
        let accepts = |request: &[u8]| {
            seen.push(request.to_vec());
            control::pairs(request) == Some(2)
        };
        assert_eq!(ring.answer(accepts), Ok(true));
    };
    for (request, expected) in [(&[4, 0, 2, 0][..], 0), (&[1, 2, 3], 1), (&[4; 65], 1)] {
        let head = driver.request(request).unwrap();
        answer(&mut ring);
        assert_eq!(driver.answer_of(head), expected, "{request:?}");
        let [(back, written)] = &driver.reap()[..] else { panic!() };
        assert_eq!((*back, written.len()), (head, 1));
    }
    // A chain without a place for the answer, and one without a request.
    driver.send([0; HEADER], &[1; 20], 12).unwrap();
    driver.post(1).unwrap();
    answer(&mut ring);
    answer(&mut ring);
    let written: Vec<_> = driver.reap().into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(written, [vec![], vec![1]]);
    assert_eq!(seen, [vec![4, 0, 2, 0], vec![1, 2, 3], vec![]], "a long request is not read");
}

#[test]
fn a_returned_chain_is_taken_again() {
    let (mut driver, mut ring) = pair(true, false);
    let mut out = Vec::new();
    driver.send([0; HEADER], &[1; 60], 12).unwrap();
    driver.send([0; HEADER], &[2; 60], 12).unwrap();
    let first = ring.transmit(&mut out).unwrap().unwrap();
    ring.return_chain();
    assert_eq!((ring.waiting(), ring.next()), (Ok(2), 0));
    assert!(driver.reap().is_empty());
    assert_eq!(ring.transmit(&mut out).unwrap().unwrap(), first);
    assert_eq!(out, [1; 60]);
}

#[test]
fn calls_are_made_only_on_request() {
    let (memory, places) = memory(SIZE, 1);
    let mut driver = Driver::new(Arc::clone(&memory), places[0], SIZE, true);
    let mut call = eventfd();
    let setup = Setup { call: Some(call.try_clone().unwrap()), ..driver.setup(false) };
    let mut ring = Ring::new(setup, memory).unwrap();
    let mut out = Vec::new();
    let mut go = |driver: &mut Driver, ring: &mut Ring| {
        driver.send([0; HEADER], &[1; 60], 12).unwrap();
        let taken = ring.transmit(&mut out).unwrap().unwrap();
        ring.finish(taken.head).unwrap();
        ring.call().unwrap();
    };
    go(&mut driver, &mut ring);
    assert_eq!(write_count(&mut call), 1, "the first used chain is asked for");
    go(&mut driver, &mut ring);
    assert_eq!(write_count(&mut call), 0, "it has not asked again");
    driver.reap();
    driver.ask_for_call();
    ring.call().unwrap();
    assert_eq!(write_count(&mut call), 0, "nothing new");
    go(&mut driver, &mut ring);
    assert_eq!(write_count(&mut call), 1);
}

#[test]
fn a_frame_spreads_over_buffers_that_return_together() {
    let (mut driver, mut ring) = pair(true, true);
    let frame: Vec<u8> = (0..700u32).map(|i| i as u8).collect();
    driver.post(256).unwrap();
    assert_eq!(ring.receive(&Offload::default(), &frame), Ok(Delivery::NoRoom));
    assert_eq!(ring.waiting(), Ok(1), "and nothing was taken");
    driver.post(256).unwrap();
    driver.post(256).unwrap();
    assert_eq!(ring.receive(&Offload::default(), &frame), Ok(Delivery::Done));
    let back = driver.reap();
    let whole: Vec<u8> = back.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(back.iter().map(|(_, b)| b.len()).collect::<Vec<_>>(), [256, 256, 200]);
    assert_eq!(whole[10..HEADER], [3, 0], "three buffers");
    assert_eq!(whole[HEADER..], frame);
}

#[test]
fn without_merging_only_the_frame_that_does_not_fit_is_lost() {
    let (mut driver, mut ring) = pair(false, false);
    driver.post(256).unwrap();
    driver.post(1024).unwrap();
    assert_eq!(ring.receive(&Offload::default(), &[1; 700]), Ok(Delivery::Unusable));
    assert_eq!(ring.receive(&Offload::default(), &[2; 700]), Ok(Delivery::Done));
    let back = driver.reap();
    assert_eq!(back[0].1, [0; 0]);
    assert_eq!(back[1].1[HEADER..], [2; 700]);
}

#[test]
fn a_ring_that_can_never_hold_a_frame_is_not_waited_for() {
    let (mut driver, mut ring) = pair(true, true);
    while driver.post(16).is_some() {}
    assert_eq!(ring.receive(&Offload::default(), &[1; 700]), Ok(Delivery::Unusable));
    assert_eq!(driver.reap().len(), usize::from(SIZE));
}

#[test]
fn rings_outside_the_memory_are_refused() {
    let (memory, places) = memory(SIZE, 1);
    let driver = Driver::new(Arc::clone(&memory), places[0], SIZE, true);
    let with = |change: fn(&mut Setup)| {
        let mut setup = driver.setup(false);
        change(&mut setup);
        Ring::new(setup, Arc::clone(&memory)).err()
    };
    assert_eq!(with(|_| {}), None);
    assert_eq!(with(|s| s.size = 0), Some(RingError::Size));
    assert_eq!(with(|s| s.size = 12), Some(RingError::Size));
    assert_eq!(with(|s| s.size = 2048), Some(RingError::Size));
    assert_eq!(with(|s| s.descriptors = 1 << 40), Some(RingError::Outside));
    assert_eq!(with(|s| s.used = u64::MAX - 3), Some(RingError::Outside));
    assert_eq!(with(|s| s.available = u64::MAX - 1), Some(RingError::Outside));
    assert_eq!(with(|s| s.descriptors += 1), Some(RingError::Alignment));
    assert_eq!(with(|s| s.available += 1), Some(RingError::Alignment));
    assert_eq!(with(|s| s.used += 1), Some(RingError::Alignment));
}

#[test]
fn an_impossible_index_ends_the_ring() {
    let (driver, mut ring) = pair(true, false);
    driver.write(driver.setup(false).available + 2, &[SIZE as u8 + 1, 0]);
    assert_eq!(ring.waiting(), Err(RingError::Index));
    assert_eq!(ring.transmit(&mut Vec::new()), Err(RingError::Index));
    assert_eq!(ring.receive(&Offload::default(), &[0; 60]), Err(RingError::Index));
}

#[test]
fn a_chain_outside_the_table_ends_the_ring() {
    let (mut driver, mut ring) = pair(true, false);
    driver.send([0; HEADER], &[1; 60], 12).unwrap();
    driver.write(driver.setup(false).available + 4, &[SIZE as u8, 0]);
    assert_eq!(ring.transmit(&mut Vec::new()), Err(RingError::Head));
}

/// Sends a valid frame after changing its first descriptor at offset `at`.
fn with_changed_descriptor(at: u64, bytes: &[u8]) -> Option<TakenChain> {
    let (mut driver, mut ring) = pair(true, false);
    let head = driver.send([0; HEADER], &[1; 60], 12).unwrap();
    driver.write(driver.setup(false).descriptors + 16 * u64::from(head) + at, bytes);
    let taken = ring.transmit(&mut Vec::new()).unwrap();
    ring.finish(head).unwrap();
    assert_eq!(driver.reap().len(), 1, "the driver has it back");
    // The ring continues.
    driver.send([0; HEADER], &[2; 60], 12).unwrap();
    let next = ring.transmit(&mut Vec::new()).unwrap().unwrap();
    assert_eq!(next.frame, Ok(Offload::default()));
    taken
}

#[test]
fn an_invalid_chain_loses_one_packet() {
    let unusable = Some(Err(Unusable::Chain));
    let frame = |taken: Option<TakenChain>| taken.map(|t| t.frame);
    assert_eq!(
        frame(with_changed_descriptor(0, &u64::MAX.to_le_bytes())),
        unusable,
        "outside the memory"
    );
    assert_eq!(frame(with_changed_descriptor(0, &(1u64 << 40).to_le_bytes())), unusable);
    assert_eq!(
        frame(with_changed_descriptor(8, &u32::MAX.to_le_bytes())),
        unusable,
        "longer than any frame"
    );
    assert_eq!(
        frame(with_changed_descriptor(12, &[1, 0, 0, 0])),
        unusable,
        "it bites its own tail"
    );
    assert_eq!(frame(with_changed_descriptor(14, &[99, 0])), unusable, "it goes on nowhere");
    assert_eq!(frame(with_changed_descriptor(12, &[0, 0])), unusable, "a header alone");
    assert_eq!(
        frame(with_changed_descriptor(12, &[4, 0])),
        unusable,
        "an indirect table that is none"
    );
    assert_eq!(frame(with_changed_descriptor(12, &[2, 0])), unusable, "for the device to write");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Random rings and tables never cause a read outside memory, a panic or an endless loop.
    #[test]
    fn random_rings_are_harmless(
        content in prop::collection::vec(any::<u8>(), 0x400..0x800),
        jumps in prop::collection::vec((any::<u16>(), any::<u16>()), 1..20),
        event_index: bool,
        merge: bool,
    ) {
        let (mut driver, mut ring) = pair(event_index, merge);
        let (setup, mut out) = (driver.setup(false), Vec::new());
        driver.write(0, &content);
        for (index, step) in jumps {
            driver.write(setup.available + 2, &(ring.next().wrapping_add(index % 12)).to_le_bytes());
            driver.write(u64::from(step) % 0x400, &content[..usize::from(step) % 0x100]);
            if let Ok(Some(taken)) = ring.transmit(&mut out) {
                prop_assert!(taken.head < SIZE);
                prop_assert!(taken.frame.is_err() || out.len() >= crate::offload::MIN_FRAME);
                let _ = ring.finish(taken.head);
            }
            let _ = ring.receive(&Offload::default(), &content[..usize::from(step) % 0x400]);
            let _ = (ring.enable_kicks(), ring.disable_kicks(), ring.call());
        }
        prop_assert!(ring.kick().is_none());
        let _ = &mut driver;
    }
}

#[test]
fn kicks_are_cleared() {
    let (memory, places) = memory(SIZE, 1);
    let driver = Driver::new(Arc::clone(&memory), places[0], SIZE, true);
    let mut kick = eventfd();
    let setup = Setup { kick: Some(kick.try_clone().unwrap()), ..driver.setup(false) };
    let mut ring = Ring::new(setup, memory).unwrap();
    assert!(ring.kick().is_some_and(|fd| fd != kick.as_raw_fd()));
    kick.write_all(&3u64.to_ne_bytes()).unwrap();
    ring.clear_kick();
    assert_eq!(write_count(&mut kick), 0);
    ring.clear_kick();
}
