//! TCP Prague as a BPF program, over the kernel's own accurate ECN. The test reports a skip if the
//! kernel has none.

use std::io::{Read as _, Write as _};
use std::mem::size_of_val;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use forebay_dataplane::Netdev;
use forebay_dataplane::senders::{CongestionControl, L4S_MARK, send_ect1};
use forebay_test_support::namespace::{Namespace, within};
use forebay_test_support::{Need, has_root, skip};

/// The bytes of a transfer.
const TRANSFER: usize = 1 << 20;
/// `TCPI_OPT_ECN_SEEN`: ECN was negotiated and a packet with ECT has arrived.
const ECN_SEEN: u8 = 16;

fn set(socket: &impl AsRawFd, level: i32, option: i32, value: &[u8]) {
    let (pointer, length) = (value.as_ptr().cast(), value.len() as u32);
    // SAFETY: the pointer and the length are of `value`.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// What the kernel says of a connection (`struct tcp_info`).
struct Info {
    bytes: [u8; 280],
    length: usize,
}

impl Info {
    fn of(socket: &TcpStream) -> Self {
        let mut bytes = [0_u8; 280];
        let mut length = size_of_val(&bytes) as u32;
        let (fd, buffer) = (socket.as_raw_fd(), bytes.as_mut_ptr().cast());
        // SAFETY: the kernel writes at most `length` bytes to the buffer.
        let got =
            unsafe { libc::getsockopt(fd, libc::SOL_TCP, libc::TCP_INFO, buffer, &mut length) };
        assert_eq!(got, 0);
        Self { bytes, length: length as usize }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }
}

/// Sends [`TRANSFER`] bytes over loopback; returns what the sender knows of the connection.
fn transfer(control: &str) -> Info {
    let congestion = [control.as_bytes(), &[0]].concat();
    let mark = L4S_MARK.to_ne_bytes();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    set(&listener, libc::SOL_TCP, libc::TCP_CONGESTION, &congestion);
    set(&listener, libc::SOL_SOCKET, libc::SO_MARK, &mark);
    let sink = thread::spawn(move || {
        let mut taken = vec![0; TRANSFER];
        listener.accept().unwrap().0.read_exact(&mut taken).unwrap();
    });
    // The standard library sets no option before it connects.
    // SAFETY: the call takes no pointer; the socket belongs to the stream then.
    let socket = unsafe {
        use std::os::fd::FromRawFd;
        TcpStream::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0))
    };
    set(&socket, libc::SOL_TCP, libc::TCP_CONGESTION, &congestion);
    set(&socket, libc::SOL_SOCKET, libc::SO_MARK, &mark);
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    // SAFETY: the address is of this type and length.
    let connected = unsafe {
        libc::connect(socket.as_raw_fd(), (&raw const to).cast(), size_of_val(&to) as u32)
    };
    assert_eq!(connected, 0, "{}", std::io::Error::last_os_error());
    let mut socket = socket;
    socket.write_all(&vec![7; TRANSFER]).unwrap();
    sink.join().unwrap();
    Info::of(&socket)
}

/// Both ends negotiate accurate ECN, data leaves with ECT(1), and the receiver reports its bytes.
/// Without the filter that sets it, data has ECT(0): a socket cannot ask for ECT(1).
#[test]
fn prague_negotiates_accurate_ecn_and_sends_ect1() {
    if !has_root() {
        return;
    }
    let id = format!("t{}", std::process::id());
    let control = match CongestionControl::prague(&id) {
        Ok(control) => control,
        Err(e) => return skip(Need::Kernel, &e.to_string()),
    };
    let namespace = Namespace::new(format!("fb-prague{}", std::process::id()));
    let name = control.name().to_owned();
    let (plain, l4s) = within(&namespace.0, move || {
        let plain = transfer(&name);
        send_ect1(&Netdev::find("lo").unwrap()).unwrap();
        (plain, transfer(&name))
    });
    if plain.length < 280 {
        return skip(Need::Kernel, "the kernel's tcp_info has no bytes by their ECN field");
    }
    // Offsets of tcpi_delivered_e1_bytes and tcpi_delivered_e0_bytes.
    let reported = |info: &Info| (info.word(252), info.word(256));
    assert!(plain.bytes[5] & ECN_SEEN != 0 && l4s.bytes[5] & ECN_SEEN != 0);
    let (ect1, ect0) = reported(&plain);
    assert!(ect1 == 0 && ect0 > TRANSFER as u32 / 2, "{ect1} {ect0}");
    let (ect1, ect0) = reported(&l4s);
    assert!(ect0 == 0 && ect1 > TRANSFER as u32 / 2, "{ect1} {ect0}");
}
