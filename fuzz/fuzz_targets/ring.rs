//! Gives the back end guest rings of arbitrary content that changes while they are read. The back
//! end reads nothing outside the guest's memory, takes no chain that the ring does not have, and
//! stops.
#![no_main]

use std::sync::Arc;

use forebay_vhost::offload::segment::Segmenter;
use forebay_vhost::offload::{HEADER, MAX_FRAME, MIN_FRAME, Offload};
use forebay_vhost::ring::{Memory, Ring, Setup};
use libfuzzer_sys::fuzz_target;
use vm_memory::{Bytes, GuestAddress};

/// Descriptors; few, so that chains meet.
const SIZE: u16 = 4;
/// The guest's memory: two regions with a hole between them.
const REGIONS: [(GuestAddress, usize); 2] =
    [(GuestAddress(0), 0x1000), (GuestAddress(0x2000), 0x1000)];

fuzz_target!(|input: &[u8]| {
    let [flags, rest @ ..] = input else { return };
    let memory = Arc::new(Memory::from_ranges(&REGIONS).expect("memory"));
    let (content, script) = rest.split_at(rest.len().min(0x200));
    memory.write_slice(content, GuestAddress(0)).expect("inside");
    let setup = Setup {
        size: SIZE,
        descriptors: 0,
        available: 0x40,
        used: 0x60,
        next: 0,
        event_index: flags & 1 != 0,
        merge: flags & 2 != 0,
        header: HEADER,
        kick: None,
        call: None,
    };
    let mut ring = Ring::new(setup, Arc::clone(&memory)).expect("the ring itself is inside");
    let (mut frame, mut segment) = (Vec::new(), Vec::new());
    for step in script.chunks(4).take(64) {
        // The guest writes somewhere near its rings, and makes something available.
        let (at, value) = (u64::from(step[0]), &step[step.len() / 2..]);
        memory.write_slice(value, GuestAddress(at)).expect("inside");
        let next = ring.next().wrapping_add(u16::from(step[step.len() - 1] % 6));
        memory.write_slice(&next.to_le_bytes(), GuestAddress(0x42)).expect("inside");
        if let Ok(waiting) = ring.waiting() {
            assert!(waiting <= SIZE);
        }
        if let Ok(Some(taken)) = ring.transmit(&mut frame) {
            assert!(taken.head < SIZE);
            if let Ok(offload) = taken.frame {
                assert!((MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
                segments(&frame, offload, &mut segment);
                let _ = ring.receive(&offload, &frame);
            }
            if step[0] & 1 == 0 {
                let before = ring.next();
                ring.return_chain();
                assert_eq!(ring.next(), before.wrapping_sub(1));
            } else {
                let _ = ring.finish(taken.head);
            }
        }
        if step[0] & 2 != 0 {
            let _ = ring.answer(|request| request.first() == Some(&4));
        }
        let _ = (ring.enable_kicks(), ring.disable_kicks(), ring.call());
    }
});

/// A frame's segments are as long together as it was said, and no more than its bytes can be.
fn segments(frame: &[u8], offload: Offload, segment: &mut Vec<u8>) {
    let mut segments = Segmenter::new(frame, offload);
    let mut bytes = 0;
    while segments.next_into(segment) {
        bytes += segment.len() as u64;
    }
    assert_eq!(bytes, offload.wire_length(frame));
}
