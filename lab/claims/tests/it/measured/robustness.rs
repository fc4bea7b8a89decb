//! The claims of [`crate::robustness`] with all their seeds.

use crate::robustness::{SLOW, holds_but};

#[test]
fn a_rate_that_quadruples_and_falls_back() {
    holds_but("rate", SLOW, None);
}

#[test]
fn a_route_that_becomes_longer_and_shorter() {
    holds_but("route", &[], None);
}

#[test]
fn clocks_that_jump() {
    holds_but("clocks", &[], None);
}

#[test]
fn feedback_that_is_lost() {
    holds_but("feedback-loss", &[], None);
}

#[test]
fn packets_that_are_lost() {
    holds_but("loss", &[], None);
}

#[test]
fn thin_traffic_and_silence_before_a_backlog() {
    holds_but("idle", &[], None);
}
