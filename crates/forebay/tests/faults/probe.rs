//! A stream of numbered datagrams that shows for how long nothing passed.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::namespace::{Namespace, within};

/// The time between two datagrams.
const EVERY: Duration = Duration::from_millis(4);
/// The longest time that a datagram is under way. Fifty connections keep up to 6.4 MB in a queue of
/// 20 Mbit/s. A datagram waits behind all of it in a FIFO, and behind a connection's part of it
/// where fair queueing has both in one list.
const UNDER_WAY: Duration = Duration::from_secs(3);
/// The time between two checks of whether the stream has ended.
const CHECK: Duration = Duration::from_millis(50);
/// The longest time without a packet that a fault may cost.
pub(crate) const OUTAGE: Duration = Duration::from_secs(1);

/// A sender in one namespace and a receiver in another.
pub(crate) struct Probe {
    enough: Arc<AtomicBool>,
    sender: JoinHandle<Vec<Instant>>,
    receiver: JoinHandle<Vec<usize>>,
}

impl Probe {
    /// Sends from now on to `address`, which is one of `to`.
    pub(crate) fn start(from: &Namespace, to: &Namespace, address: &'static str) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let any = "0.0.0.0:0";
        let receiver = within(&to.0, move || UdpSocket::bind(any).unwrap());
        let sender = within(&from.0, move || UdpSocket::bind(any).unwrap());
        let target = (address, receiver.local_addr().unwrap().port());
        receiver.set_read_timeout(Some(CHECK)).unwrap();
        let (done, count) = (Arc::clone(&enough), Arc::new(OnceLock::new()));
        let all = Arc::clone(&count);
        let sender = thread::spawn(move || {
            let mut sent = Vec::new();
            while !done.load(Ordering::Relaxed) {
                // An interface may be gone for a while; the datagram is lost then.
                let _ = sender.send_to(&sent.len().to_ne_bytes(), target);
                sent.push(Instant::now());
                thread::sleep(EVERY);
            }
            all.set(sent.len()).unwrap();
            sent
        });
        let receiver = thread::spawn(move || {
            let (mut arrived, mut buffer, mut last) = (Vec::new(), [0; 8], Instant::now());
            loop {
                if receiver.recv(&mut buffer).is_ok() {
                    arrived.push(usize::from_ne_bytes(buffer));
                    last = Instant::now();
                }
                if let Some(all) = count.get()
                    && (arrived.len() >= *all || last.elapsed() > UNDER_WAY)
                {
                    return arrived;
                }
            }
        });
        Self { enough, sender, receiver }
    }

    /// Ends the stream.
    pub(crate) fn end(self) -> Passed {
        self.enough.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let mut arrived = vec![false; sent.len()];
        for number in self.receiver.join().unwrap() {
            arrived[number] = true;
        }
        Passed(sent.into_iter().zip(arrived).collect())
    }
}

/// When each datagram was sent, and whether it arrived.
pub(crate) struct Passed(Vec<(Instant, bool)>);

impl Passed {
    /// The longest time between two datagrams that arrived, with none that arrived between them.
    pub(crate) fn outage(&self) -> Duration {
        self.outage_since(self.0[0].0)
    }

    /// The same for the datagrams that were sent since `start`.
    pub(crate) fn outage_since(&self, start: Instant) -> Duration {
        let end = self.0.last().unwrap().0;
        let arrived = self.0.iter().filter(|(sent, arrived)| *arrived && *sent >= start);
        let mut last = start;
        let mut longest = Duration::ZERO;
        for time in arrived.map(|(sent, _)| *sent).chain([end]) {
            longest = longest.max(time - last);
            last = time;
        }
        longest
    }

    /// The number of datagrams that did not arrive.
    pub(crate) fn lost(&self) -> usize {
        self.0.iter().filter(|(_, arrived)| !arrived).count()
    }

    /// Checks that no fault cost more than a second, and prints the figures.
    pub(crate) fn check(&self, what: &str) {
        let lost = self.lost();
        let outage = self.outage();
        eprintln!("{what}: {lost} of {} datagrams lost, {outage:.1?} without one", self.0.len());
        assert!(outage <= OUTAGE, "{what}: nothing passed for {outage:.1?}");
    }
}
