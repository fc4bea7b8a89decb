//! Testing whether receiveboxes answer.
//!
//! The message is the first message of any sendbox: an epoch update without a session of the
//! receivebox. The receivebox acknowledges it with a session, and its state does not change (see
//! `forebay_wire::feedback`).

use std::io;
use std::net::SocketAddr;

use forebay_system::clock;
use forebay_system::wait::Waiter;
use forebay_units::Nanos;
use forebay_wire::EpochSize;
use forebay_wire::feedback::{BundleId, SendboxChannel, SendboxCounts};

use super::facts::Reply;
use crate::channel::{Channel, Incoming, Undelivered};
use crate::config::BundleConfig;
use crate::random;

/// The total wait for answers, and the wait before the message is repeated.
const PATIENCE: Nanos = Nanos::from_secs(1);
const AGAIN: Nanos = Nanos::from_millis(300);

/// Asks the receivebox of each of `bundles` from the address `listen`.
pub(super) fn ask(listen: SocketAddr, bundles: &[BundleConfig]) -> Vec<Reply> {
    let channel = match Channel::bind(listen) {
        Ok(channel) => channel,
        Err(e) => return vec![Reply::NotAsked(e.to_string()); bundles.len()],
    };
    let session = |b: &BundleConfig| {
        let channel = SendboxChannel::new(BundleId(b.id), &b.key, random::session());
        (channel, Reply::Silent)
    };
    let mut all: Vec<(SendboxChannel, Reply)> = bundles.iter().map(session).collect();
    let start = clock::now();
    let mut waiter = Waiter::new([channel.descriptor()]);
    let mut next = start;
    loop {
        let now = clock::now();
        if now >= start + PATIENCE || all.iter().all(|(_, r)| *r != Reply::Silent) {
            return all.into_iter().map(|(_, reply)| reply).collect();
        }
        if now >= next {
            next = now + AGAIN;
            for ((peer, reply), bundle) in all.iter_mut().zip(bundles) {
                if *reply == Reply::Silent {
                    channel.send(
                        &peer.update(EpochSize::MAX, SendboxCounts::default()),
                        bundle.receivebox,
                    );
                }
            }
        }
        waiter.wait_until(next.min(start + PATIENCE));
        while let Some(incoming) = channel.receive() {
            let datagram = match incoming {
                Incoming::Datagram(datagram) => datagram,
                Incoming::Undelivered(Undelivered { to, error }) => {
                    let why = io::Error::from_raw_os_error(error).to_string();
                    for ((_, reply), _) in
                        all.iter_mut().zip(bundles).filter(|(_, b)| b.receivebox == to)
                    {
                        *reply = Reply::Undelivered(why.clone());
                    }
                    continue;
                }
            };
            let Ok(id) = channel.bundle_of(&datagram) else { continue };
            let Some(index) = bundles.iter().position(|b| BundleId(b.id) == id) else { continue };
            let (peer, reply) = &mut all[index];
            let after = clock::now().saturating_sub(start);
            *reply = match peer.receive(datagram.bytes()) {
                Ok(_) => Reply::Answered { after, from: datagram.from },
                Err(e) => Reply::Refused(e.to_string()),
            };
        }
    }
}
