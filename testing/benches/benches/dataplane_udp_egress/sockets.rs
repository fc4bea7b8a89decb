//! A connected socket for each flow, paced by the program.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::size_of;
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::AsRawFd;

use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;

use crate::load::{Gate, Load, PAYLOAD, Sent, write};

/// Bytes that the kernel may hold for the one socket of the engine.
pub(crate) const SEND_BUFFER: libc::c_int = 8 << 20;
/// Descriptors for other purposes than flows.
const OTHERS: u32 = 200;

pub(crate) fn set<T>(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: T) {
    // SAFETY: the kernel reads a value of the given size; callers pass integers.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

pub(crate) fn force_send_buffer(socket: &UdpSocket, bytes: libc::c_int) {
    set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes);
}

/// Raises the limit of descriptors, as far as this process may. Returns how many flows can have a
/// socket in a thread.
pub(crate) fn raise_limit(flows: u32) -> u32 {
    let wanted = u64::from(flows + OTHERS);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads and writes the structure.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let hard = limit.rlim_max.max(wanted);
        let raised = libc::rlimit { rlim_cur: hard, rlim_max: hard };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) != 0 {
            // Only a privileged process may raise the hard limit.
            let soft = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &soft), 0);
        }
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    (limit.rlim_cur.min(u64::from(u32::MAX)) as u32).saturating_sub(OTHERS).max(1)
}

/// Opens a socket for each flow, in a table of descriptors of this thread's own.
pub(crate) fn open(load: Load, flows: Range<u32>) -> Vec<UdpSocket> {
    // SAFETY: this thread has its own descriptors from here on, and closes those that it opens. The
    // copies of others' go when the thread ends.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
    flows
        .map(|flow| {
            let socket = UdpSocket::bind(Load::from(flow)).unwrap();
            socket.connect(load.to(flow)).unwrap();
            socket.set_nonblocking(true).unwrap();
            let segment = PAYLOAD as libc::c_int;
            set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
            socket
        })
        .collect()
}

/// The next message of a flow.
pub(crate) struct Writer {
    message: Vec<u8>,
    sent: Vec<u32>,
    burst: u32,
    first: u32,
    pub(crate) packets: u64,
}

impl Writer {
    pub(crate) fn new(load: Load, flows: &Range<u32>) -> Self {
        Self {
            message: vec![0; load.message()],
            sent: vec![0; flows.len()],
            burst: load.burst,
            first: flows.start,
            packets: 0,
        }
    }

    /// Sends the next message of the flow of this number within the thread, if there is room.
    pub(crate) fn send(&mut self, socket: &UdpSocket, n: usize, due: Nanos) {
        let number = self.sent[n];
        for (at, packet) in self.message.chunks_mut(PAYLOAD).enumerate() {
            write(packet, self.first + n as u32, number + at as u32, due);
        }
        match socket.send(&self.message) {
            Ok(_) => {
                self.sent[n] += self.burst;
                self.packets += u64::from(self.burst);
            }
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock, "{e}"),
        }
    }
}

pub(crate) fn send(load: Load, flows: Range<u32>, gate: &Gate) -> Sent {
    precise_timers();
    let sockets = open(load, flows.clone());
    let mut writer = Writer::new(load, &flows);
    let mut waiter = Waiter::default();
    let mut meter = gate.pass();
    let (start, gap) = (meter.window.start, load.gap_nanos());
    let mut heap: BinaryHeap<Reverse<(Nanos, usize)>> =
        flows.enumerate().map(|(n, flow)| Reverse((load.first(start, flow), n))).collect();
    loop {
        let now = clock::now();
        if !meter.goes_on(now, writer.packets) {
            return meter.sent;
        }
        let mut top = heap.peek_mut().unwrap();
        let Reverse((due, n)) = *top;
        if due > now {
            waiter.wait_until(due);
            continue;
        }
        // Like the engine, a flow catches up a millisecond at most.
        top.0.0 = due.max(now.saturating_sub(Nanos::from_millis(1))) + gap;
        drop(top);
        writer.send(&sockets[n], n, due);
    }
}
