//! Tests locks between processes. No test of this program may start a child: a child holds all
//! descriptors until it runs its program, and so the lock too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io;

use forebay_system::NameLock;

#[test]
fn a_name_has_one_holder_at_a_time() {
    let name = format!("fb-name-lock-{}", std::process::id());
    let held = NameLock::hold(&name).unwrap();
    let refused = NameLock::hold(&name).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    drop(held);
    assert!(NameLock::hold(&name).is_ok());
}
