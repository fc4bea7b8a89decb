//! The socket with many threads that drive it as quinn's connections do, above a socket that only
//! records. The threads sleep until they are woken, so the tests end only if no wake-up is lost.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use forebay_quic::{BackpressuredSocket, Config, Error, Mode, Schedule};
use forebay_units::Rate;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

const SEGMENT: usize = 200;

/// Records what was sent. It is busy every seventh time, and then ready when asked again.
#[derive(Debug)]
struct Memory {
    sent: Mutex<mpsc::Sender<Vec<u8>>>,
    times: AtomicU32,
    fails: bool,
}

impl AsyncUdpSocket for Memory {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Later { asked: false })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        assert_eq!(transmit.segment_size, None, "one datagram at a time");
        if self.times.fetch_add(1, Ordering::Relaxed) % 7 == 6 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.fails {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let _ = self.sent.lock().unwrap().send(transmit.contents.to_vec());
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok("192.0.2.2:443".parse().unwrap())
    }
}

/// Returns pending every other time, and wakes at once.
#[derive(Debug)]
struct Later {
    asked: bool,
}

impl UdpPoller for Later {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.asked ^= true;
        if self.asked {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

fn socket(config: &Config, fails: bool) -> (Arc<BackpressuredSocket>, mpsc::Receiver<Vec<u8>>) {
    let (sent, seen) = mpsc::channel();
    let memory = Memory { sent: Mutex::new(sent), times: AtomicU32::new(0), fails };
    (BackpressuredSocket::new(Arc::new(memory), config).unwrap(), seen)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A connection that behaves like `quinn::connection::State::drive_transmit`.
struct Connection {
    socket: Arc<BackpressuredSocket>,
    poller: Pin<Box<dyn UdpPoller>>,
}

enum Sent {
    Yes,
    Waits,
}

impl Connection {
    fn new(socket: &Arc<BackpressuredSocket>) -> Self {
        Self { socket: socket.clone(), poller: socket.clone().create_io_poller() }
    }

    /// Tries to send once, and again where quinn would at once.
    fn send(&mut self, contents: &[u8], cx: &mut Context<'_>) -> Sent {
        loop {
            if self.poller.as_mut().poll_writable(cx).is_pending() {
                return Sent::Waits;
            }
            let transmit = Transmit {
                destination: "192.0.2.1:50000".parse().unwrap(),
                ecn: None,
                contents,
                segment_size: (contents.len() > SEGMENT).then_some(SEGMENT),
                src_ip: None,
            };
            match self.socket.try_send(&transmit) {
                Ok(()) => return Sent::Yes,
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }
}

/// Returns packet `number` of `connection`, one of `of` segments of a transmit.
fn contents(connection: u32, first: u32, of: u32) -> Vec<u8> {
    let segment = |number: u32| {
        let mut bytes = [connection.to_be_bytes(), number.to_be_bytes()].concat();
        bytes.resize(SEGMENT, 0);
        bytes
    };
    (first..first + of).flat_map(segment).collect()
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().unwrap())
}

fn config() -> Config {
    Config { rate: Some(Rate::from_mbps(100)), packets: 10, ..Config::default() }
}

/// Runs connections on four threads, each asleep while its connection is paused. One in five is
/// closed when it has been paused for the third time.
fn many_connections(config: Config, transmits: u32) {
    const CONNECTIONS: u32 = 60;
    let (socket, seen) = socket(&config, false);
    let of = u32::from(config.segments);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let socket = socket.clone();
            thread::spawn(move || {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                let mut cx = Context::from_waker(&waker);
                let new = |name| (name, Connection::new(&socket), 0, 0);
                let mut connections: Vec<(u32, Connection, u32, u32)> =
                    (thread * CONNECTIONS / 4..(thread + 1) * CONNECTIONS / 4).map(new).collect();
                while !connections.is_empty() {
                    let mut slept = 0;
                    connections.retain_mut(|(name, connection, sent, waits)| {
                        let bytes = contents(*name, *sent * of, of);
                        match connection.send(&bytes, &mut cx) {
                            Sent::Yes => *sent += 1,
                            Sent::Waits => (slept, *waits) = (slept + 1, *waits + 1),
                        }
                        *sent < transmits && (*name % 5 != 0 || *waits < 3)
                    });
                    if slept > 0 && slept == connections.len() {
                        thread::park();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let statistics = socket.statistics();
    assert_eq!((statistics.dropped, statistics.flows), (0, 0));
    assert!(statistics.pauses > 0, "the buffer was full: {statistics:?}");
    // The thread ends when the buffer is empty, and the channel ends with it.
    drop(socket);
    let mut next = vec![0; CONNECTIONS as usize];
    let mut all = 0;
    while let Ok(packet) = seen.recv() {
        let next = &mut next[number(&packet, 0) as usize];
        assert_eq!(number(&packet, 4), *next, "lost, duplicated or out of order");
        *next += 1;
        all += 1;
    }
    assert_eq!(all, statistics.taken);
    for (connection, next) in next.into_iter().enumerate() {
        assert!(next == transmits * of || connection % 5 == 0, "{connection} sent {next}");
    }
}

#[test]
fn no_packet_is_lost_and_every_connection_is_woken() {
    many_connections(config(), 40);
}

#[test]
fn no_packet_is_lost_with_fair_queueing() {
    many_connections(Config { schedule: Schedule::Fair, ..config() }, 40);
}

#[test]
fn no_packet_is_lost_with_transmits_of_many_segments() {
    many_connections(Config { segments: 10, ..config() }, 20);
}

#[test]
fn no_packet_is_lost_with_room_for_one_packet() {
    many_connections(Config { packets: 1, in_buffer: 1, turn: 1, ..config() }, 8);
}

/// Packets without a poller are not paused but dropped, and so are those of one connection too
/// many.
#[test]
fn packets_without_a_connection_are_never_paused() {
    let rate = Some(Rate::ZERO);
    let (socket, _seen) = socket(&Config { rate, packets: 8, flows: 1, ..config() }, false);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (Connection::new(&socket), Connection::new(&socket));
    let packet = contents(0, 0, 1);
    let transmit = Transmit {
        destination: "192.0.2.1:50000".parse().unwrap(),
        ecn: None,
        contents: &packet,
        segment_size: None,
        src_ip: None,
    };
    for _ in 0..5 {
        socket.try_send(&transmit).unwrap();
        assert!(matches!(second.send(&packet, &mut cx), Sent::Yes));
    }
    assert!(socket.statistics().dropped > 0);
    assert!(matches!(first.send(&packet, &mut cx), Sent::Yes));
    assert!(matches!(first.send(&packet, &mut cx), Sent::Yes));
    assert!(matches!(first.send(&packet, &mut cx), Sent::Waits));
    let statistics = socket.statistics();
    assert_eq!((statistics.unregulated, statistics.pauses, statistics.flows), (1, 1, 1));
}

/// Without backpressure no connection waits.
#[test]
fn in_mode_drop_no_connection_waits() {
    let rate = Some(Rate::ZERO);
    let (socket, _seen) = socket(&Config { rate, mode: Mode::Drop, ..config() }, false);
    let mut cx = Context::from_waker(Waker::noop());
    let mut connection = Connection::new(&socket);
    for number in 0..30 {
        assert!(matches!(connection.send(&contents(0, number, 1), &mut cx), Sent::Yes));
    }
    let statistics = socket.statistics();
    assert_eq!((statistics.taken, statistics.pauses), (30, 0));
    assert_eq!(statistics.sent + statistics.dropped + u64::from(statistics.backlog), 30);
    assert!(
        statistics.dropped >= 18,
        "10 places, and what a burst of nothing lets out: {statistics:?}"
    );
}

/// A packet that the socket below refuses is lost and counted, and the next ones are tried.
#[test]
fn errors_of_the_socket_below_are_counted() {
    let (socket, seen) = socket(&config(), true);
    let mut cx = Context::from_waker(Waker::noop());
    let mut connection = Connection::new(&socket);
    for number in 0..2 {
        assert!(matches!(connection.send(&contents(0, number, 1), &mut cx), Sent::Yes));
    }
    while socket.statistics().refused < 2 {
        thread::yield_now();
    }
    drop((connection, socket));
    assert!(seen.recv().is_err(), "the thread ends");
}

#[test]
fn settings_out_of_range_are_rejected() {
    let (sent, _seen) = mpsc::channel();
    let memory = Memory { sent: Mutex::new(sent), times: AtomicU32::new(0), fails: false };
    let memory: Arc<dyn AsyncUdpSocket> = Arc::new(memory);
    for (bad, says) in [
        (Config { segments: 0, ..config() }, "segments is 0: set it between 1 and 10"),
        (Config { segments: 11, ..config() }, "segments is 11: set it between 1 and 10"),
        (Config { packets: 0, ..config() }, "limit.packets is 0"),
    ] {
        let refused = BackpressuredSocket::new(memory.clone(), &bad);
        let Err(Error::Config(error)) = refused else { panic!("{bad:?}") };
        assert!(error.to_string().starts_with(says), "{error}");
    }
}
