//! The feedback protocol between two channels: agreement, loss, restarts, replays and forgeries.

use core::num::NonZeroU64;

use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::*;
use forebay_wire::{EpochSize, FingerprintKey};
use proptest::prelude::*;

const BUNDLE: BundleId = BundleId(42);

fn key() -> Key {
    Key::new(core::array::from_fn(|i| i as u8))
}

fn session(n: u64) -> Session {
    Session(NonZeroU64::new(n).unwrap())
}

fn epoch(packets: u32) -> EpochSize {
    EpochSize::from_packets(packets).unwrap()
}

fn sendbox(n: u64) -> SendboxChannel {
    SendboxChannel::new(BUNDLE, &key(), session(n))
}

fn receivebox(n: u64) -> ReceiveboxChannel {
    ReceiveboxChannel::new(BUNDLE, &key(), session(n))
}

/// The time that the receivebox held its answer.
const HELD: Nanos = Nanos::from_micros(0x4142);

/// The counts that updates carry.
const SENT: SendboxCounts =
    SendboxCounts { packets: 0x6162_6364_6566_6768, unrecognized: 0x7172_7374_7576_7778 };
/// The packets that acknowledgements carry.
const ARRIVED: u64 = 0x8182_8384_8586_8788;

trait Accept {
    /// Takes in a datagram when [`ARRIVED`] packets have arrived.
    fn accept(&mut self, datagram: &[u8]) -> Result<[u8; EPOCH_ACK_LEN], ReceiveError>;
}

impl Accept for ReceiveboxChannel {
    fn accept(&mut self, datagram: &[u8]) -> Result<[u8; EPOCH_ACK_LEN], ReceiveError> {
        self.receive(datagram, || ARRIVED).map(|answer| answer.message)
    }
}

fn arrival(n: u32) -> Arrival {
    Arrival {
        fingerprint: 0x0102_0304,
        time: Nanos(0x1112_1314_1516_1718),
        bytes: Bytes(0x2122_2324_2526_2728),
        packets: n,
    }
}

/// Returns two ends that agreed on an epoch of 64 packets, and the datagrams that they exchanged.
fn agreed(s: u64, r: u64) -> (SendboxChannel, ReceiveboxChannel, Vec<Vec<u8>>) {
    let (mut s, mut r) = (sendbox(s), receivebox(r));
    let wire = agree(&mut s, &mut r);
    (s, r, wire)
}

fn agree(s: &mut SendboxChannel, r: &mut ReceiveboxChannel) -> Vec<Vec<u8>> {
    let first = s.update(epoch(64), SENT);
    let challenge = r.accept(&first).unwrap();
    assert_eq!(s.receive(&challenge), Ok(Received::NewSession));
    assert_eq!(s.epoch_in_use(), None);
    let second = s.update(epoch(64), SENT);
    let ack = r.accept(&second).unwrap();
    assert_eq!(s.receive(&ack), Ok(Received::EpochSize(epoch(64))));
    assert_eq!(r.epoch(), Some(epoch(64)));
    vec![first.to_vec(), challenge.to_vec(), second.to_vec(), ack.to_vec()]
}

// These were computed with Python's hmac and struct from the table in the documentation.
const LAYOUT_UPDATE: &str = "6206002a0000000000000001616263646566676871727374757677785000000000000\
    00100000000000000007efea51424325641ddfb19235f78f792";
const LAYOUT_CHALLENGE: &str = "6318002a0000000000000001818283848586878861626364656667687000000000\
    000002a1d592f4e939f517e89cee02f38f399c";
const LAYOUT_BINDING: &str = "6206002a000000000000000261626364656667687172737475767778500000000000\
    0001700000000000000247f25311207ec7e38cada7733a07b582";
const LAYOUT_ACK: &str = "6306002a0000000000000002818283848586878861626364656667687000000000000002\
    7ad74e95b491b7a22ba2f690b3405ecb";
const LAYOUT_FEEDBACK: &str = "6106002a01020304414200000000000111121314151617182122232425262728313\
    23334d653855c57e1823e58006bbb32a2112d";
