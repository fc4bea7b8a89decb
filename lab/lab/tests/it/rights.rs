//! What the real-time engine says to a user without rights.

use forebay_lab::netns;
use forebay_test_support::without_root;

#[test]
fn a_user_without_rights_is_told_of_sudo_and_the_simulator() {
    let error = without_root(|| netns::usable().unwrap_err().to_string());
    assert!(error.contains("sudo") && error.contains("--engine sim"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
