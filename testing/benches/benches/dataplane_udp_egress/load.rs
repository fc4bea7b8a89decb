//! The load, which is the same for all arms.

use std::net::SocketAddr;
use std::ops::{AddAssign, Range};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};

use crate::cpu;

/// Bytes of a packet without headers.
pub(crate) const PAYLOAD: usize = 1200;
/// Bytes of the headers of Ethernet, IPv4 and UDP, which sch_fq counts.
const HEADERS: u64 = 14 + 20 + 8;
/// The number of flows whose packets the receiver reads.
const SAMPLES: u32 = 300;
/// The receiver's port for flows that are read, and for all others.
pub(crate) const PORTS: [u16; 2] = [9001, 9000];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) flows: u32,
    /// Messages of all flows per second.
    pub(crate) turns: u32,
    /// Packets of a message.
    pub(crate) burst: u32,
}

impl Load {
    /// The interval between messages of a flow.
    pub(crate) fn gap(&self) -> Duration {
        Duration::from_secs_f64(f64::from(self.flows) / f64::from(self.turns))
    }

    pub(crate) fn gap_nanos(&self) -> Nanos {
        Nanos(self.gap().as_nanos() as u64)
    }

    /// Bytes of a message without headers.
    pub(crate) fn message(&self) -> usize {
        self.burst as usize * PAYLOAD
    }

    /// The rate of a flow in bytes without headers.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bytes_over(Bytes(self.message() as u64), self.gap_nanos())
    }

    /// The rate of a flow in bytes per second with headers.
    pub(crate) fn wire_rate(&self) -> u64 {
        let bytes = u64::from(self.burst) * (PAYLOAD as u64 + HEADERS);
        (bytes as f64 / self.gap().as_secs_f64()) as u64
    }

    /// The flows of one of several threads.
    pub(crate) fn part(&self, part: u32, parts: u32) -> Range<u32> {
        let each = self.flows.div_ceil(parts);
        (part * each).min(self.flows)..((part + 1) * each).min(self.flows)
    }

    /// When a flow sends first: the flows are spread over an interval.
    pub(crate) fn first(&self, start: Nanos, flow: u32) -> Nanos {
        start + Nanos((self.gap().as_nanos() * u128::from(flow) / u128::from(self.flows)) as u64)
    }

    /// The source of a flow that has a socket: no two share one.
    pub(crate) fn from(flow: u32) -> SocketAddr {
        const PORTS: u32 = 50_000;
        ([10, 9, 3, 1 + (flow / PORTS) as u8], 10_000 + (flow % PORTS) as u16).into()
    }

    /// The destination of a flow. Flows share 250 addresses, as many clients share a port.
    pub(crate) fn to(&self, flow: u32) -> SocketAddr {
        let sampled = flow.is_multiple_of((self.flows / SAMPLES).max(1));
        let port = PORTS[usize::from(!sampled)];
        ([10, 9, 2, 1 + (flow % 250) as u8], port).into()
    }
}

/// Writes what the receiver reads: the flow, the number of the packet and its pacing time.
pub(crate) fn write(packet: &mut [u8], flow: u32, number: u32, due: Nanos) {
    packet[..4].copy_from_slice(&flow.to_be_bytes());
    packet[4..8].copy_from_slice(&number.to_be_bytes());
    packet[8..16].copy_from_slice(&due.0.to_be_bytes());
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// When the first flow starts.
    pub(crate) start: Nanos,
    open: Nanos,
    close: Nanos,
}

impl Window {
    fn new(load: Load, seconds: f64) -> Self {
        let start = clock::now() + Nanos::from_millis(20);
        // All flows have started, and those that started late have caught up.
        let open = start + load.gap_nanos() + Nanos::from_millis(500);
        Self { start, open, close: open + Nanos((seconds * 1e9) as u64) }
    }

    pub(crate) fn opened(&self) -> Nanos {
        self.open
    }

    pub(crate) fn closed(&self) -> Nanos {
        self.close
    }
}

/// Where sending threads wait until all have opened their sockets.
#[derive(Debug)]
pub(crate) struct Gate {
    threads: u32,
    arrived: AtomicU32,
    opened: Barrier,
    window: OnceLock<Window>,
}

impl Gate {
    /// Makes a gate for this many sending threads.
    pub(crate) fn new(threads: u32) -> Self {
        let opened = Barrier::new(threads as usize + 1);
        Self { threads, arrived: AtomicU32::new(0), opened, window: OnceLock::new() }
    }

    /// Waits for all sending threads, and tells them and the caller the times of the run. Panics if
    /// one of the threads has `failed` instead.
    pub(crate) fn open(&self, load: Load, seconds: f64, failed: impl Fn() -> bool) -> Window {
        while self.arrived.load(Ordering::Acquire) < self.threads {
            assert!(!failed(), "a sending thread cannot open its sockets");
            thread::sleep(Duration::from_millis(1));
        }
        let window = *self.window.get_or_init(|| Window::new(load, seconds));
        self.opened.wait();
        window
    }

    /// Waits in a sending thread until the run begins.
    pub(crate) fn pass(&self) -> Meter {
        self.arrived.fetch_add(1, Ordering::Release);
        self.opened.wait();
        Meter::new(*self.window.get().expect("set before the gate opens"))
    }
}

/// What a thread sent within the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// CPU seconds in the program.
    pub(crate) user: f64,
    /// CPU seconds in the kernel.
    pub(crate) system: f64,
    /// Packets per second.
    pub(crate) rate: f64,
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.user += other.user;
        self.system += other.system;
        self.rate += other.rate;
    }
}

/// Measures a sending thread within the window.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) window: Window,
    before: Option<(Nanos, u64, [f64; 2])>,
    pub(crate) sent: Sent,
}

impl Meter {
    fn new(window: Window) -> Self {
        Self { window, before: None, sent: Sent::default() }
    }

    /// Notes that this thread has sent `packets` so far. Returns whether the run goes on.
    #[inline]
    pub(crate) fn goes_on(&mut self, now: Nanos, packets: u64) -> bool {
        if now < self.window.open {
            return true;
        }
        let Some((began, before, [user, system])) = self.before else {
            self.before = Some((now, packets, cpu::of_thread()));
            return true;
        };
        if now < self.window.close {
            return true;
        }
        let after = cpu::of_thread();
        let seconds = now.saturating_sub(began).0 as f64 / 1e9;
        self.sent = Sent {
            packets: packets - before,
            user: after[0] - user,
            system: after[1] - system,
            rate: (packets - before) as f64 / seconds,
        };
        false
    }
}
