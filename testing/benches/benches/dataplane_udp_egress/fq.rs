//! A connected socket for each flow, paced by sch_fq.

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use forebay_system::clock;
use forebay_system::wait::precise_timers;
use forebay_units::Nanos;

use crate::load::{Gate, Load, Sent};
use crate::sockets::{Writer, force_send_buffer, open, set};

/// Events of a system call.
const EVENTS: usize = 256;
/// The smallest send buffer that Linux sets: about a message, so that few of them wait in sch_fq.
const SEND_BUFFER: libc::c_int = 0;

/// Sends a flow's next message when the one before has left. It then waits in sch_fq for its time.
pub(crate) fn send(load: Load, flows: Range<u32>, gate: &Gate) -> Sent {
    precise_timers();
    let sockets = open(load, flows.clone());
    for socket in &sockets {
        force_send_buffer(socket, SEND_BUFFER);
        set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, load.wire_rate());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let epoll = unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    };
    let mut writer = Writer::new(load, &flows);
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let mut started = 0;
    let mut meter = gate.pass();
    let start = meter.window.start;
    loop {
        let now = clock::now();
        if !meter.goes_on(now, writer.packets) {
            return meter.sent;
        }
        let first = |n: usize| load.first(start, flows.start + n as u32);
        while started < sockets.len() && first(started) <= now {
            // The socket has room, so that its first event comes at once.
            watch(&epoll, sockets[started].as_raw_fd(), started);
            started += 1;
        }
        let until = if started < sockets.len() { first(started) } else { meter.window.closed() };
        for event in wait(&epoll, &mut events, until.saturating_sub(now)) {
            let n = event.u64 as usize;
            writer.send(&sockets[n], n, Nanos::ZERO);
        }
    }
}

/// Adds a socket, which is reported each time that it has room again.
fn watch(epoll: &OwnedFd, socket: RawFd, n: usize) {
    let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
    let mut event = libc::epoll_event { events, u64: n as u64 };
    // SAFETY: the kernel reads the event.
    let result =
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, &mut event) };
    assert_eq!(result, 0);
}

fn wait<'a>(
    epoll: &OwnedFd,
    events: &'a mut [libc::epoll_event; EVENTS],
    time: Nanos,
) -> &'a [libc::epoll_event] {
    let timeout = libc::timespec {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel writes at most `EVENTS` events, and reads the time; no mask is given.
    let count = unsafe {
        libc::epoll_pwait2(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            EVENTS as libc::c_int,
            &timeout,
            std::ptr::null(),
        )
    };
    &events[..count.max(0) as usize]
}