const LAYOUT_BESIDE: &str = "6406002a0102030441420000000000021112131415161718212223242526272831323\
    33451525354555657580000bb80f9be789b5d538d867e2d0b8d46e98fb4";

#[test]
fn messages_have_the_documented_layout() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let (_, mut r, wire) = agreed(0x5000_0000_0000_0001, 0x7000_0000_0000_0002);
    let feedback = r.feedback(arrival(0x3132_3334), HELD, None).unwrap();
    assert_eq!(hex(&wire[0]), LAYOUT_UPDATE);
    assert_eq!(hex(&wire[1]), LAYOUT_CHALLENGE);
    assert_eq!(hex(&wire[2]), LAYOUT_BINDING);
    assert_eq!(hex(&wire[3]), LAYOUT_ACK);
    assert_eq!(hex(&feedback), LAYOUT_FEEDBACK);
    let others = Others { bytes: Bytes(0x5152_5354_5556_5758), fair: Rate::from_mbps(48) };
    let beside = r.feedback(arrival(0x3132_3334), HELD, Some(others)).unwrap();
    assert_eq!(hex(&beside), LAYOUT_BESIDE);
}

/// Only what nobody can have sent before tells where a sendbox is.
#[test]
fn replayed_updates_are_not_fresh() {
    let (mut s, mut r) = (sendbox(1), receivebox(2));
    let first = s.update(epoch(64), SENT);
    let offer = r.receive(&first, || 0).unwrap();
    assert!(!offer.is_fresh, "an update without a session may be a replay");
    s.receive(&offer).unwrap();
    let second = s.update(epoch(64), SENT);
    assert!(r.receive(&second, || 0).unwrap().is_fresh, "it binds");
    let third = s.update(epoch(64), SENT);
    assert!(r.receive(&third, || 0).unwrap().is_fresh, "it has a higher number");
    for old in [&first, &second, &third] {
        assert!(r.receive(old, || 0).is_err());
    }
    // After a restart of the sendbox, updates of its former session are answered.
    let mut restarted = sendbox(9);
    let offer = r.receive(&restarted.update(epoch(64), SENT), || 0).unwrap();
    restarted.receive(&offer).unwrap();
    assert!(r.receive(&restarted.update(epoch(64), SENT), || 0).unwrap().is_fresh);
    for old in [&first, &second, &third] {
        assert!(!r.receive(old, || 0).unwrap().is_fresh);
    }
}

/// Feedback that another message overtook may come from a former address.
#[test]
fn overtaken_feedback_is_accepted_and_not_fresh() {
    let (mut s, mut r, _) = agreed(1, 2);
    let [one, two, three] = [1, 2, 3].map(|n| r.feedback(arrival(n), HELD, None).unwrap());
    for (message, is_fresh) in [(&one, true), (&three, true), (&two, false)] {
        let received = s.receive(message).unwrap();
        assert_eq!(s.is_fresh(&received), is_fresh, "{received:?}");
        assert!(s.receive(message).is_err(), "a replay is not accepted at all");
    }
    let ack = r.accept(&s.update(epoch(64), SENT)).unwrap();
    let received = s.receive(&ack).unwrap();
    assert!(s.is_fresh(&received) && s.receive(&ack).is_err());
}

/// The numbers were computed with Python's hmac.
#[test]
fn the_key_of_fingerprints_is_derived_from_the_bundles_key() {
    let FingerprintKey(words) = key().fingerprint_key();
    assert_eq!(words, [0x5ab8_c392_c2c5_4035, 0xa048_aa65_96dd_415f]);
    assert_ne!(Key::new([7; 32]).fingerprint_key(), key().fingerprint_key());
    assert_eq!(format!("{:?}", key().fingerprint_key()), "FingerprintKey(..)");
}

