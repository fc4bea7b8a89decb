//! Somebody on the path delays or drops feedback: a relay between the two boxes.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_test_support::has_root;
use forebay_test_support::namespace::within;

use crate::support::sites::{RECEIVEBOX, Sites};
use crate::support::transfer::{FILLING, Transfers};

const SENDBOX: &str = "10.9.9.1:28316";
/// Where the sendbox expects its receivebox, and the relay is.
const OUTER: &str = "10.9.9.3:28317";
/// Where the receivebox expects its sendbox, and the relay is.
const INNER: &str = "10.9.9.3:28319";
const BEHIND: &str = "10.9.9.3:28318";

/// A relay of the messages of both boxes. It delays feedback by a time, and by a random time more,
/// and drops a share of it.
struct Relay {
    delay_ms: Arc<AtomicU64>,
    jitter_ms: Arc<AtomicU64>,
    lost_percent: Arc<AtomicU64>,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Relay {
    fn start(sites: &Sites) -> Self {
        sites.restart_receivebox(
            &RECEIVEBOX
                .replace("listen = \"10.9.9.3:28317\"", &format!("listen = \"{BEHIND}\""))
                .replace("sendbox = \"10.9.9.1:28316\"", &format!("sendbox = \"{INNER}\"")),
        );
        let [outer, inner] =
            within(&sites.to.0, || [OUTER, INNER].map(|at| UdpSocket::bind(at).unwrap()));
        for socket in [&outer, &inner] {
            socket.set_nonblocking(true).unwrap();
        }
        let (delay_ms, jitter_ms, lost_percent, enough) = Default::default();
        Self {
            delay_ms: Arc::clone(&delay_ms),
            jitter_ms: Arc::clone(&jitter_ms),
            lost_percent: Arc::clone(&lost_percent),
            enough: Arc::clone(&enough),
            thread: thread::spawn(move || {
                let (mut waiting, mut random) = (Vec::<(Instant, Vec<u8>)>::new(), 1_u64);
                let mut buffer = [0; 256];
                while !enough.load(Ordering::Relaxed) {
                    while let Ok(len) = outer.recv(&mut buffer) {
                        let _ = inner.send_to(&buffer[..len], BEHIND);
                    }
                    while let Ok(len) = inner.recv(&mut buffer) {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        if (random >> 48) % 100 < lost_percent.load(Ordering::Relaxed) {
                            continue;
                        }
                        let jitter = jitter_ms.load(Ordering::Relaxed);
                        let extra = (random >> 33) % (jitter + 1);
                        let ms = delay_ms.load(Ordering::Relaxed) + extra;
                        let due = Instant::now() + Duration::from_millis(ms);
                        waiting.push((due, buffer[..len].to_vec()));
                    }
                    let now = Instant::now();
                    waiting.retain(|(due, message)| {
                        let waits = *due > now;
                        if !waits {
                            let _ = outer.send_to(message, SENDBOX);
                        }
                        waits
                    });
                    thread::sleep(Duration::from_micros(200));
                }
            }),
        }
    }

    fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Returns what the bundle sends in `seconds`, in full frames a second.
fn sent(sites: &Sites, seconds: u64) -> f64 {
    let before = sites.class().unwrap().sent;
    thread::sleep(Duration::from_secs(seconds));
    (sites.class().unwrap().sent - before) as f64 / seconds as f64
}

#[test]
fn feedback_that_is_delayed_or_lost_on_the_path_does_not_keep_the_rate_low() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kw");
    let relay = Relay::start(&sites);
    let _sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    thread::sleep(Duration::from_secs(3));
    let undisturbed = sent(&sites, 5);
    let mut lowest = f64::MAX;
    for (delay, jitter, lost) in [(200, 0, 0), (0, 100, 0), (0, 0, 50)] {
        relay.lost_percent.store(lost, Ordering::Relaxed);
        relay.delay_ms.store(delay, Ordering::Relaxed);
        relay.jitter_ms.store(jitter, Ordering::Relaxed);
        let first = sent(&sites, 5);
        let later = sent(&sites, 10);
        eprintln!(
            "delayed by {delay} ms and up to {jitter} ms more, {lost} % lost: {first:.0} packets/s in \
             the first 5 s and {later:.0} later, {undisturbed:.0} before"
        );
        lowest = lowest.min(later / undisturbed);
        relay.jitter_ms.store(0, Ordering::Relaxed);
        relay.delay_ms.store(0, Ordering::Relaxed);
        relay.lost_percent.store(0, Ordering::Relaxed);
        thread::sleep(Duration::from_secs(5));
    }
    transfers.go_on();
    transfers.end();
    relay.end();
    assert!(lowest >= 0.7, "{lowest:.2} of the rate is left\n{}", sites.said());
}
