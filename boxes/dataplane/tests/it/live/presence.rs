//! Tests that a running box keeps an interface while it is renamed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use forebay_dataplane::{Netdev, Pool, Presence};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, enter, run};

use crate::TIMEOUT;

#[test]
fn an_interface_that_is_being_renamed_is_there() {
    if !has_root() {
        return;
    }
    let place = Namespace::new(format!("fb-pr{}", std::process::id()));
    run(&format!("ip -n {} link add fb-a type veth peer name fb-peer", place.0));
    let (done, names) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let checks = scope.spawn(|| {
            enter(&place.0);
            let presence = Presence::new(Netdev::find("fb-a").unwrap()).unwrap();
            let pool = Pool::new(16, 1500).unwrap();
            let mut seen = BTreeSet::new();
            while !done.load(Ordering::Relaxed) {
                seen.insert(presence.check().map_err(|e| e.to_string())?);
                presence.check_fits(&pool).map_err(|e| e.to_string())?;
                names.store(seen.len(), Ordering::Relaxed);
            }
            Ok::<_, String>(())
        });
        let start = Instant::now();
        let mut renames = 0;
        // Until the thread had its turn under both names.
        while (renames < 40 || names.load(Ordering::Relaxed) < 2)
            && !checks.is_finished()
            && start.elapsed() < TIMEOUT
        {
            let (from, to) = if renames % 2 == 0 { ("fb-a", "fb-b") } else { ("fb-b", "fb-a") };
            run(&format!("ip -n {} link set {from} name {to}", place.0));
            renames += 1;
        }
        done.store(true, Ordering::Relaxed);
        checks.join().unwrap().unwrap();
    });
    assert_eq!(names.into_inner(), 2, "both names were seen");
}