#[test]
fn each_end_learns_what_the_other_has_counted() {
    let (mut s, mut r) = (sendbox(1), receivebox(2));
    assert_eq!((s.receivebox_counts(), r.sendbox_counts()), (None, None));
    agree(&mut s, &mut r);
    assert_eq!(r.sendbox_counts(), Some(SENT));
    let counted = ReceiveboxCounts { packets: ARRIVED, sent: SENT.packets };
    assert_eq!(s.receivebox_counts(), Some(counted));
    let later = SendboxCounts { packets: 1, unrecognized: 2 };
    let late_ack = r.receive(&s.update(epoch(64), later), || 3).unwrap();
    let ack = r.receive(&s.update(epoch(64), SendboxCounts::default()), || 4).unwrap();
    s.receive(&ack).unwrap();
    assert_eq!(s.receivebox_counts(), Some(ReceiveboxCounts { packets: 4, sent: 0 }));
    assert!(s.receive(&late_ack).is_err());
    assert_eq!(s.receivebox_counts(), Some(ReceiveboxCounts { packets: 4, sent: 0 }));
    assert_eq!(r.sendbox_counts(), Some(SendboxCounts::default()));
    // A replay to a receivebox that restarted is answered, but not believed.
    let mut restarted = receivebox(3);
    restarted.accept(&sendbox(1).update(epoch(64), SENT)).unwrap();
    assert_eq!(restarted.sendbox_counts(), None);
}

#[test]
fn a_receivebox_does_not_talk_to_the_sendbox_beside_it() {
    let (mut s, mut r) = (sendbox(1), receivebox(2));
    r.refuse(s.session());
    assert_eq!(r.accept(&s.update(epoch(64), SENT)), Err(ReceiveError::Own));
    agree(&mut sendbox(3), &mut r);
}

#[test]
fn updates_are_for_receiveboxes() {
    let (_, mut r, wire) = agreed(1, 2);
    let feedback = r.feedback(arrival(1), HELD, None).unwrap();
    let kinds = wire.iter().map(Vec::as_slice).chain([&*feedback, b"", b"other"]);
    let expected = [true, false, true, false, false, false, false];
    assert!(kinds.map(is_for_receivebox).eq(expected));
}

/// The numbers were computed with Python's hmac.
#[test]
fn the_id_of_a_bundle_is_derived_from_its_key() {
    assert_eq!(key().bundle_id(), BundleId(0xf763));
    assert_ne!(Key::new([7; 32]).bundle_id(), key().bundle_id());
}

#[test]
fn feedback_takes_less_than_a_thousandth_of_the_bundle() {
    let on_the_wire = FEEDBACK_LEN + 14 + 20 + 8;
    assert!(on_the_wire * 1000 < 64 * 1514);
}

#[test]
fn feedback_arrives_as_it_was_sent() {
    let (mut s, mut r, _) = agreed(1, 2);
    for n in 1..=3 {
        let datagram = r.feedback(arrival(n), HELD, None).unwrap();
        assert_eq!(bundle_of(&datagram), Ok(BUNDLE));
        let expected = Feedback {
            sequence: n.into(),
            epoch: epoch(64),
            arrival: arrival(n),
            held: HELD,
            others: None,
        };
        assert_eq!(s.receive(&datagram), Ok(Received::Feedback(expected)));
        assert_eq!(s.receive(&datagram), Err(ReceiveError::Replay(Replay::Seen)));
    }
}

#[test]
fn feedback_beside_other_bundles_arrives_as_it_was_sent() {
    let (mut s, mut r, _) = agreed(1, 2);
    let most = Rate::from_bps(u64::from(u32::MAX) * 1_000);
    for (n, fair, expected) in [
        (1, Rate::from_bps(96_000_999), Rate::from_mbps(96)),
        (2, Rate::ZERO, Rate::ZERO),
        (3, Rate::from_bps(u64::MAX), most),
    ] {
        let others = |fair| Some(Others { bytes: Bytes(u64::MAX - 1), fair });
        let datagram = r.feedback(arrival(n), HELD, others(fair)).unwrap();
        assert_eq!(datagram.len(), FEEDBACK_BESIDE_LEN);
        let (epoch, arrival, others) = (epoch(64), arrival(n), others(expected));
        let expected = Feedback { sequence: n.into(), epoch, arrival, held: HELD, others };
        assert_eq!(s.receive(&datagram), Ok(Received::Feedback(expected)));
        assert_eq!(s.receive(&datagram), Err(ReceiveError::Replay(Replay::Seen)));
    }
}

