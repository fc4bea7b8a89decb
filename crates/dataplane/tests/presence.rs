//! Tests that a running box keeps an interface while it is renamed. They need root.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod namespace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_dataplane::{Netdev, Pool, Presence};
use forebay_test_support::{Need, skip};
use namespace::{Namespace, enter, has_root, run};

#[test]
fn an_interface_that_is_being_renamed_is_there() {
    if !has_root() {
        return skip(Need::Root, "an interface that is being renamed is there");
    }
    let place = Namespace::new(format!("fb-pr{}", std::process::id()));
    run(&format!("ip -n {} link add fb-a type veth peer name fb-peer", place.0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let checks = scope.spawn(|| {
            enter(&place.0);
            let presence = Presence::new(Netdev::find("fb-a").unwrap()).unwrap();
            let pool = Pool::new(16, 1500).unwrap();
            let mut names = std::collections::BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                names.insert(presence.check().unwrap());
                if let Err(e) = presence.check_fits(&pool) {
                    return Err(e.to_string());
                }
            }
            Ok(names.len())
        });
        for number in 0..40 {
            let (from, to) = if number % 2 == 0 { ("fb-a", "fb-b") } else { ("fb-b", "fb-a") };
            run(&format!("ip -n {} link set {from} name {to}", place.0));
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(checks.join().unwrap(), Ok(2), "both names were seen");
    });
}
