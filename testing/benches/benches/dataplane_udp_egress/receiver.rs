//! The receiver: it counts all packets, and reads those of some flows.

use std::collections::HashMap;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_system::clock;
use forebay_test_support::namespace::within;
use forebay_units::Nanos;

use crate::load::{Load, PORTS};
use crate::sockets::set;

/// The arrival of a message of a flow that is read.
struct Arrival {
    flow: u32,
    /// The number of the message.
    message: u32,
    due: Nanos,
    at: Nanos,
}

/// Medians and 99th percentiles in microseconds.
pub(crate) struct Errors {
    pub(crate) late: [f64; 2],
    pub(crate) interval: [f64; 2],
}

pub(crate) struct Receiver {
    namespace: String,
    load: Load,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Arrival>>,
    /// The socket that no one reads: the kernel drops and counts what comes.
    _sink: UdpSocket,
}

impl Receiver {
    pub(crate) fn start(namespace: &str, load: Load) -> Self {
        let [read, sink] = within(namespace, || {
            PORTS.map(|p| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, p)).unwrap())
        });
        set::<libc::c_int>(&sink, libc::SOL_SOCKET, libc::SO_RCVBUF, 0);
        set::<libc::c_int>(&read, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
        set::<libc::c_int>(&read, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        read.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut arrivals = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                arrivals.extend(receive(&read).filter(|a| a.message % load.burst == 0));
            }
            arrivals
        });
        Self { namespace: namespace.to_owned(), load, stop, thread, _sink: sink }
    }

    /// Packets that have arrived, read or not (`snmp_counter`, RFC 4113).
    pub(crate) fn arrived(&self) -> u64 {
        let text =
            within(&self.namespace, || std::fs::read_to_string("/proc/thread-self/net/snmp"))
                .unwrap();
        let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
        let [names, values] = [lines.next().unwrap(), lines.next().unwrap()];
        let of = |wanted: &str| -> u64 {
            let at = names.split_whitespace().position(|name| name == wanted).unwrap();
            values.split_whitespace().nth(at).unwrap().parse().unwrap()
        };
        of("InDatagrams") + of("RcvbufErrors")
    }

    /// Ends, and returns the errors of messages that arrived between these times.
    pub(crate) fn stop(self, from: Nanos, to: Nanos) -> Errors {
        self.stop.store(true, Ordering::Relaxed);
        let arrivals = self.thread.join().unwrap();
        let (mut late, mut interval) = (Vec::new(), Vec::new());
        let gap = self.load.gap_nanos();
        let mut before: HashMap<u32, (u32, Nanos)> = HashMap::new();
        for Arrival { flow, message, due, at } in arrivals {
            let last = before.insert(flow, (message, at));
            if at < from || at >= to {
                continue;
            }
            if due > Nanos::ZERO {
                late.push(at.0.abs_diff(due.0) as f64 / 1e3);
            }
            if let Some((number, last)) = last
                && message == number + self.load.burst
            {
                let took = at.saturating_sub(last);
                interval.push(took.0.abs_diff(gap.0) as f64 / 1e3);
            }
        }
        Errors { late: percentiles(late), interval: percentiles(interval) }
    }
}

fn percentiles(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values.get((values.len() as f64 * part) as usize).copied();
    [0.5, 0.99].map(|part| at(part).unwrap_or(f64::NAN))
}

/// A buffer for the control message with the time stamp, aligned for `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receives a packet; `None` if none comes for a while.
fn receive(socket: &UdpSocket) -> std::option::IntoIter<Arrival> {
    let mut data = [0u8; 16];
    let mut control = Control([0; 64]);
    let mut vector = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: zero is valid for the header. It points to buffers of this function with their
    // lengths. A control message of the time stamp has a `timespec`, which may not be aligned.
    let stamp = unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>();
        if libc::recvmsg(socket.as_raw_fd(), &mut header, 0) < data.len() as isize {
            return None.into_iter();
        }
        let message = libc::CMSG_FIRSTHDR(&header);
        assert!(!message.is_null() && (*message).cmsg_type == libc::SCM_TIMESTAMPNS);
        libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned()
    };
    let (now, wall) = clock::both();
    let at = now.saturating_sub(wall.saturating_sub(clock::nanos(stamp)));
    let word = |n: usize| u32::from_be_bytes(data[n..n + 4].try_into().unwrap());
    let due = Nanos(u64::from_be_bytes(data[8..].try_into().unwrap()));
    Some(Arrival { flow: word(0), message: word(4), due, at }).into_iter()
}
