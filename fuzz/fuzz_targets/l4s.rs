//! Runs a check of L4S whose answers the input forges: any sequence number, time and codepoint, at
//! any time.
#![no_main]

use forebay_l4s_check::{Echo, Options, Prober};
use forebay_queue::Ecn;
use forebay_units::{Nanos, Rate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    let _ = Echo::of(Nanos::ZERO, Ecn::Ce, script);
    if let Ok(echo) = Echo::decode(script) {
        assert_eq!(Echo::decode(&echo.encode()), Ok(echo));
    }
    let mut now = Nanos::ZERO;
    let mut prober = Prober::new(Options { max_rate: Rate::from_mbps(4), seed: 7 }, now);
    for step in script.chunks_exact(8) {
        now = now.saturating_add(Nanos::from_micros(u64::from(step[0]) * 100));
        while prober.poll(now).is_some() {}
        let sequence = u32::from(u16::from_le_bytes([step[1], step[2]]));
        let received_at = match step[3] {
            255 => Nanos(u64::MAX),
            n => Nanos(now.0.wrapping_add(u64::from(n) << (step[4] % 60))),
        };
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(step[5] % 4)];
        let session = if step[6] == 0 { 8 } else { 7 };
        prober.on_echo(now, &Echo { session, sequence, received_at, ecn });
    }
    while let Some(next) = prober.next() {
        now = now.max(next);
        while prober.poll(now).is_some() {}
    }
    let _ = prober.report().to_string();
});
