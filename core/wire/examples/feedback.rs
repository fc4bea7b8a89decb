//! Parses a frame, computes its fingerprint, and sends feedback for it through both channel ends.
//!
//! Run it with `cargo run -p forebay-wire --example feedback`.

use std::num::NonZeroU64;

use forebay_units::{Bytes, Nanos};
use forebay_wire::feedback::{
    Arrival, BundleId, Key, ReceiveboxChannel, Received, SendboxChannel, SendboxCounts, Session,
};
use forebay_wire::{EpochSize, Frame, fingerprint, is_boundary};

/// An Ethernet frame with an IPv4 packet: UDP from 10.0.0.1 port 12345 to 10.0.0.2 port 53.
const FRAME: [u8; 46] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
    0x45, 0, 0, 32, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0,
    2, // IPv4, ID 0x1234
    0x30, 0x39, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4, // UDP
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Frame::Ip(headers) = Frame::parse(&FRAME)? else { return Err("not an IP packet".into()) };
    println!("{} -> {}, ports {:?}", headers.source, headers.destination, headers.ports);
    // Both boxes have the key.
    let key = Key::new([7; 32]);
    let fingerprint = fingerprint(&FRAME, &headers, &key.fingerprint_key())
        .ok_or("the packet has no fingerprint")?;
    let epoch = EpochSize::from_packets(16)?;
    println!("fingerprint {fingerprint:08x}, boundary: {}", is_boundary(fingerprint, epoch));

    // Real sessions are random numbers.
    let bundle = BundleId(1);
    let session = |n| NonZeroU64::new(n).map(Session).ok_or("a session is not zero");
    let mut sendbox = SendboxChannel::new(bundle, &key, session(101)?);
    let mut receivebox = ReceiveboxChannel::new(bundle, &key, session(202)?);

    // The first update tells the sendbox the receivebox's session, the second binds the two.
    let answer = receivebox.receive(&sendbox.update(epoch, SendboxCounts::default()), || 0)?;
    println!("sendbox got {:?}", sendbox.receive(&answer)?);
    let answer = receivebox.receive(&sendbox.update(epoch, SendboxCounts::default()), || 0)?;
    println!("sendbox got {:?}", sendbox.receive(&answer)?);

    let time = Nanos::from_millis(20);
    let arrival = Arrival { fingerprint, time, bytes: Bytes(46), packets: 1 };
    let message = receivebox.feedback(arrival, Nanos::from_micros(3), None).ok_or("not bound")?;
    println!("feedback message of {} bytes", message.len());
    let Received::Feedback(feedback) = sendbox.receive(&message)? else {
        return Err("not feedback".into());
    };
    println!("sendbox got {feedback:?}");
    // The same message again is a replay.
    println!("again: {}", sendbox.receive(&message).err().ok_or("a replay was accepted")?);
    Ok(())
}
