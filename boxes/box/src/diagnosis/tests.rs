use super::*;

const MS: Nanos = Nanos::from_millis(1);

fn peer() -> SocketAddr {
    "192.0.2.1:28317".parse().unwrap()
}

fn stranger() -> SocketAddr {
    "203.0.113.9:4000".parse().unwrap()
}

fn sendbox() -> Diagnosis {
    Diagnosis::new(End::Sendbox, Some(peer()), Nanos::ZERO)
}

/// Calls `each` and polls every 10 ms; returns the lines with their times in milliseconds.
fn lines(
    diagnosis: &mut Diagnosis,
    milliseconds: std::ops::Range<u64>,
    mut each: impl FnMut(&mut Diagnosis, u64),
) -> Vec<(u64, String)> {
    let mut lines = Vec::new();
    for ms in milliseconds.step_by(10) {
        each(diagnosis, ms);
        match diagnosis.poll(MS * ms) {
            Some(Line::Trouble(text)) => lines.push((ms, text)),
            Some(Line::Over) => lines.push((ms, "over".to_owned())),
            None => {}
        }
    }
    lines
}

fn times(lines: &[(u64, String)]) -> Vec<u64> {
    lines.iter().map(|(ms, _)| *ms).collect()
}

#[test]
fn silence_is_said_at_once_and_every_minute() {
    let said = lines(&mut sendbox(), 0..130_000, |_, _| {});
    assert_eq!(times(&said), [1500, 61_500, 121_500]);
    let start = "no answer from the receivebox at 192.0.2.1:28317 for 1.5 s: does it run there";
    assert!(said[0].1.starts_with(start), "{}", said[0].1);
    assert!(said[1].1.contains("for 61.5 s"), "{}", said[1].1);
    let mut receivebox = Diagnosis::new(End::Receivebox, Some(peer()), Nanos::ZERO);
    let said = lines(&mut receivebox, 0..2000, |_, _| {});
    assert!(said[0].1.starts_with("no message from the sendbox at 192.0.2.1:28317"), "{said:?}");
}

#[test]
fn a_box_whose_address_is_not_known_is_named_when_it_has_moved() {
    let mut diagnosis = Diagnosis::new(End::Sendbox, None, Nanos::ZERO);
    let said = lines(&mut diagnosis, 0..2000, |_, _| {});
    let start = "no answer from the receivebox (its address is not known yet) for 1.5 s";
    assert!(said[0].1.starts_with(start), "{}", said[0].1);
    diagnosis.on_moved(peer());
    assert_eq!(diagnosis.silence(MS * 2500), MS * 2500);
    diagnosis.on_heard(MS * 2500);
    let said = lines(&mut diagnosis, 2500..12_000, |_, _| {});
    assert_eq!(said[0].1, "over");
    assert!(said[1].1.starts_with("no answer from the receivebox at 192.0.2.1:28317"), "{said:?}");
}

#[test]
fn an_answer_ends_the_trouble_and_a_few_lost_messages_begin_none() {
    let mut diagnosis = sendbox();
    // Two updates in a row are lost, later all of them.
    let said = lines(&mut diagnosis, 0..40_000, |d, ms| {
        if ms == 3000 || (ms > 3000 && ms < 30_000 && ms % 6000 == 0) {
            d.on_heard(MS * ms);
        }
    });
    assert_eq!(times(&said), [1500, 3000, 31_000]);
    assert_eq!(said[1].1, "over");
}

#[test]
fn a_refused_message_is_the_reason_of_a_silence() {
    let mut diagnosis = sendbox();
    let said = lines(&mut diagnosis, 0..10_000, |d, ms| {
        if ms <= 1000 {
            d.on_heard(MS * ms);
        } else if ms % 200 == 0 {
            let why = ReceiveError::Tag;
            d.on_hint(MS * ms, Hint::Refused { from: peer(), why });
        }
    });
    assert_eq!(times(&said), [5500], "a hint shortens the wait");
    let expected = "a message from 192.0.2.1:28317 was refused: wrong tag: check that both boxes \
                    have the same key";
    assert!(said[0].1.ends_with(expected), "{}", said[0].1);
}

#[test]
fn a_reason_that_shows_later_is_said_at_once_and_after_that_every_ten_seconds_at_most() {
    let refused = |why| Hint::Refused { from: peer(), why };
    let mut diagnosis = Diagnosis::new(End::Receivebox, Some(peer()), Nanos::ZERO);
    let said = lines(&mut diagnosis, 0..30_000, |d, ms| {
        let hint = match ms {
            // The sendbox starts after two seconds, and has another key.
            0..2000 => Hint::Undelivered(libc::ECONNREFUSED),
            2000..5000 => refused(ReceiveError::Tag),
            // Somebody makes reasons up.
            _ if ms % 20 == 0 => refused(ReceiveError::Version(3)),
            _ => refused(ReceiveError::Tag),
        };
        d.on_hint(MS * ms, hint);
    });
    assert_eq!(times(&said), [1500, 2000, 12_000, 22_010]);
    assert!(said[1].1.contains("wrong tag"), "{said:?}");
}

