//! Testing whether receiveboxes answer.
//!
//! The message is the first message of any sendbox: an epoch update without a session of the
//! receivebox. The receivebox acknowledges it with a session, and its state does not change (see
//! `forebay_wire::feedback`).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use forebay_records::SendStatus;
use forebay_system::clock;
use forebay_system::wait::Waiter;
use forebay_units::Nanos;
use forebay_wire::EpochSize;
use forebay_wire::feedback::{BundleId, SendboxChannel, SendboxCounts};

use super::facts::Reply;
use crate::Error;
use crate::channel::{Channel, Incoming, Undelivered};
use crate::config::BundleConfig;
use crate::random;

/// The total wait for answers, and the wait before the message is repeated.
const ANSWER_TIMEOUT: Nanos = Nanos::from_secs(1);
const AGAIN: Nanos = Nanos::from_millis(300);

/// The time that a running box has for its answer.
const RUNNING: Duration = Duration::from_secs(1);

/// Returns what a box that runs here says about `bundle`; `error` is why the receivebox cannot be
/// asked from here.
fn of_running_box(bundle: &BundleConfig, error: &Error) -> Reply {
    let boxes = forebay_status::read(RUNNING).unwrap_or_default();
    let mut sends = boxes.into_iter().filter_map(|b| b.status.ok()).flat_map(|s| s.sends);
    match sends.find(|s| s.name == bundle.name) {
        Some(SendStatus { trouble: Some(trouble), .. }) => Reply::Trouble(trouble),
        Some(SendStatus { mode, .. }) => Reply::Running(mode),
        None => Reply::NotAsked(error.to_string()),
    }
}

/// Asks the receivebox of each of `bundles` from the address `listen`.
pub(super) fn ask(listen: SocketAddr, bundles: &[BundleConfig]) -> Vec<Reply> {
    let channel = match Channel::bind(listen) {
        Ok(channel) => channel,
        Err(e) => return bundles.iter().map(|bundle| of_running_box(bundle, &e)).collect(),
    };
    let session = |b: &BundleConfig| {
        let channel = SendboxChannel::new(BundleId(b.id), &b.key, random::session());
        let unknown = || Reply::NotAsked("its address is not in the file".to_owned());
        (channel, b.receivebox.found().map_or_else(unknown, |_| Reply::Silent))
    };
    let mut all: Vec<(SendboxChannel, Reply)> = bundles.iter().map(session).collect();
    let start = clock::now();
    let mut waiter = Waiter::new([channel.descriptor()]);
    let mut next = start;
    loop {
        let now = clock::now();
        if now >= start + ANSWER_TIMEOUT || all.iter().all(|(_, r)| *r != Reply::Silent) {
            return all.into_iter().map(|(_, reply)| reply).collect();
        }
        if now >= next {
            next = now + AGAIN;
            for ((peer, reply), bundle) in all.iter_mut().zip(bundles) {
                if *reply == Reply::Silent
                    && let Some(address) = bundle.receivebox.found()
                {
                    channel.send(&peer.update(EpochSize::MAX, SendboxCounts::default()), address);
                }
            }
        }
        waiter.wait_until(next.min(start + ANSWER_TIMEOUT));
        while let Some(incoming) = channel.receive() {
            let datagram = match incoming {
                Incoming::Datagram(datagram) => datagram,
                Incoming::Undelivered(Undelivered { to, error }) => {
                    let why = io::Error::from_raw_os_error(error).to_string();
                    for ((_, reply), _) in all
                        .iter_mut()
                        .zip(bundles)
                        .filter(|(_, b)| b.receivebox.found() == Some(to))
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
