//! The time of a packet's fingerprint: `cargo bench -p forebay-benches --bench wire_fingerprint`.

#![allow(missing_docs, reason = "criterion's macro makes public functions")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use forebay_test_support::frames::{KEY, frame};
use forebay_wire::{Frame, fingerprint};

fn fingerprints(criterion: &mut Criterion) {
    for name in ["ipv4-tcp", "ipv6-tcp", "ipv6-udp", "ipv6-esp"] {
        let frame = frame(name);
        let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!("{name}") };
        criterion.bench_function(name, |bench| {
            bench.iter(|| fingerprint(black_box(&frame), black_box(&headers), black_box(&KEY)));
        });
    }
}

criterion_group!(benches, fingerprints);
criterion_main!(benches);
