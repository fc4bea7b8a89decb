//! Backlogged connections through the bundle, with every byte checked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_test_support::namespace::{Namespace, within};

use crate::support::sites::Sites;
use crate::support::{HANG_TIMEOUT, until};

/// The data that is sent repeatedly. Its length is no power of two, so a misplaced segment shows.
fn pattern() -> Vec<u8> {
    (0..251 * 256).map(|i| (i % 251) as u8).collect()
}

/// The send buffer of a connection in bytes: it limits the data in flight, so that all connections
/// together fit into the bundle's queue. The kernel doubles it for what it needs itself.
const SEND_BUFFER: i32 = 64 << 10;

/// Number of connections that keep the link busy. A single one with this buffer would build no
/// queue, and the bundle's rate would not reach the link's.
pub(crate) const FILLING: usize = 4;

/// One connection with its two threads.
struct Transfer {
    received: Arc<AtomicU64>,
    sender: JoinHandle<u64>,
    /// Returns the bytes that were received.
    receiver: JoinHandle<u64>,
}

/// Backlogged connections from one site to the other.
pub(crate) struct Transfers {
    all: Vec<Transfer>,
    enough: Arc<AtomicBool>,
    stalls: Arc<Stalls>,
}

/// The longest time in which a connection received nothing, since the last call of
/// [`Stalls::take`].
struct Stalls(Mutex<(Instant, Duration)>);

impl Stalls {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((Instant::now(), Duration::ZERO))))
    }

    /// Notes that a connection received nothing since `last`.
    fn note(&self, last: Instant) {
        let mut stalls = self.0.lock().unwrap();
        let (since, longest) = *stalls;
        stalls.1 = longest.max(last.max(since).elapsed());
    }

    fn take(&self) -> Duration {
        let mut stalls = self.0.lock().unwrap();
        std::mem::replace(&mut *stalls, (Instant::now(), Duration::ZERO)).1
    }
}

impl Transfers {
    /// Starts connections to `to`, an address of the other site.
    pub(crate) fn start(sites: &Sites, to: &'static str, count: usize) -> Self {
        Self::between(&sites.from, &sites.to, to, count)
    }

    /// Starts connections from one host to `address` of another.
    pub(crate) fn between(
        from: &Namespace,
        to: &Namespace,
        address: &'static str,
        count: usize,
    ) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let stalls = Stalls::new();
        let listener = within(&to.0, move || TcpListener::bind((address, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        // One after the other, so that both lists of ends have the same order.
        let connect = |_| {
            let sender = within(&from.0, move || TcpStream::connect(address).unwrap());
            // BBR, the default of some machines, does not keep the queue full.
            let cubic = socket2::SockRef::from(&sender).set_tcp_congestion(b"cubic");
            cubic.unwrap();
            Transfer::new(sender, listener.accept().unwrap().0, &enough, &stalls)
        };
        let all = (0..count).map(connect).collect();
        Self { all, enough: Arc::clone(&enough), stalls }
    }

    /// Returns the longest time in which one of them received nothing, since the last call.
    pub(crate) fn forget_stalls(&self) -> Duration {
        self.stalls.take()
    }

    /// Returns the bytes that all of them have received.
    pub(crate) fn received(&self) -> u64 {
        self.all.iter().map(|transfer| transfer.received.load(Ordering::Relaxed)).sum()
    }

    /// Waits until each connection has received more data.
    pub(crate) fn go_on(&self) {
        self.receive(1);
    }

    /// Waits until each connection has received data that was not under way when this was called.
    pub(crate) fn receive_new(&self) {
        self.receive(2 * SEND_BUFFER as u64 + 1);
    }

    /// Waits until each connection has received this number of bytes more.
    fn receive(&self, bytes: u64) {
        let received = || self.all.iter().map(|t| t.received.load(Ordering::Relaxed));
        let before: Vec<u64> = received().collect();
        until("every connection goes on", || {
            received().zip(&before).all(|(now, then)| now >= then + bytes)
        });
    }

    /// Ends all connections and checks that the data sent on each is the data that arrived.
    pub(crate) fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        for transfer in self.all {
            assert_eq!(transfer.sender.join().unwrap(), transfer.receiver.join().unwrap());
        }
    }
}

impl Transfer {
    fn new(
        mut sender: TcpStream,
        mut receiver: TcpStream,
        enough: &Arc<AtomicBool>,
        stalls: &Arc<Stalls>,
    ) -> Self {
        limit_send_buffer(&sender);
        sender.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
        receiver.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        let received = Arc::new(AtomicU64::new(0));
        let (count, enough) = (Arc::clone(&received), Arc::clone(enough));
        let stalls = Arc::clone(stalls);
        let sender = thread::spawn(move || {
            let (pattern, mut sent) = (pattern(), 0);
            while !enough.load(Ordering::Relaxed) {
                sender.write_all(&pattern).expect("no connection is lost");
                sent += pattern.len() as u64;
            }
            sent
        });
        let receiver = thread::spawn(move || {
            let (pattern, mut buffer, mut at) = (pattern(), vec![0; 1 << 16], 0);
            let mut last = Instant::now();
            loop {
                let room = buffer.len().min(pattern.len() - at);
                let n = receiver.read(&mut buffer[..room]).expect("no connection is lost");
                stalls.note(last);
                last = Instant::now();
                if n == 0 {
                    return count.load(Ordering::Relaxed);
                }
                assert!(buffer[..n] == pattern[at..at + n], "what arrives is what was sent");
                at = (at + n) % pattern.len();
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        Self { received, sender, receiver }
    }
}

fn limit_send_buffer(stream: &TcpStream) {
    let bytes = SEND_BUFFER;
    // SAFETY: the option's value is an integer of the given length.
    let set = unsafe {
        let value = (&raw const bytes).cast();
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, value, 4)
    };
    assert_eq!(set, 0);
}
