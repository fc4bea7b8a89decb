//! The peer of the guests: it discards what arrives at one port, and echoes at another.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::backend::Place;

/// TCP port whose bytes are discarded.
pub(crate) const DISCARD: u16 = 5001;
/// TCP port whose bytes are echoed.
pub(crate) const ECHO: u16 = 5002;
/// Maximum number of bytes read from a flow at a time.
const CHUNK: usize = 1 << 20;

/// A running sink; stopped when dropped.
pub(crate) struct Sink {
    bytes: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    pub(crate) fn start(place: &Place) -> Self {
        let namespace = File::open(format!("/run/netns/{}", place.outer)).unwrap();
        let (bytes, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, end) = (Arc::clone(&bytes), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            // SAFETY: the call moves only this thread.
            assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            serve(&counter, &end);
        });
        Self { bytes, ends, thread: Some(thread) }
    }

    /// Number of bytes discarded so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(bytes: &AtomicU64, ends: &AtomicBool) {
    let listen = |port| {
        let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    let listeners = [listen(DISCARD), listen(ECHO)];
    let mut flows: Vec<(TcpStream, bool)> = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let fds = listeners.iter().map(AsRawFd::as_raw_fd);
        let fds = fds.chain(flows.iter().map(|(flow, _)| flow.as_raw_fd()));
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled: Vec<_> = fds.map(poll).collect();
        // SAFETY: the array is valid for its length.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 100) };
        let ready = |i: usize| polled[i].revents != 0;
        let mut index = listeners.len();
        flows.retain(|(flow, answers)| {
            index += 1;
            !ready(index - 1) || take(flow.as_raw_fd(), *answers, bytes)
        });
        for (i, listener) in listeners.iter().enumerate().filter(|(i, _)| ready(*i)) {
            while let Ok((flow, _)) = listener.accept() {
                flow.set_nodelay(true).unwrap();
                flows.push((flow, i == 1));
            }
        }
    }
}

/// Reads what has arrived; returns whether the flow continues.
fn take(fd: RawFd, answers: bool, bytes: &AtomicU64) -> bool {
    if answers {
        let mut request = [0; super::requests::SIZE];
        // SAFETY: `request` is valid for both calls for its length.
        unsafe {
            let got =
                libc::recv(fd, request.as_mut_ptr().cast(), request.len(), libc::MSG_DONTWAIT);
            if got > 0 {
                libc::send(fd, request.as_ptr().cast(), got as usize, libc::MSG_NOSIGNAL);
            }
            return got > 0;
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC, TCP throws bytes away and touches no buffer (tcp(7)).
    let got = unsafe { libc::recv(fd, std::ptr::null_mut(), CHUNK, flags) };
    if got > 0 {
        bytes.fetch_add(got as u64, Ordering::Relaxed);
    }
    got > 0 || (got < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN))
}