#[test]
fn feedback_is_not_taken_for_its_other_form() {
    let (mut s, mut r, _) = agreed(1, 2);
    let others = Some(Others { bytes: Bytes(7), fair: Rate::from_mbps(1) });
    for (others, kind) in [(others, 1), (None, 4)] {
        let sealed = r.feedback(arrival(1), HELD, others).unwrap();
        let mut datagram = sealed.to_vec();
        datagram[0] = datagram[0] & 0xf0 | kind;
        assert!(matches!(s.receive(&datagram), Err(ReceiveError::Length { .. })));
        datagram.resize(if kind == 1 { FEEDBACK_LEN } else { FEEDBACK_BESIDE_LEN }, 0);
        assert_eq!(s.receive(&datagram), Err(ReceiveError::Tag));
    }
}

#[test]
fn there_is_no_feedback_before_a_sendbox_is_known() {
    assert_eq!(receivebox(2).feedback(arrival(1), HELD, None), None);
    let (_, mut r, _) = agreed(1, 2);
    assert_eq!(
        sendbox(3).receive(&r.feedback(arrival(1), HELD, None).unwrap()),
        Err(ReceiveError::NoSession)
    );
}

#[test]
fn a_lost_update_or_acknowledgement_is_repeated() {
    let (mut s, mut r, _) = agreed(1, 2);
    s.update(epoch(128), SENT);
    assert_eq!(s.epoch_in_use(), Some(epoch(64)));
    let unacknowledged = s.update(epoch(128), SENT);
    r.accept(&unacknowledged).unwrap();
    assert_eq!(r.epoch(), Some(epoch(128)));
    // The next feedback confirms the epoch size like the acknowledgement.
    s.receive(&r.feedback(arrival(1), HELD, None).unwrap()).unwrap();
    assert_eq!(s.epoch_in_use(), Some(epoch(128)));
}

#[test]
fn an_update_overtaken_by_a_later_one_is_not_applied() {
    let (mut s, mut r, _) = agreed(1, 2);
    let (early, late) = (s.update(epoch(32), SENT), s.update(epoch(16), SENT));
    r.accept(&late).unwrap();
    assert_eq!(r.accept(&early), Err(ReceiveError::Replay(Replay::Seen)));
    assert_eq!(r.epoch(), Some(epoch(16)));
}

#[test]
fn late_feedback_does_not_bring_back_an_old_epoch_size() {
    let (mut s, mut r, _) = agreed(1, 2);
    let late = r.feedback(arrival(1), HELD, None).unwrap();
    r.accept(&s.update(epoch(16), SENT)).unwrap();
    s.receive(&r.feedback(arrival(2), HELD, None).unwrap()).unwrap();
    assert!(matches!(s.receive(&late), Ok(Received::Feedback(f)) if f.sequence == 1));
    assert_eq!(s.epoch_in_use(), Some(epoch(16)));
}

#[test]
fn a_restarted_receivebox_is_accepted_and_its_former_feedback_is_not() {
    let (mut s, mut r, _) = agreed(1, 2);
    let old: Vec<_> = (1..=5).map(|n| r.feedback(arrival(n), HELD, None).unwrap()).collect();
    s.receive(&old[0]).unwrap();
    // The number of the new session may be smaller.
    for new_session in [1, 1 << 40] {
        let mut r = receivebox(new_session);
        let update = s.update(epoch(64), SENT);
        assert_eq!(s.receive(&r.accept(&update).unwrap()), Ok(Received::NewSession));
        for datagram in &old {
            assert_eq!(s.receive(datagram), Err(ReceiveError::Tag));
        }
        let update = s.update(epoch(64), SENT);
        s.receive(&r.accept(&update).unwrap()).unwrap();
        let fresh = r.feedback(arrival(1), HELD, None).unwrap();
        assert!(matches!(s.receive(&fresh), Ok(Received::Feedback(f)) if f.sequence == 1));
    }
}

