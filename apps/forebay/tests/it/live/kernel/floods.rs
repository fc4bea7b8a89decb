//! A stranger floods the ports of both boxes with forged, replayed, truncated and oversize
//! messages.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use forebay_dataplane::{Injector, Netdev};
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};

use crate::support::capture::{frames_of, is_message};
use crate::support::sites::Sites;
use crate::support::transfer::{FILLING, Transfers};
use crate::support::until;

const SENDBOX: ([u8; 4], u16) = ([10, 9, 9, 1], 28316);
const RECEIVEBOX: ([u8; 4], u16) = ([10, 9, 9, 3], 28317);
/// The lengths of the messages: none, truncated ones, those of each type, and oversize ones.
const LENGTHS: [usize; 8] = [0, 1, 24, 51, 52, 64, 65, 1400];
/// The messages of each of the two floods.
const MESSAGES: u64 = 200_000;
/// The most lines that a box may log in a flood.
const LINES: usize = 60;
/// The most memory that a box may take in a flood, in kB.
const MEMORY: u64 = 4096;

/// Each eighth frame of a flood is a copy of a real message.
const REPLAYED: usize = 8;

/// A frame to `mac` with a UDP message of `length` random bytes between the boxes' ports.
fn message(
    mac: [u8; 6],
    (source, from): ([u8; 4], u16),
    (target, to): ([u8; 4], u16),
    length: usize,
    random: &mut u64,
) -> Vec<u8> {
    let mut frame = vec![0; 42 + length];
    frame[..6].copy_from_slice(&mac);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x08, 0x00]);
    frame[14..16].copy_from_slice(&[0x45, 0]);
    frame[16..18].copy_from_slice(&(28 + length as u16).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&target);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[34..36].copy_from_slice(&from.to_be_bytes());
    frame[36..38].copy_from_slice(&to.to_be_bytes());
    frame[38..40].copy_from_slice(&(8 + length as u16).to_be_bytes());
    for byte in &mut frame[42..] {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (*random >> 56) as u8;
    }
    frame
}

/// Returns frames with real messages to the UDP port `to` that arrive at `device` of `place`: at
/// least one, and those of the next two seconds.
pub(crate) fn captured(place: &Namespace, device: &'static str, to: u16) -> Vec<Vec<u8>> {
    let socket = frames_of(place, device);
    let mut frames = Vec::new();
    let mut buffer = [0; 2048];
    let mut first = None;
    while frames.len() < 32 && first.is_none_or(|first: Instant| first.elapsed().as_secs() < 2) {
        let length = socket.recv(&mut buffer).unwrap();
        let frame = &buffer[..length];
        if is_message(frame, to) {
            frames.push(frame.to_vec());
            first.get_or_insert_with(Instant::now);
        }
    }
    frames
}

/// A thread that sends as fast as it can.
struct Flood {
    enough: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Flood {
    /// Sends frames from `device` of `place` to the box at `target`, whose interface is `to`.
    fn start(
        place: &Namespace,
        device: &'static str,
        to: (&Namespace, &'static str),
        source: ([u8; 4], u16),
        target: ([u8; 4], u16),
    ) -> Self {
        let mac = run(&format!("ip netns exec {} cat /sys/class/net/{}/address", to.0.0, to.1));
        let mac: Vec<_> =
            mac.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let mac: [u8; 6] = mac.try_into().unwrap();
        let replayed = captured(to.0, to.1, target.1);
        let injector = within(&place.0, || Injector::open(&Netdev::find(device).unwrap()).unwrap());
        let enough = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&enough);
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let thread = thread::spawn(move || {
            let mut random = 1;
            let frames: Vec<_> = (0..64 * LENGTHS.len())
                .map(|n| {
                    let length = LENGTHS[n / REPLAYED % LENGTHS.len()];
                    match n % REPLAYED {
                        0 => replayed[n / REPLAYED % replayed.len()].clone(),
                        _ => message(mac, source, target, length, &mut random),
                    }
                })
                .collect();
            while !stop.load(Ordering::Relaxed) {
                for frame in &frames {
                    if injector.send(frame).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { enough, sent, thread }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Returns the memory of a process in kB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn floods_of_messages_change_neither_the_rate_nor_the_memory() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("kf");
    let sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    let lines = |file: &str| fs::read_to_string(sites.dir.0.join(file)).unwrap().lines().count();
    let both = || lines("sendbox.log") + lines("others.log");
    // `ip netns exec` becomes the box, so that the number is the box's.
    let processes = [sendbox.id(), sites.receivebox_id()];
    let (lines_before, memory_before) = (both(), processes.map(memory));

    let floods = [
        Flood::start(&sites.path, "fb-right", (&sites.to, "eth0"), SENDBOX, RECEIVEBOX),
        Flood::start(&sites.path, "fb-left", (&sites.router, "fb-out"), RECEIVEBOX, SENDBOX),
    ];
    until("the floods are sent", || floods.iter().all(|flood| flood.sent() >= MESSAGES));
    transfers.go_on();
    floods.into_iter().for_each(Flood::end);
    let (said, memory_after) = (both() - lines_before, processes.map(memory));
    eprintln!("{said} lines; memory {memory_before:?} and {memory_after:?} kB");
    sites.wait_for_control();
    transfers.go_on();
    transfers.end();
    assert!(said <= LINES, "{said} lines\n{}", sites.said());
    for (before, after) in memory_before.iter().zip(memory_after) {
        assert!(after <= before + MEMORY, "{memory_before:?} and {memory_after:?} kB");
    }
}
