//! A control loop that goes on where another one ended.

use forebay_control::{ControlConfig, ControlLoop, Feedback, Mode, Others, Resumed};
use forebay_units::{Bytes, Nanos, Rate};

const MS: Nanos = Nanos::from_millis(1);
const RATE: Rate = Rate::from_mbps(24);

fn resumed(from: Resumed) -> ControlLoop {
    let mut control = ControlLoop::new(ControlConfig::default(), MS).unwrap();
    control.resume(MS, from);
    control
}

fn full() -> Resumed {
    Resumed { rate: Some(RATE), min_rtt: Some(MS * 40), epoch: Some(64) }
}

/// The bundle sends at 24 Mbit/s, each 16th packet being a boundary packet, and each
/// of these is answered after 42 ms.
#[test]
fn it_keeps_the_rate_and_goes_on_from_it() {
    let mut control = resumed(full());
    assert_eq!(
        (control.mode(), control.rate(), control.epoch()),
        (Mode::DelayControl, Some(RATE), 64)
    );
    let (mut sent, mut answered) = (0u64, 0);
    for step in 1..=2_000 {
        let now = MS + Nanos::from_micros(500) * step;
        sent += 1;
        let boundary = sent.is_multiple_of(16);
        let fingerprint = if boundary { (sent << 8) as u32 } else { 1 };
        control.on_sent(now, Bytes(1500), Some(fingerprint), None);
        if sent > 84 && (sent - 84).is_multiple_of(16) {
            answered = sent - 84;
            let received_at = now - MS * 20;
            let feedback = Feedback {
                fingerprint: (answered << 8) as u32,
                epoch: control.epoch(),
                bytes: Bytes(answered * 1500),
                packets: answered as u32,
                received_at,
                others: Others::default(),
                sequence: answered / 16,
            };
            control.on_feedback(now, &feedback);
        }
        if step % 20 == 0 {
            control.on_tick(now, Bytes(60_000));
            assert_eq!(control.mode(), Mode::DelayControl, "{answered} answered");
            let rate = control.rate().unwrap();
            assert!(rate >= RATE.scaled(0.5) && rate <= RATE.scaled(2.0), "{rate} at {now}");
        }
    }
    assert!(answered > 1_000);
    assert!(control.snapshot().counters.accepted > 50);
}

#[test]
fn without_feedback_it_opens_as_any_other() {
    let mut control = resumed(full());
    for step in 1..=400 {
        let now = MS + MS * 10 * step;
        control.on_sent(now, Bytes(1500), Some(64 * step as u32), None);
        control.on_tick(now, Bytes::ZERO);
    }
    assert_eq!((control.mode(), control.rate()), (Mode::Open, None));
}

#[test]
fn what_makes_no_sense_is_left_out() {
    let open = |from: Resumed| {
        let control = resumed(from);
        (control.mode(), control.rate()) == (Mode::Open, None)
    };
    assert!(open(Resumed { min_rtt: None, ..full() }));
    assert!(open(Resumed { min_rtt: Some(Nanos::ZERO), ..full() }));
    assert!(open(Resumed { min_rtt: Some(Nanos::MAX), ..full() }));
    assert!(open(Resumed { rate: None, ..full() }));
    let clamped = resumed(Resumed { rate: Some(Rate::from_bps(u64::MAX)), ..full() });
    assert_eq!(clamped.rate(), Some(ControlConfig::default().max_rate));
    let clamped = resumed(Resumed { rate: Some(Rate::ZERO), ..full() });
    assert_eq!(clamped.rate(), Some(ControlConfig::default().min_rate));
    let usual = resumed(Resumed::default()).epoch();
    for epoch in [0, 3, 1 << 30, u32::MAX] {
        assert_eq!(resumed(Resumed { epoch: Some(epoch), ..full() }).epoch(), usual, "{epoch}");
    }
}