#[test]
fn a_restarted_sendbox_is_accepted_and_gets_no_old_feedback() {
    let (mut s, mut r, wire) = agreed(9, 2);
    let old = r.feedback(arrival(1), HELD, None).unwrap();
    s.receive(&old).unwrap();
    let mut s = sendbox(5);
    agree(&mut s, &mut r);
    assert_eq!(s.receive(&old), Err(ReceiveError::Tag));
    assert_eq!(s.receive(&wire[1]), Err(ReceiveError::Tag));
    assert_eq!(s.receive(&wire[3]), Err(ReceiveError::Tag));
    assert!(s.receive(&r.feedback(arrival(2), HELD, None).unwrap()).is_ok());
}

/// Replays every recorded message to old and to new ends.
#[test]
fn replayed_messages_have_no_effect() {
    let (mut s, mut r, mut wire) = agreed(1, 100);
    r.accept(&s.update(epoch(32), SENT)).unwrap();
    let mut s2 = sendbox(2);
    wire.extend(agree(&mut s2, &mut r));
    wire.extend((1..4).map(|n| r.feedback(arrival(n), HELD, None).unwrap().to_vec()));
    let last = s2.update(epoch(16), SENT);
    s2.receive(&r.accept(&last).unwrap()).unwrap();
    wire.push(last.to_vec());

    // The receivebox keeps its epoch size and its sendbox.
    for datagram in &wire {
        if let Ok(answer) = r.accept(datagram) {
            assert!(s2.receive(&answer).is_err(), "an answer to a replay was accepted");
        }
    }
    assert_eq!(r.epoch(), Some(epoch(16)));
    assert!(s2.receive(&r.feedback(arrival(9), HELD, None).unwrap()).is_ok());

    // New ends accept none of it.
    let (mut new_s, mut new_r) = (sendbox(3), receivebox(500));
    for datagram in &wire {
        assert!(new_s.receive(datagram).is_err());
        let _ = new_r.accept(datagram);
        assert_eq!((new_r.epoch(), new_r.feedback(arrival(1), HELD, None)), (None, None));
    }
}

/// An acknowledgement from before a restart of the receivebox must not bring its session back, even
/// if the update that the new session answered was sent before the acknowledged one.
#[test]
fn a_delayed_acknowledgement_does_not_bring_back_a_session() {
    let (mut s, mut r, _) = agreed(1, 100);
    let feedback = r.feedback(arrival(1), HELD, None).unwrap();
    s.receive(&feedback).unwrap();
    let delayed_update = s.update(epoch(64), SENT);
    let delayed_ack = r.accept(&s.update(epoch(64), SENT)).unwrap();
    let mut r = receivebox(500);
    assert_eq!(s.receive(&r.accept(&delayed_update).unwrap()), Ok(Received::NewSession));
    assert_eq!(s.receive(&delayed_ack), Err(ReceiveError::Replay(Replay::Seen)));
    assert_eq!(s.receive(&feedback), Err(ReceiveError::Tag));
}

#[test]
fn malformed_and_misdirected_datagrams_are_rejected() {
    let (mut s, mut r, wire) = agreed(1, 2);
    let feedback = r.feedback(arrival(1), HELD, None).unwrap();
    let length = |actual, expected| Err(ReceiveError::Length { actual, expected });
    assert_eq!(s.receive(&[]), length(0, 0));
    assert_eq!(s.receive(&[0x41, 6, 0]), length(3, 0));
    assert_eq!(s.receive(&feedback[..51]), length(51, 52));
    assert_eq!(s.receive(&[&feedback[..], &[0]].concat()), length(53, 52));
    let with = |at: usize, value: u8| {
        let mut datagram = feedback.to_vec();
        datagram[at] = value;
        datagram
    };
    assert_eq!(s.receive(&with(0, 0x31)), Err(ReceiveError::Version(3)));
    assert_eq!(s.receive(&with(0, 0x65)), Err(ReceiveError::Type(5)));
    assert_eq!(s.receive(&with(3, 43)), Err(ReceiveError::Bundle(BundleId(43))));
    // Each message goes back to the end that sent it.
    assert_eq!(s.receive(&wire[2]), Err(ReceiveError::Type(2)));
    assert_eq!(r.accept(&wire[3]), Err(ReceiveError::Type(3)));
    assert_eq!(r.accept(&feedback), Err(ReceiveError::Type(1)));
}

