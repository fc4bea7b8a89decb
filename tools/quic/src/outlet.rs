//! The socket below, for the thread that sends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use quinn::udp::Transmit;
use quinn::{AsyncUdpSocket, UdpPoller};

/// The longest wait for a busy socket before it is polled again.
const BUSY: Duration = Duration::from_millis(50);

/// A socket that the thread which made this sends through, and waits for.
pub(crate) struct Outlet {
    socket: Arc<dyn AsyncUdpSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
    waker: Waker,
}

/// A waker that unparks the thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Outlet {
    /// Makes an outlet of `socket` for this thread.
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>) -> Self {
        let poller = Arc::clone(&socket).create_io_poller();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        Self { socket, poller, waker }
    }

    /// Sends a transmit, and waits while the socket is busy and not `ended`. Returns `false` if the
    /// socket refused it.
    pub(crate) fn send(
        &mut self,
        transmit: &Transmit<'_>,
        mut ended: impl FnMut() -> bool,
    ) -> bool {
        let mut cx = Context::from_waker(&self.waker);
        loop {
            match self.poller.as_mut().poll_writable(&mut cx) {
                Poll::Pending => {
                    if ended() {
                        return false;
                    }
                    thread::park_timeout(BUSY);
                    continue;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return false,
            }
            match self.socket.try_send(transmit) {
                Ok(()) => return true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }
}
