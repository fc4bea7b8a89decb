//! Mistakes of a caller: each has a clear error and changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_queue::Ecn;
use forebay_sim::{Endpoint, LinkConfig, Received, Route, SetupError, Simulation, Transmit};
use forebay_units::{Bytes, Nanos};

use crate::endpoints::script::{Pair, Script, address, addresses};

fn pair() -> Pair {
    Pair::new(1, LinkConfig { delay: Nanos::from_millis(1), ..LinkConfig::default() })
}

/// Checks that the pair's endpoints still exchange a datagram.
fn works(mut pair: Pair) -> bool {
    let now = pair.sim.now();
    pair.sim.endpoint_mut(pair.a).send(now, addresses()[1], Ecn::NotEct, vec![1]);
    pair.sim.run_until(now + Nanos::from_millis(1));
    pair.arrivals_at_b().len() == 1
}

#[test]
fn an_address_is_used_once() {
    let mut pair = pair();
    let error = pair.sim.add_endpoint(addresses()[1], Script::default()).unwrap_err();
    assert_eq!(error.to_string(), "another endpoint has the address 10.0.0.2:2000");
    assert!(works(pair));
}

#[test]
fn joins_that_are_impossible_are_refused() {
    let mut pair = pair();
    let (a, b, there, back) = (pair.a, pair.b, pair.forward, pair.backward);
    let six = pair.sim.add_endpoint(address("[::1]:1"), Script::default()).unwrap();
    let message = |result: Result<(), SetupError>| result.unwrap_err().to_string();
    let twice = "are joined already, or are the same endpoint";
    assert!(message(pair.sim.join(a, b, there, back)).ends_with(twice));
    assert!(message(pair.sim.join(b, a, there, back)).ends_with(twice));
    assert!(message(pair.sim.join(a, a, there, back)).ends_with(twice));
    assert_eq!(
        message(pair.sim.join(a, six, there, back)),
        "10.0.0.1:1000 and [::1]:1 cannot be joined: one is IPv4 and the other one IPv6"
    );
    let mut other = Simulation::new(1, ());
    let link = other.add_link(LinkConfig::default()).unwrap();
    let missing = (0..5).map(|_| other.add_route(Route::over(link)).unwrap()).last().unwrap();
    let third = pair.sim.add_endpoint(address("10.0.0.3:3"), Script::default()).unwrap();
    assert_eq!(pair.sim.join(a, third, there, missing), Err(SetupError::Route(4)));
    assert_eq!(
        message(pair.sim.set_mtu(a, third, Bytes(1280))),
        "10.0.0.1:1000 and 10.0.0.3:3 are not joined: join them first"
    );
    for mtu in [67, 65_522] {
        let error = message(pair.sim.set_mtu(a, b, Bytes(mtu)));
        assert_eq!(error, "an MTU must be 68 to 65521 bytes");
    }
    pair.sim.join(a, third, there, back).unwrap();
    assert!(works(pair));
}

#[test]
fn an_id_of_another_type_is_not_accepted() {
    let mut first = Simulation::new(1, ());
    let mut second = Simulation::new(1, ());
    let id = first.add_endpoint(addresses()[0], Script::default()).unwrap();
    second.add_endpoint(addresses()[0], Endless).unwrap();
    let refused = catch_unwind(AssertUnwindSafe(|| second.endpoint(id).arrivals.len()));
    let message = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the id is that of another simulation"), "{message}");
}

/// An endpoint that always has something to send.
struct Endless;

impl Endpoint for Endless {
    fn on_datagram(&mut self, _: Nanos, _: Received<'_>) {}

    fn poll_transmit(&mut self, _: Nanos, _: &mut Vec<u8>) -> Option<Transmit> {
        Some(Transmit { to: addresses()[0], ecn: Ecn::NotEct })
    }
}

/// An endpoint whose timer does not advance.
struct Stuck;

impl Endpoint for Stuck {
    fn on_datagram(&mut self, _: Nanos, _: Received<'_>) {}

    fn poll_transmit(&mut self, _: Nanos, _: &mut Vec<u8>) -> Option<Transmit> {
        None
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        Some(Nanos::from_millis(3))
    }
}

fn never_ends(endpoint: impl Endpoint) -> String {
    let mut sim = Simulation::new(1, ());
    sim.add_endpoint(address("10.0.0.9:9"), endpoint).unwrap();
    let run = catch_unwind(AssertUnwindSafe(|| sim.run_until(Nanos::from_secs(1))));
    *run.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn an_endpoint_that_never_ends_is_named() {
    for message in [never_ends(Endless), never_ends(Stuck)] {
        let says = "the endpoint 10.0.0.9:9 was called 1048576 times at";
        assert!(message.starts_with(says), "{message}");
    }
    assert!(never_ends(Stuck).contains("at 3.000 ms:"), "{}", never_ends(Stuck));
}
