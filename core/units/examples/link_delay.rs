//! Calculates delays on a link: of a packet, of a queue and of a bandwidth-delay product.
//!
//! `cargo run -p forebay-units --example link_delay`

use forebay_units::{Bytes, Nanos, Rate};

fn main() {
    let link = Rate::from_mbps(96);
    let frame = Bytes(1514);
    println!("A frame of {frame} takes {} at {link}.", link.time_for(frame));

    let queue = Bytes(100 * frame.0);
    println!("A queue of 100 frames adds a delay of {}.", link.time_for(queue));

    let round_trip = Nanos::from_millis(50);
    let window = link.bytes_in(round_trip);
    println!("A round trip of {round_trip} needs a window of {window}.");
    println!("Half that window gives {}.", Rate::from_bytes_over(Bytes(window.0 / 2), round_trip));
}
