//! A stream of numbered datagrams that shows whether packets pass, and for how long none passed.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_test_support::namespace::{Namespace, within};

use super::until;

/// The time between two datagrams.
const INTERVAL: Duration = Duration::from_millis(4);
/// The longest time that a datagram is under way. Fifty connections keep up to 6.4 MB in a queue of
/// 20 Mbit/s. A datagram waits behind all of it in a FIFO, and behind a connection's part of it
/// where fair queueing has both in one list.
const MAX_DELAY: Duration = Duration::from_secs(3);
/// The time between two checks of whether the stream has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The longest time without a packet that a fault may cost.
pub(crate) const MAX_OUTAGE: Duration = Duration::from_secs(1);

/// A sender in one namespace and a receiver in another. Both end when this value is dropped.
pub(crate) struct Probe {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<Vec<Instant>>>,
}

/// What the threads and the test know of the stream.
#[derive(Default)]
struct Shared {
    /// The sender ends.
    enough: AtomicBool,
    /// The receiver ends.
    done: AtomicBool,
    /// Datagrams that were sent.
    sent: AtomicUsize,
    /// For each datagram, whether it arrived.
    arrived: Mutex<Vec<bool>>,
}

impl Shared {
    /// Notes that a datagram arrived.
    fn arrive(&self, number: usize) {
        let mut arrived = self.arrived.lock().unwrap();
        if arrived.len() <= number {
            arrived.resize(number + 1, false);
        }
        arrived[number] = true;
    }

    /// Returns the numbers of the datagrams that have arrived: how many, and one above the highest.
    fn count(&self) -> (usize, usize) {
        let arrived = self.arrived.lock().unwrap();
        (arrived.iter().filter(|arrived| **arrived).count(), arrived.len())
    }
}

impl Probe {
    /// Sends from now on to `address`, which is one of `to`.
    pub(crate) fn start(from: &Namespace, to: &Namespace, address: &'static str) -> Self {
        let any = "0.0.0.0:0";
        let receiver = within(&to.0, move || UdpSocket::bind(any).unwrap());
        let sender = within(&from.0, move || UdpSocket::bind(any).unwrap());
        let target = (address, receiver.local_addr().unwrap().port());
        receiver.set_read_timeout(Some(CHECK_INTERVAL)).unwrap();
        let shared: Arc<Shared> = Arc::default();
        let (of_sender, of_receiver) = (Arc::clone(&shared), Arc::clone(&shared));
        let sender = thread::spawn(move || {
            let mut times = Vec::new();
            while !of_sender.enough.load(Ordering::Relaxed) {
                times.push(Instant::now());
                // An interface may be gone for a while; the datagram is lost then.
                let _ = sender.send_to(&(times.len() - 1).to_ne_bytes(), target);
                of_sender.sent.store(times.len(), Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
            times
        });
        thread::spawn(move || {
            let mut buffer = [0; 8];
            while !of_receiver.done.load(Ordering::Relaxed) {
                if receiver.recv(&mut buffer).is_ok() {
                    of_receiver.arrive(usize::from_ne_bytes(buffer));
                }
            }
        });
        Self { shared, sender: Some(sender) }
    }

    /// Waits until a datagram has arrived that is sent from now on.
    pub(crate) fn go_on(&self) {
        // The datagram of this number may have been sent already, though it is not yet counted.
        let number = self.shared.sent.load(Ordering::Relaxed) + 1;
        until("a datagram passes", || self.shared.count().1 > number);
    }

    /// Ends the stream, and waits until every datagram has arrived.
    pub(crate) fn assert_none_lost(mut self) {
        let sent = self.end_sender().len();
        until("every datagram arrives", || self.shared.count().0 == sent);
    }

    /// Ends the stream, and returns what became of the datagrams when no more are under way.
    pub(crate) fn end(mut self) -> Passed {
        let sent = self.end_sender();
        let (mut count, mut last) = (0, Instant::now());
        while count < sent.len() && last.elapsed() < MAX_DELAY {
            let before = std::mem::replace(&mut count, self.shared.count().0);
            if before != count {
                last = Instant::now();
            }
            thread::sleep(CHECK_INTERVAL);
        }
        let mut arrived = self.shared.arrived.lock().unwrap().clone();
        arrived.resize(sent.len(), false);
        Passed(sent.into_iter().zip(arrived).collect())
    }

    /// Ends the sender, and returns the times of the datagrams.
    fn end_sender(&mut self) -> Vec<Instant> {
        self.shared.enough.store(true, Ordering::Relaxed);
        self.sender.take().unwrap().join().unwrap()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.shared.enough.store(true, Ordering::Relaxed);
        self.shared.done.store(true, Ordering::Relaxed);
    }
}

/// When each datagram was sent, and whether it arrived.
pub(crate) struct Passed(Vec<(Instant, bool)>);

impl Passed {
    /// Returns the number of datagrams that did not arrive.
    pub(crate) fn lost(&self) -> usize {
        self.0.iter().filter(|(_, arrived)| !arrived).count()
    }

    /// Checks that no fault cost more than a second, and prints the figures.
    pub(crate) fn check(&self, what: &str) {
        self.check_since(what, self.0[0].0);
    }

    /// Checks the same for the datagrams that were sent since `start`.
    pub(crate) fn check_since(&self, what: &str, start: Instant) {
        let lost = self.lost();
        let outage = self.outage_since(start);
        eprintln!("{what}: {lost} of {} datagrams lost, {outage:.1?} without one", self.0.len());
        assert!(outage <= MAX_OUTAGE, "{what}: nothing passed for {outage:.1?}");
    }

    /// Returns the longest time between two datagrams that arrived, with none that arrived between
    /// them, of those that were sent since `start`.
    fn outage_since(&self, start: Instant) -> Duration {
        let end = self.0.last().unwrap().0;
        let arrived = self.0.iter().filter(|(sent, arrived)| *arrived && *sent >= start);
        let (mut last, mut longest) = (start, Duration::ZERO);
        for time in arrived.map(|(sent, _)| *sent).chain([end]) {
            longest = longest.max(time.saturating_duration_since(last));
            last = time;
        }
        longest
    }
}
