//! Tests of the programs in the kernel.

mod live;
mod measured;

use forebay_test_support::{frames, has_root};

use super::*;

/// Loads a program that takes every packet for bundle 0, and each for a boundary packet. Without
/// root, reports a skip.
fn load(hook: Hook, framing: Framing) -> Option<Sampler> {
    if !has_root() {
        return None;
    }
    let everything = ["0.0.0.0/0", "::/0"].map(|p| p.parse().unwrap());
    let rule = BundleRule {
        sources: vec![],
        destinations: everything.to_vec(),
        key: frames::KEY,
        epoch: 1,
    };
    Some(Sampler::load(&[rule], hook, framing).unwrap())
}
