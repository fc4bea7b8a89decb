//! A stranger sends packets with forged sources to the bundle's prefix, behind the bottleneck.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_dataplane::{Injector, Netdev};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{run, within};

use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::until;

/// A UDP packet from the sending site to the bundle's prefix, as its source claims.
fn forged(mac: [u8; 6], id: u16) -> Vec<u8> {
    let mut frame = vec![0; 1514];
    frame[..6].copy_from_slice(&mac);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x08, 0x00]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0x05, 0xdc]);
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 9, 1, 9, 10, 9, 9, 2]);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[34..40].copy_from_slice(&[0x30, 0x39, 0, 9, 0x05, 0xc8]);
    frame
}

#[test]
fn a_stranger_with_forged_sources_is_reported_and_raises_no_rate() {
    if !has_root() {
        return;
    }
    // The link has 24 Mbit/s. Twice as much arrives.
    let rates = rates_beside_a_stranger(20);
    assert!(rates[rates.len() / 2] < 30.0, "{rates:?}");
}

/// Returns the rates of a bundle in Mbit/s beside a stranger who has been reported: this number of
/// them, from the lowest to the highest.
pub(crate) fn rates_beside_a_stranger(count: usize) -> Vec<f64> {
    let sites = Sites::new("ks");
    let _sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    assert!(!sites.said().contains("somebody else sends"), "{}", sites.said());

    let mac = run(&format!("ip netns exec {} cat /sys/class/net/eth0/address", sites.to.0));
    let mac: Vec<_> =
        mac.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mac = mac.try_into().unwrap();
    let injector =
        within(&sites.path.0, || Injector::open(&Netdev::find("fb-right").unwrap()).unwrap());
    let enough = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&enough);
    // 24 Mbit/s, as much as the link carries: ten packets every 5 ms.
    let stranger = thread::spawn(move || {
        let start = Instant::now();
        let mut sent = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let due = start.elapsed().as_micros() as u32 / 500;
            for id in sent..due {
                let _ = injector.send(&forged(mac, id as u16 | 1));
            }
            sent = due;
            thread::sleep(Duration::from_millis(5));
        }
    });
    until("the stranger is reported", || sites.said().contains("somebody else sends"));
    let sample = |_| {
        thread::sleep(Duration::from_millis(100));
        sites.class().unwrap().mbps
    };
    let mut rates: Vec<f64> = (0..count).map(sample).collect();
    enough.store(true, Ordering::Relaxed);
    stranger.join().unwrap();
    transfers.go_on();
    transfers.end();
    rates.sort_by(f64::total_cmp);
    eprintln!("{}", sites.said());
    rates
}