#[test]
fn another_key_is_rejected() {
    let mut s = SendboxChannel::new(BUNDLE, &Key::new([7; 32]), session(1));
    assert_eq!(receivebox(2).accept(&s.update(epoch(64), SENT)), Err(ReceiveError::Tag));
}

proptest! {
    /// A change of any bit of any message has the message rejected, without an effect.
    #[test]
    fn a_changed_message_is_rejected(message in 0..3_usize, bit in any::<prop::sample::Index>()) {
        let (mut s, mut r, _) = agreed(1, 2);
        let update = s.update(epoch(32), SENT);
        let messages = [
            update.to_vec(),
            r.clone().accept(&update).unwrap().to_vec(),
            r.feedback(arrival(1), HELD, None).unwrap().to_vec(),
        ];
        let original = &messages[message];
        let mut changed = original.clone();
        let bit = bit.index(changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(r.accept(&changed).is_err());
        prop_assert!(s.receive(&changed).is_err());
        prop_assert_eq!(r.epoch(), Some(epoch(64)));
        prop_assert_eq!(s.epoch_in_use(), Some(epoch(64)));
        prop_assert!(r.clone().accept(original).is_ok() || s.receive(original).is_ok());
    }

    /// For any loss, repetition and reordering of datagrams, feedback is accepted at most once and
    /// as it was sent. Once the network works again, the ends agree.
    #[test]
    fn the_protocol_survives_any_network(
        steps in prop::collection::vec((0..6_u8, any::<prop::sample::Index>()), 0..120),
    ) {
        let (mut s, mut r) = (sendbox(1), receivebox(1 << 20));
        let (mut to_r, mut to_s) = (vec![s.update(epoch(1), SENT).to_vec()], Vec::<Vec<u8>>::new());
        let mut accepted = std::collections::HashSet::new();
        let (mut arrivals, mut restarts) = (0, 0_u64);
        for (step, pick) in steps {
            match step {
                0 => to_r.push(s.update(epoch(1 << (restarts % 8)), SENT).to_vec()),
                1 => {
                    arrivals += 1;
                    to_s.extend(r.feedback(arrival(arrivals), HELD, None).map(|d| d.to_vec()));
                }
                2 | 3 => to_s.extend(r.accept(&to_r[pick.index(to_r.len())]).map(|d| d.to_vec())),
                4 if !to_s.is_empty() => {
                    if let Ok(Received::Feedback(f)) = s.receive(&to_s[pick.index(to_s.len())]) {
                        prop_assert!(f.arrival.packets <= arrivals);
                        prop_assert!(accepted.insert(f.arrival.packets), "accepted twice");
                    }
                }
                5 if pick.index(8) == 0 => {
                    restarts += 1;
                    r = receivebox((1 << 20) + (restarts << 10));
                }
                5 if pick.index(8) == 1 => {
                    restarts += 1;
                    s = sendbox(1 + restarts);
                    to_r.push(s.update(epoch(1), SENT).to_vec());
                }
                _ => {}
            }
        }
        for _ in 0..3 {
            let _ = r.accept(&s.update(epoch(2), SENT)).map(|ack| s.receive(&ack));
        }
        prop_assert_eq!(s.epoch_in_use(), Some(epoch(2)));
        prop_assert_eq!(r.epoch(), Some(epoch(2)));
        prop_assert!(s.receive(&r.feedback(arrival(u32::MAX), HELD, None).unwrap()).is_ok());
    }

    /// Compares the window with the set of all numbers accepted.
    #[test]
    fn the_window_matches_a_set_that_forgets(
        jumps in prop::collection::vec(prop_oneof![6 => -40..60_i64, 3 => -1100..1100_i64, 1 => -9000..9000_i64], 1..400),
    ) {
        let mut window = ReplayWindow::new();
        let mut seen = std::collections::HashSet::from([0]);
        let mut sequence = 1_u64;
        for jump in jumps {
            sequence = sequence.saturating_add_signed(jump);
            let highest = *seen.iter().max().unwrap();
            let expected = if sequence + ReplayWindow::SIZE <= highest {
                Err(Replay::TooOld)
            } else if seen.contains(&sequence) {
                Err(Replay::Seen)
            } else {
                Ok(())
            };
            prop_assert_eq!(window.accept(sequence), expected, "{} of {}", sequence, highest);
            if expected.is_ok() {
                seen.insert(sequence);
            }
            prop_assert_eq!(window.highest(), *seen.iter().max().unwrap());
        }
    }
}

#[test]
fn the_edges_of_the_window_are_exact() {
    let mut window = ReplayWindow::new();
    assert_eq!(window.accept(0), Err(Replay::Seen), "numbers start at 1");
    assert_eq!(window.accept(2000), Ok(()));
    assert_eq!(window.accept(2000 - 1023), Ok(()));
    assert_eq!(window.accept(2000 - 1024), Err(Replay::TooOld));
    assert_eq!(window.accept(u64::MAX), Ok(()));
    assert_eq!(window.accept(u64::MAX), Err(Replay::Seen));
    assert_eq!(window.accept(u64::MAX - 1023), Ok(()));
    assert_eq!(window.accept(2000), Err(Replay::TooOld));
}

/// Returns channels that go on where these ended.
fn resumed(s: &SendboxChannel, r: &ReceiveboxChannel) -> (SendboxChannel, ReceiveboxChannel) {
    let s = SendboxChannel::resumed(BUNDLE, &key(), &s.save()).unwrap();
    let r = ReceiveboxChannel::resumed(BUNDLE, &key(), &r.save()).unwrap();
    (s, r)
}

#[test]
fn resumed_ends_go_on_without_a_new_agreement_and_accept_no_replay() {
    let (mut s, mut r, wire) = agreed(1, 100);
    let old = r.feedback(arrival(1), HELD, None).unwrap();
    let late = r.feedback(arrival(2), HELD, None).unwrap();
    let newest = r.feedback(arrival(3), HELD, None).unwrap();
    assert!(s.receive(&old).is_ok() && s.receive(&newest).is_ok());
    let (mut s, mut r) = resumed(&s, &r);
    for replay in [&old[..], &newest] {
        assert_eq!(s.receive(replay), Err(Replay::Seen.into()));
    }
    assert!(s.receive(&late).is_ok(), "what was under way is accepted");
    for datagram in &wire {
        assert!(s.receive(datagram).is_err());
        assert!(r.accept(datagram).is_err() || r.epoch() == Some(epoch(64)));
    }
    assert_eq!(r.epoch(), Some(epoch(64)));
    let next = r.feedback(arrival(4), HELD, None).unwrap();
    let Ok(Received::Feedback(feedback)) = s.receive(&next) else { panic!("it is refused") };
    assert_eq!(feedback.sequence, 4);
    let ack = r.accept(&s.update(epoch(128), SENT)).unwrap();
    assert_eq!(s.receive(&ack), Ok(Received::EpochSize(epoch(128))));
}

#[test]
fn numbers_that_no_channel_has_are_refused() {
    let (s, r, _) = agreed(1, 100);
    let (good_s, good_r) = (s.save(), r.save());
    let resume = |saved: &SavedSendbox| SendboxChannel::resumed(BUNDLE, &key(), saved).is_some();
    assert!(resume(&good_s));
    assert!(!resume(&SavedSendbox { sent: u64::MAX, ..good_s }));
    assert!(!resume(&SavedSendbox { highest: u64::MAX, ..good_s }));
    assert!(!resume(&SavedSendbox { acked: good_s.sent + 1, ..good_s }));
    let resume =
        |saved: &SavedReceivebox| ReceiveboxChannel::resumed(BUNDLE, &key(), saved).is_some();
    let bound = good_r.bound.unwrap();
    let with = |bound| SavedReceivebox { bound: Some(bound), ..good_r };
    assert!(resume(&good_r));
    assert!(!resume(&with(SavedBinding { sent: u64::MAX, ..bound })));
    assert!(!resume(&with(SavedBinding { receivebox: good_r.offered, ..bound })), "used twice");
}