#[test]
fn each_hint_has_its_words() {
    for (hint, expected) in [
        (Hint::OtherBundle(BundleId(7)), "its messages are for bundle 7, which is not here"),
        (Hint::Undelivered(libc::ECONNREFUSED), "the network reports: Connection refused"),
    ] {
        let said = lines(&mut sendbox(), 0..2000, |d, ms| d.on_hint(MS * ms, hint));
        assert!(said[0].1.contains(expected), "{said:?}");
    }
    let hint = |why| Hint::refused(peer(), why);
    assert_eq!(hint(ReceiveError::NoSession), None);
    assert!(hint(ReceiveError::Version(3)).is_some());
}

#[test]
fn a_stranger_neither_causes_lines_nor_hides_the_reason() {
    let strange = Hint::Refused { from: stranger(), why: ReceiveError::Version(1) };
    let mut healthy = sendbox();
    let said = lines(&mut healthy, 0..60_000, |d, ms| {
        d.on_hint(MS * ms, strange);
        // Each second update is lost.
        if ms % 4000 == 0 {
            d.on_heard(MS * ms);
        }
    });
    assert_eq!(said, []);
    let said = lines(&mut sendbox(), 0..2000, |d, ms| {
        d.on_hint(MS * ms, Hint::OtherBundle(BundleId(7)));
        d.on_hint(MS * ms, strange);
    });
    assert!(said[0].1.contains("bundle 7"), "{said:?}");
}

#[test]
fn packets_that_are_never_counted_are_reported() {
    let mut diagnosis = sendbox();
    // 100 packets a second leave; an answer comes every 200 ms. From the fifth second on they
    // arrive.
    let said = lines(&mut diagnosis, 0..10_000, |d, ms| {
        if ms % 200 == 0 {
            d.on_heard(MS * ms);
            d.on_counts(MS * ms, ms / 10, ms.saturating_sub(5000) / 10);
        }
    });
    assert_eq!(times(&said), [1200, 5200], "{said:?}");
    let expected = "the receivebox counts none of the last 120 packets that were sent: ";
    assert!(said[0].1.starts_with(expected), "{}", said[0].1);
    assert_eq!(said[1].1, "over");
}

/// The receivebox answers updates in their order among the packets, so that a queue of any length
/// delays both.
#[test]
fn a_long_queue_an_idle_bundle_and_a_restart_are_no_trouble() {
    let mut diagnosis = sendbox();
    let said = lines(&mut diagnosis, 0..60_000, |d, ms| {
        if ms % 200 != 0 {
            return;
        }
        d.on_heard(MS * ms);
        // 12 s of queue until 30 s, then a restart of the receivebox, then nothing is sent.
        let sent = ms.clamp(12_000, 40_000) - 12_000;
        let counted = if ms < 30_000 { sent } else { sent - 18_000 };
        d.on_counts(MS * ms, sent, counted);
    });
    assert_eq!(said, []);
}

#[test]
fn trouble_is_not_repeated_while_nothing_is_sent() {
    let mut diagnosis = sendbox();
    let said = lines(&mut diagnosis, 0..200_000, |d, ms| {
        d.on_heard(MS * ms);
        d.on_counts(MS * ms, ms.min(50_000), 0);
    });
    assert_eq!(times(&said), [1020, 61_020], "they were sent until 50 s");
}

#[test]
fn answers_that_are_for_no_packet_are_reported_at_both_ends() {
    for (end, expected) in [
        (End::Sendbox, "none of the last 11 answers is for a packet that left here"),
        (End::Receivebox, "the sendbox knows none of the packets of the last 11 answers"),
    ] {
        let mut diagnosis = Diagnosis::new(end, Some(peer()), Nanos::ZERO);
        let said = lines(&mut diagnosis, 0..5000, |d, ms| {
            d.on_heard(MS * ms);
            d.on_unrecognized(MS * ms, if ms < 3000 { ms / 150 } else { 0 });
        });
        assert_eq!(times(&said), [1750, 3000], "{said:?}");
        assert!(said[0].1.starts_with(expected), "{}", said[0].1);
    }
    // A few answers for packets that were forgotten.
    let said = lines(&mut sendbox(), 0..5000, |d, ms| {
        d.on_heard(MS * ms);
        d.on_unrecognized(MS * ms, ms / 100 % 5);
    });
    assert_eq!(said, []);
}

#[test]
fn a_change_of_the_trouble_is_said_after_ten_seconds() {
    let mut diagnosis = sendbox();
    let said = lines(&mut diagnosis, 0..30_000, |d, ms| {
        if ms < 3000 {
            d.on_heard(MS * ms);
            d.on_counts(MS * ms, ms, 0);
        }
    });
    // The silence is known at 9990 ms; the first line was at 1020 ms.
    assert_eq!(times(&said), [1020, 11_020]);
    assert!(said[0].1.starts_with("the receivebox counts none"), "{said:?}");
    assert!(said[1].1.starts_with("no answer from the receivebox"), "{said:?}");
}
